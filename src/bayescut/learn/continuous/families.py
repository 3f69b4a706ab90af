r"""The families of one structure as numbers that matrix products can use.

All points of a continuous latent variable share the families of one structure and differ in their
tables. A table is held as *logits*: state s > 0 of a column under a configuration c of its parents
has :math:`a_{cs}`, state 0 has none, and

.. math:: \ln p(x \mid z) = \sum_f a_{f, c_f(x), x_f}(z) - \sum_f \ln Z_{f, c_f(x)}(z),
          \qquad Z_{fc} = 1 + \sum_{s > 0} e^{a_{fcs}}

Families with the same parents are in the same configuration, so their normalisers are added up
first. What a row picks is then one logit at most for each family and one sum of normalisers for
each set of parents: a tree over m binary columns has 2m - 1 logits and, with q inner columns,
2q + 1 sums, and the log-probabilities of all rows at all points are one matrix product.

Rows of most wide tables are nearly all in state 0, and pick the first cell of nearly every group of
families with the same parents. Such rows are held by what they pick besides: `FewPicks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.continuous.structure import Array, Offsets, Structure

# Part of the features up to which it is faster to add up what rows pick. Both products of 256 rows
# and 512 points, as matrices and by what is picked: book (0.008 of 1,444 features) 7.7 and 0.5 ms,
# baudio (0.10) 1.6 and 0.7 ms, jester (0.31) 1.7 and 2.2 ms.
_FEW = 0.2


class Picks(Protocol):
    """Rows of 0 and 1, one column for each feature, as factors of matrix products."""

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def times(self, weights: Array) -> Array:
        """Product with an array of shape (n_features, N)."""
        ...

    def transposed_times(self, shares: Array) -> Array:
        """Product of the transposed rows with an array of shape (n_rows, N)."""
        ...


@dataclass(frozen=True)
class ManyPicks:
    """Rows held as they are."""

    indicators: Array

    def __len__(self) -> int:
        return len(self.indicators)

    def times(self, weights: Array) -> Array:
        """See `Picks`."""
        product: Array = self.indicators @ weights
        return product

    def transposed_times(self, shares: Array) -> Array:
        """See `Picks`."""
        product: Array = self.indicators.T @ shares
        return product


@dataclass(frozen=True)
class FewPicks:
    """Rows held by what they pick unlike one that is in state 0 everywhere.

    Attributes
    ----------
    ptr, pick : int64 arrays
        Row r picks the features ``pick[ptr[r] : ptr[r + 1]]``; the cell of a group it picks instead
        of the group's first.
    first_cell : int64 array of shape (n_features,)
        The first cell of the group of a cell; -1 for all other features.
    usual : int64 array
        The first cells of all groups.
    """

    ptr: IntArray
    pick: IntArray
    first_cell: IntArray
    usual: IntArray

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def times(self, weights: Array) -> Array:
        """See `Picks`."""
        product = np.empty((len(self), weights.shape[1]), dtype=weights.dtype)
        _times(self.ptr, self.pick, self.first_cell, self.usual, weights, product)
        return product

    def transposed_times(self, shares: Array) -> Array:
        """See `Picks`."""
        product = np.zeros((len(self.first_cell), shares.shape[1]), dtype=shares.dtype)
        _transposed_times(self.ptr, self.pick, self.first_cell, self.usual, shares, product)
        return product


@kernel
def _times(ptr, pick, first_cell, usual, weights, out):
    n = weights.shape[1]
    base = np.zeros(n, dtype=weights.dtype)
    for i in range(usual.shape[0]):
        f = usual[i]
        for j in range(n):
            base[j] += weights[f, j]
    for r in range(out.shape[0]):
        for j in range(n):
            out[r, j] = base[j]
        for e in range(ptr[r], ptr[r + 1]):
            f = pick[e]
            instead_of = first_cell[f]
            if instead_of < 0:
                for j in range(n):
                    out[r, j] += weights[f, j]
            else:
                for j in range(n):
                    out[r, j] += weights[f, j] - weights[instead_of, j]


@kernel
def _transposed_times(ptr, pick, first_cell, usual, shares, out):
    n = shares.shape[1]
    total = np.zeros(n, dtype=shares.dtype)
    for r in range(shares.shape[0]):
        for j in range(n):
            total[j] += shares[r, j]
        for e in range(ptr[r], ptr[r + 1]):
            f = pick[e]
            for j in range(n):
                out[f, j] += shares[r, j]
    for i in range(usual.shape[0]):
        f = usual[i]
        for j in range(n):
            out[f, j] = total[j]
    for f in range(out.shape[0]):
        instead_of = first_cell[f]
        if instead_of >= 0:
            for j in range(n):
                out[instead_of, j] -= out[f, j]


class Families:
    """Logits, normalisers and features of one structure.

    Parameters
    ----------
    structure : Structure
        The families.
    sizes : int array of shape (m,)
        Numbers of states of the columns.

    Attributes
    ----------
    n_logits : int
        Logits of a point: K - 1 for each family and configuration of its parents.
    n_features : int
        Those, and the sums of normalisers.
    n_cells : int
        Cells of the tables of a point.
    """

    def __init__(self, structure: Structure, sizes: IntArray) -> None:
        self.structure = structure
        self.sizes = np.asarray(sizes, dtype=np.int64)
        n_families = len(structure.columns)
        group_of: dict[tuple[int, ...], int] = {}
        self._group = np.empty(n_families, dtype=np.int64)
        configurations = np.empty(n_families, dtype=np.int64)
        for f in range(n_families):
            parents = structure.parents_of(f)
            self._group[f] = group_of.setdefault(parents, len(group_of))
            configurations[f] = np.prod(self.sizes[list(parents)], dtype=np.int64)
        self._group_parents = list(group_of)
        self._free = self.sizes[structure.columns] - 1
        first_slot = np.concatenate([[0], np.cumsum(configurations)])
        self._first_logit = np.concatenate([[0], np.cumsum(configurations * self._free)])
        group_size = np.empty(len(group_of), dtype=np.int64)
        group_size[self._group] = configurations
        first_cell = np.concatenate([[0], np.cumsum(group_size)])
        self.n_logits = int(self._first_logit[-1])
        self.n_features = self.n_logits + int(first_cell[-1])
        self._first_feature = self.n_logits + first_cell[:-1]
        # The first cell of the group of each cell, -1 for logits and for first cells themselves.
        self._first_cell = np.full(self.n_features, -1, dtype=np.int64)
        self._first_cell[self.n_logits :] = np.repeat(self._first_feature, group_size)
        self._first_cell[self._first_feature] = -1
        # What a row picks whose columns are all in state 0.
        none = np.full(n_families, self.n_features)
        self._usual = np.concatenate([none, self._first_feature])
        # A slot is a family under a configuration of its parents: it has one normaliser.
        n_slots = int(first_slot[-1])
        self.n_cells = n_slots + self.n_logits
        family = np.repeat(np.arange(n_families), configurations)
        configuration = np.arange(n_slots) - first_slot[family]
        slot_cell = first_cell[self._group[family]] + configuration
        self._slot_cell = slot_cell
        self._family_cells = (configurations * (self._free + 1))[family].astype(np.float64)
        self._logit_slot = np.repeat(np.arange(n_slots), self._free[family])
        #: How outputs of a decoder become logits.
        self.offsets = Offsets.of(structure, self.sizes)
        #: The sum of normalisers that stands against each logit, as a feature.
        self._logit_feature = self.n_logits + slot_cell[self._logit_slot]
        self._slot_free = self._free[family]
        self._binary = bool(np.all(self._slot_free == 1))
        ones = np.ones(max(n_slots, self.n_logits), dtype=np.float32)
        self._sum_slots = sparse.csr_matrix(
            (ones[:n_slots], (slot_cell, np.arange(n_slots))), shape=(int(first_cell[-1]), n_slots)
        )
        self._sum_logits = sparse.csr_matrix(
            (ones[: self.n_logits], (self._logit_slot, np.arange(self.n_logits))),
            shape=(n_slots, self.n_logits),
        )

    # ---------------------------------------------------------------- rows

    def features(self, codes: CodeArray) -> NDArray[Any]:
        """Return the features that rows of complete codes pick, ``n_features`` where none."""
        structure = self.structure
        n = len(codes)
        n_families = len(structure.columns)
        dtype = np.uint16 if self.n_features < 2**16 else np.uint32
        picked = np.empty((n, n_families + len(self._group_parents)), dtype=dtype)
        for g, parents in enumerate(self._group_parents):
            configuration = np.zeros(n, dtype=np.int64)
            for parent in parents:
                configuration *= self.sizes[parent]
                configuration += codes[:, parent]
            picked[:, n_families + g] = self._first_feature[g] + configuration
            for f in np.flatnonzero(self._group == g):
                state = codes[:, structure.columns[f]].astype(np.int64)
                logit = self._first_logit[f] + configuration * self._free[f] + state - 1
                picked[:, f] = np.where(state > 0, logit, self.n_features)
        return picked

    def rows(self, picked: NDArray[Any], dtype: Any) -> Picks:
        """Rows as factors of matrix products, in the form that is the faster one for them."""
        unusual = picked != self._usual.astype(picked.dtype)
        n_unusual = np.count_nonzero(unusual, axis=1)
        if n_unusual.sum() > _FEW * len(picked) * self.n_features:
            return ManyPicks(self.indicators(picked, dtype))
        ptr = np.concatenate([[0], np.cumsum(n_unusual)])
        return FewPicks(
            ptr, picked[unusual].astype(np.int64), self._first_cell, self._first_feature
        )

    def indicators(self, picked: NDArray[Any], dtype: Any) -> Array:
        """Rows of 0 and 1: which features each row picks."""
        rows: Array = np.zeros((len(picked), self.n_features + 1), dtype=dtype)
        np.put_along_axis(rows, picked.astype(np.int64), 1, axis=1)
        return rows[:, : self.n_features]

    # ---------------------------------------------------------------- tables

    def weights(self, logits: Array) -> tuple[Array, Array]:
        """Weights of the features at some points, and the probabilities of the states.

        Parameters
        ----------
        logits : array of shape (n_logits, N)
            One column for each point.

        Returns
        -------
        weights : array of shape (n_features, N)
            The logits, and the sums of normalisers with a minus.
        probability : array of shape (n_logits, N)
            ``p(state > 0 | configuration)``.
        """
        largest, below = self._exponentials(logits)
        total = np.exp(-largest)
        total += below if self._binary else self._sum_logits @ below
        weights = np.empty((self.n_features, logits.shape[1]), dtype=logits.dtype)
        weights[: self.n_logits] = logits
        probability = below
        probability /= total if self._binary else total[self._logit_slot]
        np.log(total, out=total)
        total += largest
        np.negative(self._sum_slots @ total, out=weights[self.n_logits :])
        return weights, probability

    def _exponentials(self, logits: Array) -> tuple[Array, Array]:
        """Largest logit of a slot (0 for state 0), and exponentials relative to it."""
        if self._binary:
            largest = np.maximum(logits, 0)
            return largest, np.exp(logits - largest)
        largest = np.zeros((len(self._slot_free), logits.shape[1]), dtype=logits.dtype)
        if self.n_logits:  # slots of constant columns have none, and no place in `reduceat`
            filled = np.flatnonzero(self._slot_free)
            starts = np.concatenate([[0], np.cumsum(self._slot_free[filled])[:-1]])
            largest[filled] = np.maximum(np.maximum.reduceat(logits, starts, axis=0), 0)
        return largest, np.exp(logits - largest[self._logit_slot])

    def gradient(self, feature_gradient: Array, probability: Array) -> Array:
        """Gradient by the logits, given that by the features' weights."""
        gradient = feature_gradient[self._logit_feature]
        gradient *= probability
        np.subtract(feature_gradient[: self.n_logits], gradient, out=gradient)
        return gradient

    def log_tables(self, logits: Array) -> FloatArray:
        """Tables of all points, normalised in float64.

        Parameters
        ----------
        logits : array of shape (n_logits, N)

        Returns
        -------
        float64 array of shape (N, n_cells)
            ``log p(x | parents)`` of the families end to end, the column's own state fastest.
        """
        logits = logits.astype(np.float64)
        largest, below = self._exponentials(logits)
        below = below if self._binary else self._sum_logits @ below
        normaliser = np.log(np.exp(-largest) + below) + largest
        first = np.concatenate([[0], np.cumsum(self._slot_free + 1)])
        tables = np.empty((logits.shape[1], int(first[-1])))
        tables[:, first[:-1]] = -normaliser.T
        # Cells of states above 0 lie behind one more cell for each slot up to theirs.
        cells = np.arange(self.n_logits) + self._logit_slot + 1
        tables[:, cells] = (logits - normaliser[self._logit_slot]).T
        return tables

    def mean_logits(self, picked: NDArray[Any], weights: FloatArray, ess: float) -> FloatArray:
        """Logits of the posterior mean tables of weighted rows.

        Parameters
        ----------
        picked : array of shape (n, ...)
            The rows, see `features`.
        weights : array of shape (n,)
            How often each row counts.
        ess : float
            Equivalent sample size of a family, spread over its cells.
        """
        counts = np.zeros(self.n_features + 1)
        for column in picked.T:
            counts += np.bincount(column, weights, minlength=self.n_features + 1)
        first = counts[self.n_logits : self.n_features][self._slot_cell]
        states = counts[: self.n_logits]
        # Sums of weights may leave a rounding error below zero.
        first = np.maximum(first - self._sum_logits @ states, 0.0)
        pseudo = ess / self._family_cells
        result: FloatArray = np.log(states + pseudo[self._logit_slot])
        result -= np.log(first + pseudo)[self._logit_slot]
        return result
