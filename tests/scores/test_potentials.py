import math

import mpmath
import numpy as np
import pytest
from numba import njit
from scipy.special import gammaln
from tests.learn.small import table_of
from tests.oracle.naive_learner import bd_family, ll_family

from bayescut.counts import count_pairs
from bayescut.data.bits import bit_layout
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.scores import BIC, BayesDirichlet
from bayescut.scores.potentials import (
    LGAMMA,
    LOGLIK,
    XLOGX,
    PotentialTables,
    log_gamma,
    potential,
    smooth_log,
    smooth_xlogx,
    total_potential,
)


@pytest.mark.parametrize("x", [1e-8, 0.00625, 0.5, 1.0, 2.0, 7.9, 8.0, 33.3, 1e4, 3e5, 2e7])
def test_log_gamma_agrees_with_mpmath(x):
    exact = float(mpmath.loggamma(mpmath.mpf(x)))
    assert log_gamma(x) == pytest.approx(exact, rel=2e-14, abs=2e-14)


@pytest.mark.parametrize("kind", [XLOGX, LGAMMA, LOGLIK])
@pytest.mark.parametrize("a", [1e-6, 0.025, 0.5, 2.0])
def test_tables_agree_with_the_definition(kind, a):
    table = PotentialTables().get(kind, a, 5000)
    assert len(table) == 5001
    exact = {
        XLOGX: lambda k: (k + a) * math.log(k + a),
        LGAMMA: lambda k: float(gammaln(k + a) - gammaln(a)),
        LOGLIK: lambda k: k * math.log(k + a),
    }[kind]
    for k in [0, 1, 2, 63, 64, 65, 700, 5000]:
        assert table[k] == pytest.approx(exact(k), rel=1e-12, abs=1e-12)
        assert potential(kind, k, a) == pytest.approx(exact(k), rel=1e-12, abs=1e-12)


@njit
def smooth_logs(x):
    return np.array([smooth_log(v) for v in x]), np.array([smooth_xlogx(v) for v in x])


def test_smooth_logarithms():
    rng = np.random.default_rng(0)
    x = np.concatenate([10.0 ** rng.uniform(-12, 9, 5000), rng.uniform(0.5, 2.0, 5000), [1.0]])
    logs, products = smooth_logs(x)
    np.testing.assert_allclose(logs, np.log(x), rtol=3e-15, atol=5e-16)
    np.testing.assert_allclose(products, x * np.log(x), rtol=3e-15, atol=5e-16)
    assert smooth_logs(np.zeros(1))[1][0] == 0.0


def test_tables_grow_and_are_shared():
    tables = PotentialTables()
    short = tables.get(LGAMMA, 0.5, 10)
    assert tables.get(LGAMMA, 0.5, 5) is short
    long = tables.get(LGAMMA, 0.5, 100)
    assert len(long) == 101
    np.testing.assert_array_equal(long[:11], short)


@pytest.mark.parametrize("kind", [XLOGX, LOGLIK])
def test_no_pseudo_count_and_no_row_is_worth_nothing(kind):
    assert potential(kind, 0, 0.0) == 0.0


@pytest.mark.parametrize("n", [1, 4, 1_000_000])
def test_scores_of_tables_agree_with_their_definitions(n):
    rng = np.random.default_rng(n)
    table = rng.multinomial(n, rng.dirichlet(np.ones(6))).reshape(2, 3)
    bd, bic = BayesDirichlet(1.7), BIC(0.3)
    singles = table.sum(axis=0), table.sum(axis=1)
    for score, family, ess in ((bd, bd_family, 1.7), (bic, ll_family, 1.2)):
        assert score.single(singles[0], ess) == pytest.approx(family(singles[0], ess), rel=1e-10)
        both = family(singles[1], ess) + family(table, ess)
        found = score.single(singles[0], ess) + score.single(singles[1], ess)
        assert found + score.edge(table, ess) == pytest.approx(both, rel=1e-9)
        # Score equivalence: the direction of an edge does not matter.
        assert score.edge(table, ess) == pytest.approx(score.edge(table.T, ess), rel=1e-9)
        cut_ess = ess if score is bd else ess / 2
        assert score.cut(singles[1], ess) == pytest.approx(family(singles[1], cut_ess), rel=1e-10)
        np.testing.assert_allclose(
            score.parameters(table, ess), (table + ess / 6) / (n + ess), rtol=1e-14
        )


def test_scores_at_a_million_rows_agree_with_mpmath():
    counts = [612_345, 387_655]
    mp = mpmath.mp.clone()
    mp.dps = 40
    ess = mp.mpf("0.1")
    exact = mp.loggamma(ess) - mp.loggamma(sum(counts) + ess)
    exact += sum(mp.loggamma(k + ess / 2) - mp.loggamma(ess / 2) for k in counts)
    assert BayesDirichlet(0.1).cut(counts, 0.1) == pytest.approx(float(exact), rel=1e-12)


def test_the_marginal_likelihood_is_the_product_of_sequential_predictions():
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 3, size=40)
    ess, counts, total = 0.6, np.zeros(3), 0.0
    for x in draws:
        total += math.log((counts[x] + ess / 3) / (counts.sum() + ess))
        counts[x] += 1
    assert BayesDirichlet(ess).single(counts, ess) == pytest.approx(total, rel=1e-12)


def test_leaves_of_a_score_are_those_of_the_learner():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, [2, 3, 2], size=(80, 3)).astype(np.uint8)
    pairs = count_pairs(codes, bit_layout(np.arange(3), np.array([2, 3, 2])))
    for score in (BayesDirichlet(0.7), BIC(0.1)):
        root = CutsetLearner(score, candidates=TopGain(1)).learn(
            table_of(codes, np.array([2, 3, 2]))
        )
        assert root.cut is None
        edges = [
            pairs.pair_table(int(root.leaf.columns[h]), int(v))
            for v, h in zip(root.leaf.columns, root.leaf.hosts, strict=True)
            if h >= 0
        ]
        singles = [pairs.single(j) for j in range(3)]
        found = score.leaf(singles, edges, score.root_ess, 80)
        assert found == pytest.approx(root.score, rel=1e-10)
        assert score.n_parameters(singles, edges) == 1 + 2 + 1 + sum(
            (e.shape[0] - 1) * (e.shape[1] - 1) for e in edges
        )


@pytest.mark.parametrize("ess", [0, -1.0, math.nan, math.inf, "1", None, True])
def test_impossible_equivalent_sample_sizes(ess):
    with pytest.raises(ValueError, match="ess must be"):
        BayesDirichlet(ess)


@pytest.mark.parametrize("beta", [-0.1, math.nan, "x"])
def test_impossible_laplace_factors(beta):
    with pytest.raises(ValueError, match="beta must be"):
        BIC(beta)


def test_total_potential_spreads_the_equivalent_sample_size():
    counts = np.array([[1, 2], [3, 4]])
    assert total_potential(XLOGX, counts, 2.0) == pytest.approx(
        sum((k + 0.5) * math.log(k + 0.5) for k in (1, 2, 3, 4))
    )
