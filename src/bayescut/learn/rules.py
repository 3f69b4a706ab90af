"""Settings of the one growth loop: how leaves are made, which cuts are tried, which are taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.learn.trees import TreeRule
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX


class StructureCosts(Protocol):
    """What a structure prior charges, in nats."""

    def edge_cost(self, n_columns: int) -> float:
        """Price of an edge of a leaf over ``n_columns`` columns."""
        ...

    def cut_cost(self, n_columns: int) -> float:
        """Price of cutting on one of ``n_columns`` columns."""
        ...


@dataclass(frozen=True)
class NoPrior:
    """All structures cost nothing: the score alone decides, as in the paper."""

    def edge_cost(self, n_columns: int) -> float:
        """Return 0."""
        return 0.0

    def cut_cost(self, n_columns: int) -> float:
        """Return 0."""
        return 0.0


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

    def rule(self, score: Score, parameter_cost: float, edge_cost: float) -> TreeRule:
        """Put the rule into the numbers a kernel takes."""
        choose = XLOGX if self.by_mutual_information else score.potential
        return TreeRule(choose, score.potential, self.spanning, parameter_cost, edge_cost)


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
class Improves:
    """Take the best cut if it makes the score better, strictly."""

    def accept(self, leaf_score: float, cut_score: float) -> bool:
        """Whether to cut."""
        return cut_score > leaf_score
