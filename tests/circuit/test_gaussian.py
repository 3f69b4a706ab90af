"""Circuits with continuous variables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from bayescut.circuit import Circuit, Evidence, build
from bayescut.exceptions import DataError

nan = float("nan")


@pytest.fixture
def circuit() -> Circuit:
    """X0 binary and cut on; X1 continuous; X2 of three states."""
    children = [
        build.product(build.gaussian(1, mean, sd), build.categorical(2, p))
        for mean, sd, p in [(-1.0, 0.5, [0.2, 0.3, 0.5]), (2.0, 1.5, [0.6, 0.3, 0.1])]
    ]
    return build.circuit(build.decision(0, [0.3, 0.7], *children), [2, 0, 3])


def test_log_likelihood(circuit: Circuit) -> None:
    found = circuit.log_likelihood([[1, 0.5, 2], [nan, 0.5, 2], [nan, nan, 2], [nan, 0.5, nan]])
    low, high = norm.pdf(0.5, -1, 0.5), norm.pdf(0.5, 2, 1.5)
    expected = [
        0.7 * high * 0.1,
        0.3 * low * 0.5 + 0.7 * high * 0.1,
        0.3 * 0.5 + 0.7 * 0.1,
        0.3 * low + 0.7 * high,
    ]
    assert_allclose(np.exp(found), expected)
    codes = np.array([[1, 0, 2], [255, 0, 2]], dtype=np.uint8)
    values = np.array([[nan, 0.5, nan]] * 2)
    assert_allclose(circuit.log_likelihood(Evidence(codes, values=values)), found[:2])


def test_posteriors(circuit: Circuit) -> None:
    low, high = 0.3 * norm.pdf(0.5, -1, 0.5), 0.7 * norm.pdf(0.5, 2, 1.5)
    p = high / (low + high)
    found = circuit.marginals([[nan, 0.5, nan]])
    third = (1 - p) * np.array([0.2, 0.3, 0.5]) + p * np.array([0.6, 0.3, 0.1])
    assert_allclose(found[0], [1 - p, p, *third])
    mean, variance = circuit.moments([[nan, nan, 2], [0, nan, nan], [nan, 0.5, nan]])
    q = 0.07 / 0.22
    expected = -(1 - q) + 2 * q
    assert_allclose(mean[:, 0], [expected, -1.0, 0.5])
    second = (1 - q) * (0.25 + 1) + q * (2.25 + 4)
    assert_allclose(variance[:, 0], [second - expected**2, 0.25, 0.0], atol=1e-12)


def test_mpe(circuit: Circuit) -> None:
    rows, value = circuit.mpe([[nan, nan, nan], [nan, 2.0, nan]])
    # The narrow density has the higher peak although its branch is the lighter one.
    peaks = [0.3 * norm.pdf(0, 0, 0.5) * 0.5, 0.7 * norm.pdf(0, 0, 1.5) * 0.6]
    assert peaks[0] > peaks[1]
    assert rows.tolist() == [[0, -1.0, 2], [1, 2.0, 0]]
    assert_allclose(np.exp(value), peaks)


def test_samples(circuit: Circuit) -> None:
    rows = circuit.sample(20000, 0)
    assert rows.dtype == np.float64
    ones = rows[:, 0] == 1
    assert_allclose(ones.mean(), 0.7, atol=0.02)
    for mask, mean, sd in [(~ones, -1.0, 0.5), (ones, 2.0, 1.5)]:
        assert_allclose(rows[mask, 1].mean(), mean, atol=0.05)
        assert_allclose(rows[mask, 1].std(), sd, atol=0.05)
    given = np.tile([[nan, 0.5, nan]], (20000, 1))
    drawn = circuit.sample_conditional(given, 0)
    assert np.all(drawn[:, 1] == 0.5)
    expected = circuit.marginals(given[:1])[0, 1]
    assert_allclose(drawn[:, 0].mean(), expected, atol=0.02)


def test_entropy() -> None:
    node = build.decision(0, [0.3, 0.7], build.gaussian(1, 0, 2.0), build.gaussian(1, 5, 0.1))
    circuit = build.circuit(node, [2, 0])
    cut = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    expected = cut + 0.3 * norm(0, 2.0).entropy() + 0.7 * norm(5, 0.1).entropy()
    assert_allclose(circuit.entropy(), expected)


def test_conditionals(circuit: Circuit) -> None:
    found = circuit.conditional_log_likelihood([[1, nan, nan], [nan, 0.5, nan]], [[nan, 0.5, 0]])
    low, high = 0.3 * norm.pdf(0.5, -1, 0.5) * 0.2, 0.7 * norm.pdf(0.5, 2, 1.5) * 0.6
    assert_allclose(np.exp(found), [high / (low + high), 1.0])


def test_tables_are_checked(circuit: Circuit) -> None:
    with pytest.raises(DataError, match="row 1, column 2"):
        circuit.log_likelihood([[0, 0.5, 2], [0, 0.5, 3]])
    with pytest.raises(DataError, match=r"row 0, column 1.*finite"):
        circuit.log_likelihood([[0, np.inf, 2]])
    with pytest.raises(DataError, match="values"):
        circuit.log_likelihood(np.zeros((1, 3), dtype=np.uint8))
    with pytest.raises(DataError, match="shape"):
        circuit.log_likelihood(Evidence(np.zeros((1, 3), dtype=np.uint8), values=np.zeros((1, 2))))
    with pytest.raises(DataError, match="continuous"):
        circuit.expectation([[nan, nan, nan]], {1: [1.0]})
