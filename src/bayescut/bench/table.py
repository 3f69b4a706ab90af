"""Tables of results: data sets down, learners across."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayescut import _text
from bayescut.bench._specs import BenchError, Learner, dataset_names
from bayescut.bench._store import Result

__all__ = ["KINDS", "Cell", "Column", "Kind", "Table", "make_table", "show"]

_ABSENT = "–"


@dataclass(frozen=True)
class Kind:
    """What a table shows."""

    caption: str
    field: str
    unit: float
    larger_is_better: bool


KINDS = {
    "log_likelihood": Kind(
        "Mean test log-likelihood (nats, larger is better)", "test_log_likelihood", 1.0, True
    ),
    "time": Kind("Learning time (seconds, ours without compilation)", "fit_seconds", 1.0, False),
    "size": Kind("Circuit size (independent parameters)", "n_parameters", 1.0, False),
    "memory": Kind("Peak memory of the process (MiB)", "peak_memory_bytes", 2.0**20, False),
}


@dataclass(frozen=True)
class Cell:
    """A number, or the reason why there is none.

    Parameters
    ----------
    value : float or None
        The number: a mean if there are several seeds.
    deviation : float or None
        Standard deviation over the seeds, if there are several.
    n_seeds : int
        Number of results behind the value.
    text : str
        As it is shown: rounded, or ``failed``, ``timeout``, ``no data``; empty if never run.
    """

    value: float | None = None
    deviation: float | None = None
    n_seeds: int = 0
    text: str = ""


@dataclass(frozen=True)
class Column:
    """A learner of a table.

    Parameters
    ----------
    title : str
        Its name.
    cells : dict from data set to Cell
    learner : Learner or None
        Which learner; None for numbers that come from elsewhere.
    group : str
        Columns of one group stand together.
    competes : bool
        Whether its numbers may be printed bold.
    """

    title: str
    cells: dict[str, Cell]
    learner: Learner | None = None
    group: str = ""
    competes: bool = True


@dataclass(frozen=True)
class Table:
    """Data sets down, learners across; the best of each row is bold.

    Parameters
    ----------
    kind : str
        A key of `KINDS`.
    protocol : str
        What was learned from.
    datasets : tuple of str
    columns : tuple of Column
    notes : tuple of str
        Sentences below the table.
    titles : mapping from data set to str
        Names to print in place of those of the data sets.
    """

    kind: str
    protocol: str
    datasets: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def caption(self) -> str:
        """What the table shows."""
        learned = "training and validation" if self.protocol == "train+valid" else "training"
        return f"{KINDS[self.kind].caption}; learned from {learned} rows."

    @property
    def headings(self) -> list[str]:
        """Titles of the columns."""
        return ["Data set", *(column.title for column in self.columns)]

    @property
    def lines(self) -> list[list[str]]:
        """Cells as they are printed, one line for each data set."""
        return [
            [
                self.titles.get(dataset, dataset),
                *(column.cells[dataset].text or _ABSENT for column in self.columns),
            ]
            for dataset in self.datasets
        ]

    def best(self, dataset: str) -> set[int]:
        """Return the columns with the best number of a row, ties as they are printed included."""
        shown = {
            index: _as_printed(column.cells[dataset], self.kind)
            for index, column in enumerate(self.columns)
            if column.competes and column.cells[dataset].value is not None
        }
        shown = {index: value for index, value in shown.items() if math.isfinite(value)}
        if not shown:
            return set()
        pick = max if KINDS[self.kind].larger_is_better else min
        best = pick(shown.values())
        return {index for index, value in shown.items() if value == best}

    @property
    def is_bold(self) -> Callable[[int, int], bool]:
        """Whether a cell of `lines`, given its row and column, is the best of its row."""
        best = [self.best(dataset) for dataset in self.datasets]
        return lambda row, column: column - 1 in best[row]

    def print(self) -> None:
        """Print the table: framed for people, aligned text for pipes."""
        _text.print_table(self.headings, self.lines, bold=self.is_bold, title=self.caption)
        for sentence in self.notes:
            print(sentence)

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        body = _text.markdown(self.headings, self.lines, bold=self.is_bold)
        notes = [f"{note}  " for note in self.notes]
        return "\n".join([f"**{self.caption}**", "", *body, "", *notes]).rstrip() + "\n"

    def to_csv(self) -> str:
        """Return the table as CSV with full precision: one line per data set.

        Cells that failed hold the reason; columns of several seeds are followed by one with their
        standard deviation.
        """
        headings = ["dataset"]
        lines: list[list[str]] = [[dataset] for dataset in self.datasets]
        for column in self.columns:
            cells = [column.cells[dataset] for dataset in self.datasets]
            headings.append(column.title)
            for line, cell in zip(lines, cells, strict=True):
                exact = column.learner is not None and cell.value is not None
                line.append(repr(cell.value) if exact else cell.text)
            if any(cell.deviation is not None for cell in cells):
                headings.append(f"{column.title} sd")
                for line, cell in zip(lines, cells, strict=True):
                    line.append("" if cell.deviation is None else repr(cell.deviation))
        return _text.to_csv(headings, lines)


def make_table(
    results: Iterable[Result],
    kind: str = "log_likelihood",
    *,
    protocol: str | None = None,
    datasets: Iterable[str] | None = None,
) -> Table:
    """Set learners side by side.

    Parameters
    ----------
    results : iterable of Result
        As `run` and `read_results` return them.
    kind : {"log_likelihood", "time", "size", "memory"}
        What to show.
    protocol : str, optional
        Which results; by default ``"train+valid"`` if there are any, else ``"train"``.
    datasets : iterable of str, optional
        Which rows; by default all data sets with a result, in the order of the results.

    Returns
    -------
    Table

    Examples
    --------
    >>> from bayescut.bench import Result, make_table
    >>> results = [
    ...     Result("CNetBD", "dna", None, "train+valid", "ok", -87.643),
    ...     Result("my.module:Mine", "dna", None, "train+valid", "ok", -86.5),
    ... ]
    >>> make_table(results).print()
    Data set   CNetBD     Mine
    dna       -87.643  -86.500
    """
    if kind not in KINDS:
        raise BenchError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    newest = list({result.key: result for result in results}.values())
    chosen, protocol = _of_protocol(newest, protocol)
    if datasets is None:
        names = list(dict.fromkeys(result.dataset for result in chosen))
    else:
        names = dataset_names(datasets)
    grid: dict[tuple[str, str], list[Result]] = {}
    for result in chosen:
        grid.setdefault((result.learner, result.dataset), []).append(result)
    learners = [Learner(spec) for spec in dict.fromkeys(result.learner for result in chosen)]
    titles = [learner.title for learner in learners]
    columns = tuple(
        Column(
            # Classes of the same name from different modules keep their full names.
            learner.spec if titles.count(learner.title) > 1 else learner.title,
            {name: _cell(grid.get((learner.spec, name), []), kind) for name in names},
            learner,
        )
        for learner in learners
    )
    several = any(cell.n_seeds > 1 for column in columns for cell in column.cells.values())
    notes = ("Several seeds: mean ± standard deviation.",) if several else ()
    return Table(kind, protocol, tuple(names), columns, notes)


def _of_protocol(results: list[Result], protocol: str | None) -> tuple[list[Result], str]:
    if not results:
        raise BenchError("There are no results yet: run `bayescut bench run` first.")
    if protocol is None:
        found = {result.protocol for result in results}
        protocol = "train+valid" if "train+valid" in found else found.pop()
    chosen = [result for result in results if result.protocol == protocol]
    if not chosen:
        raise BenchError(f"There are no results with protocol {protocol!r}.")
    return chosen, protocol


_REASONS = {"failed": "failed", "timeout": "timeout", "unavailable": "no data"}


def _cell(results: Sequence[Result], kind: str) -> Cell:
    if not results:
        return Cell()
    bad = next((result for result in results if result.status != "ok"), None)
    if bad is not None:  # a mean over the seeds that happened to work would flatter
        text = _REASONS[bad.status]
        if bad.status == "timeout" and kind == "time" and bad.time_limit is not None:
            text = f"> {bad.time_limit:g}"
        return Cell(text=text)
    values = [getattr(result, KINDS[kind].field) for result in results]
    if any(value is None for value in values):
        return Cell()
    numbers = np.array(values, dtype=np.float64) / KINDS[kind].unit
    mean = float(numbers.mean())
    deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 and math.isfinite(mean) else None
    text = show(mean, kind)
    if deviation is not None:
        text += f" ± {show(deviation, kind)}"
    return Cell(mean, deviation, len(numbers), text)


def show(value: float, kind: str) -> str:
    """Return a number as tables print it.

    Examples
    --------
    >>> from bayescut.bench.table import show
    >>> show(-6.06423, "log_likelihood"), show(0.01234, "time"), show(205.0, "size")
    ('-6.064', '0.012', '205')
    """
    if not math.isfinite(value):
        return str(value)
    if kind == "log_likelihood":
        return f"{value:.3f}"
    if kind == "time":
        return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"
    if kind == "size":
        return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
    return f"{value:.0f}"


def _as_printed(cell: Cell, kind: str) -> float:
    """The number that a reader sees, so that equal numbers are equally bold."""
    if cell.value is None or not math.isfinite(cell.value):
        return math.nan
    return float(show(cell.value, kind))
