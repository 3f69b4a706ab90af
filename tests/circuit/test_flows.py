"""Expected counts against an oracle that deletes one parameter at a time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from tests.circuit.random_circuits import Case, cases, deterministic_cases
from tests.oracle.worlds import Worlds, probability, worlds

from bayescut.circuit import Circuit, build
from bayescut.exceptions import DataError

few = settings(max_examples=40, deadline=None)


def flow_by_deletion(circuit: Circuit, name: str, codes: np.ndarray) -> np.ndarray:
    """Return the flow of each parameter of an array for one row.

    The value of a smooth, decomposable circuit is linear in each parameter θ, p = a + bθ, and the
    posterior probability that θ is used is bθ / p = 1 − a / p.
    """
    every = Worlds(circuit)
    rows = worlds(circuit)[every.agree(codes) > 0]
    arrays = circuit.arrays()
    total = sum(probability(circuit, row) for row in rows)
    flows = []
    for i in range(len(arrays[name])):
        without = arrays[name].copy()
        without[i] = -np.inf
        changed = SimpleNamespace(
            **(arrays | {name: without}),
            domains=circuit.domains,
            n_nodes=circuit.n_nodes,
            fam_states=circuit.fam_states,
            fam_parent_states=circuit.fam_parent_states,
        )
        flows.append(1 - sum(probability(changed, row) for row in rows) / total)
    return np.array(flows)


def possible_rows(case: Case) -> np.ndarray:
    return case.codes[np.isfinite(case.circuit.log_likelihood(case.codes))]


@few
@given(cases)
def test_flows(case: Case) -> None:
    circuit = case.circuit
    is_product = np.repeat(circuit.kind, np.diff(circuit.child_ptr)) == 2
    for codes in possible_rows(case)[:2]:
        found = circuit.flows(codes[None])
        edges = flow_by_deletion(circuit, "log_weight", codes)
        assert_allclose(found.edges[~is_product], edges[~is_product], atol=1e-9)
        assert_allclose(found.tables, flow_by_deletion(circuit, "fam_table", codes), atol=1e-9)
        assert_allclose(found.categorical, flow_by_deletion(circuit, "param", codes), atol=1e-9)


@few
@given(deterministic_cases)
def test_flows_are_counts_for_complete_rows(case: Case) -> None:
    every = Worlds(case.circuit)
    rows = every.rows[every.p > 0].astype(np.uint8)
    found = case.circuit.flows(rows)
    for counts in (found.edges, found.tables, found.categorical):
        assert_array_equal(counts, np.round(counts))
    # Each family of a leaf is met as often as the leaf is.
    leaves = np.flatnonzero(case.circuit.kind == 5)
    for leaf in leaves:
        families = range(case.circuit.fam_ptr[leaf], case.circuit.fam_ptr[leaf + 1])
        ends = case.circuit.fam_table_ptr
        totals = {found.tables[ends[f] : ends[f + 1]].sum() for f in families}
        assert len(totals) == 1


@few
@given(cases)
def test_a_weight_of_two_is_the_row_given_twice(case: Case) -> None:
    rows = possible_rows(case)
    weights = np.arange(len(rows)) % 3
    weighted = case.circuit.flows(rows, weights)
    repeated = case.circuit.flows(np.repeat(rows, weights, axis=0)) if weights.sum() else None
    if repeated is not None:
        assert_allclose(weighted.edges, repeated.edges, atol=1e-12)
        assert_allclose(weighted.tables, repeated.tables, atol=1e-12)
        assert_allclose(weighted.categorical, repeated.categorical, atol=1e-12)


def test_flows_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.dirichlet([1, 1]), *rng.dirichlet([1, 1], size=(9, 2))]
    leaves = [build.circuit(build.chow_liu([-1, *range(9)], tables), [2] * 10) for _ in range(2)]
    circuit = build.mixture([0.3, 0.7], leaves)
    codes = rng.integers(0, 2, size=(20000, 10)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.5] = 255
    weights = rng.random(len(codes))
    one, three = (circuit.flows(codes, weights, n_jobs=n) for n in (1, 3))
    assert_array_equal(one.edges, three.edges)
    assert_array_equal(one.tables, three.tables)
    assert_allclose(one.edges.sum(), weights.sum())


def test_statistics_of_continuous_inputs() -> None:
    rng = np.random.default_rng(0)
    # Far from zero: sums of squares would lose the variance.
    x = 1e8 + rng.normal(size=10000)
    circuit = build.circuit(build.gaussian(0, 0.0, 1.0), [0])
    weight, mean, squares = circuit.flows(x[:, None]).continuous[0]
    assert weight == len(x)
    assert_allclose(mean, x.mean(), rtol=1e-14)
    assert_allclose(squares, ((x - x.mean()) ** 2).sum(), rtol=1e-7)
    # A value that is missing counts as its distribution.
    weight, mean, squares = circuit.flows(np.array([[2.0], [np.nan]])).continuous[0]
    assert (weight, mean) == (2.0, 1.0)
    assert_allclose(squares, 2.0 + 1.0)


def test_weights_are_checked() -> None:
    circuit = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    with pytest.raises(DataError, match="weights of shape"):
        circuit.flows([[0], [1]], [1.0])
    with pytest.raises(DataError, match="finite"):
        circuit.flows([[0], [1]], [1.0, -1.0])
    # A row of weight zero is not there, even if it is impossible.
    sure = build.circuit(build.categorical(0, [1.0, 0.0]), [2])
    assert sure.flows([[0], [1]], [1.0, 0.0]).categorical.tolist() == [1.0, 0.0]
