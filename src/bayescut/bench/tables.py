"""Tables of results in the layout of the published ones: data sets down, learners across."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayescut.bench._reference import (
    CUTSET_LEARNERS,
    DATASET_TITLES,
    Published,
    counterpart,
    published,
)
from bayescut.bench._specs import BenchError, Learner, dataset_names
from bayescut.bench._store import Result, latest

__all__ = ["KINDS", "Cell", "Column", "Table", "collect", "make_table"]


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
    group : str
        ``"ours"``, ``"published cutset learners"``, ``"published others"`` or ``"best known"``.
    cells : dict from data set to Cell
    learner : Learner or None
        Which learner, for columns of our own results.
    """

    title: str
    group: str
    cells: dict[str, Cell]
    learner: Learner | None = None

    @property
    def is_published(self) -> bool:
        """Whether the numbers are from the literature."""
        return self.group != "ours"

    @property
    def competes(self) -> bool:
        """Whether the numbers may be printed bold."""
        return self.group != "best known"


@dataclass(frozen=True)
class Table:
    """Data sets down, learners across: ours first, then the published ones.

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
    """

    kind: str
    protocol: str
    datasets: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def caption(self) -> str:
        """What the table shows."""
        learned = "training and validation" if self.protocol == "train+valid" else "training"
        return f"{KINDS[self.kind].caption}; learned from {learned} rows."

    def title(self, dataset: str) -> str:
        """Return the customary name of a data set."""
        return DATASET_TITLES.get(dataset, dataset)

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

    def to_markdown(self) -> str:
        """Return the table as Markdown; see `bayescut.bench.render.markdown`."""
        from bayescut.bench.render import markdown

        return markdown(self)

    def to_csv(self) -> str:
        """Return the table as CSV with full precision; see `bayescut.bench.render.to_csv`."""
        from bayescut.bench.render import to_csv

        return to_csv(self)

    def to_latex(self) -> str:
        """Return the table as LaTeX (booktabs); see `bayescut.bench.render.latex`."""
        from bayescut.bench.render import latex

        return latex(self)


def make_table(
    results: Iterable[Result],
    kind: str = "log_likelihood",
    *,
    protocol: str | None = None,
    datasets: Iterable[str] | None = None,
    compare: bool | Sequence[str] = True,
    best_known: bool = False,
) -> Table:
    """Set results and published numbers side by side.

    Parameters
    ----------
    results : iterable of Result
        As `read_results` returns them.
    kind : {"log_likelihood", "time", "size", "memory"}
        What to show.
    protocol : str, optional
        Which results; by default ``"train+valid"`` if there are any, else ``"train"``.
    datasets : iterable of str, optional
        Which rows; by default all data sets with a result, in the published order.
    compare : bool or sequence of str, default=True
        Whether to show published numbers, or those of which learners.
    best_known : bool, default=False
        Whether to add the best published log-likelihood of any tractable model.

    Returns
    -------
    Table
    """
    if kind not in KINDS:
        raise BenchError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    chosen, protocol = _of_protocol(latest(results), protocol)
    names = _rows(chosen, datasets)
    grid = collect(chosen)
    columns = [
        Column(
            learner.title,
            "ours",
            {name: _cell(grid.get((learner.spec, name), []), kind) for name in names},
            learner,
        )
        for learner in dict.fromkeys(Learner(result.learner) for result in chosen)
    ]
    columns = _distinct(columns)
    sources = []
    reference = published(kind)
    if reference is not None and compare:
        wanted = _published_learners(reference, compare)
        columns += [_published_column(reference, learner, names) for learner in wanted]
        sources.append(f"† published: {reference.source}.")
    if best_known and kind == "log_likelihood":
        summit = published("best_known")
        if summit is not None:
            columns.append(_published_column(summit, "best known", names, "best known"))
            sources.append(f"best known: {summit.source}.")
    if any(cell.n_seeds > 1 for column in columns for cell in column.cells.values()):
        sources.append("Several seeds: mean ± standard deviation.")
    table = Table(kind, protocol, tuple(names), tuple(columns), tuple(sources))
    notes = (*table.notes, *_comparisons(table, reference))
    return Table(kind, protocol, table.datasets, table.columns, notes)


def collect(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """Group results by learner and data set: one list of seeds each."""
    grid: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        grid.setdefault((result.learner, result.dataset), []).append(result)
    return grid


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


def _rows(results: list[Result], datasets: Iterable[str] | None) -> list[str]:
    if datasets is not None:
        return dataset_names(datasets)
    found = list(dict.fromkeys(result.dataset for result in results))
    order = {name: position for position, name in enumerate(DATASET_TITLES)}
    return sorted(found, key=lambda name: order.get(name, len(order)))


def _distinct(columns: list[Column]) -> list[Column]:
    """Give classes of the same name from different modules their full names."""
    titles = [column.title for column in columns]
    return [
        Column(column.learner.spec, column.group, column.cells, column.learner)
        if column.learner is not None and titles.count(column.title) > 1
        else column
        for column in columns
    ]


def _published_learners(reference: Published, compare: bool | Sequence[str]) -> list[str]:
    if isinstance(compare, bool):
        return list(reference.learners)
    known = {name.casefold().replace("-", ""): name for name in reference.learners}
    every = published("log_likelihood")
    for name in compare:
        plain = name.casefold().replace("-", "")
        if plain in known or every is None:
            continue
        if plain not in {other.casefold().replace("-", "") for other in every.learners}:
            raise BenchError(
                f"There are no published numbers of {name!r}; there are those of "
                f"{', '.join(every.learners)}."
            )
    plain_names = [name.casefold().replace("-", "") for name in compare]
    return [known[plain] for plain in plain_names if plain in known]


def _published_column(
    reference: Published, learner: str, names: Sequence[str], group: str | None = None
) -> Column:
    if group is None:
        cutset = learner in CUTSET_LEARNERS
        group = "published cutset learners" if cutset else "published others"
    cells = {}
    for name in names:
        text = reference.cells.get((learner, name))
        cells[name] = Cell() if text is None else Cell(float(text), None, 1, text)
    return Column(learner, group, cells)


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
    >>> from bayescut.bench.tables import show
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


def _comparisons(table: Table, reference: Published | None) -> list[str]:
    """One sentence for each of our columns whose published counterpart is shown too."""
    if reference is None or table.kind == "memory":
        return []
    notes = []
    shown = {column.title for column in table.columns if column.is_published}
    for column in table.columns:
        name = counterpart(column.learner) if column.learner is not None else None
        if name not in shown:
            continue
        pairs = [
            (dataset, cell.value, reference.value(name, dataset))
            for dataset, cell in column.cells.items()
        ]
        known = [(d, ours, theirs) for d, ours, theirs in pairs if ours and theirs]
        if not known:
            continue
        if table.kind == "log_likelihood":
            dataset, ours, theirs = max(known, key=lambda pair: abs(pair[1] - pair[2]))
            notes.append(
                f"{column.title} against {name}†: largest difference {ours - theirs:+.3f} "
                f"({table.title(dataset)}), {len(known)} data sets."
            )
            continue
        ratio = math.exp(float(np.mean([math.log(theirs / ours) for _, ours, theirs in known])))
        if table.kind == "time":
            notes.append(
                f"{column.title} is {ratio:.3g} times as fast as {name}† "
                f"(geometric mean of {len(known)} data sets, different machines)."
            )
        else:
            same = sum(ours == theirs for _, ours, theirs in known)
            notes.append(
                f"{column.title} has the size of {name}† on {same} of {len(known)} data sets."
            )
    return notes
