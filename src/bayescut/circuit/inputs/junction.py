"""Thin junction tree: variables in an order, each with parents that lie together in an earlier
family, its *host*. Width 0 is independence, width 1 a tree or forest.

Complete rows are look-ups. Others are evaluated many rows at a time (`_rows`), or, where the tables
are wide or many leaves share one structure, row by row with the leaves side by side (`_stack`);
what neither can do without losing digits is done in logs (`_logs`). Which of them a row meets
depends on the row and the circuit alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayescut._kernels import borrowed, kernel, merged
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import JUNCTION, RESTRICTED
from bayescut.circuit._plan import (
    CELLS,
    FEW,
    LANE,
    N_LANES,
    NONE,
    TABLE,
    VAR,
    VIEWED,
    Leaves,
    Plan,
)
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._families import (
    count_row,
    knows,
    leaf_arrays,
    look_up,
    look_up_four,
    look_up_seen,
)
from bayescut.circuit.inputs._hooks import InputKind, Routed
from bayescut.circuit.inputs._logs import logs_fill, logs_posterior, logs_up
from bayescut.circuit.inputs._rows import rows_up
from bayescut.circuit.inputs._rows_down import rows_fill, rows_posterior
from bayescut.circuit.inputs._scratch import (
    FLOW,
    FOUND,
    HEAD,
    LANES,
    LeafLanes,
    Marks,
    RowLanes,
    Scratch,
    Sinks,
)
from bayescut.circuit.inputs._stack import (
    stack_fill,
    stack_look_up,
    stack_of,
    stack_posterior,
    stack_up,
)

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


# A leaf by itself costs as much as so many lanes of a stack.
SPARSE = 6
# Rows of a stack whose values are written at once: those of a leaf lie side by side, and one row at
# a time every value would touch a cache line of its own.
TURN = 8


class Junction(InputKind):
    """Hooks of junction leaves; their families are checked in `bayescut.circuit._check`."""

    kind = JUNCTION
    dirichlet = True

    def n_parameters(self, circuit: Circuit, nodes: IntArray) -> int:
        """See `InputKind.n_parameters`."""
        owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
        own = np.isin(owner, nodes)
        cells, states = np.diff(circuit.fam_table_ptr)[own], circuit.fam_states[own]
        return int((cells // states * (states - 1)).sum())

    def values(
        self, plan: Plan, ws: Scratch, routed: Routed, nodes: IntArray, maximise: bool
    ) -> None:
        """See `InputKind.values`."""
        alone, stacked = _sort(plan, nodes)
        n_hard = 0
        if len(alone):
            n_hard += _leaf_values(plan.leaves, ws.rows, ws.marks, *routed, alone, maximise)
        if len(stacked):
            n_hard += _stack_values(plan.leaves, ws.stack, ws.marks, *routed, stacked, maximise)
        if n_hard:
            _log_values(plan.leaves, ws.stack, ws.marks, *routed, nodes, maximise)

    def posteriors(
        self,
        plan: Plan,
        ws: Scratch,
        routed: Routed,
        nodes: IntArray,
        flow: FloatArray,
        sinks: Sinks,
    ) -> None:
        """See `InputKind.posteriors`."""
        if len(sinks.tables) == 0 and len(sinks.posterior) == 0:
            return
        block, need, start, _ = routed
        alone, stacked = _sort(plan, nodes)
        hard = np.zeros(len(flow), dtype=np.uint8)
        n_hard = 0
        if len(alone):
            n_hard += _leaf_posteriors(
                plan.leaves, ws.rows, ws.marks, block, need, start, alone, flow, sinks, hard
            )
        if len(stacked):
            n_hard += _stack_posteriors(
                plan.leaves, ws.stack, ws.marks, block, need, start, stacked, flow, sinks, hard
            )
        if n_hard:
            _log_posteriors(
                plan.leaves, ws.stack, ws.marks, block, need, start, nodes, flow, sinks, hard
            )

    def fill(
        self,
        plan: Plan,
        ws: Scratch,
        block: Block,
        nodes: IntArray,
        taken: IntArray,
        maximise: bool,
        blank: bool,
    ) -> None:
        """See `InputKind.fill`."""
        alone, stacked = nodes, nodes[plan.leaves.node[nodes, FEW] > 0]
        n_hard = 0
        if len(alone):
            n_hard += _leaf_fill(
                plan.leaves, ws.rows, ws.marks, block, alone, taken, maximise, blank
            )
        if len(stacked):
            n_hard += _stack_fill(
                plan.leaves, ws.stack, ws.marks, block, stacked, taken, maximise, blank
            )
        if n_hard:
            _log_fill(plan.leaves, ws.stack, ws.marks, block, nodes, taken, maximise)

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """See `InputKind.text`."""
        n = int(circuit.fam_ptr[node + 1] - circuit.fam_ptr[node])
        return f"{n}\nvariables" if n > 1 else "1\nvariable"


def _sort(plan: Plan, nodes: IntArray) -> tuple[IntArray, IntArray]:
    """Leaves whose rows may be evaluated many at a time, and the first leaf of each stack."""
    node = plan.leaves.node
    return nodes, nodes[(node[nodes, FEW] >= 0) & (node[nodes, LANE] == 0)]


@merged
def _stacked(node: IntArray, leaf: int) -> tuple[int, int]:
    """From how many unknown variables to how many a row meets a leaf beside the others of its
    stack."""
    return 0 if node[leaf, N_LANES] > 1 else 1, node[leaf, FEW]


@kernel
def _leaf_values(
    plan: Leaves,
    ws: RowLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> int:
    """Write the values of leaves that stand alone; return how many have to be done in logs."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    rows, places, weight = marks.slot, marks.chosen, marks.weight
    states, found = block.states, ws.number[FOUND]
    n_hard = 0
    for node in nodes:
        n = list_rows(need[node], marks.which)
        if n == 0:
            continue
        low, high = _stacked(plan.node, node)
        family, parent, _ = leaf_arrays(plan, node)
        alone = plan.node[node, N_LANES] == 1  # stacks keep their tables otherwise
        # Rows that know all of the leaf's variables from the front, the others from the end.
        own = start[node]
        front, back = 0, len(rows)
        for i in range(n):
            r = marks.which[i]
            if low <= block.unknown[r] <= high:
                continue
            if alone and knows(family, block, r):
                rows[front], places[front] = r, own + i
                front += 1
            else:
                back -= 1
                rows[back], places[back] = r, own + i
        table = plan.table[plan.node[node, TABLE] :]
        i = 0
        if plan.node[node, VIEWED] == 0:
            while i + 4 <= front:
                a, b, c, d = look_up_four(
                    family, parent, table,
                    states[rows[i]], states[rows[i + 1]], states[rows[i + 2]], states[rows[i + 3]],
                )  # fmt: skip
                value[places[i]], value[places[i + 1]] = a, b
                value[places[i + 2]], value[places[i + 3]] = c, d
                i += 4
            while i < front:
                value[places[i]] = look_up(family, parent, table, states[rows[i]])
                i += 1
        while i < front:
            value[places[i]] = look_up_seen(plan, family, parent, table, states[rows[i]])
            i += 1
        for first in range(back, len(rows), LANES):
            n = min(LANES, len(rows) - first)
            some = rows[first : first + n]
            rows_up(plan, ws, block, node, some, maximise, weight, found[:n])
            for i in range(n):
                value[places[first + i]] = found[i]
                n_hard += np.isnan(found[i])
    return n_hard


@kernel
def _stack_values(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> int:
    """Write the values of stacks, given by their first leaves; return how many are left to do."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    found, place = np.empty((TURN, ws.number.shape[1])), np.empty(TURN, dtype=np.int64)
    n_hard = 0
    for node in nodes:
        leaves = stack_of(plan, node)
        n = len(leaves)
        low, high = _stacked(plan.node, node)
        n_rows = list_rows(need[node], marks.which)
        held = 0
        for i in range(n_rows):
            r = marks.which[i]
            if low <= block.unknown[r] <= high:
                if block.unknown[r] == 0:
                    stack_look_up(plan, block.states[r], node, 0, n, found[held])
                else:
                    stack_up(plan, ws, block, node, r, 0, n, maximise, marks.weight, found[held])
                place[held] = i
                held += 1
            if held == TURN or i + 1 == n_rows:
                for lane in range(n):
                    own = start[leaves[lane]]
                    for h in range(held):
                        value[own + place[h]] = found[h, lane]
                        n_hard += np.isnan(found[h, lane])
                held = 0
    return n_hard


@kernel
def _log_values(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> None:
    """Write the values that the others have left as NaN."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    for node in nodes:
        for i in range(list_rows(need[node], marks.which)):
            if np.isnan(value[start[node] + i]):
                r = marks.which[i]
                value[start[node] + i] = logs_up(plan, ws, block, node, r, maximise, marks.weight)


@kernel
def _leaf_posteriors(
    plan: Leaves,
    ws: RowLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    nodes: IntArray,
    flow: FloatArray,
    sinks: Sinks,
    hard: IntArray,
) -> int:
    """Add the posteriors of leaves that stand alone; flags what is left to do in ``hard``."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    rows, places, weight = marks.slot, marks.chosen, marks.weight
    want_flow = len(sinks.tables) > 0
    share = np.empty(LANES)
    found = ws.number[FOUND]
    n_hard = 0
    for node in nodes:
        family, parent, _ = leaf_arrays(plan, node)
        low, high = _stacked(plan.node, node)
        n_used = 0
        for i in range(list_rows(need[node], marks.which)):
            r = marks.which[i]
            if flow[start[node] + i] == 0.0 or low <= block.unknown[r] <= high:
                continue
            if not knows(family, block, r):
                rows[n_used], places[n_used] = r, start[node] + i
                n_used += 1
            elif want_flow:
                counts = sinks.tables[plan.node[node, CELLS] :]
                count_row(plan, family, parent, block.states[r], flow[start[node] + i], counts)
        for first in range(0, n_used, LANES):
            n = min(LANES, n_used - first)
            some = rows[first : first + n]
            rows_up(plan, ws, block, node, some, False, weight, found[:n])
            for i in range(n):
                share[i] = flow[places[first + i]]
                if np.isnan(found[i]):
                    share[i] = 0.0
                    hard[places[first + i]] = 1
                    n_hard += 1
            rows_posterior(plan, ws, block, node, some, share[:n], weight, sinks)
    return n_hard


@kernel
def _stack_posteriors(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    nodes: IntArray,
    flow: FloatArray,
    sinks: Sinks,
    hard: IntArray,
) -> int:
    """Add the posteriors of stacks, given by their first leaves; flags what is left to do."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    want_flow = len(sinks.tables) > 0
    found, lane_flow = ws.number[FOUND], ws.number[FLOW]
    n_hard = 0
    for node in nodes:
        leaves = stack_of(plan, node)
        n = len(leaves)
        low, high = _stacked(plan.node, node)
        for i in range(list_rows(need[node], marks.which)):
            r = marks.which[i]
            if not low <= block.unknown[r] <= high:
                continue
            if not want_flow and block.unknown[r] == 0:
                continue
            n_used = 0
            for lane in range(n):
                lane_flow[lane] = flow[start[leaves[lane]] + i]
                n_used += lane_flow[lane] > 0.0
            if n_used == 0:
                continue
            if SPARSE * n_used < n:
                # Few leaves matter to the row: one after the other.
                for lane in range(n):
                    at = start[leaves[lane]] + i
                    if flow[at] == 0.0:
                        continue
                    stack_up(plan, ws, block, node, r, lane, 1, False, marks.weight, found)
                    lane_flow[0] = flow[at]
                    if np.isnan(found[0]):
                        hard[at] = 1
                        n_hard += 1
                    else:
                        stack_posterior(
                            plan, ws, block, node, leaves[lane:], r, lane, 1, marks.weight, sinks
                        )
                continue
            stack_up(plan, ws, block, node, r, 0, n, False, marks.weight, found)
            for lane in range(n):
                if np.isnan(found[lane]) and lane_flow[lane] > 0.0:
                    lane_flow[lane] = 0.0
                    hard[start[leaves[lane]] + i] = 1
                    n_hard += 1
            stack_posterior(plan, ws, block, node, leaves, r, 0, n, marks.weight, sinks)
    return n_hard


@kernel
def _log_posteriors(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    nodes: IntArray,
    flow: FloatArray,
    sinks: Sinks,
    hard: IntArray,
) -> None:
    """Add the posteriors that the others have left."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    for node in nodes:
        for i in range(list_rows(need[node], marks.which)):
            at = start[node] + i
            if hard[at]:
                r = marks.which[i]
                logs_up(plan, ws, block, node, r, False, marks.weight)
                logs_posterior(plan, ws, block, node, r, flow[at], marks.weight, sinks)


@kernel
def _leaf_fill(
    plan: Leaves,
    ws: RowLanes,
    marks: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
    blank: bool,
) -> int:
    """Fill in rows of leaves that stand alone; return how many are left to do."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    rows, found = marks.slot, ws.number[FOUND]
    n_hard = 0
    for node in nodes:
        family, _, _ = leaf_arrays(plan, node)
        n_used = 0
        for i in range(list_rows(taken[node], marks.which)):
            r = marks.which[i]
            if block.unknown[r] > plan.node[node, FEW] and not knows(family, block, r):
                rows[n_used] = r
                n_used += 1
        if blank:
            # Nothing is observed: no family has anything to tell its host.
            ws.links[:, HEAD] = NONE
            found[:] = 0.0
        for first in range(0, n_used, LANES):
            n = min(LANES, n_used - first)
            some = rows[first : first + n]
            if not blank:
                rows_up(plan, ws, block, node, some, maximise, marks.weight, found[:n])
            for i in range(n):
                n_hard += np.isnan(found[i])
            rows_fill(plan, ws, block, node, some, maximise, marks.weight, marks.random, found[:n])
    return n_hard


@kernel
def _stack_fill(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
    blank: bool,
) -> int:
    """Fill in rows of leaves in stacks; return how many are left to do."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    found = ws.number[FOUND]
    n_hard = 0
    for node in nodes:
        lane = plan.node[node, LANE]
        for i in range(list_rows(taken[node], marks.which)):
            r = marks.which[i]
            if block.unknown[r] == 0 or block.unknown[r] > plan.node[node, FEW]:
                continue
            if blank:
                ws.links[:, HEAD] = NONE
                found[0] = 0.0
            else:
                stack_up(plan, ws, block, node, r, lane, 1, maximise, marks.weight, found)
            if np.isnan(found[0]):
                n_hard += 1
            else:
                stack_fill(plan, ws, block, node, r, lane, maximise, marks.weight, marks.random)
    return n_hard


@kernel
def _log_fill(
    plan: Leaves,
    ws: LeafLanes,
    marks: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
) -> None:
    """Fill in what the others have left: rows with a variable of the leaf still unknown."""
    plan, ws, marks, block = borrowed(plan), borrowed(ws), borrowed(marks), borrowed(block)
    for node in nodes:
        family, _, _ = leaf_arrays(plan, node)
        for i in range(list_rows(taken[node], marks.which)):
            r = marks.which[i]
            is_open = False
            for f in range(len(family)):
                is_open = is_open or block.states[r, family[f, VAR]] >= RESTRICTED
            if is_open:
                logs_up(plan, ws, block, node, r, maximise, marks.weight)
                logs_fill(plan, ws, block, node, r, maximise, marks.weight, marks.random)
