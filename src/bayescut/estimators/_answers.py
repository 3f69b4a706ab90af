"""From a circuit over the states of columns to answers about tables with numbers.

A circuit knows the cells of a number. Within a cell the number follows the density of its column
(`bayescut.data.grid`), whatever else is known, so that likelihoods, means, quantiles, draws and the
mode of the joint density follow from the circuit's answers about cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit, Evidence
from bayescut.circuit.queries import completed_numbers
from bayescut.data import Domain, Domains, Grid, encode_evidence, missing_code
from bayescut.data.evidence import number_pieces
from bayescut.data.narrow import Narrowed, inside, intersect, narrow, weights
from bayescut.data.times import UNITS, time_cells
from bayescut.exceptions import DataError

__all__ = [
    "QUANTILES",
    "Given",
    "cell_probabilities",
    "complete",
    "conjunction",
    "draw",
    "expected",
    "fill_number",
    "given_mapping",
    "given_table",
    "log_density",
    "marginal_frame",
    "modes",
    "mpe",
    "number_means",
    "number_modes",
    "number_quantiles",
]

#: Quantiles of numbers that are told without being asked for.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of each row.

    Attributes
    ----------
    domains : Domains
        The columns.
    codes : array of shape (n, m)
        Known states; the largest value of the dtype: not known.
    values : float64 array of shape (n, m), or None
        Known numbers, NaN elsewhere; None if no column holds numbers.
    weights : float64 array of shape (sum of K,), or None
        The probability of what is known, given each state; None: only states are known.
    narrowed : dict from column to Narrowed
        Numbers known to lie in intervals.
    """

    domains: Domains
    codes: CodeArray
    values: FloatArray | None = None
    weights: FloatArray | None = None
    narrowed: Mapping[int, Narrowed] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def evidence(self) -> Evidence:
        """What a circuit is told."""
        return Evidence(self.codes, self.weights, self.values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are not known, shape (n, m)."""
        return self.codes == missing_code(self.codes.dtype)

    def repeat(self, n: int) -> Given:
        """Every row n times."""
        values = None if self.values is None else np.repeat(self.values, n, axis=0)
        return replace(self, codes=np.repeat(self.codes, n, axis=0), values=values)

    def take(self, rows: Any) -> Given:
        """Some of the rows."""
        values = None if self.values is None else self.values[rows]
        return replace(self, codes=self.codes[rows], values=values)

    def grids(self) -> dict[int, Grid]:
        """The cells of the columns that hold numbers."""
        return {j: d.grid for j, d in enumerate(self.domains) if d.grid is not None}

    def cells(self, column: int) -> Grid | Narrowed:
        """Where a number that is not known may lie."""
        if column in self.narrowed:
            return self.narrowed[column]
        grid = self.domains[column].grid
        if grid is None:
            raise DataError(f"Column {column} holds no numbers.")
        return grid


def given_table(
    domains: Domains,
    codes: CodeArray,
    values: FloatArray | None,
    gap_columns: Sequence[int] = (),
    *,
    tell: bool = False,
) -> Given:
    """Read rows of a table for a circuit that may have columns which tell gaps behind its others.

    Parameters
    ----------
    domains : Domains
        The columns of the circuit.
    codes, values
        Of the rows, see `bayescut.data.encode_table`.
    gap_columns : sequence of int
        The columns whose gaps the last columns of the circuit tell.
    tell : bool
        Whether the gaps of the rows are evidence.
    """
    if gap_columns:
        mark = missing_code(codes.dtype)
        gaps = np.full((len(codes), len(gap_columns)), mark, dtype=codes.dtype)
        if tell:
            gaps = (codes[:, list(gap_columns)] == mark).astype(codes.dtype)
        codes = np.hstack([codes, gaps])
        if values is not None:
            values = np.hstack([values, np.full(gaps.shape, np.nan)])
    return Given(domains, codes, values)


def given_mapping(evidence: Mapping[str | int, Any], domains: Domains) -> Given:
    """Read evidence on single columns: values, sets, intervals."""
    codes, states, values = encode_evidence(evidence, domains)
    pieces = number_pieces(evidence, domains)
    narrowed = {j: narrow(_grid(domains[j]), list(parts)) for j, parts in pieces.items()}
    known = codes[0] != missing_code(codes.dtype)
    plain = all(
        known[j] or states[domains.offsets[j] : domains.offsets[j + 1]].min() == 1
        for j in range(len(domains))
    )
    return Given(domains, codes, values, None if plain else states, narrowed)


def _grid(domain: Domain) -> Grid:
    if domain.grid is None:
        raise DataError(f"Column {domain.name!r} holds no numbers.")
    return domain.grid


def conjunction(first: Given, second: Given) -> tuple[Given, NDArray[np.bool_]]:
    """Return what both say, and the rows in which they contradict each other.

    One row of either goes with all rows of the other.
    """
    n_rows = max(first.n_rows, second.n_rows)
    if {first.n_rows, second.n_rows} - {1, n_rows}:
        raise DataError(
            f"{first.n_rows} rows of queries do not go with {second.n_rows} rows of evidence."
        )
    domains = first.domains
    either = ~first.missing, ~second.missing
    both = either[0] & either[1]
    conflict = (both & (first.codes != second.codes)).any(axis=1)
    codes = np.ascontiguousarray(np.where(either[0], first.codes, second.codes))
    values = first.values
    if first.values is not None and second.values is not None:
        values = np.where(np.isnan(first.values), second.values, first.values)
        for j, grid in first.grids().items():
            apart = grid.snap(first.values[:, j]) != grid.snap(second.values[:, j])
            conflict = conflict | (both[:, j] & apart)
    states = second.weights if first.weights is None else first.weights
    if first.weights is not None and second.weights is not None:
        states = first.weights * second.weights
    narrowed = {**first.narrowed, **second.narrowed}
    for j in set(first.narrowed) & set(second.narrowed):
        # Shares of a cell do not multiply: the intervals may lie side by side in it.
        pieces = intersect(first.narrowed[j].pieces, second.narrowed[j].pieces)
        grid, here = _grid(domains[j]), slice(domains.offsets[j], domains.offsets[j + 1])
        states = np.array(states)
        states[here] = weights(grid, pieces)
        if states[here].any():
            narrowed[j] = narrow(grid, pieces)
        else:
            states[here] = 1.0
            conflict = np.ones(n_rows, dtype=bool)
    for j, found in narrowed.items():
        if values is not None:
            conflict = conflict | ~inside(_grid(domains[j]), values[:, j], found.pieces)
    conflict = np.broadcast_to(conflict, n_rows)
    return Given(domains, codes, values, states, narrowed), conflict


def log_inside(given: Given) -> FloatArray:
    """Sum of ln f(x) - ln F(cell of x) over the numbers that are known, one for each row."""
    total = np.zeros(given.n_rows)
    if given.values is not None:
        for j, grid in given.grids().items():
            total += grid.log_inside(given.values[:, j])
    return total


def log_density(circuit: Circuit, given: Given, n_jobs: int | None) -> FloatArray:
    """Log-density of what is known of each row."""
    value = circuit.log_likelihood(given.evidence, n_jobs=n_jobs)
    return value if given.values is None else value + log_inside(given)


def complete(given: Given, codes: CodeArray, numbers: Mapping[int, FloatArray]) -> Any:
    """Return the numbers of completed rows: those known, and others for those not known."""
    if given.values is None:
        return None
    values = np.array(given.values)
    for j, column in numbers.items():
        values[:, j] = np.where(np.isnan(values[:, j]), column, values[:, j])
    return values


def _of_leaves(given: Given, column: int, found: FloatArray, others: FloatArray) -> FloatArray:
    """Return the numbers that normal leaves have found, and others where they have found none or,
    as an interval may end inside a cell, none that is inside."""
    grid, cells = _grid(given.domains[column]), given.cells(column)
    own = grid.snap(found[:, column])
    known = ~np.isnan(own)
    if isinstance(cells, Narrowed):
        known &= inside(grid, own, cells.pieces)
    return np.where(known, own, others)


def draw(
    circuit: Circuit, given: Given, rng: np.random.Generator, n_jobs: int | None
) -> tuple[CodeArray, FloatArray | None]:
    """Draw what is not known of each row: states and numbers."""
    if circuit.has_normals:
        codes, drawn = completed_numbers(circuit, given.evidence, rng, n_jobs=n_jobs)
    else:
        codes = circuit.sample_conditional(given.evidence, rng, n_jobs=n_jobs)
        drawn = np.full(codes.shape, np.nan)
    numbers = {}
    for j in given.grids():
        cells = given.cells(j)
        if isinstance(cells, Narrowed):
            own = cells.draw(codes[:, j], rng.random(len(codes)), rng.random(len(codes)))
        else:
            own = cells.draw(codes[:, j], rng.random(len(codes)))
        numbers[j] = _of_leaves(given, j, drawn, own)
    return codes, complete(given, codes, numbers)


def mpe(
    circuit: Circuit, given: Given, n_jobs: int | None
) -> tuple[CodeArray, FloatArray | None, FloatArray]:
    """Complete rows by the mode of the joint density: states, numbers, and its logarithm.

    Each cell of a number counts with the highest density in it, so that the circuit's search for
    the best states is one for the best row.
    """
    grids = given.grids()
    if not grids:
        codes, value = circuit.mpe(given.evidence, n_jobs=n_jobs)
        return codes, None, value
    states = np.ones(int(given.domains.offsets[-1])) if given.weights is None else given.weights
    states = np.array(states)
    for j in grids:
        here = slice(given.domains.offsets[j], given.domains.offsets[j + 1])
        peak = np.where(states[here] > 0, given.cells(j).peak, -np.inf)
        # Not zero: a cell may be all that other evidence allows.
        states[here] = np.where(peak > -np.inf, np.exp(np.maximum(peak - peak.max(), -700)), 0.0)
    if circuit.has_normals:
        told = Evidence(given.codes, states, given.values)
        codes, chosen = completed_numbers(circuit, told, maximise=True, n_jobs=n_jobs)
        best = {j: _of_leaves(given, j, chosen, given.cells(j).mode[codes[:, j]]) for j in grids}
        whole = Given(given.domains, codes, complete(given, codes, best))
        return codes, whole.values, log_density(circuit, whole, n_jobs)
    codes, value = circuit.mpe(Evidence(given.codes, states), n_jobs=n_jobs)
    values = complete(given, codes, {j: given.cells(j).mode[codes[:, j]] for j in grids})
    found = replace(given, codes=codes, values=values)
    return codes, values, value + log_inside(found)


def cell_probabilities(given: Given, marginals: FloatArray, column: int) -> tuple[Grid, FloatArray]:
    """Return the cells of a number and their probabilities in each row.

    Parameters
    ----------
    given : Given
        What is known.
    marginals : float64 array of shape (n, sum of K)
        The circuit's marginals given it.
    column : int
        Position of a column of numbers.

    Returns
    -------
    grid : Grid
        Cells, finer than the column's own where an interval is known.
    probabilities : float64 array of shape (n, K)
    """
    own = marginals[:, given.domains.offsets[column] : given.domains.offsets[column + 1]]
    cells = given.cells(column)
    if isinstance(cells, Narrowed):
        return cells.grid, cells.spread(own)
    return cells, own


def number_means(given: Given, marginals: FloatArray, column: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of a number in each row."""
    grid, p = cell_probabilities(given, marginals, column)
    p = p / p.sum(axis=1, keepdims=True)
    mean = p @ grid.mean
    # Around the mean of the row: squares of large numbers would cancel.
    spread = (p * (grid.mean - mean[:, None]) ** 2).sum(axis=1) + p @ grid.variance
    return _known(given, column, mean), _known(given, column, np.sqrt(spread), 0.0)


def number_quantiles(
    given: Given, marginals: FloatArray, column: int, q: Sequence[float]
) -> FloatArray:
    """Return quantiles of a number in each row, shape (n, len(q))."""
    grid, p = cell_probabilities(given, marginals, column)
    found = grid.quantile(p, np.asarray(q, dtype=np.float64))
    return np.column_stack([_known(given, column, line) for line in found.T])


def number_modes(given: Given, marginals: FloatArray, column: int) -> FloatArray:
    """Return where the density of a number is highest in each row."""
    grid, p = cell_probabilities(given, marginals, column)
    with np.errstate(divide="ignore"):
        best = (np.log(p) + grid.peak).argmax(axis=1)
    return _known(given, column, grid.mode[best])


def _known(
    given: Given, column: int, found: FloatArray, instead: float | None = None
) -> FloatArray:
    """Numbers that are known take the place of what was found."""
    if given.values is None:
        return found
    known = given.values[:, column]
    return np.where(np.isnan(known), found, known if instead is None else instead)


def modes(given: Given, marginals: FloatArray) -> CodeArray:
    """Fill every cell that is not known with its own most probable state."""
    filled = given.codes.copy()
    missing = given.missing
    offsets = given.domains.offsets
    for j in np.flatnonzero(missing.any(axis=0)):
        rows = missing[:, j]
        filled[rows, j] = marginals[rows, offsets[j] : offsets[j + 1]].argmax(axis=1)
    return filled


def fill_number(given: Given, marginals: FloatArray, column: int, method: str) -> FloatArray:
    """Return the mode, median or mean of a number in each row, in steps of its column."""
    if method == "mode":
        return number_modes(given, marginals, column)
    if method == "median":
        return number_quantiles(given, marginals, column, [0.5])[:, 0]
    return _grid(given.domains[column]).snap(number_means(given, marginals, column)[0])


def expected(given: Given, marginals: FloatArray, key: str | int, function: Any) -> FloatArray:
    """Return the expectation of a function of one column in each row."""
    j = given.domains.index(key)
    domain = given.domains[j]
    own = marginals[:, given.domains.offsets[j] : given.domains.offsets[j + 1]]
    if not isinstance(function, (str, Mapping)) and not callable(function):
        event = given_mapping({key: function}, given.domains)
        return _probability(given, event, own, j)
    if domain.grid is not None:
        if function not in ("mean", "square"):
            raise DataError(
                f"Column {key!r} holds numbers: its functions are 'mean', 'square', sets and "
                f"intervals, not {function!r}."
            )
        mean, deviation = number_means(given, marginals, j)
        return mean if function == "mean" else mean**2 + deviation**2
    labels = [domain.label(code) for code in range(domain.n_states)]
    try:
        if isinstance(function, Mapping):
            table = [float(function[label]) for label in labels]
        elif isinstance(function, str):
            if function not in ("mean", "square"):
                raise DataError(f"{function!r} is no function: 'mean' and 'square' are.")
            power = 1 if function == "mean" else 2
            if any(isinstance(label, str) for label in labels):
                raise TypeError("its labels are text")
            table = [float(label) ** power for label in labels]
        else:
            table = [float(function(label)) for label in labels]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"Column {key!r} needs a number for each of its labels: {error}. "
            f"{domain.known_values()}"
        ) from error
    return own @ np.array(table)


def _probability(given: Given, event: Given, own: FloatArray, column: int) -> FloatArray:
    """Probability in each row that an event of one column holds."""
    offsets = given.domains.offsets
    domain = given.domains[column]
    if domain.grid is None:
        states = event.weights
        chosen = event.codes[0, column]
        if not event.missing[0, column]:
            return own[:, chosen]
        if states is None:
            return np.ones(given.n_rows)
        return own @ states[offsets[column] : offsets[column + 1]]
    if column not in event.narrowed:
        raise DataError(
            f"A single number of column {column} has a density: ask for an interval or a set."
        )
    pieces = event.narrowed[column].pieces
    if given.values is not None:
        known = given.values[:, column]
    else:
        known = np.full(given.n_rows, np.nan)
    if column in given.narrowed:
        pieces_both = intersect(given.narrowed[column].pieces, pieces)
        above = weights(domain.grid, pieces_both)
        below = weights(domain.grid, given.narrowed[column].pieces)
        share = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    else:
        share = weights(domain.grid, pieces)
    holds = inside(domain.grid, known, pieces).astype(np.float64)
    return np.where(np.isnan(known), own @ share, holds)


def marginal_frame(
    given: Given,
    marginals: FloatArray,
    domains: Domains,
    quantiles: Sequence[float],
    index: Any,
) -> Any:
    """Return posteriors as a DataFrame whose columns are pairs."""
    import pandas as pd

    parts: dict[tuple[Any, Any], Any] = {}
    for j, domain in enumerate(domains):
        name = domain.name if domain.name is not None else j
        if domain.grid is None:
            if domain.empty:
                continue
            for code in range(domain.n_states):
                parts[name, domain.label(code)] = marginals[:, domains.offsets[j] + code]
            continue
        mean, deviation = number_means(given, marginals, j)
        lines = number_quantiles(given, marginals, j, quantiles).T
        titles = [f"{100 * q:.6g}%" for q in quantiles]
        parts[name, "mean"] = _in_units(pd, mean, domain)
        parts[name, "std"] = _in_units(pd, deviation, domain, length=True)
        for title, line in zip(titles, lines, strict=True):
            parts[name, title] = _in_units(pd, line, domain)
    frame = pd.DataFrame(dict(enumerate(parts.values())), index=index)
    frame.columns = pd.MultiIndex.from_tuples(list(parts), names=["column", "label"])
    return frame


def _in_units(pd: Any, numbers: FloatArray, domain: Domain, *, length: bool = False) -> Any:
    """Numbers as they are; those of dates as dates, or durations."""
    if domain.unit is None:
        return numbers
    kind = "duration" if length else domain.kind
    # Means and deviations fall between two days, hence seconds.
    unit = domain.unit
    scale = UNITS[unit]
    cells = time_cells(np.rint(numbers * (scale / UNITS["s"])), "s", kind)
    if scale < UNITS["s"]:
        cells = time_cells(numbers, unit, kind)
    zone = str(domain.dtype or "")
    if kind == "date" and "," in zone:
        return pd.array(pd.DatetimeIndex(cells).tz_localize("UTC")).astype(zone)
    return cells
