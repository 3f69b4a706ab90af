"""LearnSPN, Strudel and ID-SPN: what they choose and refuse, beside `test_learners`."""

import numpy as np
import pytest
from tests.estimators.small import SPNS, WORLDS, make_table

from bayescut.datasets import fetch_debd
from bayescut.estimators import IDSPN, LearnSPN, Strudel


@pytest.fixture(scope="module")
def X():
    return make_table(0, 300)


@pytest.fixture(scope="module")
def X_valid():
    return make_table(1, 150)


def test_learnspn_starts_again_with_the_chosen_setting(X, X_valid):
    model = SPNS["LearnSPN"](n_init=3, alpha=[1.0, 0.5]).fit(X, X_valid=X_valid)
    tried = model.validation_scores_
    seeds = [r["seed"] - tried[0]["seed"] for r in tried]
    assert seeds == [0] * 16 + [1, 1, 2, 2]
    first = max(tried[:16], key=lambda r: r["score"])
    for r in tried[16:]:
        assert r["cluster_penalty"] == first["cluster_penalty"] == model.cluster_penalty_
        assert r["g_factor"] == first["g_factor"] == model.g_factor_
    assert model.score(X_valid) == pytest.approx(max(r["score"] for r in tried))


def test_learnspn_chooses_on_validation_rows(X, X_valid):
    model = SPNS["LearnSPN"]().fit(X, X_valid=X_valid)
    assert len(model.validation_scores_) == 4 * 2 * 7
    best = max(model.validation_scores_, key=lambda entry: entry["score"])
    assert best["score"] == pytest.approx(model.score(X_valid), rel=1e-12)
    chosen = model.cluster_penalty_, model.g_factor_, model.alpha_
    assert chosen == (best["cluster_penalty"], best["g_factor"], best["alpha"])
    # Without the choice, the same settings give the same network.
    single = SPNS["LearnSPN"](cluster_penalty=chosen[0], g_factor=chosen[1], alpha=chosen[2])
    np.testing.assert_array_equal(single.fit(X).score_samples(WORLDS), model.score_samples(WORLDS))
    with pytest.raises(ValueError, match="one of each"):
        single.fit(X, X_valid=X_valid)


def test_seeds(X):
    scores = {
        LearnSPN(0.4, 10.0, 1.0, n_restarts=1, random_state=seed).fit(X).score(X)
        for seed in range(5)
    }
    assert len(scores) > 1
    scores = {SPNS["IDSPN"](random_state=seed).fit(X).score(X) for seed in range(5)}
    assert len(scores) > 1


def test_strudel_stops_on_validation_rows(X, X_valid):
    model = SPNS["Strudel"]().fit(X, X_valid=X_valid)
    curve = model.learning_curve_
    assert len(curve["valid"]) <= model.n_splits_ + 20
    assert model.score(X_valid) == pytest.approx(curve["valid"][model.n_splits_ - 1])
    assert model.score(X) == pytest.approx(curve["train"][model.n_splits_ - 1])
    every = SPNS["Strudel"](patience=None, max_splits=model.n_splits_ + 40).fit(X, X_valid=X_valid)
    assert every.score(X_valid) >= model.score(X_valid)
    tree = Strudel(max_splits=0).fit(X)
    assert tree.n_splits_ == 0 and tree.n_parameters_ == 2 * 6 - 1
    mixed = SPNS["Strudel-mixture"](n_components=[1, 2, 4]).fit(X, X_valid=X_valid)
    assert set(mixed.validation_scores_) == {1, 2, 4}
    best = max(mixed.validation_scores_.values())
    assert mixed.score(X_valid) == pytest.approx(best)
    few = SPNS["Strudel-mixture"](mixture_splits=2).fit(X, X_valid=X_valid)
    assert few.n_splits_ <= 2 and few.n_components_ == 3


def test_idspn_settings(X, X_valid):
    plain = IDSPN(3, max_extensions=0, max_iter=0, random_state=0).fit(X)
    assert plain.n_extensions_ == 0 and plain.circuit_.properties.deterministic
    several = SPNS["IDSPN"](max_clusters=[2, 4], n_init=2).fit(X, X_valid=X_valid)
    tried = [(s["max_clusters"], s["seed"]) for s in several.validation_scores_]
    first = tried[0][1]
    assert tried == [(k, first + start) for start in range(2) for k in (2, 4)]
    best = max(s["score"] for s in several.validation_scores_)
    assert several.score(X_valid) == pytest.approx(best)
    scored = SPNS["IDSPN"](accept="score", max_iter=0).fit(X)
    assert np.exp(scored.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    # EM never lowers the likelihood of the training rows by more than its prior.
    before, after = (SPNS["IDSPN"](max_iter=k, em_ess=1e-3).fit(X).score(X) for k in (0, 5))
    assert after > before


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
