"""The Pareto figure: log-likelihood against learning time, one small panel for each data set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from _published import COUNTERPARTS, DATASET_TITLES, MARK, compare
from bayescut.bench import Result, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "front", "pareto_points", "plot_pareto"]


@dataclass(frozen=True)
class Point:
    """A learner in one panel.

    Parameters
    ----------
    learner : str
        Its title.
    seconds : float
        Learning time.
    log_likelihood : float
        Mean test log-likelihood.
    published : bool
        Whether the numbers are from the literature.
    """

    learner: str
    seconds: float
    log_likelihood: float
    published: bool = False


@dataclass(frozen=True)
class _Theme:
    paper: str
    ink: str
    faint: str
    front: str
    colours: tuple[str, ...]


# Colour-blind safe (Okabe and Ito, lightened for dark paper); black is ink here.
_THEMES = {
    "light": _Theme(
        "#ffffff",
        "#1a1a1a",
        "#dcdcdc",
        "#555555",
        ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3c8d", "#80604d"),
    ),
    "dark": _Theme(
        "#14171c",
        "#e8e8e8",
        "#343a42",
        "#a8b0ba",
        ("#4aa8e8", "#ff8a3d", "#2fce9f", "#e89cc8", "#f0c945", "#9bd8ff", "#c58be0", "#c9a58c"),
    ),
}
_MARKERS = "osD^vPX<>hp*"
# A triangle with a stem, which no learner has: "further down".
_ARROW = "$\\downarrow$"
_DASHES = (0, (4, 2.5))


def front(points: Sequence[Point]) -> list[Point]:
    r"""Return the Pareto front: points that no other beats in both time and log-likelihood.

    .. math:: \{p : \nexists q: t_q \le t_p,\ \ell_q \ge \ell_p,\ (t_q, \ell_q) \ne (t_p, \ell_p)\}

    Parameters
    ----------
    points : sequence of Point

    Returns
    -------
    list of Point
        From the fastest to the best.
    """
    members: list[Point] = []
    for point in sorted(points, key=lambda p: (p.seconds, -p.log_likelihood)):
        if not members or point.log_likelihood > members[-1].log_likelihood:
            members.append(point)
        elif (point.seconds, point.log_likelihood) == (
            members[-1].seconds,
            members[-1].log_likelihood,
        ):
            members.append(point)
    return members


def pareto_points(
    results: Iterable[Result],
    *,
    protocol: str | None = None,
    datasets: Iterable[str] | None = None,
    learners: Sequence[str] | None = None,
) -> dict[str, list[Point]]:
    """Return the points of each data set: our results, and the published ones.

    Learners without a finite log-likelihood or without a time are left out. The parameters are
    those of `_published.compare`.
    """
    found = list(results)
    names = None if datasets is None else list(datasets)
    value = compare(found, protocol=protocol, datasets=names, learners=learners)
    time = compare(found, "time", protocol=protocol, datasets=names, learners=learners)
    return {dataset: _points(value, time, dataset) for dataset in value.datasets}


def _points(value: Table, time: Table, dataset: str) -> list[Point]:
    seconds = {column.title: column.cells[dataset].value for column in time.columns}
    # A published learner goes by the name of ours where both are there: one colour, one marker.
    ours = {column.title for column in value.columns if column.learner is not None}
    names = {theirs: name for name, theirs in COUNTERPARTS.items() if name in ours}
    points = []
    for column in value.columns:
        y, x = column.cells[dataset].value, seconds.get(column.title)
        if y is not None and x is not None and x > 0 and math.isfinite(y):
            plain = column.title.removesuffix(MARK)
            name = plain if column.learner is not None else names.get(plain, plain)
            points.append(Point(name, x, y, column.learner is None))
    return points


def plot_pareto(
    points: dict[str, list[Point]],
    *,
    n_columns: int | None = None,
    theme: str = "light",
    panel_size: tuple[float, float] = (2.5, 2.05),
) -> Figure:
    """Draw log-likelihood against learning time, one panel for each data set.

    The dashed line is the best log-likelihood that any learner reaches within a time. Learners on
    the Pareto front stand in a halo. Our results are filled markers, published ones hollow. A
    learner far below the others is drawn as an arrow at the foot of its panel, with its value.

    Parameters
    ----------
    points : dict from data set to list of Point
        As `pareto_points` returns them.
    n_columns : int, optional
        Panels in a row, by default up to five.
    theme : {"light", "dark"}
        Colours for white or for dark paper.
    panel_size : pair of float
        Width and height of a panel in inches.

    Returns
    -------
    matplotlib.figure.Figure
        Not shown; save it with ``figure.savefig``.
    """
    from matplotlib.figure import Figure

    if theme not in _THEMES:
        raise ValueError(f"theme must be 'light' or 'dark', not {theme!r}")
    if not any(points.values()):
        raise ValueError("there is nothing to draw: no learner has both a value and a time")
    colours = _THEMES[theme]
    names = list(points)
    across = min(n_columns or 5, len(names))
    down = math.ceil(len(names) / across)
    style = _styles(points, colours)
    width = max(panel_size[0] * across, 5.0)
    columns = int(width / 1.35)
    height = panel_size[1] * down + 0.2 * math.ceil((len(style) + 3) / columns) + 0.4
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=colours.paper)
    axes = figure.subplots(down, across, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        _panel(axis, DATASET_TITLES.get(name, name), points[name], style, colours)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("learning time in seconds", color=colours.ink, fontsize=9)
    figure.supylabel("mean test log-likelihood in nats", color=colours.ink, fontsize=9)
    _legend(figure, points, style, colours, columns)
    return figure


_Style = dict[str, tuple[str, str]]


def _styles(points: dict[str, list[Point]], theme: _Theme) -> _Style:
    """A colour and a marker for each learner, the same for ours and the published one."""
    every = dict.fromkeys(point.learner for panel in points.values() for point in panel)
    return {
        learner: (theme.colours[i % len(theme.colours)], _MARKERS[i % len(_MARKERS)])
        for i, learner in enumerate(every)
    }


def _panel(axis: Axes, title: str, points: list[Point], style: _Style, theme: _Theme) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axis.set_facecolor(theme.paper)
    axis.set_xscale("log")
    axis.set_title(title, fontsize=9, color=theme.ink, pad=4)
    axis.grid(True, color=theme.faint, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(colors=theme.ink, labelsize=7, length=2, pad=2)
    axis.tick_params(which="minor", length=0)
    for spine in axis.spines.values():
        spine.set_color(theme.faint)
    if not points:
        return
    members = front(points)
    values = [point.log_likelihood for point in points]
    floor = _floor(values)
    far = [point for point in points if point.log_likelihood < floor]
    x = np.log10([point.seconds for point in points])
    room = max(0.08 * (x.max() - x.min()) + 0.12, 0.6 - (x.max() - x.min()) / 2)
    left, right = 10 ** (x.min() - room), 10 ** (x.max() + room)
    levels = _levels(far, left, right)
    span = max(max(values) - floor, 1e-3 * abs(max(values)))
    step = 0.11 * span
    low = floor - (0.12 * span + step * (1 + max(levels)) if far else 0.12 * span)
    axis.set_xlim(left, right)
    axis.set_ylim(low, max(values) + 0.14 * span)
    axis.xaxis.set_major_locator(LogLocator(numticks=6))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_locator(MaxNLocator(4))
    # A staircase: what can be reached within a time does not grow until the next learner is done.
    steps_x = [point.seconds for point in members] + [right]
    steps_y = [point.log_likelihood for point in members]
    axis.step(
        steps_x,
        [*steps_y, steps_y[-1]],
        where="post",
        linestyle=_DASHES,
        linewidth=1.0,
        color=theme.front,
        zorder=2,
    )
    for point in points:
        if point not in far:
            _draw(axis, point, style[point.learner], theme, point in members)
    for point, level in zip(far, levels, strict=True):
        _draw_below(axis, point, style[point.learner], theme, low + step * (level + 0.8))


def _floor(values: Sequence[float]) -> float:
    """The lowest value of a panel that is not absurdly far below the best."""
    best = max(values)
    # Three times the median distance from the best: of the twenty published panels this moves
    # four learners to the foot of one, and two or fewer in the others.
    typical = float(np.median([best - value for value in values])) or abs(best) * 0.01
    return min(value for value in values if best - value <= 3.0 * typical)


def _right_half(point: Point, left: float, right: float) -> bool:
    return point.seconds > math.sqrt(left * right)


def _levels(points: Sequence[Point], left: float, right: float) -> list[int]:
    """Heights for labels at the foot of a panel such that no two overlap."""
    taken: list[list[tuple[float, float]]] = []
    levels = []
    for point in points:
        place = math.log(point.seconds / left) / math.log(right / left)
        # A label takes about three tenths of a panel, beside its marker towards the middle.
        begin = place - 0.32 if _right_half(point, left, right) else place - 0.05
        end = begin + 0.37
        level = 0
        while level < len(taken) and any(begin < e and b < end for b, e in taken[level]):
            level += 1
        if level == len(taken):
            taken.append([])
        taken[level].append((begin, end))
        levels.append(level)
    return levels


def _draw(axis: Axes, point: Point, style: tuple[str, str], theme: _Theme, on_front: bool) -> None:
    colour, marker = style
    place = (point.seconds, point.log_likelihood)
    if on_front:
        axis.plot(*place, marker="o", ms=13, mfc=colour, mec="none", alpha=0.25, ls="", zorder=3)
    axis.plot(
        *place,
        marker=marker,
        ms=6.5 if on_front else 5,
        mfc=theme.paper if point.published else colour,
        mec=colour,
        mew=1.2,
        ls="",
        zorder=5 if on_front else 4,
    )


def _draw_below(
    axis: Axes, point: Point, style: tuple[str, str], theme: _Theme, height: float
) -> None:
    """Draw an arrow and the value of a learner that lies below the panel."""
    colour = style[0]
    face = theme.paper if point.published else colour
    axis.plot(point.seconds, height, marker=_ARROW, ms=5, mfc=face, mec=colour, ls="", zorder=4)
    right = _right_half(point, *axis.get_xlim())
    axis.annotate(
        _number(point.log_likelihood),
        (point.seconds, height),
        xytext=(-5 if right else 5, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=6.5,
        color=colour,
        zorder=4,
    )


def _number(value: float) -> str:
    return f"{value:.{1 if abs(value) >= 100 else 2}f}".replace("-", "−")


def _legend(
    figure: Figure, points: dict[str, list[Point]], style: _Style, theme: _Theme, columns: int
) -> None:
    from matplotlib.lines import Line2D

    ours = {p.learner for panel in points.values() for p in panel if not p.published}

    def marker(colour: str, shape: str, face: str, label: str, **more: Any) -> Line2D:
        options = {"ms": 6, "mew": 1.2, "mec": colour, **more}
        return Line2D([], [], marker=shape, ls="", mfc=face, label=label, **options)

    handles = [
        marker(colour, shape, colour if learner in ours else theme.paper, learner)
        for learner, (colour, shape) in style.items()
    ]
    if any(p.published for panel in points.values() for p in panel):
        handles.append(marker(theme.ink, "o", theme.paper, "hollow: published"))
    handles.append(Line2D([], [], color=theme.front, lw=1.0, ls=_DASHES, label="Pareto front"))
    halo = {"alpha": 0.25, "ms": 11, "mec": "none"}
    handles.append(marker(theme.ink, "o", theme.ink, "on the front", **halo))
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=min(columns, len(handles)),
        fontsize=8,
        frameon=False,
        labelcolor=theme.ink,
        handletextpad=0.4,
        columnspacing=1.2,
    )
