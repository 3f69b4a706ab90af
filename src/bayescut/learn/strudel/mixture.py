r"""Mixtures of one structure: EM over sets of weights.

The branches that a complete row uses do not depend on the weights, so they are found once. The
log-likelihood of a row under component k is the sum of its branches' log weights, and the M-step
counts branches with the responsibilities as weights.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.learn.strudel.grow import Growth, edge_weights

# Rows of a task: their sums are added up in order, so that threads change nothing.
_TASK = 4096


class Mixed(NamedTuple):
    """A mixture.

    Attributes
    ----------
    shares : float64 array of shape (K,)
        Weights of the components.
    weights : float64 array of shape (edges, K)
        Weights of the branches in each.
    bounds : list of float
        Mean training log-likelihood before each step.
    valid : list of float
        That of the validation rows.
    """

    shares: FloatArray
    weights: FloatArray
    bounds: list[float]
    valid: list[float]


@kernel
def _log_sums(edges, lo, hi, logs, out):
    """Sum of log weights of the branches that rows ``lo .. hi - 1`` use, for each component."""
    k = logs.shape[1]
    out[:, :] = 0.0
    for p in range(edges.shape[0]):
        line = edges[p]
        for r in range(lo, hi):
            e = line[r]
            if e >= 0:
                into, own = out[r - lo], logs[e]
                for c in range(k):
                    into[c] += own[c]


@kernel
def _add_counts(edges, lo, hi, shares, counts):
    """Add the responsibilities of rows to the branches that they use."""
    k = shares.shape[1]
    for p in range(edges.shape[0]):
        line = edges[p]
        for r in range(lo, hi):
            e = line[r]
            if e >= 0:
                into, own = counts[e], shares[r - lo]
                for c in range(k):
                    into[c] += own[c]


def compact(edges: IntArray, choice: IntArray) -> tuple[IntArray, IntArray]:
    """Leave out places without a choice, and number the branches that are left from 0 on.

    Parameters
    ----------
    edges : int32 array of shape (places, N)
        Branches that rows use.
    choice : bool array
        Whether a branch has a weight other than 1.
    """
    number = np.full(len(choice) + 1, -1, dtype=np.int32)
    kept = np.flatnonzero(choice)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    own = number[edges]  # branch -1 is the last entry, -1 again
    return np.ascontiguousarray(own[(own >= 0).any(axis=1)]), kept


def run_em(
    growth: Growth,
    labels: IntArray,
    *,
    max_iter: int,
    tol: float,
    patience: int,
    n_jobs: int = 1,
    told: Callable[[int], None] | None = None,
) -> Mixed:
    """EM from clusters of the training rows.

    Parameters
    ----------
    growth : Growth
        The structure, its training and its validation rows.
    labels : int array
        Cluster of every training row.
    max_iter : int
        Most steps.
    tol : float
        Part of the mean log-likelihood by which it has to rise: that of the training rows in every
        step, or that of the validation rows, if there are any, in ``patience`` steps.
    patience : int
        With validation rows, EM ends after this many steps in which they have not become more
        probable by enough, and the best step is returned.
    n_jobs : int
        Threads; the result does not depend on it.
    told : callable, optional
        Hears of every step.
    """
    sketch, n = growth.sketch, growth.n
    n_edges = int(sketch.used[1])
    size = int(labels.max()) + 1
    choice = sketch.second[sketch.owner[:n_edges]] > 1
    edges, kept = compact(growth.edges, choice)
    mass = growth.shares[:, 0]
    pseudocount = growth.learner.pseudocount
    n_rows = edges.shape[1]
    spans = [(lo, min(lo + _TASK, n_rows)) for lo in range(0, n_rows, _TASK)]
    trains = [(lo, min(lo + _TASK, n)) for lo in range(0, n, _TASK)]

    def to_weights(counts: FloatArray) -> FloatArray:
        whole = np.zeros((n_edges, size))
        whole[kept] = counts
        return edge_weights(sketch, whole, pseudocount)

    def count(shares: FloatArray) -> FloatArray:
        def work(span: tuple[int, int]) -> FloatArray:
            part = np.zeros((len(kept), size))
            _add_counts(edges, *span, shares[span[0] : span[1]], part)
            return part

        total = np.zeros((len(kept), size))
        for part in executor.map(work, trains):
            total += part
        return total

    def score(logs: FloatArray, log_shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.empty((n_rows, size))

        def work(span: tuple[int, int]) -> None:
            _log_sums(edges, *span, logs, values[span[0] : span[1]])

        list(executor.map(work, spans))
        values += log_shares
        top = values.max(axis=1)
        values -= top[:, None]
        np.exp(values, out=values)
        total = values.sum(axis=1)
        values /= total[:, None]
        return values, top + np.log(total)

    with ThreadPoolExecutor(n_jobs) as executor:
        given = np.zeros((n, size))
        given[np.arange(n), labels] = mass[:n]
        bounds: list[float] = []
        valid: list[float] = []
        best: tuple[FloatArray, FloatArray] | None = None
        best_step = idle_since = 0
        for step in range(max_iter + 1):
            shares = given.sum(axis=0) / given.sum()
            weights = to_weights(count(given))
            with np.errstate(divide="ignore"):
                held, values = score(np.log(weights[kept]), np.log(shares))
            bounds.append(float(np.average(values[:n], weights=mass[:n])))
            if growth.mass[1] > 0:
                valid.append(float(np.average(values[n:], weights=growth.shares[n:, 1])))
            if told is not None:
                told(1)
            if not valid or step == 0 or valid[-1] > valid[best_step]:
                best, best_step = (shares, weights), step
            if valid and valid[-1] > valid[idle_since] + tol * abs(valid[idle_since]):
                idle_since = step
            if valid and step - idle_since >= patience:
                break
            if not valid and step > 0 and bounds[-1] - bounds[-2] < tol * abs(bounds[-2]):
                break
            given = held[:n] * mass[:n, None]
    assert best is not None
    return Mixed(*best, bounds, valid)
