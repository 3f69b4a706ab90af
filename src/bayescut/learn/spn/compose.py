"""Circuits over parts of the columns, put together by sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._join import Joining
from bayescut.circuit._kinds import CATEGORICAL, DECISION, PRODUCT, SUM
from bayescut.data.domains import Domains


@dataclass
class Piece:
    """A part of a network: a circuit over some columns, or a sum or product of pieces.

    Attributes
    ----------
    circuit : Circuit or None
        Of a leaf, over positions in ``columns``.
    columns : int64 array or None
        Of a leaf.
    children : list of Piece
        Of a sum or product.
    weights : float64 array or None
        Of a sum.
    """

    circuit: Circuit | None = None
    columns: IntArray | None = None
    children: Sequence[Piece] = ()
    weights: FloatArray | None = None


def compose(root: Piece, domains: Domains) -> Circuit:
    """Lay out pieces as one circuit."""
    whole = Joining()

    def add(piece: Piece) -> int:
        """Number of the last node of a piece."""
        if piece.circuit is not None:
            assert piece.columns is not None
            return whole.add_circuit(piece.circuit, piece.columns.astype(np.int32)) - 1
        children = [add(child) for child in piece.children]
        if piece.weights is None:
            return whole.add_node(PRODUCT, children, np.zeros(len(children))) - 1
        return whole.add_node(SUM, children, np.log(piece.weights)) - 1

    add(root)
    return whole.circuit(domains)


def em_step(
    circuit: Circuit,
    start: Circuit,
    codes: Any,
    sample_weight: FloatArray | None,
    ess: float,
    n_jobs: int,
) -> Circuit:
    r"""One step of EM on all weights and tables.

    With the expected counts n of a table it becomes
    :math:`(n_x + e\,\theta_x) / (n + e)`, where :math:`\theta` is the table of ``start``.

    Parameters
    ----------
    circuit : Circuit
        What rows are explained by.
    start : Circuit
        What tables shrink to; of the same structure.
    codes : array
        Training rows.
    sample_weight : array or None
        Their weights.
    ess : float
        Equivalent sample size e.
    n_jobs : int
        Threads.
    """
    flows = circuit.flows(codes, sample_weight, n_jobs=n_jobs)
    kind = circuit.kind
    arity = np.diff(circuit.child_ptr)
    weighted = np.repeat((kind == SUM) | (kind == DECISION), arity)
    owner = np.repeat(np.arange(len(kind)), arity)
    log_weight = np.zeros(len(weighted))
    log_weight[weighted] = _means(
        flows.edges[weighted], start.log_weight[weighted], owner[weighted], ess
    )
    widths = np.diff(circuit.param_ptr)
    owner = np.repeat(np.arange(len(kind)), widths)
    inputs = np.repeat(kind == CATEGORICAL, widths)
    param = circuit.param.copy()
    param[inputs] = _means(flows.categorical[inputs], start.param[inputs], owner[inputs], ess)
    # A row of a table has one cell for each state of the family's variable.
    cells = np.diff(circuit.fam_table_ptr)
    states = circuit.fam_states
    lines = cells // states
    line = np.repeat(np.arange(int(lines.sum())), np.repeat(states, lines))
    table = _means(flows.tables, start.fam_table, line, ess)
    return replace(circuit, log_weight=log_weight, param=param, fam_table=table)


def _means(counts: FloatArray, logs: FloatArray, owner: IntArray, ess: float) -> FloatArray:
    """Logarithms of the posterior means of several distributions."""
    if len(counts) == 0:
        return counts.copy()
    prior = ess * np.exp(logs)
    total = np.bincount(owner, counts + prior)
    with np.errstate(divide="ignore"):
        return np.log((counts + prior) / total[owner])
