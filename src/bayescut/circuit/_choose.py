"""Down along one branch at each sum: samples and most probable explanations.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a draw, or the largest of
them, decides. A product hands its rows on to every child. Each row has its own stream of random
numbers, and meets the nodes in the same order whatever stands beside it.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._evaluate import weigh_branch
from bayescut.circuit._exp import exp
from bayescut.circuit._kinds import DECISION, INDICATOR, PRODUCT, RESTRICTED
from bayescut.circuit._plan import (
    EDGE_STATE,
    EDGE_TEST,
    EDGES,
    EDGES_END,
    KIND,
    NODE_VAR,
    Nodes,
)
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._scratch import Marks, draw
from bayescut.data.bits import popcount, trailing_zeros


@inner
def _draw_edges(
    log_weight: FloatArray, begin: int, n: int, which: IntArray, rest: FloatArray, chosen: IntArray
) -> None:
    """Choose edges by their weights alone."""
    until = np.empty(len(log_weight))
    total = 0.0
    last = 0
    for k in range(len(log_weight)):
        total += np.exp(log_weight[k])
        until[k] = total
        if log_weight[k] > -np.inf:
            last = k
    for i in range(n):
        # The first edge beyond the draw; rounding may leave the sum of all just below it.
        # np.searchsorted would find it, too, and take 0.6 s to compile.
        low, high = 0, last
        while low < high:
            k = (low + high) // 2
            if until[k] <= rest[which[i]]:
                low = k + 1
            else:
                high = k
        chosen[which[i]] = begin + low


@inner
def _take_edges(
    plan: Nodes,
    ws: Marks,
    block: Block,
    node: int,
    n: int,
    need: IntArray,
    start: IntArray,
    maximise: bool,
    blank: bool,
    value: FloatArray,
    taken: IntArray,
) -> None:
    """Choose an edge of a sum or decision for each of the n rows that have come this way.

    ``ws.total`` holds what is left of a row's draw (or its best term so far), ``ws.chosen`` its
    edge.
    """
    rest, which, slot, chosen = ws.total, ws.which, ws.slot, ws.chosen
    is_decision = plan.node[node, KIND] == DECISION
    weighted = is_decision and block.weights.shape[1] > 0
    # Its own rows are some of those that it was evaluated for.
    own = start[node]
    for w in range(need.shape[1]):
        bits = need[node, w]
        while bits:
            slot[64 * w + np.int64(trailing_zeros(bits))] = own
            own += 1
            bits &= bits - np.uint64(1)
    begin, end = plan.node[node, EDGES], plan.node[node, EDGES_END]
    for i in range(n):
        chosen[which[i]] = -1
        rest[which[i]] = -np.inf
        if not maximise:
            rest[which[i]] = draw(ws.random, which[i])
    if blank:
        _draw_edges(plan.log_weight[begin:end], begin, n, which, rest, chosen)
        end = begin
    for e in range(begin, end):
        weight = plan.log_weight[e]
        if weight == -np.inf:
            continue
        below = plan.child[e]
        j = start[below]
        for w in range(need.shape[1]):
            bits = need[below, w]
            mine = taken[node, w]
            if is_decision:
                mine &= block.possible[plan.edge[e, EDGE_TEST], w]
            if mine == 0:
                j += np.int64(popcount(bits))
                continue
            while bits:
                lowest = bits & (~bits + np.uint64(1))
                if mine & lowest:
                    r = 64 * w + np.int64(trailing_zeros(bits))
                    term = weight + value[j]
                    if weighted:
                        term += weigh_branch(plan, block, node, e, r)
                    if maximise:
                        if term > rest[r]:
                            rest[r] = term
                            chosen[r] = e
                    elif rest[r] >= 0.0 and term > -np.inf:
                        p = exp(term - value[slot[r]])
                        if p > 0.0:
                            chosen[r] = e
                            rest[r] -= p
                bits ^= lowest
                j += 1
    v = plan.node[node, NODE_VAR]
    for i in range(n):
        r = which[i]
        e = chosen[r]
        below = plan.child[e]
        taken[below, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
        state = plan.edge[e, EDGE_STATE]
        if is_decision and state >= 0 and block.states[r, v] >= RESTRICTED:
            block.states[r, v] = state


@kernel
def choose(
    plan: Nodes,
    ws: Marks,
    block: Block,
    root: int,
    need: IntArray,
    start: IntArray,
    maximise: bool,
    blank: bool,
    value: FloatArray,
    taken: IntArray,
) -> int:
    """Write the rows that take each node; return the first impossible row, or -1.

    Decisions on the way settle their variables; the inputs are left to be filled in. With
    ``blank`` nothing is observed in any row, and nothing needs to have been evaluated.
    """
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    taken[:] = np.uint64(0)
    for r in range(len(block.unknown)):
        if block.unknown[r] < 0:
            return r
    if not blank:
        n = list_rows(need[root], ws.which)
        for i in range(n):
            if value[start[root] + i] == -np.inf:
                return ws.which[i]
    for r in range(len(block.unknown)):
        taken[root, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
    for node in range(root, -1, -1):
        n = list_rows(taken[node], ws.which)
        if n == 0:
            continue
        kind = plan.node[node, KIND]
        if kind >= INDICATOR:
            continue
        if kind == PRODUCT:
            for e in range(plan.node[node, EDGES], plan.node[node, EDGES_END]):
                for w in range(need.shape[1]):
                    taken[plan.child[e], w] |= taken[node, w]
        else:
            _take_edges(plan, ws, block, node, n, need, start, maximise, blank, value, taken)
    return -1
