"""Estimators that choose settings on validation rows, as the originals of the literature do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data import encode
from bayescut.data.table import Table
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._validation import check_number, repeat_rows
from bayescut.exceptions import DataError


class Parts(NamedTuple):
    """Rows to learn from and rows to choose on.

    Attributes
    ----------
    codes, rows, weights
        A table, the rows of it to learn from, and the weights of all its rows if they differ.
    valid, valid_weights
        The held-out rows, and their weights if they differ.
    """

    codes: CodeArray
    rows: IntArray
    weights: FloatArray | None
    valid: CodeArray
    valid_weights: FloatArray | None

    def mean(self, log_likelihood: FloatArray) -> float:
        """Mean of a value of every held-out row."""
        return float(np.average(log_likelihood, weights=self.valid_weights))


class HeldOutEstimator(CircuitEstimator):
    """An estimator whose `fit` takes validation rows."""

    validation_fraction: float

    _valid: Any = None

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, X_valid: Any = None
    ) -> HeldOutEstimator:
        """Learn a circuit from a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            Complete rows: whole-number codes 0 .. K - 1, or a DataFrame whose columns hold labels.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative weights; a weight of 2 is a row given twice.
        X_valid : array-like or DataFrame, optional
            Complete rows that choose between settings and decide when to stop. They are not learned
            from.

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

    def _given_parts(self, table: Table) -> Parts | None:
        """Parts if `fit` was given validation rows."""
        if self._valid is None:
            return None
        valid = encode(
            self._valid, table.domains, allow_missing=False, estimator_name=type(self).__name__
        )
        if len(valid) == 0:
            raise DataError("X_valid has no rows.")
        return all_rows(table)._replace(valid=valid)

    def _drawn_parts(self, table: Table, seed: int) -> Parts:
        """Hold out a part of the rows, drawn at random."""
        fraction = check_number("validation_fraction", self.validation_fraction, strict=True)
        if fraction >= 1:
            raise ValueError(f"validation_fraction must be below 1, got {fraction!r}")
        codes, rows, weights, _, _ = all_rows(table)
        n_valid = max(1, round(fraction * len(rows)))
        if n_valid >= len(rows):
            raise DataError(
                f"n_samples={len(rows)} is too few to hold out rows for validation: give X_valid, "
                "or single values instead of lists of them."
            )
        order = np.random.default_rng(seed).permutation(rows)
        held, kept = order[:n_valid], np.sort(order[n_valid:])
        held_weights = None if weights is None else weights[held]
        return Parts(codes, kept, weights, codes[held], held_weights)


def all_rows(table: Table) -> Parts:
    """Return all rows to learn from, repeated where that is all their weights ask for, none held
    out."""
    repeated, rows = repeat_rows(table)
    return Parts(table.codes, rows, repeated.weights, table.codes[:0], None)


def one_or_more(name: str, value: Any) -> list[Any]:
    """Return one value or a list of several as a list; raise a ValueError if that is empty."""
    many = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)
    values = list(value) if many else [value]
    if not values:
        raise ValueError(f"{name} must not be an empty list")
    return values


def as_list(name: str, value: Any, low: float = 0.0, *, strict: bool = False) -> list[float]:
    """Return one number or several as a list, or raise a ValueError naming the setting."""
    values = one_or_more(name, value)
    return [check_number(name, number, low, strict=strict) for number in values]
