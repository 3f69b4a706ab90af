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


class RowSplits:
    r"""Clusterings of the rows of one table, for any price and any number of clusters.

    .. math:: \sum_n w_n \ln \sum_c p(c) \prod_j p(x_{nj} \mid c) - \lambda k m \ln n

    Rows that are equal begin, and stay, in one cluster: of the 291,326 rows of msnbc 9,228 are
    different. Runs are kept: settings that differ in price and most clusters only share them.

    Parameters
    ----------
    codes : array of shape (n, m)
        Complete codes.
    sizes : int64 array of shape (m,)
        Numbers of states.
    weights : float64 array of shape (n,)
        Weights of the rows.
    seed : list of int
        Source of the first labels.
    """

    def __init__(
        self, codes: CodeArray, sizes: IntArray, weights: FloatArray, seed: list[int]
    ) -> None:
        different, self._place = distinct_rows(codes)
        n, m = different.shape
        mass = np.bincount(self._place, weights, minlength=n)
        states = np.array(sizes, dtype=np.int64)
        rows, columns = np.arange(n, dtype=np.int32), np.arange(m)
        self._data = read_rows(different, rows, columns, states, mass, np.empty(0))
        self._unit = m * np.log(max(weights.sum(), 1.0))
        self._seed = seed
        self._found: dict[tuple[int, int], tuple[float, IntArray]] = {}

    def best(self, penalty: float, most: int, n_jobs: int = 1) -> IntArray:
        """Cluster of every row, numbered from 0 on.

        Parameters
        ----------
        penalty : float
            Price of a cluster and column, in units of the logarithm of the number of rows.
        most : int
            Most clusters; each of `numbers_to_try` is tried twice.
        n_jobs : int
            Threads; the result does not depend on it.
        """
        n = len(self._data.weight)
        tasks = [(k, run) for k in numbers_to_try(min(most, n)) for run in range(_RUNS)]

        def attempt(task: tuple[int, int]) -> tuple[float, IntArray]:
            size = task[0]
            drawn = np.random.default_rng([*self._seed, *task]).integers(size, size=n)
            value, labels = hard_em(self._data, drawn, size)
            return value, labels.astype(np.uint16 if size < 2**16 else np.int64)

        # The longest runs first, so that no thread ends alone.
        waiting = [task for task in reversed(tasks) if task not in self._found]
        with ThreadPoolExecutor(n_jobs) as executor:
            self._found.update(zip(waiting, executor.map(attempt, waiting), strict=True))
        if not tasks:
            return np.zeros(len(self._place), dtype=np.int64)
        price = penalty * self._unit
        best = max(tasks, key=lambda task: self._found[task][0] - price * task[0])
        labels = np.unique(self._found[best][1], return_inverse=True)[1].reshape(-1)
        return labels[self._place]


def distinct_rows(codes: CodeArray) -> tuple[CodeArray, IntArray]:
    """Rows that differ, and the place of every row among them."""
    codes = np.ascontiguousarray(codes)
    whole = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).reshape(-1)
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return codes[first], place.reshape(-1)


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
