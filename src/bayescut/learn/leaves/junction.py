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
from numpy.typing import NDArray

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import BitArray, IntArray
from bayescut.counts.families import cell_masks, count_mask, family_counts, row_planes
from bayescut.data.bits import bit_layout, pack
from bayescut.data.table import Table
from bayescut.learn.leaves.celltables import MAX_PAIR_CELLS, CellTables, of_count
from bayescut.learn.leaves.leaf import Leaf, LeafFit, left_of
from bayescut.learn.leaves.merging import merge_parents
from bayescut.learn.leaves.shrinkage import Outside, shrunken_leaf
from bayescut.scores.base import Score
from bayescut.scores.potentials import XLOGX, fill_table, potential, shift_of
from bayescut.scores.prior import StructureCosts

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


class Family(NamedTuple):
    """The family that is offered, and the joint states of its members that occur.

    Attributes
    ----------
    members : int64 array
        Parents, then the column that was attached last.
    masks : uint64 array of shape (cells, W)
        The rows in every joint state.
    n : int64 array of shape (cells,)
        Their weight.
    digit : int64 array of shape (members, cells)
        The states of the members.
    """

    members: IntArray
    masks: BitArray
    n: IntArray
    digit: IntArray


class Pairs(NamedTuple):
    """Pairs of members of the family that is offered.

    Attributes
    ----------
    members : int64 array
        Those of the family.
    masks, n
        The rows in every joint state of a pair, and their weight.
    at : int64 array of shape (members, members)
        Where the joint states of a pair begin; -1: they are not found yet. The last is where the
        next begin.
    """

    members: IntArray
    masks: BitArray
    n: IntArray
    at: IntArray


class Scratch(NamedTuple):
    """Space for `choose_parents`: of cells, and of members."""

    group: IntArray
    small: IntArray
    used: NDArray[np.bool_]


@inner
def family_score(judge, cells, table, size, k, ess, unit):
    """``Φ(family) - Φ(parents)`` of a (size, k) table of counts in units of ``unit``."""
    cells, table = borrowed(cells), borrowed(table)
    full = size * k
    own = shift_of(judge, ess / full, cells.length[full])
    above = shift_of(judge, ess / size, cells.length[size])
    total = 0.0
    for c in range(size):
        whole = 0
        for s in range(k):
            whole += table[c * k + s]
            total += of_count(judge, cells, full, table[c * k + s], ess, unit, own)
        total -= of_count(judge, cells, size, whole, ess, unit, above)
    return total


@inner
def best_likelihood(table, cell_n, n_cells, k, unit, xlogx):
    """Log-likelihood of a column given the cell under maximum-likelihood parameters.

    No marginal likelihood of the column given any of the family's variables is larger, so an offer
    that cannot beat the best so far is dropped before its parents are searched. ``xlogx`` is a
    table of ``k ln k``, or nothing if counts are weights.
    """
    total = 0.0
    if xlogx.shape[0] > 0:
        for c in range(n_cells):
            for s in range(k):
                total += xlogx[table[c * k + s]]
            total -= xlogx[cell_n[c]]
        return total
    for c in range(n_cells):
        for s in range(k):
            total += potential(XLOGX, table[c * k + s] * unit, 0.0)
        total -= potential(XLOGX, cell_n[c] * unit, 0.0)
    return total


@inner
def count_cells(masks, cell_n, n_cells, bits, planes, lo, k, table):
    """Counts of the k states of a column, whose bits begin at ``lo``, in each of some cells."""
    n_words = bits.shape[1]
    masks, cell_n, table = borrowed(masks), borrowed(cell_n), borrowed(table)
    for c in range(n_cells):
        rest = cell_n[c]
        for s in range(1, k):
            x = np.int64(0)
            if cell_n[c] > 0:
                x = count_mask(masks[c], bits[lo + s - 1], planes, n_words)
            table[c * k + s] = x
            rest -= x
        table[c * k] = rest


@inner
def find_cells(bits, planes, n, ptr, sizes, family, n_members):
    """Find the joint states of a family that occur; return how many there are."""
    size = cell_masks(bits, n, ptr, sizes, family.members, n_members, family.masks)
    n_words = bits.shape[1]
    filled = 0
    for c in range(size):
        weight = count_mask(family.masks[c], family.masks[c], planes, n_words)
        if weight == 0:
            continue
        family.n[filled] = weight
        if filled < c:
            for w in range(n_words):
                family.masks[filled, w] = family.masks[c, w]
        rest = c
        for d in range(n_members - 1, -1, -1):
            k = sizes[family.members[d]]
            family.digit[d, filled] = rest % k
            rest //= k
        filled += 1
    return filled


@inner
def choose_parents(
    rule, cells, table, n_cells, sizes, family, n_members, k, ess, unit, scratch, chosen, score
):
    """Forward selection of parents among the members of a family, of which the first is chosen.

    ``table`` holds the counts of the column, of ``k`` states, within the family, ``chosen[0]`` the
    position of the first parent and ``score`` the net score with it. Writes the positions of the
    others and returns their number with the net score of the column.
    """
    group, small, used = scratch
    used[:n_members] = False
    used[chosen[0]] = True
    n_groups = sizes[family.members[chosen[0]]]
    for c in range(n_cells):  # joint state of the chosen members in every cell
        group[c] = family.digit[chosen[0], c]
    n_chosen = 1
    while n_chosen < rule.width:
        best = -1
        best_score = score
        for d in range(n_members):
            k_d = sizes[family.members[d]]
            size = n_groups * k_d
            if used[d] or k_d < 2 or size * k > rule.max_cells:
                continue
            small[: size * k] = 0
            for c in range(n_cells):
                g = (group[c] * k_d + family.digit[d, c]) * k
                for s in range(k):
                    small[g + s] += table[c * k + s]
            found = family_score(rule.judge, cells, small, size, k, ess, unit)
            found -= rule.parameter_cost * (k - 1) * size + rule.parent_cost * (n_chosen + 1)
            if found > best_score + 1e-9:
                best = d
                best_score = found
        if best < 0:
            break
        k_d = sizes[family.members[best]]
        for c in range(n_cells):
            group[c] = group[c] * k_d + family.digit[best, c]
        n_groups *= k_d
        used[best] = True
        chosen[n_chosen] = best
        n_chosen += 1
        score = best_score
    return n_chosen, score


@inner
def choose_second(
    rule, cells, bits, planes, n, ptr, sizes, pairs, n_members, v, ess, unit, table, chosen, score
):
    """`choose_parents` where only one more fits: counted with each of the members in turn."""
    k = sizes[v]
    n_chosen = 1
    for d in range(n_members):
        i, j = min(d, chosen[0]), max(d, chosen[0])
        size = sizes[pairs.members[i]] * sizes[pairs.members[j]]
        if i == j or sizes[pairs.members[d]] < 2 or size * k > rule.max_cells:
            continue
        if pairs.at[i, j] < 0:
            find_pair(bits, planes, n, ptr, sizes, pairs, i, j)
        at = pairs.at[i, j]
        count_cells(pairs.masks[at:], pairs.n[at:], size, bits, planes, ptr[v], k, table)
        found = family_score(rule.judge, cells, table, size, k, ess, unit)
        found -= rule.parameter_cost * (k - 1) * size + rule.parent_cost * 2
        if found > score + 1e-9:
            n_chosen = 2
            chosen[1] = d
            score = found
    return n_chosen, score


@inner
def find_pair(bits, planes, n, ptr, sizes, pairs, i, j):
    """Find the rows in the joint states of two members of a family."""
    n_words = bits.shape[1]
    at = pairs.at[-1, -1]
    both = np.empty(2, dtype=np.int64)
    both[0], both[1] = pairs.members[i], pairs.members[j]
    size = cell_masks(bits, n, ptr, sizes, both, 2, pairs.masks[at:])
    for c in range(at, at + size):
        pairs.n[c] = count_mask(pairs.masks[c], pairs.masks[c], planes, n_words)
    pairs.at[i, j] = at
    pairs.at[-1, -1] = at + size


@inner
def least_joint(sizes, members, n_members):
    """Joint states of the two columns of a family that have the fewest, and of the three.

    Very many if there are not as many columns of two states or more.
    """
    least = second = third = np.int64(1) << np.int64(20)
    for d in range(n_members):
        k = sizes[members[d]]
        if k < 2:
            continue
        if k < least:
            least, second, third = k, least, second
        elif k < second:
            second, third = k, second
        elif k < third:
            third = k
    return least * second, least * second * third


@kernel
def grow_junction(rule, bits, planes, unit, n, sizes, ptr, ess, cells, xlogx):
    """Grow a thin junction tree over the columns of packed rows.

    ``planes`` holds the weights of the rows (see `weight_planes`), or nothing if they count once.
    A column that no single member of a family helps gets no parents from it: forward selection
    ends at its first step. So pairs of columns are counted first, each when the first of the two
    is attached, and larger tables only for what is left.

    Returns
    -------
    order, host, parent_ptr, parents, score
        Columns in the order of attachment, the family (position in that order) that holds all
        parents of each (-1: none), the parents of each, and the score of the whole.
    """
    bits, planes, sizes, ptr = borrowed(bits), borrowed(planes), borrowed(sizes), borrowed(ptr)
    cells, xlogx = borrowed(cells), borrowed(xlogx)
    m = sizes.shape[0]
    n_words = bits.shape[1]
    k_max = 1
    for v in range(m):
        k_max = max(k_max, sizes[v])
    width = rule.width
    # A single parent is always allowed, so that no width is worse than a tree.
    pair_cells = max(rule.max_cells, MAX_PAIR_CELLS)
    most = rule.max_cells
    masks = np.empty((k_max, n_words), dtype=np.uint64)
    masks_n = np.empty(k_max, dtype=np.int64)
    table = np.empty(max(most * k_max, pair_cells), dtype=np.int64)
    family = Family(
        np.empty(width + 1, dtype=np.int64),
        np.empty((most, n_words), dtype=np.uint64),
        np.empty(most, dtype=np.int64),
        np.empty((width + 1, most), dtype=np.int64),
    )
    # Families of three columns of a, b and c states have at most abc (1/a + 1/b + 1/c) in pairs,
    # larger ones less.
    pairs = Pairs(
        family.members,
        np.empty((3 * most // 2 + 1, n_words), dtype=np.uint64),
        np.empty(3 * most // 2 + 1, dtype=np.int64),
        np.empty((width + 1, width + 1), dtype=np.int64),
    )
    scratch = Scratch(
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(width + 1, dtype=np.bool_),
    )
    members = np.empty((m, width + 1), dtype=np.int64)  # parents, then the column itself
    n_members = np.zeros(m, dtype=np.int64)
    chosen = np.empty(width + 1, dtype=np.int64)

    alone = np.empty(m)  # score without parents
    paired = np.empty((m, m))  # score with one parent, the first index
    key = np.zeros(m)  # best gain over that
    host = np.full(m, -1, dtype=np.int64)
    offer = np.empty((m, width + 1), dtype=np.int64)
    n_offer = np.zeros(m, dtype=np.int64)
    waiting = np.ones(m, dtype=np.bool_)
    order = np.empty(m, dtype=np.int64)
    order_host = np.empty(m, dtype=np.int64)
    cell_masks(bits, n, ptr, sizes, members[0], 0, masks)
    masks_n[0] = count_mask(masks[0], masks[0], planes, n_words)
    for v in range(m):
        count_cells(masks, masks_n, 1, bits, planes, ptr[v], sizes[v], table)
        alone[v] = family_score(rule.judge, cells, table, 1, sizes[v], ess, unit)
        alone[v] -= rule.parameter_cost * (sizes[v] - 1)

    total = -rule.leaf_cost
    n_parents = 0
    for step in range(m):
        u = -1
        for v in range(m):
            if waiting[v] and (u < 0 or key[v] > key[u]):
                u = v
        waiting[u] = False
        order[step] = u
        order_host[step] = host[u]
        total += alone[u] + key[u]
        size = n_offer[u] + 1
        n_members[step] = size
        n_parents += n_offer[u]
        for d in range(n_offer[u]):
            members[step, d] = offer[u, d]
        members[step, size - 1] = u
        if step == m - 1 or width == 0:
            continue

        family.members[:size] = members[step, :size]
        n_states = n_cells = 0  # until they are asked for
        pairs.at[:, :] = -1
        pairs.at[-1, -1] = 0
        two, three = least_joint(sizes, family.members, size)
        for v in range(m):
            k = sizes[v]
            # No score given parents is above 0.
            if not waiting[v] or -alone[v] - rule.parent_cost <= key[v]:
                continue
            paired[u, v] = -np.inf
            if sizes[u] > 1 and sizes[u] * k <= pair_cells:
                if n_states == 0:
                    last = family.members[size - 1 :]
                    n_states = cell_masks(bits, n, ptr, sizes, last, 1, masks)
                    for x in range(n_states):
                        masks_n[x] = count_mask(masks[x], masks[x], planes, n_words)
                count_cells(masks, masks_n, sizes[u], bits, planes, ptr[v], k, table)
                found = family_score(rule.judge, cells, table, sizes[u], k, ess, unit)
                found -= rule.parameter_cost * (k - 1) * sizes[u] + rule.parent_cost
                paired[u, v] = found
            # Columns that may have two parents in the family are offered all of it, the others only
            # the column that is new in it: they have seen each of its parents.
            several = width > 1 and two * k <= rule.max_cells
            score = alone[v]
            n_chosen = 0
            for d in range(0 if several else size - 1, size):
                if paired[family.members[d], v] > score + 1e-9:
                    score = paired[family.members[d], v]
                    chosen[0] = d
                    n_chosen = 1
            if n_chosen == 0:
                continue
            if several and (width == 2 or three * k > rule.max_cells):
                # A family of 125 cells has pairs of 25: leaves of 50 columns of 5 states and more
                # than 20,000 rows take 11 ms instead of 23.
                n_chosen, score = choose_second(
                    rule, cells, bits, planes, n, ptr, sizes, pairs, size, v, ess, unit, table,
                    chosen, score,
                )  # fmt: skip
            elif several:
                if n_cells == 0:
                    n_cells = find_cells(bits, planes, n, ptr, sizes, family, size)
                count_cells(family.masks, family.n, n_cells, bits, planes, ptr[v], k, table)
                bound = best_likelihood(table, family.n, n_cells, k, unit, xlogx)
                if bound - (rule.parent_cost + alone[v]) <= key[v]:
                    continue
                n_chosen, score = choose_parents(
                    rule, cells, table, n_cells, sizes, family, size, k, ess, unit, scratch,
                    chosen, score,
                )  # fmt: skip
            if score - alone[v] > key[v] + 1e-9:
                key[v] = score - alone[v]
                host[v] = step
                n_offer[v] = n_chosen
                for d in range(n_chosen):
                    offer[v, d] = family.members[chosen[d]]

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
        # A width of w needs 2^(w + 1) cells for binary columns; others get 64 at least.
        self._max_cells = max(2 ** (width + 1), 64)
        self._tables = CellTables(
            score.potential, n_rows, max(width, 1), self._max_cells, len(self._xlogx)
        )
        self._no_tables = CellTables(score.potential, 0, 1, self._max_cells)

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
            max_cells=self._max_cells if largest > 2 else 2 ** (self.width + 1),
            parameter_cost=self.parameter_cost,
            parent_cost=self.prior.parent_cost(n_choices),
            leaf_cost=self.prior.leaf_cost(m, self.width),
        )
        tables, xlogx = self._tables, self._xlogx
        if table.weights is not None or n >= len(xlogx):
            tables, xlogx = self._no_tables, xlogx[:0]
        shape = (layout.sizes, layout.ptr)
        order, hosts, parent_ptr, parents, score = grow_junction(
            rule, bits, planes, unit, n, *shape, ess, tables.get(ess, layout.sizes), xlogx
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
