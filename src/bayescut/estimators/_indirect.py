"""ID-SPN with Bayesian leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayescut._jobs import count_jobs
from bayescut._progress import Advance, progress
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.estimators._held_out import HeldOutEstimator, Parts, all_rows, as_list
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    check_width,
    draw_seed,
)
from bayescut.learn.spn.compose import compose, em_step
from bayescut.learn.spn.hard_em import RowSplits, distinct_rows
from bayescut.learn.spn.indirect import IndirectLearner

# Steps of EM after which settings are compared, and steps without a better likelihood of held-out
# rows, by this part of it, after which EM ends.
_FIRST_STEPS = 5
_PATIENCE = 3
_TOLERANCE = 1e-5


class _Run:
    """A network of one setting, and EM on it as far as it has come."""

    def __init__(self, learner: IndirectLearner, data: _Data, em_ess: float) -> None:
        self.learner, self.data, self.em_ess = learner, data, em_ess
        root, mass, self.n_extensions = learner.grow(
            data.codes, data.sizes, data.weights, memory=data.memory, distinct=data.distinct
        )
        self.signature = root.signature()
        self.start = self.now = self.best = compose(root.piece(mass), data.domains)
        self.value = self.marked = self._held_out(self.best)
        self.step = self.n_iter = self.marked_at = 0

    def _held_out(self, circuit: Circuit) -> float:
        rows, mass = self.data.held_out
        if len(rows) == 0:
            return np.nan
        values = circuit.log_likelihood(rows, n_jobs=self.learner.n_jobs)
        return float(np.average(values, weights=mass))

    def advance(self, steps: int, told: Advance | None = None) -> None:
        """Take EM to a number of steps; the best circuit on held-out rows is kept, if any."""
        while self.step < steps and self.step - self.marked_at < _PATIENCE:
            rows, mass = self.data.distinct
            self.now = em_step(self.now, self.start, rows, mass, self.em_ess, self.learner.n_jobs)
            self.step += 1
            if told is not None:
                told(1)
            value = self._held_out(self.now)
            if np.isnan(value) or value > self.value:
                self.best, self.value, self.n_iter = self.now, value, self.step
            if np.isnan(value) or value > self.marked + _TOLERANCE * abs(self.marked):
                self.marked, self.marked_at = value, self.step


class _Data:
    """Rows to learn from, as EM and the learner want them."""

    def __init__(self, parts: Parts, domains: Domains) -> None:
        self.parts, self.domains = parts, domains
        self.codes = np.ascontiguousarray(parts.codes[parts.rows])
        self.weights = None if parts.weights is None else parts.weights[parts.rows]
        self.sizes = np.array(domains.n_states, dtype=np.int64)
        self.memory: dict[int, RowSplits] = {}

    @cached_property
    def distinct(self) -> tuple[CodeArray, FloatArray]:
        """Rows that differ, and the weight of each: what a step of EM costs depends on these."""
        return _distinct(self.codes, self.weights)

    @cached_property
    def held_out(self) -> tuple[CodeArray, FloatArray]:
        """Held-out rows that differ, and the weight of each."""
        return _distinct(self.parts.valid, self.parts.valid_weights)


def _distinct(codes: CodeArray, weights: FloatArray | None) -> tuple[CodeArray, FloatArray]:
    rows, place = distinct_rows(codes)
    return rows, np.bincount(place, weights, minlength=len(rows)).astype(np.float64)


class IDSPN(HeldOutEstimator):
    r"""ID-SPN with Bayesian leaves: clusters and groups on top, networks of many columns below.

    One leaf over everything is replaced by a product over groups of columns that share mutual
    information, each a sum over clusters of its rows, and so on for the leaf with most rows, while
    that pays [1]_. Clusters are found by hard EM of a naive Bayes mixture with a price on their
    number. The outer loop is that of the authors' program; its leaves, Markov networks whose
    weights take hours to optimise, are cutset networks over thin junction trees, learned by an
    exact score, with tables that shrink to the rows outside the leaf. At the end a few steps of EM
    fit all weights and tables together, which the original does not do.

    Parameters
    ----------
    max_clusters : int or list of int, default=(2, 5, 10, 20, 40)
        Most clusters of a sum (5 in the original); of a list the best on validation rows.
    cluster_penalty : float or list of float, default=0.2
        Price of a cluster and column, in units of the logarithm of the number of rows; of a list
        the best on validation rows.
    threshold : float, default=0.001
        Columns with more mutual information than this, in nats, are not separated.
    max_extensions : int, default=5
        Leaves that are tried to be replaced.
    min_columns, min_rows : int, default=10, 50
        Leaves of so many columns or rows or fewer are not replaced.
    accept : {"train", "score"}, default="train"
        Replace a leaf if the training likelihood does not fall (the root always, as in the
        original), or if the log marginal likelihood, clusters given, rises.
    width : int, default=8
        Most parents of a column in a leaf (validation of accidents, 5 clusters: 4 parents -27.26,
        6 -26.97, 8 -26.89, 12 the same as 8).
    cuts : bool, default=True
        Leaves may be cut; else they are single junction trees.
    ess : float, default=1.0
        Equivalent sample size of tables.
    max_iter : int, default=50
        Most steps of EM at the end; 0 for none. On validation rows the best step is kept, and of
        several settings only the one that is best after five steps goes on.
    em_ess : float, default=20.0
        Rows that the tables before EM are worth in it (validation of plants after the best of five
        steps: 1 row -12.755, 5 rows -12.751, 20 rows -12.747).
    n_init : int, default=3
        Networks learned for each setting, from different first labels (validation of accidents with
        2 clusters: -26.70, -26.92, -26.70, -26.95, -26.86).
    validation_fraction : float, default=0.1
        Part of the rows that choose among several ``max_clusters`` if `fit` is given no
        ``X_valid``. The chosen setting is then learned again from all rows.
    random_state : int, Generator or None, default=None
        Source of the first labels of every clustering.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: smooth and decomposable.
    max_clusters_, cluster_penalty_ : int, float
        The chosen settings.
    n_extensions_ : int
        Leaves that were replaced.
    n_iter_ : int
        Steps of EM that were kept.
    validation_scores_ : list of dict
        Settings that were tried, with the mean log-likelihood of the held-out rows after the first
        steps of EM.
    n_parameters_ : int
        Number of independent parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] A. Rooshenas, D. Lowd. Learning sum-product networks with direct and indirect variable
       interactions. ICML 2014.

    Examples
    --------
    >>> from bayescut.estimators import IDSPN
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = IDSPN(max_clusters=5, random_state=0).fit(X)
    >>> round(model.score(X), 1)
    -1.1
    """

    _state_names = (
        "max_clusters_", "cluster_penalty_", "n_extensions_", "n_iter_", "validation_scores_",
    )  # fmt: skip

    max_clusters_: int
    cluster_penalty_: float
    n_extensions_: int
    n_iter_: int
    validation_scores_: list[dict[str, float]]

    def __init__(
        self,
        max_clusters: int | Sequence[int] = (2, 5, 10, 20, 40),
        *,
        cluster_penalty: float | Sequence[float] = 0.2,
        threshold: float = 0.001,
        max_extensions: int = 5,
        min_columns: int = 10,
        min_rows: int = 50,
        accept: Literal["train", "score"] = "train",
        width: int = 8,
        cuts: bool = True,
        ess: float = 1.0,
        max_iter: int = 50,
        em_ess: float = 20.0,
        n_init: int = 3,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.max_clusters = max_clusters
        self.cluster_penalty = cluster_penalty
        self.threshold = threshold
        self.max_extensions = max_extensions
        self.min_columns = min_columns
        self.min_rows = min_rows
        self.accept = accept
        self.width = width
        self.cuts = cuts
        self.ess = ess
        self.max_iter = max_iter
        self.em_ess = em_ess
        self.n_init = n_init
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, table: Table) -> Circuit:
        learners = self._learners()
        max_iter = check_count("max_iter", self.max_iter, low=0)
        em_ess = check_number("em_ess", self.em_ess, strict=True)
        given = self._given_parts(table)
        self.validation_scores_ = []
        learner = learners[0]
        if given is not None or len(learners) > 1:
            parts = given or self._drawn_parts(table, learner.seed)
            run = self._choose(learners, _Data(parts, table.domains), em_ess, max_iter)
            learner, max_iter = run.learner, run.n_iter
        if given is None:  # learn from all rows
            run = _Run(learner, _Data(all_rows(table), table.domains), em_ess)
            with progress(type(self).__name__, max_iter, self.verbose) as advance:
                run.advance(max_iter, advance)
        self.max_clusters_ = run.learner.max_clusters
        self.cluster_penalty_ = run.learner.cluster_penalty
        self.n_extensions_ = run.n_extensions
        self.n_iter_ = run.n_iter
        return run.best

    def _choose(
        self, learners: list[IndirectLearner], data: _Data, em_ess: float, max_iter: int
    ) -> _Run:
        """Learn every setting; the best after the first steps of EM on held-out rows goes on."""
        best: _Run | None = None
        seen: dict[int, float] = {}
        name = type(self).__name__
        with progress(f"{name}: choosing", len(learners), self.verbose) as advance:
            for learner in learners:
                run = _Run(learner, data, em_ess)
                if run.signature not in seen:  # most settings choose the same clusters
                    run.advance(min(_FIRST_STEPS, max_iter))
                    seen[run.signature] = run.value
                    if best is None or run.value > best.value:
                        best = run
                self.validation_scores_.append({
                    "max_clusters": learner.max_clusters,
                    "cluster_penalty": learner.cluster_penalty,
                    "seed": learner.seed,
                    "score": seen[run.signature],
                })  # fmt: skip
                advance(1)
        assert best is not None
        with progress(name, max_iter, self.verbose) as advance:
            best.advance(max_iter, advance)
        return best

    def _learners(self) -> list[IndirectLearner]:
        """One for each setting."""
        shared = self._learner()
        most = [
            check_count("max_clusters", int(k) if k == int(k) else k, low=2)
            for k in as_list("max_clusters", self.max_clusters)
        ]
        return [
            replace(shared, max_clusters=k, cluster_penalty=p, seed=seed)
            for seed in range(shared.seed, shared.seed + check_count("n_init", self.n_init))
            for p in as_list("cluster_penalty", self.cluster_penalty)
            for k in most
        ]

    def _learner(self) -> IndirectLearner:
        check_choice("accept", self.accept, ("train", "score"))
        return IndirectLearner(
            threshold=check_number("threshold", self.threshold),
            max_extensions=check_count("max_extensions", self.max_extensions, low=0),
            min_columns=check_count("min_columns", self.min_columns, low=0),
            min_rows=check_count("min_rows", self.min_rows, low=0),
            accept=self.accept,
            width=check_width("width", self.width),
            cuts=bool(self.cuts),
            ess=check_number("ess", self.ess, strict=True),
            seed=draw_seed(self.random_state),
            n_jobs=count_jobs(self.n_jobs),
        )
