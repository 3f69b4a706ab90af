"""Rows as they are drawn and left out: a weight of k is a row given k times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.data.table import Table

# Whole weights become repeated rows up to this many rows, or this many times the distinct ones:
# counts of rows that count once are popcounts, several times as fast as sums of weights.
_MOST_ROWS = 2**20
_MOST_COPIES = 4
# A draw of more rows than this hardly differs from its expectation.
_MOST_DRAWS = 2**40


@dataclass(frozen=True, eq=False)
class Copies:
    """A table whose rows are drawn and left out one by one, and which of them are equal.

    It depends on the distinct rows and their total weights alone: neither the order of the rows nor
    whether one is given twice or weighs 2 makes a difference to what is learned.

    Attributes
    ----------
    table : Table
        Equal rows one after the other. Whole weights of moderate size are repeated rows; a row of
        another weight is one row, or ``n_folds`` equal parts of it if it weighs as much.
    group : int64 array of shape (n,)
        Number of the distinct row that each is a copy of.
    n_folds : int
        Folds of rows. A row may be left out while others that are equal to it are not: rows still
        to come will be like that, and what is known by heart (`repeats`) is worth something there.
    """

    table: Table
    group: IntArray
    n_folds: int

    @classmethod
    def of(cls, table: Table, n_folds: int) -> Copies:
        """Collect the equal rows of a complete table."""
        used = table.weighty()
        codes = np.ascontiguousarray(table.codes[used])
        keys = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        place = place.ravel()
        weights = None if table.weights is None else table.weights[used]
        total = np.bincount(place, weights, minlength=len(first)).astype(np.float64)
        few = total.sum() <= max(_MOST_COPIES * len(first), _MOST_ROWS)
        if few and bool(np.all(total == np.floor(total))):
            copies, parts = total.astype(np.int64), None
        else:
            copies = np.where(total >= n_folds, n_folds, 1)
            parts = np.repeat(total / copies, copies)
        group = np.repeat(np.arange(len(first)), copies)
        values = None
        if table.values is not None:
            values = table.values[used][_sources(table.values[used], place, weights, copies, first)]
        rows = Table(np.ascontiguousarray(codes[first][group]), table.domains, parts, values)
        return cls(rows, group, n_folds)

    @property
    def n_different(self) -> int:
        """Number of different rows."""
        return int(self.group[-1]) + 1

    @property
    def first(self) -> IntArray:
        """The first copy of each different row."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    def folds(self, seed: int) -> IntArray:
        """Fold of every row."""
        order = np.random.default_rng([seed, 7]).permutation(len(self.group))
        if self.table.weights is not None:
            # Parts of a row stand for many copies, which are in every fold.
            nth = np.arange(len(self.group)) - np.searchsorted(self.group, self.group)
            order = order[np.searchsorted(self.group, self.group)] + nth
        found: IntArray = order % self.n_folds
        return found

    def bag(self, rng: np.random.Generator) -> tuple[Table, IntArray, IntArray]:
        """Draw as many rows as there are, with replacement.

        Returns
        -------
        table, rows, unseen
            The table with the weights of the draws, its rows that were drawn (again and again if
            there are no weights), and those that were not.
        """
        n = len(self.group)
        times = np.bincount(rng.integers(0, n, n), minlength=n)
        every = np.arange(n, dtype=np.int32)
        unseen = np.flatnonzero(times == 0)
        if self.table.weights is None:
            return self.table, np.repeat(every, times), unseen
        return self.table.with_weights(self.table.weights * times), every[times > 0], unseen


def _sources(
    values: FloatArray,
    place: IntArray,
    weights: FloatArray | None,
    copies: IntArray,
    first: IntArray,
) -> IntArray:
    """Return which row each copy has its numbers from: rows in equal cells may differ in them."""
    times = np.ones(len(place), dtype=np.int64)
    if weights is not None:
        if not np.array_equal(weights, np.floor(weights)):
            return np.repeat(first, copies)
        times = weights.astype(np.int64)
    if not np.array_equal(np.bincount(place, times, minlength=len(first)), copies):
        return np.repeat(first, copies)
    # The order of the rows makes no difference, as far as their numbers have different sums.
    order = np.lexsort((np.nansum(values, axis=1), place))
    return np.repeat(order, times[order])


def draw_rows(table: Table, rng: np.random.Generator) -> tuple[Table, IntArray]:
    """Draw as many rows as the weights add up to, with replacement.

    Returns the table with the weights of the draws, and its rows that were drawn (again and again
    if there are no weights).
    """
    rows = table.weighty()
    if table.weights is None:
        return table, rows[np.sort(rng.integers(0, len(rows), len(rows)))]
    weights = table.weights[rows]
    total = float(weights.sum())
    size = int(np.clip(np.rint(total), 1, _MOST_DRAWS))
    times = rng.multinomial(size, weights / total)
    drawn: FloatArray = np.zeros(table.n_rows)
    drawn[rows] = times * (total / size)
    return table.with_weights(drawn), rows[times > 0]
