r"""Gaussian leaves: numbers of some rows that are jointly Gaussian.

Cells are at their best with few columns, atoms and sharp edges. Numbers that vary smoothly and
nearly determine each other want the other kind of leaf: each regressed on some of those before it,
with the parents of the best normal-Wishart score (`bayescut.scores.wishart`).

No number is known better than it was recorded: its deviation given others is at least 0.6 of its
step, which keeps the density below 0.67 over the step, and the sum over recorded values within
0.2 % of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from bayescut._typing import FloatArray, IntArray
from bayescut.data.table import Table
from bayescut.learn.leaves.leaf import NormalLeaf
from bayescut.scores.prior import StructureCosts
from bayescut.scores.wishart import NormalWishart

__all__ = [
    "Moments",
    "NormalLeaves",
    "expected",
    "normal_leaf",
    "recorded_steps",
    "redraw",
    "smooth_columns",
    "with_numbers",
]

#: Least deviation of a number given others, in steps.
LEAST_STEPS = 0.6
#: How many rows the expected covariance of a leaf counts for, and its expected mean. Validation of
#: two chains of 45 components on wine with 2 and 4: -2.27 and -2.41; on abalone with 4, 12 and 30,
#: 30 components: 11.77, 11.66, 11.5. kappa of 0.5 instead of 0.05 changes less than 0.05.
FREEDOM, KAPPA = 2.0, 0.05
# A column with a value that has more than this part of the rows is not smooth, nor one of fewer
# different values than these.
_MOST_EQUAL = 0.2
_LEAST_VALUES = 12
# Rows, evenly spread, that say whether a column is smooth.
_ENOUGH_ROWS = 2**16
# Rows whose products are summed at once.
_BLOCK = 2**14
# Rows that are clustered to find out how numbers vary within clusters, and rows of a cluster.
_MOST_ROWS, _CLUSTER = 20_000, 100
# Numbers whose densities within cells are kept, 32 MB of them.
_MOST_KEPT = 2**22
# How often numbers that were missing are drawn anew for a leaf.
_REDRAWN = 3


def smooth_columns(table: Table) -> IntArray:
    """Return the columns of numbers without heavy atoms, to which Gaussian leaves may apply."""
    found = []
    if table.values is None:
        return np.empty(0, dtype=np.int64)
    step = max(1, table.n_rows // _ENOUGH_ROWS)
    values, weights = table.values[::step], table.all_weights[::step]
    for j, domain in enumerate(table.domains):
        if domain.grid is None:
            continue
        rows = np.flatnonzero(~np.isnan(values[:, j]) & (weights > 0))
        _, place = np.unique(values[rows, j], return_inverse=True)
        counts = np.bincount(place.ravel(), weights[rows])
        if len(counts) >= _LEAST_VALUES and counts.max() <= _MOST_EQUAL * counts.sum():
            found.append(j)
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NormalLeaves:
    """Fits Gaussian leaves to parts of one table, beside the leaves of cells of a network.

    Parameters
    ----------
    columns : int64 array
        The numbers that may be Gaussian, see `smooth_columns`, ascending.
    before : NormalWishart
        Their prior.
    numbers : float64 array of shape (n, m_all)
        The numbers of all columns; a cell that was missing has a draw from the state that it was
        given.
    drawn : bool array of shape (n, m_all), or None
        Which of them are such draws; None: none are.
    steps : float64 array of shape (m,)
    prior : StructureCosts
        What parents cost.
    inside : float64 array of shape (n, m), or None
        Log-densities of the numbers within their cells, looked up for thousands of leaves; None:
        there are too many to keep them.
    """

    columns: IntArray
    before: NormalWishart
    numbers: FloatArray
    drawn: NDArray[np.bool_] | None
    steps: FloatArray
    prior: StructureCosts
    inside: FloatArray | None = None

    @classmethod
    def of(cls, table: Table, prior: StructureCosts) -> NormalLeaves | None:
        """Look at a table without gaps in its states; None if it has no two smooth numbers."""
        columns = smooth_columns(table)
        if len(columns) < 2:
            return None
        assert table.values is not None
        drawn: NDArray[np.bool_] | None = None
        if any(np.isnan(table.values[:, j]).any() for j in columns.tolist()):
            drawn = np.isnan(table.values)
        table = with_numbers(table, columns, np.random.default_rng(0))
        assert table.values is not None
        return cls(
            columns,
            # Not within clusters, which hang on the order of the rows. Validation with that of all
            # rows and within clusters: vehicle -50.07 and -49.72, wine -3.14 and -3.10, abalone
            # 9.99 and 9.96, wdbc 21.16 and 21.13.
            expected(table, columns, clustered=False),
            table.values,
            drawn,
            recorded_steps(table, columns),
            prior,
            _inside(table, columns) if table.n_rows * len(columns) <= _MOST_KEPT else None,
        )

    def fit(
        self, table: Table, rows: IntArray, columns: IntArray, n_choices: int
    ) -> tuple[NormalLeaf, float]:
        """Fit a leaf of some of the numbers to rows.

        Returns
        -------
        NormalLeaf, float
            The leaf, and its score less the densities within cells: to be compared with the score
            of the states of these columns.
        """
        at = np.searchsorted(self.columns, columns)
        before, steps = self.before.marginal(at), self.steps[at]
        cost = self.prior.parent_cost(n_choices)
        numbers, here = self.numbers, rows
        drawn = None if self.drawn is None else self.drawn[np.ix_(rows, columns)]
        if drawn is not None and drawn.any():
            # Anywhere in cells that were drawn, numbers hide how they depend on each other.
            numbers, here = numbers[rows], np.arange(len(rows), dtype=rows.dtype)
            rng = np.random.default_rng([len(rows), int(rows[0])])
            weights = None if table.weights is None else table.weights[rows]
            x = numbers[:, columns]
            for _ in range(_REDRAWN):
                seen = Moments.of(x, weights)
                redraw(x, drawn, normal_leaf(before, seen, columns, steps, cost), rng)
            numbers[:, columns] = x
        seen, inside = self._look(table, numbers, rows, here, columns)
        # As if numbers were known no better than that: what a column that others determine is
        # worth is bounded by how it was recorded.
        blur = np.diag(seen.n * (LEAST_STEPS * steps) ** 2)
        score = before.regress(seen.n, seen.mean, seen.scatter + blur, parent_cost=cost).score
        return normal_leaf(before, seen, columns, steps, cost), score - inside

    def _look(
        self, table: Table, numbers: FloatArray, rows: IntArray, here: IntArray, columns: IntArray
    ) -> tuple[Moments, float]:
        """Moments of rows, and their log-densities within cells: rows ``here`` of the numbers."""
        parts, inside = [], 0.0
        for begin in range(0, len(rows), _BLOCK):
            weights = None
            if table.weights is not None:
                weights = table.weights[rows[begin : begin + _BLOCK]]
            parts.append(
                Moments.of(numbers[np.ix_(here[begin : begin + _BLOCK], columns)], weights)
            )
            # Of numbers drawn anew it is not the density where this leaf has put them that counts:
            # beyond all of training that is next to nothing, and the leaf would gain by it.
            some = rows[begin : begin + _BLOCK]
            if self.inside is None:
                part = _inside(replace(table, values=self.numbers), columns, some)
            else:
                part = self.inside[np.ix_(some, np.searchsorted(self.columns, columns))]
            inside += float(part.sum() if weights is None else (weights @ part).sum())
        return Moments.joined(parts), inside


def _inside(table: Table, columns: IntArray, rows: IntArray | None = None) -> FloatArray:
    """Log-densities of numbers within their cells."""
    assert table.values is not None
    values = table.values if rows is None else table.values[rows]
    found = np.empty((len(values), len(columns)))
    for i, j in enumerate(columns.tolist()):
        grid = table.domains[j].grid
        assert grid is not None
        found[:, i] = grid.log_inside(values[:, j])
    return found


def redraw(
    x: FloatArray, drawn: NDArray[np.bool_], leaf: NormalLeaf, rng: np.random.Generator
) -> None:
    """Draw numbers anew, one column after the other, given the rest of their rows.

    Parameters
    ----------
    x : float64 array of shape (n, m)
        Rows; changed in place.
    drawn : bool array of shape (n, m)
        Which numbers are drawn.
    leaf : NormalLeaf
        The distribution of whole rows.
    rng : Generator
    """
    m = x.shape[1]
    left = (np.eye(m) - leaf.coefficients) / leaf.deviation[:, None]
    precision = left.T @ left
    for j in np.flatnonzero(drawn.any(axis=0)).tolist():
        rows = np.flatnonzero(drawn[:, j])
        away = x[rows] - leaf.mean
        away[:, j] = 0.0
        centre = leaf.mean[j] - away @ precision[j] / precision[j, j]
        x[rows, j] = centre + rng.normal(size=len(rows)) / np.sqrt(precision[j, j])


class Moments(NamedTuple):
    """Weight and mean of rows of numbers, and the products of their deviations from it."""

    n: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, x: FloatArray, weights: FloatArray | None) -> Moments:
        """Look at rows, which count once if they have no weights."""
        if weights is None:
            mean = x.mean(axis=0)
            away = x - mean
            return cls(float(len(x)), mean, away.T @ away)
        n = float(weights.sum())
        mean = weights @ x / n
        away = x - mean
        return cls(n, mean, (away * weights[:, None]).T @ away)

    @classmethod
    def joined(cls, parts: Sequence[Moments]) -> Moments:
        """Return the moments of all rows of several parts."""
        n = sum(part.n for part in parts)
        mean = sum((part.n / n) * part.mean for part in parts)
        scatter = sum(
            part.scatter + part.n * np.outer(part.mean - mean, part.mean - mean) for part in parts
        )
        return cls(n, np.asarray(mean), np.asarray(scatter))


def normal_leaf(
    before: NormalWishart,
    seen: Moments,
    columns: IntArray,
    steps: FloatArray,
    parent_cost: float,
) -> NormalLeaf:
    """Return the leaf of the best regressions."""
    found = before.regress(*seen, parent_cost=parent_cost)
    deviation = np.maximum(np.sqrt(found.variance), LEAST_STEPS * steps)
    return NormalLeaf(columns, found.mean, found.coefficients, deviation)


def with_numbers(table: Table, columns: IntArray, rng: np.random.Generator) -> Table:
    """Return the table with a number drawn from the state of every cell that has none."""
    if table.values is None:
        raise ValueError("Gaussian leaves need the numbers themselves")
    values = table.values
    for j in columns.tolist():
        rows = np.flatnonzero(np.isnan(table.values[:, j]))
        grid = table.domains[j].grid
        if grid is not None and len(rows):
            values = values.copy() if values is table.values else values
            values[rows, j] = grid.draw(table.codes[rows, j], rng.random(len(rows)))
    return replace(table, values=values)


def expected(
    table: Table,
    columns: IntArray,
    freedom: float = FREEDOM,
    kappa: float = KAPPA,
    *,
    clustered: bool = True,
    seed: int = 0,
) -> NormalWishart:
    """Prior of the numbers of a leaf: the mean of all rows, and a covariance.

    Parameters
    ----------
    table : Table
        All rows.
    columns : int64 array
        The numbers.
    freedom, kappa : float
        How many rows the covariance and the mean count for.
    clustered : bool
        The covariance is that within clusters of the rows, otherwise that of all.
    seed : int
        For the clusters.
    """
    assert table.values is not None
    weights = table.all_weights
    every = [table.values[:, j] for j in columns.tolist()]
    mean = np.array([np.average(x, weights=weights) for x in every])
    squares = [np.average((x - m) ** 2, weights=weights) for x, m in zip(every, mean, strict=True)]
    spread = np.sqrt(squares)
    steps = recorded_steps(table, columns)
    spread = np.maximum(spread, steps)
    rows = table.weighty()
    if len(rows) > _MOST_ROWS:
        rng = np.random.default_rng([seed, 17])
        rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
    z, w = (table.values[np.ix_(rows, columns)] - mean) / spread, weights[rows]
    size = int(np.clip(len(rows) // _CLUSTER, 1, 60)) if clustered else 1
    labels = np.zeros(len(rows), dtype=np.int64)
    if clustered:
        means = KMeans(size, n_init=1, random_state=seed % 2**32, max_iter=20)
        labels = means.fit_predict(z, sample_weight=w)
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
    return NormalWishart(mean, freedom * within, kappa, m + 1 + freedom)


def recorded_steps(table: Table, columns: IntArray) -> FloatArray:
    """Return the steps in which numbers were recorded."""
    grids = (table.domains[int(j)].grid for j in columns)
    return np.array([0.0 if grid is None else grid.step for grid in grids])
