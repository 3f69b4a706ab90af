"""Forests over columns of any number of states, with every potential looked up in a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayescut._kernels import borrowed, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.counts.pairs import PairCounts
from bayescut.learn.leaves.celltables import MAX_PAIR_CELLS, CellTables, cells_table
from bayescut.learn.leaves.treeleaves import Tree
from bayescut.learn.leaves.trees import (
    TreeRule,
    pair_potential,
    round_weight,
    scratch_column,
    single_potential,
    take_better,
)
from bayescut.scores.potentials import potential


class Offers(NamedTuple):
    """The best edge offered to every column so far: its rounded weight, and from where."""

    key: FloatArray
    host: IntArray


@kernel
def grow_forest(rule, counts, n, sizes, ptr, active, ess, cells, parent, order):
    """Prim's algorithm for the best forest by one potential; returns its score.

    The twin of `grow_tree` and `judge_tree` (`bayescut.learn.leaves.trees`) where trees are chosen
    by what they are judged by and need not span. Columns of more than `MAX_PAIR_CELLS` joint states
    are not linked.
    """
    counts, sizes, ptr, active = borrowed(counts), borrowed(sizes), borrowed(ptr), borrowed(active)
    cells, parent, order = borrowed(cells), borrowed(parent), borrowed(order)
    m = active.shape[0]
    phi = rule.judge
    unit = 1e12 / (n + ess)
    one_cell = potential(phi, float(n), ess)
    column = scratch_column(sizes, active, counts)
    own = np.empty(m)
    worth = np.zeros(m)  # of the edge behind the best offer
    offers = Offers(np.zeros(m), np.full(m, -1, dtype=np.int64))
    waiting = np.ones(m, dtype=np.bool_)
    score = -rule.leaf_cost
    for t in range(m):
        v = active[t]
        own[t] = single_potential(phi, counts, n, ptr[v], ptr[v + 1], ess / sizes[v])
        score += own[t] - one_cell - rule.parameter_cost * (sizes[v] - 1)
    for step in range(m):
        best = -1
        for t in range(m):
            if waiting[t] and (best < 0 or offers.key[t] > offers.key[best]):
                best = t
        waiting[best] = False
        u = active[best]
        order[step] = u
        parent[u] = active[offers.host[best]] if offers.host[best] >= 0 else -1
        score += worth[best]
        for t in range(m):
            v = active[t]
            size = sizes[u] * sizes[v]
            if not waiting[t] or size > MAX_PAIR_CELLS:
                continue
            # Neither column can be known better than by probabilities of 1.
            most = one_cell - max(own[best], own[t]) - rule.edge_cost
            if most * unit < offers.key[t] - 1.0:
                continue
            table = cells_table(cells, size)
            gain = pair_potential(phi, counts, n, ptr, u, v, ess / size, table, column)
            gain += one_cell - own[best] - own[t] - rule.edge_cost
            gain -= rule.parameter_cost * (sizes[u] - 1) * (sizes[v] - 1)
            before = offers.key[t]
            take_better(round_weight(gain * unit), t, offers, best)
            if offers.key[t] > before:
                worth[t] = gain
    return score


def best_forest(
    rule: TreeRule, pairs: PairCounts, active: IntArray, ess: float, tables: CellTables
) -> Tree:
    """Find the best forest over the ``active`` columns of rows that are counted."""
    layout = pairs.layout
    parent = np.full(len(layout.columns), -1)
    order = np.empty(len(active), dtype=np.int64)
    n = pairs.counts.dtype.type(pairs.n)
    cells = tables.get(ess, layout.sizes[active])
    score = grow_forest(
        rule, pairs.counts, n, layout.sizes, layout.ptr, active, ess, cells, parent, order
    )
    return Tree(parent, order, float(score))
