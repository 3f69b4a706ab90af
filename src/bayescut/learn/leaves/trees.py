"""Maximum spanning trees and forests over columns, straight from pair counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import overload

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import CountArray, FloatArray, IntArray
from bayescut.counts.families import family_cells
from bayescut.counts.pairs import PairCounts
from bayescut.scores.potentials import XLOGX, look_up, potential, shift_of, smooth_xlogx


class TreeRule(NamedTuple):
    """What a tree is chosen by and what it is judged by, in numbers a kernel can take.

    Attributes
    ----------
    choose, judge : int
        Potentials (see `bayescut.scores.potentials`) that weigh an edge in the search and in the
        score of the finished tree.
    spanning : bool
        Keep every variable in one tree; otherwise only edges of positive net worth are kept.
    parameter_cost : float
        Price of an independent parameter (BIC: half the logarithm of the rows).
    edge_cost, leaf_cost : float
        Price of an edge, and of the leaf itself (the structure prior).

    Notes
    -----
    A spanning tree always has the same number of edges, so prices do not enter its choice.
    """

    choose: int
    judge: int
    spanning: bool
    parameter_cost: float
    edge_cost: float
    leaf_cost: float

    def fit(
        self,
        pairs: PairCounts,
        active: IntArray,
        ess: float,
        lookup: FloatArray,
        parent: IntArray,
        order: IntArray,
    ) -> float:
        """Write the best tree by this rule into ``parent`` and ``order``; return its score."""
        n = pairs.counts.dtype.type(pairs.n)
        node = (pairs.counts, n, pairs.layout.sizes, pairs.layout.ptr, active, ess)
        grow_tree(self, *node, lookup, parent, order)
        return float(judge_tree(self, *node, parent))

    def counts(self, pairs: PairCounts, order: IntArray, parent: IntArray) -> FloatArray:
        """Counts of the families of a tree, see `tree_counts`."""
        n = pairs.counts.dtype.type(pairs.n)
        return tree_counts(pairs.counts, n, pairs.layout.sizes, pairs.layout.ptr, order, parent)


@inner
def single_potential(phi, counts, n, lo, hi, a):
    """Sum of ``φ`` over the states of one column, which owns bits ``lo .. hi - 1``."""
    rest = n
    total = 0.0
    for b in range(lo, hi):
        c = counts[b, b]
        rest -= c
        total += potential(phi, float(c), a)
    return total + potential(phi, max(float(rest), 0.0), a)


@inner
def pair_potential(phi, counts, n, ptr, u, v, a, lookup, column):
    """Sum of ``φ`` over the joint states of columns ``u`` and ``v``; ``column`` is scratch."""
    counts, ptr = borrowed(counts), borrowed(ptr)
    lookup, column = borrowed(lookup), borrowed(column)
    v_lo = ptr[v]
    n_v = ptr[v + 1] - v_lo
    shift = shift_of(phi, a, lookup.size)
    corner = n
    for b in range(n_v):
        column[b] = counts[v_lo + b, v_lo + b]
    total = 0.0
    for i in range(ptr[u], ptr[u + 1]):
        rest = counts[i, i]
        corner -= rest
        for b in range(n_v):
            c = counts[i, v_lo + b]
            rest -= c
            column[b] -= c
            total += look_up(phi, c, a, lookup, shift)
        total += look_up(phi, rest, a, lookup, shift)
    for b in range(n_v):
        c = column[b]
        corner -= c
        total += look_up(phi, c, a, lookup, shift)
    return total + look_up(phi, corner, a, lookup, shift)


@inner
def scratch_column(sizes, active, counts):
    """Scratch for `pair_potential`: one entry for every state of the largest domain."""
    largest = 1
    for t in range(active.shape[0]):
        largest = max(largest, sizes[active[t]])
    return np.empty(largest, dtype=counts.dtype)


class Waiting(NamedTuple):
    """Columns not yet in the tree, packed at the front of parallel arrays in any order.

    ``position`` among the active columns, bit column, number of ones, own potential, best offer
    (``key``) and who made it (``host``).
    """

    position: IntArray
    bit: IntArray
    ones: CountArray
    own: FloatArray
    key: FloatArray
    host: IntArray


@inner
def take_away(waiting, i, last):
    """Remove entry ``i`` by moving the last entry into its place."""
    waiting.position[i] = waiting.position[last]
    waiting.bit[i] = waiting.bit[last]
    waiting.ones[i] = waiting.ones[last]
    waiting.own[i] = waiting.own[last]
    waiting.key[i] = waiting.key[last]
    waiting.host[i] = waiting.host[last]


@inner
def round_weight(x):
    """Nearest whole number (ties to even) of a number below 2**51, by two additions.

    Weights are compared in units of 1e-12 nats per row. Edges whose weights are equal in exact
    arithmetic are common (all pairs with a column that is constant at a node); rounding makes them
    equal here too, so that the tie goes to the lower index and not to the noise of the last bit.
    """
    return (x + 6755399441055744.0) - 6755399441055744.0


@inner
def edge_before(u, v, x, y):
    """Whether edge u - v comes before edge x - y: by the lower end, then by the higher one."""
    low, other = min(u, v), min(x, y)
    return low < other or (low == other and max(u, v) < max(x, y))


@inner
def best_offer(key, position, host, size):
    """Entry with the largest key, the first edge among equals; -1 if there is none."""
    top0 = top1 = top2 = top3 = -np.inf
    i = 0
    while i + 4 <= size:  # four maxima hide the latency of the comparison
        top0 = key[i] if key[i] > top0 else top0
        top1 = key[i + 1] if key[i + 1] > top1 else top1
        top2 = key[i + 2] if key[i + 2] > top2 else top2
        top3 = key[i + 3] if key[i + 3] > top3 else top3
        i += 4
    top = max(max(top0, top1), max(top2, top3))
    while i < size:
        top = max(top, key[i])
        i += 1
    best = -1
    for i in range(size):
        if key[i] == top and (
            best < 0 or edge_before(position[i], host[i], position[best], host[best])
        ):
            best = i
    return best


@inner
def offer_tabulated(line, n_u, n, lookup, base, unit, size, waiting, t):
    """Offer a binary column to binary columns: the hot loop of learning, 2.5 ns a pair."""
    n_not = n - n_u
    bit, ones, own, key, host = (
        waiting.bit, waiting.ones, waiting.own, waiting.key, waiting.host,
    )  # fmt: skip
    for i in range(size):
        n11 = line[bit[i]]
        n_v = ones[i]
        weight = (
            lookup[np.uint32(n11)]
            + lookup[np.uint32(n_u - n11)]
            + lookup[np.uint32(n_v - n11)]
            + lookup[np.uint32(n_not - n_v + n11)]
            + (base - own[i])
        )
        weight = round_weight(weight * unit)
        better = (weight > key[i]) | ((weight == key[i]) & (t < host[i]))
        key[i] = weight if better else key[i]
        host[i] = t if better else host[i]


@inner
def offer_directly(phi, line, n_u, n, a, base, unit, size, waiting, t):
    """`offer_tabulated` without a table, for weights and for few columns of many rows."""
    n_not = n - n_u
    if phi == XLOGX:
        bit, ones, own, key, host = (
            waiting.bit, waiting.ones, waiting.own, waiting.key, waiting.host,
        )  # fmt: skip
        # Gathered first: a loop that both gathers and stores is not vectorised.
        both = np.empty(size)
        for i in range(size):
            both[i] = line[bit[i]]
        for i in range(size):
            n11 = both[i]
            n_v = float(ones[i])
            weight = (
                smooth_xlogx(n11 + a)
                + smooth_xlogx(max(n_u - n11, 0.0) + a)
                + smooth_xlogx(max(n_v - n11, 0.0) + a)
                + smooth_xlogx(max(n_not - n_v + n11, 0.0) + a)
                + (base - own[i])
            )
            weight = round_weight(weight * unit)
            better = (weight > key[i]) | ((weight == key[i]) & (t < host[i]))
            key[i] = weight if better else key[i]
            host[i] = t if better else host[i]
        return
    for i in range(size):
        n11 = float(line[waiting.bit[i]])
        n_v = float(waiting.ones[i])
        weight = (
            potential(phi, n11, a)
            + potential(phi, max(n_u - n11, 0.0), a)
            + potential(phi, max(n_v - n11, 0.0), a)
            + potential(phi, max(n_not - n_v + n11, 0.0), a)
            + (base - waiting.own[i])
        )
        take_better(round_weight(weight * unit), i, waiting, t)


@inner
def take_better(weight, i, waiting, t):
    """Accept an offer that beats the best so far, or equals it from a lower index."""
    if weight > waiting.key[i] or (weight == waiting.key[i] and t < waiting.host[i]):
        waiting.key[i] = weight
        waiting.host[i] = t


@kernel
def grow_tree(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
    """Prim's algorithm over the ``active`` columns; ties go to the edge of the lower index.

    Writes the tree into ``parent`` (-1 for a root; columns that are not active keep what they had)
    and the order in which variables were attached into ``order``. Edge weights are worked out from
    the counts when they are first needed: every pair exactly once, and no weight matrix.
    ``lookup`` holds the potential of a cell of two binary columns, or nothing.
    """
    m = active.shape[0]
    phi = rule.choose
    zero = n - n
    price = 0.0 if rule.spanning else rule.parameter_cost
    edge_price = 0.0 if rule.spanning else rule.edge_cost
    floor = -np.inf if rule.spanning else 0.0
    none = lookup[:0]
    tabulated = lookup.size > max(n, zero)
    column = scratch_column(sizes, active, counts)
    binary = True
    waiting = Waiting(
        np.empty(m, dtype=np.int32),
        np.empty(m, dtype=np.int32),
        np.empty(m, dtype=counts.dtype),
        np.empty(m),
        np.empty(m),
        np.empty(m, dtype=np.int32),
    )
    # A binary column that is constant among these rows weighs the same against a given partner as
    # any other such column. They wait as one class: in deep nodes of sparse tables most columns
    # are constant, and only pairs of columns that vary cost anything.
    resting = np.empty(m, dtype=np.int32)
    size = 0
    n_resting = 0
    constant_own = 0.0
    for t in range(m):
        v = active[t]
        own = single_potential(phi, counts, n, ptr[v], ptr[v + 1], ess / sizes[v])
        ones = zero
        if sizes[v] == 2:
            ones = counts[ptr[v], ptr[v]]
            if ones == zero or ones == n:
                constant_own = own
                resting[n_resting] = t
                n_resting += 1
                continue
        else:
            binary = False
        waiting.position[size] = t
        waiting.bit[size] = ptr[v]
        waiting.ones[size] = ones
        waiting.own[size] = own
        waiting.key[size] = floor
        waiting.host[size] = -1
        size += 1
    one_cell = potential(phi, float(n), ess)
    unit = 1e12 / (n + ess)
    constant_key = floor
    constant_host = -1
    taken = 0

    for step in range(m):
        best = best_offer(waiting.key, waiting.position, waiting.host, size)
        rest = taken < n_resting and (
            best < 0
            or constant_key > waiting.key[best]
            or (
                constant_key == waiting.key[best]
                and edge_before(
                    resting[taken], constant_host, waiting.position[best], waiting.host[best]
                )
            )
        )
        if rest:
            t = resting[taken]
            taken += 1
            t_host = constant_host
            own = constant_own
            n_u = counts[ptr[active[t]], ptr[active[t]]]
        else:
            t = waiting.position[best]
            t_host = waiting.host[best]
            own = waiting.own[best]
            n_u = waiting.ones[best]
            size -= 1
            take_away(waiting, best, size)
        u = active[t]
        parent[u] = active[t_host] if t_host >= 0 else -1
        order[step] = u

        base = one_cell - own - edge_price
        if taken < n_resting:
            c = active[resting[taken]]
            weight = weigh(phi, price, counts, n, sizes, ptr, u, c, ess, lookup, none, column)
            weight = round_weight((weight + base - constant_own) * unit)
            if weight > constant_key or (weight == constant_key and t < constant_host):
                constant_key = weight
                constant_host = t
        if rest and taken > 1:
            continue  # an equal column has made the same offers already
        if binary:
            line = counts[ptr[u]]
            t32 = np.int32(t)
            if tabulated:
                offer_tabulated(line, n_u, n, lookup, base - price, unit, size, waiting, t32)
            else:
                a = 0.25 * ess
                offer_directly(phi, line, n_u, n, a, base - price, unit, size, waiting, t32)
            continue
        for i in range(size):
            v = active[waiting.position[i]]
            weight = weigh(phi, price, counts, n, sizes, ptr, u, v, ess, lookup, none, column)
            weight += base - waiting.own[i]
            take_better(round_weight(weight * unit), i, waiting, t)


@inner
def weigh(phi, price, counts, n, sizes, ptr, u, v, ess, lookup, none, column):
    """Joint potential of two columns net of the price of the edge's parameters."""
    cells = sizes[u] * sizes[v]
    binary = sizes[u] == 2 and sizes[v] == 2
    joint = pair_potential(
        phi, counts, n, ptr, u, v, ess / cells, lookup if binary else none, column
    )
    return joint - price * (sizes[u] - 1) * (sizes[v] - 1)


@kernel
def judge_tree(rule, counts, n, sizes, ptr, active, ess, parent):
    """Score of a tree or forest: families minus parents, minus the price of its size."""
    phi = rule.judge
    one_cell = potential(phi, float(n), ess)
    column = scratch_column(sizes, active, counts)
    none = np.empty(0)
    total = -rule.leaf_cost
    for t in range(active.shape[0]):
        v = active[t]
        u = parent[v]
        free = sizes[v] - 1
        if u < 0:
            total += single_potential(phi, counts, n, ptr[v], ptr[v + 1], ess / sizes[v])
            total -= one_cell + rule.parameter_cost * free
        else:
            a = ess / (sizes[u] * sizes[v])
            total += pair_potential(phi, counts, n, ptr, u, v, a, none, column)
            total -= single_potential(phi, counts, n, ptr[u], ptr[u + 1], ess / sizes[u])
            total -= rule.parameter_cost * free * sizes[u] + rule.edge_cost
    return total


def _fit_tree(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
    """Choose and judge a tree by ``rule``, whose type decides how when a kernel is compiled."""
    raise NotImplementedError("compiled code only")


@overload(_fit_tree)
def _fit_tree_overload(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
    if getattr(rule, "instance_class", None) is not TreeRule:
        return None

    def fit(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
        grow_tree(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order)
        return judge_tree(rule, counts, n, sizes, ptr, active, ess, parent)

    return fit


@kernel
def tree_counts(counts, n, sizes, ptr, order, parent):
    """Counts of the families of the columns in ``order``, end to end.

    A family lists the parent's states slowest; a column without a parent has one row.
    """
    total = 0
    for t in range(order.shape[0]):
        v = order[t]
        total += sizes[v] * (sizes[parent[v]] if parent[v] >= 0 else 1)
    cells = np.empty(total)
    start = 0
    for t in range(order.shape[0]):
        v = order[t]
        u = parent[v]
        k_v = sizes[v]
        k_u = sizes[u] if u >= 0 else 1
        block = cells[start : start + k_u * k_v]
        start += k_u * k_v
        # Counts of the joint states; those of state 0 are what the bits leave over.
        for i in range(k_u):
            for b in range(1, k_v):
                block[i * k_v + b] = 0.0
        block[0] = n
        for b in range(1, k_v):
            c = counts[ptr[v] + b - 1, ptr[v] + b - 1]
            block[b] = c
            block[0] -= c
        for i in range(1, k_u):
            line = counts[ptr[u] + i - 1]
            rest = float(line[ptr[u] + i - 1])
            for b in range(1, k_v):
                c = line[ptr[v] + b - 1]
                block[i * k_v + b] = c
                block[b] -= c
                rest -= c
            block[i * k_v] = rest
            block[0] -= rest
        for i in range(k_u * k_v):
            block[i] = max(block[i], 0.0)
    return cells


@kernel
def posterior_means(counts, sizes, columns, parent_ptr, parents, ess):
    """Posterior means ``log p(x | parents)`` of families, end to end.

    Cells never seen and not smoothed (an equivalent sample size of 0) are uniform.
    """
    tables = np.empty(counts.shape[0])
    start = 0
    for f in range(columns.shape[0]):
        k = sizes[columns[f]]
        cells = family_cells(sizes, parent_ptr, parents, f)
        a = ess / (cells * k)
        for _ in range(cells):
            whole = 0.0
            for i in range(start, start + k):
                whole += counts[i] + a
            for i in range(start, start + k):
                tables[i] = np.log((counts[i] + a) / whole) if whole > 0.0 else -np.log(k)
            start += k
    return tables
