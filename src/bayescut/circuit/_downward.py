"""The pass downward, shared by marginals, counts, sampling and most probable explanations.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a product hands what it
receives to every child. ``fill`` follows one branch at each sum and completes the row, ``spread``
follows all of them and adds up posterior probabilities.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import GOLDEN, leaf_joint, leaf_path, leaf_value, uniform
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
    EDGES,
    EDGES_END,
    FIRST_ROW,
    FLOW,
    KIND,
    LAST_ROW,
    MAXIMISE,
    NODE_STATE,
    NODE_VAR,
    ORDER,
    OUT,
    PARAM,
    REACHED,
    VALUE,
    VAR_OFFSET,
    VAR_STATES,
    Plan,
    Workspace,
)
from bayescut.circuit._upward import upward


@njit(cache=True, nogil=True)
def _edges(records: IntArray, node: int, row: CodeArray) -> tuple[int, int]:
    """Return the range of edges of an inner node that the row can take."""
    begin, end = records[node, EDGES], records[node, EDGES_END]
    if records[node, KIND] == DECISION:
        state = np.int64(row[records[node, NODE_VAR]])
        if state < RESTRICTED:
            begin += state
            end = begin + 1
    return begin, end


@njit(cache=True, nogil=True)
def _is_closed(
    records: IntArray,
    log_weight: FloatArray,
    variable: IntArray,
    node: int,
    edge: int,
    row: CodeArray,
    allowed: IntArray,
) -> bool:
    """Say whether an edge has weight zero or leads to a state that the row's mask forbids."""
    closed = log_weight[edge] == -np.inf
    if records[node, KIND] == DECISION and not closed:
        v = records[node, NODE_VAR]
        if row[v] == RESTRICTED:
            closed = not allowed[variable[v, VAR_OFFSET] + edge - records[node, EDGES]]
    return closed


@njit(cache=True, nogil=True)
def _categorical(plan: Plan, ws: Workspace, node: int, state: int, allowed: IntArray) -> float:
    """Write the probabilities of an input to ``ws.weight`` up to the returned factor."""
    v = plan.node[node, NODE_VAR]
    start = plan.node[node, PARAM]
    top = -np.inf
    for s in range(plan.variable[v, VAR_STATES]):
        ws.weight[s] = -np.inf
        if state == MISSING or allowed[plan.variable[v, VAR_OFFSET] + s]:
            ws.weight[s] = plan.param[start + s]
        top = max(top, ws.weight[s])
    total = 0.0
    for s in range(plan.variable[v, VAR_STATES]):
        ws.weight[s] = np.exp(ws.weight[s] - top)
        total += ws.weight[s]
    return total


@njit(cache=True, nogil=True)
def _next(random: IntArray) -> float:
    """Draw from [0, 1)."""
    random[0] += GOLDEN
    return uniform(random[0])


@njit(cache=True, nogil=True)
def _choose(weights: FloatArray, n: int, total: float, maximise: bool, random: IntArray) -> int:
    """Return the first largest weight's index, or a draw in proportion to the weights."""
    chosen = 0
    if maximise:
        for s in range(1, n):
            if weights[s] > weights[chosen]:
                chosen = s
        return chosen
    rest = _next(random) * total
    for s in range(n):
        if weights[s] > 0.0:
            chosen = s
            rest -= weights[s]
            if rest < 0.0:
                break
    return chosen


@njit(cache=True, nogil=True)
def _fill_input(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    value: FloatArray,
    maximise: bool,
    random: IntArray,
) -> None:
    kind = plan.node[node, KIND]
    if kind == JUNCTION:
        leaf_value(plan, ws, node, row, allowed)
        leaf_path(plan, ws, node, row, allowed, random)
        return
    v = plan.node[node, NODE_VAR]
    if row[v] < RESTRICTED:
        return
    start = plan.node[node, PARAM]
    if kind == INDICATOR:
        row[v] = plan.node[node, NODE_STATE]
    elif kind == GAUSSIAN:
        value[v] = plan.param[start]
        if not maximise:
            # Box and Muller; 1 - u lies in (0, 1].
            radius = np.sqrt(-2.0 * np.log(1.0 - _next(random)))
            angle = 2.0 * np.pi * _next(random)
            value[v] += plan.param[start + 1] * radius * np.cos(angle)
        row[v] = 0
    else:
        total = _categorical(plan, ws, node, row[v], allowed)
        row[v] = _choose(ws.weight, plan.variable[v, VAR_STATES], total, maximise, random)


@njit(cache=True, nogil=True)
def _choose_edge(
    records: IntArray,
    child: IntArray,
    log_weight: FloatArray,
    variable: IntArray,
    number: FloatArray,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    maximise: bool,
    blank: bool,
    random: IntArray,
) -> int:
    """Return the edge to follow at a sum; with ``blank`` evidence all values are 0."""
    begin, end = _edges(records, node, row)
    if end - begin == 1:
        return begin
    chosen = -1
    if maximise:
        top = -np.inf
        for e in range(begin, end):
            if not _is_closed(records, log_weight, variable, node, e, row, allowed):
                term = log_weight[e] + number[child[e], VALUE]
                if term > top:
                    top = term
                    chosen = e
        return chosen
    value = 0.0 if blank else number[node, VALUE]
    rest = _next(random)
    for e in range(begin, end):
        if not _is_closed(records, log_weight, variable, node, e, row, allowed):
            below = 0.0 if blank else number[child[e], VALUE]
            p = np.exp(log_weight[e] + below - value)
            if p > 0.0:
                chosen = e
                rest -= p
                if rest < 0.0:
                    break
    return chosen


@njit(cache=True, nogil=True)
def fill(
    plan: Plan,
    ws: Workspace,
    root: int,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    maximise: bool,
    seeds: IntArray,
    random: IntArray,
) -> int:
    """Complete a block of rows in place; return the first impossible row of it, or -1."""
    records, child, log_weight, variable = plan.node, plan.child, plan.log_weight, plan.variable
    mark, number = ws.node, ws.value
    m = len(variable)
    roots = np.array([root])
    out = np.empty((1, 1))  # of one row at a time
    ws.clock[MAXIMISE] = maximise
    ws.clock[FIRST_ROW], ws.clock[LAST_ROW], ws.clock[OUT] = 0, 1, 0
    for r in range(len(unknown)):
        if unknown[r] < 0:
            return start + r
        row = rows[r]
        at = start + r if len(allowed) > 1 else 0
        here = start + r if values.shape[1] else 0
        mask, value = allowed[at], values[here]
        if not maximise:
            random[0] = seeds[start + r]
        blank = False
        if not maximise and unknown[r] == m:
            blank = True
            for v in range(m):
                blank = blank and row[v] == MISSING
        if not blank:
            upward(
                plan,
                ws,
                roots,
                rows[r : r + 1],
                unknown[r : r + 1],
                allowed[at : at + 1],
                values[here : here + 1],
                out,
            )
            if out[0, 0] == -np.inf:
                return start + r
        if unknown[r] == 0:
            continue
        node = root
        # A path branches at products only: its open ends are never more than there are nodes.
        waiting = 1
        mark[0, ORDER] = node
        while waiting > 0:
            waiting -= 1
            node = mark[waiting, ORDER]
            kind = records[node, KIND]
            if kind >= INDICATOR:
                _fill_input(plan, ws, node, row, mask, value, maximise, random)
            elif kind == PRODUCT:
                for e in range(records[node, EDGES_END] - 1, records[node, EDGES] - 1, -1):
                    mark[waiting, ORDER] = child[e]
                    waiting += 1
            else:
                e = _choose_edge(
                    records,
                    child,
                    log_weight,
                    variable,
                    number,
                    node,
                    row,
                    mask,
                    maximise,
                    blank,
                    random,
                )
                v = records[node, NODE_VAR]
                if kind == DECISION and row[v] >= RESTRICTED:
                    row[v] = e - records[node, EDGES]
                mark[waiting, ORDER] = child[e]
                waiting += 1
    return -1


@njit(cache=True, nogil=True)
def _add_moments(sums: FloatArray, flow: float, mean: float, variance: float) -> None:
    """Update [weight, mean, squared deviations] as Welford does: plain sums of squares would lose
    the variance of numbers far from zero."""
    sums[0] += flow
    step = mean - sums[1]
    sums[1] += step * (flow / sums[0])
    sums[2] += flow * (variance + step * (mean - sums[1]))


@njit(cache=True, nogil=True)
def _spread_input(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    value: FloatArray,
    is_complete: bool,
    flow: float,
    marginal: FloatArray,
    moment: FloatArray,
    table_flow: FloatArray,
    param_flow: FloatArray,
    statistic: FloatArray,
) -> None:
    kind = plan.node[node, KIND]
    if kind == JUNCTION:
        if not is_complete:
            leaf_value(plan, ws, node, row, allowed)
        leaf_joint(plan, ws, node, row, allowed, flow, marginal, table_flow)
        return
    v = plan.node[node, NODE_VAR]
    state = row[v]
    if kind == INDICATOR:
        if state >= RESTRICTED and len(marginal) > 0:
            marginal[plan.variable[v, VAR_OFFSET] + plan.node[node, NODE_STATE]] += flow
        return
    start = plan.node[node, PARAM]
    if kind == GAUSSIAN:
        x = value[v] if state < RESTRICTED else plan.param[start]
        variance = 0.0 if state < RESTRICTED else plan.param[start + 1] ** 2
        if len(moment) > 0:
            _add_moments(moment[v], flow, x, variance)
        if len(statistic) > 0:
            _add_moments(statistic[node], flow, x, variance)
        return
    if state < RESTRICTED:
        if len(param_flow) > 0:
            param_flow[start + state] += flow
        return
    total = _categorical(plan, ws, node, state, allowed)
    for s in range(plan.variable[v, VAR_STATES]):
        q = flow * (ws.weight[s] / total)
        if len(marginal) > 0:
            marginal[plan.variable[v, VAR_OFFSET] + s] += q
        if len(param_flow) > 0:
            param_flow[start + s] += q


@njit(cache=True, nogil=True)
def spread(
    plan: Plan,
    ws: Workspace,
    root: int,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    sample_weight: FloatArray,
    marginals: FloatArray,
    moments: FloatArray,
    edge_flow: FloatArray,
    table_flow: FloatArray,
    param_flow: FloatArray,
    statistic: FloatArray,
) -> int:
    """Add up posteriors over a block of rows; return its first impossible row, or -1.

    Outputs with no entries are left alone: ``marginals`` (row, state of any variable) and
    ``moments`` (row, variable, [weight, mean, squared deviations]) are per row, the others sum over
    rows: ``edge_flow``, ``table_flow`` (cells of junction families), ``param_flow`` (states of
    categorical inputs) and ``statistic`` (node, [weight, mean, squared deviations]) of Gaussians.
    """
    records, children, log_weight, variable = plan.node, plan.child, plan.log_weight, plan.variable
    clock, mark, number = ws.clock, ws.node, ws.value
    m = len(variable)
    roots = np.array([root])
    out = np.empty((1, 1))  # of one row at a time
    ws.clock[MAXIMISE] = 0
    ws.clock[FIRST_ROW], ws.clock[LAST_ROW], ws.clock[OUT] = 0, 1, 0
    want_edges = len(edge_flow) > 0
    for r in range(len(unknown)):
        weight = sample_weight[start + r] if len(sample_weight) > 0 else 1.0
        if weight == 0.0:
            continue
        if unknown[r] < 0:
            return start + r
        row = rows[r]
        at = start + r if len(allowed) > 1 else 0
        here = start + r if values.shape[1] else 0
        mask, value = allowed[at], values[here]
        marginal = marginals[start + r if len(marginals) > 1 else 0]
        moment = moments[start + r if len(moments) > 1 else 0]
        if len(marginal) > 0:
            for v in range(m):
                if row[v] < RESTRICTED and variable[v, VAR_STATES] > 0:
                    marginal[variable[v, VAR_OFFSET] + row[v]] = 1.0
        upward(
            plan,
            ws,
            roots,
            rows[r : r + 1],
            unknown[r : r + 1],
            allowed[at : at + 1],
            values[here : here + 1],
            out,
        )
        if out[0, 0] == -np.inf:
            return start + r
        # Decisions on observed variables at the top have no value of their own.
        top = roots[0]
        while records[top, KIND] == DECISION and row[records[top, NODE_VAR]] < RESTRICTED:
            e = records[top, EDGES] + np.int64(row[records[top, NODE_VAR]])
            if want_edges:
                edge_flow[e] += weight
            top = children[e]
        reached = clock[REACHED]
        for i in range(reached):
            number[mark[i, ORDER], FLOW] = 0.0
        number[top, FLOW] = weight
        for i in range(reached - 1, -1, -1):
            node = mark[i, ORDER]
            flow = number[node, FLOW]
            kind = records[node, KIND]
            if flow == 0.0:
                continue
            if kind >= INDICATOR:
                _spread_input(
                    plan,
                    ws,
                    node,
                    row,
                    mask,
                    value,
                    unknown[r] == 0,
                    flow,
                    marginal,
                    moment,
                    table_flow,
                    param_flow,
                    statistic,
                )
                continue
            begin, end = _edges(records, node, row)
            v = records[node, NODE_VAR]
            is_cut = len(marginal) > 0 and kind == DECISION and row[v] >= RESTRICTED
            for e in range(begin, end):
                child = children[e]
                share = flow
                if kind != PRODUCT and end - begin > 1:
                    if _is_closed(records, log_weight, variable, node, e, row, mask):
                        continue
                    share *= np.exp(log_weight[e] + number[child, VALUE] - number[node, VALUE])
                number[child, FLOW] += share
                if want_edges:
                    edge_flow[e] += share
                if is_cut:
                    marginal[variable[v, VAR_OFFSET] + e - begin] += share
    return -1


__all__ = ["fill", "spread"]
