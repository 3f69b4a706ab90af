"""Clusters of rows by hard EM of a naive Bayes mixture: the sums of ID-SPN."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.spn.clusters import all_values, largest, read_rows

# Constants of the original program: pseudo-count of a state, rounds, and the change of the
# objective at which a run ends.
_SMOOTHING = 1e-5
_ROUNDS = 10
_STILL = 0.1
_RUNS = 2
# Log-probabilities nearer than this are the same: which is larger hangs on the order of additions.
_NEAR = 1e-9


def split_rows(
    codes: CodeArray,
    sizes: IntArray,
    weights: FloatArray,
    penalty: float,
    most: int,
    seed: list[int],
    n_jobs: int = 1,
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
    n_jobs : int
        Threads; the result does not depend on it.
    """
    n, m = codes.shape
    rows = np.arange(n, dtype=np.int32)
    states = np.asarray(sizes, dtype=np.int64)
    data = read_rows(codes, rows, np.arange(m), states, weights, np.empty(0))
    price = penalty * m * np.log(max(weights.sum(), 1.0))

    def attempt(task: tuple[int, int]) -> tuple[float, IntArray]:
        size, run = task
        drawn = np.random.default_rng([*seed, size, run]).integers(size, size=n)
        value, labels = hard_em(data, drawn, size)
        return value - price * size, labels

    # The longest runs first, so that no thread ends alone.
    sizes_to_try = numbers_to_try(min(most, n))[::-1]
    tasks = [(size, run) for size in sizes_to_try for run in range(_RUNS)]
    with ThreadPoolExecutor(n_jobs) as executor:
        found = dict(zip(tasks, executor.map(attempt, tasks), strict=True))
    if not found:
        return np.zeros(n, dtype=np.int64)
    best = max(sorted(found), key=lambda task: found[task][0])
    return np.unique(found[best][1], return_inverse=True)[1].reshape(-1)


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


@kernel
def hard_em(data, first_labels, size):
    """Run hard EM from given labels.

    Parameters
    ----------
    data : Rows
        The table; its logarithms are not used.
    first_labels : int64 array of shape (n,)
        Cluster of every row at the start.
    size : int
        Number of clusters.

    Returns
    -------
    likelihood, labels
        Log-likelihood of the soft mixture in the last round, and the most probable clusters.
    """
    n, p = data.states.shape
    labels = first_labels.copy()
    mass = data.weight.sum()
    ones = np.empty((data.bit_ptr[p], size))
    gains = np.empty((data.bit_ptr[p], size))
    whole = np.empty(size)
    base = np.empty(size)
    values = np.empty(size)
    likelihood = -np.inf
    for _ in range(_ROUNDS):
        ones[:, :] = 0.0
        whole[:] = 0.0
        for i in range(n):
            c = labels[i]
            whole[c] += data.weight[i]
            for k in range(data.row_ptr[i], data.row_ptr[i + 1]):
                ones[data.row_bit[k], c] += data.weight[i]
        for c in range(size):
            base[c] = np.log(whole[c] / mass + _SMOOTHING)
        for j in range(p):
            prior = (data.cell_ptr[j + 1] - data.cell_ptr[j]) * _SMOOTHING
            for c in range(size):
                usual = whole[c]
                for b in range(data.bit_ptr[j], data.bit_ptr[j + 1]):
                    usual -= ones[b, c]
                usual = np.log(max(usual, 0.0) + _SMOOTHING)
                base[c] += usual - np.log(whole[c] + prior)
                for b in range(data.bit_ptr[j], data.bit_ptr[j + 1]):
                    gains[b, c] = np.log(ones[b, c] + _SMOOTHING) - usual
        before = likelihood
        likelihood = 0.0
        for i in range(n):
            all_values(data, base, gains, size, i, values)
            top = largest(values, size)
            labels[i] = -1
            total = 0.0
            for c in range(size):
                if labels[i] < 0 and values[c] >= top - _NEAR:
                    labels[i] = c
                if values[c] > top - 40.0:  # below rounding
                    total += np.exp(values[c] - top)
            likelihood += data.weight[i] * (top + np.log(total))
        if abs(likelihood - before) <= _STILL:
            break
    return likelihood, labels
