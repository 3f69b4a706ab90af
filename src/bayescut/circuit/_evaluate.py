"""Blocks of rows: reading evidence, and the values of nodes for many rows at once."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inlined, inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_rows, leaf_value
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._lanes import leaf_lanes
from bayescut.circuit._plan import (
    BLOCK,
    COLLECT,
    COMPUTE,
    CURSOR,
    DENSE,
    FIRST_ROW,
    LANES,
    LAST_PAIR,
    LAST_ROW,
    LEAF,
    MAXIMISE,
    MODE,
    N_PAIRS,
    NEXT,
    ORDER,
    OUT,
    PASS,
    REPLAY,
    ROOM,
    ROW,
    STAMP,
    TARGET,
    VAR_OFFSET,
    VAR_STATES,
    Lanes,
    Plan,
    Workspace,
)
from bayescut.circuit._upward import upward


@kernel
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


@inner
def group_pairs(ws: Workspace) -> int:
    """Chain the pairs of each leaf; return how many leaves there are, listed in ``ws.node``."""
    clock, mark, pair = ws.clock, ws.node, ws.pair
    clock[PASS] += 1
    now = clock[PASS]
    n_leaves = 0
    for i in range(clock[N_PAIRS]):
        leaf = pair[i, LEAF]
        if mark[leaf, STAMP] != now:
            mark[leaf, STAMP] = now
            mark[leaf, LAST_PAIR] = -1
            mark[n_leaves, ORDER] = leaf
            n_leaves += 1
        pair[i, NEXT] = mark[leaf, LAST_PAIR]
        mark[leaf, LAST_PAIR] = i
    return n_leaves


@inner
def split_pairs(ws: Workspace, index: IntArray, unknown: IntArray, leaf: int) -> tuple[int, int]:
    """List the pairs of a leaf and their rows: complete rows first, the others at the end."""
    mark, pair = ws.node, ws.pair
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
        index[0, at], index[1, at] = i, r
        i = pair[i, NEXT]
    return front, back


@inlined
def _evaluate_pairs(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    out: FloatArray,
) -> None:
    """Compute the leaf values that the rows of a block have asked for, leaf by leaf."""
    clock, mark, pair, found = ws.clock, ws.node, ws.pair, ws.leaf_value
    records, index = plan.node, lanes.pairs
    start = clock[OUT]
    in_lanes, maximise = allowed.shape[1] == 0, clock[MAXIMISE] != 0
    for j in range(group_pairs(ws)):
        leaf = mark[j, ORDER]
        front, back = split_pairs(ws, index, unknown, leaf)
        if front > 0:
            leaf_rows(plan, leaf, rows, index[1, :front], index[0, :front], found)
        for k in range(back, index.shape[1], LANES):
            pairs = index[0, k : k + LANES]
            for i in pairs:
                found[i] = np.nan
            if in_lanes and records[leaf, DENSE]:
                leaf_lanes(plan, lanes, leaf, rows, index[1, k : k + LANES], maximise, pairs, found)
            for i in pairs:
                if np.isnan(found[i]):
                    r = pair[i, ROW]
                    mask = allowed[start + r if len(allowed) > 1 else 0]
                    found[i] = leaf_value(plan, ws, leaf, rows[r], mask)
    for i in range(clock[N_PAIRS]):
        target = pair[i, TARGET]
        if target >= 0:
            out[target, start + pair[i, ROW]] += found[i]


@inlined
def collect(
    plan: Plan,
    ws: Workspace,
    lanes: Lanes,
    nodes: IntArray,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    begin: int,
    out: FloatArray,
) -> int:
    """Evaluate the leaves that rows from ``begin`` on need, for as many rows as there is room.

    Returns the row after the last of them. Those marked AGAIN are then to be replayed, the values
    of the others are in ``out``.
    """
    clock = ws.clock
    clock[MODE], clock[CURSOR] = COLLECT, 0
    clock[FIRST_ROW], clock[LAST_ROW] = begin, len(unknown)
    end = upward(plan, ws, nodes, rows, unknown, allowed, values, out)
    clock[N_PAIRS] = clock[CURSOR]
    clock[MODE] = COMPUTE
    _evaluate_pairs(plan, ws, lanes, rows, unknown, allowed, out)
    clock[MODE], clock[LAST_ROW] = REPLAY, end
    return end


@kernel
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
    most_pairs: int,
    out: FloatArray,
) -> None:
    """Write the log values of ``nodes`` for some rows to ``out[:, start:start + len(rows)]``.

    With ``one_by_one`` each node passes over a block of rows before the next one begins, which
    keeps the tables of one mixture component in the cache; otherwise the nodes share one pass per
    row. The numbers are the same. ``most_pairs`` bounds the leaves that one row may need. Sums are
    maxima if ``clock[MAXIMISE]`` says so.
    """
    clock = ws.clock
    clock[ROOM] = len(ws.pair) - most_pairs
    step = 1 if one_by_one else len(nodes)
    for begin in range(0, len(unknown), BLOCK):
        end = min(begin + BLOCK, len(unknown))
        block, open_variables = rows[begin:end], unknown[begin:end]
        clock[OUT] = start + begin
        for i in range(0, len(nodes), step):
            some, result = nodes[i : i + step], out[i : i + step]
            done = 0
            while done < end - begin:
                done = collect(
                    plan,
                    ws,
                    lanes,
                    some,
                    block,
                    open_variables,
                    allowed,
                    values,
                    np.int64(done),
                    result,
                )
                upward(plan, ws, some, block, open_variables, allowed, values, result)
