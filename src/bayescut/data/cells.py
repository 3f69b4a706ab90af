"""Learning the grid of a numeric column: its step, cells, density and tails."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import FloatArray, IntArray
from bayescut.data import tails
from bayescut.data.grid import MAX_CELLS, Grid
from bayescut.data.lattice import LARGEST_BIN, distinct_values, find_step, on_lattice, to_bins
from bayescut.data.polya import polya_density
from bayescut.exceptions import DataError

__all__ = ["halvings", "learn_grid"]

# Larger numbers cannot be squared.
_LARGEST = 1e150
# Split points of grids drawn at random lie between these quantiles.
_DRAWN = (0.25, 0.75)
# Scales of the tails are mean distances of this outermost share of the rows from its quantile.
_OUTER = 1 / 16
# ... and not less than this share of the range: a step beyond an atom is no surprise.
_LEAST_SCALE = 1 / 64
# Mass below zero where every value is a whole number >= 0: small enough that no draw is negative,
# and not zero, since one cell would then make the likelihood of a table zero.
_BELOW_COUNTS = 2.0**-40


def learn_grid(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    max_cells: int = 64,
    rng: np.random.Generator | None = None,
    step: float | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
) -> Grid:
    """Learn cells and density of a numeric column.

    Cells halve the rows, the heaviest first; a value with more than 1/max_cells of the rows has a
    cell of its own, one step wide where its neighbours have rows. The density is the mean of
    optional Polya trees, and a tail of mass 1/(n + 2) lies beyond either end of the values. Where
    no value is negative, the lower tail ends at zero.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite numbers, at least one.
    weights : array-like of shape (n,), optional
        Weights of the rows; 2 is a row given twice, 0 is no row.
    max_cells : int
        At most this many cells, up to 254.
    rng : numpy.random.Generator, optional
        Draws the cells: they split at a random 25 to 75 % quantile instead of the median. The
        density does not depend on it.
    step : float, optional
        The recording step, found from the values by default.
    bounds : pair of float or None
        Declared bounds: no value can lie beyond. None: none is declared; -inf and inf: there is
        none, not even zero for a column without negative values.

    Returns
    -------
    Grid

    Examples
    --------
    >>> from bayescut.data import learn_grid
    >>> learn_grid([1.5, 2.25, 2.5, 9.75])
    Grid(4 cells, step=0.05, range=[0, 9.75])
    """
    if not 1 <= max_cells <= MAX_CELLS:
        raise DataError(f"max_cells must lie between 1 and {MAX_CELLS}, not {max_cells!r}.")
    distinct, rows = distinct_values(
        np.asarray(values, dtype=np.float64),
        None if weights is None else np.asarray(weights, dtype=np.float64),
    )
    largest = float(np.abs(distinct[[0, -1]]).max())
    if largest > _LARGEST:
        raise DataError(f"Values of {largest:g} have no variance: change the unit of the column.")
    if step is None:
        step, exact = find_step(distinct, rows)
    else:
        if not (math.isfinite(step) and step > 0):
            raise DataError(f"The step of a column must be a positive number, not {step!r}.")
        exact = bool(on_lattice(distinct, step).all())
    place = to_bins(distinct, step)
    if np.abs(place[[0, -1]]).max() >= LARGEST_BIN:
        raise DataError(f"A step of {step:g} is too small for values up to {distinct[-1]:g}.")
    bins, where = np.unique(place.astype(np.int64), return_inverse=True)
    rows = np.bincount(where, rows).astype(np.float64)
    starts = _cells(bins, rows, max_cells, rng)
    inside = np.searchsorted(starts, bins, side="right")
    levels = halvings(np.bincount(inside, rows, minlength=len(starts) + 1), rng)
    edges, pieces = polya_density(bins, rows)
    ends = [
        _tail(bins, rows, step, exact, side, bounds[side], float(distinct[0])) for side in (0, 1)
    ]
    # Segments of a bounded tail lie beside the pieces of the trees.
    edges = np.concatenate([ends[0].edges, edges, ends[1].edges])
    body = 1.0 - sum(tail.mass + tail.segments.sum() for tail in ends)
    pieces = np.concatenate([ends[0].segments, body * pieces, ends[1].segments])
    edges, pieces = _cut(edges, pieces, starts)
    return Grid(
        step,
        exact,
        edges,
        pieces,
        starts,
        levels,
        np.array([tail.mass for tail in ends]),
        np.array([tail.scale for tail in ends]),
    )


def _cells(
    bins: IntArray, rows: FloatArray, max_cells: int, rng: np.random.Generator | None
) -> IntArray:
    """Return the first bins of all cells but the lowest."""
    total = float(rows.sum())
    atom = rows > total / max_cells
    chosen: set[int] = set()  # boundaries, by the index of the bin above
    for heavy in sorted(np.flatnonzero(atom).tolist(), key=lambda i: (-rows[i], i)):
        around = {i for i in (heavy, heavy + 1) if 0 < i < len(bins)}
        if len(chosen | around) < max_cells:
            chosen |= around
    ends = [0, *sorted(chosen), len(bins)]
    below = np.append(0.0, np.cumsum(rows))
    heap = [(below[begin] - below[end], begin, end) for begin, end in itertools.pairwise(ends)]
    heapq.heapify(heap)
    while heap and len(chosen) + 1 < max_cells:
        _, begin, end = heapq.heappop(heap)
        if end - begin < 2:
            continue
        middle = _split(below, begin, end, rng)
        chosen.add(middle)
        heapq.heappush(heap, (below[begin] - below[middle], begin, middle))
        heapq.heappush(heap, (below[middle] - below[end], middle, end))
    above = np.array(sorted(chosen), dtype=np.int64)
    first, last = bins[above - 1] + 1, bins[above]
    # In the middle of a gap, but close to an atom, which is to be alone.
    start = first + (last - first + 1) // 2
    start = np.where(atom[above - 1] & ~atom[above], first, start)
    return np.where(atom[above] & ~atom[above - 1], last, start)


def _split(below: FloatArray, begin: int, end: int, rng: np.random.Generator | None) -> int:
    """Return the boundary nearest to the median, or to a random quantile, of some items."""
    share = 0.5 if rng is None else float(rng.uniform(*_DRAWN))
    target = below[begin] + share * (below[end] - below[begin])
    above = begin + 1 + int(np.searchsorted(below[begin + 1 : end - 1], target))
    nearer = above - 1 > begin and target - below[above - 1] <= below[above] - target
    return above - 1 if nearer else above


def halvings(rows: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.int8]:
    """Halve a row of cells again and again until each is alone.

    Parameters
    ----------
    rows : array-like of shape (K,)
        Rows (or mass) in each cell.
    rng : numpy.random.Generator, optional
        Splits at a random 25 to 75 % quantile instead of the median.

    Returns
    -------
    int8 array of shape (K - 1,)
        At which halving the boundary below cells 1, ..., K - 1 appears, from 1.

    Examples
    --------
    >>> from bayescut.data import halvings
    >>> halvings([1, 1, 1, 1, 4]).tolist()
    [3, 2, 3, 1]
    """
    counts = np.asarray(rows, dtype=np.float64)
    below = np.append(0.0, np.cumsum(counts))
    levels = np.ones(len(counts) - 1, dtype=np.int8)
    todo = [(0, len(counts), 1)]
    while todo:
        begin, end, level = todo.pop()
        if end - begin < 2:
            continue
        middle = _split(below, begin, end, rng)
        levels[middle - 1] = level
        todo += [(begin, middle, level + 1), (middle, end, level + 1)]
    return levels


class _Tail:
    """What lies beyond one end of the values: segments up to a bound, then an endless tail."""

    def __init__(self, scale: float) -> None:
        self.mass = 0.0
        self.scale = scale
        self.edges: IntArray = np.zeros(0, dtype=np.int64)
        self.segments: FloatArray = np.zeros(0)


def _tail(
    bins: IntArray,
    rows: FloatArray,
    step: float,
    exact: bool,
    side: int,
    bound: float | None,
    least: float,
) -> _Tail:
    tail = _Tail(step * _tail_scale(bins, rows, side))
    share = 1.0 / (float(rows.sum()) + 2.0)
    extreme = int(bins[0 if side == 0 else -1])
    endless = (-math.inf, math.inf)[side]
    if bound == endless or (bound is None and not (side == 0 and least >= 0)):
        tail.mass = share
        return tail
    if bound is None:
        last = 0
        tail.mass = _BELOW_COUNTS if exact and step >= 1 else share * share
    else:
        last = int(to_bins(np.float64(bound), step)) if math.isfinite(bound) else 0
        if not math.isfinite(bound) or (last > extreme if side == 0 else last < extreme):
            name = "lower" if side == 0 else "upper"
            raise DataError(
                f"The {name} bound {bound!r} must be finite and not leave out values of the column."
            )
    far = abs(extreme - last)
    if far == 0:
        return tail
    # Uniform on [0, scale], [scale, 3 scale], [3 scale, 7 scale], ..., with the masses of a tail.
    size = math.ceil(tail.scale / step)
    ends = [0]
    while ends[-1] < far:
        ends.append(min(far, 2 * ends[-1] + size))
    survival = (1 + np.array(ends) / size) ** -float(tails.SHAPE)
    segments = -np.diff(survival) / (1 - survival[-1]) * share
    if side == 0:
        tail.edges = extreme - np.array(ends[:0:-1], dtype=np.int64)
        tail.segments = segments[::-1]
    else:
        tail.edges = extreme + 1 + np.array(ends[1:], dtype=np.int64)
        tail.segments = segments
    return tail


def _tail_scale(bins: IntArray, rows: FloatArray, side: int) -> float:
    """Return the scale of a tail in bins."""
    away = bins - bins[0] if side == 1 else (bins[-1] - bins)[::-1]
    weight = rows if side == 1 else rows[::-1]
    below = np.cumsum(weight)
    start = int(np.searchsorted(below, (1 - _OUTER) * below[-1]))
    outer = weight[start:] * (away[start:] - away[start])
    excess = float(outer.sum() / weight[start:].sum())
    return max(1.0, excess, _LEAST_SCALE * float(away[-1]))


def _cut(edges: IntArray, pieces: FloatArray, starts: IntArray) -> tuple[IntArray, FloatArray]:
    """Cut pieces where cells start."""
    finer = np.union1d(edges, starts)
    owner = np.searchsorted(edges, finer[:-1], side="right") - 1
    return finer, pieces[owner] * (np.diff(finer) / np.diff(edges)[owner])
