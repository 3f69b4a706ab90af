"""Parameters of a grown sum-product network: pseudo-counts of its leaves, and the circuit."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit import _kinds as kinds
from bayescut.data.domains import Domains
from bayescut.learn.spn.grow import LEAF, PRODUCT, SUM, Grown

# Rows that are scored at a time.
_BLOCK = 256


def leaf_logs(grown: Grown, sizes: IntArray, alpha: float) -> FloatArray:
    """Log-probabilities ``(n_x + alpha) / (n + K alpha)`` of the leaves, aligned with the counts.

    With a pseudo-count of 0 a column without rows is uniform.
    """
    widths = np.asarray(sizes, dtype=np.int64)[grown.column]
    start = np.cumsum(widths) - widths
    total = np.add.reduceat(grown.counts, start) + alpha * widths
    owner = np.repeat(np.arange(len(widths)), widths)
    empty = total <= 0
    smoothed = np.where(empty[owner], 1.0, grown.counts + alpha)
    with np.errstate(divide="ignore"):
        return np.log(smoothed / np.where(empty, widths, total)[owner])


def score_rows(grown: Grown, sizes: IntArray, logs: FloatArray, codes: CodeArray) -> FloatArray:
    """Log-likelihood of complete rows before there is a circuit.

    For choosing pseudo-counts: on the widest tables a circuit has two million inputs, of which a
    row differs from the usual state in a few in a hundred only, and only those are looked at.
    """
    depth = np.zeros(len(grown.kind), dtype=np.int64)
    _depths(grown.parent, depth)
    widths = np.asarray(sizes, dtype=np.int64)[grown.column]
    cell_ptr = np.concatenate([[0], np.cumsum(widths)])
    values = np.empty(len(codes))
    m = codes.shape[1]
    usual = np.array([np.argmax(np.bincount(codes[:, j])) for j in range(m)], dtype=np.int64)
    for lo in range(0, len(codes), _BLOCK):
        block = codes[lo : lo + _BLOCK]
        unusual = block != usual
        row_of = [np.flatnonzero(unusual[:, j]) for j in range(m)]
        ptr = np.concatenate([[0], np.cumsum([len(r) for r in row_of])]).astype(np.int64)
        row = np.concatenate(row_of).astype(np.int64)
        state = block[row, np.repeat(np.arange(m), np.diff(ptr))].astype(np.int64)
        _score_block(
            grown.kind, grown.parent, grown.log_weight, depth, grown.column_ptr, grown.column,
            cell_ptr, logs, usual, ptr, row, state, values[lo : lo + _BLOCK],
        )  # fmt: skip
    return values


@kernel
def _depths(parent, depth):
    for i in range(1, parent.shape[0]):
        depth[i] = depth[parent[i]] + 1


@kernel
def _score_block(
    kind, parent, log_weight, depth, column_ptr, column, cell_ptr, logs, usual, ptr, row, state,
    values,
):  # fmt: skip
    """Children before parents; all that is open are the ancestors of a node, one for each depth."""
    n = values.shape[0]
    levels = depth.max() + 1
    top = np.full((levels, n), -np.inf)  # of a sum: largest term, and the others relative to it
    mass = np.zeros((levels, n))  # of a product: mass alone, as the sum of logarithms
    for i in range(kind.shape[0] - 1, -1, -1):
        if kind[i] == LEAF:
            base = 0.0
            values[:] = 0.0
            for k in range(column_ptr[i], column_ptr[i + 1]):
                j = column[k]
                at = logs[cell_ptr[k] : cell_ptr[k + 1]]
                known = at[usual[j]]
                base += known
                for t in range(ptr[j], ptr[j + 1]):
                    values[row[t]] += at[state[t]] - known
            values += base
        else:
            own_top, own_mass = top[depth[i]], mass[depth[i]]
            for r in range(n):
                values[r] = own_mass[r]
                if kind[i] == SUM:
                    values[r] = own_top[r] + np.log(own_mass[r])
            own_top[:] = -np.inf
            own_mass[:] = 0.0
        if i == 0:
            break
        above = parent[i]
        up_top, up_mass = top[depth[above]], mass[depth[above]]
        if kind[above] == PRODUCT:
            up_mass += values
            continue
        for r in range(n):
            up_top[r], up_mass[r] = add_log(up_top[r], up_mass[r], values[r] + log_weight[i])


@inner
def add_log(top, mass, value):
    """Add ``exp(value)`` to ``mass exp(top)``; terms below rounding are skipped."""
    if value <= top:
        return top, (mass + np.exp(value - top) if value > top - 40.0 else mass)
    return value, (1.0 + mass * np.exp(top - value) if value < top + 40.0 else 1.0)


def freeze_spn(grown: Grown, logs: FloatArray, domains: Domains) -> Circuit:
    """Turn a grown network into a circuit; columns of one leaf become a leaf of width 0."""
    n = len(grown.kind)
    sizes = domains.n_states
    back = np.arange(n)[::-1]  # children before parents
    place = np.empty(n, dtype=np.int64)
    place[back] = np.arange(n)
    widths = np.diff(grown.column_ptr)
    single = (grown.kind == LEAF) & (widths == 1)
    kind = np.select(
        [grown.kind == SUM, grown.kind == PRODUCT, single],
        [kinds.SUM, kinds.PRODUCT, kinds.CATEGORICAL],
        kinds.JUNCTION,
    )[back]
    var = np.full(n, -1, dtype=np.int32)
    var[single] = grown.column[grown.column_ptr[:-1][single]]
    # Edges in the order of their parents, the first grown first.
    edges = np.argsort(place[grown.parent[1:]], kind="stable") + 1
    n_edges = np.bincount(place[grown.parent[1:]], minlength=n)
    # Columns of leaves in the order of the nodes.
    owner = np.repeat(np.arange(n), widths)
    cells = sizes[grown.column].astype(np.int64)
    in_order = np.argsort(place[owner], kind="stable")
    family = in_order[~single[owner[in_order]]]
    first = np.cumsum(cells) - cells
    categorical = in_order[single[owner[in_order]]]
    return Circuit(
        kind=kind.astype(np.uint8),
        var=var[back],
        state=np.full(n, -1, dtype=np.int32),
        child_ptr=_pointers(n_edges),
        child=place[edges].astype(np.int32),
        log_weight=grown.log_weight[edges],
        param_ptr=_pointers(np.where(single, _cells_of(grown, cells), 0)[back]),
        param=_gather(logs, first, cells, categorical),
        fam_ptr=_pointers(np.where(single, 0, widths)[back]),
        fam_var=grown.column[family],
        fam_host=np.full(len(family), -1, dtype=np.int32),
        fam_parent_ptr=np.zeros(len(family) + 1, dtype=np.int64),
        fam_parent=np.empty(0, dtype=np.int32),
        fam_table_ptr=_pointers(cells[family]),
        fam_table=_gather(logs, first, cells, family),
        domains=domains,
    )


def _cells_of(grown: Grown, cells: IntArray) -> IntArray:
    total = np.concatenate([[0], np.cumsum(cells)])
    return np.diff(total[grown.column_ptr])


def _gather(logs: FloatArray, first: IntArray, cells: IntArray, which: IntArray) -> FloatArray:
    """Cells of some columns of leaves, end to end."""
    widths = cells[which]
    offset = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    return logs[np.repeat(first[which], widths) + offset]


def _pointers(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
