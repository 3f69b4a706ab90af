"""How finely the numbers of a table are learned: the number of cells that its rows can fill.

Cells are halved again and again (:meth:`bayescut.data.Grid.view`). Every number of halvings gives a
model of the numbers themselves, the probabilities of cells times the density inside them, so that
log marginal likelihoods can be compared: those of the best forest, or, where the learner says what
a table is worth to it, its own. Forests are too coarse a guess for learners that know more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bayescut._clock import working_time
from bayescut._typing import IntArray
from bayescut.data.domains import Domain, Domains, missing_code
from bayescut.data.grid import Grid
from bayescut.data.table import Table
from bayescut.learn.tables.gaps import (
    AvailableForest,
    Completions,
    available_pairs,
    some_rows,
)

__all__ = [
    "MOST_CELLS",
    "best_depth",
    "choose_depth",
    "coarsen",
    "coarser_domains",
]

# Validation of CutsetNetwork with 4, 8, 16 and 32 cells for all columns, with those that forests
# prefer, and with those that it prefers itself: abalone 9.03, 9.57, 9.99, 10.53, 9.99 and 10.53;
# vehicle -49.46, -50.84, -50.50, -50.50, -50.84 and -49.46; wdbc 21.2, 21.2, 27.9, 27.9, 21.2 and
# 27.9; german -25.16, -25.39, -25.36, -25.45, -25.16 and -25.16; concrete 7.3, 9.7, 11.8, 14.7, 7.3
# and 14.7.

#: The largest number of cells that is tried (atoms may make a few more).
MOST_CELLS = 32
_LEAST_HALVINGS = 2
# States of all columns together whose pairs are counted: 2.5 GB at the peak. 2,000 numbers in 16
# cells would take 40, and 100 rows do not fill them.
_MOST_STATES = 1 << 13
# Learners are asked about tables of at most so many cells and states: they learn once for every
# resolution.
_MOST_ASKED = 1 << 18
_MOST_STATES_ASKED = 1 << 12

Worth = Callable[[Table], float]


def choose_depth(table: Table, worth: Worth | None, deadline: float = np.inf) -> int | None:
    """Return the number of halvings that is worth while, None if no column holds numbers.

    Parameters
    ----------
    table : Table
        With numbers in fine cells, and their values; cells may be missing. Columns that nothing
        depends on are better left out.
    worth : callable, optional
        Log marginal likelihood of the states of a complete table to the learner.
    deadline : float
        By `bayescut._clock.working_time`: after it the learner is not asked again.
    """
    first = best_depth(table)
    depths = _depths(table)
    if first is None or worth is None or len(depths) < 2 or table.codes.size > _MOST_ASKED:
        return first
    if _n_states(table.domains, depths[-1]) > _MOST_STATES_ASKED:
        return first
    if table.has_gaps:
        # Drawn once, in the finest cells: the cells of a coarser model would be preferred for it.
        finest = coarsen(table, depths[-1])
        table = Completions(finest, seed=0, deadline=deadline, quick=True).single(0)

    def value(depth: int) -> float:
        coarse = coarsen(table, depth)
        return worth(coarse) + _density_inside(coarse, table)

    if working_time() >= deadline:
        return first
    best, best_value = first, value(first)
    # Outwards on either side as long as that is better.
    for step in (-1, 1):
        depth = first + step
        while depth in depths and working_time() < deadline:
            found = value(depth)
            if found <= best_value:
                break
            best, best_value = depth, found
            depth += step
    return best


def _density_inside(coarse: Table, fine: Table) -> float:
    """Log density of the numbers of a complete table within their cells.

    Of a number that is not known, of which but a fine cell was drawn, it is the log of the part
    that this has of the coarse one; the density within fine cells is the same for all resolutions.
    """
    assert coarse.values is not None
    total = 0.0
    for j, (domain, before) in enumerate(zip(coarse.domains, fine.domains, strict=True)):
        if domain.grid is None or before.grid is None:
            continue
        inside = domain.grid.log_inside(coarse.values[:, j], coarse.codes[:, j])
        drawn = np.isnan(coarse.values[:, j])
        inside[drawn] = np.log(before.grid.mass)[fine.codes[drawn, j]]
        inside[drawn] -= np.log(domain.grid.mass)[coarse.codes[drawn, j]]
        total += float(coarse.all_weights @ inside)
    return total


def _depths(table: Table) -> list[int]:
    """Numbers of halvings to choose from; none if no column holds numbers."""
    grids = [domain.grid for domain in table.domains if domain.grid is not None]
    if not grids or table.values is None:
        return []
    deepest = max(grid.depth for grid in grids)
    deepest = max(min(deepest, MOST_CELLS.bit_length() - 1), _LEAST_HALVINGS)
    while deepest > _LEAST_HALVINGS and _n_states(table.domains, deepest) > _MOST_STATES:
        deepest -= 1
    return list(range(_LEAST_HALVINGS, deepest + 1))


def best_depth(table: Table) -> int | None:
    """Return the number of halvings of the best forest, None if no column holds numbers."""
    depths = _depths(table)
    if len(depths) < 2:
        return depths[0] if depths else None
    table = coarsen(table, depths[-1])
    rows = some_rows(table)
    weights = np.ones(len(rows)) if table.weights is None else table.weights[rows]
    fine = available_pairs(table)
    best, best_score = depths[0], -np.inf
    for depth in depths:
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
