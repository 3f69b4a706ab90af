"""Cuts on labels for Gaussian leaves: numbers that are jointly Gaussian in each branch.

Cuts are found with forests of cells in view, where an edge from a label to a number does as well as
a cut on the label. A Gaussian leaf of smooth numbers has no such edges: what the numbers have to do
with labels it knows from cuts alone. So there is a search for cuts with Gaussian leaves in view: of
800 temperatures in two units, and whether sales were high, the network without it took sales to be
independent of the temperature.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayescut._typing import IntArray
from bayescut.data.table import Table
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.cutset.widen import fit_beside
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.normal import NormalLeaves
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts

__all__ = ["cut_beside"]

# Columns of up to this many states are tried with a branch for every state, too.
_MOST_BRANCHES = 4
# Of columns of more than two states, so many of the most frequent states are told from the rest.
_MOST_STATES = 8
# Questions that are judged with all columns in view, of those that tell most about the numbers.
_MOST_JUDGED = 3
# Weight of the rows of a node that is not cut.
_FEW_ROWS = 20


class _Cuts:
    """Cuts of one table."""

    def __init__(
        self,
        table: Table,
        leaves: JunctionLeaves,
        normals: NormalLeaves,
        score: Score,
        prior: StructureCosts,
        n_all: float,
    ) -> None:
        self.table, self.leaves, self.normals = table, leaves, normals
        self.score, self.prior = score, prior
        self.parameter_cost = score.parameter_cost(n_all)

    def questions(self, node: Settled, rows: IntArray, column: int) -> list[list[IntArray]]:
        """Ways to part the states of a column: each a list of the states of its branches."""
        here = node.states.get(column, np.arange(int(self.table.sizes[column])))
        codes = self.table.codes[rows, column]
        counts = np.bincount(codes, minlength=int(here.max()) + 1)[here]
        seen = np.flatnonzero(counts)
        if len(seen) < 2:
            return []
        asked = []
        if len(here) > 2:
            frequent = seen[np.argsort(-counts[seen], kind="stable")[:_MOST_STATES]]
            asked = [[here[[s]], np.delete(here, s)] for s in frequent.tolist()]
        if len(here) <= _MOST_BRANCHES and len(seen) == len(here):
            asked.append([here[[s]] for s in range(len(here))])
        return asked

    def numbers_score(self, node: Settled, rows: IntArray) -> float:
        """Score of the Gaussian leaf of all smooth numbers."""
        return self.normals.fit(self.table, rows, self.normals.columns, node.n_choices)[1]

    def cut(
        self, node: Settled, rows: IntArray, column: int, groups: list[IntArray], n_questions: int
    ) -> Settled:
        """Return a copy of a node with a cut, one of so many questions about its column; its
        children are not fitted."""
        score = self.score
        parts = [rows[np.isin(self.table.codes[rows, column], group)] for group in groups]
        sizes = np.array([self.table.total_weight(part) for part in parts])
        worth = score.cut(sizes, node.ess) - self.parameter_cost * (len(groups) - 1)
        worth -= self.prior.cut_cost(node.n_choices) + self.prior.group_cost(n_questions)
        others = {c: states for c, states in node.states.items() if c != column}
        children = []
        for n, group in zip(sizes.tolist(), groups, strict=True):
            settled = len(group) == 1
            children.append(
                Settled(
                    n=n,
                    ess=score.child_ess(node.ess, len(groups)),
                    n_choices=node.n_choices - settled,
                    columns=node.columns[node.columns != column] if settled else node.columns,
                    states=others if settled else others | {column: group},
                )
            )
        with np.errstate(divide="ignore"):
            log_weight = np.log(score.parameters(sizes, score.cut_ess(node.ess)))
        branches = tuple(tuple(group.tolist()) for group in groups)
        return replace(
            node, cut=column, branches=branches, log_weight=log_weight, cut_score=float(worth),
            children=children,
        )  # fmt: skip

    def best(self, node: Settled, rows: IntArray) -> Settled | None:
        """Return a copy of a node with its best cut, if that is worth more than none."""
        if node.n < _FEW_ROWS:
            return None
        ranked: list[tuple[float, Settled]] = []
        for column in np.setdiff1d(node.columns, self.normals.columns).tolist():
            questions = self.questions(node, rows, column)
            for groups in questions:
                found = self.cut(node, rows, column, groups, len(questions))
                gain = found.cut_score
                for branch, child in enumerate(found.children):
                    part = found.rows_of(branch, rows, self.table.codes)
                    gain += self.numbers_score(child, part)
                ranked.append((gain, found))
        ranked.sort(key=lambda entry: -entry[0])
        best, most = None, self._worth(node, rows)
        for _, found in ranked[:_MOST_JUDGED]:
            worth = found.cut_score
            for branch, child in enumerate(found.children):
                worth += self._worth(child, found.rows_of(branch, rows, self.table.codes))
            if worth > most:
                best, most = found, worth
        return best

    def _worth(self, node: Settled, rows: IntArray) -> float:
        beside = fit_beside(node, self.table, rows, self.leaves, self.normals)
        assert beside is not None  # there are two smooth numbers, and no cut touches them
        return beside.score


def cut_beside(
    table: Table,
    rows: IntArray,
    leaves: JunctionLeaves,
    normals: NormalLeaves,
    score: Score,
    prior: StructureCosts,
) -> Settled | None:
    """Find cuts on columns that are not smooth numbers, with Gaussian leaves in view.

    Returns
    -------
    Settled or None
        The root of a network of cuts without leaves; None if there is no cut.
    """
    m = table.n_columns
    n = table.total_weight(rows)
    cuts = _Cuts(table, leaves, normals, score, prior, n)
    root = cuts.best(Settled(n=n, ess=score.root_ess, n_choices=m, columns=np.arange(m)), rows)
    if root is None:
        return None
    waiting = [(root, rows)]
    while waiting:
        node, inside = waiting.pop()
        for branch, child in enumerate(node.children):
            part = node.rows_of(branch, inside, table.codes)
            found = cuts.best(child, part)
            if found is not None:
                node.children[branch] = found
                waiting.append((found, part))
    return root
