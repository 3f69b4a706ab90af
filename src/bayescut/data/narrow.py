"""A numeric column of which it is known that it lies in some intervals.

A model's cells are not cut where an interval ends. Within a cell the column follows its own
density, so that the cell's share inside the intervals is all a model needs to be told
(:meth:`bayescut.data.Grid.weights`); means, quantiles and draws, however, are then those of the
density within the intervals. They are worked out on a finer grid, whose cells begin and end where
the intervals do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data.grid import MAX_CELLS, Closed, Grid
from bayescut.data.lattice import LARGEST_BIN, to_bins
from bayescut.exceptions import DataError

__all__ = ["Narrowed", "Piece", "cut_at", "inside", "intersect", "narrow", "weights"]

# Low and high bound of an interval in the numbers of a grid, and which of them belong to it.
Piece = tuple[float, float, Closed]

# A tail that an interval cuts is spread evenly over so many segments.
_SEGMENTS = 32
_FARTHEST = LARGEST_BIN - 2


@dataclass(frozen=True, eq=False)
class Narrowed:
    """A grid of finer cells, and how the cells of the first divide among them.

    Attributes
    ----------
    grid : Grid
        The finer cells.
    shares : float64 array of shape (K, K')
        Probability of each finer cell given the cell it is a part of and the intervals.
    pieces : tuple of Piece
        The intervals.
    """

    grid: Grid
    shares: FloatArray
    pieces: tuple[Piece, ...]
    _height: FloatArray  # (K, K'): the highest ln f(x) - ln F(cell), -inf outside

    def spread(self, probabilities: FloatArray) -> FloatArray:
        """Turn probabilities of cells, shape (n, K), into those of the finer cells."""
        return np.asarray(probabilities @ self.shares)

    def draw(self, codes: CodeArray, uniform: FloatArray, chosen: FloatArray) -> FloatArray:
        """Draw a number within the intervals for each cell, from two numbers in [0, 1)."""
        below = np.cumsum(self.shares, axis=1)[codes.astype(np.int64)]
        finer = (below <= chosen[:, None] * below[:, -1:]).sum(axis=1)
        return self.grid.draw(np.minimum(finer, self.grid.n_cells - 1), uniform)

    @property
    def peak(self) -> FloatArray:
        """The highest ln f(x) - ln F(cell) within the intervals of every cell, -inf outside."""
        return self._best[0]

    @property
    def mode(self) -> FloatArray:
        """Where the density of every cell is highest within the intervals."""
        return self._best[1]

    @property
    def _best(self) -> tuple[FloatArray, FloatArray]:
        best = self._height.argmax(axis=1)
        return self._height[np.arange(len(best)), best], self.grid.mode[best]


def inside(grid: Grid, values: FloatArray, pieces: Sequence[Piece]) -> NDArray[np.bool_]:
    """Tell which numbers lie in one of the intervals; those that are NaN do."""
    bins = to_bins(values, grid.step)
    found = np.isnan(bins)
    for begin, end in _limits(grid, pieces):
        found |= (bins >= begin) & (bins < end)
    return found


def weights(grid: Grid, pieces: Sequence[Piece]) -> FloatArray:
    """Return the share of every cell's density in some intervals that do not overlap."""
    total = np.zeros(grid.n_cells)
    for low, high, closed in pieces:
        total += grid.weights(low, high, closed)
    return np.minimum(total, 1.0)


def intersect(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """Return the intervals that lie in one of the first and one of the second."""
    found: list[Piece] = []
    for a in first:
        for b in second:
            low, low_closed = max((a[0], not _left(a)), (b[0], not _left(b)))
            high, high_closed = min((a[1], _right(a)), (b[1], _right(b)))
            left, right = not low_closed, high_closed
            if low < high or (low == high and left and right):
                names: dict[tuple[bool, bool], Closed] = {
                    (True, True): "both",
                    (True, False): "left",
                    (False, True): "right",
                    (False, False): "neither",
                }
                found.append((low, high, names[left, right]))
    return found


def _left(piece: Piece) -> bool:
    return piece[2] in ("both", "left")


def _right(piece: Piece) -> bool:
    return piece[2] in ("both", "right")


def _limits(grid: Grid, pieces: Sequence[Piece]) -> list[tuple[float, float]]:
    """Return the first bins of the intervals, and those after their last."""
    limits: list[tuple[float, float]] = []
    for low, high, closed in pieces:
        begin = float(grid.limit(low, False, closed in ("both", "left")))
        end = float(grid.limit(high, True, closed in ("both", "right")))
        if not begin < end:
            continue
        # A recorded number is in the interval or not: bins are not cut. An interval between two
        # numbers that can be recorded has the one it is nearest to.
        first, last = math.ceil(begin - 0.5), math.ceil(end - 0.5)
        if first == last:
            first = math.floor((begin + end) / 2)
            last = first + 1
        limits.append((-math.inf if low == -math.inf else first, last))
        if high == math.inf:
            limits[-1] = (limits[-1][0], math.inf)
    return limits


def narrow(grid: Grid, pieces: Sequence[Piece]) -> Narrowed:
    """Cut the cells of a grid where intervals end.

    Parameters
    ----------
    grid : Grid
        Of a numeric column.
    pieces : sequence of (low, high, closed)
        Intervals that do not overlap, one of which the column lies in.

    Returns
    -------
    Narrowed

    Examples
    --------
    >>> from bayescut.data import learn_grid
    >>> from bayescut.data.narrow import narrow
    >>> narrowed = narrow(learn_grid(range(100), max_cells=4), [(30, 40, "left")])
    >>> narrowed.grid.n_cells, narrowed.shares[1].tolist()
    (6, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    """
    limits = _limits(grid, pieces)
    ends = np.unique(
        [min(max(x, -_FARTHEST), _FARTHEST) for pair in limits for x in pair if math.isfinite(x)]
    ).astype(np.int64)
    fine = cut_at(grid, ends)
    bounded = fine.tail_mass == 0
    first = np.append(fine.edges[0] if bounded[0] else -math.inf, fine.starts)
    last = np.append(fine.starts, fine.edges[-1] if bounded[1] else math.inf)
    allowed = np.zeros(fine.n_cells, dtype=bool)
    for begin, end in limits:
        allowed |= (first >= begin) & (last <= end)
    owner = np.append(0, np.searchsorted(grid.starts, fine.starts, side="right"))
    shares = np.zeros((grid.n_cells, fine.n_cells))
    shares[owner, np.arange(fine.n_cells)] = fine.mass * allowed
    # A cell of which less than half a bin is inside: all of it.
    lost = shares.sum(axis=1) == 0
    whole = np.zeros_like(shares)
    whole[owner, np.arange(fine.n_cells)] = fine.mass
    shares = np.where(lost[:, None], whole, shares)
    shares /= shares.sum(axis=1, keepdims=True)
    peak = fine.peak + np.log(fine.mass) - np.log(grid.mass)[owner]
    height = np.where(shares > 0, peak, -np.inf)
    return Narrowed(fine, shares, tuple(pieces), height)


def cut_at(grid: Grid, ends: IntArray, segments: int = _SEGMENTS) -> Grid:
    """Return the same density with cells that begin at some bins as well.

    A tail becomes so many segments, evenly filled, as far as the bins reach.
    """
    edges, masses = grid.edges, grid.pieces
    tail_mass, tail_scale = grid.tail_mass.copy(), grid.tail_scale.copy()
    # Beyond its first bins a Lomax tail is a Lomax tail again, whose scale is larger by them.
    low, high = int(min(ends, default=edges[0])), int(max(ends, default=edges[-1]))
    for side, far in ((0, int(edges[0]) - low + 1), (1, high + 1 - int(edges[-1]))):
        if far < 1 or tail_mass[side] == 0:
            continue
        inner = ends[(ends < edges[0]) if side == 0 else (ends > edges[-1])]
        away = np.abs(inner - (edges[0] if side == 0 else edges[-1]))
        places = np.unique(np.concatenate([np.geomspace(1, far, segments).round(), away, [far]]))
        places = np.append(0, places).astype(np.int64)
        left = grid.survival(side, places.astype(np.float64)) * tail_mass[side]
        parts = -np.diff(left)
        tail_mass[side] = left[-1]
        tail_scale[side] += far * grid.step
        if side == 0:
            edges = np.concatenate([edges[0] - places[:0:-1], edges])
            masses = np.concatenate([parts[::-1], masses])
        else:
            edges = np.concatenate([edges, edges[-1] + places[1:]])
            masses = np.concatenate([masses, parts])
    starts = np.union1d(grid.starts, ends[(ends > edges[0]) & (ends < edges[-1])])
    if len(starts) >= MAX_CELLS:
        raise DataError(
            f"Evidence of {len(ends) // 2} separate numbers or intervals on one column is too "
            "much: name fewer, or an interval that holds them."
        )
    finer = np.union1d(edges, starts)
    owner = np.searchsorted(edges, finer[:-1], side="right") - 1
    pieces = masses[owner] * (np.diff(finer) / np.diff(edges)[owner])
    levels = np.ones(len(starts), dtype=np.int8)
    return Grid(grid.step, grid.exact, finer, pieces, starts, levels, tail_mass, tail_scale)
