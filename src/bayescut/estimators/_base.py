"""What every estimator shares: tables in, a circuit inside, answers out."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from bayescut._atomic import check_folder
from bayescut._interrupts import interruptible, late_interrupts
from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import (
    Domains,
    column_names,
    decode,
    encode,
    encode_row,
    learn_domains,
    missing_code,
)
from bayescut.data.columns import check_floors
from bayescut.data.table import Table
from bayescut.data.tables import is_frame
from bayescut.estimators._predict import PredictMixin
from bayescut.estimators._validation import check_choice, check_size, check_weights
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import load


class CircuitEstimator(PredictMixin, DensityMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A density over tables whose fitted form is a `bayescut.Circuit`.

    Subclasses implement `_learn`. Missing cells (NaN, None, pandas NA) are marginalised exactly in
    every query. A value never seen in training is an error that names it, or a missing cell if
    ``unseen="missing"``.
    """

    # Declared so that one place lists what a fitted estimator carries.
    circuit_: Circuit
    domains_: Domains
    n_parameters_: int
    n_features_in_: int
    n_jobs: int | None
    verbose: int
    n_states: Any
    unseen: str

    # Attributes of a fitted estimator that model files hold, beside those of every estimator.
    _state_names: tuple[str, ...] = ()
    # Settings that may change when a run goes on from a checkpoint.
    _may_change: tuple[str, ...] = ("checkpoint", "n_jobs", "n_states", "unseen", "verbose")
    # What a checkpoint was made from, see `_fingerprint`.
    _made_from: str | None = None

    @abstractmethod
    def _learn(self, table: Table) -> Circuit:
        """Learn a circuit from a complete table and set the learner's own attributes."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitEstimator:
        """Learn a circuit from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Whole-number codes 0 .. K - 1 (bool, integer or float arrays), or a DataFrame whose
            columns hold labels. Missing cells are not allowed here. Leave out columns that are
            different in nearly every row, such as names: columns of very many states are never
            cut on, and cost time and memory.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.

        Returns
        -------
        self
        """
        count_jobs(self.n_jobs)  # an impossible setting is told before any work
        check_choice("unseen", self.unseen, ("error", "missing"))
        domains = learn_domains(X, self.n_states)
        codes = encode(X, domains, allow_missing=False, estimator_name=type(self).__name__)
        weights = check_weights(sample_weight, len(codes))
        check_size(domains)
        # Kept aside until there is a circuit: a fit that fails leaves the model as it was.
        self._source = column_names(X), is_frame(X)
        try:
            with late_interrupts():
                self._keep(self._learn(Table(codes, domains, weights)))
        finally:
            del self._source
        return self

    def _keep(self, circuit: Circuit, **attributes: Any) -> None:
        """Set the fitted attributes; learners that take long do so after every step."""
        self._set_domains(circuit.domains, *self._source)
        self.circuit_ = circuit
        self.n_parameters_ = circuit.n_parameters
        for name, value in attributes.items():
            setattr(self, name, value)

    def _set_domains(self, domains: Domains, names: list[str] | None, from_frame: bool) -> None:
        self.domains_ = domains
        self.n_features_in_ = len(domains)
        self._from_frame = from_frame
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # ---------------------------------------------------------------- queries

    @interruptible
    def score_samples(self, X: Any) -> FloatArray:
        """Natural log-probability of each row; missing cells are marginalised.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows, possibly with missing cells.

        Returns
        -------
        float64 array of shape (n_rows,)
        """
        return self._fitted_circuit().log_likelihood(self._encode(X), n_jobs=self._threads())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-probability of the rows of ``X``."""
        return float(np.mean(self.score_samples(X)))

    @interruptible
    def sample(self, n_samples: int = 1, evidence: Any = None, random_state: Any = None) -> Any:
        """Draw rows, given evidence if there is any.

        Parameters
        ----------
        n_samples : int
            Number of rows to draw (for each row of evidence).
        evidence : mapping or table, optional
            ``{column: value}``, or partial rows in which NaN marks what is to be drawn.
        random_state : None, int or Generator
            Source of randomness; None draws anew at every call.

        Returns
        -------
        array or DataFrame of shape (n_samples * n_evidence_rows, n_columns)
            Draws for the first row of evidence come first. As `fit` was given.
        """
        circuit = self._fitted_circuit()
        if isinstance(n_samples, bool) or not isinstance(n_samples, (int, np.integer)):
            raise ValueError(f"n_samples must be a whole number, got {n_samples!r}")
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples}. At least one sample is needed."
            )
        jobs = self._threads()
        if evidence is None:
            codes = circuit.sample(int(n_samples), random_state, n_jobs=jobs)
        else:
            rows = np.repeat(self._evidence(evidence), n_samples, axis=0)
            codes = circuit.sample_conditional(rows, random_state, n_jobs=jobs)
        return self._decode(codes)

    @interruptible
    def conditional_log_likelihood(self, query: Any, evidence: Any) -> FloatArray:
        r"""Log-probability of the query given the evidence, row by row.

        .. math:: \ln p(q \mid e) = \ln p(q, e) - \ln p(e)

        Parameters
        ----------
        query, evidence : mappings or tables
            ``{column: value}`` or partial rows; NaN marks what is neither asked nor given. One row
            of either goes with all rows of the other.

        Returns
        -------
        float64 array of shape (n_rows,)
            -inf where the query contradicts the evidence.

        Raises
        ------
        ZeroProbabilityError
            If a row of evidence has probability zero; it is named.
        """
        asked, given = self._evidence(query), self._evidence(evidence)
        n_rows = max(len(asked), len(given))
        if {len(asked), len(given)} - {1, n_rows}:
            raise DataError(
                f"{len(asked)} rows of queries do not go with {len(given)} rows of evidence."
            )
        asked = np.broadcast_to(asked, (n_rows, asked.shape[1]))
        given = np.broadcast_to(given, (n_rows, given.shape[1]))
        return self.circuit_.conditional_log_likelihood(
            np.ascontiguousarray(asked), np.ascontiguousarray(given), n_jobs=self._threads()
        )

    @interruptible
    def marginals(self, X: Any) -> Any:
        """Posterior of every column given what is observed in each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows; NaN marks what is not observed. Observed cells come back with probability 1.

        Returns
        -------
        list of float64 arrays of shape (n_rows, K), one for each column
            Probabilities of its states. If the model was fitted on a DataFrame: one DataFrame whose
            columns are pairs (column, label).
        """
        probabilities = self._fitted_circuit().marginals(self._encode(X), n_jobs=self._threads())
        offsets = self.domains_.offsets
        if not self._from_frame:
            return np.split(probabilities, offsets[1:-1], axis=1)
        import pandas as pd

        labels = [
            (domain.name if domain.name is not None else j, domain.label(code))
            for j, domain in enumerate(self.domains_)
            for code in range(domain.n_states)
        ]
        columns = pd.MultiIndex.from_tuples(labels, names=["column", "label"])
        return pd.DataFrame(probabilities, index=getattr(X, "index", None), columns=columns)

    @interruptible
    def mpe(self, X: Any, return_log_likelihood: bool = False) -> Any:
        """Complete each row with its most probable explanation.

        Exact on deterministic circuits (single networks). On mixtures and ensembles, where the
        problem is NP-hard, this is the usual approximation: the best completion within the
        component whose best completion is most probable.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows; NaN marks what is to be completed.
        return_log_likelihood : bool
            Return the log-probability of the completed rows too.

        Returns
        -------
        array or DataFrame, and a float64 array if asked for
        """
        circuit = self._fitted_circuit()
        codes, value = circuit.mpe(self._encode(X), n_jobs=self._threads())
        table = self._decode(codes, getattr(X, "index", None))
        return (table, value) if return_log_likelihood else table

    @interruptible
    def impute(self, X: Any, method: str = "mpe", random_state: Any = None) -> Any:
        """Fill the missing cells of a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Rows with missing cells.
        method : {"mpe", "mode", "sample"}
            ``mpe`` fills each row with its jointly most probable completion, ``mode`` each cell
            with its most probable state, ``sample`` with a draw from the posterior.
        random_state : None, int or Generator
            For ``sample``.

        Returns
        -------
        array or DataFrame
            Observed cells are as they were.
        """
        check_choice("method", method, ("mpe", "mode", "sample"))
        if method == "mpe":
            return self.mpe(X)
        circuit, codes = self._fitted_circuit(), self._encode(X)
        if method == "sample":
            filled = circuit.sample_conditional(codes, random_state, n_jobs=self._threads())
        else:
            probabilities = circuit.marginals(codes, n_jobs=self._threads())
            filled = codes.copy()
            missing = missing_code(codes.dtype)
            for j in range(len(self.domains_)):
                lo, hi = self.domains_.offsets[j : j + 2]
                rows = codes[:, j] == missing
                filled[rows, j] = probabilities[rows, lo:hi].argmax(axis=1)
        return self._decode(filled, getattr(X, "index", None))

    # ---------------------------------------------------------------- translation

    def _fitted_circuit(self) -> Circuit:
        """Return the fitted circuit, or raise scikit-learn's NotFittedError."""
        check_is_fitted(self, "circuit_")
        return self.circuit_

    def _threads(self) -> int:
        return count_jobs(self.n_jobs)

    def _encode(self, X: Any) -> CodeArray:
        check_is_fitted(self, "circuit_")
        unseen: Any = self.unseen
        return encode(
            X,
            self.domains_,
            allow_missing=True,
            unseen=unseen,
            estimator_name=type(self).__name__,
        )

    def _evidence(self, evidence: Any) -> CodeArray:
        if not isinstance(evidence, Mapping):
            return self._encode(evidence)
        check_is_fitted(self, "circuit_")
        return encode_row(evidence, self.domains_)

    def _decode(self, codes: CodeArray, index: Any = None) -> Any:
        return decode(codes, self.domains_, index=index, as_frame=self._from_frame)

    # ---------------------------------------------------------------- checkpoints

    def _begin_checkpoint(self, path: str | os.PathLike[str], *table: Any) -> None:
        """See that there is a place for it, and note what it is made from."""
        check_folder(path)
        self._made_from = self._fingerprint(*table)

    def _fingerprint(self, *arrays: Any) -> str:
        """Digest of a table and of the settings that decide what is learned from it."""
        settings = {
            name: np.asarray(value).tolist() if isinstance(value, (list, tuple)) else value
            for name, value in self.get_params(deep=False).items()
            if name not in self._may_change
        }
        if not isinstance(settings.get("random_state"), (int, np.integer)):
            settings.pop("random_state", None)  # the seed was drawn, and is in the checkpoint
        digest = hashlib.sha256(repr(sorted(settings.items())).encode())
        for array in arrays:
            digest.update(repr(None if array is None else (array.shape, array.dtype.str)).encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _load_checkpoint(self, path: str | os.PathLike[str]) -> Any:
        """Read what an earlier run of this estimator on the same table has saved."""
        other = load(path)
        if type(other) is not type(self) or other._made_from is None:
            raise ModelFileError(
                f"{os.fspath(path)!r} is not a checkpoint of a {type(self).__name__}; remove it or "
                "name another file"
            )
        if other._made_from != self._made_from:
            raise DataError(
                f"the checkpoint {os.fspath(path)!r} was made from another table or with other "
                "settings; remove it or name another file"
            )
        return other

    # ---------------------------------------------------------------- contract

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        return tags

    def _get_state(self) -> dict[str, Any]:
        if not hasattr(self, "circuit_"):
            return {}
        names = getattr(self, "feature_names_in_", None)
        state = {name: getattr(self, name) for name in self._state_names}
        state["circuit_"] = self.circuit_
        state["from_frame"] = self._from_frame
        state["feature_names"] = None if names is None else [str(name) for name in names]
        if self._made_from is not None:
            state["made_from"] = self._made_from
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self.circuit_ = state.pop("circuit_")
        if not isinstance(self.circuit_, Circuit):
            raise ValueError("circuit_ is not a circuit")
        names, from_frame = state.pop("feature_names"), state.pop("from_frame")
        if names is not None and (type(names) is not list or names != self.circuit_.domains.names):
            raise ValueError("the feature names are not those of the columns")
        if type(from_frame) is not bool:
            raise ValueError("from_frame is not a truth value")
        self._set_domains(self.circuit_.domains, names, from_frame)
        self._check_settings()
        self.n_parameters_ = self.circuit_.n_parameters
        if "made_from" in state:
            self._made_from = str(state.pop("made_from"))
        if set(state) != set(self._state_names):
            raise ValueError(f"attributes {sorted(state)} instead of {sorted(self._state_names)}")
        score = state.get("structure_score_")
        if not (score is None or (isinstance(score, Real) and not isinstance(score, bool))):
            raise ValueError("structure_score_ is not a number")
        for name, value in state.items():
            setattr(self, name, value)

    def _check_settings(self) -> None:
        """Raise an error if a setting of a fitted model cannot be used; for files."""
        count_jobs(self.n_jobs)
        check_choice("unseen", self.unseen, ("error", "missing"))
        if not isinstance(self.verbose, (int, np.integer)):
            raise ValueError(f"verbose must be a whole number, got {self.verbose!r}")
        check_floors(self.n_states, len(self.domains_))
