"""``bayescut show``: what is in a model file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import typer

from bayescut.circuit import Circuit
from bayescut.circuit._kinds import DECISION, JUNCTION, NAMES, PRODUCT, SUM
from bayescut.cli._models import LoadedModel, load_model
from bayescut.cli._options import Json, ModelFile
from bayescut.cli._terminal import emit, emit_json, print_table

__all__ = ["outline", "show"]

# Lines of the longest outline and column list that are shown at once.
MOST_LINES = 60


def show(
    model_file: ModelFile,
    depth: Annotated[int, typer.Option(min=0, help="Levels of cuts in the outline.")] = 3,
    columns: Annotated[
        bool, typer.Option("--columns", help="List all columns and states.")
    ] = False,
    draw: Annotated[
        str | None,
        typer.Option(help="Draw the circuit into this picture (.png, .svg, .pdf).", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a model: its size, its columns, and the cuts near its root."""
    model = load_model(model_file)
    if draw is not None:
        figure: Any = model.circuit.draw().figure
        figure.savefig(draw)
    if as_json:
        emit_json(_facts(model))
        return
    facts = _facts(model)
    emit(f"{facts['model']}: {_arguments(facts['settings'])}".rstrip(": "))
    emit(
        f"{facts['columns']:,} columns, {facts['parameters']:,} parameters, "
        f"{facts['nodes']:,} node{'s' * (facts['nodes'] != 1)}, depth {facts['depth']}"
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
    lines = list(outline(model.circuit, depth))
    for line in lines[:MOST_LINES]:
        emit(line)
    if len(lines) > MOST_LINES:
        emit(f"... {len(lines) - MOST_LINES:,} more lines; --depth shows fewer levels")
    if draw is not None:
        emit(f"\n{draw}: drawing of the circuit")


def _facts(model: LoadedModel) -> dict[str, Any]:
    circuit = model.circuit
    counts = np.bincount(circuit.kind, minlength=len(NAMES)).tolist()
    properties = circuit.properties
    settings: dict[str, Any] = getattr(model.model, "get_params", dict)()
    return {
        "model": model.name,
        "settings": settings,
        "columns": len(circuit.domains),
        "states": {
            domain.name or str(position): domain.n_states
            for position, domain in enumerate(circuit.domains)
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


def _arguments(settings: dict[str, Any]) -> str:
    hidden = ("n_jobs", "verbose", "n_states")
    return ", ".join(f"{name}={value!r}" for name, value in settings.items() if name not in hidden)


def _print_columns(model: LoadedModel, every: bool) -> None:
    domains = model.domains
    shown = len(domains) if every else min(len(domains), 12)
    lines = []
    for position, domain in enumerate(domains[:shown]):
        values = "continuous"
        if domain.n_states:
            limit = domain.n_states if every else min(domain.n_states, 6)
            values = ", ".join(str(domain.label(state)) for state in range(limit))
            values += ", ..." if limit < domain.n_states else ""
        lines.append([domain.name or str(position), str(domain.n_states), values])
    print_table(["column", "states", "values"], lines, left=(0, 2))
    if shown < len(domains):
        emit(f"... {len(domains) - shown:,} more columns; --columns lists all")


def outline(circuit: Circuit, depth: int) -> Iterator[str]:
    """Write the top of a circuit as an indented tree of text.

    Parameters
    ----------
    circuit : Circuit
    depth : int
        Levels of sums, cuts and products that are opened.

    Yields
    ------
    str
        One line for each node.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.cli._show import outline
    >>> node = build.decision(
    ...     0, [0.8, 0.2], build.categorical(1, [0.9, 0.1]), build.categorical(1, [0.3, 0.7])
    ... )
    >>> print("\\n".join(outline(build.circuit(node, [2, 2]), 1)))
    cut on 0
    ├─ 0 (0.8): categorical input of 1
    └─ 1 (0.2): categorical input of 1
    """
    title, children = _describe(circuit, circuit.root)
    yield title
    yield from _branches(circuit, children, depth, "")


def _branches(
    circuit: Circuit, children: list[tuple[str, int]], depth: int, indent: str
) -> Iterator[str]:
    if depth == 0 and children:
        yield f"{indent}└─ ..."
        return
    for position, (label, child) in enumerate(children):
        last = position == len(children) - 1
        title, below = _describe(circuit, child)
        yield f"{indent}{'└─' if last else '├─'} {label}{title}"
        yield from _branches(circuit, below, depth - 1, indent + ("   " if last else "│  "))


def _describe(circuit: Circuit, node: int) -> tuple[str, list[tuple[str, int]]]:
    """Return a node's words, and its children with the words on the edges to them."""
    kind = int(circuit.kind[node])
    edges = range(int(circuit.child_ptr[node]), int(circuit.child_ptr[node + 1]))
    children = [int(circuit.child[edge]) for edge in edges]
    weights = [f"{np.exp(circuit.log_weight[edge]):.3g}" for edge in edges]
    if kind == DECISION:
        domain = circuit.domains[int(circuit.var[node])]
        labels = []
        for edge, weight in zip(edges, weights, strict=True):
            begin, end = circuit.branch_ptr[edge], circuit.branch_ptr[edge + 1]
            states = [str(domain.label(s)) for s in circuit.branch_state[begin:end].tolist()]
            if len(states) > 4:
                states = [*states[:3], f"{len(states) - 3} more"]
            labels.append(f"{', '.join(states)} ({weight}): ")
        return f"cut on {_name(circuit, node)}", list(zip(labels, children, strict=True))
    if kind == SUM:
        labels = [f"{weight}: " for weight in weights]
        return f"mixture of {len(children)}", list(zip(labels, children, strict=True))
    if kind == PRODUCT:
        return f"product of {len(children)}", [("", child) for child in children]
    if kind == JUNCTION:
        begin, end = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
        width = int(np.diff(circuit.fam_parent_ptr[begin : end + 1]).max(initial=0))
        what = ("independent variables", "tree")[width] if width < 2 else f"width-{width} leaf"
        over = f"{end - begin} variables" if end - begin > 1 else "1 variable"
        return (f"{end - begin} {what}" if width == 0 else f"{what} over {over}"), []
    return f"{NAMES[kind]} input of {_name(circuit, node)}", []


def _name(circuit: Circuit, node: int) -> str:
    variable = int(circuit.var[node])
    return circuit.domains[variable].name or str(variable)
