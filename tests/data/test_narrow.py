"""Numbers known to lie in intervals: against sums over every value."""

import numpy as np
import pytest

from bayescut.data import learn_grid
from bayescut.data.narrow import inside, intersect, narrow, weights
from bayescut.exceptions import DataError

INF = float("inf")


@pytest.fixture(
    scope="module", params=["counts", "tenths", "negative", "bounded", "constant"], name="grid"
)
def _grid(request):
    rng = np.random.default_rng(0)
    if request.param == "counts":
        return learn_grid(rng.poisson(30, 400), max_cells=8)
    if request.param == "tenths":
        return learn_grid(rng.normal(3, 1, 300).round(1), max_cells=4)
    if request.param == "negative":
        return learn_grid(rng.normal(-50, 20, 300).round(), max_cells=8)
    if request.param == "bounded":
        return learn_grid(rng.integers(10, 40, 200), max_cells=4, bounds=(0, 60))
    return learn_grid([7.0, 7.0, 7.0])


def every(grid):
    """Values far into the tails, and their masses."""
    low, high = grid.range
    wide = max(50 * grid.step, 4 * (high - low))
    values = grid.snap(np.arange(low - wide, high + wide + grid.step, grid.step))
    return values, np.exp(grid.log_density(values)) * grid.step


PIECES = [
    [(0.2, 0.7, "both")],
    [(0.2, 0.7, "neither")],
    [(0.4, INF, "left")],
    [(-INF, 0.4, "right")],
    [(-0.5, 0.1, "both")],
    [(0.9, 1.5, "left")],
    [(0.1, 0.1, "both"), (0.5, 0.5, "both"), (0.8, 0.8, "both")],
    [(-INF, 0.3, "neither"), (0.6, INF, "neither")],
    [(-INF, INF, "both")],
    [(-INF, 0.0, "neither")],
    [(1.0, INF, "neither")],
    [(0.0, INF, "left")],
]


@pytest.mark.parametrize("places", PIECES)
def test_narrowed_cells_are_sums_over_values(grid, places):
    low, high = grid.range
    span = max(high - low, 10 * grid.step)

    def place(x):
        return float(grid.snap(low + x * span)) if np.isfinite(x) else x

    pieces = [(place(a), place(b), closed) for a, b, closed in places]
    share = weights(grid, pieces)
    if not share.any():
        return
    values, mass = every(grid)
    chosen = inside(grid, values, pieces)
    cell = grid.codes(values)
    narrowed = narrow(grid, pieces)
    endless = any(np.isinf(a) or np.isinf(b) for a, b, _ in pieces)
    tolerance = 0.02 if endless else 1e-9
    for c in range(grid.n_cells):
        here = chosen & (cell == c)
        total = mass[here].sum()
        assert share[c] * grid.mass[c] == pytest.approx(total, abs=tolerance)
        if share[c] == 0:
            continue
        row = narrowed.shares[c]
        assert row.sum() == pytest.approx(1)
        fine = narrowed.grid
        # All of a cell's mass lies in finer cells within the intervals.
        u = np.linspace(0, 0.999, 200)
        drawn = narrowed.draw(np.full(200, c), u, u[::-1])
        assert inside(grid, drawn, pieces).all()
        assert (grid.codes(drawn) == c).all()
        if not endless:
            # A piece of a tail between two bounds is spread in segments.
            mean = float(mass[here] @ values[here] / total)
            spread = np.sqrt(
                float(row @ (fine.variance + fine.mean**2)) - float(row @ fine.mean) ** 2
            )
            assert row @ fine.mean == pytest.approx(mean, abs=0.05 * (spread + grid.step))
        peak = np.log(mass[here].max()) - np.log(grid.step) - np.log(grid.mass[c])
        assert narrowed.peak[c] == pytest.approx(peak, abs=0.05)
        assert inside(grid, np.atleast_1d(narrowed.mode[c]), pieces).all()


def test_narrowed_density_is_the_same_density(grid):
    low, high = grid.range
    if low == high:
        return
    middle = float(grid.snap((low + high) / 2))
    fine = narrow(grid, [(middle, INF, "left")]).grid
    values = grid.snap(np.linspace(low, high, 41))
    assert np.allclose(fine.log_density(values), grid.log_density(values))
    assert fine.mass.sum() == pytest.approx(1)


def test_intersections():
    assert intersect([(0, 5, "both")], [(3, 9, "left")]) == [(3, 5, "both")]
    assert intersect([(0, 5, "left")], [(5, 9, "both")]) == []
    assert intersect([(0, 5, "both")], [(5, 9, "both")]) == [(5, 5, "both")]
    assert intersect([(0, 5, "both")], [(0, 5, "neither")]) == [(0, 5, "neither")]
    both = intersect([(-INF, 2, "right"), (4, INF, "left")], [(1, 6, "both")])
    assert both == [(1, 2, "both"), (4, 6, "both")]


def test_intervals_between_two_recorded_numbers():
    ages = learn_grid(np.arange(18, 60), max_cells=4)
    assert not weights(ages, [(30.2, 30.8, "both")]).any()
    tenths = learn_grid(np.random.default_rng(0).normal(0, 1, 500), max_cells=4)
    step = tenths.step
    narrowed = narrow(tenths, [(0.2 * step, 0.4 * step, "both")])
    cell = int(tenths.codes(0.0))
    drawn = narrowed.draw(np.array([cell]), np.array([0.5]), np.array([0.5]))
    assert abs(drawn[0]) <= step


def test_very_many_numbers_are_refused():
    grid = learn_grid(np.arange(2000))
    pieces = [(float(x), float(x), "both") for x in range(0, 2000, 4)]
    with pytest.raises(DataError, match="separate numbers"):
        narrow(grid, pieces)
