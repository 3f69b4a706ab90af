"""The one evaluator: the log value of a node under the evidence of one row.

Only what a row needs is computed: a decision on an observed variable follows one branch, shared
nodes are computed once per row. The same pass works in the sum and in the max semiring.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_row, leaf_rows, leaf_value
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

# Rows that are read together: a block of 784 columns (0.8 MB) stays in the second-level cache
# while the components of a mixture pass over it one by one.
BLOCK = 256

HALF_LOG_TAU = 0.9189385332046727  # ln(2π) / 2


@njit(cache=True, nogil=True)
def read_rows(
    codes: CodeArray,
    missing: int,
    allowed: IntArray,
    values: FloatArray,
    n_states: IntArray,
    offset: IntArray,
    start: int,
    stop: int,
    rows: CodeArray,
    unknown: IntArray,
) -> tuple[int, int]:
    """Turn codes and masks into one integer per variable.

    Without masks ``allowed`` has shape (1, 0), without continuous variables ``values`` has.
    ``unknown[r]`` becomes the number of variables without a state, -1 if a mask contradicts the
    row. Returns the first cell (row, column) that is out of range, (-1, -1) if there is none.
    """
    n_variables = len(n_states)
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
            wrong += (not is_missing) & (code >= max(1, n_states[v]))
            out[v] = MISSING if is_missing else code
        if wrong > 0:
            for v in range(n_variables):
                if codes[r, v] != missing and codes[r, v] >= max(1, n_states[v]):
                    return r, v
        if with_values:
            for v in range(n_variables):
                if n_states[v] == 0 and out[v] != MISSING:
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
                    if n_states[v] > 0 and not mask[offset[v] + out[v]]:
                        impossible = True
                    continue
                count = 0
                last = 0
                for s in range(n_states[v]):
                    if mask[offset[v] + s]:
                        count += 1
                        last = s
                if count == n_states[v]:
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
    kind = plan.kind[node]
    if kind == JUNCTION:
        if ws.clock[3]:
            return leaf_row(plan, node, row)
        return leaf_value(plan, ws, node, row, allowed, maximise)
    v = plan.var[node]
    state = row[v]
    if kind == INDICATOR:
        wanted = plan.state[node]
        if state == wanted or state == MISSING:
            return 0.0
        if state == RESTRICTED and allowed[plan.offset[v] + wanted]:
            return 0.0
        return -np.inf
    start = plan.param_ptr[node]
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
    for s in range(plan.n_states[v]):
        if state == MISSING or allowed[plan.offset[v] + s]:
            top = max(top, plan.param[start + s])
    if maximise or top == -np.inf:
        return top
    total = 0.0
    for s in range(plan.n_states[v]):
        if allowed[plan.offset[v] + s]:
            total += np.exp(plan.param[start + s] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def edges(plan: Plan, node: int, row: CodeArray) -> tuple[int, int]:
    """Return the range of edges of an inner node that the row can take."""
    begin, end = plan.child_ptr[node], plan.child_ptr[node + 1]
    if plan.kind[node] == DECISION:
        state = row[plan.var[node]]
        if state < RESTRICTED:
            return begin + state, begin + state + 1
    return begin, end


@njit(cache=True, nogil=True)
def is_closed(plan: Plan, node: int, edge: int, row: CodeArray, allowed: IntArray) -> bool:
    """Say whether an edge has weight zero or leads to a state that the row's mask forbids."""
    if plan.log_weight[edge] == -np.inf:
        return True
    if plan.kind[node] == DECISION:
        v = plan.var[node]
        if row[v] == RESTRICTED:
            return not allowed[plan.offset[v] + edge - plan.child_ptr[node]]
    return False


@njit(cache=True, nogil=True)
def _combine(
    plan: Plan, ws: Workspace, node: int, row: CodeArray, allowed: IntArray, maximise: bool
) -> float:
    begin, end = edges(plan, node, row)
    if plan.kind[node] == PRODUCT:
        total = 0.0
        for e in range(begin, end):
            total += ws.value[plan.child[e]]
            if total == -np.inf:
                break  # later children may not have been computed
        return total
    top = -np.inf
    for e in range(begin, end):
        if not is_closed(plan, node, e, row, allowed):
            top = max(top, plan.log_weight[e] + ws.value[plan.child[e]])
    if maximise or top == -np.inf or end - begin == 1:
        return top
    total = 0.0
    for e in range(begin, end):
        if not is_closed(plan, node, e, row, allowed):
            total += np.exp(plan.log_weight[e] + ws.value[plan.child[e]] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, inline="always")
def begin_pass(ws: Workspace, complete: bool) -> None:
    """Forget the values of the last row; ``complete`` says that the next one has no unknowns."""
    ws.clock[0] += 1
    ws.clock[1] = 0
    ws.clock[3] = complete


@njit(cache=True, nogil=True, inline="always")
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
    clock = ws.clock[0]
    if ws.stamp[root] == clock:
        return ws.value[root]
    if plan.kind[root] >= INDICATOR:
        ws.value[root] = _input(plan, ws, root, row, allowed, value, maximise)
        ws.stamp[root] = clock
        ws.order[ws.clock[1]] = root
        ws.clock[1] += 1
        return ws.value[root]
    depth = 0
    ws.stack[0] = root
    ws.edge[0] = edges(plan, root, row)[0]
    while depth >= 0:
        node = ws.stack[depth]
        e = ws.edge[depth]
        end = edges(plan, node, row)[1]
        is_product = plan.kind[node] == PRODUCT
        pushed = False
        while e < end:
            if not is_closed(plan, node, e, row, allowed):
                child = plan.child[e]
                if ws.stamp[child] != clock:
                    if plan.kind[child] < INDICATOR:
                        ws.edge[depth] = e
                        depth += 1
                        ws.stack[depth] = child
                        ws.edge[depth] = edges(plan, child, row)[0]
                        pushed = True
                        break
                    ws.value[child] = _input(plan, ws, child, row, allowed, value, maximise)
                    ws.stamp[child] = clock
                    ws.order[ws.clock[1]] = child
                    ws.clock[1] += 1
                if is_product and ws.value[child] == -np.inf:
                    break
            e += 1
        if pushed:
            continue
        ws.value[node] = _combine(plan, ws, node, row, allowed, maximise)
        ws.stamp[node] = clock
        ws.order[ws.clock[1]] = node
        ws.clock[1] += 1
        depth -= 1
    return ws.value[root]


@njit(cache=True, nogil=True)
def shortcut(plan: Plan, node: int, row: CodeArray) -> tuple[int, float]:
    """Follow decisions on observed variables; return where they end and the log weight so far."""
    total = 0.0
    while plan.kind[node] == DECISION:
        state = row[plan.var[node]]
        if state >= RESTRICTED:
            break
        e = plan.child_ptr[node] + state
        total += plan.log_weight[e]
        node = plan.child[e]
    return node, total


@njit(cache=True, nogil=True)
def _complete_rows(
    plan: Plan,
    ws: Workspace,
    root: int,
    rows: CodeArray,
    unknown: IntArray,
    sorted_rows: IntArray,
    out: FloatArray,
) -> None:
    """Evaluate the complete rows that decisions lead from ``root`` straight to a junction leaf.

    The rows of a leaf are taken together. ``out`` of all other rows becomes NaN.
    """
    n = len(unknown)
    ws.clock[0] += 1
    clock = ws.clock[0]
    met = 0
    ends = sorted_rows[n:]
    for r in range(n):
        out[r] = np.nan
        ends[r] = -1
        if unknown[r] != 0:
            continue
        node, total = shortcut(plan, root, rows[r])
        if plan.kind[node] == JUNCTION:
            out[r] = total
            if ws.stamp[node] != clock:
                ws.stamp[node] = clock
                ws.order[met] = node
                ws.last_row[node] = -1
                met += 1
            ends[r] = ws.last_row[node]
            ws.last_row[node] = r
    for i in range(met):
        node = ws.order[i]
        count = 0
        r = ws.last_row[node]
        while r >= 0:
            sorted_rows[count] = r
            count += 1
            r = ends[r]
        leaf_rows(plan, node, rows, sorted_rows[:count], out)


@njit(cache=True, nogil=True, inline="always")
def _remaining(
    plan: Plan,
    ws: Workspace,
    nodes: IntArray,
    row: CodeArray,
    unknown: int,
    allowed: IntArray,
    value: FloatArray,
    maximise: bool,
    out: FloatArray,
) -> None:
    begin_pass(ws, unknown == 0)
    for i in range(len(nodes)):
        if not np.isnan(out[i]):
            continue
        if unknown < 0:
            out[i] = -np.inf
            continue
        node, total = shortcut(plan, nodes[i], row)
        if total > -np.inf:
            total += upward(plan, ws, node, row, allowed, value, maximise)
        out[i] = total


@njit(cache=True, nogil=True)
def evaluate(
    plan: Plan,
    ws: Workspace,
    nodes: IntArray,
    one_by_one: bool,
    rows: CodeArray,
    unknown: IntArray,
    allowed: IntArray,
    values: FloatArray,
    start: int,
    maximise: bool,
    out: FloatArray,
) -> None:
    """Write the log values of ``nodes`` for some rows to ``out[:, start:start + len(rows)]``.

    With ``one_by_one`` each node passes over a block of rows before the next one begins, which
    keeps the tables of one mixture component in the cache; otherwise the nodes share one pass per
    row. The numbers are the same.
    """
    scratch = np.empty(2 * BLOCK, dtype=np.int64)
    n = len(unknown)
    n_nodes = len(nodes)
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        for i in range(n_nodes):
            _complete_rows(
                plan,
                ws,
                nodes[i],
                rows[begin:end],
                unknown[begin:end],
                scratch,
                out[i, start + begin : start + end],
            )
            if one_by_one or i == n_nodes - 1:
                for r in range(begin, end):
                    if not np.isnan(out[i, start + r]) and (one_by_one or n_nodes == 1):
                        continue
                    _remaining(
                        plan,
                        ws,
                        nodes[i : i + 1] if one_by_one else nodes,
                        rows[r],
                        unknown[r],
                        allowed[start + r if len(allowed) > 1 else 0],
                        values[start + r if values.shape[1] else 0],
                        maximise,
                        out[i : i + 1, start + r] if one_by_one else out[:, start + r],
                    )


__all__ = [
    "BLOCK",
    "begin_pass",
    "edges",
    "evaluate",
    "is_closed",
    "read_rows",
    "shortcut",
    "upward",
]
