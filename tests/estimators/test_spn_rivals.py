"""LearnSPN, Strudel and ID-SPN as estimators: what they learn, choose and refuse."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayescut.datasets import fetch_debd
from bayescut.estimators import IDSPN, LearnSPN, Strudel
from bayescut.files import dumps, loads

MODELS = {
    "LearnSPN": lambda **s: LearnSPN(**{"random_state": 0, "n_restarts": 2, "n_init": 1} | s),
    "Strudel": lambda **s: Strudel(**{"random_state": 0, "patience": 20} | s),
    "Strudel-bd": lambda **s: Strudel(**{"criterion": "bd"} | s),
    "Strudel-mixture": lambda **s: Strudel(
        **{"n_components": 3, "random_state": 0, "max_splits": 5, "max_iter": 5} | s
    ),
    "IDSPN": lambda **s: IDSPN(
        **{"max_clusters": 3, "n_init": 1, "random_state": 0, "min_columns": 2, "max_iter": 2} | s
    ),
}


@parametrize_with_checks(
    [
        LearnSPN(0.4, 10.0, 1.0, n_restarts=1, n_jobs=1, random_state=0),
        Strudel(max_splits=3, criterion="bd", n_jobs=1),
        IDSPN(2, n_init=1, max_extensions=1, width=1, cuts=False, max_iter=0, n_jobs=1),
    ],
)
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


def make_table(seed, n):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    X = (rng.random((n, 6)) < np.array([0.15, 0.5, 0.9])[hidden][:, None]).astype(np.uint8)
    X[hidden == 1, 3] = X[hidden == 1, 4]
    return X


@pytest.fixture(scope="module")
def X():
    return make_table(0, 300)


@pytest.fixture(scope="module")
def X_valid():
    return make_table(1, 150)


WORLDS = np.array(list(np.ndindex(*[2] * 6)))


@pytest.mark.parametrize("name", MODELS)
def test_a_distribution_with_its_marginals(name, X):
    model = MODELS[name]().fit(X)
    assert model.n_parameters_ == model.circuit_.n_parameters
    assert np.exp(model.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    partial = np.array([[np.nan, 1, 0, np.nan, 1, 1]])
    worlds = np.array([[a, 1, 0, b, 1, 1] for a in (0, 1) for b in (0, 1)])
    expected = np.logaddexp.reduce(model.score_samples(worlds))
    assert model.score_samples(partial)[0] == pytest.approx(expected)
    properties = model.circuit_.properties
    assert properties.smooth and properties.decomposable
    single = name in ("Strudel", "Strudel-bd")
    assert properties.deterministic == single
    assert properties.structured_decomposable >= name.startswith("Strudel")
    # Better than independence by far.
    p = (X.mean(axis=0) * len(X) + 1) / (len(X) + 2)
    independent = np.log(np.where(X == 1, p, 1 - p)).sum(axis=1).mean()
    assert model.score(X) > independent + 0.2


@pytest.mark.parametrize("name", MODELS)
def test_columns_of_several_states(name):
    rng = np.random.default_rng(1)
    X = rng.integers(0, [3, 2, 4, 3, 2], size=(200, 5))
    X[:, 2] = (X[:, 0] + X[:, 3] + (rng.random(200) < 0.1)) % 4
    model = MODELS[name](n_states=[3, 2, 5, 3, 2]).fit(X)  # one state is never seen
    worlds = np.array(list(np.ndindex(3, 2, 5, 3, 2)))
    values = model.score_samples(worlds)
    assert np.exp(values).sum() == pytest.approx(1.0) and np.isfinite(values).all()


@pytest.mark.parametrize("name", MODELS)
def test_weights(name, X):
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    twice = MODELS[name]().fit(np.repeat(X, weights, axis=0))
    weighted = MODELS[name]().fit(X, sample_weight=weights)
    np.testing.assert_allclose(
        weighted.score_samples(WORLDS), twice.score_samples(WORLDS), rtol=1e-9
    )
    fractional = MODELS[name]().fit(X, sample_weight=weights * 0.5)
    assert np.exp(fractional.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    assert fractional.score(X) != weighted.score(X)


@pytest.mark.parametrize("name", MODELS)
def test_threads_clones_pickles_and_files_do_not_change_the_result(name, X):
    model = MODELS[name](n_jobs=1).fit(X)
    expected = model.score_samples(X)
    other = clone(model).set_params(n_jobs=2).fit(X)
    np.testing.assert_array_equal(other.score_samples(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(X), expected)
    back = loads(dumps(model))
    assert type(back) is type(model) and back.get_params() == model.get_params()
    for attribute in model._state_names:
        assert repr(getattr(back, attribute)) == repr(getattr(model, attribute))
    np.testing.assert_array_equal(back.score_samples(X), expected)


def test_learnspn_starts_again_with_the_chosen_setting(X, X_valid):
    model = MODELS["LearnSPN"](n_init=3, alpha=[1.0, 0.5]).fit(X, X_valid=X_valid)
    tried = model.validation_scores_
    seeds = [r["seed"] - tried[0]["seed"] for r in tried]
    assert seeds == [0] * 16 + [1, 1, 2, 2]
    first = max(tried[:16], key=lambda r: r["score"])
    for r in tried[16:]:
        assert r["cluster_penalty"] == first["cluster_penalty"] == model.cluster_penalty_
        assert r["g_factor"] == first["g_factor"] == model.g_factor_
    assert model.score(X_valid) == pytest.approx(max(r["score"] for r in tried))


def test_learnspn_chooses_on_validation_rows(X, X_valid):
    model = MODELS["LearnSPN"]().fit(X, X_valid=X_valid)
    assert len(model.validation_scores_) == 4 * 2 * 7
    best = max(model.validation_scores_, key=lambda entry: entry["score"])
    assert best["score"] == pytest.approx(model.score(X_valid), rel=1e-12)
    chosen = model.cluster_penalty_, model.g_factor_, model.alpha_
    assert chosen == (best["cluster_penalty"], best["g_factor"], best["alpha"])
    # Without the choice, the same settings give the same network.
    single = MODELS["LearnSPN"](cluster_penalty=chosen[0], g_factor=chosen[1], alpha=chosen[2])
    np.testing.assert_array_equal(single.fit(X).score_samples(WORLDS), model.score_samples(WORLDS))
    with pytest.raises(ValueError, match="one of each"):
        single.fit(X, X_valid=X_valid)


def test_seeds(X):
    scores = {
        LearnSPN(0.4, 10.0, 1.0, n_restarts=1, random_state=seed).fit(X).score(X)
        for seed in range(5)
    }
    assert len(scores) > 1
    scores = {MODELS["IDSPN"](random_state=seed).fit(X).score(X) for seed in range(5)}
    assert len(scores) > 1


def test_strudel_stops_on_validation_rows(X, X_valid):
    model = MODELS["Strudel"]().fit(X, X_valid=X_valid)
    curve = model.learning_curve_
    assert len(curve["valid"]) <= model.n_splits_ + 20
    assert model.score(X_valid) == pytest.approx(curve["valid"][model.n_splits_ - 1])
    assert model.score(X) == pytest.approx(curve["train"][model.n_splits_ - 1])
    every = MODELS["Strudel"](patience=None, max_splits=model.n_splits_ + 40).fit(
        X, X_valid=X_valid
    )
    assert every.score(X_valid) >= model.score(X_valid)
    tree = Strudel(max_splits=0).fit(X)
    assert tree.n_splits_ == 0 and tree.n_parameters_ == 2 * 6 - 1
    mixed = MODELS["Strudel-mixture"](n_components=[1, 2, 4]).fit(X, X_valid=X_valid)
    assert set(mixed.validation_scores_) == {1, 2, 4}
    best = max(mixed.validation_scores_.values())
    assert mixed.score(X_valid) == pytest.approx(best)
    few = MODELS["Strudel-mixture"](mixture_splits=2).fit(X, X_valid=X_valid)
    assert few.n_splits_ <= 2 and few.n_components_ == 3


def test_idspn_settings(X, X_valid):
    plain = IDSPN(3, max_extensions=0, max_iter=0, random_state=0).fit(X)
    assert plain.n_extensions_ == 0 and plain.circuit_.properties.deterministic
    several = MODELS["IDSPN"](max_clusters=[2, 4], n_init=2).fit(X, X_valid=X_valid)
    tried = [(s["max_clusters"], s["seed"]) for s in several.validation_scores_]
    first = tried[0][1]
    assert tried == [(k, first + start) for start in range(2) for k in (2, 4)]
    best = max(s["score"] for s in several.validation_scores_)
    assert several.score(X_valid) == pytest.approx(best)
    scored = MODELS["IDSPN"](accept="score", max_iter=0).fit(X)
    assert np.exp(scored.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    # EM never lowers the likelihood of the training rows by more than its prior.
    before, after = (MODELS["IDSPN"](max_iter=k, em_ess=1e-3).fit(X).score(X) for k in (0, 5))
    assert after > before


@pytest.mark.parametrize("name", MODELS)
def test_frames_with_a_column_of_one_label(name):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    colour = rng.choice(["red", "green", "blue"], 120)
    frame = pandas.DataFrame({
        "colour": colour, "always": "yes", "warm": np.where(colour == "red", "warm", "cold"),
        "size": rng.choice(["s", "m"], 120),
    })  # fmt: skip
    model = MODELS[name]().fit(frame)
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
@pytest.mark.parametrize("name", MODELS)
def test_small_and_constant_tables_are_learned(name, table):
    model = MODELS[name]().fit(table)
    worlds = np.array(list(np.ndindex(*[2] * table.shape[1])))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "model",
    [
        LearnSPN(cluster_penalty=-1),
        LearnSPN(g_factor=[]),
        LearnSPN(alpha=0),
        LearnSPN(n_restarts=0),
        LearnSPN(max_clusters=1),
        LearnSPN(n_init=0),
        LearnSPN(validation_fraction=1.5),
        LearnSPN(random_state=-1),
        Strudel(max_splits=-1),
        Strudel(patience=0),
        Strudel(criterion="aic"),
        Strudel(n_components=[]),
        Strudel(mixture_splits=[]),
        Strudel(mixture_splits=-1),
        Strudel(pseudocount=0),
        Strudel(max_nodes=0),
        Strudel(n_jobs=0),
        IDSPN(max_clusters=1),
        IDSPN(accept="always"),
        IDSPN(width=-1),
        IDSPN(threshold=np.nan),
        IDSPN(ess=0),
        IDSPN(em_ess=0),
        IDSPN(n_init=0),
        IDSPN(cluster_penalty=[]),
        IDSPN(max_clusters=2.5),
    ],
    ids=repr,
)
def test_bad_settings(model, X):
    with pytest.raises(ValueError, match=r"must be|must not be|cannot be used"):
        model.fit(X)


@pytest.mark.parametrize("name", ["LearnSPN", "Strudel"])
def test_bad_validation_rows(name, X):
    with pytest.raises(ValueError, match=r"columns|features"):
        MODELS[name]().fit(X, X_valid=X[:, :5])
    with pytest.raises(ValueError):
        MODELS[name]().fit(X, X_valid=np.full((3, 6), np.nan))
    with pytest.raises(ValueError, match="n_samples=1"):
        MODELS[name]().fit(X[:1])


def test_published_strudel():
    try:
        data = fetch_debd("nltcs", download=False)
    except OSError:
        pytest.skip("the data sets are not at hand")
    model = Strudel().fit(data.train, X_valid=data.valid)
    # Published: -6.068 (Yang, Gala, Peharz, AISTATS 2023).
    assert model.score(data.test) == pytest.approx(-6.068, abs=1e-3)
    properties = model.circuit_.properties
    assert properties.deterministic and properties.structured_decomposable
