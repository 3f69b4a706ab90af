"""Mixtures of cutset networks."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bayescut._jobs import count_jobs
from bayescut._progress import Advance, progress
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._kinds import SUM
from bayescut.data import Domains, encode_table
from bayescut.data.table import Table
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._compress import Compressible
from bayescut.estimators._cutset import CutsetNetwork
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_width,
    draw_seed,
)
from bayescut.exceptions import DataError
from bayescut.files import save
from bayescut.learn.components import ComponentLearner
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.learn.leaves.normal import smooth_columns, with_numbers
from bayescut.learn.leaves.spare import with_spare
from bayescut.learn.mixture.em import (
    Iteration,
    StructuralEM,
    converge,
    evidence_of,
    responsibilities,
)
from bayescut.learn.mixture.gaussian import NormalLearner
from bayescut.learn.mixture.shared import SharedLearner
from bayescut.learn.mixture.start import KMeansStart
from bayescut.scores.base import BayesDirichlet, Score
from bayescut.scores.prior import StructurePrior

# Fewer rows hardly tell which structure is better, or whether Gaussians are better than cells.
_ROWS_TO_CHOOSE = 50


class CutsetMixture(Compressible):
    r"""Mixture of cutset networks by structural EM.

    .. math:: p(x) = \sum_k a_k \, p(x \mid G_k)

    Rows are shared out to the components by their responsibilities; every step relearns each
    component from its (fractional) rows by an exact score [1]_, [2]_. Tables of a component lean on
    the rows outside it by as much as their likelihood asks for.

    Parameters
    ----------
    n_components : int or list of int, default=10
        Number of components. Of a list, the one with the best log-likelihood on held-out rows is
        chosen, and its mixture goes on with all rows.
    structure : {"auto", "own", "shared", "cnetbd"}, default="auto"
        ``own``: every component is a `CutsetNetwork`, its structure relearned in every step.
        ``shared``: all have the same thin junction tree, learned once, and tables of their own.
        ``auto`` takes the one with the better log-likelihood on held-out rows, ``own`` if there are
        less than 50 rows. ``cnetbd``: every component is a `CNetBD`, as in the paper (see
        `EMCNetBD`).
    ess : float, default=1.0
        Equivalent sample size.
    width : int, default=6
        Most parents of a column in a leaf; ``cnetbd`` has trees.
    n_candidates : int or None, default=10
        Columns tried as cuts; None tries all.
    gaussian : bool, default=True
        Let the smooth numbers of all components be jointly Gaussian, beside networks of the other
        columns, if that has the better log-likelihood on held-out rows; for tables with two such
        numbers and 50 rows. ``False`` has cells everywhere.
    assignment : {"soft", "sampled"}, default="soft"
        ``soft`` is EM with fractional rows. ``sampled`` draws a component for each row: counts stay
        whole numbers and a step costs about as much as one network, whatever the number of
        components.
    max_iter : int, default=100
        Most steps.
    tol : float, default=1e-4
        A step that raises the mean log-likelihood by less than this part of it counts as idle.
    patience : int, default=3
        Idle steps in a row that end the run.
    n_init : int, default=1
        Number of starts, each from k-means among the leading principal components of the rows (30,
        or one for every five components; all columns if there are no more). The best result is
        kept: that of the largest training log-likelihood, or of the best on held-out rows if
        ``n_components`` is a list.
    validation_fraction : float, default=0.1
        Part of the rows held out to choose from a list of ``n_components``, the structure, and how
        to take numbers, unless `fit` is given ``X_valid``.
    warm_start : bool, default=False
        Go on from the previous result at the next `fit`.
    checkpoint : path or None, default=None
        File to which the model is saved after every step. If it exists, `fit` goes on from it.
    random_state : int, Generator or None, default=None
        Seed of the start and of sampled assignments.
    identifiers, n_states, columns, missing, unseen, n_jobs, verbose
        See `CutsetNetwork`.

    Attributes
    ----------
    circuit_ : Circuit
        The mixture as one circuit.
    structure_ : str
        What the components are: ``"own"``, ``"shared"`` or ``"cnetbd"``.
    n_components_ : int
        Number of components; fewer than asked for if some ended up with less than one row.
    weights_ : float64 array
        Their weights.
    lower_bounds_ : list of float
        Mean training log-likelihood after each step. Densities of numbers within their cells, the
        same for all mixtures, are left out, here and in ``validation_scores_``.
    lower_bound_ : float
        The last of them. A mixture has no marginal likelihood in closed form, and no
        ``structure_score_``.
    converged_ : bool
    n_iter_ : int
    validation_scores_ : dict
        Held-out log-likelihood of each number of components that was tried.
    dropped_ : float
        Largest part of the training weight that a component lost because shares below 1e-4 of a
        row are skipped.
    n_parameters_ : int

    References
    ----------
    .. [1] N. Friedman. The Bayesian structural EM algorithm. UAI 1998.
    .. [2] Y. Yang, G. Gala, R. Peharz. Bayesian structure scores for probabilistic circuits.
       AISTATS 2023.

    Examples
    --------
    >>> from bayescut import CutsetMixture
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = CutsetMixture(n_components=2, random_state=0).fit(X)
    >>> model.n_components_
    2
    >>> round(float(model.predict_proba(X[:1]).sum()), 6)
    1.0
    """

    _state_names = (
        "lower_bounds_",
        "converged_",
        "n_iter_",
        "validation_scores_",
        "dropped_",
        "seed_",
        "structure_",
    )

    _one_completion = True
    _may_change = (
        *CircuitEstimator._may_change, "max_iter", "patience", "tol", "warm_start",
    )  # fmt: skip

    lower_bounds_: list[float]
    converged_: bool
    n_iter_: int
    validation_scores_: dict[int, float]
    dropped_: float
    seed_: int
    structure_: str

    def __init__(
        self,
        n_components: int | Sequence[int] = 10,
        *,
        structure: Literal["auto", "own", "shared", "cnetbd"] = "auto",
        ess: float = 1.0,
        width: int = 6,
        n_candidates: int | None = 10,
        gaussian: bool = True,
        assignment: Literal["soft", "sampled"] = "soft",
        max_iter: int = 100,
        tol: float = 1e-4,
        patience: int = 3,
        n_init: int = 1,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        identifiers: str = "independent",
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.structure = structure
        self.ess = ess
        self.width = width
        self.n_candidates = n_candidates
        self.gaussian = gaussian
        self.assignment = assignment
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.n_init = n_init
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.identifiers = identifiers
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, X_valid: Any = None
    ) -> CutsetMixture:
        """Learn a mixture from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows, as `CutsetNetwork` takes them; cells may be missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights.
        X_valid : array-like or DataFrame, optional
            Complete rows on which the number of components is chosen from a list, as well as what
            else rows choose. The chosen mixture goes on with ``X`` and ``X_valid`` together.
            Refused if there is nothing to choose: one number of components and one ``structure``
            without ``gaussian``.

        Returns
        -------
        self
        """
        self._valid = X_valid
        try:
            super().fit(X, y, sample_weight)
        finally:
            del self._valid
        return self

    def predict_proba(self, X: Any, target: str | int | None = None) -> FloatArray:
        """Responsibility of each component for each row; missing cells are marginalised.

        With a ``target``, the probabilities of that column's states.

        Returns
        -------
        float64 array of shape (n_rows, n_components_)
        """
        if target is not None:
            return super().predict_proba(X, target)
        given = self._table(X)
        return responsibilities(self.circuit_, given.evidence, self._threads()).shares

    def predict(self, X: Any, target: str | int | None = None, method: str | None = None) -> Any:
        """Component with the largest responsibility for each row; with a ``target``, that column.

        Returns
        -------
        array of shape (n_rows,)
        """
        if target is not None:
            return super().predict(X, target, method)
        return self.predict_proba(X).argmax(axis=1)

    @property
    def weights_(self) -> FloatArray:
        """Weights of the components."""
        check_is_fitted(self, "circuit_")
        circuit = self.circuit_
        if circuit.kind[circuit.root] != SUM:  # compressed to a single component
            return np.ones(1)
        return np.exp(circuit.log_weight[circuit.child_ptr[circuit.root] :])

    @property
    def lower_bound_(self) -> float:
        """Mean training log-likelihood after the last step."""
        check_is_fitted(self, "circuit_")
        return self.lower_bounds_[-1]

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self.weights_)

    # ---------------------------------------------------------------- learning

    def _learn(self, table: Table) -> Circuit:
        sizes = self._sizes_to_try()
        self._check_choices()
        seed = draw_seed(self.random_state)
        enough = len(table.weighty()) >= _ROWS_TO_CHOOSE
        kinds: list[str] = [self.structure]
        if self.structure == "auto":
            kinds = ["own", "shared"] if enough else ["own"]
        numbers: IntArray | None = None
        if self.gaussian and enough and len(smooth := smooth_columns(table)) > 1:
            numbers = smooth
            table = with_numbers(table, smooth, np.random.default_rng(seed))
        valid = None
        if self._valid is not None:
            several = isinstance(self.n_components, (list, tuple, np.ndarray))
            if not several and self.structure != "auto" and not self.gaussian:
                raise ValueError(
                    "X_valid has rows to choose on, but n_components is a single number and there "
                    "is one structure: give a list, or these rows as part of X"
                )
            name = type(self).__name__
            aside = self._aside
            domains = table.domains if aside is None else aside.domains
            codes, values = encode_table(
                self._valid, domains, allow_missing=False, estimator_name=name
            )
            valid = Table(codes, domains, None, values)
            if aside is not None:
                valid = aside.others(valid)
        if self.checkpoint is not None:
            self._begin_checkpoint(self.checkpoint, table, valid)
        resumed = self._resume(table.domains)
        chosen, self._spare = None, table
        if resumed is None:
            self.validation_scores_ = {}
            self.structure_ = kinds[0]
            choices = len(sizes) * len(kinds) + (numbers is not None)
            if choices > 1 or valid is not None:
                chosen = self._choose(sizes, kinds, numbers, table, valid, seed)
        if valid is not None:
            codes, weights = np.vstack([table.codes, valid.codes]), None
            if table.weights is not None:
                weights = np.concatenate([table.weights, valid.all_weights])
            values = None
            if table.values is not None and valid.values is not None:
                values = np.vstack([table.values, valid.values])
            table = Table(codes, table.domains, weights, values)
        begun = chosen if resumed is None else resumed[0]
        if begun is None or not begun.has_normals:
            numbers = None
        self._spare = table
        job = self._job(self.structure_, numbers)
        return self._run(sizes[0], job, table, seed, chosen, resumed)

    def _check_settings(self) -> None:
        super()._check_settings()
        self._sizes_to_try()
        self._check_choices()

    def _check_choices(self) -> None:
        check_choice("structure", self.structure, ("auto", "own", "shared", "cnetbd"))
        check_width("width", self.width)
        BayesDirichlet(self.ess)
        check_count("max_iter", self.max_iter, low=0)
        check_count("patience", self.patience)
        check_count("n_init", self.n_init)
        check_choice("assignment", self.assignment, ("soft", "sampled"))
        if not self.tol >= 0:
            raise ValueError(f"tol must be at least 0, got {self.tol!r}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction must be between 0 and 1, got {self.validation_fraction!r}"
            )

    def _sizes_to_try(self) -> list[int]:
        asked = self.n_components
        sizes = list(asked) if isinstance(asked, (list, tuple, np.ndarray)) else [asked]
        if not sizes:
            raise ValueError("n_components must not be an empty list")
        return [check_count("n_components", size) for size in sizes]

    def _job(self, structure: str, numbers: IntArray | None = None) -> Callable[..., StructuralEM]:
        """Structural EM as these parameters ask for, of any table; ``numbers`` are Gaussian."""
        learner = self._component_learner(structure)
        if numbers is not None:
            learner = NormalLearner(learner, StructurePrior(), numbers)
        n_jobs = count_jobs(self.n_jobs)
        return partial(StructuralEM, learner, assignment=self.assignment, n_jobs=n_jobs)

    def _component_learner(self, structure: str) -> ComponentLearner:
        """Learner of the components, numbers in cells."""
        candidates = TopGain(self.n_candidates)
        if structure == "cnetbd":
            return CutsetLearner(BayesDirichlet(self.ess), candidates=candidates)
        score, prior = BayesDirichlet(self.ess, divide=False), StructurePrior()
        width = check_width("width", self.width)
        if structure == "shared":
            return SharedLearner(score, prior, width)
        return NetworkLearner(score, prior, width, candidates)

    def _resolver(self) -> NetworkLearner | None:
        if self.structure == "cnetbd":
            return None
        alone = CutsetNetwork(
            self.ess, width=self.width, n_candidates=self.n_candidates, gaussian=self.gaussian
        )
        return alone._learner(count_jobs(self.n_jobs))

    def _choose(
        self,
        sizes: list[int],
        kinds: list[str],
        numbers: IntArray | None,
        table: Table,
        valid: Table | None,
        seed: int,
    ) -> Circuit:
        """Fit structures and numbers of components on training rows; return the best on held-out.

        Whether numbers are Gaussian is asked of the better structure alone.
        """
        train, held = table, valid
        if held is None:
            rows = table.weighty()
            order = np.random.default_rng(seed).permutation(rows)
            n_valid = round(self.validation_fraction * len(rows))
            if not 0 < n_valid < len(rows):
                raise DataError(
                    f"{len(rows)} rows are too few to hold out {self.validation_fraction:.0%} of "
                    "them; give a single n_components."
                )
            train, held = table.take(order[n_valid:]), table.take(order[:n_valid])
        clusters = KMeansStart(train, max(sizes))
        best: tuple[float, Circuit] | None = None
        n_runs = len(sizes) * self.n_init * (len(kinds) + (numbers is not None))
        total = n_runs * (self.max_iter + 1)
        with progress(f"{type(self).__name__}: choosing", total, self.verbose) as advance:

            def judge(kind: str, gaussian: IntArray | None) -> None:
                nonlocal best
                em = self._job(kind, gaussian)(train, seed=seed)
                for size, start in itertools.product(sorted(sizes), range(self.n_init)):
                    steps = em.run(em.start(clusters.labels(size, seed + start)))
                    seen: list[Iteration] = []
                    bounds, _ = converge(
                        steps, told=partial(_remember, seen, advance), **self._stopping()
                    )
                    advance(self.max_iter + 1 - len(bounds))
                    found = seen[-1].circuit
                    whole = with_spare(found, train)
                    held_out = whole.log_likelihood(evidence_of(held, whole), n_jobs=em.n_jobs)
                    value = float(np.average(held_out, weights=held.weights))
                    before = self.validation_scores_.get(size, -np.inf)
                    self.validation_scores_[size] = max(value, before)
                    if best is None or value > best[0]:  # ties go to what was tried first
                        best, self.structure_ = (value, found), kind
                        self._keep_step(bounds, seed, len(bounds) - 1, seen[-1])

            for kind in kinds:
                judge(kind, None)
            if numbers is not None:
                judge(self.structure_, numbers)
        assert best is not None
        return best[1]

    def _stopping(self) -> dict[str, Any]:
        return {"max_iter": self.max_iter, "tol": self.tol, "patience": self.patience}

    def _run(
        self,
        size: int,
        job: Callable[..., StructuralEM],
        table: Table,
        seed: int,
        chosen: Circuit | None,
        resumed: tuple[Circuit, list[float], int] | None,
    ) -> Circuit:
        """Run EM to its end, keeping every step's result.

        It goes on from what was interrupted, from the mixture that was chosen on held-out rows,
        or from the best of the k-means starts.
        """
        finalists: list[tuple[float, Circuit, dict[str, Any]]] = []
        starts = 1 if resumed is not None or chosen is not None else self.n_init
        total = starts * (self.max_iter + 1)
        with progress(f"{type(self).__name__}: learning", total, self.verbose) as advance:
            done: list[float] = []
            if resumed is not None:
                chosen, done, seed = resumed
                done = done[:-1]  # the last step is looked at again
            em = job(table, seed=seed)
            if chosen is None:
                clusters = KMeansStart(table, size)
            for start in range(starts):
                if chosen is None:
                    circuit = em.start(clusters.labels(size, seed + start))
                else:
                    circuit = chosen
                told = partial(self._told, list(done), seed, advance)
                steps = em.run(circuit, first=len(done))
                _, self.converged_ = converge(steps, told=told, done=done, **self._stopping())
                state = {name: getattr(self, name) for name in self._state_names}
                finalists.append((self.lower_bounds_[-1], self._learned, state))
        _, circuit, state = max(finalists, key=lambda entry: entry[0])
        self._keep(circuit, **state)
        self._save_checkpoint()
        if not self.converged_ and self.max_iter > 0 and self._warns:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.max_iter} steps; raise max_iter "
                "or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return self._learned

    def _told(
        self,
        bounds: list[float],
        seed: int,
        advance: Advance,
        n_done: int,
        iteration: Iteration,
    ) -> None:
        """Keep a step's result: an interrupted run leaves the model of its last step."""
        bounds.append(iteration.lower_bound)
        self._keep_step(bounds, seed, n_done, iteration)
        self._save_checkpoint()
        advance(1)

    def _keep_step(self, bounds: list[float], seed: int, n_done: int, iteration: Iteration) -> None:
        self._keep(
            iteration.circuit,
            lower_bounds_=list(bounds),
            n_iter_=n_done,
            converged_=False,
            dropped_=iteration.dropped,
            seed_=seed,
        )

    def _save_checkpoint(self) -> None:
        if self.checkpoint is not None:
            save(self, self.checkpoint)

    # Sampled assignments go on improving as an average, they do not converge to a point.
    @property
    def _warns(self) -> bool:
        return self.assignment == "soft"

    def _resume(self, domains: Domains) -> tuple[Circuit, list[float], int] | None:
        """Find what to go on from: a checkpoint, or the previous fit."""
        if self.checkpoint is not None and os.path.exists(self.checkpoint):
            other = self._load_checkpoint(self.checkpoint)
        elif self.warm_start and hasattr(self, "circuit_") and hasattr(self, "lower_bounds_"):
            other = self
            if isinstance(self.n_components, int) and self.n_components != self.n_components_:
                warnings.warn(
                    f"warm_start goes on with the {self.n_components_} components of the previous "
                    f"fit; n_components={self.n_components} is not used",
                    UserWarning,
                    stacklevel=5,
                )
        else:
            return None
        if other._learned.domains != domains:
            raise DataError(
                "the model to go on from was learned from a table with other columns or states"
            )
        self.validation_scores_ = other.validation_scores_
        self.structure_ = other.structure_
        return other._learned, list(other.lower_bounds_), other.seed_

    # Of a model with columns set apart, EM goes on with what was learned of the others.
    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        goes_on = self.warm_start or self._made_from is not None
        if state and goes_on and self._learned is not self.circuit_:
            state["learned"] = self._learned
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        learned = state.pop("learned", None)
        super()._set_state(state)
        if learned is not None:
            self._learned = learned
        if not isinstance(self._learned, Circuit):
            raise ValueError("learned is not a circuit")

    def _smoothing(self) -> tuple[Score, bool]:
        return BayesDirichlet(self.ess), True


def _remember(seen: list[Iteration], advance: Advance, n_done: int, iteration: Iteration) -> None:
    seen[:] = [iteration]
    advance(1)
