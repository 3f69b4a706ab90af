"""The pass downward that follows all branches: posterior marginals and expected counts.

At a sum with log value V the posterior of branch k is w_k·exp(V_k − V); a product hands what it
receives to every child. What reaches a junction leaf is noted, and the leaf is then worked out for
many rows together.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inlined, inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._downward import categorical, edges, is_closed
from bayescut.circuit._evaluate import collect, group_pairs, split_pairs
from bayescut.circuit._junction import leaf_joint, leaf_value
from bayescut.circuit._kinds import (
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    PRODUCT,
    RESTRICTED,
)
from bayescut.circuit._lanes import leaf_lanes, leaf_lanes_joint, tree_lanes_joint
from bayescut.circuit._plan import (
    AGAIN,
    BLOCK,
    COMPUTE,
    DENSE,
    EDGES,
    FIRST_PAIR,
    FIRST_ROW,
    FLOW,
    KIND,
    LANES,
    LAST_PAIR,
    LAST_ROW,
    MAXIMISE,
    MODE,
    N_PAIRS,
    NODE_STATE,
    NODE_VAR,
    ORDER,
    OUT,
    PARAM,
    REACHED,
    REPLAY,
    ROOM,
    ROW,
    TREE,
    VALUE,
    VAR_OFFSET,
    VAR_STATES,
    Lanes,
    Plan,
    Workspace,
)
from bayescut.circuit._upward import upward


@inner
def _add_moments(sums: FloatArray, flow: float, mean: float, variance: float) -> None:
    """Update [weight, mean, squared deviations] as Welford does: plain sums of squares would lose
    the variance of numbers far from zero."""
    sums[0] += flow
    step = mean - sums[1]
    sums[1] += step * (flow / sums[0])
    sums[2] += flow * (variance + step * (mean - sums[1]))


@inner
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
    param_flow: FloatArray,
    statistic: FloatArray,
) -> None:
    kind = plan.node[node, KIND]
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
    total = categorical(plan, ws, node, state, allowed)
    for s in range(plan.variable[v, VAR_STATES]):
        q = flow * (ws.weight[s] / total)
        if len(marginal) > 0:
            marginal[plan.variable[v, VAR_OFFSET] + s] += q
        if len(param_flow) > 0:
            param_flow[start + s] += q


@kernel
def mark_observed(variable: IntArray, rows: CodeArray, marginals: FloatArray) -> None:
    """Give the observed states of each row the probability 1."""
    for r in range(len(rows)):
        for v in range(len(variable)):
            if rows[r, v] < RESTRICTED and variable[v, VAR_STATES] > 0:
                marginals[r, variable[v, VAR_OFFSET] + rows[r, v]] = 1.0


@inlined
def _spread_row(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    root: int,
    r: int,
    row: CodeArray,
    mask: IntArray,
    value: FloatArray,
    weight: float,
    marginal: FloatArray,
    moment: FloatArray,
    edge_flow: FloatArray,
    param_flow: FloatArray,
    statistic: FloatArray,
) -> None:
    """Send the weight of one row down to the inputs; at junction leaves it is noted only."""
    records, children, log_weight, variable = plan.node, plan.child, plan.log_weight, plan.variable
    clock, mark, number, collected, flows = ws.clock, ws.node, ws.value, ws.row, lanes.flow
    want_marginal, want_edges = len(marginal) > 0, len(edge_flow) > 0
    # Decisions on observed variables at the top have no value of their own.
    top = np.int64(root)
    while records[top, KIND] == DECISION and row[records[top, NODE_VAR]] < RESTRICTED:
        e = records[top, EDGES] + np.int64(row[records[top, NODE_VAR]])
        if want_edges:
            edge_flow[e] += weight
        top = np.int64(children[e])
    if not collected[r, AGAIN]:
        flows[collected[r, FIRST_PAIR]] = weight
        return
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
        if kind == JUNCTION:
            flows[mark[node, LAST_PAIR]] = flow
            continue
        if kind >= INDICATOR:
            _spread_input(
                plan, ws, node, row, mask, value, flow, marginal, moment, param_flow, statistic
            )
            continue
        begin, end = edges(records, node, row)
        v = records[node, NODE_VAR]
        is_cut = want_marginal and kind == DECISION and row[v] >= RESTRICTED
        for e in range(begin, end):
            child = children[e]
            share = flow
            if kind != PRODUCT and end - begin > 1:
                if is_closed(records, log_weight, variable, node, e, row, mask):
                    continue
                share *= np.exp(log_weight[e] + number[child, VALUE] - number[node, VALUE])
            number[child, FLOW] += share
            if want_edges:
                edge_flow[e] += share
            if is_cut:
                marginal[variable[v, VAR_OFFSET] + e - begin] += share


@inner
def _add_posterior(posterior: FloatArray, marginals: FloatArray) -> None:
    """Add what the lanes have found to the marginals of a block, and clear it."""
    n_columns = marginals.shape[1]
    for low in range(0, n_columns, 16):  # 16 columns of all rows: 2 lines of the cache each
        for r in range(len(marginals)):
            for column in range(low, min(low + 16, n_columns)):
                marginals[r, column] += posterior[column, r]
                posterior[column, r] = 0.0


@inlined
def _spread_leaves(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    marginals: FloatArray,
    table_flow: FloatArray,
) -> None:
    """Work out the junction leaves that the rows of a block have reached."""
    pair, flows, index, found = ws.pair, lanes.flow, lanes.pairs, ws.leaf_value
    records = plan.node
    want_marginal, want_flow = marginals.shape[1] > 0, len(table_flow) > 0
    if not want_marginal and not want_flow:
        return
    in_lanes = allowed.shape[1] == 0
    maximise = ws.clock[MAXIMISE] != 0
    share = np.empty(LANES)
    # In the order of the nodes, so that the sums of a row do not depend on the rows beside it.
    for leaf in np.sort(ws.node[: group_pairs(ws), ORDER]):
        front, back = split_pairs(ws, index, unknown, leaf)
        if want_flow:
            for k in range(front):
                i, r = index[0, k], index[1, k]
                if flows[i] > 0.0:
                    mask = allowed[r if len(allowed) > 1 else 0]
                    leaf_joint(
                        plan, ws, leaf, rows[r], mask, flows[i], marginals[0, :0], table_flow
                    )
        # Rows that the leaf does not matter to need no work.
        used = index.shape[1]
        for k in range(index.shape[1] - 1, back - 1, -1):
            if flows[index[0, k]] > 0.0:
                used -= 1
                index[0, used], index[1, used] = index[0, k], index[1, k]
        for k in range(used, index.shape[1], LANES):
            pairs, which = index[0, k : k + LANES], index[1, k : k + LANES]
            for i in pairs:
                found[i] = np.nan
            if in_lanes and records[leaf, DENSE]:
                leaf_lanes(plan, lanes, leaf, rows, which, maximise, pairs, found)
                for j in range(len(pairs)):
                    # A row that was given up takes no part; it follows on its own.
                    share[j] = 0.0 if np.isnan(found[pairs[j]]) else flows[pairs[j]]
                if records[leaf, TREE]:
                    tree_lanes_joint(
                        plan, lanes, leaf, rows, which, share, want_marginal, table_flow
                    )
                else:
                    leaf_lanes_joint(
                        plan, lanes, leaf, rows, which, share, want_marginal, table_flow
                    )
            for i in pairs:
                if np.isnan(found[i]):
                    r = pair[i, ROW]
                    mask = allowed[r if len(allowed) > 1 else 0]
                    leaf_value(plan, ws, leaf, rows[r], mask)
                    marginal = marginals[r if want_marginal else 0]
                    leaf_joint(plan, ws, leaf, rows[r], mask, flows[i], marginal, table_flow)


@kernel
def spread(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    roots: IntArray,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    most_pairs: int,
    weights: FloatArray,
    marginals: FloatArray,
    moments: FloatArray,
    edge_flow: FloatArray,
    table_flow: FloatArray,
    param_flow: FloatArray,
    statistic: FloatArray,
) -> int:
    """Add up posteriors below some roots over rows; return the first impossible row, or -1.

    ``weights`` (root, row) are what a root counts for a row, 1 if there are no columns. Outputs
    with no entries are left alone: ``marginals`` (row, state of any variable) and
    ``moments`` (row, variable, [weight, mean, squared deviations]) are per row, the others sum over
    rows: ``edge_flow``, ``table_flow`` (cells of junction families), ``param_flow`` (states of
    categorical inputs) and ``statistic`` (node, [weight, mean, squared deviations]) of Gaussians.
    """
    clock, collected, flows = ws.clock, ws.row, lanes.flow
    clock[MAXIMISE], clock[ROOM], clock[OUT] = 0, len(ws.pair) - most_pairs, 0
    out = np.empty((1, BLOCK))
    weight = np.ones(BLOCK)
    counted = np.empty(BLOCK, dtype=np.int64)
    for begin in range(0, len(unknown), BLOCK):
        end = min(begin + BLOCK, len(unknown))
        block, left = rows[begin:end], counted[: end - begin]
        masks, reals, posterior = allowed, values, marginals
        if len(allowed) > 1:
            masks = allowed[start + begin : start + end]
        if values.shape[1] > 0:
            reals = values[start + begin : start + end]
        if marginals.shape[1] > 0:
            posterior = marginals[start + begin : start + end]
        for i in range(len(roots)):
            root = roots[i]
            for r in range(end - begin):
                if weights.shape[1] > 0:
                    weight[r] = weights[i, start + begin + r]
                # What counts nothing need not be evaluated.
                left[r] = unknown[begin + r] if weight[r] > 0.0 else -1
            done = 0
            while done < end - begin:
                first = np.int64(done)
                some = roots[i : i + 1]
                done = collect(plan, ws, lanes, some, block, left, masks, reals, first, out)
                for j in range(clock[N_PAIRS]):
                    flows[j] = 0.0
                for r in range(first, done):
                    if weight[r] == 0.0:
                        continue
                    if collected[r, AGAIN]:
                        clock[MODE], clock[FIRST_ROW], clock[LAST_ROW] = REPLAY, r, r + 1
                        upward(plan, ws, some, block, left, masks, reals, out)
                    if out[0, r] == -np.inf:
                        return start + begin + r
                    at = start + begin + r
                    _spread_row(
                        plan,
                        ws,
                        lanes,
                        root,
                        r,
                        block[r],
                        masks[r if len(masks) > 1 else 0],
                        reals[r if reals.shape[1] > 0 else 0],
                        weight[r],
                        posterior[r if posterior.shape[1] > 0 else 0],
                        moments[at if moments.shape[1] > 0 else 0],
                        edge_flow,
                        param_flow,
                        statistic,
                    )
                _spread_leaves(plan, ws, lanes, block, left, masks, posterior, table_flow)
        if marginals.shape[1] > 0:
            _add_posterior(lanes.posterior, posterior)
    clock[MODE] = COMPUTE
    return -1
