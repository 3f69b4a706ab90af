"""Mutual information against sums over all worlds."""

import numpy as np
import pytest

from bayescut import CutsetNetwork
from bayescut.circuit import build
from bayescut.circuit.dependence import mutual_information
from bayescut.exceptions import DataError


def by_hand(circuit):
    sizes = circuit.domains.n_states.tolist()
    p = np.exp(circuit.log_likelihood(np.array(list(np.ndindex(*sizes))))).reshape(sizes)
    m = len(sizes)
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


def test_continuous_columns_are_refused():
    with pytest.raises(DataError, match="continuous"):
        mutual_information(build.circuit(build.gaussian(0, 0, 1), [0]))
