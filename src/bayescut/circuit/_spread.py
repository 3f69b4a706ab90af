"""Down: what each row expects of every node, edge and parameter.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a product hands what it
receives to every child.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._evaluate import same_rows, weigh_branch
from bayescut.circuit._exp import exp
from bayescut.circuit._kinds import DECISION, INDICATOR, PRODUCT, RESTRICTED
from bayescut.circuit._plan import (
    EDGE_STATE,
    EDGE_TEST,
    EDGES,
    EDGES_END,
    KIND,
    NODE_VAR,
    VAR_OFFSET,
    VAR_STATES,
    Nodes,
)
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._scratch import Marks, Sinks
from bayescut.data.bits import trailing_zeros

# A branch this improbable for a row adds less than the rounding of the row's posterior, even if
# there are a hundred of them.
NO_SHARE = 1e-18


@inner
def _mark_observed(plan: Nodes, block: Block, posterior: FloatArray) -> None:
    """Give the observed states of each row the probability 1."""
    for v in range(len(plan.variable)):
        if plan.variable[v, VAR_STATES] > 0:
            offset = plan.variable[v, VAR_OFFSET]
            for r in range(len(block.states)):
                if block.states[r, v] < RESTRICTED:
                    posterior[offset + np.int64(block.states[r, v]), r] = 1.0


@inner
def _hand_down(
    plan: Nodes,
    ws: Marks,
    block: Block,
    node: int,
    n: int,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    flow: FloatArray,
    sinks: Sinks,
) -> None:
    """Share the flow of an inner node out among its children."""
    slot, which = ws.slot, ws.which
    own = start[node]
    kind = plan.node[node, KIND]
    v = plan.node[node, NODE_VAR]
    weighted = kind == DECISION and block.weights.shape[1] > 0
    want_edges = len(sinks.edges) > 0
    want_posterior = kind == DECISION and len(sinks.posterior) > 0
    for i in range(n):
        slot[which[i]] = own + i
    for e in range(plan.node[node, EDGES], plan.node[node, EDGES_END]):
        weight = plan.log_weight[e]
        if weight == -np.inf:
            continue
        below = plan.child[e]
        state = plan.edge[e, EDGE_STATE]
        sum_of_edge = 0.0
        j = start[below]
        if kind != DECISION and same_rows(need, node, below):
            for i in range(n):
                share = flow[own + i]
                if share > 0.0 and kind != PRODUCT:
                    part = exp(weight + value[j + i] - value[own + i])
                    share *= part if part > NO_SHARE else 0.0
                flow[j + i] += share
                sum_of_edge += share
        else:
            for w in range(need.shape[1]):
                bits = need[below, w]
                mine = need[node, w]
                if kind == DECISION:
                    mine &= block.possible[plan.edge[e, EDGE_TEST], w]
                while bits:
                    lowest = bits & (~bits + np.uint64(1))
                    if mine & lowest:
                        r = 64 * w + np.int64(trailing_zeros(bits))
                        at = slot[r]
                        share = flow[at]
                        if share > 0.0 and kind != PRODUCT:
                            term = weight + value[j]
                            if weighted:
                                term += weigh_branch(plan, block, node, e, r)
                            part = exp(term - value[at])
                            share *= part if part > NO_SHARE else 0.0
                        flow[j] += share
                        sum_of_edge += share
                        if want_posterior and state >= 0 and block.states[r, v] >= RESTRICTED:
                            sinks.posterior[plan.variable[v, VAR_OFFSET] + state, r] += share
                    bits ^= lowest
                    j += 1
        if want_edges:
            sinks.edges[e] += sum_of_edge


@kernel
def spread(
    plan: Nodes,
    ws: Marks,
    block: Block,
    root: int,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    weights: FloatArray,
    flow: FloatArray,
    sinks: Sinks,
) -> int:
    """Share the rows out among all nodes below the root; return the first impossible row, or -1.

    What reaches the inputs lies in ``flow``. ``weights`` is what each row of the block counts; rows
    that count nothing may be impossible.
    """
    plan, ws, block, sinks = borrowed(plan), borrowed(ws), borrowed(block), borrowed(sinks)
    flow[:] = 0.0
    for r in range(len(block.unknown)):
        if block.unknown[r] < 0 and weights[r] > 0.0:
            return r
    n = list_rows(need[root], ws.which)
    for i in range(n):
        if weights[ws.which[i]] > 0.0:
            if value[start[root] + i] == -np.inf:
                return ws.which[i]
            flow[start[root] + i] = weights[ws.which[i]]
    if len(sinks.posterior) > 0:
        _mark_observed(plan, block, sinks.posterior)
    for node in range(root, -1, -1):
        n = start[node + 1] - start[node]
        if n > 0 and plan.node[node, KIND] < INDICATOR:
            list_rows(need[node], ws.which)
            _hand_down(plan, ws, block, node, n, need, start, value, flow, sinks)
    return -1
