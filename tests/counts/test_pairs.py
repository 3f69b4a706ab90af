import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.naive_learner import joint

from bayescut.counts import count_pairs
from bayescut.counts.pairs import (
    count_bits,
    count_codes,
    count_masked_bits,
    count_packed,
    take_bits,
)
from bayescut.data.bits import bit_layout, pack


def check(codes, sizes, rows, weights=None):
    layout = bit_layout(np.arange(len(sizes)), np.array(sizes))
    pairs = count_pairs(codes, layout, rows, weights)
    used = np.arange(len(codes)) if rows is None else rows
    w = np.ones(len(codes)) if weights is None else weights
    assert pairs.n == pytest.approx(w[used].sum())
    for i in range(len(sizes)):
        expected = joint(codes[used], sizes, [i], w[used])
        np.testing.assert_allclose(pairs.single(i), expected, atol=1e-12)
        for j in range(len(sizes)):
            if i != j:
                expected = joint(codes[used], sizes, [i, j], w[used])
                np.testing.assert_allclose(pairs.pair_table(i, j), expected, atol=1e-12)
    return pairs


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_counts_agree_with_the_naive_twin(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    n = data.draw(st.integers(1, 150))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    codes = rng.integers(0, sizes, size=(n, len(sizes))).astype(np.uint8)
    rows = None
    if data.draw(st.booleans()):
        rows = rng.integers(0, n, size=data.draw(st.integers(0, n))).astype(np.int32)
    weights = rng.exponential(size=n) if data.draw(st.booleans()) else None
    check(codes, sizes, rows, weights)


@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
def test_many_columns_sparse_and_dense(density):
    rng = np.random.default_rng(1)
    codes = (rng.random((300, 70)) < density).astype(np.uint8)
    layout = bit_layout(np.arange(70), np.full(70, 2))
    expected = codes.astype(np.int64).T @ codes
    np.testing.assert_array_equal(count_pairs(codes, layout).counts, expected)
    weights = rng.random(300)
    np.testing.assert_allclose(
        count_pairs(codes, layout, sample_weight=weights).counts,
        codes.T.astype(float) * weights @ codes,
        atol=1e-11,
    )


def test_counts_of_many_rows_are_exact_integers():
    rng = np.random.default_rng(2)
    codes = (rng.random((200_000, 5)) < 0.9).astype(np.uint8)
    layout = bit_layout(np.arange(5), np.full(5, 2))
    pairs = count_pairs(codes, layout)
    assert pairs.counts.dtype == np.int32
    np.testing.assert_array_equal(pairs.counts, codes.astype(np.int64).T @ codes)


def test_masked_counts():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, size=(1000, 9)).astype(np.uint8)
    layout = bit_layout(np.arange(9), np.full(9, 2))
    bits = pack(codes, np.arange(1000, dtype=np.int32), layout)
    found = np.empty((9, 9), dtype=np.int32)
    count_masked_bits(bits, bits[4], found)
    inside = codes[codes[:, 4] == 1].astype(int)
    np.testing.assert_array_equal(found, inside.T @ inside)
    count_bits(bits, found)
    np.testing.assert_array_equal(found, codes.astype(int).T @ codes)


@pytest.mark.parametrize("weighted", [False, True])
def test_parent_minus_child_is_the_other_child(weighted):
    rng = np.random.default_rng(4)
    sizes = [2, 3, 2, 4]
    codes = rng.integers(0, sizes, size=(120, 4)).astype(np.uint8)
    weights = rng.random(120) if weighted else None
    rows = np.arange(120, dtype=np.int32)
    left, right = rows[codes[:, 0] == 0], rows[codes[:, 0] == 1]
    whole, a, b = (check(codes, sizes, r, weights) for r in (rows, left, right))
    for found, expected in ((whole - a, b), (a + b, whole)):
        assert found.n == pytest.approx(expected.n)
        np.testing.assert_allclose(found.counts, expected.counts, atol=1e-12)
        assert found.counts.dtype == expected.counts.dtype


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [0, 1, 90])
def test_adding_up_the_pairs_of_rows_counts_as_bits_do(weighted, n_rows):
    rng = np.random.default_rng(n_rows)
    sizes = np.array([40, 2, 1, 33])
    codes = rng.integers(0, sizes, size=(100, 4)).astype(np.uint8)
    rows = np.sort(rng.permutation(100)[:n_rows]).astype(np.int32)
    weights = rng.uniform(0.0, 2.0, n_rows) if weighted else None
    few = {0: np.unique(codes[rows, 0])} if n_rows > 1 else {}
    left = np.array([len(few.get(c, range(k))) for c, k in enumerate(sizes.tolist())])
    layout = bit_layout(np.arange(4), left, few)
    counts = np.empty((layout.n_bits,) * 2, dtype=np.float64 if weighted else np.int32)
    count_codes(codes, rows, weights, layout.columns, *layout.bit_of_code(), counts)
    hot = codes[rows][:, layout.bit_column] == layout.bit_state
    every = np.ones(n_rows) if weights is None else weights
    np.testing.assert_allclose(counts, hot.T @ (hot * every[:, None]), atol=1e-12)


def test_many_states_are_counted_alike_either_way():
    sizes = np.array([90, 80, 2])
    codes = np.random.default_rng(0).integers(0, sizes, size=(500, 3)).astype(np.uint8)
    layout = bit_layout(np.arange(3), sizes)
    rows = np.arange(500, dtype=np.int32)
    found = count_pairs(codes, layout)
    expected = count_packed(pack(codes, rows, layout), 500, layout)
    np.testing.assert_array_equal(found.counts, expected.counts)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 1000])
def test_rows_packed_some_at_a_time_are_counted_alike(n_rows, monkeypatch):
    rng = np.random.default_rng(n_rows)
    sizes = np.array([2, 3, 5, 2])
    codes = rng.integers(0, sizes, (1200, 4)).astype(np.uint8)
    rows = rng.permutation(1200)[:n_rows].astype(np.int32)
    layout = bit_layout(np.arange(4), sizes)
    whole = count_pairs(codes, layout, rows)
    monkeypatch.setattr("bayescut.counts.pairs._BLOCK", 64)
    some = count_pairs(codes, layout, rows)
    assert some.n == whole.n == n_rows
    np.testing.assert_array_equal(some.counts, whole.counts)


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_counts_of_some_bits_are_taken_as_numpy_takes_them(dtype):
    counts = np.arange(49).reshape(7, 7).astype(dtype)
    for bits in ([], [3], [0, 2, 3, 6]):
        bits = np.array(bits, dtype=np.int64)
        np.testing.assert_array_equal(take_bits(counts, bits), counts[np.ix_(bits, bits)])
