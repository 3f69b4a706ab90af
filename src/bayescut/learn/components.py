"""What mixtures and ensembles ask of a learner of components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.data.table import Table
from bayescut.learn.cutset.settled import Settled


class ComponentLearner(Protocol):
    """Learns the components of a mixture."""

    @property
    def sweep_factor(self) -> int:
        """Sweeps of this learner that take a chain as far as one of a learner that searches."""
        ...

    def for_components(self, table: Table, seed: int = 0) -> ComponentLearner:
        """Return the learner of networks that are parts of one model of the whole table.

        It works in one thread: components are learned side by side.
        """
        ...

    def for_each(
        self, table: Table, rows: Sequence[IntArray], weights: Sequence[FloatArray | None]
    ) -> Sequence[ComponentLearner]:
        """Return a learner for each component, now that it is known which rows they have.

        Parameters
        ----------
        table : Table
            All rows.
        rows : sequence of int arrays
            Those of each component.
        weights : sequence of float64 arrays of shape (n,) or None
            Weights of all rows in each component; None: all are one.
        """
        ...

    def learn(self, table: Table, rows: IntArray | None = None) -> Settled | Circuit:
        """Learn a network from rows of a complete table, all if left out."""
        ...


class Apart:
    """Of a learner whose components know nothing of each other."""

    def for_each(
        self, table: Table, rows: Sequence[IntArray], weights: Sequence[FloatArray | None]
    ) -> Sequence[Any]:
        """See `ComponentLearner.for_each`."""
        return [self] * len(rows)
