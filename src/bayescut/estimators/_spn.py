"""Sum-product networks learned from the top down."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayescut._jobs import count_jobs
from bayescut._progress import Advance, progress
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.estimators._held_out import HeldOutEstimator, Parts, all_rows, as_list
from bayescut.estimators._validation import check_count, draw_seed
from bayescut.learn.spn.grow import Grown, SPNLearner
from bayescut.learn.spn.settle import freeze_spn, leaf_logs, score_rows


class _Choice(NamedTuple):
    """A structure with its settings and its value on held-out rows."""

    value: float
    learner: SPNLearner
    alpha: float
    grown: Grown


class LearnSPN(HeldOutEstimator):
    r"""LearnSPN: a tree of sums over clusters of rows and products over groups of columns.

    From the top down, columns that pass a test of pairwise independence are separated (a product,
    `bayescut.learn.spn.independence`); where all hang together the rows are clustered by a naive
    Bayes mixture with a price on clusters (a sum, `bayescut.learn.spn.clusters`); a column alone
    has a smoothed frequency table, :math:`(n_x + \alpha) / (n + K \alpha)`. Weights of sums are
    shares of rows. Algorithm and settings are those of the authors' program [1]_; grid, restarts
    and the price that stays halved once a restart ended with one cluster too.

    The published numbers of the original are not exact likelihoods of its networks: its program
    approximates the exponential function (a factor 0.971 at 1) and divides every sum by 1.01, which
    costs a row 0.04 nats at each sum that it passes. Here likelihoods are exact, hence higher:
    plants -12.86 instead of -12.98 for one setting.

    Parameters
    ----------
    cluster_penalty : float or list of float, default=(0.2, 0.4, 0.6, 0.8)
        Price of a cluster for each column.
    g_factor : float or list of float, default=(10, 15)
        Two columns are dependent if the G-statistic is at least twice this for each degree of
        freedom.
    alpha : float or list of float, default=(2, 1, 1/2, ..., 1/32)
        Pseudo-count of every state in the tables of single columns, greater than 0.
    min_rows : int, default=4
        In this many rows or fewer all columns are taken as independent.
    n_restarts : int, default=10
        Restarts of every clustering; the best is taken.
    max_clusters : int, default=2000
        Most clusters of one clustering.
    reset_price : bool, default=False
        Begin every restart with the full price of a cluster. In the original a price that was
        halved stays halved for the later restarts, which makes results vary much between seeds
        where one cluster is nearly enough (dna: by 7 nats).
    n_init : int, default=4
        Where rows are held out to choose on, structures that are learned with the chosen setting,
        from different seeds; the best is kept. One start is worth little: four with one setting
        have -56.90, -56.49, -56.71 and -56.65 on the validation rows of tmovie.
    validation_fraction : float, default=0.1
        Part of the rows that choose among settings if `fit` is given no ``X_valid``. The chosen
        settings are then learned again from all rows.
    random_state : int, Generator or None, default=None
        Source of the orders in which rows are clustered.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: smooth and decomposable, not deterministic.
    cluster_penalty_, g_factor_, alpha_ : float
        The chosen settings.
    validation_scores_ : list of dict
        Settings that were tried, with their mean log-likelihood on the held-out rows.
    n_nodes_ : int
        Nodes of the network as the literature counts them, every column of a leaf one.
    n_parameters_ : int
        Number of independent parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] R. Gens, P. Domingos. Learning the structure of sum-product networks. ICML 2013.

    Examples
    --------
    >>> from bayescut.estimators import LearnSPN
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = LearnSPN(random_state=0).fit(X)
    >>> round(model.score(X), 1)
    -1.1
    """

    _state_names = (
        "cluster_penalty_", "g_factor_", "alpha_", "validation_scores_", "n_nodes_",
    )  # fmt: skip

    cluster_penalty_: float
    g_factor_: float
    alpha_: float
    validation_scores_: list[dict[str, float]]
    n_nodes_: int

    def __init__(
        self,
        cluster_penalty: float | Sequence[float] = (0.2, 0.4, 0.6, 0.8),
        g_factor: float | Sequence[float] = (10.0, 15.0),
        alpha: float | Sequence[float] = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125),
        *,
        min_rows: int = 4,
        n_restarts: int = 10,
        max_clusters: int = 2000,
        reset_price: bool = False,
        n_init: int = 4,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.cluster_penalty = cluster_penalty
        self.g_factor = g_factor
        self.alpha = alpha
        self.min_rows = min_rows
        self.n_restarts = n_restarts
        self.max_clusters = max_clusters
        self.reset_price = reset_price
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
        domains = table.domains
        seed = draw_seed(self.random_state)
        learners = self._learners(seed)
        n_init = check_count("n_init", self.n_init)
        factors = as_list("g_factor", self.g_factor)
        alphas = as_list("alpha", self.alpha, strict=True)
        n_jobs = count_jobs(self.n_jobs)
        parts = self._given_parts(table)
        several = len(learners) * len(factors) * len(alphas) > 1
        several = several or (parts is not None and n_init > 1)
        if parts is not None and not several:
            raise ValueError(
                "X_valid has rows to choose settings on, but there is one of each: give lists of "
                "cluster_penalty, g_factor or alpha, more starts (n_init), or these rows as part "
                "of X"
            )
        self.validation_scores_ = []
        choice: _Choice | None = None
        if several:
            held = parts or self._drawn_parts(table, seed)
            choice = self._choose(learners, factors, alphas, held, domains, n_jobs)
            again = [replace(choice.learner, seed=seed + start) for start in range(1, n_init)]
            if again:
                factors = [choice.learner.g_factor]
                other = self._choose(again, factors, alphas, held, domains, n_jobs)
                choice = max(choice, other, key=lambda found: found.value)
        if parts is None:  # learn from all rows
            learner = replace(learners[0], g_factor=factors[0])
            alpha = alphas[0]
            if choice is not None:
                learner, alpha = choice.learner, choice.alpha
            codes, rows, weights, _, _ = all_rows(table)
            with progress(type(self).__name__, len(rows), self.verbose) as advance:
                grown = learner.grow(
                    codes, domains.n_states, weights, rows=rows, n_jobs=n_jobs, settled=advance
                )
            choice = _Choice(np.nan, learner, alpha, grown)
        assert choice is not None
        self.cluster_penalty_ = choice.learner.cluster_penalty
        self.g_factor_ = choice.learner.g_factor
        self.alpha_ = choice.alpha
        self.n_nodes_ = choice.grown.n_nodes
        logs = leaf_logs(choice.grown, domains.n_states, choice.alpha)
        return freeze_spn(choice.grown, logs, domains)

    def _learners(self, seed: int) -> list[SPNLearner]:
        """Settings that each need clusters of the root of their own."""
        shared = SPNLearner(
            min_rows=check_count("min_rows", self.min_rows, low=0),
            n_restarts=check_count("n_restarts", self.n_restarts),
            max_clusters=check_count("max_clusters", self.max_clusters, low=2),
            reset_price=bool(self.reset_price),
        )
        return [
            replace(shared, cluster_penalty=penalty, seed=seed)
            for penalty in as_list("cluster_penalty", self.cluster_penalty)
        ]

    def _choose(
        self,
        learners: list[SPNLearner],
        factors: list[float],
        alphas: list[float],
        parts: Parts,
        domains: Domains,
        n_jobs: int,
    ) -> _Choice:
        """Learn every setting; the best on the held-out rows is kept."""
        sizes = np.array(domains.n_states, dtype=np.int64)
        none = np.empty(0)
        inner_jobs = n_jobs if len(learners) < n_jobs else 1
        tell: list[Advance] = []

        def work(learner: SPNLearner) -> tuple[_Choice, list[dict[str, float]]]:
            codes, rows, weights, valid, _ = parts
            weight = none if weights is None else weights
            clusters = None
            if codes.shape[1] > 1 and len(rows) > 1:
                clusters = learner.root_labels(codes, rows, sizes, weight, inner_jobs)
            best: _Choice | None = None
            tried = []
            for factor in factors:
                own = replace(learner, g_factor=factor)
                grown = own.grow(
                    codes, sizes, weights, rows=rows, clusters=clusters, n_jobs=inner_jobs
                )
                for alpha in alphas:
                    logs = leaf_logs(grown, sizes, alpha)
                    value = parts.mean(score_rows(grown, sizes, logs, valid))
                    tried.append({
                        "cluster_penalty": own.cluster_penalty, "g_factor": factor,
                        "alpha": alpha, "seed": own.seed, "score": value,
                    })  # fmt: skip
                    if best is None or value > best.value:
                        best = _Choice(value, own, alpha, grown)
                tell[0](1)
            assert best is not None
            return best, tried

        choices = []
        total = len(learners) * len(factors)
        with progress(f"{type(self).__name__}: choosing", total, self.verbose) as advance:
            tell.append(advance)
            with ThreadPoolExecutor(n_jobs) as executor:
                for choice, tried in executor.map(work, learners):
                    choices.append(choice)
                    self.validation_scores_ += tried
        return max(choices, key=lambda choice: choice.value)
