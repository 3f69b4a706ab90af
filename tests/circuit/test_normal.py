"""Normal leaves: jointly Gaussian numbers with cells."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from bayescut.circuit import Evidence, build
from bayescut.circuit.queries import completed_numbers
from bayescut.circuit.refine import refine
from bayescut.data import Domain, Domains, learn_grid
from bayescut.exceptions import CircuitError, PropertyError
from bayescut.files import dumps, loads
from bayescut.scores.circuit_score import bayes_score, bic_score, refit
from bayescut.scores.wishart import NormalWishart

nan = float("nan")
ORDER = [2, 0, 1]
MEAN = np.array([1.0, 5.0, -2.0])
COEFFICIENTS = np.array([[0, 0, 0], [0.6, 0, 0], [-0.4, 0.9, 0]])
DEVIATION = np.array([0.5, 0.7, 0.3])


def covariance():
    """Of the numbers, in the order of the leaf."""
    back = np.linalg.inv(np.eye(3) - COEFFICIENTS)
    return back @ np.diag(DEVIATION**2) @ back.T


def numbers(n=300, seed=0):
    """Rows of three numbers, in the order of the table."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(MEAN, covariance(), n).round(2)
    out = np.empty_like(x)
    out[:, ORDER] = x
    return out


GRIDS = [learn_grid(column, max_cells=9) for column in numbers().T]
DOMAINS = Domains(Domain(None, grid.n_cells, grid=grid) for grid in GRIDS)
OFFSETS = DOMAINS.offsets


def leaf():
    return build.normal(ORDER, MEAN, COEFFICIENTS, DEVIATION)


def circuit():
    return build.circuit(leaf(), DOMAINS)


def given(x, weights=None):
    codes = np.column_stack([grid.codes(x[:, j]) for j, grid in enumerate(GRIDS)])
    return Evidence(codes, weights, x)


def inside(x):
    return sum(grid.log_inside(x[:, j]) for j, grid in enumerate(GRIDS))


def log_density(model, x):
    return model.log_likelihood(given(x)) + inside(x)


def conditional(x, known):
    """Mean and covariance of the unknown numbers of a row, and which they are."""
    order = np.array(ORDER)
    o = [i for i in range(3) if order[i] in known]
    u = [i for i in range(3) if order[i] not in known]
    cov = covariance()
    gain = cov[np.ix_(u, o)] @ np.linalg.inv(cov[np.ix_(o, o)]) if o else np.zeros((len(u), 0))
    mean = MEAN[u] + gain @ (x[order[o]] - MEAN[o])
    return mean, cov[np.ix_(u, u)] - gain @ cov[np.ix_(o, u)], order[u]


def cell_mass(j, mean, deviation):
    ends = np.concatenate([[-np.inf], (GRIDS[j].starts - 0.5) * GRIDS[j].step, [np.inf]])
    return np.diff(stats.norm.cdf(ends, mean, deviation))


def test_complete_rows_have_the_density_of_numpy() -> None:
    x = numbers(50, seed=1)
    expected = stats.multivariate_normal(MEAN, covariance()).logpdf(x[:, ORDER])
    assert_allclose(log_density(circuit(), x), expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_unknown_numbers_are_integrated_out(seed: int) -> None:
    x = numbers(40, seed=2)
    x[np.random.default_rng(seed).random(x.shape) < 0.5] = nan
    expected = np.zeros(len(x))
    for r, row in enumerate(x):
        known = [i for i in range(3) if not np.isnan(row[ORDER[i]])]
        if known:
            part = covariance()[np.ix_(known, known)]
            place = row[[ORDER[i] for i in known]]
            expected[r] = stats.multivariate_normal(MEAN[known], part).logpdf(place)
    assert_allclose(log_density(circuit(), x), expected, atol=1e-10)


def test_it_integrates_to_one_and_to_its_cells() -> None:
    model = build.circuit(build.normal([0], [1.5], [[0]], [0.4]), DOMAINS[2:3])
    grid = GRIDS[2]

    def density(v):
        row = np.array([[v]])
        known = Evidence(grid.codes(row), values=row)
        return float(np.exp(model.log_likelihood(known) + grid.log_inside(row[:, 0]))[0])

    ends = [-2.0, *((grid.starts - 0.5) * grid.step).tolist(), 5.0]
    masses = [
        integrate.quad(density, a, b, limit=500, points=np.linspace(a, b, 9)[1:-1])[0]
        for a, b in pairwise(ends)
    ]
    assert sum(masses) == pytest.approx(1.0, abs=1e-3)
    assert_allclose(masses, model.marginals([[nan]])[0], atol=1e-3)


def test_cells_of_unknown_numbers() -> None:
    x = numbers(3, seed=3)
    x[0] = nan
    x[1, 0] = nan
    found = circuit().marginals(given(x))
    for r in range(3):
        known = [j for j in range(3) if not np.isnan(x[r, j])]
        mean, cov, unknown = conditional(x[r], known)
        for j in range(3):
            own = found[r, OFFSETS[j] : OFFSETS[j + 1]]
            if j in unknown:
                i = int(np.flatnonzero(unknown == j)[0])
                assert_allclose(own, cell_mass(j, mean[i], np.sqrt(cov[i, i])), atol=1e-12)
            else:
                assert own.argmax() == GRIDS[j].codes(x[r, j])


def allowed(column, low, high):
    weights = np.ones(int(OFFSETS[-1]))
    weights[OFFSETS[column] : OFFSETS[column + 1]] = GRIDS[column].weights(low, high)
    return weights


def test_one_interval_is_exact() -> None:
    ends = (GRIDS[1].starts - 0.5) * GRIDS[1].step
    low, high = float(ends[1] + 0.5 * GRIDS[1].step), float(ends[4] - 0.5 * GRIDS[1].step)
    weights = allowed(1, low, high)
    x = numbers(2, seed=4)
    x[:, 1] = nan
    x[1, 0] = nan
    found = circuit().log_likelihood(given(x, weights)) + inside(x)
    posterior = circuit().marginals(given(x, weights))
    whole = log_density(circuit(), x)
    for r in range(2):
        known = [j for j in range(3) if not np.isnan(x[r, j])]
        mean, cov, unknown = conditional(x[r], known)
        i = int(np.flatnonzero(unknown == 1)[0])
        mass = cell_mass(1, mean[i], np.sqrt(cov[i, i]))[2:5].sum()
        assert found[r] == pytest.approx(whole[r] + np.log(mass), abs=1e-9)
    # The other unknown number, against a fine sum over the first.
    mean, cov, unknown = conditional(x[1], [2])
    i, k = (int(np.flatnonzero(unknown == j)[0]) for j in (1, 0))
    places = np.linspace(ends[1], ends[4], 20_001)
    density = stats.norm.pdf(places, mean[i], np.sqrt(cov[i, i]))
    density /= density.sum()
    shift = mean[k] + cov[k, i] / cov[i, i] * (places - mean[i])
    rest = np.sqrt(cov[k, k] - cov[k, i] ** 2 / cov[i, i])
    edges = np.concatenate([[-np.inf], (GRIDS[0].starts - 0.5) * GRIDS[0].step, [np.inf]])
    expected = np.diff(density @ stats.norm.cdf(edges[None, :], shift[:, None], rest))
    assert_allclose(posterior[1, : OFFSETS[1]], expected, atol=1e-5)
    assert posterior[1, : OFFSETS[1]].sum() == pytest.approx(1.0, abs=1e-9)


def some_cells(*cells):
    """Weights that allow some cells of the first numbers, and the ends of what they allow."""
    weights = np.ones(int(OFFSETS[-1]))
    ends = []
    for j, some in enumerate(cells):
        own = weights[OFFSETS[j] : OFFSETS[j + 1]]
        own[:] = 0.0
        own[some] = 1.0
        edges = np.concatenate([[-np.inf], (GRIDS[j].starts - 0.5) * GRIDS[j].step, [np.inf]])
        ends.append((edges[some.start], edges[some.stop]))
    return weights, ends


def box(ends):
    """Probability that the numbers of the table lie between ends."""
    low, high = np.array(ends)[ORDER].T
    exact = stats.multivariate_normal.cdf
    settings = {"maxpts": 2_000_000, "abseps": 1e-9, "releps": 1e-7}
    return exact(high, MEAN, covariance(), lower_limit=low, **settings)


def test_probability_of_three_intervals() -> None:
    cells = slice(2, 6), slice(1, 5), slice(3, 7)
    weights, ends = some_cells(*cells)
    found = np.exp(circuit().log_likelihood(given(np.full((1, 3), nan), weights)))
    assert found[0] == pytest.approx(box(ends), rel=2e-3)


def test_posteriors_given_several_intervals() -> None:
    endless = (-np.inf, np.inf)
    for cells in ((slice(2, 6), slice(1, 5)), (slice(2, 6), slice(1, 5), slice(3, 7))):
        weights, ends = some_cells(*cells)
        ends = [*ends, *[endless] * (3 - len(ends))]
        blank = np.full((1, 3), nan)
        posterior = circuit().marginals(given(blank, weights))[0]
        whole = box(ends)
        for j in range(3):
            edges = np.concatenate([[-np.inf], (GRIDS[j].starts - 0.5) * GRIDS[j].step, [np.inf]])
            parts = []
            for low, high in pairwise(edges):
                part = list(ends)
                part[j] = max(low, ends[j][0]), min(high, ends[j][1])
                parts.append(box(part) if part[j][0] < part[j][1] else 0.0)
            own = posterior[OFFSETS[j] : OFFSETS[j + 1]]
            assert own.sum() == pytest.approx(1.0, abs=1e-9)
            assert_allclose(own, np.array(parts) / whole, atol=1e-3)
        # Draws agree with it, and lie inside.
        codes, drawn = completed_numbers(circuit(), given(np.repeat(blank, 4000, 0), weights), 0)
        for j in range(3):
            shares = np.bincount(codes[:, j], minlength=GRIDS[j].n_cells) / len(codes)
            assert_allclose(shares, posterior[OFFSETS[j] : OFFSETS[j + 1]], atol=0.03)
            assert ((drawn[:, j] >= ends[j][0]) & (drawn[:, j] <= ends[j][1])).all()
    # Draws of such numbers go together as the leaf has it.
    one, two = ORDER.index(0), ORDER.index(1)
    cov = covariance()
    slope = cov[two, one] / cov[one, one]
    wide, _ = some_cells(slice(0, 8), slice(0, 8))
    _, drawn = completed_numbers(circuit(), given(np.repeat(blank, 4000, 0), wide), 1)
    assert np.polyfit(drawn[:, 0], drawn[:, 1], 1)[0] == pytest.approx(slope, abs=0.1)


def test_cells_without_their_numbers_are_intervals() -> None:
    codes = np.array([[3, 3, 255]] * 50, dtype=np.uint8)
    drawn = circuit().sample_conditional(codes, 0)
    assert_array_equal(drawn[:, :2], codes[:, :2])
    assert_allclose(circuit().marginals(codes[:1]).sum(), 3.0, atol=1e-9)


def test_intervals_that_nearly_exclude_each_other() -> None:
    # Far from the line that the numbers lie on: next to none of the draws is accepted.
    weights, ends = some_cells(slice(0, 1), slice(8, 9))
    _, drawn = completed_numbers(circuit(), given(np.full((20, 3), nan), weights), 0)
    assert (drawn[:, 0] <= ends[0][1]).all() and (drawn[:, 1] >= ends[1][0]).all()
    assert np.isfinite(circuit().log_likelihood(given(np.full((1, 3), nan), weights))).all()


def test_probability_of_two_intervals() -> None:
    cells = slice(2, 5), slice(1, 4)
    weights = np.ones(int(OFFSETS[-1]))
    ends = []
    for j, some in enumerate(cells):
        own = weights[OFFSETS[j] : OFFSETS[j + 1]]
        own[:] = 0.0
        own[some] = 1.0
        edges = np.concatenate([[-np.inf], (GRIDS[j].starts - 0.5) * GRIDS[j].step, [np.inf]])
        ends.append((edges[some.start], edges[some.stop]))
    x = np.full((2, 3), nan)
    x[1, 2] = 1.3
    found = np.exp(circuit().log_likelihood(given(x, weights)) + inside(x))
    for r, known in enumerate(([], [2])):
        mean, cov, order = conditional(x[r], known)
        i, k = (int(np.flatnonzero(order == j)[0]) for j in (0, 1))
        both = stats.multivariate_normal(mean[[i, k]], cov[np.ix_([i, k], [i, k])])
        expected = both.cdf([ends[0][1], ends[1][1]], lower_limit=[ends[0][0], ends[1][0]])
        if known:
            expected *= stats.norm.pdf(1.3, MEAN[0], DEVIATION[0])
        assert found[r] == pytest.approx(expected, rel=1e-6)


def test_an_interval_far_away_is_no_error() -> None:
    weights = np.ones(int(OFFSETS[-1]))
    weights[OFFSETS[1] : OFFSETS[2]] = 0.0
    weights[OFFSETS[1]] = 1.0
    x = np.array([[5000.0, nan, 1000.0]])
    value = circuit().log_likelihood(given(x, weights))
    assert np.isfinite(value).all()
    assert_allclose(circuit().marginals(given(x, weights)).sum(), 3.0, atol=1e-9)
    codes, drawn = completed_numbers(circuit(), given(x, weights), 0)
    assert codes[0, 1] == 0
    assert np.isfinite(drawn).all()


def test_draws() -> None:
    x = numbers(1, seed=5)
    x[0, :2] = nan
    many = np.repeat(x, 20_000, axis=0)
    codes, drawn = completed_numbers(circuit(), given(many), 0)
    mean, cov, unknown = conditional(x[0], [2])
    assert_allclose(drawn[:, unknown].mean(axis=0), mean, atol=0.02)
    assert_allclose(np.cov(drawn[:, unknown].T), cov, atol=0.02)
    for j in unknown:
        assert_allclose(codes[:, j], GRIDS[j].codes(drawn[:, j]))
    # Given an interval of one number the other follows.
    ends = (GRIDS[1].starts - 0.5) * GRIDS[1].step
    weights = np.ones(int(OFFSETS[-1]))
    weights[OFFSETS[1] : OFFSETS[2]] = 0.0
    weights[OFFSETS[1] + 2 : OFFSETS[1] + 4] = 1.0
    codes, drawn = completed_numbers(circuit(), given(many, weights), 0)
    assert ((drawn[:, 1] >= ends[1]) & (drawn[:, 1] <= ends[3])).all()
    shares = np.bincount(codes[:, 0], minlength=GRIDS[0].n_cells) / len(codes)
    assert_allclose(shares, circuit().marginals(given(x, weights))[0, : OFFSETS[1]], atol=0.015)
    blank = circuit().sample(20_000, 1)
    marginals = circuit().marginals(np.full((1, 3), 255, dtype=np.uint8))[0]
    shares = np.bincount(blank[:, 1], minlength=GRIDS[1].n_cells) / len(blank)
    assert_allclose(shares, marginals[OFFSETS[1] : OFFSETS[2]], atol=0.015)


def test_most_probable_explanation_of_one_number() -> None:
    x = numbers(1, seed=6)
    x[0, 0] = nan
    codes, found = completed_numbers(circuit(), given(x), maximise=True)
    mean, cov, _ = conditional(x[0], [1, 2])
    assert codes[0, 0] == cell_mass(0, mean[0], np.sqrt(cov[0, 0])).argmax()
    row, value = circuit().mpe(given(x))
    assert row[0, 0] == codes[0, 0]
    whole = np.where(np.isnan(x), found, x)
    assert value[0] == pytest.approx(circuit().log_likelihood(given(whole))[0])


def mixture():
    """Beside cells, and below a label."""
    grids = [Domain("label", 2), *DOMAINS]
    domains = Domains(replace_name(domain, i) for i, domain in enumerate(grids))
    sizes = [grid.n_cells for grid in GRIDS]
    cells = build.independent([np.ones(k) / k for k in sizes], [1, 2, 3])
    normal = build.normal([3, 1, 2], MEAN, COEFFICIENTS, DEVIATION)
    node = build.decision(0, [0.3, 0.7], cells, normal)
    return build.circuit(node, domains)


def replace_name(domain, i):
    return Domain(f"x{i}", domain.n_states, grid=domain.grid)


def test_beside_cells() -> None:
    model = mixture()
    x = numbers(30, seed=7)
    table = np.column_stack([np.full(30, nan), x])
    codes = np.column_stack([np.full(30, 255), given(x).codes]).astype(np.uint8)
    found = model.log_likelihood(Evidence(codes, values=table)) + inside(x)
    cells = sum(-np.log(grid.n_cells) for grid in GRIDS) + inside(x)
    normal = stats.multivariate_normal(MEAN, covariance()).logpdf(x[:, ORDER])
    expected = np.logaddexp(np.log(0.3) + cells, np.log(0.7) + normal)
    assert_allclose(found, expected, rtol=1e-10)
    assert model.properties.smooth and model.properties.deterministic
    again = loads(dumps(model))
    assert again == model
    assert_allclose(again.log_likelihood(Evidence(codes, values=table)) + inside(x), found)
    expanded = model.expand()
    assert_allclose(expanded.log_likelihood(Evidence(codes, values=table)) + inside(x), found)
    with pytest.raises(PropertyError, match="entropy"):
        model.entropy()
    for score in (bic_score, refit):
        with pytest.raises(PropertyError, match="normal leaves"):
            score(model, Evidence(codes, values=table))


def test_threads_change_nothing() -> None:
    x = numbers(5000, seed=8)
    x[np.random.default_rng(0).random(x.shape) < 0.3] = nan
    one, two = (circuit().log_likelihood(given(x), n_jobs=n) for n in (1, 2))
    assert np.array_equal(one, two)


def test_refined_leaves_keep_their_density() -> None:
    coarse = [learn_grid(column, max_cells=9) for column in numbers().T]
    views = [grid.view(2).astype(np.int64) for grid in coarse]
    small = []
    for grid in coarse:
        kept = grid.levels <= 2
        small.append(
            type(grid)(
                grid.step, grid.exact, grid.edges, grid.pieces, grid.starts[kept],
                grid.levels[kept], grid.tail_mass, grid.tail_scale,
            )
        )  # fmt: skip
    domains = Domains(Domain(None, grid.n_cells, grid=grid) for grid in small)
    model = build.circuit(leaf(), domains)
    shares = [
        grid.mass / np.bincount(view, grid.mass)[view]
        for grid, view in zip(coarse, views, strict=True)
    ]
    fine = refine(model, DOMAINS, views, shares)
    x = numbers(20, seed=9)
    assert_allclose(log_density(fine, x), log_density(circuit(), x), rtol=1e-12)


def test_score_is_the_product_of_predictions() -> None:
    """p(x_1) p(x_2 | x_1) ... by multivariate Student densities, cells taken off."""
    model = mixture()
    x = numbers(12, seed=10)
    label = np.tile([0, 1, 1], 4)
    codes = np.column_stack([label, given(x).codes]).astype(np.uint8)
    known = Evidence(codes, values=np.column_stack([np.full(12, nan), x]))
    prior = NormalWishart(np.zeros(4), np.diag([1.0, 2.0, 1.5, 0.5]), 0.7, 6.5)
    own = prior.marginal([3, 1, 2])
    total, seen = 0.0, np.empty((0, 3))
    for row in x[label == 1][:, ORDER]:
        n = len(seen)
        mean = seen.mean(axis=0) if n else np.zeros(3)
        scatter = (seen - mean).T @ (seen - mean)
        after, kappa, freedom = own.updated(n, mean, scatter), own.kappa + n, own.freedom + n
        centre = (own.kappa * own.mean + n * mean) / kappa
        shape = after * (kappa + 1) / (kappa * (freedom - 2))
        total += stats.multivariate_t(centre, shape, freedom - 2).logpdf(row)
        seen = np.vstack([seen, row])
    parts = bayes_score(model, known, normal_prior=prior)
    # The same structure with cells in both branches differs in the second branch alone.
    other = build.circuit(
        build.decision(
            0,
            [0.5, 0.5],
            build.independent([[1 / k] * k for k in DOMAINS.n_states], [1, 2, 3]),
            build.independent([[1 / k] * k for k in DOMAINS.n_states], [1, 2, 3]),
        ),
        model.domains,
    )
    branch = build.circuit(build.independent([[1 / k] * k for k in DOMAINS.n_states]), DOMAINS)
    second = bayes_score(branch, codes[label == 1][:, 1:], ess=0.5)
    expected = bayes_score(other, codes) - second + total - inside(x[label == 1]).sum()
    assert parts == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (build.normal([0, 1], [0, 0], np.zeros((2, 2)), [1, 0]), "positive deviations"),
        (build.normal([0, 1], [0, nan], np.zeros((2, 2)), [1, 1]), "finite parameters"),
    ],
)
def test_bad_parameters_are_refused(node, message) -> None:
    with pytest.raises(CircuitError, match=message):
        build.circuit(node, DOMAINS[:2])
    with pytest.raises(CircuitError, match="numbers with cells"):
        build.circuit(build.normal([0], [0], [[0]], [1]), [3])
