"""Pictures of what depends on what: a heat map and a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["dependence_graph", "dependence_map", "strongest_pairs"]

# Names of more columns than this cannot be read.
_MOST_NAMES = 60
# Grey with a contrast above 4.5 to white and to black alike.
_TEXT = "#767676"
_LINE = "#d65414"


def strongest_pairs(strength: ArrayLike, least: float = 0.0) -> list[tuple[int, int, float]]:
    """List pairs of columns, the strongest first.

    Parameters
    ----------
    strength : array-like of shape (m, m)
        A symmetric matrix of dependence; the diagonal is not looked at.
    least : float
        Pairs of less are left out.

    Returns
    -------
    list of (i, j, strength), i < j

    Examples
    --------
    >>> from bayescut.plots.depends import strongest_pairs
    >>> strongest_pairs([[1, 0.2, 0.5], [0.2, 1, 0], [0.5, 0, 1]], least=0.1)
    [(0, 2, 0.5), (0, 1, 0.2)]
    """
    matrix = _square(strength)
    i, j = np.triu_indices(len(matrix), 1)
    values = matrix[i, j]
    order = np.argsort(-values, kind="stable")
    return [(int(i[k]), int(j[k]), float(values[k])) for k in order if values[k] >= least]


def _square(strength: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(strength, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a matrix of pairs is square, this one has the shape {matrix.shape}")
    return matrix


def _names(strength: Any, names: Sequence[Any] | None) -> list[str]:
    m = len(strength)
    if names is None:
        names = list(getattr(strength, "columns", range(m)))
    if len(names) != m:
        raise ValueError(f"{len(names)} names for the {m} columns of a matrix of pairs")
    return [str(name) for name in names]


def _axes(axes: Any, size: float) -> Any:
    if axes is not None:
        return axes
    from matplotlib.figure import Figure

    return Figure(figsize=(size, size), layout="constrained").subplots()


def dependence_map(
    strength: ArrayLike,
    names: Sequence[str] | None = None,
    axes: Axes | None = None,
    *,
    label: str = "strength",
) -> Axes:
    """Draw a matrix of dependence as a heat map, columns that depend on each other side by side.

    Parameters
    ----------
    strength : array-like or DataFrame of shape (m, m)
        What `mutual_information` of a fitted model returns; the diagonal is left blank.
    names : sequence of str, optional
        Of the columns; by default those of the DataFrame, or positions.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own by default.
    label : str
        What the colours mean.

    Returns
    -------
    matplotlib.axes.Axes
    """
    matrix, names = _square(strength), _names(strength, names)
    order = _near_order(matrix)
    shown = matrix[np.ix_(order, order)].copy()
    np.fill_diagonal(shown, np.nan)
    axes = _axes(axes, min(3.0 + 0.22 * len(matrix), 16.0))
    largest = float(np.nanmax(shown)) if len(shown) > 1 else 1.0
    image = axes.imshow(shown, cmap="cividis", vmin=0.0, vmax=max(largest, 1e-9))
    places = range(len(order)) if len(order) <= _MOST_NAMES else []
    axes.set_xticks(places, [names[order[k]] for k in places], rotation=90, color=_TEXT)
    axes.set_yticks(places, [names[order[k]] for k in places], color=_TEXT)
    axes.figure.colorbar(image, ax=axes, shrink=0.7, label=label)
    return axes


def _near_order(matrix: NDArray[np.float64]) -> list[int]:
    """Columns in the order in which the strongest forest is walked: neighbours stand together."""
    children, roots = _forest(matrix)
    order: list[int] = []
    waiting = roots[::-1]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(children[node]))
    return order


def _forest(matrix: NDArray[np.float64]) -> tuple[list[list[int]], list[int]]:
    """Strongest spanning tree, from the column with the largest sum; children strongest last."""
    m = len(matrix)
    off = matrix - np.diag(np.diag(matrix))
    start = int(off.sum(axis=1).argmax())
    children: list[list[int]] = [[] for _ in range(m)]
    best, parent = off[start].copy(), np.full(m, start)
    inside = np.zeros(m, dtype=bool)
    inside[start] = True
    for _ in range(m - 1):
        node = int(np.where(inside, -np.inf, best).argmax())
        children[parent[node]].append(node)
        inside[node] = True
        closer = off[node] > best
        best[closer], parent[closer] = off[node][closer], node
    return children, [start]


def dependence_graph(
    strength: ArrayLike,
    names: Sequence[str] | None = None,
    axes: Axes | None = None,
    *,
    n_edges: int | None = None,
) -> Axes:
    """Draw the strongest pairs of columns as a graph on a circle.

    Parameters
    ----------
    strength : array-like or DataFrame of shape (m, m)
        What `mutual_information` of a fitted model returns.
    names : sequence of str, optional
        Of the columns; by default those of the DataFrame, or positions.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a figure of its own by default.
    n_edges : int, optional
        Pairs to draw, by default twice as many as columns.

    Returns
    -------
    matplotlib.axes.Axes
    """
    matrix, names = _square(strength), _names(strength, names)
    m = len(matrix)
    pairs = strongest_pairs(matrix, least=1e-6)[: 2 * m if n_edges is None else n_edges]
    place = np.empty(m, dtype=np.int64)
    place[_near_order(matrix)] = np.arange(m)
    angle = 2 * np.pi * place / max(m, 1)
    x, y = np.cos(angle), np.sin(angle)
    axes = _axes(axes, min(4.0 + 0.1 * m, 14.0))
    largest = max((value for _, _, value in pairs), default=1.0)
    for i, j, value in reversed(pairs):
        share = value / largest
        axes.plot(
            x[[i, j]], y[[i, j]], color=_LINE, linewidth=0.5 + 4 * share, alpha=0.2 + 0.8 * share
        )
    axes.scatter(x, y, s=30, color=_TEXT, zorder=3)
    for k in range(m if m <= _MOST_NAMES else 0):
        left = x[k] < 0
        axes.text(
            1.06 * x[k],
            1.06 * y[k],
            names[k],
            color=_TEXT,
            rotation=np.degrees(angle[k]) + (180 if left else 0),
            rotation_mode="anchor",
            ha="right" if left else "left",
            va="center",
        )
    axes.set_aspect("equal")
    axes.set_xlim(-1.6, 1.6)
    axes.set_ylim(-1.6, 1.6)
    axes.axis("off")
    return axes
