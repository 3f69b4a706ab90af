"""Every query against enumeration over all worlds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from tests.circuit.random_circuits import (
    Case,
    cases,
    deterministic_cases,
    make_case,
    random_circuit,
)
from tests.oracle.worlds import Worlds

from bayescut.circuit import Evidence, build
from bayescut.exceptions import DataError, ZeroProbabilityError

nan = float("nan")
few = settings(max_examples=150, deadline=None)


def log(p: float) -> float:
    return np.log(p) if p > 0 else -np.inf


def possible(case: Case, masked: bool) -> list[tuple[int, np.ndarray]]:
    """Return the rows of a case whose evidence is possible, with their posteriors over worlds."""
    all_worlds = Worlds(case.circuit)
    found = []
    for r, codes in enumerate(case.codes):
        mask = case.allowed[r] if masked else None
        if (all_worlds.p * all_worlds.agree(codes, mask)).sum() > 0:
            found.append((r, all_worlds.posterior(codes, mask)))
    return found


@few
@given(cases)
def test_circuits_are_normalised(case: Case) -> None:
    assert_allclose(Worlds(case.circuit).p.sum(), 1.0)


@few
@given(cases)
def test_log_likelihood(case: Case) -> None:
    every = Worlds(case.circuit)
    expected = [log((every.p * every.agree(codes)).sum()) for codes in case.codes]
    assert_allclose(case.circuit.log_likelihood(case.codes), expected, rtol=1e-9, atol=1e-12)


@few
@given(cases)
def test_log_likelihood_of_complete_rows(case: Case) -> None:
    every = Worlds(case.circuit)
    found = case.circuit.log_likelihood(every.rows.astype(np.uint8))
    assert_allclose(np.exp(found), every.p, rtol=1e-9, atol=1e-300)


@few
@given(cases)
def test_set_valued_evidence(case: Case) -> None:
    every = Worlds(case.circuit)
    expected = [
        log((every.p * every.agree(codes, mask)).sum())
        for codes, mask in zip(case.codes, case.allowed, strict=True)
    ]
    found = case.circuit.log_likelihood(Evidence(case.codes, case.allowed))
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    # One mask for all rows.
    expected = [log((every.p * every.agree(codes, case.allowed[0])).sum()) for codes in case.codes]
    found = case.circuit.log_likelihood(Evidence(case.codes, case.allowed[0]))
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@few
@given(cases)
def test_soft_evidence(case: Case) -> None:
    every = Worlds(case.circuit)
    rng = np.random.default_rng(len(every.p))
    weights = case.allowed * rng.random(case.allowed.shape)
    expected = [
        (every.p * every.agree(codes, w)).sum()
        for codes, w in zip(case.codes, weights, strict=True)
    ]
    found = case.circuit.log_likelihood(Evidence(case.codes, weights))
    assert_allclose(np.exp(found), expected, rtol=1e-9, atol=1e-300)
    rows = np.flatnonzero(np.array(expected) > 0)
    posterior = [every.posterior(case.codes[r], weights[r]) for r in rows]
    given = Evidence(case.codes[rows], weights[rows])
    found = case.circuit.marginals(given)
    expected = np.array([every.marginals(p) for p in posterior]).reshape(found.shape)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    drawn = case.circuit.sample_conditional(given, 0)
    index = np.ravel_multi_index(tuple(drawn.T), tuple(case.circuit.domains.n_states))
    assert all(p[i] > 0 for p, i in zip(posterior, index, strict=True))


@few
@given(cases)
def test_responsibilities(case: Case) -> None:
    circuit = case.circuit
    shares, value = circuit.responsibilities(case.codes)
    np.testing.assert_array_equal(value, circuit.log_likelihood(case.codes))
    possible = value > -np.inf
    assert_allclose(shares[possible].sum(axis=1), 1.0, rtol=1e-12)
    assert np.all(np.isnan(shares[~possible]))
    if circuit.kind[-1] == 0:
        begin, end = circuit.child_ptr[-2:]
        parts = circuit.node_log_likelihood(case.codes, circuit.child[begin:end])
        expected = np.exp(parts[possible] + circuit.log_weight[begin:end])
        expected /= expected.sum(axis=1, keepdims=True)
        assert_allclose(shares[possible], expected, rtol=1e-9, atol=1e-12)


@few
@given(cases)
def test_node_log_likelihood(case: Case) -> None:
    nodes = np.arange(case.circuit.n_nodes)
    found = case.circuit.node_log_likelihood(case.codes, nodes)
    alone = [case.circuit.node_log_likelihood(case.codes, [node])[:, 0] for node in nodes]
    np.testing.assert_array_equal(found, np.transpose(alone))
    node = len(nodes) // 2
    every = Worlds(case.circuit, node)
    # Worlds repeat over the variables outside the node's scope: normalise by the blank row.
    blank = every.p.sum()
    outside = _outside_scope(case.circuit, node)
    codes = case.codes.copy()
    codes[:, outside] = 255
    expected = [log((every.p * every.agree(row)).sum() / blank) for row in codes]
    assert_allclose(found[:, node], expected, rtol=1e-9, atol=1e-9)


def _outside_scope(circuit, node: int) -> list[int]:
    scope: set[int] = set()
    waiting = [node]
    while waiting:
        n = waiting.pop()
        waiting.extend(circuit.child[circuit.child_ptr[n] : circuit.child_ptr[n + 1]].tolist())
        scope.update(circuit.fam_var[circuit.fam_ptr[n] : circuit.fam_ptr[n + 1]].tolist())
        scope.add(int(circuit.var[n]))
    return [v for v in range(len(circuit.domains)) if v not in scope]


@few
@given(cases)
def test_marginals(case: Case) -> None:
    every = Worlds(case.circuit)
    for masked in (False, True):
        rows = possible(case, masked)
        index = [r for r, _ in rows]
        masks = case.allowed[index] if masked else None
        found = case.circuit.marginals(Evidence(case.codes[index], masks))
        expected = np.array([every.marginals(posterior) for _, posterior in rows])
        assert_allclose(found, expected.reshape(found.shape), rtol=1e-9, atol=1e-12)


@few
@given(cases)
def test_expectation(case: Case) -> None:
    every = Worlds(case.circuit)
    rng = np.random.default_rng(0)
    functions = {v: rng.normal(size=d.n_states) for v, d in enumerate(case.circuit.domains)}
    for r, posterior in possible(case, False):
        found = case.circuit.expectation(case.codes[r : r + 1], functions)[0]
        expected = [posterior @ f[every.rows[:, v]] for v, f in functions.items()]
        assert_allclose(found, expected, atol=1e-9)


@few
@given(cases)
def test_conditionals(case: Case) -> None:
    every = Worlds(case.circuit)
    query = np.roll(case.codes, 1, axis=0)
    for r, posterior in possible(case, False):
        found = case.circuit.conditional_log_likelihood(query[r : r + 1], case.codes[r : r + 1])
        expected = log((posterior * every.agree(query[r])).sum())
        assert_allclose(found[0], expected, rtol=1e-9, atol=1e-9)


@few
@given(deterministic_cases)
def test_mpe_is_exact_on_deterministic_circuits(case: Case) -> None:
    assert case.circuit.properties.deterministic
    every = Worlds(case.circuit)
    for masked in (False, True):
        for r, posterior in possible(case, masked):
            mask = case.allowed[r] if masked else None
            rows, value = case.circuit.mpe(Evidence(case.codes[r : r + 1], mask))
            best = (every.p * (posterior > 0)).max()
            assert_allclose(value, np.log(best), rtol=1e-9, atol=1e-12)
            world = np.flatnonzero((every.rows == rows[0]).all(axis=1))[0]
            assert posterior[world] > 0
            assert_allclose(every.p[world], best, rtol=1e-9)


@few
@given(cases)
def test_mpe_agrees_with_the_evidence_and_states_its_true_value(case: Case) -> None:
    every = Worlds(case.circuit)
    for r, posterior in possible(case, True):
        rows, value = case.circuit.mpe(Evidence(case.codes[r : r + 1], case.allowed[r]))
        world = np.flatnonzero((every.rows == rows[0]).all(axis=1))[0]
        assert posterior[world] > 0
        assert_allclose(value, np.log(every.p[world]), rtol=1e-9, atol=1e-12)


def test_mpe_is_not_the_branch_with_the_larger_marginal() -> None:
    # Branch 0 holds 0.6 of the mass spread thin, branch 1 holds 0.4 of it in one row.
    spread = build.independent([[0.5, 0.5]] * 3, [1, 2, 3])
    peaked = build.independent([[0.1, 0.9]] * 3, [1, 2, 3])
    circuit = build.circuit(build.decision(0, [0.6, 0.4], spread, peaked), [2] * 4)
    rows, value = circuit.mpe([[nan] * 4])
    assert rows.tolist() == [[1, 1, 1, 1]]
    assert_allclose(value, np.log(0.4 * 0.9**3))
    assert circuit.marginals([[nan] * 4])[0, 0] == pytest.approx(0.6)
    # The same inside a leaf: x0 = 0 is likelier, but x0 = 1 has the best completion.
    tables = [[0.6, 0.4], [[0.5, 0.5], [0.05, 0.95]], [[0.5, 0.5], [0.95, 0.05]]]
    leaf = build.circuit(build.chow_liu([-1, 0, 0], tables), [2] * 3)
    rows, value = leaf.mpe([[nan] * 3])
    assert rows.tolist() == [[1, 1, 0]]
    assert_allclose(value, np.log(0.4 * 0.95**2))


def test_a_leaf_shared_with_a_product_that_is_cut_short() -> None:
    # Where X0 = 1 the first product is zero before its leaf is looked at, which the last one needs.
    first, second = build.independent([[0.2, 0.8]], [1]), build.independent([[0.6, 0.4]], [1])
    products = [
        build.product(build.indicator(0, state), leaf)
        for state, leaf in [(0, first), (1, second), (1, first)]
    ]
    circuit = build.circuit(build.weighted_sum([0.5, 0.3, 0.2], *products), [2, 2])
    rows = [[1, 0], [1, nan], [0, 1], [nan, 1], [1, 1]] * 40
    expected = [0.3 * 0.6 + 0.2 * 0.2, 0.5, 0.5 * 0.8, 0.7 * 0.8 + 0.3 * 0.4, 0.12 + 0.16] * 40
    assert_allclose(np.exp(circuit.log_likelihood(rows)), expected)
    posterior = circuit.marginals(rows)
    assert_allclose(posterior[1], [0, 1, (0.18 + 0.04) / 0.5, (0.12 + 0.16) / 0.5])


def test_missing_root_cut_is_summed_over() -> None:
    # A well-known library returned probability 1 here.
    left, right = build.categorical(1, [0.2, 0.8]), build.categorical(1, [0.3, 0.7])
    circuit = build.circuit(build.decision(0, [0.254, 0.746], left, right), [2, 2])
    assert_allclose(np.exp(circuit.log_likelihood([[nan, 0]])), 0.254 * 0.2 + 0.746 * 0.3)


@few
@given(deterministic_cases)
def test_entropy(case: Case) -> None:
    p = Worlds(case.circuit).p
    p = p[p > 0]
    assert_allclose(case.circuit.entropy(), -(p @ np.log(p)), rtol=1e-9, atol=1e-12)


def test_impossible_evidence() -> None:
    circuit = build.circuit(build.chow_liu([-1, 0], [[0.5, 0.5], [[1, 0], [0, 1]]]), [2, 2])
    codes = np.array([[0, 0], [0, 1], [255, 1]], dtype=np.uint8)
    assert_allclose(circuit.log_likelihood(codes), [np.log(0.5), -np.inf, np.log(0.5)])
    for query in (circuit.marginals, circuit.mpe, circuit.sample_conditional, circuit.flows):
        with pytest.raises(ZeroProbabilityError, match="row 1 "):
            query(codes)
    with pytest.raises(ZeroProbabilityError, match="row 1 "):
        circuit.conditional_log_likelihood(codes[:1], codes)
    # No state is allowed at all.
    nothing = np.zeros(4, dtype=bool)
    assert np.all(circuit.log_likelihood(Evidence(codes, nothing)) == -np.inf)
    with pytest.raises(ZeroProbabilityError, match="row 0 "):
        circuit.marginals(Evidence(codes, nothing))


def test_a_query_that_contradicts_its_evidence_is_impossible() -> None:
    circuit = build.circuit(build.independent([[0.5, 0.5], [0.5, 0.5]]), [2, 2])
    found = circuit.conditional_log_likelihood([[0, 1], [1, nan]], [[1, nan], [1, nan]])
    assert found.tolist() == [-np.inf, 0.0]


def test_conditionals_of_one_row_against_many_and_under_masks() -> None:
    circuit = random_circuit(11)
    every = Worlds(circuit)
    case = make_case(11)
    blank, codes, masks = case.codes[:1], case.codes[1:], case.allowed[1:]
    expected = [log((every.p * every.agree(row)).sum()) for row in codes]
    assert_allclose(circuit.conditional_log_likelihood(codes, blank), expected, atol=1e-9)
    masks |= np.eye(circuit.domains.offsets[-1], dtype=bool)[circuit.domains.offsets[:-1]].any(0)
    given = [(every.p * every.agree(blank[0], mask)).sum() for mask in masks]
    joint = [
        (every.p * every.agree(row, mask)).sum() for row, mask in zip(codes, masks, strict=True)
    ]
    assert min(given) > 0
    found = circuit.conditional_log_likelihood(
        codes, Evidence(np.repeat(blank, len(masks), axis=0), masks)
    )
    assert_allclose(np.exp(found), np.divide(joint, given), atol=1e-9)
    wide = codes.astype(np.uint16)
    wide[codes == 255] = 65535
    assert_allclose(circuit.conditional_log_likelihood(wide, blank), expected, atol=1e-9)
    wide[0, 0] = 256  # would be 0 in 8 bits
    with pytest.raises(DataError, match="row 0, column 0"):
        circuit.conditional_log_likelihood(wide, blank)


def test_rows_are_checked() -> None:
    circuit = build.circuit(build.independent([[0.5, 0.5], [0.2] * 5]), [2, 5])
    with pytest.raises(DataError, match="row 1, column 0"):
        circuit.log_likelihood(np.array([[0, 4], [2, 4]], dtype=np.uint8))
    with pytest.raises(DataError, match="2 columns"):
        circuit.log_likelihood(np.zeros((3, 4), dtype=np.uint8))
    rows = np.zeros((3, 2), dtype=np.uint8)
    for weights in (np.ones(5), np.full(7, 2.0), np.full(7, nan), np.full(7, -0.5), ["a"] * 7):
        with pytest.raises(DataError, match="weights"):
            circuit.log_likelihood(Evidence(rows, weights))
    for wrong in ([["a", "b"]], [[0.5, 1]], [[0, 7]], [[0j, 1]]):
        with pytest.raises(DataError, match="code"):
            circuit.log_likelihood(wrong)
    for nodes in ([0.5], ["a"], [True], [[0]]):
        with pytest.raises(ValueError, match="nodes"):
            circuit.node_log_likelihood(rows, nodes)
    with pytest.raises(ValueError, match="nodes"):
        circuit.node_log_likelihood(np.zeros((3, 2), dtype=np.uint8), [1])
    assert circuit.log_likelihood(np.zeros((0, 2), dtype=np.uint8)).shape == (0,)


def test_codes_of_sixteen_bits() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(300)), rng.dirichlet(np.ones(2), size=300)
    circuit = build.circuit(build.chow_liu([-1, 0], [p, q]), [300, 2])
    codes = np.array([[299, 1], [65535, 1], [7, 65535]], dtype=np.uint16)
    expected = [p[299] * q[299, 1], p @ q[:, 1], p[7]]
    assert_allclose(np.exp(circuit.log_likelihood(codes)), expected)
    assert circuit.sample(4, 0).dtype == np.uint16


@pytest.mark.parametrize("seed", range(12))
def test_samples_follow_the_conditional(seed: int) -> None:
    circuit = random_circuit(seed)
    every = Worlds(circuit)
    rng = np.random.default_rng(seed)
    n = 4000
    for fraction in (1.0, 0.5):
        world = every.rows[rng.choice(len(every.p), p=every.p / every.p.sum())]
        codes = np.where(rng.random(len(world)) < fraction, 255, world).astype(np.uint8)
        posterior = every.posterior(codes)
        drawn = circuit.sample_conditional(np.tile(codes, (n, 1)), seed)
        index = np.ravel_multi_index(tuple(drawn.T), tuple(circuit.domains.n_states))
        counts = np.bincount(index, minlength=len(posterior))
        assert np.all(counts[posterior == 0] == 0)
        keep = posterior > 0
        expected = n * posterior[keep]
        chi = ((counts[keep] - expected) ** 2 / expected).sum()
        freedom = keep.sum() - 1
        # Five standard deviations of the chi-square distribution, and a little for small cells.
        assert chi <= freedom + 5 * np.sqrt(2 * freedom + 1) + 10


def test_one_draw_does_not_depend_on_the_other_rows() -> None:
    circuit = random_circuit(5)
    blank = np.full((3000, len(circuit.domains)), 255, dtype=np.uint8)
    drawn = circuit.sample_conditional(blank, 7)
    np.testing.assert_array_equal(drawn[:100], circuit.sample_conditional(blank[:100], 7))
    np.testing.assert_array_equal(drawn, circuit.sample(3000, 7))
    assert not np.array_equal(circuit.sample(50, 1), circuit.sample(50, 2))
    generator = np.random.default_rng(3)
    assert not np.array_equal(circuit.sample(50, generator), circuit.sample(50, generator))
