"""Other forms of the same circuit: expanded, mixed, split over threads, copied."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from tests.circuit.random_circuits import (
    Case,
    Maker,
    cases,
    deterministic_cases,
    random_circuit,
    seeds,
)

from bayescut.circuit import Circuit, Evidence, _passes, _plan, build
from bayescut.circuit._plan import N_LANES, TREE
from bayescut.exceptions import CircuitError, ZeroProbabilityError

few = settings(max_examples=80, deadline=None)


@few
@given(cases)
def test_expansion_is_the_same_function(case: Case) -> None:
    circuit, expanded = case.circuit, case.circuit.expand()
    assert set(expanded.kind) <= {0, 2, 3, 4}
    if not len(circuit.view_local):  # what views group, sums tell apart again
        assert expanded.n_parameters == circuit.n_parameters
    for masks in (None, case.allowed):
        before = circuit.log_likelihood(Evidence(case.codes, masks))
        after = expanded.log_likelihood(Evidence(case.codes, masks))
        assert_allclose(after, before, rtol=1e-9, atol=1e-12)
        rows = np.isfinite(before)
        given = Evidence(case.codes[rows], None if masks is None else masks[rows])
        assert_allclose(expanded.marginals(given), circuit.marginals(given), atol=1e-9)
        if circuit.properties.deterministic:
            found, expected = expanded.mpe(given)[1], circuit.mpe(given)[1]
            assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # An expanded circuit expands into itself.
    assert expanded.expand().n_nodes == expanded.n_nodes


@few
@given(deterministic_cases)
def test_expansion_keeps_the_properties(case: Case) -> None:
    circuit, expanded = case.circuit, case.circuit.expand()
    for name in ("smooth", "decomposable", "deterministic", "structured_decomposable"):
        assert getattr(circuit.properties, name) == getattr(expanded.properties, name), name
    assert_allclose(circuit.entropy(), expanded.entropy(), rtol=1e-9, atol=1e-12)


def test_expansion_keeps_the_number_of_parameters() -> None:
    rng = np.random.default_rng(0)
    families = [
        (0, [], rng.dirichlet(np.ones(3))),
        (1, [0], rng.dirichlet(np.ones(2), size=3)),
        (2, [1, 0], rng.dirichlet(np.ones(4), size=(2, 3))),
        (3, [], rng.dirichlet(np.ones(2))),
    ]
    circuit = build.circuit(build.junction(families), [3, 2, 4, 2])
    assert circuit.n_parameters == 2 + 3 + 18 + 1
    assert circuit.expand().n_parameters == circuit.n_parameters


def test_expanded_samples_have_the_same_marginals() -> None:
    circuit = random_circuit(3)
    expanded = circuit.expand()
    found = circuit.marginals(expanded.sample(20000, 0)).mean(axis=0)  # observed rows are one-hot
    blank = np.full((1, len(circuit.domains)), 255, dtype=np.uint8)
    assert_allclose(found, circuit.marginals(blank)[0], atol=0.02)


@few
@given(seeds)
def test_mixture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = random_circuit(seed)
    n_states = first.domains.n_states
    circuits = [first]
    while len(circuits) < 3:
        tables = [rng.dirichlet(np.ones(k)) for k in n_states]
        circuits.append(build.circuit(build.independent(tables), first.domains))
    weights = rng.dirichlet(np.ones(3))
    inner = build.mixture(weights[1:] / weights[1:].sum(), circuits[1:])
    codes = rng.integers(0, n_states, size=(9, len(n_states))).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.4] = 255
    expected = np.logaddexp.reduce(
        [np.log(w) + c.log_likelihood(codes) for w, c in zip(weights, circuits, strict=True)]
    )
    flat = build.mixture(weights, circuits)
    nested = build.mixture([weights[0], weights[1:].sum()], [first, inner])
    for circuit in (flat, nested):
        assert circuit.kind[-1] == 0
        assert_allclose(circuit.log_likelihood(codes), expected, rtol=1e-9, atol=1e-12)
    assert nested.n_nodes == flat.n_nodes
    # Responsibilities come from the children of the root.
    parts = flat.node_log_likelihood(codes, flat.child[flat.child_ptr[-2] :])
    assert_allclose(parts[:, -1], circuits[-1].log_likelihood(codes), rtol=1e-12)


def test_mixture_refuses_what_does_not_fit() -> None:
    one = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    other = build.circuit(build.categorical(0, [0.5, 0.2, 0.3]), [3])
    with pytest.raises(CircuitError, match="Circuit 1 has other domains"):
        build.mixture([0.5, 0.5], [one, other])
    with pytest.raises(CircuitError, match="at least one"):
        build.mixture([], [])
    with pytest.raises(CircuitError, match="2 circuits"):
        build.mixture([1.0], [one, one])
    with pytest.raises(CircuitError, match="summing to 1"):
        build.mixture([0.5, 0.6], [one, one])


def big_networks() -> tuple[list[Circuit], np.ndarray]:
    rng = np.random.default_rng(0)

    def tree(variables: list[int]) -> build.Node:
        parents = [-1] + [int(rng.integers(i)) for i in range(1, len(variables))]
        shapes = [(2,) if p < 0 else (2, 2) for p in parents]
        tables = [rng.dirichlet([1, 1], size=shape[:-1]) for shape in shapes]
        return build.chow_liu(parents, tables, variables)

    def network(variables: list[int], depth: int) -> build.Node:
        if depth == 0:
            return tree(variables)
        v = variables[rng.integers(len(variables))]
        rest = [u for u in variables if u != v]
        children = [network(rest, depth - 1), network(rest, depth - 1)]
        return build.decision(v, rng.dirichlet([1, 1]), *children)

    networks = [build.circuit(network(list(range(20)), 3), [2] * 20) for _ in range(4)]
    codes = rng.integers(0, 2, size=(5000, 20)).astype(np.uint8)
    codes[rng.random(codes.shape) < np.linspace(0, 1, 5000)[:, None]] = 255
    return networks, codes


def big_circuit() -> tuple[Circuit, np.ndarray]:
    networks, codes = big_networks()
    return build.mixture(np.full(4, 0.25), networks), codes


def test_threads_and_batches_never_change_an_answer() -> None:
    circuit, codes = big_circuit()
    queries = {
        "log_likelihood": lambda x, n: circuit.log_likelihood(x, n_jobs=n),
        "marginals": lambda x, n: circuit.marginals(x, n_jobs=n),
        "mpe": lambda x, n: np.column_stack(circuit.mpe(x, n_jobs=n)),
        "sample": lambda x, n: circuit.sample_conditional(x, 3, n_jobs=n),
        "nodes": lambda x, n: circuit.node_log_likelihood(x, [0, 5, 9, circuit.root], n_jobs=n),
    }
    for name, query in queries.items():
        once = query(codes, 1)
        for n_jobs in (2, 3, None):
            assert_array_equal(query(codes, n_jobs), once, err_msg=name)
        # The draws of a row follow its position among the rows, so samples are cut at the start.
        for part in (slice(0, 1), slice(0, 1500)):
            assert_array_equal(query(codes[part], 2), once[part], err_msg=name)
        if name != "sample":
            for part in (slice(4999, 5000), slice(700, 3100), slice(0, None, 7)):
                assert_array_equal(query(codes[part], 2), once[part], err_msg=name)


def test_components_of_a_mixture_and_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, codes = big_networks()
    weights = np.array([0.3, 0.7 - 1e-30, 1e-30, 0.0])  # one counts next to nothing, one nothing
    circuit = build.mixture(weights, parts)
    codes = codes[np.random.default_rng(0).permutation(len(codes))[:400]]
    values = np.array([part.log_likelihood(codes) for part in parts])
    with np.errstate(divide="ignore"):
        values += np.log(weights)[:, None]
    shares = np.exp(values - np.logaddexp.reduce(values))
    naive = sum(s[:, None] * part.marginals(codes) for s, part in zip(shares, parts, strict=True))
    in_turns = circuit.marginals(codes)
    drawn = circuit.sample_conditional(codes, 1)
    assert_allclose(in_turns, naive, atol=1e-14)
    # Smaller blocks of rows are the same rows.
    monkeypatch.setattr(_passes, "MAX_ROWS", 64)
    assert_array_equal(circuit.marginals(codes), in_turns)
    assert_array_equal(circuit.sample_conditional(codes, 1), drawn)
    blank = np.full((300, 20), 255, dtype=np.uint8)
    drawn = circuit.sample(300, 1)
    assert_array_equal(circuit.sample_conditional(np.vstack([blank, codes[:1]]), 1)[:300], drawn)


@pytest.mark.parametrize("n", [1, 4, 23, 24, 64, 65, 87, 88, 300])
def test_complete_rows_are_looked_up_together(n: int) -> None:
    networks, _ = big_networks()
    leaf = build.chow_liu(
        [-1, 0, 0, -1], [[0.3, 0.7], [[0.9, 0.1], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]], [0.4, 0.6]]
    )
    cut = build.decision(1, [1.0, 0.0], *[build.categorical(0, [p, 1 - p]) for p in (0.3, 0.6)])
    rng = np.random.default_rng(n)
    for circuit in (
        networks[0],
        build.mixture([0.25] * 4, networks),
        build.circuit(leaf, [2] * 4),
        build.circuit(cut, [2, 2]),
    ):
        codes = rng.integers(0, 2, size=(n, len(circuit.domains))).astype(np.uint8)
        found = circuit.log_likelihood(codes)
        with np.errstate(divide="ignore"):
            expected = circuit.expand().log_likelihood(codes)
        assert_allclose(found, expected, rtol=1e-12)
        # The same numbers row by row, and beside a row that is not complete.
        assert_array_equal([circuit.log_likelihood(row[None])[0] for row in codes], found)
        open_row = np.full((1, len(circuit.domains)), 255, dtype=np.uint8)
        beside = circuit.log_likelihood(np.vstack([codes, open_row]))
        assert_array_equal(beside[:-1], found)


def test_rows_that_need_many_leaves() -> None:
    rng = np.random.default_rng(0)

    def network(variables: list[int], depth: int) -> build.Node:
        if depth == 0:
            return build.independent([rng.dirichlet([1, 1]) for _ in variables], variables)
        rest = variables[1:]
        children = [network(rest, depth - 1), network(rest, depth - 1)]
        return build.decision(variables[0], rng.dirichlet([1, 1]), *children)

    circuit = build.circuit(network(list(range(9)), 7), [2] * 9)
    codes = rng.integers(0, 2, size=(700, 9)).astype(np.uint8)
    codes[:, :7][rng.random((700, 7)) < 0.9] = 255
    alone = [circuit.log_likelihood(row[None])[0] for row in codes[:40]]
    assert_array_equal(circuit.log_likelihood(codes)[:40], alone)
    expanded = circuit.expand()
    assert_allclose(circuit.log_likelihood(codes), expanded.log_likelihood(codes), rtol=1e-12)
    assert_allclose(circuit.marginals(codes), expanded.marginals(codes), atol=1e-12)
    assert_allclose(circuit.mpe(codes)[1], expanded.mpe(codes)[1], rtol=1e-12)
    drawn = circuit.sample_conditional(codes, 0)
    assert np.all((codes == 255) | (drawn == codes))


def test_the_first_impossible_row_is_named_on_any_number_of_threads() -> None:
    circuit = build.circuit(build.categorical(0, [1.0, 0.0]), [2])
    codes = np.zeros((6000, 1), dtype=np.uint8)
    codes[[2500, 3500, 5900]] = 1
    for n_jobs in (1, 2, 3, 4):
        with pytest.raises(ZeroProbabilityError, match="row 2500 "):
            circuit.marginals(codes, n_jobs=n_jobs)


@pytest.mark.parametrize("n_states", [[2, 3, 2, 4, 2, 2, 3, 2], [2] * 8, [9, 2, 7, 3, 5, 2, 11, 4]])
def test_large_and_small_leaves_answer_alike(
    monkeypatch: pytest.MonkeyPatch, n_states: list[int]
) -> None:
    # Most rows are evaluated many at a time, those of very large leaves one by one.
    rng = np.random.default_rng(0)
    maker = Maker(rng, n_states, deterministic=True)
    for width in (0, 1, 2, 4):
        leaf = maker.junction(list(range(8)), width)
        in_lanes = build.circuit(leaf, maker.n_states)
        monkeypatch.setattr(_plan, "MAX_SLOTS", 0)
        by_row = build.circuit(leaf, maker.n_states)
        codes = by_row.sample(300, 1)
        codes[rng.random(codes.shape) < np.linspace(0, 1, 300)[:, None]] = 255
        assert by_row._passes.sizes.slots == 0
        found = by_row.log_likelihood(codes), by_row.marginals(codes), by_row.mpe(codes)[1]
        tables = by_row.flows(codes).tables
        monkeypatch.undo()
        assert in_lanes._passes.sizes.slots > 0
        if width <= 1:
            assert in_lanes._passes.plan.leaves.node[0, TREE] == (max(n_states) == 2)
        assert_allclose(in_lanes.log_likelihood(codes), found[0], rtol=1e-12, atol=1e-12)
        assert_allclose(in_lanes.marginals(codes), found[1], atol=1e-12)
        assert_allclose(in_lanes.mpe(codes)[1], found[2], rtol=1e-12, atol=1e-12)
        assert_allclose(in_lanes.flows(codes).tables, tables, rtol=1e-9, atol=1e-9)


def test_copies_are_equal() -> None:
    circuit, codes = big_circuit()
    before = circuit.log_likelihood(codes)
    for other in (copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit))):
        assert other == circuit
        assert_array_equal(other.log_likelihood(codes), before)
    assert circuit != build.mixture([0.5, 0.5], [circuit, circuit])
    assert circuit != 3
    assert "_passes" not in pickle.loads(pickle.dumps(circuit)).__dict__


def test_arrays_are_read_only_and_the_callers_arrays_are_not_touched() -> None:
    circuit, _ = big_circuit()
    with pytest.raises(ValueError, match="read-only"):
        circuit.log_weight[0] = 0.0
    with pytest.raises(AttributeError):
        circuit.kind = circuit.kind
    arrays = {name: array.copy() for name, array in circuit.arrays().items()}
    other = Circuit(domains=circuit.domains, **arrays)
    arrays["log_weight"][:] = 0.0
    assert other == circuit


@pytest.mark.parametrize("n_states", [[2, 3, 2, 4, 2], [2] * 5])
@pytest.mark.parametrize("width", [0, 1, 3])
def test_leaves_of_one_structure_are_evaluated_together(
    monkeypatch: pytest.MonkeyPatch, n_states: list[int], width: int
) -> None:
    rng = np.random.default_rng(width)
    maker = Maker(rng, n_states, deterministic=True)
    one = build.circuit(maker.junction(list(range(5)), width), n_states)
    leaves = []
    for _ in range(11):
        tables = [
            np.log(rng.dirichlet(np.ones(k), size=(end - begin) // k)).ravel()
            for begin, end, k in zip(
                one.fam_table_ptr[:-1], one.fam_table_ptr[1:], one.fam_states, strict=True
            )
        ]
        leaves.append(replace(one, fam_table=np.concatenate(tables)))
    other = build.circuit(
        build.independent([rng.dirichlet(np.ones(k)) for k in n_states]), n_states
    )
    weights = rng.dirichlet(np.ones(12))
    stacked = build.mixture(weights, [*leaves, other])
    monkeypatch.setattr(_plan, "MIN_STACK", 10**6)
    alone = build.mixture(weights, [*leaves, other])
    codes = alone.sample(300, 1)
    codes[100:][rng.random((200, 5)) < np.linspace(0, 1, 200)[:, None]] = 255
    masks = rng.random((300, sum(n_states))) < 0.8
    expected = alone.log_likelihood(codes), alone.marginals(codes), alone.flows(codes)
    best = alone.mpe(codes)[1]
    masked = alone.log_likelihood(Evidence(codes, masks))
    shares = alone.responsibilities(codes).shares
    assert alone._passes.plan.leaves.node[:, N_LANES].max() == 1
    monkeypatch.undo()
    assert stacked._passes.plan.leaves.node[:, N_LANES].max() == 11
    assert_allclose(stacked.log_likelihood(codes), expected[0], rtol=1e-12, atol=1e-14)
    assert_allclose(stacked.marginals(codes), expected[1], atol=1e-12)
    found = stacked.flows(codes)
    assert_allclose(found.tables, expected[2].tables, rtol=1e-9, atol=1e-12)
    assert_allclose(found.edges, expected[2].edges, rtol=1e-9)
    assert_allclose(stacked.mpe(codes)[1], best, rtol=1e-12, atol=1e-14)
    assert_allclose(stacked.log_likelihood(Evidence(codes, masks)), masked, rtol=1e-12, atol=1e-14)
    assert_allclose(stacked.responsibilities(codes).shares, shares, rtol=1e-9)
    assert_array_equal(
        [stacked.log_likelihood(row[None])[0] for row in codes[:150]],
        stacked.log_likelihood(codes)[:150],
    )
    drawn = stacked.sample_conditional(codes, 0)
    assert np.all((codes == 255) | (drawn == codes))
    marginals = np.zeros(sum(n_states))
    many = stacked.sample(20_000, 0)
    for v, offset in enumerate(stacked.domains.offsets[:-1]):
        share = np.bincount(many[:, v], minlength=n_states[v]) / len(many)
        marginals[offset : offset + n_states[v]] = share
    blank = np.full((1, 5), 255, dtype=np.uint8)
    assert_allclose(marginals, stacked.marginals(blank)[0], atol=0.02)


def test_long_leaves_in_stacks_fall_back_to_logs() -> None:
    # 1500 observed children of a missing hub: no number of a message fits a double.
    rng = np.random.default_rng(0)
    n = 1500
    trees = []
    for _ in range(9):
        tables = [rng.dirichlet([1, 1])] + [rng.dirichlet([1, 1], size=2) for _ in range(n)]
        trees.append(build.circuit(build.chow_liu([-1] + [0] * n, tables), [2] * (n + 1)))
    circuit = build.mixture(np.full(9, 1 / 9), trees)
    codes = rng.integers(0, 2, size=(3, n + 1)).astype(np.uint8)
    codes[:, 0] = 255
    codes[:, 5] = 255
    expected = np.logaddexp.reduce([t.log_likelihood(codes) for t in trees]) - np.log(9)
    assert_allclose(circuit.log_likelihood(codes), expected, rtol=1e-12)
    shares = circuit.responsibilities(codes).shares
    parts = np.array([t.marginals(codes) for t in trees])
    assert_allclose(circuit.marginals(codes), np.einsum("rk,krs->rs", shares, parts), atol=1e-9)
    assert_allclose(circuit.mpe(codes)[1], circuit.log_likelihood(circuit.mpe(codes)[0]))
    assert np.all(circuit.sample_conditional(codes, 0) != 255)
