"""``bayescut score``, ``sample``, ``impute`` and ``query``: what a model answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from typing import Annotated, Any

import numpy as np
import typer

from bayescut.circuit import Evidence
from bayescut.cli._answers import allowed_states, answer, blank, impossible, log_probability
from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError, count
from bayescut.cli._language import parse_conditions, parse_question
from bayescut.cli._models import LoadedModel, blocks, load_model
from bayescut.cli._options import (
    Encoding,
    Header,
    Ignore,
    Json,
    Missing,
    ModelFile,
    OwnMissing,
    Quiet,
    Separator,
    Unseen,
    UnseenChoice,
    one_pipe,
    table_options,
)
from bayescut.cli._output import Writer, text_output
from bayescut.cli._tables import PIPE, Table, match_table, read_table
from bayescut.cli._terminal import bar, emit, emit_json, print_table, waiting
from bayescut.data import encode, missing_code
from bayescut.exceptions import DataError, ZeroProbabilityError

__all__ = ["impute", "query", "sample", "score"]

TableFile = Annotated[str, typer.Argument(help="CSV or Parquet file; - is a pipe.")]
Output = Annotated[
    str,
    typer.Option("--output", "-o", help="CSV or Parquet file to write; - is standard output."),
]


def _codes(model: LoadedModel, frame: Any, unseen: UnseenChoice | None) -> Any:
    chosen: Any = getattr(model.model, "unseen", "error") if unseen is None else unseen.value
    try:
        return encode(
            frame, model.domains, allow_missing=True, unseen=chosen, estimator_name=model.name
        )
    except DataError as error:
        # What follows the known values in the message is advice for users of Python.
        text = str(error).split(" Use NaN for")[0]
        if text == str(error):
            raise
        raise CommandError(
            f"{text} Correct the cell or leave it empty, or have all such cells taken as missing "
            "with --unseen missing."
        ) from error


def score(
    model_file: ModelFile,
    table: TableFile,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print the log-likelihood of every row.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File for --rows; - is standard output.")
    ] = PIPE,
    unseen: Unseen = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    missing: Missing = None,
    only_missing: OwnMissing = False,
    ignore: Ignore = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say how probable the rows of a table are (natural logarithm).

    Missing cells are summed over exactly.
    """
    one_pipe(model=model_file, table=table)
    if output != PIPE and not rows:
        raise typer.BadParameter("--output is for --rows.")
    model = load_model(model_file)
    options = table_options(
        separator,
        header,
        missing,
        ignore,
        only_missing=only_missing,
        encoding=encoding,
        quiet=quiet,
    )
    found = read_table(table, options, model.domains)
    codes = _codes(model, match_table(found.used, model.domains, found.title), unseen)
    values = np.empty(len(codes))
    with bar("scoring", len(codes)) as update, compiling(quiet=quiet):
        for block in blocks(len(codes)):
            values[block] = model.circuit.log_likelihood(codes[block])
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
        str, typer.Option("--given", help='Conditions, e.g. "age in {old, middle}, sex=f".')
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Seed; without one every call draws anew.")
    ] = None,
    output: Output = PIPE,
    as_json: Json = False,
) -> None:
    """Draw rows from a model, under conditions if there are any."""
    model = load_model(model_file)
    domains = model.domains
    allowed = allowed_states(parse_conditions(given), domains)
    if given:
        with waiting("checking the conditions"):
            possible = (
                not impossible(allowed, domains)
                and log_probability(model.circuit, allowed)[0] > -np.inf
            )
        if not possible:
            raise ZeroProbabilityError(
                f"{given!r} has probability zero under this model: drop or change a condition."
            )
    masks = allowed[None, :] if given else None
    generator = np.random.default_rng(seed)
    records: list[Any] = []
    with ExitStack() as stack:
        writer = None if as_json else stack.enter_context(Writer(output, model.has_names))
        update = stack.enter_context(bar("drawing", n))
        stack.enter_context(compiling())
        for block in blocks(n):
            size = block.stop - block.start
            rows = Evidence(blank(size, domains), masks)
            codes = model.circuit.sample_conditional(rows, generator)
            frame = model.frame(codes)
            if writer is None:
                records += frame.astype(object).to_dict(orient="records")
            else:
                writer.write(frame)
            update(size)
    if as_json:
        with text_output(output) as stream:
            emit_json(records, stream)


class Method(str, Enum):
    """How missing cells are filled."""

    mpe = "mpe"
    marginal = "marginal"
    sample = "sample"


def impute(
    model_file: ModelFile,
    table: TableFile,
    output: Output = PIPE,
    method: Annotated[
        Method,
        typer.Option(
            help="mpe: the most probable completion of the row; marginal: each cell's own most "
            "probable value; sample: a draw."
        ),
    ] = Method.mpe,
    seed: Annotated[int | None, typer.Option(help="Seed of --method sample.")] = None,
    unseen: Unseen = None,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    missing: Missing = None,
    only_missing: OwnMissing = False,
    ignore: Ignore = None,
    quiet: Quiet = False,
) -> None:
    """Fill the missing cells of a table; all others, and columns to be ignored, stay as they are.

    What is written has the separator, the encoding and the header of the table. The output may be
    the table itself: it is replaced when all rows are done.
    """
    one_pipe(model=model_file, table=table)
    model = load_model(model_file)
    options = table_options(
        separator,
        header,
        missing,
        ignore,
        only_missing=only_missing,
        encoding=encoding,
        quiet=quiet,
    )
    found = read_table(table, options, model.domains, cells=True)
    codes = _codes(model, match_table(found.used, model.domains, found.title), unseen)
    generator = np.random.default_rng(seed)
    with (
        Writer(output, found.header, found.dialect) as writer,
        bar("filling", len(codes)) as update,
        compiling(quiet=quiet),
    ):
        for block in blocks(len(codes)):
            try:
                filled = _fill(model, codes[block], method, generator)
            except ZeroProbabilityError as error:
                raise CommandError(_name_row(model, codes, block)) from error
            writer.write(_with_cells(model, found, codes[block], filled, block))
            update(block.stop - block.start)


def _with_cells(model: LoadedModel, table: Table, codes: Any, filled: Any, block: slice) -> Any:
    """Return the rows of a block as they stood in the table, with its gaps filled."""
    complete = model.frame(filled)
    names = list(table.used.columns)
    positions = {name: j for j, name in enumerate(model.domains.names or [])}
    if table.cells is None:  # Parquet has types, which decoding restores
        source = table.frame
    else:
        source = table.cells
    rows = source.iloc[block].reset_index(drop=True)
    for place, name in enumerate(names):
        column = positions.get(name, place)
        gaps = codes[:, column] == missing_code(codes.dtype)
        values = complete.iloc[:, column]
        if table.cells is None:
            rows[name] = values
        elif gaps.any():
            texts = rows[name].to_numpy(dtype=object, copy=True)
            # A state is written as the table writes it, 38.50 as 38.50, where it occurs there.
            written = {code: texts[row] for code, row in _first_rows(codes[:, column])}
            texts[gaps] = [
                written.get(code, str(value))
                for code, value in zip(
                    filled[gaps, column].tolist(), values[gaps].tolist(), strict=True
                )
            ]
            rows[name] = texts
    return rows


def _first_rows(codes: Any) -> Iterator[tuple[int, int]]:
    states, first = np.unique(codes, return_index=True)
    return zip(states.tolist(), first.tolist(), strict=True)


def _fill(model: LoadedModel, codes: Any, method: Method, generator: np.random.Generator) -> Any:
    if method is Method.mpe:
        return model.circuit.mpe(codes)[0]
    if method is Method.sample:
        return model.circuit.sample_conditional(codes, generator)
    posterior = model.circuit.marginals(codes)
    offsets = model.domains.offsets
    filled = codes.copy()
    absent = codes == missing_code(codes.dtype)
    for column in np.flatnonzero(absent.any(axis=0)):
        best = posterior[:, offsets[column] : offsets[column + 1]].argmax(axis=1)
        filled[absent[:, column], column] = best[absent[:, column]]
    return filled


def _name_row(model: LoadedModel, codes: Any, block: slice) -> str:
    values = model.circuit.log_likelihood(codes[block])
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
    as_json: Json = False,
) -> None:
    """Ask a model for probabilities and explanations; the answers are exact.

    \b
    P(smoker=yes | age=old, sex=f)    a probability
    P(smoker | age=old)               a whole distribution
    P(a=1, b!=2 | c in {x, y}, d>3)   other conditions
    MPE(a, b | c=1)                   a and b in the most probable completion of all columns
    MPE(| c=1)                        all of it

    Names and values with blanks or special characters stand in quotes.
    """
    texts: list[str] = []
    if PIPE in questions:
        one_pipe(model=model_file, questions=PIPE)
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
        elif found.assignment is not None:
            values = ", ".join(f"{name}={value}" for name, value in found.assignment.items())
            chance = math.exp(found.log_probability or 0.0)
            emit(f"{question.text} = {values}")
            exact = "" if found.exact else "; approximate, as the model is a mixture"
            given = "given the evidence, " if question.given else ""
            emit(f"  {given}the whole row has probability {chance:.6g}{exact}")
        else:
            chance = math.exp(found.log_probability or 0.0)
            emit(f"{question.text} = {chance:.6g}  (log {found.log_probability:.6g})")
