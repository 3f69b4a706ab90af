"""What depends on what: exact mutual information between the columns of a circuit."""

from __future__ import annotations

import numpy as np

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._model import Circuit
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError

__all__ = ["mutual_information"]

# States asked about at once: their posteriors of all columns are held together.
_BLOCK = 1024


def mutual_information(
    circuit: Circuit, *, normalised: bool = False, n_jobs: int | None = None
) -> FloatArray:
    r"""Mutual information of every pair of columns, exact.

    .. math:: I(i, j) = \sum_{a, b} p(X_i = a, X_j = b)
              \ln \frac{p(X_i = a, X_j = b)}{p(X_i = a)\, p(X_j = b)}

    from :math:`p(X_j = b \mid X_i = a)` for every state of every column: one query of marginals for
    each. Of an ensemble it is the dependence in the mixture of its members, which takes in that
    members disagree. A number is known by its cells.

    Parameters
    ----------
    circuit : Circuit
        Without continuous variables.
    normalised : bool, default=False
        Return :math:`\sqrt{1 - e^{-2 I}}` instead, which is 0 for independent columns, the absolute
        correlation of two Gaussian ones, and below 1. The diagonal is 1.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    float64 array of shape (m, m)
        Symmetric, in nats; the diagonal holds the entropies.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.dependence import mutual_information
    >>> pair = build.chow_liu([-1, 0], [[0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]])
    >>> mutual_information(build.circuit(pair, [2, 2])).round(3)
    array([[0.693, 0.368],
           [0.368, 0.693]])
    """
    domains = circuit.domains
    continuous = np.flatnonzero(domains.n_states == 0)
    if len(continuous):
        raise DataError(
            f"Column {int(continuous[0])} is continuous: mutual information is exact for columns "
            "of states alone."
        )
    offsets, m = domains.offsets, len(domains)
    dtype = code_dtype(domains)
    blank: CodeArray = np.full((1, m), missing_code(dtype), dtype=dtype)
    prior = circuit.marginals(blank, n_jobs=n_jobs)[0]
    column = np.repeat(np.arange(m), domains.n_states)
    state = np.arange(len(column)) - offsets[column]
    possible = np.flatnonzero(prior > 0)
    information = np.zeros((m, m))
    log_prior = np.log(np.where(prior > 0, prior, 1.0))
    for begin in range(0, len(possible), _BLOCK):
        asked = possible[begin : begin + _BLOCK]
        rows = np.repeat(blank, len(asked), axis=0)
        rows[np.arange(len(asked)), column[asked]] = state[asked].astype(dtype)
        given = circuit.marginals(rows, n_jobs=n_jobs)
        ratio = np.where(given > 0, np.log(np.where(given > 0, given, 1.0)) - log_prior, 0.0)
        # Kullback-Leibler divergence of each column's posterior from its prior, per state asked.
        gain = np.add.reduceat(given * ratio, offsets[:-1], axis=1)
        np.add.at(information, column[asked], prior[asked][:, None] * gain)
    information = np.maximum((information + information.T) / 2, 0.0)
    if not normalised:
        return information
    strength = np.sqrt(-np.expm1(-2.0 * information))
    np.fill_diagonal(strength, 1.0)
    return strength
