import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate

from bayescut import CNetBD, CNetBIC, CutsetMixture, CutsetNetwork
from bayescut.circuit import build
from bayescut.data import Domains
from bayescut.exceptions import DataError, PropertyError
from bayescut.scores.circuit_score import NormalGamma, bayes_score, bic_score, refit


def hand_made():
    """A decision over a junction tree of width 2 and a product with a shared input."""
    shared = build.categorical(3, [0.5, 0.5])
    tree = build.junction(
        [
            (1, [], [0.3, 0.7]),
            (2, [1], [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]),
            (3, [1, 2], [[[0.5, 0.5]] * 3, [[0.1, 0.9]] * 3]),
        ]
    )
    flat = build.product(
        build.categorical(1, [0.5, 0.5]), build.categorical(2, [0.2, 0.3, 0.5]), shared
    )
    return build.circuit(build.decision(0, [0.4, 0.6], tree, flat), [2, 2, 3, 2])


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, [2, 2, 3, 2], size=(n, 4)).astype(np.uint8)


@pytest.mark.parametrize("divide", [True, False])
def test_the_score_is_the_product_of_sequential_predictions(divide):
    circuit, X = hand_made(), rows(25)
    total = 0.0
    for i in range(len(X)):
        model = refit(circuit, X[:i], ess=1.3, divide=divide) if i else None
        if model is None:
            empty = np.empty((0, 4), dtype=np.uint8)
            model = refit(circuit, empty, ess=1.3, divide=divide)
        total += model.log_likelihood(X[i : i + 1])[0]
    found = bayes_score(circuit, X, ess=1.3, divide=divide)
    assert found == pytest.approx(total, rel=1e-10)
    order = np.random.default_rng(1).permutation(len(X))
    assert bayes_score(circuit, X[order], ess=1.3, divide=divide) == pytest.approx(found)


def test_the_score_agrees_with_numerical_integration():
    """A cut over two coins: three independent Beta-distributed parameters."""
    circuit = build.circuit(
        build.decision(
            0, [0.5, 0.5], build.categorical(1, [0.5, 0.5]), build.categorical(1, [0.5, 0.5])
        ),
        [2, 2],
    )
    X = np.array([[0, 0], [0, 1], [0, 1], [1, 1], [1, 0]], dtype=np.uint8)
    ess = 4.0

    def integral(zeros, ones, a):
        beta = math.gamma(a) ** 2 / math.gamma(2 * a)
        value, _ = integrate.quad(
            lambda p: p ** (zeros + a - 1) * (1 - p) ** (ones + a - 1) / beta, 0, 1
        )
        return math.log(value)

    expected = integral(3, 2, ess / 2) + integral(1, 2, ess / 4) + integral(1, 1, ess / 4)
    assert bayes_score(circuit, X, ess=ess) == pytest.approx(expected, rel=1e-8)


def test_the_score_of_a_gaussian_input_agrees_with_numerical_integration():
    circuit = build.circuit(build.gaussian(0, 0.0, 1.0), Domains.of_sizes([0]))
    x = np.array([[0.3], [1.2], [-0.4]])
    prior = NormalGamma(0.5, 2.0, 1.5, 0.7)

    def density(mu, lam):
        p = lam ** (prior.a - 1) * math.exp(-prior.b * lam) * prior.b**prior.a / math.gamma(prior.a)
        spread = prior.kappa * lam
        p *= math.sqrt(spread / (2 * math.pi)) * math.exp(-spread * (mu - prior.mean) ** 2 / 2)
        for v in x.ravel():
            p *= math.sqrt(lam / (2 * math.pi)) * math.exp(-lam * (v - mu) ** 2 / 2)
        return p

    value, _ = integrate.dblquad(density, 0, 40, -8, 8)
    found = bayes_score(circuit, x, gaussian_prior=prior)
    assert found == pytest.approx(math.log(value), rel=1e-5)
    fitted = refit(circuit, x, gaussian_prior=prior)
    assert fitted.param[0] == pytest.approx((2 * 0.5 + x.sum()) / 5)


def test_learned_structures_score_what_the_learner_says():
    rng = np.random.default_rng(0)
    X = rng.integers(0, [2, 3, 2, 2, 2], size=(300, 5)).astype(np.uint8)
    X[:, 3] = np.where(X[:, 0] == 0, X[:, 2], 1 - X[:, 2])
    X[:, 4] = np.where(X[:, 0] == 0, 1 - X[:, 2], X[:, 3])
    bd = CNetBD().fit(X)
    assert bd.structure_score_ == pytest.approx(bayes_score(bd.circuit_, X, ess=0.1), rel=1e-10)
    bic = CNetBIC().fit(X)
    assert bic.structure_score_ == pytest.approx(bic_score(bic.circuit_, X), rel=1e-10)
    weights = rng.random(300)
    weighted = CNetBD().fit(X, sample_weight=weights)
    assert weighted.structure_score_ == pytest.approx(
        bayes_score(weighted.circuit_, X, ess=0.1, sample_weight=weights), rel=1e-9
    )
    same = refit(bd.circuit_, X, ess=0.1)
    np.testing.assert_allclose(same.log_likelihood(X), bd.score_samples(X), rtol=1e-10)
    network = CutsetNetwork().fit(X)
    found = bayes_score(network.circuit_, X, ess=1.0, divide=False)
    assert network.structure_score_ < found  # the structure's cost has been charged


def test_expanded_circuits_score_the_same():
    circuit, X = hand_made(), rows(60)
    wide = circuit.expand()
    for c in (circuit, wide):
        assert np.isfinite(bayes_score(c, X, ess=1.0))
    # Likelihoods of maximum-likelihood parameters do not depend on the form.
    np.testing.assert_allclose(
        refit(circuit, X, ess=1e-9).log_likelihood(X).sum(),
        refit(wide, X, ess=1e-9).log_likelihood(X).sum(),
        rtol=1e-6,
    )


def test_a_tree_has_the_bdeu_score_of_its_network():
    """BDeu of X0 -> X1 written out from Heckerman, Geiger, Chickering (1995), eq. 35 of BDeu."""
    X = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 0], [1, 1]], dtype=np.uint8)
    lg = math.lgamma
    e = 1.0
    expected = lg(e) - lg(e + 7) + lg(e / 2 + 3) + lg(e / 2 + 4) - 2 * lg(e / 2)
    expected += lg(e / 2) - lg(e / 2 + 3) + lg(e / 4 + 2) + lg(e / 4 + 1) - 2 * lg(e / 4)
    expected += lg(e / 2) - lg(e / 2 + 4) + lg(e / 4 + 1) + lg(e / 4 + 3) - 2 * lg(e / 4)
    half = [[0.5, 0.5], [0.5, 0.5]]
    forward = build.circuit(build.chow_liu([-1, 0], [[0.5, 0.5], half]), [2, 2])
    backward = build.circuit(build.chow_liu([1, -1], [half, [0.5, 0.5]]), [2, 2])
    assert bayes_score(forward, X, ess=e) == pytest.approx(expected, rel=1e-12)
    assert bayes_score(backward, X, ess=e) == pytest.approx(expected, rel=1e-12)


def test_a_tree_has_the_bdeu_score_of_pgmpy():
    """C -> A, C -> B, A -> D with an equivalent sample size of 10.

    The value is that of pgmpy's test suite (``BDeu(d1).score(m2)``), whose values were compared to
    the R package bnlearn.
    """
    X = np.array([[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 0, 2]], dtype=np.uint8)
    two = [[0.5, 0.5]] * 2
    tables = [two, two, [0.5, 0.5], [[0.2, 0.3, 0.5]] * 2]
    circuit = build.circuit(build.chow_liu([2, 2, -1, 0], tables), [2, 2, 2, 3])
    assert bayes_score(circuit, X, ess=10.0) == pytest.approx(-9.839964104608821, rel=1e-12)


def test_scores_at_a_million_rows_agree_with_mpmath():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(10**6) < 0.3, rng.random(10**6) < 0.01]).astype(np.uint8)
    half = [[0.5, 0.5], [0.5, 0.5]]
    circuit = build.circuit(build.chow_liu([-1, 0], [[0.5, 0.5], half]), [2, 2])
    mp = mpmath.mp.clone()
    mp.dps = 40
    e = mp.mpf("0.1")

    def family(counts, cells):
        a = e / cells
        total = sum(mp.loggamma(int(k) + a) - mp.loggamma(a) for k in counts)
        whole = a * len(counts)
        return total + mp.loggamma(whole) - mp.loggamma(int(sum(counts)) + whole)

    table = np.array([[np.sum((X == (i, j)).all(axis=1)) for j in (0, 1)] for i in (0, 1)])
    exact = family(table.sum(axis=1), 2) + family(table[0], 4) + family(table[1], 4)
    assert bayes_score(circuit, X, ess=0.1) == pytest.approx(float(exact), rel=1e-11)


def test_rows_the_structure_forbids():
    circuit = build.circuit(
        build.product(build.indicator(0, 1), build.categorical(1, [1, 0])), [2, 2]
    )
    assert bayes_score(circuit, [[0, 0]]) == -math.inf
    assert bic_score(circuit, [[0, 0]]) == -math.inf
    # A learned zero is no part of the structure.
    assert math.isfinite(bayes_score(circuit, [[1, 1]]))
    with pytest.raises(DataError, match="probability zero"):
        refit(circuit, [[0, 0]])


def test_what_cannot_be_scored():
    X = rows(40)
    mixed = CutsetMixture(2, random_state=0, tol=0.1, patience=1).fit(X)
    with pytest.raises(PropertyError, match="deterministic"):
        bayes_score(mixed.circuit_, X)
    circuit = hand_made()
    with pytest.raises(DataError, match="complete rows"):
        bayes_score(circuit, [[0, 1, math.nan, 0]])
    with pytest.raises(ValueError, match="ess"):
        bayes_score(circuit, X, ess=0.0)
    with pytest.raises(ValueError, match="beta"):
        bic_score(circuit, X, beta=-1.0)
    with pytest.raises(ValueError, match="node_ess"):
        bayes_score(circuit, X, node_ess=[1.0])
    with pytest.raises(ValueError, match="kappa"):
        NormalGamma(kappa=0.0)


def test_weights_and_own_pseudo_counts():
    circuit, X = hand_made(), rows(30)
    weights = np.random.default_rng(2).integers(0, 3, 30)
    twice = np.repeat(X, weights, axis=0)
    assert bayes_score(circuit, X, sample_weight=weights) == pytest.approx(
        bayes_score(circuit, twice)
    )
    assert bic_score(circuit, X, sample_weight=weights) == pytest.approx(bic_score(circuit, twice))
    same = bayes_score(circuit, X, node_ess=np.full(circuit.n_nodes, 2.0))
    assert same == pytest.approx(bayes_score(circuit, X, ess=2.0, divide=False))
    worlds = np.array(list(itertools.product(range(2), range(2), range(3), range(2))))
    fitted = refit(circuit, X)
    assert np.exp(fitted.log_likelihood(worlds)).sum() == pytest.approx(1.0)
