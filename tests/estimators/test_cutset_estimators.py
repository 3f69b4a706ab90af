import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.small import two_kinds

from bayescut import CNetBD, CNetBIC
from bayescut.exceptions import DataError

LEARNERS = [CNetBD, CNetBIC]


@parametrize_with_checks(
    [CNetBD(n_jobs=1), CNetBIC(n_jobs=1)],
)
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    return two_kinds()


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_a_fitted_estimator_carries(learner, X):
    model = learner().fit(X)
    assert model.n_features_in_ == 6
    assert model.n_parameters_ == model.circuit_.n_parameters
    assert model.structure_score_ < 0
    scores = model.score_samples(X)
    assert scores.shape == (400,) and scores.dtype == np.float64
    assert isinstance(model.score(X), float)
    assert model.score(X) == pytest.approx(scores.mean())
    worlds = np.array(list(np.ndindex(*[2] * 6)))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("learner", LEARNERS)
def test_missing_cells_are_marginalised(learner, X):
    model = learner().fit(X)
    partial = np.array([[np.nan, 1, 0, np.nan, 1, 1]])
    worlds = np.array([[a, 1, 0, b, 1, 1] for a in (0, 1) for b in (0, 1)])
    expected = np.log(np.exp(model.score_samples(worlds)).sum())
    assert model.score_samples(partial)[0] == pytest.approx(expected)
    assert model.score_samples(np.full((1, 6), np.nan))[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("learner", LEARNERS)
def test_equal_models_from_any_kind_of_codes(learner, X):
    expected = learner().fit(X).score_samples(X)
    for table in (
        X.astype(bool),
        X.astype(np.int64),
        X.astype(float),
        X.tolist(),
        np.asfortranarray(X),
    ):
        np.testing.assert_array_equal(learner().fit(table).score_samples(table), expected)


@pytest.mark.parametrize("learner", LEARNERS)
def test_weights(learner, X):
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    twice = learner().fit(np.repeat(X, weights, axis=0))
    weighted = learner().fit(X, sample_weight=weights)
    assert weighted.structure_score_ == twice.structure_score_
    np.testing.assert_array_equal(weighted.score_samples(X), twice.score_samples(X))
    fractional = learner().fit(X, sample_weight=weights + 1e-9)
    np.testing.assert_allclose(
        fractional.score_samples(X), twice.score_samples(X), rtol=1e-5, atol=1e-5
    )


def test_threads_and_clones_do_not_change_the_result(X):
    model = CNetBD(ess=0.3, n_candidates=4, n_jobs=1).fit(X)
    other = clone(model).set_params(n_jobs=2).fit(X)
    assert other.ess == 0.3 and other.n_candidates == 4
    np.testing.assert_array_equal(model.score_samples(X), other.score_samples(X))


def test_models_survive_pickle(X):
    model = CNetBD().fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert again.structure_score_ == model.structure_score_
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_samples(X):
    model = CNetBD().fit(X)
    draws = model.sample(4000, random_state=0)
    assert draws.shape == (4000, 6)
    np.testing.assert_allclose(draws.mean(axis=0), X.mean(axis=0), atol=0.04)
    np.testing.assert_array_equal(draws, model.sample(4000, random_state=0))
    assert not np.array_equal(model.sample(50), model.sample(50))
    given = model.sample(3, evidence={0: 1, 3: 0}, random_state=0)
    assert given.shape == (3, 6) and (given[:, 0] == 1).all() and (given[:, 3] == 0).all()
    rows = np.array([[np.nan] * 5 + [1], [0] + [np.nan] * 5])
    both = model.sample(2, evidence=rows, random_state=0)
    assert (both[:2, 5] == 1).all() and (both[2:, 0] == 0).all()


def test_verbose_shows_progress(X, capfd):
    CNetBD(verbose=1).fit(X)
    assert "CNetBD" in capfd.readouterr().err
    CNetBD().fit(X)
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.array([[0.0, np.inf], [1, 0]]), "inf"),
        (np.array([[0, -1], [1, 0]]), "-1"),
        (np.array([[0, "a"], [1, 0]], dtype=object), "'a'"),
        (np.array([["0", "1"]]), "DataFrame"),
        (np.array([[0.5, np.inf]]), "inf"),
        (np.empty((0, 3), np.uint8), "0 sample"),
        (np.empty((3, 0), np.uint8), "0 feature"),
        (np.zeros(4, np.uint8), "2D"),
    ],
)
@pytest.mark.parametrize("learner", LEARNERS)
def test_bad_tables(learner, table, message):
    with pytest.raises(ValueError, match=message):
        learner().fit(table)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "table",
    [
        np.ones((1, 4), np.uint8),
        np.array([[0], [1], [1]]),
        np.zeros((5, 3), np.uint8),
        np.full((6, 3), 2),
    ],
    ids=["one row", "one column", "all zero", "all two"],
)
def test_small_and_constant_tables_are_learned(learner, table):
    model = learner().fit(table)
    states = [max(2, k + 1) for k in np.asarray(table).max(axis=0)]
    worlds = np.array(list(np.ndindex(*states)))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    assert model.score_samples(table[-1:])[0] == model.score_samples(worlds).max()


@pytest.mark.parametrize("learner", LEARNERS)
def test_bad_rows_at_query_time(learner, X):
    model = learner().fit(X)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6"):
        model.score_samples(X[:, :5])
    with pytest.raises(DataError, match="2"):
        model.score_samples(np.array([[0, 0, 0, 0, 0, 2]]))
    with pytest.raises(NotFittedError):
        learner().score_samples(X)
    with pytest.raises(DataError, match="no value"):
        model.sample(1, evidence={0: 5})
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-1.0, "negative"),
        (np.nan, "finite"),
        (np.inf, "finite"),
        (0.0, "zero"),
        ("short", "one weight per row"),
        ("text", "numbers"),
    ],
)
def test_bad_weights(X, weights, message):
    if weights == "short":
        weights = np.ones(3)
    elif weights == "text":
        weights = ["heavy"] * len(X)
    elif weights != 0.0:
        weights = np.r_[weights, np.ones(len(X) - 1)]
    else:
        weights = np.zeros(len(X))
    with pytest.raises(DataError, match=message):
        CNetBD().fit(X, sample_weight=weights)


@pytest.mark.parametrize(
    "model",
    [
        CNetBD(ess=0),
        CNetBD(ess=-1),
        CNetBD(ess="1"),
        CNetBIC(beta=-0.1),
        CNetBD(n_candidates=0),
        CNetBIC(n_candidates=1.5),
        CNetBD(n_jobs=0),
    ],
    ids=repr,
)
def test_bad_settings(model, X):
    with pytest.raises(ValueError, match="must be"):
        model.fit(X)


def test_no_smoothing_at_all(X):
    model = CNetBIC(beta=0).fit(X)
    # Tables are those of largest likelihood, less the price of their parameters.
    price = 0.5 * np.log(len(X)) * model.n_parameters_
    total = model.score_samples(X).sum()
    assert model.structure_score_ == pytest.approx(total - price, rel=1e-12)
    assert total > CNetBIC(beta=1.0).fit(X).score_samples(X).sum()
