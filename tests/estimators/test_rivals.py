"""The cutset rivals: what they learn, what they refuse, and what was published of them.

Golden values are of Tables 1 and 4 of Yang, Gala, Peharz (AISTATS 2023).
"""

import numpy as np
import pytest
from tests.estimators.small import CUTSETS, two_kinds
from tests.published import at_hand

from bayescut import DCSN, CNet, XCNet


@pytest.fixture(scope="module")
def X():
    return two_kinds()


@pytest.mark.parametrize("name", CUTSETS)
def test_what_a_fitted_estimator_carries(name, X):
    model = CUTSETS[name]().fit(X)
    assert model.n_cuts_ > 0
    assert model.n_parameters_ == model.circuit_.n_parameters
    # Without a price on structure the score is the likelihood of the training rows.
    assert model.structure_score_ == pytest.approx(model.score_samples(X).sum(), rel=1e-12)
    worlds = np.array(list(np.ndindex(*[2] * 6)))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    properties = model.circuit_.properties
    assert properties.smooth and properties.decomposable and properties.deterministic


def test_seeds(X):
    scores = [XCNet(min_rows=60, random_state=seed).fit(X).score(X) for seed in range(4)]
    assert len(set(scores)) > 1
    rng = np.random.default_rng(5)
    draws = {XCNet(min_rows=60, random_state=rng).fit(X).score(X) for _ in range(4)}
    assert len(draws) > 1
    assert len({XCNet(min_rows=60).fit(X).score(X) for _ in range(8)}) > 1


def test_settings_do_what_they_say(X):
    assert CNet(min_rows=len(X)).fit(X).n_cuts_ == 0
    assert CNet(min_columns=6).fit(X).n_cuts_ == 0
    assert CNet(min_entropy=10.0).fit(X).n_cuts_ == 0
    assert CNet(min_rows=10).fit(X).n_cuts_ > CNet(min_rows=100).fit(X).n_cuts_ > 0
    assert XCNet(min_columns=5, min_rows=0, random_state=0).fit(X).n_cuts_ == 1
    # Every path of a network that stops at three of six columns has three cuts.
    assert XCNet(min_columns=3, min_rows=0, random_state=0).fit(X).n_cuts_ >= 3
    assert DCSN(min_columns=6, min_rows=0).fit(X).n_cuts_ == 0
    whole, shrunk = DCSN(min_rows=60).fit(X), DCSN(0.5, min_rows=60).fit(X)
    assert whole.score(X) > shrunk.score(X)
    assert DCSN(min_rows=60, forests=True).fit(X).n_parameters_ < whole.n_parameters_


@pytest.mark.parametrize(
    "table",
    [np.ones((1, 4), np.uint8), np.array([[0], [1], [1]]), np.zeros((5, 3), np.uint8)],
    ids=["one row", "one column", "all zero"],
)
@pytest.mark.parametrize("learner", [CNet, XCNet, DCSN])
def test_small_and_constant_tables_are_learned(learner, table):
    model = learner(min_rows=0, min_columns=1).fit(table)
    worlds = np.array(list(np.ndindex(*[2] * table.shape[1])))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    assert model.score_samples(table[-1:])[0] == model.score_samples(worlds).max()


@pytest.mark.parametrize(
    "model",
    [
        CNet(alpha=0),
        CNet(alpha="1"),
        CNet(alpha=np.inf),
        CNet(min_rows=-1),
        CNet(min_columns=0),
        CNet(min_entropy=-0.1),
        CNet(n_jobs=0),
        XCNet(alpha=-1.0),
        XCNet(min_rows=2.5),
        XCNet(min_columns=True),
        XCNet(random_state=-1),
        XCNet(random_state="dice"),
        DCSN(blending=0.0),
        DCSN(min_rows="few"),
    ],
    ids=repr,
)
def test_bad_settings(model, X):
    with pytest.raises(ValueError, match=r"must be|must not be|cannot be used"):
        model.fit(X)


# --------------------------------------------------------------------------- published values


def stacked(name):
    data = at_hand(name)
    return data, np.vstack([data.train, data.valid])


# Sizes are the published ones, but for nltcs, where eight nodes have a gain of exactly zero, which
# came out positive at some of them in single precision. Likelihoods differ where small leaves have
# equally good trees.
CNET = {
    "nltcs": (-6.113, 4543, 2),
    "plants": (-13.187, 18605, 0),
    "jester": (-61.670, 72873, 0),
    "tretail": (-11.043, 3667, 0),
    "dna": (-90.143, 5625, 0),
    "msweb": (-10.060, 5801, 0),
}


@pytest.mark.parametrize("name", CNET)
def test_published_cnet(name):
    data, X = stacked(name)
    test_ll, size, slack = CNET[name]
    model = CNet().fit(X)
    assert abs(model.n_parameters_ - size) <= slack
    assert model.score(data.test) == pytest.approx(test_ll, rel=0.005)


@pytest.mark.parametrize(
    ("name", "test_ll", "size"),
    [("nltcs", -6.059, 1089.4), ("jester", -56.173, 7037.6), ("dna", -88.199, 2329.0)],
)
def test_published_xcnet(name, test_ll, size):
    data, X = stacked(name)
    models = [XCNet(random_state=seed).fit(X) for seed in range(10)]
    scores = [model.score(data.test) for model in models]
    assert abs(np.mean(scores) - test_ll) < 2 * np.std(scores, ddof=1)
    sizes = [model.n_parameters_ for model in models]
    assert abs(np.mean(sizes) - size) < 2 * np.std(sizes, ddof=1)


# Published sizes are those of networks learned from the training part alone, and count two
# parameters an edge and one a leaf, less four.
DCSN_VALUES = {
    "nltcs": (-6.048, 1017),
    "msnbc": (-6.057, 7069),
    "plants": (-13.312, 8532),
    "baudio": (-42.810, 12530),
    "jester": (-55.506, 6000),
    "dna": (-87.621, 1767),
}


@pytest.mark.parametrize("name", DCSN_VALUES)
def test_published_dcsn(name):
    data, X = stacked(name)
    test_ll, size = DCSN_VALUES[name]
    assert DCSN().fit(X).score(data.test) == pytest.approx(test_ll, abs=1.5e-3)
    part = DCSN().fit(data.train)
    assert part.n_parameters_ - part.n_cuts_ - 4 == size


def test_weights_of_states_without_rows_do_not_round_below_zero():
    """Without smoothing, a branch that weighs less than nothing has no probability."""
    for seed in range(12):  # seed 2 did
        rng = np.random.default_rng(seed)
        a, b = rng.integers(0, 2, 60), rng.integers(1, 3, 60)
        X = np.column_stack([a, b, np.where(b == 1, a, 1 - a)])
        model = DCSN(min_rows=5, min_columns=1).fit(X, sample_weight=rng.gamma(1.0, 1.0, 60))
        assert np.isfinite(model.score(X))
