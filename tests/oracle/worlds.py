"""Brute force: every query by enumerating all complete rows, straight from a circuit's arrays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut.circuit import Circuit

SUM, DECISION, PRODUCT, INDICATOR, CATEGORICAL, JUNCTION, GAUSSIAN = range(7)


def worlds(circuit: Circuit) -> NDArray[np.int64]:
    """Return every complete row of the discrete variables, shape (number of worlds, m)."""
    ranges = [range(k) for k in circuit.domains.n_states.tolist()]
    return np.array(list(product(*ranges)), dtype=np.int64).reshape(-1, len(ranges))


def probability(circuit: Circuit, row: NDArray[np.int64], node: int | None = None) -> float:
    """Return the value of a node (default: the root) for one complete row, by recursion."""
    node = circuit.n_nodes - 1 if node is None else node
    kind, var = circuit.kind[node], circuit.var[node]
    edges = range(circuit.child_ptr[node], circuit.child_ptr[node + 1])
    if kind == SUM:
        return sum(
            np.exp(circuit.log_weight[e]) * probability(circuit, row, circuit.child[e])
            for e in edges
        )
    if kind == DECISION:
        total = 0.0
        for e in edges:
            states = circuit.branch_state[circuit.branch_ptr[e] : circuit.branch_ptr[e + 1]]
            if row[var] in states:
                total += np.exp(circuit.log_weight[e]) * probability(circuit, row, circuit.child[e])
        return float(total)
    if kind == PRODUCT:
        return float(np.prod([probability(circuit, row, circuit.child[e]) for e in edges]))
    if kind == INDICATOR:
        return float(row[var] == circuit.state[node])
    if kind == CATEGORICAL:
        local, share = seen(circuit, circuit.view[node], row[var])
        return 0.0 if local < 0 else share * np.exp(circuit.param[circuit.param_ptr[node] + local])
    assert kind == JUNCTION, "continuous variables cannot be enumerated"
    value = 1.0
    for f in range(circuit.fam_ptr[node], circuit.fam_ptr[node + 1]):
        begin, end = circuit.fam_parent_ptr[f], circuit.fam_parent_ptr[f + 1]
        parents = circuit.fam_parent[begin:end]
        views = circuit.fam_parent_view[begin:end]
        local, share = seen(circuit, circuit.fam_view[f], row[circuit.fam_var[f]])
        given = [seen(circuit, u, row[p])[0] for p, u in zip(parents, views, strict=True)]
        if local < 0 or min(given, default=0) < 0:
            return 0.0
        shape = [*circuit.fam_parent_states[begin:end], circuit.fam_states[f]]
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        value *= share * np.exp(table.reshape(shape)[(*given, local)])
    return float(value)


def seen(circuit: Circuit, view: int, state: int) -> tuple[int, float]:
    """The state as a view shows it, and its share among those that look the same."""
    if view < 0:
        return int(state), 1.0
    at = circuit.view_ptr[view] + state
    return int(circuit.view_local[at]), float(np.exp(circuit.view_share[at]))


class Worlds:
    """All worlds of a small circuit with their probabilities."""

    def __init__(self, circuit: Circuit, node: int | None = None) -> None:
        self.domains = circuit.domains
        self.rows = worlds(circuit)
        self.p = np.array([probability(circuit, row, node) for row in self.rows])

    def agree(
        self, codes: NDArray[np.uint8], weights: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """How far each world agrees with one partial row (255: not observed) and its weights."""
        known = codes != 255
        agree = np.all(self.rows[:, known] == codes[known], axis=1).astype(np.float64)
        if weights is not None:
            columns = self.domains.offsets[:-1] + self.rows
            of_state = np.asarray(weights, dtype=np.float64)[columns]
            of_state[:, known] = of_state[:, known] > 0
            agree *= of_state.prod(axis=1)
        return agree

    def posterior(
        self, codes: NDArray[np.uint8], weights: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of every world given one partial row."""
        joint = self.p * self.agree(codes, weights)
        return joint / joint.sum()

    def marginals(self, posterior: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p(X_v = k) for all v and k in one row."""
        out = np.zeros(int(self.domains.n_states.sum()))
        for row, p in zip(self.rows, posterior, strict=True):
            out[self.domains.offsets[:-1] + row] += p
        return out
