import numpy as np
import pytest
from tests.learn.small import table_of
from tests.oracle.naive_learner import NaiveLearner

from bayescut.data import Domains
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.scores import BIC, BayesDirichlet


def signature(node):
    if node.cut is not None:
        return (node.cut, tuple(signature(child) for child in node.children))
    leaf = node.leaf
    return frozenset(
        tuple(sorted((int(v), int(leaf.columns[h]))))
        for v, h in zip(leaf.columns, leaf.hosts, strict=True)
        if h >= 0
    )


def table(seed, n, sizes, depth=3):
    """Rows whose dependencies differ with the first column, so that there is something to cut."""
    rng = np.random.default_rng(seed)
    m = len(sizes)
    codes = rng.integers(0, sizes, size=(n, m)).astype(np.uint8)
    for j in range(1, m):
        near = codes[:, j - 1] if j > 1 else codes[:, 0]
        far = codes[:, max(j - depth, 0)]
        source = np.where(codes[:, 0] == 0, near, (far + 1) % sizes[j])
        copied = rng.random(n) < 0.9
        codes[:, j] = np.where(copied, source, codes[:, j]) % sizes[j]
    return codes


CASES = {
    "binary": (300, [2] * 7),
    "few rows": (25, [2] * 9),
    "one row": (1, [2] * 4),
    "one column": (20, [2]),
    "two columns": (30, [2, 2]),
    "states": (250, [3, 2, 3, 4, 2]),
    "with constants": (120, [2, 1, 2, 2, 1, 3]),
    "all constant": (10, [1, 1, 1]),
    "deep, states": (400, [4, 3, 4, 2, 3, 4, 2]),
}
SCORES = {"BD": BayesDirichlet(0.1), "BIC": BIC(0.01)}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("name", CASES)
def test_the_learner_agrees_with_its_naive_twin(name, kind):
    n, sizes = CASES[name]
    codes = table(len(name), n, sizes)
    expected = NaiveLearner(kind, n_candidates=3).learn(codes, sizes)
    learner = CutsetLearner(SCORES[kind], candidates=TopGain(3))
    found = learner.learn(table_of(codes, np.array(sizes)))
    assert found.total_score() == pytest.approx(expected.total_score(), rel=1e-9, abs=1e-9)
    assert signature(found) == expected.signature()


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("name", ["binary", "states", "with constants"])
def test_weighted_rows_agree_with_the_naive_twin(name, kind):
    n, sizes = CASES[name]
    codes = table(5, n, sizes)
    weights = np.random.default_rng(9).exponential(size=n)
    weights[::7] = 0.0
    expected = NaiveLearner(kind).learn(codes[weights > 0], sizes, weights[weights > 0])
    found = CutsetLearner(SCORES[kind]).learn(table_of(codes, np.array(sizes), weights))
    assert found.total_score() == pytest.approx(expected.total_score(), rel=1e-9)


def test_the_cases_do_cut():
    found = CutsetLearner(SCORES["BD"]).learn(table_of(table(6, 300, [2] * 7), np.full(7, 2)))
    assert found.cut is not None


def test_states_that_never_occur_do_not_hide_a_column():
    """A column that decides how the others go together is cut on with or without such states."""
    codes = table(6, 600, [2] * 7)
    sizes = np.array([2] * 7)
    seen = CutsetLearner(SCORES["BD"]).learn(table_of(codes, sizes))
    sizes[seen.cut] = 4
    found = CutsetLearner(SCORES["BD"]).learn(table_of(codes, sizes))
    assert found.cut == seen.cut
    assert [child.n for child in found.children] == [child.n for child in seen.children] + [0, 0]
    domains = Domains.of_sizes(sizes)
    circuit = freeze_cutset(found, domains)
    unseen = codes[:5].copy()
    unseen[:, seen.cut] = 3
    assert np.isfinite(circuit.log_likelihood(unseen)).all()
    worlds = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, 7)
    total = np.exp(circuit.log_likelihood(worlds.astype(np.uint8))).sum()
    assert total == pytest.approx(1.0)


def test_columns_of_very_many_states_are_not_cut(monkeypatch):
    codes = table(6, 600, [2] * 7)
    sizes = np.array([2] * 7)
    chosen = CutsetLearner(SCORES["BD"]).learn(table_of(codes, sizes)).cut
    sizes[chosen] = 40
    monkeypatch.setattr("bayescut.learn.cutset.learner._MOST_BRANCH_CELLS", 40 * 39**2 - 1)
    root = CutsetLearner(SCORES["BD"], candidates=TopGain(None)).learn(table_of(codes, sizes))
    assert chosen not in [node.cut for node in root.walk()]
    monkeypatch.setattr("bayescut.learn.cutset.learner._MOST_BRANCH_CELLS", 40 * 45**2)
    root = CutsetLearner(SCORES["BD"], candidates=TopGain(None)).learn(table_of(codes, sizes))
    assert chosen in [node.cut for node in root.walk()]


@pytest.mark.parametrize("kind", SCORES)
def test_a_weight_of_two_is_a_row_given_twice(kind):
    codes = table(3, 200, [2, 3, 2, 2, 2])
    sizes = np.array([2, 3, 2, 2, 2])
    weights = np.random.default_rng(0).integers(0, 3, 200)
    learner = CutsetLearner(SCORES[kind])
    twice = learner.learn(table_of(np.repeat(codes, weights, axis=0), sizes))
    weighted = learner.learn(table_of(codes, sizes, weights.astype(float)))
    assert weighted.total_score() == pytest.approx(twice.total_score(), rel=1e-12)
    domains = Domains.of_sizes([2, 3, 2, 2, 2])
    np.testing.assert_allclose(
        freeze_cutset(weighted, domains).log_likelihood(codes),
        freeze_cutset(twice, domains).log_likelihood(codes),
        rtol=1e-9,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_do_not_change_the_result(weighted):
    rng = np.random.default_rng(0)
    codes = table(1, 600, [2] * 80)
    weights = rng.random(600) if weighted else None
    grown = [
        CutsetLearner(SCORES["BD"], n_jobs=jobs).learn(table_of(codes, np.full(80, 2), weights))
        for jobs in (1, 2, 3)
    ]
    assert grown[0].cut is not None
    assert len({repr(signature(root)) for root in grown}) == 1
    assert len({root.total_score() for root in grown}) == 1


def test_branches_cover_all_rows_and_progress_adds_up():
    codes = table(2, 500, [2] * 10)
    settled = []
    root = CutsetLearner(SCORES["BD"]).learn(
        table_of(codes, np.full(10, 2)), advance=settled.append
    )
    assert sum(settled) == 500
    for node in root.walk():
        if node.cut is not None:
            assert sum(child.n for child in node.children) == node.n
            assert node.leaf is None
            np.testing.assert_allclose(np.exp(node.log_weight).sum(), 1.0)


@pytest.mark.parametrize("sizes", [[2] * 6, [3, 2, 1, 4]])
def test_the_frozen_circuit_is_a_normalised_deterministic_distribution(sizes):
    codes = table(4, 300, sizes)
    root = CutsetLearner(SCORES["BD"]).learn(table_of(codes, np.array(sizes)))
    circuit = freeze_cutset(root, Domains.of_sizes(sizes))
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    assert np.exp(circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0)
    properties = circuit.properties
    assert properties.smooth and properties.decomposable and properties.deterministic


def test_all_candidates():
    codes = table(8, 300, [2] * 7)
    few = CutsetLearner(SCORES["BD"], candidates=TopGain(1)).learn(table_of(codes, np.full(7, 2)))
    every = CutsetLearner(SCORES["BD"], candidates=TopGain(None)).learn(
        table_of(codes, np.full(7, 2))
    )
    assert every.total_score() >= few.total_score() - 1e-9


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True])
def test_impossible_numbers_of_candidates(count):
    with pytest.raises(ValueError, match="n_candidates must be"):
        TopGain(count)
