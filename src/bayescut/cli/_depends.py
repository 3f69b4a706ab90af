"""``bayescut show --depends``: which columns depend on which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayescut.cli._answers import allowed, find_column, log_probability
from bayescut.cli._compiling import compiling
from bayescut.cli._errors import CommandError
from bayescut.cli._language import QuestionError, parse_question
from bayescut.cli._models import LoadedModel
from bayescut.cli._report import save_figure
from bayescut.cli._tables import PIPE
from bayescut.cli._terminal import emit, emit_json, print_table

if TYPE_CHECKING:
    from bayescut.circuit import Evidence

__all__ = ["show_dependence"]


def show_dependence(
    model: LoadedModel, path: str, lines: int, given: str | None = None, *, as_json: bool
) -> None:
    """Print the strongest pairs, and draw them unless the path is ``-``.

    ``given`` lists columns that are held fixed, and conditions that hold.
    """
    from bayescut.circuit.dependence import mutual_information
    from bayescut.plots.depends import dependence_graph, dependence_map, strongest_pairs

    fixed, evidence = _read_given(model, given)
    with compiling():
        information = mutual_information(model.circuit, given=fixed, evidence=evidence)
    strength = np.sqrt(-np.expm1(-2.0 * information))
    np.fill_diagonal(strength, 1.0)
    m = len(model.domains)  # a circuit may have more columns, which tell gaps
    information, strength = information[:m, :m], strength[:m, :m]
    names = [
        domain.name if domain.name is not None else str(j) for j, domain in enumerate(model.domains)
    ]
    if path != PIPE:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13, 6), layout="constrained")
        left, right = figure.subplots(1, 2)
        dependence_map(strength, names, left)
        dependence_graph(strength, names, right)
        save_figure(figure, path)
    if as_json:
        told = {"columns": names, "mutual_information": information.tolist()}
        emit_json(told if given is None else told | {"given": given})
        return
    listed = [
        [names[i], names[j], f"{value:.3f}", f"{information[i, j]:.4f}"]
        for i, j, value in strongest_pairs(strength)[:lines]
    ]
    print_table(["column", "column", "strength", "nats"], listed, left=(0, 1))
    if path != PIPE:
        emit(f"\n{path}: drawing of what depends on what")


def _read_given(model: LoadedModel, text: str | None) -> tuple[list[int], Evidence | None]:
    """Columns and conditions, as in ``age, smoker=yes``."""
    if text is None:
        return [], None
    try:
        question = parse_question(f"P({text})")
    except QuestionError as error:
        raise CommandError(
            f"--given lists columns and conditions, such as 'age, smoker=yes': {error}"
        ) from error
    if question.given:
        raise CommandError("--given has no bar: list columns and conditions with commas.")
    fixed = [find_column(name, model.domains) for name in question.names]
    if not question.events:
        return fixed, None
    found = allowed(question.events, model.circuit.domains)
    if found is None or log_probability(model.circuit, found) == -np.inf:
        raise CommandError(f"What --given says cannot be: {text!r} has probability 0.")
    return fixed, found.evidence
