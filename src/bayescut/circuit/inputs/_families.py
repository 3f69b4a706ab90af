"""Families of a junction leaf: how they see evidence, and complete rows by look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._kernels import merged
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    FIRST,
    LAST,
    NONE,
    PARENT_ROWS,
    PARENT_STATES,
    PARENT_VAR,
    PARENT_VIEW,
    PARENTS,
    PARENTS_END,
    SLOT,
    START,
    STATES,
    STRIDE,
    UP_START,
    VAR,
    VAR_OFFSET,
    VAR_STATES,
    VIEW,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._scratch import draw

OPEN = -2  # the state of an unknown variable


@merged
def leaf_arrays(plan: Leaves, node: int) -> Any:
    """Return the records of one leaf: its families, their parents, and the maps from hosts."""
    at = plan.node[node]
    return (
        plan.family[at[FIRST] : at[LAST]],
        plan.parent[at[PARENT_ROWS] :],
        plan.up[at[UP_START] :],
    )


@merged
def slot_of(plan: Leaves, node: int, f: int, base: int) -> Any:
    """Where the messages of a leaf's family have their entry for a base."""
    f += plan.node[node, FIRST]
    number = np.uint64(base) // np.uint64(plan.family[f, STATES])
    return np.int64(plan.sends[f, SLOT]) + np.int64(number)


@merged
def seen(plan: Leaves, view: int, state: int) -> Any:
    """The state as a view shows it: OPEN if unknown, -1 if the view excludes it."""
    if state >= RESTRICTED:
        return OPEN
    if view == NONE:
        return np.int64(state)
    return np.int64(plan.view_local[np.int64(view) + np.int64(state)])


@merged
def parent_base(plan: Leaves, parent: IntArray, begin: int, end: int, row: CodeArray) -> Any:
    """Return the base of a family (its observed parents' part), whether a parent is unknown, and
    whether one is in a state that the family excludes."""
    base = np.uint64(0)
    is_open = False
    excluded = False
    for j in range(begin, end):
        state = seen(plan, parent[j, PARENT_VIEW], np.int64(row[parent[j, PARENT_VAR]]))
        if state >= 0:
            base += np.uint64(state) * np.uint64(parent[j, STRIDE])
        elif state == OPEN:
            is_open = True
        else:
            excluded = True
    return base, is_open, excluded


@merged
def list_bases(
    plan: Leaves, parent: IntArray, begin: int, end: int, row: CodeArray, bases: IntArray
) -> int:
    """List the bases of a family that the evidence leaves open; return how many there are."""
    base, _, _ = parent_base(plan, parent, begin, end, row)
    bases[0] = base
    n = 1
    for j in range(begin, end):
        if row[parent[j, PARENT_VAR]] >= RESTRICTED:
            stride = parent[j, STRIDE]
            more = n
            for s in range(np.uint64(1), np.uint64(parent[j, PARENT_STATES])):
                for i in range(n):
                    bases[more] = bases[i] + s * stride
                    more += 1
            n = more
    return n


@merged
def weigh_states(
    plan: Leaves, block: Block, r: int, family: IntArray, f: int, maximise: bool, weight: FloatArray
) -> None:
    """Write how far row r leaves each state that family f sees: the sum (or maximum) of the
    weights of the states that look the same, each times its share."""
    v, view, n = np.int64(family[f, VAR]), family[f, VIEW], np.int64(family[f, STATES])
    state = np.int64(block.states[r, v])
    if view == NONE:
        if state == RESTRICTED:
            offset = plan.variable[v, VAR_OFFSET]
            given = block.weights[r if len(block.weights) > 1 else 0]
            for s in range(n):
                weight[s] = given[offset + s]
            return
        for s in range(n):
            weight[s] = 1.0 if state == MISSING or state == s else 0.0
        return
    if state == MISSING and not maximise:
        for s in range(n):
            weight[s] = 1.0
        return
    for s in range(n):
        weight[s] = 0.0
    offset = plan.variable[v, VAR_OFFSET]
    given = block.weights[r if len(block.weights) > 1 else 0]
    first = np.int64(view)
    low, high = np.int64(0), plan.variable[v, VAR_STATES]
    if state < RESTRICTED:
        low, high = state, state + 1
    for t in range(low, high):
        s = plan.view_local[first + t]
        if s >= 0:
            x = plan.view_linear[first + t]
            if state == RESTRICTED:
                x *= given[offset + t]
            weight[s] = max(weight[s], x) if maximise else weight[s] + x


@merged
def open_view(
    plan: Leaves,
    block: Block,
    r: int,
    family: IntArray,
    f: int,
    local: int,
    maximise: bool,
    random: IntArray,
) -> int:
    """Choose one of the states that look like ``local`` to family f."""
    view = family[f, VIEW]
    if view == NONE:
        return local
    v, first = np.int64(family[f, VAR]), np.int64(view)
    state = block.states[r, v]
    offset = plan.variable[v, VAR_OFFSET]
    given = block.weights[r if len(block.weights) > 1 else 0]
    total = 0.0
    chosen, best = 0, -1.0
    for t in range(plan.variable[v, VAR_STATES]):
        if plan.view_local[first + t] == local:
            x = plan.view_linear[first + t]
            if state == RESTRICTED:
                x *= given[offset + t]
            total += x
            if x > best:
                chosen, best = t, x
    if maximise:
        return chosen
    from_above = draw(random, r) * total
    for t in range(plan.variable[v, VAR_STATES]):
        if plan.view_local[first + t] == local:
            x = plan.view_linear[first + t]
            if state == RESTRICTED:
                x *= given[offset + t]
            if x > 0.0:
                chosen = t
                from_above -= x
                if from_above < 0.0:
                    break
    return chosen


@merged
def add_posterior(
    plan: Leaves,
    block: Block,
    r: int,
    family: IntArray,
    f: int,
    local: int,
    weight: float,
    flow: float,
    posterior: FloatArray,
) -> None:
    """Add the posterior of a state that family f sees to those of row r's states.

    ``weight`` is what `weigh_states` gave for it.
    """
    v, view = np.int64(family[f, VAR]), family[f, VIEW]
    offset = plan.variable[v, VAR_OFFSET]
    if view == NONE:
        posterior[offset + local, r] += flow
        return
    first = np.int64(view)
    given = block.weights[r if len(block.weights) > 1 else 0]
    restricted = block.states[r, v] == RESTRICTED
    for t in range(plan.variable[v, VAR_STATES]):
        if plan.view_local[first + t] == local and weight > 0.0:
            x = plan.view_linear[first + t]
            if restricted:
                x *= given[offset + t]
            posterior[offset + t, r] += flow * (x / weight)


@merged
def knows(family: IntArray, block: Block, r: int) -> bool:
    """Whether row r leaves no variable of a leaf open; it may leave others."""
    n_open = 0
    if block.unknown[r] > 0:
        for f in range(len(family)):
            n_open += block.states[r, family[f, VAR]] >= RESTRICTED
    return n_open == 0


@merged
def look_up(family: IntArray, parent: IntArray, table: FloatArray, a: CodeArray) -> float:
    """Log-probability of one complete row, of a leaf without views."""
    total = 0.0
    for f in range(len(family)):
        cell = family[f, START] + a[family[f, VAR]]
        for j in range(family[f, PARENTS], family[f, PARENTS_END]):
            cell += a[parent[j, PARENT_VAR]] * parent[j, STRIDE]
        total += table[cell]
    return total


@merged
def look_up_four(
    family: IntArray,
    parent: IntArray,
    table: FloatArray,
    a: CodeArray,
    b: CodeArray,
    c: CodeArray,
    d: CodeArray,
) -> tuple[float, float, float, float]:
    """Log-probabilities of four complete rows, of a leaf without views."""
    # One running sum alone would wait for the latency of each addition.
    sum_a = sum_b = sum_c = sum_d = 0.0
    for f in range(len(family)):
        start, v = family[f, START], family[f, VAR]
        cell_a, cell_b = start + a[v], start + b[v]
        cell_c, cell_d = start + c[v], start + d[v]
        for j in range(family[f, PARENTS], family[f, PARENTS_END]):
            p, stride = parent[j, PARENT_VAR], parent[j, STRIDE]
            cell_a += a[p] * stride
            cell_b += b[p] * stride
            cell_c += c[p] * stride
            cell_d += d[p] * stride
        sum_a += table[cell_a]
        sum_b += table[cell_b]
        sum_c += table[cell_c]
        sum_d += table[cell_d]
    return sum_a, sum_b, sum_c, sum_d


@merged
def look_up_seen(
    plan: Leaves, family: IntArray, parent: IntArray, table: FloatArray, a: CodeArray
) -> float:
    """Log-probability of one complete row, of any leaf."""
    total = 0.0
    for f in range(len(family)):
        state = np.int64(a[family[f, VAR]])
        local = seen(plan, family[f, VIEW], state)
        base, _, excluded = parent_base(plan, parent, family[f, PARENTS], family[f, PARENTS_END], a)
        if local < 0 or excluded:
            return -np.inf
        total += table[np.uint64(family[f, START]) + base + np.uint64(local)]
        if family[f, VIEW] != NONE:
            total += plan.view_share[np.int64(family[f, VIEW]) + state]
    return total


@merged
def count_row(
    plan: Leaves, family: IntArray, parent: IntArray, a: CodeArray, flow: float, counts: FloatArray
) -> None:
    """Add the flow of one complete row to the cells it uses: exact, whatever the tables are."""
    for f in range(len(family)):
        local = seen(plan, family[f, VIEW], np.int64(a[family[f, VAR]]))
        base, _, _ = parent_base(plan, parent, family[f, PARENTS], family[f, PARENTS_END], a)
        counts[np.uint64(family[f, START]) + base + np.uint64(local)] += flow
