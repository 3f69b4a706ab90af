"""Cells as fine as Gaussian leaves know their numbers."""

import numpy as np
import pytest

import bayescut as bc
from bayescut.circuit import Evidence, build
from bayescut.data import Domain, Domains, learn_grid
from bayescut.learn.leaves.sharpen import reach, sharpen


def mixed(correlation=0.99):
    """A Gaussian leaf beside cells that a decision tells apart, and a label."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 400).round(2)
    grids = [learn_grid(x, max_cells=4), learn_grid(x + 5, max_cells=4)]
    domains = Domains([Domain(None, grid.n_cells, grid=grid) for grid in grids] + [Domain(None, 2)])
    lines = [[0.0, 0.0], [correlation, 0.0]]
    leaf = build.normal([0, 1], [0.0, 5.0], lines, [1.0, np.sqrt(1 - correlation**2)])
    rows = rng.dirichlet(np.ones(4), 4)
    cells = build.decision(0, rows[0], *(build.categorical(1, row) for row in rows))
    both = build.weighted_sum([0.7, 0.3], leaf, cells)
    return build.circuit(build.product(both, build.categorical(2, [0.3, 0.7])), domains)


def log_density(circuit, x):
    """Of numbers and a label."""
    grids = [circuit.domains[j].grid for j in (0, 1)]
    codes = np.column_stack([g.codes(v) for g, v in zip(grids, x.T, strict=False)] + [x[:, 2]])
    value = circuit.log_likelihood(Evidence(codes.astype(np.int64), values=x))
    return value + sum(g.log_inside(v) for g, v in zip(grids, x.T, strict=False))


def test_likelihoods_stay_and_marginals_are_of_the_gaussian() -> None:
    coarse = mixed()
    fine = sharpen(coarse)
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.uniform(-2, 2, (200, 2)).round(2), rng.integers(0, 2, 200)])
    x[:, 1] += 5
    np.testing.assert_allclose(log_density(fine, x), log_density(coarse, x), rtol=0, atol=1e-9)
    assert fine.n_parameters == coarse.n_parameters
    # The other number, given one, lies where integrating the density says.
    places = np.arange(-6, 16, 0.01).round(2)
    rows = np.column_stack([np.full(len(places), 0.5), places, np.zeros(len(places))])
    density = np.exp(log_density(coarse, rows))
    wanted = density @ places / density.sum()
    grid = fine.domains[1].grid
    known = Evidence(
        [[int(fine.domains[0].grid.codes([0.5])[0]), -1, 0]], values=[[0.5, np.nan, np.nan]]
    )
    offset = fine.domains.offsets
    found = fine.marginals(known)[0, offset[1] : offset[2]]
    assert found @ grid.mean == pytest.approx(wanted, abs=0.02)


def test_deviations_are_those_given_all_others() -> None:
    found = reach(mixed(0.8))[0]
    np.testing.assert_allclose(found, [0.6, 0.6, np.inf])  # the root of 1 - 0.8²


def test_nothing_to_sharpen() -> None:
    labels = build.circuit(build.categorical(0, [0.4, 0.6]), [2])
    assert sharpen(labels) is labels
    fine = sharpen(mixed())
    assert sharpen(fine) is fine


def test_networks_predict_as_well_as_their_gaussian_leaves_know() -> None:
    """They answered in the few cells that learning had left: off by 0.17."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 300).round(3)
    table = np.column_stack([x, (x + rng.normal(0, 0.05, 300)).round(3)])
    model = bc.CutsetNetwork().fit(table[:200])
    assert model.circuit_.has_normals
    rest = table[200:]
    for method, most in (("median", 0.08), ("mean", 0.08), ("mode", 0.12)):
        found = model.predict(rest, target=1, method=method)
        assert np.sqrt(np.mean((found - rest[:, 1]) ** 2)) < most
    low, high = model.quantile(rest, target=1, q=[0.1, 0.9]).T
    assert (high - low).mean() < 0.25
    found = model.expectation({1: bc.between(0.2, 0.25)}, {0: "mean"})
    assert found[0, 0] == pytest.approx(0.22, abs=0.05)


def test_surprisal_is_the_ratio_of_likelihoods() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 300).round(3)
    table = np.column_stack([x, (x + rng.normal(0, 0.3, 300)).round(3), x > 0.5])
    model = bc.CutsetNetwork(columns={2: "label"}).fit(table)
    assert model.circuit_.has_normals
    table[:20, 0] = np.nan
    found = model.surprisal(table)
    whole = model.score_samples(table)
    for j in range(3):
        rest = table.copy()
        rest[:, j] = np.nan
        seen = ~np.isnan(table[:, j])
        wanted = (model.score_samples(rest) - whole)[seen]
        np.testing.assert_allclose(found[seen, j], wanted, atol=1e-9)
        assert np.isnan(found[~seen, j]).all()
