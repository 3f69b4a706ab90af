"""Settings of the one growth loop: which cuts are tried, and which are taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bayescut._typing import FloatArray, IntArray


@dataclass(frozen=True)
class Stop:
    """When a node is a leaf without any cut being tried.

    Attributes
    ----------
    rows : float
        At this many rows or fewer (their weight, if they have weights).
    columns : int
        At this many columns or fewer.
    entropy : float
        Where the mean entropy of the columns, in nats, is below this.
    gain : float
        Where the largest information gain is at most this.
    """

    rows: float = 0.0
    columns: int = 1
    entropy: float = -math.inf
    gain: float = -math.inf

    @property
    def needs_gain(self) -> bool:
        """Whether `by_gain` can stop at all."""
        return max(self.entropy, self.gain) > -math.inf

    def by_size(self, n_rows: float, n_columns: int) -> bool:
        """Whether a node is too small to be cut."""
        return n_rows <= self.rows or n_columns <= self.columns

    def by_gain(self, mean_entropy: float, gain: float) -> bool:
        """Whether a node is too pure, or the best ``gain`` of a cut too small.

        A gain that is 0 in exact arithmetic is common (columns that leave each other alone) and
        comes out as a few units of the last place, hence the margin.
        """
        return mean_entropy < self.entropy or gain <= self.gain + 1e-12


class Candidates(Protocol):
    """Picks the columns that are tried as cuts."""

    @property
    def needs_gain(self) -> bool:
        """Whether `select` looks at the gain."""
        ...

    @property
    def draws(self) -> bool:
        """Whether `select` draws random numbers, so that nodes must come in their order."""
        ...

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick positions among ``cuttable`` by their information ``gain``, best first."""
        ...


@dataclass(frozen=True)
class TopGain:
    """Candidates are the columns of the largest information gain, ties to the lower index.

    Attributes
    ----------
    n_candidates : int or None
        How many; ``None`` tries all.
    """

    n_candidates: int | None = 10

    needs_gain: ClassVar[bool] = True
    draws: ClassVar[bool] = False

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

    needs_gain: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick positions among ``cuttable``, best first."""
        size = max(1, round(self.share * len(cuttable)))
        part = np.sort(self.rng.choice(cuttable, size, replace=False))
        return TopGain(self.n_candidates).select(gain, part)


@dataclass(frozen=True)
class EveryColumn:
    """All columns are candidates, in their order."""

    needs_gain: ClassVar[bool] = False
    draws: ClassVar[bool] = False

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Pick all of ``cuttable``."""
        return cuttable


@dataclass(frozen=True)
class RandomColumn:
    """The only candidate is a column drawn uniformly.

    Attributes
    ----------
    rng : Generator
        Source of randomness; nodes draw from it in the order in which they are grown, which
        threads do not change.
    """

    rng: np.random.Generator

    needs_gain: ClassVar[bool] = False
    draws: ClassVar[bool] = True

    def select(self, gain: FloatArray, cuttable: IntArray) -> IntArray:
        """Draw one of ``cuttable``."""
        i = int(self.rng.integers(len(cuttable)))
        return cuttable[i : i + 1]


class Acceptance(Protocol):
    """Says which cut is taken."""

    @property
    def judges(self) -> bool:
        """Whether candidates are evaluated; if not, the first one is taken as it is.

        Then no tree is grown before a node is known to be a leaf, and branches may be empty.
        """
        ...

    def accept(self, leaf_score: float, cut_score: float, n_rows: float, n_all: float) -> bool:
        """Whether to cut a node of ``n_rows`` of ``n_all`` rows, given what either is worth."""
        ...


@dataclass(frozen=True)
class Improves:
    """Take the best cut if it makes the score better, strictly."""

    judges: ClassVar[bool] = True

    def accept(self, leaf_score: float, cut_score: float, n_rows: float, n_all: float) -> bool:
        """Whether to cut."""
        return cut_score > leaf_score


@dataclass(frozen=True)
class ImprovesMean:
    r"""Take the best cut if it raises the mean score of the node's rows by enough.

    .. math:: \frac{\ell_\text{cut} - \ell_\text{leaf}}{n} > \frac{\ln N}{2 N}

    for a node of n of the N rows: a BIC in which a cut costs one parameter, trees cost none, and
    the improvement of a node counts as if all rows had it (Di Mauro et al. 2015).
    """

    judges: ClassVar[bool] = True

    def accept(self, leaf_score: float, cut_score: float, n_rows: float, n_all: float) -> bool:
        """Whether to cut."""
        return (cut_score - leaf_score) / n_rows > math.log(n_all) / (2.0 * n_all)


@dataclass(frozen=True)
class Always:
    """Take the first candidate, whatever it is worth: only a `Stop` ends the growth."""

    judges: ClassVar[bool] = False

    def accept(self, leaf_score: float, cut_score: float, n_rows: float, n_all: float) -> bool:
        """Return True."""
        return True
