"""``bayescut bench``: compare learners, beside the published numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from bayescut.bench import (
    KINDS,
    BenchError,
    Result,
    Table,
    make_table,
    read_results,
    render,
    split_specs,
)
from bayescut.bench import run as run_bench
from bayescut.bench._store import Key
from bayescut.bench.render import heading
from bayescut.bench.tables import show
from bayescut.cli._options import Json
from bayescut.cli._tables import split_names
from bayescut.cli._terminal import bar, emit, is_terminal, note, print_table

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Compare learners on data sets, beside the published numbers."
)

DEFAULT_RESULTS = "results.jsonl"

Results = Annotated[Path, typer.Argument(help="Results file that bench run wrote.")]
Datasets = Annotated[
    list[str] | None,
    typer.Option(
        "--datasets", "-d", help="Only these data sets: a,b or repeated.", metavar="NAMES"
    ),
]
Compare = Annotated[
    str,
    typer.Option(help="Published learners to set beside: all, none, or names: CNetBD,ID-SPN."),
]
TrainOnly = Annotated[
    bool, typer.Option("--train-only", help="Learn from training rows only, not from valid too.")
]


def _published(text: str) -> bool | Sequence[str]:
    return {"all": True, "none": False}.get(text.casefold(), split_names([text]))


def _protocol(train_only: bool) -> str | None:
    return "train" if train_only else None


@app.command()
def run(
    learners: Annotated[
        list[str],
        typer.Option(
            "--learners",
            "-l",
            help="CNetBD, 'CNetBD(ess=1.0)' or 'package.module:Class(a=1)'; commas or repeated.",
            metavar="LEARNERS",
        ),
    ],
    datasets: Annotated[
        list[str],
        typer.Option(
            "--datasets",
            "-d",
            help="Names with commas or repeated; debd: all twenty.",
            metavar="NAMES",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Results file.")] = Path(
        DEFAULT_RESULTS
    ),
    seeds: Annotated[
        str, typer.Option(help="Seeds of learners that draw: 0 or 0,1,2 or 0-9.")
    ] = "0",
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds a learner may take on a data set.")
    ] = None,
    train_only: TrainOnly = False,
    force: Annotated[bool, typer.Option("--force", help="Run again what is there.")] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run again what failed or took too long.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write all tables and figures into this folder at the end.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run learners on data sets and keep the results.

    Every result is on the disk as soon as it is there: a run that was stopped, or killed, goes on
    where it was when it is started again. Each learner runs in a process of its own; its kernels
    are compiled before its time is taken.
    """
    with bar("benchmark", 1) as update:
        total = 1

        def on_start(cell: Key, done: int, todo: int) -> None:
            nonlocal total
            total = todo
            learner, dataset, seed, _ = cell
            seeded = "" if seed is None else f", seed {seed}"
            update(0, f"{done + 1}/{todo} {learner} on {dataset}{seeded}")

        def on_result(result: Result) -> None:
            emit(result.to_json() if as_json else _line(result))
            sys.stdout.flush()
            update(1 / total)

        results = run_bench(
            [spec for text in learners for spec in split_specs(text)],
            [name for text in datasets for name in split_specs(text)],
            output,
            seeds=_seeds(seeds),
            protocol="train" if train_only else "train+valid",
            time_limit=time_limit,
            force=force,
            retry=retry,
            on_start=on_start,
            on_result=on_result,
        )
    bad = [result for result in results if result.status != "ok"]
    if report is not None:
        write_report(read_results(output), report, _protocol(train_only))
    if bad:
        note(f"{len(bad)} of {len(results)} are failures; --retry runs them again.")
    if report is None:
        note(f"Try: bayescut bench table {output}")


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in split_names([text]):
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise typer.BadParameter(f"Seeds are 0 or 0,1,2 or 0-9, not {text!r}.") from None
    return seeds


def _line(result: Result) -> str:
    seed = "" if result.seed is None else f" seed {result.seed}"
    head = f"{result.learner} {result.dataset}{seed}:"
    if result.status != "ok":
        return f"{head} {result.status}: {result.error}"
    size = "" if result.n_parameters is None else f", {result.n_parameters:,} parameters"
    return (
        f"{head} log-likelihood {result.test_log_likelihood:.4f}, "
        f"{show(result.fit_seconds or 0.0, 'time')} s{size}"
    )


class TableKind(str, Enum):
    """What a table shows."""

    ll = "ll"
    time = "time"
    size = "size"
    memory = "memory"


class TableFormat(str, Enum):
    """How a table is written."""

    md = "md"
    csv = "csv"
    tex = "tex"


_KINDS = {"ll": "log_likelihood"}


@app.command()
def table(
    results: Results = Path(DEFAULT_RESULTS),
    kind: Annotated[
        TableKind, typer.Option(help="Log-likelihood, learning time, circuit size or memory.")
    ] = TableKind.ll,
    form: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Default: by the output's ending, Markdown in pipes."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="File; - is the screen.")] = "-",
    compare: Compare = "all",
    best_known: Annotated[
        bool, typer.Option("--best-known", help="Add the best published tractable model.")
    ] = False,
    datasets: Datasets = None,
    train_only: TrainOnly = False,
    as_json: Json = False,
) -> None:
    """Print results beside the published numbers, data sets down and learners across."""
    made = make_table(
        read_results(results),
        _KINDS.get(kind.value, kind.value),
        protocol=_protocol(train_only),
        datasets=split_names(datasets) or None,
        compare=_published(compare),
        best_known=best_known,
    )
    if as_json:
        emit(_table_json(made))
    elif output == "-" and form is None and is_terminal(sys.stdout):
        _print(made)
    else:
        suffix = Path(output).suffix.lstrip(".").casefold()
        chosen = form.value if form else suffix if suffix in ("csv", "tex") else "md"
        _write(render(made, chosen), output)


def _table_json(made: Table) -> str:
    columns = [
        {
            "learner": column.title,
            "published": column.is_published,
            "values": {name: cell.value for name, cell in column.cells.items()},
            "notes": {
                name: cell.text
                for name, cell in column.cells.items()
                if cell.value is None and cell.text
            },
        }
        for column in made.columns
    ]
    return json.dumps({"caption": made.caption, "kind": made.kind, "columns": columns})


def _print(made: Table) -> None:
    best = [made.best(dataset) for dataset in made.datasets]
    print_table(
        ["Data set", *(heading(column) for column in made.columns)],
        [
            [made.title(dataset), *(c.cells[dataset].text or "–" for c in made.columns)]
            for dataset in made.datasets
        ],
        bold=lambda row, column: column - 1 in best[row],
        title=made.caption,
    )
    for sentence in made.notes:
        emit(sentence)


def _write(text: str, output: str) -> None:
    if output == "-":
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, encoding="utf-8")


class Theme(str, Enum):
    """Colours of a figure."""

    light = "light"
    dark = "dark"


@app.command()
def plot(
    results: Results = Path(DEFAULT_RESULTS),
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Picture to write: .png, .svg or .pdf.")
    ] = Path("pareto.png"),
    theme: Annotated[Theme, typer.Option(help="For white or for dark paper.")] = Theme.light,
    compare: Compare = "all",
    datasets: Datasets = None,
    train_only: TrainOnly = False,
) -> None:
    """Draw log-likelihood against learning time, one panel for each data set."""
    figure = _figure(
        read_results(results),
        theme.value,
        _protocol(train_only),
        compare=_published(compare),
        datasets=split_names(datasets) or None,
    )
    figure.savefig(output, dpi=150)
    emit(f"{output}")


def _figure(results: Sequence[Result], theme: str, protocol: str | None, **which: Any) -> Any:
    from bayescut.plots.pareto import pareto_points, plot_pareto

    return plot_pareto(pareto_points(results, protocol=protocol, **which), theme=theme)


@app.command("report")
def report_command(
    results: Results = Path(DEFAULT_RESULTS),
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder.")] = Path("report"),
    train_only: TrainOnly = False,
) -> None:
    """Write every table, in every format, and the figures into a folder."""
    for path in write_report(read_results(results), output, _protocol(train_only)):
        emit(f"{path}")


def write_report(results: Sequence[Result], folder: Path, protocol: str | None) -> list[Path]:
    """Write every table in every format, and the Pareto figure in both themes.

    Parameters
    ----------
    results : sequence of Result
    folder : Path
        Made if it is not there.
    protocol : str or None
        Which results; see `bayescut.bench.make_table`.

    Returns
    -------
    list of Path
        What was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        made = make_table(results, kind, protocol=protocol, best_known=True)
        for form in TableFormat:
            path = folder / f"{kind}.{form.value}"
            path.write_text(render(made, form.value), encoding="utf-8")
            written.append(path)
    for theme in Theme:
        path = folder / f"pareto_{theme.value}.png"
        try:
            _figure(results, theme.value, protocol).savefig(path, dpi=150)
        except ValueError as error:
            raise BenchError(f"The figure cannot be drawn: {error}.") from error
        written.append(path)
    return written
