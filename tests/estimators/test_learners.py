"""What holds for every learner of the literature, with held-out rows or without."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.small import CUTSETS, LEARNERS, SPNS, WORLDS, make_table

from bayescut import DCSN, CNet, XCNet
from bayescut.estimators import IDSPN, EiNet, LearnSPN, Strudel
from bayescut.files import dumps, loads


@parametrize_with_checks(
    [
        CNet(n_jobs=1),
        XCNet(n_jobs=1),
        DCSN(n_jobs=1),
        LearnSPN(0.4, 10.0, 1.0, n_restarts=1, n_jobs=1, random_state=0),
        Strudel(max_splits=3, criterion="bd", n_jobs=1),
        IDSPN(2, n_init=1, max_extensions=1, width=1, cuts=False, max_iter=0, n_jobs=1),
        EiNet(
            2, n_trees=2, depth=1, max_epochs=3, validation_fraction=0, dtype="float64", n_jobs=1,
            random_state=0,
        ),
    ]
)  # fmt: skip
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    return make_table(0, 300)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_distribution_with_its_marginals(name, X):
    model = LEARNERS[name]().fit(X)
    assert model.n_parameters_ == model.circuit_.n_parameters
    assert np.exp(model.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    partial = np.array([[np.nan, 1, 0, np.nan, 1, 1]])
    worlds = np.array([[a, 1, 0, b, 1, 1] for a in (0, 1) for b in (0, 1)])
    expected = np.logaddexp.reduce(model.score_samples(worlds))
    assert model.score_samples(partial)[0] == pytest.approx(expected)
    properties = model.circuit_.properties
    assert properties.smooth and properties.decomposable
    assert properties.deterministic == (name in (*CUTSETS, "Strudel", "Strudel-bd"))
    assert properties.structured_decomposable >= name.startswith("Strudel")
    # Better than independence by far.
    p = (X.mean(axis=0) * len(X) + 1) / (len(X) + 2)
    independent = np.log(np.where(X == 1, p, 1 - p)).sum(axis=1).mean()
    assert model.score(X) > independent + 0.2


@pytest.mark.parametrize("name", LEARNERS)
def test_columns_of_several_states(name):
    rng = np.random.default_rng(1)
    X = rng.integers(0, [3, 2, 4, 3, 2], size=(200, 5))
    X[:, 2] = (X[:, 0] + X[:, 3] + (rng.random(200) < 0.1)) % 4
    worlds = np.array(list(np.ndindex(3, 2, 5, 3, 2)))
    for more in [{"alpha": 0.0}, {"alpha": 0.1}] if name == "EiNet" else [{}]:
        model = LEARNERS[name](n_states=[3, 2, 5, 3, 2], **more).fit(X)  # one state is never seen
        values = model.score_samples(worlds)
        assert np.exp(values).sum() == pytest.approx(1.0)
        assert np.isfinite(values).all() or name in CUTSETS
        assert name not in CUTSETS or model.n_cuts_ > 0


@pytest.mark.parametrize("name", LEARNERS)
def test_weights(name, X):
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    twice = LEARNERS[name]().fit(np.repeat(X, weights, axis=0))
    weighted = LEARNERS[name]().fit(X, sample_weight=weights)
    np.testing.assert_allclose(
        weighted.score_samples(WORLDS), twice.score_samples(WORLDS), rtol=1e-9
    )
    if name in CUTSETS:
        assert weighted.structure_score_ == twice.structure_score_
    fractional = LEARNERS[name]().fit(X, sample_weight=weights * 0.5)
    assert np.exp(fractional.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    assert fractional.score(X) != weighted.score(X)


@pytest.mark.parametrize("name", LEARNERS)
def test_threads_clones_pickles_and_files_do_not_change_the_result(name, X):
    model = LEARNERS[name](n_jobs=1).fit(X)
    expected = model.score_samples(X)
    other = clone(model).set_params(n_jobs=2).fit(X)
    np.testing.assert_array_equal(other.score_samples(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(X), expected)
    back = loads(dumps(model))
    assert type(back) is type(model) and back.get_params() == model.get_params()
    for attribute in model._state_names:
        assert repr(getattr(back, attribute)) == repr(getattr(model, attribute))
    np.testing.assert_array_equal(back.score_samples(X), expected)


@pytest.mark.parametrize("name", [*CUTSETS, *SPNS])
def test_frames_with_a_column_of_one_label(name):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    colour = rng.choice(["red", "green", "blue"], 120)
    frame = pandas.DataFrame({
        "colour": colour, "always": "yes", "warm": np.where(colour == "red", "warm", "cold"),
        "size": rng.choice(["s", "m"], 120),
    })  # fmt: skip
    model = LEARNERS[name]().fit(frame)
    rows = pandas.DataFrame({
        "colour": ["red", "blue", None], "always": "yes", "warm": ["warm", "warm", "warm"],
        "size": [None, None, None],
    })  # fmt: skip
    hot, odd, either = model.score_samples(rows)
    assert hot > odd and either >= np.logaddexp(hot, odd) - 1e-9
    assert set(model.sample(5, random_state=0)["always"]) == {"yes"}


@pytest.mark.parametrize(
    "table",
    [np.ones((2, 3), np.uint8), np.array([[0], [1], [1]]), np.zeros((6, 3), np.uint8)],
    ids=["two rows", "one column", "all zero"],
)
@pytest.mark.parametrize("name", LEARNERS)
def test_small_and_constant_tables_are_learned(name, table):
    model = LEARNERS[name]().fit(table)
    worlds = np.array(list(np.ndindex(*[2] * table.shape[1])))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["LearnSPN", "Strudel", "EiNet"])
def test_bad_validation_rows(name, X):
    with pytest.raises(ValueError, match=r"columns|features"):
        LEARNERS[name]().fit(X, X_valid=X[:, :5])
    with pytest.raises(ValueError):
        LEARNERS[name]().fit(X, X_valid=np.full((3, 6), np.nan))
    with pytest.raises(ValueError, match="n_samples=1"):
        LEARNERS[name]().fit(X[:1])
