"""Exact queries under partial evidence, in batches of rows.

Every query takes rows of codes (uint8 or uint16, the largest value of the dtype means "not
observed"), or a table in the labels of the circuit's domains with NaN where nothing is observed.
``allowed`` restricts variables to sets of states: a boolean array with one column per state of
every variable (``domains.offsets``), one row for all rows of the query or one each. Circuits with
continuous variables take (and return) one float table, or codes and ``values`` side by side.

Rows are independent: batches and threads (``n_jobs``, default all cores) never change an answer.
All logarithms are natural.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._batches import Evidence, Rows, in_chunks, join_table, read_evidence
from bayescut.circuit._downward import fill
from bayescut.circuit._plan import Workspace, make_workspace
from bayescut.circuit._upward import evaluate
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import ZeroProbabilityError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

RandomState = int | np.random.Generator | np.random.RandomState | None


def log_likelihood(
    circuit: Circuit,
    codes: Any,
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Log-probability of the evidence in each row.

    .. math:: \log p(e) = \log \sum_{x \text{ agrees with } e} p(x)

    Rows of probability zero give −inf.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.queries import log_likelihood
    >>> nan = float("nan")
    >>> circuit = build.circuit(build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]]),
    ...                         [2, 2])
    >>> np.exp(log_likelihood(circuit, [[0, 1], [nan, 1], [nan, nan]])).round(4)
    array([0.04, 0.52, 1.  ])
    """
    evidence = _evidence(circuit, codes, allowed, values)
    root = circuit.root
    if circuit.is_mixture:
        begin, end = circuit.child_ptr[root], circuit.child_ptr[root + 1]
        terms = _values(circuit, evidence, circuit.child[begin:end], n_jobs)
        terms += circuit.log_weight[begin:end, None]
        top = terms.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        terms -= shift
        with np.errstate(divide="ignore"):
            return shift + np.log(np.exp(terms, out=terms).sum(axis=0))
    return _values(circuit, evidence, np.array([root]), n_jobs)[0]


def node_log_likelihood(
    circuit: Circuit,
    codes: Any,
    nodes: ArrayLike,
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Log value of several nodes for each row, shape (n, len(nodes)).

    With the children of a mixture's root as nodes these are the log-likelihoods of its components.
    """
    wanted = np.array(nodes, dtype=np.int64, ndmin=1)
    if wanted.ndim != 1 or np.any((wanted < 0) | (wanted >= circuit.n_nodes)):
        raise ValueError(f"nodes must be node numbers from 0 to {circuit.root}.")
    return _values(circuit, _evidence(circuit, codes, allowed, values), wanted, n_jobs).T


def sample(
    circuit: Circuit,
    n: int = 1,
    random_state: RandomState = None,
    *,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Draw n independent rows from the circuit.

    Returns codes, or a float table if the circuit has continuous variables.
    """
    if n < 0:
        raise ValueError(f"n must not be negative, not {n}.")
    dtype = code_dtype(circuit.domains)
    blank = np.full((n, len(circuit.domains)), missing_code(dtype), dtype=dtype)
    return sample_conditional(circuit, blank, random_state, n_jobs=n_jobs)


def sample_conditional(
    circuit: Circuit,
    codes: Any,
    random_state: RandomState = None,
    *,
    allowed: ArrayLike | None = None,
    values: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Complete each row by a draw from p(unobserved | observed).

    Each row has its own stream of random numbers, so the draw of a row does not depend on the
    others. :class:`~bayescut.exceptions.ZeroProbabilityError` names the first impossible row.
    """
    evidence = _evidence(circuit, codes, allowed, values)
    seeds = _generator(random_state).integers(2**64, size=evidence.n_rows, dtype=np.uint64)
    return _complete(circuit, evidence, False, seeds, n_jobs)


def _evidence(
    circuit: Circuit, codes: Any, allowed: ArrayLike | None, values: ArrayLike | None
) -> Evidence:
    circuit.require()
    return read_evidence(circuit, codes, allowed, values)


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def _values(
    circuit: Circuit,
    evidence: Evidence,
    nodes: NDArray[Any],
    n_jobs: int | None,
    maximise: bool = False,
) -> FloatArray:
    out = np.empty((len(nodes), evidence.n_rows))
    nodes = np.array(nodes, dtype=np.int64)
    one_by_one = circuit.is_mixture and len(nodes) > 1

    def prepare() -> tuple[Rows, Workspace]:
        return Rows(circuit, evidence), make_workspace(circuit.sizes)

    def work(scratch: tuple[Rows, Workspace], begin: int, end: int) -> None:
        rows, workspace = scratch
        states, unknown = rows.read(begin, end)
        evaluate(
            circuit.plan,
            workspace,
            nodes,
            one_by_one,
            states,
            unknown,
            evidence.allowed,
            evidence.values,
            begin,
            maximise,
            out,
        )

    in_chunks(evidence.n_rows, n_jobs, prepare, work)
    return out


def _complete(
    circuit: Circuit,
    evidence: Evidence,
    maximise: bool,
    seeds: NDArray[np.uint64],
    n_jobs: int | None,
) -> NDArray[Any]:
    codes = evidence.codes.copy()
    values = evidence.values.copy()

    def prepare() -> tuple[Rows, Workspace, NDArray[np.uint64]]:
        workspace = make_workspace(circuit.sizes)
        return Rows(circuit, evidence), workspace, np.zeros(1, dtype=np.uint64)

    def work(
        scratch: tuple[Rows, Workspace, NDArray[np.uint64]], begin: int, end: int
    ) -> None:
        rows, workspace, random = scratch
        states, unknown = rows.read(begin, end)
        bad = fill(
            circuit.plan,
            workspace,
            circuit.root,
            states,
            unknown,
            evidence.allowed,
            values,
            begin,
            maximise,
            seeds,
            random,
        )
        _refuse_impossible(bad)
        codes[begin:end] = states

    in_chunks(evidence.n_rows, n_jobs, prepare, work)
    return join_table(circuit, codes, values)


def _refuse_impossible(row: int) -> None:
    if row >= 0:
        raise ZeroProbabilityError(
            f"The evidence in row {row} has probability zero under the model, "
            "so nothing can be conditioned on it."
        )


__all__ = ["log_likelihood", "node_log_likelihood", "sample", "sample_conditional"]
