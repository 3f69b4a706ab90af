import itertools

import numpy as np
import pytest

from bayescut import CutsetEnsemble
from bayescut.circuit.refine import refine
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.learn.ensemble.copies import Copies
from bayescut.learn.ensemble.pool import REPEATS, Members, Pool
from bayescut.learn.ensemble.repeats import discounted, repeats_circuit, unseen_logs


def copies_of(codes, sizes, weights=None):
    dtype = np.uint8 if max(sizes) < 255 else np.uint16
    return Copies.of(Table(np.asarray(codes, dtype=dtype), Domains.of_sizes(sizes), weights), 8)


def worlds(sizes):
    return np.array(list(itertools.product(*map(range, sizes))))


def marginals(every, p, sizes):
    """Of all columns, end to end."""
    own = [np.bincount(every[:, j], p, minlength=size) for j, size in enumerate(sizes)]
    return np.concatenate(own) / p.sum()


def popular(rng, n, sizes, n_popular=12, part=0.6):
    """Rows of independent columns, and some that come again and again."""
    rows = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    favourites = np.stack([rng.integers(0, size, n_popular) for size in sizes], axis=1)
    again = rng.random(n) < part
    rows[again] = favourites[rng.integers(0, n_popular, int(again.sum()))]
    return rows, favourites


@pytest.mark.parametrize("seed", range(6))
def test_discounts(seed):
    counts = np.random.default_rng(seed).poisson(1.2, 40).astype(float)
    once, twice = np.sum(counts == 1), np.sum(counts == 2)
    left = [max(c - once / (once + 2 * twice), 0.0) if c > 0 else 0.0 for c in counts]
    np.testing.assert_allclose(discounted(counts), np.array(left) / sum(left))


def test_nothing_comes_again_where_nothing_has():
    assert not discounted(np.ones(5)).any()
    assert repeats_circuit(copies_of(worlds([2, 2, 2]), [2, 2, 2])) is None
    copies = copies_of(worlds([2, 2, 2]), [2, 2, 2])
    assert unseen_logs(copies, copies.folds(0)) is None


@pytest.mark.parametrize("sizes", [[2] * 7, [3, 2, 5, 4], [2, 1, 6], [4], [300, 2, 3], [1, 1]])
@pytest.mark.parametrize("seed", range(3))
def test_a_circuit_of_rows(sizes, seed):
    rng = np.random.default_rng(seed)
    rows, _ = popular(rng, 200, sizes)
    copies = copies_of(rows, sizes)
    circuit = repeats_circuit(copies)
    different, counts = np.unique(rows, axis=0, return_counts=True)
    shares = discounted(counts.astype(float))
    expected = {tuple(row): share for row, share in zip(different, shares, strict=True)}
    every = worlds(sizes)
    p = np.array([expected.get(tuple(world), 0.0) for world in every])
    np.testing.assert_allclose(np.exp(circuit.log_likelihood(every)), p, atol=1e-15)
    # any cells missing, and what they are then
    given = every[rng.integers(0, len(every), 20)]
    given = np.where(rng.random(given.shape) < 0.5, -1, given)
    agree = ((given[:, None] == every) | (given[:, None] < 0)).all(axis=2)
    np.testing.assert_allclose(np.exp(circuit.log_likelihood(given)), agree @ p, atol=1e-15)
    for row, fits in zip(given, agree, strict=True):
        if (fits * p).sum() > 0:
            expected = marginals(every, fits * p, sizes)
            np.testing.assert_allclose(circuit.marginals(row[None])[0], expected, atol=1e-12)


def test_rows_in_which_hardly_anything_is_set():
    """Decisions cannot halve them: the circuit is as deep as there are rows."""
    rows = np.vstack([np.eye(400, dtype=int), np.eye(400, dtype=int)[:200]])
    circuit = repeats_circuit(copies_of(rows, [2] * 400))
    p = np.exp(circuit.log_likelihood(np.eye(400, dtype=int)))
    assert p.sum() == pytest.approx(1)
    assert p[:200].min() > p[200:].max()


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_judged_by_what_other_folds_hold(weighted):
    rng = np.random.default_rng(3)
    rows, _ = popular(rng, 300, [2, 3, 2, 2])
    weights = rng.choice([1.0, 2.5, 40.0], 300) if weighted else None
    copies = copies_of(rows, [2, 3, 2, 2], weights)
    folds = copies.folds(1)
    found = np.exp(unseen_logs(copies, folds))
    table = copies.table
    for i in range(0, table.n_rows, 7):
        others = folds != folds[i]
        keys, place = np.unique(table.codes[others], axis=0, return_inverse=True)
        shares = discounted(np.bincount(place.ravel(), table.all_weights[others]))
        same = (keys == table.codes[i]).all(axis=1)
        assert found[i] == pytest.approx(shares[same].sum(), abs=1e-14)


def test_rows_with_gaps_are_not_kept():
    codes = np.array([[0, 1], [0, 1], [0, 255], [0, 255], [1, 0]] * 3, dtype=np.uint8)
    copies = Copies.of(Table(codes, Domains.binary(2)), 8)
    circuit = repeats_circuit(copies)
    p = np.exp(circuit.log_likelihood(worlds([2, 2])))
    assert p.sum() == pytest.approx(1)
    assert p[1] > p[2] > 0 == p[0] == p[3]


def test_too_many_rows_are_not_kept(monkeypatch):
    from bayescut.learn.ensemble import repeats

    rng = np.random.default_rng(0)
    rows, _ = popular(rng, 300, [2] * 9)
    different, counts = np.unique(rows, axis=0, return_counts=True)
    monkeypatch.setattr(repeats, "_MOST_CELLS", 9 * int(np.sum(counts > 1)))
    circuit = repeats_circuit(copies_of(rows, [2] * 9))
    assert np.isneginf(circuit.log_likelihood(different[counts == 1])).all()
    assert np.isfinite(circuit.log_likelihood(different[counts > 1])).all()
    monkeypatch.setattr(repeats, "_MOST_CELLS", 8)
    assert repeats_circuit(copies_of(rows, [2] * 9)) is None


def ensemble(**settings):
    base = {"n_chains": 6, "n_components": 3, "n_burn": 1, "n_bags": 4, "random_state": 0}
    return CutsetEnsemble(**{**base, **settings})


def test_ensembles_know_rows_that_come_again():
    rng = np.random.default_rng(1)
    sizes = [2] * 9 + [4]
    rows, _ = popular(rng, 1800, sizes, n_popular=150)
    new = rows[900:]
    model, without = ensemble().fit(rows[:900]), ensemble(repeats=False).fit(rows[:900])
    assert model.n_members_[REPEATS] == 1
    assert REPEATS not in without.n_members_
    assert model.score(new) > without.score(new) + 0.1
    assert model.oob_score_ == pytest.approx(model.score(new), abs=0.2)
    every = worlds(sizes)
    p = np.exp(model.score_samples(every))
    assert p.sum() == pytest.approx(1)
    assert p.min() > 0
    # under evidence, too
    agree = (every[:, 0] == 1) & (every[:, 9] == 2)
    given = np.full((1, 10), -1)
    given[0, [0, 9]] = 1, 2
    found = model.circuit_.marginals(given)[0]
    np.testing.assert_allclose(found, marginals(every, agree * p, sizes), rtol=1e-9)
    drawn = model.circuit_.sample_conditional(np.repeat(given, 50, axis=0), 0)
    assert (drawn[:, [0, 9]] == [1, 2]).all()


def test_a_table_of_a_few_rows_leaves_nothing_impossible():
    rows = np.repeat([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]], [9000, 8000, 4000], axis=0)
    for network in (True, False):
        model = ensemble(network=network).fit(rows)
        p = np.exp(model.score_samples(worlds([2] * 4)))
        assert p.min() > 0
        assert p.sum() == pytest.approx(1)


def test_weights_are_rows():
    rng = np.random.default_rng(2)
    rows, _ = popular(rng, 120, [2, 2, 3, 2])
    weights = rng.integers(0, 4, len(rows))
    one = ensemble().fit(rows, sample_weight=weights)
    other = ensemble().fit(rng.permutation(np.repeat(rows, weights, axis=0)))
    every = worlds([2, 2, 3, 2])
    np.testing.assert_array_equal(one.score_samples(every), other.score_samples(every))


def test_numbers_and_gaps():
    rng = np.random.default_rng(4)
    first = rng.integers(0, 6, 400).astype(float)
    table = np.stack([first, first * 2.5 + rng.integers(0, 2, 400), rng.integers(0, 3, 400)], 1)
    table[rng.random(table.shape) < 0.05] = np.nan
    model = ensemble(columns={0: "number", 1: "number", 2: "label"}).fit(table)
    assert model.n_members_[REPEATS] == 1
    assert np.isfinite(model.score_samples(table)).all()
    assert np.isfinite(model.sample(20, random_state=0).astype(float)).all()


def test_smaller_models_are_models():
    rng = np.random.default_rng(5)
    rows, favourites = popular(rng, 1500, [2] * 7, n_popular=40, part=0.95)
    model = ensemble(network=False).fit(rows)
    assert model.recipe_weights_[REPEATS] > 0.3
    small = model.compress(60, favourites)
    assert small.n_parameters_ <= 60
    assert np.exp(small.score_samples(worlds([2] * 7))).min() > 0


def test_weights_never_know_by_heart_alone():
    pool = Pool.empty(1000, ["a", "b", REPEATS])
    for name, log_p in (("a", -9.0), ("b", -9.5), (REPEATS, -0.1)):
        pool.recipes[name] = Members([None], np.full(1000, log_p), np.ones(1000, dtype=np.int64))
    shares = pool.recipe_weights(np.full(1000, 1e6))
    assert shares["a"] >= 0.001
    assert shares[REPEATS] > 0.99
    assert shares["b"] == 0
    pool.recipes["a"].n_unseen[:] = pool.recipes["b"].n_unseen[:] = 0
    assert pool.recipe_weights(None) == {"a": 0.5, "b": 0.5, REPEATS: 0}


def test_rows_over_finer_states():
    rows = np.array([[0, 1], [0, 1], [1, 0], [1, 0], [1, 1]])
    domains = Domains.of_sizes([3, 2])
    circuit = repeats_circuit(copies_of(rows, [2, 2]))
    fine = refine(
        circuit, domains, [np.array([0, 1, 1]), np.array([0, 1])],
        [np.array([1, 0.25, 0.75]), np.ones(2)],
    )  # fmt: skip
    coarse = np.exp(circuit.log_likelihood([[0, 1], [1, 0], [1, 1]]))
    found = np.exp(fine.log_likelihood([[0, 1], [1, 0], [2, 0], [1, 1], [2, 1], [0, 0]]))
    expected = [coarse[0], *coarse[1] * np.array([0.25, 0.75]), *coarse[2] * np.array([0.25, 0.75])]
    np.testing.assert_allclose(found, [*expected, 0], atol=1e-15)
