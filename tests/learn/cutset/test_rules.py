"""Rules of growth beside their naive twins: where to stop, what to cut on, what to shrink to."""

import math

import numpy as np
import pytest
from tests.learn.small import table_of
from tests.oracle.naive_rivals import NaiveDCSN, NaiveRival

from bayescut.counts import count_pairs
from bayescut.data import Domains
from bayescut.data.bits import bit_layout
from bayescut.learn.cutset.dcsn import restrict, whole_tables
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import (
    Always,
    EveryColumn,
    Improves,
    ImprovesMean,
    RandomColumn,
    Stop,
    TopGain,
)
from bayescut.learn.leaves.treeleaves import BlendedTrees
from bayescut.scores import SmoothedLikelihood


def signature(node):
    if node.cut is not None:
        return (node.cut, tuple(signature(child) for child in node.children))
    leaf = node.leaf
    return frozenset(
        tuple(sorted((int(v), int(leaf.columns[h]))))
        for v, h in zip(leaf.columns, leaf.hosts, strict=True)
        if h >= 0
    )


def table(seed, n, sizes):
    """Rows of noisy copies whose sources change with the first column."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    for j in range(1, len(sizes)):
        source = np.where(codes[:, 0] == 0, codes[:, j - 1], codes[:, max(j - 3, 0)] + 1)
        codes[:, j] = np.where(rng.random(n) < 0.75, source, codes[:, j]) % sizes[j]
    return codes.astype(np.uint8)


TABLES = {
    "binary": (240, [2] * 7),
    "few rows": (30, [2] * 8),
    "states": (200, [3, 2, 4, 2, 3]),
    "with a constant": (120, [2, 1, 2, 3, 2]),
    "one column": (20, [2]),
    "one row": (1, [2] * 3),
}


def cut_at_once(stop, candidates, alpha=1.0, **settings):
    return CutsetLearner(
        SmoothedLikelihood(alpha),
        candidates=candidates,
        acceptance=Always(),
        stop=stop,
        **settings,
    )


def by_gain(gains, cuttable):
    return cuttable[int(np.argmax(gains))]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "stop",
    [
        {"rows": 10},
        {"rows": 40, "columns": 3},
        {"rows": 5, "entropy": 0.5},
        {"rows": 5, "gain": 0.05},
        {"rows": 10, "columns": 1, "entropy": 0.01, "gain": 0.0},
    ],
    ids=str,
)
def test_stops_and_gain_agree_with_the_naive_twin(name, stop):
    n, sizes = TABLES[name]
    codes = table(len(name), n, sizes)
    expected = NaiveRival(by_gain, alpha=1.0, **stop).learn(codes, sizes)
    found = cut_at_once(Stop(**stop), TopGain(1)).learn(table_of(codes, np.array(sizes)))
    assert signature(found) == expected.signature()
    assert found.total_score() == pytest.approx(expected.total_score(), rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_random_cuts_agree_with_the_naive_twin(name, weighted):
    n, sizes = TABLES[name]
    codes = table(len(name), n, sizes)
    weights = np.random.default_rng(8).integers(1, 4, n) / 2 if weighted else None
    draws = np.random.default_rng(3)

    def uniformly(gains, cuttable):
        return cuttable[int(draws.integers(len(cuttable)))]

    expected = NaiveRival(uniformly, alpha=0.5, rows=20, columns=2).learn(codes, sizes, weights)
    learner = cut_at_once(Stop(20, 2), RandomColumn(np.random.default_rng(3)), 0.5)
    found = learner.learn(table_of(codes, np.array(sizes), weights))
    assert signature(found) == expected.signature()
    assert found.total_score() == pytest.approx(expected.total_score(), rel=1e-10)


@pytest.mark.parametrize("forest", [False, True])
@pytest.mark.parametrize("rate", [0.005, 0.2])
@pytest.mark.parametrize("name", ["binary", "states", "with a constant", "one column", "one row"])
def test_blended_tables_agree_with_the_naive_twin(name, rate, forest):
    n, sizes = TABLES[name]
    codes = table(len(name) + 1, n, sizes)
    twin = NaiveDCSN(rate, 25, 2, forest)
    expected = twin.learn(codes, sizes)
    learner = CutsetLearner(
        SmoothedLikelihood(0.0),
        trees=BlendedTrees(rate, forest),
        candidates=EveryColumn(),
        acceptance=ImprovesMean(),
        stop=Stop(25, 2),
    )
    found = learner.learn(table_of(codes, np.array(sizes)))
    assert signature(found) == expected.signature()
    assert found.total_score() == pytest.approx(expected.total_score(), rel=1e-9)
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    logs = freeze_cutset(found, Domains.of_sizes(sizes)).log_likelihood(worlds)
    assert np.exp(logs).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(logs, [twin.log_probability(expected, r) for r in worlds], rtol=1e-9)


def test_the_twins_do_cut():
    n, sizes = TABLES["binary"]
    codes = table(6, n, sizes)
    assert NaiveDCSN(0.005, 25, 2).learn(codes, sizes).cut is not None
    assert NaiveRival(by_gain, alpha=1.0, rows=10, gain=0.0).learn(codes, sizes).cut is not None


def test_rows_given_twice_and_weights_of_two():
    sizes = [2, 3, 2, 2, 2]
    codes = table(1, 150, sizes)
    weights = np.random.default_rng(0).integers(0, 3, 150)
    for learner in (
        cut_at_once(Stop(20, 1, 0.01, 0.0), TopGain(1)),
        CutsetLearner(
            SmoothedLikelihood(0.0),
            trees=BlendedTrees(0.01),
            candidates=EveryColumn(),
            acceptance=ImprovesMean(),
            stop=Stop(20, 2),
        ),
    ):
        twice = learner.learn(table_of(np.repeat(codes, weights, axis=0), np.array(sizes)))
        weighted = learner.learn(table_of(codes, np.array(sizes), weights.astype(float)))
        assert twice.cut is not None
        assert signature(weighted) == signature(twice)
        assert weighted.total_score() == pytest.approx(twice.total_score(), rel=1e-10)


@pytest.mark.parametrize("judged", [False, True])
def test_threads_do_not_change_the_result(judged):
    sizes = np.full(40, 2)
    codes = table(4, 900, sizes)
    found = []
    for jobs in (1, 2, 3):
        if judged:
            learner = CutsetLearner(
                SmoothedLikelihood(0.0),
                trees=BlendedTrees(),
                candidates=EveryColumn(),
                acceptance=ImprovesMean(),
                stop=Stop(300, 2),
                n_jobs=jobs,
            )
        else:
            candidates = RandomColumn(np.random.default_rng(1))
            learner = cut_at_once(Stop(50, 3), candidates, n_jobs=jobs)
        found.append(learner.learn(table_of(codes, sizes)))
    assert found[0].cut is not None
    assert len({repr(signature(root)) for root in found}) == 1
    assert len({root.total_score() for root in found}) == 1


def test_empty_branches_are_smoothed_and_uniform():
    codes = np.zeros((8, 3), dtype=np.uint8)
    codes[:, 1] = [0, 1] * 4
    learner = cut_at_once(Stop(0, 2), RandomColumn(np.random.default_rng(2)), 0.5)
    root = learner.learn(table_of(codes, np.full(3, 2)))
    assert root.cut == 2 and [child.n for child in root.children] == [8, 0]
    np.testing.assert_allclose(np.exp(root.log_weight), [8.5 / 9, 0.5 / 9])
    circuit = freeze_cutset(root, Domains.binary(3))
    worlds = np.array(list(np.ndindex(2, 2, 2)), dtype=np.uint8)
    probability = np.exp(circuit.log_likelihood(worlds))
    assert probability.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(probability[worlds[:, 2] == 1], 0.5 / 9 / 4)


def test_trees_are_grown_only_where_they_are_needed():
    codes = table(2, 300, [2] * 8)
    settled = []
    learner = cut_at_once(Stop(40), TopGain(1))
    root = learner.learn(table_of(codes, np.full(8, 2)), advance=settled.append)
    assert sum(settled) == 300
    for node in root.walk():
        assert math.isnan(node.score) == (node.cut is not None)
        assert (node.leaf is None) == (node.cut is not None)
    assert math.isfinite(root.total_score())


def test_stop():
    stop = Stop(rows=10, columns=2, entropy=0.1, gain=0.0)
    assert stop.by_size(10, 5) and stop.by_size(11, 2) and not stop.by_size(11, 3)
    assert stop.by_gain(0.09, 1.0) and stop.by_gain(0.1, 1e-15) and not stop.by_gain(0.1, 1e-9)
    assert stop.needs_gain and not Stop(rows=10, columns=2).needs_gain
    assert Stop().by_size(0, 5) and Stop().by_size(5, 1) and not Stop().by_size(1, 2)


def test_candidates():
    gain = np.array([0.3, 0.1, 0.9, 0.9])
    cuttable = np.array([0, 2, 3])
    assert TopGain(1).select(gain, cuttable).tolist() == [2]
    assert EveryColumn().select(np.empty(0), cuttable).tolist() == [0, 2, 3]
    draw = RandomColumn(np.random.default_rng(0))
    drawn = [draw.select(np.empty(0), cuttable) for _ in range(3000)]
    assert {len(d) for d in drawn} == {1}
    columns, times = np.unique(np.concatenate(drawn), return_counts=True)
    assert columns.tolist() == [0, 2, 3]
    np.testing.assert_allclose(times / 3000, 1 / 3, atol=5 * math.sqrt(2 / 9 / 3000))


def test_acceptance():
    assert Improves().accept(-10.0, -9.9, 5, 100)
    assert not Improves().accept(-10.0, -10.0, 5, 100)
    least = 5 * math.log(100) / 200
    assert ImprovesMean().accept(-10.0, -10.0 + 1.01 * least, 5, 100)
    assert not ImprovesMean().accept(-10.0, -10.0 + 0.99 * least, 5, 100)
    assert Always().accept(0.0, -1.0, 5, 100)
    assert not Always().judges and Improves().judges and ImprovesMean().judges


def test_tables_of_the_whole_training_set():
    sizes = np.array([3, 2, 1, 4])
    codes = table(0, 90, sizes)
    layout = bit_layout(np.arange(4), sizes)
    prior = whole_tables(count_pairs(codes, layout))
    for i in range(4):
        for j in range(4):
            counts = np.zeros((sizes[i], sizes[j]))
            np.add.at(counts, (codes[:, i], codes[:, j]), 1.0)
            if i == j:
                expected = np.diag(np.diag(counts) + 1 / sizes[i]) / 91
            else:
                expected = (counts + 1 / counts.size) / 91
            block = prior[layout.ptr[i] : layout.ptr[i + 1], layout.ptr[j] : layout.ptr[j + 1]]
            np.testing.assert_allclose(block, expected[1:, 1:])
    part = bit_layout(np.array([1, 3]), sizes[[1, 3]])
    bits = [2, 3, 4, 5]
    np.testing.assert_array_equal(restrict(prior, layout, part), prior[np.ix_(bits, bits)])
    assert restrict(prior, layout, layout) is prior
