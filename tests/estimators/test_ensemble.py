import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayescut as bc
from bayescut import CNetBD, CutsetEnsemble, CutsetNetwork
from bayescut.datasets import load_binary_digits
from bayescut.exceptions import DataError, ModelFileError
from bayescut.learn.ensemble.clock import Clock
from bayescut.learn.ensemble.copies import Copies
from bayescut.learn.ensemble.own_tables import OwnTables
from bayescut.learn.ensemble.pool import BAG, NETWORK, Pool
from bayescut.learn.leaves.spare import with_spare

CHAINS = ["chain 1", "chain 0.5", "shared 1", "shared 8", "trees"]


def small(**settings):
    base = {"n_chains": 5, "n_components": 3, "n_burn": 1, "n_keep": 2, "n_bags": 4}
    # Of so small a table the single network alone would be the model, or what came again.
    none = {"network": False, "few_networks": False, "repeats": False}
    return CutsetEnsemble(**{**base, **none, "random_state": 0, **settings})


@parametrize_with_checks(
    [CutsetNetwork(n_jobs=1), small(n_bags=2, n_burn=0, n_keep=1, n_jobs=1)],
)
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    centres = rng.random((4, 8)) < 0.5
    hidden = rng.integers(0, 4, 800)
    X = (centres[hidden] ^ (rng.random((800, 8)) < 0.12)).astype(np.uint8)
    X[:, 7] = X[:, 0] ^ X[:, 1]
    return X


def test_members_are_averaged_into_one_circuit(X):
    model = small().fit(X[:600])
    assert model.n_members_ == {**dict.fromkeys(CHAINS, 2), "bag": 4}
    assert sum(model.recipe_weights_.values()) == pytest.approx(1.0)
    worlds = np.array(list(np.ndindex(*[2] * 8)), dtype=np.uint8)
    p = np.exp(model.score_samples(worlds))
    assert p.sum() == pytest.approx(1.0)
    assert not hasattr(model, "structure_score_")


def test_an_ensemble_is_not_worse_than_the_single_network_or_is_it(X):
    single = CutsetNetwork().fit(X[:600])
    model = small(network=True).fit(X[:600])
    assert model.n_members_ == {NETWORK: 1, **dict.fromkeys(CHAINS, 2), "bag": 4}
    if model.recipe_weights_[NETWORK] == 1.0:
        np.testing.assert_array_equal(model.score_samples(X), single.score_samples(X))
        assert model.circuit_ == single.circuit_
    else:
        assert model.score(X[600:]) > single.score(X[600:]) - 0.01
    digits = load_binary_digits()
    averaged = small(n_components=10, network=True).fit(digits.train[:500])
    alone = CutsetNetwork().fit(digits.train[:500])
    assert averaged.recipe_weights_[NETWORK] < 1.0
    assert averaged.score(digits.test) > alone.score(digits.test) + 1.0


ONE_KIND = {
    "chains": {"prior_scales": [1.0], "shared_widths": [], "trees": False, "n_bags": 0},
    "shared": {"prior_scales": [], "shared_widths": [2], "trees": False, "n_bags": 0},
    "trees": {"prior_scales": [], "shared_widths": [], "n_bags": 0},
    "bags": {"n_chains": 0, "n_bags": 12},
}


@pytest.mark.parametrize("kind", ONE_KIND)
def test_rows_are_scored_by_members_that_have_not_seen_them(kind):
    """Of fair coins nothing can be predicted but what was seen."""
    coins = np.random.default_rng(0).integers(0, 2, (150, 12), dtype=np.uint8)
    model = small(**{"n_chains": 12, **ONE_KIND[kind]}).fit(coins)
    chance = -12 * np.log(2)
    assert model.oob_score_ < chance - 0.02
    assert model.score(coins) > chance + 0.02


def test_queries_are_exact_on_ensembles(X):
    model = small().fit(X)
    worlds = np.array(list(np.ndindex(*[2] * 8)), dtype=np.uint8)
    p = np.exp(model.score_samples(worlds))
    row = np.array([[1, np.nan, 0, np.nan, np.nan, 1, np.nan, np.nan]])
    seen = ~np.isnan(row[0])
    agree = (worlds[:, seen] == row[0, seen]).all(axis=1)
    assert model.score_samples(row)[0] == pytest.approx(np.log(p[agree].sum()))
    for j, block in enumerate(model.marginals(row)):
        expected = p[agree & (worlds[:, j] == 1)].sum() / p[agree].sum()
        assert block[0, 1] == pytest.approx(expected)
    given = model.conditional_log_likelihood({1: 1}, {0: 1, 2: 0})
    some = (worlds[:, 0] == 1) & (worlds[:, 2] == 0)
    expected = p[some & (worlds[:, 1] == 1)].sum() / p[some].sum()
    assert given[0] == pytest.approx(np.log(expected))
    completed, value = model.mpe(row, return_log_likelihood=True)
    assert value[0] == pytest.approx(model.score_samples(completed)[0])
    assert value[0] <= np.log(p[agree].max()) + 1e-9
    draws = model.sample(3000, evidence=row, random_state=1)
    assert (draws[:, seen] == row[0, seen]).all()
    np.testing.assert_allclose(
        draws.mean(axis=0), [block[0, 1] for block in model.marginals(row)], atol=0.04
    )


def test_the_result_is_reproducible_and_does_not_depend_on_threads(X):
    one, two = (small(n_jobs=jobs).fit(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    other = small(random_state=1).fit(X)
    assert not np.array_equal(one.score_samples(X), other.score_samples(X))


def test_one_recipe_alone(X):
    expected = {
        "chains": {"chain 1": 1.0, "bag": 0.0},
        "shared": {"shared 2": 1.0, "bag": 0.0},
        "trees": {"trees": 1.0, "bag": 0.0},
        "bags": {**dict.fromkeys(CHAINS, 0.0), "bag": 1.0},
    }
    for kind, settings in ONE_KIND.items():
        assert small(**settings).fit(X).recipe_weights_ == expected[kind]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior_scales": [], "shared_widths": [], "trees": False}, "must not all be empty"),
        ({"prior_scales": [1.0, 1.0]}, "prior_scales must be different"),
        ({"shared_widths": [2, 2]}, "shared_widths must be different"),
        ({"shared_widths": [-1]}, "shared_widths"),
        ({"shared_widths": [1.5]}, "shared_widths"),
    ],
)
def test_impossible_recipes(X, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        small(**settings).fit(X)


def test_a_time_budget_stops_with_what_there_is(X):
    model = small(n_chains=10_000, n_bags=0, time_budget=0.2).fit(X)
    assert 1 <= sum(model.n_members_.values()) < 20_000
    assert np.isfinite(model.score(X))


def test_whole_weights_are_repeated_rows(X):
    """Whatever their order, and whether few rows have large weights or many have small ones."""
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, len(X))
    twice = small().fit(rng.permutation(np.repeat(X, weights, axis=0)))
    distinct, counts = np.unique(np.repeat(X, weights, axis=0), axis=0, return_counts=True)
    for rows, w in ((X, weights), (distinct, counts)):
        weighted = small().fit(rows, sample_weight=w)
        assert weighted.recipe_weights_ == twice.recipe_weights_
        np.testing.assert_array_equal(weighted.score_samples(X), twice.score_samples(X))
    assert np.isfinite(small().fit(X, sample_weight=weights + 0.5).score(X))


@pytest.mark.parametrize("heavy", [50_000, 50_000.5, 2.0**45])
def test_one_heavy_row(X, heavy):
    rows = np.random.default_rng(3).integers(0, 2, (501, 8), dtype=np.uint8)
    rows[0] = 0
    rows[1:, 0] = 1
    weights = np.ones(501)
    weights[0] = heavy
    expected = heavy / (heavy + 500)
    for network in (True, False):
        model = small(n_components=5, network=network).fit(rows, sample_weight=weights)
        assert np.exp(model.score_samples(rows[:1]))[0] == pytest.approx(expected, abs=0.01)


def test_weights_that_overflow_are_told(X):
    for weight in (1e308, 1e299):
        with pytest.raises(DataError, match="divide them"):
            small().fit(X, sample_weight=np.full(len(X), weight))


def test_copies_are_drawn_one_by_one():
    """The components of a chain share the copies of a heavy row, and lose none."""
    from bayescut.learn.mixture.em import _drawn_copies

    rng = np.random.default_rng(0)
    shares = rng.dirichlet([1.0, 2.0, 3.0], 5)
    weights = np.array([1.0, 0.25, 1000.5, 2.0**45, 0.0])
    rows, parts, mass = _drawn_copies(shares, weights, rng)
    np.testing.assert_allclose(np.sum(parts, axis=0), weights)
    np.testing.assert_allclose(mass, [part.sum() for part in parts])
    for k in range(3):
        assert set(rows[k]) == set(np.flatnonzero(parts[k]))
        assert parts[k][0] in (0.0, 1.0) and parts[k][1] in (0.0, 0.25)
        assert parts[k][2] / 1000.5 == pytest.approx(shares[2, k], abs=0.06)
        assert parts[k][3] / 2.0**45 == pytest.approx(shares[3, k])


def test_chains_of_few_networks():
    from bayescut.estimators._ensemble import _few_components

    assert [_few_components(size) for size in (1, 5, 9, 10, 60, 200)] == [
        [], [], [], [2, 5], [4, 15], [6, 34],
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 1400)
    p = rng.dirichlet([0.4] * 3, size=(4, 8))
    rows = rng.random((1400, 8, 1)) > np.cumsum(p, axis=-1)[classes]
    rows = rows.sum(axis=-1)
    base = {"n_chains": 7, "n_bags": 0, "n_components": 10, "repeats": False, "random_state": 0}
    few = {"prior_scales": (), "shared_widths": (), "trees": False}
    model = CutsetEnsemble(**base, **few).fit(rows[:900])
    assert model.n_members_["networks 2"] + model.n_members_["networks 5"] == 7
    many = CutsetEnsemble(**base, few_networks=False, prior_scales=(1,), shared_widths=(),
                          trees=False).fit(rows[:900])  # fmt: skip
    assert model.score(rows[900:]) > many.score(rows[900:])
    with pytest.raises(ValueError, match="need ten components"):
        CutsetEnsemble(n_bags=0, network=False, **few).fit(rows[:100])


def test_copies_of_a_row():
    from bayescut.data import Domains
    from bayescut.data.table import Table

    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0]], dtype=np.uint8)
    for weights in ([1, 1, 3, 30, 1], [1.25, 1, 3, 30, 0.5], [1, 0, 3, 30, 1]):
        table = Table(codes, Domains.of_sizes([2, 2]), np.array(weights, dtype=float))
        copies = Copies.of(table, 8)
        rows = copies.table
        whole = all(w == int(w) for w in weights)
        assert (rows.weights is None) == whole
        for code in np.ndindex(2, 2):
            mine = (rows.codes == code).all(axis=1)
            given = (codes == code).all(axis=1)
            assert rows.all_weights[mine].sum() == pytest.approx(table.weights[given].sum())
            assert len(set(copies.group[mine])) == int(mine.any())
            # copies of a row go their own ways; parts of one that stand for many are in every fold
            folds = copies.folds(0)[mine]
            if mine.any() and not whole:
                assert len(set(folds)) == (1 if table.weights[given].sum() < 8 else 8)
            sizes = np.bincount(copies.folds(0), minlength=8)
            assert not whole or sizes.max() - sizes.min() <= 1
        drawn = np.zeros(rows.n_rows)
        for i in range(300):
            bag, chosen, unseen = copies.bag(np.random.default_rng(i))
            assert not set(chosen) & set(unseen)
            assert set(chosen) | set(unseen) == set(range(rows.n_rows))
            times = np.bincount(chosen, minlength=rows.n_rows)
            drawn += times if bag.weights is None else bag.weights
        np.testing.assert_allclose(drawn / 300, rows.all_weights, rtol=0.25)


def test_out_of_bag_scores_are_honest():
    """Weights that are fitted to noise must not make it look predictable."""
    rng = np.random.default_rng(0)
    pool = Pool.empty(40, [f"recipe {i}" for i in range(12)])
    for members in pool.recipes.values():
        members.circuits.append(None)
        members.unseen[:] = rng.normal(-5, 1, 40)
        members.n_unseen[:] = 1
        members.n_turns = 1
    shares = pool.recipe_weights(None)
    log_p = np.array([members.unseen for members in pool.recipes.values()])
    fitted = np.logaddexp.reduce(log_p + np.log(list(shares.values()))[:, None], axis=0).mean()
    fresh = rng.normal(-5, 1, (len(log_p), 100_000))
    truth = np.logaddexp.reduce(fresh + np.log(list(shares.values()))[:, None], axis=0).mean()
    assert pool.unseen_score(None) < fitted - 0.02
    assert pool.unseen_score(None) < truth + 0.05


def test_checkpoints(X, tmp_path):
    path = tmp_path / "ensemble.bc"
    settings = {"n_bags": 0, "checkpoint": path}
    half = small(**settings, n_chains=2).fit(X)
    again = small(**settings, n_chains=2).fit(X)  # nothing is left to do
    assert again.n_members_ == half.n_members_
    more = small(**settings, n_chains=6).fit(X)
    assert sum(more.n_members_.values()) == 12
    bc.save(more, tmp_path / "final.bc")
    assert (tmp_path / "final.bc").stat().st_size < path.stat().st_size
    loaded = bc.load(tmp_path / "final.bc")
    np.testing.assert_array_equal(loaded.score_samples(X), more.score_samples(X))
    for other in (X[:, :5], X[::-1]):
        with pytest.raises(DataError, match="another table"):
            small(**settings).fit(other)
    for other in (X.astype(float) * 3, pd.DataFrame(X, columns=list("abcdefgh"))):
        with pytest.raises(DataError, match="another table"):  # by the same codes
            small(**settings).fit(other)
    for changed in ({"ess": 2.0}, {"width": 2}, {"random_state": 8}):
        with pytest.raises(DataError, match="other settings"):
            small(**settings, **changed).fit(X)
    bc.save(more, path)
    with pytest.raises(ModelFileError, match="without the members"):
        small(**settings).fit(X)
    bc.save(CNetBD().fit(X), path)
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        small(**settings).fit(X)


def test_checkpoints_are_saved_as_members_come(X, tmp_path, monkeypatch):
    """As often as they may be, and at the end; an interrupted run goes on from the last one."""
    path = tmp_path / "ensemble.bc"
    sizes = []

    def count(self, pool):
        save(self, pool)
        sizes.append(pool.n_members)
        if len(sizes) == stop_after:
            raise KeyboardInterrupt

    save = bc.CutsetEnsemble._save_checkpoint
    monkeypatch.setattr(bc.CutsetEnsemble, "_save_checkpoint", count)
    settings = {"n_chains": 6, "n_bags": 0, "checkpoint": path}
    stop_after = None
    monkeypatch.setattr("bayescut.estimators._ensemble._REST_FROM_SAVING", 1e9)
    whole = small(**settings).fit(X)
    assert sizes == [2, 12]
    path.unlink()
    monkeypatch.setattr("bayescut.estimators._ensemble._REST_FROM_SAVING", -1.0)
    sizes.clear()
    stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        small(**settings).fit(X)
    assert sizes == [2, 4, 6, 8]
    resumed = small(**settings).fit(X)
    np.testing.assert_array_equal(resumed.score_samples(X), whole.score_samples(X))


def test_checkpoints_of_other_recipes_are_refused(X, tmp_path):
    path = tmp_path / "ensemble.bc"
    small(checkpoint=path, prior_scales=[1.0]).fit(X)
    with pytest.raises(DataError, match="other settings"):
        small(checkpoint=path).fit(X)


def test_an_interrupted_run_leaves_what_it_has(X, monkeypatch):
    from bayescut.learn.ensemble.learner import EnsembleLearner

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(EnsembleLearner, "_add_bags", interrupt)
    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    first = {"shared 1": 2, "shared 8": 2}  # bags come after chains of cheap sweeps
    assert model.n_members_ == {**dict.fromkeys(CHAINS, 0), **first, "bag": 0}
    assert np.isfinite(model.score(X))


def naive_weights(p, weight):
    """Weights of two recipes by a fine grid, each with a row in advance."""
    grid = np.linspace(0, 1, 2001)[1:-1]
    total = [np.dot(weight, np.log(w * p[0] + (1 - w) * p[1])) for w in grid]
    return grid[int(np.argmax(total + np.log(grid) + np.log(1 - grid)))]


def test_weights_of_recipes_follow_unseen_rows():
    pool = Pool.empty(100, ["chain 1", "bag", "other"])
    for recipe, value in (("chain 1", -1.0), ("bag", -3.0)):
        pool.recipes[recipe].circuits.append(None)
        pool.recipes[recipe].unseen[:] = value
        pool.recipes[recipe].n_unseen[:] = 1
    weights = pool.recipe_weights(None)
    assert weights["chain 1"] > 0.9
    assert weights["other"] == 0.0
    pool.recipes["bag"].unseen[:50], pool.recipes["chain 1"].unseen[:50] = -1.0, -3.0
    assert pool.recipe_weights(None) == pytest.approx({"chain 1": 0.5, "bag": 0.5, "other": 0.0})
    rng = np.random.default_rng(0)
    log_p = rng.normal(-900, 2, size=(2, 100))  # far below what a float can hold
    for recipe, line in zip(("chain 1", "bag"), log_p, strict=True):
        pool.recipes[recipe].unseen[:] = line + np.log(3)
        pool.recipes[recipe].n_unseen[:] = 3
    w = rng.integers(0, 3, 100)
    expected = naive_weights(np.exp(log_p + 900), w)
    assert pool.recipe_weights(w.astype(float))["chain 1"] == pytest.approx(expected, abs=2e-3)


def judged(values):
    pool = Pool.empty(500, list(values))
    for recipe, value in values.items():
        pool.recipes[recipe].circuits.append(None)
        pool.recipes[recipe].unseen[:] = value
        pool.recipes[recipe].n_unseen[:] = 1
        pool.recipes[recipe].n_turns = 1
    return pool


def test_recipes_of_large_weight_get_more_turns():
    assert Pool.empty(50, ["chain 1", "bag"]).next_recipe(["chain 1", "bag"], None) == "chain 1"
    pool = judged({"chain 1": -1.0, "bag": -9.0})
    turns = []
    for _ in range(40):
        recipe = pool.next_recipe(["chain 1", "bag"], None)
        pool.recipes[recipe].n_turns += 1
        turns.append(recipe)
    # nearly all go to what predicts, and the other is tried again now and then
    assert 1 <= turns.count("bag") <= 4
    assert pool.next_recipe(["bag"], None) == "bag"


def test_cheap_recipes_get_more_turns():
    pool = judged({"chain 1": -1.0, "bag": -1.0})
    turns = []
    for _ in range(60):
        recipe = pool.next_recipe(["chain 1", "bag"], None, by_cost=True)
        pool.recipes[recipe].seconds = (pool.recipes[recipe].n_turns + 1) * (
            4.0 if recipe == "chain 1" else 1.0
        )
        pool.recipes[recipe].n_turns += 1
        turns.append(recipe)
    assert turns.count("bag") == pytest.approx(40, abs=2)  # twice as many at a quarter of the cost


def test_what_was_not_judged_has_no_weight():
    pool = judged({NETWORK: -2.0, "chain 1": -1.0, "bag": -1.5})
    assert pool.recipe_weights(None)["chain 1"] > 0.9
    pool.recipes["chain 1"].n_unseen[:] = 0
    assert pool.recipe_weights(None)["chain 1"] == 0.0
    pool.recipes["bag"].unseen[:] = -2.5
    assert pool.recipe_weights(None) == {NETWORK: 1.0, "chain 1": 0.0, "bag": 0.0}
    pool.recipes["bag"].unseen[:] = -1.0
    pool.recipes[NETWORK].n_unseen[:] = 0  # nothing could tell it from the others
    assert pool.recipe_weights(None) == {NETWORK: 1.0, "chain 1": 0.0, "bag": 0.0}


def test_one_recipe_judged_by_other_rows_does_not_silence_the_rest():
    pool = judged({NETWORK: -2.0, "chain 1": -1.0, "bag": -1.5, "continuous 1": -1.0})
    for name in (NETWORK, "chain 1"):
        pool.recipes[name].n_unseen[100:] = 0
    pool.recipes["continuous 1"].n_unseen[:100] = 0
    weights = pool.recipe_weights(None)
    assert weights["chain 1"] > 0.9 and weights["continuous 1"] == 0.0
    # without the network, too: the two that share rows stay
    del pool.recipes[NETWORK]
    assert set(_weighty(pool.recipe_weights(None))) <= {"chain 1", "continuous 1", "bag"}
    only = judged({"chain 1": -1.0, "bag": -1.0})
    only.recipes["chain 1"].n_unseen[:450] = 0
    only.recipes["bag"].n_unseen[450:] = 0
    assert only.recipe_weights(None) == {"chain 1": 0.0, "bag": 1.0}


def _weighty(weights):
    return [name for name, weight in weights.items() if weight > 0]


def test_turns_that_make_nothing_leave_the_next_fold_as_it_is(X, monkeypatch):
    from bayescut.learn.ensemble import learner as ensemble

    left = []
    failing = iter([False, True, True, False, False])

    def learn_member(learner, train, held, unseen, domains, **kwargs):
        left.append(sorted(map(bytes, unseen.codes)))
        return (bc.CNetBD(n_states=2).fit(train.codes).circuit_,) * 2

    real = ensemble.EnsembleLearner._add_continuous

    def sometimes(self, *args):
        if not next(failing):
            real(self, *args)

    monkeypatch.setattr(ensemble, "learn_member", learn_member)
    monkeypatch.setattr(ensemble.EnsembleLearner, "_add_continuous", sometimes)
    model = small(
        network=False, continuous=True, prior_scales=[], shared_widths=[], trees=False,
        n_chains=5, n_bags=0,
    )  # fmt: skip
    model.fit(X[:80])
    copies = Copies.of(_table(X[:80]), 8)
    folds = copies.folds(model.seed_)
    for k, codes in enumerate(left):
        assert codes == sorted(map(bytes, np.unique(copies.table.codes[folds == k], axis=0)))
    assert len(left) == 3


def test_chains_end_with_a_sweep_of_all_rows(X, monkeypatch):
    from bayescut.learn.mixture.em import StructuralEM

    made = []
    step = StructuralEM.step

    def noted(self, circuit, number):
        made.append((self.table.n_rows, circuit, step(self, circuit, number)))
        return made[-1][2]

    monkeypatch.setattr(StructuralEM, "step", noted)
    learner = small(n_bags=0)._ensemble_learner(800.0)
    copies = Copies.of(_table(X), 8)
    pool = Pool.empty(copies.table.n_rows, learner.recipes)
    turns = list(learner.turns(pool, copies, OwnTables(copies.table, None, 0), 0, Clock()))
    assert sorted(turns) == sorted(CHAINS)
    assert {n_rows for n_rows, _, _ in made} == {copies.table.n_rows}
    left_out = np.flatnonzero(copies.folds(0) == 0)
    codes = copies.table.codes[left_out]
    for i, name in enumerate(turns):
        members = pool.recipes[name]
        two = made[2 * i : 2 * i + 2]
        assert members.circuits == [after for _, _, after in two]
        # judged by what had not seen the fold
        both = [before.log_likelihood(codes) for _, before, _ in two]
        np.testing.assert_allclose(members.unseen[left_out], np.logaddexp(*both))


class Ticking:
    """Time that passes by work alone."""

    def __init__(self):
        self.now = 0.0

    def working_time(self):
        return self.now


@pytest.mark.parametrize("budget", [2.0, 10.0, 60.0, 300.0])
@pytest.mark.parametrize("scale", [0.05, 1.0, 8.0])
def test_budgets_are_kept(X, monkeypatch, budget, scale):
    """By a clock that every piece of work moves on, whatever the time really was."""
    import bayescut.learn.ensemble.clock as clocks
    import bayescut.learn.ensemble.learner as ensembles
    from bayescut.learn.cutset.network import NetworkLearner
    from bayescut.learn.mixture.em import StructuralEM

    time = Ticking()
    monkeypatch.setattr(clocks, "working_time", time.working_time)
    monkeypatch.setattr(ensembles, "working_time", time.working_time)
    learn, run_one = NetworkLearner.learn, StructuralEM._learn

    def slow_learn(self, *args, **kwargs):
        if self.candidates is not None:
            time.now += scale
        return learn(self, *args, **kwargs)

    def slow_components(self, rows, weights):
        for _ in rows:
            if self.check is not None:
                self.check()
            time.now += scale / 4
        return run_one(self, rows, weights)

    monkeypatch.setattr(NetworkLearner, "learn", slow_learn)
    monkeypatch.setattr(StructuralEM, "_learn", slow_components)
    model = CutsetEnsemble(n_components=3, n_jobs=1, random_state=0)
    learner = model._ensemble_learner(100.0)
    copies = Copies.of(_table(X[:100]), 8)
    pool = Pool.empty(copies.table.n_rows, learner.recipes)
    tables = OwnTables(copies.table, None, 0)
    made = list(learner.turns(pool, copies, tables, 0, Clock(budget)))
    assert made[0] == NETWORK and pool.recipes[NETWORK].circuits
    assert time.now <= budget + scale
    judged = pool.recipes[NETWORK].n_unseen.any()
    if judged:
        assert all(pool.recipes[name].n_turns for name in learner.recipes) or time.now > budget / 2
    else:
        assert pool.recipe_weights(None)[NETWORK] == 1.0
    if scale < 0.1 and budget >= 10:
        assert all(pool.recipes[name].circuits for name in learner.recipes)


def _table(X):
    from bayescut.data import Domains
    from bayescut.data.table import Table

    return Table(X, Domains.of_sizes([2] * X.shape[1]))


def test_continuous_members(X):
    model = small(
        network=True, continuous=True, prior_scales=[], shared_widths=[1], trees=False, n_chains=3
    )
    model.fit(X[:300])
    assert model.n_members_["continuous 1"] == model.n_members_["continuous 8"] == 1
    recipes = {NETWORK, "shared 1", BAG, "continuous 1", "continuous 8"}
    assert model.recipe_weights_.keys() == recipes
    worlds = np.array(list(np.ndindex(*[2] * 8)), dtype=np.uint8)
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_chains": -1},
        {"n_chains": 0, "n_bags": 0},
        {"n_components": 0},
        {"n_keep": 0},
        {"width": -1},
        {"time_budget": 0},
        {"ess": 0},
        {"prior_scales": [1.0, 1.0]},
        {"prior_scales": [-1.0]},
    ],
    ids=str,
)
def test_bad_settings(X, settings):
    with pytest.raises(ValueError, match="must"):
        small(**settings).fit(X)


def test_continuous_members_alone_and_no_time(X):
    settings = {"prior_scales": (), "shared_widths": (), "trees": False, "n_bags": 0}
    model = CutsetEnsemble(
        network=False, continuous=True, time_budget=1e-3, n_jobs=1, random_state=0, **settings
    ).fit(X)
    assert sum(model.n_members_.values()) >= 1
    assert np.isfinite(model.score(X))


def test_what_left_out_rows_hold_does_not_judge_members(monkeypatch):
    """Not even by the columns by themselves that stand beside Gaussian members."""
    from bayescut.learn.ensemble import learner

    sizes = []

    def noted(circuit, table):
        sizes.append(table.n_rows)
        return with_spare(circuit, table)

    monkeypatch.setattr(learner, "with_spare", noted)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1)) + rng.normal(size=(300, 3)) * 0.1
    settings = {"shared_widths": (), "trees": False, "prior_scales": (1.0,), "n_bags": 0}
    CutsetEnsemble(2, 2, n_burn=1, network=False, n_jobs=1, random_state=0, **settings).fit(
        x.round(3)
    )
    # Of each chain that has a sweep with all rows: judged without a fold, made with it.
    assert len(sizes) >= 2
    for judged, made in zip(sizes[::2], sizes[1::2], strict=True):
        assert judged < made == 300
