"""EiNets: structures, passes against a recursion, EM against the flows of the frozen circuit."""

import sys

import numpy as np
import pytest
from tests.oracle.naive_einet import naive_log_likelihood

from bayescut.circuit import Evidence
from bayescut.circuit._kinds import SUM
from bayescut.data import Domains
from bayescut.exceptions import ZeroProbabilityError
from bayescut.learn.einet.backend import NumpyBackend, make_backend
from bayescut.learn.einet.em import Progress, Settings, Trainer, run_em, start
from bayescut.learn.einet.freeze import freeze_network
from bayescut.learn.einet.layout import lay_out
from bayescut.learn.einet.network import DenseNetwork
from bayescut.learn.einet.structure import poon_domingos, random_binary_trees

MISSING = 255


def trees(n_columns, n_trees=3, depth=2, seed=0):
    return random_binary_trees(n_columns, n_trees, depth, np.random.default_rng(seed))


# Structure, states of the columns, components.
CASES = {
    "image": (poon_domingos((3, 3), 3), [2] * 9, 3),
    "coarse to fine": (poon_domingos((4, 2), [2, 4]), [2] * 8, 2),
    "trees": (trees(7), [2] * 7, 3),
    "states": (trees(5, depth=3), [3, 2, 1, 4, 2], 2),
    "one component": (trees(4), [2, 3, 2, 2], 1),
    "one column": (trees(1), [3], 4),
    "no cut": (trees(3, depth=0), [2, 3, 2], 4),
}


@pytest.fixture(params=CASES)
def case(request):
    graph, states, k = CASES[request.param]
    layout = lay_out(graph, np.array(states), k)
    rng = np.random.default_rng(7)
    parameters = start(layout, rng)
    codes = rng.integers(0, states, size=(60, len(states))).astype(np.uint8)
    return layout, parameters, Domains.of_sizes(states), codes


def with_gaps(codes, seed=3):
    gaps = np.random.default_rng(seed).random(codes.shape) < 0.4
    gaps[0] = True
    return np.where(gaps, MISSING, codes).astype(np.uint8)


def trainer_of(layout, parameters, backend=None, **settings):
    return Trainer(layout, parameters, Settings(**settings), backend or NumpyBackend("float64"))


@pytest.mark.parametrize(
    "pieces, n_partitions", [(1, 0), (4, 200), (7, 3136), ([4, 16], None), ([7, 28], 12936)]
)
def test_rectangles_of_an_image(pieces, n_partitions):
    graph = poon_domingos((28, 28), pieces)
    if n_partitions is not None:
        assert len(graph.partitions) == n_partitions
    for region, left, right in graph.partitions:
        halves = np.concatenate([graph.regions[left], graph.regions[right]])
        np.testing.assert_array_equal(np.sort(halves), graph.regions[region])
    assert len({region.tobytes() for region in graph.regions}) == len(graph.regions)


def test_sides_that_cannot_be_cut_evenly():
    graph = poon_domingos((1, 5), 3)  # cut points 2 and 4
    assert [region.tolist() for region in graph.regions[1:]] == [
        [0, 1], [2, 3, 4], [0, 1, 2, 3], [4], [2, 3],
    ]  # fmt: skip
    assert len(poon_domingos((2, 3), 9).regions) == 3 * 6  # no more pieces than pixels


def test_random_trees():
    graph = trees(11, 4, 5)
    assert [p[0] for p in graph.partitions].count(0) == 4
    for region, left, right in graph.partitions:
        sizes = [len(graph.regions[half]) for half in (left, right)]
        assert abs(sizes[0] - sizes[1]) <= 1
        halves = np.concatenate([graph.regions[left], graph.regions[right]])
        np.testing.assert_array_equal(np.sort(halves), graph.regions[region])
    parents = {region for region, _, _ in graph.partitions}
    leaves = [len(r) for i, r in enumerate(graph.regions) if i not in parents]
    assert leaves == [1] * 44
    assert repr(trees(11)) == repr(trees(11)) != repr(trees(11, seed=1))


def test_too_large_structures_are_refused():
    with pytest.raises(ValueError, match="fewer pieces"):
        random_binary_trees(2000, 600, 20, np.random.default_rng(0))


def test_size_of_the_published_network():
    # Poon-Domingos 7, K = 30: 84.36 M weights, 0.09 M mixing weights, 24 K means (here cells).
    layout = lay_out(poon_domingos((28, 28), 7), np.full(784, 2), 30)
    products = sum(len(s.left) * layout.out(s.first) * 900 for s in layout.sums)
    assert products == (3136 - 12) * 30**3 + 12 * 30**2  # the root has one sum
    assert layout.n_weights - products == pytest.approx(90e3 + 2 * 784 * 30, rel=0.05)


def test_values_equal_the_recursion(case):
    layout, parameters, _, codes = case
    rows = with_gaps(codes)
    found = trainer_of(layout, parameters).log_likelihood(rows)
    for row, value in zip(rows[:20], found, strict=False):
        cells = [None if code == MISSING else int(code) for code in row]
        assert value == pytest.approx(naive_log_likelihood(layout, parameters, cells), abs=1e-6)
    assert found[0] == pytest.approx(0.0, abs=1e-6)


def test_the_circuit_is_the_network(case):
    layout, parameters, domains, codes = case
    circuit = freeze_network(layout, parameters, domains)
    assert circuit.n_parameters == layout.n_parameters
    assert len(circuit.child) == layout.n_edges
    assert circuit.properties.smooth and circuit.properties.decomposable
    rows = with_gaps(codes)
    exact = circuit.log_likelihood(rows)
    for dtype, digits in (("float64", 1e-6), ("float32", 1e-5)):
        found = trainer_of(layout, parameters, NumpyBackend(dtype)).log_likelihood(rows)
        np.testing.assert_allclose(found, exact, atol=digits)
    worlds = np.array(list(np.ndindex(*domains.n_states.tolist())), dtype=np.uint8)
    assert np.exp(circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0)


def em_step(circuit, flows, alpha=0.0):
    """One step of EM on the weights of a circuit, by its flows."""
    weight = np.exp(circuit.log_weight)
    for node in np.flatnonzero(circuit.kind == SUM):
        edges = slice(*circuit.child_ptr[node : node + 2])
        weight[edges] = flows.edges[edges] / flows.edges[edges].sum()

    def table(counts, begin, end):
        own = counts[begin:end] + alpha
        return own / own.sum()

    cells = np.exp(circuit.fam_table)
    for begin, end in zip(circuit.fam_table_ptr[:-1], circuit.fam_table_ptr[1:], strict=True):
        cells[begin:end] = table(flows.tables, begin, end)
    param = np.exp(circuit.param)
    for begin, end in zip(circuit.param_ptr[:-1], circuit.param_ptr[1:], strict=True):
        if end > begin:
            param[begin:end] = table(flows.categorical, begin, end)
    return weight, cells, param


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_of_em_is_the_one_of_the_flows(case, weighted, alpha):
    layout, parameters, domains, codes = case
    weights = np.random.default_rng(5).random(len(codes)) * 3 if weighted else None
    circuit = freeze_network(layout, parameters, domains)
    expected = em_step(circuit, circuit.flows(codes, weights), alpha)
    trainer = trainer_of(layout, parameters, step_size=1.0, alpha=alpha)
    mean = trainer.epoch(codes, np.arange(len(codes)), weights)
    before = circuit.log_likelihood(codes)
    assert mean == pytest.approx(np.average(before, weights=weights), abs=1e-6)
    after = freeze_network(layout, trainer.parameters, domains)
    for found, wanted in zip(
        (after.log_weight, after.fam_table, after.param), expected, strict=True
    ):
        # The likelihood takes cells to be a millionth more likely.
        np.testing.assert_allclose(np.exp(found), wanted, atol=5e-6)
    half = trainer_of(layout, parameters, step_size=0.25, alpha=alpha)
    half.epoch(codes, np.arange(len(codes)), weights)
    for old, full, found in zip(
        parameters.weights, trainer.parameters.weights, half.parameters.weights, strict=True
    ):
        np.testing.assert_allclose(found, 0.75 * old + 0.25 * full, atol=1e-6)


def test_batch_em_never_lowers_the_likelihood(case):
    layout, parameters, _, codes = case
    trainer = trainer_of(layout, parameters, step_size=1.0)
    values = [trainer.epoch(codes, np.arange(len(codes))) for _ in range(30)]
    assert np.all(np.diff(values) > -1e-6)
    assert len(layout.sums) == 0 or values[-1] > values[0]


def test_blocks_and_weights_of_rows(case):
    layout, parameters, _, codes = case
    repeats = np.random.default_rng(2).integers(0, 3, len(codes))
    rows = np.arange(len(codes))
    whole = trainer_of(layout, parameters)
    whole.epoch(codes, rows, repeats.astype(float))
    backend = NumpyBackend("float64")
    backend.block_rows = 7
    small = trainer_of(layout, parameters, backend)
    small.epoch(codes, np.repeat(rows, repeats))
    for a, b in zip(whole.parameters, small.parameters, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-15)


def test_rows_left_over_count_in_the_next_epoch(case):
    layout, parameters, _, codes = case
    trainer = trainer_of(layout, parameters, batch_size=25)
    steps = []
    update = trainer.update

    def counted(share):
        steps.append(share)
        update(share)

    trainer.update = counted
    trainer.epoch(codes, np.arange(60))
    assert len(steps) == 2 and trainer.n_seen == 10
    trainer.epoch(codes, np.arange(60))
    assert steps == pytest.approx([25 / 60] * 4) and trainer.n_seen == 20


def test_threads_do_not_change_the_result():
    graph, _, _ = CASES["image"]
    layout = lay_out(graph, np.full(9, 2), 12)
    codes = np.random.default_rng(0).integers(0, 2, size=(300, 9)).astype(np.uint8)
    found = []
    for n_jobs in (1, 3):
        backend = NumpyBackend("float32", n_jobs)
        trainer = trainer_of(layout, start(layout, np.random.default_rng(1)), backend)
        with backend.busy():
            for _ in range(2):
                trainer.epoch(codes, np.arange(300))
        found.append(trainer.parameters)
    for a, b in zip(*found, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_rows_far_less_likely_than_float32_can_hold():
    graph = trees(3000, 4, 3)
    layout = lay_out(graph, np.full(3000, 2), 5)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(40, 3000)).astype(np.uint8)
    parameters = start(layout, rng)
    exact = trainer_of(layout, parameters).log_likelihood(codes)
    assert exact.max() < -1500
    trainer = trainer_of(layout, parameters, NumpyBackend("float32"))
    np.testing.assert_allclose(trainer.log_likelihood(codes), exact, rtol=1e-5)
    values = [trainer.epoch(codes, np.arange(40)) for _ in range(20)]
    assert np.isfinite(values).all() and values[-1] > values[0]


@pytest.mark.parametrize("evidence", ["gaps", "sets", "sets of each row"])
def test_queries_equal_those_of_the_circuit(case, evidence):
    layout, parameters, domains, codes = case
    circuit = freeze_network(layout, parameters, domains)
    network = DenseNetwork(layout, parameters, domains, dtype="float64")
    assert network.n_parameters == circuit.n_parameters
    rows = with_gaps(codes)[:20]
    weights = None
    if evidence != "gaps":
        rng = np.random.default_rng(4)
        n = 1 if evidence == "sets" else len(rows)
        weights = np.where(rng.random((n, layout.n_cells)) < 0.3, 0.0, rng.random(layout.n_cells))
        for lo, hi in zip(layout.offsets[:-1], layout.offsets[1:], strict=True):
            weights[:, lo] = np.maximum(weights[:, lo], 0.1 * (weights[:, lo:hi].max(1) == 0))
        weights = weights[0] if evidence == "sets" else weights
    given = Evidence(rows, weights)
    expected = circuit.log_likelihood(given)
    np.testing.assert_allclose(network.log_likelihood(given), expected, atol=1e-6)
    possible = np.flatnonzero(np.isfinite(expected))
    own = weights if weights is None or weights.ndim == 1 else weights[possible]
    given = Evidence(rows[possible], own)
    np.testing.assert_allclose(network.marginals(given), circuit.marginals(given), atol=1e-6)
    drawn = network.sample_conditional(given, 0)
    observed = rows[possible] != MISSING
    np.testing.assert_array_equal(drawn[observed], rows[possible][observed])
    np.testing.assert_array_equal(drawn, network.sample_conditional(given, 0))
    assert np.isfinite(circuit.log_likelihood(Evidence(drawn, own))).all()


def test_impossible_evidence_is_refused(case):
    layout, parameters, domains, _ = case
    network = DenseNetwork(layout, parameters, domains)
    weights = np.ones(layout.n_cells)
    weights[: layout.offsets[1]] = 0.0
    blank = np.full((2, len(domains)), np.nan)
    assert np.all(network.log_likelihood(Evidence(blank, weights)) == -np.inf)
    with pytest.raises(ZeroProbabilityError, match="row 0"):
        network.marginals(Evidence(blank, weights))
    with pytest.raises(ZeroProbabilityError, match="row 0"):
        network.sample_conditional(Evidence(blank, weights))


def test_draws_follow_the_distribution():
    graph, states, k = CASES["states"]
    layout = lay_out(graph, np.array(states), k)
    domains = Domains.of_sizes(states)
    parameters = start(layout, np.random.default_rng(1))
    trainer = trainer_of(layout, parameters, step_size=1.0)
    table = np.array([[0, 0, 0, 3, 1], [2, 1, 0, 0, 0], [1, 1, 0, 3, 0]] * 3, dtype=np.uint8)
    for _ in range(4):
        trainer.epoch(table, np.arange(9))
    circuit = freeze_network(layout, trainer.parameters, domains)
    network = DenseNetwork(layout, trainer.parameters, domains)
    worlds = np.array(list(np.ndindex(*states)))
    n = 20_000
    place = np.array([np.prod(states[j + 1 :]) for j in range(5)], dtype=np.int64)
    given = np.full((n, 5), np.nan)
    for column, state in ((None, 0), (3, 3)):
        if column is not None:
            given[:, column] = state
        drawn = network.sample_conditional(given, 1).astype(np.int64)
        found = np.bincount(drawn @ place, minlength=len(worlds)) / n
        joint = np.exp(circuit.log_likelihood(worlds))
        if column is not None:
            joint *= worlds[:, column] == state
        expected = joint / joint.sum()
        spread = np.sqrt(expected * (1 - expected) / n)
        assert np.all(np.abs(found - expected) < 5 * spread + 1e-4)
    assert network.sample(7, 0).shape == (7, 5)


def test_what_only_a_circuit_answers():
    graph, states, k = CASES["trees"]
    layout = lay_out(graph, np.array(states), k)
    network = DenseNetwork(
        layout, start(layout, np.random.default_rng(0)), Domains.of_sizes(states)
    )
    for name in ("mpe", "flows", "entropy"):
        with pytest.raises(AttributeError, match=f"'{name}' needs a circuit.*max_circuit_edges"):
            getattr(network, name)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = network.nothing
    assert "7 variables" in repr(network)


def test_stopping(case):
    settings = Settings(max_epochs=20, min_epochs=6, patience=3)
    assert not Progress([0.0] * 5, [], best_epoch=1).done(settings)
    assert Progress([0.0] * 6, [], best_epoch=1).done(settings)
    assert not Progress([0.0] * 8, [], best_epoch=6).done(settings)
    assert Progress([0.0] * 20, [], best_epoch=20).done(settings)
    layout, parameters, _, codes = case
    trainer = Trainer(layout, parameters, settings, NumpyBackend("float64"))
    rows = np.arange(40)
    found = run_em(trainer, codes, rows, None, np.mean, codes[40:], 0)
    best = int(np.argmax(found.valid)) + 1
    assert found.best_epoch == best and len(found.valid) in (20, max(6, best + 3))
    trainer.parameters = found.best
    trainer.take_logs()
    assert trainer.log_likelihood(codes[40:]).mean() == pytest.approx(max(found.valid))
    # A run that is stopped goes on where it was.
    again = Trainer(layout, parameters, settings, NumpyBackend("float64"))
    part = run_em(
        again, codes, rows, None, np.mean, codes[40:], 0,
        after_epoch=lambda progress: len(progress.train) < 4,
    )  # fmt: skip
    assert len(part.train) == 4
    whole = run_em(again, codes, rows, None, np.mean, codes[40:], 0, progress=part)
    assert whole.valid == found.valid and whole.best_epoch == found.best_epoch


def test_a_component_that_no_row_uses_keeps_its_probabilities():
    layout = lay_out(trees(4, 1, 1), np.full(4, 2), 2)
    parameters = start(layout, np.random.default_rng(0))
    weights = [w.copy() for w in parameters.weights]
    weights[0][:] = [1.0, 0.0, 0.0, 0.0]  # component 1 is used nowhere
    parameters = parameters._replace(weights=weights)
    codes = np.random.default_rng(0).integers(0, 2, size=(20, 4)).astype(np.uint8)
    trainer = trainer_of(layout, parameters, step_size=1.0)
    trainer.epoch(codes, np.arange(20))
    for old, new in zip(parameters.leaves, trainer.parameters.leaves, strict=True):
        np.testing.assert_allclose(new[:, 1], old[:, 1], atol=1e-6)
        assert np.abs(new[:, 0] - old[:, 0]).max() > 0.01


def test_backends_are_checked(monkeypatch):
    with pytest.raises(ValueError, match="backend must be"):
        make_backend("jax")
    with pytest.raises(ValueError, match="dtype must be"):
        make_backend(dtype="float16")
    with pytest.raises(ValueError, match="backend='torch'"):
        make_backend("numpy", "cuda")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"bayescut\[gpu\]"):
        make_backend("torch")


def test_torch_agrees_with_numpy(case):
    pytest.importorskip("torch")
    layout, parameters, domains, codes = case
    rows = with_gaps(codes)
    found = {}
    for name in ("numpy", "torch"):
        backend = make_backend(name, "cpu", "float64")
        with backend.busy():
            trainer = trainer_of(layout, parameters, backend, step_size=0.5, batch_size=25)
            values = [trainer.epoch(codes, np.arange(60)) for _ in range(3)]
            found[name] = values, trainer.log_likelihood(rows)
        network = DenseNetwork(layout, parameters, domains, name, "cpu", "float64")
        found[name] += network.marginals(rows), network.sample_conditional(rows, 0)
    for a, b in zip(found["numpy"], found["torch"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="cannot use device='nowhere'"):
        make_backend("torch", "nowhere")
