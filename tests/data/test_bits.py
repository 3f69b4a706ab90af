import numpy as np
import pytest
from numba import njit

from bayescut.data.bits import bit_layout, pack, popcount, trailing_zeros


def naive_bits(codes, rows, layout):
    bits = np.zeros((layout.n_bits, (len(rows) + 63) // 64), dtype=np.uint64)
    for b, (column, state) in enumerate(zip(layout.bit_column, layout.bit_state, strict=True)):
        for r, row in enumerate(rows):
            if codes[row, column] == state:
                bits[b, r // 64] |= np.uint64(1) << np.uint64(r % 64)
    return bits


@pytest.mark.parametrize("n_rows", [1, 7, 8, 63, 64, 65, 200])
@pytest.mark.parametrize("sizes", [[2], [2, 2, 2], [3, 2, 5], [1, 2, 1], [2] * 70])
def test_packing_agrees_with_the_naive_twin(n_rows, sizes):
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0, sizes, size=(n_rows, len(sizes))).astype(np.uint8)
    rows = rng.permutation(n_rows).astype(np.int32)[: max(1, n_rows - 3)]
    layout = bit_layout(np.arange(len(sizes)), np.array(sizes))
    np.testing.assert_array_equal(pack(codes, rows, layout), naive_bits(codes, rows, layout))


def test_some_columns_in_any_order_and_repeated_rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(100, 6)).astype(np.uint8)
    rows = np.repeat(np.arange(100, dtype=np.int32), 2)
    layout = bit_layout(np.array([4, 1, 5]), np.full(3, 2))
    assert not layout.adjacent
    np.testing.assert_array_equal(pack(codes, rows, layout), naive_bits(codes, rows, layout))


def test_wide_codes():
    codes = np.array([[300], [0], [299]], dtype=np.uint16)
    layout = bit_layout(np.arange(1), np.array([301]))
    bits = pack(codes, np.arange(3, dtype=np.int32), layout)
    assert bits[299, 0] == 1 and bits[298, 0] == 4 and bits.sum() == 5


def test_a_table_of_constant_columns_has_no_bits():
    layout = bit_layout(np.arange(3), np.ones(3, dtype=int))
    assert layout.n_bits == 0
    assert pack(np.zeros((5, 3), np.uint8), np.arange(5, dtype=np.int32), layout).shape == (0, 1)


@njit
def _bit_functions(word):
    return popcount(word), trailing_zeros(word)


@pytest.mark.parametrize("word", [1, 2, 3, 2**63, 2**64 - 1, 0b101000])
def test_bit_functions(word):
    ones, zeros = _bit_functions(np.uint64(word))
    assert ones == bin(word).count("1")
    assert zeros == (word & -word).bit_length() - 1
