"""Brute force: every query by enumerating all complete rows, straight from a circuit's arrays."""

from __future__ import annotations

from itertools import product

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
        e = edges[row[var]]
        return np.exp(circuit.log_weight[e]) * probability(circuit, row, circuit.child[e])
    if kind == PRODUCT:
        return float(np.prod([probability(circuit, row, circuit.child[e]) for e in edges]))
    if kind == INDICATOR:
        return float(row[var] == circuit.state[node])
    if kind == CATEGORICAL:
        return float(np.exp(circuit.param[circuit.param_ptr[node] + row[var]]))
    assert kind == JUNCTION, "continuous variables cannot be enumerated"
    value = 1.0
    n_states = circuit.domains.n_states
    for f in range(circuit.fam_ptr[node], circuit.fam_ptr[node + 1]):
        parents = circuit.fam_parent[circuit.fam_parent_ptr[f] : circuit.fam_parent_ptr[f + 1]]
        v = circuit.fam_var[f]
        shape = [*n_states[parents], n_states[v]]
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        value *= np.exp(table.reshape(shape)[(*row[parents], row[v])])
    return float(value)


class Worlds:
    """All worlds of a small circuit with their probabilities."""

    def __init__(self, circuit: Circuit, node: int | None = None) -> None:
        self.domains = circuit.domains
        self.rows = worlds(circuit)
        self.p = np.array([probability(circuit, row, node) for row in self.rows])

    def agree(
        self, codes: NDArray[np.uint8], allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]:
        """Mark the worlds that agree with one partial row (255: not observed) and its masks."""
        seen = codes != 255
        agree = np.all(self.rows[:, seen] == codes[seen], axis=1)
        if allowed is not None:
            columns = self.domains.offsets[:-1] + self.rows
            agree &= allowed[columns].all(axis=1)
        return agree

    def posterior(
        self, codes: NDArray[np.uint8], allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the probability of every world given one partial row."""
        joint = self.p * self.agree(codes, allowed)
        return joint / joint.sum()

    def marginals(self, posterior: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return p(X_v = k) for all v and k in one row."""
        out = np.zeros(int(self.domains.n_states.sum()))
        for row, p in zip(self.rows, posterior, strict=True):
            out[self.domains.offsets[:-1] + row] += p
        return out
