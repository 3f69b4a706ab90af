"""Components with Gaussian leaves, and ensembles with such chains."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import bayescut as bc
from bayescut.circuit import Evidence
from bayescut.data import encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.estimators._imputer import fill
from bayescut.estimators._outliers import standard_scores
from bayescut.learn.cells.percell import CellPredictor
from bayescut.learn.leaves.normal import LEAST_STEPS, smooth_columns
from bayescut.learn.mixture.em import StructuralEM, evidence_of
from bayescut.learn.mixture.gaussian import NormalLearner
from bayescut.learn.mixture.shared import SharedLearner
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior


def frame(n=600, seed=0):
    """Two groups of nearly collinear numbers, a label that tells them apart, a column of atoms."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    a = np.where(group, 3.0, -2.0) + rng.normal(0, 1, n)
    b = np.where(group, -a, 0.5 * a) + rng.normal(0, 0.1, n)
    c = a + b + rng.normal(0, 0.2, n)
    atoms = np.where(rng.random(n) < 0.6, 0.0, rng.exponential(10, n).round(1))
    label = np.where(rng.random(n) < 0.9, group, 1 - group)
    return pd.DataFrame(
        {
            "a": a.round(3), "b": b.round(3), "c": c.round(3), "atoms": atoms,
            "group": pd.Categorical(label.astype(str)),
        }
    )  # fmt: skip


def table(X):
    domains = learn_domains(X, numbers=True)
    codes, values = encode_table(X, domains, allow_missing=True)
    return Table(codes, domains, None, values)


def learner(columns=(0, 1, 2)):
    others = SharedLearner(BayesDirichlet(1.0, divide=False), StructurePrior(), 2)
    return NormalLearner(others, StructurePrior(), np.array(columns))


def test_columns_with_atoms_are_not_smooth() -> None:
    X = frame()
    X["few"] = np.arange(len(X)) % 9 * 1.5
    assert smooth_columns(table(X)).tolist() == [0, 1, 2]


def test_one_component_is_the_gaussian_of_its_rows() -> None:
    X = frame(4000)[["a", "b", "c"]]
    whole = table(X)
    rows = np.flatnonzero(X["a"] > 2).astype(np.int32)
    circuit = learner().for_components(whole).learn(whole, rows)
    x = X.to_numpy()
    found = circuit.log_likelihood(evidence_of(whole, circuit, rows)) + whole.log_inside[rows]
    best = stats.multivariate_normal(x[rows].mean(axis=0), np.cov(x[rows].T)).logpdf(x[rows])
    assert found.mean() == pytest.approx(best.mean(), abs=0.02)


def test_weights_are_repeated_rows() -> None:
    X = frame(200)
    twice = table(pd.concat([X, X[:50]]))
    weights = np.ones(200)
    weights[:50] = 2.0
    once = Table(twice.codes[:200], twice.domains, weights, twice.values[:200])
    x = Evidence(twice.codes[:30], values=twice.values[:30])
    found = [learner().for_components(t, 0).learn(t).log_likelihood(x) for t in (once, twice)]
    # K-means draws its first means from other rows; the prior it gives counts for four rows.
    assert_allclose(found[0], found[1], atol=0.1)


def test_numbers_are_known_no_better_than_recorded() -> None:
    X = frame(300)[["a", "b"]]
    X["twice"] = (2 * X["a"]).round(3)
    whole = table(X)
    circuit = learner().for_components(whole).learn(whole)
    density = circuit.log_likelihood(evidence_of(whole, circuit)) + whole.log_inside
    steps = [domain.grid.step for domain in whole.domains]
    assert np.isfinite(density).all()
    bound = -np.log(steps).sum() - 3 * np.log(LEAST_STEPS * np.sqrt(2 * np.pi))
    assert density.max() <= bound
    deviation = circuit.param[3:][[0, 2, 5]]
    assert deviation.min() == pytest.approx(LEAST_STEPS * steps[2])


def test_sampled_mixtures_find_the_groups() -> None:
    whole = table(frame(800))
    em = StructuralEM(learner(), whole, assignment="sampled", seed=0)
    labels = np.random.default_rng(0).integers(0, 2, 800)
    for step, iteration in enumerate(em.run(em.start(labels))):  # noqa: B007
        if step == 15:
            break
    new = table(frame(800, seed=1))
    fresh = Table(
        np.column_stack([whole.domains[j].grid.codes(new.values[:, j]) for j in range(4)]
                        + [new.codes[:, 4]]),
        whole.domains, None, new.values,
    )  # fmt: skip
    one = learner().for_components(whole).learn(whole)
    both, single = (
        np.mean(c.log_likelihood(evidence_of(fresh, c))) for c in (iteration.circuit, one)
    )
    assert both > single + 1.0


@pytest.fixture(scope="module")
def model():
    ensemble = bc.CutsetEnsemble(
        n_chains=5,
        n_bags=2,
        n_components=4,
        shared_widths=(1,),
        prior_scales=(),
        few_networks=False,
        random_state=0,
    )
    return ensemble.fit(frame())


def test_ensembles_weigh_gaussian_chains_by_unseen_rows(model) -> None:
    assert model.n_members_["gaussian"] >= 2
    assert model.recipe_weights_["gaussian"] > 0.5
    plain = bc.CutsetEnsemble(
        n_chains=5, n_bags=2, n_components=4, shared_widths=(1,), prior_scales=(), gaussian=False,
        few_networks=False, random_state=0,
    ).fit(frame())  # fmt: skip
    fresh = frame(seed=1)
    assert "gaussian" not in plain.n_members_
    assert model.score(fresh) > plain.score(fresh) + 0.5
    assert model.oob_score_ == pytest.approx(model.score(fresh), abs=0.4)


def test_every_query_of_such_an_ensemble(model, tmp_path) -> None:
    X = frame(50, seed=2)
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    assert np.isfinite(model.score_samples(holes)).all()
    for method in ("median", "mean", "mode", "sample", "mpe"):
        filled = model.impute(holes, method)
        assert not filled.isna().any().any()
    drawn = model.sample(3000, evidence={"a": bc.between(-1, 0)}, random_state=0)
    assert drawn["a"].between(-1, 0).all()
    # Below a = 0 all rows are of the first group.
    away = (drawn["b"] - 0.5 * drawn["a"]).abs()
    assert away.median() < 0.25
    spread = model.marginals({"a": -1.0})
    assert abs(spread["b", "mean"].iloc[0] + 0.5) < 0.15
    inside = model.conditional_log_likelihood({"b": bc.between(-1, 0)}, {"a": -1.0})
    assert np.exp(inside[0]) > 0.95
    both = model.marginals({"a": bc.between(-1, 0), "b": bc.between(-1, 0)})
    assert -1 <= both["a", "mean"].iloc[0] <= 0 and -1 <= both["b", "mean"].iloc[0] <= 0
    path = tmp_path / "model.bayescut"
    bc.save(model, path)
    assert_allclose(bc.load(path).score_samples(holes), model.score_samples(holes))


def test_jobs_of_such_an_ensemble(model) -> None:
    X = frame(60, seed=4)
    holes = X.mask(np.random.default_rng(1).random(X.shape) < 0.3)
    found = model.predict_proba(X, target="group")
    assert (found.argmax(axis=1) == X["group"].cat.codes).mean() > 0.75
    assert np.isfinite(model.surprisal(X)).all(axis=None)
    small = model.compress(model.n_parameters_ // 2, X)
    assert small.n_parameters_ <= model.n_parameters_ // 2
    assert small.score(X) > model.score(X) - 2
    assert model.compress(model.n_parameters_ // 2).score(X) > model.score(X) - 5
    given = model._table(holes)
    odd = standard_scores(model.circuit_, given.codes, given.values, seed=0, n_jobs=1)
    assert np.isfinite(odd).all()
    for method in ("median", "mpe", "sample"):
        rng = np.random.default_rng(0)
        cells = CellPredictor.of_circuit(model.circuit_)
        codes, values = fill(cells, given.codes, given.values, method, rng, 1)
        assert not np.isnan(values[:, :4]).any()
        for j in range(4):
            grid = model.domains_[j].grid
            assert np.array_equal(grid.codes(values[:, j]), codes[:, j]) or method == "median"


def test_gaps_are_drawn_for_every_member() -> None:
    X = frame(400)
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    settings = dict(n_chains=3, n_bags=1, n_components=3, shared_widths=(1,), prior_scales=())
    model = bc.CutsetEnsemble(**settings, random_state=0).fit(holes)
    fresh = frame(400, seed=3)
    assert model.score(fresh) > bc.CutsetNetwork().fit(holes).score(fresh)
    assert np.isfinite(model.oob_score_)
