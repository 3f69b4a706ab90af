import subprocess
import sys

import numpy as np
import pytest

from bayescut.plots import PALETTE, Palette, Panel, grid_pixels, image_grid, image_panels

NAN = float("nan")


def colour(picture, row, column):
    return tuple(picture[row, column, :3].tolist())


def contrast(first, second):
    """Contrast ratio of two colours as the web accessibility guidelines define it."""

    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    dark, light = sorted(luminance(np.array(c) / 255) for c in (first, second))
    return (light + 0.05) / (dark + 0.05)


def test_pixels_are_where_the_rows_say():
    picture = grid_pixels([[0, 1, 1, 0, NAN, 1], [1, 1, 1, 1, 1, 1]], (2, 3), n_columns=2)
    zoom = (picture.shape[0]) // 2
    assert picture.shape[0] == 2 * zoom
    expected = [["paper", "ink", "ink"], ["paper", "unobserved", "ink"]]
    for y in range(2):
        for x in range(3):
            found = colour(picture, y * zoom + 1, x * zoom + 1)
            assert found == getattr(PALETTE, expected[y][x])
    second = picture[:, -3 * zoom :]
    assert (second == np.array([*PALETTE.ink, 255])).all()


def test_gaps_and_empty_places_are_transparent():
    picture = grid_pixels(np.zeros((3, 4)), (2, 2), n_columns=2)
    opaque = picture[..., 3] == 255
    side = (opaque[0] == 0).argmax()
    assert opaque[:side, :side].all()
    assert not opaque[side].any() and not opaque[:, side].any()
    assert not opaque[-side:, -side:].any()  # the fourth place of a grid of three


def test_drawn_pixels_have_their_own_ink():
    picture = grid_pixels([[1, 1]], (1, 2), drawn=[False, True])
    assert colour(picture, 0, 0) == PALETTE.ink
    assert colour(picture, 0, -1) == PALETTE.drawn
    blank = grid_pixels([[0, 0]], (1, 2), drawn=[[True, True]])
    assert colour(blank, 0, 0) == PALETTE.paper


def test_states_between_are_mixed():
    palette = Palette((0, 0, 0), (200, 100, 40), (1, 1, 1), (2, 2, 2), (3, 3, 3))
    picture = grid_pixels([[0, 1, 2, 4]], (1, 4), palette=palette)
    assert colour(picture, 0, 4) == (50, 25, 10)
    assert colour(picture, 0, 8) == (100, 50, 20)
    assert colour(grid_pixels([[1]], (1, 1), n_states=3, palette=palette), 0, 0) == (100, 50, 20)


def test_grid_is_about_square():
    one = grid_pixels(np.zeros((1, 4)), (2, 2)).shape[0]
    many = grid_pixels(np.zeros((10, 4)), (2, 2))
    assert many.shape[1] > 3 * one and many.shape[0] < 4 * one


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[0, 1, 0]], {}, r"must have shape \(n, 4\), got \(1, 3\)"),
        ([0, 1, 0, 1], {}, r"must have shape \(n, 4\), got \(4,\)"),
        (np.zeros((0, 4)), {}, "at least one image"),
        ([[0, 1, 0, -1]], {}, "states from 0 to 1"),
        ([[0, 1, 0, 2]], {"n_states": 2}, "found 0 to 2"),
        ([[0, 1, 0, 1]], {"n_states": 1}, "n_states must be at least 2, got 1"),
        ([[0, 1, 0, 1]], {"n_columns": 0}, "n_columns must be at least 1, got 0"),
        ([[0, 1, 0, 1]], {"drawn": [True, False]}, "drawn must have the shape of rows"),
    ],
)
def test_bad_input(rows, options, message):
    with pytest.raises(ValueError, match=message):
        grid_pixels(rows, (2, 2), **options)


def test_all_pixels_unobserved():
    picture = grid_pixels([[NAN, NAN]], (1, 2))
    assert (picture[..., :3] == PALETTE.unobserved).all()


def test_colours_can_be_told_apart():
    for first, second in (("paper", "ink"), ("paper", "drawn"), ("unobserved", "ink")):
        assert contrast(getattr(PALETTE, first), getattr(PALETTE, second)) > 3
    # By lightness alone, for those who see no colours.
    shades = [contrast((0, 0, 0), c) for c in PALETTE[:4]]
    assert sorted(shades, reverse=True) == [shades[i] for i in (0, 3, 2, 1)]
    for page in ((255, 255, 255), (0, 0, 0)):
        assert contrast(PALETTE.text, page) > 4.5


def test_image_grid_draws_into_given_axes():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert image_grid([[0, 1, 1, 0]], (2, 2), ax=ax, title="one") is ax
    assert ax.get_title(loc="left") == "one"
    assert ax.images[0].get_array().shape == (8, 8, 4)


def test_image_grid_makes_a_transparent_figure(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    ax = image_grid(np.ones((4, 4)), (2, 2))
    ax.figure.savefig(tmp_path / "grid.png")
    picture = image.imread(tmp_path / "grid.png")
    assert picture[0, 0, 3] == 0
    assert (picture[..., 3] == 1).mean() > 0.5


def test_image_panels_keep_one_scale(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    panels = [Panel("few", np.ones((3, 4))), Panel("many", np.ones((9, 4)), np.ones(4))]
    figure = image_panels(panels, (2, 2), n_columns=3, across=1)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["few", "many"]
    figure.savefig(tmp_path / "panels.png")
    picture = (image.imread(tmp_path / "panels.png")[..., :3] * 255).round()
    few = (picture == PALETTE.ink).all(axis=2).sum()
    many = (picture == PALETTE.drawn).all(axis=2).sum()
    assert many == pytest.approx(3 * few, rel=0.1)


def test_long_titles_do_not_meet():
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    title = "CutsetEnsemble: most probable completion"
    figure = image_panels([Panel(title, np.ones((12, 4)))] * 2, (2, 2), n_columns=12, across=2)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    left, right = (ax._left_title.get_window_extent(canvas.get_renderer()) for ax in figure.axes)
    assert left.x1 < right.x0


def test_image_panels_wrap():
    pytest.importorskip("matplotlib")
    figure = image_panels([Panel(str(i), np.ones((1, 4))) for i in range(5)], (2, 2), across=2)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["0", "1", "2", "3", "4", ""]
    with pytest.raises(ValueError, match="at least one Panel"):
        image_panels([], (2, 2))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'bayescut\[plot\]'"):
        image_grid([[0, 1, 1, 0]], (2, 2))


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, bayescut.plots; sys.exit('matplotlib' in sys.modules)"
    paths = [path for path in sys.path if path]
    code = f"import sys; sys.path[:0] = {paths!r}; {code}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
