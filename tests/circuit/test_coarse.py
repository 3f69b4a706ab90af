"""Tables of rounded logits: near the tables, the same from a file, and small."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.circuit.random_circuits import Maker
from tests.files.models import rewrite

import bayescut as bc
from bayescut.circuit import build
from bayescut.circuit.coarse import _exp, _log, coarse, pack_table, unpack_table
from bayescut.exceptions import ModelFileError
from bayescut.files import dumps, loads


def leaf(seed: int, n_states: list[int], concentration: float = 1.0) -> build.Node:
    """A chain over all columns."""
    rng = np.random.default_rng(seed)
    families = [(0, (), rng.dirichlet([concentration] * n_states[0]))]
    for v in range(1, len(n_states)):
        table = rng.dirichlet([concentration] * n_states[v], n_states[v - 1])
        families.append((v, (v - 1,), table))
    return build.junction(families)


def blend(n_states: list[int], n: int = 3, concentration: float = 1.0) -> bc.Circuit:
    leaves = [leaf(seed, n_states, concentration) for seed in range(n)]
    return build.circuit(build.weighted_sum([1 / n] * n, *leaves), n_states)


def test_exponentials_and_logarithms_are_those_of_the_library():
    x = -np.concatenate([np.geomspace(1e-12, 699, 10_000), [0.0]])
    np.testing.assert_allclose(_exp(x), np.exp(x), rtol=1e-15)
    y = np.concatenate([np.geomspace(1.0, 1e5, 10_000), [math.sqrt(2), 2.0, 4.0]])
    np.testing.assert_allclose(_log(y), np.log(y), rtol=3e-16, atol=3e-16)
    assert _log(np.array([1.0])) == 0.0 and _exp(np.array([0.0])) == 1.0


@pytest.mark.parametrize("n_states", [[2, 2, 2], [5, 2, 3], [40, 1, 7], [1, 1]])
def test_logits_are_off_by_half_a_step_at_most(n_states):
    circuit = blend(n_states, concentration=0.3)
    rounded = coarse(circuit)
    for f in range(len(circuit.fam_var)):
        cells = slice(*circuit.fam_table_ptr[f : f + 2])
        k = circuit.fam_states[f]
        before, after = (c.fam_table[cells].reshape(-1, k) for c in (circuit, rounded))
        usable = np.isfinite(before).all(axis=1)
        logits = [(t - t[:, :1])[usable] for t in (before, after)]
        assert np.abs(logits[0] - logits[1]).max() <= 0.5 / 1024 + 1e-9
        np.testing.assert_allclose(np.exp(after).sum(axis=1), 1.0, rtol=1e-14)
    assert coarse(rounded) == rounded


def test_rows_with_zeros_and_logits_without_end_stay():
    tables = [[0.0, 1.0], [1e-320, 1.0], [0.3, 0.7]]
    root = build.junction([(0, (), [0.2, 0.5, 0.3]), (1, (0,), tables)])
    circuit = build.circuit(root, [3, 2])
    rounded = coarse(circuit)
    assert np.isneginf(rounded.fam_table[3])
    np.testing.assert_array_equal(rounded.fam_table[3:5], circuit.fam_table[3:5])
    np.testing.assert_allclose(np.exp(rounded.fam_table), np.exp(circuit.fam_table), atol=3e-4)
    assert loads(dumps(rounded)) == rounded


@given(st.integers(0, 10**6))
def test_random_circuits_come_back_bit_by_bit(seed):
    rng = np.random.default_rng(seed)
    n_states = [int(k) for k in rng.integers(1, 5, size=rng.integers(1, 6))]
    root = Maker(rng, n_states, False).node(list(range(len(n_states))), 3)
    circuit = build.circuit(root, n_states)
    for model in (circuit, coarse(circuit)):
        packed = pack_table(model)
        if len(packed) == 3:
            again = unpack_table(**packed, n_cells=len(model.fam_table))
            np.testing.assert_array_equal(again.view(np.int64), model.fam_table.view(np.int64))
        assert loads(dumps(model)) == model


def test_only_a_seventh_is_stored_and_hardly_anything_lost():
    circuit = blend([2] * 40, n=60, concentration=2.0)
    rounded = coarse(circuit)
    assert len(dumps(rounded)) < len(dumps(circuit)) / 4
    codes = circuit.sample(500, random_state=0)
    loss = circuit.log_likelihood(codes) - rounded.log_likelihood(codes)
    assert abs(loss.mean()) < 1e-3 and np.abs(loss).max() < 0.01


def test_ensembles_and_continuous_mixtures_are_coarse():
    X = np.random.default_rng(0).integers(0, 2, (200, 6))
    X[:, 1] = X[:, 0]
    ensemble = bc.CutsetEnsemble(
        n_chains=3, n_components=3, n_bags=2, network=False, random_state=0
    ).fit(X)
    one = bc.ContinuousMixture(n_points=64, max_epochs=2, random_state=0).fit(X)
    for model in (ensemble, one):
        assert coarse(model.circuit_) == model.circuit_
        assert loads(dumps(model)).circuit_ == model.circuit_


def change(name, index, value):
    def wrong(_, blocks):
        blocks[f"circuit0/{name}"][index] = value

    return rewrite(dumps(coarse(blend([3, 2]))), wrong)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("fam_row", 65535, "other lengths"),
        ("fam_row", 0, "other lengths"),
        ("fam_row", 1, "other lengths"),
        ("fam_logit", 2**32 - 1, "too large"),
        ("fam_logit", 2**22, "too large"),
    ],
)
def test_wrong_files_are_refused(name, value, message):
    with pytest.raises(ModelFileError, match=message):
        loads(change(name, 0, value))


def test_a_row_moved_to_another_place_is_refused():
    def swap(_, blocks):
        rows = blocks["circuit0/fam_row"]
        rows[:2] = rows[1], rows[0]

    with pytest.raises(ModelFileError, match="sum to 1"):
        loads(rewrite(dumps(coarse(blend([3, 2]))), swap))


def test_tables_that_a_file_only_claims_are_not_laid_out():
    rows = np.ones(10**6, dtype=np.uint16)
    nothing = np.empty(0, dtype=np.uint32), np.empty(0)
    for lie in (rows, rows * 2, rows * 65535):
        with pytest.raises(ValueError, match="other lengths"):
            unpack_table(lie, *nothing, n_cells=int(lie.sum(dtype=np.int64)))
    logits = np.zeros(3, dtype=np.uint32)
    with pytest.raises(ValueError, match="other lengths"):
        unpack_table(np.array([4], dtype=np.uint16), logits, np.empty(0), n_cells=10**15)


def test_rows_of_many_numbers_of_states():
    rng = np.random.default_rng(0)
    states = rng.permutation(np.repeat(np.arange(2, 400), 3))
    rows = np.insert(states, 5, 0)  # and one cell by itself
    logits = rng.integers(0, 50, int((states - 1).sum())).astype(np.uint32)
    alone = np.array([-0.5])
    n_cells = int(states.sum()) + 1
    table = unpack_table(rows.astype(np.uint16), logits, alone, n_cells)
    begin = cell = 0
    for k in rows.tolist():
        if k == 0:
            assert table[cell] == -0.5
            cell += 1
            continue
        steps = logits[begin : begin + k - 1].astype(int)
        whole = np.append(0, np.where(steps % 2, -(steps // 2) - 1, steps // 2)) / 1024
        expected = whole - np.log(np.exp(whole).sum())
        np.testing.assert_allclose(table[cell : cell + k], expected, atol=1e-12)
        begin, cell = begin + k - 1, cell + k
    assert cell == n_cells
