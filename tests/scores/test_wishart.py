"""Normal-Wishart scores and regressions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from bayescut.scores.wishart import NormalWishart


def table(n=40, m=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m))
    x[:, 2] += 0.8 * x[:, 0]
    x[:, 3] -= 0.5 * x[:, 2]
    mean = x.mean(axis=0)
    return x, mean, (x - mean).T @ (x - mean)


def prior(m=4):
    rng = np.random.default_rng(1)
    a = rng.normal(size=(m, m))
    return NormalWishart(rng.normal(size=m), a @ a.T + np.eye(m), 0.3, m + 2.5)


def test_marginal_likelihood_is_the_product_of_predictions() -> None:
    x, _, _ = table(15)
    p = prior()
    total = 0.0
    for i, row in enumerate(x):
        seen = x[:i]
        mean = seen.mean(axis=0) if i else np.zeros(4)
        after = p.updated(i, mean, (seen - mean).T @ (seen - mean))
        kappa, left = p.kappa + i, p.freedom + i - 4 + 1
        centre = (p.kappa * p.mean + i * mean) / kappa
        shape = after * (kappa + 1) / (kappa * left)
        total += stats.multivariate_t(centre, shape, left).logpdf(row)
    _, mean, scatter = table(15)
    assert p.log_marginal(15, mean, scatter) == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_parents_are_those_of_a_naive_search(seed: int) -> None:
    _, mean, scatter = table(seed=seed)
    p = prior()
    parents: list[list[int]] = []
    total = 0.0
    for i in range(4):

        def family(above, i=i):
            with_it = p.marginal([*above, i]).log_marginal(
                40, mean[[*above, i]], scatter[np.ix_([*above, i], [*above, i])]
            )
            if not above:
                return with_it
            return with_it - p.marginal(above).log_marginal(
                40, mean[above], scatter[np.ix_(above, above)]
            )

        own = list(range(i))
        while own:
            gains = {j: family([k for k in own if k != j]) - family(own) for j in own}
            best = max(gains, key=gains.get)
            if gains[best] <= -1.2 and len(own) <= 2:
                break
            own.remove(best)
        total += family(own) - 1.2 * len(own)
        parents.append(sorted(own))
    found = p.regress(40, mean, scatter, width=2, parent_cost=1.2)
    assert [np.flatnonzero(line).tolist() for line in found.coefficients] == parents
    assert found.score == pytest.approx(total, abs=1e-8)
    assert found.score + 1.2 * sum(map(len, parents)) == pytest.approx(
        p.of_network(40, mean, scatter, parents), abs=1e-8
    )
    after = p.updated(40, mean, scatter)
    for i, above in enumerate(parents):
        b = np.linalg.solve(after[np.ix_(above, above)], after[above, i]) if above else []
        assert_allclose(found.coefficients[i, above], b, atol=1e-10)


def test_all_parents_give_the_whole_covariance() -> None:
    _, mean, scatter = table()
    p = prior()
    found = p.regress(40, mean, scatter, parent_cost=-1e9)
    assert found.score - 6e9 == pytest.approx(p.log_marginal(40, mean, scatter), abs=1e-4)
    back = np.linalg.inv(np.eye(4) - found.coefficients)
    cov = back @ np.diag(found.variance) @ back.T
    expected = p.updated(40, mean, scatter) / (40 + 2.5 - 1) * (1 + 1 / 40.3)
    assert_allclose(cov, expected, rtol=1e-9)


def test_columns_that_determine_each_other_stay_finite() -> None:
    x, _, _ = table()
    x[:, 1] = 2 * x[:, 0]
    mean = x.mean(axis=0)
    p = NormalWishart(np.zeros(4), 1e-9 * np.eye(4), 0.1, 6.0)
    found = p.regress(40, mean, (x - mean).T @ (x - mean))
    assert np.isfinite(found.coefficients).all() and (found.variance > 0).all()


def test_bad_priors_are_refused() -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        NormalWishart(np.zeros(2), np.eye(2), 1.0, 3.0)
