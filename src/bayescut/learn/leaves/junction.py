"""Thin junction trees: leaves in which a column has up to w parents that lie in one family.

The search is Prim's algorithm with families in the place of vertices. Every column not yet attached
keeps the best offer made to it: a set of parents inside one existing family, found by forward
selection. The best offer is taken, which makes a new family, and the new family is offered to all
that wait. Width 1 is the maximum spanning forest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.counts.families import cell_masks, count_mask, family_counts, row_planes
from bayescut.data.bits import bit_layout, pack
from bayescut.data.table import Table
from bayescut.learn.leaves.leaf import Leaf, LeafFit, left_of
from bayescut.learn.leaves.merging import merge_parents
from bayescut.learn.leaves.shrinkage import Outside, shrunken_leaf
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX, fill_table, potential
from bayescut.scores.prior import StructureCosts

# Two columns whose joint states are more than this are not linked: their table would be all zeros.
MAX_PAIR_CELLS = 4096


# Counts of leaves of more rows are not looked up: there are few such leaves, their rows take far
# longer to count, and tables of a million counts would have 72 MB.
_MAX_TABLE = 1 << 17


class JunctionRule(NamedTuple):
    """What a family is judged by, in numbers a kernel can take.

    Attributes
    ----------
    judge : int
        Potential of a table.
    width : int
        Most parents of a column.
    max_cells : int
        Most cells of a family: bounds the width where columns have many states.
    parameter_cost, parent_cost, leaf_cost : float
        Price of an independent parameter, of a parent, and of the leaf itself.
    """

    judge: int
    width: int
    max_cells: int
    parameter_cost: float
    parent_cost: float
    leaf_cost: float


@inner
def family_score(judge, tables, levels, table, cells, k, ess, unit):
    """``Φ(family) - Φ(parents)`` of a (cells, k) table of counts in units of ``unit``.

    ``levels[c]`` says which row of ``tables`` holds the potential of a table of c cells (-1: none).
    """
    total = 0.0
    full = cells * k
    row = levels[full] if full < levels.shape[0] else -1
    parent_row = levels[cells] if cells < levels.shape[0] else -1
    if row >= 0 and parent_row >= 0:
        for c in range(cells):
            whole = 0
            for s in range(k):
                whole += table[c * k + s]
                total += tables[row, table[c * k + s]]
            total -= tables[parent_row, whole]
        return total
    for c in range(cells):
        whole = 0
        for s in range(k):
            whole += table[c * k + s]
            total += potential(judge, table[c * k + s] * unit, ess / full)
        total -= potential(judge, whole * unit, ess / cells)
    return total


@inner
def best_likelihood(table, cell_n, cells, k, unit, xlogx):
    """Log-likelihood of a column given the cell under maximum-likelihood parameters.

    No marginal likelihood of the column given any of the family's variables is larger, so an offer
    that cannot beat the best so far is dropped before its parents are searched. ``xlogx`` is a
    table of ``k ln k``, or nothing if counts are weights.
    """
    total = 0.0
    if xlogx.shape[0] > 0:
        for c in range(cells):
            if cell_n[c] > 0:
                for s in range(k):
                    total += xlogx[table[c * k + s]]
                total -= xlogx[cell_n[c]]
        return total
    for c in range(cells):
        for s in range(k):
            total += potential(XLOGX, table[c * k + s] * unit, 0.0)
        total -= potential(XLOGX, cell_n[c] * unit, 0.0)
    return total


@inner
def choose_parents(
    rule, tables, levels, table, cells, member_sizes, n_members, k, ess, unit, chosen
):
    """Forward selection of parents among the members of a family.

    ``table`` holds the (cells, k) counts of the column within the family. Writes the positions of
    the chosen members and returns their number with the net score of the column.
    """
    n_chosen = 0
    group = np.zeros(cells, dtype=np.int64)  # joint state of the chosen members in every cell
    n_groups = 1
    small = np.zeros(cells * k, dtype=np.int64)
    used = np.zeros(n_members, dtype=np.bool_)
    score = -np.inf
    while True:
        best = -1
        best_score = score
        if n_chosen == 0 and score == -np.inf:
            # The column on its own.
            small[:k] = 0
            for c in range(cells):
                for s in range(k):
                    small[s] += table[c * k + s]
            score = family_score(rule.judge, tables, levels, small, 1, k, ess, unit)
            score -= rule.parameter_cost * (k - 1)
            best_score = score
        if n_chosen == rule.width:
            break
        for d in range(n_members):
            k_d = member_sizes[d]
            cells_then = n_groups * k_d * k
            # A single parent is always allowed, so that no width is worse than a tree.
            limit = rule.max_cells if n_chosen > 0 else max(rule.max_cells, MAX_PAIR_CELLS)
            if used[d] or k_d < 2 or cells_then > limit:
                continue
            stride = 1
            for e in range(d + 1, n_members):
                stride *= member_sizes[e]
            size = n_groups * k_d
            small[: size * k] = 0
            for c in range(cells):
                g = (group[c] * k_d + (c // stride) % k_d) * k
                for s in range(k):
                    small[g + s] += table[c * k + s]
            found = family_score(rule.judge, tables, levels, small, size, k, ess, unit)
            found -= rule.parameter_cost * (k - 1) * size + rule.parent_cost * (n_chosen + 1)
            if found > best_score + 1e-9:
                best = d
                best_score = found
        if best < 0:
            break
        stride = 1
        for e in range(best + 1, n_members):
            stride *= member_sizes[e]
        for c in range(cells):
            group[c] = group[c] * member_sizes[best] + (c // stride) % member_sizes[best]
        n_groups *= member_sizes[best]
        used[best] = True
        chosen[n_chosen] = best
        n_chosen += 1
        score = best_score
    return n_chosen, score


@inner
def least_pair(sizes, members, n_members):
    """Joint states of the two columns of a family that have the fewest, of those with two or more.

    Very many if there are no two such columns.
    """
    least = second = np.int64(1) << np.int64(24)
    for d in range(n_members):
        k = sizes[members[d]]
        if k < 2:
            continue
        if k < least:
            least, second = k, least
        elif k < second:
            second = k
    return least * second


@kernel
def grow_junction(rule, bits, planes, unit, n, sizes, ptr, active, ess, tables, levels, xlogx):
    """Grow a thin junction tree over the ``active`` columns of packed rows.

    ``planes`` holds the weights of the rows (see `weight_planes`), or nothing if they count once.

    Returns
    -------
    order, host, parent_ptr, parents, score
        Columns in the order of attachment, the family (position in that order) that holds all
        parents of each (-1: none), the parents of each, and the score of the whole.
    """
    m = active.shape[0]
    n_words = bits.shape[1]
    k_max = 1
    for t in range(m):
        k_max = max(k_max, sizes[active[t]])
    width = rule.width
    max_cells = max(rule.max_cells, min(k_max * k_max, MAX_PAIR_CELLS), k_max)
    masks = np.empty((max_cells, n_words), dtype=np.uint64)
    table = np.zeros(max_cells * k_max, dtype=np.int64)
    cell_n = np.empty(max_cells, dtype=np.int64)
    member_sizes = np.empty(width + 1, dtype=np.int64)
    members = np.empty((m, width + 1), dtype=np.int64)  # parents, then the column itself
    n_members = np.zeros(m, dtype=np.int64)
    chosen = np.empty(width + 1, dtype=np.int64)

    alone = np.empty(m)  # score without parents
    key = np.zeros(m)  # best gain over that
    host = np.full(m, -1, dtype=np.int64)
    offer = np.empty((m, width + 1), dtype=np.int64)
    n_offer = np.zeros(m, dtype=np.int64)
    waiting = np.ones(m, dtype=np.bool_)
    order = np.empty(m, dtype=np.int64)
    order_host = np.empty(m, dtype=np.int64)
    cell_masks(bits, n, ptr, sizes, members[0], 0, masks)
    whole = count_mask(masks[0], masks[0], planes, n_words)
    for t in range(m):
        v = active[t]
        k = sizes[v]
        table[0] = whole
        for s in range(1, k):
            c = count_mask(bits[ptr[v] + s - 1], bits[ptr[v] + s - 1], planes, n_words)
            table[s] = c
            table[0] -= c
        alone[t] = family_score(rule.judge, tables, levels, table, 1, k, ess, unit)
        alone[t] -= rule.parameter_cost * (k - 1)

    total = -rule.leaf_cost
    n_parents = 0
    for step in range(m):
        best = -1
        for t in range(m):
            if waiting[t] and (best < 0 or key[t] > key[best]):
                best = t
        waiting[best] = False
        order[step] = active[best]
        order_host[step] = host[best]
        total += alone[best] + key[best]
        for d in range(n_offer[best]):
            members[step, d] = offer[best, d]
        members[step, n_offer[best]] = active[best]
        n_members[step] = n_offer[best] + 1
        n_parents += n_offer[best]
        if step == m - 1 or width == 0:
            continue

        # Columns that may have two parents in the family are offered all of it, the others only the
        # column that is new in it: they have seen each of its parents. 50 columns of 5 states have
        # 25 cells in a family and need 5 of them.
        together = least_pair(sizes, members[step], n_members[step])
        for last_only in (False, True):
            first = n_members[step] - 1 if last_only else 0
            family = members[step, first : n_members[step]]
            cells = 0
            for t in range(m):
                v = active[t]
                k = sizes[v]
                several = width > 1 and together * k <= rule.max_cells
                if not waiting[t] or several == last_only:
                    continue
                if cells == 0:
                    for d in range(family.shape[0]):
                        member_sizes[d] = sizes[family[d]]
                    cells = cell_masks(bits, n, ptr, sizes, family, family.shape[0], masks)
                    for c in range(cells):
                        cell_n[c] = count_mask(masks[c], masks[c], planes, n_words)
                for c in range(cells):
                    rest = cell_n[c]
                    for s in range(1, k):
                        x = np.int64(0)
                        if cell_n[c] > 0:
                            x = count_mask(masks[c], bits[ptr[v] + s - 1], planes, n_words)
                        table[c * k + s] = x
                        rest -= x
                    table[c * k] = rest
                bound = best_likelihood(table, cell_n, cells, k, unit, xlogx)
                bound -= rule.parent_cost + alone[t]
                if bound <= key[t]:
                    continue
                size, score = choose_parents(
                    rule, tables, levels, table, cells, member_sizes, family.shape[0], k, ess,
                    unit, chosen,
                )  # fmt: skip
                gain = score - alone[t]
                if size > 0 and gain > key[t] + 1e-9:
                    key[t] = gain
                    host[t] = step
                    n_offer[t] = size
                    for d in range(size):
                        offer[t, d] = family[chosen[d]]

    parent_ptr = np.zeros(m + 1, dtype=np.int64)
    parents = np.empty(n_parents, dtype=np.int64)
    for step in range(m):
        size = n_members[step] - 1
        for d in range(size):
            parents[parent_ptr[step] + d] = members[step, d]
        parent_ptr[step + 1] = parent_ptr[step] + size
    return order, order_host, parent_ptr, parents, total


class JunctionLeaves:
    """Fits thin-junction-tree leaves; one object serves all leaves of a table.

    Parameters
    ----------
    score : Score
        What families are worth.
    prior : StructureCosts
        What parents cost.
    width : int
        Most parents of a column.
    n_rows : int
        The largest number of rows there can be.
    weight : float, optional
        Total weight of the training rows, if not their number.
    outside : Outside, optional
        All rows there are: tables are shrunk towards those that are not the leaf's.
    """

    def __init__(
        self,
        score: Score,
        prior: StructureCosts,
        width: int,
        n_rows: int,
        weight: float | None = None,
        outside: Outside | None = None,
    ) -> None:
        self.outside = outside
        self.score = score
        self.prior = prior
        self.width = width
        self.parameter_cost = score.parameter_cost(n_rows if weight is None else weight)
        self.n_rows = n_rows
        self._xlogx = np.empty(min(n_rows + 1, _MAX_TABLE))
        fill_table(XLOGX, 0.0, self._xlogx)
        self._tables: dict[float, tuple[FloatArray, IntArray]] = {}

    def fit(
        self,
        table: Table,
        rows: IntArray,
        columns: IntArray,
        ess: float,
        n_choices: int,
        states: Mapping[int, IntArray] | None = None,
    ) -> LeafFit:
        """Find the structure of a leaf; see `bayescut.learn.leaves.leaf.Leaves`."""
        sizes, states = left_of(table.sizes, columns, states)
        layout = bit_layout(columns, sizes[columns], states)
        bits = pack(table.codes, rows, layout)
        planes, unit = row_planes(table.weights, rows)
        n, m = len(rows), len(columns)
        largest = int(layout.sizes.max())
        rule = JunctionRule(
            judge=self.score.potential,
            width=self.width,
            max_cells=max(2 ** (self.width + 1), 64 if largest > 2 else 0),
            parameter_cost=self.parameter_cost,
            parent_cost=self.prior.parent_cost(n_choices),
            leaf_cost=self.prior.leaf_cost(m, self.width),
        )
        potentials, levels = self._levels(ess)
        xlogx = self._xlogx
        if table.weights is not None or n >= len(xlogx):
            levels, xlogx = np.full(1, -1), self._xlogx[:0]
        shape = (layout.sizes, layout.ptr)
        order, hosts, parent_ptr, parents, score = grow_junction(
            rule, bits, planes, unit, n, *shape, np.arange(m), ess, potentials, levels, xlogx
        )
        return LeafFit(
            columns=columns[order],
            hosts=hosts,
            parent_ptr=parent_ptr,
            parents=columns[parents],
            counts=family_counts(bits, planes, unit, n, *shape, order, parent_ptr, parents),
            sizes=sizes,
            n_rows=n,
            weight=table.total_weight(rows),
            ess=ess,
            score=float(score),
            states=states,
        )

    def merged(self, fit: LeafFit) -> LeafFit:
        """Let families see the states of their parents in groups, where that pays."""
        return merge_parents(fit, self.score.potential, self.prior, self.parameter_cost)

    def settle(self, fit: LeafFit) -> Leaf:
        """Work out the parameters of a leaf, which look at all rows of the table if they shrink."""
        if self.outside is not None and fit.n_rows < self.outside.n_rows:
            return shrunken_leaf(fit, self.outside.counts(fit))
        return shrunken_leaf(fit, np.zeros_like(fit.counts))

    def _levels(self, ess: float) -> tuple[FloatArray, IntArray]:
        """Tables of the potentials of 1, 2, 4, ... 2^(width + 1) cells, where they pay."""
        found = self._tables.get(ess)
        if found is None:
            steps = range(self.width + 2)
            tables = np.empty((len(steps), len(self._xlogx)))
            for level in steps:
                fill_table(self.score.potential, ess / 2**level, tables[level])
            levels = np.full(2 ** (self.width + 1) + 1, -1, dtype=np.int64)
            levels[[2**level for level in steps]] = steps
            found = self._tables[ess] = tables, levels
        return found
