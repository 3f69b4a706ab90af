r"""Mixtures of one structure: EM over sets of weights.

The branches that a complete row uses do not depend on the weights, so they are found once. The
log-likelihood of a row under component k is the sum of its branches' log weights, and the M-step
counts branches with the responsibilities as weights. Both look only at places of the vtree where
a row does not use the branch that most rows use: one in twenty on tables of words.
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


class Used(NamedTuple):
    """Branches that rows use, as differences from those that most rows use.

    Attributes
    ----------
    kept : int64 array
        Branches with a weight other than 1, in the numbers of the sketch; here they are 0, 1, ...
    usual : int32 array
        The usual branch of each place of the vtree that has one.
    row_ptr : int64 array of shape (N + 1,)
        Row r differs at places ``row_ptr[r] .. row_ptr[r + 1] - 1`` of the next two.
    branch, instead : int32 arrays
        The branch it uses and the usual one there; -1 for none.
    """

    kept: IntArray
    usual: IntArray
    row_ptr: IntArray
    branch: IntArray
    instead: IntArray


def find_used(growth: Growth) -> Used:
    """Look up the branches of all training and validation rows."""
    sketch = growth.sketch
    n_edges = int(sketch.used[1])
    kept = np.flatnonzero(sketch.second[sketch.owner[:n_edges]] > 1)
    number = np.full(n_edges + 1, -1, dtype=np.int32)  # branch -1 is the last entry, -1 again
    number[kept] = np.arange(len(kept), dtype=np.int32)
    n = growth.edges.shape[1]
    row_ptr = np.zeros(n + 1, dtype=np.int64)
    usual = np.full(len(growth.edges), -1, dtype=np.int32)
    for place, line in enumerate(growth.edges):
        own = number[line]
        found, counts = np.unique(own, return_counts=True)
        usual[place] = found[counts.argmax()]
        row_ptr[1:] += own != usual[place]
    np.cumsum(row_ptr, out=row_ptr)
    branch, instead = np.empty((2, int(row_ptr[-1])), dtype=np.int32)
    _list_differences(growth.edges, number, usual, row_ptr[:-1].copy(), branch, instead)
    return Used(kept, usual[usual >= 0], row_ptr, branch, instead)


@kernel
def _list_differences(edges, number, usual, at, branch, instead):
    for p in range(edges.shape[0]):
        for r in range(edges.shape[1]):
            e = number[edges[p, r]]
            if e != usual[p]:
                branch[at[r]] = e
                instead[at[r]] = usual[p]
                at[r] += 1


@kernel
def _log_sums(used, lo, hi, logs, base, out):
    """Sum of log weights of the branches that rows ``lo .. hi - 1`` use, for each component."""
    k = logs.shape[1]
    for r in range(lo, hi):
        into = out[r - lo]
        into[:] = base
        for t in range(used.row_ptr[r], used.row_ptr[r + 1]):
            if used.branch[t] >= 0:
                own = logs[used.branch[t]]
                for c in range(k):
                    into[c] += own[c]
            if used.instead[t] >= 0:
                own = logs[used.instead[t]]
                for c in range(k):
                    into[c] -= own[c]


@kernel
def _add_counts(used, lo, hi, shares, counts):
    """Add the responsibilities of rows to the branches that they use instead of the usual ones."""
    k = shares.shape[1]
    for r in range(lo, hi):
        own = shares[r - lo]
        for t in range(used.row_ptr[r], used.row_ptr[r + 1]):
            if used.branch[t] >= 0:
                into = counts[used.branch[t]]
                for c in range(k):
                    into[c] += own[c]
            if used.instead[t] >= 0:
                into = counts[used.instead[t]]
                for c in range(k):
                    into[c] -= own[c]


def run_em(
    growth: Growth,
    labels: IntArray,
    used: Used | None = None,
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
    used : Used, optional
        What `find_used` says of the structure, if it is known.
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
    own = find_used(growth) if used is None else used
    kept = own.kept
    mass = growth.shares[:, 0]
    pseudocount = growth.learner.pseudocount
    n_rows = len(own.row_ptr) - 1
    spans = [(lo, min(lo + _TASK, n_rows)) for lo in range(0, n_rows, _TASK)]
    trains = [(lo, min(lo + _TASK, n)) for lo in range(0, n, _TASK)]

    def to_weights(counts: FloatArray) -> FloatArray:
        whole = np.zeros((n_edges, size))
        whole[kept] = counts
        return edge_weights(sketch, whole, pseudocount)

    def count(shares: FloatArray) -> FloatArray:
        def work(span: tuple[int, int]) -> FloatArray:
            part = np.zeros((len(kept), size))
            _add_counts(own, *span, shares[span[0] : span[1]], part)
            return part

        total = np.zeros((len(kept), size))
        for part in executor.map(work, trains):
            total += part
        total[own.usual] += shares.sum(axis=0)
        return np.maximum(total, 0.0)  # differences of sums: rounding may leave -1e-12

    def score(logs: FloatArray, log_shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.empty((n_rows, size))
        base = logs[own.usual].sum(axis=0)

        def work(span: tuple[int, int]) -> None:
            _log_sums(own, *span, logs, base, values[span[0] : span[1]])

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
