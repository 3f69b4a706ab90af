"""Settings of the one growth loop: how leaves are made, which cuts are tried, which are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.learn.trees import TreeRule
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX
from bayescut.scores.prior import StructureCosts


@dataclass(frozen=True)
class TreeLeaves:
    """Leaves are trees or forests over the columns left at a node.

    Attributes
    ----------
    by_mutual_information : bool
        Choose edges by the mutual information of smoothed tables (the Chow-Liu algorithm), then
        judge the tree by the score. ``False`` chooses by the score itself.
    spanning : bool
        Keep all variables in one tree, whatever an edge is worth.
    """

    by_mutual_information: bool = True
    spanning: bool = True

    def rule(
        self, score: Score, prior: StructureCosts, parameter_cost: float, n_columns: int
    ) -> TreeRule:
        """Put the rule for leaves over ``n_columns`` columns into the numbers a kernel takes."""
        return TreeRule(
            choose=XLOGX if self.by_mutual_information else score.potential,
            judge=score.potential,
            spanning=self.spanning,
            parameter_cost=parameter_cost,
            edge_cost=prior.parent_cost(n_columns),
            leaf_cost=prior.leaf_cost(n_columns, 1),
        )


@dataclass(frozen=True)
class TopGain:
    """Candidates are the columns of the largest information gain, ties to the lower index.

    Attributes
    ----------
    n_candidates : int or None
        How many; ``None`` tries all.
    """

    n_candidates: int | None = 10

    def __post_init__(self) -> None:
        count = self.n_candidates
        if count is None:
            return
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"n_candidates must be a whole number of at least 1, got {count!r}")

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick positions among ``cuttable`` by their ``gain``, best first."""
        order = np.argsort(-gain[cuttable], kind="stable")
        return cuttable[order[: self.n_candidates]]


@dataclass(frozen=True)
class RandomGain:
    """Candidates are the best of a random part of the columns: makes members of a bag differ.

    Attributes
    ----------
    share : float
        Part of the columns looked at.
    n_candidates : int
        How many of these are tried.
    rng : Generator
        Source of randomness.
    """

    share: float
    n_candidates: int
    rng: np.random.Generator

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick positions among ``cuttable``, best first."""
        size = max(1, round(self.share * len(cuttable)))
        part = np.sort(self.rng.choice(cuttable, size, replace=False))
        return TopGain(self.n_candidates).select(gain, part)


class Candidates(Protocol):
    """Picks the columns that are tried as cuts."""

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick positions among ``cuttable`` by their information ``gain``, best first."""
        ...


@dataclass(frozen=True)
class Improves:
    """Take the best cut if it makes the score better, strictly."""

    def accept(self, leaf_score: float, cut_score: float) -> bool:
        """Whether to cut."""
        return cut_score > leaf_score
