"""The maximum-a-posteriori learner: cuts found with forests in view, leaves as wide as they pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.cutset import CutsetLearner, Node, learning_rows
from bayescut.learn.junction import JunctionLeaves
from bayescut.learn.outside import Outside
from bayescut.learn.rules import Candidates, TopGain, TreeLeaves
from bayescut.learn.widen import widen
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts


@dataclass(frozen=True)
class NetworkLearner:
    """Grows a cutset network over forests, then fits wide leaves and prunes.

    Parameters
    ----------
    score : Score
        What structures are worth.
    prior : StructureCosts
        What they cost.
    width : int
        Most parents of a column in a leaf.
    candidates : Candidates or None
        Columns tried as cuts; None cuts nowhere.
    n_jobs : int
        Threads; the result does not depend on it.
    products : bool
        Cut the trees of a forest on their own.
    shrink : bool
        Shrink the tables of leaves towards the rows outside them (`bayescut.learn.outside`).
    outside : Outside or None
        All rows of the model this network is a part of; None: the network is all of it.
    """

    score: Score
    prior: StructureCosts
    width: int = 6
    candidates: Candidates | None = field(default_factory=TopGain)
    n_jobs: int = 1
    products: bool = False
    shrink: bool = True
    outside: Outside | None = None

    # Sweeps of a chain for one of this learner: see `SharedLearner`.
    pace: ClassVar[int] = 1

    def part_of(
        self, codes: CodeArray, sizes: IntArray, sample_weight: FloatArray | None, seed: int = 0
    ) -> NetworkLearner:
        """Return a learner of networks that are parts of one model of the whole table."""
        if not self.shrink:
            return self
        rows = np.arange(len(codes), dtype=np.int32)
        return replace(self, outside=Outside(codes, rows, sizes, sample_weight))

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        sample_weight: FloatArray | None = None,
        *,
        rows: IntArray | None = None,
        settled: Callable[[int], None] | None = None,
    ) -> Node:
        """Learn a network from complete codes; see `CutsetLearner.grow`."""
        rows = learning_rows(codes, rows, sample_weight)
        weight = None if sample_weight is None else float(sample_weight[rows].sum())
        outside = self.outside
        if outside is None and self.shrink and self.candidates is not None:
            outside = Outside(codes, rows, sizes, sample_weight)
        leaves = JunctionLeaves(
            self.score, self.prior, self.width, sizes, len(rows), weight, outside
        )
        if self.candidates is None:
            ess = self.score.root_ess
            fit = leaves.fit(codes, rows, np.arange(codes.shape[1]), ess, sample_weight)
            if settled is not None:
                settled(len(rows))
            return Node.settled_leaf(leaves.settle(fit), fit.score, float(len(rows)), ess)
        learner = CutsetLearner(
            self.score,
            self.prior,
            TreeLeaves(by_mutual_information=False, spanning=False),
            self.candidates,
            n_jobs=self.n_jobs,
            products=self.products,
        )
        root = learner.grow(codes, sizes, sample_weight, rows=rows, settled=settled)
        widen(root, codes, rows, leaves, sample_weight, self.n_jobs)
        return root
