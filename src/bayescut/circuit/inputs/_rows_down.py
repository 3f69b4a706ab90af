"""The way down of `_rows`: posteriors of a leaf for many rows at once, and what fills rows in.

Going down needs no messages: p(x | pa, evidence) ∝ p(x | pa) · Π message(...), of which
:func:`~bayescut.circuit.inputs._rows.rows_up` has left the messages in the scratch memory.
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
    CLIQUE,
    FIRST,
    HOST,
    MARGIN,
    NONE,
    OWN,
    PARENT_VAR,
    PARENTS,
    PARENTS_END,
    SLOT,
    START,
    STATES,
    STRIDE,
    UP,
    VAR,
    VAR_OFFSET,
    VAR_STATES,
    VIEW,
    VIEWED,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._families import (
    add_posterior,
    leaf_arrays,
    open_view,
    parent_base,
    weigh_states,
)
from bayescut.circuit.inputs._rows import (
    believe,
    multiply_others,
    read_states,
    sum_states,
    weigh,
    weigh_view,
)
from bayescut.circuit.inputs._scratch import (
    HEAD,
    LINK,
    SCALED,
    TERM,
    RowLanes,
    Sinks,
    pick,
)


@merged
def _add_posteriors(
    k: Any,
    offset: Any,
    which: IntArray,
    state: IntArray,
    flow: FloatArray,
    share: FloatArray,
    joint: FloatArray,
    margin: Any,
    posterior: FloatArray,
) -> None:
    """Add the posteriors of a variable's states to the rows that do not know it."""
    n = len(which)
    for r in range(n):
        share[r] = flow[r] if state[r] >= RESTRICTED else 0.0
    column, first = np.uint64(offset), np.uint64(which[0])
    together = which[n - 1] - which[0] == n - 1
    for s in range(k):
        if together:
            for r in range(np.uint64(n)):
                posterior[column + s, first + r] += share[r] * joint[margin + s, r]
        else:
            for r in range(n):
                posterior[column + s, np.uint64(which[r])] += share[r] * joint[margin + s, r]


@inner
def _add_view(
    plan: Leaves,
    ws: RowLanes,
    block: Block,
    family: IntArray,
    f: int,
    which: IntArray,
    flow: FloatArray,
    share: FloatArray,
    margin: int,
    weight: FloatArray,
    posterior: FloatArray,
) -> None:
    """The same of a family that sees its variable through a view: what is missing takes its part of
    the state it is seen as, all lanes at once; sets of states row by row."""
    n = len(which)
    state, joint = ws.state, ws.joint
    v, view = np.int64(family[f, VAR]), np.int64(family[f, VIEW])
    n_open = n_sets = 0
    for r in range(n):
        share[r] = flow[r] if state[r] == MISSING else 0.0
        n_open += share[r] > 0.0
        n_sets += state[r] == RESTRICTED
    if n_open > 0:
        column, first = plan.variable[v, VAR_OFFSET], which[0]
        together = which[n - 1] - first == n - 1
        for t in range(plan.variable[v, VAR_STATES]):
            s = plan.view_local[view + t]
            if s < 0:
                continue
            x = plan.view_linear[view + t]
            if together:
                for r in range(n):
                    posterior[column + t, first + r] += share[r] * joint[margin + s, r] * x
            else:
                for r in range(n):
                    posterior[column + t, which[r]] += share[r] * joint[margin + s, r] * x
    if n_sets == 0:
        return
    for r in range(n):
        if state[r] == RESTRICTED and flow[r] > 0.0:
            weigh_states(plan, block, which[r], family, f, False, weight)
            for s in range(np.int64(family[f, STATES])):
                found = flow[r] * joint[margin + s, r]
                add_posterior(plan, block, which[r], family, f, s, weight[s], found, posterior)


@merged
def _expect(a: FloatArray, i: Any, b: FloatArray, j: Any, n: int) -> float:
    """Σ a[i] · b[j] over the lanes, in four sums: one alone would wait for each addition."""
    w = x = y = z = 0.0
    r = 0
    while r + 4 <= n:
        w += a[i, r] * b[j, r]
        x += a[i, r + 1] * b[j, r + 1]
        y += a[i, r + 2] * b[j, r + 2]
        z += a[i, r + 3] * b[j, r + 3]
        r += 4
    while r < n:
        w += a[i, r] * b[j, r]
        r += 1
    return (w + x) + (y + z)


@merged
def _descend(
    joint: FloatArray,
    family: IntArray,
    sends: IntArray,
    up: IntArray,
    f: int,
    is_root: bool,
    n: int,
    above: FloatArray,
) -> None:
    """Write the posterior of f's parents, a margin of its host's, to ``above``."""
    slot = np.uint64(sends[f, SLOT])
    for b in range(np.uint64(sends[f, BASES])):
        for r in range(n):
            above[b, r] = 1.0 if is_root else 0.0
    if is_root:
        return
    h = family[f, HOST]
    n_cells = np.uint64(family[h, STATES])
    first = np.uint64(sends[h, MARGIN])
    if sends[f, OWN] == 0:
        first = np.uint64(sends[h, CLIQUE])
        n_cells *= np.uint64(sends[h, BASES])
    for cell in range(n_cells):
        to = np.uint64(up[np.uint64(family[f, UP]) + cell]) - slot
        for r in range(n):
            above[to, r] += joint[first + cell, r]


@inner
def rows_posterior(
    plan: Leaves,
    ws: RowLanes,
    block: Block,
    node: int,
    which: IntArray,
    flow: FloatArray,
    weight: FloatArray,
    sinks: Sinks,
) -> None:
    """Add the posteriors of a leaf's families, times each row's flow, to what is asked for.

    :func:`rows_up` has left the messages of the same rows.
    """
    family, _, up = leaf_arrays(plan, node)
    sends = plan.sends[plan.node[node, FIRST] :]
    linear = plan.linear[plan.node[node, CELLS] :]
    n = len(which)
    one = np.uint64(1)
    message, joint, above, number = ws.message, ws.joint, ws.above, ws.number
    links, belief, product = ws.links, ws.belief, ws.product
    state, columns, weights, variable = ws.state, block.columns, block.weight_columns, plan.variable
    share, table_flow, posterior = ws.number[TERM], sinks.tables, sinks.posterior
    cells = np.uint64(plan.node[node, CELLS])
    want_flow, want_posterior = len(table_flow) > 0, len(posterior) > 0
    for f in range(len(family)):
        k = np.uint64(family[f, STATES])
        at = np.uint64(family[f, START])
        offset = variable[family[f, VAR], VAR_OFFSET]
        read_states(columns, np.uint64(family[f, VAR]), which, state)
        if family[f, VIEW] != NONE:
            weigh_view(plan, ws, block, family, f, which, False, weight)
        others = believe(
            links, message, family, sends, up, f, weights, offset, which, state, belief
        )
        slot, n_bases = np.uint64(sends[f, SLOT]), np.uint64(sends[f, BASES])
        margin, clique = np.uint64(sends[f, MARGIN]), np.uint64(sends[f, CLIQUE])
        is_root = family[f, PARENTS] == family[f, PARENTS_END]
        _descend(joint, family, sends, up, f, is_root, n, above)
        # The posterior of the parents becomes its ratio to what the family sent them.
        for b in range(n_bases):
            if others > 0:
                multiply_others(links, message, family, sends, up, f, b * k, n, belief, product)
            if links[f, SCALED] == 0:
                for r in range(n):
                    x = message[slot + b, r]
                    above[b, r] = above[b, r] / x if x > 0.0 else 0.0
            else:
                factor = belief if others == 0 else product
                sum_states(linear, at + b * k, one, k, factor, number, np.uint64(TERM), n)
                for r in range(n):
                    x = number[TERM, r]
                    above[b, r] = above[b, r] / x if x > 0.0 else 0.0
            if others > 0:
                for s in range(k):
                    p, cell = linear[at + b * k + s], clique + b * k + s
                    for r in range(n):
                        joint[cell, r] = p * product[s, r] * above[b, r]
        for s in range(k):
            if others == 0:
                sum_states(linear, at + s, k, n_bases, above, joint, margin + s, n)
                for r in range(n):
                    joint[margin + s, r] *= belief[s, r]
            else:
                for r in range(n):
                    joint[margin + s, r] = joint[clique + s, r]
                for b in range(one, n_bases):
                    cell = clique + b * k + s
                    for r in range(n):
                        joint[margin + s, r] += joint[cell, r]
        if want_flow:
            for r in range(n):
                number[TERM, r] = flow[r]
            for b in range(n_bases):
                for r in range(n):
                    above[b, r] *= flow[r]
                for s in range(k):
                    cell = b * k + s
                    if others == 0:
                        expected = linear[at + cell] * _expect(above, b, belief, s, n)
                    else:
                        expected = _expect(number, np.uint64(TERM), joint, clique + cell, n)
                    table_flow[cells + at + cell] += expected
        if want_posterior and family[f, VIEW] == NONE:
            _add_posteriors(k, offset, which, state, flow, share, joint, margin, posterior)
        elif want_posterior:
            to = np.int64(margin)
            _add_view(plan, ws, block, family, f, which, flow, share, to, weight, posterior)


@inner
def rows_fill(
    plan: Leaves,
    ws: RowLanes,
    block: Block,
    node: int,
    which: IntArray,
    maximise: bool,
    weight: FloatArray,
    random: IntArray,
    done: FloatArray,
) -> None:
    """Fill in the variables of a leaf, parents first: the most probable state, or a draw.

    :func:`rows_up` has left the messages of the same rows; those with ``done`` NaN are left alone.
    """
    family, parent, up = leaf_arrays(plan, node)
    linear = plan.linear[plan.node[node, CELLS] :]
    links, message, belief = ws.links, ws.message, ws.belief
    columns, weights, variable = block.columns, block.weight_columns, plan.variable
    states, state = block.states, ws.state
    viewed = plan.node[node, VIEWED] != 0
    for f in range(len(family)):
        v = family[f, VAR]
        n_states = np.uint64(family[f, STATES])
        start = np.uint64(family[f, START])
        begin, end = family[f, PARENTS], family[f, PARENTS_END]
        head = links[f, HEAD]
        offset = variable[v, VAR_OFFSET]
        read_states(columns, np.uint64(v), which, state)
        if family[f, VIEW] != NONE:
            weigh_view(plan, ws, block, family, f, which, maximise, weight)
        else:
            weigh(weights, n_states, offset, which, state, belief)
        for i in range(len(which)):
            if state[i] < RESTRICTED or np.isnan(done[i]):
                continue
            r = which[i]
            base = np.uint64(0)
            if viewed:
                base, _, _ = parent_base(plan, parent, begin, end, states[r])
            else:
                for j in range(begin, end):
                    base += np.uint64(states[r, parent[j, PARENT_VAR]]) * parent[j, STRIDE]
            total = 0.0
            for s in range(n_states):
                x = linear[start + base + s] * belief[s, i]
                g = head
                while g != NONE:
                    x *= message[up[np.uint64(family[g, UP]) + base + s], i]
                    g = links[g, LINK]
                weight[s] = x
                total += x
            local = pick(weight, np.int64(n_states), total, maximise, random, r)
            if family[f, VIEW] != NONE:
                local = open_view(plan, block, r, family, f, local, maximise, random)
            states[r, v] = local
