"""Rows that are pictures: grids of samples and of completed images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "Palette", "Panel", "grid_pixels", "image_grid", "image_panels"]

# Screen dots between two images and for a pixel of an image, before matplotlib scales them.
_GAP = 2
_ZOOM = 4
# Width of a grid at least, so that four fill a page, and room for a title and for its letters.
_PANEL_INCHES = 2.6
_TITLE_INCHES = 0.36
_LETTER_INCHES = 0.085


class Palette(NamedTuple):
    """Colours of a grid, as (red, green, blue) from 0 to 255.

    Attributes
    ----------
    paper, ink : tuple of int
        The first and the last state of a pixel; states between them are mixed.
    drawn : tuple of int
        The last state of a pixel that a model filled in.
    unobserved : tuple of int
        A missing pixel.
    text : tuple of int
        Titles.
    """

    paper: tuple[int, int, int]
    ink: tuple[int, int, int]
    drawn: tuple[int, int, int]
    unobserved: tuple[int, int, int]
    text: tuple[int, int, int]


# Light to dark in this order: paper, unobserved, drawn, ink; so they can be told apart without
# colour vision and in black and white. The grey of the titles has a contrast above 4.5 to white
# and to black alike, as figures are transparent around the images.
PALETTE = Palette(
    paper=(231, 236, 242),
    ink=(20, 42, 80),
    drawn=(214, 84, 20),
    unobserved=(246, 199, 96),
    text=(118, 118, 118),
)


@dataclass(frozen=True, eq=False)
class Panel:
    """A titled grid of images.

    Attributes
    ----------
    title : str
        Written above the grid.
    rows : array-like of shape (n, height * width)
        One image per row, NaN where a pixel is not observed.
    drawn : array-like of bool, optional
        Pixels that a model filled in; of the shape of ``rows`` or of one row.
    """

    title: str
    rows: ArrayLike
    drawn: ArrayLike | None = None


def grid_pixels(
    rows: ArrayLike,
    shape: tuple[int, int],
    *,
    n_columns: int | None = None,
    drawn: ArrayLike | None = None,
    n_states: int | None = None,
    palette: Palette = PALETTE,
) -> NDArray[np.uint8]:
    r"""Lay out images in a grid, as one picture of red, green, blue and opacity.

    State x of K is the mixture of paper and ink in proportion :math:`x / (K - 1)`. Images are
    opaque, the gaps between them are transparent.

    Parameters
    ----------
    rows : array-like of shape (n, height * width)
        One image per row, line by line; NaN where a pixel is not observed.
    shape : (int, int)
        Height and width of an image.
    n_columns : int, optional
        Images side by side; when left out, the grid is about square.
    drawn : array-like of bool, optional
        Pixels that a model filled in, which get an ink of their own; of the shape of ``rows`` or
        of one row.
    n_states : int, optional
        Number of states K of a pixel; when left out, what ``rows`` show, two at least.
    palette : Palette
        The colours.

    Returns
    -------
    uint8 array of shape (H, W, 4)

    Examples
    --------
    >>> from bayescut.plots import PALETTE, grid_pixels
    >>> picture = grid_pixels([[0, 1, float("nan"), 0]], (2, 2))
    >>> picture.shape
    (8, 8, 4)
    >>> tuple(picture[0, 7, :3].tolist()) == PALETTE.ink
    True
    >>> tuple(picture[7, 0, :3].tolist()) == PALETTE.unobserved
    True
    """
    images, marks = _images(rows, shape, drawn)
    n, height, width = images.shape
    missing = np.isnan(images)
    states = int(np.max(images, where=~missing, initial=1)) + 1 if n_states is None else n_states
    if states < 2:
        raise ValueError(f"n_states must be at least 2, got {n_states}")
    values = np.where(missing, 0.0, images)
    if values.min() < 0 or values.max() > states - 1:
        raise ValueError(
            f"rows must hold states from 0 to {states - 1} (NaN: not observed), "
            f"found {values.min():g} to {values.max():g}"
        )
    across = _across(n, n_columns)
    down = math.ceil(n / across)

    colours = {name: np.array(colour, dtype=float) for name, colour in palette._asdict().items()}
    share = (values / (states - 1))[..., None]
    ink = np.where(marks[..., None], colours["drawn"], colours["ink"])
    shades = (1 - share) * colours["paper"] + share * ink
    shades = np.where(missing[..., None], colours["unobserved"], shades)
    tiles = np.full((down * across, height * _ZOOM + _GAP, width * _ZOOM + _GAP, 4), 0, np.uint8)
    zoomed = shades.round().astype(np.uint8).repeat(_ZOOM, axis=1).repeat(_ZOOM, axis=2)
    tiles[:n, :-_GAP, :-_GAP, :3] = zoomed
    tiles[:n, :-_GAP, :-_GAP, 3] = 255
    grid = tiles.reshape(down, across, *tiles.shape[1:]).swapaxes(1, 2)
    joined = grid.reshape(down * tiles.shape[1], across * tiles.shape[2], 4)
    return np.ascontiguousarray(joined[:-_GAP, :-_GAP])


def image_grid(
    rows: ArrayLike,
    shape: tuple[int, int],
    *,
    n_columns: int | None = None,
    drawn: ArrayLike | None = None,
    n_states: int | None = None,
    palette: Palette = PALETTE,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows as a grid of images.

    Parameters
    ----------
    rows, shape, n_columns, drawn, n_states, palette
        See `grid_pixels`.
    title : str, optional
        Written above the grid.
    ax : matplotlib Axes, optional
        Where to draw; a figure of its own, with a transparent background, when left out. Figures
        made here are not known to pyplot: save them with ``ax.figure.savefig(path)``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from bayescut.datasets import load_binary_digits
    >>> from bayescut.plots import image_grid
    >>> ax = image_grid(load_binary_digits().test[:12], (8, 8), title="digits")
    >>> ax.figure.savefig("digits.png")  # doctest: +SKIP
    """
    picture = grid_pixels(
        rows, shape, n_columns=n_columns, drawn=drawn, n_states=n_states, palette=palette
    )
    if ax is None:
        height, width, _ = picture.shape
        scale = max(1 / 80, _PANEL_INCHES / width)
        figure = _figure((width * scale, height * scale + (_TITLE_INCHES if title else 0)))
        ax = figure.add_subplot()
    _draw(ax, picture, title, palette)
    return ax


def image_panels(
    panels: Sequence[Panel],
    shape: tuple[int, int],
    *,
    n_columns: int | None = None,
    across: int = 4,
    n_states: int | None = None,
    palette: Palette = PALETTE,
) -> Figure:
    """Draw several titled grids side by side.

    Parameters
    ----------
    panels : sequence of Panel
        The grids; they look best with equally many rows.
    shape : (int, int)
        Height and width of an image.
    n_columns : int, optional
        Images side by side in a grid.
    across : int
        Grids side by side.
    n_states, palette
        See `grid_pixels`.

    Returns
    -------
    matplotlib Figure
        With a transparent background; ``figure.savefig(path)`` writes it.

    Examples
    --------
    >>> import bayescut as bc
    >>> from bayescut.datasets import load_binary_digits
    >>> from bayescut.plots import Panel, image_panels
    >>> digits = load_binary_digits()
    >>> model = bc.CNetBD().fit(digits.train)
    >>> panels = [Panel("real", digits.test[:25]), Panel("drawn", model.sample(25))]
    >>> image_panels(panels, (8, 8)).savefig("samples.png")  # doctest: +SKIP
    """
    if not panels:
        raise ValueError("panels must hold at least one Panel")
    pictures = [
        grid_pixels(
            panel.rows,
            shape,
            n_columns=n_columns,
            drawn=panel.drawn,
            n_states=n_states,
            palette=palette,
        )
        for panel in panels
    ]
    across = min(across, len(panels))
    down = math.ceil(len(panels) / across)
    # All images get the same size, whatever the shapes of the grids.
    heights = [
        max(p.shape[0] for p in pictures[i : i + across]) for i in range(0, len(pictures), across)
    ]
    widths = [max(p.shape[1] for p in pictures[j::across]) for j in range(across)]
    # Titles side by side must not run into each other.
    letters = max(len(panel.title) for panel in panels)
    scale = max(_PANEL_INCHES, 6.0 / across, _LETTER_INCHES * letters) / max(widths)
    size = (sum(widths) * scale + 0.1 * across, sum(heights) * scale + _TITLE_INCHES * down)
    figure = _figure(size)
    ratios = {"height_ratios": heights, "width_ratios": widths}
    axes = figure.subplots(down, across, squeeze=False, gridspec_kw=ratios).ravel()
    for ax in axes:
        ax.set_axis_off()
    for ax, panel, picture in zip(axes, panels, pictures, strict=False):
        _draw(ax, picture, panel.title, palette)
    return figure


def _images(
    rows: ArrayLike, shape: tuple[int, int], drawn: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return images and marks of shape (n, height, width)."""
    height, width = shape
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != height * width:
        raise ValueError(
            f"rows of {height} x {width} pixels must have shape (n, {height * width}), "
            f"got {table.shape}"
        )
    if len(table) == 0:
        raise ValueError("rows must hold at least one image")
    marks = np.zeros(table.shape, dtype=bool) if drawn is None else np.asarray(drawn, dtype=bool)
    try:
        marks = np.broadcast_to(marks, table.shape)
    except ValueError:
        raise ValueError(
            f"drawn must have the shape of rows, {table.shape}, or of one row, got {marks.shape}"
        ) from None
    return table.reshape(-1, height, width), marks.reshape(-1, height, width)


def _across(n: int, n_columns: int | None) -> int:
    if n_columns is None:
        return math.ceil(math.sqrt(n))
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1, got {n_columns}")
    return n_columns


def _figure(size: tuple[float, float]) -> Figure:
    """Make a figure without pyplot, so that nothing global changes and no window is opened."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib: pip install 'bayescut[plot]' (or matplotlib alone)"
        ) from error
    return Figure(figsize=size, dpi=160, facecolor="none", layout="constrained")


def _draw(ax: Any, picture: NDArray[np.uint8], title: str | None, palette: Palette) -> None:
    ax.set_axis_off()
    ax.imshow(picture, interpolation="nearest")
    ax.set_anchor("NW")
    if title:
        colour = [c / 255 for c in palette.text]
        ax.set_title(title, fontsize=11, color=colour, loc="left")
