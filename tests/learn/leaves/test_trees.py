import itertools
import math

import numpy as np
import pytest
from tests.learn.small import table_of
from tests.oracle.naive_learner import (
    _Symmetric,
    bd_family,
    direct,
    joint,
    mutual_information,
    spanning_tree,
)

from bayescut.counts import count_pairs
from bayescut.data.bits import bit_layout
from bayescut.learn.leaves.treeleaves import Trees
from bayescut.learn.leaves.trees import TreeRule, grow_tree, judge_tree
from bayescut.scores import NoPrior, SmoothedLikelihood
from bayescut.scores.potentials import LGAMMA, LOGLIK, XLOGX, PotentialTables


def run(codes, sizes, rule, ess, *, weights=None, tabulate=True, active=None):
    layout = bit_layout(np.arange(len(sizes)), np.array(sizes))
    pairs = count_pairs(codes, layout, sample_weight=weights)
    n = pairs.counts.dtype.type(pairs.n)
    active = np.arange(len(sizes)) if active is None else np.array(active)
    table = np.empty(0)
    if tabulate and weights is None:
        table = PotentialTables().get(rule.choose, ess / 4, len(codes))
    parent, order = np.full(len(sizes), -1), np.full(len(active), -1)
    shape = (layout.sizes, layout.ptr, active, ess)
    grow_tree(rule, pairs.counts, n, *shape, table, parent, order)
    score = judge_tree(rule, pairs.counts, n, *shape, parent)
    return parent, order, score, layout, pairs


def edges_of(parent, active):
    return frozenset(tuple(sorted((v, int(parent[v])))) for v in active if parent[v] >= 0)


TABLES = {
    "random": (200, [2] * 8, 0.4),
    "sparse": (60, [2] * 12, 0.04),  # most columns constant: ties everywhere
    "one row": (1, [2] * 5, 0.5),
    "one column": (10, [2], 0.5),
    "states": (150, [3, 2, 4, 1, 2, 3], None),
    "constant": (30, [2] * 6, 0.0),
    "all ones": (30, [2] * 6, 1.0),
}


def make(name, seed=0):
    n, sizes, density = TABLES[name]
    rng = np.random.default_rng(seed)
    if density is None:
        base = rng.integers(0, 12, size=(n, 1))
        codes = (base + rng.integers(0, 4, size=(n, len(sizes)))) % np.array(sizes)
    else:
        codes = rng.random((n, len(sizes))) < density
    return codes.astype(np.uint8), sizes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tabulate", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_spanning_trees_agree_with_kruskal(name, tabulate, weighted):
    codes, sizes = make(name)
    m = len(sizes)
    weights = np.ones(len(codes))
    if weighted:
        weights = np.random.default_rng(1).random(len(codes)) + 0.1
    ess = 0.05
    rule = TreeRule(XLOGX, LGAMMA, True, 0.0, 0.0, 0.0)
    parent, order, score, _, _ = run(
        codes, sizes, rule, ess, weights=weights if weighted else None, tabulate=tabulate
    )
    found = edges_of(parent, range(m))
    pairs = itertools.combinations(range(m), 2)
    mi = {e: mutual_information(joint(codes, sizes, e, weights), ess) for e in pairs}
    expected = spanning_tree(_Symmetric(mi, m))
    assert len(found) == m - 1
    if not weighted:  # the last bits of weighted sums make ties of their own
        assert found == frozenset(expected)
    assert sum(mi[e] for e in found) == pytest.approx(sum(mi[e] for e in expected), abs=1e-9)
    # The order runs from the root.
    place = {int(v): i for i, v in enumerate(order)}
    assert sorted(place) == list(range(m))
    assert all(place[int(parent[v])] < place[v] for v in range(m) if parent[v] >= 0)
    total = 0.0
    for v, u in direct(found, m).items():
        total += bd_family(joint(codes, sizes, [v] if u is None else [u, v], weights), ess)
    assert score == pytest.approx(total, rel=1e-10, abs=1e-10)


def all_forests(m):
    pairs = list(itertools.combinations(range(m), 2))
    for size in range(m):
        for edges in itertools.combinations(pairs, size):
            group = list(range(m))
            for u, v in edges:
                if group[u] == group[v]:
                    break
                group = [group[u] if g == group[v] else g for g in group]
            else:
                yield edges


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [[2] * 5, [2, 3, 2, 4]])
@pytest.mark.parametrize("kind", [LGAMMA, LOGLIK])
def test_the_forest_is_the_best_of_all_forests(seed, sizes, kind):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, size=(40, 1))
    noise = rng.integers(0, 3, size=(40, len(sizes))) * (rng.random((40, len(sizes))) < 0.6)
    codes = ((base + noise) % np.array(sizes)).astype(np.uint8)
    cost = math.log(len(sizes))
    price = 0.4 if kind == LOGLIK else 0.0
    rule = TreeRule(kind, kind, False, price, cost, 0.0)
    _, _, score, layout, pairs = run(codes, sizes, rule, 1.0)
    active = np.arange(len(sizes))

    def worth(edges):
        other = np.full(len(sizes), -1)
        for v, u in direct(edges, len(sizes)).items():
            other[v] = -1 if u is None else u
        n = np.int32(len(codes))
        return judge_tree(rule, pairs.counts, n, layout.sizes, layout.ptr, active, 1.0, other)

    best = max(worth(edges) for edges in all_forests(len(sizes)))
    assert score == pytest.approx(best, rel=1e-12)


def test_forests_leave_independent_columns_alone():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, size=(400, 6)).astype(np.uint8)
    codes[:, 5] = codes[:, 0]
    rule = TreeRule(LGAMMA, LGAMMA, False, 0.0, math.log(6), 0.0)
    parent, _, _, _, _ = run(codes, [2] * 6, rule, 1.0)
    assert edges_of(parent, range(6)) == {(0, 5)}


def test_only_active_columns_are_touched():
    codes, sizes = make("random")
    rule = TreeRule(XLOGX, LGAMMA, True, 0.0, 0.0, 0.0)
    parent, order, _, _, _ = run(codes, sizes, rule, 0.1, active=[1, 4, 6])
    assert sorted(order) == [1, 4, 6]
    assert set(np.flatnonzero(parent >= 0)) <= {1, 4, 6}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["random", "states", "one row"])
@pytest.mark.parametrize("ess", [0.0, 0.8])
def test_parameters_are_posterior_means(name, weighted, ess):
    codes, sizes = make(name)
    weights = np.random.default_rng(1).random(len(codes)) if weighted else np.ones(len(codes))
    table = table_of(codes, sizes, weights if weighted else None)
    layout = bit_layout(np.arange(len(sizes)), np.array(sizes))
    pairs = count_pairs(table.codes, layout, sample_weight=table.weights)
    leaves = Trees().leaves(SmoothedLikelihood(), NoPrior(), pairs, None)
    fit = leaves.fit(table, table.weighty(), np.arange(len(sizes)), 0.8, len(sizes))
    leaf = leaves.settle(fit._replace(ess=ess))
    flat = leaf.tables
    parent = np.full(len(sizes), -1)
    parent[leaf.columns[leaf.hosts >= 0]] = leaf.parents
    start = 0
    for f, v in enumerate(leaf.columns):
        u = parent[v]
        family = [v] if u < 0 else [u, v]
        assert list(leaf.parents[leaf.parent_ptr[f] : leaf.parent_ptr[f + 1]]) == family[:-1]
        assert leaf.hosts[f] == (-1 if u < 0 else list(leaf.columns).index(u))
        counts = joint(codes, sizes, family, weights)
        smooth = counts + ess / counts.size
        whole = smooth.sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = np.where(whole > 1e-12, smooth / whole, 1.0 / sizes[v])
        found = flat[start : start + counts.size].reshape(counts.shape)
        np.testing.assert_allclose(np.exp(found), expected, atol=1e-10)
        start += counts.size
    assert start == len(flat)
