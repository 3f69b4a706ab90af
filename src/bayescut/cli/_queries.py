"""``bayescut score``, ``sample``, ``impute`` and ``query``: what a model answers."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError, count
from bayescut.cli._language import parse_conditions, parse_question
from bayescut.cli._models import LoadedModel, blocks, load_model
from bayescut.cli._options import (
    Json,
    ModelFile,
    Output,
    Quiet,
    TableFile,
    Unseen,
    UnseenChoice,
    check_places,
    reads_table,
)
from bayescut.cli._output import Writer, text_output
from bayescut.cli._tables import PIPE, Table, TableOptions, match_table, read_table
from bayescut.cli._terminal import bar, emit, emit_json, print_table, waiting
from bayescut.exceptions import DataError, ZeroProbabilityError

if TYPE_CHECKING:
    from bayescut.data import Domain, Domains
    from bayescut.data.dates import DateForm
    from bayescut.estimators._answers import Given

__all__ = ["Output", "TableFile", "impute", "query", "sample", "score"]


def _read(model: LoadedModel, frame: Any, unseen: UnseenChoice | None, tell: bool) -> Given:
    from bayescut.data import encode_table

    chosen: Any = getattr(model.model, "unseen", "error") if unseen is None else unseen.value
    if chosen == "odd":  # of outlier detectors; no likelihood knows what to make of it
        chosen = "error"
    if chosen == "missing":
        frame = _without_text(frame, model.domains)
    try:
        codes, values = encode_table(
            frame, model.domains, allow_missing=True, unseen=chosen, estimator_name=model.name
        )
    except DataError as error:
        # What follows in the message is advice for users of Python.
        text = re.split(r" Use NaN for|: make it NaN if|: convert the column", str(error))[0]
        if text == str(error):
            raise
        raise CommandError(
            f"{text.removesuffix('.')}. Correct the cell or leave it empty, or have all such cells "
            "taken as missing with --unseen missing."
        ) from error
    return model.given(codes, values, tell=tell)


def _without_text(frame: Any, domains: Domains) -> Any:
    """Leave cells of numbers and dates empty in which something else stands."""
    changed = {}
    for name, domain in zip(frame.columns, domains, strict=True):
        if domain.grid is not None and getattr(frame[name].dtype, "kind", "O") in "OT":
            is_text = frame[name].map(lambda cell: isinstance(cell, str)).astype(bool)
            if is_text.any():
                changed[name] = frame[name].astype(object).mask(is_text, None)
    frame = frame.copy(deep=False) if changed else frame
    for name, column in changed.items():
        frame[name] = column
    return frame


@reads_table
def score(
    model_file: ModelFile,
    table: TableFile,
    options: TableOptions,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print the log-likelihood of every row.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File for --rows; - is standard output.")
    ] = PIPE,
    unseen: Unseen = None,
    as_json: Json = False,
) -> None:
    """Say how probable the rows of a table are (natural logarithm).

    Missing cells are summed over exactly. Columns of numbers count with their density, in the units
    of the table.
    """
    from bayescut.estimators._answers import log_density

    check_places(model=model_file, table=table)
    if output != PIPE and not rows:
        raise typer.BadParameter("--output is for --rows.")
    model = load_model(model_file)
    found = read_table(table, options, model.domains)
    given = _read(
        model,
        match_table(found.used, model.domains, found.title, options.day_first),
        unseen,
        tell=False,
    )
    values = np.empty(given.n_rows)
    with bar("scoring", given.n_rows) as update, compiling():
        for block in blocks(given.n_rows):
            values[block] = log_density(model.circuit, given.take(block), None)
            update(block.stop - block.start)
    n_impossible = int(np.sum(values == -np.inf))
    if rows:
        with text_output(output) as stream:
            if as_json:
                emit_json({"log_likelihood": values.tolist()}, stream)
            else:
                stream.writelines(f"{value!r}\n" for value in values.tolist())
        return
    with np.errstate(invalid="ignore"):  # rows of probability zero
        mean, error = float(values.mean()), float(values.std() / math.sqrt(len(values)))
    if as_json:
        emit_json(
            {
                "rows": len(values),
                "mean_log_likelihood": mean,
                "standard_error": error,
                "impossible_rows": n_impossible,
            }
        )
        return
    emit(
        f"mean log-likelihood {mean:.4f} ± {error:.4f} (standard error) of "
        f"{count(len(values), 'row')}"
    )
    if n_impossible:
        first = int(np.argmax(values == -np.inf))
        verb = "row is" if n_impossible == 1 else "rows are"
        emit(f"{n_impossible:,} {verb} impossible under the model; the first is row {first}")


def sample(
    model_file: ModelFile,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows to draw.")] = 10,
    given: Annotated[
        str, typer.Option("--given", help='Conditions, e.g. "30 <= age < 40, sex in {f, m}".')
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Seed; without one every call draws anew.")
    ] = None,
    output: Output = PIPE,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw rows from a model, under conditions if there are any."""
    from bayescut.cli._answers import allowed, log_probability
    from bayescut.estimators._answers import draw

    check_places(output, model=model_file)
    model = load_model(model_file)
    said = allowed(parse_conditions(given), model.circuit.domains)
    with waiting("checking the conditions"):
        if said is None or (given and log_probability(model.circuit, said) == -np.inf):
            raise ZeroProbabilityError(
                f"{given!r} has probability zero under this model: drop or change a condition."
            )
    generator = np.random.default_rng(seed)
    records: list[Any] = []
    with ExitStack() as stack:
        writer = None if as_json else stack.enter_context(Writer(output, model.has_names))
        update = stack.enter_context(bar("drawing", n))
        stack.enter_context(compiling())
        for block in blocks(n):
            size = block.stop - block.start
            frame = model.frame(*draw(model.circuit, said.repeat(size), generator, None))
            if writer is None:
                records += _plain_cells(frame).to_dict(orient="records")
            else:
                writer.write(frame)
            update(size)
    if as_json:
        with text_output(output) as stream:
            emit_json(records, stream)


class Method(str, Enum):
    """How missing cells are filled."""

    mpe = "mpe"
    mode = "mode"
    median = "median"
    mean = "mean"
    sample = "sample"


@reads_table
def impute(
    model_file: ModelFile,
    table: TableFile,
    options: TableOptions,
    output: Output = PIPE,
    method: Annotated[
        Method | None,
        typer.Option(
            help="mpe: the most probable completion of the row; mode: each cell's own most "
            "probable value; median, mean: those of numbers, and the mode of labels; sample: a "
            "draw. Default: mpe, and of a CutsetImputer its own."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of --method sample.")] = None,
    unseen: Unseen = None,
) -> None:
    """Fill the missing cells of a table; all others, and columns to be ignored, stay as they are.

    What is written has the separator, the encoding and the header of the table. The output may be
    the table itself: it is replaced when all rows are done.
    """
    check_places(model=model_file, table=table)
    check_places(output, model=model_file)  # the table itself may be completed
    model = load_model(model_file)
    if method is None:
        method = Method(getattr(model.model, "method", Method.mpe.value))
    found = read_table(table, options, model.domains, cells=True)
    given = _read(
        model,
        match_table(found.used, model.domains, found.title, options.day_first),
        unseen,
        tell=True,
    )
    generator = np.random.default_rng(seed)
    forms = _date_forms(model, found, given)
    with (
        Writer(output, found.header, found.dialect) as writer,
        bar("filling", given.n_rows) as update,
        compiling(),
    ):
        for block in blocks(given.n_rows):
            some = given.take(block)
            try:
                filled = _fill(model, some, method, generator)
            except ZeroProbabilityError as error:
                raise CommandError(_name_row(model, given, block)) from error
            writer.write(_with_cells(model, found, forms, some, filled, block))
            update(block.stop - block.start)


def _plain_cells(frame: Any) -> Any:
    """Return a frame of objects that JSON has: dates and durations as text, gaps as None."""
    frame = frame.copy()
    for name in frame:
        if getattr(frame[name].dtype, "kind", "O") in "mM":
            frame[name] = frame[name].astype(str)
    cells = frame.astype(object)
    return cells.where(frame.notna(), None)


def _date_forms(model: LoadedModel, table: Table, given: Given) -> dict[int, DateForm]:
    """Return how the table writes the dates of its columns, by column of the model."""
    from bayescut.data import missing_code
    from bayescut.data.dates import find_date_form

    forms = {}
    if table.cells is not None:
        for name, column in _columns(model, table):
            if model.domains[column].kind == "date":
                seen = given.codes[:, column] != missing_code(given.codes.dtype)
                form = find_date_form(table.cells[name][seen].unique(), table.day_first)
                if form is not None:
                    forms[column] = form
    return forms


def _columns(model: LoadedModel, table: Table) -> Iterator[tuple[Any, int]]:
    """Yield the columns of a table that are used, with the columns of the model that they are."""
    positions = {name: j for j, name in enumerate(model.domains.names or [])}
    for place, name in enumerate(table.used.columns):
        yield name, positions.get(name, place)


def _with_cells(
    model: LoadedModel,
    table: Table,
    forms: dict[int, DateForm],
    given: Given,
    filled: tuple[Any, Any],
    block: slice,
) -> Any:
    """Return the rows of a block as they stood in the table, with its gaps filled."""
    from bayescut.data import missing_code

    complete_rows = model.frame(*filled)
    codes = given.codes
    if table.cells is None:  # Parquet has types, which decoding restores
        source = table.frame
    else:
        source = table.cells
    rows = source.iloc[block].reset_index(drop=True)
    for name, column in _columns(model, table):
        gaps = codes[:, column] == missing_code(codes.dtype)
        values = complete_rows.iloc[:, column]
        domain = model.domains[column]
        if table.cells is None:
            rows[name] = values
        elif domain.empty:
            continue
        elif gaps.any() and domain.grid is not None:
            texts = rows[name].to_numpy(dtype=object, copy=True)
            texts[gaps] = [
                _number_text(x, domain, forms.get(column), table.dialect.decimal)
                for x in filled[1][gaps, column].tolist()
            ]
            rows[name] = texts
        elif gaps.any():
            texts = rows[name].to_numpy(dtype=object, copy=True)
            # A state is written as the table writes it, 38.50 as 38.50, where it occurs there.
            written = {code: texts[row] for code, row in _first_rows(codes[:, column])}
            texts[gaps] = [
                written.get(code, str(value))
                for code, value in zip(
                    filled[0][gaps, column].tolist(), values[gaps].tolist(), strict=True
                )
            ]
            rows[name] = texts
    return rows


def _first_rows(codes: Any) -> Iterator[tuple[int, int]]:
    states, first = np.unique(codes, return_index=True)
    return zip(states.tolist(), first.tolist(), strict=True)


def _number_text(number: float, domain: Domain, form: DateForm | None, decimal: str) -> str:
    """Write a number in its step, a date as the table does or else as ISO does."""
    value = domain.value(number)
    if domain.unit is not None:
        # Nanoseconds are no dates of Python.
        if form is None or not isinstance(value, datetime.date):
            return str(value)
        return form.write(value)
    if domain.grid is not None and domain.grid.step >= 1:
        value = round(number)
    return str(value).replace(".", decimal)


def _fill(
    model: LoadedModel, given: Given, method: Method, generator: np.random.Generator
) -> tuple[Any, Any]:
    from bayescut._jobs import count_jobs
    from bayescut.estimators._answers import complete, draw, fill_number, modes, mpe
    from bayescut.estimators._imputer import CutsetImputer, fill

    if isinstance(model.model, CutsetImputer):  # it knows more of single cells than its circuit
        jobs = count_jobs(model.model.n_jobs)
        cells = model.model._cells
        return fill(cells, given.codes, given.values, method.value, generator, jobs)
    if method is Method.mpe:
        return mpe(model.circuit, given, None)[:2]
    if method is Method.sample:
        return draw(model.circuit, given, generator, None)
    posterior = model.circuit.marginals(given.evidence)
    codes = modes(given, posterior)
    numbers = {j: fill_number(given, posterior, j, method.value) for j in given.grids()}
    return codes, complete(given, codes, numbers)


def _name_row(model: LoadedModel, given: Given, block: slice) -> str:
    from bayescut.estimators._answers import log_density

    values = log_density(model.circuit, given.take(block), None)
    row = block.start + int(np.argmin(values))
    return (
        f"What is observed in row {row} has probability zero under this model, so nothing can "
        "follow from it: correct the row, or leave it out."
    )


def query(
    model_file: ModelFile,
    questions: Annotated[
        list[str],
        typer.Argument(help='Questions, e.g. "P(a=1 | b=2)"; - reads one per line.'),
    ],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Ask a model for probabilities and explanations.

    Probabilities are exact on every model. Explanations are exact on single networks; on mixtures
    and ensembles they are the best of the best component, which the answer says.

    \b
    P(smoker=yes | age=old, sex=f)    a probability
    P(smoker | age=old)               a whole distribution
    P(a=1, b!=2 | c in {x, y}, d>3)   other conditions
    P(income | 30 <= age < 40)        numbers: intervals, and their mean and quantiles
    MPE(a, b | c=1)                   a and b in the most probable completion of all columns
    MPE(| c=1)                        all of it

    Names and values with blanks or special characters stand in quotes.
    """
    from bayescut.cli._answers import answer

    texts: list[str] = []
    if PIPE in questions:
        check_places(model=model_file, questions=PIPE)
    for text in questions:
        texts += [line for line in sys.stdin if line.strip()] if text == PIPE else [text]
    parsed = [parse_question(text.strip()) for text in texts]
    model = load_model(model_file)
    for question in parsed:
        with waiting("answering"), compiling():
            found = answer(question, model.circuit)
        if as_json:
            emit_json(found.to_json())
        elif found.distribution is not None:
            emit(f"{question.text}")
            names = list(found.distribution[0][0]) if found.distribution else []
            print_table(
                [*names, "probability"],
                [
                    [*map(str, line.values()), f"{math.exp(value):.6g}"]
                    for line, value in found.distribution
                ],
                left=range(len(names)),
            )
            for name, summary in found.summaries.items():
                told = ", ".join(f"{title} {_shown(value)}" for title, value in summary.items())
                emit(f"{name}: {told}")
        elif found.assignment is not None:
            values = ", ".join(f"{name}={value}" for name, value in found.assignment.items())
            chance = math.exp(found.log_probability or 0.0)
            emit(f"{question.text} = {values}")
            exact = "" if found.exact else "; approximate, as the model is a mixture"
            given = "given the evidence, " if question.given else ""
            what = "density" if found.density else "probability"
            emit(f"  {given}the whole row has {what} {chance:.6g}{exact}")
        else:
            chance = math.exp(found.log_probability or 0.0)
            emit(f"{question.text} = {chance:.6g}  (log {found.log_probability:.6g})")


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
