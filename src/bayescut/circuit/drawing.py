"""Pictures of small circuits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayescut.circuit._kinds import DECISION, INDICATOR, JUNCTION, PRODUCT
from bayescut.circuit.inputs import INPUTS
from bayescut.exceptions import CircuitError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayescut.circuit._model import Circuit


class _Spot(NamedTuple):
    """Where something is drawn: its centre, its text and its kind."""

    x: float
    y: float
    text: str
    kind: int


class _Picture:
    """Lays out nodes from the root down, each subtree in its own columns."""

    def __init__(self, circuit: Circuit, names: list[str], leaf_variables: int) -> None:
        self.circuit, self.names, self.leaf_variables = circuit, names, leaf_variables
        self.spots: list[_Spot] = []
        self.lines: list[tuple[_Spot, _Spot, str]] = []
        self.column = 0.0
        self.drawn: dict[int, _Spot] = {}

    def node(self, node: int, level: int) -> _Spot:
        if node in self.drawn:
            return self.drawn[node]
        circuit = self.circuit
        kind = int(circuit.kind[node])
        if kind == JUNCTION:
            spot = self.leaf(node, level)
        elif circuit.child_ptr[node] == circuit.child_ptr[node + 1]:
            spot = self.place(self.column, level, self.input_text(node), kind)
            self.column += 1
        else:
            begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
            below = [self.node(int(c), level + 1) for c in circuit.child[begin:end]]
            text = {DECISION: "", PRODUCT: "×"}.get(kind, "+")
            if kind == DECISION:
                text = self.names[circuit.var[node]]
            spot = self.place(float(np.mean([s.x for s in below])), level, text, kind)
            for k, child in enumerate(below):
                label = ""
                if kind != PRODUCT:
                    label = f"{np.exp(circuit.log_weight[begin + k]):.2g}"
                if kind == DECISION:
                    label = f"{self.branch(begin + k, int(circuit.var[node]))}: {label}"
                self.lines.append((spot, child, label))
        self.drawn[node] = spot
        return spot

    def place(self, x: float, level: float, text: str, kind: int) -> _Spot:
        spot = _Spot(x, -level, text, kind)
        self.spots.append(spot)
        return spot

    def state(self, var: int, k: int) -> str:
        return str(self.circuit.domains[var].label(k))

    def input_text(self, node: int) -> str:
        circuit = self.circuit
        name = self.names[circuit.var[node]]
        return INPUTS[int(circuit.kind[node])].text(circuit, node, name)

    def branch(self, edge: int, var: int) -> str:
        """The states of a decision's edge."""
        circuit = self.circuit
        begin, end = circuit.branch_ptr[edge], circuit.branch_ptr[edge + 1]
        states = [self.state(var, s) for s in circuit.branch_state[begin:end].tolist()]
        if len(states) > 3:
            states = [*states[:2], f"+{len(states) - 2}"]
        return ", ".join(states)

    def leaf(self, node: int, level: int) -> _Spot:
        """Draw a junction leaf as the tree of its families, or as one box if it is large."""
        circuit = self.circuit
        first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
        if last - first > self.leaf_variables:
            spot = self.place(self.column, level, f"{last - first}\nvariables", JUNCTION)
            self.column += 1
            return spot
        hosted: dict[int, list[int]] = {f: [] for f in range(-1, last)}
        for f in range(first, last):
            hosted[int(circuit.fam_host[f])].append(f)
        spots: dict[int, _Spot] = {}

        def family(f: int, depth: float) -> None:
            start = self.column
            for g in hosted[f]:
                family(g, depth + 0.6)
            x = self.column if not hosted[f] else float(np.mean([spots[g].x for g in hosted[f]]))
            self.column = max(self.column, start + 0.7)
            spots[f] = self.place(x, depth, self.names[circuit.fam_var[f]], JUNCTION)

        for f in hosted[-1]:
            family(f, level)
        for f in range(first, last):
            begin, end = circuit.fam_parent_ptr[f], circuit.fam_parent_ptr[f + 1]
            position = {int(circuit.fam_var[g]): spots[g] for g in spots}
            for p in circuit.fam_parent[begin:end].tolist():
                self.lines.append((position[p], spots[f], ""))
        self.column += 0.5
        return spots[hosted[-1][0]]


def draw(
    circuit: Circuit,
    ax: Axes | None = None,
    *,
    max_nodes: int = 60,
    max_leaf_variables: int = 12,
    fontsize: float = 8.0,
) -> Axes:
    """Draw a small circuit: the cutset tree with its branch probabilities, and the leaf trees.

    Decisions are circles with the name of their variable, their edges carry state and probability.
    A junction leaf is drawn as the graph of its families.

    Parameters
    ----------
    circuit : Circuit
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    max_nodes : int
        Larger circuits are refused, they would not be readable.
    max_leaf_variables : int
        Leaves with more variables are drawn as one box.
    fontsize : float
        Size of all text.

    Returns
    -------
    matplotlib Axes
    """
    if circuit.n_nodes > max_nodes:
        raise CircuitError(
            f"The circuit has {circuit.n_nodes} nodes; more than max_nodes={max_nodes} "
            "would not be readable."
        )
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Drawing needs matplotlib: pip install 'bayescut[plot]'.") from error
    names = circuit.domains.names or [f"x{v}" for v in range(len(circuit.domains))]
    picture = _Picture(circuit, names, max_leaf_variables)
    picture.node(circuit.root, 0)
    height = 1 + max(-spot.y for spot in picture.spots)
    if ax is None:
        _, ax = plt.subplots(figsize=(max(3.0, 0.8 * picture.column), max(2.0, 0.9 * height)))
    for upper, lower, label in picture.lines:
        ax.plot([upper.x, lower.x], [upper.y, lower.y], color="0.6", linewidth=0.8, zorder=1)
        if label:
            middle = (0.5 * (upper.x + lower.x), 0.5 * (upper.y + lower.y))
            ax.annotate(label, middle, ha="center", va="center", fontsize=fontsize - 1,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # fmt: skip
    for spot in picture.spots:
        is_leaf = spot.kind >= INDICATOR
        box: dict[str, Any] = {
            "boxstyle": "round,pad=0.25" if is_leaf else "circle,pad=0.25",
            "facecolor": "#e8f1e4" if is_leaf else "#dfe8f5",
            "edgecolor": "0.4",
            "linewidth": 0.7,
        }
        ax.text(spot.x, spot.y, spot.text, ha="center", va="center", fontsize=fontsize, bbox=box,
                zorder=3)  # fmt: skip
    xs, ys = [s.x for s in picture.spots], [s.y for s in picture.spots]
    ax.set_xlim(min(xs) - 0.7, max(xs) + 0.7)
    ax.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
    ax.set_axis_off()
    return ax
