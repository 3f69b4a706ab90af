"""From the tensors of a network to a circuit."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit import _kinds as kinds
from bayescut.data.domains import Domains
from bayescut.learn.einet.em import LEAST_CELL, first_cells
from bayescut.learn.einet.layout import Layout
from bayescut.learn.einet.passes import Parameters


def freeze_network(layout: Layout, parameters: Parameters, domains: Domains) -> Circuit:
    """Turn a network into a circuit.

    A component of a leaf becomes a leaf of width 0, a partition K² products and K sums over them,
    a region of several partitions K more sums.

    Parameters
    ----------
    layout : Layout
        The structure.
    parameters : Parameters
        Weights and probabilities, as NumPy arrays.
    domains : Domains
        The states of all columns.

    Returns
    -------
    Circuit
        Smooth and decomposable, not deterministic.
    """
    k = layout.n_components
    pairs = k * k
    kind: list[IntArray] = []
    var: list[IntArray] = []
    n_edges: list[IntArray] = []
    child: list[IntArray] = []
    log_weight: list[FloatArray] = []
    n_param: list[IntArray] = []
    param: list[FloatArray] = []
    n_families: list[IntArray] = []
    fam_var: list[IntArray] = []
    tables: list[FloatArray] = []
    node_of = np.empty(layout.n_regions, dtype=np.int64)  # of the first component
    n_nodes = 0

    def add(n: int, of_kind: int, children: IntArray, logs: FloatArray) -> int:
        """Add sums or products with equally many children; return the first."""
        nonlocal n_nodes
        kind.append(np.full(n, of_kind, dtype=np.uint8))
        var.append(np.full(n, -1, dtype=np.int32))
        n_edges.append(np.full(n, children.shape[1]))
        child.append(children.ravel().astype(np.int32))
        log_weight.append(logs.ravel())
        n_param.append(np.zeros(n, dtype=np.int64))
        n_families.append(np.zeros(n, dtype=np.int64))
        n_nodes += n
        return n_nodes - n

    for leaf, table in zip(layout.leaves, parameters.leaves, strict=True):
        n_out = table.shape[1]
        for at in range(len(leaf.cells)):
            begins = first_cells(leaf.states[at])
            logs = np.log(_column_probabilities(table[at], begins, leaf.states[at]))
            columns = np.searchsorted(layout.offsets, leaf.cells[at][begins], side="right") - 1
            single = len(columns) == 1
            node_of[leaf.first + at] = n_nodes
            n_nodes += n_out
            kind.append(np.full(n_out, kinds.CATEGORICAL if single else kinds.JUNCTION))
            var.append(np.full(n_out, columns[0] if single else -1))
            n_edges.append(np.zeros(n_out, dtype=np.int64))
            n_param.append(np.full(n_out, logs.shape[1] if single else 0))
            n_families.append(np.full(n_out, 0 if single else len(columns)))
            if single:
                param.append(logs.ravel())
            else:
                fam_var.append(np.tile(columns, n_out))
                tables.append(logs.ravel())
    for t, layer in enumerate(layout.sums):
        n_regions, n = layer.shape
        weights = np.asarray(parameters.weights[t], dtype=np.float64)
        n_out = weights.shape[1]
        left, right = node_of[layer.left][:, None], node_of[layer.right][:, None]
        i, j = np.divmod(np.arange(pairs), k)
        children = np.stack([left + i, right + j], axis=2).reshape(-1, 2)
        first = add(len(children), kinds.PRODUCT, children, np.zeros(children.shape))
        products = first + np.arange(len(children)).reshape(-1, 1, pairs)
        children = np.broadcast_to(products, weights.shape).reshape(-1, pairs)
        logs = np.log(weights / weights.sum(axis=2, keepdims=True))
        first = add(len(children), kinds.SUM, children, logs)
        if n > 1:
            mixing = np.asarray(parameters.mixing[t], dtype=np.float64)
            logs = np.log(mixing / mixing.sum(axis=1, keepdims=True)).swapaxes(1, 2)
            own = first + np.arange(len(children)).reshape(n_regions, n, n_out)
            children = own.swapaxes(1, 2).reshape(-1, n)
            first = add(len(children), kinds.SUM, children, np.ascontiguousarray(logs))
        region = layer.first + np.arange(n_regions)
        node_of[region] = first + n_out * np.arange(n_regions)
    families = _joined(fam_var, np.int32)
    return Circuit(
        kind=_joined(kind, np.uint8),
        var=_joined(var, np.int32),
        state=np.full(n_nodes, -1, dtype=np.int32),
        child_ptr=_pointers(_joined(n_edges, np.int64)),
        child=_joined(child, np.int32),
        log_weight=_joined(log_weight, np.float64),
        param_ptr=_pointers(_joined(n_param, np.int64)),
        param=_joined(param, np.float64),
        fam_ptr=_pointers(_joined(n_families, np.int64)),
        fam_var=families,
        fam_host=np.full(len(families), -1, dtype=np.int32),
        fam_parent_ptr=np.zeros(len(families) + 1, dtype=np.int64),
        fam_parent=np.empty(0, dtype=np.int32),
        fam_table_ptr=_pointers(np.diff(layout.offsets)[families]),
        fam_table=_joined(tables, np.float64),
        domains=domains,
    )


def _column_probabilities(table: Any, begins: IntArray, states: IntArray) -> FloatArray:
    """Probabilities of a leaf's cells in float64, those of a column summing to 1."""
    cells = (1.0 - LEAST_CELL * states) * np.asarray(table, dtype=np.float64) + LEAST_CELL
    totals = np.add.reduceat(cells, begins, axis=1)
    return cells / np.repeat(totals, states[begins], axis=1)


def _joined(parts: list[Any], dtype: type) -> Any:
    return np.concatenate([np.empty(0, dtype=dtype), *parts]).astype(dtype)


def _pointers(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
