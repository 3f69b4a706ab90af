"""Blocks of rows: reading evidence, and the values of nodes for many rows at once."""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_rows, leaf_value
from bayescut.circuit._kinds import JUNCTION, MISSING, RESTRICTED
from bayescut.circuit._lanes import leaf_lanes
from bayescut.circuit._plan import (
    COLLECT,
    COMPUTE,
    CURSOR,
    DENSE,
    KIND,
    LANES,
    LAST_PAIR,
    LEAF,
    MODE,
    NEXT,
    ORDER,
    PASS,
    REPLAY,
    ROW,
    STAMP,
    TARGET,
    THIS_ROW,
    VAR_OFFSET,
    VAR_STATES,
    Lanes,
    Plan,
    Workspace,
)
from bayescut.circuit._upward import add_pair, begin_pass, shortcut, upward

# Rows whose leaves are evaluated together: 256 rows of 784 columns (0.4 MB) stay in the
# second-level cache while the components of a mixture pass over them one by one.
BLOCK = 256


@njit(cache=True, nogil=True)
def read_rows(
    codes: CodeArray,
    missing: int,
    allowed: IntArray,
    values: FloatArray,
    variable: IntArray,
    limit: IntArray,
    start: int,
    stop: int,
    rows: CodeArray,
    unknown: IntArray,
) -> tuple[int, int]:
    """Turn codes and masks into one integer per variable; codes lie below ``limit``.

    Without masks ``allowed`` has shape (1, 0), without continuous variables ``values`` has.
    ``unknown[r]`` becomes the number of variables without a state, -1 if a mask contradicts the
    row. Returns the first cell (row, column) that is out of range, (-1, -1) if there is none.
    """
    n_variables = len(variable)
    with_masks, with_values = allowed.shape[1] > 0, values.shape[1] > 0
    for r in range(start, stop):
        out = rows[r - start]
        open_variables = 0
        wrong = 0
        # Without branches: where every other value is missing they would cost 3 ns per cell.
        for v in range(n_variables):
            code = codes[r, v]
            is_missing = code == missing
            open_variables += is_missing
            wrong += (not is_missing) & (code >= limit[v])
            out[v] = MISSING if is_missing else code
        if wrong > 0:
            for v in range(n_variables):
                if codes[r, v] != missing and codes[r, v] >= limit[v]:
                    return r, v
        if with_values:
            for v in range(n_variables):
                if variable[v, VAR_STATES] == 0 and out[v] != MISSING:
                    if np.isnan(values[r, v]):
                        out[v] = MISSING
                        open_variables += 1
                    elif np.isinf(values[r, v]):
                        return r, v
        impossible = False
        if with_masks:
            mask = allowed[r if len(allowed) > 1 else 0]
            for v in range(n_variables):
                if out[v] != MISSING:
                    if variable[v, VAR_STATES] > 0 and not mask[variable[v, VAR_OFFSET] + out[v]]:
                        impossible = True
                    continue
                count = 0
                last = 0
                for s in range(variable[v, VAR_STATES]):
                    if mask[variable[v, VAR_OFFSET] + s]:
                        count += 1
                        last = s
                if count == variable[v, VAR_STATES]:
                    continue
                if count == 0:
                    impossible = True
                elif count == 1:
                    out[v] = last
                    open_variables -= 1
                else:
                    out[v] = RESTRICTED
        unknown[r - start] = -1 if impossible else open_variables
    return -1, -1


@njit(cache=True, nogil=True)
def _evaluate_pairs(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    start: int,
    maximise: bool,
    out: FloatArray,
) -> None:
    """Compute the leaf values that the rows of a block have asked for, leaf by leaf."""
    clock, mark, pair, found = ws.clock, ws.node, ws.pair, ws.leaf_value
    index = lanes.pairs
    n_pairs = clock[CURSOR]
    clock[PASS] += 1
    now = clock[PASS]
    n_leaves = 0
    for i in range(n_pairs):
        leaf = pair[i, LEAF]
        if mark[leaf, STAMP] != now:
            mark[leaf, STAMP] = now
            mark[leaf, LAST_PAIR] = -1
            mark[n_leaves, ORDER] = leaf
            n_leaves += 1
        pair[i, NEXT] = mark[leaf, LAST_PAIR]
        mark[leaf, LAST_PAIR] = i
    in_lanes = not maximise and allowed.shape[1] == 0
    for j in range(n_leaves):
        leaf = mark[j, ORDER]
        # Complete rows to the front of the index, the others to its end.
        front, back = 0, index.shape[1]
        i = mark[leaf, LAST_PAIR]
        while i >= 0:
            r = pair[i, ROW]
            if unknown[r] == 0:
                at = front
                front += 1
            else:
                back -= 1
                at = back
            index[0, at] = i
            index[1, at] = r
            i = pair[i, NEXT]
        if front > 0:
            leaf_rows(plan, leaf, rows, index[1, :front], index[0, :front], found)
        for k in range(back, index.shape[1], LANES):
            pairs = index[0, k : k + LANES]
            which = index[1, k : k + LANES]
            if in_lanes and plan.node[leaf, DENSE]:
                leaf_lanes(plan, lanes, leaf, rows, which, pairs, found)
            else:
                for i in pairs:
                    found[i] = np.nan
            for i in pairs:
                if np.isnan(found[i]):
                    r = pair[i, ROW]
                    mask = allowed[start + r if len(allowed) > 1 else 0]
                    found[i] = leaf_value(plan, ws, leaf, rows[r], mask, maximise)
    for i in range(n_pairs):
        target = pair[i, TARGET]
        if target >= 0:
            out[target, start + pair[i, ROW]] += found[i]


@njit(cache=True, nogil=True)
def _evaluate_block(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    nodes: IntArray,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    maximise: bool,
    most_pairs: int,
    out: FloatArray,
) -> None:
    n = len(unknown)
    records, child, log_weight, clock = plan.node, plan.child, plan.log_weight, ws.clock
    pair = ws.pair
    room = len(pair) - most_pairs
    first_pair = np.empty(n, dtype=np.int64)
    again = np.zeros(n, dtype=np.bool_)
    begin = 0
    while begin < n:
        # Collect: which leaves do the rows need?
        clock[MODE] = COLLECT
        clock[CURSOR] = 0
        end = begin
        while end < n and clock[CURSOR] <= room:
            row = rows[end]
            first_pair[end] = clock[CURSOR]
            clock[THIS_ROW] = end
            begin_pass(clock, unknown[end] == 0)
            for i in range(len(nodes)):
                if unknown[end] < 0:
                    out[i, start + end] = -np.inf
                    continue
                node, total = shortcut(records, child, log_weight, nodes[i], row)
                out[i, start + end] = total
                if total == -np.inf:
                    continue
                if records[node, KIND] == JUNCTION:
                    add_pair(clock, pair, node, i)
                else:
                    again[end] = True
                    mask = allowed[start + end if len(allowed) > 1 else 0]
                    value = values[start + end if values.shape[1] else 0]
                    upward(plan, ws, node, row, mask, value, maximise)
            end += 1
        clock[MODE] = COMPUTE
        _evaluate_pairs(plan, ws, lanes, rows, unknown, allowed, start, maximise, out)
        # Replay: what are the nodes above them worth?
        clock[MODE] = REPLAY
        for r in range(begin, end):
            if not again[r]:
                continue
            clock[CURSOR] = first_pair[r]
            begin_pass(clock, unknown[r] == 0)
            mask = allowed[start + r if len(allowed) > 1 else 0]
            value = values[start + r if values.shape[1] else 0]
            for i in range(len(nodes)):
                node, total = shortcut(records, child, log_weight, nodes[i], rows[r])
                if total > -np.inf and records[node, KIND] != JUNCTION:
                    total += upward(plan, ws, node, rows[r], mask, value, maximise)
                    out[i, start + r] = total
        begin = end
    clock[MODE] = COMPUTE


@njit(cache=True, nogil=True)
def evaluate(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    nodes: IntArray,
    one_by_one: bool,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    maximise: bool,
    most_pairs: int,
    out: FloatArray,
) -> None:
    """Write the log values of ``nodes`` for some rows to ``out[:, start:start + len(rows)]``.

    With ``one_by_one`` each node passes over a block of rows before the next one begins, which
    keeps the tables of one mixture component in the cache; otherwise the nodes share one pass per
    row. The numbers are the same. ``most_pairs`` bounds the leaves that one row may need.
    """
    n = len(unknown)
    step = 1 if one_by_one else len(nodes)
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        for i in range(0, len(nodes), step):
            _evaluate_block(
                plan,
                ws,
                lanes,
                nodes[i : i + step],
                rows[begin:end],
                unknown[begin:end],
                allowed,
                values,
                start + begin,
                maximise,
                most_pairs,
                out[i : i + step],
            )
