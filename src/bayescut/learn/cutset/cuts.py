"""Which variable to cut on: the gain that ranks candidates, and the exact worth of each."""

from __future__ import annotations

import math

import numpy as np

from bayescut._kernels import borrowed, inlined, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_bits, count_masked_bits, count_weighted
from bayescut.data.bits import pack_rows, popcount, trailing_zeros
from bayescut.learn.leaves.trees import _fit_tree, single_potential
from bayescut.scores.potentials import XLOGX, look_up, potential, smooth_xlogx


def information_gain(
    pairs: PairCounts, active: IntArray, ess: float, lookup: FloatArray
) -> tuple[float, FloatArray]:
    r"""Expected drop of the mean entropy of the columns, for every active column.

    .. math:: G_i = \frac1m \sum_j H(X_j)
              - \sum_v \frac{n_v}{n} \frac1{m-1} \sum_{j \ne i} H(X_j \mid X_i = v)

    with probabilities smoothed as :math:`(n_{vj} + e/K_j) / (n_v + e)`. ``lookup`` holds the
    potential of a state of a binary column, or nothing. Returns the mean entropy before any cut,
    the first term, and the gains.
    """
    layout = pairs.layout
    n = pairs.counts.dtype.type(pairs.n)
    gain = np.empty(len(active))
    # Two kernels, of which most tables need one: the other is not compiled (0.7 s).
    binary = layout.binary or bool(np.all(layout.sizes[active] == 2))
    kernel_of = binary_gain if binary else states_gain
    mean = kernel_of(pairs.counts, n, layout.sizes, layout.ptr, active, ess, lookup, gain)
    return mean, gain


@inner
def mean_entropy(counts, n, sizes, ptr, active, ess):
    """Mean entropy of the active columns."""
    m = active.shape[0]
    mean = 0.0
    for t in range(m):
        v = active[t]
        total = single_potential(XLOGX, counts, n, ptr[v], ptr[v + 1], ess / sizes[v])
        mean += (math.log(n + ess) - total / (n + ess)) / m
    return mean


@kernel
def binary_gain(counts, n, sizes, ptr, active, ess, lookup, gain):
    """`information_gain` of binary columns."""
    m = active.shape[0]
    mean = mean_entropy(counts, n, sizes, ptr, active, ess)
    tabulated = lookup.size > max(n, n - n)
    # Potentials of all other columns within the two states of every column.
    zero = np.zeros(m)
    one = np.zeros(m)
    bit = np.empty(m, dtype=np.int64)
    single = np.empty(m, dtype=counts.dtype)
    for t in range(m):
        bit[t] = ptr[active[t]]
        single[t] = counts[bit[t], bit[t]]
    for s in range(m):
        line = counts[bit[s]]
        for lo, hi in ((0, s), (s + 1, m)):
            if tabulated:
                add_tabulated(line, single[s], n, single, bit, lo, hi, lookup, zero, one)
            else:
                add_directly(line, single[s], n, single, bit, lo, hi, 0.5 * ess, zero, one)
    for t in range(m):
        inside = expected_entropy(n - single[t], zero[t], n, m, ess)
        inside += expected_entropy(single[t], one[t], n, m, ess)
        gain[t] = mean - inside
    return mean


@kernel
def states_gain(counts, n, sizes, ptr, active, ess, lookup, gain):
    """`information_gain` of columns of any number of states."""
    counts, sizes, ptr, active = borrowed(counts), borrowed(sizes), borrowed(ptr), borrowed(active)
    lookup, gain = borrowed(lookup), borrowed(gain)
    m = active.shape[0]
    mean = mean_entropy(counts, n, sizes, ptr, active, ess)
    none = lookup[:0]
    for t in range(m):
        i = active[t]
        k_i = sizes[i]
        lo = ptr[i]
        free = np.empty(k_i, dtype=counts.dtype)
        whole = np.empty(k_i, dtype=counts.dtype)
        acc = np.zeros(k_i)  # potentials of all other columns within every state of this one
        whole[0] = n
        for x in range(1, k_i):
            whole[x] = counts[lo + x - 1, lo + x - 1]
            whole[0] -= whole[x]
        for s in range(m):
            if s == t:
                continue
            j = active[s]
            a = ess / sizes[j]
            tab = lookup if sizes[j] == 2 else none
            for x in range(k_i):
                free[x] = whole[x]
            for b in range(ptr[j], ptr[j + 1]):
                rest = counts[b, b]
                for x in range(1, k_i):
                    c = counts[lo + x - 1, b]
                    rest -= c
                    free[x] -= c
                    acc[x] += look_up(XLOGX, c, a, tab, 0.0)
                free[0] -= rest
                acc[0] += look_up(XLOGX, rest, a, tab, 0.0)
            for x in range(k_i):
                acc[x] += look_up(XLOGX, free[x], a, tab, 0.0)
        gain[t] = mean
        for x in range(k_i):
            gain[t] -= expected_entropy(whole[x], acc[x], n, m, ess)
    return mean


@inner
def expected_entropy(n_branch, total, n, m, ess):
    """Mean entropy of the m - 1 other columns in a branch, times the branch's share of rows."""
    if n_branch <= 0:
        return 0.0
    mean = math.log(n_branch + ess) - total / ((m - 1) * (n_branch + ess))
    return n_branch / n * mean


@inner
def add_tabulated(line, n_s, n, single, bit, lo, hi, lookup, zero, one):
    """Add the potentials of one binary column within the states of columns ``lo .. hi - 1``."""
    for t in range(lo, hi):
        n11 = line[bit[t]]
        n_t = single[t]
        one[t] += lookup[np.uint32(n11)] + lookup[np.uint32(n_t - n11)]
        zero[t] += lookup[np.uint32(n_s - n11)] + lookup[np.uint32(n - n_s - n_t + n11)]


@inner
def add_directly(line, n_s, n, single, bit, lo, hi, a, zero, one):
    """`add_tabulated` without a table, for weights and for few columns of many rows."""
    # Gathered first: a loop that both gathers and stores is not vectorised.
    size = hi - lo
    both = np.empty(size)
    for t in range(size):
        both[t] = line[bit[lo + t]]
    n_t = single[lo:hi]
    to_one = one[lo:hi]
    to_zero = zero[lo:hi]
    n_not = float(n - n_s)
    for t in range(size):
        inside = smooth_xlogx(both[t] + a) + smooth_xlogx(max(n_t[t] - both[t], 0.0) + a)
        to_one[t] += inside
    for t in range(size):
        outside = smooth_xlogx(max(n_s - both[t], 0.0) + a)
        outside += smooth_xlogx(max(n_not - n_t[t] + both[t], 0.0) + a)
        to_zero[t] += outside


@inner
def branch_mask(bits, lo, hi, state, n, mask):
    """Set the bits of the rows whose column (bits ``lo .. hi - 1``) holds ``state``."""
    n_words = mask.shape[0]
    if state > 0:
        for w in range(n_words):
            mask[w] = bits[lo + state - 1, w]
        return
    for w in range(n_words):
        mask[w] = ~np.uint64(0)
    for b in range(lo, hi):
        for w in range(n_words):
            mask[w] &= ~bits[b, w]
    tail = n % 64
    if tail:
        mask[n_words - 1] &= (np.uint64(1) << np.uint64(tail)) - np.uint64(1)


@inner
def masked_rows(rows, mask):
    """The rows whose bit is set, in order."""
    size = 0
    for w in range(mask.shape[0]):
        size += popcount(mask[w])
    out = np.empty(size, dtype=rows.dtype)
    i = 0
    for w in range(mask.shape[0]):
        word = mask[w]
        while word:
            out[i] = rows[64 * w + trailing_zeros(word)]
            i += 1
            word &= word - np.uint64(1)
    return out


@inner
def branch_rows(codes, rows, column, state):
    """Positions in ``rows`` of the rows whose ``column`` holds ``state``, in order."""
    out = np.empty(rows.shape[0], dtype=np.int64)
    size = 0
    for r in range(rows.shape[0]):
        out[size] = r
        size += codes[rows[r], column] == state
    return out[:size]


@inlined
def count_branch(codes, rows, weights, bits, layout, c, state, n_state, mask, counts):
    """Pair counts of the rows in which column ``c`` of the layout holds ``state``."""
    if weights is not None:
        where = branch_rows(codes, rows, layout.columns[c], state)
        count_weighted(
            codes, rows[where], weights[where], layout.bit_column, layout.bit_state, counts
        )
        return
    branch_mask(bits, layout.ptr[c], layout.ptr[c + 1], state, rows.shape[0], mask)
    # Counting under a mask touches every word; packing the branch first costs about 3 words' worth
    # of counting for every cell but leaves fewer words. Both measured, see benchmarks.
    n_bits = layout.bit_column.shape[0]
    pairs = 0.5 * n_bits * (n_bits + 1)
    if pairs * mask.shape[0] < n_state * (3.0 * n_bits + pairs / 64.0):
        count_masked_bits(bits, mask, counts)
        return
    inside = masked_rows(rows, mask)
    packed = np.empty((n_bits, (inside.shape[0] + 63) // 64), dtype=np.uint64)
    pack_rows(codes, inside, layout.bit_column, layout.bit_state, layout.adjacent, packed)
    count_bits(packed, counts)


@inner
def branch_sizes(counts, n, layout, c, size):
    """Rows in every branch of a cut on column ``c`` of the layout; returns the largest branch."""
    largest = 0
    size[0] = n
    for state in range(1, layout.sizes[c]):
        b = layout.ptr[c] + state - 1
        size[state] = counts[b, b]
        size[0] -= counts[b, b]
    if size[0] < 0:  # weights of no row, found by subtraction, may round to just below zero
        size[0] = 0
    for state in range(1, layout.sizes[c]):
        if size[state] > size[largest]:
            largest = state
    return largest


@inlined
def count_branches(codes, rows, weights, bits, counts, layout, c, size, largest, mask, out):
    """Pair counts of every branch: the smaller ones are counted, the largest is what is left."""
    n_bits = counts.shape[0]
    rest = out[largest]
    # Loops, not a slice: numba compiles a shape check with its message for that, 4 s in all.
    for b in range(n_bits):
        for d in range(n_bits):
            rest[b, d] = counts[b, d]
    for state in range(layout.sizes[c]):
        if state == largest:
            continue
        part = out[state]
        count_branch(codes, rows, weights, bits, layout, c, state, size[state], mask, part)
        for b in range(n_bits):
            for d in range(n_bits):
                rest[b, d] -= part[b, d]


@kernel
def split_counts(codes, rows, weights, bits, counts, n, layout, c):
    """Pair counts and sizes of the branches of one cut, empty ones included."""
    k = layout.sizes[c]
    out = np.empty((k, counts.shape[0], counts.shape[0]), dtype=counts.dtype)
    size = np.empty(k, dtype=counts.dtype)
    largest = branch_sizes(counts, n, layout, c, size)
    mask = np.empty(bits.shape[1], dtype=np.uint64)
    count_branches(codes, rows, weights, bits, counts, layout, c, size, largest, mask, out)
    return out, size


@kernel
def evaluate_cuts(
    codes, rows, weights, bits, counts, n, layout, active, candidates, rule,
    ess, cut_ess, divided, cut_cost, lookup, lookup_ess, scores,
):  # fmt: skip
    """Worth of cutting on each of ``candidates``, with the best tree in every branch.

    Returns the position of the best candidate (-1: none possible) with the counts, sizes, trees
    and scores of its branches. Candidates of which all rows have the same state are skipped; where
    a state has no rows its branch is a tree of no rows, which has prior parameters.
    """
    sizes = layout.sizes
    ptr = layout.ptr
    n_bits = counts.shape[0]
    m_all = sizes.shape[0]
    m = active.shape[0]
    k_max = 2
    for i in range(candidates.shape[0]):
        k_max = max(k_max, sizes[candidates[i]])
    # Two sets of results, the best so far and the one at work.
    branch_counts = np.empty((2, k_max, n_bits, n_bits), dtype=counts.dtype)
    branch_n = np.empty((2, k_max), dtype=counts.dtype)
    branch_parent = np.empty((2, k_max, m_all), dtype=np.int64)  # set for active columns only
    branch_order = np.empty((2, k_max, m - 1), dtype=np.int64)
    branch_score = np.empty((2, k_max))
    mask = np.empty(bits.shape[1], dtype=np.uint64)
    none = lookup[:0]
    remaining = np.empty(m - 1, dtype=np.int64)
    work = 0
    best = -1
    best_score = -np.inf
    for i in range(candidates.shape[0]):
        c = candidates[i]
        scores[i] = -np.inf
        k = sizes[c]
        largest = branch_sizes(counts, n, layout, c, branch_n[work])
        n_filled = 0
        for state in range(k):
            n_filled += branch_n[work, state] > 0
        if n_filled < 2:
            continue
        count_branches(
            codes, rows, weights, bits, counts, layout, c, branch_n[work], largest, mask,
            branch_counts[work],
        )  # fmt: skip
        r = 0
        for t in range(m):
            if active[t] != c:
                remaining[r] = active[t]
                r += 1
        child_ess = ess / k if divided else ess
        tab = lookup if child_ess == lookup_ess else none
        total = -potential(rule.judge, float(n), cut_ess) - rule.parameter_cost * (k - 1) - cut_cost
        for state in range(k):
            n_state = branch_n[work, state]
            total += potential(rule.judge, float(n_state), cut_ess / k)
            branch_score[work, state] = _fit_tree(
                rule, branch_counts[work, state], n_state, sizes, ptr, remaining, child_ess, tab,
                branch_parent[work, state], branch_order[work, state],
            )  # fmt: skip
            total += branch_score[work, state]
        scores[i] = total
        if total > best_score:
            best_score = total
            best = i
            work = 1 - work
    done = 1 - work
    return (
        best, best_score, branch_counts[done], branch_n[done], branch_parent[done],
        branch_order[done], branch_score[done],
    )  # fmt: skip
