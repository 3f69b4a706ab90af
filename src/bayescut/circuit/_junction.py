"""Thin junction tree leaves, one row at a time.

A family (v, parents) hosted by an earlier family h sends it one number per parent assignment,

    message(pa) = Σ_x p(x | pa) · Π_{families hosted here} message(...),

over the states x of v that the evidence leaves (max instead of Σ for most probable explanations).
Families whose variables are all observed are one table look-up; those with nothing observed at or
below them send exactly 1 and are skipped. What remains is multiplied in linear space. A message
that falls below ``LOW`` is recomputed in logs and scaled to a maximum of 1; if its own entries lie
too far apart for that, the leaf is evaluated once more with all messages in logs. The answer is
exact to rounding in every case, and logs are rare: most rows need none.

Going down needs no messages: p(x | pa, evidence) ∝ p(x | pa) · Π message(...).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._kernels import inner
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    ABOVE,
    FIRST,
    HEAD,
    HOST,
    IN_LOGS,
    JOINT,
    LAST,
    LINK,
    MAXIMISE,
    MESSAGE,
    NONE,
    OFFSET,
    PARENT_ROWS,
    PARENT_STATES,
    PARENT_VAR,
    PARENTS,
    PARENTS_END,
    START,
    STATES,
    STRIDE,
    TABLE,
    TABLE_END,
    UP,
    UP_START,
    VAR,
    Plan,
    Workspace,
)

# Two factors of at least LOW multiply to a normal number (the smallest is 2.2e-308).
LOW = 1e-150
# exp(-SPREAD) > LOW: entries this far apart still fit one linear message.
SPREAD = 340.0
# The step of SplitMix64; each row has its own counter.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inner
def leaf_arrays(plan: Plan, node: int) -> Any:
    """Return the records and tables of one leaf."""
    at = plan.node[node]
    return (
        plan.family[at[FIRST] : at[LAST]],
        plan.parent[at[PARENT_ROWS] :],
        plan.up[at[UP_START] :],
        plan.table[at[TABLE] : at[TABLE_END]],
        plan.linear[at[TABLE] : at[TABLE_END]],
    )


@inner
def look_up(family: IntArray, parent: IntArray, table: FloatArray, a: CodeArray) -> float:
    """Log-probability of one complete row."""
    total = 0.0
    for f in range(len(family)):
        cell = family[f, START] + a[family[f, VAR]]
        for j in range(family[f, PARENTS], family[f, PARENTS_END]):
            cell += a[parent[j, PARENT_VAR]] * parent[j, STRIDE]
        total += table[cell]
    return total


@inner
def look_up_four(
    family: IntArray,
    parent: IntArray,
    table: FloatArray,
    a: CodeArray,
    b: CodeArray,
    c: CodeArray,
    d: CodeArray,
) -> tuple[float, float, float, float]:
    """Log-probabilities of four complete rows."""
    # One running sum alone would wait for the latency of each addition.
    sum_a = sum_b = sum_c = sum_d = 0.0
    for f in range(len(family)):
        start, v = family[f, START], family[f, VAR]
        cell_a, cell_b = start + a[v], start + b[v]
        cell_c, cell_d = start + c[v], start + d[v]
        for j in range(family[f, PARENTS], family[f, PARENTS_END]):
            p, stride = parent[j, PARENT_VAR], parent[j, STRIDE]
            cell_a += a[p] * stride
            cell_b += b[p] * stride
            cell_c += c[p] * stride
            cell_d += d[p] * stride
        sum_a += table[cell_a]
        sum_b += table[cell_b]
        sum_c += table[cell_c]
        sum_d += table[cell_d]
    return sum_a, sum_b, sum_c, sum_d


@inner
def leaf_row(plan: Plan, node: int, row: CodeArray) -> float:
    """Log-probability of one complete row."""
    family, parent, _, table, _ = leaf_arrays(plan, node)
    return look_up(family, parent, table, row)


@inner
def leaf_rows(
    plan: Plan,
    node: int,
    rows: CodeArray,
    which: IntArray,
    out_index: IntArray,
    out: FloatArray,
) -> None:
    """Write the log-probabilities of the complete rows ``which`` to ``out[out_index]``."""
    family, parent, _, table, _ = leaf_arrays(plan, node)
    i = 0
    while i + 4 <= len(which):
        a, b, c, d = which[i], which[i + 1], which[i + 2], which[i + 3]
        sum_a, sum_b, sum_c, sum_d = look_up_four(
            family, parent, table, rows[a], rows[b], rows[c], rows[d]
        )
        out[out_index[i]], out[out_index[i + 1]] = sum_a, sum_b
        out[out_index[i + 2]], out[out_index[i + 3]] = sum_c, sum_d
        i += 4
    while i < len(which):
        out[out_index[i]] = look_up(family, parent, table, rows[which[i]])
        i += 1


@inner
def _bases(parent: IntArray, begin: int, end: int, row: CodeArray, bases: IntArray) -> int:
    """List the bases of a family that the evidence leaves open; return how many there are."""
    base = np.uint32(0)
    for j in range(begin, end):
        state = row[parent[j, PARENT_VAR]]
        if state < RESTRICTED:
            base += state * parent[j, STRIDE]
    bases[0] = base
    n = 1
    for j in range(begin, end):
        if row[parent[j, PARENT_VAR]] >= RESTRICTED:
            stride = parent[j, STRIDE]
            more = n
            for s in range(np.uint64(1), np.uint64(parent[j, PARENT_STATES])):
                for i in range(n):
                    bases[more] = bases[i] + s * stride
                    more += 1
            n = more
    return n


@inner
def _log_cell(
    family: IntArray,
    up: IntArray,
    table: FloatArray,
    chain: IntArray,
    message: FloatArray,
    f: int,
    cell: int,
    in_logs: bool,
) -> float:
    """Log of p(cell) times the messages that family f has received for it."""
    total = table[family[f, START] + cell]
    g = chain[f, HEAD]
    while g != NONE:
        m = message[up[family[g, UP] + cell]]
        total += m if in_logs else np.log(m)
        g = chain[g, LINK]
    return total


@inner
def _log_terms(
    family: IntArray,
    up: IntArray,
    table: FloatArray,
    chain: IntArray,
    message: FloatArray,
    weight: FloatArray,
    f: int,
    base: int,
    state: int,
    allowed: IntArray,
    in_logs: bool,
) -> float:
    """Write the logs of the terms of one entry of a message to ``weight``; return the largest."""
    top = -np.inf
    for s in range(np.uint64(family[f, STATES])):
        weight[s] = -np.inf
        if state == s or state == MISSING:
            weight[s] = _log_cell(family, up, table, chain, message, f, base + s, in_logs)
        elif state == RESTRICTED and allowed[family[f, OFFSET] + s]:
            weight[s] = _log_cell(family, up, table, chain, message, f, base + s, in_logs)
        top = max(top, weight[s])
    return top


@inner
def _leaf_up(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
) -> float:
    """Log value of a leaf; leaves its messages in the workspace. NaN: do it again in logs."""
    family, parent, up, table, linear = leaf_arrays(plan, node)
    chain, message, bases, weight = ws.chain, ws.cell[MESSAGE], ws.base[0], ws.weight
    for f in range(len(family)):
        chain[f, HEAD] = NONE
    maximise, in_logs = ws.clock[MAXIMISE] != 0, ws.clock[IN_LOGS] != 0
    logs = 0.0
    product = 1.0
    for f in range(len(family) - 1, -1, -1):
        start = family[f, START]
        state = np.uint64(row[family[f, VAR]])
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        is_open = False
        base = np.uint64(0)
        for j in range(begin, end):
            parent_state = row[parent[j, PARENT_VAR]]
            is_open = is_open or parent_state >= RESTRICTED
            base += parent_state * parent[j, STRIDE]
        if state < RESTRICTED and not is_open:
            logs += table[start + base + state]
            continue
        sender = chain[f, HEAD]
        if state == MISSING and sender == NONE and not maximise:
            continue
        bases[0] = base
        n = 1
        if is_open:
            n = _bases(parent, begin, end, row, bases)
        low, high = state, state + np.uint64(1)
        if state >= RESTRICTED:
            low, high = np.uint64(0), np.uint64(family[f, STATES])
        smallest = np.inf
        total = 0.0
        if not in_logs:
            for i in range(n):
                base = np.uint64(bases[i])
                total = 0.0
                for s in range(low, high):
                    if state == RESTRICTED and not allowed[family[f, OFFSET] + s]:
                        continue
                    term = linear[start + base + s]
                    g = sender
                    while g != NONE:
                        term *= message[up[family[g, UP] + base + s]]
                        g = chain[g, LINK]
                    if maximise:
                        total = max(total, term)
                    else:
                        total += term
                message[start + base] = total
                smallest = min(smallest, total)
        if in_logs or smallest < LOW:
            top = -np.inf
            bottom = np.inf
            for i in range(n):
                base = np.uint64(bases[i])
                entry = _log_terms(
                    family, up, table, chain, message, weight, f, base, state, allowed, in_logs
                )
                if not maximise and entry > -np.inf:
                    total = 0.0
                    for s in range(np.uint64(family[f, STATES])):
                        total += np.exp(weight[s] - entry)
                    entry += np.log(total)
                message[start + base] = entry
                top = max(top, entry)
                if entry > -np.inf:
                    bottom = min(bottom, entry)
            if top == -np.inf:
                return -np.inf
            if not is_open:
                logs += top
                continue
            if not in_logs:
                if top - bottom > SPREAD:
                    return np.nan
                logs += top
                for i in range(n):
                    at = start + bases[i]
                    message[at] = np.exp(message[at] - top)
        elif not is_open:
            product *= total
            if product < LOW:
                logs += np.log(product)
                product = 1.0
            continue
        host = family[f, HOST]
        chain[f, LINK] = chain[host, HEAD]
        chain[host, HEAD] = f
    return logs + np.log(product)


@inner
def leaf_value(plan: Plan, ws: Workspace, node: int, row: CodeArray, allowed: IntArray) -> float:
    """Log value of a leaf under any evidence."""
    value = np.nan
    for in_logs in range(2):
        if np.isnan(value):
            ws.clock[IN_LOGS] = in_logs
            value = _leaf_up(plan, ws, node, row, allowed)
    return value


@inner
def uniform(state: Any) -> float:
    """Turn a 64-bit counter into a number in [0, 1) as SplitMix64 does."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def _exponentials(weight: FloatArray, n: int, top: float) -> float:
    """Replace logs by numbers in proportion to their exponentials; return the sum of these."""
    total = 0.0
    for s in range(n):
        weight[s] = np.exp(weight[s] - top) if top > -np.inf else 0.0
        total += weight[s]
    return total


@inner
def leaf_path(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    random: IntArray,
) -> None:
    """Fill in the variables of a leaf whose messages lie in the workspace, parents first.

    Each variable gets its most probable state if sums are maxima, otherwise a draw.
    """
    family, parent, up, table, linear = leaf_arrays(plan, node)
    chain, message, weight = ws.chain, ws.cell[MESSAGE], ws.weight
    maximise, in_logs = ws.clock[MAXIMISE] != 0, ws.clock[IN_LOGS] != 0
    for f in range(len(family)):
        v = family[f, VAR]
        state = np.uint64(row[v])
        if state < RESTRICTED:
            continue
        base = np.uint64(0)
        for j in range(family[f, PARENTS], family[f, PARENTS_END]):
            base += row[parent[j, PARENT_VAR]] * parent[j, STRIDE]
        start = family[f, START]
        n_states = np.uint64(family[f, STATES])
        total = 0.0
        if not in_logs:
            for s in range(n_states):
                term = 0.0
                if state == MISSING or allowed[family[f, OFFSET] + s]:
                    term = linear[start + base + s]
                    g = chain[f, HEAD]
                    while g != NONE:
                        term *= message[up[family[g, UP] + base + s]]
                        g = chain[g, LINK]
                weight[s] = term
                total += term
        if total < LOW:
            top = _log_terms(
                family, up, table, chain, message, weight, f, base, state, allowed, in_logs
            )
            total = _exponentials(weight, np.int64(n_states), top)
        chosen: Any = np.uint64(0)
        if maximise:
            for s in range(n_states):
                if weight[s] > weight[chosen]:
                    chosen = s
        else:
            random[0] += GOLDEN
            rest = uniform(random[0]) * total
            for s in range(n_states):
                if weight[s] > 0.0:
                    chosen = s
                    rest -= weight[s]
                    if rest < 0.0:
                        break
        row[v] = chosen


@inner
def leaf_joint(
    plan: Plan,
    ws: Workspace,
    node: int,
    row: CodeArray,
    allowed: IntArray,
    flow: float,
    marginal: FloatArray,
    table_flow: FloatArray,
) -> None:
    """Add ``flow`` times the posterior of every family of a leaf to the marginals or the counts.

    Either output is left alone if it has no entries. The messages lie in the workspace.
    """
    family, parent, up, table, linear = leaf_arrays(plan, node)
    chain, message, weight = ws.chain, ws.cell[MESSAGE], ws.weight
    joint, above = ws.cell[JOINT], ws.cell[ABOVE]
    bases, host_bases = ws.base[0], ws.base[1]
    in_logs = ws.clock[IN_LOGS] != 0
    want_marginal, want_flow = len(marginal) > 0, len(table_flow) > 0
    cells = np.uint64(plan.node[node, TABLE])
    for f in range(len(family)):
        state = np.uint64(row[family[f, VAR]])
        start = np.uint64(family[f, START])
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        is_open = False
        base = np.uint64(0)
        for j in range(begin, end):
            parent_state = row[parent[j, PARENT_VAR]]
            is_open = is_open or parent_state >= RESTRICTED
            base += parent_state * parent[j, STRIDE]
        n = 1
        bases[0] = base
        if not is_open:
            above[start + base] = 1.0
            if state < RESTRICTED:
                joint[start + base + state] = 1.0
                if want_flow:
                    table_flow[cells + start + base + state] += flow
                continue
        else:
            n = _bases(parent, begin, end, row, bases)
            for i in range(n):
                above[start + bases[i]] = 0.0
            h = family[f, HOST]
            low = np.uint64(row[family[h, VAR]])
            high = low + np.uint64(1)
            if low >= RESTRICTED:
                low, high = np.uint64(0), np.uint64(family[h, STATES])
            m = _bases(parent, family[h, PARENTS], family[h, PARENTS_END], row, host_bases)
            for i in range(m):
                for s in range(low, high):
                    cell = host_bases[i] + s
                    above[up[family[f, UP] + cell]] += joint[family[h, START] + cell]
        n_states = np.uint64(family[f, STATES])
        for i in range(n):
            base = np.uint64(bases[i])
            p = above[start + base]
            if state < RESTRICTED:
                joint[start + base + state] = p
                if want_flow:
                    table_flow[cells + start + base + state] += flow * p
                continue
            total = 0.0
            if not in_logs:
                for s in range(n_states):
                    term = 0.0
                    if state == MISSING or allowed[family[f, OFFSET] + s]:
                        term = linear[start + base + s]
                        g = chain[f, HEAD]
                        while g != NONE:
                            term *= message[up[family[g, UP] + base + s]]
                            g = chain[g, LINK]
                    weight[s] = term
                    total += term
            if total < LOW and p > 0.0:
                top = _log_terms(
                    family, up, table, chain, message, weight, f, base, state, allowed, in_logs
                )
                total = _exponentials(weight, np.int64(n_states), top)
            for s in range(n_states):
                q = p * (weight[s] / total) if p > 0.0 and total > 0.0 else 0.0
                joint[start + base + s] = q
                if want_marginal:
                    marginal[family[f, OFFSET] + s] += flow * q
                if want_flow:
                    table_flow[cells + start + base + s] += flow * q
