r"""Learner of Gaussian leaves: components whose numbers are jointly Gaussian.

Cells are at their best with few columns, atoms and sharp edges. Numbers that vary smoothly and
nearly determine each other want the other kind of leaf: each regressed on some of those before it,
with the parents of the best normal-Wishart score (`bayescut.scores.wishart`). A component is a
product of such a leaf and of a network of the other columns; mixtures of them are Gaussian mixtures
with sparse covariances, told apart by the labels as well.

The covariance that a component is expected to have is that within clusters of all rows. No number
is known better than it was recorded: its deviation given others is at least 0.6 of its step, which
keeps the density below 0.67 over the step, and the sum over recorded values within 0.2 % of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.components import Apart
from bayescut.learn.freeze import freeze_cutset
from bayescut.learn.spn.compose import Piece, compose
from bayescut.scores.prior import StructureCosts
from bayescut.scores.wishart import NormalWishart

__all__ = ["NormalLearner", "determined_columns", "smooth_columns"]

#: Least deviation of a number given others, in steps.
LEAST_STEPS = 0.6
# A column with a value that has more than this part of the rows is not smooth, nor one of fewer
# different values than these.
_MOST_EQUAL = 0.2
_LEAST_VALUES = 12
# Most columns that another one is said to follow from.
_MOST_SOURCES = 4
# Rows that are clustered to find out how numbers vary within clusters, and rows of a cluster.
_MOST_ROWS, _CLUSTER = 20_000, 100


def smooth_columns(table: Table) -> IntArray:
    """Return the columns of numbers without heavy atoms, to which Gaussian leaves may apply."""
    found = []
    for j, domain in enumerate(table.domains):
        if domain.grid is None or table.values is None:
            continue
        rows = np.flatnonzero(~np.isnan(table.values[:, j]) & (table.all_weights > 0))
        _, place = np.unique(table.values[rows, j], return_inverse=True)
        counts = np.bincount(place.ravel(), table.all_weights[rows])
        if len(counts) >= _LEAST_VALUES and counts.max() <= _MOST_EQUAL * counts.sum():
            found.append(j)
    return np.array(found, dtype=np.int64)


def determined_columns(table: Table) -> dict[int, list[int]]:
    """Find numbers that are linear functions of a few numbers before them, but for rounding.

    Their density given the others has no bound but the recording step: such a column says more
    about how it was written down than about the model.

    Parameters
    ----------
    table : Table
        Rows with numbers; those with gaps are left out.

    Returns
    -------
    dict from column to list of columns
        What each such column follows from.
    """
    numbers = [j for j, domain in enumerate(table.domains) if domain.grid is not None]
    if table.values is None or len(numbers) < 2:
        return {}
    x = table.values[:, numbers]
    rows = np.flatnonzero(~np.isnan(x).any(axis=1) & (table.all_weights > 0))
    found: dict[int, list[int]] = {}
    if len(rows) < 2 * len(numbers):
        return found
    weights = table.all_weights[rows]
    x = x[rows] - np.average(x[rows], axis=0, weights=weights)
    products = (x * weights[:, None]).T @ x / weights.sum()
    steps = _steps(table, np.array(numbers))
    for i in range(1, len(numbers)):
        left = products.copy()
        chosen: list[int] = []
        while len(chosen) < _MOST_SOURCES:
            spread = np.diag(left)[:i]
            usable = spread > 1e-9 * np.diag(products)[:i]
            gain = np.where(usable, left[i, :i] ** 2 / np.where(usable, spread, 1.0), 0.0)
            best = int(np.argmax(gain))
            if not gain[best] > 0:
                break
            left -= np.outer(left[:, best], left[best]) / left[best, best]
            chosen.append(best)
            if left[i, i] <= (LEAST_STEPS * steps[i]) ** 2:
                found[numbers[i]] = [numbers[k] for k in sorted(chosen)]
                break
    return found


@dataclass(frozen=True, eq=False)
class NormalLearner(Apart):
    """Learns components: a Gaussian leaf of the smooth numbers beside a network of the rest.

    Parameters
    ----------
    others : ComponentLearner
        Learns the networks of the other columns.
    prior : StructureCosts
        What parents cost.
    columns : int64 array
        The columns of Gaussian leaves, see `smooth_columns`.
    freedom : float
        How many rows the expected covariance counts for.
    kappa : float
        How many rows the mean of all rows counts for in the mean of a component.
    """

    others: Any
    prior: StructureCosts
    columns: IntArray
    # Validation of two chains of 45 components on wine with 2 and 4: -2.27 and -2.41; on abalone
    # with 4, 12 and 30, 30 components: 11.77, 11.66, 11.5. kappa of 0.5 instead of 0.05 changes
    # less than 0.05.
    freedom: float = 2.0
    kappa: float = 0.05
    rest: IntArray | None = None
    rest_table: Table | None = None
    before: NormalWishart | None = None

    sweep_factor: ClassVar[int] = 3

    def for_components(self, table: Table, seed: int = 0) -> NormalLearner:
        """Look at all rows; see `ComponentLearner.for_components`."""
        if table.values is None:
            raise ValueError("Gaussian components need the numbers themselves")
        columns = self.columns
        rest = np.setdiff1d(np.arange(table.n_columns), columns)
        others, rest_table = self.others, None
        if len(rest):
            rest_table = Table(
                np.ascontiguousarray(table.codes[:, rest]),
                Domains(table.domains[int(j)] for j in rest),
                table.weights,
            )
            others = others.for_components(rest_table, seed)
        return replace(
            self,
            others=others,
            rest=rest,
            rest_table=rest_table,
            before=self._expected(table, columns, seed),
        )

    def _expected(self, table: Table, columns: IntArray, seed: int) -> NormalWishart:
        """Prior of a component: the mean of all rows, the covariance within clusters of them."""
        assert table.values is not None
        weights = table.all_weights
        x = table.values[:, columns]
        mean = np.average(x, axis=0, weights=weights)
        spread = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
        steps = _steps(table, columns)
        spread = np.maximum(spread, steps)
        rows = table.weighty()
        if len(rows) > _MOST_ROWS:
            rng = np.random.default_rng([seed, 17])
            rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
        z, w = (x[rows] - mean) / spread, weights[rows]
        size = int(np.clip(len(rows) // _CLUSTER, 1, 60))
        labels = KMeans(size, n_init=1, random_state=seed % 2**32, max_iter=20).fit_predict(
            z, sample_weight=w
        )
        within = np.zeros((len(columns), len(columns)))
        for k in range(size):
            own = labels == k
            if w[own].sum() > 0:
                away = z[own] - np.average(z[own], axis=0, weights=w[own])
                within += (away * w[own, None]).T @ away
        within /= w.sum()
        within *= np.outer(spread, spread)
        within[np.diag_indices(len(columns))] += (LEAST_STEPS * steps) ** 2
        m = len(columns)
        return NormalWishart(mean, self.freedom * within, self.kappa, m + 1 + self.freedom)

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Circuit:
        """Learn a component from rows of the table, all if left out."""
        if self.before is None or self.rest is None:
            raise ValueError("what components have in common is learned by for_components")
        rows = table.weighty(rows)
        leaf = self._leaf(table, rows)
        if advance is not None:
            advance(len(rows))
        if self.rest_table is None:
            return leaf
        found = self.others.learn(self.rest_table.with_weights(table.weights), rows)
        network = freeze_cutset(found, self.rest_table.domains)
        beside = [Piece(circuit=leaf, columns=self.columns)]
        beside.append(Piece(circuit=network, columns=self.rest))
        return compose(Piece(children=beside), table.domains)

    def _leaf(self, table: Table, rows: IntArray) -> Circuit:
        assert self.before is not None and table.values is not None
        x = table.values[rows][:, self.columns]
        weights = np.ones(len(rows)) if table.weights is None else table.weights[rows]
        n = float(weights.sum())
        mean = weights @ x / n
        away = x - mean
        found = self.before.regress(
            n,
            mean,
            (away * weights[:, None]).T @ away,
            parent_cost=self.prior.parent_cost(len(self.columns)),
        )
        least = LEAST_STEPS * _steps(table, self.columns)
        deviation = np.maximum(np.sqrt(found.variance), least)
        leaf = build.normal(range(len(self.columns)), found.mean, found.coefficients, deviation)
        return build.circuit(leaf, Domains(table.domains[int(j)] for j in self.columns))


def _steps(table: Table, columns: IntArray) -> FloatArray:
    grids = (table.domains[int(j)].grid for j in columns)
    return np.array([0.0 if grid is None else grid.step for grid in grids])
