"""What each column of a table is: the one place that decides, and its report.

==================================================  ============================================
column                                              kind
==================================================  ============================================
text, categories, booleans                          label (dates as text: with a warning)
numbers with fractions                              number
whole numbers, more than 20 different ones          number
the same, more than 10, spread over twice as many   number
other whole numbers                                 label
dates, times                                        date
durations                                           duration
no value observed                                   empty
arrays: whole numbers                               label, and the cells are codes 0, 1, 2, ...
arrays with fractions in any column                 as above, but negative numbers are numbers
==================================================  ============================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import FloatArray
from bayescut.data.cells import learn_grid
from bayescut.data.dates import find_date_form
from bayescut.data.determined import determined_columns
from bayescut.data.domains import MAX_STATES, Domain, Domains
from bayescut.data.frames import dense, dtype_kind, is_category, learn_column, plain_numbers
from bayescut.data.lattice import distinct_values
from bayescut.data.numbers import check_numbers, frame_numbers, object_kind
from bayescut.data.tables import (
    Where,
    as_numbers,
    as_table,
    column_names,
    column_range,
    is_frame,
    is_missing,
    whole_blocks,
)
from bayescut.data.times import time_kind
from bayescut.exceptions import DataError

__all__ = ["ColumnReport", "TableReport", "describe_table", "learn_domains"]

# Whole numbers with more different values than this are numbers. So are those of half as many if
# they leave out as many between them: counts with a long tail, of which new rows have others.
_MOST_LABELS = 20
_KINDS = ("label", "number", "date", "duration")
# A column whose values differ in this share of the rows, of at least so many, is an identifier.
_IDENTIFIER = 0.95
_ENOUGH = 50
# One value of a number in more than this share of the rows is worth knowing: likelihoods are then
# about that atom.
_ATOM = 0.1
_MOSTLY_GAPS = 0.5
# Rows, evenly spread, in which numbers are looked for that follow from others.
_SOME_ROWS = 4096


def _unnamed(row: int, column: int) -> str:
    """Name a cell of a table without column names."""
    return f"row {row}, column {column}"


def learn_domains(
    X: Any,
    n_states: ArrayLike | None = None,
    *,
    numbers: bool = False,
    columns: Mapping[str | int, str] | None = None,
    sample_weight: ArrayLike | None = None,
) -> Domains:
    """Learn the states of every column of a table.

    Cells of arrays and lists are codes: column j has :math:`K_j = \\max(2, 1 + \\max_i x_{ij})`
    states. Columns of a pandas DataFrame have the sorted distinct values as labels; booleans,
    and numbers among 0 and 1, are binary even where only one of the two occurs.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, m)
        The table. NaN, None and NA are cells that were not observed and teach nothing.
    n_states : int or array-like of shape (m,), optional
        The least number of states of every column, where the table does not show them all.
    numbers : bool
        Whether columns may hold numbers and dates, as :func:`bayescut.data.describe_table`
        decides. Otherwise every column holds labels, and fractions are refused.
    columns : mapping from column name or position to a kind, optional
        Kinds that overrule the decision, such as ``{"zip": "label"}``; implies ``numbers``.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, for the cells and densities of numbers.

    Returns
    -------
    Domains
        One domain per column.

    Raises
    ------
    DataError
        If a cell is negative, infinite, fractional or text in an array, if a column has more
        than 65534 states, or if the table is empty.

    Examples
    --------
    >>> from bayescut.data import learn_domains
    >>> learn_domains([[0, 2], [0, 1]])
    Domains(2 columns, n_states=[2, 3])
    """
    if numbers or columns is not None:
        return describe_table(
            X, columns=columns, n_states=n_states, sample_weight=sample_weight
        ).domains
    table = as_table(X)
    floor = check_floors(n_states, table.shape[1])
    if is_frame(table):
        names = column_names(table)
        return Domains(
            learn_column(table.iloc[:, j], None if names is None else names[j], j, int(floor[j]))
            for j in range(table.shape[1])
        )
    return Domains.of_sizes(np.maximum(_code_sizes(as_numbers(table, _unnamed), _unnamed), floor))


def _code_sizes(array: NDArray[Any], where: Where) -> NDArray[np.int64]:
    """Return the number of states of every column of an array whose cells are codes."""
    if array.dtype.kind == "f":
        high = np.zeros(array.shape[1])
        for _, values, _ in whole_blocks(array, where):
            np.maximum(high, values.max(axis=0), out=high)
    else:
        low, high = column_range(array)
        if low.min() < 0 or high.max() >= MAX_STATES:
            for _ in whole_blocks(array, where):  # raises at the first offender
                pass
    return np.maximum(high.astype(np.int64) + 1, 2)


def check_floors(n_states: ArrayLike | None, n_columns: int) -> NDArray[np.int64]:
    """Return the least number of states of every column, 0 where nothing is asked for."""
    if n_states is None:
        return np.zeros(n_columns, dtype=np.int64)
    floor = np.asarray(n_states)
    if floor.dtype.kind not in "iu" or floor.shape not in ((), (n_columns,)):
        raise DataError(
            f"n_states must be a whole number or {n_columns} whole numbers, one per column, "
            f"not {n_states!r}."
        )
    if floor.min() < 1 or floor.max() > MAX_STATES:
        raise DataError(f"n_states must lie between 1 and {MAX_STATES}, not {n_states!r}.")
    return np.broadcast_to(floor, (n_columns,)).astype(np.int64)


@dataclass(frozen=True)
class ColumnReport:
    """What was decided about one column.

    Attributes
    ----------
    name : str or int
        Its name, or its position where the table has no names.
    dtype : str
        The dtype it came with.
    kind : str
        ``label``, ``number``, ``date``, ``duration`` or ``empty``; ``unusable`` with a problem.
    n_states : int
        Number of labels, or of cells of a number.
    n_distinct : int
        Number of different values that were observed.
    n_missing : int
        Number of cells that were not observed.
    step : float or None
        The recording step of a number, in its unit.
    warnings : tuple of str
        What a user may want to look at.
    problem : str or None
        Why the column cannot be used.
    domain : Domain or None
        What a model remembers of it; None with a problem.
    """

    name: str | int
    dtype: str
    kind: str
    n_states: int
    n_distinct: int
    n_missing: int
    step: float | None
    warnings: tuple[str, ...]
    problem: str | None
    domain: Domain | None

    @property
    def constant(self) -> bool:
        """Whether only one value was observed."""
        return self.n_distinct == 1


@dataclass(frozen=True)
class TableReport:
    """What was decided about every column of a table; printed, it is a table itself.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    columns : tuple of ColumnReport
        In the order of the table.
    """

    n_rows: int
    columns: tuple[ColumnReport, ...]
    _errors: tuple[Exception, ...] = ()

    @property
    def problems(self) -> list[str]:
        """Why the table cannot be used: all problems of all columns."""
        return [column.problem for column in self.columns if column.problem is not None]

    @property
    def warnings(self) -> list[str]:
        """What a user may want to look at, with the names of the columns."""
        return [
            f"{f'column {column.name}' if str(column.name).isdecimal() else column.name}: {text}"
            for column in self.columns
            for text in column.warnings
        ]

    @property
    def domains(self) -> Domains:
        """The domains of the columns; an error that lists all problems if there are any."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            problems = "\n".join(f"- {problem}" for problem in self.problems)
            raise DataError(f"{len(self._errors)} columns cannot be used:\n{problems}")
        return Domains(column.domain for column in self.columns if column.domain is not None)

    def __str__(self) -> str:
        head = ("column", "dtype", "kind", "values", "states", "gaps", "step")
        lines = [head, *(_line(column) for column in self.columns)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        left = {0, 1, 2}
        text = [
            "  ".join(
                cell.ljust(width) if i in left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rows, columns = self.n_rows, len(self.columns)
        text.append(f"{rows} row{'s' * (rows != 1)}, {columns} column{'s' * (columns != 1)}")
        text += [f"problem: {problem}" for problem in self.problems]
        text += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(text)


def _line(column: ColumnReport) -> tuple[str, ...]:
    unit = column.domain.unit if column.domain is not None else None
    step = "" if column.step is None else f"{column.step:g}" + (f" {unit}" if unit else "")
    kind = "constant" if column.constant and column.problem is None else column.kind
    counts = (column.n_distinct, column.n_states, column.n_missing)
    return (str(column.name), column.dtype, kind, *map(str, counts), step)


def describe_table(
    X: Any,
    *,
    columns: Mapping[str | int, str] | None = None,
    n_states: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    max_cells: int = 64,
) -> TableReport:
    """Decide what every column of a table is, and report it, all problems at once.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, m)
        The table. NaN, None, NA and NaT are cells that were not observed.
    columns : mapping from column name or position to a kind, optional
        ``label``, ``number``, ``date`` or ``duration``, where the decision is to be overruled.
    n_states : int or array-like of shape (m,), optional
        The least number of states of columns of labels.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, for the cells and densities of numbers.
    max_cells : int
        The largest number of cells of a number.

    Returns
    -------
    TableReport
        Its ``domains`` are what a model learns with.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescut.data import describe_table
    >>> colours = pd.Categorical(["red", None, "blue"])
    >>> table = pd.DataFrame({"colour": colours, "weight": [1.5, 2.0, 2.5]})
    >>> print(describe_table(table))
    column  dtype     kind    values  states  gaps  step
    colour  category  label        2       2     1
    weight  float64   number       3       3     0   0.5
    3 rows, 2 columns
    """
    table = as_table(X)
    n_rows, n_columns = table.shape
    names = column_names(table)
    wanted = _overruled(columns, names, n_columns)
    weights = _row_weights(sample_weight, n_rows)
    floor = check_floors(n_states, n_columns)

    def where(row: int, column: int) -> str:
        return f"row {row}, column {column if names is None else repr(names[column])}"

    jobs: list[_Column] = []
    found: list[tuple[ColumnReport, Exception | None]] = []
    if is_frame(table):
        for j in range(n_columns):
            name = None if names is None else names[j]
            series = dense(table.iloc[:, j])
            job = _Column(name, j, str(series.dtype), weights, max_cells, where)
            jobs.append(job)
            found.append(job.report(job.from_frame, series, wanted[j], int(floor[j])))
    else:
        array = as_numbers(table, where)
        kinds = _array_kinds(array, wanted)
        for j in range(n_columns):
            job = _Column(None, j, str(table.dtype), weights, max_cells, where)
            jobs.append(job)
            found.append(job.report(job.from_array, array[:, j], kinds[j], int(floor[j])))
    errors = tuple(error for _, error in found if error is not None)
    reports = [report for report, _ in found]
    _tell_what_follows(reports, jobs, weights)
    return TableReport(n_rows, tuple(reports), errors)


def _tell_what_follows(
    reports: list[ColumnReport], jobs: list[_Column], weights: FloatArray | None
) -> None:
    """Add a warning to the reports of numbers that are functions of others."""
    some_values = {j: job.some_values for j, job in enumerate(jobs) if job.some_values is not None}
    numbers = list(some_values)
    if len(numbers) < 2:
        return
    values = np.column_stack(list(some_values.values()))
    steps = np.array([reports[j].step or 0.0 for j in numbers])
    some = None if weights is None else weights[:: _stride(len(weights))]
    for i, sources in determined_columns(values, steps, some).items():
        report = reports[numbers[i]]
        names = ", ".join(str(reports[numbers[k]].name) for k in sources)
        told = f"follows from {names}, but for rounding: its density is that of how it was recorded"
        reports[numbers[i]] = replace(report, warnings=(*report.warnings, told))


def _stride(n_rows: int) -> int:
    return max(1, n_rows // _SOME_ROWS)


def _overruled(
    columns: Mapping[str | int, str] | None, names: list[str] | None, n_columns: int
) -> list[str | None]:
    wanted: list[str | None] = [None] * n_columns
    # Domains look columns up by name and position, with the errors that fit.
    lookup = Domains.of_sizes([2] * n_columns, names)
    for key, kind in (columns or {}).items():
        if kind not in _KINDS:
            raise DataError(
                f"columns says that {key!r} is {kind!r}: the kinds are {', '.join(_KINDS)}."
            )
        position = lookup.index(key)
        if wanted[position] is not None:
            raise DataError(f"columns mentions column {key!r} twice, by name and by position.")
        wanted[position] = kind
    return wanted


def _row_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise DataError(f"{n_rows} rows but weights of shape {weights.shape}.")
    return weights


def _is_scale(different: NDArray[Any]) -> bool:
    """Whether whole numbers, all different and in order, are numbers rather than labels."""
    if 2 * len(different) <= _MOST_LABELS:
        return False
    spread = float(different[-1]) - float(different[0]) + 1
    return len(different) > _MOST_LABELS or spread > 2 * len(different)


def _array_kinds(array: NDArray[Any], wanted: list[str | None]) -> list[str]:
    """Return the kinds of the columns of an array of numbers."""
    for kind in wanted:
        if kind in ("date", "duration"):
            raise DataError(f"A column of kind {kind!r} needs a pandas DataFrame.")
    if array.dtype.kind != "f":
        return [kind or "label" for kind in wanted]
    with np.errstate(invalid="ignore"):
        fractions = [bool((np.floor(c) != c)[np.isfinite(c)].any()) for c in array.T]
    if not any(fractions):
        # Cells are codes: negative ones are mistakes, not numbers.
        return [kind or "label" for kind in wanted]
    kinds = []
    for column, fraction, kind in zip(array.T, fractions, wanted, strict=True):
        seen = column[~np.isnan(column)]
        many = fraction or bool((seen < 0).any()) or not np.isfinite(seen).all()
        many = many or _is_scale(np.unique(seen))
        kinds.append(kind or ("number" if many else "label"))
    return kinds


class _Column:
    """The decision about one column, with what is needed to report it."""

    def __init__(
        self,
        name: str | None,
        position: int,
        dtype: str,
        weights: FloatArray | None,
        max_cells: int,
        where: Where,
    ) -> None:
        self.name = name
        self.position = position
        self.dtype = dtype
        self.weights = weights
        self.max_cells = max_cells
        self.where = where
        self.n_missing = 0
        self.n_distinct = 0
        self.warnings: list[str] = []
        self.some_values: FloatArray | None = None

    def report(
        self, learn: Callable[..., Domain], *arguments: Any
    ) -> tuple[ColumnReport, Exception | None]:
        domain, error = None, None
        try:
            domain = learn(*arguments)
        except (DataError, TypeError) as caught:
            error = caught
        title = self.position if self.name is None else self.name
        report = ColumnReport(
            title,
            self.dtype,
            "unusable" if domain is None else domain.kind,
            0 if domain is None else domain.n_states,
            self.n_distinct,
            self.n_missing,
            None if domain is None or domain.grid is None else domain.grid.step,
            tuple(self.warnings),
            None if error is None else str(error),
            domain,
        )
        return report, error

    # Columns of DataFrames.

    def from_frame(self, column: Any, wanted: str | None, floor: int) -> Domain:
        missing = column.isna().to_numpy(dtype=bool)
        self.n_missing = int(missing.sum())
        self._gaps(len(column))
        if wanted is None and missing.all() and not is_category(column.dtype):
            self.warnings.append("no value was observed: nothing can be learned about it")
            return Domain(self.name, 1, dtype=str(column.dtype), empty=True)
        kind = wanted or self._decide(column, missing)
        if kind == "label":
            domain = learn_column(
                column, self.name, self.position, floor, fractions=wanted == "label"
            )
            self._label_warnings(column, domain, missing, chosen=wanted is not None)
            return domain
        values, unit = frame_numbers(column, kind, self.where, self.position)
        return self._number(values, kind, unit, self._stored_dtype(column, kind, values))

    def _decide(self, column: Any, missing: NDArray[np.bool_]) -> str:
        kind = dtype_kind(column.dtype)
        if is_category(column.dtype) or kind in "bc":
            return "label"
        time = time_kind(column.dtype)
        if time is not None:
            return time
        if kind in "iuf":
            numbers, _ = plain_numbers(column)
            return self._whole_or_not(numbers[~missing])
        if kind == "O":
            cells = object_kind(column)
            if cells == "number":
                numbers = np.array(column[~missing].tolist())
                if numbers.dtype.kind not in "iuf":  # whole numbers of any size
                    numbers = numbers.astype(np.float64)
                return self._whole_or_not(numbers)
            return cells
        return "label"

    @staticmethod
    def _whole_or_not(numbers: NDArray[Any]) -> str:
        if numbers.dtype.kind in "iu" and _are_too_large(numbers):
            return "label"
        if numbers.dtype.kind == "f":
            finite = np.isfinite(numbers)
            if not finite.all() or (np.floor(numbers) != numbers).any():
                return "number"
        # A few thousand rows settle it for most columns.
        head = np.unique(numbers[:4096])
        many = len(head) > _MOST_LABELS or _is_scale(np.unique(numbers))
        return "number" if many else "label"

    @staticmethod
    def _stored_dtype(column: Any, kind: str, values: FloatArray) -> str:
        if time_kind(column.dtype) is not None:
            return str(column.dtype)
        if kind == "date":
            return "object" if object_kind(column) == "date" else "datetime64[ns]"
        if kind == "duration":
            return "timedelta64[ns]"
        if dtype_kind(column.dtype) in "iuf" and not is_category(column.dtype):
            return str(column.dtype)
        whole = not np.isnan(values).any() and bool((np.floor(values) == values).all())
        return "int64" if whole and np.abs(values).max(initial=0.0) < 2**53 else "float64"

    # Columns of arrays.

    def from_array(self, column: NDArray[Any], kind: str, floor: int) -> Domain:
        if column.dtype.kind == "f":
            self.n_missing = int(np.isnan(column).sum())
        self._gaps(len(column))
        if kind == "number":
            return self._number(column.astype(np.float64), kind, None, None)

        def where(row: int, _: int) -> str:
            return self.where(row, self.position)

        size = int(_code_sizes(column[:, None], where)[0])
        seen = column[~np.isnan(column)] if column.dtype.kind == "f" else column
        self.n_distinct = len(np.unique(seen))
        return Domain(self.name, max(size, floor))

    # Both.

    def _number(self, values: FloatArray, kind: str, unit: str | None, dtype: str | None) -> Domain:
        check_numbers(values, self.where, self.position, None)
        seen = ~np.isnan(values)
        self.n_missing = int((~seen).sum())
        if not seen.any():
            self.warnings.append("no value was observed: nothing can be learned about it")
            return Domain(self.name, 1, dtype=dtype, empty=True)
        weights = None if self.weights is None else self.weights[seen]
        distinct, rows = distinct_values(values[seen], weights)
        self.n_distinct = len(distinct)
        endless = (-math.inf, math.inf) if unit is not None else (None, None)
        try:
            grid = learn_grid(distinct, rows, max_cells=self.max_cells, bounds=endless)
        except DataError as error:
            title = self.position if self.name is None else repr(self.name)
            raise DataError(f"Column {title}: {error}") from error
        domain = Domain(self.name, grid.n_cells, dtype=dtype, grid=grid, unit=unit)
        self.some_values = values[:: _stride(len(values))].copy()
        heaviest = int(np.argmax(rows))
        share = rows[heaviest] / rows.sum()
        n_seen = int(seen.sum())
        if share > _ATOM and len(distinct) > 1 and n_seen >= _ENOUGH:
            shown = domain.value(float(distinct[heaviest]))
            self.warnings.append(f"{shown} is the value of {share:.0%} of its rows")
        whole = grid.exact and grid.step >= 1 and unit is None
        if whole and len(distinct) > _MOST_LABELS and _are_packed_dates(distinct):
            self.warnings.append(
                f"taken as numbers, though they look like dates ({distinct[0]:.0f}): convert them "
                "with pandas.to_datetime(..., format='%Y%m%d'), or write them as 2020-12-31"
            )
        elif whole and n_seen >= _ENOUGH and len(distinct) >= _IDENTIFIER * n_seen:
            self._identifier(len(distinct), n_seen)
        return domain

    def _gaps(self, n_rows: int) -> None:
        if _MOSTLY_GAPS * n_rows < self.n_missing < n_rows:
            self.warnings.append(f"{self.n_missing / n_rows:.0%} of its cells are missing")

    def _identifier(self, n_distinct: int, n_seen: int) -> None:
        self.warnings.append(
            f"{n_distinct} different values in {n_seen} rows: an identifier? Leave it out then"
        )

    def _label_warnings(
        self, column: Any, domain: Domain, missing: NDArray[np.bool_], *, chosen: bool
    ) -> None:
        seen = column[~missing]
        self.n_distinct = int(seen.nunique())
        if len(seen) >= _ENOUGH and self.n_distinct >= _IDENTIFIER * len(seen):
            self._identifier(self.n_distinct, len(seen))
        text = dtype_kind(column.dtype) == "O" or str(column.dtype).startswith("str")
        if text and not chosen:
            self._text_warnings(seen)
        if domain.n_states > MAX_STATES // 256 and self.n_distinct < _IDENTIFIER * len(seen):
            self.warnings.append(f"{domain.n_states} labels: rare ones are hardly learned")

    def _text_warnings(self, seen: Any) -> None:
        """Say what texts are dates, or keep a column of numbers from being one: '?', 'n/a', ..."""
        form = find_date_form(seen.unique())
        if form is not None:
            title = self.position if self.name is None else self.name
            self.warnings.append(
                f"text, but of dates: columns={{{title!r}: 'date'}} takes them as such"
                if form.is_known
                else f"taken as labels, though they look like {form.problem}: {form.advice}"
            )
            return
        texts = [cell for cell in seen.unique() if isinstance(cell, str)]
        others = [text for text in texts if not _is_number(text)]
        if len(texts) > _MOST_LABELS and len(others) <= 0.1 * len(texts):
            advice = "convert it with pandas.to_numeric"
            if others:
                shown = ", ".join(repr(text) for text in others[:3])
                advice = (
                    f"if {shown} marks gaps, read the file with na_values=[{shown}], on the "
                    f"command line --missing {others[0]}"
                )
            self.warnings.append(f"text, but of numbers: {advice}")
        elif len(texts) > _MOST_LABELS and all(map(_WITH_SIGNS.fullmatch, others)):
            self.warnings.append(
                f"text, but of numbers written like {others[0]!r}: take separators of thousands "
                "and signs away, and convert it with pandas.to_numeric"
            )


def _are_too_large(numbers: NDArray[Any]) -> bool:
    """Whether float64 confuses whole numbers that are few enough for labels."""
    if not len(numbers) or max(int(numbers.max()), -int(numbers.min())) < 2**53:
        return False
    return len(np.unique(numbers)) <= MAX_STATES


def _are_packed_dates(numbers: FloatArray) -> bool:
    """Whether whole numbers are dates of 1900 to 2099 without signs between: 20201231."""
    years, rest = np.divmod(numbers, 10_000)
    months, days = np.divmod(rest, 100)
    return bool(
        ((years >= 1900) & (years < 2100)).all()
        and ((months >= 1) & (months <= 12)).all()
        and ((days >= 1) & (days <= 31)).all()
    )


# 12,800 and 1.234,50, with a sign of money or of percent.
_WITH_SIGNS = re.compile(r"[-+]?[€$£¥]?\s?[-+]?\d{1,3}(?:[,.'\s]?\d{3})*(?:[.,]\d+)?\s?[%€$£¥]?")


def _is_number(text: str) -> bool:
    try:
        return not is_missing(float(text))
    except ValueError:
        return False
