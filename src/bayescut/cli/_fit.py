"""``bayescut fit``: learn a model from a table."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Annotated, Any

import numpy as np
import typer

from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError
from bayescut.cli._forecast import forecast
from bayescut.cli._options import (
    Gaps,
    Json,
    Kinds,
    TableFile,
    Text,
    check_places,
    kinds_of,
    reads_table,
)
from bayescut.cli._output import output_stream
from bayescut.cli._silence import is_quiet
from bayescut.cli._tables import PIPE, TableOptions, named_kinds, read_table, with_types
from bayescut.cli._terminal import emit, emit_json, is_terminal, note, waiting
from bayescut.exceptions import DataError

__all__ = ["fit"]

DEFAULT_LEARNER = "CutsetNetwork"


@reads_table
def fit(
    table: TableFile,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Model file to write; - is standard output.")
    ],
    options: TableOptions,
    learner: Annotated[
        str,
        typer.Option(
            "--learner", "-l", help="Which learner, e.g. 'CutsetEnsemble(time_budget=60)'."
        ),
    ] = DEFAULT_LEARNER,
    drop_missing: Annotated[
        bool,
        typer.Option(
            "--drop-missing",
            help="Leave out rows with missing cells instead of learning from them.",
        ),
    ] = False,
    gaps: Annotated[
        Gaps,
        typer.Option(
            help="What gaps tell: nothing beyond what is observed (random), or something of their "
            "own (informative)."
        ),
    ] = Gaps.random,
    kinds: Kinds = None,
    text: Text = False,
    seed: Annotated[int, typer.Option(help="Seed of learners that draw random numbers.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn a model from a table.

    Columns hold labels, numbers or dates: bayescut check tells which, --kind overrules it. Missing
    cells are learned from, too. Leave out columns such as names or numbers of persons (--ignore).
    """
    from bayescut.bench import parse_learner
    from bayescut.files import ESTIMATORS, save

    chosen = parse_learner(learner)
    verbose = 1 if is_terminal(sys.stderr) and not is_quiet() else None
    model = chosen.build(seed, verbose=verbose)
    if type(model).__name__ not in ESTIMATORS:
        raise CommandError(
            f"{chosen.spec} cannot be kept in a model file: choose from {', '.join(ESTIMATORS)}."
        )
    check_places(output, table=table)
    if output != PIPE:
        _check_writable(output)
    elif as_json:
        raise typer.BadParameter("--json and a model on standard output exclude each other.")
    chosen_kinds = kinds_of(kinds)
    frame = read_table(table, options, kinds=chosen_kinds).used
    chosen_kinds = named_kinds(chosen_kinds, frame)
    frame = with_types(frame, options, chosen_kinds, tell=True)
    if drop_missing:
        frame = _complete_rows(frame)
    settings = model.get_params(deep=False)
    if chosen_kinds and "columns" in settings:
        model.set_params(columns=chosen_kinds)
    if gaps is not Gaps.random and "missing" in settings:
        model.set_params(missing=gaps.value)
    try:
        with compiling():
            with waiting("estimating how long it takes"):
                forecast(model, frame)
            begin = time.perf_counter()
            model.fit(frame)
    except (DataError, TypeError) as error:
        # What a mapping says in Python is an option here.
        told = re.sub(r"columns=\{'?(.+?)'?: '(\w+)'\}", r"--kind \1=\2", str(error))
        raise CommandError(f"{told} Or leave the column out with --ignore.") from error
    except MemoryError as error:
        counts = frame.nunique()
        raise CommandError(
            f"Out of memory: column {str(counts.idxmax())!r} has {int(counts.max()):,} different "
            "values. Bin the columns with very many, or leave them out with --ignore."
        ) from error
    seconds = time.perf_counter() - begin
    with waiting("scoring"), compiling():
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
    note(f"Try: bayescut show {output}")


def _check_writable(path: str) -> None:
    """Find out before hours of learning whether the model can be kept."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"There is no folder {folder!r} to write {path!r} into: make it first.")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise CommandError(f"{path!r} cannot be written: choose another place.")


def _complete_rows(frame: Any) -> Any:
    rows = frame.isna().any(axis=1)
    frame = frame[~rows]
    if not len(frame):
        raise CommandError(
            "Every row has a missing cell: leave out the emptiest columns with --ignore, or learn "
            "from all rows without --drop-missing."
        )
    # Without gaps there is no need for types that have them.
    usual = {"Int64": "int64", "boolean": "bool"}
    dtypes = {name: usual[str(d)] for name, d in frame.dtypes.items() if str(d) in usual}
    return frame.astype(dtypes)
