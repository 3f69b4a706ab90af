r"""Priors over structures: what a cutset network costs before any data is seen.

Maximising p(data | structure) alone picks the luckiest of an astronomical number of structures: a
tree over m columns is one of :math:`m^{m-2}`, so every further leaf buys about :math:`(m-2)\ln m`
nats of luck. A normalised prior charges for exactly that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class StructureCosts(Protocol):
    """What a structure prior charges, in nats."""

    def parent_cost(self, n_columns: int) -> float:
        """Price of a parent in a leaf over ``n_columns`` columns."""
        ...

    def leaf_cost(self, n_columns: int, width: int) -> float:
        """Price of being a leaf over ``n_columns`` columns with up to ``width`` parents each."""
        ...

    def cut_cost(self, n_columns: int) -> float:
        """Price of being cut on one particular of ``n_columns`` columns."""
        ...

    def group_cost(self, n_questions: int) -> float:
        """Price of one particular of the ``n_questions`` that a cut could ask about its column."""
        ...


@dataclass(frozen=True)
class NoPrior:
    """All structures cost nothing: the score alone decides, as in the paper."""

    def parent_cost(self, n_columns: int) -> float:
        """Return 0."""
        return 0.0

    def leaf_cost(self, n_columns: int, width: int) -> float:
        """Return 0."""
        return 0.0

    def cut_cost(self, n_columns: int) -> float:
        """Return 0."""
        return 0.0

    def group_cost(self, n_questions: int) -> float:
        """Return 0."""
        return 0.0


@dataclass(frozen=True)
class StructurePrior:
    r"""A proper prior over cutset networks with thin-junction-tree leaves.

    A node over m columns is a leaf with probability 1/2; otherwise it is cut on one of its m
    columns, all alike. In a leaf every column chooses its set S of at most w parents on its own,
    with probability proportional to :math:`m^{-|S|}`:

    .. math:: -\ln p(\text{leaf}) = \ln 2 + \ln m \sum_v |S_v| + m \ln z,
              \qquad z = \sum_{k=0}^{w} \binom{m-1}{k} m^{-k}

    .. math:: -\ln p(\text{cut on one column}) = \ln 2 + \ln m

    A cut that asks about a set of states pays for the set as well: the logarithm of the number of
    questions that were looked at for its column. So does a family that sees a parent in groups.

    This is a distribution over all choices of parent sets. Those that form a junction tree are a
    part of them, and several choices describe the same undirected tree, so the cost is an upper
    bound of the cost of the structure under the prior restricted to what the learner can build.

    Parameters
    ----------
    constants : bool, default=False
        Charge for the constants :math:`\ln 2` and :math:`m \ln z` too. They are a bound, not the
        exact normaliser, and on the validation parts of the benchmark sets charging for them made
        networks smaller and worse (plants -13.25 instead of -13.21, accidents -27.71 instead of
        -27.61), so by default only choices are charged for, :math:`\ln m` for each.
    scale : float, default=1.0
        Power of the prior: multiplies all costs. Below 1 the prior is tempered, and structures
        are richer.

    Examples
    --------
    >>> prior = StructurePrior()
    >>> round(prior.parent_cost(100), 3)
    4.605
    >>> round(StructurePrior(constants=True).leaf_cost(100, 0), 3)  # nothing to choose
    0.693
    """

    constants: bool = False
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise ValueError(f"scale must be at least 0 and finite, got {self.scale!r}")

    def parent_cost(self, n_columns: int) -> float:
        """The logarithm of the number of columns."""
        return self.scale * math.log(max(n_columns, 1))

    def leaf_cost(self, n_columns: int, width: int) -> float:
        """What every leaf pays, whatever its edges."""
        if not self.constants:
            return 0.0
        m = max(n_columns, 1)
        z = sum(math.comb(m - 1, k) * float(m) ** -k for k in range(width + 1))
        return self.scale * (math.log(2.0) + m * math.log(z))

    def cut_cost(self, n_columns: int) -> float:
        """The logarithm of the number of columns, and of the choice to cut."""
        choice = math.log(2.0) if self.constants else 0.0
        return self.scale * (math.log(max(n_columns, 1)) + choice)

    def group_cost(self, n_questions: int) -> float:
        """The logarithm of the number of questions."""
        return self.scale * math.log(max(n_questions, 1))
