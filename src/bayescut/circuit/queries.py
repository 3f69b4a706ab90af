"""Exact queries under partial evidence, in batches of rows.

Every query takes rows of codes (NaN, a negative number, or the largest value of uint8 and uint16:
not observed), or one :class:`~bayescut.circuit.Evidence` with sets, weights and numbers beside the
codes. Circuits with continuous variables take (and return) one float table, or such an object.

Rows are independent: batches and threads (``n_jobs``, as in joblib) never change an answer. All
logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._kinds import SUM
from bayescut.circuit._lookup import sum_rows
from bayescut.circuit._passes import refuse_impossible
from bayescut.circuit._threads import in_chunks
from bayescut.circuit.evidence import Evidence, Rows, join_table, read_evidence
from bayescut.circuit.inputs._scratch import Sinks
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

__all__ = [
    "Moments",
    "Responsibilities",
    "conditional_log_likelihood",
    "expectation",
    "log_likelihood",
    "marginals",
    "moments",
    "mpe",
    "node_log_likelihood",
    "responsibilities",
    "sample",
    "sample_conditional",
]

RandomState = int | np.random.Generator | np.random.RandomState | None


def log_likelihood(
    circuit: Circuit,
    rows: Any,
    *,
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
    >>> circuit = build.circuit(
    ...     build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]]), [2, 2]
    ... )
    >>> np.exp(log_likelihood(circuit, [[0, 1], [nan, 1], [nan, nan]])).round(4)
    array([0.04, 0.52, 1.  ])
    """
    return circuit._passes.values(_read(circuit, rows), np.array([circuit.root]), n_jobs)[0]


def node_log_likelihood(
    circuit: Circuit,
    rows: Any,
    nodes: ArrayLike,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    """Log value of several nodes for each row, shape (n, len(nodes)).

    With the children of a mixture's root as nodes these are the log-likelihoods of its components.
    """
    wanted = np.atleast_1d(np.asarray(nodes))
    if wanted.ndim != 1 or wanted.dtype.kind not in "ui":
        raise ValueError("nodes must be whole numbers, the numbers of nodes.")
    if np.any((wanted < 0) | (wanted >= circuit.n_nodes)):
        raise ValueError(f"nodes must be node numbers from 0 to {circuit.root}.")
    return circuit._passes.values(_read(circuit, rows), wanted, n_jobs).T


class Responsibilities(NamedTuple):
    """Posterior of the components of a mixture, and the log-probability of each row."""

    shares: FloatArray  # (rows, components)
    log_likelihood: FloatArray  # (rows,)


def responsibilities(circuit: Circuit, rows: Any, *, n_jobs: int | None = None) -> Responsibilities:
    r"""Posterior of the components of a mixture: :math:`p(k \mid e)` for each child of the root.

    A circuit whose root is no sum has one component. Rows of probability zero give NaN.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> coins = build.weighted_sum(
    ...     [0.5, 0.5], build.categorical(0, [0.2, 0.8]), build.categorical(0, [0.6, 0.4])
    ... )
    >>> build.circuit(coins, [2]).responsibilities([[0]]).shares
    array([[0.25, 0.75]])
    """
    read = _read(circuit, rows)
    if circuit.kind[-1] != SUM:
        value = circuit._passes.values(read, np.array([circuit.root]), n_jobs)[0]
        return Responsibilities(np.where(value > -np.inf, 1.0, np.nan)[:, None], value)
    begin, end = circuit.child_ptr[-2], circuit.child_ptr[-1]
    log_weight = circuit.log_weight[begin:end]
    below = circuit._passes.values(read, circuit.child[begin:end], n_jobs)
    value = np.empty(read.n_rows)
    sum_rows(log_weight, below, False, value)
    terms = np.ascontiguousarray(below.T)
    terms += log_weight
    with np.errstate(invalid="ignore"):
        terms -= value[:, None]
    np.exp(terms, out=terms)
    return Responsibilities(terms, value)


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
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"n must be a whole number of at least 0, not {n!r}.")
    dtype = code_dtype(circuit.domains)
    blank = np.full((n, len(circuit.domains)), missing_code(dtype), dtype=dtype)
    return sample_conditional(circuit, blank, random_state, n_jobs=n_jobs)


def sample_conditional(
    circuit: Circuit,
    rows: Any,
    random_state: RandomState = None,
    *,
    n_jobs: int | None = None,
) -> NDArray[Any]:
    """Complete each row by a draw from p(unobserved | observed).

    Each row has its own stream of random numbers, so the draw of a row does not depend on the
    others. :class:`~bayescut.exceptions.ZeroProbabilityError` names the first impossible row.
    """
    read = _read(circuit, rows)
    seeds = _generator(random_state).integers(2**64, size=read.n_rows, dtype=np.uint64)
    return join_table(circuit.domains, *_complete(circuit, read, False, seeds, n_jobs))


def completed_numbers(
    circuit: Circuit,
    rows: Any,
    random_state: RandomState = None,
    *,
    maximise: bool = False,
    n_jobs: int | None = None,
) -> tuple[CodeArray, FloatArray]:
    """Complete rows by draws, or by their most probable explanations, with numbers.

    Returns
    -------
    codes : array (n, m)
        All states.
    numbers : float64 array (n, m)
        Those given, and those that normal leaves have come up with, in steps of their columns; NaN
        where all that is known of a number is its cell.
    """
    read = _read(circuit, rows)
    seeds = np.zeros(read.n_rows, dtype=np.uint64)
    if not maximise:
        seeds = _generator(random_state).integers(2**64, size=read.n_rows, dtype=np.uint64)
    codes, values = _complete(circuit, read, maximise, seeds, n_jobs)
    if not values.shape[1]:
        return codes, np.full(codes.shape, np.nan)
    m = codes.shape[1]
    return codes, _recorded(circuit, codes, values[:, :m], ~np.isnan(read.values[:, :m]))


def conditional_log_likelihood(
    circuit: Circuit,
    query: Any,
    evidence: Any,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Log-probability of the observed part of each query row given an evidence row.

    .. math:: \log p(q \mid e) = \log p(q, e) - \log p(e)

    Query and evidence are partial rows or :class:`~bayescut.circuit.Evidence`; either may be a
    single row for all rows of the other. A query that contradicts its evidence gives −inf, evidence
    of probability zero an error.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> nan = float("nan")
    >>> circuit = build.circuit(
    ...     build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]]), [2, 2]
    ... )
    >>> np.exp(circuit.conditional_log_likelihood([[1, nan]], [[nan, 1], [nan, 0]])).round(4)
    array([0.9231, 0.25  ])
    """
    asked, given = _read(circuit, query), _read(circuit, evidence)
    if asked.n_rows != given.n_rows and 1 not in (asked.n_rows, given.n_rows):
        raise DataError(f"{asked.n_rows} rows of queries but {given.n_rows} rows of evidence.")
    joint, conflict = _conjunction(circuit, asked, given)
    below = log_likelihood(circuit, given, n_jobs=n_jobs)
    refuse_impossible(int(np.argmin(below)) if np.any(below == -np.inf) else -1)
    above = log_likelihood(circuit, joint, n_jobs=n_jobs)
    return np.where(conflict, -np.inf, above - below)


def _conjunction(circuit: Circuit, asked: Rows, given: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """What both say, and the rows in which they contradict each other."""
    dtype = np.result_type(asked.codes, given.codes)
    codes = []
    for rows in (asked.codes, given.codes):
        codes.append(rows.astype(dtype))
        codes[-1][rows == missing_code(rows.dtype)] = missing_code(dtype)
    in_query, in_evidence = (c != missing_code(dtype) for c in codes)
    both = in_query & in_evidence
    conflict = both & (codes[0] != codes[1])
    joint = np.where(in_query, codes[0], codes[1]).astype(dtype)
    values = asked.values
    if asked.values.shape[1]:
        m = len(circuit.domains)
        apart = asked.values[:, :m] != given.values[:, :m]
        known = ~(np.isnan(asked.values[:, :m]) | np.isnan(given.values[:, :m]))
        conflict |= both & ((circuit.domains.n_states == 0) | known) & apart
        chosen = np.tile(in_query, asked.values.shape[1] // m)
        values = np.where(chosen, asked.values, given.values)
    weights = asked.weights
    if given.weights.shape[1]:
        weights = given.weights if not weights.shape[1] else weights * given.weights
    return Rows(joint, weights, values), conflict.any(axis=1)


def marginals(
    circuit: Circuit,
    rows: Any,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Posterior of every variable given each row: :math:`p(X_v = k \mid e)`.

    Returns
    -------
    array of shape (n, sum of the numbers of states)
        The states of variable v are the columns ``domains.offsets[v]:domains.offsets[v + 1]``.
        Observed variables are one-hot. Continuous variables have no columns, see :func:`moments`.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> circuit = build.circuit(
    ...     build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]]), [2, 2]
    ... )
    >>> circuit.marginals([[float("nan"), 1]]).round(4)
    array([[0.0769, 0.9231, 0.    , 1.    ]])
    """
    read = _read(circuit, rows)
    out = np.empty((read.n_rows, int(circuit.domains.n_states.sum())))

    def keep(begin: int, end: int, sinks: Sinks) -> None:
        out[begin:end] = sinks.posterior[:, : end - begin].T

    _expect(circuit, read, True, False, keep, n_jobs)
    return out


class Moments(NamedTuple):
    """Posterior mean and variance of the continuous variables, one column each."""

    mean: FloatArray
    variance: FloatArray


def moments(
    circuit: Circuit,
    rows: Any,
    *,
    n_jobs: int | None = None,
) -> Moments:
    """Posterior mean and variance of the continuous variables given each row.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> node = build.weighted_sum([0.5, 0.5], build.gaussian(0, -1, 1), build.gaussian(0, 3, 1))
    >>> build.circuit(node, [0]).moments([[float("nan")]])
    Moments(mean=array([[1.]]), variance=array([[5.]]))
    """
    read = _read(circuit, rows)
    out = np.empty((read.n_rows, len(circuit.domains), 3))

    def keep(begin: int, end: int, sinks: Sinks) -> None:
        out[begin:end] = sinks.moments

    _expect(circuit, read, False, True, keep, n_jobs)
    out = out[:, circuit.domains.n_states == 0]
    return Moments(out[:, :, 1].copy(), out[:, :, 2] / out[:, :, 0])


def expectation(
    circuit: Circuit,
    rows: Any,
    functions: Mapping[int, ArrayLike] | Sequence[ArrayLike],
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Posterior expectation of functions of single variables: :math:`E[f_v(X_v) \mid e]`.

    Parameters
    ----------
    functions : mapping from variable to array, or one array for each variable
        ``functions[v][k]`` is the value of the function at state k of variable v.

    Returns
    -------
    array of shape (n, len(functions))
        One column for each function, in their order. Powers of the state give moments.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> dice = build.circuit(build.categorical(0, [1 / 6] * 6), [6])
    >>> dice.expectation([[float("nan")]], {0: [1, 2, 3, 4, 5, 6]})
    array([[3.5]])
    """
    posterior = marginals(circuit, rows, n_jobs=n_jobs)
    domains = circuit.domains
    if not isinstance(functions, Mapping):
        if len(functions) != len(domains):
            raise DataError(f"{len(domains)} variables but {len(functions)} functions.")
        functions = dict(enumerate(functions))
    out = np.empty((len(posterior), len(functions)))
    for column, (v, table) in enumerate(functions.items()):
        if not 0 <= v < len(domains):
            raise DataError(f"There is no variable {v}.")
        if domains.n_states[v] == 0:
            raise DataError(f"Variable {v} is continuous: use `moments`.")
        numbers = np.asarray(table, dtype=np.float64)
        if numbers.shape != (domains.n_states[v],):
            raise DataError(
                f"The function of variable {v} needs {domains.n_states[v]} values, "
                f"not shape {numbers.shape}."
            )
        states = posterior[:, domains.offsets[v] : domains.offsets[v + 1]]
        # A state of probability zero counts nothing, whatever the function says there.
        with np.errstate(invalid="ignore"):
            out[:, column] = np.where(states > 0, states * numbers, 0.0).sum(axis=1)
    return out


def mpe(
    circuit: Circuit,
    rows: Any,
    *,
    n_jobs: int | None = None,
) -> tuple[NDArray[Any], FloatArray]:
    r"""Complete each row by its most probable explanation.

    .. math:: \arg\max_{x \text{ agrees with } e} p(x)

    Exact if the circuit is deterministic (``circuit.properties.deterministic``). On other
    circuits, mixtures above all, the completion is the usual approximation that replaces sums by
    maxima, hence the best completion of the best single component; its value is nevertheless
    exact. Ties go to the smaller state.

    Returns
    -------
    completed : array (n, m)
        The rows with every variable filled in.
    log_value : array (n,)
        log p(completed) under the circuit.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> node = build.decision(
    ...     0, [0.6, 0.4], build.categorical(1, [0.5, 0.5]), build.categorical(1, [0.1, 0.9])
    ... )
    >>> rows, value = build.circuit(node, [2, 2]).mpe([[float("nan"), float("nan")]])
    >>> rows, np.exp(value).round(4)
    (array([[1, 1]], dtype=uint8), array([0.36]))
    """
    read = _read(circuit, rows)
    seeds = np.zeros(read.n_rows, dtype=np.uint64)
    completed, numbers = _complete(circuit, read, True, seeds, n_jobs)
    whole: Any = Rows(completed, np.empty((1, 0)), numbers)
    if circuit.has_normals:
        known = ~np.isnan(read.values[:, : len(circuit.domains)])
        numbers = _recorded(circuit, completed, numbers[:, : len(circuit.domains)], known)
        whole = Evidence(completed, values=with_modes(circuit, completed, numbers))
    log_value = log_likelihood(circuit, whole, n_jobs=n_jobs)
    return join_table(circuit.domains, completed, numbers), log_value


def _recorded(
    circuit: Circuit, codes: CodeArray, numbers: FloatArray, known: NDArray[np.bool_]
) -> FloatArray:
    """Round numbers that were not given to the steps of their columns, within their cells."""
    out = numbers.copy()
    for j, domain in enumerate(circuit.domains):
        if domain.grid is not None:
            rows = np.flatnonzero(~known[:, j] & ~np.isnan(numbers[:, j]))
            found, own = domain.grid.snap(numbers[rows, j]), codes[rows, j].astype(np.int64)
            # The end of a cell may round to the next one.
            there = domain.grid.codes(found).astype(np.int64)
            out[rows, j] = found - np.sign(there - own) * domain.grid.step
    return out


def with_modes(circuit: Circuit, codes: CodeArray, numbers: FloatArray) -> FloatArray:
    """Give numbers of which the cell alone is known the mode of that cell."""
    out = numbers[:, : codes.shape[1]].copy()
    for j, domain in enumerate(circuit.domains):
        if domain.grid is not None:
            out[:, j] = np.where(np.isnan(out[:, j]), domain.grid.mode[codes[:, j]], out[:, j])
    return out


def _read(circuit: Circuit, rows: Any) -> Rows:
    circuit.require()
    return read_evidence(circuit, rows)


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(f"random_state cannot be used as a seed: {random_state!r}") from error


def _complete(
    circuit: Circuit,
    rows: Rows,
    maximise: bool,
    seeds: NDArray[np.uint64],
    n_jobs: int | None,
) -> tuple[CodeArray, FloatArray]:
    """Rows with every variable filled in: codes, and values of continuous variables."""
    codes, values = rows.codes.copy(), rows.values.copy()
    # Rows in which nothing is observed need no evaluation to draw from.
    is_blank = np.zeros(rows.n_rows, dtype=bool)
    if not maximise and rows.weights.shape[1] == 0:
        is_blank = np.all(rows.codes == missing_code(rows.codes.dtype), axis=1)
    for blank in (False, True):
        chosen = np.flatnonzero(is_blank == blank)
        if not len(chosen):
            continue
        every = len(chosen) == rows.n_rows
        some = rows if every else rows.take(chosen)

        def work(begin: int, end: int) -> None:
            at = slice(begin, end) if every else chosen[begin:end]  # noqa: B023
            numbers = chosen[begin:end]  # noqa: B023
            block = passes.choose(some, begin, seeds[at], maximise, blank, numbers)  # noqa: B023
            codes[at] = block.states
            if values.shape[1]:
                values[at] = block.values

        passes = circuit._passes
        in_chunks(len(chosen), passes.chunk(len(chosen), n_jobs), n_jobs, work)
    return codes, values


def _expect(
    circuit: Circuit,
    rows: Rows,
    want_posterior: bool,
    want_moments: bool,
    keep: Callable[[int, int, Sinks], None],
    n_jobs: int | None,
) -> None:
    """Work out what each row expects and hand it over, block by block."""
    passes = circuit._passes
    root = np.array([circuit.root])
    n_states, n_variables = int(circuit.domains.n_states.sum()), len(circuit.domains)
    nothing = np.empty(0)

    def work(begin: int, end: int) -> None:
        n = end - begin
        sinks = Sinks(
            # Not a power of two: lines of the cache that lie 2048 bytes apart evict each other.
            posterior=np.zeros((n_states if want_posterior else 0, n + 8)),
            moments=np.zeros((n, n_variables if want_moments else 0, 3)),
            edges=nothing,
            tables=nothing,
            params=nothing,
            statistics=np.empty((0, 3)),
        )
        routed = passes.up(rows, begin, end, root, with_joint=True)
        passes.spread(routed, begin, np.ones(n), sinks)
        keep(begin, end, sinks)

    in_chunks(rows.n_rows, passes.chunk(rows.n_rows, n_jobs, True), n_jobs, work)
