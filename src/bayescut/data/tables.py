"""What counts as a table: shapes, dtypes and cells, checked before anything is learned from them.

Everything here is plain numpy: reductions over folded rows (see :func:`column_range`) are as fast
as a compiled loop, cost no compilation, and take read-only and memory-mapped arrays as they are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayescut.data.domains import MAX_STATES, Domains
from bayescut.exceptions import DataError

__all__ = [
    "as_numbers",
    "as_table",
    "column_names",
    "column_range",
    "is_frame",
    "is_missing",
    "reject_cell",
    "row_blocks",
    "whole_blocks",
    "without_column",
]

# Cells in one block of rows: what is converted at a time stays within the second-level cache.
_BLOCK_CELLS = 1 << 17
# Rows are folded until one is this long, see column_range.
_FOLD_CELLS = 4096

Where = Callable[[int, int], str]


def is_frame(X: Any) -> bool:
    """Tell whether X is a pandas DataFrame, without importing pandas."""
    return all(hasattr(X, attribute) for attribute in ("iloc", "columns", "dtypes"))


def column_names(X: Any) -> list[str] | None:
    """Return the column names of a DataFrame, or None for tables without names.

    Parameters
    ----------
    X : object
        Any table.

    Returns
    -------
    list of str or None
        None for arrays, and for DataFrames whose columns are numbered 0, 1, 2, ...

    Raises
    ------
    TypeError
        If names are neither strings nor these numbers: nothing could be matched by them.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescut.data import column_names
    >>> column_names(pd.DataFrame({"a": [0], "b": [1]}))
    ['a', 'b']
    >>> column_names([[0, 1]]) is None
    True
    """
    if not is_frame(X):
        return None
    names = list(X.columns)
    strings = sum(isinstance(name, str) for name in names)
    if names == list(range(len(names))):
        return None
    if strings < len(names):
        kinds = sorted({type(name).__name__ for name in names})
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types. Convert them to strings "
            "with X.columns = X.columns.astype(str), or give the table as a numpy array."
        )
    return [str(name) for name in names]


def as_table(X: Any) -> Any:
    """Return X as a DataFrame or as an array with two dimensions, at least one row and column.

    Arrays keep their memory and their dtype; masked cells of a masked array become NaN.
    """
    if is_frame(X):
        _check_shape(X.shape)
        if not X.columns.is_unique:
            twice = list(dict.fromkeys(X.columns[X.columns.duplicated()]))
            raise DataError(
                f"Column names must be distinct; given more than once: {twice}. Rename them."
            )
        return X
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. "
            "Use '.toarray()' to convert to a dense numpy array."
        )
    if X is None or isinstance(X, (str, bytes, Mapping, PathLike)):
        raise DataError(
            f"Expected 2D array or DataFrame, got {_shown(X)} instead. "
            "Read files with pandas.read_csv or pandas.read_parquet; pandas.DataFrame(...) turns a "
            "mapping of columns into a table."
        )
    array = _as_array(X)
    if array.dtype.kind == "c":
        raise DataError(f"Complex data not supported: the table has dtype {array.dtype}.")
    if array.ndim != 2:
        kind = "scalar" if array.ndim == 0 else f"{array.ndim}D"
        raise DataError(
            f"Expected 2D array, got {kind} array instead (shape={array.shape}). Reshape your "
            "data either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
    _check_shape(array.shape)
    return array


def _shown(X: Any) -> str:
    return "None" if X is None else f"the {type(X).__name__} {str(X)[:40]!r}"


def without_column(X: Any, column: int, domains: Domains) -> Any:
    """Return a table that says nothing of a column, whatever it said; a DataFrame may lack it.

    Parameters
    ----------
    X : object
        Any table; it stays as it is.
    column : int
        Position of the column among all of them.
    domains : Domains
        All columns. If they have no names, or those of X are numbers, places tell them.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescut.data import Domains
    >>> without_column(pd.DataFrame([[0, 1], [1, 1]]), 1, Domains.binary(2))
       0   1
    0  0 NaN
    1  1 NaN
    >>> without_column([[0, 1]], 1, Domains.binary(2))
    array([[ 0., nan]])
    """
    name = domains[column].name
    if is_frame(X):
        if name is not None and X.columns.inferred_type != "integer":
            return X.assign(**{name: np.nan})
        n_others = len(domains) - 1
        if len(X.columns) not in (n_others, n_others + 1):
            return X
        own = list(range(len(X.columns)))
        if len(own) > n_others:
            del own[column]
        frame = X.iloc[:, own].set_axis([str(j) for j in range(n_others)], axis=1)
        frame.insert(column, "", np.nan)
        return frame.set_axis(range(n_others + 1), axis=1)
    table = as_table(X)
    if table.shape[1] != len(domains):
        return table
    kind, whole = table.dtype.kind, 2**53
    if kind in "biu" and (kind == "b" or -whole < table.min() <= table.max() < whole):
        table = table.astype(np.float64)
    else:
        table = table.copy() if kind == "f" else table.astype(object)
    table[:, column] = np.nan
    return table


def _as_array(X: Any) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        # np.asarray would show what lies under the mask.
        if np.ma.is_masked(X):
            return np.ma.filled(X.astype(np.float64 if X.dtype.kind in "biuf" else object), np.nan)
        return np.asarray(X.data)
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return np.asarray(X)
    try:
        array = np.asarray(X)
    except ValueError:
        lengths = [len(row) if hasattr(row, "__len__") else 1 for row in X]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is None:
            raise
        raise DataError(
            f"The rows of a table must be equally long: row 0 has {lengths[0]} values, "
            f"row {odd} has {lengths[odd]}."
        ) from None
    if array.dtype.kind in "US":
        # One string turns a whole list into strings; the cells as given tell which one it was.
        array = np.asarray(X, dtype=object)
    return array


def _check_shape(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise DataError(
                f"Found array with 0 {what} (shape={tuple(shape)}) "
                "while a minimum of 1 is required."
            )


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut the rows into blocks of bounded size."""
    step = max(1, _BLOCK_CELLS // max(1, n_columns))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))


def is_missing(value: Any) -> bool:
    """Tell whether a cell means "not observed": None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def reject_cell(value: Any, place: str) -> NoReturn:
    """Raise the error that fits a cell which is not a whole, non-negative number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (str, bytes)):
        raise DataError(
            f"Text {value!r} in {place}: an array must hold whole numbers. Give the table as a "
            "pandas DataFrame to use text columns, or replace the text by codes 0, 1, 2, ..."
        )
    if isinstance(value, complex):
        raise DataError(f"Complex data not supported: {value!r} in {place}.")
    if not isinstance(value, (int, float)):
        raise TypeError(
            f"A cell argument must be a string or a number, not {type(value).__name__!r}: {place}."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(
            f"Non-finite value {value!r} in {place}: use NaN for cells that were not observed, "
            "and whole numbers elsewhere (infinity is no state)."
        )
    if value < 0:
        raise DataError(
            f"Negative values in data: {value!r} in {place}. States are the codes 0, 1, 2, ...; "
            "use NaN for cells that were not observed, or give a pandas DataFrame to have the "
            "values taken as labels."
        )
    if value != math.floor(value):
        raise DataError(
            f"Value {value!r} in {place} is not a whole number: bin this column first, for "
            "example with pandas.qcut or sklearn.preprocessing.KBinsDiscretizer."
        )
    raise DataError(
        f"Value {value!r} in {place} gives the column more than {MAX_STATES} states: "
        "bin it first, or number its values 0, 1, 2, ..."
    )


def as_numbers(X: NDArray[Any], where: Where) -> NDArray[Any]:
    """Return an array of booleans, integers or floats; objects become floats if they are numbers.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Any dtype.
    where : callable
        Names a cell, given its row and column.
    """
    if X.dtype.kind in "biuf":
        # Half precision cannot hold the largest code, so comparisons with it overflow.
        return X.astype(np.float32) if X.dtype == np.float16 else X
    if X.dtype.kind != "O":
        if X.dtype.kind in "US":
            reject_cell(X[0, 0], where(0, 0))
        raise DataError(
            f"A table of dtype {X.dtype} cannot be used: convert it to whole numbers, "
            "or give it as a pandas DataFrame of text or categories."
        )
    kinds = set(map(type, X.ravel().tolist()))
    number = (int, float, np.integer, np.floating, np.bool_)
    if not all(issubclass(kind, number) or kind is type(None) for kind in kinds):
        X = X.copy()
        for row, column in np.ndindex(*X.shape):
            value = X[row, column]
            if is_missing(value):
                X[row, column] = np.nan
            elif not isinstance(value, number):
                reject_cell(value, where(row, column))
    try:
        return X.astype(np.float64)
    except OverflowError:
        for row, column in np.ndindex(*X.shape):
            value = X[row, column]
            if isinstance(value, int) and abs(value) > 2**53:
                reject_cell(value, where(row, column))
        raise


def column_range(X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the smallest and the largest value of every column of an integer or boolean array.

    Rows of a C-contiguous array are folded, several to one long row, before the reduction: with
    8 uint8 columns numpy then takes 0.04 ns a cell instead of 2 (a compiled loop: 0.6). Needs
    O(m) memory.
    """
    if X.dtype.kind == "b":
        X = X.view(np.uint8)
    rows, columns = X.shape
    fold = min(rows, max(1, _FOLD_CELLS // columns))
    if fold == 1 or not X.flags.c_contiguous:
        high = X.max(axis=0)
        return (np.zeros_like(high) if X.dtype.kind == "u" else X.min(axis=0)), high
    split = rows - rows % fold
    long = X[:split].reshape(split // fold, fold * columns)
    high = long.max(axis=0).reshape(fold, columns).max(axis=0)
    low = np.zeros_like(high)
    if X.dtype.kind != "u":
        low = long.min(axis=0).reshape(fold, columns).min(axis=0)
    if split < rows:
        high = np.maximum(high, X[split:].max(axis=0))
        if X.dtype.kind != "u":
            low = np.minimum(low, X[split:].min(axis=0))
    return low, high


def whole_blocks(
    X: NDArray[Any], where: Where, limit: float = MAX_STATES
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.bool_] | None]]:
    """Walk through a numeric array in blocks of rows, refusing cells that cannot be codes.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Booleans, integers or floats.
    where : callable
        Names a cell, given its row and column.
    limit : float
        Cells of this value or more are refused too.

    Yields
    ------
    rows : slice
        The rows of the block.
    values : ndarray
        Their cells, with 0 where missing; whole, non-negative and below the limit.
    missing : ndarray of bool or None
        Where cells are missing, None if nowhere.
    """
    for rows in row_blocks(*X.shape):
        values = X[rows]
        missing = None
        fine = True
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            if missing.any():
                values = np.where(missing, values.dtype.type(0), values)
            else:
                missing = None
            fine = bool((np.floor(values) == values).all())
        if not fine or values.min() < 0 or values.max() >= limit:
            # Negative cells first: where there are any, fractions are not the cause to name.
            outside = values < 0
            if not outside.any():
                outside = (values >= limit) | (np.floor(values) != values)
            row, column = np.argwhere(outside)[0].tolist()
            reject_cell(values[row, column], where(rows.start + row, column))
        yield rows, values, missing
