"""From tables to codes and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray
from bayescut.data.domains import (
    MAX_STATES,
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
    learn_column,
    match_columns,
)
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
from bayescut.exceptions import DataError

__all__ = ["decode", "encode", "encode_row", "encode_sets", "learn_domains"]


def _unnamed(row: int, column: int) -> str:
    return f"row {row}, column {column}"


def learn_domains(X: Any, n_states: ArrayLike | None = None) -> Domains:
    """Learn the states of every column of a table.

    Cells of arrays and lists are codes: column j has :math:`K_j = \\max(2, 1 + \\max_i x_{ij})`
    states. Columns of a pandas DataFrame have the sorted distinct values as labels; booleans,
    and numbers among 0 and 1, are binary even where only one of the two occurs.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n, m)
        The table. NaN, None and NA are cells that were not observed and teach nothing.
    n_states : int or array-like of shape (m,), optional
        The least number of states of every column, where the table does not show them all.

    Returns
    -------
    Domains
        One domain per column.

    Raises
    ------
    DataError
        If a cell is negative, infinite, fractional or text in an array, if a column has more
        than 65534 states, or if the table is empty.

    Examples
    --------
    >>> from bayescut.data import learn_domains
    >>> learn_domains([[0, 2], [0, 1]])
    Domains(2 columns, n_states=[2, 3])
    """
    table = as_table(X)
    floor = check_floors(n_states, table.shape[1])
    if is_frame(table):
        names = column_names(table)
        return Domains(
            learn_column(table.iloc[:, j], None if names is None else names[j], j, int(floor[j]))
            for j in range(table.shape[1])
        )
    array = as_numbers(table, _unnamed)
    if array.dtype.kind == "f":
        high = np.zeros(array.shape[1])
        for _, values, _ in whole_blocks(array, _unnamed):
            np.maximum(high, values.max(axis=0), out=high)
    else:
        low, high = column_range(array)
        if low.min() < 0 or high.max() >= MAX_STATES:
            for _ in whole_blocks(array, _unnamed):  # raises at the first offender
                pass
    return Domains.of_sizes(np.maximum(high.astype(np.int64) + 1, np.maximum(floor, 2)))


def check_floors(n_states: ArrayLike | None, n_columns: int) -> NDArray[np.int64]:
    """Return the least number of states of every column, 0 where there is none."""
    if n_states is None:
        return np.zeros(n_columns, dtype=np.int64)
    floor = np.asarray(n_states)
    if floor.dtype.kind not in "iu" or floor.shape not in ((), (n_columns,)):
        raise DataError(
            f"n_states must be a whole number or {n_columns} whole numbers, one per column, "
            f"not {n_states!r}."
        )
    if floor.min() < 1 or floor.max() > MAX_STATES:
        raise DataError(f"n_states must lie between 1 and {MAX_STATES}, not {n_states!r}.")
    return np.broadcast_to(floor, (n_columns,)).astype(np.int64)


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
    job = _Job(domains, allow_missing, unseen == "missing")
    codes_are_labels = all(domain.start == 0 for domain in domains)
    if is_frame(table):
        dtypes = set(table.dtypes)
        plain = len(dtypes) == 1 and all(
            isinstance(dtype, np.dtype) and dtype.kind in "biu" for dtype in dtypes
        )
        if codes_are_labels and plain and positions == list(range(n_columns)):
            return job.from_codes(table.to_numpy())
        return job.from_columns(
            table.shape[0],
            [column_encoder(table.iloc[:, j], d) for j, d in zip(positions, domains, strict=True)],
            lambda row, column: table.iat[row, positions[column]],
        )
    if codes_are_labels:
        return job.from_codes(as_numbers(table, domains.where))
    return job.from_columns(
        table.shape[0],
        [_array_encoder(table[:, j], domain) for j, domain in enumerate(domains)],
        lambda row, column: table[row, column],
    )


class _Job:
    """One call of :func:`encode`: the domains and what to do with cells that have no code."""

    def __init__(self, domains: Domains, allow_missing: bool, forgive_unseen: bool) -> None:
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

    def from_columns(
        self,
        n_rows: int,
        encoders: list[ColumnEncoder],
        cell: Callable[[int, int], Any],
    ) -> CodeArray:
        """Encode column by column, each with its own look-up of labels."""
        codes = np.empty((n_rows, len(encoders)), dtype=self.dtype)
        # Blocks keep the strided writes into one column within the cache.
        for rows in row_blocks(n_rows, 8):
            for column, encoder in enumerate(encoders):
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
                    found = np.where(found < 0, self.mark, found)
                codes[rows, column] = found
        return codes

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
    index: Any = None,
    columns: Any = None,
    as_frame: bool,
) -> Any:
    """Turn codes back into labels: the inverse of :func:`encode`.

    Parameters
    ----------
    codes : ndarray of shape (n, m)
        uint8 or uint16 codes; the largest value of the dtype means "not observed".
    domains : Domains
        The states of every column.
    index : Index, optional
        Row index of the DataFrame.
    columns : Index or list, optional
        Column names of the DataFrame, by default those of the domains.
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
    if as_frame:
        return decode_frame(codes, domains, index, columns)
    out: NDArray[Any] = np.empty(codes.shape, dtype=_decoded_dtype(domains, bool(missing.any())))
    out[...] = codes
    for column, domain in enumerate(domains):
        if domain.labels is not None:
            out[:, column] = domain.labels[np.where(missing[:, column], 0, codes[:, column])]
    if missing.any():
        out[missing] = None if out.dtype == object else np.nan
    return out


def _decoded_dtype(domains: Domains, some_missing: bool) -> type:
    kinds = {"i" if domain.labels is None else domain.labels.dtype.kind for domain in domains}
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


def encode_row(evidence: Mapping[str | int, Any], domains: Domains) -> CodeArray:
    """Turn evidence of the kind "this column has this value" into a row of codes.

    Parameters
    ----------
    evidence : mapping from column name or position to a label
        Columns that are not mentioned, or whose label is None or NaN, are not observed.
    domains : Domains
        The states of every column.

    Returns
    -------
    ndarray of shape (1, m)

    Raises
    ------
    DataError
        If a column or a label is unknown, or a column is mentioned twice.

    Examples
    --------
    >>> from bayescut.data import Domains, encode_row
    >>> encode_row({1: 2}, Domains.of_sizes([2, 3]))
    array([[255,   2]], dtype=uint8)
    """
    dtype = code_dtype(domains)
    row = np.full((1, len(domains)), missing_code(dtype), dtype=dtype)
    for key, column, label in _evidence_items(evidence, domains):
        if not is_missing(label):
            row[0, column] = _find_state(domains[column], key, label)
    return row


def _evidence_items(
    evidence: Mapping[str | int, Any], domains: Domains
) -> Iterator[tuple[str | int, int, Any]]:
    """Yield key, column and what is said of it, each column once."""
    done: set[int] = set()
    for key, said in evidence.items():
        column = domains.index(key)
        if column in done:
            raise DataError(f"Evidence mentions column {key!r} twice, by name and by position.")
        done.add(column)
        yield key, column, said


def _find_state(domain: Domain, key: str | int, label: Any) -> int:
    code = domain.find(label)
    if code < 0:
        raise DataError(
            f"Evidence on column {key!r}: {label!r} is no value of it. {domain.known_values()}"
        )
    return code


def encode_sets(
    evidence: Mapping[str | int, Collection[Any] | Any], domains: Domains
) -> NDArray[np.bool_]:
    """Turn evidence of the kind "this column is one of these values" into allowed states.

    Parameters
    ----------
    evidence : mapping from column name or position to a collection of labels
        A single label stands for the set that holds only it. Columns that are not mentioned, or
        whose single label is None or NaN, are not observed: all their states are allowed.
    domains : Domains
        The states of every column.

    Returns
    -------
    ndarray of bool, shape (sum of K,)
        Column j owns the entries ``domains.offsets[j]`` to ``domains.offsets[j + 1] - 1``.

    Raises
    ------
    DataError
        If a column or a label is unknown, a set is empty, or a column is mentioned twice.

    Examples
    --------
    >>> from bayescut.data import Domains, encode_sets
    >>> encode_sets({1: {0, 2}}, Domains.of_sizes([2, 3]))
    array([ True,  True,  True, False,  True])
    """
    allowed = np.ones(int(domains.offsets[-1]), dtype=bool)
    for key, column, labels in _evidence_items(evidence, domains):
        single = isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable)
        if single and is_missing(labels):
            continue
        chosen = [labels] if single else list(labels)
        if not chosen:
            raise DataError(
                f"Evidence allows no value of column {key!r}: name at least one, or leave the "
                "column out if it was not observed."
            )
        domain = domains[column]
        states = allowed[domains.offsets[column] : domains.offsets[column + 1]]
        states[:] = False
        for label in chosen:
            states[_find_state(domain, key, label)] = True
    return allowed
