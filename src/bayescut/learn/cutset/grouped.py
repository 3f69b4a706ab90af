"""Cuts that ask whether a column has one of some of its states."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np

from bayescut._typing import CountArray, IntArray
from bayescut.counts.pairs import PairCounts, count_pairs, take_bits
from bayescut.data.bits import BitLayout
from bayescut.data.table import Table
from bayescut.learn.cutset.cuts import information_gain
from bayescut.learn.cutset.groups import best_sets
from bayescut.learn.cutset.kept import rank_kept
from bayescut.learn.cutset.rules import Candidates
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.leaves.celltables import CellTables
from bayescut.learn.leaves.forests import best_forest
from bayescut.learn.leaves.treeleaves import PairLeaves, Tree
from bayescut.learn.leaves.trees import TreeRule
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts

# Columns of up to this many states are tried with one branch for every state, too.
_MOST_BRANCHES = 4
# By what candidates are ranked, see `GroupedCuts`.
RANKINGS = ("forest", "information")
# Of those ranked with a forest kept, so many are judged; and so many are ranked, of the largest
# gains over independent columns.
_MOST_JUDGED = 3
_MOST_RANKED = 64
# Bytes of the counts of a node that are worked on side by side: columns of very many states are
# judged one by one, so that memory does not grow with the number of threads.
_MOST_BYTES = 2**24
_NO_LOOKUP = np.empty(0)


class GroupedCut(NamedTuple):
    """A cut with all that is known of its branches.

    Attributes
    ----------
    position : int
        Position of its column in the layout of the node.
    groups : list of int64 arrays
        The states that lead along each branch, as positions in ``layout.states(position)``.
    score : float
        Score of the cut and of the forests below.
    pairs : list of PairCounts
        Counts of the branches, over the columns and states that each has.
    trees : list of Tree
        Their forests.
    """

    position: int
    groups: list[IntArray]
    score: float
    pairs: list[PairCounts]
    trees: list[Tree]


class GroupedCuts:
    """Finds the best question about a column of a node; one object serves a whole growth.

    Parameters
    ----------
    score, prior, candidates
        Those of the growth loop.
    leaves : PairLeaves
        Says by which rule forests are judged.
    table : Table
        The rows.
    n_all : float
        Weight of all rows learned from.
    ranking : {"forest", "information"}
        What candidates are ranked by: the worth of their questions where the branches keep the
        node's forest (`bayescut.learn.cutset.kept`), of which the first three are judged; or the
        information gain of their columns, as where cuts have one branch for every state.
    uncut : frozenset of int
        Columns that are not cut on.
    """

    def __init__(
        self,
        score: Score,
        prior: StructureCosts,
        candidates: Candidates,
        leaves: PairLeaves,
        table: Table,
        n_all: float,
        ranking: str = "forest",
        uncut: frozenset[int] = frozenset(),
    ) -> None:
        self.ranking = ranking
        self.may_cut = np.array([j not in uncut for j in range(table.n_columns)])
        self.score, self.prior, self.candidates = score, prior, candidates
        self.leaves, self.table = leaves, table
        self.parameter_cost = score.parameter_cost(n_all)
        self.tables = CellTables(score.potential, int(n_all) if table.weights is None else 0)
        self._no_tables = CellTables(score.potential, 0)
        self.ordered = np.array([domain.grid is not None for domain in table.domains])

    def grow(self, pairs: PairCounts, active: IntArray, ess: float, n_choices: int) -> Tree:
        """Find the best forest; see `PairLeaves.grow`."""
        rule = self._rule(pairs.layout, n_choices)
        return best_forest(rule, pairs, active, ess, self.tables)

    def _rule(self, layout: BitLayout, n_choices: int) -> TreeRule:
        rule = self.leaves.rule(layout, n_choices)
        assert isinstance(rule, TreeRule)
        return rule

    def best(
        self,
        node: Settled,
        rows: IntArray,
        pairs: PairCounts,
        tree: Tree,
        executor: Executor | None = None,
        n_jobs: int = 1,
    ) -> GroupedCut | None:
        """The best cut of a node whose columns are those of the layout; None if there is none.

        ``tree`` is the node's forest.
        """
        layout = pairs.layout
        m = len(layout.columns)
        active = np.arange(m)
        first = np.concatenate([[0], np.cumsum(layout.sizes)])[:-1]
        inside = np.zeros(int(layout.sizes.sum()), dtype=np.bool_)
        gain = np.empty(m)
        cells = self.tables.get(node.ess, layout.sizes)
        best_sets(
            pairs.counts, pairs.counts.dtype.type(pairs.n), layout.sizes, layout.ptr, active,
            self.ordered[layout.columns], node.ess, self.score.potential, cells, gain, inside,
            first,
        )  # fmt: skip
        cuttable = np.flatnonzero((gain > -np.inf) & self.may_cut[layout.columns])
        if len(cuttable) == 0:
            return None
        if self.ranking == "information":
            gain = information_gain(pairs, active, node.ess, _NO_LOOKUP)[1]
            chosen = self.candidates.select(gain, cuttable)
        else:
            tried = cuttable[np.argsort(-gain[cuttable], kind="stable")[:_MOST_RANKED]]
            tried.sort()
            rule = self._rule(layout, node.n_choices)
            child_ess, cut_ess = self.score.child_ess(node.ess, 2), self.score.cut_ess(node.ess)
            gain[tried] = rank_kept(
                rule, self.table, rows, pairs, tree, tried, inside, first, child_ess, cut_ess,
                self.tables.get(child_ess, layout.sizes), self._no_tables.get(child_ess, active),
            )  # fmt: skip
            chosen = self.candidates.select(gain, tried)[:_MOST_JUDGED]
        jobs: list[tuple[int, list[IntArray]]] = []
        for j in chosen.tolist():
            side = inside[first[j] : first[j] + layout.sizes[j]]
            jobs.append((j, [np.flatnonzero(~side), np.flatnonzero(side)]))
            if 2 < layout.sizes[j] <= _MOST_BRANCHES and np.all(pairs.single(j) > 0):
                jobs.append((j, [np.array([x]) for x in range(layout.sizes[j])]))

        def judge(job: tuple[int, list[IntArray]]) -> GroupedCut:
            return self._judge(node, rows, pairs, *job)

        best: GroupedCut | None = None
        # A few at a time: of all that are judged only the best is kept.
        at_once = max(1, min(n_jobs, _MOST_BYTES // max(pairs.counts.nbytes, 1)))
        for i in range(0, len(jobs), at_once):
            some = jobs[i : i + at_once]
            found = map(judge, some) if executor is None else executor.map(judge, some)
            for cut in found:
                if best is None or cut.score > best.score:
                    best = cut
        return best

    def _questions(self, layout: BitLayout, j: int) -> int:
        """How many questions are looked at for a column."""
        k = int(layout.sizes[j])
        orders = 1 if k == 2 or self.ordered[layout.columns[j]] else 2
        return orders * (k - 1) + (2 < k <= _MOST_BRANCHES)

    def _judge(
        self, node: Settled, rows: IntArray, pairs: PairCounts, j: int, groups: list[IntArray]
    ) -> GroupedCut:
        """Work out what a cut is worth, with the best forest in every branch."""
        score, prior = self.score, self.prior
        branches = split_pairs(self.table, rows, pairs, j, groups)
        child_ess = score.child_ess(node.ess, len(groups))
        sizes = np.array([branch.n for branch in branches])
        total = score.cut(sizes, node.ess) - self.parameter_cost * (len(groups) - 1)
        total -= prior.cut_cost(node.n_choices) + prior.group_cost(self._questions(pairs.layout, j))
        trees = []
        for group, branch in zip(groups, branches, strict=True):
            every = np.arange(len(branch.layout.columns))
            trees.append(self.grow(branch, every, child_ess, node.n_choices - (len(group) == 1)))
            total += trees[-1].score
        return GroupedCut(j, groups, float(total), branches, trees)


def split_pairs(
    table: Table, rows: IntArray, pairs: PairCounts, j: int, groups: list[IntArray]
) -> list[PairCounts]:
    """Counts of the branches of a cut: all but the largest are counted, it is what is left.

    Parameters
    ----------
    table : Table
    rows : int32 array
        The rows of the node.
    pairs : PairCounts
        Their counts.
    j : int
        Position of the cut's column in the layout.
    groups : list of int64 arrays
        States of the branches, ascending positions in ``layout.states(j)``.
    """
    layout = pairs.layout
    states = layout.states(j)
    branch_of = np.zeros(int(states.max()) + 1, dtype=np.int64)
    for branch, group in enumerate(groups):
        branch_of[states[group]] = branch
    where = branch_of[table.codes[rows, layout.columns[j]]]
    size = np.bincount(where, minlength=len(groups))
    largest = int(size.argmax())
    lo = int(layout.ptr[j])
    layouts = [layout.take_states(j, group) for group in groups]
    small, bits = layouts[largest]
    rest = take_bits(pairs.counts, bits)
    n_rest = pairs.n
    out: list[PairCounts] = []
    for branch, (here, _) in enumerate(layouts):
        if branch == largest:
            out.append(pairs)  # its place
            continue
        out.append(count_pairs(table.codes, here, rows[where == branch], table.weights))
        n_rest -= out[-1].n
        _subtract(rest, len(groups[largest]) - 1, out[-1].counts, len(groups[branch]) - 1, lo)
    if pairs.weighted:
        np.maximum(rest, 0.0, out=rest)
        n_rest = max(n_rest, 0.0)
    out[largest] = PairCounts(small, n_rest, rest)
    return out


def _subtract(whole: CountArray, gap: int, part: CountArray, other_gap: int, lo: int) -> None:
    """Subtract counts that have ``other_gap`` other bits at ``lo`` where the whole has ``gap``."""
    a, b = slice(0, lo), slice(lo + gap, None)
    c, d = slice(0, lo), slice(lo + other_gap, None)
    whole[a, a] -= part[c, c]
    whole[a, b] -= part[c, d]
    whole[b, a] -= part[d, c]
    whole[b, b] -= part[d, d]
