"""Components whose numbers are jointly Gaussian.

A component is a product of a Gaussian leaf and of a network of the other columns; mixtures of them
are Gaussian mixtures with sparse covariances, told apart by the labels as well. The covariance that
a component is expected to have is that within clusters of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bayescut._typing import IntArray
from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.components import Apart
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.leaves.normal import (
    FREEDOM,
    KAPPA,
    Moments,
    expected,
    normal_leaf,
    recorded_steps,
)
from bayescut.learn.spn.compose import Piece, compose
from bayescut.scores.prior import StructureCosts
from bayescut.scores.wishart import NormalWishart

__all__ = ["NormalLearner"]


@dataclass(frozen=True, eq=False)
class NormalLearner(Apart):
    """Learns components: a Gaussian leaf of the smooth numbers beside a network of the rest.

    Parameters
    ----------
    others : ComponentLearner
        Learns the networks of the other columns.
    prior : StructureCosts
        What parents cost.
    columns : int64 array
        The columns of Gaussian leaves, see `smooth_columns`.
    freedom : float
        How many rows the expected covariance counts for.
    kappa : float
        How many rows the mean of all rows counts for in the mean of a component.
    """

    others: Any
    prior: StructureCosts
    columns: IntArray
    freedom: float = FREEDOM
    kappa: float = KAPPA
    # What components have in common, looked for in all rows unless it is given.
    rest: IntArray | None = None
    rest_table: Table | None = None
    before: NormalWishart | None = None

    sweep_factor: ClassVar[int] = 3

    def for_components(self, table: Table, seed: int = 0) -> NormalLearner:
        """Look at all rows; see `ComponentLearner.for_components`."""
        if table.values is None:
            raise ValueError("Gaussian components need the numbers themselves")
        columns = self.columns
        rest = np.setdiff1d(np.arange(table.n_columns), columns)
        others, rest_table = self.others, None
        if len(rest):
            rest_table = Table(
                np.ascontiguousarray(table.codes[:, rest]),
                Domains(table.domains[int(j)] for j in rest),
                table.weights,
            )
            others = others.for_components(rest_table, seed)
        return replace(
            self,
            others=others,
            rest=rest,
            rest_table=rest_table,
            before=self.before or expected(table, columns, self.freedom, self.kappa, seed=seed),
        )

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Circuit:
        """Learn a component from rows of the table, all if left out."""
        if self.before is None or self.rest is None:
            raise ValueError("what components have in common is learned by for_components")
        rows = table.weighty(rows)
        leaf = self._leaf(table, rows)
        if advance is not None:
            advance(len(rows))
        if self.rest_table is None:
            return leaf
        found = self.others.learn(self.rest_table.with_weights(table.weights), rows)
        network = freeze_cutset(found, self.rest_table.domains)
        beside = [Piece(circuit=leaf, columns=self.columns)]
        beside.append(Piece(circuit=network, columns=self.rest))
        return compose(Piece(children=beside), table.domains)

    def _leaf(self, table: Table, rows: IntArray) -> Circuit:
        assert self.before is not None and table.values is not None
        weights = None if table.weights is None else table.weights[rows]
        leaf = normal_leaf(
            self.before,
            Moments.of(table.values[rows][:, self.columns], weights),
            self.columns,
            recorded_steps(table, self.columns),
            self.prior.parent_cost(len(self.columns)),
        )
        node = build.normal(range(len(self.columns)), leaf.mean, leaf.coefficients, leaf.deviation)
        return build.circuit(node, Domains(table.domains[int(j)] for j in self.columns))
