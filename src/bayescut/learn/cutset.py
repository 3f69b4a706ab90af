"""The cutset learner: one growth loop for every score, candidate rule and acceptance rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from bayescut._typing import BitArray, CodeArray, CountArray, FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_packed, count_pairs
from bayescut.data.bits import BitLayout, bit_layout, pack
from bayescut.learn.cuts import evaluate_cuts, information_gain, split_counts
from bayescut.learn.leaves import Leaf, join_leaves, tree_leaf
from bayescut.learn.rules import (
    Acceptance,
    Candidates,
    Improves,
    Leaves,
    RuleOf,
    Stop,
    TopGain,
    TreeLeaves,
)
from bayescut.learn.shrinkage import restrict
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX, PotentialTables
from bayescut.scores.prior import NoPrior, StructureCosts

_NO_TABLE = np.empty(0)
_NOTHING = np.empty(0, dtype=np.int64)
# Rows added to break ties. Little next to any smoothing, and far above the 1e-12 nats per row to
# which the weights of edges are rounded.
_TIE_ROWS = 1e-3
# Below this many (pair, candidate) evaluations a second thread costs more than it saves (0.2 ms).
_MIN_PARALLEL = 40_000


# A cut counts pairs in each of its branches. Columns of more than two states whose branches would
# have more cells than this (128 MB) are not cut on: identifiers and the like.
_MOST_BRANCH_CELLS = 2**25


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
        Score of the tree leaf the node is, or would be without its cut; NaN until that tree is
        grown (never, at nodes cut by a rule that does not judge).
    rows, pairs, active, parent : arrays and PairCounts
        While it grows: the rows, their counts over the columns of ``pairs.layout``, the positions
        in that layout of the columns not cut on the way here, and the parents of the tree over
        them (-1: none). Dropped once the node is settled. Counts that no rule has asked for yet
        are empty.
    order : int64 array
        While it grows: an order of the tree from its roots; empty as long as there is no tree.
    n_choices : int
        Number of columns not cut on the way here, of which every choice at this node is one. More
        than the node's columns if it is a part of a product: which columns are a part is found by
        looking at the data, so a choice among them costs as much as one among all.
    alone : bool
        Whether this is the part of a product that has the columns without an edge.
    leaf : Leaf or None
        The settled leaf; None for a node that is cut, or a product of parts.
    cut : int or None
        The column the node is cut on; None for a leaf and for a product.
    log_weight : float64 array or None
        Logarithms of the probabilities of its branches.
    cut_score : float
        Score of the cut alone.
    children : list of Node
        One for every state of the cut column; of a product, its parts: nodes over different
        columns of the same rows.
    """

    n: float
    ess: float
    score: float
    rows: IntArray
    pairs: PairCounts
    active: IntArray
    parent: IntArray
    order: IntArray
    n_choices: int
    depth: int = 0
    alone: bool = False
    leaf: Leaf | None = None
    cut: int | None = None
    log_weight: FloatArray | None = None
    cut_score: float = 0.0
    children: list[Node] = field(default_factory=list)

    @classmethod
    def settled_leaf(
        cls, leaf: Leaf, score: float, n: float, ess: float, n_choices: int | None = None
    ) -> Node:
        """A network that is one leaf."""
        n_choices = len(leaf.columns) if n_choices is None else n_choices
        pairs = PairCounts(bit_layout(_NOTHING, _NOTHING), n, _NOTHING.reshape(0, 0))
        return cls(
            n, ess, score, _NOTHING, pairs, _NOTHING, _NOTHING, _NOTHING, n_choices, leaf=leaf
        )

    @property
    def is_product(self) -> bool:
        """Whether the children are parts of the node's columns, not of its rows."""
        return self.cut is None and len(self.children) > 0

    def total_score(self) -> float:
        """Score of the whole subtree: its cuts and its leaves."""
        return sum(n.cut_score if n.children else n.score for n in self.walk())

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
    leaves : Leaves
        How the tree in a leaf is chosen.
    candidates : Candidates
        Which columns are tried as cuts.
    acceptance : Acceptance
        Which cut is taken.
    stop : Stop
        Which nodes are not cut at all.
    products : bool
        Where the forest of a node falls into several trees, cut each of them on its own.
    n_jobs : int
        Threads that evaluate candidates; the result does not depend on it.
    whole : PairCounts or None
        Counts of the larger table that the rows are a part of: decide the ties of trees.
    """

    score: Score
    prior: StructureCosts = field(default_factory=NoPrior)
    leaves: Leaves = field(default_factory=TreeLeaves)
    candidates: Candidates = field(default_factory=TopGain)
    acceptance: Acceptance = field(default_factory=Improves)
    stop: Stop = field(default_factory=Stop)
    n_jobs: int = 1
    products: bool = False
    whole: PairCounts | None = None

    # Sweeps of a chain for one of this learner: see `SharedLearner`.
    pace: ClassVar[int] = 1

    def part_of(
        self, codes: CodeArray, sizes: IntArray, sample_weight: FloatArray | None, seed: int = 0
    ) -> CutsetLearner:
        """Return a learner of networks that are parts of one model of the whole table."""
        layout = bit_layout(np.arange(codes.shape[1]), sizes)
        return replace(self, whole=count_pairs(codes, layout, sample_weight=sample_weight))

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
        rows = learning_rows(codes, rows, sample_weight)
        layout = bit_layout(np.arange(codes.shape[1]), sizes)
        job = _Growth(self, codes, sample_weight)
        with job:
            return job.run(rows, layout, settled)


def learning_rows(
    codes: CodeArray, rows: IntArray | None, sample_weight: FloatArray | None
) -> IntArray:
    """Rows to learn from: those given, or all, without those that weigh nothing."""
    if rows is None:
        rows = np.arange(len(codes), dtype=np.int32)
    return rows if sample_weight is None else rows[sample_weight[rows] > 0]


class _Growth:
    """One run of the learner over one table."""

    def __init__(
        self, learner: CutsetLearner, codes: CodeArray, sample_weight: FloatArray | None
    ) -> None:
        self.learner = learner
        self.codes = codes
        self.weights = sample_weight
        self.tables = PotentialTables()
        self.needs_gain = learner.candidates.needs_gain or learner.stop.needs_gain
        # Where nothing looks at counts before a leaf is settled, only leaves are counted.
        self.counting = self.needs_gain or learner.acceptance.judges
        self.n_all = 0.0
        self.rule: RuleOf
        self.executor: Executor | nullcontext[None] = nullcontext()

    def __enter__(self) -> _Growth:
        if self.learner.n_jobs > 1:
            self.executor = ThreadPoolExecutor(self.learner.n_jobs)
        self.executor.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.__exit__(None, None, None)

    def run(self, rows: IntArray, layout: BitLayout, settled: Callable[[int], None] | None) -> Node:
        packed = self.counting and self.weights is None
        bits = pack(self.codes, rows, layout) if packed else None
        root = self._root(rows, layout, bits)
        stack: list[tuple[Node, BitArray | None]] = [(root, bits)]
        del bits
        while stack:
            node, node_bits = stack.pop()
            if not self._decompose(node):
                self._expand(node, node_bits)
            self._settle(node, settled)
            for child in reversed(node.children):
                if self._too_small(child):  # what waits holds on to its counts
                    self._settle(child, settled)
                else:
                    stack.append((child, None))
        if self.learner.products:
            for node in reversed(list(root.walk())):
                _gather_leaves(node)
        return root

    def _root(self, rows: IntArray, layout: BitLayout, bits: BitArray | None) -> Node:
        learner = self.learner
        if not (self.counting or learner.leaves.needs_whole):
            pairs = self._uncounted(rows, layout)
        elif bits is not None:
            pairs = count_packed(bits, len(rows), layout)
        else:
            pairs = count_pairs(self.codes, layout, rows, self.weights)
        self.n_all = pairs.n
        self.rule = learner.leaves.start(learner.score, learner.prior, pairs)
        active = np.arange(len(layout.columns))
        root = Node(
            pairs.n, learner.score.root_ess, np.nan, rows, pairs, active, _NOTHING, _NOTHING,
            len(active),
        )  # fmt: skip
        if learner.acceptance.judges:
            self._grow_tree(root)
        return root

    def _uncounted(self, rows: IntArray, layout: BitLayout) -> PairCounts:
        """Counts that hold nothing but the number of rows."""
        if self.weights is None:
            return PairCounts(layout, len(rows), np.empty((0, 0), dtype=np.int32))
        return PairCounts(layout, float(self.weights[rows].sum()), np.empty((0, 0)))

    def _grow_tree(self, node: Node) -> None:
        """Give a node the tree it is worth as a leaf."""
        pairs, layout = node.pairs, node.pairs.layout
        rule = self.rule(layout, node.n_choices)
        node.parent = np.full(len(layout.columns), -1)
        node.order = np.empty(len(node.active), dtype=np.int64)
        table = self._table(rule.choose, node.ess / 4, pairs)
        node.score = rule.fit(pairs, node.active, node.ess, table, node.parent, node.order)

    def _table(self, kind: int, a: float, pairs: PairCounts) -> FloatArray:
        """Tabulate a potential where a node looks it up more often than it has entries."""
        if pairs.weighted or pairs.n >= 8 * len(pairs.layout.columns) ** 2:
            return _NO_TABLE
        return self.tables.get(kind, a, int(pairs.n))

    def _too_small(self, node: Node) -> bool:
        return node.alone or self.learner.stop.by_size(node.n, len(node.active))

    def _decompose(self, node: Node) -> bool:
        """Make a node the product of the trees of its forest, if there are several.

        Columns without an edge are one part together, which is cut no further: nothing that can
        be seen in pairs of columns is left in them.
        """
        if not self.learner.products or len(node.order) == 0:
            return False
        position = np.full(len(node.parent), -1)
        parts: list[list[int]] = []
        for v in node.order.tolist():  # parents come before their children
            if node.parent[v] < 0:
                position[v] = len(parts)
                parts.append([v])
            else:
                position[v] = position[node.parent[v]]
                parts[position[v]].append(v)
        trees = [np.array(part) for part in parts if len(part) > 1]
        alone = np.array([part[0] for part in parts if len(part) == 1], dtype=np.int64)
        if len(trees) + (len(alone) > 0) < 2:
            return False
        for columns in [*trees, alone] if len(alone) else trees:
            part = Node(
                node.n, node.ess, np.nan, node.rows, node.pairs, np.sort(columns),
                _NOTHING, _NOTHING, node.n_choices, node.depth, columns is alone,
            )  # fmt: skip
            _compact(part)
            self._grow_tree(part)
            node.children.append(part)
        return True

    def _expand(self, node: Node, bits: BitArray | None) -> None:
        """Cut a node if that is accepted, and give it its children."""
        learner, layout, active = self.learner, node.pairs.layout, node.active
        states = layout.sizes[active]
        cells = states * layout.n_bits**2
        cuttable = np.flatnonzero((states > 1) & ((states == 2) | (cells <= _MOST_BRANCH_CELLS)))
        if len(cuttable) == 0 or self._too_small(node):
            return
        gain = _NO_TABLE
        if self.needs_gain:
            mean_entropy, gain = self._gain(node)
            if learner.stop.by_gain(mean_entropy, gain[cuttable].max()):
                return
        chosen = active[learner.candidates.select(gain, cuttable)]
        if learner.acceptance.judges:
            self._cut_best(node, chosen, bits)
        else:
            self._cut_first(node, int(chosen[0]), bits)

    def _gain(self, node: Node) -> tuple[float, FloatArray]:
        """Mean entropy of the active columns and their information gains."""
        table = self._table(XLOGX, node.ess / 2, node.pairs)
        return information_gain(node.pairs, node.active, node.ess, table)

    def _rows_of(self, node: Node, bits: BitArray | None) -> tuple[FloatArray | None, BitArray]:
        """What the branches of a node are counted from: weights, or packed rows."""
        if self.weights is not None:
            return self.weights[node.rows], np.empty((0, 0), dtype=np.uint64)
        if bits is None:
            bits = pack(self.codes, node.rows, node.pairs.layout)
        return None, bits

    def _cut_best(self, node: Node, chosen: IntArray, bits: BitArray | None) -> None:
        """Cut on the best of the chosen columns, if that is accepted."""
        learner, score, pairs = self.learner, self.learner.score, node.pairs
        layout, active = pairs.layout, node.active
        n = pairs.counts.dtype.type(pairs.n)
        weights, bits = self._rows_of(node, bits)
        rule = self.rule(layout, node.n_choices - 1)
        child_ess = score.child_ess(node.ess, 2)
        spread = child_ess != node.ess
        table = self._table(rule.choose, child_ess / 4, pairs)
        cut_cost = learner.prior.cut_cost(node.n_choices)
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
        if not learner.acceptance.accept(node.score, cut_score, node.n, self.n_all):
            return
        node.cut_score = float(cut_score - scores[:k].sum())
        self._branch(node, position, sizes[:k], counts)
        for child, parent, order, worth in zip(
            node.children, parents, orders, scores, strict=False
        ):
            child.parent, child.order, child.score = parent, order, float(worth)
            _compact(child)

    def _cut_first(self, node: Node, position: int, bits: BitArray | None) -> None:
        """Cut on a column without a look at what that is worth."""
        learner, pairs = self.learner, node.pairs
        if self.counting:
            n = pairs.counts.dtype.type(pairs.n)
            weights, bits = self._rows_of(node, bits)
            counts, sizes = split_counts(
                self.codes, node.rows, weights, bits, pairs.counts, n, pairs.layout, position
            )
        else:
            column = self.codes[node.rows, pairs.layout.columns[position]]
            weight = None if self.weights is None else self.weights[node.rows]
            sizes = np.bincount(column, weight, minlength=int(pairs.layout.sizes[position]))
            counts = np.empty((len(sizes), 0, 0), dtype=pairs.counts.dtype)
        worth = learner.score.cut(sizes, node.ess) - learner.prior.cut_cost(node.n_choices)
        node.cut_score = worth - learner.score.parameter_cost(self.n_all) * (len(sizes) - 1)
        self._branch(node, position, sizes, counts)
        for child in node.children:
            _compact(child)

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

    def _branch(self, node: Node, position: int, sizes: CountArray, counts: CountArray) -> None:
        """Cut a node on the column at a position of its layout."""
        score, layout = self.learner.score, node.pairs.layout
        node.cut = int(layout.columns[position])
        with np.errstate(divide="ignore"):  # without smoothing, a state without rows is impossible
            node.log_weight = np.log(score.parameters(sizes, score.cut_ess(node.ess)))
        column = self.codes[node.rows, node.cut]
        active = node.active[node.active != position]
        child_ess = score.child_ess(node.ess, len(sizes))
        node.children = [
            Node(
                n, child_ess, np.nan, node.rows[column == state],
                PairCounts(layout, n, counts[state]), active, _NOTHING, _NOTHING,
                node.n_choices - 1, node.depth + 1,
            )
            for state, n in enumerate(sizes.tolist())
        ]  # fmt: skip

    def _settle(self, node: Node, settled: Callable[[int], None] | None) -> None:
        """Work out the parameters, and let go of rows and counts."""
        if not node.children:
            if not self.counting:
                self._count(node)
            if len(node.order) == 0:
                self._grow_tree(node)
            pairs, layout = node.pairs, node.pairs.layout
            if self.learner.whole is not None:
                self._break_ties(node, self.learner.whole)
            rule = self.rule(layout, node.n_choices)
            tables = rule.tables(pairs, node.order, node.parent, node.ess)
            node.leaf = tree_leaf(layout, node.order, node.parent, tables)
            if settled is not None:
                settled(len(node.rows))
        node.rows = node.active = node.parent = node.order = _NOTHING
        node.pairs = PairCounts(node.pairs.layout, node.n, _NOTHING.reshape(0, 0))

    def _break_ties(self, node: Node, whole: PairCounts) -> None:
        """Choose the tree of a leaf anew, by its rows and next to nothing of the whole table.

        All trees over columns that are constant in a leaf are worth the same to any score, and a
        component of a mixture may have thirty rows of a thousand columns. To new rows they are
        not: an edge says that the rare states of two columns come together. Validation of ad under
        EM with 8 components, three starts: -16.5, -17.4, -16.4 with ties to the lower index,
        -16.1, -16.3, -16.0 with ties to the edge that all rows prefer.
        """
        layout, n = node.pairs.layout, node.pairs.n + _TIE_ROWS
        added = restrict(whole.counts, whole.layout, layout) * (_TIE_ROWS / whole.n)
        pairs = PairCounts(layout, n, node.pairs.counts + added)
        rule = self.rule(layout, node.n_choices)
        rule.fit(pairs, node.active, node.ess, _NO_TABLE, node.parent, node.order)

    def _count(self, node: Node) -> None:
        """Count the rows of a node over its active columns."""
        columns = node.pairs.layout.columns[node.active]
        layout = bit_layout(columns, node.pairs.layout.sizes[node.active])
        node.pairs = count_pairs(self.codes, layout, node.rows, self.weights)
        node.active = np.arange(len(columns))


def _gather_leaves(node: Node) -> None:
    """Make one leaf of the parts of a product that were not cut."""
    if not node.is_product:
        return
    leaves = [part for part in node.children if part.leaf is not None]
    if len(leaves) > 1:
        joined = join_leaves([part.leaf for part in leaves if part.leaf is not None])
        score = sum(part.score for part in leaves)
        rest = [part for part in node.children if part.leaf is None]
        node.children = [*rest, Node.settled_leaf(joined, score, node.n, node.ess, node.n_choices)]
    if len(node.children) == 1:
        node.leaf, node.score = node.children[0].leaf, node.children[0].score
        node.children = []


def _compact(node: Node) -> None:
    """Drop columns that are no longer active from the counts once a quarter of them are idle."""
    layout = node.pairs.layout
    active = node.active
    if node.pairs.counts.size == 0:
        return
    if len(active) > 0.75 * len(layout.columns):
        # Branch counts are slices of a larger buffer, which a copy lets go.
        node.pairs = PairCounts(layout, node.pairs.n, node.pairs.counts.copy())
        return
    small = bit_layout(layout.columns[active], layout.sizes[active])
    bits = np.concatenate([np.arange(layout.ptr[j], layout.ptr[j + 1]) for j in active])
    new_position = np.full(len(layout.columns), -1)
    new_position[active] = np.arange(len(active))
    if len(node.order):
        old_parent = node.parent[active]
        node.parent = np.where(old_parent >= 0, new_position[old_parent], -1)
        node.order = new_position[node.order]
    node.pairs = PairCounts(small, node.pairs.n, node.pairs.counts[np.ix_(bits, bits)])
    node.active = np.arange(len(active))
