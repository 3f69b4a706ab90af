"""The one table that learners read: codes, what they stand for, and how much each row counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data.domains import Domains, missing_code
from bayescut.exceptions import DataError

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Encoded rows with the domains of their columns and, possibly, weights and numbers.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n, m)
        States of the cells; the largest value of the dtype means "not observed".
    domains : Domains
        The states of the m columns.
    weights : float64 array of shape (n,), optional
        Non-negative weights; None: every row counts once.
    values : float64 array of shape (n, m), optional
        The numbers themselves where a column is a number, NaN elsewhere.

    Examples
    --------
    >>> from bayescut.data import Domains
    >>> table = Table(np.array([[0, 2], [1, 255]], dtype=np.uint8), Domains.of_sizes([2, 3]))
    >>> table.n_rows, table.sizes, table.has_gaps
    (2, array([2, 3]), True)
    >>> table.take([0]).has_gaps
    False
    """

    codes: CodeArray
    domains: Domains
    weights: FloatArray | None = None
    values: FloatArray | None = None

    def __post_init__(self) -> None:
        missing_code(self.codes.dtype)  # refuses what is not uint8 or uint16
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.domains):
            raise DataError(
                f"codes of shape {self.codes.shape} are no table of {len(self.domains)} columns."
            )
        for name, shape in (("weights", self.codes.shape[:1]), ("values", self.codes.shape)):
            array = getattr(self, name)
            if array is not None and (array.shape != shape or array.dtype != np.float64):
                raise DataError(
                    f"{name} must be a float64 array of shape {shape}, not {array.dtype} of shape "
                    f"{array.shape}."
                )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.codes.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.codes.shape[1]

    @property
    def sizes(self) -> IntArray:
        """Numbers of states of the columns, shape (m,)."""
        return self.domains.n_states

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Which cells are observed, shape (n, m)."""
        return self.codes != missing_code(self.codes.dtype)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any cell is not observed."""
        # Column by column: no table of truth values beside a large one.
        mark = missing_code(self.codes.dtype)
        return any(bool((column == mark).any()) for column in self.codes.T)

    @cached_property
    def log_inside(self) -> FloatArray:
        """Summed log-densities of the numbers of every row within their cells, shape (n,)."""
        total = np.zeros(self.n_rows)
        if self.values is not None:
            for j, domain in enumerate(self.domains):
                if domain.grid is not None:
                    total += domain.grid.log_inside(self.values[:, j])
        return total

    @property
    def all_weights(self) -> FloatArray:
        """The weights, ones if every row counts once."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    def total_weight(self, rows: IntArray | None = None) -> float:
        """Weight of some rows, all if left out: their number if every row counts once."""
        if self.weights is None:
            return float(self.n_rows if rows is None else len(rows))
        return float((self.weights if rows is None else self.weights[rows]).sum())

    def weighty(self, rows: IntArray | None = None) -> IntArray:
        """Return those of ``rows``, all if left out, that weigh anything, as int32."""
        if rows is None:
            rows = np.arange(self.n_rows, dtype=np.int32)
        return rows if self.weights is None else rows[self.weights[rows] > 0]

    def take(self, rows: IntArray) -> Table:
        """Return the table of these rows, in their order."""
        return Table(
            np.ascontiguousarray(self.codes[rows]),
            self.domains,
            None if self.weights is None else self.weights[rows],
            None if self.values is None else self.values[rows],
        )

    def of_columns(self, columns: IntArray) -> Table:
        """Return the table of these columns, in their order."""
        return Table(
            np.ascontiguousarray(self.codes[:, columns]),
            Domains([self.domains[j] for j in columns.tolist()]),
            self.weights,
            None if self.values is None else np.ascontiguousarray(self.values[:, columns]),
        )

    def with_weights(self, weights: FloatArray | None) -> Table:
        """Return the table of the same rows with other weights."""
        return replace(self, weights=weights)
