"""Mutual information against sums over all worlds."""

import numpy as np
import pytest

from bayescut import CutsetNetwork
from bayescut.circuit import Evidence, build
from bayescut.circuit.dependence import mutual_information
from bayescut.exceptions import DataError


def joint(circuit):
    sizes = circuit.domains.n_states.tolist()
    return np.exp(circuit.log_likelihood(np.array(list(np.ndindex(*sizes))))).reshape(sizes)


def information(p):
    """All pairs of a joint table that sums to one."""
    m = p.ndim
    out = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            if i == j:
                own = p.sum(axis=tuple(k for k in range(m) if k != i))
                out[i, i] = -sum(q * np.log(q) for q in own if q > 0)
                continue
            pair = p.sum(axis=tuple(k for k in range(m) if k not in (i, j)))
            product = pair.sum(1, keepdims=True) * pair.sum(0, keepdims=True)
            seen = pair > 0
            out[i, j] = (pair[seen] * np.log(pair[seen] / product[seen])).sum()
    return out


def by_hand(circuit):
    return information(joint(circuit))


def test_network_and_mixture():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 4))
    X[:, 1] = np.where(rng.random(200) < 0.7, X[:, 0], X[:, 1])
    one = CutsetNetwork().fit(X).circuit_
    two = CutsetNetwork(width=0).fit(X[:50], sample_weight=np.arange(50)).circuit_
    three = build.mixture([0.3, 0.7], [one, CutsetNetwork().fit(np.roll(X, 1, axis=1)).circuit_])
    for circuit in (one, two, three):
        np.testing.assert_allclose(mutual_information(circuit), by_hand(circuit), atol=1e-10)


def test_states_of_probability_zero_and_constant_columns():
    tables = [[0.5, 0.5, 0.0], [[1, 0], [0, 1], [0.5, 0.5]]]
    circuit = build.circuit(build.chow_liu([-1, 0], tables), [3, 2])
    np.testing.assert_allclose(mutual_information(circuit), np.full((2, 2), np.log(2)))
    single = build.circuit(build.independent([[1.0], [0.3, 0.7]]), [1, 2])
    assert mutual_information(single)[0].tolist() == [0.0, 0.0]


def test_normalised_lies_between_zero_and_one():
    pair = build.chow_liu([-1, 0], [[0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]])
    strength = mutual_information(build.circuit(pair, [2, 2]), normalised=True)
    assert strength[0, 0] == 1 and 0.7 < strength[0, 1] < 0.75


@pytest.fixture(scope="module")
def circuits():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (300, 4))
    X[:, 1] = np.where(rng.random(300) < 0.7, X[:, 0], X[:, 1])
    X[:, 2] = np.where(rng.random(300) < 0.7, X[:, 0], X[:, 2])
    one = CutsetNetwork().fit(X).circuit_
    return one, build.mixture(
        [0.4, 0.6], [one, CutsetNetwork().fit(np.roll(X, 1, axis=1)).circuit_]
    )


@pytest.mark.parametrize("given", [[0], [2], [0, 3]])
def test_given_columns_are_summed_over_all_worlds(circuits, given):
    for circuit in circuits:
        p = joint(circuit)
        expected = 0.0
        for states in np.ndindex(*[p.shape[j] for j in given]):
            mask = np.zeros(p.shape)
            where = [slice(None)] * p.ndim
            for j, state in zip(given, states, strict=True):
                where[j] = state
            mask[tuple(where)] = 1.0
            part = (p * mask).sum()
            expected = expected + part * information(p * mask / part)
        found = mutual_information(circuit, given=given)
        np.testing.assert_allclose(found, expected, atol=1e-10)
        assert np.allclose(found[given], 0.0)


def test_evidence_narrows_the_worlds(circuits):
    for circuit in circuits:
        p = joint(circuit)
        weights = np.ones(12)
        weights[3:6] = [1, 0.25, 0]
        soft = p * weights[3:6][None, :, None, None]
        expected = information(soft / soft.sum())
        blank = np.full((1, 4), -1)
        found = mutual_information(circuit, evidence=Evidence(blank, weights))
        np.testing.assert_allclose(found, expected, atol=1e-10)
        sure = np.zeros_like(p)
        sure[:, :, 2] = p[:, :, 2]
        found = mutual_information(circuit, evidence=np.array([-1, -1, 2, -1]))
        np.testing.assert_allclose(found, information(sure / sure.sum()), atol=1e-10)


def test_given_and_evidence_that_make_no_sense(circuits):
    with pytest.raises(DataError, match="different columns"):
        mutual_information(circuits[0], given=[0, 0])
    with pytest.raises(DataError, match="different columns"):
        mutual_information(circuits[0], given=[7])
    with pytest.raises(DataError, match="one row"):
        mutual_information(circuits[0], evidence=np.zeros((2, 4), dtype=int))
    wide = build.circuit(build.independent([np.full(80, 1 / 80)] * 2), [80, 80])
    with pytest.raises(DataError, match="fewer columns"):
        mutual_information(wide, given=[0, 1])


def test_continuous_columns_are_refused():
    with pytest.raises(DataError, match="continuous"):
        mutual_information(build.circuit(build.gaussian(0, 0, 1), [0]))
