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

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._batches import Evidence, Scratch, in_chunks, join_table, read_evidence
from bayescut.circuit._complete import complete_rows, is_network
from bayescut.circuit._downward import choose_components, fill
from bayescut.circuit._evaluate import evaluate
from bayescut.circuit._junction import GOLDEN
from bayescut.circuit._plan import BLOCK, MAXIMISE, MIN_PAIRS
from bayescut.circuit._spread import mark_observed, spread
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError, ZeroProbabilityError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

__all__ = [
    "Moments",
    "conditional_log_likelihood",
    "expectation",
    "log_likelihood",
    "marginals",
    "moments",
    "mpe",
    "node_log_likelihood",
    "sample",
    "sample_conditional",
]

_MOST_VALUES = 1 << 22
# A component this improbable for a row adds less than the rounding of the row's posterior, even
# if there are a hundred of them.
_NO_SHARE = 1e-18

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
    >>> circuit = build.circuit(
    ...     build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]]), [2, 2]
    ... )
    >>> np.exp(log_likelihood(circuit, [[0, 1], [nan, 1], [nan, nan]])).round(4)
    array([0.04, 0.52, 1.  ])
    """
    evidence = _evidence(circuit, codes, allowed, values)
    root = circuit.root
    if circuit.is_mixture:
        out = np.empty(evidence.n_rows)
        for rows in _slabs(circuit, evidence):
            terms = _terms(circuit, evidence.rows(rows.start, rows.stop), n_jobs)
            out[rows] = _log_sum(terms)
        return out
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
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"n must be a whole number of at least 0, not {n!r}.")
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
    return join_table(circuit, *_complete(circuit, evidence, False, seeds, n_jobs))


def conditional_log_likelihood(
    circuit: Circuit,
    query: Any,
    evidence: Any,
    allowed: ArrayLike | None = None,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    r"""Log-probability of the observed part of each query row given an evidence row.

    .. math:: \log p(q \mid e) = \log p(q, e) - \log p(e)

    Query and evidence are partial rows; either may be a single row for all rows of the other. A
    query that contradicts its evidence gives −inf, evidence of probability zero an error.

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
    circuit.require()
    asked = read_evidence(circuit, query)
    given = read_evidence(circuit, evidence)
    if asked.n_rows != given.n_rows and 1 not in (asked.n_rows, given.n_rows):
        raise DataError(f"{asked.n_rows} rows of queries but {given.n_rows} rows of evidence.")
    dtype = np.result_type(asked.codes, given.codes)
    codes = []
    for rows in (asked.codes, given.codes):
        codes.append(rows.astype(dtype))
        codes[-1][rows == missing_code(rows.dtype)] = missing_code(dtype)
    in_query, in_evidence = (c != missing_code(dtype) for c in codes)
    both = in_query & in_evidence
    conflict = both & (codes[0] != codes[1])
    joint = np.where(in_query, codes[0], codes[1]).astype(dtype)
    values = None
    if asked.values.shape[1]:
        conflict |= both & (circuit.domains.n_states == 0) & (asked.values != given.values)
        values = np.where(in_query, asked.values, given.values)
    # One row of evidence for many queries is evaluated once, unless each query has its own mask.
    has_masks = allowed is not None and np.ndim(allowed) == 2
    n_given = 1 if given.n_rows == 1 and not has_masks else len(joint)
    at = np.arange(n_given) % max(1, given.n_rows)
    below = log_likelihood(
        circuit,
        given.codes[at],
        allowed,
        values=given.values[at] if values is not None else None,
        n_jobs=n_jobs,
    )
    refuse_impossible(int(np.argmin(below)) if np.any(below == -np.inf) else -1)
    above = log_likelihood(circuit, joint, allowed, values=values, n_jobs=n_jobs)
    return np.where(conflict.any(axis=1), -np.inf, above - below)


def marginals(
    circuit: Circuit,
    codes: Any,
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
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
    evidence = _evidence(circuit, codes, allowed, values)
    n_columns = int(circuit.domains.n_states.sum())
    out = np.zeros((evidence.n_rows, n_columns))
    _spread(circuit, evidence, out, np.empty((1, 0, 3)), n_jobs)
    return out


class Moments(NamedTuple):
    """Posterior mean and variance of the continuous variables, one column each."""

    mean: FloatArray
    variance: FloatArray


def moments(
    circuit: Circuit,
    codes: Any,
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
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
    evidence = _evidence(circuit, codes, allowed, values)
    out = np.zeros((evidence.n_rows, len(circuit.domains), 3))
    _spread(circuit, evidence, np.empty((1, 0)), out, n_jobs)
    out = out[:, circuit.domains.n_states == 0]
    return Moments(out[:, :, 1].copy(), out[:, :, 2] / out[:, :, 0])


def expectation(
    circuit: Circuit,
    codes: Any,
    functions: Mapping[int, ArrayLike] | Sequence[ArrayLike],
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
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
    posterior = marginals(circuit, codes, allowed, values=values, n_jobs=n_jobs)
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
    codes: Any,
    allowed: ArrayLike | None = None,
    *,
    values: ArrayLike | None = None,
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
    evidence = _evidence(circuit, codes, allowed, values)
    seeds = np.empty(0, dtype=np.uint64)
    completed, reals = _complete(circuit, evidence, True, seeds, n_jobs)
    given = reals if reals.shape[1] else None
    log_value = log_likelihood(circuit, completed, values=given, n_jobs=n_jobs)
    return join_table(circuit, completed, reals), log_value


def _evidence(
    circuit: Circuit, codes: Any, allowed: ArrayLike | None, values: ArrayLike | None
) -> Evidence:
    circuit.require()
    return read_evidence(circuit, codes, allowed, values)


def _generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(f"random_state cannot be used as a seed: {random_state!r}") from error


def _values(
    circuit: Circuit,
    evidence: Evidence,
    nodes: NDArray[Any],
    n_jobs: int | None,
    maximise: bool = False,
) -> FloatArray:
    """Log values of nodes, shape (number of nodes, number of rows)."""
    out = np.empty((len(nodes), evidence.n_rows))
    nodes = np.array(nodes, dtype=np.int64)
    one_by_one = circuit.is_mixture and len(nodes) > 1
    codes = evidence.codes
    along_paths = evidence.allowed.shape[1] == 0 and is_network(circuit, nodes)
    limit = np.minimum(circuit.domains.n_states, missing_code(codes.dtype)).astype(codes.dtype)

    def work(scratch: Scratch, begin: int, end: int) -> None:
        if along_paths and complete_rows(
            circuit.plan,
            nodes,
            codes[begin:end],
            limit,
            begin,
            scratch.last,
            scratch.chain,
            scratch.columns,
            scratch.sums,
            out,
        ):
            return
        states, unknown = scratch.read(begin, end)
        scratch.workspace.clock[MAXIMISE] = maximise
        evaluate(
            circuit.plan,
            scratch.workspace,
            scratch.lanes,
            nodes,
            one_by_one,
            states,
            unknown,
            evidence.allowed,
            evidence.values,
            begin,
            scratch.most_pairs,
            out,
        )

    in_chunks(
        evidence.n_rows,
        n_jobs,
        lambda: Scratch(circuit, evidence, len(nodes)),
        work,
        len(circuit.fam_var),
    )
    return out


def _components(circuit: Circuit) -> tuple[NDArray[Any], FloatArray]:
    """The nodes and log weights of a mixture's components."""
    begin, end = circuit.child_ptr[circuit.root], circuit.child_ptr[circuit.root + 1]
    return circuit.child[begin:end], circuit.log_weight[begin:end]


def _slabs(circuit: Circuit, evidence: Evidence) -> Iterator[slice]:
    """Slabs of rows for which the values of all components need 32 MB at most."""
    step = max(1, _MOST_VALUES // len(_components(circuit)[0]))
    for first in range(0, evidence.n_rows, step):
        yield slice(first, min(first + step, evidence.n_rows))


def _terms(
    circuit: Circuit, evidence: Evidence, n_jobs: int | None, maximise: bool = False
) -> FloatArray:
    """Log weight plus log value of each component of a mixture, shape (components, rows)."""
    nodes, log_weight = _components(circuit)
    terms = _values(circuit, evidence, nodes, n_jobs, maximise)
    terms += log_weight[:, None]
    return terms


def _log_sum(terms: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials over the first axis; the terms become their shares."""
    top = terms.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    terms -= shift
    total = np.exp(terms, out=terms).sum(axis=0)
    terms /= np.where(total > 0.0, total, 1.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(total)


def _complete(
    circuit: Circuit,
    evidence: Evidence,
    maximise: bool,
    seeds: NDArray[np.uint64],
    n_jobs: int | None,
) -> tuple[CodeArray, FloatArray]:
    """Rows with every variable filled in: codes, and values of continuous variables."""
    if circuit.is_mixture:
        return _complete_mixture(circuit, evidence, maximise, seeds, n_jobs)
    roots = np.full(evidence.n_rows, circuit.root)
    return _complete_from(circuit, evidence, roots, maximise, seeds, n_jobs)


def _complete_mixture(
    circuit: Circuit,
    evidence: Evidence,
    maximise: bool,
    seeds: NDArray[np.uint64],
    n_jobs: int | None,
) -> tuple[CodeArray, FloatArray]:
    """Choose a component for each row, then complete the row by that component alone."""
    chosen = np.empty(evidence.n_rows, dtype=np.int64)
    missing = missing_code(evidence.codes.dtype)
    for rows in _slabs(circuit, evidence):
        slab = evidence.rows(rows.start, rows.stop)
        if maximise:
            terms = _terms(circuit, slab, n_jobs, maximise=True)
            impossible = terms.max(axis=0) == -np.inf
            chosen[rows] = terms.argmax(axis=0)
        elif slab.allowed.shape[1] == 0 and np.all(slab.codes == missing):
            # Nothing is observed: the components are as probable as their weights.
            terms = np.repeat(np.exp(_components(circuit)[1])[:, None], slab.n_rows, axis=1)
            impossible = np.zeros(slab.n_rows, dtype=bool)
            choose_components(terms, seeds[rows], chosen[rows])
        else:
            terms = _terms(circuit, slab, n_jobs)
            impossible = _log_sum(terms) == -np.inf
            choose_components(terms, seeds[rows], chosen[rows])
        if impossible.any():
            refuse_impossible(rows.start + int(np.argmax(impossible)))
    # Rows of one component side by side.
    order = np.argsort(chosen, kind="stable")
    allowed, values = evidence.allowed, evidence.values
    sorted_evidence = Evidence(
        evidence.codes[order],
        allowed[order] if len(allowed) > 1 else allowed,
        values[order] if values.shape[1] > 0 else values,
    )
    roots = _components(circuit)[0][chosen[order]].astype(np.int64)
    if not maximise:
        seeds = seeds[order] + GOLDEN  # the component was the first draw
    found = _complete_from(circuit, sorted_evidence, roots, maximise, seeds, n_jobs)
    codes, reals = evidence.codes.copy(), values.copy()
    codes[order] = found[0]
    if values.shape[1] > 0:
        reals[order] = found[1]
    return codes, reals


def _complete_from(
    circuit: Circuit,
    evidence: Evidence,
    roots: NDArray[np.int64],
    maximise: bool,
    seeds: NDArray[np.uint64],
    n_jobs: int | None,
) -> tuple[CodeArray, FloatArray]:
    """Complete each row from its own root down."""
    codes = evidence.codes.copy()
    values = evidence.values.copy()

    def work(scratch: Scratch, begin: int, end: int) -> None:
        states, unknown = scratch.read(begin, end)
        bounds = np.flatnonzero(np.diff(roots[begin:end])) + 1
        first = 0
        for last in (*bounds.tolist(), end - begin):
            bad = fill(
                circuit.plan,
                scratch.workspace,
                scratch.lanes,
                int(roots[begin + first]),
                states[first:last],
                unknown[first:last],
                evidence.allowed,
                values,
                begin + first,
                maximise,
                scratch.most_pairs,
                seeds,
                scratch.random,
            )
            refuse_impossible(bad)
            first = last
        codes[begin:end] = states

    n_families = len(circuit.fam_var)
    in_chunks(evidence.n_rows, n_jobs, lambda: Scratch(circuit, evidence), work, n_families)
    return codes, values


def _spread(
    circuit: Circuit,
    evidence: Evidence,
    marginal: FloatArray,
    moment: FloatArray,
    n_jobs: int | None,
) -> None:
    """Add posteriors to whichever of the two outputs has entries."""
    # Where the leaves of a block of rows fit into the workspace, one pass is enough: a fifth faster
    # for 20 trees. Otherwise a leaf would meet few rows at a time, which costs five times as much
    # for 300 networks: there the components take turns, each with what it counts for a row.
    if not circuit.is_mixture or circuit.sizes.leaves * BLOCK < MIN_PAIRS:
        roots, shares = np.array([circuit.root]), np.empty((1, 0))
        _spread_rows(circuit, evidence, roots, shares, marginal, moment, n_jobs)
        return
    for rows in _slabs(circuit, evidence):
        slab = evidence.rows(rows.start, rows.stop)
        shares = _terms(circuit, slab, n_jobs)
        impossible = _log_sum(shares) == -np.inf
        if impossible.any():
            refuse_impossible(rows.start + int(np.argmax(impossible)))
        shares[shares < _NO_SHARE] = 0.0
        some = marginal[rows] if marginal.shape[1] else marginal
        others = moment[rows] if moment.shape[1] else moment
        roots = _components(circuit)[0].astype(np.int64)
        _spread_rows(circuit, slab, roots, shares, some, others, n_jobs)


def _spread_rows(
    circuit: Circuit,
    evidence: Evidence,
    roots: NDArray[np.int64],
    shares: FloatArray,
    marginal: FloatArray,
    moment: FloatArray,
    n_jobs: int | None,
) -> None:
    """Add the posteriors below each root, times its share of each row (no shares: all of it)."""
    nothing = np.empty(0)

    def work(scratch: Scratch, begin: int, end: int) -> None:
        states, unknown = scratch.read(begin, end)
        if marginal.shape[1]:
            mark_observed(circuit.plan.variable, states, marginal[begin:end])
        bad = spread(
            circuit.plan,
            scratch.workspace,
            scratch.lanes,
            roots,
            states,
            unknown,
            evidence.allowed,
            evidence.values,
            begin,
            scratch.most_pairs,
            shares,
            marginal,
            moment,
            nothing,
            nothing,
            nothing,
            np.empty((0, 3)),
        )
        refuse_impossible(bad)

    in_chunks(
        evidence.n_rows,
        n_jobs,
        lambda: Scratch(circuit, evidence, with_joint=True),
        work,
        len(circuit.fam_var),
    )


def refuse_impossible(row: int) -> None:
    """Raise :class:`ZeroProbabilityError` if a kernel has stopped at a row."""
    if row >= 0:
        raise ZeroProbabilityError(
            f"The evidence in row {row} has probability zero under the model, "
            "so nothing can be conditioned on it."
        )
