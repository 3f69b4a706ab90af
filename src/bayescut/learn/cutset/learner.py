"""The cutset learner: one growth loop for every score, candidate rule and acceptance rule."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from bayescut._typing import BitArray, CountArray, FloatArray, IntArray
from bayescut.counts.pairs import PairCounts, count_packed, count_pairs
from bayescut.data.bits import bit_layout, pack
from bayescut.data.table import Table
from bayescut.learn.components import Apart
from bayescut.learn.cutset.cuts import evaluate_cuts, information_gain, split_counts
from bayescut.learn.cutset.grouped import RANKINGS, GroupedCuts
from bayescut.learn.cutset.rules import Acceptance, Candidates, Improves, Stop, TopGain
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.leaves.leaf import Leaf, join_leaves
from bayescut.learn.leaves.treeleaves import LeafTrees, Tree, Trees
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX
from bayescut.scores.prior import NoPrior, StructureCosts

_NO_GAIN = np.empty(0)
# Below this many (pair, candidate) evaluations a second thread costs more than it saves (0.2 ms).
_MIN_PARALLEL = 40_000
# A cut counts pairs in each of its branches. Columns of more than two states whose branches would
# have more cells than this (128 MB) are not cut on: identifiers and the like.
_MOST_BRANCH_CELLS = 2**25
# Nodes that wait for their turn under questions about sets let go of counts of more bytes than
# this: their columns stay, so that a chain of cuts would hold as many counts of the whole size.
_MOST_WAITING = 2**22
# With threads, parts of the tree with at most this share of the rows, divided among the threads,
# are grown side by side, each in one thread: 200,000 rows of 50 columns of 5 states have 790 of 980
# nodes with less than 300 rows, whose candidates alone are too little work to share. Those that
# wait for it hold on to this many bytes of counts at most.
_APART_SHARE = 0.25
_MOST_APART = 2**26


@dataclass(frozen=True)
class CutsetLearner(Apart):
    """Grows a cutset network by repeatedly cutting leaves where that raises the score.

    Parameters
    ----------
    score : Score
        What structures are worth.
    prior : StructureCosts
        What structures cost.
    trees : LeafTrees
        Which trees are the leaves.
    candidates : Candidates
        Which columns are tried as cuts.
    acceptance : Acceptance
        Which cut is taken.
    stop : Stop
        Which nodes are not cut at all.
    products : bool
        Where the forest of a node falls into several trees, cut each of them on its own.
    n_jobs : int
        Threads that evaluate the candidates of large nodes, and grow what lies below small ones;
        the result does not depend on it.
    ties : PairCounts or None
        Counts of the larger table that the rows are a part of: decide the ties of trees.
    groups : bool
        Cuts on columns of more than two states ask about sets of states, see
        `bayescut.learn.cutset.grouped`; otherwise they have one branch for every state.
    ranking : {"forest", "information"}
        What candidates of such cuts are ranked by, see `bayescut.learn.cutset.grouped.GroupedCuts`.
    uncut : frozenset of int
        Columns that are not cut on; with ``groups`` only.
    """

    score: Score
    prior: StructureCosts = field(default_factory=NoPrior)
    trees: LeafTrees = field(default_factory=Trees)
    candidates: Candidates = field(default_factory=TopGain)
    acceptance: Acceptance = field(default_factory=Improves)
    stop: Stop = field(default_factory=Stop)
    n_jobs: int = 1
    products: bool = False
    ties: PairCounts | None = None
    groups: bool = False
    ranking: str = "forest"
    uncut: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.ranking not in RANKINGS:
            raise ValueError(f"ranking must be one of {', '.join(RANKINGS)}, got {self.ranking!r}")
        if self.groups and not (
            self.acceptance.judges
            and not self.stop.needs_gain
            and self.ties is None
            and self.trees == Trees(by_mutual_information=False, spanning=False)
        ):
            raise ValueError(
                "groups need forests chosen by the score, cuts that are judged, no stop by gain "
                "and no ties"
            )

    sweep_factor: ClassVar[int] = 1

    def for_components(self, table: Table, seed: int = 0) -> CutsetLearner:
        """Ties among trees go to what the whole table prefers; see `ComponentLearner`."""
        if self.groups:
            return replace(self, n_jobs=1)
        layout = bit_layout(np.arange(table.n_columns), table.sizes)
        ties = count_pairs(table.codes, layout, sample_weight=table.weights)
        return replace(self, n_jobs=1, ties=ties)

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Settled:
        """Learn a cutset network from a complete table.

        Parameters
        ----------
        table : Table
            The rows.
        rows : int32 array, optional
            Those of them to learn from; all when left out.
        advance : callable, optional
            Told the number of rows of every leaf as it is settled, for progress bars.

        Returns
        -------
        Settled
            The root of the grown tree.
        """
        return self._grow(table, rows, advance, with_leaves=True)

    def cut(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Settled:
        """Find the cuts of `learn` alone: the nodes that are not cut get no leaf."""
        return self._grow(table, rows, advance, with_leaves=False)

    def _grow(
        self,
        table: Table,
        rows: IntArray | None,
        advance: Callable[[int], None] | None,
        with_leaves: bool,
    ) -> Settled:
        with _Growth(self, table, table.weighty(rows), advance, with_leaves) as growth:
            return growth.run()


@dataclass(eq=False, kw_only=True)
class Growing:
    """A node that may still be cut.

    Attributes
    ----------
    node : Settled
        What is settled about it.
    rows : int32 array
        Its rows.
    pairs : PairCounts
        Their counts over some columns. Counts that no rule has asked for yet are empty.
    active : int64 array
        Positions of the node's columns in the layout of the counts.
    tree : Tree or None
        The tree that it is worth as a leaf, if there is one yet.
    alone : bool
        Whether this is the part of a product that has the columns without an edge.
    bits : uint64 array or None
        The packed rows, if they are at hand.
    """

    node: Settled
    rows: IntArray
    pairs: PairCounts
    active: IntArray
    tree: Tree | None = None
    alone: bool = False
    bits: BitArray | None = None

    def compact(self) -> None:
        """Drop columns that are not the node's from the counts once a quarter of them are idle."""
        layout, active = self.pairs.layout, self.active
        if self.pairs.counts.size == 0:
            return
        if len(active) > 0.75 * len(layout.columns):
            # Branch counts are slices of a larger buffer, which a copy lets go.
            self.pairs = PairCounts(layout, self.pairs.n, self.pairs.counts.copy())
            return
        self.tighten()

    def release(self, most: int) -> None:
        """Let go of the counts if they take more than ``most`` bytes."""
        layout, n, counts = self.pairs.layout, self.pairs.n, self.pairs.counts
        if counts.nbytes > most:
            self.pairs = PairCounts(layout, n, np.empty((0, 0), dtype=counts.dtype))

    def tighten(self) -> None:
        """Drop all columns that are not the node's from the counts."""
        layout, active = self.pairs.layout, self.active
        if len(active) == len(layout.columns):
            return
        small, bits = layout.take(active)
        self.pairs = PairCounts(small, self.pairs.n, self.pairs.counts[np.ix_(bits, bits)])
        if self.tree is not None:
            self.tree = self.tree.moved(active)
        self.active = np.arange(len(active))


class _Growth:
    """One run of the learner over rows of one table."""

    def __init__(
        self,
        learner: CutsetLearner,
        table: Table,
        rows: IntArray,
        advance: Callable[[int], None] | None,
        with_leaves: bool,
    ) -> None:
        self.learner = learner
        self.table = table
        self.advance = advance
        self.with_leaves = with_leaves
        self.n_jobs = learner.n_jobs
        self.telling = Lock()
        self.needs_gain = learner.candidates.needs_gain or learner.stop.needs_gain
        # Where nothing looks at counts before a leaf is settled, only leaves are counted.
        self.counting = self.needs_gain or learner.acceptance.judges
        # Of two states there is one question: tables of such columns are cut as ever.
        self._has_groups = learner.groups and bool(np.any(table.sizes > 2))
        self.root = self._root(rows)
        self.n_all = self.root.pairs.n
        self.leaves = learner.trees.leaves(
            learner.score, learner.prior, self.root.pairs, learner.ties
        )
        self.executor: Executor | nullcontext[None] = nullcontext()
        self.grouped: GroupedCuts | None = None
        if self._has_groups:
            self.grouped = GroupedCuts(
                learner.score, learner.prior, learner.candidates, self.leaves, table, self.n_all,
                learner.ranking, learner.uncut,
            )  # fmt: skip

    def __enter__(self) -> _Growth:
        if self.learner.n_jobs > 1:
            self.executor = ThreadPoolExecutor(self.learner.n_jobs)
        self.executor.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.__exit__(None, None, None)

    def run(self) -> Settled:
        root = self.root.node
        if self.learner.acceptance.judges:
            self._grow_tree(self.root)
        few = -1.0
        if self.n_jobs > 1 and not self.learner.candidates.draws:
            few = _APART_SHARE * len(self.root.rows) / self.n_jobs
        waiting = [self.root]
        del self.root
        apart = self._grow_below(waiting, few)
        if apart:
            # The largest first, so that all threads end at about the same time.
            apart.sort(key=lambda part: -len(part.rows))
            self.n_jobs = 1
            assert isinstance(self.executor, Executor)
            for _ in self.executor.map(self._grow_below, [[part] for part in apart]):
                pass
        if self.learner.products:
            for node in reversed(list(root.walk())):
                _join_parts(node)
        return root

    def _grow_below(self, waiting: list[Growing], few: float = -1.0) -> list[Growing]:
        """Grow all that lies below nodes, but what is to be grown apart: parts of a few rows."""
        apart: list[Growing] = []
        held = 0
        while waiting:
            part = waiting.pop()
            size = part.pairs.counts.nbytes
            if len(part.rows) <= few and held + size <= _MOST_APART:
                apart.append(part)
                held += size
                continue
            self._grow(self._counted(part), waiting)
            if self.grouped is not None:
                for part in waiting[:-1]:
                    part.release(_MOST_WAITING)
        return apart

    def _root(self, rows: IntArray) -> Growing:
        table, bits = self.table, None
        active = np.arange(table.n_columns)
        layout = bit_layout(active, table.sizes)
        if not (self.counting or self.learner.trees.needs_counts):
            # The number of rows and nothing else.
            dtype = np.int32 if table.weights is None else np.float64
            n = len(rows) if table.weights is None else table.total_weight(rows)
            pairs = PairCounts(layout, n, np.empty((0, 0), dtype=dtype))
        elif self.counting and table.weights is None and not self._has_groups:
            bits = pack(table.codes, rows, layout)
            pairs = count_packed(bits, len(rows), layout)
        else:
            pairs = count_pairs(table.codes, layout, rows, table.weights)
        ess = self.learner.score.root_ess
        node = Settled(n=pairs.n, ess=ess, n_choices=len(active), columns=active)
        return Growing(node=node, rows=rows, pairs=pairs, active=active, bits=bits)

    def _grow(self, part: Growing, waiting: list[Growing]) -> None:
        """Split a node if that pays; its children wait for their turn, or are settled."""
        children = self._decompose(part) or self._cut(part)
        if not children:
            self._settle(part)
        part.node.children = [child.node for child in children]
        for child in reversed(children):
            if self._too_small(child):  # what waits holds on to its counts
                self._settle(child)
            else:
                waiting.append(child)

    def _counted(self, part: Growing) -> Growing:
        """A node that waited, with its counts."""
        if self.counting and part.pairs.counts.size == 0 and part.pairs.layout.n_bits > 0:
            layout = part.pairs.layout
            part.pairs = count_pairs(self.table.codes, layout, part.rows, self.table.weights)
        return part

    def _grow_tree(self, part: Growing) -> None:
        """Give a node the tree it is worth as a leaf."""
        node = part.node
        grow = self.leaves.grow if self.grouped is None else self.grouped.grow
        part.tree = grow(part.pairs, part.active, node.ess, node.n_choices)
        node.score = part.tree.score

    def _too_small(self, part: Growing) -> bool:
        return part.alone or self.learner.stop.by_size(part.node.n, len(part.active))

    def _decompose(self, part: Growing) -> list[Growing]:
        """Split a node into the trees of its forest, if there are several.

        Columns without an edge are one part together, which is cut no further: nothing that can
        be seen in pairs of columns is left in them.
        """
        if not self.learner.products or part.tree is None:
            return []
        groups = part.tree.parts()
        scopes = [np.sort(group) for group in groups if len(group) > 1]
        n_trees = len(scopes)
        alone = [group[0] for group in groups if len(group) == 1]
        if alone:
            scopes.append(np.sort(alone))
        if len(scopes) < 2:
            return []
        node, columns = part.node, part.pairs.layout.columns
        children = []
        for i, active in enumerate(scopes):
            child = Growing(
                node=Settled(
                    n=node.n,
                    ess=node.ess,
                    n_choices=node.n_choices,
                    columns=columns[active],
                    states=node.states,
                ),
                rows=part.rows,
                pairs=part.pairs,
                active=active,
                alone=i == n_trees,
            )
            child.compact()
            self._grow_tree(child)
            children.append(child)
        return children

    def _cut(self, part: Growing) -> list[Growing]:
        """Cut a node if that is accepted; return its branches."""
        if self.grouped is not None:
            return self._cut_grouped(part, self.grouped)
        learner, layout, active = self.learner, part.pairs.layout, part.active
        states = layout.sizes[active]
        cells = states * layout.n_bits**2
        cuttable = np.flatnonzero((states > 1) & ((states == 2) | (cells <= _MOST_BRANCH_CELLS)))
        if len(cuttable) == 0 or self._too_small(part):
            return []
        gain = _NO_GAIN
        if self.needs_gain:
            ess = part.node.ess
            lookup = self.leaves.lookup(XLOGX, ess / 2, part.pairs)
            mean_entropy, gain = information_gain(part.pairs, active, ess, lookup)
            if learner.stop.by_gain(mean_entropy, gain[cuttable].max()):
                return []
        chosen = active[learner.candidates.select(gain, cuttable)]
        if learner.acceptance.judges:
            return self._cut_best(part, chosen)
        return self._cut_first(part, int(chosen[0]))

    def _cut_grouped(self, part: Growing, cuts: GroupedCuts) -> list[Growing]:
        """Cut a node by the best question about one of its columns, if that is accepted."""
        learner, node = self.learner, part.node
        if self._too_small(part):
            return []
        part.tighten()
        executor = self.executor if self.n_jobs > 1 else None
        assert executor is None or isinstance(executor, Executor)
        assert part.tree is not None
        cut = cuts.best(node, part.rows, part.pairs, part.tree, executor, self.n_jobs)
        if cut is None:
            return []
        if not learner.acceptance.accept(node.score, cut.score, node.n, self.n_all):
            return []
        score, layout = learner.score, part.pairs.layout
        node.cut = column = int(layout.columns[cut.position])
        states = layout.states(cut.position)
        node.branches = tuple(tuple(states[group].tolist()) for group in cut.groups)
        node.cut_score = cut.score - sum(tree.score for tree in cut.trees)
        with np.errstate(divide="ignore"):
            sizes = np.array([pairs.n for pairs in cut.pairs])
            node.log_weight = np.log(score.parameters(sizes, score.cut_ess(node.ess)))
        child_ess = score.child_ess(node.ess, len(cut.groups))
        children = []
        for branch, (pairs, tree) in enumerate(zip(cut.pairs, cut.trees, strict=True)):
            left = states[cut.groups[branch]]
            settled = len(left) == 1
            others = {c: here for c, here in node.states.items() if c != column}
            child = Growing(
                node=Settled(
                    n=pairs.n,
                    ess=child_ess,
                    n_choices=node.n_choices - settled,
                    columns=pairs.layout.columns,
                    score=tree.score,
                    states=others if settled else others | {column: left},
                ),
                rows=node.rows_of(branch, part.rows, self.table.codes),
                pairs=pairs,
                active=np.arange(len(pairs.layout.columns)),
                tree=tree,
            )
            children.append(child)
        return children

    def _rows_of(self, part: Growing) -> tuple[FloatArray | None, BitArray]:
        """What the branches of a node are counted from: weights, or packed rows."""
        if self.table.weights is not None:
            return self.table.weights[part.rows], np.empty((0, 0), dtype=np.uint64)
        if part.bits is None:
            return None, pack(self.table.codes, part.rows, part.pairs.layout)
        return None, part.bits

    def _cut_best(self, part: Growing, chosen: IntArray) -> list[Growing]:
        """Cut on the best of the chosen columns, if that is accepted."""
        learner, score, node, pairs = self.learner, self.learner.score, part.node, part.pairs
        layout = pairs.layout
        n = pairs.counts.dtype.type(pairs.n)
        weights, bits = self._rows_of(part)
        rule = self.leaves.rule(layout, node.n_choices - 1)
        child_ess = score.child_ess(node.ess, 2)
        divided = child_ess != node.ess
        lookup = self.leaves.lookup(rule.choose, child_ess / 4, pairs)
        cut_cost = learner.prior.cut_cost(node.n_choices)
        cut_ess = score.cut_ess(node.ess)

        def evaluate(candidates: IntArray) -> tuple[Any, ...]:
            return evaluate_cuts(
                self.table.codes, part.rows, weights, bits, pairs.counts, n, layout, part.active,
                candidates, rule, node.ess, cut_ess, divided, cut_cost, lookup, child_ess,
                np.empty(len(candidates)),
            )  # fmt: skip

        best = self._best(evaluate, chosen, len(part.active))
        if best is None:
            return []
        position, cut_score, counts, sizes, parents, orders, scores = best
        k = int(layout.sizes[position])
        if not learner.acceptance.accept(node.score, cut_score, node.n, self.n_all):
            return []
        node.cut_score = float(cut_score - scores[:k].sum())
        trees = [
            Tree(parent, order, float(worth))
            for parent, order, worth in zip(parents, orders, scores, strict=True)
        ]
        return self._branch(part, position, sizes[:k], counts, trees)

    def _cut_first(self, part: Growing, position: int) -> list[Growing]:
        """Cut on a column without a look at what that is worth."""
        learner, node, pairs = self.learner, part.node, part.pairs
        if self.counting:
            n = pairs.counts.dtype.type(pairs.n)
            weights, bits = self._rows_of(part)
            counts, sizes = split_counts(
                self.table.codes, part.rows, weights, bits, pairs.counts, n, pairs.layout, position
            )
        else:
            column = self.table.codes[part.rows, pairs.layout.columns[position]]
            weight = None if self.table.weights is None else self.table.weights[part.rows]
            sizes = np.bincount(column, weight, minlength=int(pairs.layout.sizes[position]))
            counts = np.empty((len(sizes), 0, 0), dtype=pairs.counts.dtype)
        worth = learner.score.cut(sizes, node.ess) - learner.prior.cut_cost(node.n_choices)
        node.cut_score = worth - learner.score.parameter_cost(self.n_all) * (len(sizes) - 1)
        return self._branch(part, position, sizes, counts)

    def _best(
        self, evaluate: Callable[[IntArray], tuple[Any, ...]], chosen: IntArray, m: int
    ) -> tuple[Any, ...] | None:
        """Evaluate the candidates, side by side if they are worth it; ties go to the first."""
        n_jobs = min(self.n_jobs, len(chosen))
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

    def _branch(
        self,
        part: Growing,
        position: int,
        sizes: CountArray,
        counts: CountArray,
        trees: list[Tree] | None = None,
    ) -> list[Growing]:
        """Cut a node on the column at a position of its layout; return its branches."""
        score, node, layout = self.learner.score, part.node, part.pairs.layout
        node.cut = int(layout.columns[position])
        with np.errstate(divide="ignore"):  # without smoothing, a state without rows is impossible
            node.log_weight = np.log(score.parameters(sizes, score.cut_ess(node.ess)))
        column = self.table.codes[part.rows, node.cut]
        active = part.active[part.active != position]
        child_ess = score.child_ess(node.ess, len(sizes))
        children = []
        for state, n in enumerate(sizes.tolist()):
            tree = None if trees is None else trees[state]
            child = Growing(
                node=Settled(
                    n=n,
                    ess=child_ess,
                    n_choices=node.n_choices - 1,
                    columns=layout.columns[active],
                    score=np.nan if tree is None else tree.score,
                ),
                rows=part.rows[column == state],
                pairs=PairCounts(layout, n, counts[state]),
                active=active,
                tree=tree,
            )
            child.compact()
            children.append(child)
        return children

    def _settle(self, part: Growing) -> None:
        """Make a node a leaf."""
        node, leaves = part.node, self.leaves
        if self.with_leaves:
            if not self.counting:
                fit = leaves.fit(self.table, part.rows, node.columns, node.ess, node.n_choices)
            else:
                if part.tree is None:
                    self._grow_tree(part)
                assert part.tree is not None
                fit = leaves.fit_tree(
                    self.table, part.tree, part.pairs, part.active, node.ess, node.n_choices,
                    len(part.rows),
                )  # fmt: skip
            node.score, node.leaf = fit.score, leaves.settle(fit)
        if self.advance is not None:
            with self.telling:
                self.advance(len(part.rows))


def _join_parts(node: Settled) -> None:
    """Make one leaf of the parts of a product that were not cut."""
    if not node.is_product:
        return
    apart = [part for part in node.children if not part.children]
    if len(apart) > 1:
        leaves = [part.leaf for part in apart if isinstance(part.leaf, Leaf)]
        joined = Settled(
            n=node.n,
            ess=node.ess,
            n_choices=node.n_choices,
            columns=np.sort(np.concatenate([part.columns for part in apart])),
            score=sum(part.score for part in apart),
            states=node.states,
            leaf=join_leaves(leaves) if leaves else None,
        )
        node.children = [*(part for part in node.children if part.children), joined]
    if len(node.children) == 1:
        node.leaf, node.score = node.children[0].leaf, node.children[0].score
        node.children = []
