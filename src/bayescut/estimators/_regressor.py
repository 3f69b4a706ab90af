"""A regressor that gives the whole distribution of a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from bayescut._interrupts import interruptible
from bayescut._jobs import count_jobs
from bayescut._typing import FloatArray
from bayescut.data import Domain, Grid, learn_grid
from bayescut.estimators._predict import number_of
from bayescut.estimators._target import TargetEstimator
from bayescut.estimators._validation import check_choice, check_number, check_width
from bayescut.exceptions import DataError
from bayescut.learn.cells.conditional import ConditionalLearner, Recipe

_RECIPES = (
    Recipe("class", 3),
    Recipe("joint", 3),
    Recipe("tree", 1),
    Recipe("tree", 5),
    Recipe("normal", 0),
)
# Halvings of the target's grid in networks: at most 8 states for a member, at places of its own.
# Mean log-probability of unseen rows' cells with 4, 8 and 16 states, networks alone: scikit-learn's
# diabetes -4.00, -4.05, -4.17, the first column of authent -4.00, -3.85, -3.90.
_TARGET_DEPTH = 3
# Levels at which the calibration of quantiles is kept.
_LEVELS = np.linspace(0.0, 1.0, 101)
# Fewer unseen rows say too little about extreme quantiles to correct them.
_LEAST_ROWS = 50


class CutsetRegressor(RegressorMixin, TargetEstimator):  # type: ignore[misc]
    r"""Regressor from averaged networks: mean, median, quantiles and intervals of a number.

    The target is a number in up to 64 cells. Members are cutset networks of features and target on
    grids of their own, at random quantiles; trees whose cuts are chosen for the target; and
    Gaussians of normal scores. The average of what they say of the cells,

    .. math:: p(y \mid x) = \sum_r w_r \frac{1}{M_r} \sum_{k=1}^{M_r} p_{rk}(y \mid x),

    is a density. Weights maximise it at the targets of rows that members have not seen. Missing
    features are marginalised exactly.

    Parameters
    ----------
    n_members, time_budget, width, columns, unseen, random_state, n_jobs, verbose
        As for `CutsetClassifier`.

    Attributes
    ----------
    grid_ : Grid
        Cells and density of the target.
    levels_ : float64 array of shape (101,)
        What the averaged members call the quantiles 0, 0.01, ..., 1 of rows they have not seen;
        `quantile` and `interval` are corrected by it.
    recipe_weights_, n_members_, oob_score_, domains_, n_features_in_, feature_names_in_
        As for `CutsetClassifier`; the score is that of cells.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut import CutsetRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=300)
    >>> model = CutsetRegressor(n_members=8).fit(X, y)
    >>> low, high = model.interval([[1.0, np.nan]], coverage=0.8)[0]
    >>> bool(low < 1 < high)
    True
    """

    grid_: Grid
    levels_: FloatArray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CutsetRegressor:
        """Learn from features and numbers.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Labels, numbers, dates; cells may be missing.
        y : array-like of shape (n_rows,)
            Numbers, none missing.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.

        Returns
        -------
        self
        """
        self._check_settings()
        X, numbers, weights = self._rows(X, _numbers(y), sample_weight)
        grid = learn_grid(numbers, weights)
        learner = ConditionalLearner(
            _RECIPES,
            width=check_width("width", self.width),
            target_depth=_TARGET_DEPTH,
            n_jobs=count_jobs(self.n_jobs),
        )
        domain = Domain(None, grid.n_cells, grid=grid)
        table, place, pool = self._fit_target(X, grid.codes(numbers), domain, weights, learner)
        self.grid_ = grid
        distinct, found = learner.unseen_proba(pool, table, self.recipe_weights_)
        # Rows of equal cells may have different numbers.
        position = np.full(table.n_rows, -1)
        position[distinct] = np.arange(len(distinct))
        rows = np.flatnonzero(position[place] >= 0)
        cells = found[position[place[rows]]]
        every = np.ones(len(numbers)) if weights is None else weights
        self.levels_ = _calibrated(grid, cells, numbers[rows], every[rows])
        return self

    @interruptible
    def predict(self, X: Any, method: str = "mean") -> FloatArray:
        """Predict a number for each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Features; missing ones are marginalised.
        method : {"mean", "median", "mode"}, default="mean"
            The mean has the least squared error, the median the least absolute one.

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        check_choice("method", method, ("mean", "median", "mode"))
        found = self.predict_cells(X)
        if method == "median":
            return self.quantile_of(found, 0.5)
        return number_of(found, self._target_domain(), method)

    def predict_cells(self, X: Any) -> FloatArray:
        """Probabilities of the cells of ``grid_``, shape (n_rows, K)."""
        return self._target_proba(X)

    @interruptible
    def quantile(self, X: Any, q: Any = 0.5) -> FloatArray:
        """Quantiles of the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Features; missing ones are marginalised.
        q : float or sequence of float
            Probabilities strictly between 0 and 1.

        Returns
        -------
        float64 array of shape (n_rows,), or (n_rows, Q) for several q
        """
        wanted = np.asarray(q, dtype=np.float64)
        if not ((wanted > 0) & (wanted < 1)).all():
            raise DataError(f"q must lie strictly between 0 and 1, not {q!r}.")
        return self.quantile_of(self.predict_cells(X), q)

    def quantile_of(self, cells: FloatArray, q: Any) -> FloatArray:
        """Quantiles of what `predict_cells` returned."""
        level = np.clip(np.interp(q, _LEVELS, self.levels_), 1e-6, 1 - 1e-6)
        return self.grid_.quantile(cells, level if np.ndim(q) else float(level))

    def interval(self, X: Any, coverage: float = 0.8) -> FloatArray:
        """Intervals that hold the target with a given probability, half of the rest on each side.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Features; missing ones are marginalised.
        coverage : float, default=0.8
            Strictly between 0 and 1.

        Returns
        -------
        float64 array of shape (n_rows, 2)
        """
        coverage = check_number("coverage", coverage, strict=True)
        if coverage >= 1.0:
            raise ValueError(f"coverage must be less than 1, got {coverage!r}")
        return self.quantile(X, [(1 - coverage) / 2, (1 + coverage) / 2])

    def _target_domain(self) -> Domain:
        return Domain(None, self.grid_.n_cells, grid=self.grid_)

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        if state:
            state |= {"grid": self.grid_.to_json(), "levels": self.levels_}
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.grid_ = Grid.from_json(str(state.pop("grid")))
        self.levels_ = np.asarray(state.pop("levels"), dtype=np.float64)
        inside = bool(((self.levels_ >= 0) & (self.levels_ <= 1)).all())
        if self.levels_.shape != _LEVELS.shape or not inside or np.any(np.diff(self.levels_) < 0):
            raise ValueError("the levels of quantiles do not rise from 0 to 1")
        super()._set_state(state)


def _calibrated(
    grid: Grid, cells: FloatArray, numbers: FloatArray, weights: FloatArray
) -> FloatArray:
    """Levels that the predictions give to the quantiles of what came out."""
    if len(numbers) < _LEAST_ROWS:
        return _LEVELS.copy()
    # In the middle of a number's own bin, so that coarse steps do not count as surprise.
    step = grid.step
    place = (grid.cdf(cells, numbers) + grid.cdf(cells, numbers - step)) / 2
    order = np.argsort(place, kind="stable")
    share = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    levels = np.interp(_LEVELS, share, place[order])
    levels[0], levels[-1] = 0.0, 1.0
    return levels


def _numbers(y: Any) -> FloatArray:
    if y is None:
        raise ValueError(
            "CutsetRegressor requires y to be passed, but the target y is None: give fit the "
            "number of every row."
        )
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "mM":  # NumPy would make nanoseconds of them
        raise DataError(
            "The target of a regressor holds numbers, not dates or durations: make numbers of "
            "them, such as days since the first, or ask a density for that column, as in "
            "CutsetNetwork().fit(table).predict(X, target=...), which answers in dates."
        )
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The target of a regressor holds numbers: {error}.") from error
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise DataError(
            f"Input y contains NaN or infinity: the target of row {bad[0]} is {numbers[bad[0]]}. "
            "Leave such rows out."
        )
    return numbers
