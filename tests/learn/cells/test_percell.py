"""What mixtures and trees say of single cells."""

import numpy as np
import pytest

from bayescut.circuit import build
from bayescut.data import Domain, Domains, learn_grid
from bayescut.data.table import Table
from bayescut.learn.cells.conditional import ConditionalLearner, Recipe, content_folds
from bayescut.learn.cells.percell import CellPredictor, learn_cells


@pytest.fixture(scope="module")
def gappy():
    rng = np.random.default_rng(0)
    n = 240
    x = rng.normal(size=n)
    label = rng.integers(0, 3, n)
    y = np.sin(2 * x) + (label == 1) + 0.05 * rng.normal(size=n)
    grids = [learn_grid(values) for values in (x, y)]
    domains = Domains(
        [
            Domain(None, grids[0].n_cells, grid=grids[0]),
            Domain(None, 3),
            Domain(None, grids[1].n_cells, grid=grids[1]),
        ]
    )
    codes = np.column_stack([grids[0].codes(x), label, grids[1].codes(y)]).astype(np.uint8)
    whole = codes.copy()
    codes[rng.random(codes.shape) < 0.2] = 255
    return Table(codes, domains), whole


@pytest.fixture(scope="module")
def learned(gappy):
    table, _ = gappy
    learner = ConditionalLearner((Recipe("density", 3),), n_folds=3)
    pool = learner.learn(table, 3, seed=0)
    shares = pool.recipe_weights(None)
    circuit = pool.circuit(shares)
    folds = content_folds(table, 3)
    settings = {"n_trees": 4, "seed": 0}
    return (
        pool,
        shares,
        circuit,
        folds,
        learn_cells(table, pool, shares, circuit, folds, **settings),
    )


def test_cells_are_said_by_both_in_the_shares_that_were_found(gappy, learned):
    table, _ = gappy
    circuit, cells = learned[2], learned[4]
    np.testing.assert_allclose(cells.shares.sum(axis=1), 1.0)
    assert (cells.shares[:, :2] > 0).all() and cells.shares[1, 2] == 0 < cells.shares[0, 2]
    offsets = table.domains.offsets
    found = cells.proba(table.codes, [0, 2])
    for j in (0, 2):
        forest = cells.forests[j]
        assert forest.n_trees == 12 and forest.target == j
        own = circuit.marginals(table.codes)[:, offsets[j] : offsets[j + 1]]
        parts = [own, forest.proba(table.codes), cells.normal.proba(table.codes, [j])[j]]
        expected = np.tensordot(cells.shares[j], parts, axes=1)
        np.testing.assert_allclose(found[j], expected)
        np.testing.assert_allclose(found[j].sum(axis=1), 1.0)


def test_trees_make_the_hidden_cells_likelier(gappy, learned):
    table, whole = gappy
    circuit, cells = learned[2], learned[4]
    alone = CellPredictor.of_circuit(circuit)
    hidden = np.flatnonzero(~table.observed[:, 2] & table.observed[:, 0])
    scores = []
    for some in (alone, cells):
        p = some.proba(table.codes[hidden], [2])[2]
        scores.append(np.log(p[np.arange(len(hidden)), whole[hidden, 2]]).mean())
    assert scores[1] > scores[0] + 0.1


def test_threads_and_a_deadline(gappy, learned):
    table, _ = gappy
    pool, shares, circuit, folds, cells = learned
    again = learn_cells(table, pool, shares, circuit, folds, n_trees=4, seed=0, n_jobs=3)
    np.testing.assert_array_equal(again.shares, cells.shares)
    np.testing.assert_array_equal(again.forests[0].leaf_table, cells.forests[0].leaf_table)
    short = learn_cells(table, pool, shares, circuit, folds, n_trees=4, seed=0, deadline=0.0)
    assert short.forests[0].n_trees == 4


def test_columns_of_one_state_have_no_trees():
    domains = Domains.of_sizes([1, 2])
    codes = np.column_stack([np.zeros(30), np.arange(30) % 2]).astype(np.uint8)
    learner = ConditionalLearner((Recipe("density", 0),), n_folds=2)
    table = Table(codes, domains)
    pool = learner.learn(table, 2, seed=0)
    circuit = build.circuit(build.independent([[1.0], [0.5, 0.5]]), [1, 2])
    folds = np.arange(30) // 2 % 2
    found = learn_cells(table, pool, {"density 0": 1.0}, circuit, folds, n_trees=1, seed=0)
    assert found.forests[0] is None and found.shares[0].tolist() == [1, 0, 0]
    assert found.normal is None
    assert found.proba(codes, [0])[0].tolist() == [[1.0]] * 30
