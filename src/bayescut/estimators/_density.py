"""The density behind the jobs: the user's own, or networks on grids of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from bayescut._clock import working_time
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, Evidence
from bayescut.data import Domains, encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.data.tables import as_table
from bayescut.estimators._validation import (
    check_size,
    check_weights,
    find_identifiers,
    warn_of_identifiers,
)
from bayescut.learn.cells.conditional import (
    ConditionalLearner,
    Recipe,
    content_folds,
    distinct_rows,
)
from bayescut.learn.cells.percell import CellPredictor, learn_cells
from bayescut.learn.tables.apart import SetApart
from bayescut.scores.base import BayesDirichlet

# Halvings of the numbers' grids; unseen rows weigh them.
_DEPTHS = (4, 3, 2)
# Share of a time budget that networks may take where trees follow.
_NETWORKS = 0.6
# Probabilities of states that are held at once: 128 MiB.
_MOST_HELD = 1 << 24


def fit_density(
    X: Any,
    *,
    estimator: Any,
    name: str,
    columns: Any,
    sample_weight: Any,
    n_members: int,
    time_budget: float | None,
    width: int,
    seed: int,
    n_jobs: int,
    trees: bool = False,
) -> tuple[Circuit, Domains, Callable[..., CellPredictor] | None]:
    """Learn a circuit over the states and cells of a table that may have gaps.

    Parameters
    ----------
    X : array-like or DataFrame
        The table.
    estimator : density estimator or None
        Learns the circuit, on a clone; None: a mixture of `n_members` networks, each with a grid of
        its own for every number, weighted by the likelihood of rows they have not seen.
    name : str
        Who asks, for errors.
    columns, sample_weight, n_members, time_budget, width, seed, n_jobs
        Settings of the mixture; a density estimator of the user's has its own.
    trees : bool
        Whether time is to be left for trees.

    Returns
    -------
    Circuit, Domains
    cells : callable or None
        Learns trees for every column beside the mixture, see
        `bayescut.learn.cells.percell.learn_cells`; None if the density is the user's.
    """
    if estimator is not None:
        model = clone(estimator)
        model = model.fit(X) if sample_weight is None else model.fit(X, sample_weight=sample_weight)
        return model.circuit_, model.domains_, None
    started = working_time()
    X = as_table(X)
    X, weights, _ = without_weightless(X, check_weights(sample_weight, X.shape[0]))
    domains = learn_domains(X, numbers=True, columns=columns, sample_weight=weights)
    codes, _ = encode_table(X, domains, allow_missing=True, estimator_name=name)
    whole = Table(codes, domains, weights)
    n_rows = round(whole.total_weight())
    apart = find_identifiers(domains, n_rows)
    check_size(domains, apart)
    warn_of_identifiers(domains, n_rows, apart)
    aside = SetApart.of(whole, apart, BayesDirichlet(1.0), shrink=True) if len(apart) else None
    dependent = whole if aside is None else aside.others(whole)
    some_numbers = any(domain.grid is not None for domain in dependent.domains)
    learner = ConditionalLearner(
        tuple(Recipe("density", depth) for depth in (_DEPTHS if some_numbers else (0,))),
        width=width,
        n_jobs=n_jobs,
    )
    nameless = Domains(replace(domain, name=None) for domain in dependent.domains)
    deadline = np.inf if time_budget is None else started + time_budget
    table, _ = distinct_rows(replace(dependent, domains=nameless))
    until = deadline
    if trees and time_budget is not None:
        until = started + _NETWORKS * time_budget
    pool = learner.learn(table, n_members, seed, until)
    shares = pool.recipe_weights(table.weights)
    mixture = pool.circuit(shares)
    known = Circuit(domains=dependent.domains, **mixture.arrays())
    circuit = known if aside is None else aside.beside(known)
    folds = content_folds(table, learner.n_folds)

    def learn(n_trees: int) -> CellPredictor:
        cells = learn_cells(
            table, pool, shares, known, folds, n_trees=n_trees, seed=seed, deadline=deadline,
            n_jobs=n_jobs,
        )  # fmt: skip
        return cells if aside is None else cells.among(circuit, aside.rest)

    return circuit, domains, learn


def without_weightless(
    X: Any, weights: FloatArray | None
) -> tuple[Any, FloatArray | None, IntArray | slice]:
    """Leave out the rows of weight zero: a row that weighs nothing is no row.

    Returns the rows, their weights, and which they are.
    """
    if weights is None or weights.all():
        return X, weights, slice(None)
    kept = np.flatnonzero(weights > 0)
    left = weights[kept]
    return _safe_indexing(X, kept), None if np.all(left == 1.0) else left, kept


def as_wide(
    circuit: Circuit, codes: CodeArray, values: FloatArray | None
) -> tuple[CodeArray, FloatArray | None]:
    """Add what a circuit knows beyond the table's columns, gaps it was told of, as not observed."""
    more = len(circuit.domains) - codes.shape[1]
    if more == 0:
        return codes, values
    absent = np.full((len(codes), more), np.iinfo(codes.dtype).max, dtype=codes.dtype)
    if values is not None:
        values = np.hstack([values, np.full((len(codes), more), np.nan)])
    return np.hstack([codes, absent]), values


def posterior(
    circuit: Circuit,
    codes: CodeArray,
    column: int,
    n_jobs: int | None = None,
    values: FloatArray | None = None,
) -> FloatArray:
    """Probabilities of a column's states given the other columns, shape (n, K)."""
    blank = codes.copy()
    blank[:, column] = np.iinfo(codes.dtype).max
    lo, hi = circuit.domains.offsets[column : column + 2]
    found = np.empty((len(codes), hi - lo))
    # A part of the rows at a time: marginals are those of all columns.
    size = max(1, _MOST_HELD // int(circuit.domains.offsets[-1]))
    for begin in range(0, len(codes), size):
        some = slice(begin, begin + size)
        known = told(circuit, blank[some], None if values is None else values[some])
        found[some] = circuit.marginals(known, n_jobs=n_jobs)[:, lo:hi]
    return found


def told(circuit: Circuit, codes: CodeArray, values: FloatArray | None) -> CodeArray | Evidence:
    """What a circuit is told of rows: codes, and the numbers if some of its leaves read them."""
    return Evidence(codes, values=values) if circuit.has_normals else codes
