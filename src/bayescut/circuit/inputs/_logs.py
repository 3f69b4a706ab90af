"""A junction leaf in logs, one row at a time: the answer to rows whose numbers lie too far apart.

Rare, and exact to rounding whatever the evidence: messages are logs, every sum is taken relative to
its largest term.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import RESTRICTED
from bayescut.circuit._plan import (
    CELLS,
    HOST,
    LANE,
    N_LANES,
    NONE,
    PARENTS,
    PARENTS_END,
    START,
    STATES,
    TABLE,
    UP,
    VAR,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._families import (
    add_posterior,
    leaf_arrays,
    list_bases,
    open_view,
    parent_base,
    slot_of,
    weigh_states,
)
from bayescut.circuit.inputs._scratch import HEAD, LINK, LeafLanes, Sinks, pick


@inner
def _terms(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    f: int,
    base: int,
    maximise: bool,
    weight: FloatArray,
) -> float:
    """Write the logs of the terms of one entry of f's message to ``weight``; return the largest."""
    family, _, up = leaf_arrays(plan, node)
    links, message = ws.links, ws.message
    table = plan.node[node, TABLE] + plan.node[node, LANE]
    weigh_states(plan, block, r, family, f, maximise, weight)
    top = -np.inf
    for s in range(np.int64(family[f, STATES])):
        if weight[s] == 0.0:
            weight[s] = -np.inf
            continue
        cell = np.int64(base) + s
        total = np.log(weight[s])
        total += plan.table[table + (np.int64(family[f, START]) + cell) * plan.node[node, N_LANES]]
        g = links[f, HEAD]
        while g != NONE:
            total += message[up[family[g, UP] + cell]]
            g = links[g, LINK]
        weight[s] = total
        top = max(top, total)
    return top


@inner
def _exponentials(weight: FloatArray, n: int, top: float) -> float:
    """Replace logs by numbers in proportion to their exponentials; return the sum of these."""
    total = 0.0
    for s in range(n):
        weight[s] = np.exp(weight[s] - top) if weight[s] > -np.inf else 0.0
        total += weight[s]
    return total


@inner
def logs_up(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    maximise: bool,
    weight: FloatArray,
) -> float:
    """Log value of a leaf for row r; leaves its messages, as logs, in the scratch memory."""
    family, parent, _ = leaf_arrays(plan, node)
    links, message, bases = ws.links, ws.message, ws.bases[0]
    row = block.states[r]
    for f in range(len(family)):
        links[f, HEAD] = NONE
    value = 0.0
    for f in range(len(family) - 1, -1, -1):
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        _, is_open, excluded = parent_base(plan, parent, begin, end, row)
        if excluded:
            return -np.inf
        n = list_bases(plan, parent, begin, end, row, bases)
        best = -np.inf
        for i in range(n):
            entry = _terms(plan, ws, block, node, r, f, np.int64(bases[i]), maximise, weight)
            if not maximise and entry > -np.inf:
                entry += np.log(_exponentials(weight, np.int64(family[f, STATES]), entry))
            message[slot_of(plan, node, f, bases[i])] = entry
            best = max(best, entry)
        if best == -np.inf:
            return -np.inf
        if not is_open:
            value += best
        else:
            host = family[f, HOST]
            links[f, LINK] = links[host, HEAD]
            links[host, HEAD] = f
    return value


@inner
def logs_fill(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    maximise: bool,
    weight: FloatArray,
    random: IntArray,
) -> None:
    """Fill in the variables of a leaf in row r; :func:`logs_up` has left its messages."""
    family, parent, _ = leaf_arrays(plan, node)
    row = block.states[r]
    for f in range(len(family)):
        v = family[f, VAR]
        if row[v] < RESTRICTED:
            continue
        base, _, _ = parent_base(plan, parent, family[f, PARENTS], family[f, PARENTS_END], row)
        top = _terms(plan, ws, block, node, r, f, np.int64(base), maximise, weight)
        n = np.int64(family[f, STATES])
        total = _exponentials(weight, n, top)
        local = pick(weight, n, total, maximise, random, r)
        row[v] = open_view(plan, block, r, family, f, local, maximise, random)


@inner
def logs_posterior(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    flow: float,
    weight: FloatArray,
    sinks: Sinks,
) -> None:
    """Add the posteriors of row r's families; :func:`logs_up` has left its messages."""
    family, parent, up = leaf_arrays(plan, node)
    joint, above = ws.joint, ws.above
    bases, host_bases = ws.bases[0], ws.bases[1]
    row = block.states[r]
    want_flow, want_posterior = len(sinks.tables) > 0, len(sinks.posterior) > 0
    cells = plan.node[node, CELLS]
    kept = np.empty(len(weight))
    for f in range(len(family)):
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        start, k = np.int64(family[f, START]), np.int64(family[f, STATES])
        n = list_bases(plan, parent, begin, end, row, bases)
        for i in range(n):
            above[slot_of(plan, node, f, bases[i])] = 1.0 if begin == end else 0.0
        if begin < end:
            h = family[f, HOST]
            m = list_bases(
                plan, parent, family[h, PARENTS], family[h, PARENTS_END], row, host_bases
            )
            for i in range(m):
                for s in range(np.int64(family[h, STATES])):
                    cell = np.int64(host_bases[i]) + s
                    above[up[family[f, UP] + cell]] += joint[np.int64(family[h, START]) + cell]
        weigh_states(plan, block, r, family, f, False, kept)
        for i in range(n):
            base = np.int64(bases[i])
            p = above[slot_of(plan, node, f, bases[i])]
            top = _terms(plan, ws, block, node, r, f, base, False, weight)
            total = _exponentials(weight, k, top)
            for s in range(k):
                q = p * (weight[s] / total) if p > 0.0 and total > 0.0 else 0.0
                joint[start + base + s] = q
                if want_flow:
                    sinks.tables[cells + start + base + s] += flow * q
                if want_posterior and row[family[f, VAR]] >= RESTRICTED and q > 0.0:
                    add_posterior(plan, block, r, family, f, s, kept[s], flow * q, sinks.posterior)
