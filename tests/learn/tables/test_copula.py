"""Normal scores: conditionals against a normal density integrated by hand, gaps, refusals."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from bayescut.data import Domain, Domains, learn_grid
from bayescut.data.table import Table
from bayescut.exceptions import DataError
from bayescut.learn.tables._copula import draw_scores, expected_products, predicted_scores
from bayescut.learn.tables.copula import NormalScores, learn_copula, scores


def correlated(n=600, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = 0.8 * x + 0.6 * rng.normal(size=n)
    z = np.exp(0.6 * y + 0.8 * rng.normal(size=n))
    label = rng.integers(0, 3, n)
    columns = [x, y, label, z]
    domains, codes = [], []
    for column in columns:
        if column is label:
            domains.append(Domain(None, 3))
            codes.append(label)
        else:
            grid = learn_grid(column)
            domains.append(Domain(None, grid.n_cells, grid=grid))
            codes.append(grid.codes(column))
    return Table(np.column_stack(codes).astype(np.uint8), Domains(domains))


@pytest.fixture(scope="module")
def table():
    return correlated()


def test_the_covariance_is_that_of_the_scores_without_gaps(table):
    found = learn_copula(table)
    assert found.columns.tolist() == [0, 1, 3]
    z = scores(table.domains, found.columns, table.codes)
    prior = 1.0 + 0.2 * 3
    expected = (z.T @ z + prior * np.eye(3)) / (600 + prior)
    np.testing.assert_allclose(found.covariance, expected)


def test_gaps_are_marginalised_in_learning(table):
    codes = table.codes.copy()
    rng = np.random.default_rng(1)
    codes[rng.random(codes.shape) < 0.3] = 255
    whole, part = learn_copula(table), learn_copula(Table(codes, table.domains))
    np.testing.assert_allclose(part.covariance, whole.covariance, atol=0.08)
    # Zeros in place of what is missing would take a third off.
    assert part.covariance[0, 1] > 0.9 * whole.covariance[0, 1]


def test_kernels_are_regressions_row_by_row(table):
    """A naive twin: covariances of what is seen and what is not, by numpy."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T + np.eye(5)
    z = rng.normal(size=(40, 5))
    z[rng.random(z.shape) < 0.4] = np.nan
    z[0], z[1] = np.nan, 0.5
    weights = rng.uniform(0, 2, 40)
    expected, asked = np.zeros((5, 5)), np.array([0, 3])
    means, spreads = np.empty((40, 2)), np.empty((40, 2))

    def given(line, seen, wanted):
        across = covariance[np.ix_(seen, wanted)]
        slope = np.linalg.solve(covariance[np.ix_(seen, seen)], across)
        return slope.T @ line[seen], covariance[np.ix_(wanted, wanted)] - across.T @ slope

    for row, line in enumerate(z):
        seen = np.flatnonzero(~np.isnan(line))
        gone = np.setdiff1d(np.arange(5), seen)
        filled = line.copy()
        filled[gone], left = given(line, seen, gone)
        expected += weights[row] * np.outer(filled, filled)
        expected[np.ix_(gone, gone)] += weights[row] * left
        for q, t in enumerate(asked):
            mean, left = given(line, np.setdiff1d(seen, [t]), np.array([t]))
            means[row, q], spreads[row, q] = mean[0], np.sqrt(left[0, 0])
    total = np.zeros((5, 5))
    expected_products(z, weights, np.linalg.inv(covariance), total)
    np.testing.assert_allclose(total, expected, atol=1e-9)
    found = np.empty((40, 2)), np.empty((40, 2))
    predicted_scores(z, np.linalg.inv(covariance), asked, *found)
    np.testing.assert_allclose(found[0], means, atol=1e-10)
    np.testing.assert_allclose(found[1], spreads, atol=1e-10)


def test_probabilities_of_cells_are_integrals_of_the_conditional_density(table):
    model = learn_copula(table)
    row = table.codes[:1].copy()
    row[0, 3] = 255
    given = scores(table.domains, model.columns, row)[0, 0]
    found = model.proba(row, [1])[1][0]
    grid = table.domains[1].grid
    edges = norm.ppf(np.cumsum(grid.mass)[:-1])
    # By brute force: the joint density of both scores on a fine grid of the one asked about.
    fine = np.linspace(-9, 9, 200_001)
    joint = multivariate_normal(cov=model.covariance[:2, :2])
    density = joint.pdf(np.column_stack([np.full(len(fine), given), fine]))
    cell = np.searchsorted(edges, fine)
    expected = np.bincount(cell, density, minlength=grid.n_cells)
    expected = 0.999 * expected / expected.sum() + 0.001 * grid.mass
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found.sum() == pytest.approx(1.0)


def test_nothing_known_gives_the_column_itself_and_the_own_cell_is_not_looked_at(table):
    model = learn_copula(table)
    blank = np.full((1, 4), 255, dtype=np.uint8)
    own = model.proba(blank, [0])[0][0]
    spread = np.sqrt(model.covariance[0, 0])
    below = norm.cdf(norm.ppf(np.cumsum(table.domains[0].grid.mass)[:-1]) / spread)
    np.testing.assert_allclose(np.cumsum(own)[:-1], below, atol=2e-3)
    rows = table.codes[:20]
    hidden = rows.copy()
    hidden[:, 1] = 255
    np.testing.assert_array_equal(model.proba(rows, [1])[1], model.proba(hidden, [1])[1])


def test_weights_are_repeated_rows(table):
    weights = np.random.default_rng(0).integers(0, 3, 600)
    repeated = table.take(np.repeat(np.arange(600), weights))
    np.testing.assert_allclose(
        learn_copula(table.with_weights(weights.astype(float))).covariance,
        learn_copula(repeated).covariance,
    )


def test_what_has_no_numbers_or_no_covariance_is_refused(table):
    assert learn_copula(Table(table.codes[:, 2:], Domains(table.domains[2:]))) is None
    two = np.array([0, 1])
    for columns, covariance in (
        (np.array([0, 2]), np.eye(2)),
        (np.array([0, 9]), np.eye(2)),
        (two, np.eye(3)),
        (two, np.array([[1.0, 2.0], [2.0, 1.0]])),
        (two, np.full((2, 2), np.nan)),
    ):
        with pytest.raises(ValueError):
            NormalScores(table.domains, columns, covariance)
    with pytest.raises(DataError, match="no numbers"):
        scores(table.domains, np.array([2]), table.codes)


def test_draws_have_the_moments_of_the_conditional():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 4))
    covariance = root @ root.T + 0.1 * np.eye(4)
    line = np.array([np.nan, 0.7, np.nan, -1.2])
    gone, there = [0, 2], [1, 3]
    solved = np.linalg.solve(covariance[np.ix_(there, there)], covariance[np.ix_(there, gone)])
    mean = line[there] @ solved
    spread = covariance[np.ix_(gone, gone)] - covariance[np.ix_(gone, there)] @ solved
    z = np.tile(line, (40_000, 1))
    draw_scores(z, np.linalg.inv(covariance), rng.standard_normal(z.shape))
    assert (z[:, there] == line[there]).all()
    np.testing.assert_allclose(z[:, gone].mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(z[:, gone].T), spread, rtol=0.03, atol=0.05)
    everything = np.full((40_000, 4), np.nan)
    draw_scores(everything, np.linalg.inv(covariance), rng.standard_normal(z.shape))
    np.testing.assert_allclose(np.cov(everything.T), covariance, rtol=0.05, atol=0.1)


def test_gaps_of_numbers_are_filled_by_what_others_say(table):
    rng = np.random.default_rng(0)
    codes = table.codes.copy()
    codes[rng.random(codes.shape) < 0.4] = 255
    gone = codes == 255
    filled = learn_copula(table.take(np.arange(600))).fill(codes, rng)
    assert (filled[~gone] == codes[~gone]).all()
    assert (filled[:, 2] == codes[:, 2]).all()  # labels are none of its business
    sizes = table.sizes[[0, 1, 3]]
    assert (filled[:, [0, 1, 3]] < sizes).all()
    alone = gone[:, 1] & ~gone[:, 0]
    near = np.abs(filled[alone, 1].astype(int) - table.codes[alone, 1])
    far = np.abs(rng.permutation(table.codes[alone, 1]).astype(int) - table.codes[alone, 1])
    assert near.mean() < 0.8 * far.mean()


def test_only_the_columns_asked_for(table):
    assert learn_copula(table, columns=np.array([0, 3])).columns.tolist() == [0, 3]
    assert learn_copula(table, columns=np.array([3])) is None
