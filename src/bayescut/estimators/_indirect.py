"""ID-SPN with Bayesian leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.estimators._held_out import HeldOutEstimator, Parts, as_list, learning_rows
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    check_width,
    draw_seed,
)
from bayescut.learn.spn.compose import compose, em_step
from bayescut.learn.spn.indirect import IndirectLearner


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
    max_clusters : int or list of int, default=(5, 10, 20)
        Most clusters of a sum (5 in the original); of a list the best on validation rows.
    cluster_penalty : float, default=0.2
        Price of a cluster and column, in units of the logarithm of the number of rows.
    threshold : float, default=0.001
        Columns with more mutual information than this, in nats, are not separated.
    max_extensions : int, default=5
        Leaves that are tried to be replaced.
    min_columns, min_rows : int, default=10, 50
        Leaves of so many columns or rows or fewer are not replaced.
    accept : {"train", "score"}, default="train"
        Replace a leaf if the training likelihood does not fall (the root always, as in the
        original), or if the log marginal likelihood, clusters given, rises.
    width : int, default=4
        Most parents of a column in a leaf.
    cuts : bool, default=True
        Leaves may be cut; else they are single junction trees.
    ess : float, default=1.0
        Equivalent sample size of tables.
    max_iter : int, default=10
        Most steps of EM at the end; 0 for none. On validation rows the best step is kept.
    em_ess : float, default=20.0
        Rows that the tables before EM are worth in it (validation of plants after the best of five
        steps: 1 row -12.755, 5 rows -12.751, 20 rows -12.747).
    validation_fraction : float, default=0.1
        Part of the rows that choose among several ``max_clusters`` if `fit` is given no
        ``X_valid``. The chosen setting is then learned again from all rows.
    random_state : int, Generator or None, default=None
        Source of the first labels of every clustering.
    n_states : int, array-like of int or None, default=None
        Least number of states of every column of codes; None: what the training table shows, two
        at least.
    columns, missing
        See `CNetBD`.
    unseen : {"error", "missing"}, default="error"
        What queries do with values that training did not show: refuse the table, or take such
        cells as not observed.
    n_jobs : int or None, default=-1
        Threads; -1 uses all cores. The result does not depend on it.
    verbose : int, default=0
        Show a progress bar if positive.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: smooth and decomposable.
    max_clusters_ : int
        The chosen number.
    n_extensions_ : int
        Leaves that were replaced.
    n_iter_ : int
        Steps of EM that were kept.
    validation_scores_ : dict
        Likelihood of the validation rows for each number of clusters.
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

    _state_names = ("max_clusters_", "n_extensions_", "n_iter_", "validation_scores_")

    max_clusters_: int
    n_extensions_: int
    n_iter_: int
    validation_scores_: dict[int, float]

    def __init__(
        self,
        max_clusters: int | Sequence[int] = (5, 10, 20),
        *,
        cluster_penalty: float = 0.2,
        threshold: float = 0.001,
        max_extensions: int = 5,
        min_columns: int = 10,
        min_rows: int = 50,
        accept: Literal["train", "score"] = "train",
        width: int = 4,
        cuts: bool = True,
        ess: float = 1.0,
        max_iter: int = 10,
        em_ess: float = 20.0,
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
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, table: Table) -> Circuit:
        codes, domains = table.codes, table.domains
        learner = self._learner()
        most = [check_count("max_clusters", int(k), low=2) for k in self._asked()]
        max_iter = check_count("max_iter", self.max_iter, low=0)
        given = self._given_parts(table)
        self.validation_scores_ = {}
        if given is None and len(most) == 1:
            rows, weights = learning_rows(table)
            parts = Parts(codes, rows, weights, codes[:0], None)
            return self._run(replace(learner, max_clusters=most[0]), parts, domains, max_iter)[1]
        parts = given or self._drawn_parts(table, learner.seed)
        best: tuple[float, Circuit, dict[str, int]] | None = None
        for k in most:
            value, circuit = self._run(replace(learner, max_clusters=k), parts, domains, max_iter)
            self.validation_scores_[k] = value
            if best is None or value > best[0]:
                kept = (self.max_clusters_, self.n_extensions_, self.n_iter_)
                names = ("max_clusters_", "n_extensions_", "n_iter_")
                best = value, circuit, dict(zip(names, kept, strict=True))
        assert best is not None
        for name, number in best[2].items():
            setattr(self, name, number)
        if given is not None:
            return best[1]
        rows, weights = learning_rows(table)
        parts = Parts(codes, rows, weights, codes[:0], None)
        learner = replace(learner, max_clusters=self.max_clusters_)
        return self._run(learner, parts, domains, self.n_iter_)[1]

    def _asked(self) -> list[float]:
        return as_list("max_clusters", self.max_clusters)

    def _learner(self) -> IndirectLearner:
        check_choice("accept", self.accept, ("train", "score"))
        return IndirectLearner(
            cluster_penalty=check_number("cluster_penalty", self.cluster_penalty),
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

    def _run(
        self, learner: IndirectLearner, parts: Parts, domains: Domains, max_iter: int
    ) -> tuple[float, Circuit]:
        """Learn with one setting; returns the value on held-out rows, if there are any."""
        codes = np.ascontiguousarray(parts.codes[parts.rows])
        weights = None if parts.weights is None else parts.weights[parts.rows]
        sizes = np.array(domains.n_states, dtype=np.int64)
        em_ess = check_number("em_ess", self.em_ess, strict=True)
        name = type(self).__name__
        with progress(name, learner.max_extensions + max_iter, self.verbose) as advance:
            root, mass, kept = learner.grow(codes, sizes, weights, advance)
            start = best = circuit = compose(root.piece(mass), domains)
            self.max_clusters_ = learner.max_clusters
            self.n_extensions_ = kept
            self.n_iter_ = 0

            def held_out(model: Circuit) -> float:
                if len(parts.valid) == 0:
                    return np.nan
                return parts.mean(model.log_likelihood(parts.valid, n_jobs=learner.n_jobs))

            value = held_out(circuit)
            for step in range(1, max_iter + 1):
                circuit = em_step(circuit, start, codes, weights, em_ess, learner.n_jobs)
                advance(1)
                now = held_out(circuit)
                if np.isnan(now):
                    best, self.n_iter_ = circuit, step
                elif now > value:
                    best, value, self.n_iter_ = circuit, now, step
                elif step - self.n_iter_ >= 3:
                    break
        return value, best
