r"""Tables of a leaf, shrunk towards the rows outside it.

A leaf learns from its own rows only, and a cut or a mixture splits the rows for all columns,
although most of them behave alike on both sides. So the prior of a table is centred, in part, on
the same table among the rows that are not the leaf's:

.. math:: \hat p(x \mid u) = \frac{n_{xu} + a + s \, q(x \mid u)}{n_u + K a + s}, \qquad
          q(x \mid u) = \frac{o_{xu} + a}{o_u + K a}

with n the counts of the leaf, o those outside, a the pseudo-count of the score (``ess`` over all
cells of the family) and K the number of states. One strength s serves a whole leaf: of a grid, the
one with the largest marginal likelihood of the leaf's rows under these priors. As no row is counted
in both n and o, this uses no row twice; s = 0 gives back the posterior means of the score.
Structures are still chosen by the score itself.
"""

from __future__ import annotations

import math
from threading import Lock

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import BitArray, FloatArray, IntArray
from bayescut.counts.families import (
    family_cells,
    family_counts,
    row_planes,
    some_family_counts,
)
from bayescut.data.bits import bit_layout, pack, pack_masks
from bayescut.data.table import Table
from bayescut.learn.leaves.leaf import Leaf, LeafFit
from bayescut.learn.leaves.merging import merge_counts

# Strengths chosen on twelve benchmark sets lie all over this grid: 0 or 0.5 where components
# differ in everything (nltcs, dna), 8 to 32 for sparse tables (tretail, bbc, kosarek).
STRENGTHS = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
_FIRST = 3  # the search climbs from here


class Outside:
    """All rows a model is learned from, packed once at most, to count families outside of a leaf.

    Parameters
    ----------
    table : Table
        Complete rows.
    rows : int32 array
        Those of them that the model is learned from.
    """

    def __init__(self, table: Table, rows: IntArray) -> None:
        self.n_rows = len(rows)
        self._table, self._rows = table, rows
        self._masks: tuple[IntArray, BitArray] | None = None
        self._bits: BitArray | None = None
        self._making = Lock()
        self._layout = bit_layout(np.arange(table.n_columns), table.sizes)
        self._planes, self._unit = row_planes(table.weights, rows)

    def counts(self, fit: LeafFit) -> FloatArray:
        """Counts of the families of a leaf among all rows but its own."""
        if fit.states:
            return rows_left(merge_counts(fit, self._some_counts(fit)), fit.counts)
        layout = self._layout
        every = family_counts(
            self._packed(), self._planes, self._unit, self.n_rows, layout.sizes, layout.ptr,
            fit.columns, fit.parent_ptr, fit.parents,
        )  # fmt: skip
        return rows_left(merge_counts(fit, every), fit.counts)

    def _some_counts(self, fit: LeafFit) -> FloatArray:
        """Counts among all rows of the families of a leaf that some states cannot reach."""
        start, masks = self._state_masks()
        states = fit.states or {}
        row_ptr = np.concatenate([[0], np.cumsum(fit.sizes)]).astype(np.int64)
        row = np.concatenate(
            [start[c] + states.get(c, np.arange(k)) for c, k in enumerate(fit.sizes.tolist())]
        ).astype(np.int64)
        return some_family_counts(
            masks,
            self._planes,
            self._unit,
            self.n_rows,
            row_ptr,
            row,
            fit.sizes,
            fit.columns,
            fit.parent_ptr,
            fit.parents,
        )

    def _packed(self) -> BitArray:
        """The rows, packed when first asked for: a network of one leaf has none outside."""
        with self._making:
            if self._bits is None:
                self._bits = pack(self._table.codes, self._rows, self._layout)
            return self._bits

    def _state_masks(self) -> tuple[IntArray, BitArray]:
        """The rows of every state of every column; made when first asked for."""
        with self._making:
            if self._masks is None:
                start = np.concatenate([[0], np.cumsum(self._table.sizes)]).astype(np.int64)
                masks = np.zeros((start[-1], (self.n_rows + 63) // 64), dtype=np.uint64)
                pack_masks(self._table.codes, self._rows, start[:-1], masks)
                self._masks = start[:-1], masks
            return self._masks


def rows_left(every: FloatArray, own: FloatArray) -> FloatArray:
    """Counts among all rows without a leaf's own."""
    # Rounded weights of the whole and of the leaf may differ in the last place.
    return np.maximum(every - own, 0.0)


@kernel
def log_marginal(own, others, sizes, columns, parent_ptr, parents, ess, strength):
    """Log marginal likelihood of a leaf's rows if its tables have a prior of this strength."""
    total = 0.0
    start = 0
    for f in range(columns.shape[0]):
        k = sizes[columns[f]]
        cells = family_cells(sizes, parent_ptr, parents, f)
        a = ess / (cells * k)
        for _ in range(cells):
            n = 0.0
            outside = 0.0
            for x in range(start, start + k):
                n += own[x]
                outside += others[x]
            if n > 0.0:
                scale = strength / (outside + k * a)
                for x in range(start, start + k):
                    if own[x] > 0.0:
                        pseudo = a + scale * (others[x] + a)
                        total += math.lgamma(own[x] + pseudo) - math.lgamma(pseudo)
                pseudo = k * a + strength
                total -= math.lgamma(n + pseudo) - math.lgamma(pseudo)
            start += k
    return total


def choose_strength(
    own: FloatArray,
    others: FloatArray,
    sizes: IntArray,
    columns: IntArray,
    parent_ptr: IntArray,
    parents: IntArray,
    ess: float,
) -> float:
    """Strength with the largest marginal likelihood, found by climbing along the grid `STRENGTHS`.

    Parameters
    ----------
    own, others : float64 arrays
        Counts of the families among the leaf's rows and outside, end to end.
    sizes : int64 array
        Numbers of states of all columns.
    columns, parent_ptr, parents : int64 arrays
        The families.
    ess : float
        Equivalent sample size of a family.
    """
    families = (sizes, columns, parent_ptr, parents)
    at = _FIRST
    best = log_marginal(own, others, *families, ess, STRENGTHS[at])
    for step in (-1, 1):
        while 0 <= at + step < len(STRENGTHS):
            value = log_marginal(own, others, *families, ess, STRENGTHS[at + step])
            if value <= best:
                break
            at, best = at + step, value
        if at != _FIRST:
            break
    return float(STRENGTHS[at])


@kernel
def posterior_tables(own, others, sizes, columns, parent_ptr, parents, ess, strength):
    """Posterior means ``log p(x | parents)`` of the families, end to end."""
    out = np.empty(own.shape[0])
    start = 0
    for f in range(columns.shape[0]):
        k = sizes[columns[f]]
        cells = family_cells(sizes, parent_ptr, parents, f)
        a = ess / (cells * k)
        for _ in range(cells):
            n = 0.0
            outside = 0.0
            for x in range(start, start + k):
                n += own[x]
                outside += others[x]
            scale = strength / (outside + k * a) if strength > 0.0 else 0.0
            whole = n + k * a + strength
            for x in range(start, start + k):
                if whole > 0.0:
                    out[x] = math.log((own[x] + a + scale * (others[x] + a)) / whole)
                else:
                    out[x] = -math.log(k)
            start += k
    return out


def shrunken_leaf(fit: LeafFit, others: FloatArray) -> Leaf:
    """The leaf whose tables are posterior means at the strength of the largest likelihood.

    ``others`` are the counts of its families outside; with no row outside nothing is shrunk.
    """
    counts = (fit.counts, others, *fit.families, fit.ess)
    strength = choose_strength(*counts) if others.any() else 0.0
    return fit.leaf(posterior_tables(*counts, strength))
