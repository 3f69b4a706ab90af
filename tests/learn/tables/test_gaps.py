"""Missing cells in training: available-case forests, draws, copies, indicators, resolutions."""

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.special import gammaln

import bayescut as bc
from bayescut.data import Domains, encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.learn.tables.gaps import (
    AvailableForest,
    Completions,
    available_forest,
    available_pairs,
    fill_empty,
    with_indicators,
)
from bayescut.learn.tables.resolution import choose_depth, coarsen


def in_cells(table):
    return coarsen(table, choose_depth(table, None))


def forest_of(table):
    return AvailableForest(available_pairs(table), table.domains)


def chain(n, seed, gaps=0.0):
    """Four columns, each like the one before; cells missing completely at random."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n, 4), dtype=np.uint8)
    codes[:, 0] = rng.integers(0, 3, n)
    for j in range(1, 4):
        same = rng.random(n) < 0.85
        codes[:, j] = np.where(same, codes[:, j - 1], rng.integers(0, 3, n))
    codes[rng.random(codes.shape) < gaps] = 255
    return Table(codes, Domains.of_sizes([3] * 4))


def marginal_likelihood(cells, ess, size):
    counts = np.bincount(cells, minlength=size)
    a = ess / size
    found = gammaln(ess) - gammaln(counts.sum() + ess)
    return found + sum(gammaln(c + a) - gammaln(a) for c in counts)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_forest_score_is_that_of_its_parts(gaps):
    table = chain(200, 1, gaps)
    forest = forest_of(table)
    total = 0.0
    for v, u in enumerate(forest.parents):
        own = table.codes[:, v]
        total += marginal_likelihood(own[own != 255], 1.0, 3)
        if u >= 0:
            other = table.codes[:, u]
            both = (own != 255) & (other != 255)
            x, y = own[both].astype(int), other[both].astype(int)
            total += marginal_likelihood(3 * x + y, 1.0, 9)
            total -= marginal_likelihood(x, 1.0, 3) + marginal_likelihood(y, 1.0, 3)
    assert forest.score == pytest.approx(total)
    edges = {frozenset((v, int(u))) for v, u in enumerate(forest.parents) if u >= 0}
    assert edges == {frozenset(e) for e in ((0, 1), (1, 2), (2, 3))}


def test_forest_weighs_rows():
    table = chain(60, 2, 0.2)
    weights = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    repeated = table.take(np.repeat(np.arange(60), weights.astype(int)))
    assert forest_of(table.with_weights(weights)).score == pytest.approx(forest_of(repeated).score)


def test_forest_circuit_agrees_with_counts():
    table = chain(500, 3, 0.3)
    circuit = available_forest(table)
    nan = float("nan")
    root = int(np.flatnonzero(forest_of(table).parents < 0)[0])
    row = [nan] * 4
    row[root] = 1
    own = table.codes[:, root]
    expected = (np.sum(own == 1) + 1 / 3) / (np.sum(own != 255) + 1)
    assert circuit.log_likelihood([row])[0] == pytest.approx(math.log(expected))


def test_draws_keep_what_is_observed_and_are_reproducible():
    table = chain(400, 4, 0.3)
    completions = Completions(table, 0, n_sweeps=3)
    first, second = completions.single(0), completions.single(1)
    seen = table.observed
    assert not first.has_gaps and not second.has_gaps
    assert (first.codes[seen] == table.codes[seen]).all()
    assert (first.codes != second.codes).any()
    again = Completions(table, 0, n_sweeps=3, n_jobs=2)
    assert (again.single(1).codes == second.codes).all()


def test_copies_share_the_weight_of_their_row():
    table = chain(300, 5, 0.2)
    weights = np.random.default_rng(1).random(300) + 0.5
    copies = Completions(table.with_weights(weights), 0, n_sweeps=2).copies()
    assert copies.weights.sum() == pytest.approx(weights.sum())
    incomplete = (~table.observed.all(axis=1)).sum()
    assert copies.n_rows == 300 + 4 * incomplete


def test_draws_have_the_dependence_of_the_table():
    whole, holes = chain(3000, 6), chain(3000, 6, 0.5)
    drawn = Completions(holes, 0).single(0).codes
    agree = [np.mean(t[:, 0] == t[:, 1]) for t in (whole.codes, drawn)]
    assert agree[1] == pytest.approx(agree[0], abs=0.03)


def lines(n, seed, gaps=0.0):
    """Numbers near two parallel lines that a label tells apart."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    a = rng.normal(0, 3, n)
    b = a + 4 * kind + rng.normal(0, 0.1, n)
    c, d = 2 * a - b + rng.normal(0, 0.1, n), a + b + rng.normal(0, 0.1, n)
    X = pd.DataFrame({"a": a, "kind": np.array(["u", "v"])[kind], "b": b, "c": c, "d": d}).round(2)
    return X.mask(rng.random(X.shape) < gaps)


def test_numbers_are_drawn_where_gaussians_know_more():
    holes = lines(1500, 0, 0.15)
    domains = learn_domains(holes, numbers=True)
    codes, values = encode_table(holes, domains, allow_missing=True)
    table = in_cells(Table(codes, domains, None, values))
    completions = Completions(table, 0)
    assert completions.models[-1].has_normals
    drawn = completions.single(0)
    there = ~np.isnan(table.values)
    assert_array_equal(drawn.values[there], table.values[there])
    assert not drawn.has_gaps and not np.isnan(drawn.values[:, [0, 2, 3, 4]]).any()
    # A missing number lies on one of the lines, and in its cell.
    for j, domain in enumerate(table.domains):
        if domain.grid is not None:
            assert_array_equal(domain.grid.codes(drawn.values[:, j]), drawn.codes[:, j])
    a, b = drawn.values[:, 0], drawn.values[:, 2]
    away = np.minimum(np.abs(b - a), np.abs(b - a - 4))[~there[:, 2]]
    assert np.median(away) < 0.2
    copies = completions.copies()
    assert not np.isnan(copies.values[:, [0, 2]]).any()
    # Codes alone: as ever.
    assert not Completions(table, 0, gaussian=False).models[-1].has_normals


def test_gaps_of_numbers_cost_little():
    whole, test = lines(1500, 1), lines(2000, 2)
    holes = lines(1500, 1, 0.2)
    best = bc.CutsetMixture(4, random_state=0).fit(whole).score(test)
    drawn = bc.CutsetMixture(4, random_state=0).fit(holes).score(test)
    filled = holes.fillna({**holes[["a", "b", "c", "d"]].mean(), "kind": "u"})
    mode = bc.CutsetMixture(4, random_state=0).fit(filled).score(test)
    assert best - drawn < 0.2 * (best - mode)


def test_gaps_cost_little():
    """A tenth (a third) of what filling with modes costs, at 20 % (50 %) of the cells."""
    train, test = chain(2000, 7).codes, chain(4000, 8).codes
    best = bc.CutsetNetwork(n_jobs=1).fit(train).score(test)
    for gaps, most in ((0.2, 0.1), (0.5, 1 / 3)):
        holes = chain(2000, 7, gaps).codes.astype(float)
        holes[holes == 255] = np.nan
        modes = np.array([np.bincount(c[~np.isnan(c)].astype(int)).argmax() for c in holes.T])
        filled = np.where(np.isnan(holes), modes, holes)
        drawn = bc.CutsetNetwork(n_jobs=1).fit(holes).score(test)
        mode = bc.CutsetNetwork(n_jobs=1).fit(filled).score(test)
        assert best - drawn < most * (best - mode)


def test_missing_at_random_is_not_complete_cases():
    """y is seen only where x is small: the mean of y needs x."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 4000)
    y = (rng.random(4000) < np.where(x == 1, 0.9, 0.1)).astype(float)
    y[(x == 1) & (rng.random(4000) < 0.9)] = np.nan
    model = bc.CNetBD(n_jobs=1).fit(np.column_stack([x, y]))
    assert model.marginals([[np.nan, np.nan]])[1][0, 1] == pytest.approx(0.5, abs=0.05)
    assert np.nanmean(y) < 0.2


@pytest.mark.parametrize("learner", ["CutsetNetwork", "CutsetMixture", "CutsetEnsemble"])
@pytest.mark.parametrize("missing", ["random", "informative"])
def test_every_learner_takes_gaps(learner, missing):
    rng = np.random.default_rng(2)
    n = 200
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], n), "b": rng.normal(0, 1, n).round(1)})
    frame["c"] = frame["b"] + rng.normal(0, 0.1, n).round(1)
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    settings = {
        "CutsetNetwork": {},
        "CutsetMixture": {"n_components": 2, "tol": 0.1, "random_state": 0},
        "CutsetEnsemble": {"n_chains": 2, "n_bags": 1, "random_state": 0},
    }[learner]
    model = getattr(bc, learner)(n_jobs=1, missing=missing, **settings).fit(holes)
    assert model.n_features_in_ == 3
    assert len(model.circuit_.domains) == (3 if missing == "random" else 6)
    assert np.isfinite(model.score_samples(holes)).all()
    assert model.sample(5, random_state=0).shape == (5, 3)
    assert model.impute(holes, method="median").notna().all(axis=None)
    assert model.marginals(holes.head(2)).shape[0] == 2
    assert model.mpe(holes.head(3)).shape == (3, 3)
    from io import BytesIO

    file = BytesIO()
    bc.save(model, file)
    file.seek(0)
    again = bc.load(file)
    assert np.array_equal(again.score_samples(holes), model.score_samples(holes))


def test_informative_gaps_are_known_to_completions():
    """Half of the rows have a gap in a; b tells which, so a gap tells b."""
    rng = np.random.default_rng(3)
    b = rng.integers(0, 2, 2000)
    a = rng.integers(0, 2, 2000).astype(float)
    a[(b == 1) & (rng.random(2000) < 0.95)] = np.nan
    X = np.column_stack([a, b])
    ask = [[np.nan, np.nan]]
    random = bc.CutsetNetwork(n_jobs=1).fit(X).marginals(ask)[1][0, 1]
    told = bc.CutsetNetwork(n_jobs=1, missing="informative").fit(X)
    assert random == pytest.approx(0.5, abs=0.05)
    # A row without a: b = 1. But nothing is said of gaps by a mapping, or in a likelihood.
    assert told.marginals(ask)[1][0, 1] > 0.95
    assert told.marginals({})[1][0, 1] == pytest.approx(0.5, abs=0.05)
    assert told.score_samples([[np.nan, 1]])[0] == pytest.approx(math.log(0.5), abs=0.1)


def test_indicators():
    table = chain(50, 9, 0.3)
    more = with_indicators(table, [1, 3])
    assert more.n_columns == 6
    assert (more.codes[:, 4] == ~table.observed[:, 1]).all()
    assert with_indicators(table, []) is table
    names = Domains.of_sizes([2, 2], ["a", "a is missing"])
    named = with_indicators(Table(np.array([[255, 0]], dtype=np.uint8), names), [0])
    assert named.domains.names == ["a", "a is missing", "a is missing?"]


def test_columns_without_values_have_no_gaps():
    codes = np.array([[255, 0], [255, 255]], dtype=np.uint8)
    filled = fill_empty(Table(codes, Domains.of_sizes([1, 2])))
    assert filled.codes.tolist() == [[0, 0], [0, 255]]


def numbers(n, noise, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, n)
    X = np.column_stack([x, x + noise * rng.normal(0, 1, n)]).round(2)
    domains = learn_domains(X, numbers=True)
    codes, values = encode_table(X, domains, allow_missing=False)
    return Table(codes, domains, None, values)


def test_coarser_cells_hold_the_same_numbers():
    table = numbers(300, 0.5)
    coarse = coarsen(table, 2)
    assert coarse.sizes.max() <= 4
    for j in range(2):
        grid = coarse.domains[j].grid
        assert (grid.codes(table.values[:, j]) == coarse.codes[:, j]).all()
        fine = table.domains[j].grid
        assert np.allclose(grid.log_density([0.1, 2.5]), fine.log_density([0.1, 2.5]))


def test_coarser_cells_keep_gaps_beside_columns_of_many_states():
    fine = numbers(300, 0.5)
    domains = Domains([*fine.domains, *Domains.of_sizes([300])])
    codes = np.column_stack([fine.codes.astype(np.uint16), np.arange(300, dtype=np.uint16)])
    codes[::7, 0] = 65535
    table = Table(codes, domains, None, np.column_stack([fine.values, np.full(300, np.nan)]))
    assert (coarsen(table, 2).observed == table.observed).all()


def test_resolution_follows_rows_and_dependence():
    few, many = (in_cells(numbers(n, 0.05)) for n in (60, 4000))
    loose = in_cells(numbers(4000, 1.0))
    assert few.sizes[0] < many.sizes[0]
    assert loose.sizes[0] < many.sizes[0]
    labels = chain(20, 0)
    assert choose_depth(labels, None) is None


def test_tables_ruled_by_cases_are_completed_by_networks(monkeypatch):
    """A switch says which of four columns the last one repeats: mixtures blur that."""
    rng = np.random.default_rng(0)

    def rows(n):
        switch, inputs = rng.integers(0, 4, n), rng.integers(0, 4, (n, 4))
        return np.column_stack([switch, inputs, inputs[np.arange(n), switch]]).astype(float)

    X, fresh = rows(4000), rows(1000)
    whole = bc.CutsetNetwork().fit(X.astype(int)).score(fresh.astype(int))
    X[rng.random(X.shape) < 0.2] = np.nan
    domains = Domains.of_sizes([4] * 6)
    codes = np.where(np.isnan(X), 255, X).astype(np.uint8)
    drawn = Completions(Table(codes, domains), 0)
    assert all(model.properties.deterministic for model in drawn.models)
    sharp = bc.CutsetNetwork(columns={j: "label" for j in range(6)}).fit(X).score(fresh)
    monkeypatch.setattr("bayescut.learn.tables.gaps._MOST_CELLS", 0)
    assert not Completions(Table(codes, domains), 0).models[-1].properties.deterministic
    blurred = bc.CutsetNetwork(columns={j: "label" for j in range(6)}).fit(X).score(fresh)
    assert whole >= sharp > blurred + 0.1
