"""Expected counts of a circuit's parameters, and the entropy that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayescut._typing import FloatArray
from bayescut.circuit._kinds import CATEGORICAL, PRODUCT
from bayescut.circuit._threads import in_order
from bayescut.circuit.evidence import read_evidence
from bayescut.circuit.inputs import INPUTS
from bayescut.circuit.inputs._scratch import Sinks
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError, PropertyError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


@dataclass(frozen=True, eq=False)
class Flows:
    """How often the rows of a table use each parameter of a circuit, in expectation.

    Attributes
    ----------
    edges : float64 array (E,)
        Aligned with ``circuit.log_weight``.
    tables : float64 array (T,)
        Aligned with ``circuit.fam_table``.
    categorical : float64 array (P,)
        Aligned with ``circuit.param``; zero where a parameter belongs to a continuous input.
    continuous : float64 array (n_nodes, 3)
        Weight, mean and sum of squared deviations of what each continuous input has seen; zero for
        other nodes; no rows if the circuit has no continuous inputs.
    """

    edges: FloatArray
    tables: FloatArray
    categorical: FloatArray
    continuous: FloatArray

    @classmethod
    def zeros(cls, circuit: Circuit) -> Flows:
        """Return the flows of no rows at all."""
        n_continuous = circuit.n_nodes if np.any(circuit.domains.n_states == 0) else 0
        return cls(
            np.zeros(len(circuit.child)),
            np.zeros(len(circuit.fam_table)),
            np.zeros(len(circuit.param)),
            np.zeros((n_continuous, 3)),
        )

    def add(self, other: Flows) -> None:
        """Add the flows of more rows in place."""
        self.edges[:] += other.edges
        self.tables[:] += other.tables
        self.categorical[:] += other.categorical
        # Moments of two sets of rows combined (Chan, Golub and LeVeque 1979).
        weight, mean, squares = self.continuous.T
        extra = other.continuous[:, 0]
        total = weight + extra
        share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0)
        step = other.continuous[:, 1] - mean
        squares += other.continuous[:, 2] + step**2 * weight * share
        mean += step * share
        weight += extra


def flows(
    circuit: Circuit,
    rows: Any,
    sample_weight: ArrayLike | None = None,
    *,
    n_jobs: int | None = None,
) -> Flows:
    r"""Count how often rows use each edge, table cell and input of a circuit, in expectation.

    The flow of edge (S, k) is :math:`\sum_r w_r\, p(\text{edge is used} \mid \text{row } r)`, with
    :math:`p(k \mid S) = \theta_k v_k / v_S` at a sum S of value :math:`v_S`. On a deterministic
    circuit with complete rows these are the exact counts n[S, N] of the Bayesian score; in general
    they are the sufficient statistics of an EM step.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> node = build.decision(
    ...     0, [0.5, 0.5], build.categorical(1, [0.5, 0.5]), build.categorical(1, [0.2, 0.8])
    ... )
    >>> counts = build.circuit(node, [2, 2]).flows([[0, 1], [0, 0], [1, 1]])
    >>> counts.edges, counts.categorical
    (array([2., 1.]), array([1., 1., 0., 1.]))
    """
    circuit.require()
    read = read_evidence(circuit, rows)
    weights = np.ones(read.n_rows)
    if sample_weight is not None:
        weights = np.array(sample_weight, dtype=np.float64)
        if weights.shape != (read.n_rows,):
            raise DataError(f"{read.n_rows} rows but weights of shape {weights.shape}.")
        if not np.all((weights >= 0) & np.isfinite(weights)):
            raise DataError("Weights must be finite and not negative.")
    passes = circuit._passes
    root = np.array([circuit.root])
    block = passes.block_rows(with_joint=True)

    def work(start: int, stop: int) -> Flows:
        part = Flows.zeros(circuit)
        for begin in range(start, stop, block):
            end = min(begin + block, stop)
            sinks = Sinks(
                posterior=np.empty((0, 0)),
                moments=np.empty((end - begin, 0, 3)),
                edges=part.edges,
                tables=part.tables,
                params=part.categorical,
                statistics=part.continuous,
            )
            routed = passes.up(read, begin, end, root, with_joint=True)
            passes.spread(routed, begin, weights[begin:end], sinks)
        return part

    total = Flows.zeros(circuit)
    # Enough rows at a time to outweigh the cost of adding up all counts; a function of the circuit
    # alone, since the order of the additions decides the last bits of the sums.
    n_counts = len(total.edges) + len(total.tables) + len(total.categorical)
    size = block * max(4, n_counts // (64 * 1024))
    in_order(read.n_rows, size, n_jobs, work, total.add)
    return total


def entropy(circuit: Circuit) -> float:
    r"""Entropy :math:`-\sum_x p(x) \log p(x)` in nats, exact because the circuit is deterministic.

    Each complete row then uses one product of parameters, so the entropy is the sum of
    :math:`-\log\theta` over all parameters, each as often as it is used under p itself. Continuous
    variables contribute their differential entropy.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> round(build.circuit(build.independent([[0.5, 0.5], [0.25] * 4]), [2, 4]).entropy(), 6)
    2.079442
    """
    circuit.require(deterministic=True)
    if circuit.has_normals:
        raise PropertyError(
            "The entropy is not defined for circuits with normal leaves: it counts states, and "
            "they know numbers."
        )
    dtype = code_dtype(circuit.domains)
    blank = np.full((1, len(circuit.domains)), missing_code(dtype), dtype=dtype)
    used = flows(circuit, blank, n_jobs=1)
    owner = np.repeat(circuit.kind, np.diff(circuit.child_ptr))
    total = _cross(used.edges, circuit.log_weight, owner != PRODUCT)
    total += _cross(used.tables, circuit.fam_table, True)
    owner = np.repeat(circuit.kind, np.diff(circuit.param_ptr))
    total += _cross(used.categorical, circuit.param, owner == CATEGORICAL)
    total += _inside_views(circuit, used)
    for kind in INPUTS.values():
        if kind.continuous:
            for node in np.flatnonzero(circuit.kind == kind.kind):
                param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
                total += float(used.continuous[node, 0]) * kind.entropy(param)
    return total


def _inside_views(circuit: Circuit, used: Flows) -> float:
    """Entropy of the states that look the same to a leaf, as often as it is used."""
    share = np.exp(circuit.view_share)
    each = -share * circuit.view_share
    total = 0.0
    for node in np.flatnonzero(circuit.view >= 0):
        begin, end = circuit.param_ptr[node], circuit.param_ptr[node + 1]
        total += _inside_view(circuit, int(circuit.view[node]), used.categorical[begin:end], each)
    for f in np.flatnonzero(circuit.fam_view >= 0):
        begin, end = circuit.fam_table_ptr[f], circuit.fam_table_ptr[f + 1]
        counts = used.tables[begin:end].reshape(-1, circuit.fam_states[f]).sum(axis=0)
        total += _inside_view(circuit, int(circuit.fam_view[f]), counts, each)
    return total


def _inside_view(circuit: Circuit, view: int, counts: FloatArray, each: FloatArray) -> float:
    begin, end = circuit.view_ptr[view], circuit.view_ptr[view + 1]
    local = circuit.view_local[begin:end]
    return float(counts[local[local >= 0]] @ each[begin:end][local >= 0])


def _cross(weight: FloatArray, logs: FloatArray, where: Any) -> float:
    used = where & (weight > 0)
    return -float(weight[used] @ logs[used])
