"""How finely the numbers of a table are learned: the number of cells that its rows can fill.

Cells are halved again and again (:meth:`bayescut.data.Grid.view`). Every number of halvings gives a
model of the numbers themselves, the probabilities of cells times the density inside them, so that
log marginal likelihoods can be compared. Here they are those of the best forest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayescut._typing import IntArray
from bayescut.data.domains import Domain, Domains, missing_code
from bayescut.data.grid import Grid
from bayescut.data.table import Table
from bayescut.learn.tables.gaps import AvailableForest, available_pairs, some_rows

__all__ = ["MOST_CELLS", "best_depth", "choose_resolution", "coarsen", "coarser_domains"]

# Validation of CutsetNetwork with 4, 8, 16 and 32 cells for all columns, and with those chosen:
# abalone 7.20, 8.93, 10.10, 10.23 and 10.15; wine -3.77, -4.17, -4.86, -6.28 and -4.17; german
# -25.16, -25.45, -25.44, -25.45 and -25.16; diabetes -24.21, -24.99, -25.07, -25.03 and -24.19.

#: The largest number of cells that is tried (atoms may make a few more).
MOST_CELLS = 32
_LEAST_HALVINGS = 2
# States of all columns together whose pairs are counted: 2.5 GB at the peak. 2,000 numbers in 16
# cells would take 40, and 100 rows do not fill them.
_MOST_STATES = 1 << 13


def choose_resolution(table: Table) -> Table:
    """Return a table whose numbers have as many cells as is worth while.

    Parameters
    ----------
    table : Table
        With numbers in fine cells, and their values; cells may be missing.

    Returns
    -------
    Table
        The same if no column holds numbers.
    """
    depth = best_depth(table)
    return table if depth is None else coarsen(table, depth)


def best_depth(table: Table) -> int | None:
    """Return the number of halvings that is worth while, None if no column holds numbers."""
    grids = {j: domain.grid for j, domain in enumerate(table.domains) if domain.grid is not None}
    if not grids or table.values is None:
        return None
    deepest = max(grid.depth for grid in grids.values())
    deepest = max(min(deepest, MOST_CELLS.bit_length() - 1), _LEAST_HALVINGS)
    while deepest > _LEAST_HALVINGS and _n_states(table.domains, deepest) > _MOST_STATES:
        deepest -= 1
    if deepest == _LEAST_HALVINGS:
        return deepest
    table = coarsen(table, deepest)
    rows = some_rows(table)
    weights = np.ones(len(rows)) if table.weights is None else table.weights[rows]
    fine = available_pairs(table)
    best, best_score = _LEAST_HALVINGS, -np.inf
    for depth in range(_LEAST_HALVINGS, deepest + 1):
        domains = coarser_domains(table.domains, depth)
        # Cells that become one state follow each other.
        first = _first_states(table.domains, depth)
        counts = np.add.reduceat(np.add.reduceat(fine, first, axis=0), first, axis=1)
        score = AvailableForest(counts, domains).score
        for j, domain in enumerate(domains):
            if domain.grid is not None and table.values is not None:
                score += float(weights @ domain.grid.log_inside(table.values[rows, j]))
        if score > best_score:
            best, best_score = depth, score
    return best


def _n_states(domains: Domains, depth: int) -> int:
    return int(coarser_domains(domains, depth).n_states.sum())


def _first_states(domains: Domains, depth: int) -> IntArray:
    """Return the first of the fine states of every coarse one, in the order of all states."""
    first = []
    for domain, offset in zip(domains, domains.offsets.tolist(), strict=False):
        if domain.grid is None:
            own = np.arange(domain.n_states)
        else:
            own = np.append(0, 1 + np.flatnonzero(domain.grid.levels <= depth))
        first.append(offset + own)
    return np.concatenate(first)


def coarsen(table: Table, depth: int, levels: Sequence[IntArray | None] | None = None) -> Table:
    """Return the table with cells of a number of halvings.

    Parameters
    ----------
    table : Table
        With numbers in fine cells; cells may be missing.
    depth : int
        Number of halvings.
    levels : sequence of int arrays, optional
        For each column, other halvings than its grid's own; see :func:`bayescut.data.halvings`.
    """
    domains = table.domains
    if levels is not None:
        domains = Domains(
            domain if domain.grid is None else replace(domain, grid=_halved(domain.grid, own))
            for domain, own in zip(domains, levels, strict=True)
        )
    codes = table.codes.copy()
    mark = missing_code(codes.dtype)
    for j, domain in enumerate(domains):
        if domain.grid is not None:
            missing = codes[:, j] == mark
            state = domain.grid.view(depth)[np.where(missing, 0, codes[:, j])]
            # As wide as the codes: bytes, which cells fit into, would make the mark another.
            codes[:, j] = np.where(missing, mark, state.astype(codes.dtype))
    return replace(table, codes=codes, domains=coarser_domains(domains, depth))


def _halved(grid: Grid, levels: IntArray | None) -> Grid:
    return grid if levels is None else replace(grid, levels=levels)


def coarser_domains(domains: Domains, depth: int) -> Domains:
    """Return the domains of a table whose numbers have cells of a number of halvings."""
    return Domains(
        domain if domain.grid is None else _coarser(domain, domain.grid, depth)
        for domain in domains
    )


def _coarser(domain: Domain, grid: Grid, depth: int) -> Domain:
    kept = grid.levels <= depth
    coarse = replace(grid, starts=grid.starts[kept], levels=grid.levels[kept])
    return replace(domain, n_states=coarse.n_cells, grid=coarse)
