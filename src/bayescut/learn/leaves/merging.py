r"""Parents of many states: families that see them in groups.

A parent of K states divides a family's table into K parts. States of the parent under which the
column behaves alike share a part where that makes the score better: from K parts on, the two are
merged whose merging is worth most, down to two parts, and of all the divisions on the way the best
is taken. The prior charges for it: :math:`\ln\big[(K - 1) \, S(K, g)\big]`, the number of parts and
the division of K states into g parts, of which there are :math:`S(K, g)` (Stirling numbers of the
second kind); no merging costs nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.learn.leaves.leaf import LeafFit
from bayescut.scores.potentials import potential
from bayescut.scores.prior import StructureCosts

# The search takes K^3 / 6 looks at pairs of states: 43,000 for a parent of this many.
MOST_STATES = 64


@cache
def divisions(k: int) -> tuple[int, ...]:
    """Numbers of divisions of ``k`` things into 0, 1, ..., ``k`` parts.

    Examples
    --------
    >>> divisions(4)
    (0, 1, 7, 6, 1)
    """
    if k == 0:
        return (1,)
    less = (*divisions(k - 1), 0)
    return tuple(g * less[g] + (less[g - 1] if g else 0) for g in range(k + 1))


@inner
def part_score(judge, table, i, j, n_groups, ess, price):
    """Score of the rows of a family in which the parent is in group ``i`` or in group ``j``."""
    outer, _, within, k = table.shape
    rows = outer * n_groups * within
    total = 0.0
    for a in range(outer):
        for b in range(within):
            whole = 0.0
            for x in range(k):
                n = table[a, i, b, x]
                if j != i:
                    n += table[a, j, b, x]
                whole += n
                total += potential(judge, n, ess / (rows * k))
            total -= potential(judge, whole, ess / rows)
    return total - price * outer * within * (k - 1)


@kernel
def merge_states(judge, table, ess, price, cost, group):
    """Divide the states of a parent into groups, greedily; return what that gains.

    Parameters
    ----------
    judge, ess, price
        Potential, equivalent sample size of the family, price of a parameter.
    table : float64 array of shape (outer, K, within, k)
        Counts: parents listed before this one, its states, parents listed after it, the column's
        own states. Overwritten.
    cost : float64 array of shape (K + 1,)
        What a division into as many groups costs.
    group : int64 array of shape (K,)
        Written: the group of every state, numbered by their first states.
    """
    outer, n_states, within, k = table.shape
    at = np.arange(n_states)  # which groups there are, by their first states
    home = np.arange(n_states)
    group[:] = home
    score = 0.0
    for i in range(n_states):
        score += part_score(judge, table, i, i, n_states, ess, price)
    none = score - cost[n_states]
    best = none
    alone = np.empty(n_states)
    n_groups = n_states
    while n_groups > 2:
        total = 0.0
        for p in range(n_groups):
            alone[p] = part_score(judge, table, at[p], at[p], n_groups - 1, ess, price)
            total += alone[p]
        first, second, gain = 0, 1, -np.inf
        for p in range(n_groups):
            for q in range(p + 1, n_groups):
                merged = part_score(judge, table, at[p], at[q], n_groups - 1, ess, price)
                if merged - alone[p] - alone[q] > gain + 1e-9:
                    first, second, gain = p, q, merged - alone[p] - alone[q]
        i, j = at[first], at[second]
        for a in range(outer):
            for b in range(within):
                for x in range(k):
                    table[a, i, b, x] += table[a, j, b, x]
        for x in range(n_states):
            if home[x] == j:
                home[x] = i
        for p in range(second, n_groups - 1):
            at[p] = at[p + 1]
        n_groups -= 1
        if total + gain - cost[n_groups] > best + 1e-9:
            best = total + gain - cost[n_groups]
            group[:] = home
    seen = 0
    for x in range(n_states):  # numbers in the place of first states
        if group[x] == x:
            home[x] = seen
            seen += 1
    for x in range(n_states):
        group[x] = home[group[x]]
    return best - none


def merge_parents(
    fit: LeafFit, judge: int, prior: StructureCosts, parameter_cost: float
) -> LeafFit:
    """Group the states of parents in the families of a leaf where that makes its score better.

    A family that is host to another shows it all states of the parents they have in common.
    """
    if fit.groups is not None or not np.any(fit.sizes[fit.parents] > 2):
        return fit
    n_parents = np.diff(fit.parent_ptr)
    shown = {
        (int(host), p)
        for f, host in enumerate(fit.hosts.tolist())
        for p in fit.parents[fit.parent_ptr[f] : fit.parent_ptr[f + 1]].tolist()
    }
    groups: list[IntArray | None] = [None] * len(fit.parents)
    tables: list[FloatArray] = []
    start, gain = 0, 0.0
    for f, column in enumerate(fit.columns.tolist()):
        first = int(fit.parent_ptr[f])
        parents = fit.parents[first : first + n_parents[f]].tolist()
        shape = [int(fit.sizes[p]) for p in parents] + [int(fit.sizes[column])]
        size = int(np.prod(shape))
        table = fit.counts[start : start + size].reshape(shape)
        start += size
        for d, parent in enumerate(parents):
            k = shape[d]
            if not 2 < k <= MOST_STATES or (f, parent) in shown:
                continue
            outer = int(np.prod(table.shape[:d]))
            folded = table.reshape(outer, k, -1, table.shape[-1])
            cost = np.zeros(k + 1)
            for g in range(2, k):
                cost[g] = prior.group_cost((k - 1) * divisions(k)[g])
            group = np.empty(k, dtype=np.int64)
            found = merge_states(judge, folded.copy(), fit.ess, parameter_cost, cost, group)
            if found > 0.0:
                gain += found
                groups[first + d] = group
                table = merge_axis(table, d, group)
        tables.append(table.ravel())
    if gain == 0.0:
        return fit
    return fit._replace(counts=np.concatenate(tables), score=fit.score + gain, groups=tuple(groups))


def merge_axis(table: FloatArray, axis: int, group: IntArray) -> FloatArray:
    """Add up the parts of a table that belong to one group along an axis."""
    moved = np.moveaxis(table, axis, 0)
    out = np.zeros((int(group.max()) + 1, *moved.shape[1:]))
    np.add.at(out, group, moved)
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))


def merge_counts(fit: LeafFit, counts: FloatArray) -> FloatArray:
    """Counts of families that see all states of parents, as the leaf's families see them."""
    if fit.groups is None:
        return counts
    tables, start = [], 0
    for f, column in enumerate(fit.columns.tolist()):
        slots = range(int(fit.parent_ptr[f]), int(fit.parent_ptr[f + 1]))
        shape = [int(fit.sizes[fit.parents[i]]) for i in slots] + [int(fit.sizes[column])]
        size = int(np.prod(shape))
        table = counts[start : start + size].reshape(shape)
        start += size
        for d, i in enumerate(slots):
            group = fit.groups[i]
            if group is not None:
                table = merge_axis(table, d, group)
        tables.append(table.ravel())
    return np.concatenate(tables)
