"""The pass downward that follows one branch at each sum: sampling and most probable explanations.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a draw, or the largest of
them, decides. A product hands the row on to every child.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inlined, inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._evaluate import collect
from bayescut.circuit._junction import GOLDEN, leaf_path, leaf_value, uniform
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
    AGAIN,
    BLOCK,
    COMPUTE,
    EDGES,
    EDGES_END,
    FIRST_ROW,
    KIND,
    LAST_ROW,
    MAXIMISE,
    MODE,
    NODE_STATE,
    NODE_VAR,
    ORDER,
    OUT,
    PARAM,
    ROOM,
    VALUE,
    VAR_OFFSET,
    VAR_STATES,
    Lanes,
    Plan,
    Workspace,
)
from bayescut.circuit._upward import upward

BLANK = -2  # instead of the number of unknown variables: nothing is observed at all


@inner
def edges(records: IntArray, node: int, row: CodeArray) -> tuple[int, int]:
    """Return the range of edges of an inner node that the row can take."""
    begin, end = records[node, EDGES], records[node, EDGES_END]
    if records[node, KIND] == DECISION:
        state = np.int64(row[records[node, NODE_VAR]])
        if state < RESTRICTED:
            begin += state
            end = begin + 1
    return begin, end


@inner
def is_closed(
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


@inner
def categorical(plan: Plan, ws: Workspace, node: int, state: int, allowed: IntArray) -> float:
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


@inner
def _next(random: IntArray) -> float:
    """Draw from [0, 1)."""
    random[0] += GOLDEN
    return uniform(random[0])


@inner
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


@kernel
def choose_components(shares: FloatArray, seeds: IntArray, chosen: IntArray) -> None:
    """Draw a component of a mixture for each row, in proportion to its shares of the row.

    It is the first draw of the row's stream, as if the sum had been met on the way down.
    """
    for r in range(len(chosen)):
        rest = uniform(seeds[r] + GOLDEN)
        for k in range(len(shares)):
            if shares[k, r] > 0.0:
                chosen[r] = k
                rest -= shares[k, r]
                if rest < 0.0:
                    break


@inlined
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
        total = categorical(plan, ws, node, row[v], allowed)
        row[v] = _choose(ws.weight, plan.variable[v, VAR_STATES], total, maximise, random)


@inner
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
    begin, end = edges(records, node, row)
    if end - begin == 1:
        return begin
    chosen = -1
    if maximise:
        top = -np.inf
        for e in range(begin, end):
            if not is_closed(records, log_weight, variable, node, e, row, allowed):
                term = log_weight[e] + number[child[e], VALUE]
                if term > top:
                    top = term
                    chosen = e
        return chosen
    value = 0.0 if blank else number[node, VALUE]
    rest = _next(random)
    for e in range(begin, end):
        if not is_closed(records, log_weight, variable, node, e, row, allowed):
            below = 0.0 if blank else number[child[e], VALUE]
            p = np.exp(log_weight[e] + below - value)
            if p > 0.0:
                chosen = e
                rest -= p
                if rest < 0.0:
                    break
    return chosen


@inlined
def _follow(
    plan: Plan,
    ws: Workspace,
    root: int,
    row: CodeArray,
    mask: IntArray,
    value: FloatArray,
    maximise: bool,
    blank: bool,
    random: IntArray,
) -> None:
    """Complete one row from the root down."""
    records, child, log_weight, variable = plan.node, plan.child, plan.log_weight, plan.variable
    mark, number = ws.node, ws.value
    # A path branches at products only: its open ends are never more than there are nodes.
    waiting = 1
    mark[0, ORDER] = root
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


@kernel
def fill(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    root: int,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    maximise: bool,
    most_pairs: int,
    seeds: IntArray,
    random: IntArray,
) -> int:
    """Complete rows in place; return the first impossible one, or -1."""
    clock, collected = ws.clock, ws.row
    clock[MAXIMISE], clock[ROOM], clock[OUT] = maximise, len(ws.pair) - most_pairs, 0
    roots = np.array([root])
    out = np.empty((1, BLOCK))
    m = len(plan.variable)
    if not maximise:
        for r in range(len(unknown)):
            if unknown[r] == m:
                n_missing = 0
                for v in range(m):
                    n_missing += rows[r, v] == MISSING
                if n_missing == m:
                    unknown[r] = BLANK
    for begin in range(0, len(unknown), BLOCK):
        end = min(begin + BLOCK, len(unknown))
        block, left = rows[begin:end], unknown[begin:end]
        masks, reals = allowed, values
        if len(allowed) > 1:
            masks = allowed[start + begin : start + end]
        if values.shape[1] > 0:
            reals = values[start + begin : start + end]
        done = 0
        while done < end - begin:
            first = np.int64(done)
            done = collect(plan, ws, lanes, roots, block, left, masks, reals, first, out)
            for r in range(first, done):
                if left[r] == 0 and out[0, r] > -np.inf and not collected[r, AGAIN]:
                    continue
                blank = left[r] == BLANK
                if collected[r, AGAIN]:
                    clock[FIRST_ROW], clock[LAST_ROW] = r, r + 1
                    upward(plan, ws, roots, block, left, masks, reals, out)
                if not blank and out[0, r] == -np.inf:
                    return start + begin + r
                if left[r] == 0:
                    continue
                if not maximise:
                    random[0] = seeds[start + begin + r]
                mask = masks[r if len(masks) > 1 else 0]
                value = reals[r if reals.shape[1] > 0 else 0]
                _follow(plan, ws, root, block[r], mask, value, maximise, blank, random)
    clock[MODE] = COMPUTE
    return -1
