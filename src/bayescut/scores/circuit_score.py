r"""Bayesian score, BIC and posterior-mean parameters of any deterministic circuit.

In a smooth, decomposable and deterministic circuit every row uses exactly one branch of each sum it
reaches. With Dirichlet weights, independent a priori, the marginal likelihood of the structure is a
product over sums and inputs,

.. math:: \ln p(D \mid G) = \sum_S \Big[ \ln\Gamma(\alpha_S) - \ln\Gamma(n_S + \alpha_S)
          + \sum_k \ln\Gamma(n_{Sk} + \alpha_{Sk}) - \ln\Gamma(\alpha_{Sk}) \Big]
          + \sum_L \ln p(D_L),

where :math:`n_{Sk}` counts the rows that use edge k of sum S, and :math:`D_L` are the rows that
reach input L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._kinds import CATEGORICAL, DECISION, NORMAL, PRODUCT, SUM
from bayescut.circuit._passes import Passes
from bayescut.circuit.evidence import Rows, read_evidence
from bayescut.circuit.flows import Flows
from bayescut.circuit.inputs import INPUTS, InputKind
from bayescut.circuit.inputs.normal import Normal
from bayescut.data.domains import missing_code
from bayescut.exceptions import DataError, PropertyError
from bayescut.scores.base import BIC, BayesDirichlet
from bayescut.scores.wishart import NormalWishart


@dataclass(frozen=True)
class NormalGamma:
    r"""Prior of a Gaussian input: precision :math:`\lambda \sim \Gamma(a, b)` (rate b), mean
    :math:`\mu \sim N(\mu_0, 1 / (\kappa \lambda))`.

    Examples
    --------
    >>> NormalGamma(mean=0.0, kappa=1.0, a=1.0, b=1.0).log_marginal(0.0, 0.0, 0.0)
    0.0
    """

    mean: float = 0.0
    kappa: float = 1.0
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and min(self.kappa, self.a, self.b) > 0):
            raise ValueError(f"kappa, a and b must be greater than 0 and mean finite, got {self}")

    def posterior(self, n: float, mean: float, squares: float) -> NormalGamma:
        """Posterior after n rows of the given mean and sum of squared deviations."""
        kappa = self.kappa + n
        shift = (mean - self.mean) ** 2 * self.kappa * n / kappa
        return NormalGamma(
            (self.kappa * self.mean + n * mean) / kappa,
            kappa,
            self.a + n / 2,
            self.b + (squares + shift) / 2,
        )

    def log_marginal(self, n: float, mean: float, squares: float) -> float:
        """Log marginal likelihood of these rows."""
        after = self.posterior(n, mean, squares)
        total = float(gammaln(after.a) - gammaln(self.a))
        total += self.a * math.log(self.b) - after.a * math.log(after.b)
        return total + 0.5 * math.log(self.kappa / after.kappa) - 0.5 * n * math.log(2 * math.pi)


def bayes_score(
    circuit: Circuit,
    X: Any,
    *,
    ess: float = 1.0,
    divide: bool = True,
    node_ess: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    gaussian_prior: NormalGamma | None = None,
    normal_prior: NormalWishart | None = None,
    n_jobs: int | None = None,
) -> float:
    r"""Exact log marginal likelihood of the structure of a deterministic circuit.

    The circuit's own parameters play no part; inputs are categorical (Dirichlet prior), junction
    trees (a Dirichlet per state of the parents) or Gaussian (normal-gamma prior).

    Parameters
    ----------
    circuit : Circuit
        Smooth, decomposable and structurally deterministic.
    X : array of codes, or Evidence
        Complete rows, as the circuit's queries take them.
    ess : float
        Equivalent sample size. A sum with k edges has pseudo-counts e / k, a family of a junction
        tree e over all its cells.
    divide : bool
        BDeu: the root has all of ``ess``, a sum divides it evenly among its edges, a product hands
        it on whole, and a shared node has the sum of what reaches it. ``False``: every node has
        all of it.
    node_ess : array of shape (n_nodes,), optional
        Equivalent sample size of every node, instead.
    sample_weight : array of shape (n_rows,), optional
        Non-negative weights.
    gaussian_prior : NormalGamma, optional
        Prior of Gaussian inputs.
    normal_prior : NormalWishart, optional
        Prior of normal leaves, over all columns of the circuit; a leaf has that of its columns.
        Default: mean 0, scale 1, as many degrees of freedom as columns and two more.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    float
        -inf if the structure gives some row probability zero whatever its parameters.

    Raises
    ------
    PropertyError
        If the circuit is not smooth, decomposable or deterministic; names the node.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> coin = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    >>> round(bayes_score(coin, [[0], [1], [1]], ess=2.0), 6)  # 1! 2! / 4!
    -2.484907
    """
    score = BayesDirichlet(ess, divide)
    rows = read_evidence(circuit, X)
    counts = _counts(circuit, rows, sample_weight, n_jobs)
    if counts is None:
        return -math.inf
    e = _node_ess(circuit, score.root_ess, divide, node_ess)
    total = 0.0
    for block in _tables(circuit, counts, e, e):
        a = block.pseudo
        total += float(np.sum(gammaln(block.counts + a) - gammaln(a)))
        n_row = np.bincount(block.row, block.counts)
        a_row = np.bincount(block.row, a)
        total -= float(np.sum(gammaln(n_row + a_row) - gammaln(a_row)))
    prior = gaussian_prior or NormalGamma()
    for kind, node in _continuous(circuit):
        total += kind.log_marginal(prior, counts.continuous[node])
    if circuit.has_normals:
        total += _normals(circuit, rows, counts, sample_weight, normal_prior, n_jobs)
    return total + _inside_views(circuit, rows, sample_weight, n_jobs)


def _normals(
    circuit: Circuit,
    rows: Rows,
    counts: Flows,
    sample_weight: ArrayLike | None,
    prior: NormalWishart | None,
    n_jobs: int | None,
) -> float:
    """Log marginal likelihood of the numbers of normal leaves, less their densities in cells."""
    m = len(circuit.domains)
    if prior is None:
        prior = NormalWishart(np.zeros(m), np.eye(m), 1.0, m + 2.0)
    kind = INPUTS[NORMAL]
    assert isinstance(kind, Normal)
    total = 0.0
    for node in np.flatnonzero(circuit.kind == NORMAL).tolist():
        variables, parents = kind.structure(circuit, node)
        seen = kind.seen(circuit, node, counts)
        total += prior.marginal(variables).of_network(*seen, parents)
    # What leaves take off for the cells is what values change by if there is nothing to take off.
    bare = rows.values.copy()
    bare[:, m:] = 0.0
    structure = _structure(circuit)
    inside = structure.log_likelihood(rows._replace(values=bare), n_jobs=n_jobs)
    inside -= structure.log_likelihood(rows, n_jobs=n_jobs)
    weights = np.ones(rows.n_rows) if sample_weight is None else np.asarray(sample_weight)
    return total - float(weights @ inside)


def bic_score(
    circuit: Circuit,
    X: Any,
    *,
    beta: float = 0.01,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> float:
    r"""Bayesian information criterion of the structure of a deterministic circuit.

    .. math:: \ln p(D \mid \hat\theta) - \tfrac12 \ln N \cdot \|G\|

    with all independent parameters counted (``circuit.n_parameters``) and :math:`\hat\theta`
    smoothed by 4 beta over each table of an input and 2 beta over the weights of a sum; Gaussian
    inputs have their maximum-likelihood parameters.

    Parameters
    ----------
    circuit, X, sample_weight, n_jobs
        See `bayes_score`.
    beta : float
        Laplace factor, at least 0.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> coin = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    >>> round(bic_score(coin, [[0], [1]], beta=0.0), 6)  # 2 ln(1/2) - ln(2)/2
    -1.732868
    """
    score = BIC(beta)
    _refuse_normals(circuit, "BIC is")
    rows = read_evidence(circuit, X)
    counts = _counts(circuit, rows, sample_weight, n_jobs)
    if counts is None:
        return -math.inf
    n = float(rows.n_rows)
    if sample_weight is not None:
        n = float(np.sum(np.asarray(sample_weight, dtype=np.float64)))
    leaf = np.full(circuit.n_nodes, score.root_ess)
    total = 0.0
    for block in _tables(circuit, counts, leaf, np.full_like(leaf, score.cut_ess(score.root_ess))):
        used = block.counts > 0
        smooth = block.counts + block.pseudo
        whole = np.bincount(block.row, smooth)[block.row]
        total += float(np.sum(block.counts[used] * np.log(smooth[used] / whole[used])))
    for kind, node in _continuous(circuit):
        total += kind.max_log_likelihood(node, counts.continuous[node])
    total += _inside_views(circuit, rows, sample_weight, n_jobs)
    return total - score.parameter_cost(n) * circuit.n_parameters


def refit(
    circuit: Circuit,
    X: Any,
    *,
    ess: float = 1.0,
    divide: bool = True,
    node_ess: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    gaussian_prior: NormalGamma | None = None,
    n_jobs: int | None = None,
) -> Circuit:
    r"""The same structure with posterior-mean parameters.

    .. math:: \hat\theta_{Sk} = \frac{n_{Sk} + \alpha_{Sk}}{n_S + \alpha_S}

    Gaussian inputs get the posterior mean of their mean and variance.

    Parameters
    ----------
    circuit, X, ess, divide, node_ess, sample_weight, gaussian_prior, n_jobs
        See `bayes_score`.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> coin = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    >>> np.exp(refit(coin, [[1], [1], [1]], ess=1.0).param)
    array([0.125, 0.875])
    """
    BayesDirichlet(ess, divide)
    _refuse_normals(circuit, "New parameters are")
    counts = _counts(circuit, read_evidence(circuit, X), sample_weight, n_jobs)
    if counts is None:
        raise DataError("The structure gives some row probability zero: it cannot be fitted to it.")
    e = _node_ess(circuit, ess, divide, node_ess)
    changed: dict[str, Any] = {
        "log_weight": circuit.log_weight.copy(),
        "fam_table": circuit.fam_table.copy(),
        "param": circuit.param.copy(),
    }
    for block in _tables(circuit, counts, e, e):
        smooth = block.counts + block.pseudo
        whole = np.bincount(block.row, smooth)[block.row]
        changed[block.array][block.cells] = np.log(smooth / whole)
    prior = gaussian_prior or NormalGamma()
    for kind, node in _continuous(circuit):
        begin, end = circuit.param_ptr[node], circuit.param_ptr[node + 1]
        changed["param"][begin:end] = kind.refit(prior, counts.continuous[node])
    return replace(circuit, **changed)


def _refuse_normals(circuit: Circuit, what: str) -> None:
    if circuit.has_normals:
        raise PropertyError(f"{what} not defined for circuits with normal leaves.")


class _Tables(NamedTuple):
    """Cells of many tables: where they lie, their counts and pseudo-counts, and their table."""

    array: str
    cells: IntArray
    counts: FloatArray
    pseudo: FloatArray
    row: IntArray  # number of its Dirichlet: the cells of one row are its choices


def _tables(
    circuit: Circuit, counts: Flows, leaf_ess: FloatArray, cut_ess: FloatArray
) -> list[_Tables]:
    """Everything with a Dirichlet prior: sums, categorical inputs, families of junction trees."""
    blocks = []
    arity = np.diff(circuit.child_ptr)
    is_sum = (circuit.kind == SUM) | (circuit.kind == DECISION)
    owner = np.repeat(np.arange(circuit.n_nodes), arity)
    edges = np.flatnonzero(is_sum[owner])
    node = owner[edges]
    blocks.append(
        _Tables(
            "log_weight", edges, counts.edges[edges], (cut_ess / np.maximum(arity, 1))[node], node
        )
    )
    size = np.diff(circuit.param_ptr)
    owner = np.repeat(np.arange(circuit.n_nodes), size)
    cells = np.flatnonzero(circuit.kind[owner] == CATEGORICAL)
    node = owner[cells]
    pseudo = (leaf_ess / np.maximum(size, 1))[node]
    blocks.append(_Tables("param", cells, counts.categorical[cells], pseudo, node))

    family_node = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
    size = np.diff(circuit.fam_table_ptr)
    family = np.repeat(np.arange(len(size)), size)
    pseudo = (leaf_ess[family_node] / size)[family]
    # A row of a family's table is one assignment of its parents.
    states = circuit.fam_states
    within = np.arange(len(family)) - circuit.fam_table_ptr[family]
    first_row = np.concatenate([[0], np.cumsum(size // states)])
    row = first_row[family] + within // states[family]
    blocks.append(_Tables("fam_table", np.arange(len(family)), counts.tables, pseudo, row))
    return [
        block._replace(row=np.unique(block.row, return_inverse=True)[1])
        for block in blocks
        if len(block.cells)
    ]


def _node_ess(circuit: Circuit, ess: float, divide: bool, node_ess: ArrayLike | None) -> FloatArray:
    """Equivalent sample size of every node."""
    if node_ess is not None:
        given = np.asarray(node_ess, dtype=np.float64)
        if given.shape != (circuit.n_nodes,) or not np.all((given > 0) & np.isfinite(given)):
            raise ValueError(f"node_ess must hold {circuit.n_nodes} numbers greater than 0")
        return given
    if not divide:
        return np.full(circuit.n_nodes, float(ess))
    e = np.zeros(circuit.n_nodes)
    e[circuit.root] = ess
    for node in range(circuit.root, -1, -1):  # parents before children
        lo, hi = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        if hi > lo:
            share = e[node] if circuit.kind[node] == PRODUCT else e[node] / (hi - lo)
            np.add.at(e, circuit.child[lo:hi], share)
    return e


def _structure(circuit: Circuit) -> Circuit:
    """The same structure with uniform parameters: a learned zero must not hide a branch."""
    arity = np.maximum(np.diff(circuit.child_ptr), 1)
    is_product = circuit.kind == PRODUCT
    per_node = np.where(is_product, 0.0, -np.log(arity))
    size = np.maximum(np.diff(circuit.param_ptr), 1)
    is_categorical = np.repeat(circuit.kind == CATEGORICAL, np.diff(circuit.param_ptr))
    uniform = np.repeat(-np.log(size), np.diff(circuit.param_ptr))
    states = circuit.fam_states
    return replace(
        circuit,
        log_weight=np.repeat(per_node, np.diff(circuit.child_ptr)),
        param=np.where(is_categorical, uniform, circuit.param),
        fam_table=np.repeat(-np.log(np.maximum(states, 1)), np.diff(circuit.fam_table_ptr)),
    )


def _continuous(circuit: Circuit) -> Iterator[tuple[InputKind, int]]:
    """The continuous inputs, each with its kind."""
    for kind in INPUTS.values():
        if kind.continuous:
            for node in np.flatnonzero(circuit.kind == kind.kind).tolist():
                yield kind, node


def _counts(
    circuit: Circuit, rows: Rows, sample_weight: ArrayLike | None, n_jobs: int | None
) -> Flows | None:
    """Exact counts of every edge and cell, or None if some row is impossible."""
    circuit.require(deterministic=True)
    # Only variables that the circuit speaks of must be observed.
    scope = np.array(circuit.scope, dtype=np.int64)
    unseen = rows.codes[:, scope] == missing_code(rows.codes.dtype)
    if unseen.any():
        row, column = np.argwhere(unseen)[0]
        raise DataError(
            f"Row {row} has a missing cell in column {scope[column]}: scores need complete rows."
        )
    structure = _structure(circuit)
    possible = structure.log_likelihood(rows, n_jobs=n_jobs)
    if np.any(possible == -np.inf):
        return None
    return structure.flows(rows, sample_weight, n_jobs=n_jobs)


def _inside_views(
    circuit: Circuit, rows: Rows, sample_weight: ArrayLike | None, n_jobs: int | None
) -> float:
    """Log-probability of the states of all rows among those that look the same to their leaves.

    These shares are fixed: they are what the log-likelihood has beyond that of the same circuit
    with all shares set to 1.
    """
    if not np.any(circuit.view_share):
        return 0.0
    structure = _structure(circuit)
    passes = Passes(structure)
    plan = passes.plan
    without = np.zeros_like(circuit.view_share)
    without.setflags(write=False)
    passes.plan = plan._replace(
        inputs=plan.inputs._replace(view_share=without),
        leaves=plan.leaves._replace(view_share=without),
    )
    root = np.array([circuit.root])
    extra = structure.log_likelihood(rows, n_jobs=n_jobs) - passes.values(rows, root, n_jobs)[0]
    weight = np.ones(rows.n_rows) if sample_weight is None else np.asarray(sample_weight)
    return float(weight @ extra)


__all__ = ["NormalGamma", "bayes_score", "bic_score", "refit"]
