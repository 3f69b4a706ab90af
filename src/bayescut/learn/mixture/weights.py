"""Weights of the parts of a mixture, by rows that the parts have not seen."""

from __future__ import annotations

import numpy as np

from bayescut._typing import FloatArray

__all__ = ["most_likely_weights"]

# Rows that every part is given in advance. Where few rows judge, an average of all is better than
# the luckiest part alone; where there are many, this is less than the least weight.
_PRIOR_ROWS = 1.0


def most_likely_weights(log_p: FloatArray, weight: FloatArray) -> FloatArray:
    """Weights of a mixture that are most probable given rows, by EM.

    Every part has a row of its own in advance.

    Parameters
    ----------
    log_p : float64 array of shape (k, n)
        Log-probabilities of n rows under k parts.
    weight : float64 array of shape (n,)
        Weights of the rows.
    """
    shares = np.full(len(log_p), 1.0 / len(log_p))
    if len(log_p) > 1 and weight.sum() > 0:
        # Relative to the best part for a row: EM on numbers that do not underflow.
        p = np.exp(log_p - log_p.max(axis=0))
        for _ in range(200):
            joint = p * shares[:, None]
            joint /= joint.sum(axis=0)
            mass = joint @ weight + _PRIOR_ROWS
            before, shares = shares, mass / mass.sum()
            if np.abs(shares - before).max() < 1e-5:
                break
    return shares
