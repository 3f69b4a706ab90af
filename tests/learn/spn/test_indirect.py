"""ID-SPN: its clusters, its groups of columns, and how pieces become one circuit."""

import math

import numpy as np
import pytest

from bayescut.circuit import build
from bayescut.counts.pairs import count_pairs
from bayescut.data.bits import bit_layout
from bayescut.data.domains import Domains
from bayescut.learn.spn.clusters import read_rows
from bayescut.learn.spn.compose import Piece, compose, em_step
from bayescut.learn.spn.hard_em import RowSplits, distinct_rows, hard_em
from bayescut.learn.spn.indirect import IndirectLearner, column_groups, pair_information


def table(seed, n=120, sizes=(2, 3, 2, 4)):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    for j, k in enumerate(sizes):
        copy = rng.random(n) < 0.7
        codes[copy, j] = hidden[copy] % k
    return codes.astype(np.uint8), np.array(sizes)


def information(x, y, w):
    total, n = 0.0, w.sum()
    for a in np.unique(x):
        for b in np.unique(y):
            joint = w[(x == a) & (y == b)].sum()
            if joint > 0:
                total += joint / n * math.log(joint * n / (w[x == a].sum() * w[y == b].sum()))
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_mutual_information_and_groups(weighted):
    codes, sizes = table(0)
    codes[:, 2] = 0  # constant
    w = np.random.default_rng(1).random(len(codes)) + 0.1 if weighted else np.ones(len(codes))
    layout = bit_layout(np.arange(4), sizes)
    pairs = count_pairs(codes, layout, None, w if weighted else None)
    found = pair_information(pairs.counts.astype(float), float(pairs.n), layout.ptr, 4)
    expected = np.array([
        [0.0 if i == j else information(codes[:, i], codes[:, j], w) for i in range(4)]
        for j in range(4)
    ])  # fmt: skip
    np.testing.assert_allclose(found, expected, atol=1e-12)
    rows = np.arange(len(codes), dtype=np.int32)
    groups = column_groups(codes, rows, np.arange(4), sizes, w, 0.01)
    assert [group.tolist() for group in groups] == [[0, 1, 3], [2]]
    groups = column_groups(codes, rows, np.array([3, 0]), sizes, w, 10.0)
    assert [group.tolist() for group in groups] == [[3], [0]]


def naive_hard_em(codes, sizes, w, labels, size):
    before = -np.inf
    for _ in range(10):
        values = np.zeros((len(codes), size))
        for c in range(size):
            inside = labels == c
            n_c = w[inside].sum()
            values[:, c] = math.log(n_c / w.sum() + 1e-5)
            for j, k in enumerate(sizes):
                hits = np.bincount(codes[inside, j], w[inside], minlength=k)
                values[:, c] += np.log((hits[codes[:, j]] + 1e-5) / (n_c + k * 1e-5))
        likelihood = float((w * np.logaddexp.reduce(values, axis=1)).sum())
        labels = (values >= values.max(axis=1)[:, None] - 1e-9).argmax(axis=1)
        if abs(likelihood - before) <= 0.1:
            break
        before = likelihood
    return likelihood, labels


@pytest.mark.parametrize("n", [2, 9, 120])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_hard_em_is_its_naive_twin(seed, weighted, n):
    codes, sizes = table(seed, n=n)
    codes[:, 0] = seed % 2  # constant
    rng = np.random.default_rng(seed)
    w = rng.random(n) + 0.5 if weighted else np.ones(n)
    data = read_rows(codes, np.arange(n), np.arange(4), sizes, w, np.empty(0))
    for size in (1, 2, 5):
        labels = rng.integers(size, size=n)
        value, found = hard_em(data, labels, size)
        expected, naive = naive_hard_em(codes, sizes, w, labels, size)
        assert value == pytest.approx(expected, rel=1e-9)
        np.testing.assert_array_equal(found, naive)


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_split_at_a_price(seed):
    codes, sizes = table(seed)
    w = np.random.default_rng(seed).random(len(codes)) + 0.5
    splits = RowSplits(codes, sizes, w, [seed])
    # Without a price there are several clusters, with a high one the fewest.
    assert splits.best(0.0, 4).max() >= 1
    assert splits.best(100.0, 4).max() == 1
    # What was found before, and threads, change nothing.
    for n_jobs in (1, 2):
        again = RowSplits(codes, sizes, w, [seed])
        np.testing.assert_array_equal(again.best(0.01, 9, n_jobs), splits.best(0.01, 9))
    # Equal rows lie in one cluster, and count as often as they occur.
    twice = RowSplits(np.vstack([codes, codes]), sizes, np.concatenate([w, w]), [seed])
    once = RowSplits(codes, sizes, 2 * w, [seed])
    found = twice.best(0.01, 9)
    np.testing.assert_array_equal(found[: len(codes)], found[len(codes) :])
    np.testing.assert_array_equal(found[: len(codes)], once.best(0.01, 9))
    assert RowSplits(np.zeros_like(codes), sizes, w, [seed]).best(0.1, 4).max() == 0


def test_distinct_rows():
    codes = np.array([[1, 0, 2], [0, 0, 0], [1, 0, 2], [0, 0, 1], [0, 0, 0]], dtype=np.uint16)
    rows, place = distinct_rows(codes)
    assert len(rows) == 3
    np.testing.assert_array_equal(rows[place], codes)


def test_pieces_become_one_circuit():
    rng = np.random.default_rng(0)
    tree = build.circuit(build.chow_liu([-1, 0], [[0.3, 0.7], [[0.2, 0.8], [0.6, 0.4]]]), [2, 2])
    cut = build.circuit(
        build.decision(1, [0.4, 0.6], *[build.categorical(0, [p, 1 - p]) for p in (0.1, 0.5)]),
        [2, 2],
    )
    coin = build.circuit(build.categorical(0, [0.25, 0.25, 0.5]), [3])
    root = Piece(
        children=[
            Piece(coin, np.array([1])),
            Piece(
                children=[Piece(tree, np.array([2, 0])), Piece(cut, np.array([0, 2]))],
                weights=np.array([0.3, 0.7]),
            ),
        ]
    )
    circuit = compose(root, Domains.of_sizes([2, 3, 2]))
    worlds = np.array(list(np.ndindex(2, 3, 2)), dtype=np.uint8)
    parts = [
        np.log(0.3) + tree.log_likelihood(worlds[:, [2, 0]]),
        np.log(0.7) + cut.log_likelihood(worlds[:, [0, 2]]),
    ]
    expected = coin.log_likelihood(worlds[:, [1]]) + np.logaddexp(*parts)
    np.testing.assert_allclose(circuit.log_likelihood(worlds), expected)
    # EM without a prior never lowers the likelihood; the prior holds the parameters back.
    rows = worlds[rng.integers(0, len(worlds), 60)]
    now, values = circuit, []
    for _ in range(6):
        values.append(now.log_likelihood(rows).mean())
        now = em_step(now, circuit, rows, None, 1e-9, 1)
    assert np.all(np.diff(values) > -1e-9) and values[-1] > values[0]
    held = em_step(circuit, circuit, rows, None, 1e9, 1)
    np.testing.assert_allclose(held.fam_table, circuit.fam_table, atol=1e-6)
    np.testing.assert_allclose(held.log_weight, circuit.log_weight, atol=1e-6)
    np.testing.assert_allclose(held.param, circuit.param, atol=1e-6)


@pytest.mark.parametrize("accept", ["train", "score"])
def test_the_network_is_what_its_regions_say(accept):
    codes, sizes = table(3, n=200, sizes=(2, 2, 3, 2, 2, 2))
    learner = IndirectLearner(
        max_clusters=3, min_columns=2, min_rows=20, width=2, cluster_penalty=0.01, accept=accept
    )
    root, weights, kept = learner.grow(codes, sizes)
    circuit = compose(root.piece(weights), Domains.of_sizes(sizes))
    rows = distinct_rows(codes)[0]
    np.testing.assert_allclose(circuit.log_likelihood(rows), root.values(weights), rtol=1e-10)
    whole = IndirectLearner(max_extensions=0, width=2).grow(codes, sizes)[0]
    assert whole.kind == "leaf"
    if accept == "score":
        assert root.score(weights) >= whole.score(weights) - 1e-9
    else:
        assert kept >= 1 and root.kind != "leaf"
