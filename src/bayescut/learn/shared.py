"""Components that share one structure and differ in their parameters.

A component of a mixture has few rows, too few to find a wide structure in, and most of what it
could find holds in the whole table. Here the structure is learned once, from a bootstrap sample of
all rows (so that members of an ensemble differ), and every component has tables of its own over it,
shrunk towards the rows outside it by as much as the evidence asks for (`bayescut.learn.outside`).
There is no search in a step, which makes it cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.counts.families import count_families
from bayescut.learn.cutset import Node, learning_rows
from bayescut.learn.junction import JunctionLeaves, LeafFit
from bayescut.learn.outside import shrink_tables
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
    n_jobs : int
        Threads: one is used.
    shrink : bool
        Shrink the tables of a network towards the rows outside it.
    structure : LeafFit or None
        The structure, with its counts among all rows; see `part_of`.
    """

    score: Score
    prior: StructureCosts
    width: int
    n_jobs: int = 1
    shrink: bool = True
    structure: LeafFit | None = None

    # Steps for one of a learner that searches. Validation after 3 and 10 steps, two chains
    # averaged: accidents -26.43 and -26.29, book -33.22 and -33.08, tretail -10.840 and -10.812,
    # jester (width 1) -52.74 and -52.76.
    pace: ClassVar[int] = 3

    def part_of(
        self, codes: CodeArray, sizes: IntArray, sample_weight: FloatArray | None, seed: int = 0
    ) -> SharedLearner:
        """Learn what the parts of a model share from a bootstrap sample of a table."""
        rows = learning_rows(codes, None, sample_weight)
        drawn = np.random.default_rng([seed, 13]).integers(0, len(rows), len(rows))
        sample = rows[np.sort(drawn)]
        weight = None if sample_weight is None else float(sample_weight[sample].sum())
        leaves = JunctionLeaves(self.score, self.prior, self.width, sizes, len(sample), weight)
        every = np.arange(codes.shape[1])
        fit = leaves.fit(codes, sample, every, self.score.root_ess, sample_weight)
        counts = count_families(codes, rows, sizes, sample_weight, *fit.families)
        return replace(self, structure=fit._replace(counts=counts, n_rows=len(rows)))

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        sample_weight: FloatArray | None = None,
        *,
        rows: IntArray | None = None,
        settled: Callable[[int], None] | None = None,
    ) -> Node:
        """Give the structure the parameters of some rows; see `CutsetLearner.grow`."""
        if self.structure is None:
            raise ValueError("the structure that components share is learned by part_of")
        fit = self.structure
        rows = learning_rows(codes, rows, sample_weight)
        own = count_families(codes, rows, sizes, sample_weight, *fit.families)
        others = np.zeros_like(own)
        if self.shrink and len(rows) < fit.n_rows:
            # Rounded weights of the whole and of the part may differ in the last place.
            others = np.maximum(fit.counts - own, 0.0)
        tables = shrink_tables(own, others, sizes, *fit.families, fit.ess)
        if settled is not None:
            settled(len(rows))
        return Node.settled_leaf(fit.leaf(tables), np.nan, float(len(rows)), fit.ess)
