"""Long leaves: tiny probabilities, in linear space where that is safe and in logs where not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayescut.circuit import Circuit, Evidence, build

N = 2000


def log_space_tree(
    parents: list[int], tables: list[np.ndarray], row: np.ndarray, maximise: bool = False
) -> float:
    """Log-probability of a partial row (255: missing) of a tree whose parents come first."""
    reduce = np.max if maximise else np.logaddexp.reduce
    with np.errstate(divide="ignore"):
        beliefs = [np.atleast_2d(np.log(table)).copy() for table in tables]
    total = 0.0
    for v in range(len(parents) - 1, -1, -1):
        if row[v] != 255:
            others = np.arange(beliefs[v].shape[1]) != row[v]
            beliefs[v][:, others] = -np.inf
        message = reduce(beliefs[v], axis=1)
        if parents[v] < 0:
            total += message[0]
        else:
            beliefs[parents[v]] += message
    return total


def random_tables(rng: np.random.Generator, parents: list[int], sharp: float) -> list[np.ndarray]:
    return [
        rng.dirichlet([sharp, sharp]) if p < 0 else rng.dirichlet([sharp, sharp], size=2)
        for p in parents
    ]


def shapes(rng: np.random.Generator) -> dict[str, list[int]]:
    return {
        "chain": [-1, *range(N - 1)],
        "star": [-1] + [0] * (N - 1),
        "random": [-1] + [int(rng.integers(i)) for i in range(1, N)],
        "forest": [-1 if i % 50 == 0 else i - 1 for i in range(N)],
    }


@pytest.mark.parametrize("shape", ["chain", "star", "random", "forest"])
@pytest.mark.parametrize("sharp", [1.0, 0.05])
def test_long_leaves(shape: str, sharp: float) -> None:
    rng = np.random.default_rng(0)
    parents = shapes(rng)[shape]
    tables = random_tables(rng, parents, sharp)
    circuit = build.circuit(build.chow_liu(parents, tables), [2] * N)
    rows = circuit.sample(4, 0)
    noise = rng.integers(0, 2, size=rows.shape).astype(np.uint8)
    rows = np.concatenate([rows, noise])
    for missing in (0.0, 0.05, 0.5, 0.999):
        partial = rows.copy()
        partial[rng.random(rows.shape) < missing] = 255
        partial[:, 0] = 255
        expected = [log_space_tree(parents, tables, row) for row in partial]
        assert_allclose(circuit.log_likelihood(partial), expected, rtol=1e-10, atol=1e-10)
        possible = np.isfinite(expected)
        partial = partial[possible]
        expected = [log_space_tree(parents, tables, row, maximise=True) for row in partial]
        assert_allclose(circuit.mpe(partial)[1], expected, rtol=1e-10, atol=1e-10)
        marginals = circuit.marginals(partial).reshape(len(partial), N, 2)
        assert_allclose(marginals.sum(axis=2), 1.0, rtol=1e-9)
        for v in (0, 1, N // 2):
            fixed = partial.copy()
            fixed[:, v] = 1
            ratio = np.exp(circuit.log_likelihood(fixed) - circuit.log_likelihood(partial))
            observed = partial[:, v] != 255
            expected_ratio = np.where(observed, partial[:, v] == 1, ratio)
            assert_allclose(marginals[:, v, 1], expected_ratio, rtol=1e-7, atol=1e-12)
        assert np.all(circuit.sample_conditional(partial, 0) != 255)


def hub(sizes: tuple[int, int], odds: float) -> tuple[Circuit, np.ndarray]:
    """A missing hub whose first children speak for state 0 and whose others for state 1."""
    n = 1 + sum(sizes)
    p = odds / (1 + odds)
    favour_0, favour_1 = [[p, 1 - p], [1 - p, p]], [[1 - p, p], [p, 1 - p]]
    tables = [[0.5, 0.5], *[favour_0] * sizes[0], *[favour_1] * sizes[1]]
    circuit = build.circuit(build.chow_liu([-1] + [0] * (n - 1), tables), [2] * n)
    row = np.zeros((1, n), dtype=np.uint8)
    row[0, 0] = 255
    return circuit, row


@pytest.mark.parametrize("sizes", [(1000, 1000), (1000, 1001), (1200, 800), (0, 2000)])
def test_a_hub_torn_between_two_states(sizes: tuple[int, int]) -> None:
    # Half of the children put 10^-1000 on one state, the others on the other: one vector of
    # doubles with a common scale cannot hold both on the way.
    odds = 10.0
    circuit, row = hub(sizes, odds)
    log_p, log_q = np.log(odds / (1 + odds)), np.log(1 / (1 + odds))
    a, b = sizes
    states = np.log(0.5) + np.array([a * log_p + b * log_q, a * log_q + b * log_p])
    total = np.logaddexp(*states)
    assert_allclose(circuit.log_likelihood(row), total, rtol=1e-12)
    assert_allclose(circuit.marginals(row)[0, :2], np.exp(states - total), rtol=1e-9, atol=1e-300)
    completed, value = circuit.mpe(row)
    assert completed[0, 0] == np.argmax(states)
    assert_allclose(value, states.max(), rtol=1e-12)


def test_a_state_that_underflows_may_still_be_the_only_possible_one() -> None:
    circuit, row = hub((2000, 0), 10.0)
    allowed = np.ones(2 * row.shape[1], dtype=bool)
    allowed[0] = False
    expected = np.log(0.5) + 2000 * np.log(1 / 11)
    assert_allclose(circuit.log_likelihood(Evidence(row, allowed)), expected, rtol=1e-12)
    # The same by a leaf below the hub that excludes state 0.
    tables = [
        [0.5, 0.5],
        *[[[10 / 11, 1 / 11], [1 / 11, 10 / 11]]] * 2000,
        [[0.0, 1.0], [1.0, 0.0]],
    ]
    circuit = build.circuit(build.chow_liu([-1] + [0] * 2001, tables), [2] * 2002)
    row = np.append(row, np.zeros((1, 1), dtype=np.uint8), axis=1)
    assert_allclose(circuit.log_likelihood(row), expected, rtol=1e-12)
    assert_allclose(circuit.marginals(row)[0, :2], [0, 1])
    assert circuit.mpe(row)[0][0, 0] == 1
    assert circuit.sample_conditional(row, 0)[0, 0] == 1


def test_deep_circuits_do_not_recurse() -> None:
    node = build.categorical(0, [0.5, 0.5])
    for v in range(1, 3000):
        node = build.decision(v, [0.25, 0.75], node, node)
    circuit = build.circuit(node, [2] * 3000)
    assert circuit.depth == 2999
    blank = np.full((1, 3000), 255, dtype=np.uint8)
    assert_allclose(circuit.log_likelihood(blank), 0.0, atol=1e-9)
    assert_allclose(circuit.mpe(blank)[1], np.log(0.5) + 2999 * np.log(0.75))
    assert circuit.sample(2, 0).shape == (2, 3000)
    assert circuit.properties.deterministic
