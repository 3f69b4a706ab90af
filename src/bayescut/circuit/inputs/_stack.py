"""Junction leaves of one structure for one row, each leaf in its own lane.

Only cells that agree with the row are visited, and each is found once for all leaves: families
whose variables are all observed are one look-up, those with nothing observed at or below them send
exactly 1 and are skipped. What remains is multiplied in linear space (messages as in
:mod:`bayescut.circuit.inputs._rows`); a lane in which a message falls below ``LOW`` is given up
(NaN) and evaluated in logs. A wide leaf that stands alone is a stack of one.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, merged
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    CELLS,
    HOST,
    N_LANES,
    NONE,
    PARENTS,
    PARENTS_END,
    STACK,
    START,
    STATES,
    TABLE,
    UP,
    VAR,
    VAR_OFFSET,
    VIEW,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._families import (
    add_posterior,
    leaf_arrays,
    list_bases,
    open_view,
    parent_base,
    seen,
    slot_of,
    weigh_states,
)
from bayescut.circuit.inputs._scratch import (
    BEST,
    FLOW,
    HEAD,
    LINK,
    LOGS,
    PRODUCT_SO_FAR,
    TERM,
    TOTAL,
    LeafLanes,
    Sinks,
    pick,
)

# Two factors of at least LOW multiply to a normal number (the smallest is 2.2e-308).
LOW = 1e-150


@inner
def stack_of(plan: Leaves, node: int) -> IntArray:
    """The leaves of the stack whose first one is given; itself if it stands alone."""
    k = plan.node[node, STACK]
    if k < 0:
        alone = np.empty(1, dtype=np.int64)
        alone[0] = node
        return alone
    return plan.stack_node[plan.stack_ptr[k] : plan.stack_ptr[k + 1]].copy()


@inner
def stack_look_up(
    plan: Leaves, row: CodeArray, node: int, low: int, n: int, out: FloatArray
) -> None:
    """Write the log-probabilities of a complete row in lanes ``low`` to ``low + n``."""
    family, parent, _ = leaf_arrays(plan, node)
    table = plan.table
    first, lanes = plan.node[node, TABLE] + low, plan.node[node, N_LANES]
    for k in range(n):
        out[k] = 0.0
    for f in range(len(family)):
        state = np.int64(row[family[f, VAR]])
        local = seen(plan, family[f, VIEW], state)
        base, _, excluded = parent_base(
            plan, parent, family[f, PARENTS], family[f, PARENTS_END], row
        )
        if local < 0 or excluded:
            for k in range(n):
                out[k] = -np.inf
            return
        at = first + (np.int64(family[f, START]) + np.int64(base) + local) * lanes
        for k in range(n):
            out[k] += table[at + k]
        if family[f, VIEW] != NONE:
            share = plan.view_share[np.int64(family[f, VIEW]) + state]
            for k in range(n):
                out[k] += share


@merged
def _add_cell(
    plan: Leaves,
    ws: LeafLanes,
    family: IntArray,
    up: IntArray,
    f: int,
    cell: int,
    at: int,
    weight: float,
    n: int,
    out: FloatArray,
    to: int,
    total: FloatArray,
    total_at: int,
) -> None:
    """Write weight · p(cell) · Π messages of every lane to ``out[to:]`` and add it to ``total``.

    One loop over the lanes for a cell with up to two messages: with a loop for each factor, half
    of the time would go into starting loops.
    """
    linear, message, links = plan.stack_linear, ws.message, ws.links
    g = links[f, HEAD]
    if g == NONE:
        for k in range(n):
            x = weight * linear[at + k]
            out[to + k] = x
            total[total_at + k] += x
        return
    first = np.int64(up[np.int64(family[g, UP]) + cell]) * n
    g = links[g, LINK]
    if g == NONE:
        for k in range(n):
            x = weight * linear[at + k] * message[first + k]
            out[to + k] = x
            total[total_at + k] += x
        return
    second = np.int64(up[np.int64(family[g, UP]) + cell]) * n
    g = links[g, LINK]
    if g == NONE:
        for k in range(n):
            x = weight * linear[at + k] * message[first + k] * message[second + k]
            out[to + k] = x
            total[total_at + k] += x
        return
    for k in range(n):
        out[to + k] = weight * linear[at + k] * message[first + k] * message[second + k]
    while g != NONE:
        first = np.int64(up[np.int64(family[g, UP]) + cell]) * n
        for k in range(n):
            out[to + k] *= message[first + k]
        g = links[g, LINK]
    for k in range(n):
        total[total_at + k] += out[to + k]


@inner
def stack_up(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    low: int,
    n: int,
    maximise: bool,
    weight: FloatArray,
    out: FloatArray,
) -> None:
    """Write the log values of lanes ``low`` to ``low + n`` for row r; NaN: to be done in logs.

    The messages are left in the scratch memory.
    """
    family, parent, up = leaf_arrays(plan, node)
    links, message, bases = ws.links, ws.message, ws.bases[0]
    term, product, logs = ws.number[TERM], ws.number[PRODUCT_SO_FAR], ws.number[LOGS]
    total, best = ws.number[TOTAL], ws.number[BEST]
    table = plan.table
    first, lanes = plan.node[node, TABLE] + low, plan.node[node, N_LANES]
    row = block.states[r]
    for f in range(len(family)):
        links[f, HEAD] = NONE
    for k in range(n):
        product[k] = 1.0
        logs[k] = 0.0
    for f in range(len(family) - 1, -1, -1):
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        start, n_states = np.int64(family[f, START]), np.int64(family[f, STATES])
        state = np.int64(row[family[f, VAR]])
        base, is_open, excluded = parent_base(plan, parent, begin, end, row)
        local = seen(plan, family[f, VIEW], state)
        if excluded or local == -1:
            for k in range(n):
                out[k] = -np.inf
            return
        if local >= 0 and not is_open:
            at = first + (start + np.int64(base) + local) * lanes
            for k in range(n):
                logs[k] += table[at + k]
            if family[f, VIEW] != NONE:
                share = plan.view_share[np.int64(family[f, VIEW]) + state]
                for k in range(n):
                    logs[k] += share
            continue
        if state == MISSING and links[f, HEAD] == NONE and not maximise:
            continue
        m = 1
        bases[0] = base
        if is_open:
            m = list_bases(plan, parent, begin, end, row, bases)
        low_state, high_state = local, local + 1
        if local < 0:
            low_state, high_state = np.int64(0), n_states
        weigh_states(plan, block, r, family, f, maximise, weight)
        smallest = np.inf
        for i in range(m):
            place = slot_of(plan, node, f, bases[i]) * n
            for k in range(n):
                total[k] = 0.0
                best[k] = 0.0
            for s in range(low_state, high_state):
                if weight[s] == 0.0:
                    continue
                cell = np.int64(bases[i]) + s
                at = first + (start + cell) * lanes
                _add_cell(plan, ws, family, up, f, cell, at, weight[s], n, term, 0, total, 0)
                if maximise:
                    for k in range(n):
                        best[k] = max(best[k], term[k])
            for k in range(n):
                x = best[k] if maximise else total[k]
                message[place + k] = x
                smallest = min(smallest, x)
        if smallest < LOW:
            # An entry may be 0 because one of its factors is; logs tell that from an underflow.
            for k in range(n):
                for i in range(m):
                    if message[slot_of(plan, node, f, bases[i]) * n + k] < LOW:
                        logs[k] = np.nan
        if is_open:
            host = family[f, HOST]
            links[f, LINK] = links[host, HEAD]
            links[host, HEAD] = f
            continue
        place = slot_of(plan, node, f, base) * n
        n_small = 0
        for k in range(n):
            product[k] *= message[place + k]
            n_small += product[k] < LOW
        if n_small > 0:
            for k in range(n):
                if product[k] < LOW:
                    logs[k] += np.log(product[k])
                    product[k] = 1.0
    for k in range(n):
        out[k] = logs[k] + np.log(product[k])


@inner
def stack_posterior(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    leaves: IntArray,
    r: int,
    low: int,
    n: int,
    weight: FloatArray,
    sinks: Sinks,
) -> None:
    """Add the posteriors of row r's families in lanes ``low`` to ``low + n``.

    The flow of every lane is in ``ws.number[FLOW]``; :func:`stack_up` has left the messages.
    ``leaves`` are the nodes in these lanes.
    """
    family, parent, up = leaf_arrays(plan, node)
    bases, host_bases = ws.bases[0], ws.bases[1]
    joint, above, total, flow = ws.joint, ws.above, ws.number[TOTAL], ws.number[FLOW]
    first, lanes = plan.node[node, TABLE] + low, plan.node[node, N_LANES]
    want_flow, want_posterior = len(sinks.tables) > 0, len(sinks.posterior) > 0
    row = block.states[r]
    for f in range(len(family)):
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        start, n_states = np.int64(family[f, START]), np.int64(family[f, STATES])
        state = np.int64(row[family[f, VAR]])
        base, is_open, _ = parent_base(plan, parent, begin, end, row)
        local = seen(plan, family[f, VIEW], state)
        low_state, high_state = local, local + 1
        if local < 0:
            low_state, high_state = np.int64(0), n_states
        m = 1
        bases[0] = base
        if not is_open:
            at = slot_of(plan, node, f, base) * n
            for k in range(n):
                above[at + k] = 1.0
        else:
            m = list_bases(plan, parent, begin, end, row, bases)
            for i in range(m):
                at = slot_of(plan, node, f, bases[i]) * n
                for k in range(n):
                    above[at + k] = 0.0
            h = family[f, HOST]
            host_start = np.int64(family[h, START])
            host_local = seen(plan, family[h, VIEW], np.int64(row[family[h, VAR]]))
            host_low, host_high = host_local, host_local + 1
            if host_local < 0:
                host_low, host_high = np.int64(0), np.int64(family[h, STATES])
            for i in range(
                list_bases(
                    plan, parent, family[h, PARENTS], family[h, PARENTS_END], row, host_bases
                )
            ):
                for s in range(host_low, host_high):
                    cell = np.int64(host_bases[i]) + s
                    to = np.int64(up[np.int64(family[f, UP]) + cell]) * n
                    given = (host_start + cell) * n
                    for k in range(n):
                        above[to + k] += joint[given + k]
        if local < 0:
            weigh_states(plan, block, r, family, f, False, weight)
        plain = family[f, VIEW] == NONE
        column = plan.variable[family[f, VAR], VAR_OFFSET]
        for i in range(m):
            base = np.uint64(bases[i])
            to = slot_of(plan, node, f, base) * n
            if local >= 0:
                # What is observed takes all that reaches it.
                at = (start + np.int64(base) + local) * n
                for k in range(n):
                    joint[at + k] = above[to + k]
            else:
                for k in range(n):
                    total[k] = 0.0
                for s in range(low_state, high_state):
                    cell = np.int64(base) + s
                    place = (start + cell) * n
                    at = first + (start + cell) * lanes
                    _add_cell(
                        plan, ws, family, up, f, cell, at, weight[s], n, joint, place, total, 0
                    )
                for k in range(n):
                    total[k] = above[to + k] / total[k] if total[k] > 0.0 else 0.0
                for s in range(low_state, high_state):
                    place = (start + np.int64(base) + s) * n
                    expected = 0.0
                    for k in range(n):
                        joint[place + k] *= total[k]
                        expected += flow[k] * joint[place + k]
                    if want_posterior and plain:
                        sinks.posterior[column + s, r] += expected
                    elif want_posterior and expected > 0.0:
                        add_posterior(
                            plan, block, r, family, f, s, weight[s], expected, sinks.posterior
                        )
            if want_flow:
                for s in range(low_state, high_state):
                    place = (start + np.int64(base) + s) * n
                    cell = start + np.int64(base) + s
                    for k in range(n):
                        sinks.tables[plan.node[leaves[k], CELLS] + cell] += (
                            flow[k] * joint[place + k]
                        )


@inner
def stack_fill(
    plan: Leaves,
    ws: LeafLanes,
    block: Block,
    node: int,
    r: int,
    lane: int,
    maximise: bool,
    weight: FloatArray,
    random: IntArray,
) -> None:
    """Fill in the variables of the leaf in one lane; :func:`stack_up` has left its messages."""
    family, parent, up = leaf_arrays(plan, node)
    row, lanes = block.states[r], plan.node[node, N_LANES]
    first = plan.node[node, TABLE] + lane
    for f in range(len(family)):
        v = family[f, VAR]
        if row[v] < RESTRICTED:
            continue
        base, _, _ = parent_base(plan, parent, family[f, PARENTS], family[f, PARENTS_END], row)
        n_states = np.int64(family[f, STATES])
        weigh_states(plan, block, r, family, f, maximise, weight)
        total = 0.0
        for s in range(n_states):
            cell = np.int64(base) + s
            x = weight[s]
            if x > 0.0:
                x *= plan.stack_linear[first + (np.int64(family[f, START]) + cell) * lanes]
                g = ws.links[f, HEAD]
                while g != NONE:
                    x *= ws.message[up[np.int64(family[g, UP]) + cell]]
                    g = ws.links[g, LINK]
            weight[s] = x
            total += x
        local = pick(weight, n_states, total, maximise, random, r)
        row[v] = open_view(plan, block, r, family, f, local, maximise, random)
