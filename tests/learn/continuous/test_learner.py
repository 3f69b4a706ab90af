"""Decoder, gradient, points and the circuit they become, against naive sums."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bayescut.data import Domains
from bayescut.learn.continuous.circuit import (
    Compiled,
    _fewest,
    compile_decoder,
    shared_structure_circuit,
)
from bayescut.learn.continuous.decoder import (
    BLOCK,
    Decoder,
    Parameters,
    log_likelihood,
    normal_points,
    start_parameters,
)
from bayescut.learn.continuous.families import Families, FewPicks, ManyPicks
from bayescut.learn.continuous.learner import ContinuousLearner, TooLong, learn_member
from bayescut.learn.continuous.rows import Rows
from bayescut.learn.continuous.structure import Structure

# A tree, a forest with states of all numbers (constant columns too), a wide junction tree.
CASES = {
    "binary tree": ([2, 2, 2, 2], [(2, ()), (0, (2,)), (3, (0,)), (1, (2,))]),
    "states": ([3, 1, 2, 4, 2], [(0, ()), (3, (0,)), (1, ()), (2, (3,)), (4, ())]),
    "wide": ([2, 3, 2, 2], [(1, ()), (0, (1,)), (3, (1, 0)), (2, (3, 0))]),
    "constant": ([1, 1], [(0, ()), (1, ())]),
}


def structure_of(families):
    columns = np.array([column for column, _ in families])
    parents = [p for _, parents in families for p in parents]
    ptr = np.cumsum([0] + [len(parents) for _, parents in families])
    hosts = []
    for _, wanted in families:
        scopes = [{column, *parents} for column, parents in families]
        holders = [i for i, scope in enumerate(scopes[: len(hosts)]) if scope >= set(wanted)]
        hosts.append(holders[-1] if wanted else -1)
    return Structure(columns, ptr, np.array(parents, dtype=np.int64), np.array(hosts))


@pytest.fixture(params=CASES)
def case(request):
    sizes, families = CASES[request.param]
    rng = np.random.default_rng(3)
    sizes = np.array(sizes)
    codes = rng.integers(0, sizes, size=(30, len(sizes))).astype(np.uint8)
    return structure_of(families), sizes, codes


def naive_tables(structure, sizes, logits):
    """Probability tables of one point, family by family."""
    tables, at = [], 0
    for f, column in enumerate(structure.columns):
        shape = [int(sizes[p]) for p in structure.parents_of(f)]
        free = int(sizes[column]) - 1
        block = logits[at : at + math.prod(shape) * free].reshape(*shape, free)
        at += block.size
        e = np.exp(np.concatenate([np.zeros((*shape, 1)), block], axis=-1))
        tables.append(e / e.sum(axis=-1, keepdims=True))
    assert at == len(logits)
    return tables


def naive_log_likelihood(structure, sizes, logits, weights, codes):
    result = np.zeros(len(codes))
    for point, weight in zip(logits.T, weights, strict=True):
        tables = naive_tables(structure, sizes, point)
        for r, row in enumerate(codes):
            p = weight
            for f, column in enumerate(structure.columns):
                p *= tables[f][tuple(row[list(structure.parents_of(f))])][row[column]]
            result[r] += p
    return np.log(result)


def random_decoder(structure, sizes, dtype=np.float64, hidden=(5, 4), n_latent=3):
    families = Families(structure, sizes)
    rng = np.random.default_rng(0)
    start = rng.standard_normal(families.n_logits)
    layers = (n_latent, *hidden)
    parameters = start_parameters(layers, families.offsets.n_outputs, start, rng, dtype)
    for bias in parameters.biases[:-1]:
        bias += rng.standard_normal(bias.shape).astype(dtype)
    return Decoder(families, parameters)


def test_likelihood_against_a_naive_sum(case):
    structure, sizes, codes = case
    decoder = random_decoder(structure, sizes)
    points = np.random.default_rng(1).standard_normal((3, 7))
    logits = decoder.logits(points)
    expected = naive_log_likelihood(structure, sizes, logits, np.full(7, 1 / 7), codes)
    families = decoder.families
    picked = families.features(codes)
    found = log_likelihood(families, decoder.feature_weights(points), picked, n_rows=8)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    from_gradient, _, _, shares = decoder.gradient(families.rows(picked, float), points)
    np.testing.assert_allclose(from_gradient, expected, rtol=1e-12, atol=1e-14)
    assert shares.sum() == pytest.approx(1.0)
    weights = np.random.default_rng(2).dirichlet(np.ones(7))
    expected = naive_log_likelihood(structure, sizes, logits, weights, codes)
    rows = families.rows(picked, float)
    np.testing.assert_allclose(
        decoder.gradient(rows, points, np.log(weights))[0], expected, atol=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("few", [0.0, 1.0])
def test_products_of_rows_in_both_forms(case, few, dtype, monkeypatch):
    from bayescut.learn.continuous import families as continuous_families

    monkeypatch.setattr(continuous_families, "_FEW", few)
    structure, sizes, codes = case
    families = Families(structure, np.array(sizes))
    codes = np.concatenate([codes, np.zeros((2, len(sizes)), dtype=codes.dtype)])
    picked = families.features(codes)
    rows = families.rows(picked, dtype)
    if max(sizes) > 1:
        assert isinstance(rows, FewPicks if few else ManyPicks)
    plain = families.indicators(picked, np.float64)
    rng = np.random.default_rng(0)
    assert len(rows) == len(codes)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"atol": 1e-12}
    weights = rng.standard_normal((families.n_features, 9))
    found = rows.times(weights.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, plain @ weights, **close)
    shares = rng.random((len(codes), 5))
    found = rows.transposed_times(shares.astype(dtype))
    np.testing.assert_allclose(found, plain.T @ shares, **close)


def test_extreme_logits_neither_overflow_nor_vanish():
    for sizes, families in (CASES["binary tree"], CASES["states"]):
        structure = structure_of(families)
        layout = Families(structure, np.array(sizes))
        rng = np.random.default_rng(0)
        signs = rng.choice([-1.0, 1.0], size=(layout.n_logits, 6))
        for dtype, size in ((np.float32, 80.0), (np.float64, 1e4)):
            weights, probability = layout.weights((size * signs).astype(dtype))
            assert np.isfinite(weights).all()
            assert (probability >= 0).all() and (probability <= 1).all()
        tables = layout.log_tables((80 * signs).astype(np.float32))
        assert np.isfinite(tables).all()


@pytest.mark.parametrize("n_points", [5, BLOCK + 3])
def test_gradient_against_finite_differences(case, n_points):
    structure, sizes, codes = case
    decoder = random_decoder(structure, sizes)
    families = decoder.families
    rng = np.random.default_rng(4)
    points = rng.standard_normal((3, n_points))
    logs = np.log(rng.dirichlet(np.ones(n_points)))
    rows = families.rows(families.features(codes), np.float64)

    def value():
        return decoder.gradient(rows, points, logs)[0].mean()

    _, gradient, by_point, shares = decoder.gradient(rows, points, logs)
    alone = decoder.gradient(rows, points, logs, by_parameters=False)
    assert alone[1] == []
    np.testing.assert_array_equal(alone[2], by_point)
    h = 1e-6
    arrays = [*decoder.parameters.arrays(), points, logs]
    slopes = [*gradient, by_point, shares]
    for array, slope in zip(arrays, slopes, strict=True):
        assert array.shape == slope.shape
        flat = array.reshape(-1)
        for i in rng.permutation(flat.size)[:6]:
            before = flat[i]
            flat[i] = before + h
            up = value()
            flat[i] = before - h
            down = value()
            flat[i] = before
            assert slope.reshape(-1)[i] == pytest.approx((up - down) / (2 * h), abs=2e-8, rel=1e-4)


def test_tables_and_circuit_are_the_mixture(case):
    structure, sizes, codes = case
    decoder = random_decoder(structure, sizes)
    points = np.random.default_rng(1).standard_normal((3, 5))
    weights = np.random.default_rng(2).dirichlet(np.ones(5))
    logits = decoder.logits(points)
    tables = decoder.families.log_tables(logits)
    for table, point in zip(tables, logits.T, strict=True):
        naive = [t.ravel() for t in naive_tables(structure, sizes, point)]
        np.testing.assert_allclose(np.exp(table), np.concatenate(naive), rtol=1e-12, atol=1e-14)
    circuit = shared_structure_circuit(Domains.of_sizes(sizes), structure, tables, weights)
    expected = naive_log_likelihood(structure, sizes, logits, weights, codes)
    np.testing.assert_allclose(circuit.log_likelihood(codes), expected, rtol=1e-12, atol=1e-14)
    worlds = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    assert np.exp(circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0, abs=1e-12)
    one = shared_structure_circuit(Domains.of_sizes(sizes), structure, tables[:1], np.ones(1))
    assert one.n_nodes == 1 and one.properties.deterministic


def test_the_start_is_the_smoothed_tree():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 2])
    structure = structure_of([(0, ()), (1, (0,))])
    codes = rng.integers(0, sizes, size=(40, 2)).astype(np.uint8)
    weights = rng.random(40)
    families = Families(structure, sizes)
    logits = families.mean_logits(families.features(codes), weights, ess=1.2)
    root, child = naive_tables(structure, sizes, logits)
    for s in range(3):
        own = weights[codes[:, 0] == s]
        assert root[s] == pytest.approx((own.sum() + 0.4) / (weights.sum() + 1.2))
        both = weights[(codes[:, 0] == s) & (codes[:, 1] == 1)]
        assert child[s, 1] == pytest.approx((both.sum() + 0.2) / (own.sum() + 0.4))


# ---------------------------------------------------------------------------------------- rows


def test_rows_depend_on_the_multiset_alone():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(50, 3)).astype(np.uint8)
    weights = rng.integers(0, 4, 50)
    repeated = Rows.of(np.repeat(codes, weights, axis=0))
    order = rng.permutation(50)
    for rows in (Rows.of(codes, weights * 1.0), Rows.of(codes[order], weights[order] * 1.0)):
        np.testing.assert_array_equal(rows.codes, repeated.codes)
        np.testing.assert_array_equal(rows.weights, repeated.weights)
    assert len(repeated) == len(np.unique(codes[weights > 0], axis=0))


@pytest.mark.parametrize("scale", [1.0, 0.3, 1e12])
def test_draws_keep_to_the_weights(scale):
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 6, 20).astype(float)
    rows = Rows(np.arange(20, dtype=np.uint8)[:, None], weights * scale)
    size = int(weights.sum())
    np.testing.assert_array_equal(np.bincount(rows.draw(size, rng), minlength=20), weights)
    few = np.bincount(rows.draw(7, rng), minlength=20)
    expected = 7 * weights / size
    assert few.sum() == 7 and (np.abs(few - expected) < 1).all()
    assert rows.bootstrap(1000, rng).max() < 20


def test_copies_of_a_row_are_held_out_one_by_one():
    rng = np.random.default_rng(2)
    weights = np.array([1e4, 3.0, 0.5, 1e300])
    rows = Rows(np.arange(4, dtype=np.uint8)[:, None], weights)
    train, held = rows.split(0.1, rng)
    back = np.zeros(4)
    for part in (train, held):
        assert (part.weights > 0).all()
        back[part.codes[:, 0]] += part.weights
    np.testing.assert_allclose(back, weights)
    share = dict(zip(held.codes[:, 0].tolist(), held.weights, strict=True))
    assert share[0] == pytest.approx(1000, abs=200) and share[0] == int(share[0])
    assert share[3] == pytest.approx(1e299)
    assert len(held.at_most(2, rng)) <= 2


# ---------------------------------------------------------------------------------------- learning


def table(n=600, seed=0):
    """Six columns that rise with two hidden numbers, one of three states, one constant."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 2))
    codes = (z @ rng.standard_normal((2, 7)) + 0.5 * rng.standard_normal((n, 7)) > 0).astype(int)
    codes[:, 5] += z[:, 0] > 1
    codes[:, 6] = 0
    return codes.astype(np.uint8), np.array([2, 2, 2, 2, 2, 3, 1])


SMALL = ContinuousLearner(n_latent=2, hidden=(16, 16), n_points=64, batch=64, rate=1e-2)


def learn(learner=SMALL, n_epochs=8, weights=None, **options):
    codes, sizes = table()
    train, held = Rows.of(codes[:500], weights), Rows.of(codes[500:])
    state = learner.start(train, sizes)
    for _ in learner.run(state, train, held, sizes, **options):
        if state.epoch >= n_epochs:
            break
    return state, train, held, sizes


def test_learning_beats_the_tree_and_repeats_itself():
    state, *_ = learn()
    assert max(state.scores) > state.scores[0] + 0.05
    again, *_ = learn()
    assert again.scores == state.scores
    other, *_ = learn(ContinuousLearner(**{**vars(SMALL), "seed": 1}))
    assert other.scores != state.scores


def test_blocks_of_points_change_nothing_but_rounding(monkeypatch):
    sizes, families = CASES["wide"]
    decoder = random_decoder(structure_of(families), np.array(sizes))
    rng = np.random.default_rng(1)
    codes = rng.integers(0, decoder.families.sizes, (50, len(decoder.families.sizes)))
    rows = decoder.families.rows(decoder.families.features(codes), np.float64)
    points = rng.standard_normal((3, 150))
    whole = decoder.gradient(rows, points)
    monkeypatch.setattr("bayescut.learn.continuous.decoder._WEIGHTS_OF_A_BLOCK", 1)
    parts = Decoder(decoder.families, decoder.parameters)
    assert (decoder.block, parts.block) == (BLOCK, 64)
    found = parts.gradient(rows, points)
    for a, b in zip(
        [whole[0], *whole[1], *whole[2:]], [found[0], *found[1], *found[2:]], strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)


def test_parameters_of_another_structure_are_refused():
    decoders = []
    for case in ("binary tree", "wide"):
        sizes, families = CASES[case]
        decoders.append(random_decoder(structure_of(families), np.array(sizes)))
    with pytest.raises(ValueError, match="do not fit the structure"):
        Decoder(decoders[1].families, decoders[0].parameters)


def test_threads_change_nothing():
    from concurrent.futures import ThreadPoolExecutor

    wide = ContinuousLearner(**{**vars(SMALL), "n_points": 2 * BLOCK + 100})
    alone, train, held, sizes = learn(wide, 2)
    with ThreadPoolExecutor(3) as pool:
        many, *_ = learn(wide, 2, mapper=pool.map)
        made = [
            compile_decoder(
                state.best, state.structure, sizes, train, held,
                n_points=4096, tol=0.0, seed=0, mapper=mapper,
            )
            for state, mapper in ((alone, map), (many, pool.map))
        ]  # fmt: skip
    assert many.scores == alone.scores
    for a, b in zip(alone.parameters, many.parameters, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(made[0].weights, made[1].weights)
    np.testing.assert_array_equal(made[0].logits, made[1].logits)


def test_it_stops_by_itself_at_the_best():
    state, train, held, sizes = learn(n_epochs=10**6)
    assert state.finished and state.n_cuts == SMALL.max_cuts + 1
    assert state.rate == pytest.approx(SMALL.rate * SMALL.cut**state.n_cuts)
    families = Families(state.structure, sizes)
    decoder = Decoder(families, Parameters.of(state.best))
    blocks = decoder.feature_weights(SMALL.check_points())
    found = log_likelihood(families, blocks, families.features(held.codes))
    assert np.average(found, weights=held.weights) == pytest.approx(max(state.scores))
    assert list(SMALL.run(state, train, held, sizes)) == []


def test_no_held_out_rows_no_learning():
    codes, sizes = table()
    rows = Rows.of(codes)
    state = SMALL.start(rows, sizes)
    nobody = rows.part(np.zeros(len(rows)))
    assert list(SMALL.run(state, rows, nobody, sizes)) == [] and state.finished
    made = compile_decoder(
        state.best, state.structure, sizes, rows, nobody, n_points=64, tol=0.0, seed=0
    )
    assert made.logits.shape[1] == 1 and math.isnan(made.score)


def test_a_passed_deadline_breaks_an_epoch_off():
    state, *_ = learn(deadline=-math.inf)
    assert state.epoch == 1 and state.n_steps == 1


# ---------------------------------------------------------------------------------------- points


def test_points_are_normal_and_nested():
    points = normal_points(4096, 4, np.random.default_rng(0))
    assert points.shape == (4, 4096)
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=0.01)
    np.testing.assert_allclose(np.cov(points), np.eye(4), atol=0.03)
    np.testing.assert_array_equal(points[:, :100], normal_points(100, 4, np.random.default_rng(0)))
    assert np.isfinite(normal_points(1, 1, np.random.default_rng(0))).all()


def test_the_compiled_mixture_is_what_was_judged():
    state, train, held, sizes = learn()
    made = compile_decoder(
        state.best, state.structure, sizes, train, held, n_points=1024, tol=0.0, seed=5
    )
    assert isinstance(made, Compiled)
    circuit = made.circuit(Domains.of_sizes(sizes))
    found = circuit.log_likelihood(held.codes)
    # the logits of the circuit are rounded
    assert np.average(found, weights=held.weights) == pytest.approx(made.score, abs=1e-3)
    naive = naive_log_likelihood(
        state.structure, sizes, made.logits.astype(float), made.weights, held.codes
    )
    np.testing.assert_allclose(found, naive, atol=3e-3)


@pytest.mark.parametrize("n_points", [1, 6, 700, 2048])
def test_as_few_points_as_the_loss_allows(n_points):
    state, _, held, sizes = learn(n_epochs=4)
    families = Families(state.structure, sizes)
    decoder = Decoder(families, Parameters.of(state.best))
    points = normal_points(n_points, 2, np.random.default_rng(1)).astype(np.float32)
    picked = families.features(held.codes)

    def score(n):
        found = log_likelihood(families, decoder.feature_weights(points[:, :n]), picked)
        return float(np.average(found, weights=held.weights))

    sizes_tried = [2**k for k in range(11) if 2**k < n_points] + [n_points]
    scores = [score(n) for n in sizes_tried]
    for tol in (0.0, 0.01, 1.0):
        blocks = decoder.feature_weights(points)
        n, value = _fewest(families, blocks, picked, held.weights, tol, map)
        wanted = next(
            i for i, s in enumerate(scores) if s >= max(scores) - tol or i == len(scores) - 1
        )
        assert n == sizes_tried[wanted]
        assert value == pytest.approx(scores[wanted], abs=1e-5)


def test_weights_of_points_are_fitted_as_long_as_it_helps():
    state, train, held, sizes = learn()
    settings = {"n_points": 32, "tol": 0.0, "seed": 5}

    def compiled(judged_on, **options):
        return compile_decoder(
            state.best, state.structure, sizes, train, judged_on, **settings, **options
        )

    # EM never makes the rows it looks at less probable.
    made = [compiled(train, n_steps=steps, n_moves=0) for steps in range(4)]
    scores = [m.score for m in made]
    assert scores == sorted(set(scores))
    n = len(made[0].weights)
    assert n > 1
    np.testing.assert_array_equal(made[0].weights, np.full(n, 1 / n))
    # The first step by hand: mean responsibilities of the training rows.
    logits = made[0].logits.astype(float)
    joint = np.array(
        [
            naive_log_likelihood(state.structure, sizes, logits[:, [i]], [1.0], train.codes)
            for i in range(n)
        ]
    )
    shares = np.exp(joint - np.logaddexp.reduce(joint, axis=0))
    wanted = np.average(shares, axis=1, weights=train.weights)
    np.testing.assert_allclose(made[1].weights, wanted, rtol=1e-3)
    # A step that the held-out rows do not like is not taken, nor one after the deadline.
    untouched = compiled(held, n_steps=0, n_moves=0).score
    assert compiled(held, n_steps=3, n_moves=0).score >= untouched
    late = compiled(train, deadline=-math.inf)
    np.testing.assert_array_equal(late.weights, made[0].weights)


def test_points_move_as_long_as_it_helps():
    state, train, held, sizes = learn()

    def compiled(judged_on, n_moves):
        return compile_decoder(
            state.best, state.structure, sizes, train, judged_on,
            n_points=32, tol=0.0, seed=5, n_moves=n_moves, n_steps=0,
        )  # fmt: skip

    made = [compiled(train, n) for n in range(4)]
    scores = [m.score for m in made]
    assert scores == sorted(scores) and scores[1] > scores[0]
    assert made[1].weights.sum() == pytest.approx(1.0)
    circuit = made[2].circuit(Domains.of_sizes(sizes))
    found = np.average(circuit.log_likelihood(train.codes), weights=train.weights)
    assert found == pytest.approx(made[2].score, abs=1e-4)
    assert compiled(held, 5).score >= compiled(held, 0).score


def test_a_member_at_one_go():
    state, train, held, sizes = learn(n_epochs=3)
    unseen = Rows.of(table(seed=5)[0][:100])
    every = train.joined(held).joined(unseen)
    domains = Domains.of_sizes(sizes)
    settings = {"n_points": 32, "tol": 0.01}

    def compiled(parameters, rows):
        made = compile_decoder(
            parameters, state.structure, sizes, rows, held, seed=SMALL.seed, **settings
        )
        return made.circuit(domains)

    for jobs in (1, 2):
        judged, member = learn_member(
            SMALL, train, held, unseen, domains, max_epochs=3, n_jobs=jobs, **settings
        )
        assert judged == compiled(state.best, train)
        assert member == compiled(SMALL.finish(state, every, sizes), every) != judged


def test_a_member_has_few_points_where_tables_have_many_cells(monkeypatch):
    codes, sizes = table()
    train, held, domains = Rows.of(codes[:500]), Rows.of(codes[500:]), Domains.of_sizes(sizes)
    nobody = train.part(np.zeros(len(train)))
    wide = replace(SMALL, width=3)
    n_cells = Families(wide.draw_structure(train, sizes), sizes).n_cells
    asked = []

    def compile_and_note(*args, n_points, **kwargs):
        asked.append(n_points)
        return compile_decoder(*args, n_points=n_points, **kwargs)

    monkeypatch.setattr("bayescut.learn.continuous.learner.compile_decoder", compile_and_note)
    for most, n_points in ((n_cells * 100, 100), (1, 64), (np.inf, 512)):
        asked.clear()
        _, member = learn_member(
            wide, train, held, nobody, domains, most_cells=most, max_epochs=1, n_points=512
        )
        assert set(asked) == {n_points}
        assert member.n_nodes <= n_points + 1


def test_a_member_that_would_take_too_long_is_not_learned():
    codes, sizes = table()
    train, held, domains = Rows.of(codes[:500]), Rows.of(codes[500:]), Domains.of_sizes(sizes)
    settings = {"max_epochs": 1, "n_points": 64}
    with pytest.raises(TooLong) as told:
        learn_member(
            SMALL, train, held, held, domains, time_left=10.0, fewest_epochs=10**6, **settings
        )
    assert told.value.seconds > 10.0
    learn_member(SMALL, train, held, held, domains, time_left=1e6, fewest_epochs=1, **settings)


def test_the_last_stretch_learns_from_all_rows_and_leaves_the_state():
    state, train, held, sizes = learn(n_epochs=8)
    kept = [array.copy() for array in [*state.best, *state.parameters, *state.moments]]
    every = train.joined(held)
    last = SMALL.finish(state, every, sizes)
    for a, b in zip(kept, [*state.best, *state.parameters, *state.moments], strict=True):
        np.testing.assert_array_equal(a, b)
    families = Families(state.structure, sizes)
    picked = families.features(every.codes)

    def score(parameters):
        blocks = Decoder(families, Parameters.of(parameters)).feature_weights(SMALL.check_points())
        return np.average(log_likelihood(families, blocks, picked), weights=every.weights)

    assert score(last) > score(state.best)
    assert SMALL.finish(state, every, sizes, deadline=-math.inf)[0] == pytest.approx(state.best[0])
    fresh = SMALL.start(train, sizes)
    assert SMALL.finish(fresh, every, sizes) is fresh.best


def test_weight_decay_takes_from_weights_not_from_biases():
    state, *_ = learn(n_epochs=1)
    decaying = ContinuousLearner(**{**vars(SMALL), "weight_decay": 2.0})
    before = Parameters.of(state.parameters).copy()
    nothing = [np.zeros_like(array) for array in state.parameters]
    state.moments = [np.zeros_like(array) for array in state.moments]
    decaying._step(state, nothing)
    after = Parameters.of(state.parameters)
    for a, b in zip(before.weights, after.weights, strict=True):
        np.testing.assert_allclose(b, (1 - state.rate * 2.0) * a, rtol=1e-6)
    for a, b in zip(before.biases, after.biases, strict=True):
        np.testing.assert_array_equal(a, b)


def test_rows_joined_are_those_of_both():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (60, 3)).astype(np.uint8)
    both = Rows.of(codes[:25]).joined(Rows.of(codes[25:]))
    every = Rows.of(codes)
    np.testing.assert_array_equal(both.codes, every.codes)
    np.testing.assert_array_equal(both.weights, every.weights)
