"""Grids of numeric columns: beside brute force over bins, and by quadrature."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from bayescut.data import Grid, halvings, learn_grid
from bayescut.exceptions import DataError

RNG = np.random.default_rng(7)
COLUMNS = {
    "normal": RNG.normal(size=500),
    "tenths": RNG.normal(10, 3, size=400).round(1),
    "counts": RNG.poisson(30, size=700),
    "gains": np.where(RNG.random(600) < 0.9, 0, RNG.integers(100, 30_000, 600)),
    "atoms": np.where(RNG.random(600) < 0.5, 0.37, RNG.normal(size=600)),
    "few": np.array([1.5, 2.25, 2.5, 9.75]),
    "constant": np.full(10, 3.0),
    "one": np.array([-2.5]),
    "far": np.concatenate([RNG.normal(size=300), [1e7]]),
    "negative": -RNG.integers(1, 90, size=300),
}
FAR = 400  # bins on either side that brute force looks at


@pytest.fixture(params=COLUMNS)
def column(request):
    return COLUMNS[request.param]


def all_bins(grid, far=FAR):
    return np.arange(grid.edges[0] - far, grid.edges[-1] + far, dtype=float)


def tail_rest(grid, far=FAR):
    """Mass beyond ``far`` bins from the pieces, from the definition of a Lomax tail."""
    scale = grid.tail_scale / grid.step
    return grid.tail_mass * (scale / (scale + far)) ** 3


def is_small(grid):
    return grid.edges[-1] - grid.edges[0] < 200_000


def test_density_sums_to_one_over_recorded_values(column):
    grid = learn_grid(column)
    if is_small(grid):
        values = grid.snap(all_bins(grid) * grid.step)
        mass = np.exp(grid.log_density(values)) * grid.step
        assert mass.sum() + tail_rest(grid).sum() == pytest.approx(1, abs=1e-9)
        # cell by cell too
        by_cell = np.bincount(grid.codes(values), mass, minlength=grid.n_cells)
        by_cell[[0, -1]] += tail_rest(grid) if grid.n_cells > 1 else tail_rest(grid).sum() / 2
        np.testing.assert_allclose(by_cell, grid.mass, atol=1e-9)
    assert grid.mass.sum() == pytest.approx(1, abs=1e-9)


def test_density_integrates_to_one_by_quadrature():
    grid = learn_grid(COLUMNS["normal"])
    low, high = grid.range
    places = np.linspace(low - 30, high + 30, 2_000_001)
    density = np.exp(grid.log_density(places))
    far = tail_rest(grid, 30 / grid.step).sum()
    assert trapezoid(density, places) + far == pytest.approx(1, abs=1e-5)


def test_parts_add_up(column):
    grid = learn_grid(column)
    codes = grid.codes(column)
    together = np.log(grid.mass[codes]) + grid.log_inside(column, codes)
    np.testing.assert_allclose(together, grid.log_density(column), rtol=1e-12)
    np.testing.assert_array_equal(grid.log_inside(column), grid.log_inside(column, codes))


def test_no_density_exceeds_the_step(column):
    grid = learn_grid(column)
    values = np.concatenate([column, np.linspace(-1e9, 1e9, 1001), grid.mode])
    assert (grid.log_density(values) <= -math.log(grid.step) + 1e-12).all()
    assert np.isfinite(grid.log_density(values)).all()


@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308, -1.7e308, 2.0**70])
def test_nothing_is_infinite_far_away(column, value):
    grid = learn_grid(column)
    assert np.isfinite(grid.log_density(value))
    assert grid.codes(value) == (grid.n_cells - 1 if value > 0 else 0)


def test_tails_are_lomax():
    grid = learn_grid(COLUMNS["tenths"], bounds=(-math.inf, None))
    n = len(COLUMNS["tenths"])
    np.testing.assert_allclose(grid.tail_mass, 1 / (n + 2))
    scale = grid.tail_scale[1]
    last = grid.range[1] + grid.step / 2
    for away in (0.0, 0.1, 5.0, 1000.0):
        share = (scale / (scale + away)) ** 3 - (scale / (scale + away + grid.step)) ** 3
        expected = math.log(share / grid.step / (n + 2))
        found = grid.log_density(last + away + grid.step / 2)
        assert found == pytest.approx(expected, rel=1e-6)


def test_cells_halve_the_rows():
    grid = learn_grid(np.random.default_rng(0).permutation(6400))
    assert grid.n_cells == 64
    counts = np.bincount(grid.codes(np.arange(6400)))
    assert counts.min() >= 99
    assert counts.max() <= 101
    for depth in range(7):
        coarse = np.bincount(grid.view(depth), counts)
        assert len(coarse) == 2**depth
        np.testing.assert_allclose(coarse, 6400 / 2**depth, rtol=0.02)


def test_heavy_values_are_alone():
    for name in ("gains", "atoms", "counts"):
        column = COLUMNS[name]
        grid = learn_grid(column)
        values, counts = np.unique(grid.snap(column), return_counts=True)
        codes = grid.codes(values)
        for value, count, code in zip(values, counts, codes, strict=True):
            if count > len(column) / 64:
                assert (codes == code).sum() == 1, value


def test_an_atom_is_one_step_wide():
    grid = learn_grid(COLUMNS["gains"])
    assert grid.starts[0] == 1
    middle = learn_grid([*range(100), *[50] * 30])
    begin = middle.codes(50).item()
    assert middle.starts[begin] - middle.starts[begin - 1] == 1


def test_views_are_nested_and_ordered(column):
    for rng in (None, np.random.default_rng(3)):
        grid = learn_grid(column, rng=rng)
        finer = grid.view(grid.depth)
        np.testing.assert_array_equal(finer, np.arange(grid.n_cells))
        for depth in range(grid.depth, 0, -1):
            coarser = grid.view(depth - 1)
            assert (np.diff(coarser.astype(int)) >= 0).all()
            assert coarser.max() < 2 ** (depth - 1)
            # a coarser boundary is a finer boundary
            assert set(np.flatnonzero(np.diff(coarser))) <= set(np.flatnonzero(np.diff(finer)))
            finer = coarser


def test_drawn_grids_differ_but_not_their_density():
    column = COLUMNS["normal"]
    plain = learn_grid(column)
    one, two = (learn_grid(column, rng=np.random.default_rng(seed)) for seed in (0, 1))
    assert one == learn_grid(column, rng=np.random.default_rng(0))
    assert set(one.starts) != set(two.starts)
    places = np.linspace(-6, 6, 1001)
    for other in (one, two):
        np.testing.assert_allclose(other.log_density(places), plain.log_density(places))
    halves = []
    for seed in range(60):
        grid = learn_grid(column, rng=np.random.default_rng(seed))
        halves.append((grid.view(1)[grid.codes(column)] == 0).mean())
    assert 0.24 < min(halves) < 0.35
    assert 0.65 < max(halves) < 0.76


def test_halvings_beside_recursion():
    def naive(rows, level=1):
        if len(rows) < 2:
            return []
        total = sum(rows)
        cut = min(range(1, len(rows)), key=lambda i: (abs(sum(rows[:i]) - total / 2), i))
        return [*naive(rows[:cut], level + 1), level, *naive(rows[cut:], level + 1)]

    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 7, 20, 64):
        rows = rng.integers(1, 50, size).tolist()
        assert halvings(rows).tolist() == naive(rows)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-30, 30), st.sampled_from([0, 1, 2, 5])), min_size=1, max_size=40
    ).filter(lambda rows: any(w for _, w in rows)),
    st.integers(1, 12),
)
def test_a_weight_is_a_repeated_row(rows, max_cells):
    values = np.array([v for v, _ in rows]) / 2
    weights = np.array([w for _, w in rows])
    weighted = learn_grid(values, weights, max_cells=max_cells)
    assert weighted == learn_grid(np.repeat(values, weights), max_cells=max_cells)
    assert weighted.n_cells <= max_cells


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(-1e150, 1e150),
            st.floats(-1, 1),
            st.integers(-1000, 1000).map(float),
            st.integers(-1000, 1000).map(lambda k: k / 100),
        ),
        min_size=1,
        max_size=30,
    )
)
@example([5e-324])
@example([5e-324, 0.0, 1e-310])
@example([1e150, -1e150, 1e-300])
def test_any_finite_numbers(values):
    grid = learn_grid(values)
    assert Grid.from_json(grid.to_json()) == grid
    codes = grid.codes(values)
    assert codes.max() < grid.n_cells
    assert (grid.log_density(values) <= -math.log(grid.step) + 1e-9).all()
    for column in (grid.log_density(values), grid.mean, grid.variance, grid.mode, grid.peak):
        assert np.isfinite(column).all()
    np.testing.assert_array_equal(grid.codes(grid.mode), np.arange(grid.n_cells))
    drawn = grid.draw(codes, np.full(len(codes), 0.37))
    np.testing.assert_array_equal(grid.codes(drawn), codes)
    assert grid.weights(-math.inf, math.inf) == pytest.approx(np.ones(grid.n_cells))


INTERVALS = [
    (-math.inf, math.inf),
    (0.0, math.inf),
    (-math.inf, 0.0),
    (-1.3, 2.2),
    (5, 12),
    (0, 0),
    (10, 10.0001),
    (1e6, math.inf),
]


@pytest.mark.parametrize("closed", ["both", "left", "right", "neither"])
@pytest.mark.parametrize("interval", INTERVALS)
def test_weights_of_intervals_beside_enumeration(interval, closed):
    low, high = interval
    for name in ("counts", "gains", "tenths", "negative", "few"):
        grid = learn_grid(COLUMNS[name])
        assert grid.exact
        values = grid.snap(all_bins(grid) * grid.step)
        mass = np.exp(grid.log_density(values)) * grid.step
        above = values >= low if closed in ("both", "left") else values > low
        below = values <= high if closed in ("both", "right") else values < high
        inside = np.bincount(grid.codes(values), mass * (above & below), minlength=grid.n_cells)
        rest = tail_rest(grid)
        inside[0] += rest[0] * (low == -math.inf)
        inside[-1] += rest[1] * (high == math.inf)
        found = grid.weights(low, high, closed)
        ends = 1.1 * rest.max() / grid.mass.min() if high == 1e6 or low == 1e6 else 1e-9
        np.testing.assert_allclose(found, inside / grid.mass, atol=ends)
        assert ((found >= 0) & (found <= 1)).all()


def test_intervals_cut_a_density_where_they_end():
    grid = learn_grid(COLUMNS["normal"])
    low, high = -0.5123, 0.8456
    places = np.linspace(low, high, 400_001)
    density = np.exp(grid.log_density(places))
    inside = trapezoid(density, places)
    assert (grid.weights(low, high) * grid.mass).sum() == pytest.approx(inside, abs=1e-6)


def test_half_lines_keep_digits_far_out():
    grid = learn_grid(COLUMNS["normal"])
    near, far = (grid.weights(x, math.inf)[-1] for x in (1e6, 1e7))
    assert near > 0
    assert near / far == pytest.approx(1000, rel=1e-3)


def test_intervals_and_complements(column):
    grid = learn_grid(column)
    for bound in (-3.0, 0.0, 0.37, 30.0, 33.3):
        below, above = grid.weights(-math.inf, bound), grid.weights(bound, math.inf, "neither")
        np.testing.assert_allclose(below + above, 1, atol=1e-12)


def test_moments_beside_enumeration():
    for name in ("counts", "tenths", "negative", "few", "constant"):
        grid = learn_grid(COLUMNS[name])
        values = grid.snap(all_bins(grid, 500_000) * grid.step)
        mass = np.exp(grid.log_density(values)) * grid.step
        codes = grid.codes(values)
        total = np.bincount(codes, mass)
        mean = np.bincount(codes, mass * values) / total
        second = np.bincount(codes, mass * values**2) / total
        # What lies beyond brute force: scale^3 / far of the second moment.
        np.testing.assert_allclose(grid.mean, mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(grid.second_moment, second, rtol=1e-3)
        np.testing.assert_allclose(grid.variance, second - mean**2, rtol=2e-2, atol=1e-3)


def test_moments_of_dates_keep_their_digits():
    seconds = 1.7e9 + np.arange(1000)
    grid = learn_grid(seconds, bounds=(-math.inf, math.inf))
    inner = slice(1, -1)
    assert (grid.variance[inner] < 30).all()
    assert (grid.variance[inner] > 10).all()


def test_modes_beside_enumeration(column):
    grid = learn_grid(column)
    if not is_small(grid):
        return
    values = grid.snap(all_bins(grid) * grid.step)
    inside = grid.log_inside(values)
    codes = grid.codes(values)
    for cell in range(grid.n_cells):
        assert grid.peak[cell] == pytest.approx(inside[codes == cell].max(), abs=1e-12)
    np.testing.assert_array_equal(grid.codes(grid.mode), np.arange(grid.n_cells))
    np.testing.assert_allclose(grid.log_inside(grid.mode), grid.peak, rtol=1e-12)


def test_cdf_and_quantiles_beside_enumeration():
    rng = np.random.default_rng(0)
    far = 100_000
    for name in ("counts", "gains", "tenths", "few", "negative"):
        grid = learn_grid(COLUMNS[name])
        values = grid.snap(all_bins(grid, far) * grid.step)
        codes, inside = grid.codes(values), np.exp(grid.log_inside(values)) * grid.step
        for row in rng.dirichlet(np.full(grid.n_cells, 0.3), size=3):
            rest = tail_rest(grid, far)[0] / grid.mass[0] * row[0]
            below = rest + np.cumsum(inside * row[codes])
            asked = np.array([*COLUMNS[name][:5], grid.range[0] - 1, grid.range[1] + 3])
            expected = below[np.searchsorted(values, asked + grid.step / 2) - 1]
            np.testing.assert_allclose(grid.cdf(row, asked), expected, atol=1e-9)
            for q in (0.001, 0.1, 0.5, 0.9, 0.999):
                place = np.searchsorted(values, grid.quantile(row, q).item() - grid.step / 2)
                assert below[place] >= q - 1e-9
                assert below[place - 1] < q + 1e-9


def test_cdf_and_quantile_shapes():
    grid = learn_grid(COLUMNS["counts"])
    table = np.full((3, grid.n_cells), 1 / grid.n_cells)
    assert grid.cdf(table, 30).shape == (3,)
    assert grid.cdf(table, [20, 30, 40]).shape == (3,)
    assert grid.cdf(table[0], [20, 30]).shape == (2,)
    assert grid.quantile(table, 0.5).shape == (3,)
    assert grid.quantile(table, [0.1, 0.9]).shape == (3, 2)
    many = grid.quantile(table, [0.1, 0.9])
    np.testing.assert_array_equal(many[:, 1], grid.quantile(table, 0.9))
    assert grid.cdf(table, [-1e300, 0, 1e300])[[0, 2]] == pytest.approx([0, 1])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (lambda g: g.cdf(np.ones((2, 3)), 0), "do not fit"),
        (lambda g: g.cdf(np.zeros((2, g.n_cells)), 0), "not all zero"),
        (lambda g: g.cdf(np.full((2, g.n_cells), np.nan), 0), "finite"),
        (lambda g: g.cdf(np.ones((2, g.n_cells)), [1, 2, 3]), "2 rows of probabilities but 3"),
        (lambda g: g.quantile(np.ones((2, g.n_cells)), 1.0), "strictly between"),
        (lambda g: g.quantile(np.ones((2, g.n_cells)), np.nan), "strictly between"),
        (lambda g: g.draw([g.n_cells], [0.5]), "Cells are numbered"),
    ],
)
def test_bad_queries(query, message):
    with pytest.raises(DataError, match=message):
        query(learn_grid(COLUMNS["counts"]))


def test_draws_stay_in_their_cells_and_on_the_lattice(column):
    grid = learn_grid(column)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, grid.n_cells, 5000)
    uniform = np.concatenate([[0.0, np.nextafter(1, 0)], rng.random(4998)])
    values = grid.draw(codes, uniform)
    np.testing.assert_array_equal(grid.codes(values), codes)
    np.testing.assert_array_equal(grid.snap(values), values)
    assert np.isfinite(values).all()


def test_draws_have_the_density():
    grid = learn_grid(COLUMNS["few"])
    rng = np.random.default_rng(0)
    codes = rng.choice(grid.n_cells, p=grid.mass / grid.mass.sum(), size=200_000)
    values, counts = np.unique(grid.draw(codes, rng.random(len(codes))), return_counts=True)
    expected = np.exp(grid.log_density(values)) * grid.step * len(codes)
    usual = expected > 20
    assert usual.sum() > 50
    assert (np.abs(counts - expected)[usual] < 5 * np.sqrt(expected[usual])).all()


def test_listed_bins_beside_searches(column):
    grid = learn_grid(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayescut.data.grid._MOST_LISTED", 0)
        other = Grid.from_json(grid.to_json())
        values = np.concatenate([column, column + grid.step / 2, [1e300, -1e300, np.nan, 0.0]])
        np.testing.assert_array_equal(other.codes(values), grid.codes(values))
        np.testing.assert_array_equal(other.log_density(values), grid.log_density(values))
        assert other._piece_table is None
    places = np.searchsorted(grid.starts, np.floor(values / grid.step + 0.5), side="right")
    seen = ~np.isnan(values)
    np.testing.assert_array_equal(grid.codes(values)[seen], places[seen])


def test_missing_values():
    grid = learn_grid(COLUMNS["normal"])
    assert grid.codes([0.0, np.nan]).tolist() == [grid.codes(0.0), 255]
    assert grid.codes(0.0).dtype == np.uint8
    assert np.isnan(grid.log_density(np.nan))
    assert grid.log_inside(np.nan) == 0
    assert np.isnan(grid.draw([255], [0.3])).all()


def test_no_draw_of_counts_is_negative():
    grid = learn_grid(np.arange(5, 50))
    uniform = (np.arange(10_000) + 0.5) / 10_000
    assert grid.draw(np.zeros(10_000, dtype=int), uniform).min() >= 0
    assert grid.weights(-math.inf, -1).max() < 1e-9
    assert np.isfinite(grid.log_density(-3))
    # The mass between zero and the least value is that of a tail.
    mass = (grid.weights(0, 4) * grid.mass).sum()
    assert mass == pytest.approx(1 / 47, rel=1e-9)


def test_declared_bounds():
    values = COLUMNS["tenths"]
    grid = learn_grid(values, bounds=(0.0, 100.0))
    assert grid.range == (0.0, 100.0)
    assert grid.log_density([-0.1, 100.1]).tolist() == [-math.inf, -math.inf]
    assert np.isfinite(grid.log_density([0.0, 100.0])).all()
    all_values = grid.snap(np.arange(0, 1001) * grid.step)
    assert np.exp(grid.log_density(all_values)).sum() * grid.step == pytest.approx(1)
    draws = grid.draw(np.full(1000, grid.n_cells - 1), np.linspace(0, 1, 1001)[:-1])
    assert draws.max() <= 100
    unbounded = learn_grid(np.abs(values), bounds=(-math.inf, None))
    assert unbounded.tail_mass[0] == unbounded.tail_mass[1]


@pytest.mark.parametrize("bounds", [(5, None), (None, 5), (math.inf, None), (math.nan, None)])
def test_bad_bounds(bounds):
    with pytest.raises(DataError, match="bound"):
        learn_grid([1.0, 9.0], bounds=bounds)


def test_given_steps():
    grid = learn_grid([0.12, 0.31, 0.55], step=0.1)
    assert grid.step == 0.1
    assert not grid.exact
    for step in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(DataError, match="positive number"):
            learn_grid([1.0], step=step)
    with pytest.raises(DataError, match="too small"):
        learn_grid([1e10], step=1e-10)
    with pytest.raises(DataError, match="change the unit"):
        learn_grid([1e200, 1.0])
    for cells in (0, 255):
        with pytest.raises(DataError, match="max_cells"):
            learn_grid([1.0], max_cells=cells)


def test_json_is_bit_exact(column):
    for rng in (None, np.random.default_rng(0)):
        grid = learn_grid(column, rng=rng)
        again = Grid.from_json(grid.to_json())
        assert again == grid
        assert hash(again) == hash(grid)
        for name in ("edges", "pieces", "starts", "levels", "tail_mass", "tail_scale"):
            np.testing.assert_array_equal(getattr(again, name), getattr(grid, name))
            assert getattr(again, name).dtype == getattr(grid, name).dtype
    assert grid != learn_grid(np.append(column, 77))
    assert grid != "grid"


HOSTILE = {
    "a missing entry": lambda r: r.pop("step"),
    "an unknown entry": lambda r: r.update(more=1),
    "text": lambda r: r.update(step="1"),
    "a whole step": lambda r: r.update(step=1),
    "a zero step": lambda r: r.update(step=0.0),
    "a negative step": lambda r: r.update(step=-1.0),
    "no flag": lambda r: r.update(exact=1),
    "a scalar": lambda r: r.update(edges=3),
    "booleans": lambda r: r["edges"].__setitem__(0, True),
    "nested lists": lambda r: r["pieces"].__setitem__(0, [0.1]),
    "edges that fall": lambda r: r["edges"].reverse(),
    "edges twice": lambda r: r["edges"].__setitem__(1, r["edges"][0]),
    "huge edges": lambda r: r["edges"].__setitem__(-1, 2**60),
    "edges beyond int64": lambda r: r["edges"].__setitem__(-1, 2**70),
    "fractional edges": lambda r: r["edges"].__setitem__(0, 0.5),
    "a negative mass": lambda r: r["pieces"].__setitem__(0, -r["pieces"][0]),
    "a mass of zero": lambda r: r["pieces"].__setitem__(0, 0.0),
    "masses above one": lambda r: r["pieces"].__setitem__(0, 1.0),
    "one edge too many": lambda r: r["edges"].append(10**6),
    "a cell off the edges": lambda r: r["starts"].__setitem__(0, r["edges"][0]),
    "no levels": lambda r: r.update(levels=[]),
    "a level of zero": lambda r: r["levels"].__setitem__(0, 0),
    "a level beyond int8": lambda r: r["levels"].__setitem__(0, 300),
    "a thin tail": lambda r: r["tail_scale"].__setitem__(0, 0.0),
    "three tails": lambda r: r["tail_mass"].append(0.0),
    "a negative tail": lambda r: r["tail_mass"].__setitem__(0, -0.1),
    "too many pieces": lambda r: r.update(pieces=[1e-7] * (2**20 + 2)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_json(case):
    record = json.loads(learn_grid(COLUMNS["counts"]).to_json())
    HOSTILE[case](record)
    with pytest.raises(DataError, match="grid of a numeric column"):
        Grid.from_json(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '{"step": NaN}', "[" * 100_000])
def test_hostile_text(text):
    with pytest.raises(DataError):
        Grid.from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_hostile_numbers(number):
    record = json.loads(learn_grid(COLUMNS["counts"]).to_json())
    for name in ("pieces", "tail_mass", "tail_scale"):
        bad = json.loads(json.dumps(record))
        bad[name][0] = float(number.replace("Infinity", "inf"))
        with pytest.raises(DataError):
            Grid.from_json(json.dumps(bad))
    with pytest.raises(DataError):
        Grid.from_json(json.dumps(record | {"step": float("nan")}))


def test_grids_are_frozen():
    grid = learn_grid(COLUMNS["counts"])
    for name in ("edges", "pieces", "starts", "levels", "tail_mass", "mass", "mean", "peak"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(grid, name)[0] = 0
    assert "cells, step=1" in repr(grid)
