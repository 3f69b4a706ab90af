"""What depends on what: exact mutual information between the columns of a circuit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._model import Circuit
from bayescut.circuit.evidence import Evidence, read_codes
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError

__all__ = ["mutual_information"]

# States asked about at once: their posteriors of all columns are held together.
_BLOCK = 1024
# Joint states of the columns given, each of which takes a query for every state of every column.
_MOST_GIVEN = 4096


def mutual_information(
    circuit: Circuit,
    *,
    given: Sequence[int] = (),
    evidence: Evidence | CodeArray | None = None,
    normalised: bool = False,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Mutual information of every pair of columns, exact; given others, or evidence, if wanted.

    .. math:: I(i, j \mid Z, e) = \sum_z p(z \mid e) \sum_{a, b} p(X_i = a, X_j = b \mid z, e)
              \ln \frac{p(X_i = a, X_j = b \mid z, e)}{p(X_i = a \mid z, e)\, p(X_j = b \mid z, e)}

    from :math:`p(X_j = b \mid X_i = a, z, e)` for every state of every column: one query of
    marginals for each. Of an ensemble it is the dependence in the mixture of its members, which
    takes in that members disagree. A number is known by its cells.

    Parameters
    ----------
    circuit : Circuit
        Without continuous variables.
    given : sequence of int, default=()
        Columns Z that are held fixed, at each of their states in turn: what two columns still tell
        of each other once these are known.
    evidence : Evidence or codes of one row, optional
        What is known of every row looked at: states, sets of states, intervals.
    normalised : bool, default=False
        Return :math:`\sqrt{1 - e^{-2 I}}` instead, which is 0 for independent columns, the absolute
        correlation of two Gaussian ones, and below 1. The diagonal is 1.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    float64 array of shape (m, m)
        Symmetric, in nats; the diagonal holds the (conditional) entropies, 0 for what is given.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.dependence import mutual_information
    >>> pair = build.chow_liu([-1, 0], [[0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]])
    >>> mutual_information(build.circuit(pair, [2, 2])).round(3)
    array([[0.693, 0.368],
           [0.368, 0.693]])

    Two columns that depend on a third, and through it alone:

    >>> noisy = [[0.9, 0.1], [0.1, 0.9]]
    >>> fork = build.circuit(build.chow_liu([-1, 0, 0], [[0.5, 0.5], noisy, noisy]), [2, 2, 2])
    >>> float(mutual_information(fork)[1, 2].round(3))
    0.222
    >>> float(mutual_information(fork, given=[0])[1, 2].round(3))
    0.0
    """
    domains = circuit.domains
    continuous = np.flatnonzero(domains.n_states == 0)
    if len(continuous):
        raise DataError(
            f"Column {int(continuous[0])} is continuous: mutual information is exact for columns "
            "of states alone."
        )
    m = len(domains)
    base, weights = _one_row(circuit, evidence)
    fixed = [int(j) for j in given]
    if any(not 0 <= j < m for j in fixed) or len(set(fixed)) < len(fixed):
        raise DataError(f"given must be different columns from 0 to {m - 1}, not {list(given)}.")
    if int(np.prod([domains.n_states[j] for j in fixed], dtype=np.float64)) > _MOST_GIVEN:
        raise DataError(
            f"The columns given have more than {_MOST_GIVEN} joint states: give fewer columns."
        )
    information = np.zeros((m, m))
    for share, row in _fixed(circuit, base, weights, fixed, n_jobs):
        information += share * _at(circuit, row, weights, n_jobs)
    information = np.maximum((information + information.T) / 2, 0.0)
    if not normalised:
        return information
    strength = np.sqrt(-np.expm1(-2.0 * information))
    np.fill_diagonal(strength, 1.0)
    return strength


def _one_row(
    circuit: Circuit, evidence: Evidence | CodeArray | None
) -> tuple[CodeArray, FloatArray | None]:
    """Codes of one row, and weights of the states, that say what is known."""
    dtype = code_dtype(circuit.domains)
    if evidence is None:
        return np.full((1, len(circuit.domains)), missing_code(dtype), dtype=dtype), None
    if not isinstance(evidence, Evidence):
        evidence = Evidence(np.atleast_2d(np.asarray(evidence)))
    codes, _ = read_codes(circuit.domains, evidence.codes)
    if len(codes) != 1:
        raise DataError(f"Evidence on what depends on what is one row, not {len(codes)}.")
    weights = evidence.weights
    return codes, None if weights is None else np.asarray(weights, dtype=np.float64)


def _fixed(
    circuit: Circuit,
    base: CodeArray,
    weights: FloatArray | None,
    columns: list[int],
    n_jobs: int | None,
) -> Iterator[tuple[float, CodeArray]]:
    """Every joint state of some columns that can occur, as a row, with its probability."""
    if not columns:
        yield 1.0, base
        return
    j, offsets = columns[0], circuit.domains.offsets
    chances = circuit.marginals(Evidence(base, weights), n_jobs=n_jobs)[0]
    for state, share in enumerate(chances[offsets[j] : offsets[j + 1]].tolist()):
        if share > 0:
            row = base.copy()
            row[0, j] = state
            for rest, found in _fixed(circuit, row, weights, columns[1:], n_jobs):
                yield share * rest, found


def _at(
    circuit: Circuit, base: CodeArray, weights: FloatArray | None, n_jobs: int | None
) -> FloatArray:
    """Mutual information of all pairs given one row of evidence, not yet symmetric."""
    domains = circuit.domains
    offsets, m = domains.offsets, len(domains)
    prior = circuit.marginals(Evidence(base, weights), n_jobs=n_jobs)[0]
    column = np.repeat(np.arange(m), domains.n_states)
    state = np.arange(len(column)) - offsets[column]
    possible = np.flatnonzero(prior > 0)
    information = np.zeros((m, m))
    log_prior = np.log(np.where(prior > 0, prior, 1.0))
    for begin in range(0, len(possible), _BLOCK):
        asked = possible[begin : begin + _BLOCK]
        rows = np.repeat(base, len(asked), axis=0)
        rows[np.arange(len(asked)), column[asked]] = state[asked].astype(rows.dtype)
        found = circuit.marginals(Evidence(rows, weights), n_jobs=n_jobs)
        ratio = np.where(found > 0, np.log(np.where(found > 0, found, 1.0)) - log_prior, 0.0)
        # Kullback-Leibler divergence of each column's posterior from its prior, per state asked.
        gain = np.add.reduceat(found * ratio, offsets[:-1], axis=1)
        np.add.at(information, column[asked], prior[asked][:, None] * gain)
    return information
