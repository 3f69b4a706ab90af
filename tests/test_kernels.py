"""How kernels are compiled."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numpy.testing import assert_array_equal

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray


class Pair(NamedTuple):
    a: FloatArray
    b: FloatArray


@inner
def _add_line(pair: Pair, i: int, out: FloatArray) -> None:
    line = pair.b[i]
    for j in range(len(line)):
        out[j] += pair.a[i] * line[j]


@kernel
def _weighted_sum(pair: Pair, out: FloatArray) -> None:
    pair, lent = borrowed(pair), borrowed(out)
    for i in range(len(pair.a)):
        _add_line(pair, i, lent)


def test_borrowed_arrays_are_the_arrays_and_nothing_is_freed_or_kept() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(rng.random(50), rng.random((50, 7)))
    out = np.zeros(7)
    _weighted_sum(pair, out)
    expected = np.zeros(7)
    for a, line in zip(*pair, strict=True):
        expected += a * line
    assert_array_equal(out, expected)
    counts = [sys.getrefcount(array) for array in (*pair, out)]
    for _ in range(1000):
        _weighted_sum(pair, out)
    assert [sys.getrefcount(array) for array in (*pair, out)] == counts
    assert np.isfinite(out).all()
