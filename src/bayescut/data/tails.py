"""The tails of a numeric column, beyond the range of its values.

A tail is a Lomax distribution whose mass within each bin of the recording lattice is spread evenly,
so that integers, too, sum to one. Its survival function at whole distances, in bins, is

    S(t) = (scale / (scale + t))^3,                    linear between them.

The shape 3 is the least whole one with a variance, so that moments of every column are finite.
(2 gives rows beyond the range 0.3 nats more, on 102 columns of 200 rows each; they are one row in
a hundred.) One wild value costs 4 nats for each factor of e, not the square of its distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import zeta

from bayescut._typing import FloatArray

__all__ = ["SHAPE", "distance", "log_bin", "moments", "survival"]

SHAPE = 3
# Draws stop where a share of 2^-60 of a tail is left: a million scales beyond the last row.
_LEAST_SHARE = 2.0**-60


def log_bin(scale: float, away: Any) -> FloatArray:
    """Return the log of the mass of the bin from ``away`` to ``away + 1``."""
    with np.errstate(invalid="ignore"):  # NaN, of which NumPy 1.24 warns
        inside = np.log(-np.expm1(-SHAPE * np.log1p(1 / (scale + away))))
    return np.asarray(inside - SHAPE * np.log1p(away / scale))


def survival(scale: float, away: Any) -> FloatArray:
    """Return the mass beyond a distance."""
    whole = np.floor(away)
    here, next_ = _at(scale, whole), _at(scale, whole + 1)
    return np.asarray(here + (away - whole) * (next_ - here))


def _at(scale: float, whole: Any) -> FloatArray:
    return np.asarray(np.exp(-SHAPE * np.log1p(whole / scale)))


def distance(scale: float, share: FloatArray) -> FloatArray:
    """Return the distance beyond which a share of the mass lies: the inverse of survival."""
    share = np.clip(share, _LEAST_SHARE, 1.0)
    whole = np.floor(scale * np.expm1(-np.log(share) / SHAPE))
    here, next_ = _at(scale, whole), _at(scale, whole + 1)
    return np.asarray(whole + np.clip((here - share) / (here - next_), 0.0, 1.0))


def moments(scale: float) -> tuple[float, float]:
    """Return mean and variance of the number of whole bins before a value.

    With S the survival function, E[k] is the sum of S(k) and E[k^2] that of (2 k - 1) S(k), over
    k = 1, 2, ...: Hurwitz' zeta functions.
    """
    third = float(zeta(SHAPE, scale + 1))
    mean = scale**3 * third
    square = 2 * scale**3 * (float(zeta(SHAPE - 1, scale + 1)) - scale * third) - mean
    return mean, square - mean * mean
