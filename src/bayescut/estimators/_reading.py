"""What estimators share that are no densities themselves: how they read tables and keep names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.data import Domains, encode_table
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    check_width,
)


class TableReader(BaseEstimator):  # type: ignore[misc]
    """Reads tables of labels, numbers and dates by the domains that `fit` found."""

    n_members: int
    time_budget: float | None
    width: int
    columns: Any
    unseen: str
    random_state: Any
    n_jobs: int | None

    # What queries may do with labels that training did not show.
    _unseen_choices: tuple[str, ...] = ("error", "missing")

    domains_: Domains
    n_features_in_: int

    def _check_settings(self) -> None:
        """Raise an error if a setting cannot be used."""
        count_jobs(self.n_jobs)
        check_choice("unseen", self.unseen, self._unseen_choices)
        check_count("n_members", self.n_members)
        check_width("width", self.width)
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, strict=True)

    def _set_names(self, names: list[str] | None) -> None:
        self.n_features_in_ = len(self.domains_)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _names(self) -> list[str] | None:
        """The names of the columns, as files hold them."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _read_names(self, names: Any) -> None:
        """Check and keep the names that a file holds."""
        if names is not None and (type(names) is not list or names != self.domains_.names):
            raise ValueError("the feature names are not those of the columns")
        self._set_names(names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags


def encode_rows(model: Any, X: Any) -> tuple[CodeArray, FloatArray | None]:
    """Encode a table by the domains of a fitted estimator; missing cells stay missing."""
    return encode_table(
        X,
        model.domains_,
        allow_missing=True,
        unseen="error" if model.unseen == "error" else "missing",
        estimator_name=type(model).__name__,
    )
