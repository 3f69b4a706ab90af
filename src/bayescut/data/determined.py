"""Numbers that are functions of others."""

from __future__ import annotations

import numpy as np

from bayescut._typing import FloatArray

__all__ = ["determined_columns"]

# Most columns that another one is said to follow from.
_MOST_SOURCES = 4
# What is left of a column may be this part of a step, of one that itself varies by as many steps.
_ROUNDING, _LEAST_SPREAD = 0.6, 2.0
# Of more columns than this nothing is said: the search takes the fourth power of their number.
_MOST_COLUMNS = 100


def determined_columns(
    values: FloatArray, steps: FloatArray, weights: FloatArray | None = None
) -> dict[int, list[int]]:
    """Find columns that are linear functions of a few columns before them, but for rounding.

    Their density given the others has no bound but the recording step: such a column says more
    about how it was written down than about the model.

    Parameters
    ----------
    values : float64 array of shape (n, m)
        Numbers; rows with gaps (NaN) are left out.
    steps : float64 array of shape (m,)
        In which the columns were recorded.
    weights : float64 array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    dict from column to list of columns
        What each such column follows from.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(0, 10, (50, 2)).round()
    >>> determined_columns(np.column_stack([x, x.sum(axis=1)]), np.ones(3))
    {2: [0, 1]}
    """
    n_columns = values.shape[1]
    weights = np.ones(len(values)) if weights is None else weights
    rows = np.flatnonzero(~np.isnan(values).any(axis=1) & (weights > 0))
    found: dict[int, list[int]] = {}
    if not 2 <= n_columns <= _MOST_COLUMNS or len(rows) < 2 * n_columns:
        return found
    weights = weights[rows]
    x = values[rows] - np.average(values[rows], axis=0, weights=weights)
    products = (x * weights[:, None]).T @ x / weights.sum()
    varies = np.sqrt(np.diag(products)) > _LEAST_SPREAD * steps
    for i in range(1, n_columns):
        left = products.copy()
        chosen: list[int] = []
        while varies[i] and len(chosen) < _MOST_SOURCES:
            spread = np.diag(left)[:i]
            usable = spread > 1e-9 * np.diag(products)[:i]
            gain = np.where(usable, left[i, :i] ** 2 / np.where(usable, spread, 1.0), 0.0)
            best = int(np.argmax(gain))
            if not gain[best] > 0:
                break
            left -= np.outer(left[:, best], left[best]) / left[best, best]
            chosen.append(best)
            if left[i, i] <= (_ROUNDING * steps[i]) ** 2:
                found[i] = sorted(chosen)
                break
    return found
