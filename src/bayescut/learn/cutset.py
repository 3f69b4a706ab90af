"""The cutset learner: one growth loop for every score, candidate rule and acceptance rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayescut._typing import BitArray, CodeArray, CountArray, FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_packed, count_pairs
from bayescut.data.bits import BitLayout, bit_layout, pack
from bayescut.learn.cuts import evaluate_cuts, information_gain
from bayescut.learn.leaves import Leaf, tree_leaf
from bayescut.learn.rules import Candidates, Improves, TopGain, TreeLeaves
from bayescut.learn.trees import TreeRule, grow_tree, judge_tree, tree_tables
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX, PotentialTables
from bayescut.scores.prior import NoPrior, StructureCosts

_NO_TABLE = np.empty(0)
# Below this many (pair, candidate) evaluations a second thread costs more than it saves (0.2 ms).
_MIN_PARALLEL = 40_000


@dataclass(eq=False)
class Node:
    """A node of a growing cutset network.

    Attributes
    ----------
    n : float
        Number of training rows that reach the node, or their weight.
    ess : float
        Equivalent sample size of the node's tables.
    score : float
        Score of the tree leaf the node is, or would be without its cut.
    rows, pairs, active, parent : arrays and PairCounts
        While it grows: the rows, their counts over the columns of ``pairs.layout``, the positions
        in that layout of the columns not cut on the way here, and the parents of the tree over
        them (-1: none). Dropped once the node is settled.
    order : int64 array
        While it grows: an order of the tree from its roots.
    leaf : Leaf or None
        The settled leaf; None for a node that is cut.
    cut : int or None
        The column the node is cut on; None for a leaf.
    log_weight : float64 array or None
        Logarithms of the probabilities of its branches.
    cut_score : float
        Score of the cut alone.
    children : list of Node
        One for every state of the cut column.
    """

    n: float
    ess: float
    score: float
    rows: IntArray
    pairs: PairCounts
    active: IntArray
    parent: IntArray
    order: IntArray
    depth: int = 0
    leaf: Leaf | None = None
    cut: int | None = None
    log_weight: FloatArray | None = None
    cut_score: float = 0.0
    children: list[Node] = field(default_factory=list)

    @classmethod
    def settled_leaf(cls, leaf: Leaf, score: float, n: float, ess: float) -> Node:
        """A network that is one leaf."""
        nothing = np.empty(0, dtype=np.int64)
        pairs = PairCounts(bit_layout(nothing, nothing), n, nothing.reshape(0, 0))
        return cls(n, ess, score, nothing, pairs, nothing, nothing, nothing, leaf=leaf)

    def total_score(self) -> float:
        """Score of the whole subtree: its cuts and its leaves."""
        return sum(n.score if n.cut is None else n.cut_score for n in self.walk())

    def walk(self) -> Iterator[Node]:
        """Yield the nodes of this subtree, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


@dataclass(frozen=True)
class CutsetLearner:
    """Grows a cutset network by repeatedly cutting leaves where that raises the score.

    Parameters
    ----------
    score : Score
        What structures are worth.
    prior : StructureCosts
        What structures cost.
    leaves : TreeLeaves
        How the tree in a leaf is chosen.
    candidates : Candidates
        Which columns are tried as cuts.
    acceptance : Improves
        Which cut is taken.
    n_jobs : int
        Threads that evaluate candidates; the result does not depend on it.
    """

    score: Score
    prior: StructureCosts = field(default_factory=NoPrior)
    leaves: TreeLeaves = field(default_factory=TreeLeaves)
    candidates: Candidates = field(default_factory=TopGain)
    acceptance: Improves = field(default_factory=Improves)
    n_jobs: int = 1

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        sample_weight: FloatArray | None = None,
        *,
        rows: IntArray | None = None,
        settled: Callable[[int], None] | None = None,
    ) -> Node:
        """Learn a cutset network from complete codes.

        Parameters
        ----------
        codes : uint8 or uint16 array of shape (N, m)
            Complete codes.
        sizes : int64 array of shape (m,)
            Numbers of states of the columns.
        sample_weight : float64 array of shape (N,), optional
            Non-negative weights.
        rows : int32 array, optional
            The rows to learn from; all of them when left out.
        settled : callable, optional
            Told the number of rows of every leaf as it is settled, for progress bars.

        Returns
        -------
        Node
            The root of the grown tree.
        """
        if rows is None:
            rows = np.arange(len(codes), dtype=np.int32)
        if sample_weight is not None:
            rows = rows[sample_weight[rows] > 0]
        layout = bit_layout(np.arange(codes.shape[1]), sizes)
        job = _Growth(self, codes, sample_weight)
        with job:
            return job.run(rows, layout, settled)


class _Growth:
    """One run of the learner over one table."""

    def __init__(
        self, learner: CutsetLearner, codes: CodeArray, sample_weight: FloatArray | None
    ) -> None:
        self.learner = learner
        self.codes = codes
        self.weights = sample_weight
        self.tables = PotentialTables()
        self.parameter_cost = 0.0
        self.executor: Executor | nullcontext[None] = nullcontext()

    def __enter__(self) -> _Growth:
        if self.learner.n_jobs > 1:
            self.executor = ThreadPoolExecutor(self.learner.n_jobs)
        self.executor.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.__exit__(None, None, None)

    def run(self, rows: IntArray, layout: BitLayout, settled: Callable[[int], None] | None) -> Node:
        bits = None if self.weights is not None else pack(self.codes, rows, layout)
        root = self._root(rows, layout, bits)
        stack: list[tuple[Node, BitArray | None]] = [(root, bits)]
        del bits
        while stack:
            node, node_bits = stack.pop()
            self._expand(node, node_bits)
            if node.cut is None and settled is not None:
                settled(len(node.rows))
            self._settle(node)
            stack.extend((child, None) for child in reversed(node.children))
        return root

    def _root(self, rows: IntArray, layout: BitLayout, bits: BitArray | None) -> Node:
        if bits is not None:
            pairs = count_packed(bits, len(rows), layout)
        else:
            pairs = count_pairs(self.codes, layout, rows, self.weights)
        self.parameter_cost = self.learner.score.parameter_cost(pairs.n)
        m = len(layout.columns)
        parent, order = np.full(m, -1), np.empty(m, dtype=np.int64)
        active = np.arange(m)
        ess = self.learner.score.root_ess
        rule = self._rule(m)
        shape = (layout.sizes, layout.ptr, active, ess)
        n = pairs.counts.dtype.type(pairs.n)
        table = self._table(rule.choose, ess / 4, pairs)
        grow_tree(rule, pairs.counts, n, *shape, table, parent, order)
        score = judge_tree(rule, pairs.counts, n, *shape, parent)
        return Node(pairs.n, ess, score, rows, pairs, active, parent, order)

    def _rule(self, n_columns: int) -> TreeRule:
        learner = self.learner
        return learner.leaves.rule(learner.score, learner.prior, self.parameter_cost, n_columns)

    def _table(self, kind: int, a: float, pairs: PairCounts) -> FloatArray:
        """Tabulate a potential where a node looks it up more often than it has entries."""
        if pairs.weighted or pairs.n >= 8 * len(pairs.layout.columns) ** 2:
            return _NO_TABLE
        return self.tables.get(kind, a, int(pairs.n))

    def _expand(self, node: Node, bits: BitArray | None) -> None:
        """Cut a node if that is accepted, and give it its children."""
        layout, active = node.pairs.layout, node.active
        cuttable = np.flatnonzero(layout.sizes[active] > 1)
        if len(active) < 2 or len(cuttable) == 0 or node.n <= 0:
            return
        learner, score, pairs = self.learner, self.learner.score, node.pairs
        n = pairs.counts.dtype.type(pairs.n)
        gain = np.empty(len(active))
        table = self._table(XLOGX, node.ess / 2, pairs)
        information_gain(pairs.counts, n, layout.sizes, layout.ptr, active, node.ess, table, gain)
        chosen = active[learner.candidates.select(gain, cuttable)]

        weights = None
        if self.weights is not None:
            weights = self.weights[node.rows]
            bits = np.empty((0, 0), dtype=np.uint64)
        elif bits is None:
            bits = pack(self.codes, node.rows, layout)
        rule = self._rule(len(active) - 1)
        child_ess = score.child_ess(node.ess, 2)
        spread = child_ess != node.ess
        table = self._table(rule.choose, child_ess / 4, pairs)
        cut_cost = learner.prior.cut_cost(len(active))
        cut_ess = score.cut_ess(node.ess)

        def evaluate(candidates: IntArray) -> tuple[Any, ...]:
            return evaluate_cuts(
                self.codes, node.rows, weights, bits, pairs.counts, n, layout, active, candidates,
                rule, node.ess, cut_ess, spread, cut_cost, table, child_ess,
                np.empty(len(candidates)),
            )  # fmt: skip

        best = self._best(evaluate, chosen, len(active))
        if best is None:
            return
        position, cut_score, counts, sizes, parents, orders, scores = best
        k = int(layout.sizes[position])
        if not learner.acceptance.accept(node.score, cut_score):
            return
        node.cut = int(layout.columns[position])
        node.cut_score = float(cut_score - scores[:k].sum())
        node.log_weight = np.log(score.parameters(sizes[:k], cut_ess))
        node.children = list(
            self._children(node, position, counts, sizes[:k], parents, orders, scores)
        )

    def _best(
        self, evaluate: Callable[[IntArray], tuple[Any, ...]], chosen: IntArray, m: int
    ) -> tuple[Any, ...] | None:
        """Evaluate the candidates, side by side if they are worth it; ties go to the first."""
        n_jobs = min(self.learner.n_jobs, len(chosen))
        if n_jobs == 1 or m * m * len(chosen) < _MIN_PARALLEL:
            groups = [chosen]
            results = [evaluate(chosen)]
        else:
            groups = [chosen[i::n_jobs].copy() for i in range(n_jobs)]
            assert isinstance(self.executor, Executor)
            results = list(self.executor.map(evaluate, groups))
        rank = {int(c): i for i, c in enumerate(chosen)}
        found = [
            (-result[1], rank[int(group[result[0]])], int(group[result[0]]), result)
            for group, result in zip(groups, results, strict=True)
            if result[0] >= 0
        ]
        if not found:
            return None
        _, _, position, result = min(found, key=lambda entry: entry[:2])
        return position, *result[1:]

    def _children(
        self,
        node: Node,
        position: int,
        counts: CountArray,
        sizes: CountArray,
        parents: IntArray,
        orders: IntArray,
        scores: FloatArray,
    ) -> Iterator[Node]:
        layout = node.pairs.layout
        column = self.codes[node.rows, node.cut]
        active = node.active[node.active != position]
        child_ess = self.learner.score.child_ess(node.ess, len(sizes))
        for state, n in enumerate(sizes.tolist()):
            yield _compact(
                Node(
                    n, child_ess, float(scores[state]), node.rows[column == state],
                    PairCounts(layout, n, counts[state]), active, parents[state], orders[state],
                    node.depth + 1,
                )
            )  # fmt: skip

    def _settle(self, node: Node) -> None:
        """Work out the parameters, and let go of rows and counts."""
        if node.cut is None:
            layout, pairs = node.pairs.layout, node.pairs
            n = pairs.counts.dtype.type(pairs.n)
            shape = (layout.sizes, layout.ptr, node.order, node.parent, node.ess)
            tables = tree_tables(pairs.counts, n, *shape)
            node.leaf = tree_leaf(layout, node.order, node.parent, tables)
        nothing = np.empty(0, dtype=np.int64)
        node.rows = node.active = node.parent = node.order = nothing
        node.pairs = PairCounts(node.pairs.layout, node.n, nothing.reshape(0, 0))


def _compact(node: Node) -> Node:
    """Drop columns that are no longer active from the counts once a quarter of them are idle."""
    layout = node.pairs.layout
    active = node.active
    if len(active) > 0.75 * len(layout.columns):
        # Branch counts are slices of a larger buffer, which a copy lets go.
        node.pairs = PairCounts(layout, node.pairs.n, node.pairs.counts.copy())
        return node
    small = bit_layout(layout.columns[active], layout.sizes[active])
    bits = np.concatenate([np.arange(layout.ptr[j], layout.ptr[j + 1]) for j in active])
    new_position = np.full(len(layout.columns), -1)
    new_position[active] = np.arange(len(active))
    old_parent = node.parent[active]
    node.parent = np.where(old_parent >= 0, new_position[old_parent], -1)
    node.order = new_position[node.order]
    node.pairs = PairCounts(small, node.pairs.n, node.pairs.counts[np.ix_(bits, bits)])
    node.active = np.arange(len(active))
    return node
