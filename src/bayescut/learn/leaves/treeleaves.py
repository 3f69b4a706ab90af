"""Leaves that are trees or forests, found from the counts of pairs of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_pairs
from bayescut.data.bits import BitLayout, bit_layout
from bayescut.data.table import Table
from bayescut.learn.cutset.dcsn import (
    BlendedRule,
    blend,
    pseudo_rows,
    restrict,
    tree_cells,
    whole_tables,
)
from bayescut.learn.leaves.leaf import Leaf, LeafFit, left_of
from bayescut.learn.leaves.trees import TreeRule, posterior_means
from bayescut.scores.base import Score
from bayescut.scores.potentials import LOGLIK, XLOGX, PotentialTables
from bayescut.scores.prior import StructureCosts

_NO_LOOKUP = np.empty(0)
# Rows added to break ties. Little next to any smoothing, and far above the 1e-12 nats per row to
# which the weights of edges are rounded.
TIE_ROWS = 1e-3


class Tree(NamedTuple):
    """A tree or forest over columns of a layout, by their positions in it.

    Attributes
    ----------
    parent : int64 array of shape (m,)
        Parents of the columns (-1: none); of those that the tree has.
    order : int64 array
        The columns that the tree has, from its roots.
    score : float
        What it is worth as a leaf.
    """

    parent: IntArray
    order: IntArray
    score: float

    def moved(self, active: IntArray) -> Tree:
        """The same tree over the layout of the ``active`` columns alone."""
        position = np.full(len(self.parent), -1)
        position[active] = np.arange(len(active))
        above = self.parent[active]
        return Tree(np.where(above >= 0, position[above], -1), position[self.order], self.score)

    def parts(self) -> list[list[int]]:
        """Positions of the columns of every tree of the forest, roots first."""
        home = np.full(len(self.parent), -1)
        parts: list[list[int]] = []
        for v in self.order.tolist():  # parents come before their children
            if self.parent[v] < 0:
                home[v] = len(parts)
                parts.append([v])
            else:
                home[v] = home[self.parent[v]]
                parts[home[v]].append(v)
        return parts


class PairLeaves(ABC):
    """Trees and forests as leaves; one object serves all leaves of a table.

    Parameters
    ----------
    ties : PairCounts, optional
        Counts of a larger table that the rows are a part of: decide the ties of trees.
    """

    def __init__(self, ties: PairCounts | None) -> None:
        self._ties = ties
        self._tables = PotentialTables()

    @abstractmethod
    def rule(self, layout: BitLayout, n_choices: int) -> TreeRule | BlendedRule:
        """The rule by which trees are chosen and judged where counts have a layout."""

    @abstractmethod
    def settle(self, fit: LeafFit) -> Leaf:
        """Work out the parameters of a leaf."""

    def fit(
        self,
        table: Table,
        rows: IntArray,
        columns: IntArray,
        ess: float,
        n_choices: int,
        states: Mapping[int, IntArray] | None = None,
    ) -> LeafFit:
        """Find the best tree over ``columns`` for ``rows``; see `Leaves`."""
        sizes, states = left_of(table.sizes, columns, states)
        layout = bit_layout(columns, sizes[columns], states)
        pairs = count_pairs(table.codes, layout, rows, table.weights)
        active = np.arange(len(columns))
        tree = self.grow(pairs, active, ess, n_choices)
        return self.fit_tree(table, tree, pairs, active, ess, n_choices, len(rows))

    def grow(self, pairs: PairCounts, active: IntArray, ess: float, n_choices: int) -> Tree:
        """Find the best tree over the ``active`` columns of rows that are counted."""
        rule = self.rule(pairs.layout, n_choices)
        parent = np.full(len(pairs.layout.columns), -1)
        order = np.empty(len(active), dtype=np.int64)
        lookup = self.lookup(rule.choose, ess / 4, pairs)
        score = rule.fit(pairs, active, ess, lookup, parent, order)
        return Tree(parent, order, score)

    def fit_tree(
        self,
        table: Table,
        tree: Tree,
        pairs: PairCounts,
        active: IntArray,
        ess: float,
        n_choices: int,
        n_rows: int,
    ) -> LeafFit:
        """Make a leaf of a tree that was found from ``pairs``."""
        rule = self.rule(pairs.layout, n_choices)
        _, order, score = tree
        parent = tree.parent
        if self._ties is not None:
            parent, order = parent.copy(), order.copy()
            with_ties = _add_ties(pairs, self._ties)
            rule.fit(with_ties, active, ess, _NO_LOOKUP, parent, order)
        columns = pairs.layout.columns
        sizes = table.sizes
        if np.any(sizes[columns] != pairs.layout.sizes):
            sizes = sizes.copy()
            sizes[columns] = pairs.layout.sizes
        family = np.empty(len(columns), dtype=np.int64)
        family[order] = np.arange(len(order))
        above = parent[order]
        has_parent = above >= 0
        return LeafFit(
            columns=columns[order],
            hosts=np.where(has_parent, family[above], -1),
            parent_ptr=np.concatenate([[0], np.cumsum(has_parent)]),
            parents=columns[above[has_parent]],
            counts=rule.counts(pairs, order, parent),
            sizes=sizes,
            n_rows=n_rows,
            weight=pairs.n,
            ess=ess,
            score=score,
            states=pairs.layout.few_states(table.sizes),
        )

    def lookup(self, phi: int, a: float, pairs: PairCounts) -> FloatArray:
        """Tabulate a potential where a node looks it up more often than it has entries."""
        if pairs.weighted or pairs.n >= 8 * len(pairs.layout.columns) ** 2:
            return _NO_LOOKUP
        return self._tables.get(phi, a, int(pairs.n))


def _add_ties(pairs: PairCounts, whole: PairCounts) -> PairCounts:
    """Counts of some rows, and next to nothing of the whole table.

    All trees over columns that are constant in a leaf are worth the same to any score, and a
    component of a mixture may have thirty rows of a thousand columns. To new rows they are not: an
    edge says that the rare states of two columns come together. Validation of ad under EM with 8
    components, three starts: -16.5, -17.4, -16.4 with ties to the lower index, -16.1, -16.3, -16.0
    with ties to the edge that all rows prefer.
    """
    layout = pairs.layout
    added = restrict(whole.counts, whole.layout, layout) * (TIE_ROWS / whole.n)
    return PairCounts(layout, pairs.n + TIE_ROWS, pairs.counts + added)


class LeafTrees(Protocol):
    """Says which trees a growth loop has for leaves."""

    @property
    def needs_counts(self) -> bool:
        """Whether `leaves` looks at the counts, and not only at the number of rows."""
        ...

    def leaves(
        self, score: Score, prior: StructureCosts, pairs: PairCounts, ties: PairCounts | None
    ) -> PairLeaves:
        """Return what makes the leaves, when learning from all the rows counted in ``pairs``."""
        ...


@dataclass(frozen=True)
class Trees:
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

    needs_counts: ClassVar[bool] = False

    def leaves(
        self, score: Score, prior: StructureCosts, pairs: PairCounts, ties: PairCounts | None
    ) -> PairLeaves:
        """Fix the price of a parameter, which depends on the number of all rows."""
        return _TreeLeaves(self, score, prior, score.parameter_cost(pairs.n), ties)


class _TreeLeaves(PairLeaves):
    def __init__(
        self,
        trees: Trees,
        score: Score,
        prior: StructureCosts,
        parameter_cost: float,
        ties: PairCounts | None,
    ) -> None:
        super().__init__(ties)
        self._trees, self._score, self._prior = trees, score, prior
        self._parameter_cost = parameter_cost

    def rule(self, layout: BitLayout, n_choices: int) -> TreeRule:
        potential = self._score.potential
        return TreeRule(
            choose=XLOGX if self._trees.by_mutual_information else potential,
            judge=potential,
            spanning=self._trees.spanning,
            parameter_cost=self._parameter_cost,
            edge_cost=self._prior.parent_cost(n_choices),
            leaf_cost=self._prior.leaf_cost(n_choices, 1),
        )

    def settle(self, fit: LeafFit) -> Leaf:
        return fit.leaf(posterior_means(fit.counts, *fit.families, fit.ess))


@dataclass(frozen=True)
class BlendedTrees:
    """Leaves are Chow-Liu trees whose tables are blended with those of the whole training set.

    See `bayescut.learn.cutset.dcsn`. The score's own equivalent sample size has to be 0.

    Attributes
    ----------
    rate : float
        Pseudo-rows for every row of a node.
    forest : bool
        Drop edges of a mutual information below ``ln n / (2 n)`` from the trees.
    """

    rate: float = 0.005
    forest: bool = False

    needs_counts: ClassVar[bool] = True

    def leaves(
        self, score: Score, prior: StructureCosts, pairs: PairCounts, ties: PairCounts | None
    ) -> PairLeaves:
        """Fix what tables are blended with."""
        return _BlendedLeaves(self, pairs.layout, whole_tables(pairs), ties)


class _BlendedLeaves(PairLeaves):
    def __init__(
        self, trees: BlendedTrees, layout: BitLayout, whole: FloatArray, ties: PairCounts | None
    ) -> None:
        super().__init__(ties)
        self._trees, self._layout, self._whole = trees, layout, whole

    def rule(self, layout: BitLayout, n_choices: int) -> BlendedRule:
        part = restrict(self._whole, self._layout, layout)
        return BlendedRule(XLOGX, LOGLIK, 0.0, part, self._trees.rate, self._trees.forest)

    def settle(self, fit: LeafFit) -> Leaf:
        sizes, ptr = self._layout.sizes, self._layout.ptr
        parent = np.full(len(sizes), -1)
        parent[fit.columns[np.diff(fit.parent_ptr) > 0]] = fit.parents
        whole = tree_cells(self._whole, 1.0, sizes, ptr, fit.columns, parent)
        a = pseudo_rows(fit.weight, self._trees.rate)
        return fit.leaf(blend(fit.counts, whole, a, sizes, fit.columns, parent))
