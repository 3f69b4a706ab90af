"""The pass downward, shared by marginals, counts, sampling and most probable explanations.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a product hands what it
receives to every child. ``fill`` follows one branch at each sum and completes the row, ``spread``
follows all of them and adds up posterior probabilities.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import choose, leaf_joint, leaf_path, leaf_value, next_uniform
from bayescut.circuit._kinds import (
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    MISSING,
    PRODUCT,
    RESTRICTED,
)
from bayescut.circuit._plan import Plan, Workspace
from bayescut.circuit._upward import begin_pass, edges, is_closed, shortcut, upward


@njit(cache=True, nogil=True)
def _categorical(plan: Plan, ws: Workspace, node: int, state: int, allowed: IntArray) -> float:
    """Write the probabilities of an input to ``ws.weights`` up to the returned factor."""
    v = plan.var[node]
    start = plan.param_ptr[node]
    top = -np.inf
    for s in range(plan.n_states[v]):
        ws.weights[s] = -np.inf
        if state == MISSING or allowed[plan.offset[v] + s]:
            ws.weights[s] = plan.param[start + s]
        top = max(top, ws.weights[s])
    total = 0.0
    for s in range(plan.n_states[v]):
        ws.weights[s] = np.exp(ws.weights[s] - top)
        total += ws.weights[s]
    return total


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
    kind = plan.kind[node]
    if kind == JUNCTION:
        leaf_value(plan, ws, node, row, allowed, maximise)
        leaf_path(plan, ws, node, row, allowed, maximise, random)
        return
    v = plan.var[node]
    if row[v] < RESTRICTED:
        return
    start = plan.param_ptr[node]
    if kind == INDICATOR:
        row[v] = plan.state[node]
    elif kind == GAUSSIAN:
        value[v] = plan.param[start]
        if not maximise:
            # Box and Muller; 1 - u lies in (0, 1].
            radius = np.sqrt(-2.0 * np.log(1.0 - next_uniform(random)))
            angle = 2.0 * np.pi * next_uniform(random)
            value[v] += plan.param[start + 1] * radius * np.cos(angle)
        row[v] = 0
    else:
        total = _categorical(plan, ws, node, row[v], allowed)
        row[v] = choose(ws.weights, plan.n_states[v], total, maximise, random)


@njit(cache=True, nogil=True)
def _choose_edge(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    maximise: bool,
    blank: bool,
    random: IntArray,
) -> int:
    """Return the edge to follow at a sum; with ``blank`` evidence all values are 0."""
    begin, end = edges(plan, node, row)
    if end - begin == 1:
        return begin
    chosen = -1
    if maximise:
        top = -np.inf
        for e in range(begin, end):
            if not is_closed(plan, node, e, row, allowed):
                term = plan.log_weight[e] + ws.value[plan.child[e]]
                if term > top:
                    top = term
                    chosen = e
        return chosen
    value = 0.0 if blank else ws.value[node]
    rest = next_uniform(random)
    for e in range(begin, end):
        if not is_closed(plan, node, e, row, allowed):
            below = 0.0 if blank else ws.value[plan.child[e]]
            p = np.exp(plan.log_weight[e] + below - value)
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
    m = len(plan.n_states)
    for r in range(len(unknown)):
        if unknown[r] < 0:
            return start + r
        row = rows[r]
        mask = allowed[start + r if len(allowed) > 1 else 0]
        value = values[start + r if values.shape[1] else 0]
        if not maximise:
            random[0] = seeds[start + r]
        blank = False
        if not maximise and unknown[r] == m:
            blank = True
            for v in range(m):
                blank = blank and row[v] == MISSING
        begin_pass(ws, unknown[r] == 0)
        node, total = shortcut(plan, root, row)
        if total == -np.inf:
            return start + r
        if not blank:
            found = upward(plan, ws, node, row, mask, value, maximise)
            if found == -np.inf:
                return start + r
        if unknown[r] == 0:
            continue
        # A path branches at products only: the stack never holds more than `order` can.
        waiting = 1
        ws.order[0] = node
        while waiting > 0:
            waiting -= 1
            node = ws.order[waiting]
            kind = plan.kind[node]
            if kind >= INDICATOR:
                _fill_input(plan, ws, node, row, mask, value, maximise, random)
            elif kind == PRODUCT:
                for e in range(plan.child_ptr[node + 1] - 1, plan.child_ptr[node] - 1, -1):
                    ws.order[waiting] = plan.child[e]
                    waiting += 1
            else:
                e = _choose_edge(plan, ws, node, row, mask, maximise, blank, random)
                if kind == DECISION and row[plan.var[node]] >= RESTRICTED:
                    row[plan.var[node]] = e - plan.child_ptr[node]
                ws.order[waiting] = plan.child[e]
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
    flow: float,
    marginal: FloatArray,
    moment: FloatArray,
    table_flow: FloatArray,
    param_flow: FloatArray,
    statistic: FloatArray,
) -> None:
    kind = plan.kind[node]
    if kind == JUNCTION:
        leaf_value(plan, ws, node, row, allowed, False)
        leaf_joint(plan, ws, node, row, allowed, flow, marginal, table_flow)
        return
    v = plan.var[node]
    state = row[v]
    if kind == INDICATOR:
        if state >= RESTRICTED and len(marginal) > 0:
            marginal[plan.offset[v] + plan.state[node]] += flow
        return
    start = plan.param_ptr[node]
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
    for s in range(plan.n_states[v]):
        q = flow * (ws.weights[s] / total)
        if len(marginal) > 0:
            marginal[plan.offset[v] + s] += q
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
    m = len(plan.n_states)
    want_edges = len(edge_flow) > 0
    for r in range(len(unknown)):
        weight = sample_weight[start + r] if len(sample_weight) > 0 else 1.0
        if weight == 0.0:
            continue
        if unknown[r] < 0:
            return start + r
        row = rows[r]
        mask = allowed[start + r if len(allowed) > 1 else 0]
        value = values[start + r if values.shape[1] else 0]
        marginal = marginals[start + r if len(marginals) > 1 else 0]
        moment = moments[start + r if len(moments) > 1 else 0]
        if len(marginal) > 0:
            for v in range(m):
                if row[v] < RESTRICTED and plan.n_states[v] > 0:
                    marginal[plan.offset[v] + row[v]] = 1.0
        begin_pass(ws, unknown[r] == 0)
        total = upward(plan, ws, root, row, mask, value, False)
        if total == -np.inf:
            return start + r
        reached = ws.clock[1]
        for i in range(reached):
            ws.flow[ws.order[i]] = 0.0
        ws.flow[root] = weight
        for i in range(reached - 1, -1, -1):
            node = ws.order[i]
            flow = ws.flow[node]
            kind = plan.kind[node]
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
                    flow,
                    marginal,
                    moment,
                    table_flow,
                    param_flow,
                    statistic,
                )
                continue
            begin, end = edges(plan, node, row)
            for e in range(begin, end):
                child = plan.child[e]
                share = flow
                if kind != PRODUCT and end - begin > 1:
                    if is_closed(plan, node, e, row, mask):
                        continue
                    share *= np.exp(plan.log_weight[e] + ws.value[child] - ws.value[node])
                ws.flow[child] += share
                if want_edges:
                    edge_flow[e] += share
                if kind == DECISION and row[plan.var[node]] >= RESTRICTED and len(marginal) > 0:
                    v = plan.var[node]
                    marginal[plan.offset[v] + e - begin] += share
    return -1


__all__ = ["fill", "spread"]
