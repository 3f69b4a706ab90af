"""``bayescut bench``: compare learners, yours included, on data sets."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from bayescut._atomic import write_text
from bayescut.bench import Result, Table, make_table, read_results, split_specs
from bayescut.bench import run as run_bench
from bayescut.bench._store import Key
from bayescut.bench.table import show
from bayescut.cli._options import Json, Quiet
from bayescut.cli._tables import split_names
from bayescut.cli._terminal import bar, emit, emit_json, note

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Compare learners, yours included, on data sets.")

DEFAULT_RESULTS = "results.jsonl"

Results = Annotated[Path, typer.Argument(help="Results file that bench run wrote.")]
Datasets = Annotated[
    list[str] | None,
    typer.Option(
        "--datasets", "-d", help="Only these data sets: a,b or repeated.", metavar="NAMES"
    ),
]
TrainOnly = Annotated[
    bool, typer.Option("--train-only", help="Learn from training rows only, not from valid too.")
]


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
    quiet: Quiet = False,
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
    if not as_json:
        make_table(results).print()
    if bad:
        note(f"{len(bad)} of {len(results)} are failures; --retry runs them again.")
    note(f"Try: bayescut bench table {output} --kind time")


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


_KINDS = {"ll": "log_likelihood"}


@app.command()
def table(
    results: Results = Path(DEFAULT_RESULTS),
    kind: Annotated[
        TableKind, typer.Option(help="Log-likelihood, learning time, circuit size or memory.")
    ] = TableKind.ll,
    form: Annotated[
        TableFormat | None,
        typer.Option("--format", help="Markdown or CSV; by default by the output's ending."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="File; - is the screen.")] = "-",
    datasets: Datasets = None,
    train_only: TrainOnly = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Print results, data sets down and learners across; the best of each row is bold."""
    made = make_table(
        read_results(results),
        _KINDS.get(kind.value, kind.value),
        protocol="train" if train_only else None,
        datasets=split_names(datasets) or None,
    )
    if as_json:
        emit_json(_as_json(made))
    elif output == "-" and form is None:
        made.print()
    else:
        ending = Path(output).suffix.casefold()
        is_csv = form is TableFormat.csv or (form is None and ending == ".csv")
        text = made.to_csv() if is_csv else made.to_markdown()
        if output == "-":
            sys.stdout.write(text)
        else:
            write_text(output, text)


def _as_json(made: Table) -> dict[str, Any]:
    columns = [
        {
            "learner": column.title,
            "values": {name: cell.value for name, cell in column.cells.items()},
            "notes": {
                name: cell.text
                for name, cell in column.cells.items()
                if cell.value is None and cell.text
            },
        }
        for column in made.columns
    ]
    return {"caption": made.caption, "kind": made.kind, "columns": columns}
