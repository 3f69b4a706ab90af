"""Components that share a structure, against plain counting."""

import numpy as np
import pytest
from tests.learn.tables import table_of
from tests.learn.test_shrinkage import random_table
from tests.oracle.naive_learner import joint

from bayescut.learn.junction import JunctionLeaves
from bayescut.learn.mixture import StructuralEM
from bayescut.learn.shared import SharedLearner
from bayescut.learn.shrinkage import choose_strength
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
