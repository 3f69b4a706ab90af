"""Columns of numbers, dates and durations as float64, NaN where a cell was not observed."""

from __future__ import annotations

import datetime
import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray
from bayescut.data.dates import find_date_form
from bayescut.data.domains import Domain
from bayescut.data.frames import dense, dtype_kind, is_category, plain_numbers
from bayescut.data.tables import Where, is_missing
from bayescut.data.times import time_kind, time_number, time_numbers
from bayescut.exceptions import DataError

__all__ = ["array_numbers", "check_numbers", "frame_numbers", "object_kind"]


def object_kind(column: Any) -> str:
    """Say what all observed cells of a column of objects are: ``number``, ``date`` or ``label``."""
    if not isinstance(column.dtype, np.dtype):  # pandas' own types of text
        return "label"
    kinds = set(map(type, column.dropna().to_numpy()))
    if not kinds:
        return "label"
    if all(issubclass(kind, (int, float, np.integer, np.floating)) for kind in kinds):
        return "label" if bool in kinds else "number"
    if all(issubclass(kind, (datetime.date, np.datetime64)) for kind in kinds):
        return "date"
    return "label"


def frame_numbers(
    column: Any, kind: str, where: Where, position: int, unit: str | None = None
) -> tuple[FloatArray, str | None]:
    """Return the cells of a DataFrame column as numbers, and the unit of dates and durations.

    Parameters
    ----------
    column : pandas.Series
        The column.
    kind : {"number", "date", "duration"}
        What its cells are to be.
    where : callable
        Names a cell, given its row and column.
    position : int
        The column, for ``where``.
    unit : str, optional
        The unit to count dates and durations in, found by default.

    Raises
    ------
    DataError
        Naming the first cell that is of another kind.
    """
    column = dense(column)
    if is_category(column.dtype):
        column = column.astype(column.cat.categories.dtype)
    own = time_kind(column.dtype)
    if kind in ("date", "duration"):
        if own is None:
            column = _to_times(column, kind, where, position)
        elif own != kind:
            raise DataError(
                f"Column {_name(where, position)} holds values of kind {own}, not {kind}."
            )
        zone = getattr(column.dtype, "tz", None)
        if zone is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return time_numbers(column.to_numpy(), unit)
    if own is not None:
        raise DataError(f"Column {_name(where, position)} holds values of kind {own}, not numbers.")
    if dtype_kind(column.dtype) in "biuf":
        numbers, missing = plain_numbers(column)
        values: FloatArray = numbers.astype(np.float64)
        if missing is not None:
            values[missing] = np.nan
        return values, None
    return _to_numbers(column, where, position), None


def _name(where: Where, position: int) -> str:
    return where(0, position).split("column ", 1)[1]


def _to_numbers(column: Any, where: Where, position: int) -> FloatArray:
    values = np.empty(len(column))
    for row, cell in enumerate(column):
        try:
            values[row] = math.nan if is_missing(cell) else _plain_number(cell)
        except (TypeError, ValueError, OverflowError):
            raise DataError(
                f"{cell!r} in {where(row, position)} is not a number: make it NaN if it means "
                "that the cell was not observed, or take the column as labels, "
                f"columns={{{_name(where, position)}: 'label'}}."
            ) from None
    return values


def _plain_number(cell: Any) -> float:
    number = float(cell)
    if math.isnan(number):  # the text "nan": whether it means a gap is for the user to say
        raise ValueError
    return number


def _to_times(column: Any, kind: str, where: Where, position: int) -> Any:
    pandas = import_module("pandas")
    missing = np.array([is_missing(cell) for cell in column])
    if kind == "date":
        form = find_date_form(column[~missing].unique())
        if form is not None and not form.is_known:
            raise DataError(f"Column {_name(where, position)} has {form.problem}: {form.advice}.")
        if form is not None:
            return form.series(column)
        times = pandas.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
        times = times.dt.tz_localize(None)
    else:
        times = pandas.to_timedelta(column, errors="coerce")
    lost = times.isna().to_numpy(dtype=bool) & ~missing
    if lost.any():
        row = int(np.argmax(lost))
        raise DataError(
            f"{column.iloc[row]!r} in {where(row, position)} is no {kind}: convert the column "
            f"with pandas.to_{'datetime' if kind == 'date' else 'timedelta'} first."
        )
    return times


def array_numbers(
    column: NDArray[Any], where: Where, position: int, domain: Domain | None = None
) -> FloatArray:
    """Return the cells of an array column as float64 numbers; dates in the unit of the domain."""
    if column.dtype.kind in "biuf":
        return column.astype(np.float64, copy=False)
    if domain is None or domain.unit is None:
        return _to_numbers(column.tolist(), where, position)
    values = np.full(len(column), np.nan)
    for row, cell in enumerate(column):
        if not is_missing(cell):
            try:
                values[row] = time_number(cell, domain.unit, domain.kind)
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"{cell!r} in {where(row, position)} is no {domain.kind}."
                ) from None
    return values


def check_numbers(values: FloatArray, where: Where, position: int, domain: Domain | None) -> None:
    """Refuse infinite cells, and cells beyond declared bounds."""
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise DataError(
            f"Non-finite value {float(values[row])!r} in {where(row, position)}: numbers must be "
            "finite; use NaN for cells that were not observed."
        )
    if domain is None or domain.grid is None or (domain.grid.tail_mass > 0).all():
        return
    impossible = domain.grid.log_density(values) == -np.inf
    if impossible.any():
        row = int(np.argmax(impossible))
        low, high = (domain.value(end) for end in domain.grid.range)
        raise DataError(
            f"Value {domain.value(float(values[row]))!r} in {where(row, position)} lies beyond "
            f"the bounds that were declared for the column, {low} to {high}."
        )
