"""From tables to codes and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data.domains import (
    MISSING8,
    Domain,
    Domains,
    code_dtype,
    missing_code,
)
from bayescut.data.frames import (
    ABSENT,
    UNSEEN,
    ColumnEncoder,
    column_encoder,
    decode_frame,
    find_labels,
    match_columns,
)
from bayescut.data.numbers import array_numbers, check_numbers, frame_numbers
from bayescut.data.tables import (
    Where,
    as_numbers,
    as_table,
    column_names,
    column_range,
    is_frame,
    is_missing,
    reject_cell,
    row_blocks,
    whole_blocks,
)
from bayescut.data.times import time_cells
from bayescut.exceptions import DataError

__all__ = ["decode", "encode", "encode_table", "unseen_cells"]


def encode(
    X: Any,
    domains: Domains,
    *,
    allow_missing: bool,
    unseen: Literal["error", "missing"] = "error",
    estimator_name: str = "the model",
) -> CodeArray:
    """Turn a table into codes.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, m)
        The table. Columns of a DataFrame are matched by name if the domains have names.
    domains : Domains
        The states of every column.
    allow_missing : bool
        Whether cells may be NaN, None or NA.
    unseen : {"error", "missing"}
        What to do with values that are no state of their column: refuse them, or take the cell
        as not observed (which needs ``allow_missing``).
    estimator_name : str
        Who is asking, for error messages.

    Returns
    -------
    ndarray of shape (n, m)
        C-contiguous codes, uint8 or uint16 as :func:`code_dtype` says; the largest value of the
        dtype means "not observed". A complete array that already holds such codes comes back as
        the same memory.

    Raises
    ------
    DataError
        Naming row, column and value of a cell that has no code.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.data import Domains, encode
    >>> encode([[0, 1], [np.nan, 2]], Domains.of_sizes([2, 3]), allow_missing=True)
    array([[  0,   1],
           [255,   2]], dtype=uint8)
    """
    return _encode(X, domains, allow_missing, unseen, estimator_name, keep_values=False)[0]


def encode_table(
    X: Any,
    domains: Domains,
    *,
    allow_missing: bool,
    unseen: Literal["error", "missing"] = "error",
    estimator_name: str = "the model",
) -> tuple[CodeArray, FloatArray | None]:
    """Turn a table into codes, and the values of its numbers.

    Parameters
    ----------
    X, domains, allow_missing, unseen, estimator_name
        As for :func:`encode`. Numbers beyond the range seen in training are no errors: they lie
        in the outermost cells.

    Returns
    -------
    codes : ndarray of shape (n, m)
        As for :func:`encode`; the code of a number is its cell.
    values : float64 array of shape (n, m), or None
        The numbers (dates and durations in the unit of their domain); NaN where a cell was not
        observed and in columns of labels. None if no column holds numbers.

    Raises
    ------
    DataError
        Naming row, column and value of a cell that has no code, or is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.data import encode_table, learn_domains
    >>> X = np.array([[0.5, 1], [2.25, 0], [np.nan, 1]])
    >>> codes, values = encode_table(X, learn_domains(X, numbers=True), allow_missing=True)
    >>> codes
    array([[  0,   1],
           [  1,   0],
           [255,   1]], dtype=uint8)
    >>> values
    array([[0.5 ,  nan],
           [2.25,  nan],
           [ nan,  nan]])
    """
    return _encode(X, domains, allow_missing, unseen, estimator_name, keep_values=True)


def unseen_cells(X: Any, domains: Domains, estimator_name: str = "the model") -> NDArray[np.bool_]:
    """Find the cells whose labels training did not show.

    Parameters
    ----------
    X, domains, estimator_name
        As for :func:`encode`.

    Returns
    -------
    bool array of shape (n, m)

    Examples
    --------
    >>> import pandas as pd
    >>> from bayescut.data import learn_domains, unseen_cells
    >>> domains = learn_domains(pd.DataFrame({"colour": ["red", "blue"]}))
    >>> unseen_cells(pd.DataFrame({"colour": ["red", "green", None]}), domains)
    array([[False],
           [ True],
           [False]])
    """
    marks: list[tuple[IntArray, IntArray]] = []
    codes, _ = _encode(X, domains, True, "missing", estimator_name, keep_values=False, marks=marks)
    found = np.zeros(codes.shape, dtype=np.bool_)
    for rows, columns in marks:
        found[rows, columns] = True
    return found


def _encode(
    X: Any,
    domains: Domains,
    allow_missing: bool,
    unseen: str,
    estimator_name: str,
    keep_values: bool,
    marks: list[tuple[IntArray, IntArray]] | None = None,
) -> tuple[CodeArray, FloatArray | None]:
    if unseen not in ("error", "missing"):
        raise DataError(f"unseen must be 'error' or 'missing', not {unseen!r}.")
    if unseen == "missing" and not allow_missing:
        raise DataError("unseen='missing' needs allow_missing=True.")
    table = as_table(X)
    names = column_names(table)
    positions = match_columns(table, names, domains) if is_frame(table) else []
    n_columns = table.shape[1]
    if n_columns != len(domains):
        raise DataError(
            f"X has {n_columns} features, but {estimator_name} is expecting {len(domains)} "
            "features as input."
        )
    continuous = np.flatnonzero(domains.n_states == 0)
    if len(continuous):
        raise DataError(f"Column {int(continuous[0])} is continuous and has no codes.")
    job = _Job(domains, allow_missing, unseen == "missing", marks)
    codes_are_labels = all(domain.start == 0 for domain in domains)
    if is_frame(table):
        dtypes = set(table.dtypes)
        plain = len(dtypes) == 1 and all(
            isinstance(dtype, np.dtype) and dtype.kind in "biu" for dtype in dtypes
        )
        if codes_are_labels and plain and positions == list(range(n_columns)):
            return job.from_codes(table.to_numpy()), None
        labels = {
            j: column_encoder(table.iloc[:, positions[j]], domain)
            for j, domain in enumerate(domains)
            if domain.grid is None
        }
        codes = job.from_columns(
            table.shape[0], labels, lambda row, column: table.iat[row, positions[column]]
        )

        def frame_column(j: int) -> FloatArray:
            column, domain = table.iloc[:, positions[j]], domains[j]
            return frame_numbers(column, domain.kind, domains.where, j, domain.unit)[0]

        return codes, job.add_numbers(codes, frame_column, keep_values)
    if codes_are_labels:
        return job.from_codes(as_numbers(table, domains.where)), None
    labels = {
        j: _array_encoder(table[:, j], domain)
        for j, domain in enumerate(domains)
        if domain.grid is None
    }
    codes = job.from_columns(table.shape[0], labels, lambda row, column: table[row, column])
    # A large table of nothing but numbers is not copied.
    same = not labels and table.dtype == np.float64 and table.flags.c_contiguous

    def array_column(j: int) -> FloatArray:
        return array_numbers(table[:, j], domains.where, j, domains[j])

    values = job.add_numbers(codes, array_column, keep_values and not same)
    return codes, table if same and keep_values else values


class _Job:
    """One call of :func:`encode`: the domains and what to do with cells that have no code.

    Rows and columns of unseen labels are added to ``marks``, if there are any.
    """

    def __init__(
        self,
        domains: Domains,
        allow_missing: bool,
        forgive_unseen: bool,
        marks: list[tuple[IntArray, IntArray]] | None = None,
    ) -> None:
        self.marks = [] if marks is None else marks
        self.domains = domains
        self.allow_missing = allow_missing
        self.forgive_unseen = forgive_unseen
        self.dtype = code_dtype(domains)
        self.mark = missing_code(self.dtype)

    def from_codes(self, array: NDArray[Any]) -> CodeArray:
        """Encode numbers where the codes are the labels of every column."""
        where: Where = self.domains.where
        sizes = self.domains.n_states
        if array.dtype.kind != "f":
            low, high = column_range(array)
            if low.min() >= 0 and (high < sizes).all():
                if array.dtype.kind == "b":
                    array = array.view(np.uint8)
                return np.ascontiguousarray(array, dtype=self.dtype)
        codes = np.empty(array.shape, dtype=self.dtype)
        for rows, values, missing in whole_blocks(array, where, np.inf):
            outside = values >= sizes
            if outside.any():
                if not self.forgive_unseen:
                    row, column = np.argwhere(outside)[0].tolist()
                    self._refuse(values[row, column], rows.start + row, column)
                where_rows, where_columns = np.nonzero(outside)
                self.marks.append((rows.start + where_rows, where_columns))
                missing = outside if missing is None else missing | outside
            if missing is not None and not self.allow_missing:
                row, column = np.argwhere(missing)[0].tolist()
                self._refuse(np.nan, rows.start + row, column)
            block = codes[rows]
            if missing is None:
                block[...] = values
            else:
                block[...] = np.where(missing, values.dtype.type(0), values)
                block[missing] = self.mark
        return codes

    def add_numbers(
        self, codes: CodeArray, column: Callable[[int], FloatArray], keep_values: bool
    ) -> FloatArray | None:
        """Fill in the cells of numbers, column by column; return the numbers if they are kept."""
        numbers = [j for j, domain in enumerate(self.domains) if domain.grid is not None]
        values = np.full(codes.shape, np.nan) if keep_values and numbers else None
        for j in numbers:
            cells = column(j)
            self.check(cells, j)
            codes[:, j] = self._cells(cells, j)
            if values is not None:
                values[:, j] = cells
        return values

    def check(self, column: FloatArray, j: int) -> None:
        """Refuse numbers that cannot be: infinite, beyond bounds, missing where none may be."""
        check_numbers(column, self.domains.where, j, self.domains[j])
        if not self.allow_missing and np.isnan(column).any():
            self._refuse(np.nan, int(np.argmax(np.isnan(column))), j)

    def from_columns(
        self,
        n_rows: int,
        encoders: Mapping[int, ColumnEncoder],
        cell: Callable[[int, int], Any],
    ) -> CodeArray:
        """Encode columns of labels, each with its own look-up; the others are left open."""
        codes = np.empty((n_rows, len(self.domains)), dtype=self.dtype)
        # Blocks keep the strided writes into one column within the cache.
        for rows in row_blocks(n_rows, 8):
            for column, encoder in encoders.items():
                found = encoder(rows)
                if found.min() < 0:
                    refused = np.zeros(len(found), dtype=bool)
                    if not self.forgive_unseen:
                        refused |= found == UNSEEN
                    if not self.allow_missing:
                        refused |= found == ABSENT
                    if refused.any():
                        row = rows.start + int(np.argmax(refused))
                        self._refuse(cell(row, column), row, column)
                    unseen = rows.start + np.flatnonzero(found == UNSEEN)
                    self.marks.append((unseen, np.full(len(unseen), column)))
                    found = np.where(found < 0, self.mark, found)
                codes[rows, column] = found
        return codes

    def _cells(self, numbers: FloatArray, column: int) -> CodeArray:
        grid = self.domains[column].grid
        if grid is None:
            raise DataError(f"Column {column} has no numbers.")
        found = grid.codes(numbers)
        if self.mark != MISSING8:
            found = np.where(np.isnan(numbers), self.mark, found.astype(self.dtype))
        return found

    def _refuse(self, value: Any, row: int, column: int) -> None:
        place = self.domains.where(row, column)
        if is_missing(value):
            raise DataError(
                f"Missing value (NaN) in {place}: every cell must be observed here. "
                "Drop the row, or fill the cell first."
            )
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, (dict, list, set, complex)):
            reject_cell(value, place)
        if self.domains[column].empty:
            raise DataError(
                f"Value {value!r} in {place}: no value of this column was observed in training, "
                "so nothing is known about it. Use NaN, or leave the column out of both tables."
            )
        raise DataError(
            f"Unseen value {value!r} in {place}. {self.domains[column].known_values()} "
            "Use NaN for a cell that was not observed; to take all such cells as not observed, "
            "set unseen='missing'; to allow more states, show them in training or declare them "
            "there (a pandas category, or n_states)."
        )


def _array_encoder(column: NDArray[Any], domain: Domain) -> ColumnEncoder:
    """Return the encoder of an array column whose values are looked up as labels."""

    def encode_numbers(rows: slice) -> NDArray[np.int32]:
        values = column[rows]
        missing = np.isnan(values) if values.dtype.kind == "f" else None
        if missing is None or not missing.any():
            return find_labels(values, domain)
        found = find_labels(np.where(missing, values.dtype.type(0), values), domain)
        found[missing] = ABSENT
        return found

    def encode_objects(rows: slice) -> NDArray[np.int32]:
        cells = column[rows].tolist()
        return np.array(
            [ABSENT if is_missing(cell) else domain.find(cell) for cell in cells], dtype=np.int32
        )

    return encode_numbers if column.dtype.kind in "biuf" else encode_objects


def decode(
    codes: ArrayLike,
    domains: Domains,
    *,
    values: ArrayLike | None = None,
    index: Any = None,
    columns: Any = None,
    given: Any = None,
    as_frame: bool,
) -> Any:
    """Turn codes back into labels and numbers: the inverse of :func:`encode_table`.

    Parameters
    ----------
    codes : ndarray of shape (n, m)
        uint8 or uint16 codes; the largest value of the dtype means "not observed".
    domains : Domains
        The states of every column.
    values : array-like of shape (n, m), optional
        The values of numbers, as :func:`encode_table` returns them. Without them, a number is the
        most likely value of its cell.
    index : Index, optional
        Row index of the DataFrame.
    columns : Index or list, optional
        Column names of the DataFrame, by default those of the domains.
    given : object, optional
        The table that the codes are of, gaps filled. If it is a DataFrame, observed whole numbers
        beyond 2^53 and nanoseconds, which float64 does not hold, are taken from it.
    as_frame : bool
        Whether to return a pandas DataFrame.

    Returns
    -------
    ndarray or DataFrame of shape (n, m)
        A DataFrame has the dtypes the domains were learned from (bool and integer columns with
        missing cells have pandas' nullable dtype). An array is int64, or float64 with NaN if
        cells are missing or labels are floats, or object with None if labels are text.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.data import Domains, decode
    >>> decode(np.array([[0, 2]], dtype=np.uint8), Domains.of_sizes([2, 3]), as_frame=False)
    array([[0, 2]])
    """
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(domains):
        raise DataError(f"Codes of shape {codes.shape} do not fit {len(domains)} columns.")
    missing = codes == missing_code(codes.dtype)
    outside = (codes >= domains.n_states) & ~missing
    if outside.any():
        row, column = np.argwhere(outside)[0].tolist()
        raise DataError(
            f"Code {codes[row, column]} in {domains.where(row, column)} is outside "
            f"0, ..., {domains[column].n_states - 1}."
        )
    numbers = _number_values(codes, domains, values)
    if as_frame:
        kept = given if is_frame(given) else None
        return decode_frame(codes, domains, index, columns, numbers, kept)
    out: NDArray[Any] = np.empty(codes.shape, dtype=_decoded_dtype(domains, bool(missing.any())))
    out[...] = codes
    for column, domain in enumerate(domains):
        if domain.labels is not None:
            out[:, column] = domain.labels[np.where(missing[:, column], 0, codes[:, column])]
        elif numbers is not None and domain.grid is not None:
            missing[:, column] = np.isnan(numbers[:, column])
            out[:, column] = _shown(numbers[:, column], domain)
        elif domain.empty:
            missing[:, column] = True
    if missing.any():
        out[missing] = None if out.dtype == object else np.nan
    return out


def _number_values(
    codes: NDArray[Any], domains: Domains, values: ArrayLike | None
) -> FloatArray | None:
    grids = {j: domain.grid for j, domain in enumerate(domains) if domain.grid is not None}
    if not grids:
        return None
    if values is not None:
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.shape != codes.shape:
            raise DataError(f"Values of shape {numbers.shape} do not fit codes {codes.shape}.")
        return numbers
    numbers = np.full(codes.shape, np.nan)
    mark = missing_code(codes.dtype)
    for j, grid in grids.items():
        missing = codes[:, j] == mark
        numbers[:, j] = np.where(missing, np.nan, grid.mode[np.where(missing, 0, codes[:, j])])
    return numbers


def _shown(numbers: FloatArray, domain: Domain) -> NDArray[Any]:
    """Return numbers as an array shows them; dates and durations as numpy's, in objects."""
    if domain.unit is None:
        return numbers
    shown: NDArray[Any] = np.empty(len(numbers), dtype=object)
    shown[:] = list(time_cells(numbers, domain.unit, domain.kind))
    return shown


def _decoded_dtype(domains: Domains, some_missing: bool) -> type:
    kinds = {_array_kind(domain) for domain in domains}
    if "O" in kinds:
        return object
    if "f" not in kinds and not some_missing:
        return np.int64
    # Whole numbers beyond 2^53 would lose digits as floats.
    for domain in domains:
        if domain.labels is not None and domain.labels.dtype.kind == "i":
            if max(abs(int(domain.labels.min())), abs(int(domain.labels.max()))) > 2**53:
                return object
    return np.float64


def _array_kind(domain: Domain) -> str:
    if domain.unit is not None:
        return "O"
    if domain.grid is not None or domain.empty:
        return "f"
    return "i" if domain.labels is None else domain.labels.dtype.kind
