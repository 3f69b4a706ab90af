"""Trees for one column: exact answers with missing cells, spreads, files."""

from dataclasses import replace

import numpy as np
import pytest

from bayescut.data import Domain, Domains, learn_grid
from bayescut.data.table import Table
from bayescut.learn.cells.targeted import ForestLearner, TargetForest


def mixed(n=200, seed=0, weights=False):
    """Two numbers, labels of 4 and 1 states, and a number that depends on them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), np.round(rng.normal(size=n), 1)
    label = rng.integers(0, 4, n)
    y = a + 2 * (label == 2) + 0.1 * rng.normal(size=n)
    grids = [learn_grid(values) for values in (a, b, y)]
    domains = Domains(
        [
            Domain(None, grids[0].n_cells, grid=grids[0]),
            Domain(None, 4),
            Domain(None, grids[1].n_cells, grid=grids[1]),
            Domain(None, 1),
            Domain(None, grids[2].n_cells, grid=grids[2]),
        ]
    )
    codes = np.column_stack(
        [grids[0].codes(a), label, grids[1].codes(b), np.zeros(n), grids[2].codes(y)]
    ).astype(np.uint8)
    own = rng.uniform(0.2, 3, n) if weights else None
    return Table(codes, domains, own)


def gappy(table, share, target, seed=1, n=60):
    rows = table.codes[:n].copy()
    rows[np.random.default_rng(seed).random(rows.shape) < share] = 255
    rows[:, target] = 255
    return rows


@pytest.mark.parametrize("target", [4, 1, 3])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_answers_are_the_marginals_of_the_trees_as_circuits(target, weights, share):
    table = mixed(weights=weights)
    forest = ForestLearner(3, 3.0).learn(table, target, np.random.default_rng(0))
    rows = gappy(table, share, target)
    lo, hi = table.domains.offsets[target : target + 2]
    expected = np.mean(
        [forest.circuit(k, table.domains).marginals(rows)[:, lo:hi] for k in range(forest.n_trees)],
        axis=0,
    )
    # Tables are kept in single precision.
    np.testing.assert_allclose(forest.proba(rows), expected, atol=1e-6)
    np.testing.assert_array_equal(
        forest.proba(np.repeat(rows, 50, axis=0), 3)[::50], forest.proba(rows)
    )


def test_trees_are_deterministic_circuits_that_sum_to_one():
    table = mixed(n=80)
    circuit = (
        ForestLearner(1, 3.0).learn(table, 4, np.random.default_rng(0)).circuit(0, table.domains)
    )
    assert circuit.properties.deterministic and circuit.properties.decomposable
    blank = np.full((1, 5), 255, dtype=np.uint8)
    assert circuit.log_likelihood(blank)[0] == pytest.approx(0.0, abs=1e-12)


def test_tables_of_the_target_are_shrunken_counts():
    """A naive twin: the share of each state among the rows of a leaf, parents in advance."""
    table = mixed(n=120)
    forest = ForestLearner(1, 10.0).learn(table, 1, np.random.default_rng(3))
    offsets = table.domains.offsets

    def walk(node, rows, above):
        counts = np.bincount(table.codes[rows, 1], minlength=4)
        here = (counts + above) / (len(rows) + above.sum())
        j = forest.column[node]
        if j < 0:
            np.testing.assert_allclose(forest.leaf_table[forest.leaf[node]], here, rtol=1e-6)
            assert len(rows) >= 10
            return
        below = forest.rank[0, offsets[j] + table.codes[rows, j]] < forest.threshold[node]
        walk(forest.left[node], rows[below], here)
        walk(forest.right[node], rows[~below], here)

    walk(0, np.arange(120), np.full(4, 0.25))


def test_a_spread_is_chosen_by_other_rows_and_keeps_probabilities():
    table = mixed(n=300)
    forest = ForestLearner(2, 1.0).learn(table.take(np.arange(150)), 4, np.random.default_rng(0))
    rows = np.arange(150, 300)
    wide = forest.spread(table, rows)
    np.testing.assert_allclose(wide.leaf_table.sum(axis=1), 1.0, rtol=1e-6)

    def score(some):
        p = some.proba(table.codes[rows])
        return np.log(p[np.arange(150), table.codes[rows, 4]] + 1e-13).sum()

    assert score(wide) > score(forest)
    labels = ForestLearner(1, 1.0).learn(table, 1, np.random.default_rng(0))
    assert labels.spread(table, rows) is labels


def test_predicts_better_than_the_column_alone():
    table = mixed(n=400)
    mean = table.domains[4].grid.mean
    truth = mean[table.codes[300:, 4]]
    forest = ForestLearner(16).learn(table.take(np.arange(300)), 4, np.random.default_rng(0))
    error = np.mean((forest.proba(table.codes[300:]) @ mean - truth) ** 2)
    assert error < 0.2 * truth.var()


def test_same_seed_same_trees_and_states_round_trip():
    table = mixed()
    first, second = (ForestLearner(2).learn(table, 4, np.random.default_rng(7)) for _ in range(2))
    state = first.state()
    for name, value in second.state().items():
        np.testing.assert_array_equal(state[name], value)
    rows = gappy(table, 0.3, 4)
    np.testing.assert_array_equal(TargetForest.from_state(state).proba(rows), first.proba(rows))
    both = TargetForest.join([first, ForestLearner(1).learn(table, 4, np.random.default_rng(8))])
    assert both.n_trees == 3


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("left", lambda a: np.where(a >= 0, a + 10_000, a)),
        ("right", lambda a: np.zeros_like(a)),
        ("leaf", lambda a: a + 10_000),
        ("block", lambda a: a + 10_000),
        ("column", lambda a: np.where(a >= 0, 4, a)),
        ("column", lambda a: np.where(a >= 0, 99, a)),
        ("root", lambda a: a + 1),
        ("leaf_table", lambda a: a[:, :-1]),
        ("leaf_table", lambda a: -a),
        ("block_table", lambda a: np.full_like(a, np.nan)),
        ("rank", lambda a: a[:, :-1]),
        ("threshold", lambda a: a[:-1]),
    ],
)
def test_a_file_that_would_lead_out_of_the_arrays_is_refused(name, change):
    forest = ForestLearner(2).learn(mixed(), 4, np.random.default_rng(0))
    state = forest.state()
    with pytest.raises(ValueError):
        TargetForest.from_state(state | {name: change(state[name])})
    with pytest.raises(ValueError):
        replace(forest, **{name: change(state[name])})


def test_tiny_and_constant_tables():
    one = mixed(n=2)
    forest = ForestLearner(2).learn(one, 4, np.random.default_rng(0))
    np.testing.assert_allclose(forest.proba(one.codes).sum(axis=1), 1.0, rtol=1e-6)
    same = one.take(np.zeros(5, dtype=int))
    forest = ForestLearner(2).learn(same, 1, np.random.default_rng(0))
    np.testing.assert_allclose(forest.proba(same.codes).sum(axis=1), 1.0, rtol=1e-6)
