"""Time that is kept: work is not begun that cannot end, and is broken off where it may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bayescut._clock import working_time
from bayescut.scores.prior import StructureCosts


class OutOfTime(Exception):
    """The time of a piece of work is up."""


@dataclass(frozen=True)
class Clock:
    """When the time is up, and whom to tell of progress.

    Parameters
    ----------
    deadline : float
        Reading of `bayescut._clock.working_time`.
    advance : callable
        Told how many units of work were done; where there is a budget, seconds.
    """

    deadline: float = math.inf
    advance: Callable[[float], object] = lambda _: None

    @property
    def left(self) -> float:
        """Seconds left, infinitely many without a deadline."""
        return self.deadline - working_time()

    @property
    def keeps_time(self) -> bool:
        """Whether there is a deadline."""
        return math.isfinite(self.deadline)

    def up(self) -> bool:
        """Whether the time is up."""
        return self.left <= 0

    def check(self, *_: object) -> None:
        """Raise `OutOfTime` if the time is up."""
        if self.up():
            raise OutOfTime

    def within(self, seconds: float) -> Clock:
        """A clock for a piece of the work, of at most this many seconds."""
        return Clock(min(self.deadline, working_time() + seconds), self.advance)


@dataclass(frozen=True)
class WatchedCosts:
    """A structure prior that looks at the clock whenever it is asked.

    Learners ask before they judge the cuts of a node and before they fit a leaf, the longest pieces
    of work that cannot be broken off: on bbc a bag takes a minute and more, a leaf a second.

    Parameters
    ----------
    prior : StructureCosts
        What structures cost.
    check : callable
        Raises an exception if the time is up.
    """

    prior: StructureCosts
    check: Callable[[], None]

    def parent_cost(self, n_columns: int) -> float:
        """See `StructureCosts`."""
        self.check()
        return self.prior.parent_cost(n_columns)

    def leaf_cost(self, n_columns: int, width: int) -> float:
        """See `StructureCosts`."""
        return self.prior.leaf_cost(n_columns, width)

    def cut_cost(self, n_columns: int) -> float:
        """See `StructureCosts`."""
        self.check()
        return self.prior.cut_cost(n_columns)

    def group_cost(self, n_questions: int) -> float:
        """See `StructureCosts`."""
        return self.prior.group_cost(n_questions)


def watched(learner: Any, clock: Clock) -> Any:
    """Return a learner that raises `OutOfTime` when the time is up, soon if not at once."""
    if not clock.keeps_time:
        return learner
    return replace(learner, prior=WatchedCosts(learner.prior, clock.check))
