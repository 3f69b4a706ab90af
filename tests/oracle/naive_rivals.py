"""The cutset learners before Bayesian scores, written for reading: twins of the rules of growth."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.oracle.naive_learner import (
    NaiveLearner,
    NaiveNode,
    _Symmetric,
    direct,
    joint,
    spanning_tree,
)


def entropy(p):
    return -sum(x * math.log(x) for x in np.ravel(p) if x > 0)


class NaiveRival(NaiveLearner):
    """Cuts without a look at the score, as `CNet` and `XCNet` do.

    ``choose(gains, cuttable)`` picks the column to cut, given the gains of the cuttable ones.
    """

    def __init__(self, choose, *, alpha, rows, columns=1, entropy=-math.inf, gain=-math.inf):
        super().__init__("likelihood", beta=alpha)
        self.choose = choose
        self.rows, self.columns, self.entropy, self.least_gain = rows, columns, entropy, gain

    def learn(self, codes, sizes, weights=None):
        self.sizes = [int(k) for k in sizes]
        weights = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=float)
        self.price = 0.0
        return self.grow(codes, weights, list(range(codes.shape[1])), self.root_ess)

    def mean_entropy(self, codes, weights, columns, ess):
        entropies = []
        for j in columns:
            counts = joint(codes, self.sizes, [j], weights)
            entropies.append(entropy((counts + ess / self.sizes[j]) / (weights.sum() + ess)))
        return np.mean(entropies)

    def grow(self, codes, weights, columns, ess):
        node = self.leaf(codes, weights, columns, ess)
        cuttable = [c for c in columns if self.sizes[c] > 1]
        if weights.sum() <= self.rows or len(columns) <= self.columns or not cuttable:
            return node
        mean = self.mean_entropy(codes, weights, columns, ess)
        gains = [mean + self.gain(codes, weights, columns, c, ess) for c in cuttable]
        if mean < self.entropy or max(gains) <= self.least_gain + 1e-12:
            return node
        node.cut = self.choose(gains, cuttable)
        counts = joint(codes, self.sizes, [node.cut], weights)
        node.cut_score = self.family(counts, ess / 2)
        rest = [j for j in columns if j != node.cut]
        for state in range(self.sizes[node.cut]):
            inside = codes[:, node.cut] == state
            node.children.append(self.grow(codes[inside], weights[inside], rest, ess))
        return node


class NaiveDCSN:
    """Likelihood-guided cuts over tables that shrink to the whole training set."""

    def __init__(self, rate, rows, columns, forest=False):
        self.rate, self.rows, self.columns, self.forest = rate, rows, columns, forest

    def learn(self, codes, sizes):
        self.sizes = [int(k) for k in sizes]
        self.whole = codes
        return self.grow(codes, list(range(codes.shape[1])))

    def table(self, codes, columns):
        """Probabilities of the joint states of one or two columns."""
        whole = joint(self.whole, self.sizes, columns, np.ones(len(self.whole)))
        whole = (whole + 1 / whole.size) / (len(self.whole) + 1)
        own = joint(codes, self.sizes, columns, np.ones(len(codes)))
        a = self.rate * len(codes)
        return (own + a * whole) / (len(codes) + a)

    def information(self, codes, u, v):
        p = self.table(codes, [u, v])
        return entropy(p.sum(axis=0)) + entropy(p.sum(axis=1)) - entropy(p)

    def leaf(self, codes, columns):
        m = len(columns)
        weight = {
            (s, t): self.information(codes, columns[s], columns[t])
            for s, t in itertools.combinations(range(m), 2)
        }
        edges = spanning_tree(_Symmetric(weight, m))
        if self.forest:
            least = math.log(len(codes)) / (2 * len(codes))
            edges = [e for e in edges if weight[min(e), max(e)] >= least]
        named = frozenset(tuple(sorted((columns[u], columns[v]))) for u, v in edges)
        node = NaiveNode(columns, named, 0.0, len(codes))
        node.tables = []
        for v, u in direct(edges, m).items():
            family = [columns[v]] if u is None else [columns[u], columns[v]]
            p = self.table(codes, family)
            node.tables.append((family, np.log(p / p.sum(axis=-1, keepdims=True))))
        node.score = sum(self.log_tree(node, row) for row in codes)
        return node

    def log_tree(self, node, row):
        return sum(table[tuple(row[c] for c in family)] for family, table in node.tables)

    def log_probability(self, node, row):
        if node.cut is None:
            return self.log_tree(node, row)
        child = node.children[row[node.cut]]
        return math.log(child.n / node.n) + self.log_probability(child, row)

    def grow(self, codes, columns):
        node = self.leaf(codes, columns)
        n = len(codes)
        if n <= self.rows or len(columns) <= self.columns:
            return node
        best = None
        for c in columns:
            parts = [codes[codes[:, c] == state] for state in range(self.sizes[c])]
            if self.sizes[c] < 2 or min(map(len, parts)) == 0:
                continue
            rest = [j for j in columns if j != c]
            cut = sum(len(part) * math.log(len(part) / n) for part in parts)
            total = cut + sum(self.leaf(part, rest).score for part in parts)
            if best is None or total > best[0] + 1e-9:
                best = (total, c, cut, parts, rest)
        n_all = len(self.whole)
        if best is None or (best[0] - node.score) / n <= math.log(n_all) / (2 * n_all):
            return node
        _, node.cut, node.cut_score, parts, rest = best
        node.children = [self.grow(part, rest) for part in parts]
        return node
