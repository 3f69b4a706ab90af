"""Checks of weights and settings that all estimators make."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.exceptions import DataError, IdentifierWarning

#: Most parents of a column: tables of 2^17 cells.
MAX_WIDTH = 16
# Learning holds the counts of pairs of states of a node, of the branches it tries and of the best
# of them, and of nodes that wait: eight times four bytes for a pair at the peak. Columns of more
# than two states take more (52 and 66 bytes measured): tables of their states, and of forests.
_PAIR_BYTES = 32
_STATES_PAIR_BYTES = 56
_MOST_BYTES = 2**32
# A column of more states than this with fewer rows for each than that teaches nothing but itself:
# names, numbers of customers, amounts of money taken for labels.
_MANY_STATES = 32
_ROWS_PER_STATE = 5
# Weights of this many rows that add up to one row or less were normalised by mistake.
_MANY_ROWS = 10
# The logarithm of the gamma function of more is infinite, or nearly so.
_MOST_WEIGHT = 1e300


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Return float64 weights, or None if every row counts once.

    Raises
    ------
    DataError
        If the weights have the wrong shape, are negative or not finite, or are all zero.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample_weight must hold numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1:
        raise DataError(
            f"Sample weights must be 1D array or scalar, got {weights.ndim}D array. "
            f"Expected either a scalar value or a 1D array of length {n_rows}."
        )
    if len(weights) != n_rows:
        raise DataError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}: one weight per row."
        )
    bad = np.flatnonzero(~np.isfinite(weights))
    if len(bad):
        raise DataError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite numbers."
        )
    bad = np.flatnonzero(weights < 0)
    if len(bad):
        raise DataError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]:g}: weights must not be negative."
        )
    if not weights.any():
        raise DataError("All sample weights are zero: nothing is left to learn from.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not total <= _MOST_WEIGHT:
        raise DataError(
            "the sample weights add up to more than scores in float64 hold "
            f"({_MOST_WEIGHT:g}): divide them by a constant"
        )
    n_used = np.count_nonzero(weights)
    if n_used >= _MANY_ROWS and weights.sum() <= 1.0 + 1e-6:
        warnings.warn(
            f"sample_weight adds up to {weights.sum():.3g} for {n_used} rows. A weight of 2 is a "
            "row given twice, so this is a table of at most one row, from which next to nothing "
            "can be learned. Multiply the weights by the number of rows.",
            UserWarning,
            stacklevel=3,
        )
    return None if bool(np.all(weights == 1.0)) else weights


def find_identifiers(domains: Domains, n_rows: int) -> IntArray:
    """Columns of labels that are different in nearly every row, or have too few rows for a state.

    If all are, the one of the fewest states is left out.

    Examples
    --------
    >>> find_identifiers(Domains.of_sizes([2, 900, 30, 40]), 1000)
    array([1])
    """
    states = domains.n_states
    labels = np.array([domain.grid is None for domain in domains], dtype=bool)
    many = (states > _MANY_STATES) & (n_rows < _ROWS_PER_STATE * states)
    apart = np.flatnonzero(labels & many)
    if 0 < len(apart) == len(domains):
        apart = np.delete(apart, np.argmin(states))
    return apart


def warn_of_identifiers(
    domains: Domains, n_rows: int, apart: IntArray, otherwise: str = "or bin them"
) -> None:
    """Warn, once for all of them, that columns are taken to be independent of the rest."""
    if len(apart) == 0:
        return
    found = ", ".join(
        f"{j if domains[j].name is None else domains[j].name!r} ({domains.n_states[j]} states)"
        for j in apart.tolist()
    )
    warnings.warn(
        f"Nothing can be learned from {n_rows} rows about how columns of so many states depend on "
        f"others; taken to be independent of all other columns: {found}. Leave them out, "
        f"{otherwise}.",
        IdentifierWarning,
        stacklevel=4,
    )


def check_size(domains: Domains, apart: IntArray | None = None) -> None:
    """Raise a DataError if the counts of pairs of states would be too large, naming a column.

    Columns set ``apart`` are not counted.
    """
    states = domains.n_states.copy()
    if apart is not None:
        states[apart] = 1
    n_bits = int((states - 1).sum())
    n_bytes = n_bits**2 * (_STATES_PAIR_BYTES if np.any(states > 2) else _PAIR_BYTES)
    if n_bytes <= _MOST_BYTES:
        return
    widest = int(states.argmax())
    name = domains[widest].name
    raise DataError(
        f"The columns have {n_bits + len(domains)} states together, whose pairs would take "
        f"{n_bytes / 2**30:.0f} GiB to count. Column "
        f"{widest if name is None else name!r} has {states[widest]} of them: leave out or bin such "
        "columns."
    )


def repeat_rows(table: Table) -> tuple[Table, IntArray]:
    """Turn whole-number weights into repeated rows, so that counts stay exact integers.

    Returns the table with the weights that are still needed, and its rows to learn from. Weights
    that would more than quadruple the table are kept as they are.
    """
    rows, weights = np.arange(table.n_rows, dtype=np.int32), table.weights
    if weights is None:
        return table, rows
    whole = bool(np.all(weights == np.floor(weights))) and weights.sum() <= 4.0 * table.n_rows
    if whole:
        return table.with_weights(None), np.repeat(rows, weights.astype(np.int64))
    return table, rows[weights > 0]


def check_count(name: str, value: Any, low: int = 1) -> int:
    """Return a whole number of at least ``low``, or raise a ValueError naming the setting."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    return int(value)


def check_width(name: str, value: Any) -> int:
    """Return a most number of parents, or raise a ValueError."""
    width = check_count(name, value, low=0)
    if width > MAX_WIDTH:
        raise ValueError(
            f"{name} must be at most {MAX_WIDTH}, got {value!r}: a table of a column with w "
            "parents has 2^(w + 1) cells and more"
        )
    return width


def check_number(name: str, value: Any, low: float = 0.0, *, strict: bool = False) -> float:
    """Return a finite number of at least (or, ``strict``, above) ``low``, or raise a ValueError."""
    bound = f"{'greater than' if strict else 'at least'} {low:g}"
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < low or (strict and value == low):
        raise ValueError(f"{name} must be a finite number {bound}, got {value!r}")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless ``value`` is one of ``choices``."""
    if value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {known}, got {value!r}")


def draw_seed(random_state: Any) -> int:
    """Turn a ``random_state`` into one seed: an int as it is, a generator or None by a draw."""
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    try:
        return int(np.random.default_rng(random_state).integers(2**31))
    except TypeError as error:
        raise ValueError(f"random_state cannot be used as a seed: {random_state!r}") from error
