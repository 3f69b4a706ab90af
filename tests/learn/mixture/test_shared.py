"""Components that share a structure, against plain counting."""

import numpy as np
import pytest
from tests.learn.leaves.test_shrinkage import random_table
from tests.learn.small import table_of
from tests.oracle.naive_learner import joint

from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.shrinkage import choose_strength, posterior_tables
from bayescut.learn.mixture.em import StructuralEM
from bayescut.learn.mixture.shared import SharedLearner, group_components
from bayescut.scores import BayesDirichlet, StructurePrior

ESS = 1.0
SIZES = {"binary": [2] * 7, "states": [3, 2, 4, 2, 1], "one column": [2]}


def learner(width=2, **settings):
    return SharedLearner(BayesDirichlet(ESS, divide=False), StructurePrior(), width, **settings)


def families(leaf):
    return [
        [*leaf.parents[leaf.parent_ptr[f] : leaf.parent_ptr[f + 1]].tolist(), int(v)]
        for f, v in enumerate(leaf.columns)
    ]


def naive_tables(codes, sizes, leaf, rows, weights, strength):
    """``(n + a + s q) / (n + K a + s)``, q from the rows that are not the component's."""
    rest = np.setdiff1d(np.arange(len(codes)), rows)
    tables = []
    for family in families(leaf):
        own = joint(codes[rows], sizes, family, weights[rows])
        others = joint(codes[rest], sizes, family, weights[rest])
        a = ESS / own.size
        q = (others + a) / (others + a).sum(axis=-1, keepdims=True)
        cells = own + a + strength * q
        tables.append(np.log(cells / cells.sum(axis=-1, keepdims=True)).ravel())
    return np.concatenate(tables)


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_tables_are_shrunk_counts_over_one_structure(name, weighted, shrink):
    sizes = np.array(SIZES[name])
    codes = random_table(1, 240, sizes)
    weights = np.random.default_rng(2).integers(0, 9, 240) / 4 if weighted else None
    plain = np.ones(240) if weights is None else weights
    part = learner(shrink=shrink).for_components(table_of(codes, sizes, weights), seed=3)
    for rows in (np.arange(0, 240, 3), np.arange(5), np.array([7])):
        leaf = part.learn(table_of(codes, sizes, weights), rows.astype(np.int32)).leaf
        assert families(leaf) == families(part.structure)
        kept = rows[plain[rows] > 0]
        strength = 0.0
        if shrink:
            own, others = (
                np.concatenate(
                    [joint(codes[r], sizes, f, plain[r]).ravel() for f in families(leaf)]
                )
                for r in (kept, np.setdiff1d(np.arange(240), kept))
            )
            shape = (sizes, leaf.columns, leaf.parent_ptr, leaf.parents)
            strength = choose_strength(own, others, *shape, ESS)
        expected = naive_tables(codes, sizes, leaf, kept, plain, strength)
        np.testing.assert_allclose(leaf.tables, expected, rtol=1e-5, atol=1e-6)


def test_the_structure_is_that_of_a_bootstrap_sample():
    sizes = np.full(8, 2)
    codes = random_table(4, 300, sizes)
    codes[:, 3] = codes[:, 1] ^ codes[:, 2]
    found = learner().for_components(table_of(codes, sizes), seed=5).structure
    drawn = np.sort(np.random.default_rng([5, 13]).integers(0, 300, 300)).astype(np.int32)
    leaves = JunctionLeaves(BayesDirichlet(ESS, divide=False), StructurePrior(), 2, 300)
    expected = leaves.fit(table_of(codes, sizes), drawn, np.arange(8), ESS, 8)
    assert families(found) == families(expected)
    assert any(len(family) > 1 for family in families(found))
    # Tables shrink towards all rows, not towards the sample.
    every = [joint(codes, sizes, family, np.ones(300)).ravel() for family in families(found)]
    np.testing.assert_array_equal(found.counts, np.concatenate(every))


def test_all_rows_have_nothing_outside():
    sizes = np.full(5, 2)
    codes = random_table(6, 100, sizes)
    part = learner().for_components(table_of(codes, sizes))
    leaf = part.learn(table_of(codes, sizes)).leaf
    expected = naive_tables(codes, sizes, leaf, np.arange(100), np.ones(100), 0.0)
    np.testing.assert_allclose(leaf.tables, expected, rtol=1e-10)


def test_a_chain_of_shared_structures_is_a_distribution_and_improves():
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 3, 400)
    centres = rng.random((3, 6)) < 0.5
    codes = (centres[hidden] ^ (rng.random((400, 6)) < 0.1)).astype(np.uint8)
    em = StructuralEM(learner(1), table_of(codes, [2] * 6), assignment="sampled", seed=1)
    labels = np.where(rng.random(400) < 0.5, hidden, rng.integers(0, 3, 400))
    steps = em.run(em.start(labels))
    first, *_, last = (next(steps) for _ in range(12))
    worlds = np.array(list(np.ndindex(*[2] * 6)), dtype=np.uint8)
    assert np.exp(last.circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0)
    assert last.lower_bound > first.lower_bound + 0.02


def test_without_a_structure_there_is_nothing_to_grow():
    with pytest.raises(ValueError, match="for_components"):
        learner().learn(table_of(np.zeros((3, 2), dtype=np.uint8), np.array([2, 2])))


# ---------------------------------------------------------------------------------------- groups


def kinds(n_components=20, n_rows=30, sizes=(2, 3, 2, 2), seed=0):
    """Rows of two kinds of components; every component has some of its own."""
    rng = np.random.default_rng(seed)
    sizes = np.array(sizes)
    codes, rows = [], []
    for k in range(n_components):
        likely = np.array([k % 2, 2 * (k % 2), 1 - k % 2, k % 2])
        other = rng.random((n_rows, len(sizes))) < 0.2
        own = np.where(other, rng.integers(0, sizes, (n_rows, len(sizes))), likely)
        rows.append(np.arange(k * n_rows, (k + 1) * n_rows, dtype=np.int32))
        codes.append(own)
    return np.concatenate(codes).astype(np.uint8), sizes, rows


def test_components_that_are_alike_are_a_group():
    codes, sizes, rows = kinds()
    table = table_of(codes, sizes)
    groups = group_components(table, rows, [None] * 20, 2)
    assert len(set(groups[::2])) == len(set(groups[1::2])) == 1 and groups[0] != groups[1]
    # a weight of 2 is a row given twice
    weights = np.random.default_rng(1).integers(1, 4, len(codes)).astype(float)
    np.testing.assert_array_equal(
        group_components(table.with_weights(weights), rows, [weights] * 20, 3),
        group_components(
            table_of(np.repeat(codes, weights.astype(int), axis=0), sizes),
            np.split(np.arange(int(weights.sum()), dtype=np.int32),
                     np.cumsum([int(weights[r].sum()) for r in rows])[:-1]),
            [None] * 20, 3,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_components_lean_on_their_group_and_that_on_the_rest(weighted):
    codes, sizes, rows = kinds()
    weights = np.random.default_rng(2).integers(1, 5, len(codes)) / 2 if weighted else None
    plain = np.ones(len(codes)) if weights is None else weights
    table = table_of(codes, sizes, weights)
    part = learner().for_components(table, seed=3)
    learners = part.for_each(table, rows, [weights] * 20)
    groups = group_components(table, rows, [weights] * 20, 2)
    for k in (0, 1, 7):
        leaf = learners[k].learn(table, rows[k]).leaf
        inside = np.concatenate([rows[j] for j in range(20) if groups[j] == groups[k] and j != k])
        outside = np.concatenate([rows[j] for j in range(20) if groups[j] != groups[k]])
        own, others = [], []
        for family in families(leaf):
            cells = joint(codes[rows[k]], sizes, family, plain[rows[k]])
            beyond = joint(codes[outside], sizes, family, plain[outside]) + ESS / cells.size
            beyond = 8 * beyond / beyond.sum(axis=-1, keepdims=True)
            own.append(cells.ravel())
            others.append((joint(codes[inside], sizes, family, plain[inside]) + beyond).ravel())
        own, others = np.concatenate(own), np.concatenate(others)
        shape = (sizes, leaf.columns, leaf.parent_ptr, leaf.parents)
        strength = choose_strength(own, others, *shape, ESS)
        expected = posterior_tables(own, others, *shape, ESS, strength)
        np.testing.assert_allclose(leaf.tables, expected, rtol=1e-6, atol=1e-9)


def test_copies_of_a_row_in_several_components_count_in_all_of_them():
    codes, sizes, rows = kinds()
    table = table_of(codes, sizes, np.full(len(codes), 2.0))
    parts = [np.zeros(len(codes)) for _ in rows]
    for k, some in enumerate(rows):  # each row once in its component and once in the next but one
        parts[k][some] += 1
        parts[(k + 2) % 20][some] += 1
    mixed = [np.flatnonzero(part).astype(np.int32) for part in parts]
    part = learner().for_components(table, seed=3)
    learners = part.for_each(table, mixed, parts)
    groups = group_components(table, mixed, parts, 2)
    for g in np.unique(groups):
        (first,) = {id(learners[k].group) for k in np.flatnonzero(groups == g)}
        total = sum(parts[k] for k in np.flatnonzero(groups == g))
        found = next(one.group for one in learners if id(one.group) == first)
        expected = [joint(codes, sizes, f, total).ravel() for f in families(part.structure)]
        np.testing.assert_allclose(found, np.concatenate(expected))


def test_few_components_have_no_groups():
    codes, sizes, rows = kinds(19)
    table = table_of(codes, sizes)
    part = learner().for_components(table)
    assert part.for_each(table, rows, [None] * 19) == [part] * 19
    alone = learner(shrink=False).for_components(table)
    assert alone.for_each(table, rows * 2, [None] * 38) == [alone] * 38


def test_a_learner_keeps_its_structure_for_other_rows():
    codes, sizes, _ = kinds()
    part = learner().for_components(table_of(codes[:300], sizes), seed=1)
    whole = part.for_components(table_of(codes, sizes), seed=2)
    assert families(whole.structure) == families(part.structure)
    ones = np.ones(len(codes))
    expected = [joint(codes, sizes, f, ones).ravel() for f in families(part.structure)]
    np.testing.assert_allclose(whole.structure.counts, np.concatenate(expected))
