"""LearnSPN against its naive twin, and against the original program's published logs."""

import numpy as np
import pytest
from tests.oracle import naive_spn

from bayescut.data.domains import Domains
from bayescut.datasets import fetch_debd
from bayescut.learn.spn.clusters import cluster_once, first_price, read_rows
from bayescut.learn.spn.grow import SPNLearner
from bayescut.learn.spn.independence import dependent_groups
from bayescut.learn.spn.settle import freeze_spn, leaf_logs, score_rows

NONE = np.empty(0)


def table(seed, n=24, sizes=(2, 2, 3, 2, 4), linked=True):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    if linked:
        hidden = rng.integers(0, 3, n)
        for j, k in enumerate(sizes[:-1]):
            copy = rng.random(n) < 0.8
            codes[copy, j] = hidden[copy] % k
    return codes.astype(np.uint8), np.array(sizes)


def tables_of(n, weighted):
    if weighted:
        return NONE, NONE
    k = np.arange(n + 1.0)
    return np.log(k + 0.1), k * np.log(np.maximum(k, 1))


TABLES = {
    "mixed": table(0),
    "binary": table(1, 32, (2,) * 6),
    "independent": table(2, linked=False),
    "constant": (np.zeros((12, 3), np.uint8), np.array([2, 2, 3])),
    "one column varies": (np.array([[0, i % 2] for i in range(9)], np.uint8), np.array([2, 2])),
    "two rows": (np.array([[0, 1], [1, 0]], np.uint8), np.array([2, 2])),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_groups_of_columns(name, weighted):
    codes, sizes = TABLES[name]
    n = len(codes)
    weights = np.random.default_rng(3).random(n) * 3 if weighted else np.ones(n)
    rows, columns = np.arange(n, dtype=np.int32), np.arange(len(sizes))
    given = weights if weighted else NONE
    for factor in (0.5, 2.0, 10.0):
        groups, n_groups, ptr, counts, total = dependent_groups(
            codes, rows, columns, sizes, given, factor, tables_of(n, weighted)[1]
        )
        expected = naive_spn.groups_of(codes, weights, factor)
        found = [np.flatnonzero(groups == g).tolist() for g in range(n_groups)]
        assert found == [group for group in expected if len(group) > 1]
        assert total == pytest.approx(weights.sum())
        for j in range(len(sizes)):
            expected = np.bincount(codes[:, j], weights, minlength=sizes[j])
            np.testing.assert_allclose(counts[ptr[j] : ptr[j + 1]], expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_one_clustering(name, weighted):
    codes, sizes = TABLES[name]
    n = len(codes)
    weights = np.random.default_rng(4).random(n) * 2 if weighted else np.ones(n)
    rows, columns = np.arange(n, dtype=np.int32), np.arange(len(sizes))
    data = read_rows(
        codes, rows, columns, sizes, weights if weighted else NONE, tables_of(n, weighted)[0]
    )
    for penalty, most in ((0.1, 100), (0.6, 100), (0.1, 3)):
        price, cost = first_price(data, penalty)
        for key in range(2):
            labels, size, after, value = cluster_once(data, price, cost, key, most)
            expected = naive_spn.cluster_once(codes, weights, sizes, price, cost, key, most)
            np.testing.assert_array_equal(labels, expected[0])
            assert size == expected[1] and after == expected[2]
            assert value == pytest.approx(expected[3], rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mixed", {"g_factor": 1.0, "cluster_penalty": 0.2}),
        ("mixed", {"g_factor": 1.0, "cluster_penalty": 0.2, "reset_price": True, "min_rows": 8}),
        ("binary", {"g_factor": 0.5, "cluster_penalty": 0.1}),
        ("binary", {"g_factor": 2.0, "cluster_penalty": 0.6, "seed": 5}),
        ("independent", {"g_factor": 0.1, "cluster_penalty": 0.4}),
        ("constant", {}),
        ("one column varies", {}),
        ("two rows", {"min_rows": 0}),
    ],
)
def test_the_whole_tree(name, settings, weighted):
    codes, sizes = TABLES[name]
    learner = SPNLearner(n_restarts=3, **settings)
    weights = 0.5 + np.random.default_rng(4).random(len(codes)) if weighted else None
    w = np.ones(len(codes)) if weights is None else weights
    grown = learner.grow(codes, sizes, weights)
    expected = naive_spn.learn(codes, w, sizes, learner, learner._root_key)
    assert_same(naive_spn.nested(grown, sizes), expected)
    threads = learner.grow(codes, sizes, weights, n_jobs=2)
    for one, other in zip(grown, threads, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same(found, expected):
    assert found[0] == expected[0]
    if found[0] == "leaf":
        assert list(found[1]) == list(expected[1])
        for column, counts in found[1].items():
            np.testing.assert_allclose(counts, expected[1][column], atol=1e-9)
        return
    assert len(found[1]) == len(expected[1])
    for one, other in zip(found[1], expected[1], strict=True):
        if found[0] == "sum":
            assert one[0] == pytest.approx(other[0])
            one, other = one[1], other[1]
        assert_same(one, other)


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_scored_like_the_circuit(name):
    codes, sizes = TABLES[name]
    grown = SPNLearner(g_factor=0.5, cluster_penalty=0.1).grow(codes, sizes)
    logs = leaf_logs(grown, sizes, 0.25)
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    circuit = freeze_spn(grown, logs, Domains.of_sizes(sizes))
    found = score_rows(grown, sizes, logs, worlds)
    np.testing.assert_allclose(found, circuit.log_likelihood(worlds), rtol=1e-12)
    assert np.exp(found).sum() == pytest.approx(1.0)


def test_leaves_without_rows_are_uniform():
    grown = SPNLearner().grow(np.zeros((1, 2), np.uint8), np.array([2, 3]))
    empty = grown._replace(counts=np.zeros_like(grown.counts))
    np.testing.assert_allclose(
        np.exp(leaf_logs(empty, np.array([2, 3]), 0.0)), [0.5] * 2 + [1 / 3] * 3
    )


# Mean of some seeds, factor 10, penalty 0.6, in the evaluation of the original program; root
# clusters and nodes of the original. Source: logs of the original program (D. Seita, 2014).
ORIGINAL = {"nltcs": (3, -6.110, 0.015, 131, 2537), "plants": (1, -12.982, 0.04, 71, 21117)}


@pytest.mark.parametrize("name", ORIGINAL)
def test_parity_with_the_original_program(name):
    try:
        data = fetch_debd(name, download=False)
    except OSError:
        pytest.skip("the data sets are not at hand")
    n_seeds, value, slack, n_clusters, n_nodes = ORIGINAL[name]
    sizes = np.full(data.train.shape[1], 2)
    rows = np.arange(len(data.train), dtype=np.int32)
    found, exact, clusters, nodes = [], [], [], []
    for seed in range(n_seeds):
        learner = SPNLearner(seed=seed)
        labels = learner.root_labels(data.train, rows, sizes, NONE)
        grown = learner.grow(data.train, sizes, clusters=labels)
        clusters.append(labels[1])
        nodes.append(grown.n_nodes)
        logs = [leaf_logs(grown, sizes, a) for a in (2, 1, 0.5, 0.25, 0.125)]
        chosen = max(logs, key=lambda x: score_rows(grown, sizes, x, data.valid).mean())
        test = np.vstack([data.test[1:], np.zeros_like(data.test[:1])])  # its reader's fault
        found.append(naive_spn.original_log_likelihood(grown, sizes, chosen, test).mean())
        exact.append(score_rows(grown, sizes, chosen, data.test).mean())
    assert np.mean(found) == pytest.approx(value, abs=slack)
    assert np.mean(exact) > value + 0.03
    assert np.mean(clusters) == pytest.approx(n_clusters, rel=0.15)
    assert np.mean(nodes) == pytest.approx(n_nodes, rel=0.15)
