"""Continuous mixtures of trees."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescut._clock import working_time
from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import encode
from bayescut.data.table import Table
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._compress import Compressible
from bayescut.estimators._validation import (
    check_count,
    check_number,
    check_width,
    draw_seed,
)
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import save
from bayescut.learn.continuous.circuit import Compiled, compile_decoder
from bayescut.learn.continuous.decoder import point_threads
from bayescut.learn.continuous.learner import ContinuousLearner, State
from bayescut.learn.continuous.rows import Rows
from bayescut.learn.continuous.structure import Structure

# Sobol sequences have this many dimensions in SciPy.
_MOST_LATENT = 21_201
# Points of the model in a checkpoint of a run that is not finished, or was interrupted.
_FEW_POINTS = 256
# A checkpoint waits this many times as long as the last one took.
_REST_FROM_SAVING = 9.0
# Parts of a time budget by which learning ends, without and with the rows that were held out; the
# points take what is left.
_LEARNING, _FINISHED = 0.65, 0.85


class ContinuousMixture(Compressible):
    r"""Mixture of trees over a continuous latent variable, as one circuit.

    .. math:: p(x) = \int N(z; 0, I) \, p_T(x \mid z) \, dz \approx \sum_i w_i \, p_T(x \mid z_i)

    A small network turns a latent point into the tables of a tree. It is learned by gradients, with
    the integral a sum over other points in every step; then the points are fixed, as few as the
    loss on unseen rows allows, and the model is a mixture of trees with one structure [1]_. All
    queries are exact. Such mixtures are strong where rows differ by degrees: ratings, tastes.

    Parameters
    ----------
    n_latent : int, default=16
        Dimensions of the latent variable.
    n_points : int, default=16384
        Most points of the mixture, which is the number of its components.
    tol : float, default=0.005
        Nats that an unseen row may lose on average by there being fewer points (a power of two).
    hidden : sequence of int, default=(128, 256)
        Units of the hidden layers of the network.
    width : int, default=1
        Most parents of a column: 1 is a tree, more make thin junction trees, for columns that
        follow from one another. Validation with 1 and with 8: accidents -28.19 and -25.79,
        plants -12.36 and -12.24, baudio -38.54 and -38.61, jester -51.79 and -51.95.
    batch_size : int, default=256
        Rows of a step.
    n_train_points : int, default=1024
        Points of a step.
    learning_rate : float, default=0.003
        Of Adam, at the start.
    weight_decay : float, default=0.5
        Part of the network's weights that every step takes away, times the learning rate.
    max_epochs : int, default=200
        Most epochs; an epoch has at most 32,768 rows. Learning stops by itself before that.
    patience : int, default=3
        Epochs without a gain on held-out rows after which the learning rate is cut to 0.3 of
        itself; the third time ends the run.
    validation_fraction : float, default=0.1
        Part of the rows held out, unless `fit` is given ``X_valid``. They decide when to stop and
        how many points there are; then learning goes on for a quarter as many epochs with all rows.
    time_budget : float or None, default=None
        Seconds after which `fit` ends with what it has.
    checkpoint : path or None, default=None
        File to which the state of learning is saved between epochs. If it exists, `fit` goes on
        from it and ends where a run without a break would have ended.
    random_state : int, Generator or None, default=None
        Seed.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`. Without a time budget the result does not depend on the number of threads.

    Attributes
    ----------
    circuit_ : Circuit
        The mixture.
    n_components_ : int
        Number of points.
    n_epochs_ : int
        Epochs learned.
    validation_scores_ : list of float
        Mean log-likelihood of the held-out rows under one tree and after each epoch.
    validation_score_ : float
        Mean log-likelihood of the held-out rows under the mixture, as it was before it had learned
        from them; NaN if there were too few rows to hold any out. Such tables get one tree.
    n_parameters_ : int

    References
    ----------
    .. [1] A. Correia, G. Gala, E. Quaeghebeur, C. de Campos, R. Peharz. Continuous mixtures of
       tractable probabilistic models. AAAI 2023.

    Examples
    --------
    >>> from bayescut.datasets import load_binary_digits
    >>> from bayescut.estimators import ContinuousMixture
    >>> X = load_binary_digits().train[:, 20:40]
    >>> model = ContinuousMixture(n_points=256, max_epochs=2, random_state=0).fit(X)
    >>> model.validation_scores_[2] > model.validation_scores_[0]
    True
    """

    _state_names = ("validation_score_", "n_epochs_", "validation_scores_", "seed_")
    _one_completion = True
    _may_change = (*CircuitEstimator._may_change, "max_epochs", "n_points", "time_budget", "tol")

    n_epochs_: int
    validation_scores_: list[float]
    seed_: int

    def __init__(
        self,
        n_latent: int = 16,
        n_points: int = 16_384,
        *,
        tol: float = 0.005,
        hidden: Sequence[int] = (128, 256),
        width: int = 1,
        batch_size: int = 256,
        n_train_points: int = 1024,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.5,
        max_epochs: int = 200,
        patience: int = 3,
        validation_fraction: float = 0.1,
        time_budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_latent = n_latent
        self.n_points = n_points
        self.tol = tol
        self.hidden = hidden
        self.width = width
        self.batch_size = batch_size
        self.n_train_points = n_train_points
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.time_budget = time_budget
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, X_valid: Any = None
    ) -> ContinuousMixture:
        """Learn a mixture from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows, as `CutsetNetwork` takes them; cells may be missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.
        X_valid : array-like or DataFrame, optional
            Rows that decide when to stop and how many points there are, instead of rows of ``X``.

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

    @property
    def n_components_(self) -> int:
        """Number of points."""
        return max(self._fitted_circuit().n_nodes - 1, 1)

    # ---------------------------------------------------------------- learning

    def _learn(self, table: Table) -> Circuit:
        codes, domains, sample_weight = table.codes, table.domains, table.weights
        began = working_time()
        max_epochs = check_count("max_epochs", self.max_epochs, low=0)
        n_points = check_count("n_points", self.n_points)
        tol = check_number("tol", self.tol)
        budget = math.inf
        if self.time_budget is not None:
            budget = check_number("time_budget", self.time_budget, strict=True)
        seed = draw_seed(self.random_state)
        self._learner(seed)  # impossible settings are told before any work
        valid = None
        if self._valid is not None:
            valid = encode(
                self._valid, domains, allow_missing=False, estimator_name=type(self).__name__
            )
        if self.checkpoint is not None:
            held_out = None if valid is None else Table(valid, domains)
            self._begin_checkpoint(self.checkpoint, table, held_out)
        state, seed = self._resume(seed)
        learner = self._learner(seed)
        train, held = self._rows(codes, sample_weight, valid, seed)
        sizes = domains.n_states
        if state is None:
            state = learner.start(train, sizes)

        def settle(most: int, deadline: float = -math.inf, *, finish: bool = False) -> None:
            def compiled(parameters: Any, rows: Rows) -> Compiled:
                return compile_decoder(
                    parameters, state.structure, sizes, rows, held,
                    n_points=most, tol=tol, seed=seed, mapper=mapper, deadline=deadline,
                )  # fmt: skip

            made = compiled(state.best, train)
            score = made.score
            if finish:
                every, until = train.joined(held), began + _FINISHED * budget
                last = learner.finish(state, every, sizes, mapper, until)
                if last is not state.best:
                    made = compiled(last, every)
            self._keep(
                made.circuit(domains),
                validation_score_=score,
                n_epochs_=state.epoch,
                validation_scores_=list(state.scores),
                seed_=seed,
            )

        few = min(n_points, _FEW_POINTS)
        save_at = math.inf if self.checkpoint is None else -math.inf
        total = max_epochs if self.time_budget is None else budget
        with (
            point_threads(count_jobs(self.n_jobs)) as mapper,
            progress(type(self).__name__, total, self.verbose) as told,
        ):
            last = began
            deadline = began + _LEARNING * budget
            epochs = learner.run(state, train, held, sizes, mapper, deadline)
            try:
                while state.epoch < max_epochs and next(epochs, None) is not None:
                    now = working_time()
                    told(1 if self.time_budget is None else now - last)
                    last = now
                    if now >= save_at:
                        settle(few)
                        self._save_checkpoint(state)
                        saved = working_time()
                        save_at = saved + _REST_FROM_SAVING * (saved - now)
            except BaseException:  # an interrupted run leaves what it has
                settle(few)
                raise
            in_time = working_time() < began + budget
            most = n_points if in_time else few
            settle(most, began + budget, finish=in_time and valid is None)
        self._save_checkpoint(state)
        return self._learned

    def _learner(self, seed: int) -> ContinuousLearner:
        n_latent = check_count("n_latent", self.n_latent)
        if n_latent > _MOST_LATENT:
            raise ValueError(f"n_latent must be at most {_MOST_LATENT}, got {n_latent}")
        if not 0 < check_number("validation_fraction", self.validation_fraction) < 1:
            raise ValueError(
                f"validation_fraction must be between 0 and 1, got {self.validation_fraction!r}"
            )
        if not isinstance(self.hidden, (list, tuple, np.ndarray)):
            raise ValueError(f"hidden must be a list of whole numbers, got {self.hidden!r}")
        rate = check_number("learning_rate", self.learning_rate, strict=True)
        decay = check_number("weight_decay", self.weight_decay)
        if rate * decay >= 1:
            raise ValueError(
                "learning_rate times weight_decay must be less than 1: a step would take away all "
                f"of the weights, got {self.learning_rate!r} and {self.weight_decay!r}"
            )
        return ContinuousLearner(
            n_latent=n_latent,
            hidden=tuple(check_count("hidden", units) for units in self.hidden),
            n_points=check_count("n_train_points", self.n_train_points),
            batch=check_count("batch_size", self.batch_size),
            rate=rate,
            weight_decay=decay,
            patience=check_count("patience", self.patience),
            width=check_width("width", self.width),
            seed=seed,
        )

    def _rows(
        self,
        codes: CodeArray,
        sample_weight: FloatArray | None,
        valid: CodeArray | None,
        seed: int,
    ) -> tuple[Rows, Rows]:
        """Rows to learn from and rows held out; none of the latter if there are too few."""
        rows = Rows.of(codes, sample_weight)
        if not math.isfinite(rows.total):
            raise DataError(
                "the sample weights add up to more than a float64 holds: divide them by a constant"
            )
        if valid is not None:
            if len(valid) == 0:
                raise DataError("X_valid has no rows: leave it out to hold out rows of X")
            return rows, Rows.of(valid)
        rng = np.random.default_rng([seed, 9])
        train, held = rows.split(float(self.validation_fraction), rng)
        if len(train) and len(held):
            return train, held
        return rows, rows.part(np.zeros(len(rows)))

    # ---------------------------------------------------------------- checkpoints

    def _save_checkpoint(self, state: State) -> None:
        if self.checkpoint is None:
            return
        self._state: State | None = state
        try:
            save(self, self.checkpoint)
        finally:
            self._state = None

    def _resume(self, seed: int) -> tuple[State | None, int]:
        """Go on from a checkpoint, or begin."""
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return None, seed
        other = self._load_checkpoint(self.checkpoint)
        state = getattr(other, "_state", None)
        if state is None:
            raise ModelFileError(
                f"{os.fspath(self.checkpoint)!r} is a model without the state of its learning, not "
                "a checkpoint; remove it or name another file"
            )
        return state, other.seed_

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        learning = getattr(self, "_state", None)
        if state and learning is not None:
            state["learning"] = {
                "structure": list(learning.structure),
                **{name: _widen(getattr(learning, name)) for name in _ARRAYS},
                **{name: getattr(learning, name) for name in _NUMBERS},
            }
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("learning", None)
        super()._set_state(state)
        if stored is not None:
            values: dict[str, Any] = {name: stored[name] for name in _NUMBERS}
            values |= {name: _narrow(stored[name]) for name in _ARRAYS}
            self._state = State(structure=Structure(*stored["structure"]), **values)


_ARRAYS = ("parameters", "average", "best", "moments")
_NUMBERS = ("rate", "scores", "n_idle", "n_cuts", "n_steps", "finished")


# Files hold float64, which holds every float32.
def _widen(arrays: list[Any]) -> list[Any]:
    return [array.astype(np.float64) for array in arrays]


def _narrow(arrays: list[Any]) -> list[Any]:
    return [np.array(array, dtype=np.float32) for array in arrays]
