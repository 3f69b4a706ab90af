"""The exponential of the sums, beside the C library's."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import kernel
from bayescut.circuit._exp import exp


@kernel
def _all(x, out):
    for i in range(len(x)):
        out[i] = exp(x[i])


def test_it_agrees_with_the_library_and_with_itself():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            -rng.exponential(1.0, 20_000),
            -rng.exponential(100.0, 20_000),
            rng.normal(0, 1e-12, 100),
            rng.uniform(0, 600, 1000),
            [0.0, -0.0, -699.9, 1e-300, -1e-300, 700.0],
        ]
    )
    x = x[x > -700]
    out = np.empty_like(x)
    _all(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=4.5e-16)
    assert out[x == 0.0].tolist() == [1.0, 1.0]
    # A number is the same wherever it stands in a loop.
    for begin in range(7):
        part = np.empty(len(x) - begin)
        _all(x[begin:].copy(), part)
        np.testing.assert_array_equal(part, out[begin:])


def test_what_is_too_small_counts_nothing_beside_one():
    out = np.empty(3)
    _all(np.array([-np.inf, -1e308, -800.0]), out)
    assert np.all(out < 1e-300) and np.all(out >= 0)
    assert np.all(1.0 + out == 1.0)
