"""``bayescut fit``: learn a model from a table."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Any

import numpy as np
import typer

from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError, count
from bayescut.cli._options import (
    Encoding,
    Header,
    Ignore,
    Json,
    Missing,
    OwnMissing,
    Quiet,
    Separator,
    table_options,
)
from bayescut.cli._output import output_stream
from bayescut.cli._tables import PIPE, read_table
from bayescut.cli._terminal import emit, emit_json, is_terminal, note, waiting
from bayescut.exceptions import DataError

__all__ = ["fit"]

DEFAULT_LEARNER = "CutsetNetwork"


def fit(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file; - is a pipe.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Model file to write; - is standard output.")
    ],
    learner: Annotated[
        str,
        typer.Option(
            "--learner", "-l", help="Which learner, e.g. 'CutsetEnsemble(time_budget=60)'."
        ),
    ] = DEFAULT_LEARNER,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with missing cells.")
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Take all values as labels, numbers included (007).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of learners that draw random numbers.")] = 0,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    missing: Missing = None,
    only_missing: OwnMissing = False,
    ignore: Ignore = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Learn a model from a table.

    Every column becomes a variable whose states are the values found in it. Columns of fractions
    have to be binned first, columns such as names or numbers of persons left out (--ignore).
    """
    from bayescut.bench import parse_learner
    from bayescut.files import ESTIMATORS, save

    chosen = parse_learner(learner)
    verbose = 1 if is_terminal(sys.stderr) and not quiet else None
    model = chosen.build(seed, verbose=verbose)
    if type(model).__name__ not in ESTIMATORS:
        raise CommandError(
            f"{chosen.spec} cannot be kept in a model file: choose from {', '.join(ESTIMATORS)}."
        )
    if output != PIPE:
        _check_writable(output)
    elif as_json:
        raise typer.BadParameter("--json and a model on standard output exclude each other.")
    options = table_options(
        separator,
        header,
        missing,
        ignore,
        only_missing=only_missing,
        encoding=encoding,
        text=text,
        quiet=quiet,
    )
    frame = _complete_rows(read_table(table, options).used, drop_missing)
    begin = time.perf_counter()
    try:
        with compiling(quiet=quiet):
            model.fit(frame)
    except (DataError, TypeError) as error:
        raise CommandError(f"{error} Or leave the column out with --ignore.") from error
    except MemoryError as error:
        counts = frame.nunique()
        raise CommandError(
            f"Out of memory: column {str(counts.idxmax())!r} has {int(counts.max()):,} different "
            "values. Bin the columns with very many, or leave them out with --ignore."
        ) from error
    seconds = time.perf_counter() - begin
    with waiting("scoring"), compiling(quiet=quiet):
        mean = float(np.mean(model.score_samples(frame)))
    if output == PIPE:
        save(model, output_stream())
        return
    save(model, output)
    summary: dict[str, Any] = {
        "model": output,
        "learner": chosen.spec,
        "rows": len(frame),
        "columns": len(frame.columns),
        "parameters": int(model.n_parameters_),
        "seconds": seconds,
        "mean_log_likelihood": mean,
    }
    if as_json:
        emit_json(summary)
        return
    emit(
        f"{output}: {chosen.spec}, {model.n_parameters_:,} parameters learned from "
        f"{len(frame):,} rows × {len(frame.columns):,} columns in {seconds:.2f} s; "
        f"mean log-likelihood {mean:.4f}"
    )
    if not quiet:
        note(f"Try: bayescut show {output}")


def _check_writable(path: str) -> None:
    """Find out before hours of learning whether the model can be kept."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"There is no folder {folder!r} to write {path!r} into: make it first.")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise CommandError(f"{path!r} cannot be written: choose another place.")


def _complete_rows(frame: Any, drop: bool) -> Any:
    absent = frame.isna()
    counts = absent.sum()
    columns = counts[counts > 0]
    if not len(columns):
        return frame
    rows = absent.any(axis=1)
    name, cells = columns.index[0], count(int(columns.iloc[0]), "missing cell")
    if not drop:
        others = len(columns) - 1
        verb = "has" if others == 1 else "have"
        more = f", and {count(others, 'other column')} {verb} some" if others else ""
        raise CommandError(
            f"Column {str(name)!r} has {cells}{more}: learning needs complete rows. "
            f"--drop-missing leaves out the {int(rows.sum()):,} of {count(len(frame), 'row')} with "
            "missing cells, --ignore leaves out columns."
        )
    frame = frame[~rows]
    if not len(frame):
        raise CommandError(
            "Every row has a missing cell: leave out the emptiest columns with --ignore."
        )
    # Whole numbers with gaps were read as fractions; without the gaps they are whole again.
    whole = {
        column: frame[column].astype("int64")
        for column in columns.index
        if getattr(frame[column].dtype, "kind", "O") == "f" and _is_whole(frame[column])
    }
    for column in columns.index:
        if frame[column].dtype == object and frame[column].map(type).eq(bool).all():
            whole[column] = frame[column].astype(bool)
    frame = frame.copy()
    for column, values in whole.items():
        frame[column] = values
    return frame


def _is_whole(column: Any) -> bool:
    values = column.to_numpy(dtype=np.float64)
    return bool((np.isfinite(values) & (np.floor(values) == values) & (abs(values) < 2**53)).all())
