"""The states of every column: what a code stands for, and how many codes there are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bayescut.data.grid import Grid
from bayescut.data.times import UNITS, time_number, time_value
from bayescut.exceptions import BayescutError, DataError

__all__ = [
    "MAX_STATES",
    "MISSING8",
    "MISSING16",
    "Domain",
    "Domains",
    "code_dtype",
    "label_array",
    "missing_code",
    "plain_label",
]

MISSING8 = 255
MISSING16 = 65535
# The largest K whose codes fit in 16 bits and still leave the top code free for "not observed".
MAX_STATES = 65534
# With more states than this the codes of a table are 16 bits wide.
_MAX_STATES8 = 254


def plain_label(value: Any) -> Any:
    """Turn a label into the plain Python value that is stored (and written to model files).

    Parameters
    ----------
    value : object
        bool, int, float, str, their numpy counterparts, or a numeric ``pandas.Interval``.

    Returns
    -------
    object
        The same label without its numpy wrapping.

    Raises
    ------
    TypeError
        If the value is of another type, or is not finite.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"a label must be finite, not {value!r}")
    # str and int subclasses (enums) would not survive a model file, hence the exact types.
    for kind in (bool, int, float, str):
        if type(value) is kind:
            return value
    if _is_interval(value):
        return value
    raise TypeError(f"a label must be a string or a number, not {type(value).__name__!r}")


def _is_interval(value: Any) -> bool:
    return type(value).__name__ == "Interval" and isinstance(
        getattr(value, "left", None), (int, float, np.number)
    )


def label_array(labels: Iterable[Any]) -> NDArray[Any]:
    """Pack labels into a read-only array: bool, int64 or float64 if all are, else objects."""
    values = [plain_label(value) for value in labels]
    kinds = {type(value) for value in values}
    dtype: type = object
    if kinds == {bool}:
        dtype = np.bool_
    elif kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        dtype = np.int64
    elif kinds == {float}:
        dtype = np.float64
    array: NDArray[Any] = np.empty(len(values), dtype=dtype)
    array[:] = values
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Domain:
    """What one column can hold: labels, or numbers in the cells of a grid.

    Parameters
    ----------
    name : str or None
        Column name, None when the table had none.
    n_states : int
        Number of states K; 0 marks a continuous column.
    labels : ndarray or None
        The K labels in code order; None when the codes 0, ..., K-1 are the labels.
    dtype : str or None
        The pandas dtype to restore on decoding, None for columns of numpy arrays.
    grid : Grid or None
        The cells and the density of a number, a date or a duration; K is their number.
    unit : str or None
        The unit in which the grid counts dates (since 1970, in UTC) and durations: D, h, m, s,
        ms, us or ns.
    empty : bool
        Whether no value of the column was ever observed. Such a column has one state, which
        stands for any value.

    Examples
    --------
    >>> from bayescut.data import Domain
    >>> colour = Domain("colour", 3, ["blue", "green", "red"], "object")
    >>> colour.code("green"), colour.label(2)
    (1, 'red')
    """

    name: str | None
    n_states: int
    labels: NDArray[Any] | None = None
    dtype: str | None = None
    grid: Grid | None = None
    unit: str | None = None
    empty: bool = False

    def __post_init__(self) -> None:
        n_states = int(self.n_states)
        self._check_kind(n_states)
        if not 0 <= n_states <= MAX_STATES:
            raise DataError(
                f"Column {self.name!r} has {n_states} states, allowed are 0 to {MAX_STATES}: "
                "bin its values first."
            )
        object.__setattr__(self, "n_states", n_states)
        if self.labels is not None:
            labels = label_array(list(self.labels))
            if len(labels) != n_states:
                raise DataError(
                    f"Column {self.name!r} has {n_states} states but {len(labels)} labels."
                )
            object.__setattr__(self, "labels", labels)
            if len(self._code_of) != n_states:
                raise DataError(f"Column {self.name!r} has a label twice among its states.")

    def _check_kind(self, n_states: int) -> None:
        if self.grid is not None and not isinstance(self.grid, Grid):
            raise DataError(f"The grid of column {self.name!r} is no Grid: {self.grid!r}.")
        if self.grid is not None and (self.labels is not None or n_states != self.grid.n_cells):
            raise DataError(
                f"Column {self.name!r} has {n_states} states and a grid of {self.grid.n_cells} "
                "cells: a number has as many states as cells, and no labels."
            )
        if self.unit is not None and (self.grid is None or self.unit not in UNITS):
            raise DataError(
                f"Column {self.name!r} has the unit {self.unit!r}: only dates and durations have "
                f"one, of {', '.join(UNITS)}."
            )
        if self.empty and (n_states != 1 or self.labels is not None or self.grid is not None):
            raise DataError(f"Column {self.name!r} is empty and has one state without a label.")

    @property
    def kind(self) -> str:
        """What the column holds: ``label``, ``number``, ``date``, ``duration`` or ``empty``.

        ``continuous`` for columns of circuits built by hand, which have neither states nor grid.
        """
        if self.empty:
            return "empty"
        if self.grid is None:
            return "label" if self.n_states else "continuous"
        if self.unit is None:
            return "number"
        return "duration" if str(self.dtype).startswith("timedelta") else "date"

    def number(self, value: Any) -> float:
        """Return a number, date or duration as the grid counts it; ValueError if it is none."""
        if self.unit is not None:
            return time_number(value, self.unit, self.kind)
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            raise ValueError(f"{_show(value)} is not a number")
        return float(value)

    def value(self, number: float) -> Any:
        """Return what the table shows for a number of the grid: a number, a date or a duration."""
        if self.unit is not None:
            return time_value(number, self.unit, self.kind)
        whole = self.dtype is not None and "int" in self.dtype.lower()
        return round(number) if whole else float(number)

    @cached_property
    def _code_of(self) -> dict[Any, int]:
        # Python's own equality does the matching: True, 1 and 1.0 are one label in every dtype.
        labels = range(self.n_states) if self.labels is None else self.labels.tolist()
        return {label: code for code, label in enumerate(labels)}

    @cached_property
    def start(self) -> int | None:
        """The label of code 0 if the labels are consecutive whole numbers in order, else None."""
        if self.grid is not None or self.empty:
            return None
        if self.labels is None:
            return 0
        if self.n_states == 0 or self.labels.dtype.kind not in "bif":
            return None
        first = float(self.labels[0])
        if not first.is_integer() or abs(first) + self.n_states > 2**53:
            return None
        consecutive = np.arange(self.n_states) + int(first)
        return int(first) if np.array_equal(self.labels.astype(np.float64), consecutive) else None

    def code(self, label: Any) -> int:
        """Return the code of a label; :class:`DataError` if the column has no such label."""
        found = self.find(label)
        if found < 0:
            column = "" if self.name is None else f" of column {self.name!r}"
            raise DataError(
                f"{_show(label)} is not among the states{column}. {self.known_values()}"
            )
        return found

    def find(self, label: Any) -> int:
        """Return the code of a label or number, -1 if the column has no such label."""
        if self.empty:
            return -1
        if self.grid is not None:
            try:
                number = self.number(label)
            except ValueError:
                return -1
            return int(self.grid.codes(number)) if math.isfinite(number) else -1
        try:
            return self._code_of.get(label, -1)
        except TypeError:  # unhashable: a list or a dict is never a label
            return -1

    def label(self, code: int) -> Any:
        """Return the label of a code; of a number, the most likely value of the cell."""
        if not 0 <= code < self.n_states:
            raise DataError(f"Code {code} is outside 0, ..., {self.n_states - 1}.")
        if self.grid is not None:
            return self.value(float(self.grid.mode[code]))
        if self.empty:
            return None
        return int(code) if self.labels is None else plain_label(self.labels[code])

    def known_values(self) -> str:
        """Say which values the column knows, for error messages.

        Examples
        --------
        >>> from bayescut.data import Domain
        >>> Domain(None, 3).known_values()
        'Known values: 0, 1, 2.'
        """
        if self.empty:
            return "No value of it was observed in training."
        if self.grid is not None:
            # The pieces may reach further than the values did, to zero for numbers above it.
            ends = self.grid.quantile(self.grid.mass[None, :], [0.01, 0.99])[0]
            low, high = (self.value(float(end)) for end in np.clip(ends, *self.grid.range))
            return f"It holds values of kind {self.kind}, 98% of them from {low} to {high}."
        if self.n_states <= 8:
            labels = [self.label(code) for code in range(self.n_states)]
            return f"Known values: {', '.join(map(_show, labels))}."
        head = [_show(self.label(code)) for code in range(5)]
        last = _show(self.label(self.n_states - 1))
        return f"Known values: {', '.join(head)}, ..., {last} ({self.n_states} in all)."

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        labels = None
        if self.labels is not None:
            # 1 == True == 1.0 in Python; as labels they are different tables.
            labels = tuple((type(value).__name__, value) for value in self.labels.tolist())
        return self.name, self.n_states, labels, self.dtype, self.grid, self.unit, self.empty

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _show(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


class Domains(Sequence[Domain]):
    """The domains of all columns of a table; immutable, compared and hashed by value.

    Parameters
    ----------
    domains : iterable of Domain
        One per column. Names are given to all columns or to none, and are distinct.

    Examples
    --------
    >>> from bayescut.data import Domains
    >>> domains = Domains.of_sizes([2, 3])
    >>> domains.n_states, domains.offsets
    (array([2, 3]), array([0, 2, 5]))
    >>> Domains.from_json(domains.to_json()) == domains
    True
    """

    def __init__(self, domains: Iterable[Domain]) -> None:
        self._domains = tuple(domains)
        named = [domain.name for domain in self._domains if domain.name is not None]
        if len(named) not in (0, len(self._domains)):
            raise DataError("Either all columns have a name or none has.")
        if len(set(named)) != len(named):
            twice = sorted({name for name in named if named.count(name) > 1})
            raise DataError(f"Column names must be distinct; given more than once: {twice}.")

    @classmethod
    def binary(cls, n_columns: int, names: Sequence[str] | None = None) -> Domains:
        """Return the domains of ``n_columns`` binary columns."""
        return cls.of_sizes([2] * n_columns, names)

    @classmethod
    def of_sizes(cls, n_states: ArrayLike, names: Sequence[str] | None = None) -> Domains:
        """Return domains with the given numbers of states, whose labels are the codes."""
        sizes = np.asarray(n_states, dtype=np.int64).tolist()
        columns = [None] * len(sizes) if names is None else list(names)
        if len(columns) != len(sizes):
            raise DataError(f"{len(sizes)} columns but {len(columns)} names.")
        return cls(Domain(name, size) for name, size in zip(columns, sizes, strict=True))

    @cached_property
    def n_states(self) -> NDArray[np.int64]:
        """Number of states K of every column, shape (m,)."""
        sizes = np.array([domain.n_states for domain in self._domains], dtype=np.int64)
        sizes.setflags(write=False)
        return sizes

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each column's states begin in an array over all states, shape (m + 1,)."""
        offsets = np.concatenate([[0], np.cumsum(self.n_states)]).astype(np.int64)
        offsets.setflags(write=False)
        return offsets

    @property
    def names(self) -> list[str] | None:
        """Column names, None when the table had none."""
        names = [domain.name for domain in self._domains if domain.name is not None]
        return names or None

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.names or [])}

    def index(self, column: str | int) -> int:  # type: ignore[override]
        """Return the position of a column given by name or by position."""
        if isinstance(column, str):
            if column in self._positions:
                return self._positions[column]
            if self.names is None:
                raise DataError(
                    f"There is no column {column!r}: the columns have no names, "
                    f"use their positions 0, ..., {len(self) - 1}."
                )
            raise DataError(f"There is no column {column!r}. Columns: {_some(self.names)}.")
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
            if 0 <= column < len(self):
                return int(column)
            raise DataError(
                f"There is no column {column}: positions run from 0 to {len(self) - 1}."
            )
        raise DataError(f"A column is given by its name or position, not by {column!r}.")

    def where(self, row: int, column: int) -> str:
        """Name a cell, for error messages."""
        name = self._domains[column].name
        return f"row {row}, column {column if name is None else repr(name)}"

    def to_json(self) -> str:
        """Write the domains as JSON text; :meth:`from_json` restores them without loss."""
        return json.dumps(
            [_to_record(domain) for domain in self._domains], ensure_ascii=True, allow_nan=False
        )

    @classmethod
    def from_json(cls, text: str) -> Domains:
        """Read what :meth:`to_json` wrote."""
        try:
            return cls(_from_record(column) for column in json.loads(text))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError(f"This text does not describe domains: {error}.") from error

    @overload
    def __getitem__(self, index: int) -> Domain: ...
    @overload
    def __getitem__(self, index: slice) -> Domains: ...
    def __getitem__(self, index: int | slice) -> Domain | Domains:
        if isinstance(index, slice):
            return Domains(self._domains[index])
        return self._domains[index]

    def __len__(self) -> int:
        return len(self._domains)

    def __iter__(self) -> Iterator[Domain]:
        return iter(self._domains)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domains):
            return NotImplemented
        return self._domains == other._domains

    def __hash__(self) -> int:
        return hash(self._domains)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.n_states[:8].tolist()))
        more = ", ..." if len(self) > 8 else ""
        return f"Domains({len(self)} columns, n_states=[{sizes}{more}])"


def _some(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"


def _to_record(domain: Domain) -> dict[str, Any]:
    labels = None
    if domain.labels is not None:
        labels = [_label_to_json(label) for label in domain.labels.tolist()]
    record: dict[str, Any] = {
        "name": domain.name,
        "n_states": domain.n_states,
        "labels": labels,
        "dtype": domain.dtype,
    }
    # Only where there is something to say: files of label columns stay as they were.
    if domain.grid is not None:
        record["grid"] = domain.grid.record()
    if domain.unit is not None:
        record["unit"] = domain.unit
    if domain.empty:
        record["empty"] = True
    return record


def _from_record(column: Any) -> Domain:
    labels = column["labels"]
    if labels is not None:
        labels = label_array(_label_from_json(label) for label in labels)
    grid, unit, empty = column.get("grid"), column.get("unit"), column.get("empty", False)
    if not (unit is None or isinstance(unit, str)) or not isinstance(empty, bool):
        raise TypeError("unit must be text, empty true or false")
    return Domain(
        column["name"],
        column["n_states"],
        labels,
        column["dtype"],
        None if grid is None else Grid.from_record(grid),
        unit,
        empty,
    )


def _label_to_json(label: Any) -> Any:
    if _is_interval(label):
        ends = [plain_label(label.left), plain_label(label.right)]
        return {"interval": [*ends, label.closed]}
    return label


def _label_from_json(label: Any) -> Any:
    if isinstance(label, dict):
        left, right, closed = label["interval"]
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise BayescutError(
                "Some labels are intervals, which need pandas: pip install 'bayescut[pandas]'"
            ) from error
        return pandas.Interval(left, right, closed)
    return label


def code_dtype(domains: Domains) -> np.dtype[Any]:
    """Return the dtype of the codes: uint8 if every column has at most 254 states, else uint16.

    Examples
    --------
    >>> from bayescut.data import Domains, code_dtype
    >>> code_dtype(Domains.of_sizes([2, 254])), code_dtype(Domains.of_sizes([2, 255]))
    (dtype('uint8'), dtype('uint16'))
    """
    widest = int(domains.n_states.max(initial=0))
    return np.dtype(np.uint8 if widest <= _MAX_STATES8 else np.uint16)


def missing_code(dtype: DTypeLike) -> int:
    """Return the code that means "not observed": the largest value of the code dtype."""
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.uint8), np.dtype(np.uint16)):
        raise DataError(f"Codes are uint8 or uint16, not {dtype}.")
    return int(np.iinfo(dtype).max)
