"""The recording step of a numeric column: the lattice on which its values were written down.

A recorded x stands for the interval [x - step/2, x + step/2], its *bin*: bin k belongs to the
value ``k * step``. No density can then exceed 1/step, and integers, atoms, zeros and rounding
follow one rule.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import FloatArray
from bayescut.exceptions import DataError

__all__ = ["LARGEST_BIN", "distinct_values", "find_step", "on_lattice", "snap", "to_bins"]

# Cells of a grid have probabilities that sum to one in float64, and the tails a weight of about one
# row.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-10, 1e15
# Smaller steps have no inverse that is a float.
_LEAST_STEP = 1e-300
# Bins are whole numbers held exactly by float64.
LARGEST_BIN = 2**53
# A lattice is believed if it holds this share of the rows. Wine's acids, sugar and alcohol have
# 2 to 8 % of their rows between the steps of the others.
_SHARE = 0.9
# No value counts for more than this share of the rows: 92 % of adult's gains are zero, which lies
# on every lattice.
_HEAVIEST = 1 / 64
# Decimals that split the bulk of the rows into more bins than this are digits of a computation
# (segment and gesture: 2 to 4 million), not of a recording (adult's weights: 340,000). Hundredths
# are a recording however many there are: amounts of money.
_FINEST = 2**20
_HUNDREDTH = 0.01
# Values that rule out a lattice, and by how much their share on it may be off: 6 deviations.
_FEW = 4096
_FEW_ERROR = 0.03
# Bins of the bulk of the rows where there is no lattice.
_BINS = 512
# Different whole numbers that say whether they were recorded in tens, hundreds, ...
_ENOUGH_WHOLE = 12
# How far a value may lie from its lattice point, in steps: a little for decimals that are no
# binary fractions, more where single precision has worn the last digits.
_CLOSE = 1e-3
_WORN = 2.0**-22
_WORN_MOST = 0.05


def distinct_values(
    values: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values in order, and the weight of each.

    Raises
    ------
    DataError
        If there is no value, a value is not finite, a weight is negative or not finite, or the
        weights add up to next to nothing or to more than grids hold.
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    if weights is None:
        if not np.isfinite(values).all():
            raise DataError("The values of a numeric column must be finite; leave out gaps.")
        if values.size == 0:
            raise DataError("A numeric column needs at least one value.")
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.float64)
    weights = np.asarray(weights, dtype=np.float64).ravel()
    if weights.shape != values.shape:
        raise DataError(f"{len(values)} values but {len(weights)} weights.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("Weights must be finite and not negative.")
    used = weights > 0  # a weight of zero must be the same as no row
    values, weights = values[used], weights[used]
    if not np.isfinite(values).all():
        raise DataError("The values of a numeric column must be finite; leave out gaps.")
    if values.size == 0:
        raise DataError("A numeric column needs at least one value of positive weight.")
    if not _LEAST_WEIGHT <= (total := float(weights.sum())) <= _MOST_WEIGHT:
        raise DataError(
            f"The weights of its values add up to {total:.3g}; numbers are learned from sums "
            f"between {_LEAST_WEIGHT:g} and {_MOST_WEIGHT:g}: multiply sample_weight by a constant."
        )
    distinct, where = np.unique(values, return_inverse=True)
    return distinct, np.bincount(where, weights).astype(np.float64)


def on_lattice(values: ArrayLike, step: float) -> NDArray[np.bool_]:
    """Tell which values are multiples of the step, up to rounding."""
    scaled = np.asarray(values, dtype=np.float64) / step
    distance = np.abs(scaled - np.rint(scaled))
    return distance <= np.minimum(_WORN_MOST, _CLOSE + _WORN * np.abs(scaled))


def find_step(values: FloatArray, weights: FloatArray) -> tuple[float, bool]:
    """Find the recording step of a column.

    Whole numbers have step 1, or 10, 100, ... if all are multiples of it and enough of them differ
    to believe it. Otherwise it is the largest of 1, 0.5, 0.2, 0.1, 0.05, ... on whose
    multiples 90 % of the rows lie, heavy values counted for no more than 1/64 of them; below 0.01
    none that parts most of the rows into more than a million bins. Where there is none, it is
    1/512 of the range from the 5 % to the 95 % quantile, rounded down to 1, 2 or 5
    times a power of ten.

    Parameters
    ----------
    values, weights : float64 arrays of shape (d,)
        Distinct values in order with their weights, see :func:`distinct_values`.

    Returns
    -------
    step : float
    exact : bool
        Whether every value is a multiple of it.

    Examples
    --------
    >>> import numpy as np
    >>> find_step(np.array([0.1, 0.25, 0.3, 1.45]), np.ones(4))
    (0.05, True)
    >>> find_step(np.array([3.0, 5.0]), np.ones(2))
    (1.0, True)
    >>> find_step(1000.0 * np.arange(20), np.ones(20))
    (1000.0, True)
    """
    largest = float(np.abs(values).max())
    # Beyond 2^53 neighbouring whole numbers are one float: the lattice is that of the floats.
    least = max(math.ldexp(1.0, math.frexp(largest)[1] - 53), _LEAST_STEP)
    if least < 1.0 and (np.floor(values) == values).all():
        return _whole_step(values), True
    spread = _bulk(values, weights)
    capped = np.minimum(weights, _HEAVIEST * weights.sum())
    capped /= capped.sum()
    finest = max(min((spread or largest) / _FINEST, _HUNDREDTH), 4 * least)
    # Most lattices are ruled out by a few of the values: a million take 0.1 s instead of 0.6.
    few = slice(None, None, max(1, len(values) // _FEW))
    few_values, few_share = values[few], capped[few] / capped[few].sum()
    for exponent in range(0, 310):
        for digit in (1, 2, 5):
            step = 1.0 / (digit * 10.0**exponent)
            if step < finest:
                break
            if few_share[_fits(few_values, step)].sum() < _SHARE - _FEW_ERROR:
                continue
            if capped[_fits(values, step)].sum() >= _SHARE:
                return step, bool(on_lattice(values, step).all())
        else:
            continue
        break
    # A constant has no spread; its size will do.
    step = max(_round_down((spread or abs(float(values[0]))) / _BINS), least)
    return step, bool(on_lattice(values, step).all())


def _whole_step(values: FloatArray) -> float:
    """Return the largest power of ten that divides whole numbers."""
    step = 1.0
    if len(values) >= _ENOUGH_WHOLE:
        while (np.fmod(values, 10 * step) == 0).all():
            step *= 10
    return step


def _fits(values: FloatArray, step: float) -> NDArray[np.bool_]:
    """Tell which values lie on a lattice that keeps them apart from each other and from zero."""
    bins = to_bins(values, step)
    fits = on_lattice(values, step) & ((bins != 0) | (values == 0))
    own = bins[fits]
    fits[fits] = np.append(own[:1] == own[:1], own[1:] != own[:-1])
    return fits


def _bulk(values: FloatArray, weights: FloatArray) -> float:
    """Return the range from the 5 % to the 95 % quantile, the whole range if that is empty."""
    below = np.cumsum(weights)
    low, high = values[np.searchsorted(below, np.array([0.05, 0.95]) * below[-1])]
    return float(high - low if high > low else values[-1] - values[0])


def _round_down(number: float) -> float:
    """Return the largest of 1, 2 and 5 times a power of ten that is not above a number."""
    number = max(number, _LEAST_STEP)
    power = 10.0 ** math.floor(math.log10(number))
    digit = number / power
    return power * (5 if digit >= 5 else 2 if digit >= 2 else 1)


def to_bins(values: ArrayLike, step: float) -> FloatArray:
    """Return the bins of values, as whole float64 numbers; infinities stay what they are."""
    with np.errstate(over="ignore"):
        return np.floor(np.asarray(values, dtype=np.float64) / step + 0.5)


def snap(bins: FloatArray, step: float) -> FloatArray:
    """Return the values of bins, with no more decimals than the step has.

    >>> import numpy as np
    >>> snap(np.array([3.0]), 0.1).item(), 3 * 0.1
    (0.3, 0.30000000000000004)
    """
    inverse = round(1 / step) if step < 1 else 0
    if inverse and abs(inverse * step - 1) < 1e-12:
        return np.asarray(bins / inverse, dtype=np.float64)
    return np.asarray(bins * step, dtype=np.float64)
