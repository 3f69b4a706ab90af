"""Smaller models of those that are mixtures."""

from __future__ import annotations

import copy
import math
from typing import Any, TypeVar

import numpy as np

from bayescut._interrupts import interruptible
from bayescut._typing import FloatArray
from bayescut.circuit.queries import completed_numbers, with_modes
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._validation import check_count, check_weights
from bayescut.learn.mixture.compress import compress

# Rows drawn from the model where none are given.
_N_DRAWN = 8192

E = TypeVar("E", bound="Compressible")


class Compressible(CircuitEstimator):
    """An estimator whose circuit is a sum over components, some of which it can do without."""

    @interruptible
    def compress(self: E, max_parameters: int, X: Any = None, sample_weight: Any = None) -> E:
        """Return a fitted model of at most so many parameters.

        Components are dropped, those first that rows lose least by for their size, and the others
        are weighted anew. This model stays as it is.

        Parameters
        ----------
        max_parameters : int
            Most parameters of the new model.
        X : array-like or DataFrame, optional
            Rows that are to lose little, best such that the model has not seen; missing cells are
            marginalised. None: rows drawn from the model.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        Estimator
            A model of the same class. Attributes that tell of learning are those of this model; its
            ``oob_score_``, where there is one, is NaN.

        Raises
        ------
        ValueError
            If the smallest component has more parameters.

        Examples
        --------
        >>> from bayescut import CutsetEnsemble
        >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
        >>> model = CutsetEnsemble(n_chains=5, n_bags=2, random_state=0).fit(X)
        >>> model.compress(20, X).n_parameters_ <= 20
        True
        """
        circuit = self._fitted_circuit()
        values: FloatArray | None
        most = check_count("max_parameters", max_parameters)
        if X is None:
            blank = np.full((_N_DRAWN, len(circuit.domains)), -1)
            codes, values = completed_numbers(circuit, blank, 0, n_jobs=self._threads())
            values = with_modes(circuit, codes, values)
            weights = None
        else:
            given = self._table(X)
            codes, values = given.codes, given.values
            weights = check_weights(sample_weight, len(codes))
        small = compress(circuit, most, codes, weights, values=values, n_jobs=self._threads())
        other = copy.copy(self)
        other.circuit_ = other._learned = small
        other.n_parameters_ = small.n_parameters
        if hasattr(other, "oob_score_"):
            other.oob_score_ = math.nan
        return other
