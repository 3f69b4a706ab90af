"""A classifier that marginalises what it is not told."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bayescut._interrupts import interruptible
from bayescut._jobs import count_jobs
from bayescut._typing import FloatArray
from bayescut.data import Domain
from bayescut.data.domains import MAX_STATES
from bayescut.estimators._target import TargetEstimator
from bayescut.estimators._validation import check_width
from bayescut.exceptions import DataError
from bayescut.learn.cells.conditional import ConditionalLearner, Recipe

_RECIPES = (
    *(Recipe(kind, depth) for depth in (3, 2) for kind in ("class", "joint")),
    Recipe("tree", 1),
    Recipe("tree", 5),
)


class CutsetClassifier(ClassifierMixin, TargetEstimator):  # type: ignore[misc]
    r"""Classifier from averaged networks; missing features are marginalised exactly.

    Members are cutset networks on grids of their own: numbers are cut at random quantiles, a member
    at other places than the next. Some have one network of the features for each class, some one
    network of features and class together, and some are trees whose cuts are chosen for the class,
    as deterministic circuits. The probability of a class is

    .. math:: p(c \mid x) = \sum_r w_r \frac{1}{M_r} \sum_{k=1}^{M_r} p_{rk}(c \mid x)

    where the weights of the recipes r maximise :math:`\sum_i \ln p(c_i \mid x_i)` over rows that
    the members have not seen. Features that are missing, in training or later, are no errors: every
    :math:`p_{rk}` sums over them exactly.

    Parameters
    ----------
    n_members : int, default=32
        Networks, sets of one network for each class, or sets of 16 trees.
    time_budget : float or None, default=None
        Seconds after which no further member is begun; every recipe makes one at least.
    width : int, default=6
        Most parents of a column in a leaf of a network.
    columns : mapping or None, default=None
        Kinds of columns, such as ``{"zip": "label"}``, where the table does not tell; see
        `bayescut.data.describe_table`.
    unseen : {"error", "missing"}, default="missing"
        What predictions do with labels that training did not show: take them as missing, or refuse
        the table.
    random_state : None, int or Generator, default=0
        Source of the random grids. The default gives equal models for equal tables.
    n_jobs : int or None, default=-1
        Threads, counted as joblib does. The result does not depend on it.
    verbose : int, default=0
        Show a progress bar if positive.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    recipe_weights_ : dict
        Weight of each recipe: ``class`` or ``joint`` and the halvings of the numbers' grids,
        ``tree`` and the least rows of a leaf.
    n_members_ : dict
        Members of each recipe.
    oob_score_ : float
        Mean :math:`\ln p(c_i \mid x_i)` over rows under members that have not seen them. The
        weights were chosen on the same rows.
    domains_ : Domains
        Columns of the features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    CutsetRegressor : The same for a number.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut import CutsetClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, "yes", "no")
    >>> model = CutsetClassifier(n_members=8).fit(X, y)
    >>> model.predict([[2.0, np.nan], [-2.0, 0.5]])
    array(['yes', 'no'], dtype='<U3')
    """

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CutsetClassifier:
        """Learn from features and classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Labels, numbers, dates; cells may be missing.
        y : array-like of shape (n_rows,)
            Classes, none missing.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.

        Returns
        -------
        self
        """
        self._check_settings()
        X, y, weights = self._rows(X, _classes(y), sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) > MAX_STATES:
            raise DataError(f"There are {len(classes)} classes, more than {MAX_STATES}.")
        learner = ConditionalLearner(
            _RECIPES,
            width=check_width("width", self.width),
            n_jobs=count_jobs(self.n_jobs),
        )
        codes = codes.reshape(-1).astype(np.uint16)
        self._fit_target(X, codes, Domain(None, len(classes)), weights, learner)
        self.classes_ = classes
        return self

    @interruptible
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Features; missing ones are marginalised.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        return self._target_proba(X)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of the probabilities of the classes; see `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row; ties go to the first.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Features; missing ones are marginalised.

        Returns
        -------
        array of shape (n_rows,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _target_domain(self) -> Domain:
        return Domain(None, len(self.classes_))

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        return {**state, "classes": self.classes_} if state else state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.classes_ = state.pop("classes")
        if not isinstance(self.classes_, np.ndarray) or self.classes_.ndim != 1:
            raise ValueError("classes_ is no list of classes")
        super()._set_state(state)


def _classes(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError(
            "CutsetClassifier requires y to be passed, but the target y is None: give fit the "
            "class of every row."
        )
    y = column_or_1d(y, warn=True)
    missing = np.array([value is None or value != value for value in y.tolist()], dtype=bool)
    if missing.any():
        raise DataError(
            f"Input y contains NaN: the class of row {int(np.argmax(missing))} is missing. Leave "
            "such rows out."
        )
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise DataError(f"Input y contains infinity, in row {int(np.argmax(np.isinf(y)))}.")
    check_classification_targets(y)
    return np.asarray(y)
