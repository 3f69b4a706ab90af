"""Clusters of rows by hard EM of a naive Bayes mixture: the sums of ID-SPN."""

from __future__ import annotations

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data.bits import BitLayout, bit_layout

# Constants of the original program: pseudo-count of a state, rounds, and the change of the
# objective at which a run ends.
_SMOOTHING = 1e-5
_ROUNDS = 10
_STILL = 0.1
_RUNS = 2


def split_rows(
    codes: CodeArray,
    sizes: IntArray,
    weights: FloatArray,
    penalty: float,
    most: int,
    seed: list[int],
) -> IntArray:
    """Cluster of every row, numbered from 0 on; the number of clusters is chosen by a price.

    .. math:: \\sum_n w_n \\ln \\sum_c p(c) \\prod_j p(x_{nj} \\mid c) - \\lambda k m \\ln n

    Parameters
    ----------
    codes : array of shape (n, m)
        Complete codes.
    sizes : int64 array of shape (m,)
        Numbers of states.
    weights : float64 array of shape (n,)
        Weights of the rows.
    penalty : float
        Price of a cluster and column, in units of the logarithm of the number of rows.
    most : int
        Most clusters; of `numbers_to_try` each is tried twice.
    seed : list of int
        Source of the first labels.
    """
    n, m = codes.shape
    layout = bit_layout(np.arange(m), sizes)
    bits = (codes[:, layout.bit_column] == layout.bit_state).astype(np.float64)
    price = penalty * m * np.log(max(weights.sum(), 1.0))
    best: tuple[float, IntArray] | None = None
    for size in numbers_to_try(min(most, n)):
        for run in range(_RUNS):
            drawn = np.random.default_rng([*seed, size, run]).integers(size, size=n)
            value, labels = hard_em(bits, layout, weights, np.asarray(drawn), size)
            if best is None or value - price * size > best[0]:
                best = value - price * size, labels
    if best is None:
        return np.zeros(n, dtype=np.int64)
    return np.unique(best[1], return_inverse=True)[1].reshape(-1)


def numbers_to_try(most: int) -> list[int]:
    """All numbers of clusters up to 5, as in the original, then in steps of 40 % up to the most.

    Examples
    --------
    >>> numbers_to_try(20)
    [2, 3, 4, 5, 7, 10, 14, 20]
    """
    sizes = list(range(2, min(most, 5) + 1))
    while sizes and sizes[-1] < most:
        sizes.append(min(most, int(np.ceil(1.4 * sizes[-1] - 1e-9))))
    return sizes


def hard_em(
    bits: FloatArray, layout: BitLayout, weights: FloatArray, labels: IntArray, size: int
) -> tuple[float, IntArray]:
    """Run hard EM from given labels; returns the log-likelihood and the labels of its end."""
    n = len(bits)
    before = -np.inf
    for _ in range(_ROUNDS):
        held = np.zeros((size, n))
        held[labels, np.arange(n)] = weights
        whole = held.sum(axis=1)
        ones = held @ bits
        upto = np.concatenate([np.zeros((size, 1)), np.cumsum(ones, axis=1)], axis=1)
        singles = upto[:, layout.ptr[1:]] - upto[:, layout.ptr[:-1]]
        zeros = np.maximum(whole[:, None] - singles, 0.0)
        total = np.log(whole[:, None] + layout.sizes * _SMOOTHING)
        base = np.log(zeros + _SMOOTHING)
        steps = np.log(ones + _SMOOTHING) - np.repeat(base, layout.sizes - 1, axis=1)
        values = bits @ steps.T
        values += (base - total).sum(axis=1) + np.log(whole / weights.sum() + _SMOOTHING)
        top = values.max(axis=1)
        likelihood = float(weights @ (top + np.log(np.exp(values - top[:, None]).sum(axis=1))))
        labels = values.argmax(axis=1)
        if abs(likelihood - before) <= _STILL:
            break
        before = likelihood
    return likelihood, labels
