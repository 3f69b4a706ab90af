"""Components that share one structure and differ in their parameters.

A component of a mixture has few rows, too few to find a wide structure in, and most of what it
could find holds in the whole table. Here the structure is learned once, from a bootstrap sample of
all rows (so that members of an ensemble differ), and every component has tables of its own over it,
shrunk towards the rows outside it by as much as their likelihood asks for
(`bayescut.learn.leaves.shrinkage`).
There is no search in a step, which makes it cheap.

The components of a mixture form groups of components that are alike. A component leans on the other
rows of its group, and those lean, as if they were a few more rows, on the rows outside the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from bayescut._typing import FloatArray, IntArray
from bayescut.counts.families import count_families
from bayescut.data.table import Table
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.ensemble.copies import draw_rows
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.leaf import LeafFit
from bayescut.learn.leaves.shrinkage import posterior_tables, rows_left, shrunken_leaf
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts

# Components of a group, on average, and how many rows the rows outside a group count for in it.
# Validation of a few chains of 10 sweeps, without and with groups: book -32.85 and -32.55, plants
# -12.336 and -12.313, accidents -26.136 and -26.110, dna -78.61 and -78.56, nltcs -5.938 twice.
_COMPONENTS_OF_A_GROUP = 10
_ROWS_OUTSIDE = 8.0


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
    group, beyond : float64 arrays or None
        Counts of all rows of the component's group, and those that stand for the rows outside it;
        see `for_each`.
    """

    score: Score
    prior: StructureCosts
    width: int
    shrink: bool = True
    structure: LeafFit | None = None
    group: FloatArray | None = None
    beyond: FloatArray | None = None

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

    def for_each(
        self, table: Table, rows: Sequence[IntArray], weights: Sequence[FloatArray | None]
    ) -> Sequence[SharedLearner]:
        """Put components that are alike into groups; see `ComponentLearner.for_each`."""
        n_groups = len(rows) // _COMPONENTS_OF_A_GROUP
        if not self.shrink or n_groups < 2:
            return [self] * len(rows)
        every = self._structure()
        groups = group_components(table, rows, weights, n_groups)
        leaning: dict[int, SharedLearner] = {}
        for g in np.unique(groups).tolist():
            inside = np.flatnonzero(groups == g).tolist()
            part, some = _rows_of(table, [rows[k] for k in inside], [weights[k] for k in inside])
            counts = _counted(every, part, some).counts
            outside = rows_left(every.counts, counts)
            means = posterior_tables(
                outside, np.zeros_like(outside), *every.families, every.ess, 0.0
            )
            leaning[g] = replace(self, group=counts, beyond=_ROWS_OUTSIDE * np.exp(means))
        return [leaning[g] for g in groups.tolist()]

    def _structure(self) -> LeafFit:
        if self.structure is None:
            raise ValueError("the structure that components share is learned by for_components")
        return self.structure

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Settled:
        """Give the structure the parameters of some rows; see `CutsetLearner.learn`."""
        every = self._structure()
        rows = table.weighty(rows)
        fit = _counted(every, table, rows)
        others = np.zeros_like(fit.counts)
        if self.shrink and fit.weight < every.weight:
            if self.group is None or self.beyond is None:
                others = rows_left(every.counts, fit.counts)
            else:
                others = rows_left(self.group, fit.counts) + self.beyond
        if advance is not None:
            advance(len(rows))
        return Settled(
            n=fit.weight,
            ess=fit.ess,
            n_choices=table.n_columns,
            columns=np.arange(table.n_columns),
            leaf=shrunken_leaf(fit, others),
        )


def group_components(
    table: Table,
    rows: Sequence[IntArray],
    weights: Sequence[FloatArray | None],
    n_groups: int,
) -> IntArray:
    """Groups of components that are alike: near each other in the shares of all states.

    Parameters
    ----------
    table, rows, weights
        See `ComponentLearner.for_each`.
    n_groups : int
        Most groups.

    Returns
    -------
    int array
        Group of each component.
    """
    columns = np.arange(table.n_columns)
    alone = np.zeros(table.n_columns + 1, dtype=np.int64)
    nobody = np.empty(0, dtype=np.int64)
    shares = np.array(
        [
            count_families(table.codes, some, table.sizes, part, columns, alone, nobody)
            / max(float(len(some)) if part is None else float(part[some].sum()), 1e-300)
            for some, part in zip(rows, weights, strict=True)
        ]
    )
    return fcluster(linkage(shares, "ward"), n_groups, "maxclust")


def _rows_of(
    table: Table, rows: Sequence[IntArray], weights: Sequence[FloatArray | None]
) -> tuple[Table, IntArray]:
    """The rows of several components together: a table with their weights, and which they are."""
    if all(part is None for part in weights):
        return table.with_weights(None), np.sort(np.concatenate(rows))
    total = np.zeros(table.n_rows)
    for some, part in zip(rows, weights, strict=True):
        total[some] += 1.0 if part is None else part[some]
    return table.with_weights(total), np.flatnonzero(total).astype(np.int32)


def _counted(fit: LeafFit, table: Table, rows: IntArray) -> LeafFit:
    """The same structure with the counts of other rows, of which no score is known."""
    counts = count_families(
        table.codes, rows, table.sizes, table.weights, fit.columns, fit.parent_ptr, fit.parents
    )
    weight = table.total_weight(rows)
    return fit._replace(counts=counts, n_rows=len(rows), weight=weight, score=np.nan)
