r"""Trees whose tables are blended with those of the whole training set (Di Mauro et al. 2015).

A node of n rows has the joint tables

.. math:: \hat p(x_u, x_v) = \frac{n_{uv} + a\, p(x_u, x_v)}{n + a}, \qquad a = \lambda n

where p are the tables of the whole training set, themselves smoothed by one pseudo-row. The
published learner gives the root 0.5 % of the rows as pseudo-rows, and every branch its share of
them: a is proportional to the rows everywhere, with a rate λ of 0.005. The tree is chosen by the
mutual information of these tables and judged by the log-likelihood of the rows under them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.counts.pairs import PairCounts
from bayescut.data.bits import BitLayout
from bayescut.learn.leaves.trees import TreeRule, _fit_tree, grow_tree


class BlendedRule(NamedTuple):
    """Trees over blended tables, in numbers a kernel can take.

    Attributes
    ----------
    choose, judge : int
        Potentials that stand for the two criteria: `XLOGX`, `LOGLIK`.
    parameter_cost : float
        Price of an independent parameter: none.
    prior : float64 array of shape (B, B)
        Probabilities of pairs of bits among all rows, on the diagonal of single bits.
    rate : float
        Pseudo-rows for every row of a node, λ.
    forest : bool
        Keep only edges of a mutual information of at least ``ln n / (2 n)``.
    """

    choose: int
    judge: int
    parameter_cost: float
    prior: FloatArray
    rate: float
    forest: bool

    def fit(
        self,
        pairs: PairCounts,
        active: IntArray,
        ess: float,
        lookup: FloatArray,
        parent: IntArray,
        order: IntArray,
    ) -> float:
        """Write the best tree by this rule into ``parent`` and ``order``; return its score."""
        n = pairs.counts.dtype.type(pairs.n)
        shape = (pairs.layout.sizes, pairs.layout.ptr, active, parent, order)
        return float(fit_blended(self, pairs.counts, n, *shape))

    def counts(self, pairs: PairCounts, order: IntArray, parent: IntArray) -> FloatArray:
        """Counts of the families of a tree, end to end."""
        n = pairs.counts.dtype.type(pairs.n)
        return tree_cells(pairs.counts, n, pairs.layout.sizes, pairs.layout.ptr, order, parent)


def whole_tables(pairs: PairCounts) -> FloatArray:
    """Probabilities of pairs of bits, one pseudo-row divided evenly over every table.

    Pairs of columns of K and L states are smoothed by 1 / (K L) a cell, single columns by 1 / K, so
    that a table agrees with its margins.
    """
    layout = pairs.layout
    share = 1.0 / np.repeat(layout.sizes, layout.sizes - 1)
    pseudo = np.outer(share, share)
    for lo, hi in zip(layout.ptr[:-1], layout.ptr[1:], strict=True):
        pseudo[lo:hi, lo:hi] = 0.0  # two states of one column exclude each other
    np.fill_diagonal(pseudo, share)
    return (pairs.counts + pseudo) / (pairs.n + 1.0)


def restrict(prior: FloatArray, whole: BitLayout, part: BitLayout) -> FloatArray:
    """The rows and columns of a matrix over the bits of ``whole`` that ``part`` has too."""
    if len(part.columns) == len(whole.columns):
        return prior
    bits = whole.ptr[part.bit_column] + part.bit_state - 1
    return prior[np.ix_(bits, bits)]


@inner
def pseudo_rows(n, rate):
    """Rows of the prior in a node; one without rows of its own has the tables of all rows."""
    return rate * n if n > 0 else 1.0


@inner
def single_cell(counts, n, ptr, v, x):
    """Count of state ``x`` of column ``v``."""
    if x > 0:
        b = ptr[v] + x - 1
        return float(counts[b, b])
    rest = float(n)
    for b in range(ptr[v], ptr[v + 1]):
        rest -= counts[b, b]
    return max(rest, 0.0)


@inner
def pair_cell(counts, n, ptr, u, x, v, y):
    """Count of state ``x`` of column ``u`` together with state ``y`` of column ``v``."""
    if x > 0 and y > 0:
        return float(counts[ptr[u] + x - 1, ptr[v] + y - 1])
    if x > 0:
        rest = single_cell(counts, n, ptr, u, x)
        for c in range(ptr[v], ptr[v + 1]):
            rest -= counts[ptr[u] + x - 1, c]
        return max(rest, 0.0)
    rest = single_cell(counts, n, ptr, v, y)
    for b in range(ptr[u], ptr[u + 1]):
        if y > 0:
            rest -= counts[b, ptr[v] + y - 1]
        else:
            rest -= counts[b, b]
            for c in range(ptr[v], ptr[v + 1]):
                rest += counts[b, c]
    return max(rest, 0.0)


@kernel
def tree_cells(counts, n, sizes, ptr, order, parent):
    """Counts of the families of a tree in ``order``, end to end, as in `tree_counts`.

    Every cell is found on its own: one that no row fills weighs 1e-9 or less in a prior, which
    would drown in the rounding of sums found by subtraction.
    """
    total = 0
    for t in range(order.shape[0]):
        v = order[t]
        total += sizes[v] * (sizes[parent[v]] if parent[v] >= 0 else 1)
    cells = np.empty(total)
    i = 0
    for t in range(order.shape[0]):
        v = order[t]
        u = parent[v]
        for x in range(sizes[u] if u >= 0 else 1):
            for y in range(sizes[v]):
                if u < 0:
                    cells[i] = single_cell(counts, n, ptr, v, y)
                else:
                    cells[i] = pair_cell(counts, n, ptr, u, x, v, y)
                i += 1
    return cells


@kernel
def blend(own, whole, a, sizes, order, parent):
    """``log p(x_v | x_parent)`` from a node's cells and ``a`` times those of the whole table."""
    tables = np.empty(own.shape[0])
    start = 0
    for t in range(order.shape[0]):
        v = order[t]
        for _ in range(sizes[parent[v]] if parent[v] >= 0 else 1):
            total = 0.0
            for i in range(start, start + sizes[v]):
                tables[i] = own[i] + a * whole[i]
                total += tables[i]
            for i in range(start, start + sizes[v]):
                tables[i] = math.log(tables[i] / total)
            start += sizes[v]
    return tables


@inner
def judge_blended(counts, n, sizes, ptr, active, parent, prior, rate):
    """Log-likelihood of the rows of a node under the blended tables of a tree."""
    own = tree_cells(counts, n, sizes, ptr, active, parent)
    whole = tree_cells(prior, 1.0, sizes, ptr, active, parent)
    tables = blend(own, whole, pseudo_rows(n, rate), sizes, active, parent)
    total = 0.0
    for i in range(own.shape[0]):
        if own[i] > 0.0:
            total += own[i] * tables[i]
    return total


@inner
def information(counts, n, sizes, ptr, u, v, prior, rate):
    """Mutual information of the blended table of two columns."""
    a = pseudo_rows(n, rate)
    total = 0.0
    for x in range(sizes[u]):
        p_u = single_cell(counts, n, ptr, u, x) + a * single_cell(prior, 1.0, ptr, u, x)
        for y in range(sizes[v]):
            p_v = single_cell(counts, n, ptr, v, y) + a * single_cell(prior, 1.0, ptr, v, y)
            p = pair_cell(counts, n, ptr, u, x, v, y)
            p += a * pair_cell(prior, 1.0, ptr, u, x, v, y)
            total += p * math.log(p * (n + a) / (p_u * p_v))
    return total / (n + a)


@kernel
def fit_blended(rule, counts, n, sizes, ptr, active, parent, order):
    """Write the best tree over blended tables into ``parent`` and ``order``; return its score."""
    a = pseudo_rows(n, rule.rate)
    blended = np.empty(counts.shape)
    for b in range(counts.shape[0]):
        for c in range(counts.shape[1]):
            blended[b, c] = counts[b, c] + a * rule.prior[b, c]
    by_information = TreeRule(rule.choose, rule.choose, True, 0.0, 0.0, 0.0)
    no_table = np.empty(0)
    grow_tree(by_information, blended, n + a, sizes, ptr, active, 0.0, no_table, parent, order)
    if rule.forest and n > 0:
        least = math.log(n) / (2.0 * n)
        for t in range(active.shape[0]):
            v = active[t]
            u = parent[v]
            if u >= 0 and least > information(counts, n, sizes, ptr, u, v, rule.prior, rule.rate):
                parent[v] = -1
    return judge_blended(counts, n, sizes, ptr, active, parent, rule.prior, rule.rate)


@overload(_fit_tree)
def _fit_blended_tree(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
    if getattr(rule, "instance_class", None) is not BlendedRule:
        return None

    def fit(rule, counts, n, sizes, ptr, active, ess, lookup, parent, order):
        return fit_blended(rule, counts, n, sizes, ptr, active, parent, order)

    return fit
