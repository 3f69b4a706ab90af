"""Pictures of circuits: at most one screen, the branches that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bayescut.circuit.outline import MOST_LEAF_VARIABLES, Item, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayescut.circuit._model import Circuit

__all__ = ["draw"]

# A screen in inches, and the letters that fit into a box and onto an edge.
_SCREEN = 13.3
_BOX_LETTERS, _EDGE_LETTERS = 34, 26
# Letters of DejaVu Sans Mono, matplotlib's own, are all 0.602 em wide: no renderer is needed to
# know what overlaps.
_LETTER = 0.602 / 72
_FONT = "DejaVu Sans Mono"
_GAP = 4.0  # letters between an item and what follows


class _Theme(NamedTuple):
    paper: str
    ink: str
    line: str
    cut: str
    leaf: str
    other: str


# Text on its box has a contrast above 7 to 1 in both.
_THEMES = {
    "light": _Theme("#ffffff", "#1a1a1a", "#8a8a8a", "#dbe7f6", "#e3f0dd", "#f1eee6"),
    "dark": _Theme("#14171c", "#f0f0f0", "#8f98a3", "#27405f", "#2c4a31", "#3d3a33"),
}


class _Placed(NamedTuple):
    """An item in its place: column and row, both counted from the upper left corner."""

    item: Item
    level: int
    row: float
    parent: int


def _place(root: Item) -> list[_Placed]:
    """Give every item without children a row of its own, the others the middle of theirs."""
    placed: list[_Placed] = []
    n_rows = 0

    def visit(item: Item, level: int, parent: int) -> float:
        nonlocal n_rows
        here = len(placed)
        placed.append(_Placed(item, level, 0.0, parent))
        rows = [visit(child, level + 1, here) for child in item.children]
        if rows:
            row = 0.5 * (rows[0] + rows[-1])
        else:
            row = float(n_rows)
            n_rows += 1
        placed[here] = placed[here]._replace(row=row)
        return row

    visit(root, 0, -1)
    return placed


def _columns(placed: list[_Placed]) -> list[tuple[float, float]]:
    """Return, in letters, where the boxes of every level begin, and where they end at most."""
    columns: list[tuple[float, float]] = []
    x = 0.0
    for level in range(1 + max(p.level for p in placed)):
        items = [p.item for p in placed if p.level == level]
        edge = max(len(item.edge(_EDGE_LETTERS)) for item in items)
        x += edge + (_GAP if level else 0.0)
        width = max(len(item.name(_BOX_LETTERS)) for item in items)
        columns.append((x, x + width))
        x += width + _GAP
    return columns


def draw(
    circuit: Circuit,
    ax: Axes | None = None,
    *,
    max_rows: int = 24,
    max_leaf_variables: int = MOST_LEAF_VARIABLES,
    fontsize: float = 8.0,
    theme: str = "light",
) -> Axes:
    """Draw a circuit: the cuts that most rows meet, with the probabilities of their branches.

    The root stands on the left. Where there is no room for all of a circuit, its most probable
    branches are drawn, and the others are counted. Small leaves show their variables, each beside
    the one it depends on.

    Parameters
    ----------
    circuit : Circuit
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; a new figure of at most one screen by default.
    max_rows : int
        Most lines of the picture, at least 2.
    max_leaf_variables : int
        Leaves with more variables are drawn as one box.
    fontsize : float
        Size of all text.
    theme : {"light", "dark"}
        Colours for white or for dark paper.

    Returns
    -------
    matplotlib Axes
    """
    if theme not in _THEMES:
        raise ValueError(f"theme must be 'light' or 'dark', not {theme!r}")
    if max_rows < 2:
        raise ValueError(f"max_rows must be at least 2, got {max_rows!r}")
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Drawing needs matplotlib: pip install 'bayescut[plot]'.") from error
    letter = _LETTER * fontsize
    depth: int | None = None
    while True:
        root = summarise(circuit, max_rows, depth, leaf_variables=max_leaf_variables)
        placed = _place(root)
        columns = _columns(placed)
        depth = len(columns) - 2  # one level less
        if columns[-1][1] * letter <= _SCREEN or depth < 1:
            break
    colours = _THEMES[theme]
    n_rows = 1 + max(p.row for p in placed)
    if ax is None:
        # A line is twice as high as its letters, and a box has room around them.
        size = ((columns[-1][1] + 5) * letter, (n_rows + 1) * 2.6 * fontsize / 72)
        figure, ax = plt.subplots(figsize=(max(size[0], 2.0), max(size[1], 0.8)))
        figure.set_facecolor(colours.paper)
        figure.subplots_adjust(0, 0, 1, 1)
    ax.set_facecolor(colours.paper)
    text: dict[str, Any] = {"fontsize": fontsize, "family": _FONT, "color": colours.ink}
    for p in placed:
        x = columns[p.level][0]
        title = p.item.name(_BOX_LETTERS)
        if p.parent >= 0:
            upper = placed[p.parent]
            begin = columns[upper.level][0] + len(upper.item.name(_BOX_LETTERS)) + 1
            edge = p.item.edge(_EDGE_LETTERS)
            label_at = x - 1.5 - len(edge)
            turn = columns[upper.level][1] + 2
            ax.plot(
                [begin, turn, turn, label_at - 0.5 if edge else x - 0.5],
                [upper.row, upper.row, p.row, p.row],
                color=colours.line,
                linewidth=0.4 + 2.0 * min(p.item.reach, 1.0),
                solid_joinstyle="round",
                zorder=1,
            )
            if edge:
                ax.text(label_at, p.row, edge, ha="left", va="center", zorder=2, **text)
        fill = {"cut": colours.cut, "leaf": colours.leaf, "variable": colours.leaf}
        box = {
            "boxstyle": "round,pad=0.3",
            "facecolor": fill.get(p.item.kind, colours.other),
            "edgecolor": colours.line,
            "linewidth": 0.6,
        }
        ax.text(x, p.row, title, ha="left", va="center", bbox=box, zorder=3, **text)
    ax.set_xlim(-2, columns[-1][1] + 3)
    ax.set_ylim(n_rows, -1)
    ax.set_axis_off()
    return ax
