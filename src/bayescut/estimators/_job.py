"""What estimators share that use a density for a job: the imputer and the outlier detector."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domains, column_names, encode_table
from bayescut.estimators._density import as_wide, fit_density
from bayescut.estimators._validation import (
    check_choice,
    check_count,
    check_number,
    check_width,
    draw_seed,
)


class DensityJob(BaseEstimator):  # type: ignore[misc]
    """Learns a density of a table and keeps its circuit."""

    estimator: Any
    n_members: int
    time_budget: float | None
    width: int
    columns: Any
    unseen: str
    random_state: Any
    n_jobs: int | None

    circuit_: Circuit
    domains_: Domains
    n_features_in_: int

    # Attributes of a fitted model that files hold, beside the circuit and the names.
    _state_names: tuple[str, ...] = ()

    def _check_settings(self) -> None:
        """Raise an error if a setting cannot be used."""
        count_jobs(self.n_jobs)
        check_choice("unseen", self.unseen, ("error", "missing"))
        check_count("n_members", self.n_members)
        check_width("width", self.width)
        if self.time_budget is not None:
            check_number("time_budget", self.time_budget, strict=True)

    def _fit_density(self, X: Any, sample_weight: Any) -> None:
        self._check_settings()
        self.circuit_, self.domains_ = fit_density(
            X,
            estimator=self.estimator,
            name=type(self).__name__,
            columns=self.columns,
            sample_weight=sample_weight,
            n_members=self.n_members,
            time_budget=self.time_budget,
            width=self.width,
            seed=draw_seed(self.random_state),
            n_jobs=count_jobs(self.n_jobs),
        )
        self._set_names(column_names(X))

    def _set_names(self, names: list[str] | None) -> None:
        self.n_features_in_ = len(self.domains_)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read_table(self, X: Any) -> tuple[CodeArray, FloatArray | None]:
        check_is_fitted(self, "circuit_")
        unseen: Any = self.unseen
        table = encode_table(
            X,
            self.domains_,
            allow_missing=True,
            unseen=unseen,
            estimator_name=type(self).__name__,
        )
        return as_wide(self.circuit_, *table)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(draw_seed(self.random_state))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "circuit_"):
            return {}
        names = getattr(self, "feature_names_in_", None)
        state = {name: getattr(self, name) for name in self._state_names}
        state["circuit_"] = self.circuit_
        state["n_columns"] = len(self.domains_)
        state["feature_names"] = None if names is None else [str(name) for name in names]
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.circuit_ = state.pop("circuit_")
        if not isinstance(self.circuit_, Circuit):
            raise ValueError("circuit_ is not a circuit")
        n_columns = state.pop("n_columns")
        if type(n_columns) is not int or not 0 < n_columns <= len(self.circuit_.domains):
            raise ValueError("n_columns is not the number of the table's columns")
        self.domains_ = Domains(self.circuit_.domains[:n_columns])
        names = state.pop("feature_names")
        if names is not None and (type(names) is not list or names != self.domains_.names):
            raise ValueError("the feature names are not those of the columns")
        self._set_names(names)
        self._check_settings()
        if set(state) != set(self._state_names):
            raise ValueError(f"attributes {sorted(state)} instead of {sorted(self._state_names)}")
        for name, value in state.items():
            setattr(self, name, value)
