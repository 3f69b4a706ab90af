"""Strudel: a Chow-Liu tree as a structured circuit, then one split after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_pairs
from bayescut.data.bits import bit_layout
from bayescut.learn.spn.independence import count_states
from bayescut.learn.strudel.sketch import OR, Sketch, Vtree, value_all, with_more_room
from bayescut.learn.strudel.split import (
    free_columns,
    general_sums,
    information_sums,
    most_used,
    split,
)
from bayescut.learn.strudel.start import INFORMATION_ESS, chow_liu_parents, plant

# Sums of information nearer than this, in nats, are equal: many columns are copies of each other.
_NEAR = 1e-10


class Split(NamedTuple):
    """A split that was made: branch and column, and the values after it.

    Attributes
    ----------
    edge, column : int
    n_nodes : int
        Nodes of the circuit before it.
    train, valid : float
        Mean log-likelihood of training and validation rows after it.
    score : float
        Bayes-Dirichlet score after it.
    """

    edge: int
    column: int
    n_nodes: int
    train: float
    valid: float
    score: float


@kernel
def _state_counts(codes, rows, columns, sizes, weights):
    return count_states(codes, rows, columns, sizes, weights)[:2]


@dataclass(frozen=True)
class StrudelLearner:
    """Settings of Strudel; see `bayescut.estimators.Strudel`.

    Parameters
    ----------
    pseudocount : float
        Smoothing of an OR's weights, divided among its branches.
    ess : float
        Equivalent sample size of an OR in the score.
    max_splits, max_nodes : int or None
        Most splits, and nodes beyond which nothing is split.
    patience : int or None
        Splits without a better validation likelihood, or score, after which growth ends; None: it
        does not.
    by_score : bool
        The score says which circuit on the way is the best; validation rows play no part.
    """

    pseudocount: float = 1.0
    ess: float = 1.0
    max_splits: int = 5000
    max_nodes: int | None = 150_000
    patience: int | None = 100
    by_score: bool = False

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        weights: FloatArray | None = None,
        *,
        rows: IntArray | None = None,
        valid: CodeArray | None = None,
        valid_weights: FloatArray | None = None,
        told: Callable[[int], None] | None = None,
    ) -> Growth:
        """Split until the rules say stop; what is returned is the best circuit on the way.

        Parameters
        ----------
        codes : array of shape (N, m)
            Complete codes.
        sizes : int64 array of shape (m,)
            Numbers of states.
        weights : float64 array of shape (N,), optional
            Non-negative weights.
        rows : int32 array, optional
            The rows to learn from.
        valid, valid_weights : optional
            Validation rows and their weights.
        told : callable, optional
            Hears of every split.
        """
        growth = Growth(self, codes, sizes, weights, rows, valid, valid_weights)
        growth.start()
        judged = self.by_score or valid is not None

        def value() -> float:
            return growth.score if self.by_score else growth.valid_mean

        best, best_value = 0, value() if judged else -np.inf
        while len(growth.splits) < self.max_splits and growth.split_most_used():
            if told is not None:
                told(1)
            done = len(growth.splits)
            # Beyond rounding: the sums have seen every split.
            if not judged or value() > best_value + (1e-6 if self.by_score else 1e-12):
                best, best_value = done, value()
            elif self.patience is not None and done - best >= self.patience:
                break
        if best < len(growth.splits):
            growth.replay(best)
        return growth


class Growth:
    """A circuit that grows by splits, and the rows at its branches.

    Parameters
    ----------
    learner : StrudelLearner
        Settings.
    codes, sizes, weights, rows, valid, valid_weights
        See `StrudelLearner.grow`.
    """

    sketch: Sketch
    vtree: Vtree
    edges: IntArray
    n_nodes: int
    later: list[Split]

    def __init__(
        self,
        learner: StrudelLearner,
        codes: CodeArray,
        sizes: IntArray,
        weights: FloatArray | None = None,
        rows: IntArray | None = None,
        valid: CodeArray | None = None,
        valid_weights: FloatArray | None = None,
    ) -> None:
        self.learner = learner
        self.sizes = np.array(sizes, dtype=np.int64)
        if rows is None:
            rows = np.arange(len(codes), dtype=np.int32)
        self.train = np.ascontiguousarray(codes[rows])
        self.n = len(self.train)
        self.weights = None if weights is None else np.ascontiguousarray(weights[rows])
        both = self.train if valid is None else np.vstack([self.train, valid])
        self.states = np.ascontiguousarray(both.T, dtype=np.uint16)
        shares = np.zeros((len(both), 2))
        shares[: self.n, 0] = 1.0 if self.weights is None else self.weights
        shares[self.n :, 1] = 1.0 if valid_weights is None else valid_weights
        self.shares = shares
        self.mass = shares.sum(axis=0)
        self.totals = np.zeros(3)
        self.splits: list[Split] = []
        self.binary = bool(np.all(self.sizes == 2)) and self.weights is None
        k = np.arange(self.n + 3 if self.binary else 0, dtype=np.float64)
        self._xlogx = k * np.log(np.maximum(k, 1.0))
        self._parents: IntArray | None = None
        self.later = []

    def start(self) -> None:
        """Begin with the Chow-Liu tree."""
        if self._parents is None:
            self._parents = chow_liu_parents(self._pairs(np.arange(len(self.sizes)), None))
        self.vtree, self.sketch, self.edges = plant(
            self._parents, self.sizes, self.states, self.shares
        )
        self.splits = []
        value_all(self.sketch, self.learner.pseudocount, self.learner.ess, self.totals)
        self._look()

    def _pairs(self, columns: IntArray, rows: IntArray | None) -> PairCounts:
        layout = bit_layout(columns, self.sizes[columns])
        return count_pairs(self.train, layout, rows, self.weights)

    def _look(self) -> int:
        """Find the next branch to split, and count the nodes."""
        scratch = np.empty(len(self.sketch.kind), dtype=np.int32)
        edge, self.n_nodes = most_used(self.sketch, scratch)
        return int(edge)

    @property
    def train_mean(self) -> float:
        """Mean log-likelihood of the training rows."""
        return float(self.totals[0] / self.mass[0])

    @property
    def valid_mean(self) -> float:
        """Mean log-likelihood of the validation rows; 0 if there are none."""
        return float(self.totals[1] / self.mass[1]) if self.mass[1] > 0 else 0.0

    @property
    def score(self) -> float:
        """Bayes-Dirichlet score of the structure."""
        return float(self.totals[2])

    def choose_column(self, edge: int) -> int:
        """Column of most mutual information with the others that are free below a branch."""
        free, sums = self.information(edge)
        return int(free[tied_for_most(sums)[0]])

    def information(self, edge: int) -> tuple[IntArray, FloatArray]:
        """Columns that are free below a branch, and the mutual information of each with others."""
        free = free_columns(self.sketch, edge, self.vtree.cell_ptr)
        if len(free) == 1:
            return free, np.zeros(1)
        top = self.sketch.place[self.sketch.owner[edge]]
        rows = np.flatnonzero(self.edges[top, : self.n] == edge).astype(np.int32)
        n = len(rows)
        if not self.binary:
            pairs = self._pairs(free, rows)
            counts, layout = pairs.counts.astype(np.float64), pairs.layout
            sums = general_sums(counts, float(pairs.n), layout.sizes, layout.ptr, INFORMATION_ESS)
            return free, sums / (pairs.n + INFORMATION_ESS)
        _, counts = _state_counts(self.train, rows, free, self.sizes, np.empty(0))
        ones = counts[1::2].astype(np.int64)
        vary = (ones > 0) & (ones < n)
        columns = free[vary]
        if len(columns) == 0:
            return free, np.zeros(len(free))
        found, constant = information_sums(
            self._pairs(columns, rows).counts, n, ones[vary], len(free) - len(columns),
            self._xlogx[1:], self._xlogx[2:],
        )  # fmt: skip
        sums = np.full(len(free), constant)
        sums[vary] = found
        return free, sums / (n + INFORMATION_ESS)

    def apply(self, edge: int, column: int) -> None:
        """Split a branch on a column."""
        before = self.n_nodes
        while not split(
            self.sketch, self.vtree, self.edges, self.states, self.shares, edge, column,
            self.learner.pseudocount, self.learner.ess, self.totals,
        ):  # fmt: skip
            self.sketch = with_more_room(self.sketch)
        values = self.train_mean, self.valid_mean, self.score
        self.splits.append(Split(edge, column, before, *values))

    def split_most_used(self) -> bool:
        """Make one split; False if there is none, or no room for it."""
        edge = self._look()
        most = self.learner.max_nodes
        if edge < 0 or (most is not None and self.n_nodes >= most):
            return False
        self.apply(edge, self.choose_column(edge))
        return True

    def replay(self, n_splits: int) -> None:
        """Go back to what the circuit was after some splits."""
        made = [*self.splits, *self.later]
        self.start()
        for step in made[:n_splits]:
            self.apply(step.edge, step.column)
            self.splits[-1] = step
        self.later = made[n_splits:]
        self._look()

    def weights_of(self, counts: FloatArray) -> FloatArray:
        """Weights of all edges from the training weight that uses each of them.

        Parameters
        ----------
        counts : float64 array of shape (edges,) or (edges, K)
            Counts; K sets of weights are returned for K columns.
        """
        return edge_weights(self.sketch, counts, self.learner.pseudocount)


def edge_weights(sketch: Sketch, counts: FloatArray, pseudocount: float) -> FloatArray:
    """``(n_e + pseudocount / c) / (n + pseudocount)``, and 1 for the only edge of an OR."""
    weights = np.ones_like(counts)
    flat = counts.reshape(len(counts), -1)
    _edge_weights(sketch, flat, pseudocount, weights.reshape(flat.shape))
    return weights


@kernel
def _edge_weights(sketch, counts, pseudocount, weights):
    total = np.empty(counts.shape[1])
    for node in range(sketch.used[0]):
        c = sketch.second[node]
        if sketch.kind[node] != OR or c < 2:
            continue
        total[:] = pseudocount
        e = sketch.first[node]
        while e >= 0:
            total += counts[e]
            e = sketch.following[e]
        e = sketch.first[node]
        while e >= 0:
            weights[e] = (counts[e] + pseudocount / c) / total
            e = sketch.following[e]


def tied_for_most(values: FloatArray) -> IntArray:
    """Places of the largest value, rounding aside."""
    return np.flatnonzero(values >= values.max() - _NEAR)
