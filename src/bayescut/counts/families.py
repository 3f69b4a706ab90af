"""Joint counts of a column and its parents, by masks of rows.

The rows in each joint state of the parents are a mask of bits; what they share with the rows of a
state of the column is a popcount.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import BitArray, CodeArray, FloatArray, IntArray
from bayescut.data.bits import bit_layout, pack, popcount


@inner
def cell_masks(bits, n, ptr, sizes, members, n_members, masks):
    """Rows in each joint state of some columns, as masks; returns the number of joint states.

    The first member is the slowest digit of the state's number.
    """
    n_words = bits.shape[1]
    for w in range(n_words):
        masks[0, w] = ~np.uint64(0)
    if n % 64:
        masks[0, n_words - 1] = (np.uint64(1) << np.uint64(n % 64)) - np.uint64(1)
    cells = 1
    for d in range(n_members):
        v = members[d]
        k = sizes[v]
        # From the last cell on, so that no mask is overwritten before it is split.
        for c in range(cells - 1, -1, -1):
            for s in range(k - 1, 0, -1):
                b = ptr[v] + s - 1
                for w in range(n_words):
                    masks[c * k + s, w] = masks[c, w] & bits[b, w]
            if c * k != c:
                for w in range(n_words):
                    masks[c * k, w] = masks[c, w]
            for s in range(1, k):
                for w in range(n_words):
                    masks[c * k, w] &= ~masks[c * k + s, w]
        cells *= k
    return cells


@inner
def count_mask(mask, other, planes, n_words):
    """Number of rows in both masks, or their weight in units of the lowest plane."""
    total = np.uint64(0)
    if planes.shape[0] == 0:
        for w in range(n_words):
            total += popcount(mask[w] & other[w])
        return np.int64(total)
    for p in range(planes.shape[0]):
        part = np.uint64(0)
        for w in range(n_words):
            part += popcount(mask[w] & other[w] & planes[p, w])
        total += part << np.uint64(p)
    return np.int64(total)


def row_planes(sample_weight: FloatArray | None, rows: IntArray) -> tuple[BitArray, float]:
    """Bit planes of the weights of some rows, see `weight_planes`; none if they count once."""
    if sample_weight is None or len(rows) == 0:
        return np.empty((0, 0), dtype=np.uint64), 1.0
    return weight_planes(sample_weight[rows])


# Bits of the heaviest row of a table of even weights, and of the lightest row of any.
_MOST_BITS, _LIGHT_BITS = 24, 12
# Counts are sums of units in 64 bits, with a bit to spare for the sign and one for rounding.
_TOTAL_BITS = 62


def weight_planes(weights: FloatArray) -> tuple[BitArray, float]:
    """Split weights into bit planes: plane p is set where bit p of the rounded weight is.

    Weights are rounded to multiples of 2**-24 of the largest, or of 2**-12 of the smallest positive
    one if that is less: a family of light rows alone is counted as well as one of heavy rows. From
    there on counting them is exact integer arithmetic, with the same popcounts as for rows that
    count once. The sum of all has 62 bits, so that only weights below 2**-62 of it are lost, which
    a sum in float64 would lose too.

    Returns
    -------
    uint64 array of shape (P, ceil(n / 64)), float
        The planes, 25 if weights differ by a factor of 2**12 at most, and the weight of one unit of
        the lowest.
    """
    largest = float(weights.max())
    if largest == 0.0:
        return np.zeros((1, (len(weights) + 63) // 64), dtype=np.uint64), 1.0
    # Relative to the largest: no product of weights and powers of two leaves the range of floats.
    shares = weights / largest
    light = float(shares[shares > 0].min())
    unit = min(2.0**-_MOST_BITS, light * 2.0**-_LIGHT_BITS)
    unit = max(unit, float(shares.sum()) * 2.0**-_TOTAL_BITS)
    units = np.rint(shares / unit).astype(np.uint64)
    n_planes = max(int(units.max()).bit_length(), 1)
    padded = np.zeros((n_planes, (len(weights) + 63) // 64 * 64), dtype=np.uint8)
    for p in range(n_planes):
        padded[p, : len(weights)] = (units >> np.uint64(p)) & np.uint64(1)
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64), unit * largest


@inner
def family_cells(sizes, parent_ptr, parents, f):
    """Number of joint states of the parents of a family."""
    cells = 1
    for i in range(parent_ptr[f], parent_ptr[f + 1]):
        cells *= sizes[parents[i]]
    return cells


@kernel
def family_counts(bits, planes, unit, n, sizes, ptr, order, parent_ptr, parents):
    """Counts of the families of a leaf, end to end, the column's own state fastest.

    Parameters
    ----------
    bits : uint64 array of shape (B, W)
        Packed rows.
    planes, unit
        Weights of the rows, see `weight_planes`; no planes: every row counts once.
    n : int
        Number of rows.
    sizes, ptr : int64 arrays
        Layout of the bits.
    order, parent_ptr, parents : int64 arrays
        Columns of the families and their parents, as positions in the layout.

    Returns
    -------
    float64 array
    """
    total = 0
    most = 1
    for f in range(order.shape[0]):
        cells = family_cells(sizes, parent_ptr, parents, f)
        total += cells * sizes[order[f]]
        most = max(most, cells)
    out = np.empty(total)
    n_words = bits.shape[1]
    masks = np.empty((most, n_words), dtype=np.uint64)
    start = 0
    for f in range(order.shape[0]):
        v = order[f]
        k = sizes[v]
        family = parents[parent_ptr[f] : parent_ptr[f + 1]]
        cells = cell_masks(bits, n, ptr, sizes, family, family.shape[0], masks)
        for c in range(cells):
            rest = count_mask(masks[c], masks[c], planes, n_words)
            for s in range(1, k):
                x = count_mask(masks[c], bits[ptr[v] + s - 1], planes, n_words)
                rest -= x
                out[start + s] = x * unit
            out[start] = rest * unit
            start += k
    return out


@kernel
def some_family_counts(bits, planes, unit, n, row_ptr, row, sizes, order, parent_ptr, parents):
    """`family_counts` for columns of which only some states are looked at.

    Every state of every column has a mask among ``bits``: that of state s of column v is
    ``bits[row[row_ptr[v] + s]]``. Rows with any other state count nowhere.
    """
    total = 0
    most = 1
    for f in range(order.shape[0]):
        cells = family_cells(sizes, parent_ptr, parents, f)
        total += cells * sizes[order[f]]
        most = max(most, cells)
    out = np.empty(total)
    n_words = bits.shape[1]
    masks = np.empty((most, n_words), dtype=np.uint64)
    start = 0
    for f in range(order.shape[0]):
        cells = cell_masks(bits, n, row_ptr, sizes, parents, 0, masks)  # one cell: all rows
        for i in range(parent_ptr[f], parent_ptr[f + 1]):
            v = parents[i]
            k = sizes[v]
            for c in range(cells - 1, -1, -1):
                for s in range(k - 1, -1, -1):
                    state = bits[row[row_ptr[v] + s]]
                    for w in range(n_words):
                        masks[c * k + s, w] = masks[c, w] & state[w]
            cells *= k
        v = order[f]
        for c in range(cells):
            for s in range(sizes[v]):
                state = bits[row[row_ptr[v] + s]]
                out[start] = count_mask(masks[c], state, planes, n_words) * unit
                start += 1
    return out


def count_families(
    codes: CodeArray,
    rows: IntArray,
    sizes: IntArray,
    sample_weight: FloatArray | None,
    columns: IntArray,
    parent_ptr: IntArray,
    parents: IntArray,
) -> FloatArray:
    """Counts of families among rows of a table of complete codes; see `family_counts`."""
    layout = bit_layout(np.arange(codes.shape[1]), sizes)
    planes, unit = row_planes(sample_weight, rows)
    bits = pack(codes, rows, layout)
    shape = (layout.sizes, layout.ptr)
    return family_counts(bits, planes, unit, len(rows), *shape, columns, parent_ptr, parents)
