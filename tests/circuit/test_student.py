"""Student-t inputs: a kind of input that was added as one file."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from bayescut.circuit import build
from bayescut.exceptions import CircuitError, PropertyError
from bayescut.files import dumps, loads
from bayescut.scores.circuit_score import bayes_score, bic_score, refit

nan = float("nan")


def mixture():
    """x0 decides which heavy-tailed density x1 has."""
    node = build.decision(
        0, [0.3, 0.7], build.student(1, -1.0, 0.5, 4.0), build.student(1, 2.0, 1.5, 3.0)
    )
    return build.circuit(node, [2, 0])


def density(x):
    left = 0.3 * stats.t.pdf(x, 4.0, -1.0, 0.5)
    return left, 0.7 * stats.t.pdf(x, 3.0, 2.0, 1.5)


def test_likelihood_and_marginalisation() -> None:
    circuit = mixture()
    x = np.array([-40.0, -1.0, 0.3, 2.0, 1e6])
    left, right = density(x)
    table = np.column_stack([np.zeros(5), x])
    assert_allclose(circuit.log_likelihood(table), np.log(left), rtol=1e-12)
    table[:, 0] = nan
    assert_allclose(circuit.log_likelihood(table), np.log(left + right), rtol=1e-12)
    assert_allclose(circuit.log_likelihood([[0, nan], [nan, nan]]), [np.log(0.3), 0], atol=1e-12)
    assert_allclose(circuit.marginals(table)[:, 0], left / (left + right), rtol=1e-10)
    total, _ = integrate.quad(lambda v: np.exp(circuit.log_likelihood([[nan, v]])[0]), -60, 60)
    assert total == pytest.approx(1.0, abs=1e-3)


def test_moments() -> None:
    mean, variance = mixture().moments([[nan, nan], [1, nan], [1, 5.0]])
    assert_allclose(mean[:, 0], [0.3 * -1 + 0.7 * 2, 2.0, 5.0])
    within = 0.3 * stats.t.var(4, scale=0.5) + 0.7 * stats.t.var(3, scale=1.5)
    between = 0.3 * 0.7 * 3.0**2
    assert_allclose(variance[:, 0], [within + between, stats.t.var(3, scale=1.5), 0.0])
    # No mean with one degree of freedom, no variance with two.
    for freedom, expected in ((1.0, (nan, nan)), (2.0, (0.5, np.inf))):
        circuit = build.circuit(build.student(0, 0.5, 1.0, freedom), [0])
        mean, variance = circuit.moments([[nan]])
        assert_allclose([mean[0, 0], variance[0, 0]], expected)


def test_most_probable_explanation() -> None:
    rows, value = mixture().mpe([[nan, nan], [0, nan], [nan, 2.5]])
    left, right = 0.3 * stats.t.pdf(0, 4) / 0.5, 0.7 * stats.t.pdf(0, 3) / 1.5
    assert left > right
    assert_allclose(rows, [[0, -1.0], [0, -1.0], [1, 2.5]])
    assert_allclose(value[:2], np.log([left, left]), rtol=1e-12)


@pytest.mark.parametrize("freedom", [0.7, 3.0, 1e8])
def test_samples(freedom: float) -> None:
    circuit = build.circuit(build.student(0, 1.0, 2.0, freedom), [0])
    drawn = circuit.sample(20_000, 0)[:, 0]
    assert stats.kstest(drawn, stats.t(freedom, 1.0, 2.0).cdf).pvalue > 1e-3
    assert_allclose(circuit.sample_conditional([[3.0]], 0), [[3.0]])


def test_entropy_statistics_files_and_drawing() -> None:
    circuit = build.circuit(build.student(0, 1.0, 2.0, 3.0), [0])
    assert circuit.entropy() == pytest.approx(stats.t.entropy(3.0, scale=2.0), rel=1e-9)
    weight, mean, squares = circuit.flows([[1.0], [4.0]]).continuous[0]
    assert_allclose([weight, mean, squares], [2.0, 2.5, 4.5])
    assert loads(dumps(circuit)) == circuit
    assert circuit.n_parameters == 3
    assert circuit.draw().texts[0].get_text() == "0: t(1, 2; 3)"


def test_what_has_no_answer_is_refused_by_name() -> None:
    circuit = build.circuit(build.student(0, 1.0, 2.0, 3.0), [0])
    for ask in (bayes_score, bic_score, refit):
        with pytest.raises(PropertyError, match="student"):
            ask(circuit, [[1.0], [2.0]])
    for location, scale, freedom in ((nan, 1, 1), (0, 0, 1), (0, 1, 0), (0, np.inf, 1)):
        with pytest.raises(CircuitError, match=r"Node 0 .student.*degrees of freedom"):
            build.circuit(build.student(0, location, scale, freedom), [0])
    with pytest.raises(CircuitError, match="must be continuous"):
        build.circuit(build.student(0, 0, 1, 1), [2])
