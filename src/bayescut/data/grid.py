"""A numeric column as ordered cells with a density inside.

The density f of a column is constant on *pieces*, runs of bins of its recording lattice (see
:mod:`bayescut.data.lattice` and :mod:`bayescut.data.polya`), and has two Lomax tails beyond them.
The line is cut into K ordered *cells*, which are the states a model knows:

    ln p(x) = ln P(cell of x) + ln f(x) - ln F(cell of x),        F(cell) = mass of f in the cell.

Within a cell the column follows its own density, whatever the model says about the cells. So
everything a model is asked about numbers follows exactly from its probabilities of cells.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data import tails
from bayescut.data.lattice import LARGEST_BIN, snap, to_bins
from bayescut.exceptions import DataError

__all__ = ["MAX_CELLS", "Closed", "Grid"]

Closed = Literal["both", "left", "right", "neither"]

# Codes of numbers are bytes, the largest of which means "not observed".
MAX_CELLS = 254
_FARTHEST = 1e300
# How close to a multiple of the step a bound counts as that multiple, in steps.
_CLOSE = 1e-6
_MOST_PIECES = 1 << 20
# Bins whose pieces are listed one by one: looking up a value takes 20 ns instead of 160.
_MOST_LISTED = 1 << 16
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells, density and tails of a numeric column. Learned by :func:`bayescut.data.learn_grid`.

    Parameters
    ----------
    step : float
        Recording step: a value x stands for [x - step/2, x + step/2], its bin. Bin k is that of
        the value k * step.
    exact : bool
        Whether every value was a multiple of the step (integers, say).
    edges : int64 array of shape (P + 1,)
        Piece i of the density holds the bins ``edges[i]`` to ``edges[i + 1] - 1``.
    pieces : float64 array of shape (P,)
        Probabilities of the pieces.
    starts : int64 array of shape (K - 1,)
        First bins of all cells but the lowest, each among the edges. The outermost cells reach to
        infinity.
    levels : int8 array of shape (K - 1,)
        At which halving each of these boundaries appears, from 1: see :meth:`view`.
    tail_mass, tail_scale : float64 arrays of shape (2,)
        Probability and scale of the tails below and above the pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.data import learn_grid
    >>> grid = learn_grid(np.arange(1000) % 70)
    >>> grid.step, grid.n_cells, grid.codes([0, 35, 1e9]).tolist()
    (1.0, 64, [0, 35, 63])
    >>> whole = np.arange(-5, 200)
    >>> float(np.exp(grid.log_density(whole)).sum().round(3))
    1.0
    """

    step: float
    exact: bool
    edges: IntArray
    pieces: FloatArray
    starts: IntArray
    levels: IntArray
    tail_mass: FloatArray
    tail_scale: FloatArray

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array: NDArray[Any] = np.array(getattr(self, name), dtype=dtype)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "step", float(self.step))
        object.__setattr__(self, "exact", bool(self.exact))
        _check(self)

    @property
    def n_cells(self) -> int:
        """Number of cells K."""
        return len(self.starts) + 1

    @cached_property
    def _ptr(self) -> IntArray:
        """Where the pieces of each cell begin, shape (K + 1,)."""
        inside = np.searchsorted(self.edges, self.starts)
        return np.concatenate([[0], inside, [len(self.pieces)]]).astype(np.int64)

    def _by_cell(self, of_pieces: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(of_pieces, self._ptr[:-1]), dtype=np.float64)

    @cached_property
    def mass(self) -> FloatArray:
        """Probability F of every cell under the density, tails included, shape (K,)."""
        mass = self._by_cell(self.pieces)
        mass[0] += self.tail_mass[0]
        mass[-1] += self.tail_mass[1]
        return _frozen(mass)

    @cached_property
    def _below(self) -> FloatArray:
        """Mass below every edge of the pieces, shape (P + 1,)."""
        return np.asarray(self.tail_mass[0] + np.append(0.0, np.cumsum(self.pieces)))

    @cached_property
    def _below_cell(self) -> FloatArray:
        """Mass below every cell, shape (K,)."""
        return np.append(0.0, self._below[self._ptr[1:-1]])

    @cached_property
    def _log_pieces(self) -> FloatArray:
        return np.asarray(np.log(self.pieces) - np.log(np.diff(self.edges)) - math.log(self.step))

    @cached_property
    def _log_mass(self) -> FloatArray:
        return np.asarray(np.log(self.mass))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value within the pieces; beyond are the tails."""
        ends = snap(np.array([self.edges[0], self.edges[-1] - 1], dtype=np.float64), self.step)
        return float(ends[0]), float(ends[1])

    def snap(self, values: ArrayLike) -> FloatArray:
        """Round values to the recording step."""
        return snap(to_bins(np.asarray(values, dtype=np.float64), self.step), self.step)

    # Codes and densities of values.

    def codes(self, values: ArrayLike) -> CodeArray:
        """Return the cell of every value, 255 ("not observed") for NaN; dtype uint8."""
        bins = to_bins(values, self.step)
        codes: CodeArray = self._piece_cells[self._pieces_of(bins)]
        return np.where(np.isnan(bins), np.array(255, dtype=np.uint8), codes)

    @cached_property
    def _piece_cells(self) -> CodeArray:
        """The cell of each piece, and of the tails at either end, shape (P + 2,)."""
        cells = np.repeat(np.arange(self.n_cells), np.diff(self._ptr))
        return np.concatenate([cells[:1], cells, cells[-1:]]).astype(np.uint8)

    @cached_property
    def _piece_table(self) -> IntArray | None:
        """The piece of every bin, tails at either end, if there are not too many of them."""
        n_bins = int(self.edges[-1] - self.edges[0])
        if n_bins > _MOST_LISTED:
            return None
        inner = np.repeat(np.arange(1, len(self.pieces) + 1), np.diff(self.edges))
        return np.concatenate([[0], inner, [len(self.pieces) + 1]]).astype(np.int32)

    def _pieces_of(self, bins: FloatArray) -> IntArray:
        """Return the pieces of bins, counted from 1: 0 and P + 1 are the tails; 0 for NaN."""
        table = self._piece_table
        if table is None:
            found = np.searchsorted(self.edges, bins, side="right")
            return np.where(np.isnan(bins), 0, found)
        place = np.clip(bins - (self.edges[0] - 1), 0, len(table) - 1)
        with np.errstate(invalid="ignore"):  # NaN
            return np.take(table, place.astype(np.int64), mode="clip")

    def log_density(self, values: ArrayLike) -> FloatArray:
        """Return ln f(x), in units of the column; the log of a mass where the step is 1.

        NaN for NaN; -inf beyond declared bounds, and nowhere else.
        """
        bins = to_bins(np.asarray(values, dtype=np.float64), self.step)
        piece = self._pieces_of(bins)
        out = self._log_padded[piece]
        for side, tail, sign, first in (
            (0, 0, -1, self.edges[0] - 1),
            (1, len(self.pieces) + 1, 1, self.edges[-1]),
        ):
            beyond = piece == tail
            if beyond.any():
                away = np.minimum(np.where(beyond, sign * (bins - first), 0.0), _FARTHEST)
                out = np.where(beyond, self._log_tail(side, away), out)
        return np.where(np.isnan(bins), np.nan, out)

    @cached_property
    def _log_padded(self) -> FloatArray:
        return np.concatenate([[0.0], self._log_pieces, [0.0]])

    def log_inside(self, values: ArrayLike, codes: ArrayLike | None = None) -> FloatArray:
        """Return ln f(x) - ln F(cell of x), so that ln p(x) = ln P(cell) + this.

        Zero where x is NaN: a cell that was not observed adds nothing to a likelihood.
        """
        values = np.asarray(values, dtype=np.float64)
        cells = self.codes(values) if codes is None else np.asarray(codes)
        missing = np.isnan(values)
        cells = np.where(missing, 0, cells)
        return np.where(missing, 0.0, self.log_density(values) - self._log_mass[cells])

    def _log_tail(self, side: int, away: Any) -> FloatArray:
        """Return the log density of the bin with ``away`` tail bins between it and the pieces."""
        if self.tail_mass[side] == 0:
            return np.full(np.shape(away), -np.inf)
        log_scale = math.log(self.tail_mass[side]) - math.log(self.step)
        return np.asarray(tails.log_bin(self._scales[side], away) + log_scale)

    @cached_property
    def _scales(self) -> tuple[float, float]:
        """Scales of the tails in bins."""
        low, high = (self.tail_scale / self.step).tolist()
        return low, high

    def survival(self, side: int, away: Any) -> FloatArray:
        """Return the share of a tail that lies beyond a distance in bins."""
        return tails.survival(self._scales[side], np.clip(away, 0.0, _FARTHEST))

    # Intervals.

    def limit(self, bound: Any, upper: bool, closed: bool) -> FloatArray:
        """Return where an interval ends on the axis on which bin k is [k, k + 1).

        A bound that is a multiple of the step takes or leaves its whole bin: x > 0 leaves an atom
        at zero, x >= 0 takes it. Between two multiples nothing was recorded if ``exact``;
        otherwise the density is cut where the bound is.
        """
        bound = np.clip(np.asarray(bound, dtype=np.float64), -_FARTHEST, _FARTHEST)
        with np.errstate(over="ignore"):
            scaled = np.clip(bound / self.step, -_FARTHEST, _FARTHEST)
        nearest = np.rint(scaled)
        between = (np.floor(scaled) + 1) if self.exact else scaled + 0.5
        on_lattice = np.abs(scaled - nearest) <= _CLOSE + 1e-15 * np.abs(scaled)
        return np.where(on_lattice, nearest + (upper == closed), between)

    def weights(self, low: float, high: float, closed: Closed = "both") -> FloatArray:
        """Return, for every cell, the share of its density that lies in an interval.

        Parameters
        ----------
        low, high : float
            May be infinite.
        closed : {"both", "left", "right", "neither"}
            Which ends belong to the interval.

        Returns
        -------
        float64 array of shape (K,), values in [0, 1]

        Examples
        --------
        >>> from bayescut.data import learn_grid
        >>> ages = learn_grid([18, 20, 30, 31, 55])
        >>> ages.weights(30, float("inf")).round(2).tolist()
        [0.0, 0.0, 0.22, 1.0, 1.0]
        """
        begin = float(self.limit(low, False, closed in ("both", "left")))
        end = float(self.limit(high, True, closed in ("both", "right")))
        if not begin < end:
            return np.zeros(self.n_cells)
        overlap = np.minimum(self.edges[1:], end) - np.maximum(self.edges[:-1], begin)
        part = np.clip(overlap / np.diff(self.edges), 0.0, 1.0)
        inside = self._by_cell(self.pieces * part)
        first, last = float(self.edges[0]), float(self.edges[-1])
        inside[0] += self._tail_part(0, first - end, first - begin, low == -np.inf)
        inside[-1] += self._tail_part(1, begin - last, end - last, high == np.inf)
        return np.clip(inside / self.mass, 0.0, 1.0)

    def _tail_part(self, side: int, near: float, far: float, endless: bool) -> float:
        if far <= 0:
            return 0.0
        beyond = 0.0 if endless else float(self.survival(side, far))
        share = float(self.survival(side, max(near, 0.0))) - beyond
        return float(self.tail_mass[side]) * share

    # Moments and modes of the recorded value within each cell.

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the bin within every cell."""
        width = np.diff(self.edges).astype(np.float64)
        middle = self.edges[:-1] + (width - 1) / 2
        around = (width * width - 1) / 12
        sums = [self.pieces, self.pieces * middle, self.pieces * around]
        weight, first, second = (self._by_cell(part) for part in sums)
        beyond = [self._tail_moments(side) for side in (0, 1)]
        for cell, side in ((0, 0), (-1, 1)):
            tail_mean, tail_variance = beyond[side]
            weight[cell] += self.tail_mass[side]
            first[cell] += self.tail_mass[side] * tail_mean
            second[cell] += self.tail_mass[side] * tail_variance
        mean = first / weight
        second += self._by_cell(self.pieces * (middle - np.repeat(mean, np.diff(self._ptr))) ** 2)
        for cell, side in ((0, 0), (-1, 1)):
            second[cell] += self.tail_mass[side] * (beyond[side][0] - mean[cell]) ** 2
        return mean, second / weight

    def _tail_moments(self, side: int) -> tuple[float, float]:
        """Mean and variance of the bin in a tail."""
        mean, variance = tails.moments(self._scales[side])
        first = self.edges[0] - 1 - mean if side == 0 else self.edges[-1] + mean
        return float(first), variance

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of every cell, shape (K,)."""
        return _frozen(self._moments[0] * self.step)

    @cached_property
    def variance(self) -> FloatArray:
        """Variance within every cell, shape (K,)."""
        return _frozen(self._moments[1] * self.step**2)

    @property
    def second_moment(self) -> FloatArray:
        """Mean square of every cell, shape (K,); loses digits where a spread is small."""
        return self.variance + self.mean**2

    @cached_property
    def _modes(self) -> tuple[FloatArray, FloatArray]:
        best = np.empty(self.n_cells, dtype=np.int64)
        for cell in range(self.n_cells):
            begin, end = self._ptr[cell : cell + 2]
            best[cell] = begin + int(np.argmax(self._log_pieces[begin:end]))
        peak = self._log_pieces[best]
        place = (self.edges[best] + np.diff(self.edges)[best] // 2).astype(np.float64)
        for cell, side, bin_ in ((0, 0, self.edges[0] - 1), (-1, 1, self.edges[-1])):
            first = float(self._log_tail(side, 0.0))
            if first > peak[cell]:
                peak[cell], place[cell] = first, bin_
        return _frozen(peak - self._log_mass), _frozen(snap(place, self.step))

    @property
    def peak(self) -> FloatArray:
        """The highest ln f(x) - ln F(cell) of every cell, shape (K,)."""
        return self._modes[0]

    @property
    def mode(self) -> FloatArray:
        """Where the density of every cell is highest (the middle of that piece), shape (K,)."""
        return self._modes[1]

    # Mixtures of cells: a model gives probabilities of cells, rows by rows.

    def cumulative(self, place: FloatArray) -> FloatArray:
        """Return the mass of f below places on the axis on which bin k is [k, k + 1)."""
        first, last = float(self.edges[0]), float(self.edges[-1])
        below = np.interp(place, self.edges, self._below)
        low = self.tail_mass[0] * self.survival(0, first - place)
        high = self._below[-1] + self.tail_mass[1] * (1 - self.survival(1, place - last))
        return np.where(place < first, low, np.where(place > last, high, below))

    def _place(self, target: FloatArray) -> FloatArray:
        """Return the place below which f has a mass: the inverse of :meth:`cumulative`."""
        first, last = float(self.edges[0]), float(self.edges[-1])
        place = np.interp(target, self._below, self.edges)
        if self.tail_mass[0] > 0:
            away = tails.distance(self._scales[0], target / self.tail_mass[0])
            place = np.where(target < self._below[0], first - away, place)
        if self.tail_mass[1] > 0:
            share = 1 - (target - self._below[-1]) / self.tail_mass[1]
            away = tails.distance(self._scales[1], share)
            place = np.where(target > self._below[-1], last + away, place)
        return np.asarray(place, dtype=np.float64)

    def cdf(self, probabilities: ArrayLike, values: ArrayLike) -> FloatArray:
        """Return P(X <= x) for rows of probabilities of cells.

        Parameters
        ----------
        probabilities : array-like of shape (n, K) or (K,)
            Probabilities of the cells, one row for every answer or one for all.
        values : array-like of shape (n,) or scalar
            The values x, one for each row or one for all.

        Returns
        -------
        float64 array of shape (n,)
        """
        table = self._probabilities(probabilities)
        place = self.limit(np.atleast_1d(np.asarray(values, dtype=np.float64)), True, True)
        place = np.where(np.isnan(np.atleast_1d(values)), np.nan, place)
        n_rows = max(len(table), len(place))
        if len(table) not in (1, n_rows) or place.shape not in ((1,), (n_rows,)):
            raise DataError(f"{len(table)} rows of probabilities but {len(place)} values.")
        cell = np.searchsorted(self.starts, place, side="right")
        cell, place = np.broadcast_to(cell, n_rows), np.broadcast_to(place, n_rows)
        share = (self.cumulative(place) - self._below_cell[cell]) / self.mass[cell]
        table = np.broadcast_to(table, (n_rows, self.n_cells))
        below = np.cumsum(table, axis=1)
        rows = np.arange(n_rows)
        own = table[rows, cell]
        total = below[:, -1]
        found = (below[rows, cell] - own + own * np.clip(share, 0.0, 1.0)) / total
        return np.clip(found, 0.0, 1.0)

    def quantile(self, probabilities: ArrayLike, q: ArrayLike) -> FloatArray:
        """Return the least recorded values x with P(X <= x) >= q, for rows of cells' probabilities.

        Parameters
        ----------
        probabilities : array-like of shape (n, K) or (K,)
            Probabilities of the cells.
        q : array-like of shape (Q,) or scalar
            Probabilities, strictly between 0 and 1.

        Returns
        -------
        float64 array of shape (n,), or (n, Q) for several q
        """
        table = self._probabilities(probabilities)
        wanted = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise DataError(f"q must lie strictly between 0 and 1, not {q!r}.")
        below = np.cumsum(table, axis=1)
        target = below[:, -1:] * wanted
        # The first cell whose end is reached; those of no mass before it are passed over.
        cell = np.column_stack([(below < t[:, None]).sum(axis=1) for t in target.T])
        cell = np.minimum(cell, self.n_cells - 1)
        own = np.take_along_axis(table, cell, axis=1)
        share = (target - (np.take_along_axis(below, cell, axis=1) - own)) / own
        found = self._invert(cell, share)
        return found[:, 0] if np.ndim(q) == 0 else found

    def draw(self, codes: ArrayLike, uniform: ArrayLike) -> FloatArray:
        """Return a value of every cell, by inverting its distribution function.

        Parameters
        ----------
        codes : array-like of int
            Cells; 255 ("not observed") gives NaN.
        uniform : array-like of float
            Numbers in [0, 1), of the same shape.

        Returns
        -------
        float64 array of that shape
            Multiples of the step.

        Examples
        --------
        >>> import numpy as np
        >>> from bayescut.data import learn_grid
        >>> grid = learn_grid([0.1, 0.2, 0.2, 0.3])
        >>> grid.draw(grid.codes([0.1, 0.3]), [0.5, 0.5]).tolist()
        [0.1, 0.3]
        """
        cells = np.asarray(codes, dtype=np.int64)
        missing = cells == 255
        drawn = self._invert(np.where(missing, 0, cells), np.asarray(uniform, dtype=np.float64))
        return np.where(missing, np.nan, drawn)

    def _invert(self, cell: IntArray, share: FloatArray) -> FloatArray:
        if ((cell < 0) | (cell >= self.n_cells)).any():
            raise DataError(f"Cells are numbered 0, ..., {self.n_cells - 1}.")
        target = self._below_cell[cell] + np.clip(share, 0.0, 1.0) * self.mass[cell]
        bins = np.ceil(self._place(target)) - 1
        # Rounding must not lead out of the cell.
        low = np.append(-np.inf if self.tail_mass[0] > 0 else self.edges[0], self.starts)
        high = np.append(self.starts, np.inf if self.tail_mass[1] > 0 else self.edges[-1]) - 1
        return snap(np.clip(bins, low[cell], high[cell]), self.step)

    def _probabilities(self, probabilities: ArrayLike) -> FloatArray:
        table = np.atleast_2d(np.asarray(probabilities, dtype=np.float64))
        if table.ndim != 2 or table.shape[1] != self.n_cells:
            raise DataError(
                f"Probabilities of shape {np.shape(probabilities)} do not fit {self.n_cells} cells."
            )
        if not (np.isfinite(table).all() and (table >= 0).all() and (table.sum(1) > 0).all()):
            raise DataError("Probabilities of cells must be finite, not negative, not all zero.")
        return table

    # Coarser states.

    @property
    def depth(self) -> int:
        """How many halvings lead from one state to all cells."""
        return int(self.levels.max(initial=0))

    def view(self, depth: int, levels: ArrayLike | None = None) -> CodeArray:
        """Return the state of every cell after some halvings, at most 2^depth states.

        The states of one depth are unions of neighbouring states of the next.

        Parameters
        ----------
        depth : int
            Number of halvings, 0 for one state.
        levels : array-like of shape (K - 1,), optional
            Other halvings than the grid's own, see :func:`bayescut.data.halvings`.

        Returns
        -------
        uint8 array of shape (K,)

        Examples
        --------
        >>> from bayescut.data import learn_grid
        >>> learn_grid(range(8)).view(2).tolist()
        [0, 0, 1, 1, 2, 2, 3, 3]
        """
        own = np.asarray(self.levels if levels is None else levels)
        return np.append(0, np.cumsum(own <= depth)).astype(np.uint8)

    # Files and comparisons.

    def to_json(self) -> str:
        """Write the grid as JSON text; :meth:`from_json` restores it bit by bit."""
        return json.dumps(self.record(), allow_nan=False)

    def record(self) -> dict[str, Any]:
        """Return the grid as numbers and lists that JSON can hold."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, text: str) -> Grid:
        """Read what :meth:`to_json` wrote; :class:`DataError` for anything else."""
        try:
            return cls.from_record(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"This text does not describe a grid: {error}.") from error

    @classmethod
    def from_record(cls, record: Any) -> Grid:
        """Read what :meth:`record` returned, trusting nothing."""
        names = [field.name for field in fields(cls)]
        if not isinstance(record, Mapping) or sorted(record) != sorted(names):
            _refuse(f"it needs exactly the entries {', '.join(names)}")
        if type(record["step"]) is not float or type(record["exact"]) is not bool:
            _refuse("its step must be a float and exact true or false")
        for name, dtype in _DTYPES.items():
            kind = float if dtype is np.float64 else int
            entry = record[name]
            if not isinstance(entry, list) or len(entry) > _MOST_PIECES + 1:
                _refuse(f"{name} must be a list of at most {_MOST_PIECES + 1} numbers")
            if any(type(number) is not kind for number in entry):
                _refuse(f"{name} must hold numbers of type {kind.__name__}")
            # NumPy 1 wraps what does not fit.
            if kind is int and max(map(abs, entry), default=0) > np.iinfo(dtype).max:
                _refuse("a number is too large")
        try:
            return cls(**{name: record[name] for name in names})
        except OverflowError:
            _refuse("a number is too large")

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        arrays = tuple(getattr(self, name).tobytes() for name in _DTYPES)
        return self.step, self.exact, *arrays

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        low, high = self.range
        return f"Grid({self.n_cells} cells, step={self.step:g}, range=[{low:g}, {high:g}])"


_DTYPES: dict[str, type] = {
    "edges": np.int64,
    "pieces": np.float64,
    "starts": np.int64,
    "levels": np.int8,
    "tail_mass": np.float64,
    "tail_scale": np.float64,
}


def _frozen(array: NDArray[np.float64]) -> FloatArray:
    array.setflags(write=False)
    return array


def _refuse(why: str) -> NoReturn:
    raise DataError(f"This does not describe the grid of a numeric column: {why}.")


def _check(grid: Grid) -> None:
    shapes = {name: getattr(grid, name).shape for name in _DTYPES}
    n_pieces, n_cells = len(grid.pieces), len(grid.starts) + 1
    wanted: dict[str, tuple[int, ...]] = {"edges": (n_pieces + 1,), "pieces": (n_pieces,)}
    wanted |= {"starts": (n_cells - 1,), "levels": (n_cells - 1,)}
    wanted |= {"tail_mass": (2,), "tail_scale": (2,)}
    if shapes != wanted or not 1 <= n_pieces <= _MOST_PIECES:
        _refuse(f"the lengths of its lists do not fit together ({shapes})")
    if n_cells > min(MAX_CELLS, n_pieces):
        _refuse(f"it has {n_cells} cells, more than {min(MAX_CELLS, n_pieces)}")
    if not (math.isfinite(grid.step) and grid.step > 0):
        _refuse("its step is not a positive number")
    if max(abs(int(grid.edges[0])), abs(int(grid.edges[-1]))) > LARGEST_BIN:
        _refuse("its range has too many steps")
    if not math.isfinite(grid.step * float(np.abs(grid.edges).max())):
        _refuse("its values are too large")
    if not (np.diff(grid.edges) > 0).all() or not (np.diff(grid.starts) > 0).all():
        _refuse("edges and starts must grow")
    inside = (grid.starts > grid.edges[0]) & (grid.starts < grid.edges[-1])
    if not (inside.all() and np.isin(grid.starts, grid.edges).all()):
        _refuse("every cell must start at an inner edge")
    if not (grid.levels >= 1).all():
        _refuse("levels count from 1")
    scales = grid.tail_scale
    if not (np.isfinite(scales).all() and (scales >= grid.step).all()):
        _refuse("the scale of a tail must be finite and at least one step")
    total = grid.pieces.sum() + grid.tail_mass.sum()
    positive = (grid.pieces > 0).all() and (grid.tail_mass >= 0).all()
    if not (positive and abs(total - 1) <= _ROUNDING):
        _refuse("its probabilities must be positive and sum to one")
