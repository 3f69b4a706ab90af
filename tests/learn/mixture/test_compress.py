"""Mixtures made smaller, against doing it the slow way."""

import numpy as np
import pytest
from tests.circuit.random_circuits import random_circuit

import bayescut as bc
from bayescut.circuit import build
from bayescut.datasets import load_binary_digits
from bayescut.learn.mixture.compress import Sizes, compress, keep_components


@pytest.fixture(scope="module")
def X():
    return load_binary_digits().train[:, 20:44]


@pytest.fixture(scope="module")
def model(X):
    settings = {"n_chains": 5, "n_components": 8, "n_burn": 1, "n_bags": 4, "random_state": 0}
    return bc.CutsetEnsemble(**settings, network=False).fit(X[:600])


def parts(circuit):
    """The components of a mixture as circuits of their own, and their weights."""
    begin = circuit.child_ptr[-2]
    n = circuit.child_ptr[-1] - begin
    alone = [keep_components(circuit, np.array([k]), np.ones(1)) for k in range(n)]
    return alone, np.exp(circuit.log_weight[begin:])


def test_components_alone_are_the_mixture(model, X):
    circuit = model.circuit_
    alone, weights = parts(circuit)
    again = build.mixture(weights, alone)
    rows = np.ascontiguousarray(X[:50])
    np.testing.assert_allclose(again.log_likelihood(rows), circuit.log_likelihood(rows))
    sizes = Sizes(circuit)
    assert sizes.alone.tolist() == [part.n_parameters for part in alone]
    assert sizes.together(np.arange(len(alone))) == circuit.n_parameters
    some = np.array([4, 1, 7])
    kept = keep_components(circuit, some, np.array([1.0, 2.0, 1.0]))
    expected = build.mixture([0.25, 0.5, 0.25], [alone[k] for k in some])
    np.testing.assert_allclose(kept.log_likelihood(rows), expected.log_likelihood(rows))
    assert kept.n_parameters == expected.n_parameters


def test_compressed_models_are_small_and_lose_little(model, X):
    held = X[600:1000]
    before = model.score(X[1000:])
    last = -np.inf
    for share in (0.05, 0.2, 0.5):
        most = int(share * model.n_parameters_)
        small = model.compress(most, held)
        assert type(small) is bc.CutsetEnsemble
        assert small.n_parameters_ == small.circuit_.n_parameters <= most
        score = small.score(X[1000:])
        assert score > last - 0.1
        last = score
    assert last > before - 0.1
    assert np.isnan(small.oob_score_) and np.isfinite(model.oob_score_)
    # far better than what is left if components are dropped by chance
    rng = np.random.default_rng(0)
    sizes = Sizes(model.circuit_).alone
    order = rng.permutation(len(sizes))
    some = order[np.cumsum(sizes[order] + 1) < 0.2 * model.n_parameters_]
    weights = np.exp(model.circuit_.log_weight[model.circuit_.child_ptr[-2] :])[some]
    by_chance = keep_components(model.circuit_, some, weights)
    best = model.compress(int(0.2 * model.n_parameters_), held)
    codes = np.ascontiguousarray(X[1000:])
    assert best.score(codes) > by_chance.log_likelihood(codes).mean() + 0.1


def test_without_rows_the_model_draws_its_own(model, X):
    most = model.n_parameters_ // 3
    small = model.compress(most)
    assert small.n_parameters_ <= most
    assert small.score(X[1000:]) > model.score(X[1000:]) - 0.5
    assert model.compress(model.n_parameters_).circuit_ == model.circuit_


def test_limits(model, X):
    smallest = int(Sizes(model.circuit_).alone.min())
    assert model.compress(smallest, X).n_parameters_ == smallest
    with pytest.raises(ValueError, match=f"at least {smallest}"):
        model.compress(smallest - 1, X)
    for wrong in (0, 1.5, "many"):
        with pytest.raises(ValueError, match="max_parameters"):
            model.compress(wrong, X)
    single = bc.CutsetNetwork().fit(X[:100]).circuit_
    with pytest.raises(ValueError, match="max_parameters"):
        compress(single, 3, np.ascontiguousarray(X[:10]))
    with pytest.raises(ValueError, match="no weight"):
        compress(model.circuit_, smallest, np.ascontiguousarray(X[:2]), np.zeros(2))


def test_weights_of_rows_count(model, X):
    rows, weights = X[:40], np.random.default_rng(0).integers(0, 3, 40)
    most = model.n_parameters_ // 4
    one = model.compress(most, rows, np.where(weights.any(), weights, 1))
    two = model.compress(most, np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(one.score_samples(X[:20]), two.score_samples(X[:20]))


def test_rows_without_weight_are_not_drawn(model, X):
    """However many they are: rows are drawn where there are more than are needed."""
    many = np.repeat(X[:100], 400, axis=0)
    weights = np.zeros(len(many))
    weights[::400] = 1.0
    most = model.n_parameters_ // 4
    one, two = model.compress(most, many, weights), model.compress(most, X[:100])
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))


def test_files_and_other_mixtures(model, X, tmp_path):
    small = model.compress(model.n_parameters_ // 4, X[600:])
    bc.save(small, tmp_path / "small.bc")
    again = bc.load(tmp_path / "small.bc")
    np.testing.assert_array_equal(again.score_samples(X[:20]), small.score_samples(X[:20]))
    mixed = bc.CutsetMixture(5, max_iter=2, assignment="sampled", random_state=0).fit(X[:300])
    fewer = mixed.compress(mixed.n_parameters_ // 2, X[300:])
    assert fewer.n_components_ < 5 == mixed.n_components_


@pytest.mark.parametrize("seed", range(20))
def test_any_circuit(seed):
    """Of which components may share nodes."""
    one, two = random_circuit(seed), random_circuit(seed + 100)
    some = [one, one] if one.domains != two.domains else [one, two, one]
    weights = np.full(len(some), 1.0 / len(some))
    circuit = build.mixture(weights, some)
    alone, weights = parts(circuit)
    worlds = np.array(list(np.ndindex(*circuit.domains.n_states)), dtype=np.uint8)
    np.testing.assert_allclose(
        np.exp(build.mixture(weights, alone).log_likelihood(worlds)),
        np.exp(circuit.log_likelihood(worlds)),
        atol=1e-12,
    )
    sizes = Sizes(circuit)
    assert sizes.alone.tolist() == [part.n_parameters for part in alone]
    for kept in (np.arange(len(alone)), np.arange(len(alone) - 1), np.array([1])):
        mixture = keep_components(circuit, kept, np.ones(len(kept)))
        assert sizes.together(kept) == mixture.n_parameters


def test_what_components_share_counts_once():
    """Two components over leaves of their own, and a third part that both have."""
    own = [build.independent([[p, 1 - p]] * 3) for p in (0.2, 0.6, 0.7)]
    both = build.independent([[0.5, 0.5]] * 3)
    roots = [build.weighted_sum([0.9, 0.1], leaf, both) for leaf in own]
    circuit = build.circuit(build.weighted_sum([0.5, 0.3, 0.2], *roots), [2, 2, 2])
    sizes = Sizes(circuit)
    assert sizes.own.tolist() == [4, 4, 4]
    assert sizes.alone.tolist() == [7, 7, 7]
    assert sizes.together(np.array([0, 2])) == 12
    rows = np.array(list(np.ndindex(2, 2, 2)), dtype=np.uint8)
    for most in (7, 11, 12, 16):
        small = compress(circuit, most, rows)
        assert small.n_parameters == (7 if most < 12 else 12)
    with pytest.raises(ValueError, match="at least 7"):
        compress(circuit, 6, rows)


def test_a_mixture_of_one_component_has_one():
    """Also if that is a sum itself: a Gaussian and the columns by themselves beside it."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 600)
    a = np.array([-6.0, 0.0, 5.0])[which] + rng.normal(0, 1, 600)
    b = np.array([0.9, -0.8, 0.2])[which] * a + rng.normal(0, 0.2, 600)
    numbers = np.column_stack([a, b]).round(2)
    labels = np.column_stack([which == 0, which == 1, a > 0]).astype(int)
    for X, has_normals in ((numbers, True), (labels, False)):
        mixture = bc.CutsetMixture(3, max_iter=20, tol=1e-2, random_state=0).fit(X)
        assert mixture.circuit_.has_normals == has_normals
        one = mixture.compress(int(Sizes(mixture.circuit_).alone.min()), X)
        assert one.n_components_ == 1 and one.weights_.tolist() == [1.0]
        assert one.predict_proba(X).shape == (600, 1)
        assert one.n_parameters_ == Sizes(mixture.circuit_).alone.min()
