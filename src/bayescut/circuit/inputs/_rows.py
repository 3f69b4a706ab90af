"""A junction leaf for many rows at once, each row in its own lane.

A family (v, parents) hosted by an earlier family h sends it one number per parent assignment,

    message(pa) = Σ_x p(x | pa) · Π_{families hosted here} message(...),

over the states x of v, each as far as the evidence leaves it (max instead of Σ for most probable
explanations). Here every assignment of the parents is worked out, whether it agrees with the
evidence or not: no branch depends on a row, and the loops over the lanes become vector
instructions: 0.1 ns per row and cell of a large table. A message whose entries fall below ``SMALL``
is scaled; a row that would lose precision is given up (NaN) and evaluated in logs. No lane ever
looks at another one, so that an answer does not depend on the rows beside it.

Most families speak of their host's own variable alone. Their messages are gathered once for all
assignments of the host's parents (its *belief*); the others, if any, are multiplied cell by cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._kernels import inner, merged
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    BASES,
    CELLS,
    FIRST,
    HOST,
    NONE,
    OWN,
    PARENT_STATES,
    PARENT_VAR,
    PARENT_VIEW,
    PARENTS,
    PARENTS_END,
    SLOT,
    START,
    STATES,
    UP,
    VAR,
    VAR_OFFSET,
    VIEW,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._families import (
    OPEN,
    leaf_arrays,
    seen,
    weigh_states,
)
from bayescut.circuit.inputs._scratch import (
    HEAD,
    LINK,
    LOCAL,
    LOGS,
    PRODUCT_SO_FAR,
    SCALED,
    SHARE,
    RowLanes,
)

SMALL = 1e-30  # ten messages of this size multiply to a normal number
TINY = 1e-250  # below this, products may have lost digits


# Handing over a tuple of arrays, taking an array out of one, or a line out of an array counts a
# reference, atomically, 10 ns each time. What every family calls takes plain arrays and indexes
# both axes: weighing took 137 ns for a binary family and 64 rows before, 40 so.


@merged
def read_states(columns: IntArray, v: Any, which: IntArray, state: IntArray) -> None:
    """Write the state of a variable in each row."""
    n = len(which)
    first = np.uint64(which[0])
    if which[n - 1] - which[0] == n - 1:
        for r in range(np.uint64(n)):
            state[r] = columns[v, first + r]
    else:
        for r in range(n):
            state[r] = columns[v, np.uint64(which[r])]


@merged
def weigh(
    weights: FloatArray, k: Any, offset: Any, which: IntArray, state: IntArray, belief: FloatArray
) -> None:
    """Write how far the evidence leaves each state, given the states that were read."""
    n = len(which)
    if k == np.uint64(2):
        for r in range(n):
            x = state[r]
            belief[0, r] = 1.0 if (x == np.uint16(0)) | (x == MISSING) else 0.0
            belief[1, r] = 1.0 if (x == np.uint16(1)) | (x == MISSING) else 0.0
    for s in range(k if k != np.uint64(2) else np.uint64(0)):
        wanted = np.uint16(s)
        for r in range(n):
            belief[s, r] = 1.0 if (state[r] == wanted) | (state[r] == MISSING) else 0.0
    if len(weights) == 0:
        return
    first = np.uint64(which[0])
    for s in range(k):
        at = np.uint64(offset) + s
        if weights.shape[1] == 1:
            x = weights[at, 0]
            for r in range(n):
                belief[s, r] = x if state[r] == RESTRICTED else belief[s, r]
        elif which[n - 1] - which[0] == n - 1:
            for r in range(np.uint64(n)):
                x = weights[at, first + r]
                belief[s, r] = x if state[r] == RESTRICTED else belief[s, r]
        else:
            for r in range(n):
                x = weights[at, np.uint64(which[r])]
                belief[s, r] = x if state[r] == RESTRICTED else belief[s, r]


@inner
def weigh_view(
    plan: Leaves,
    ws: RowLanes,
    block: Block,
    family: IntArray,
    f: int,
    which: IntArray,
    maximise: bool,
    weight: FloatArray,
) -> None:
    """Write how far the evidence leaves each state that f sees through its view, given the states
    that were read.

    All lanes at once but those of sets of states: one row after the other, half of the time of
    tables of numbers with gaps went here.
    """
    n = len(which)
    state, number, belief = ws.state, ws.number, ws.belief
    view, k = np.int64(family[f, VIEW]), np.int64(family[f, STATES])
    n_sets, unknown = 0, -1
    for r in range(n):
        x = np.int64(state[r])
        if x < RESTRICTED:
            number[LOCAL, r] = plan.view_local[view + x]
            number[SHARE, r] = plan.view_linear[view + x]
        else:
            number[LOCAL, r], number[SHARE, r] = OPEN, 0.0
            n_sets += x == RESTRICTED
            unknown = r if x == MISSING else unknown
    for s in range(k):
        weight[s] = 1.0
    if maximise and unknown >= 0:
        weigh_states(plan, block, which[unknown], family, f, maximise, weight)
    for s in range(k):
        opened = weight[s]
        for r in range(n):
            known = number[SHARE, r] if number[LOCAL, r] == s else 0.0
            belief[s, r] = opened if number[LOCAL, r] == OPEN else known
    if n_sets == 0:
        return
    for r in range(n):
        if state[r] == RESTRICTED:
            weigh_states(plan, block, which[r], family, f, maximise, weight)
            for s in range(k):
                belief[s, r] = weight[s]


@merged
def believe(
    links: IntArray,
    message: FloatArray,
    family: IntArray,
    sends: IntArray,
    up: IntArray,
    f: int,
    weights: FloatArray,
    offset: Any,
    which: IntArray,
    state: IntArray,
    belief: FloatArray,
) -> int:
    """Write the belief in f's states: how far the evidence leaves them, times the messages that
    depend on these alone; return how many others there are."""
    n = len(which)
    others = 0
    g = links[f, HEAD]
    k = np.uint64(family[f, STATES])
    if family[f, VIEW] == NONE:
        weigh(weights, k, offset, which, state, belief)
    while g != NONE:
        if sends[g, OWN] != 0:
            for s in range(k):
                slot = np.uint64(up[np.uint64(family[g, UP]) + s])
                for r in range(n):
                    belief[s, r] *= message[slot, r]
        else:
            others += 1
        g = links[g, LINK]
    return others


@merged
def multiply_others(
    links: IntArray,
    message: FloatArray,
    family: IntArray,
    sends: IntArray,
    up: IntArray,
    f: int,
    base: Any,
    n: int,
    belief: FloatArray,
    product: FloatArray,
) -> None:
    """Write belief times the other messages of the cells from ``base`` on to ``product``."""
    is_first = True
    g = links[f, HEAD]
    while g != NONE:
        if sends[g, OWN] == 0:
            for s in range(np.uint64(family[f, STATES])):
                slot = np.uint64(up[np.uint64(family[g, UP]) + base + s])
                if is_first:
                    for r in range(n):
                        product[s, r] = belief[s, r] * message[slot, r]
                else:
                    for r in range(n):
                        product[s, r] *= message[slot, r]
            is_first = False
        g = links[g, LINK]


@merged
def sum_states(
    p: FloatArray,
    at: Any,
    step: Any,
    k: Any,
    factor: FloatArray,
    out: FloatArray,
    to: Any,
    n: int,
) -> None:
    """Write Σ_s p[at + s · step] · factor[s] to ``out[to]``: four states in one loop, or adding up
    would take longer than multiplying."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    s = one
    a = p[at]
    if k >= four:
        b, c, d = p[at + step], p[at + two * step], p[at + three * step]
        for r in range(n):
            out[to, r] = ((a * factor[0, r] + b * factor[1, r]) + c * factor[2, r]) + d * factor[
                3, r
            ]
        s = four
    elif k >= two:
        b = p[at + step]
        for r in range(n):
            out[to, r] = a * factor[0, r] + b * factor[1, r]
        s = two
    else:
        for r in range(n):
            out[to, r] = a * factor[0, r]
    while s + four <= k:
        i = at + s * step
        a, b, c, d = p[i], p[i + step], p[i + two * step], p[i + three * step]
        for r in range(n):
            out[to, r] = (
                ((out[to, r] + a * factor[s, r]) + b * factor[s + one, r]) + c * factor[s + two, r]
            ) + d * factor[s + three, r]
        s += four
    while s < k:
        a = p[at + s * step]
        for r in range(n):
            out[to, r] += a * factor[s, r]
        s += one


@merged
def _best_state(
    p: FloatArray, at: Any, k: Any, factor: FloatArray, out: FloatArray, to: Any, n: int
) -> None:
    """Write the largest p[at + s] · factor[s] to ``out[to]``."""
    a = p[at]
    for r in range(n):
        out[to, r] = a * factor[0, r]
    for s in range(np.uint64(1), k):
        a = p[at + s]
        for r in range(n):
            out[to, r] = max(out[to, r], a * factor[s, r])


@merged
def _send_pair(
    p: FloatArray, at: Any, belief: FloatArray, message: FloatArray, to: Any, n: int, maximise: bool
) -> int:
    """The messages of a binary variable to two assignments of its parents, in one loop; return how
    many are small."""
    one = np.uint64(1)
    a0, a1, b0, b1 = p[at], p[at + one], p[at + np.uint64(2)], p[at + np.uint64(3)]
    n_small = 0
    if maximise:
        for r in range(n):
            x = max(a0 * belief[0, r], a1 * belief[1, r])
            y = max(b0 * belief[0, r], b1 * belief[1, r])
            message[to, r], message[to + one, r] = x, y
            n_small += min(x, y) < SMALL
    else:
        for r in range(n):
            x = a0 * belief[0, r] + a1 * belief[1, r]
            y = b0 * belief[0, r] + b1 * belief[1, r]
            message[to, r], message[to + one, r] = x, y
            n_small += min(x, y) < SMALL
    return n_small


@merged
def _send_states(
    p: FloatArray, at: Any, state: IntArray, message: FloatArray, to: Any, n: int, maximise: bool
) -> int:
    """The same of a binary variable that has received nothing: one of three numbers each."""
    one = np.uint64(1)
    a0, a1, b0, b1 = p[at], p[at + one], p[at + np.uint64(2)], p[at + np.uint64(3)]
    a, b = (max(a0, a1), max(b0, b1)) if maximise else (a0 + a1, b0 + b1)
    n_small = 0
    for r in range(n):
        s = state[r]
        x = a0 if s == np.uint16(0) else (a1 if s == np.uint16(1) else a)
        y = b0 if s == np.uint16(0) else (b1 if s == np.uint16(1) else b)
        message[to, r], message[to + one, r] = x, y
        n_small += min(x, y) < SMALL
    return n_small


@merged
def _send_once(
    p: FloatArray,
    at: Any,
    untold: bool,
    state: IntArray,
    belief: FloatArray,
    message: FloatArray,
    to: Any,
    n: int,
    maximise: bool,
) -> int:
    """The same of a binary variable without parents."""
    a, b = p[at], p[at + np.uint64(1)]
    both = max(a, b) if maximise else a + b
    n_small = 0
    if untold:
        for r in range(n):
            s = state[r]
            x = a if s == np.uint16(0) else (b if s == np.uint16(1) else both)
            message[to, r] = x
            n_small += x < SMALL
    else:
        for r in range(n):
            x, y = a * belief[0, r], b * belief[1, r]
            x = max(x, y) if maximise else x + y
            message[to, r] = x
            n_small += x < SMALL
    return n_small


@merged
def _send_product(
    p: FloatArray,
    at: Any,
    belief: FloatArray,
    message: FloatArray,
    up: IntArray,
    other: Any,
    to: Any,
    n: int,
    maximise: bool,
) -> int:
    """The message of a binary variable that has one other message, for one assignment of its
    parents; ``other`` is the other's place in ``up``. Return how many are small."""
    one = np.uint64(1)
    a, b = p[at], p[at + one]
    i, j = np.uint64(up[other]), np.uint64(up[other + one])
    n_small = 0
    for r in range(n):
        x, y = a * (belief[0, r] * message[i, r]), b * (belief[1, r] * message[j, r])
        x = max(x, y) if maximise else x + y
        message[to, r] = x
        n_small += x < SMALL
    return n_small


@inner
def _agrees(
    plan: Leaves, parent: IntArray, begin: int, end: int, base: int, columns: IntArray, r: int
) -> bool:
    """Say whether an assignment of the parents, given by its number, agrees with a row."""
    number = np.int64(base)
    for j in range(end, begin, -1):
        k = np.int64(parent[j - 1, PARENT_STATES])
        state = seen(
            plan, parent[j - 1, PARENT_VIEW], np.int64(columns[parent[j - 1, PARENT_VAR], r])
        )
        if state != OPEN and state != number % k:
            return False
        number //= k
    return True


@inner
def _scale(
    plan: Leaves,
    message: FloatArray,
    slot: int,
    n_bases: int,
    logs: FloatArray,
    parent: IntArray,
    begin: int,
    end: int,
    columns: IntArray,
    which: IntArray,
) -> None:
    """Bring the small entries of one family's messages back to a safe size, lane by lane."""
    sent = message[slot : slot + n_bases]
    for r in range(len(which)):
        top, low = 0.0, np.inf
        for b in range(len(sent)):
            top = max(top, sent[b, r])
            low = min(low, sent[b, r])
        if low >= SMALL:
            continue
        # Entries that contradict the row may be as small as they like.
        top, low = 0.0, np.inf
        for b in range(len(sent)):
            if _agrees(plan, parent, begin, end, b, columns, which[r]):
                top = max(top, sent[b, r])
                low = min(low, sent[b, r])
            else:
                sent[b, r] = 0.0
        if top < TINY or low < SMALL * top:
            logs[r] = np.nan
        elif top < SMALL:
            logs[r] += np.log(top)
            for b in range(len(sent)):
                sent[b, r] /= top


@inner
def rows_up(
    plan: Leaves,
    ws: RowLanes,
    block: Block,
    node: int,
    which: IntArray,
    maximise: bool,
    weight: FloatArray,
    out: FloatArray,
) -> None:
    """Write the log values of a leaf for at most LANES rows; NaN: the row is to be done in logs.

    The messages are left in the scratch memory.
    """
    family, parent, up = leaf_arrays(plan, node)
    sends = plan.sends[plan.node[node, FIRST] :]
    linear = plan.linear[plan.node[node, CELLS] :]
    n = len(which)
    one, two = np.uint64(1), np.uint64(2)
    links, message, belief, cellwise = ws.links, ws.message, ws.belief, ws.product
    state, columns, weights, variable = ws.state, block.columns, block.weight_columns, plan.variable
    product, logs = ws.number[PRODUCT_SO_FAR], ws.number[LOGS]
    for f in range(len(family)):
        links[f, HEAD] = NONE
    for r in range(n):
        product[r] = 1.0
        logs[r] = 0.0
    for f in range(len(family) - 1, -1, -1):
        k = np.uint64(family[f, STATES])
        offset = variable[family[f, VAR], VAR_OFFSET]
        read_states(columns, np.uint64(family[f, VAR]), which, state)
        slot, n_bases = np.uint64(sends[f, SLOT]), np.uint64(sends[f, BASES])
        at = np.uint64(family[f, START])
        in_pairs = k == two and n_bases > one and n_bases % two == 0
        untold = links[f, HEAD] == NONE and family[f, VIEW] == NONE and len(weights) == 0
        others = n_small = 0
        if not ((in_pairs or (k == two and n_bases == one)) and untold):
            if family[f, VIEW] != NONE:
                weigh_view(plan, ws, block, family, f, which, maximise, weight)
            others = believe(
                links, message, family, sends, up, f, weights, offset, which, state, belief
            )
        if in_pairs and others == 0:
            for b in range(np.uint64(0), n_bases, two):
                if untold:
                    n_small += _send_states(
                        linear, at + two * b, state, message, slot + b, n, maximise
                    )
                else:
                    n_small += _send_pair(
                        linear, at + two * b, belief, message, slot + b, n, maximise
                    )
        elif k == two and n_bases == one and others == 0:
            n_small += _send_once(linear, at, untold, state, belief, message, slot, n, maximise)
        elif k == two and others == 1:
            g = links[f, HEAD]
            while sends[g, OWN] != 0:
                g = links[g, LINK]
            other = np.uint64(family[g, UP])
            for b in range(n_bases):
                n_small += _send_product(
                    linear, at + two * b, belief, message, up, other + two * b, slot + b, n,
                    maximise,
                )  # fmt: skip
        else:
            for b in range(n_bases):
                if others > 0:
                    multiply_others(
                        links, message, family, sends, up, f, b * k, n, belief, cellwise
                    )
                factor = belief if others == 0 else cellwise
                if maximise:
                    _best_state(linear, at + b * k, k, factor, message, slot + b, n)
                else:
                    sum_states(linear, at + b * k, one, k, factor, message, slot + b, n)
                for r in range(n):
                    n_small += message[slot + b, r] < SMALL
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        links[f, SCALED] = n_small > 0
        if n_small > 0:
            _scale(
                plan, message, np.int64(slot), np.int64(n_bases), logs, parent, begin, end,
                columns, which,
            )  # fmt: skip
        if begin == end:
            n_small = 0
            for r in range(n):
                product[r] *= message[slot, r]
                n_small += product[r] < SMALL
            if n_small > 0:
                for r in range(n):
                    if product[r] < SMALL:
                        logs[r] += np.log(product[r])
                        product[r] = 1.0
        else:
            host = family[f, HOST]
            links[f, LINK] = links[host, HEAD]
            links[host, HEAD] = f
    for r in range(n):
        out[r] = logs[r] + np.log(product[r])
