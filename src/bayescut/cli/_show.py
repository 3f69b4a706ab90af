"""``bayescut show``: what is in a model file."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bayescut._atomic import writing
from bayescut.cli._errors import CommandError, count
from bayescut.cli._models import LoadedModel, load_model
from bayescut.cli._options import Json, ModelFile, Quiet, check_places
from bayescut.cli._terminal import emit, emit_json, print_table

__all__ = ["show"]


class Theme(str, Enum):
    """What a picture is for."""

    light = "light"
    dark = "dark"


def show(
    model_file: ModelFile,
    depth: Annotated[
        int | None,
        typer.Option(min=0, help="Levels in the outline. Default: what most rows meet."),
    ] = None,
    lines: Annotated[
        int, typer.Option(min=2, help="Branches in the outline and in the picture, at most.")
    ] = 24,
    columns: Annotated[
        bool, typer.Option("--columns", help="List all columns and states.")
    ] = False,
    draw: Annotated[
        str | None,
        typer.Option(help="Draw the circuit into this picture (.png, .svg, .pdf).", metavar="FILE"),
    ] = None,
    depends: Annotated[
        str | None,
        typer.Option(
            help="Print the pairs of columns that depend most on each other, and draw a heat map "
            "and a graph into this picture; - draws none.",
            metavar="FILE",
        ),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(
            help="With --depends: columns to hold fixed, and conditions, e.g. 'age, smoker=yes'.",
            metavar="COLUMN|CONDITION,...",
        ),
    ] = None,
    theme: Annotated[Theme, typer.Option(help="For white or for dark paper.")] = Theme.light,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Describe a model: its size, its columns, and the cuts that most rows meet."""
    from bayescut.circuit.outline import outline

    check_places(draw, depends, model=model_file)
    model = load_model(model_file)
    if draw is not None:
        _draw(model, draw, lines, theme.value)
    if depends is not None:
        from bayescut.cli._depends import show_dependence

        show_dependence(model, depends, lines, given, as_json=as_json)
        return
    if given is not None:
        raise CommandError("--given goes with --depends: add --depends FILE, or --depends -.")
    if as_json:
        emit_json(_facts(model))
        return
    facts = _facts(model)
    emit(f"{facts['model']}: {_arguments(facts['settings'])}".rstrip(": "))
    emit(
        f"{count(facts['columns'], 'column')}, {count(facts['parameters'], 'parameter')}, "
        f"{count(facts['nodes'], 'node')}, depth {facts['depth']}"
    )
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in facts["node_kinds"].items())
    emit(f"nodes: {kinds}")
    holds = [name for name, value in facts["properties"].items() if value]
    emit(f"properties: {', '.join(holds) or 'none'}")
    if facts["structure_score"] is not None:
        emit(f"structure score: {facts['structure_score']:,.2f}")
    emit("")
    _print_columns(model, columns)
    emit("")
    for line in outline(model.circuit, depth, lines):
        emit(line)
    if draw is not None:
        emit(f"\n{draw}: drawing of the circuit")


def _draw(model: LoadedModel, path: str, max_rows: int, theme: str) -> None:
    axes = model.circuit.draw(max_rows=max_rows, theme=theme)
    figure: Any = axes.figure
    kind = Path(path).suffix.lstrip(".").casefold() or "png"
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise CommandError(f"{path!r} is no picture: its name ends in one of {', '.join(known)}.")
    with writing(path, "wb") as stream:
        figure.savefig(stream, format=kind, dpi=150, facecolor=figure.get_facecolor())


def _facts(model: LoadedModel) -> dict[str, Any]:
    from bayescut.circuit._kinds import NAMES

    circuit = model.circuit
    counts = np.bincount(circuit.kind, minlength=len(NAMES)).tolist()
    properties = circuit.properties
    settings: dict[str, Any] = getattr(model.model, "get_params", dict)()
    return {
        "model": model.name,
        "settings": settings,
        "columns": len(model.domains),
        "states": {
            domain.name or str(position): domain.n_states
            for position, domain in enumerate(model.domains)
        },
        "kinds": {
            domain.name or str(position): domain.kind
            for position, domain in enumerate(model.domains)
        },
        "parameters": circuit.n_parameters,
        "nodes": circuit.n_nodes,
        "depth": circuit.depth,
        "node_kinds": {name: count for name, count in zip(NAMES, counts, strict=True) if count},
        "properties": {
            name: bool(getattr(properties, name))
            for name in ("smooth", "decomposable", "deterministic", "structured_decomposable")
            if hasattr(properties, name)
        },
        "structure_score": getattr(model.model, "structure_score_", None),
    }


_USUAL = (("unseen", "error"), ("missing", "random"), ("columns", None))


def _arguments(settings: dict[str, Any]) -> str:
    hidden = ("n_jobs", "verbose", "n_states")
    return ", ".join(
        f"{name}={value!r}"
        for name, value in settings.items()
        if name not in hidden and (name, value) not in _USUAL
    )


# Letters of a line of values.
_WIDEST = 72


def _print_columns(model: LoadedModel, every: bool) -> None:
    domains = model.domains
    shown = len(domains) if every else min(len(domains), 12)
    lines = []
    for position, domain in enumerate(domains[:shown]):
        values = "continuous"
        if domain.empty:
            values = "no value was observed"
        elif domain.grid is not None:
            ends = domain.grid.quantile(domain.grid.mass[None, :], [0.01, 0.5, 0.99])[0]
            low, middle, high = (domain.value(float(x)) for x in ends)
            unit = "" if domain.unit is None else f" {domain.unit}"
            values = (
                f"{domain.kind}s, 98% from {low} to {high}, median {middle}, "
                f"step {domain.grid.step:g}{unit}"
            )
        elif domain.n_states:
            limit = domain.n_states if every else min(domain.n_states, 6)
            values = ", ".join(str(domain.label(state)) for state in range(limit))
            values += ", ..." if limit < domain.n_states else ""
            if not every and len(values) > _WIDEST:
                values = values[: _WIDEST - 3].rstrip(", ") + "..."
        lines.append([domain.name or str(position), str(domain.n_states), values])
    print_table(["column", "states", "values"], lines, left=(0, 2))
    if shown < len(domains):
        emit(f"... {count(len(domains) - shown, 'more column')}; --columns lists all")
