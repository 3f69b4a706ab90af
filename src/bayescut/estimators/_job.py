"""What estimators share that use a density for a job: the imputer and the outlier detector."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayescut._interrupts import late_interrupts
from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domains, column_names
from bayescut.estimators._density import as_wide, fit_density
from bayescut.estimators._reading import TableReader, encode_rows
from bayescut.estimators._validation import check_count, draw_seed
from bayescut.learn.cells.percell import CellPredictor

Job = TypeVar("Job", bound="DensityJob")


class DensityJob(TableReader):
    """Learns a density of a table and keeps its circuit."""

    estimator: Any
    n_trees: int

    circuit_: Circuit
    _cells: CellPredictor

    # Attributes of a fitted model that files hold, beside the circuit and the names.
    _state_names: tuple[str, ...] = ()

    def _check_settings(self) -> None:
        super()._check_settings()
        check_count("n_trees", self.n_trees, low=0)

    def fit(self: Job, X: Any, y: Any = None, sample_weight: Any = None) -> Job:
        """Learn the density of a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Labels, numbers, dates; cells may be missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.

        Returns
        -------
        self
        """
        with late_interrupts():
            self._fit_density(X, sample_weight)
            self._settle(X, sample_weight)
        return self

    def _settle(self, X: Any, sample_weight: Any) -> None:
        """Find out what the job needs to know beside the density."""

    def _fit_density(self, X: Any, sample_weight: Any) -> None:
        """Learn the density, and what is said of single cells beside it."""
        self._check_settings()
        self.circuit_, self.domains_, learn = fit_density(
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
            trees=self.n_trees > 0,
        )
        self._cells = CellPredictor.of_circuit(self.circuit_)
        if learn is not None and self.n_trees:
            self._cells = learn(n_trees=self.n_trees)
        self._set_names(column_names(X))

    @property
    def cell_shares_(self) -> FloatArray:
        """Weights of mixture, trees and Gaussian in single cells of each column."""
        check_is_fitted(self, "circuit_")
        return self._cells.all_shares[: len(self.domains_)]

    def _read_table(self, X: Any) -> tuple[CodeArray, FloatArray | None]:
        check_is_fitted(self, "circuit_")
        return as_wide(self.circuit_, *encode_rows(self, X))

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(draw_seed(self.random_state))

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "circuit_"):
            return {}
        state = {name: getattr(self, name) for name in self._state_names}
        state["circuit_"] = self.circuit_
        state["n_columns"] = len(self.domains_)
        state["feature_names"] = self._names()
        state["cells"] = self._cells.state()
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
        self._read_names(state.pop("feature_names"))
        self._cells = CellPredictor.from_state(self.circuit_, state.pop("cells"))
        self._check_settings()
        if set(state) != set(self._state_names):
            raise ValueError(f"attributes {sorted(state)} instead of {sorted(self._state_names)}")
        for name, value in state.items():
            setattr(self, name, value)
