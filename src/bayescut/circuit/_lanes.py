"""A junction leaf for many rows at once, each row in its own lane.

The messages are those of :mod:`bayescut.circuit._junction`, but for every assignment of the
parents, whether it agrees with the evidence or not: no branch depends on a row, and the loops over
the lanes become vector instructions. A message whose entries fall below ``SMALL`` is scaled; a row
that would lose precision is given up (NaN) and evaluated on its own. No lane ever looks at another
one, so that an answer does not depend on the rows beside it.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_arrays
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    HEAD,
    HOST,
    LINK,
    LOGS,
    NONE,
    OFFSET,
    PARENT_STATES,
    PARENT_VAR,
    PARENTS,
    PARENTS_END,
    PRODUCT_SO_FAR,
    START,
    STATES,
    TABLE,
    TERM,
    UP,
    VAR,
    Lanes,
    Plan,
)

SMALL = 1e-30  # ten messages of this size multiply to a normal number
TINY = 1e-250  # below this, products may have lost digits


@inner
def _agrees(parent: IntArray, begin: int, end: int, base: int, row: CodeArray) -> bool:
    """Say whether an assignment of the parents, given by its number, agrees with a row."""
    number = np.int64(base)
    for j in range(end, begin, -1):
        k = np.int64(parent[j - 1, PARENT_STATES])
        state = np.int64(row[parent[j - 1, PARENT_VAR]])
        if state < RESTRICTED and state != number % k:
            return False
        number //= k
    return True


@inner
def _scale(
    message: FloatArray,
    logs: FloatArray,
    parent: IntArray,
    begin: int,
    end: int,
    n_states: int,
    rows: CodeArray,
    which: IntArray,
) -> None:
    """Bring the small entries of one family's messages back to a safe size, lane by lane."""
    n_bases = len(message) // n_states
    for r in range(len(which)):
        top, low = 0.0, np.inf
        for b in range(n_bases):
            top = max(top, message[b * n_states, r])
            low = min(low, message[b * n_states, r])
        if low >= SMALL:
            continue
        # Entries that contradict the row may be as small as they like.
        top, low = 0.0, np.inf
        for b in range(n_bases):
            if _agrees(parent, begin, end, b, rows[which[r]]):
                top = max(top, message[b * n_states, r])
                low = min(low, message[b * n_states, r])
            else:
                message[b * n_states, r] = 0.0
        if top < TINY or low < SMALL * top:
            logs[r] = np.nan
        elif top < SMALL:
            logs[r] += np.log(top)
            for b in range(n_bases):
                message[b * n_states, r] /= top


@inner
def leaf_lanes(
    plan: Plan,
    lanes: Lanes,
    node: int,
    rows: CodeArray,
    which: IntArray,
    maximise: bool,
    out_index: IntArray,
    out: FloatArray,
) -> None:
    """Write the log values of a leaf for at most LANES rows to ``out[out_index]``.

    Unknown variables must be wholly unknown. NaN: the row has to be evaluated on its own. The
    messages are left in ``lanes``.
    """
    family, parent, up, _, linear = leaf_arrays(plan, node)
    n = len(which)
    chain, state, message, possibles = lanes.chain, lanes.state, lanes.message, lanes.possible
    term, product, logs = lanes.number[TERM], lanes.number[PRODUCT_SO_FAR], lanes.number[LOGS]
    for f in range(len(family)):
        chain[f, HEAD] = NONE
    for r in range(n):
        product[r] = 1.0
        logs[r] = 0.0
    for f in range(len(family) - 1, -1, -1):
        v = family[f, VAR]
        n_states = np.uint64(family[f, STATES])
        start = family[f, START]
        for r in range(n):
            state[r] = rows[which[r], v]
        for s in range(n_states):
            possible = possibles[s]
            wanted = np.uint16(s)
            for r in range(n):
                possible[r] = 1.0 if (state[r] == wanted) | (state[r] == MISSING) else 0.0
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        n_cells = n_states
        for j in range(begin, end):
            n_cells *= np.uint64(parent[j, PARENT_STATES])
        sender = chain[f, HEAD]
        n_small = 0
        for base in range(np.uint64(0), n_cells, n_states):
            total = message[start + base]
            for r in range(n):
                total[r] = 0.0
            for s in range(n_states):
                p = linear[start + base + s]
                possible = possibles[s]
                for r in range(n):
                    term[r] = p * possible[r]
                g = sender
                while g != NONE:
                    received = message[up[family[g, UP] + base + s]]
                    for r in range(n):
                        term[r] *= received[r]
                    g = chain[g, LINK]
                if maximise:
                    for r in range(n):
                        total[r] = max(total[r], term[r])
                else:
                    for r in range(n):
                        total[r] += term[r]
            for r in range(n):
                n_small += total[r] < SMALL
        if n_small > 0:
            _scale(
                message[start : start + n_cells],
                logs,
                parent,
                begin,
                end,
                np.int64(n_states),
                rows,
                which,
            )
        if begin == end:
            total = message[start]
            n_small = 0
            for r in range(n):
                product[r] *= total[r]
                n_small += product[r] < SMALL
            if n_small > 0:
                for r in range(n):
                    if product[r] < SMALL:
                        logs[r] += np.log(product[r])
                        product[r] = 1.0
        else:
            host = family[f, HOST]
            chain[f, LINK] = chain[host, HEAD]
            chain[host, HEAD] = f
    for r in range(n):
        out[out_index[r]] = logs[r] + np.log(product[r])


@inner
def leaf_lanes_joint(
    plan: Plan,
    lanes: Lanes,
    node: int,
    rows: CodeArray,
    which: IntArray,
    flow: FloatArray,
    want_marginal: bool,
    table_flow: FloatArray,
) -> None:
    """Add the posteriors of a leaf's families, times each row's flow, to marginals or counts.

    :func:`leaf_lanes` has left the messages of the same rows. Marginals are added to
    ``lanes.posterior``; counts with no entries are left alone.
    """
    family, parent, up, _, linear = leaf_arrays(plan, node)
    n = len(which)
    chain, state, message, possibles = lanes.chain, lanes.state, lanes.message, lanes.possible
    joint, sums, posterior = lanes.joint, lanes.sums, lanes.posterior
    total = lanes.number[TERM]
    cells = np.uint64(plan.node[node, TABLE])
    want_flow = len(table_flow) > 0
    for f in range(len(family)):
        v = family[f, VAR]
        n_states = np.uint64(family[f, STATES])
        start = np.uint64(family[f, START])
        for r in range(n):
            state[r] = rows[which[r], v]
        for s in range(n_states):
            possible = possibles[s]
            wanted = np.uint16(s)
            for r in range(n):
                possible[r] = 1.0 if (state[r] == wanted) | (state[r] == MISSING) else 0.0
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        n_cells = n_states
        for j in range(begin, end):
            n_cells *= np.uint64(parent[j, PARENT_STATES])
        # The posterior of the parents is a margin of the host's.
        for base in range(np.uint64(0), n_cells, n_states):
            above = sums[base]
            for r in range(n):
                above[r] = 0.0 if begin < end else 1.0
        if begin < end:
            h = family[f, HOST]
            n_host_cells = np.uint64(family[h, STATES])
            for j in range(family[h, PARENTS], family[h, PARENTS_END]):
                n_host_cells *= np.uint64(parent[j, PARENT_STATES])
            for cell in range(n_host_cells):
                above = sums[up[family[f, UP] + cell] - start]
                given = joint[family[h, START] + cell]
                for r in range(n):
                    above[r] += given[r]
        for base in range(np.uint64(0), n_cells, n_states):
            above = sums[base]
            for r in range(n):
                total[r] = 0.0
            for s in range(n_states):
                p = linear[start + base + s]
                possible = possibles[s]
                term = joint[start + base + s]
                for r in range(n):
                    term[r] = p * possible[r]
                g = chain[f, HEAD]
                while g != NONE:
                    received = message[up[family[g, UP] + base + s]]
                    for r in range(n):
                        term[r] *= received[r]
                    g = chain[g, LINK]
                for r in range(n):
                    total[r] += term[r]
            for r in range(n):
                total[r] = above[r] / total[r] if total[r] > 0.0 else 0.0
            for s in range(n_states):
                term = joint[start + base + s]
                for r in range(n):
                    term[r] *= total[r]
        if want_flow:
            for cell in range(n_cells):
                given = joint[start + cell]
                expected = 0.0
                for r in range(n):
                    expected += flow[r] * given[r]
                table_flow[cells + start + cell] += expected
        if want_marginal:
            for s in range(n_states):
                for r in range(n):
                    total[r] = 0.0
                for base in range(np.uint64(0), n_cells, n_states):
                    given = joint[start + base + s]
                    for r in range(n):
                        total[r] += given[r]
                column = family[f, OFFSET] + s
                for r in range(n):
                    share = flow[r] if state[r] == MISSING else 0.0
                    posterior[column, which[r]] += share * total[r]


@inner
def tree_lanes_joint(
    plan: Plan,
    lanes: Lanes,
    node: int,
    rows: CodeArray,
    which: IntArray,
    flow: FloatArray,
    want_marginal: bool,
    table_flow: FloatArray,
) -> None:
    """`leaf_lanes_joint` of a tree of binary variables, in one pass over the lanes of a family.

    What a variable receives depends on its own state only, and the posterior of its parent is that
    of its host: 6 ns per row and variable instead of 13 (a tree of 908).
    """
    family, _, up, _, linear = leaf_arrays(plan, node)
    n = len(which)
    chain, message, belief, state = lanes.chain, lanes.message, lanes.possible, lanes.state
    posterior = lanes.posterior
    above_a, above_b = lanes.number[TERM], lanes.number[PRODUCT_SO_FAR]
    cells = np.uint64(plan.node[node, TABLE])
    want_flow = len(table_flow) > 0
    for f in range(len(family)):
        v = family[f, VAR]
        start = np.uint64(family[f, START])
        for r in range(n):
            state[r] = rows[which[r], v]
        for r in range(n):
            belief[0, r] = 1.0 if (state[r] == 0) | (state[r] == MISSING) else 0.0
            belief[1, r] = 1.0 if (state[r] == 1) | (state[r] == MISSING) else 0.0
        g = chain[f, HEAD]
        while g != NONE:
            off, on = up[family[g, UP]], up[family[g, UP] + 1]
            for r in range(n):
                belief[0, r] *= message[off, r]
                belief[1, r] *= message[on, r]
            g = chain[g, LINK]
        # The host has read the messages of this family: its posterior takes their place.
        a0, a1 = linear[start], linear[start + 1]
        one = start + 1
        if family[f, PARENTS] == family[f, PARENTS_END]:
            for r in range(n):
                total = a0 * belief[0, r] + a1 * belief[1, r]
                above_a[r] = 1.0 / total if total > 0.0 else 0.0
                message[start, r] = a0 * belief[0, r] * above_a[r]
                message[one, r] = a1 * belief[1, r] * above_a[r]
        else:
            one = start + 2
            h = family[f, HOST]
            host = np.uint64(family[h, START])
            host_one = host + (1 if family[h, PARENTS] == family[h, PARENTS_END] else 2)
            b0, b1 = linear[start + 2], linear[start + 3]
            for r in range(n):
                above_a[r], above_b[r] = message[host, r], message[host_one, r]
            for r in range(n):
                x0, x1 = belief[0, r], belief[1, r]
                total_a = a0 * x0 + a1 * x1
                total_b = b0 * x0 + b1 * x1
                in_a = above_a[r] / total_a if total_a > 0.0 else 0.0
                in_b = above_b[r] / total_b if total_b > 0.0 else 0.0
                message[start, r] = x0 * (a0 * in_a + b0 * in_b)
                message[one, r] = x1 * (a1 * in_a + b1 * in_b)
                above_a[r], above_b[r] = in_a, in_b
            if want_flow:
                flow0 = flow1 = 0.0
                for r in range(n):
                    flow0 += flow[r] * above_b[r] * belief[0, r]
                    flow1 += flow[r] * above_b[r] * belief[1, r]
                table_flow[cells + start + 2] += b0 * flow0
                table_flow[cells + start + 3] += b1 * flow1
        if want_flow:
            flow0 = flow1 = 0.0
            for r in range(n):
                flow0 += flow[r] * above_a[r] * belief[0, r]
                flow1 += flow[r] * above_a[r] * belief[1, r]
            table_flow[cells + start] += a0 * flow0
            table_flow[cells + start + 1] += a1 * flow1
        if want_marginal:
            column = family[f, OFFSET]
            for r in range(n):
                share = flow[r] if state[r] == MISSING else 0.0
                posterior[column, which[r]] += share * message[start, r]
                posterior[column + 1, which[r]] += share * message[one, r]
