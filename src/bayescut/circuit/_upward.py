"""The one evaluator: the log value of a node under the evidence of one row.

Only what a row needs is computed: a decision on an observed variable follows one branch, shared
nodes are computed once per row. The same pass works in the sum and in the max semiring. It can
also note which leaves a row needs and be repeated once their values are known, so that a leaf is
evaluated for many rows together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_row, leaf_value
from bayescut.circuit._kinds import (
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    MISSING,
    PRODUCT,
    RESTRICTED,
)
from bayescut.circuit._plan import (
    COLLECT,
    COMPLETE,
    COMPUTE,
    CURSOR,
    EDGE,
    EDGES,
    EDGES_END,
    KIND,
    LEAF,
    MODE,
    NODE,
    NODE_STATE,
    NODE_VAR,
    ORDER,
    PARAM,
    PASS,
    REACHED,
    ROW,
    STAMP,
    TARGET,
    THIS_ROW,
    VALUE,
    VAR_OFFSET,
    VAR_STATES,
    Plan,
    Workspace,
)

HALF_LOG_TAU = 0.9189385332046727  # ln(2π) / 2


@njit(cache=True, nogil=True, inline="always")
def add_pair(ws: Workspace, leaf: int, target: int) -> None:
    """Note that the present row needs the value of a leaf."""
    at = ws.clock[CURSOR]
    ws.pair[at, LEAF] = leaf
    ws.pair[at, ROW] = ws.clock[THIS_ROW]
    ws.pair[at, TARGET] = target
    ws.clock[CURSOR] += 1


@njit(cache=True, nogil=True, inline="always")
def _input(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    value: FloatArray,
    maximise: bool,
) -> float:
    kind = plan.node[node, KIND]
    mode = ws.clock[MODE]
    if mode != COMPUTE:
        if mode == COLLECT:
            if kind == JUNCTION:
                add_pair(ws, node, -1)
            return 0.0
        if kind == JUNCTION:
            # The order is the same; leaves that turned out to be of no use are passed over.
            while ws.pair[ws.clock[CURSOR], LEAF] != node:
                ws.clock[CURSOR] += 1
            return ws.leaf_value[ws.clock[CURSOR]]
    if kind == JUNCTION:
        if ws.clock[COMPLETE]:
            return leaf_row(plan, node, row)
        return leaf_value(plan, ws, node, row, allowed, maximise)
    v = plan.node[node, NODE_VAR]
    state = row[v]
    if kind == INDICATOR:
        wanted = plan.node[node, NODE_STATE]
        if state == wanted or state == MISSING:
            return 0.0
        if state == RESTRICTED and allowed[plan.variable[v, VAR_OFFSET] + wanted]:
            return 0.0
        return -np.inf
    start = plan.node[node, PARAM]
    if kind == GAUSSIAN:
        deviation = plan.param[start + 1]
        if state < RESTRICTED:
            z = (value[v] - plan.param[start]) / deviation
            return -0.5 * z * z - np.log(deviation) - HALF_LOG_TAU
        return -np.log(deviation) - HALF_LOG_TAU if maximise else 0.0
    # CATEGORICAL
    if state < RESTRICTED:
        return plan.param[start + state]
    if state == MISSING and not maximise:
        return 0.0
    top = -np.inf
    for s in range(plan.variable[v, VAR_STATES]):
        if state == MISSING or allowed[plan.variable[v, VAR_OFFSET] + s]:
            top = max(top, plan.param[start + s])
    if maximise or top == -np.inf:
        return top
    total = 0.0
    for s in range(plan.variable[v, VAR_STATES]):
        if allowed[plan.variable[v, VAR_OFFSET] + s]:
            total += np.exp(plan.param[start + s] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def edges(plan: Plan, node: int, row: CodeArray) -> tuple[int, int]:
    """Return the range of edges of an inner node that the row can take."""
    begin, end = plan.node[node, EDGES], plan.node[node, EDGES_END]
    if plan.node[node, KIND] == DECISION:
        state = row[plan.node[node, NODE_VAR]]
        if state < RESTRICTED:
            return begin + state, begin + state + 1
    return begin, end


@njit(cache=True, nogil=True)
def is_closed(plan: Plan, node: int, edge: int, row: CodeArray, allowed: IntArray) -> bool:
    """Say whether an edge has weight zero or leads to a state that the row's mask forbids."""
    if plan.log_weight[edge] == -np.inf:
        return True
    if plan.node[node, KIND] == DECISION:
        v = plan.node[node, NODE_VAR]
        if row[v] == RESTRICTED:
            return not allowed[plan.variable[v, VAR_OFFSET] + edge - plan.node[node, EDGES]]
    return False


@njit(cache=True, nogil=True)
def _combine(
    plan: Plan, ws: Workspace, node: int, row: CodeArray, allowed: IntArray, maximise: bool
) -> float:
    begin, end = edges(plan, node, row)
    if plan.node[node, KIND] == PRODUCT:
        total = 0.0
        for e in range(begin, end):
            total += ws.value[plan.child[e], VALUE]
            if total == -np.inf:
                break  # later children may not have been computed
        return total
    top = -np.inf
    for e in range(begin, end):
        if not is_closed(plan, node, e, row, allowed):
            top = max(top, plan.log_weight[e] + ws.value[plan.child[e], VALUE])
    if maximise or top == -np.inf or end - begin == 1:
        return top
    total = 0.0
    for e in range(begin, end):
        if not is_closed(plan, node, e, row, allowed):
            total += np.exp(plan.log_weight[e] + ws.value[plan.child[e], VALUE] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, inline="always")
def begin_pass(ws: Workspace, complete: bool) -> None:
    """Forget the values of the last row; ``complete`` says that the next one has no unknowns."""
    ws.clock[PASS] += 1
    ws.clock[REACHED] = 0
    ws.clock[COMPLETE] = complete


@njit(cache=True, nogil=True)
def upward(
    plan: Plan,
    ws: Workspace,
    root: int,
    row: CodeArray,
    allowed: IntArray,
    value: FloatArray,
    maximise: bool,
) -> float:
    """Log value of a node, reusing what has been computed since :func:`begin_pass`."""
    clock = ws.clock[PASS]
    if ws.node[root, STAMP] == clock:
        return ws.value[root, VALUE]
    if plan.node[root, KIND] >= INDICATOR:
        ws.value[root, VALUE] = _input(plan, ws, root, row, allowed, value, maximise)
        ws.node[root, STAMP] = clock
        ws.node[ws.clock[REACHED], ORDER] = root
        ws.clock[REACHED] += 1
        return ws.value[root, VALUE]
    depth = 0
    ws.stack[0, NODE] = root
    ws.stack[0, EDGE] = edges(plan, root, row)[0]
    while depth >= 0:
        node = ws.stack[depth, NODE]
        e = ws.stack[depth, EDGE]
        end = edges(plan, node, row)[1]
        is_product = plan.node[node, KIND] == PRODUCT
        pushed = False
        while e < end:
            if not is_closed(plan, node, e, row, allowed):
                child = plan.child[e]
                if ws.node[child, STAMP] != clock:
                    if plan.node[child, KIND] < INDICATOR:
                        ws.stack[depth, EDGE] = e
                        depth += 1
                        ws.stack[depth, NODE] = child
                        ws.stack[depth, EDGE] = edges(plan, child, row)[0]
                        pushed = True
                        break
                    ws.value[child, VALUE] = _input(plan, ws, child, row, allowed, value, maximise)
                    ws.node[child, STAMP] = clock
                    ws.node[ws.clock[REACHED], ORDER] = child
                    ws.clock[REACHED] += 1
                if is_product and ws.value[child, VALUE] == -np.inf:
                    break
            e += 1
        if pushed:
            continue
        ws.value[node, VALUE] = 0.0
        if ws.clock[MODE] != COLLECT:
            ws.value[node, VALUE] = _combine(plan, ws, node, row, allowed, maximise)
        ws.node[node, STAMP] = clock
        ws.node[ws.clock[REACHED], ORDER] = node
        ws.clock[REACHED] += 1
        depth -= 1
    return ws.value[root, VALUE]


@njit(cache=True, nogil=True)
def shortcut(plan: Plan, node: int, row: CodeArray) -> tuple[int, float]:
    """Follow decisions on observed variables; return where they end and the log weight so far."""
    total = 0.0
    while plan.node[node, KIND] == DECISION:
        state = row[plan.node[node, NODE_VAR]]
        if state >= RESTRICTED:
            break
        e = plan.node[node, EDGES] + state
        total += plan.log_weight[e]
        node = plan.child[e]
    return node, total
