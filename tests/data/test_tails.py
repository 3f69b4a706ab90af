"""Tails beside sums over their bins."""

import numpy as np
import pytest

from bayescut.data import tails

SCALES = [1.0, 2.5, 40.0, 1e5]


@pytest.mark.parametrize("scale", SCALES)
def test_bins_sum_to_one(scale):
    n = 200_000
    mass = np.exp(tails.log_bin(scale, np.arange(n)))
    assert mass.sum() + (scale / (scale + n)) ** 3 == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(
        1 - np.cumsum(mass), tails.survival(scale, np.arange(1, n + 1)), atol=1e-11
    )


@pytest.mark.parametrize("scale", SCALES)
def test_survival_is_linear_within_bins(scale):
    low, middle, high = tails.survival(scale, np.array([3.0, 3.25, 4.0]))
    assert middle == pytest.approx(0.75 * low + 0.25 * high, rel=1e-14)
    assert low == pytest.approx((scale / (scale + 3)) ** 3, rel=1e-14)
    assert tails.survival(scale, 0.0) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_distance_inverts_survival(scale):
    away = np.concatenate([np.linspace(0, 9, 37), [1e3, 1e6]])
    np.testing.assert_allclose(
        tails.distance(scale, tails.survival(scale, away)), away, rtol=1e-9, atol=1e-6
    )
    assert np.isfinite(tails.distance(scale, np.array([0.0, 1.0]))).all()


@pytest.mark.parametrize("scale", [1.0, 2.5, 40.0])
def test_moments_beside_sums(scale):
    k = np.arange(3_000_000)
    mass = np.exp(tails.log_bin(scale, k))
    mean, variance = tails.moments(scale)
    assert mean == pytest.approx((mass * k).sum(), rel=1e-6)
    # The second moment converges slowly: 3 scale^3 / n is left out, to first order.
    square = (mass * k * k).sum() + 3 * scale**3 / len(k)
    assert variance + mean**2 == pytest.approx(square, rel=1e-6)


def test_wide_tails_are_lomax():
    # A Lomax tail of shape 3 has mean scale / 2 and mean square scale^2.
    scale = 1e9
    mean, variance = tails.moments(scale)
    assert mean == pytest.approx(scale / 2, rel=1e-6)
    assert variance + mean**2 == pytest.approx(scale**2, rel=1e-6)


def test_far_away():
    assert np.isfinite(tails.log_bin(1.0, 1e300))
    assert tails.survival(1.0, 1e300) == 0
