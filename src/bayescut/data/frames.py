"""Columns of pandas DataFrames: their labels, their codes, and the way back.

pandas is optional: nothing is imported here until a DataFrame is given or asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray
from bayescut.data.domains import MAX_STATES, Domain, Domains, missing_code, plain_label
from bayescut.data.tables import is_missing
from bayescut.data.times import time_cells
from bayescut.exceptions import BayescutError, DataError

__all__ = [
    "ABSENT",
    "UNSEEN",
    "column_encoder",
    "decode_frame",
    "dense",
    "dtype_kind",
    "find_labels",
    "is_category",
    "learn_column",
    "match_columns",
    "plain_numbers",
]

# Marks of an encoder for cells that have no code.
UNSEEN = -1
ABSENT = -2

ColumnEncoder = Callable[[slice], NDArray[np.int32]]

_BIN = "bin it first, for example with pandas.qcut or pandas.cut"
_NULLABLE = {"b": "boolean", "i": "Int", "u": "UInt"}


def is_category(dtype: Any) -> bool:
    """Tell whether a dtype is pandas' of categories."""
    return type(dtype).__name__ == "CategoricalDtype"


def dense(column: Any) -> Any:
    """Return a column without pandas' sparse storage."""
    return column.sparse.to_dense() if type(column.dtype).__name__ == "SparseDtype" else column


def dtype_kind(dtype: Any) -> str:
    """Return 'b', 'i', 'u', 'f', 'c', 'M', 'm' as numpy does, or 'O' for text and objects."""
    return str(getattr(dtype, "kind", "O"))


def plain_numbers(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the values of a numeric column (0 where missing) and where they are missing."""
    kind = dtype_kind(column.dtype)
    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        missing = np.isnan(values) if kind == "f" else None
    else:
        target = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}[kind]
        missing = column.isna().to_numpy(dtype=bool)
        values = column.to_numpy(dtype=target, na_value=target(0))
        if kind == "f":
            missing = missing | np.isnan(values)
    if missing is None or not missing.any():
        return values, None
    return np.where(missing, values.dtype.type(0), values), missing


def learn_column(
    column: Any, name: str | None, position: int, floor: int, fractions: bool = False
) -> Domain:
    """Learn the labels of one DataFrame column.

    Parameters
    ----------
    column : pandas.Series
        The column.
    name : str or None
        Its name, None if the names of the table are not strings.
    position : int
        Its position, for error messages.
    floor : int
        The number of states it has at least.
    fractions : bool
        Whether numbers that are not whole may be labels.

    Returns
    -------
    Domain
        With the labels in sorted order (a category's in its own order).
    """
    title = f"column {position if name is None else repr(name)}"
    column = dense(column)
    dtype = column.dtype
    kind = dtype_kind(dtype)
    if is_category(dtype):
        labels = _checked_labels(column.cat.categories, column, title, fractions=True)
        stored = "category[ordered]" if dtype.ordered else "category"
    elif kind == "b":
        labels, stored = [False, True], str(dtype)
    elif kind in "iuf":
        labels, stored = _number_labels(column, title, floor, fractions)
    elif type(dtype).__name__ == "PeriodDtype":
        raise DataError(
            f"The {title} has dtype {dtype}: make dates of it with .dt.to_timestamp(), or labels "
            "with .astype(str)."
        )
    elif kind in "Mmc":
        raise DataError(
            f"The {title} has dtype {dtype}, which has no states: {_BIN}, "
            "or convert it to text with .astype(str)."
        )
    else:
        labels = _sorted_labels(column, title, fractions)
        stored = str(dtype)
    if len(labels) == 0:
        raise DataError(
            f"No value of {title} was observed: drop the column, or declare its states as a "
            "pandas category."
        )
    if len(labels) > MAX_STATES:
        raise DataError(f"The {title} has {len(labels)} states, more than {MAX_STATES}: {_BIN}.")
    if len(labels) < floor:
        raise DataError(
            f"n_states asks for {floor} states of {title}, which has the {len(labels)} values "
            f"{labels[:5]}: declare the others as a pandas category."
        )
    return Domain(name, len(labels), np.array(labels, dtype=object), stored)


def _number_labels(column: Any, title: str, floor: int, fractions: bool) -> tuple[list[Any], str]:
    values, missing = plain_numbers(column)
    dtype = column.dtype
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values)
        if not fractions:
            bad |= np.floor(values) != values
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"Value {values[row].item()!r} in row {row}, {title} is not a whole number: {_BIN}."
            )
    low, high = values.min().item(), values.max().item()
    cast = float if values.dtype.kind == "f" else int
    whole = values.dtype.kind != "f" or bool((np.floor(values) == values).all())
    if low >= 0 and high < max(2, floor) and whole:
        # Zeros and ones are a binary variable even where only one of them occurs.
        size = max(2, floor)
        if cast is int and size - 1 > np.iinfo(values.dtype).max:
            return list(range(size)), "int64"
        return [cast(label) for label in range(size)], str(dtype)
    observed = values if missing is None else values[~missing]
    uniques = import_module("pandas").unique(observed)
    if len(uniques) > MAX_STATES:
        return list(uniques), str(dtype)
    return [cast(label) for label in np.sort(uniques).tolist()], str(dtype)


def _sorted_labels(column: Any, title: str, fractions: bool) -> list[Any]:
    try:
        uniques = column.dropna().unique()
    except TypeError:  # unhashable cells: the search below names the first
        uniques = column.dropna()
    labels = _checked_labels(uniques, column, title, fractions=fractions)

    if {type(label) for label in labels} in ({bool}, {int}, {float}) and set(labels) <= {0, 1}:
        # A boolean column with missing cells is often one of objects; it is binary all the same.
        kind = type(labels[0])
        return [kind(0), kind(1)]

    def order(label: Any) -> tuple[int, Any]:
        return (0, label) if isinstance(label, (bool, int, float)) else (1, label)

    try:
        return sorted(labels, key=order)
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def _checked_labels(values: Iterable[Any], column: Any, title: str, fractions: bool) -> list[Any]:
    labels = []
    for value in values:
        try:
            label = plain_label(value)
        except TypeError as error:
            row = next((i for i, cell in enumerate(column) if cell is value), None)
            place = title if row is None else f"row {row}, {title}"
            raise TypeError(
                f"Cell argument must be a string or a number, not {type(value).__name__!r} "
                f"({value!r}): {place}. Convert the column with .astype(float) if it holds "
                "numbers, with .astype(str) otherwise."
            ) from error
        if not fractions and isinstance(label, float) and not label.is_integer():
            row = next(i for i, cell in enumerate(column) if cell == label)
            raise DataError(f"Value {label!r} in row {row}, {title} is not a whole number: {_BIN}.")
        labels.append(label)
    return labels


def match_columns(X: Any, names: list[str] | None, domains: Domains) -> list[int]:
    """Return the position in X of every column of the domains: by name if both have names.

    Raises
    ------
    DataError
        In scikit-learn's words, if the names are not the same set.
    """
    if names is None or domains.names is None:
        return list(range(len(domains)))
    here = {name: position for position, name in enumerate(names)}
    unseen = sorted(set(names) - set(domains.names))
    lost = sorted(set(domains.names) - set(names))
    if unseen or lost:
        message = "The feature names should match those that were passed during fit.\n"
        if unseen:
            message += "Feature names unseen at fit time:\n" + _bullets(unseen)
        if lost:
            message += "Feature names seen at fit time, yet now missing:\n" + _bullets(lost)
        raise DataError(message)
    return [here[name] for name in domains.names]


def _bullets(names: Sequence[str], limit: int = 5) -> str:
    lines = [f"- {name}\n" for name in names[:limit]]
    return "".join(lines) + ("- ...\n" if len(names) > limit else "")


def find_labels(values: NDArray[Any], domain: Domain) -> NDArray[np.int32]:
    """Return the codes of an array of numbers without NaN, ``UNSEEN`` for what is no label."""
    if domain.start is not None:
        last = domain.start + domain.n_states - 1
        inside = (values >= domain.start) & (values <= last)
        if values.dtype.kind == "f":
            inside &= np.floor(values) == values
        shifted = np.where(inside, values, values.dtype.type(0)).astype(np.int64) - domain.start
        return np.where(inside, shifted, UNSEEN).astype(np.int32)
    uniques, inverse = np.unique(values, return_inverse=True)
    codes = np.array([domain.find(value) for value in uniques.tolist()], dtype=np.int32)
    return codes[inverse.reshape(values.shape)]


def column_encoder(column: Any, domain: Domain) -> ColumnEncoder:
    """Return a function from a slice of rows to codes, ``UNSEEN`` and ``ABSENT`` among them."""
    column = dense(column)
    if is_category(column.dtype):
        # A category's own codes index this table; its code -1, missing, is the last entry.
        categories = column.cat.categories.tolist()
        table = np.array([*map(domain.find, categories), ABSENT], dtype=np.int32)
        codes = column.cat.codes.to_numpy()
        return lambda rows: table[codes[rows]]
    if dtype_kind(column.dtype) in "biuf":

        def encode_numbers(rows: slice) -> NDArray[np.int32]:
            values, missing = plain_numbers(column.iloc[rows])
            found = find_labels(values, domain)
            if missing is not None:
                found[missing] = ABSENT
            return found

        return encode_numbers

    def encode_objects(rows: slice) -> NDArray[np.int32]:
        cells = column.iloc[rows]
        try:
            inverse, uniques = import_module("pandas").factorize(cells)
        except TypeError:  # unhashable cells are no labels
            return np.array(
                [ABSENT if is_missing(cell) else domain.find(cell) for cell in cells],
                dtype=np.int32,
            )
        table = np.array([*map(domain.find, uniques), ABSENT], dtype=np.int32)
        return table[inverse]

    return encode_objects


def decode_frame(
    codes: NDArray[Any],
    domains: Domains,
    index: Any,
    columns: Any,
    values: FloatArray | None = None,
    given: Any = None,
) -> Any:
    """Return codes, and values of numbers, as a DataFrame with the dtypes of the domains."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise BayescutError(
            "pandas is needed for DataFrames: pip install 'bayescut[pandas]'"
        ) from error
    mark = missing_code(codes.dtype)
    if index is None:
        index = pandas.RangeIndex(len(codes))
    elif not isinstance(index, pandas.Index):  # from an index of tuples it would make another
        index = pandas.Index(index)
    cells = [
        _decode_column(pandas, codes[:, j], d, mark)
        if d.grid is None or values is None
        else _decode_numbers(pandas, values[:, j], d)
        for j, d in enumerate(domains)
    ]
    if given is not None:
        for j, domain in enumerate(domains):
            if domain.grid is not None:
                column = given[domain.name] if domain.name in given.columns else given.iloc[:, j]
                cells[j] = _observed_kept(pandas, cells[j], column)
    # Series carry their dtype; from bare arrays of objects a DataFrame would guess another.
    frame = pandas.DataFrame(
        {j: pandas.Series(c, index=index, dtype=c.dtype) for j, c in enumerate(cells)}
    )
    if columns is None:
        columns = domains.names
    if columns is not None:
        frame.columns = columns
    return frame


def _decode_column(pandas: Any, codes: NDArray[Any], domain: Domain, mark: int) -> Any:
    missing = codes == mark
    some_missing = bool(missing.any())
    if domain.empty:
        return _all_missing(pandas, len(codes), domain.dtype)
    labels = np.arange(domain.n_states) if domain.labels is None else domain.labels
    dtype = domain.dtype or ("object" if labels.dtype.kind == "O" else str(labels.dtype))
    if dtype.startswith("category"):
        return pandas.Categorical.from_codes(
            np.where(missing, -1, codes.astype(np.int32)),
            categories=pandas.Index(labels.tolist()),
            ordered=dtype == "category[ordered]",
        )
    values = labels[np.where(missing, 0, codes)]
    target = pandas.api.types.pandas_dtype(dtype)
    if isinstance(target, np.dtype) and target.kind in "biuf":
        values = values.astype(target)
        if not some_missing:
            return values
        if target.kind == "f":
            values[missing] = np.nan
            return values
        width = "" if target.kind == "b" else str(8 * target.itemsize)
        dtype = _NULLABLE[target.kind] + width
    cells: NDArray[Any] = values.astype(object)
    cells[missing] = None
    return cells if dtype == "object" else pandas.array(cells, dtype=dtype)


def _all_missing(pandas: Any, n_rows: int, dtype: str | None) -> Any:
    try:
        return pandas.array([None] * n_rows, dtype=dtype or "float64")
    except (TypeError, ValueError):  # integers and the like have no gaps
        return np.full(n_rows, None, dtype=object)


def _decode_numbers(pandas: Any, values: FloatArray, domain: Domain) -> Any:
    """Return numbers, dates or durations in the dtype of their column."""
    missing = np.isnan(values)
    if domain.unit is not None:
        return _decode_times(pandas, values, domain)
    target = pandas.api.types.pandas_dtype(domain.dtype or "float64")
    kind = dtype_kind(target)
    if kind == "f":
        if isinstance(target, np.dtype):
            return values.astype(target)
        floats = pandas.array(values, dtype=target)
        floats[missing] = pandas.NA
        return floats
    size = int(target.itemsize)
    limits = np.iinfo(f"{kind}{size}")
    # Tails know nothing of dtypes. The largest float below 2^63 is 1024 less.
    whole = np.rint(np.where(missing, 0.0, values)).clip(float(limits.min), float(limits.max))
    if size == 8:
        whole = np.minimum(whole, float(limits.max - (2047 if kind == "u" else 1023)))
    cells = whole.astype(f"{kind}{size}")
    if not missing.any() and isinstance(target, np.dtype):
        return cells
    array = pandas.array(cells, dtype=_NULLABLE[kind] + str(8 * size))
    array[missing] = pandas.NA
    return array if isinstance(target, np.dtype) else array.astype(target)


def _observed_kept(pandas: Any, cells: Any, column: Any) -> Any:
    """Return cells with what is observed in a column: float64 loses digits of large ones."""
    column = dense(column)
    ours, theirs = dtype_kind(cells.dtype), dtype_kind(column.dtype)
    if ours != theirs or ours not in "iuMm":
        return cells
    # Others would have to be converted, and may not fit.
    if column.dtype != cells.dtype and (
        ours in "Mm" or column.dtype.itemsize > cells.dtype.itemsize
    ):
        return cells
    kept, observed = pandas.Series(cells), column.notna().to_numpy(dtype=bool)
    kept[observed] = column.array[observed].astype(cells.dtype)
    return kept.array


def _decode_times(pandas: Any, values: FloatArray, domain: Domain) -> Any:
    cells = time_cells(values, str(domain.unit), domain.kind)
    dtype = domain.dtype or str(cells.dtype)
    if dtype == "object":  # Python's own dates
        out: NDArray[Any] = np.full(len(values), None, dtype=object)
        seen = np.flatnonzero(~np.isnan(values))
        out[seen] = [domain.value(values[row]) for row in seen]
        return out
    if "," in dtype:  # a time zone
        return pandas.array(pandas.DatetimeIndex(cells).tz_localize("UTC")).astype(dtype)
    return pandas.array(cells).astype(dtype)
