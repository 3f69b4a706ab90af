"""The table as each member of an ensemble sees it: cells of its own, gaps drawn anew.

A histogram jumps where its cells end, and a completed table claims to know what was missing. Both
are mended by averaging members that do not share them: each sees every number in cells that are
halved at random quantiles, and each has draws of its own of the missing cells. A member is learned
from its own table; :meth:`OwnTable.restore` makes it a circuit over the cells of all, by which
members are judged and averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit.refine import refine
from bayescut.data.cells import halvings
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.leaves.normal import with_numbers
from bayescut.learn.tables.gaps import Completions
from bayescut.learn.tables.resolution import coarsen

__all__ = ["OwnTable", "OwnTables"]


@dataclass(frozen=True, eq=False)
class OwnTable:
    """A complete table that a member is learned from.

    Parameters
    ----------
    table : Table
        In the member's own cells.
    domains : Domains
        The cells of all members.
    views : tuple of int arrays, or None
        For each column, the member's state of every state; None: the same states.
    """

    table: Table
    domains: Domains
    views: tuple[IntArray, ...] | None = None

    def restore(self, circuit: Circuit) -> Circuit:
        """Return the member over the cells of all: its own cells follow the column's density."""
        if self.views is None:
            return circuit
        shares = [
            np.ones(len(view)) if domain.grid is None else _shares(domain.grid.mass, view)
            for domain, view in zip(self.domains, self.views, strict=True)
        ]
        return refine(circuit, self.domains, self.views, shares)


class OwnTables:
    """Draws the tables of the members of an ensemble.

    Parameters
    ----------
    table : Table
        Rows with numbers in fine cells and, possibly, gaps.
    depth : int or None
        How often numbers are halved; None: there are none.
    seed : int
        Seed of the draws of missing cells.
    n_jobs : int
        Threads; nothing depends on them.
    deadline : float
        By `bayescut._clock.working_time`: when to begin no more sweeps over the gaps.

    Examples
    --------
    >>> from bayescut.data import Domains
    >>> codes = np.array([[0, 0], [1, 1], [0, 255], [255, 1]] * 20, dtype=np.uint8)
    >>> tables = OwnTables(Table(codes, Domains.binary(2)), None, seed=0)
    >>> tables.draw(1).table.has_gaps
    False
    """

    def __init__(
        self,
        table: Table,
        depth: int | None,
        seed: int,
        *,
        n_jobs: int = 1,
        deadline: float = np.inf,
    ) -> None:
        self.table = table
        self.depth = depth
        self.seed = seed
        coarse = table if depth is None else coarsen(table, depth)
        self._gaps: Completions | None = None
        if table.has_gaps:
            self._gaps = Completions(coarse, seed, n_jobs=n_jobs, deadline=deadline)
            coarse = self._gaps.single(0)
        views = None if depth is None else self._views(depth, [None] * table.n_columns)
        #: The table in the cells of the best resolution, for the member that sees all rows.
        self.plain = OwnTable(coarse, table.domains, views)

    def draw(self, number: int) -> OwnTable:
        """Return the table of a member, for each number one of its own."""
        if self.depth is None and self._gaps is None:
            return self.plain
        rng = np.random.default_rng([self.seed, 8, number])
        table = self.table
        if self._gaps is not None:
            table = self._completed(number, rng)
            if table.values is not None:
                table = with_numbers(table, np.arange(table.n_columns), rng)
        if self.depth is None:
            return OwnTable(table, table.domains)
        levels = [
            None if domain.grid is None else halvings(domain.grid.mass, rng)
            for domain in table.domains
        ]
        views = self._views(self.depth, levels)
        return OwnTable(coarsen(table, self.depth, levels), table.domains, views)

    def _views(self, depth: int, levels: list[IntArray | None]) -> tuple[IntArray, ...]:
        return tuple(
            np.arange(domain.n_states) if domain.grid is None
            else domain.grid.view(depth, own).astype(np.int64)
            for domain, own in zip(self.table.domains, levels, strict=True)
        )  # fmt: skip

    def _completed(self, number: int, rng: np.random.Generator) -> Table:
        """Draw the missing cells; a coarse cell that was drawn is divided by the density."""
        assert self._gaps is not None
        whole = self._gaps.single(number)
        drawn, codes = whole.codes, self.table.codes.copy()
        for j, domain in enumerate(self.table.domains):
            rows = np.flatnonzero(~self.table.observed[:, j])
            found = drawn[rows, j]
            if domain.grid is not None and self.plain.views is not None and len(rows):
                below = np.append(0.0, np.cumsum(domain.grid.mass))
                first = np.searchsorted(self.plain.views[j], np.arange(int(found.max()) + 2))
                begin, end = first[found], first[found.astype(np.int64) + 1]
                target = below[begin] + rng.random(len(rows)) * (below[end] - below[begin])
                found = np.searchsorted(below, target, side="right") - 1
                found = np.clip(found, begin, end - 1)
            if domain.grid is not None and whole.values is not None and len(rows):
                numbers = whole.values[rows, j]
                known = ~np.isnan(numbers)
                found = np.where(known, domain.grid.codes(np.where(known, numbers, 0.0)), found)
            codes[rows, j] = found
        return replace(self.table, codes=codes, values=whole.values)


def _shares(mass: FloatArray, view: IntArray) -> FloatArray:
    """Return which part every cell has of the mass of the member's cell that it lies in."""
    found: FloatArray = mass / np.bincount(view, mass)[view]
    return found
