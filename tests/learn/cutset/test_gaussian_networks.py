"""Networks whose leaves may be Gaussian: chosen by the score, exact in every query."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

import bayescut as bc
from bayescut._typing import FloatArray
from bayescut.circuit._kinds import NORMAL
from bayescut.data import encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.estimators._answers import Given, log_density
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.leaves.leaf import NormalLeaf
from bayescut.learn.leaves.normal import (
    LEAST_STEPS,
    Moments,
    NormalLeaves,
    redraw,
    with_numbers,
)
from bayescut.learn.leaves.spare import spare_weight
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior


def frame(n=900, seed=0, step=3):
    """A label, and two numbers: an ellipse that it turns, or a ring of few places."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["left", "ring", "right"], n, p=[0.4, 0.3, 0.3])
    a = rng.normal(0, 2, n)
    b = np.where(kind == "left", a, -a) + rng.normal(0, 0.3, n)
    place = rng.integers(0, 3, n)
    ring = kind == "ring"
    a[ring] = 10 + np.array([0.0, 4.0, 8.0])[place[ring]] + rng.uniform(0, 0.5, ring.sum())
    b[ring] = 10 + np.array([4.0, 0.0, 4.0])[place[ring]] + rng.uniform(0, 0.5, ring.sum())
    return pd.DataFrame({"kind": kind, "a": a.round(step), "b": b.round(step)})


def table(X, weights=None):
    domains = learn_domains(X, numbers=True)
    codes, values = encode_table(X, domains, allow_missing=True)
    return Table(codes, domains, weights, values)


def n_normals(model):
    return int(np.count_nonzero(model.circuit_.kind == NORMAL))


def test_the_score_of_a_leaf_is_that_of_its_regressions() -> None:
    whole = table(frame())
    normals = NormalLeaves.of(whole, StructurePrior())
    assert normals is not None
    assert_array_equal(normals.columns, [1, 2])
    rows = np.flatnonzero(whole.codes[:, 0] == 0).astype(np.int32)
    leaf, score = normals.fit(whole, rows, np.array([1, 2]), 3)
    x = whole.values[rows][:, [1, 2]]
    scatter = len(x) * np.cov(x.T, bias=True)
    scatter += np.diag(len(x) * (LEAST_STEPS * normals.steps) ** 2)
    family = normals.before.of_network(len(x), x.mean(axis=0), scatter, [[], [0]])
    inside = sum(whole.domains[j].grid.log_inside(whole.values[rows, j]).sum() for j in (1, 2))
    assert score == pytest.approx(family - np.log(3) - inside)
    # The line b = a, and what is left of b given a.
    assert leaf.coefficients[1, 0] == pytest.approx(1.0, abs=0.05)
    assert leaf.deviation[1] == pytest.approx(0.3, abs=0.1)


def test_a_leaf_of_one_number_of_several_has_its_part_of_the_prior() -> None:
    X = frame()
    X["c"] = X["a"] + X["b"]
    whole = table(X)
    normals = NormalLeaves.of(whole, StructurePrior())
    rows = np.arange(50, dtype=np.int32)
    leaf, score = normals.fit(whole, rows, np.array([1, 3]), 4)
    few = NormalLeaves.of(table(X[["kind", "a", "c"]]), StructurePrior())
    other, same = few.fit(table(X[["kind", "a", "c"]]), rows, np.array([1, 2]), 4)
    assert score == pytest.approx(same)
    assert_allclose(leaf.deviation, other.deviation)
    assert_array_equal(leaf.columns, [1, 3])


def test_moments_of_parts() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(5, 2, (500, 3)), rng.random(500)
    whole = Moments.of(x, weights)
    parts = [Moments.of(x[i : i + 70], weights[i : i + 70]) for i in range(0, 500, 70)]
    for one, other in zip(whole, Moments.joined(parts), strict=True):
        assert_allclose(one, other)
    assert_allclose(whole.mean, np.average(x, axis=0, weights=weights))
    assert_allclose(whole.scatter, whole.n * np.cov(x.T, aweights=weights, bias=True))


def test_weights_are_repeated_rows() -> None:
    X = frame(300)
    weights = np.ones(300)
    weights[:100] = 2.0
    rows = np.arange(300, dtype=np.int32)
    once = table(X, weights)
    twice = table(pd.concat([X, X[:100]]))
    normals = NormalLeaves.of(once, StructurePrior())
    leaf, score = normals.fit(once, rows, np.array([1, 2]), 3)
    every = np.arange(400, dtype=np.int32)
    repeated = NormalLeaves.of(twice, StructurePrior())
    other, same = repeated.fit(twice, every, np.array([1, 2]), 3)
    assert_allclose(leaf.deviation, other.deviation, rtol=1e-9)
    # Cells are those of either table, densities and the score of numbers are alike.
    assert score + once.weights @ once.log_inside == pytest.approx(same + twice.log_inside.sum())


def test_networks_take_a_weight_for_rows_given_so_many_times() -> None:
    X = frame(800)
    weights = np.random.default_rng(5).integers(0, 3, 800)
    X.loc[weights == 0, "a"] = 1e6  # a row of no weight teaches nothing
    once = bc.CutsetNetwork(n_jobs=1).fit(X, sample_weight=weights)
    again = bc.CutsetNetwork(n_jobs=1).fit(X.loc[X.index.repeat(weights)])
    assert n_normals(once) > 0
    assert once.structure_score_ == pytest.approx(again.structure_score_)
    fresh = frame(200, seed=1)
    assert_allclose(once.score_samples(fresh), again.score_samples(fresh))
    far = pd.DataFrame({"kind": ["left", "ring"], "a": [50.0, -50.0], "b": [-50.0, 80.0]})
    assert_allclose(once.score_samples(far), again.score_samples(far))


def test_each_leaf_is_of_the_kind_that_its_rows_prefer() -> None:
    X = frame()
    model = bc.CutsetNetwork().fit(X)
    plain = bc.CutsetNetwork(gaussian=False).fit(X)
    assert n_normals(plain) == 0
    assert 1 <= n_normals(model)
    assert model.structure_score_ > plain.structure_score_
    fresh = frame(seed=1)
    assert model.score(fresh) > plain.score(fresh) + 0.05
    # The ring is no Gaussian: a leaf for it has cells.
    whole = table(X)
    learner = NetworkLearner(BayesDirichlet(1.0, divide=False), StructurePrior(), gaussian=True)
    root = learner.learn(whole)
    rings = [k for k, label in enumerate(whole.domains[0].labels) if label == "ring"]
    for node in root.walk():
        if isinstance(node.leaf, NormalLeaf):
            assert not set(node.states.get(0, np.arange(0))) & set(rings)


def test_a_number_that_was_cut_on_is_not_gaussian_below() -> None:
    whole = table(frame(2000))
    learner = NetworkLearner(BayesDirichlet(1.0, divide=False), StructurePrior(), gaussian=True)
    stack = [(learner.learn(whole), frozenset())]
    while stack:
        node, cut = stack.pop()
        if isinstance(node.leaf, NormalLeaf):
            assert not cut & set(node.leaf.columns.tolist())
        own = cut if node.cut is None else cut | {node.cut}
        stack.extend((child, own) for child in node.children)


def test_labels_alone_are_learned_as_ever() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (500, 6))
    X[:, 1] = (X[:, 0] + (rng.random(500) < 0.2)) % 4
    models = [bc.CutsetNetwork(gaussian=gaussian).fit(X) for gaussian in (False, True)]
    assert models[0].structure_score_ == models[1].structure_score_
    assert_array_equal(models[0].score_samples(X), models[1].score_samples(X))


def test_density_sums_to_one() -> None:
    model = bc.CutsetNetwork().fit(frame(step=1))
    assert n_normals(model) > 0
    steps = np.arange(-120, 301) / 10
    a, b = np.meshgrid(steps, steps)
    total = 0.0
    for kind in ("left", "ring", "right"):
        rows = pd.DataFrame({"kind": kind, "a": a.ravel(), "b": b.ravel()})
        total += np.exp(model.score_samples(rows)).sum() * 0.01
    assert total == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("known", [{}, {"kind": "left"}, {"a": 1.5}, {"b": 10.2}, {"a": 14.1}])
def test_most_probable_rows_are_those_of_a_search(known) -> None:
    model = bc.CutsetNetwork().fit(frame(step=1))
    assert n_normals(model) > 0
    steps = np.arange(-120, 301) / 10
    kinds, a, b = np.meshgrid(["left", "ring", "right"], steps, steps, indexing="ij")
    rows = pd.DataFrame({"kind": kinds.ravel(), "a": a.ravel(), "b": b.ravel()})
    for column, value in known.items():
        same = rows[column] == value if column == "kind" else np.isclose(rows[column], value)
        rows = rows[same]
    best = model.score_samples(rows).max()
    row, value = model.mpe(known, return_log_likelihood=True)
    assert float(value[0]) == pytest.approx(best, abs=0.02)
    assert float(model.score_samples(row)[0]) == pytest.approx(best, abs=0.02)


def test_numbers_are_drawn_given_the_rest_of_their_rows() -> None:
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.8, 0.3], [0.8, 2.0, -0.4], [0.3, -0.4, 1.5]])
    low = np.linalg.cholesky(covariance)
    deviation = np.diag(low).copy()
    inverse = np.linalg.inv(low / deviation)
    leaf = NormalLeaf(np.arange(3), np.array([1.0, -2.0, 0.5]), np.eye(3) - inverse, deviation)
    x = leaf.mean + rng.normal(size=(100_000, 3)) @ low.T
    before = x.copy()
    drawn = np.zeros(x.shape, dtype=bool)
    drawn[:50_000, 1] = True
    redraw(x, drawn, leaf, rng)
    assert_array_equal(x[~drawn], before[~drawn])
    given = covariance[1, [0, 2]] @ np.linalg.inv(covariance[np.ix_([0, 2], [0, 2])])
    centre = leaf.mean[1] + (x[:, [0, 2]] - leaf.mean[[0, 2]]) @ given
    spread = np.sqrt(covariance[1, 1] - given @ covariance[[0, 2], 1])
    assert stats.kstest((x[:50_000, 1] - centre[:50_000]) / spread, "norm").pvalue > 1e-3


def test_gaps_are_drawn() -> None:
    X = frame(1500)
    rng = np.random.default_rng(3)
    holes = X.copy()
    for column in ("a", "b"):
        holes.loc[rng.random(len(X)) < 0.1, column] = None
    model = bc.CutsetNetwork().fit(holes)
    fresh = frame(seed=1)
    whole = bc.CutsetNetwork().fit(X)
    assert n_normals(model) > 0
    assert model.score(fresh) > whole.score(fresh) - 0.25
    incomplete = table(holes)
    codes = np.where(incomplete.observed, incomplete.codes, 0).astype(np.uint8)
    filled = with_numbers(replace(incomplete, codes=codes), np.array([1]), rng)
    assert np.isnan(filled.values[:, 2]).any() and not np.isnan(filled.values[:, 1]).any()
    there = holes["a"].notna().to_numpy()
    assert_array_equal(filled.values[there, 1], holes["a"][there])


def test_files_threads_and_columns_set_apart(tmp_path) -> None:
    X = frame(600)
    X.insert(1, "name", [f"n{i}" for i in range(len(X))])
    with pytest.warns(bc.exceptions.IdentifierWarning):
        model = bc.CutsetNetwork(n_jobs=1, unseen="missing").fit(X)
    with pytest.warns(bc.exceptions.IdentifierWarning):
        other = bc.CutsetNetwork(n_jobs=2, unseen="missing").fit(X)
    assert n_normals(model) > 0
    assert_array_equal(model.score_samples(X), other.score_samples(X))
    bc.save(model, tmp_path / "m.bcut")
    again = bc.load(tmp_path / "m.bcut")
    assert again.gaussian is True
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert again.circuit_.properties.decomposable and again.circuit_.has_normals


def ellipses(n=900, seed=0):
    """Three ellipses that a label tells nearly apart."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 3, n)
    a = np.array([-6.0, 0.0, 5.0])[which] + rng.normal(0, 1, n)
    b = np.array([0.9, -0.8, 0.2])[which] * a + rng.normal(0, 0.2, n)
    label = np.where(rng.random(n) < 0.9, which, rng.integers(0, 3, n))
    return pd.DataFrame({"a": a.round(2), "label": label.astype(str), "b": b.round(2)})


def test_mixtures_take_gaussians_where_held_out_rows_say_so(tmp_path) -> None:
    X, fresh = ellipses(), ellipses(seed=1)
    model = bc.CutsetMixture(3, random_state=0).fit(X)
    cells = bc.CutsetMixture(3, gaussian=False, random_state=0).fit(X)
    assert model.circuit_.has_normals and not cells.circuit_.has_normals
    assert model.score(fresh) > cells.score(fresh) + 0.2
    shares = model.predict_proba(fresh)
    assert_allclose(shares.sum(axis=1), 1.0)
    # Responsibilities are those of the numbers, not of their cells.
    circuit = model.circuit_
    children = circuit.child[circuit.child_ptr[circuit.root] :]
    logs = circuit.node_log_likelihood(model._table(fresh[:5]).evidence, children)
    logs += np.log(model.weights_)
    expected = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
    assert_allclose(shares[:5], expected, atol=1e-9)
    holes = X.copy()
    holes.loc[::5, "a"] = None
    either, cells = (
        bc.CutsetMixture(3, gaussian=gaussian, random_state=0).fit(holes)
        for gaussian in (True, False)
    )
    assert either.score(fresh) > cells.score(fresh) - 0.15
    both = bc.CutsetMixture([2, 3], random_state=0).fit(X, X_valid=fresh)
    assert both.circuit_.has_normals and set(both.validation_scores_) == {2, 3}
    path = tmp_path / "m.bcut"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = bc.CutsetMixture(3, max_iter=2, checkpoint=path, random_state=0).fit(X)
        second = bc.CutsetMixture(3, max_iter=4, checkpoint=path, random_state=0).fit(X)
    assert second.circuit_.has_normals and second.lower_bound_ >= first.lower_bound_


def test_mixtures_of_cells_where_nothing_is_smooth_or_rows_are_few() -> None:
    rng = np.random.default_rng(0)
    coarse = pd.DataFrame({"x": rng.integers(0, 5, 300) * 1.5, "y": rng.integers(0, 4, 300) * 2.5})
    assert not bc.CutsetMixture(2, random_state=0).fit(coarse).circuit_.has_normals
    assert not bc.CutsetMixture(2, random_state=0).fit(ellipses(40)).circuit_.has_normals
    assert not bc.EMCNetBD(2, random_state=0).fit(ellipses(300)).circuit_.has_normals


def test_a_wrong_number_does_not_cost_all_there_is() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    table = pd.DataFrame({"x": x, "y": x + 0.1 * rng.normal(size=800)}).round(3)
    model = bc.CutsetNetwork(n_jobs=1).fit(table)
    assert model.circuit_.has_normals
    odd = pd.DataFrame({"x": [0.0, 50.0], "y": [30.0, -50.0]})
    # The columns by themselves, with a probability of 1 / (n + 2).
    assert (model.score_samples(odd) > -60).all()
    assert np.isfinite(model.surprisal(odd)).to_numpy().all()
    discrete = bc.CutsetNetwork(n_jobs=1, gaussian=False).fit(table)
    assert discrete.circuit_.properties.deterministic


def test_components_of_mixtures_and_chains_have_the_columns_beside_them() -> None:
    X, far = ellipses(), pd.DataFrame({"a": [0.0, 90.0], "label": ["0", "1"], "b": [40.0, -90.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture = bc.CutsetMixture(3, max_iter=3, random_state=0).fit(X)
    raw, whole = mixture._learned, mixture.circuit_
    assert raw.has_normals and raw is not whole
    assert mixture.n_components_ == 3
    assert_allclose(mixture.weights_, np.exp(raw.log_weight[-3:]))

    def before(rows: pd.DataFrame) -> FloatArray:
        codes, values = encode_table(rows, raw.domains, allow_missing=True)
        return log_density(raw, Given(raw.domains, codes, values), 1)

    # All but a row in n + 2 is what was learned, and the rest is there for what is like nothing.
    kept = np.log1p(-spare_weight(len(X))) + before(X)
    assert (mixture.score_samples(X) > kept - 1e-3).all()
    assert_allclose(np.median(mixture.score_samples(X) - kept), 0.0, atol=0.01)
    assert (before(far) < -500).any()
    assert (mixture.score_samples(far) > -60).all()
    ensemble = bc.CutsetEnsemble(
        n_chains=1, n_bags=0, network=False, prior_scales=(), shared_widths=(1,), trees=False,
        random_state=0,
    ).fit(X)  # fmt: skip
    assert ensemble.recipe_weights_["gaussian"] > 0.9
    assert (ensemble.score_samples(far) > -60).all()
