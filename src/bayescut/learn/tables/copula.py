r"""A Gaussian copula: what one smooth, linear model says of a table's numbers.

Cells do not know that they lie side by side, so a smooth relation costs them many rows. Here every
number is turned into the normal score of its own distribution, and the scores are jointly Gaussian
(a Gaussian copula). Given the scores of any columns the score of another is Gaussian,

.. math:: z_t \mid z_o \sim N\bigl(\Sigma_{to} \Sigma_{oo}^{-1} z_o,\;
          \Sigma_{tt} - \Sigma_{to} \Sigma_{oo}^{-1} \Sigma_{ot}\bigr),

which gives the probabilities of its cells; what is missing is marginalised by leaving it out. A
known number counts as the middle of its cell.

It stands beside circuits: in the jobs it speaks of single columns, and it draws the first numbers
that fill gaps. Gaussian leaves inside circuits are learned in `bayescut.learn.leaves.normal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data.domains import Domains, missing_code
from bayescut.data.grid import Grid
from bayescut.data.table import Table
from bayescut.exceptions import DataError
from bayescut.learn.tables._copula import draw_scores, expected_products, predicted_scores

__all__ = ["NormalScores", "learn_copula"]

# Rows that the covariance is given in advance, without any correlation; more for many columns.
_PRIOR_ROWS = 1.0
_PRIOR_PER_COLUMN = 0.2
# Rounds of expectation and maximisation for rows with gaps, and the rows they look at.
_ROUNDS = 8
_MOST_ROWS = 2000
# Share of a column's own distribution in every answer: no cell is impossible.
_FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class NormalScores:
    """A Gaussian over the normal scores of a table's numbers.

    Parameters
    ----------
    domains : Domains
        The columns of the table.
    columns : int64 array of shape (k,)
        Those that are numbers.
    covariance : float64 array of shape (k, k)
        Of their scores.
    """

    domains: Domains
    columns: IntArray
    covariance: FloatArray

    def __post_init__(self) -> None:
        k = len(self.columns)
        grids = [j for j in self.columns.tolist() if 0 <= j < len(self.domains)]
        if len(grids) != k or any(self.domains[j].grid is None for j in grids):
            raise ValueError("normal scores of columns that hold no numbers")
        if self.covariance.shape != (k, k) or not np.isfinite(self.covariance).all():
            raise ValueError("the covariance of normal scores does not fit the columns")
        if k and np.linalg.eigvalsh(self.covariance).min() <= 0:
            raise ValueError("the covariance of normal scores is not positive definite")

    @cached_property
    def _place(self) -> dict[int, int]:
        return {int(j): k for k, j in enumerate(self.columns)}

    @cached_property
    def _precision(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.covariance), dtype=np.float64)

    def knows(self, column: int) -> bool:
        """Whether a column is one of the numbers."""
        return column in self._place

    def proba(self, codes: CodeArray, columns: Any) -> dict[int, FloatArray]:
        """Probabilities of the cells of numbers given the other numbers of each row.

        Parameters
        ----------
        codes : array of shape (n, m)
            Rows; missing cells, and those of the column asked about, are not looked at.
        columns : sequence of int
            The columns asked about, numbers all of them.

        Returns
        -------
        dict of float64 arrays of shape (n, K)
        """
        z = scores(self.domains, self.columns, codes)
        wanted = np.array([self._place[int(j)] for j in columns], dtype=np.int64)
        mean, spread = np.empty((len(z), len(wanted))), np.empty((len(z), len(wanted)))
        predicted_scores(z, self._precision, wanted, mean, spread)
        found = {}
        for q, j in enumerate(columns):
            grid = _grid(self.domains, int(j))
            edges = ndtri(np.cumsum(grid.mass)[:-1])
            below = ndtr((edges[None] - mean[:, q, None]) / spread[:, q, None])
            cells = np.diff(below, axis=1, prepend=0.0, append=1.0)
            found[int(j)] = (1 - _FLOOR) * cells + _FLOOR * grid.mass
        return found

    def fill(self, codes: CodeArray, rng: np.random.Generator) -> CodeArray:
        """Draw the cells of the numbers that rows lack, given the other numbers of each row.

        Parameters
        ----------
        codes : array of shape (n, m)
            Rows; missing cells of other columns stay missing.
        rng : Generator

        Returns
        -------
        array of shape (n, m)
        """
        z = scores(self.domains, self.columns, codes)
        lacking = np.isnan(z)
        draw_scores(z, self._precision, rng.standard_normal(z.shape))
        codes = codes.copy()
        for k, j in enumerate(self.columns.tolist()):
            edges = ndtri(np.cumsum(_grid(self.domains, j).mass)[:-1])
            rows = np.flatnonzero(lacking[:, k])
            codes[rows, j] = np.searchsorted(edges, z[rows, k])
        return codes


def learn_copula(
    table: Table, rows: IntArray | None = None, columns: IntArray | None = None
) -> NormalScores | None:
    """Learn the covariance of the normal scores of a table's numbers; None if there are not two.

    Missing cells are marginalised: expectation and maximisation over the rows as they are.

    Parameters
    ----------
    table : Table
        Rows; cells may be missing.
    rows : int array, optional
        Rows to learn from; all by default.
    columns : int array, optional
        Numbers to learn of; all by default.
    """
    wanted = range(table.n_columns) if columns is None else columns.tolist()
    found = [(j, table.domains[j]) for j in wanted]
    columns = np.array(
        [j for j, domain in found if domain.grid is not None and domain.n_states > 1],
        dtype=np.int64,
    )
    if len(columns) < 2:
        return None
    some = np.arange(table.n_rows) if rows is None else np.asarray(rows)
    if len(some) > _MOST_ROWS:
        some = some[np.linspace(0, len(some) - 1, _MOST_ROWS).astype(np.int64)]
    z = scores(table.domains, columns, table.codes[some])
    weights = table.all_weights[some]
    k, prior = len(columns), _PRIOR_ROWS + _PRIOR_PER_COLUMN * len(columns)
    covariance = np.eye(k)
    for _ in range(_ROUNDS if np.isnan(z).any() else 1):
        total = prior * np.eye(k)
        expected_products(z, weights, np.linalg.inv(covariance), total)
        covariance = (total + total.T) / (2 * (prior + weights.sum()))
    return NormalScores(table.domains, columns, covariance)


def scores(domains: Domains, columns: IntArray, codes: CodeArray) -> FloatArray:
    """Normal scores of the middles of cells, NaN where missing."""
    out = np.full((len(codes), len(columns)), np.nan)
    mark = missing_code(codes.dtype)
    for k, j in enumerate(columns.tolist()):
        grid = _grid(domains, j)
        middle = ndtri(np.cumsum(grid.mass) - grid.mass / 2)
        known = codes[:, j] != mark
        out[known, k] = middle[codes[known, j]]
    return out


def _grid(domains: Domains, column: int) -> Grid:
    grid = domains[column].grid
    if grid is None:
        raise DataError(f"Column {column} holds no numbers.")
    return grid
