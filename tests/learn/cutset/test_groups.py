import itertools

import numpy as np
import pytest
from tests.learn.small import table_of
from tests.oracle import naive_groups
from tests.oracle.naive_learner import bd_family

from bayescut.circuit import Circuit
from bayescut.counts.pairs import count_pairs
from bayescut.data.bits import bit_layout
from bayescut.learn.cutset import kept
from bayescut.learn.cutset import learner as cutset
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.grouped import split_pairs
from bayescut.learn.cutset.groups import best_sets
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.learn.leaves.celltables import CellTables
from bayescut.learn.leaves.forests import best_forest
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.merging import divisions, merge_states
from bayescut.learn.leaves.shrinkage import Outside
from bayescut.learn.leaves.treeleaves import Trees
from bayescut.learn.leaves.trees import TreeRule
from bayescut.scores import BayesDirichlet
from bayescut.scores.circuit_score import bayes_score
from bayescut.scores.potentials import LGAMMA
from bayescut.scores.prior import NoPrior, StructurePrior

FORESTS = Trees(by_mutual_information=False, spanning=False)
SIZES = [5, 3, 2, 6, 4]


def rows_with_groups(seed, n, sizes=SIZES):
    """Rows in which a set of states of the first column decides how the others depend."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    odd = np.isin(codes[:, 0], [1, 3])
    for j in range(1, len(sizes)):
        far = np.where(odd, codes[:, j - 1], sizes[j] - 1 - codes[:, max(j - 2, 1)])
        kept = rng.random(n) < 0.75
        codes[:, j] = np.where(kept, far, codes[:, j]) % sizes[j]
    return codes.astype(np.uint8)


def weights_of(n, weighted, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 3.0, n) if weighted else None


CASES = {
    "plain": (300, SIZES, False),
    "weights": (200, SIZES, True),
    "few rows": (9, SIZES, False),
    "a constant": (150, [4, 1, 3, 2, 5], False),
    "states without rows": (12, [9, 7, 3, 2], False),
}


def counted(name):
    n, sizes, weighted = CASES[name]
    codes, weights = rows_with_groups(3, n, sizes), weights_of(n, weighted)
    layout = bit_layout(np.arange(len(sizes)), np.array(sizes))
    return codes, sizes, weights, count_pairs(codes, layout, None, weights)


@pytest.mark.parametrize("name", CASES)
def test_the_best_set_gains_what_a_look_at_the_rows_says(name):
    codes, sizes, weights, pairs = counted(name)
    every = np.ones(len(codes)) if weights is None else weights
    layout, m = pairs.layout, len(sizes)
    gain, first = np.empty(m), np.concatenate([[0], np.cumsum(sizes)])
    inside = np.zeros(first[-1], dtype=bool)
    cells = CellTables(LGAMMA, 0 if weights is not None else len(codes)).get(1.0, layout.sizes)
    args = (pairs.counts, pairs.counts.dtype.type(pairs.n), layout.sizes, layout.ptr, np.arange(m))
    for ordered in (False, True):
        best_sets(*args, np.full(m, ordered), 1.0, LGAMMA, cells, gain, inside, first[:-1].copy())
        for c in range(m):
            filled = np.unique(codes[:, c]).tolist()
            if len(filled) < 2:
                assert gain[c] == -np.inf
                continue
            chosen = np.flatnonzero(inside[first[c] : first[c + 1]])
            found = naive_groups.set_gain(codes, sizes, c, chosen, every, 1.0)
            assert gain[c] == pytest.approx(found, abs=1e-6)
            natural = [
                naive_groups.set_gain(codes, sizes, c, s, every, 1.0)
                for s in naive_groups.prefixes(filled)
            ]
            if ordered:
                assert gain[c] == pytest.approx(max(natural), abs=1e-6)
            else:
                assert gain[c] >= max(natural) - 1e-6


def test_states_are_told_apart_by_what_they_do_whatever_their_order():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 8, size=(2000, 4))
    for j in range(1, 4):
        codes[:, j] = rng.random(2000) < np.where(np.isin(codes[:, 0], [0, 3, 4, 7]), 0.8, 0.2)
    sizes = [8, 2, 2, 2]
    layout = bit_layout(np.arange(4), np.array(sizes))
    pairs = count_pairs(codes.astype(np.uint8), layout)
    gain, inside = np.empty(4), np.zeros(14, dtype=bool)
    cells = CellTables(LGAMMA, 2000).get(1.0, layout.sizes)
    best_sets(
        pairs.counts, np.int32(2000), layout.sizes, layout.ptr, np.arange(4), np.zeros(4, bool),
        1.0, LGAMMA, cells, gain, inside, np.array([0, 8, 10, 12]),
    )  # fmt: skip
    assert set(np.flatnonzero(inside[:8]).tolist()) in ({0, 3, 4, 7}, {1, 2, 5, 6})
    order = naive_groups.axis_order(codes, sizes, 0, np.ones(2000))
    best = max(
        naive_groups.set_gain(codes, sizes, 0, s, np.ones(2000), 1.0)
        for s in naive_groups.prefixes(order)
    )
    assert gain[0] == pytest.approx(best, abs=1e-6)


def kept_by_kernel(codes, sizes, weights, pairs, questions, ess):
    """Worth of the questions, one for every column, and the edges of the forest that is kept."""
    table = table_of(codes, np.array(sizes), weights)
    rule = TreeRule(LGAMMA, LGAMMA, False, 0.0, 0.7, 0.0)
    tables = CellTables(LGAMMA, 0 if weights is not None else len(codes))
    tree = best_forest(rule, pairs, np.arange(len(sizes)), 1.0, tables)
    first = np.concatenate([[0], np.cumsum(sizes)])
    inside = np.zeros(first[-1], dtype=bool)
    for c, states in questions.items():
        inside[first[c] + np.array(sorted(states))] = True
    found = kept.rank_kept(
        rule, table, np.arange(len(codes), dtype=np.int32), pairs, tree, np.array([*questions]),
        inside, first[:-1].copy(), ess, 1.0, tables.get(ess, pairs.layout.sizes),
        CellTables(LGAMMA, 0).get(ess, pairs.layout.sizes),
    )  # fmt: skip
    edges = [(int(u), v) for v, u in enumerate(tree.parent) if u >= 0]
    return found, edges


@pytest.mark.parametrize("ess", [1.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_cuts_that_keep_the_forest_are_worth_what_a_look_at_the_rows_says(name, ess):
    codes, sizes, weights, pairs = counted(name)
    every = np.ones(len(codes)) if weights is None else weights
    for upper in (False, True):  # sets of one state, and sets that leave one
        questions = {c: {0} if upper else set(range(1, k)) for c, k in enumerate(sizes) if k > 1}
        found, edges = kept_by_kernel(codes, sizes, weights, pairs, questions, ess)
        for worth, (c, states) in zip(found, questions.items(), strict=True):
            expected = naive_groups.kept_worth(codes, sizes, c, states, edges, every, ess, 1.0, 0.7)
            assert worth == pytest.approx(expected, rel=1e-9)
    middle = {c: {0, 2} for c, k in enumerate(sizes) if k > 3}
    found, edges = kept_by_kernel(codes, sizes, weights, pairs, middle, ess)
    for worth, (c, states) in zip(found, middle.items(), strict=True):
        expected = naive_groups.kept_worth(codes, sizes, c, states, edges, every, ess, 1.0, 0.7)
        assert worth == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_large_nodes_are_ranked_by_a_part_of_their_rows(weighted, monkeypatch):
    codes, weights = rows_with_groups(3, 4000), weights_of(4000, weighted)
    layout = bit_layout(np.arange(5), np.array(SIZES))
    pairs = count_pairs(codes, layout, None, weights)
    questions = {0: {1, 3}, 1: {0}, 2: {1}, 3: {0, 2}, 4: {0, 1}}
    exact, _ = kept_by_kernel(codes, SIZES, weights, pairs, questions, 1.0)
    monkeypatch.setattr(kept, "_MOST_ROWS", 1500)
    guess, _ = kept_by_kernel(codes, SIZES, weights, pairs, questions, 1.0)
    assert not np.array_equal(guess, exact)
    assert np.abs(guess / exact - 1.0).max() < 0.02
    assert guess.argsort().tolist() == exact.argsort().tolist()


@pytest.mark.parametrize("name", CASES)
def test_forests_are_the_best_by_kruskal(name):
    codes, sizes, weights, pairs = counted(name)
    every = np.ones(len(codes)) if weights is None else weights
    rule = TreeRule(LGAMMA, LGAMMA, False, 0.0, 0.7, 0.0)
    tables = CellTables(LGAMMA, 0 if weights is not None else len(codes))
    tree = best_forest(rule, pairs, np.arange(len(sizes)), 1.0, tables)
    expected = naive_groups.forest_score(codes, sizes, range(len(sizes)), every, 1.0, 0.7)
    assert tree.score == pytest.approx(expected, rel=1e-9)
    assert sorted(tree.order.tolist()) == list(range(len(sizes)))


def test_counts_beyond_the_tables_are_worked_out():
    codes = rows_with_groups(0, 400)
    layout = bit_layout(np.arange(5), np.array(SIZES))
    pairs = count_pairs(codes, layout)
    rule = TreeRule(LGAMMA, LGAMMA, False, 0.0, 0.0, 0.0)
    scores = [
        best_forest(rule, pairs, np.arange(5), 1.0, CellTables(LGAMMA, n)).score
        for n in (0, 3, 400)
    ]
    assert scores == pytest.approx([scores[0]] * 3, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_branches_are_counted_as_if_from_their_rows(weighted):
    codes = rows_with_groups(5, 260)
    table = table_of(codes, np.array(SIZES), weights_of(260, weighted))
    layout = bit_layout(np.arange(5), np.array(SIZES))
    rows = np.arange(10, 250, dtype=np.int32)
    pairs = count_pairs(codes, layout, rows, table.weights)
    groups = [np.array([1, 3, 5]), np.array([0]), np.array([2, 4])]
    found = split_pairs(table, rows, pairs, 3, groups)
    for group, branch in zip(groups, found, strict=True):
        inside = rows[np.isin(codes[rows, 3], group)]
        few = layout.take_states(3, group)[0]
        expected = count_pairs(codes, few, inside, table.weights)
        assert branch.n == pytest.approx(expected.n)
        np.testing.assert_allclose(branch.counts, expected.counts, atol=1e-9)
        assert branch.layout.columns.tolist() == ([0, 1, 2, 4] if len(group) == 1 else [*range(5)])
        # Cutting again knows only the states that are left.
        for j in range(len(few.columns)):
            counts = np.bincount(
                codes[inside, few.columns[j]],
                None if table.weights is None else table.weights[inside],
                minlength=10,
            )
            np.testing.assert_allclose(branch.single(j), counts[few.states(j)], atol=1e-9)


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("divide", [False, True])
def test_the_score_is_the_marginal_likelihood_of_the_frozen_circuit(products, weighted, divide):
    codes = rows_with_groups(11, 700)
    table = table_of(codes, np.array(SIZES), weights_of(700, weighted))
    learner = CutsetLearner(
        BayesDirichlet(1.0, divide=divide), NoPrior(), FORESTS, groups=True, products=products
    )
    root = learner.learn(table)
    circuit = freeze_cutset(root, table.domains)
    grouped = [node for node in root.walk() if node.branches is not None]
    assert any(len(branch) > 1 for node in grouped for branch in node.branches)
    exact = bayes_score(circuit, codes, ess=1.0, divide=divide, sample_weight=table.weights)
    assert root.total_score() == pytest.approx(exact, rel=1e-9)


def network(codes, sizes, **settings):
    table = table_of(codes, np.array(sizes))
    score = BayesDirichlet(1.0, divide=False)
    learner = NetworkLearner(score, settings.pop("prior", NoPrior()), **settings)
    root = learner.learn(table)
    return root, freeze_cutset(root, table.domains)


@pytest.mark.parametrize("shrink", [False, True])
def test_networks_with_wide_leaves_have_that_score_too(shrink):
    codes = rows_with_groups(2, 900)
    root, circuit = network(codes, SIZES, shrink=shrink, merge=True)
    assert root.n_cuts > 0
    assert root.total_score() == pytest.approx(bayes_score(circuit, codes, divide=False), rel=1e-9)


def test_all_states_together_have_probability_one_and_queries_agree():
    sizes = [5, 3, 2, 4]
    codes = rows_with_groups(4, 800, sizes)
    _, circuit = network(codes, sizes)
    assert isinstance(circuit, Circuit)
    every = np.array(list(itertools.product(*map(range, sizes))), dtype=np.uint8)
    p = np.exp(circuit.log_likelihood(every))
    assert p.sum() == pytest.approx(1.0)
    for column, state in ((0, 3), (3, 1)):
        asked = np.full((1, 4), 255, dtype=np.uint8)
        asked[0, column] = state
        marginal = np.exp(circuit.log_likelihood(asked))[0]
        assert marginal == pytest.approx(p[every[:, column] == state].sum())


def test_of_several_searches_the_best_score_is_taken():
    sizes = [5, 3, 2, 6, 4, 3]
    codes = rows_with_groups(4, 900, sizes)
    one = [
        network(codes, sizes, candidates=TopGain(1), rankings=(ranking,))[0].total_score()
        for ranking in ("forest", "information")
    ]
    assert one[0] != one[1]
    both = [
        network(codes, sizes, candidates=TopGain(1), rankings=rankings)[0].total_score()
        for rankings in (("forest", "information"), ("information", "forest"))
    ]
    assert both == [max(one)] * 2


def test_rankings_have_names():
    with pytest.raises(ValueError, match="ranking must be one of forest, information"):
        CutsetLearner(BayesDirichlet(1.0), ranking="entropy")


def test_threads_do_not_change_the_network():
    sizes = [5, 6, 4, 3, 5, 4, 6, 5]
    codes = rows_with_groups(8, 1500, sizes)
    circuits = [network(codes, sizes, prior=StructurePrior(), n_jobs=jobs)[1] for jobs in (1, 3)]
    for name, array in circuits[0].arrays().items():
        np.testing.assert_array_equal(array, circuits[1].arrays()[name])


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_grown_apart_are_those_grown_in_turn(weighted, monkeypatch):
    rng = np.random.default_rng(3)  # twelve classes, so that there is much to cut
    shares = rng.dirichlet(np.full(5, 0.3), size=(12, 10)).cumsum(axis=-1)
    classes = shares[rng.integers(12, size=1500)]
    codes = (rng.random((1500, 10, 1)) > classes[..., :4]).sum(axis=-1).astype(np.uint8)
    table = table_of(codes, np.full(10, 5), weights_of(1500, weighted))

    def grow(jobs, share=0.25, most=2**26):
        monkeypatch.setattr(cutset, "_APART_SHARE", share)
        monkeypatch.setattr(cutset, "_MOST_APART", most)
        learner = CutsetLearner(
            BayesDirichlet(1.0, divide=False), NoPrior(), FORESTS, groups=True, n_jobs=jobs
        )
        told = []
        root = learner.learn(table, advance=told.append)
        assert sum(told) == 1500
        return root

    alone = grow(1)
    assert alone.n_cuts > 10
    kept = freeze_cutset(alone, table.domains).arrays()
    for settings in ((3,), (3, 0.0), (2, 1.0), (3, 0.25, 2**12), (3, 0.25, 0)):
        root = grow(*settings)
        assert root.total_score() == alone.total_score()
        for name, array in freeze_cutset(root, table.domains).arrays().items():
            np.testing.assert_array_equal(array, kept[name])


@pytest.mark.parametrize("products", [False, True])
def test_nodes_that_let_go_of_their_counts_are_counted_again(products, monkeypatch):
    sizes = [5, 6, 4, 3, 5, 4, 6, 5]
    codes = rows_with_groups(8, 1500, sizes)
    one, kept_counts = network(codes, sizes, products=products)
    assert one.n_cuts > 0
    monkeypatch.setattr(cutset, "_MOST_WAITING", 0)
    _, counted_again = network(codes, sizes, products=products)
    for name, array in kept_counts.arrays().items():
        np.testing.assert_array_equal(array, counted_again.arrays()[name])


def test_binary_tables_are_cut_as_without_groups():
    codes = rows_with_groups(6, 500, [2] * 8)
    found = [network(codes, [2] * 8, groups=groups)[1] for groups in (False, True)]
    for name, array in found[0].arrays().items():
        np.testing.assert_array_equal(array, found[1].arrays()[name])


def test_what_is_asked_for_costs_its_choice():
    prior = StructurePrior(scale=2.0)
    assert prior.group_cost(1) == 0.0
    assert prior.group_cost(8) == pytest.approx(2.0 * np.log(8))
    assert NoPrior().group_cost(8) == 0.0


def test_groups_refuse_rules_they_cannot_follow():
    with pytest.raises(ValueError, match="groups need forests"):
        CutsetLearner(BayesDirichlet(0.1), candidates=TopGain(3), groups=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_families_outside_a_leaf_are_counted_among_the_states_it_has(weighted):
    codes = rows_with_groups(9, 300)
    table = table_of(codes, np.array(SIZES), weights_of(300, weighted))
    every = np.ones(300) if table.weights is None else table.weights
    learner = NetworkLearner(BayesDirichlet(1.0, divide=False), NoPrior(), width=2)
    rows = np.arange(300, dtype=np.int32)
    states = {0: np.array([1, 3]), 3: np.array([0, 2, 5])}
    left = [states.get(c, np.arange(k)).tolist() for c, k in enumerate(SIZES)]
    inside = rows[np.isin(codes[:, 0], [1, 3]) & np.isin(codes[:, 3], [0, 2, 5])][:60]
    leaves = JunctionLeaves(learner.score, learner.prior, 2, 300)
    fit = leaves.fit(table, inside, np.arange(5), 1.0, 5, states)
    own, others = [], []
    for f, column in enumerate(fit.columns.tolist()):
        parents = fit.parents[fit.parent_ptr[f] : fit.parent_ptr[f + 1]].tolist()
        outside = np.setdiff1d(rows, inside)
        own.append(naive_groups.some_family(codes[inside], left, column, parents, every[inside]))
        others.append(
            naive_groups.some_family(codes[outside], left, column, parents, every[outside])
        )
    tolerance = 1e-4 if weighted else 0  # weights are rounded to 2^-24 of the largest
    np.testing.assert_allclose(fit.counts, np.concatenate([t.ravel() for t in own]), atol=tolerance)
    found = Outside(table, rows).counts(fit)
    np.testing.assert_allclose(found, np.concatenate([t.ravel() for t in others]), atol=tolerance)


def naive_merged(table, group):
    out = np.zeros((max(group) + 1, table.shape[1]))
    for state, g in enumerate(group):
        out[g] += table[state]
    return out


@pytest.mark.parametrize("seed", range(4))
def test_merging_the_states_of_a_parent_gains_what_the_score_says(seed):
    rng = np.random.default_rng(seed)
    behaviour = rng.dirichlet(np.ones(3), size=2)
    table = np.array([rng.multinomial(40, behaviour[i % 2]) for i in range(7)], dtype=float)
    cost = np.array([0.0, 0.0, *[0.3] * 5, 0.0])
    group = np.empty(7, dtype=np.int64)
    gain = merge_states(LGAMMA, table[None, :, None, :].copy(), 1.0, 0.0, cost, group)
    merged = naive_merged(table, group.tolist())
    expected = bd_family(merged, 1.0) - bd_family(table, 1.0)
    expected -= 0.3 if len(merged) < 7 else 0.0
    assert gain == pytest.approx(expected, abs=1e-9)
    assert len(merged) < 7 and merged.sum() == table.sum()


def test_divisions_are_stirling_numbers():
    assert divisions(5) == (0, 1, 15, 25, 10, 1)
    found = {
        tuple(sorted(tuple(np.flatnonzero(np.array(g) == c)) for c in set(g)))
        for g in itertools.product(range(3), repeat=5)
        if len(set(g)) == 3
    }
    assert len(found) == divisions(5)[3]


@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_parents_in_groups_are_frozen_and_scored_exactly(shrink, width):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 9, 600)
    codes = np.column_stack(
        [
            first,
            np.where(rng.random(600) < 0.85, first // 3, rng.integers(0, 4, 600)),
            np.where(rng.random(600) < 0.85, first % 2, rng.integers(0, 3, 600)),
            rng.integers(0, 3, 600),
        ]
    ).astype(np.uint8)
    sizes = [9, 4, 3, 3]
    settings = {"candidates": None, "width": width}
    root, circuit = network(codes, sizes, **settings, shrink=shrink, merge=True)
    assert root.leaf.groups is not None
    assert any(group is not None for group in root.leaf.groups)
    assert root.total_score() == pytest.approx(bayes_score(circuit, codes, divide=False), rel=1e-9)
    plain, _ = network(codes, sizes, **settings)
    assert root.total_score() > plain.total_score()
    every = np.array(list(itertools.product(*map(range, sizes))), dtype=np.uint8)
    assert np.exp(circuit.log_likelihood(every)).sum() == pytest.approx(1.0)
    assert circuit.n_parameters < plain.leaf.tables.size
