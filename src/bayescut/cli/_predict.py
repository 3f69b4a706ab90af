"""``bayescut predict`` and ``bayescut anomalies``: a column from others, rows that do not fit."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError
from bayescut.cli._models import LoadedModel, as_density, blocks, load_model, read_model
from bayescut.cli._options import (
    Json,
    ModelFile,
    Unseen,
    UnseenChoice,
    check_places,
    reads_table,
)
from bayescut.cli._output import Writer
from bayescut.cli._queries import Output, TableFile, _read
from bayescut.cli._tables import PIPE, Table, TableOptions, match_table, pandas, read_table
from bayescut.cli._terminal import bar, emit, emit_json, print_table

__all__ = ["anomalies", "predict"]


@reads_table
def predict(
    model_file: ModelFile,
    table: TableFile,
    options: TableOptions,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            help="The column to predict. A classifier or regressor knows its own: there it is the "
            "title of the answers, and such a column of the table is not looked at.",
        ),
    ] = None,
    output: Output = PIPE,
    proba: Annotated[
        bool, typer.Option("--proba", help="Write the probability of every label, too.")
    ] = False,
    quantiles: Annotated[
        str, typer.Option(help="Quantiles of a number, e.g. 0.1,0.9.", metavar="Q,...")
    ] = "",
    unseen: Unseen = None,
) -> None:
    """Predict a column of a table from all others; it need not be there.

    Writes one line for each row: the most probable label with its probability, or the median of a
    number. Missing cells are summed over exactly. The model is a density, a CutsetClassifier or a
    CutsetRegressor.
    """
    from bayescut.data.tables import without_column
    from bayescut.estimators._density import posterior
    from bayescut.estimators._predict import in_unit, predicted
    from bayescut.estimators._target import TargetEstimator

    check_places(output, model=model_file, table=table)
    read = read_model(model_file)
    if isinstance(read, TargetEstimator):
        _predict_own(
            read,
            table,
            options,
            target=target,
            output=output,
            proba=proba,
            quantiles=_probabilities(quantiles),
            unseen=unseen,
        )
        return
    model = as_density(read, model_file)
    if target is None:
        raise CommandError(
            f"{model_file!r} holds a density, which can predict any column: say which with "
            "--target."
        )
    by_position = model.domains.names is None and target.isdecimal()
    column = model.domains.index(int(target) if by_position else target)
    domain = model.domains[column]
    wanted = _probabilities(quantiles)
    if wanted and domain.grid is None:
        raise CommandError(f"{target!r} holds labels, which have no quantiles: use --proba.")
    if proba and domain.grid is not None:
        raise CommandError(f"{target!r} holds numbers, not labels: use --quantiles 0.1,0.9.")
    found = read_table(table, options, model.domains)
    frame = without_column(found.used, column, model.domains)
    matched = match_table(frame, model.domains, found.title, options.day_first)
    given = _read(model, matched, unseen, False)
    codes = given.codes
    with (
        Writer(output, True, found.dialect) as writer,
        bar("predicting", len(codes)) as update,
        compiling(quiet=options.quiet),
    ):
        for block in blocks(len(codes)):
            values = None if given.values is None else given.values[block]
            chances = posterior(model.circuit, codes[block], column, values=values)
            name = domain.name if domain.name is not None else str(column)
            answer: dict[str, Any] = {name: in_unit(predicted(chances, domain, None), domain)}
            if domain.grid is None:
                answer["probability"] = chances.max(axis=1)
                if proba:
                    for state in range(domain.n_states):
                        answer[f"P({domain.label(state)})"] = chances[:, state]
            elif wanted:
                for q, points in zip(wanted, domain.grid.quantile(chances, wanted).T, strict=True):
                    answer[f"q{q:g}"] = in_unit(points, domain)
            writer.write(pandas().DataFrame(answer))
            update(block.stop - block.start)


def _predict_own(
    model: Any,
    table: str,
    options: TableOptions,
    *,
    target: str | None,
    output: str,
    proba: bool,
    quantiles: list[float],
    unseen: UnseenChoice | None,
) -> None:
    """Predict what a classifier or regressor was learned for."""
    classes = getattr(model, "classes_", None)
    if quantiles and classes is not None:
        raise CommandError("A classifier predicts labels, which have no quantiles: use --proba.")
    if unseen is not None:
        model.set_params(unseen=unseen.value)
    found = read_table(table, options, model.domains_)
    frame = found.used
    if target is not None and target in set(map(str, frame.columns)):
        frame = frame.drop(columns=[c for c in frame.columns if str(c) == target])
    frame = match_table(frame, model.domains_, found.title, options.day_first)
    if model.domains_.names is None:
        frame = frame.to_numpy()
    name = "prediction" if target is None else target
    with (
        Writer(output, True, found.dialect) as writer,
        bar("predicting", len(frame)) as update,
        compiling(quiet=options.quiet),
    ):
        for block in blocks(len(frame)):
            answer: dict[str, Any] = {}
            if classes is None:
                cells = model.predict_cells(frame[block])
                answer[name] = model.quantile_of(cells, 0.5)
                for q in quantiles:
                    answer[f"q{q:g}"] = model.quantile_of(cells, q)
            else:
                chances = model.predict_proba(frame[block])
                answer[name] = classes[chances.argmax(axis=1)]
                answer["probability"] = chances.max(axis=1)
                if proba:
                    answer |= {f"P({c})": p for c, p in zip(classes, chances.T, strict=True)}
            writer.write(pandas().DataFrame(answer))
            update(block.stop - block.start)


def _probabilities(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"--quantiles are numbers such as 0.1,0.9: {error}.") from error
    if not all(0 < q < 1 for q in found):
        raise typer.BadParameter("--quantiles lie strictly between 0 and 1.")
    return found


@reads_table
def anomalies(
    model_file: ModelFile,
    table: TableFile,
    options: TableOptions,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows to list.")] = 10,
    cells: Annotated[int, typer.Option(min=1, help="Cells to name in each row, at most.")] = 3,
    unseen: Unseen = None,
    as_json: Json = False,
) -> None:
    """List the rows of a table that fit a model least, and the cells to blame.

    The score compares a row's log-likelihood with rows drawn from the model that have the same
    gaps, in standard deviations; an outlier detector takes from it what the row's most surprising
    cell has above the usual. Labels that it does not know are odd, unless --unseen says otherwise.
    A cell's surprisal is -ln p(cell | the rest of the row) above what is to be expected there.
    """
    from bayescut.estimators._density import posterior
    from bayescut.estimators._outliers import CutsetOutlierDetector, standard_scores
    from bayescut.estimators._predict import cell_surprisal

    check_places(model=model_file, table=table)
    model = load_model(model_file)
    found = read_table(table, options, model.domains)
    frame = match_table(found.used, model.domains, found.title, options.day_first)
    detector = model.model if isinstance(model.model, CutsetOutlierDetector) else None
    if detector is not None and unseen is not None:
        detector.set_params(unseen=unseen.value)
    odd = detector is not None and detector.unseen == "odd"
    given = _read(model, frame, UnseenChoice.missing if odd else unseen, False)
    codes, values = given.codes, given.values
    with compiling(quiet=options.quiet):
        if detector is not None:
            scores = detector._scores(codes, values, detector._unseen(frame))
        else:
            scores = standard_scores(model.circuit, codes, values, seed=0)
        order = np.argsort(scores, kind="stable")[:n]
        worst_codes, worst_values = codes[order], None if values is None else values[order]
        if detector is not None:
            # It knows more of single cells than its circuit.
            surprise = detector._cell_surprisal(frame.iloc[order], worst_codes, worst_values, True)
        else:

            def ask(some: Any, numbers: Any, column: int) -> Any:
                return posterior(model.circuit, some, column, values=numbers)

            surprise = cell_surprisal(model.circuit.domains, worst_codes, worst_values, True, ask)
    listed = []
    for row, line in zip(order.tolist(), surprise, strict=True):
        known = np.flatnonzero(~np.isnan(line))
        worst = known[np.argsort(-line[known], kind="stable")][:cells]
        listed.append(
            {
                "row": row,
                "score": float(scores[row]),
                "cells": [
                    {
                        "column": _name(model, j),
                        "value": frame.iloc[row, j],
                        "surprisal": float(line[j]),
                    }
                    for j in worst.tolist()
                    if line[j] > 0
                ],
            }
        )
    if as_json:
        emit_json(listed)
        return
    lines = [
        [
            str(entry["row"]),
            f"{entry['score']:.2f}",
            ", ".join(
                f"{cell['column']}={_cell(cell['value'])} ({cell['surprisal']:+.1f})"
                for cell in entry["cells"]
            ),
        ]
        for entry in listed
    ]
    print_table(["row", "score", "cells (surprisal)"], lines, left=(2,))
    emit(_remark(found))


def _cell(value: Any) -> str:
    """Return a cell as text; of dates at midnight the day, of whole numbers no fraction."""
    if isinstance(value, float) and value.is_integer():  # gaps in its column make it one
        return f"{value:.0f}"
    return str(value).removesuffix(" 00:00:00")


def _remark(table: Table) -> str:
    first = 2 if table.header else 1
    return f"row 0 is line {first} of {table.title}"


def _name(model: LoadedModel, column: int) -> str:
    name = model.domains[column].name
    return str(column) if name is None else name
