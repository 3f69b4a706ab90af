"""The one evaluator: the log value of nodes under the evidence of each row.

Only what a row needs is computed: a decision on an observed variable follows one branch, shared
nodes are computed once per row. The same pass works in the sum and in the max semiring. It can
also note which leaves a row needs and be repeated once their values are known, so that a leaf is
evaluated for many rows together.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_row, leaf_value
from bayescut.circuit._kinds import (
    CATEGORICAL,
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    MISSING,
    PRODUCT,
    RESTRICTED,
)
from bayescut.circuit._plan import (
    AGAIN,
    COLLECT,
    CURSOR,
    EDGE,
    EDGES,
    EDGES_END,
    FIRST_PAIR,
    FIRST_ROW,
    KIND,
    LAST_PAIR,
    LAST_ROW,
    LEAF,
    MAXIMISE,
    MODE,
    N_PAIRS,
    NODE,
    NODE_STATE,
    NODE_VAR,
    ORDER,
    OUT,
    PARAM,
    PASS,
    REACHED,
    REPLAY,
    ROOM,
    ROW,
    STAMP,
    TARGET,
    VALUE,
    VAR_OFFSET,
    VAR_STATES,
    Plan,
    Workspace,
)

HALF_LOG_TAU = 0.9189385332046727  # ln(2π) / 2


@inner
def _input(
    records: IntArray,
    param: FloatArray,
    variable: IntArray,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    value: FloatArray,
    maximise: bool,
) -> float:
    """Log value of an indicator, categorical or Gaussian input."""
    kind = records[node, KIND]
    v = records[node, NODE_VAR]
    state = row[v]
    offset = variable[v, VAR_OFFSET]
    if kind == INDICATOR:
        wanted = records[node, NODE_STATE]
        if state == wanted or state == MISSING:
            return 0.0
        if state == RESTRICTED and allowed[offset + wanted]:
            return 0.0
        return -np.inf
    start = records[node, PARAM]
    if kind == GAUSSIAN:
        deviation = param[start + 1]
        if state < RESTRICTED:
            z = (value[v] - param[start]) / deviation
            return -0.5 * z * z - np.log(deviation) - HALF_LOG_TAU
        return -np.log(deviation) - HALF_LOG_TAU if maximise else 0.0
    # CATEGORICAL
    if state < RESTRICTED:
        return param[start + state]
    if state == MISSING and not maximise:
        return 0.0
    top = -np.inf
    for s in range(variable[v, VAR_STATES]):
        if state == MISSING or allowed[offset + s]:
            top = max(top, param[start + s])
    if maximise or top == -np.inf:
        return top
    total = 0.0
    for s in range(variable[v, VAR_STATES]):
        if allowed[offset + s]:
            total += np.exp(param[start + s] - top)
    return top + np.log(total)


@inner
def upward(
    plan: Plan,
    ws: Workspace,
    nodes: IntArray,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    out: FloatArray,
) -> int:
    """Write the log values of nodes to ``out[i, OUT + r]`` for rows FIRST_ROW to LAST_ROW.

    The settings are in ``ws.clock``. MODE says what happens at a junction leaf: COMPUTE its value;
    COLLECT only notes it in ``ws.pair``, to be added to the output if decisions lead straight to
    it, and stops when there are more than ROOM pairs; REPLAY completes the other rows once the
    values of the leaves are known. Returns the row after the last one treated.
    """
    # One long function on purpose. Small ones, and access to the arrays inside a tuple, count
    # references each time: 300 ns for each node that is visited, instead of 20.
    records, child, log_weight, variable = plan.node, plan.child, plan.log_weight, plan.variable
    param = plan.param
    clock, mark, number, stack = ws.clock, ws.node, ws.value, ws.stack
    pair, leaf_values, collected = ws.pair, ws.leaf_value, ws.row
    mode, start, maximise = clock[MODE], clock[OUT], clock[MAXIMISE] != 0
    for r in range(clock[FIRST_ROW], clock[LAST_ROW]):
        if unknown[r] < 0:
            for i in range(len(nodes)):
                out[i, start + r] = -np.inf
            if mode == COLLECT:
                collected[r, AGAIN] = 0
            continue
        mask_row = start + r if len(allowed) > 1 else 0
        clock[PASS] += 1
        now = clock[PASS]
        reached = 0
        if mode == COLLECT:
            if clock[CURSOR] > clock[ROOM]:
                return r
            collected[r, FIRST_PAIR] = clock[CURSOR]
            collected[r, AGAIN] = 0
        elif mode == REPLAY:
            if not collected[r, AGAIN]:
                continue
            clock[CURSOR] = collected[r, FIRST_PAIR]
        for i in range(len(nodes)):
            # Follow decisions on observed variables.
            root = nodes[i]
            total = 0.0
            while records[root, KIND] == DECISION:
                state = np.int64(rows[r, records[root, NODE_VAR]])
                if state >= RESTRICTED:
                    break
                e = records[root, EDGES] + state
                total += log_weight[e]
                root = np.int64(child[e])
            if total == -np.inf or (mode == COLLECT and records[root, KIND] == JUNCTION):
                out[i, start + r] = total
                if total > -np.inf:
                    at = clock[CURSOR]
                    pair[at, LEAF], pair[at, ROW], pair[at, TARGET] = root, r, i
                    clock[CURSOR] += 1
                continue
            if mode == REPLAY and records[root, KIND] == JUNCTION:
                continue
            depth = -1
            if mark[root, STAMP] != now:
                depth = 0
                stack[0, NODE] = root
                stack[0, EDGE] = -1
            while depth >= 0:
                node = stack[depth, NODE]
                kind = records[node, KIND]
                found = 0.0
                if kind < INDICATOR:
                    begin, end = records[node, EDGES], records[node, EDGES_END]
                    is_masked = False
                    offset = 0
                    if kind == DECISION:
                        v = records[node, NODE_VAR]
                        state = np.int64(rows[r, v])
                        if state < RESTRICTED:
                            begin += state
                            end = begin + 1
                        elif state == RESTRICTED:
                            is_masked = True
                            offset = variable[v, VAR_OFFSET] - begin
                    # Which child is not known yet?
                    e = max(begin, stack[depth, EDGE])
                    waiting = -1
                    while e < end:
                        if log_weight[e] > -np.inf:
                            if not is_masked or allowed[mask_row, offset + e]:
                                below = child[e]
                                if mark[below, STAMP] != now:
                                    waiting = below
                                    break
                                if kind == PRODUCT and number[below, VALUE] == -np.inf:
                                    break
                        e += 1
                    if waiting >= 0:
                        stack[depth, EDGE] = e
                        depth += 1
                        stack[depth, NODE] = waiting
                        stack[depth, EDGE] = -1
                        continue
                    if mode == COLLECT:
                        pass
                    elif kind == PRODUCT:
                        for e in range(begin, end):
                            found += number[child[e], VALUE]
                            if found == -np.inf:
                                break  # later children have not been computed
                    else:
                        top = -np.inf
                        for e in range(begin, end):
                            if log_weight[e] > -np.inf:
                                if not is_masked or allowed[mask_row, offset + e]:
                                    top = max(top, log_weight[e] + number[child[e], VALUE])
                        found = top
                        if not maximise and top > -np.inf and end - begin > 1:
                            total_here = 0.0
                            for e in range(begin, end):
                                if log_weight[e] > -np.inf:
                                    if not is_masked or allowed[mask_row, offset + e]:
                                        term = log_weight[e] + number[child[e], VALUE]
                                        total_here += np.exp(term - top)
                            found = top + np.log(total_here)
                elif kind == JUNCTION:
                    if mode == COLLECT:
                        at = clock[CURSOR]
                        pair[at, LEAF], pair[at, ROW], pair[at, TARGET] = node, r, -1
                        clock[CURSOR] += 1
                    elif mode == REPLAY:
                        # Mostly the next one. But a product that is cut short may leave a leaf
                        # to a later parent: the search goes on from the row's first pair.
                        at = clock[CURSOR]
                        while pair[at, LEAF] != node:
                            at += 1
                            if at == clock[N_PAIRS] or pair[at, ROW] != r:
                                at = collected[r, FIRST_PAIR]
                        found = leaf_values[at]
                        mark[node, LAST_PAIR] = at
                        clock[CURSOR] = at
                    elif unknown[r] == 0:
                        found = leaf_row(plan, node, rows[r])
                    else:
                        found = leaf_value(plan, ws, node, rows[r], allowed[mask_row])
                elif mode != COLLECT:
                    state = np.int64(rows[r, records[node, NODE_VAR]])
                    if kind == INDICATOR and state != RESTRICTED:
                        if state != records[node, NODE_STATE] and state != MISSING:
                            found = -np.inf
                    elif kind == CATEGORICAL and state < RESTRICTED:
                        found = param[records[node, PARAM] + state]
                    else:
                        value_row = start + r if values.shape[1] else 0
                        found = _input(
                            records,
                            param,
                            variable,
                            node,
                            rows[r],
                            allowed[mask_row],
                            values[value_row],
                            maximise,
                        )
                number[node, VALUE] = found
                mark[node, STAMP] = now
                mark[reached, ORDER] = node
                reached += 1
                depth -= 1
            if mode == COLLECT:
                collected[r, AGAIN] = 1
            else:
                out[i, start + r] = total + number[root, VALUE]
        clock[REACHED] = reached
    return clock[LAST_ROW]
