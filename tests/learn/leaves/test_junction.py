import math

import numpy as np
import pytest
from tests.learn.small import table_of
from tests.oracle.naive_learner import bd_family, joint

from bayescut import CutsetNetwork
from bayescut.counts.families import count_families, weight_planes
from bayescut.data import Domains
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.cutset.widen import fit_leaves
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.treeleaves import Trees
from bayescut.scores import BIC, BayesDirichlet, NoPrior, StructurePrior


def naive_junction(codes, sizes, weights, width, ess, cost, max_cells):
    """The same search in plain Python: families offered, parents by forward selection."""
    m = len(sizes)

    def score(v, parents):
        table = joint(codes, sizes, [*parents, v], weights)
        return bd_family(table, ess) - cost * len(parents)

    alone = [score(v, []) for v in range(m)]
    offers = {v: (0.0, [], -1) for v in range(m)}
    families, order, total = [], [], 0.0
    while offers:
        v = min(offers, key=lambda u: (-offers[u][0], u))
        gain, parents, host = offers.pop(v)
        families.append([*parents, v])
        order.append((v, parents, host))
        total += alone[v] + gain
        for u, (best, _, _) in list(offers.items()):
            chosen, current = [], alone[u]
            while len(chosen) < width:
                options = []
                for p in families[-1]:
                    cells = math.prod(sizes[c] for c in [*chosen, p, u])
                    fits = cells <= max_cells or not chosen
                    if p not in chosen and sizes[p] > 1 and fits:
                        options.append((score(u, [*chosen, p]), p))
                top = max(options, key=lambda o: o[0], default=None)
                if top is None or top[0] <= current + 1e-9:
                    break
                current = top[0]
                chosen.append(next(p for s, p in options if s > top[0] - 1e-12))
            if chosen and current - alone[u] > best + 1e-9:
                offers[u] = (current - alone[u], chosen, len(families) - 1)
    return order, total


def table(seed, n, sizes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    for j in range(2, len(sizes)):
        mixed = (codes[:, j - 1] + codes[:, j - 2]) % sizes[j]
        codes[:, j] = np.where(rng.random(n) < 0.85, mixed, codes[:, j])
    return codes.astype(np.uint8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [0, 1, 2, 4])
@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (200, [2] * 7),
        (150, [3, 2, 3, 2, 4]),
        (1, [2, 2, 2]),
        (60, [2, 1, 3, 2]),
        (900, [3, 4, 3, 1, 3, 3]),  # of three parents there is no room for the third
    ],
)
def test_junction_trees_agree_with_the_naive_twin(n, sizes, width, weighted):
    codes = table(n + width, n, sizes)
    weights = np.ones(n)
    if weighted:
        weights = np.random.default_rng(0).integers(1, 2**20, n) / 2**20
        weights[0] = 1.0
    leaves = JunctionLeaves(BayesDirichlet(1.0, divide=False), StructurePrior(), width, n)
    whole = table_of(codes, sizes, weights if weighted else None)
    fit = leaves.fit(whole, whole.weighty(), np.arange(len(sizes)), 1.0, len(sizes))
    max_cells = max(2 ** (width + 1), 64 if max(sizes) > 2 else 0)
    order, total = naive_junction(
        codes, sizes, weights, width, 1.0, math.log(len(sizes)), max_cells
    )
    assert fit.score == pytest.approx(total, rel=1e-6)
    leaf = leaves.settle(fit)
    found = [
        (int(v), leaf.parents[leaf.parent_ptr[f] : leaf.parent_ptr[f + 1]].tolist(), int(h))
        for f, (v, h) in enumerate(zip(leaf.columns, leaf.hosts, strict=True))
    ]
    assert found == order
    start = 0
    for v, parents, _ in order:
        counts = joint(codes, sizes, [*parents, v], weights)
        smooth = counts + 1.0 / counts.size
        expected = smooth / smooth.sum(axis=-1, keepdims=True)
        cells = np.exp(leaf.tables[start : start + counts.size])
        np.testing.assert_allclose(cells, expected.ravel(), rtol=1e-6)
        start += counts.size


def test_a_column_may_depend_on_several_at_once():
    # Columns 0 and 1 are alike, column 2 is their conjunction but for three rows, column 3 is
    # nobody's business.
    counts = {
        (0, 0, 0): 40,
        (0, 1, 0): 12,
        (1, 0, 0): 12,
        (1, 1, 1): 40,
        (1, 1, 0): 2,
        (0, 0, 1): 1,
    }
    codes = np.array([(*row, i % 2) for row, n in counts.items() for i in range(n)], dtype=np.uint8)
    sizes = [2] * 4
    leaves = JunctionLeaves(BayesDirichlet(1.0, divide=False), StructurePrior(), 2, len(codes))
    whole = table_of(codes, sizes)
    leaf = leaves.settle(leaves.fit(whole, whole.weighty(), np.arange(4), 1.0, 4))
    families = {
        int(v): set(leaf.parents[leaf.parent_ptr[f] : leaf.parent_ptr[f + 1]].tolist())
        for f, v in enumerate(leaf.columns)
    }
    # The three depend on each other: the last of them has both others as its parents.
    assert sorted(len(parents) for parents in families.values()) == [0, 0, 1, 2]
    assert families[3] == set() and not any(3 in parents for parents in families.values())
    root = Settled(n=len(codes), ess=1.0, n_choices=4, columns=np.arange(4), leaf=leaf)
    circuit = freeze_cutset(root, whole.domains)
    worlds = np.array(list(np.ndindex(2, 2, 2, 2)), dtype=np.uint8)
    # Posterior means of every family with a prior of one row, multiplied by hand.
    expected = np.zeros(len(worlds))
    for v, parents in families.items():
        columns = [*sorted(parents), v]
        cells = joint(codes, sizes, columns, np.ones(len(codes))) + 1.0 / 2 ** len(columns)
        table_ = np.log(cells / cells.sum(axis=-1, keepdims=True))
        expected += [table_[tuple(world[columns])] for world in worlds]
    np.testing.assert_allclose(circuit.log_likelihood(worlds), expected, rtol=1e-12)
    assert np.exp(expected).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_width_one_is_the_best_forest(seed):
    sizes = np.array([2, 2, 3, 2, 2])
    codes = table(seed, 120, sizes)
    score, prior = BayesDirichlet(1.0, divide=False), StructurePrior()
    whole = table_of(codes, sizes)
    wide = JunctionLeaves(score, prior, 1, 120).fit(whole, whole.weighty(), np.arange(5), 1.0, 5)
    root = CutsetLearner(score, prior, Trees(False, False), TopGain(1)).learn(whole)
    assert root.score == pytest.approx(wide.score, rel=1e-10)


def test_pruning_keeps_the_better_of_leaf_and_cut():
    sizes = np.full(8, 2)
    codes = table(3, 400, sizes)
    score, prior = BayesDirichlet(1.0, divide=False), StructurePrior()
    learner = CutsetLearner(score, prior, Trees(False, False))
    whole = table_of(codes, sizes)
    before = learner.learn(whole).total_score()
    root = learner.cut(whole)
    assert root.n_cuts > 0
    assert all(node.leaf is None for node in root.walk())
    assert root.total_score() == before
    fit_leaves(root, whole, whole.weighty(), JunctionLeaves(score, prior, 3, 400))
    assert root.total_score() >= before - 1e-9
    circuit = freeze_cutset(root, Domains.of_sizes(sizes))
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    assert np.exp(circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0)
    assert circuit.properties.deterministic
    for node in root.walk():
        assert (node.leaf is None) == (node.cut is not None)
        if node.cut is not None:
            assert sum(c.total_score() for c in node.children) + node.cut_score > node.score


@pytest.mark.parametrize("score", [BayesDirichlet(1.0, divide=False), BIC(0.5)])
def test_networks_do_not_depend_on_threads_and_know_weights(score):
    sizes = np.array([2] * 6 + [3, 3])
    codes = table(1, 300, sizes)
    learner = NetworkLearner(score, StructurePrior(), width=3)
    one, two = (
        NetworkLearner(score, StructurePrior(), 3, n_jobs=jobs).learn(table_of(codes, sizes))
        for jobs in (1, 2)
    )
    assert one.total_score() == two.total_score()
    weights = np.random.default_rng(0).integers(0, 3, 300)
    twice = learner.learn(table_of(np.repeat(codes, weights, axis=0), sizes))
    weighted = learner.learn(table_of(codes, sizes, weights.astype(float)))
    assert weighted.total_score() == pytest.approx(twice.total_score(), rel=1e-6)
    leaf = NetworkLearner(score, StructurePrior(), 3, candidates=None).learn(table_of(codes, sizes))
    assert leaf.cut is None and leaf.total_score() <= one.total_score() + 1e-9


def test_weight_planes():
    weights = np.random.default_rng(0).random(130)
    planes, unit = weight_planes(weights)
    words = planes.view(np.uint8)
    bits = np.unpackbits(words, axis=1, bitorder="little")[:, :130].astype(float)
    np.testing.assert_allclose((2.0 ** np.arange(25)) @ bits * unit, weights, atol=unit)


@pytest.mark.parametrize("span", [10, 25, 40, 48])
@pytest.mark.parametrize("scale", [1e-280, 1.0, 1e290])
def test_light_rows_beside_heavy_ones_are_counted(span, scale):
    """Rows that no heavy one shares a cell with have counts of their own."""
    rng = np.random.default_rng(span)
    codes = np.zeros((130, 3), dtype=np.uint8)
    codes[:, 0] = np.arange(130) % 2
    codes[:, 1:] = rng.integers(0, 2, (130, 2))
    weights = scale * rng.uniform(1, 4, 130)
    weights[::2] *= 2.0**-span
    counts = count_families(
        codes, np.arange(130, dtype=np.int32), np.array([2, 2, 2]), weights,
        np.array([0, 1, 2]), np.array([0, 0, 1, 3]), np.array([0, 0, 1]),
    )  # fmt: skip
    naive = [weights[codes[:, 0] == x].sum() for x in (0, 1)]
    for key in ((0, 1), (0, 1, 2)):
        for cell in np.ndindex(*[2] * len(key)):
            naive.append(weights[(codes[:, key] == cell).all(axis=1)].sum())
    np.testing.assert_allclose(counts, naive, rtol=2e-3)


def test_light_rows_in_wide_leaves():
    """A state that only light rows have is as probable as they say."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 6), dtype=np.uint8)
    X[:, 0] = np.arange(400) < 200
    X[:200, 1] = 1
    weights = np.where(X[:, 0] == 1, 1.0, 2.0**30)
    model = CutsetNetwork(n_candidates=1, structure_prior=False).fit(X, sample_weight=weights)
    asked = model.conditional_log_likelihood({1: 1}, {0: 1})
    assert np.exp(asked)[0] == pytest.approx(1.0, abs=0.02)


def test_the_prior_is_normalised_over_parent_sets():
    m, width = 6, 2
    prior = StructurePrior(constants=True)
    total = 0.0
    for k in range(width + 1):
        total += math.comb(m - 1, k) * math.exp(-k * prior.parent_cost(m))
    # One column's share of the leaf's cost is the logarithm of that sum.
    assert prior.leaf_cost(m, width) == pytest.approx(math.log(2) + m * math.log(total))
    assert math.exp(-prior.cut_cost(m)) * m + 0.5 == pytest.approx(1.0)
    free = NoPrior()
    assert free.parent_cost(9) == free.leaf_cost(9, 2) == free.cut_cost(9) == 0.0


def test_large_nodes_without_tables_of_potentials_are_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    X = table(5, 900, np.array([2, 3, 2, 4, 2, 2]))
    X[:, 1] = np.where(rng.random(900) < 0.8, X[:, 0], X[:, 1])
    looked_up = CutsetNetwork(n_jobs=2).fit(X)
    monkeypatch.setattr("bayescut.learn.leaves.junction._MAX_TABLE", 200)
    monkeypatch.setattr("bayescut.learn.cutset.widen._MANY_ROWS", 300)
    worked_out = CutsetNetwork(n_jobs=2).fit(X)
    assert looked_up.structure_score_ == pytest.approx(worked_out.structure_score_, rel=1e-12)
    np.testing.assert_array_equal(looked_up.score_samples(X), worked_out.score_samples(X))
