"""``bayescut show --depends``: which columns depend on which."""

from __future__ import annotations

from bayescut.cli._compiling import compiling
from bayescut.cli._models import LoadedModel
from bayescut.cli._report import save_figure
from bayescut.cli._tables import PIPE
from bayescut.cli._terminal import emit, emit_json, print_table

__all__ = ["show_dependence"]


def show_dependence(model: LoadedModel, path: str, lines: int, *, as_json: bool) -> None:
    """Print the strongest pairs, and draw them unless the path is ``-``."""
    from bayescut.circuit.dependence import mutual_information
    from bayescut.plots.depends import dependence_graph, dependence_map, strongest_pairs

    with compiling():
        information = mutual_information(model.circuit)
        strength = mutual_information(model.circuit, normalised=True)
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
        emit_json({"columns": names, "mutual_information": information.tolist()})
        return
    listed = [
        [names[i], names[j], f"{value:.3f}", f"{information[i, j]:.4f}"]
        for i, j, value in strongest_pairs(strength)[:lines]
    ]
    print_table(["column", "column", "strength", "nats"], listed, left=(0, 1))
    if path != PIPE:
        emit(f"\n{path}: drawing of what depends on what")
