"""The paper's learner written for reading: loops over rows and cells, scipy's gammaln, no tables.

The twin of `bayescut.learn`. It knows nothing of bits, subtraction or potentials.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln


def joint(codes, sizes, columns, weights):
    """Weighted counts of the joint states of some columns."""
    table = np.zeros([sizes[c] for c in columns])
    for row, weight in zip(codes, weights, strict=True):
        table[tuple(row[c] for c in columns)] += weight
    return table


def bd_family(table, ess):
    """Bayes-Dirichlet score of the last axis given the others, ``ess`` over all cells."""
    a = ess / table.size
    parents = table.sum(axis=-1)
    a_parents = ess / parents.size
    score = np.sum(gammaln(table + a) - gammaln(a))
    return float(score - np.sum(gammaln(parents + a_parents) - gammaln(a_parents)))


def ll_family(table, ess):
    """Log-likelihood of the last axis given the others under smoothed parameters."""
    a = ess / table.size
    total = table.sum() + ess
    p_joint = (table + a) / total
    p_parents = p_joint.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = table * np.log(p_joint / p_parents)
    return float(np.sum(np.where(table > 0, terms, 0.0)))


def mutual_information(table, ess):
    """Mutual information of the smoothed joint table of two columns."""
    p = (table + ess / table.size) / (table.sum() + ess)
    outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * np.log(p / outer)
    return float(np.sum(np.where(p > 0, terms, 0.0)))


def spanning_tree(weights):
    """Kruskal's algorithm; ties (to 1e-12) in the order of the edges. Returns the edges."""
    m = len(weights)
    edges = sorted(itertools.combinations(range(m), 2), key=lambda e: (-round(weights[e], 12), e))
    group = list(range(m))
    tree = []
    for u, v in edges:
        if group[u] != group[v]:
            tree.append((u, v))
            old, new = group[v], group[u]
            group = [new if g == old else g for g in group]
    return tree


def direct(edges, m):
    """Direct a forest away from the lowest column of every component."""
    parent = {v: None for v in range(m)}
    seen: set[int] = set()
    for root in range(m):
        stack = [root] if root not in seen else []
        seen.add(root)
        while stack:
            u = stack.pop()
            for a, b in edges:
                for x, y in ((a, b), (b, a)):
                    if x == u and y not in seen:
                        parent[y] = u
                        seen.add(y)
                        stack.append(y)
    return parent


@dataclass
class NaiveNode:
    columns: list[int]
    edges: frozenset[tuple[int, int]]
    score: float
    n: float
    cut: int | None = None
    cut_score: float = 0.0
    children: list[NaiveNode] = field(default_factory=list)

    def total_score(self):
        if self.cut is None:
            return self.score
        return self.cut_score + sum(c.total_score() for c in self.children)

    def signature(self):
        """Cuts and edges, comparable between learners."""
        if self.cut is None:
            return self.edges
        return (self.cut, tuple(c.signature() for c in self.children))


class NaiveLearner:
    """Algorithm 1 of the paper with the BD score or the corrected BIC."""

    def __init__(self, kind, *, ess=0.1, beta=0.01, n_candidates=10):
        self.bd = kind == "BD"
        self.root_ess = ess if self.bd else 4 * beta
        self.n_candidates = n_candidates

    def learn(self, codes, sizes, weights=None):
        self.sizes = [int(k) for k in sizes]
        weights = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=float)
        self.price = 0.0 if self.bd else 0.5 * math.log(weights.sum())
        return self.grow(codes, weights, list(range(codes.shape[1])), self.root_ess)

    def family(self, table, ess):
        return bd_family(table, ess) if self.bd else ll_family(table, ess)

    def leaf(self, codes, weights, columns, ess):
        m = len(columns)
        weight = {}
        for s, t in itertools.combinations(range(m), 2):
            table = joint(codes, self.sizes, [columns[s], columns[t]], weights)
            weight[s, t] = mutual_information(table, ess)
        edges = spanning_tree(_Symmetric(weight, m))
        score = 0.0
        for v, u in direct(edges, m).items():
            family = [columns[v]] if u is None else [columns[u], columns[v]]
            table = joint(codes, self.sizes, family, weights)
            score += self.family(table, ess) - self.price * table[..., 1:].size
        named = frozenset(tuple(sorted((columns[u], columns[v]))) for u, v in edges)
        return NaiveNode(columns, named, score, float(weights.sum()))

    def gain(self, codes, weights, columns, c, ess):
        after = 0.0
        for state in range(self.sizes[c]):
            inside = codes[:, c] == state
            n_state = weights[inside].sum()
            if n_state <= 0:
                continue
            entropies = []
            for j in columns:
                if j == c:
                    continue
                counts = joint(codes[inside], self.sizes, [j], weights[inside])
                p = (counts + ess / self.sizes[j]) / (n_state + ess)
                entropies.append(-sum(x * math.log(x) for x in p if x > 0))
            after += n_state / weights.sum() * np.mean(entropies)
        return -after

    def grow(self, codes, weights, columns, ess):
        node = self.leaf(codes, weights, columns, ess)
        cuttable = [c for c in columns if self.sizes[c] > 1]
        if len(columns) < 2 or not cuttable:
            return node
        gains = [round(self.gain(codes, weights, columns, c, ess), 11) for c in cuttable]
        order = np.argsort([-g for g in gains], kind="stable")[: self.n_candidates]
        best = None
        for i in order:
            c = cuttable[i]
            counts = joint(codes, self.sizes, [c], weights)
            if (counts > 0).sum() < 2:
                continue
            rest = [j for j in columns if j != c]
            child_ess = ess / self.sizes[c] if self.bd else ess
            cut = self.family(counts, ess if self.bd else ess / 2)
            cut -= self.price * (self.sizes[c] - 1)
            total = cut
            for state in range(self.sizes[c]):
                inside = codes[:, c] == state
                total += self.leaf(codes[inside], weights[inside], rest, child_ess).score
            if best is None or total > best[0] + 1e-9:
                best = (total, c, cut, child_ess, rest)
        if best is None or best[0] <= node.score + 1e-9:
            return node
        _, node.cut, node.cut_score, child_ess, rest = best
        for state in range(self.sizes[node.cut]):
            inside = codes[:, node.cut] == state
            node.children.append(self.grow(codes[inside], weights[inside], rest, child_ess))
        return node


class _Symmetric(dict):
    def __init__(self, weights, m):
        super().__init__(weights)
        self.m = m

    def __len__(self):
        return self.m
