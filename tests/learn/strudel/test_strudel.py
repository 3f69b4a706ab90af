"""Strudel: the values of the original program, and a twin that follows the pseudo-code."""

import numpy as np
import pytest
from tests.oracle import naive_strudel

from bayescut import bayes_score
from bayescut.data.domains import Domains
from bayescut.datasets import fetch_debd
from bayescut.learn.strudel.freeze import freeze_mixture, freeze_sketch
from bayescut.learn.strudel.grow import Growth, StrudelLearner
from bayescut.learn.strudel.mixture import run_em

# The table of the original package's own tests, and what its program makes of it.
TOY = np.array(
    [[int(c) for c in row] for row in "1010101010 1111111111 0000000000 0110100101".split()],
    dtype=np.uint8,
)


def frozen(growth, sizes):
    counts = growth.sketch.counts[: growth.sketch.used[1], 0].copy()
    return freeze_sketch(growth.sketch, growth.weights_of(counts), Domains.of_sizes(sizes))


def or_edges(growth):
    """Branches of ORs that are still reached from the root."""
    sketch, seen, total = growth.sketch, set(), 0
    stack = [int(sketch.used[2])]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if sketch.kind[node] == 1:
            e = sketch.first[node]
            while e >= 0:
                total += 1
                stack.append(int(sketch.child[e]))
                e = sketch.following[e]
        elif sketch.kind[node] == 2:
            stack += [int(sketch.first[node]), int(sketch.second[node])]
    return total


def test_the_toy_table_of_the_original():
    sizes = np.full(10, 2)
    plain = StrudelLearner(pseudocount=0.0, max_splits=0).grow(TOY, sizes)
    assert (plain.n_nodes, or_edges(plain)) == (73, 48)
    assert plain.train_mean == pytest.approx(-1.8636799873410004, rel=1e-15)
    growth = StrudelLearner(max_splits=10, patience=None).grow(TOY, sizes)
    assert growth._look() >= 0
    assert (growth.n_nodes, or_edges(growth)) == (88, 60)
    value = frozen(growth, sizes).log_likelihood(TOY).mean()
    assert value == pytest.approx(-3.0466585640216746, rel=1e-15)


def test_dna_of_the_original():
    try:
        data = fetch_debd("dna", download=False)
    except OSError:
        pytest.skip("the data sets are not at hand")
    sizes = np.full(180, 2)
    expected = {0: (1433, -87.698, -87.674), 50: (8606, -87.661, -87.621),
                100: (11953, -87.300, -87.356)}  # fmt: skip
    growths = [
        Growth(StrudelLearner(), data.train, sizes, valid=rows) for rows in (data.test, data.valid)
    ]
    for growth in growths:
        growth.start()
    for n_splits, (n_nodes, test, valid) in expected.items():
        for growth, value in zip(growths, (test, valid), strict=True):
            while len(growth.splits) < n_splits:
                assert growth.split_most_used()
            growth._look()
            assert growth.n_nodes == n_nodes
            assert growth.valid_mean == pytest.approx(value, abs=1e-3)


def table(seed, sizes, n=60):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    for j in range(1, len(sizes)):
        copy = rng.random(n) < 0.5
        codes[copy, j] = (codes[copy, j - 1] + codes[copy, 0]) % sizes[j]
    return codes.astype(np.uint8), np.array(sizes)


TABLES = {
    "binary": table(0, (2,) * 7),
    "states": table(1, (3, 2, 4, 2, 3)),
    "constant": (np.zeros((8, 4), np.uint8), np.full(4, 2)),
    "constant and not": (np.array([[0, 1, i % 2, i % 3 == 0, 0] for i in range(12)], np.uint8),
                         np.full(5, 2)),
    "one column": (np.array([[0], [1], [1]], np.uint8), np.array([2])),
    "one row": (np.array([[1, 0, 1]], np.uint8), np.array([2, 2, 2])),
}  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_every_split_against_the_twin(name, weighted):
    codes, sizes = TABLES[name]
    w = np.random.default_rng(2).random(len(codes)) + 0.5 if weighted else np.ones(len(codes))
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    growth = Growth(
        StrudelLearner(), codes, sizes, w if weighted else None, valid=worlds[::3],
    )  # fmt: skip
    growth.start()
    root = naive_strudel.start(codes, sizes, w)
    for _ in range(12):
        growth._look()
        assert growth.n_nodes == len(naive_strudel.post_order(root))
        ones = np.ones(len(worlds[::3]))
        for rows, weight, value in (
            (codes, w, growth.train_mean), (worlds[::3], ones, growth.valid_mean),
        ):  # fmt: skip
            expected = naive_strudel.mean_log_likelihood(root, codes, w, 1.0, rows, weight)
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        more = growth.split_most_used()
        assert more == naive_strudel.split_once(root, codes, sizes, w)
        if not more:
            break
    circuit = frozen(growth, sizes)
    values = circuit.log_likelihood(worlds)
    assert np.exp(values).sum() == pytest.approx(1.0)
    assert np.average(circuit.log_likelihood(codes), weights=w) == pytest.approx(growth.train_mean)
    assert values[::3].mean() == pytest.approx(growth.valid_mean)
    properties = circuit.properties
    assert properties.smooth and properties.structured_decomposable and properties.deterministic


def test_the_score_is_that_of_the_circuit():
    codes, sizes = table(3, (2,) * 7, n=600)
    growth = StrudelLearner(by_score=True, ess=2.0).grow(codes, sizes)
    circuit = frozen(growth, sizes)
    expected = bayes_score(circuit, codes, ess=2.0, divide=False)
    assert growth.score == pytest.approx(expected, rel=1e-10)
    assert len(growth.splits) > 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("states", [(2,) * 7, (2, 3, 2, 4, 3)])
def test_the_circuit_of_the_best_score_is_kept(states, weighted):
    codes, sizes = table(3, states, n=600)
    w = np.random.default_rng(2).integers(1, 4, len(codes)).astype(float) if weighted else None
    growth = StrudelLearner(by_score=True, patience=4).grow(codes, sizes, w, valid=codes[:1])
    other = Growth(growth.learner, codes, sizes, w)
    other.start()
    scores, best = [other.score], 0
    while len(scores) - 1 - best < 4 and other.split_most_used():
        scores.append(other.score)
        if other.score > scores[best] + 1e-6:
            best = len(scores) - 1
    assert len(growth.splits) == best < len(scores) - 1
    assert [step.score for step in [*growth.splits, *growth.later]] == pytest.approx(scores[1:])
    assert growth.score == pytest.approx(scores[best], rel=1e-12)


def test_the_best_circuit_is_kept():
    codes, sizes = table(3, (2,) * 7, n=600)
    codes, valid = codes[:200], codes[200:]
    growth = StrudelLearner(patience=5).grow(codes, sizes, valid=valid)
    before = Growth(growth.learner, codes, sizes, valid=valid)
    before.start()
    steps = [*growth.splits, *growth.later]
    values = [before.valid_mean] + [step.valid for step in steps]
    best = int(np.argmax(values))
    assert 0 < len(growth.splits) == best
    assert len(steps) == best + 5
    assert growth.valid_mean == pytest.approx(values[best], rel=1e-12)
    assert frozen(growth, sizes).log_likelihood(valid).mean() == pytest.approx(values[best])


def test_em_is_that_of_the_flows():
    """One step of EM agrees with responsibilities from circuits; the likelihood never falls."""
    codes, sizes = table(5, (2,) * 6, n=150)
    growth = StrudelLearner(max_splits=6, pseudocount=1e-6, patience=None).grow(codes, sizes)
    labels = np.arange(150) % 3
    one = run_em(growth, labels, max_iter=0, tol=0.0, patience=5)
    two = run_em(growth, labels, max_iter=1, tol=0.0, patience=5)
    domains = Domains.of_sizes(sizes)
    values = np.stack(
        [freeze_sketch(growth.sketch, one.weights[:, k], domains).log_likelihood(codes)
         for k in range(3)]
    ) + np.log(one.shares)[:, None]  # fmt: skip
    total = np.logaddexp.reduce(values, axis=0)
    assert one.bounds[0] == pytest.approx(total.mean())
    mixture = freeze_mixture(growth.sketch, one.shares, one.weights, domains)
    np.testing.assert_allclose(mixture.log_likelihood(codes), total, rtol=1e-12)
    held = np.exp(values - total)
    np.testing.assert_allclose(two.shares, held.mean(axis=1))
    for k in range(3):
        circuit = freeze_sketch(growth.sketch, two.weights[:, k], domains)
        flows = circuit.flows(codes, held[k])
        # Weights are the shares of the flows, up to the smallest of pseudo-counts.
        for node in np.flatnonzero(np.diff(circuit.child_ptr) > 1):
            lo, hi = circuit.child_ptr[node : node + 2]
            if circuit.log_weight[lo:hi].any():
                share = flows.edges[lo:hi] / flows.edges[lo:hi].sum()
                np.testing.assert_allclose(np.exp(circuit.log_weight[lo:hi]), share, atol=1e-4)
    long = run_em(growth, labels, max_iter=30, tol=0.0, patience=5)
    assert np.all(np.diff(long.bounds) > -1e-9)
    threads = run_em(growth, labels, max_iter=30, tol=0.0, patience=5, n_jobs=2)
    np.testing.assert_array_equal(threads.weights, long.weights)
