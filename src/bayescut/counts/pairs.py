"""Single and pairwise counts of a set of rows, exact.

``counts[i, j]`` is the number of rows (or their total weight) in which bit columns ``i`` and ``j``
are both set; the diagonal holds the single counts. Everything else about two columns follows by
subtraction, see `pair_table`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from bayescut._kernels import inner, kernel
from bayescut._typing import BitArray, CodeArray, CountArray, FloatArray, IntArray
from bayescut.data.bits import BitLayout, pack, popcount

# Words of one block: 32 columns of 1024 words are 256 KiB, which stays in the second-level cache.
_BLOCK_WORDS = 1024
# Rows that are packed at a time: a million rows of 20 columns of 16 states would have 36 MB.
_BLOCK = 2**17
_BLOCK_COLUMNS = 32


@kernel
def count_bits(bits, counts):
    """Pair counts of packed columns: four partners per load, blocked for the cache."""
    n_bits, n_words = bits.shape
    counts[:, :] = 0
    for lo in range(0, n_words, _BLOCK_WORDS):
        hi = min(n_words, lo + _BLOCK_WORDS)
        for j_lo in range(0, n_bits, _BLOCK_COLUMNS):
            j_hi = min(n_bits, j_lo + _BLOCK_COLUMNS)
            for i in range(j_hi):
                a = bits[i, lo:hi]
                j = max(i, j_lo)
                while j + 4 <= j_hi:
                    b0 = bits[j, lo:hi]
                    b1 = bits[j + 1, lo:hi]
                    b2 = bits[j + 2, lo:hi]
                    b3 = bits[j + 3, lo:hi]
                    s0 = np.uint64(0)
                    s1 = np.uint64(0)
                    s2 = np.uint64(0)
                    s3 = np.uint64(0)
                    for w in range(hi - lo):
                        x = a[w]
                        s0 += popcount(x & b0[w])
                        s1 += popcount(x & b1[w])
                        s2 += popcount(x & b2[w])
                        s3 += popcount(x & b3[w])
                    counts[i, j] += np.int32(s0)
                    counts[i, j + 1] += np.int32(s1)
                    counts[i, j + 2] += np.int32(s2)
                    counts[i, j + 3] += np.int32(s3)
                    j += 4
                while j < j_hi:
                    b0 = bits[j, lo:hi]
                    s0 = np.uint64(0)
                    for w in range(hi - lo):
                        s0 += popcount(a[w] & b0[w])
                    counts[i, j] += np.int32(s0)
                    j += 1
    mirror(counts)


@kernel
def count_masked_bits(bits, mask, counts):
    """Pair counts of the rows whose bit is set in ``mask``."""
    n_bits, n_words = bits.shape
    counts[:, :] = 0
    block = np.empty(_BLOCK_WORDS, dtype=np.uint64)
    for lo in range(0, n_words, _BLOCK_WORDS):
        hi = min(n_words, lo + _BLOCK_WORDS)
        for i in range(n_bits):
            for w in range(hi - lo):
                block[w] = bits[i, lo + w] & mask[lo + w]
            for j in range(i, n_bits):
                b = bits[j, lo:hi]
                s = np.uint64(0)
                for w in range(hi - lo):
                    s += popcount(block[w] & b[w])
                counts[i, j] += np.int32(s)
    mirror(counts)


# Contraction alone (fused multiply-add) changes no special value: 1.6 times as fast here.
@njit(cache=True, nogil=True, fastmath={"contract"})
def count_weighted(codes, rows, weights, column, state, counts):
    """Pair counts with weights, eight rows at a time.

    Eight rows share one pass over a line of the counts, which makes it a matrix product of rank
    eight; bit columns that none of them sets are skipped. Where the rows set so few bits that
    adding up their pairs one by one is less work, that is done instead: sparse tables of many
    columns.
    """
    n_bits = column.shape[0]
    counts[:, :] = 0.0
    if n_bits == 0:
        return
    ones = np.empty((8, n_bits), dtype=np.int64)
    n_ones = np.empty(8, dtype=np.int64)
    x = np.zeros((8, n_bits))
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    w = np.zeros(8)
    for start in range(0, rows.shape[0], 8):
        pairs = 0.0
        most = 0
        for q in range(8):
            r = start + q
            w[q] = 0.0
            size = 0
            if r < rows.shape[0]:
                line = codes[rows[r]]
                w[q] = weights[r]
                for b in range(n_bits):
                    hit = line[column[b]] == state[b]
                    x[q, b] = hit
                    ones[q, size] = b
                    size += hit
            n_ones[q] = size
            pairs += 0.5 * size * size
            most += size
        # A pair one by one takes about as long as six lanes of the product of rank eight.
        if 6.0 * pairs < min(most, n_bits) * 0.5 * n_bits:
            for q in range(8):
                for p in range(n_ones[q]):
                    acc = counts[ones[q, p]]
                    for o in range(p, n_ones[q]):
                        acc[ones[q, o]] += w[q]
            continue
        for q in range(8):
            if start + q >= rows.shape[0]:
                x[q, :] = 0.0
        for i in range(n_bits):
            a0, a1, a2, a3 = w[0] * x0[i], w[1] * x1[i], w[2] * x2[i], w[3] * x3[i]
            a4, a5, a6, a7 = w[4] * x4[i], w[5] * x5[i], w[6] * x6[i], w[7] * x7[i]
            if a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 == 0.0:
                continue
            acc = counts[i]
            for j in range(i, n_bits):
                acc[j] += (
                    (a0 * x0[j] + a1 * x1[j])
                    + (a2 * x2[j] + a3 * x3[j])
                    + ((a4 * x4[j] + a5 * x5[j]) + (a6 * x6[j] + a7 * x7[j]))
                )
    mirror(counts)


@kernel
def count_codes(codes, rows, weights, columns, start, bit, counts):
    """Pair counts by adding up the pairs of bits that each row sets, with weights or without.

    For columns of many states: m (m - 1) / 2 additions for every row, however many states there
    are. ``start`` and ``bit`` are those of `BitLayout.bit_of_code`.
    """
    counts[:, :] = 0
    ones = np.empty(columns.shape[0], dtype=np.int64)
    for r in range(rows.shape[0]):
        line = codes[rows[r]]
        size = 0
        for j in range(columns.shape[0]):
            b = bit[start[j] + line[columns[j]]]
            ones[size] = b
            size += b >= 0
        for p in range(size):
            acc = counts[ones[p]]
            if weights is None:
                for o in range(p, size):
                    acc[ones[o]] += 1
            else:
                for o in range(p, size):
                    acc[ones[o]] += weights[r]
    mirror(counts)


@inner
def mirror(counts):
    """Copy the upper triangle to the lower one, in square blocks."""
    n_bits = counts.shape[0]
    for i_lo in range(0, n_bits, _BLOCK_COLUMNS):
        for j_lo in range(i_lo, n_bits, _BLOCK_COLUMNS):
            for j in range(j_lo, min(n_bits, j_lo + _BLOCK_COLUMNS)):
                for i in range(i_lo, min(j, i_lo + _BLOCK_COLUMNS)):
                    counts[j, i] = counts[i, j]


@kernel
def take_bits(counts, bits):
    """Counts of some bits: ``counts[np.ix_(bits, bits)]`` in a quarter of the time."""
    out = np.empty((bits.shape[0], bits.shape[0]), dtype=counts.dtype)
    for i in range(bits.shape[0]):
        for j in range(bits.shape[0]):
            out[i, j] = counts[bits[i], bits[j]]
    return out


@dataclass(frozen=True)
class PairCounts:
    """Counts of one set of rows over the columns of a layout.

    Attributes
    ----------
    layout : BitLayout
        The columns that were counted.
    n : int or float
        Number of rows, or their total weight.
    counts : int32 or float64 array of shape (B, B)
        Rows in which both bits are set.

    Notes
    -----
    ``a - b`` are the counts of the rows of ``a`` that are not rows of ``b``, and ``a + b`` those of
    two disjoint sets of rows.
    """

    layout: BitLayout
    n: float
    counts: CountArray

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights."""
        return self.counts.dtype == np.float64

    def __add__(self, other: PairCounts) -> PairCounts:
        return PairCounts(self.layout, self.n + other.n, self.counts + other.counts)

    def __sub__(self, other: PairCounts) -> PairCounts:
        counts = self.counts - other.counts
        if self.weighted:
            np.maximum(counts, 0.0, out=counts)
        return PairCounts(self.layout, self.n - other.n, counts)

    def single(self, j: int) -> CountArray:
        """Counts of the states of the ``j``-th column of the layout."""
        lo, hi = self.layout.ptr[j], self.layout.ptr[j + 1]
        ones = np.diagonal(self.counts)[lo:hi]
        rest = max(self.n - ones.sum(), 0)  # weights may leave a rounding error below zero
        return np.concatenate([[rest], ones]).astype(self.counts.dtype)

    def pair_table(self, i: int, j: int) -> CountArray:
        """Counts of the states of the ``i``-th column (rows) and the ``j``-th one (columns)."""
        ptr = self.layout.ptr
        table = np.zeros((self.layout.sizes[i], self.layout.sizes[j]), dtype=self.counts.dtype)
        inner = self.counts[ptr[i] : ptr[i + 1], ptr[j] : ptr[j + 1]]
        first, second = self.single(i), self.single(j)
        table[1:, 1:] = inner
        table[1:, 0] = first[1:] - inner.sum(axis=1)
        table[0, 1:] = second[1:] - inner.sum(axis=0)
        table[0, 0] = first[0] - table[0, 1:].sum()
        return np.maximum(table, 0)


def count_packed(bits: BitArray, n: int, layout: BitLayout) -> PairCounts:
    """Pair counts of ``n`` packed rows."""
    counts = np.empty((layout.n_bits, layout.n_bits), dtype=np.int32)
    count_bits(bits, counts)
    return PairCounts(layout, n, counts)


def _count_blocks(codes: CodeArray, rows: IntArray, layout: BitLayout) -> PairCounts:
    """Pair counts of rows that are packed some at a time."""
    found = count_packed(pack(codes, rows[:_BLOCK], layout), len(rows), layout)
    for begin in range(_BLOCK, len(rows), _BLOCK):
        some = rows[begin : begin + _BLOCK]
        found.counts[...] += count_packed(pack(codes, some, layout), len(some), layout).counts
    return found


def _many_states(layout: BitLayout) -> bool:
    """Whether adding up the pairs of every row is less work than counting bits.

    A pair of a row takes about as long as a pair of bit columns in 15 words, or 960 rows.
    """
    m, n_bits = len(layout.columns), layout.n_bits
    return m * (m - 1) * 960 < n_bits * (n_bits + 1)


def count_pairs(
    codes: CodeArray,
    layout: BitLayout,
    rows: IntArray | None = None,
    sample_weight: FloatArray | None = None,
) -> PairCounts:
    r"""Count all singles and pairs of states among rows of a table.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (N, m)
        Complete codes.
    layout : BitLayout
        The columns to count, see `bayescut.data.bits.bit_layout`.
    rows : int32 array, optional
        The rows to count; all of them when left out.
    sample_weight : float64 array of shape (N,), optional
        Non-negative weights. Counts are then :math:`\sum_r w_r [x_{ri} = a][x_{rj} = b]`.

    Returns
    -------
    PairCounts

    Examples
    --------
    >>> from bayescut.data.bits import bit_layout
    >>> codes = np.array([[0, 2], [1, 2], [1, 0]], dtype=np.uint8)
    >>> pairs = count_pairs(codes, bit_layout(np.arange(2), np.array([2, 3])))
    >>> pairs.pair_table(0, 1)
    array([[0, 0, 1],
           [1, 0, 1]], dtype=int32)
    """
    if rows is None:
        rows = np.arange(len(codes), dtype=np.int32)
    if sample_weight is None:
        if not _many_states(layout):
            return _count_blocks(codes, rows, layout)
        counts = np.empty((layout.n_bits, layout.n_bits), dtype=np.int32)
        count_codes(codes, rows, None, layout.columns, *layout.bit_of_code(), counts)
        return PairCounts(layout, len(rows), counts)
    weights = np.ascontiguousarray(sample_weight[rows], dtype=np.float64)
    counts = np.empty((layout.n_bits, layout.n_bits), dtype=np.float64)
    if not layout.binary:
        count_codes(codes, rows, weights, layout.columns, *layout.bit_of_code(), counts)
        return PairCounts(layout, float(weights.sum()), counts)
    count_weighted(codes, rows, weights, layout.bit_column, layout.bit_state, counts)
    return PairCounts(layout, float(weights.sum()), counts)
