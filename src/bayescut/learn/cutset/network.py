"""The maximum-a-posteriori learner: cuts found with forests in view, leaves as wide as they pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from bayescut._jobs import side_by_side
from bayescut._typing import IntArray
from bayescut.data.table import Table
from bayescut.learn.components import Apart
from bayescut.learn.cutset.beside import cut_beside
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import Candidates, TopGain
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.cutset.widen import fit_leaves
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.leaf import NormalLeaf
from bayescut.learn.leaves.normal import NormalLeaves
from bayescut.learn.leaves.shrinkage import Outside
from bayescut.learn.leaves.treeleaves import Trees
from bayescut.scores.base import Score
from bayescut.scores.prior import StructureCosts

# Tables of more cells are searched once: cuts found from so much data differ less in worth than in
# the time that it takes to find them again.
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class NetworkLearner(Apart):
    """Grows a cutset network over forests, then fits wide leaves and prunes.

    Parameters
    ----------
    score : Score
        What structures are worth.
    prior : StructureCosts
        What they cost.
    width : int
        Most parents of a column in a leaf.
    candidates : Candidates or None
        Columns tried as cuts; None cuts nowhere.
    n_jobs : int
        Threads; the result does not depend on it.
    products : bool
        Cut the trees of a forest on their own.
    shrink : bool
        Shrink the tables of leaves towards the rows outside them
        (`bayescut.learn.leaves.shrinkage`).
    groups : bool
        Cuts on columns of more than two states ask about sets of states.
    rankings : tuple of str
        By what the candidates of such cuts are ranked. There is a search for each, and the network
        of the best score is taken; of large tables the first only.
    merge : bool
        Let families see the states of their parents in groups where the score is better for it
        (`bayescut.learn.leaves.merging`).
    gaussian : bool
        Let smooth numbers be jointly Gaussian in leaves where the score prefers that to cells
        (`bayescut.learn.cutset.widen`). If some are, there is a search without cuts on such
        numbers, too: what is cut on is not Gaussian below. And there is one for cuts on the other
        columns with such leaves in view (`bayescut.learn.cutset.beside`).
    outside : Outside or None
        All rows of the model this network is a part of; None: the network is all of it.
    """

    score: Score
    prior: StructureCosts
    width: int = 6
    candidates: Candidates | None = field(default_factory=TopGain)
    n_jobs: int = 1
    products: bool = False
    shrink: bool = True
    groups: bool = True
    rankings: tuple[str, ...] = ("forest",)
    # Validation without and with it: splice -79.82 and -79.88 (1182 and 817 parameters), german
    # -33.66 and -33.73, student -30.03 and -30.07, dermatology, kr-vs-kp and breast-cancer alike.
    merge: bool = False
    gaussian: bool = False
    outside: Outside | None = None

    sweep_factor: ClassVar[int] = 1

    def for_components(self, table: Table, seed: int = 0) -> NetworkLearner:
        """Tables shrink towards all other rows of the table; see `ComponentLearner`."""
        outside = None
        if self.shrink:
            outside = Outside(table, np.arange(table.n_rows, dtype=np.int32))
        return replace(self, n_jobs=1, outside=outside)

    def learn(
        self,
        table: Table,
        rows: IntArray | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Settled:
        """Learn a network from a complete table; see `CutsetLearner.learn`."""
        rows = table.weighty(rows)
        weight = table.total_weight(rows)
        outside = self.outside
        if outside is None and self.shrink and self.candidates is not None:
            outside = Outside(table, rows)
        leaves = JunctionLeaves(self.score, self.prior, self.width, len(rows), weight, outside)
        rankings = self.rankings
        if not self._has_groups(table) or len(rows) * table.n_columns > _MOST_CELLS:
            rankings = rankings[:1]
        normals = NormalLeaves.of(_counted(table, rows), self.prior) if self.gaussian else None

        has_groups = self._has_groups(table)
        beside = normals is not None and 0 < len(normals.columns) < table.n_columns
        small = has_groups and len(rows) * table.n_columns <= _MOST_CELLS
        # Searches side by side, or one after the other with all threads.
        several = len(rankings) > 1 or (beside and small)
        one = replace(self, n_jobs=1) if several and self.n_jobs > 1 else self

        def widened(root: Settled) -> Settled:
            fit_leaves(root, table, rows, leaves, one.n_jobs, self.merge, normals)
            return root

        def search(ranking: str, uncut: frozenset[int] = frozenset()) -> Settled:
            told = advance if ranking == rankings[0] and not uncut else None
            return widened(one._cut(table, rows, told, ranking, uncut))

        def search_beside() -> Settled | None:
            assert normals is not None
            root = cut_beside(table, rows, leaves, normals, self.score, self.prior)
            return None if root is None else widened(root)

        work: list[Callable[[], Settled | None]] = [partial(search, r) for r in rankings]
        if beside and small:
            work.append(search_beside)
        done = side_by_side(lambda task: task(), work, self.n_jobs if several else 1)
        found = [root for root in done[: len(rankings)] if root is not None]
        if beside and has_groups and normals is not None and any(map(_is_gaussian, found)):
            found.append(search(rankings[0], frozenset(normals.columns.tolist())))
        found += [root for root in done[len(rankings) :] if root is not None]
        return max(found, key=Settled.total_score)

    def _has_groups(self, table: Table) -> bool:
        """Whether there is a cut whose question depends on how candidates are ranked."""
        return self.groups and self.candidates is not None and bool(np.any(table.sizes > 2))

    def _cut(
        self,
        table: Table,
        rows: IntArray,
        advance: Callable[[int], None] | None,
        ranking: str,
        uncut: frozenset[int],
    ) -> Settled:
        """Find the cuts, none of them on columns ``uncut``."""
        if self.candidates is None:
            m = table.n_columns
            ess = self.score.root_ess
            if advance is not None:
                advance(len(rows))
            n = table.total_weight(rows)
            return Settled(n=n, ess=ess, n_choices=m, columns=np.arange(m))
        learner = CutsetLearner(
            self.score,
            self.prior,
            Trees(by_mutual_information=False, spanning=False),
            self.candidates,
            n_jobs=self.n_jobs,
            products=self.products,
            groups=self.groups,
            ranking=ranking,
            uncut=uncut,
        )
        return learner.cut(table, rows, advance)


def _counted(table: Table, rows: IntArray) -> Table:
    """The table with weights that say how often its rows are among some, as theirs may."""
    times = np.bincount(rows, minlength=table.n_rows).astype(np.float64)
    return table.with_weights(times * table.all_weights)


def _is_gaussian(root: Settled) -> bool:
    """Whether a network has Gaussian leaves."""
    return any(isinstance(node.leaf, NormalLeaf) for node in root.walk())
