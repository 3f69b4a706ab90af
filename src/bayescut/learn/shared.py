"""Components that share one structure and differ in their parameters.

A component of a mixture has few rows, too few to find a wide structure in, and most of what it
could find holds in the whole table. Here the structure is learned once, from a bootstrap sample of
all rows (so that members of an ensemble differ), and every component has tables of its own over it,
shrunk towards the rows outside it by as much as their likelihood asks for
(`bayescut.learn.shrinkage`).
There is no search in a step, which makes it cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bayescut._typing import IntArray
from bayescut.counts.families import count_families
from bayescut.data.table import Table
from bayescut.learn.copies import draw_rows
from bayescut.learn.junction import JunctionLeaves
from bayescut.learn.leaves import LeafFit
from bayescut.learn.settled import Settled
from bayescut.learn.shrinkage import rows_left, shrunken_leaf
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts


@dataclass(frozen=True, eq=False)
class SharedLearner:
    """Learns networks of one leaf each, all of the same structure.

    Parameters
    ----------
    score : Score
        What families are worth.
    prior : StructureCosts
        What parents cost.
    width : int
        Most parents of a column.
    shrink : bool
        Shrink the tables of a network towards the rows outside it.
    structure : LeafFit or None
        The structure, with its counts among all rows; see `for_components`.
    """

    score: Score
    prior: StructureCosts
    width: int
    shrink: bool = True
    structure: LeafFit | None = None

    # Validation after 3 and 10 steps, two chains averaged: accidents -26.43 and -26.29, book -33.22
    # and -33.08, tretail -10.840 and -10.812, jester (width 1) -52.74 and -52.76.
    sweep_factor: ClassVar[int] = 3

    def for_components(self, table: Table, seed: int = 0) -> SharedLearner:
        """Learn the structure that components share from a bootstrap sample of a table.

        A learner that has a structure keeps it, with the counts of this table.
        """
        if self.structure is not None:
            return replace(self, structure=_counted(self.structure, table, table.weighty()))
        drawn, sample = draw_rows(table, np.random.default_rng([seed, 13]))
        leaves = JunctionLeaves(
            self.score, self.prior, self.width, len(sample), drawn.total_weight(sample)
        )
        every = np.arange(table.n_columns)
        fit = leaves.fit(drawn, sample, every, self.score.root_ess, len(every))
        return replace(self, structure=_counted(fit, table, table.weighty()))

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Settled:
        """Give the structure the parameters of some rows; see `CutsetLearner.learn`."""
        if self.structure is None:
            raise ValueError("the structure that components share is learned by for_components")
        every = self.structure
        rows = table.weighty(rows)
        fit = _counted(every, table, rows)
        others = np.zeros_like(fit.counts)
        if self.shrink and fit.weight < every.weight:
            others = rows_left(every.counts, fit.counts)
        if advance is not None:
            advance(len(rows))
        return Settled(
            n=fit.weight,
            ess=fit.ess,
            n_choices=table.n_columns,
            columns=np.arange(table.n_columns),
            leaf=shrunken_leaf(fit, others),
        )


def _counted(fit: LeafFit, table: Table, rows: IntArray) -> LeafFit:
    """The same structure with the counts of other rows, of which no score is known."""
    counts = count_families(
        table.codes, rows, table.sizes, table.weights, fit.columns, fit.parent_ptr, fit.parents
    )
    weight = table.total_weight(rows)
    return fit._replace(counts=counts, n_rows=len(rows), weight=weight, score=np.nan)
