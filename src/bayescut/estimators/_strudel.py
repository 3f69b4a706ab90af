"""Strudel: structured decomposable, deterministic circuits by splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.estimators._held_out import HeldOutEstimator, all_rows, one_or_more
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    draw_seed,
)
from bayescut.learn.mixture.start import KMeansStart
from bayescut.learn.strudel.freeze import freeze_mixture, freeze_sketch
from bayescut.learn.strudel.grow import Growth, StrudelLearner
from bayescut.learn.strudel.mixture import Mixed, find_used, run_em


class Strudel(HeldOutEstimator):
    r"""Strudel: a Chow-Liu tree as a structured circuit, grown by splits.

    The branch of an OR that most training rows use is split on the column of most mutual
    information with the others below it: it is replaced by copies conditioned on the column's
    states, which share all that does not mention the column. Weights are
    :math:`(n_e + 1/c) / (n + 1)` for an OR of c branches [1]_. There is no randomness. Circuits are
    smooth, deterministic and structured decomposable: every exact query applies, and two of them
    over one vtree can be multiplied.

    With validation rows growth ends when they have not become more probable for ``patience`` splits
    and the best circuit is kept. With ``criterion="bd"`` no validation rows are needed: of the
    circuits on the way the one with the largest Bayes-Dirichlet score is kept. (Making only splits
    that raise the score at once is worse: a split often pays by what it lets others do. Validation
    of nltcs -6.02 instead of -6.09, of accidents -29.24 instead of -30.36.)

    A mixture (``n_components``) has one structure and a set of weights for each component, learned
    by EM from k-means clusters.

    Parameters
    ----------
    max_splits : int, default=5000
        Most splits.
    patience : int or None, default=100
        Splits without a better likelihood of ``X_valid``, or a better score, after which growth
        ends; None goes on to ``max_splits`` and keeps the best circuit.
    criterion : {"likelihood", "bd"}, default="likelihood"
        What judges circuits: the likelihood of validation rows, or the Bayes-Dirichlet score.
    n_components : int or list of int, default=1
        Components of a mixture over the structure; of a list, the number with the best likelihood
        of the validation rows. From the smallest on, until one is worse than the one before.
    mixture_splits : int, None or list of these, default=(0, 100, None)
        Splits of the structure of a mixture: at most so many, or all that were kept (None); of
        several the best on validation rows. Mixtures want simpler structures than single circuits
        (validation of nltcs: -5.956 with 99 splits and 40 components, -5.975 with 1181 and 5; of
        dna: -86.27 with none and -87.66 with 92, 5 components each). Without validation rows the
        first is taken.
    pseudocount : float, default=1.0
        Smoothing of the weights of an OR, divided among its branches.
    ess : float, default=1.0
        Equivalent sample size of an OR in the Bayes-Dirichlet score.
    max_nodes : int or None, default=150000
        Circuits of so many nodes are not split any more; literals and ORs of one branch count.
    max_iter, tol : int, float, default=300, 1e-5
        Most steps of EM. It ends when a step raises the mean log-likelihood by less than ``tol``
        times its size, or, with validation rows, five steps do so for theirs (validation of
        pumsb_star with 400 splits and 20 components: -25.24 with 1e-4, -25.14 with 1e-5).
    validation_fraction : float, default=0.1
        Part of the rows held out to decide when to stop, if `fit` is given no ``X_valid`` and the
        criterion is the likelihood.
    random_state : int, Generator or None, default=None
        Source of the rows that are held out and of k-means; nothing else is random.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit.
    n_splits_ : int
        Splits of its structure.
    n_nodes_ : int
        Nodes of the structure as the original counts them: literals, ORs of one branch included.
    learning_curve_ : dict of float64 arrays
        Mean log-likelihood ``train`` and ``valid`` (0 without such rows), and ``score``, after
        each split that was tried beyond those kept too.
    n_components_ : int
        Components of the mixture.
    validation_scores_ : dict
        Likelihood of the validation rows for each number of components.
    n_parameters_ : int
        Number of independent parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] M. Dang, A. Vergari, G. Van den Broeck. Strudel: learning structured-decomposable
       probabilistic circuits. PGM 2020.

    Examples
    --------
    >>> from bayescut.estimators import Strudel
    >>> X = [[0, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 0]] * 25
    >>> model = Strudel(max_splits=20).fit(X, X_valid=X)
    >>> round(model.score(X), 1)
    -1.4
    >>> properties = model.circuit_.properties
    >>> properties.deterministic, properties.structured_decomposable
    (True, True)
    """

    _state_names = (
        "n_splits_", "n_nodes_", "learning_curve_", "n_components_", "validation_scores_",
    )  # fmt: skip

    n_splits_: int
    n_nodes_: int
    learning_curve_: dict[str, FloatArray]
    n_components_: int
    validation_scores_: dict[int, float]

    def __init__(
        self,
        max_splits: int = 5000,
        patience: int | None = 100,
        *,
        criterion: Literal["likelihood", "bd"] = "likelihood",
        n_components: int | Sequence[int] = 1,
        mixture_splits: int | Sequence[int | None] | None = (0, 100, None),
        pseudocount: float = 1.0,
        ess: float = 1.0,
        max_nodes: int | None = 150_000,
        max_iter: int = 300,
        tol: float = 1e-5,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.max_splits = max_splits
        self.patience = patience
        self.criterion = criterion
        self.n_components = n_components
        self.mixture_splits = mixture_splits
        self.pseudocount = pseudocount
        self.ess = ess
        self.max_nodes = max_nodes
        self.max_iter = max_iter
        self.tol = tol
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
        learner = self._learner()
        components = self._components()
        sizes_to_try = self._mixture_splits()
        check_count("max_iter", self.max_iter, low=0)
        check_number("tol", self.tol)
        seed = draw_seed(self.random_state)
        parts = self._given_parts(table)
        drawn = parts is None and (not learner.by_score or len(components) > 1)
        if drawn and learner.max_splits > 0:
            parts = self._drawn_parts(table, seed)
        codes, rows, weights, valid, valid_weights = parts or all_rows(table)
        with progress(type(self).__name__, learner.max_splits, self.verbose) as advance:
            growth = learner.grow(
                codes, domains.n_states, weights, rows=rows, valid=valid if len(valid) else None,
                valid_weights=valid_weights, told=advance,
            )  # fmt: skip
        steps = [*growth.splits, *growth.later]
        self.learning_curve_ = {
            name: np.array([getattr(step, name) for step in steps], dtype=np.float64)
            for name in ("train", "valid", "score")
        }
        return self._mix(growth, components, sizes_to_try, domains, seed)

    def _learner(self) -> StrudelLearner:
        check_choice("criterion", self.criterion, ("likelihood", "bd"))
        most = self.max_nodes
        return StrudelLearner(
            pseudocount=check_number("pseudocount", self.pseudocount, strict=True),
            ess=check_number("ess", self.ess, strict=True),
            max_splits=check_count("max_splits", self.max_splits, low=0),
            max_nodes=None if most is None else check_count("max_nodes", most),
            patience=None if self.patience is None else check_count("patience", self.patience),
            by_score=self.criterion == "bd",
        )

    def _components(self) -> list[int]:
        sizes = one_or_more("n_components", self.n_components)
        return [check_count("n_components", size) for size in sizes]

    def _mixture_splits(self) -> list[int | None]:
        sizes = one_or_more("mixture_splits", self.mixture_splits)
        return [None if k is None else check_count("mixture_splits", k, low=0) for k in sizes]

    def _mix(
        self,
        growth: Growth,
        components: list[int],
        n_splits: list[int | None],
        domains: Domains,
        seed: int,
    ) -> Circuit:
        """Make a mixture of the structure, or its one circuit, whichever is best."""
        whole = len(growth.splits)
        self.validation_scores_ = {}
        best: tuple[float, int, Mixed | None] | None = None
        if 1 in components:
            best = growth.valid_mean, whole, None
            if growth.mass[1] > 0:
                self.validation_scores_[1] = growth.valid_mean
        mixtures = sorted(size for size in components if size > 1)
        sizes = [whole if k is None else min(k, whole) for k in n_splits]
        if growth.mass[1] == 0:
            sizes = sizes[:1]
        if mixtures:
            start = KMeansStart(Table(growth.train, domains, growth.weights), max(mixtures))
        # The longest first: fewer splits are made anew from the start.
        for k in sorted(set(sizes), reverse=True) if mixtures else []:
            if k < len(growth.splits):
                growth.replay(k)
            used = find_used(growth)
            before = -np.inf
            for size in mixtures:
                name = f"{type(self).__name__}: {size} components"
                with progress(name, self.max_iter + 1, self.verbose) as advance:
                    mixed = run_em(
                        growth, start.labels(size, seed), used, max_iter=self.max_iter,
                        tol=self.tol, patience=5, n_jobs=count_jobs(self.n_jobs), told=advance,
                    )  # fmt: skip
                value = max(mixed.valid, default=0.0)
                if growth.mass[1] > 0:
                    known = self.validation_scores_.get(size, -np.inf)
                    self.validation_scores_[size] = max(known, value)
                if best is None or value > best[0]:
                    best = value, k, mixed
                if value < before:
                    break
                before = value
        assert best is not None
        if best[1] != len(growth.splits):
            growth.replay(best[1])
        sketch = growth.sketch
        self.n_splits_ = best[1]
        self.n_nodes_ = growth.n_nodes
        if best[2] is None:
            self.n_components_ = 1
            n_edges = int(sketch.used[1])
            weights = growth.weights_of(sketch.counts[:n_edges, 0].copy())
            return freeze_sketch(sketch, weights, domains)
        shares, weights = best[2].shares, best[2].weights
        alive = np.flatnonzero(shares > 0)
        self.n_components_ = len(alive)
        shares = shares[alive] / shares[alive].sum()
        return freeze_mixture(sketch, shares, np.ascontiguousarray(weights[:, alive]), domains)
