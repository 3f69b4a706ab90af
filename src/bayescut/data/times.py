"""Dates and durations as numbers, and back.

A date is the number of days, hours, ... since the beginning of 1970 in UTC, a duration the number
of days, hours, ... it lasts: the largest unit in which all values of a column are whole. Float64
holds such numbers exactly, but for nanoseconds over more than a hundred days, which are kept to
the microsecond.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray

__all__ = ["UNITS", "time_cells", "time_kind", "time_number", "time_numbers", "time_value"]

#: Nanoseconds in every unit, the largest unit first.
UNITS = {
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_NAT = np.iinfo(np.int64).min
_EXACT = 2**53


def time_kind(dtype: Any) -> str | None:
    """Return ``date`` or ``duration`` for a dtype of either, with or without time zone."""
    return {"M": "date", "m": "duration"}.get(str(getattr(dtype, "kind", "O")))


def _ticks(cells: NDArray[Any]) -> tuple[NDArray[np.int64], str, int]:
    """Return int64 counts of datetime64 or timedelta64 cells, their unit, and how many of it."""
    unit, count = np.datetime_data(cells.dtype)
    if unit in ("generic", "Y", "M", "W", "ps", "fs", "as"):
        unit, count = ("D", 1) if unit in ("Y", "M", "W") else ("ns", 1)
        cells = cells.astype(f"{cells.dtype.kind}8[{unit}]")
    return cells.view(np.int64), unit, count


def time_numbers(cells: NDArray[Any], unit: str | None = None) -> tuple[FloatArray, str]:
    """Turn datetime64 or timedelta64 cells into numbers, NaN for NaT.

    Parameters
    ----------
    cells : ndarray of datetime64 or timedelta64
        Any unit.
    unit : str, optional
        The unit to count in, by default the largest in which all cells are whole.

    Returns
    -------
    numbers : float64 array
    unit : str

    Examples
    --------
    >>> import numpy as np
    >>> time_numbers(np.array(["1970-01-02", "1970-01-04", "NaT"], dtype="M8[s]"))
    (array([ 1.,  3., nan]), 'D')
    """
    ticks, own, count = _ticks(np.ascontiguousarray(cells))
    missing = ticks == _NAT
    ticks = np.where(missing, 0, ticks)
    size = UNITS[own] * count
    if unit is None:
        whole = [u for u, ns in UNITS.items() if _all_whole(ticks, size, ns)]
        unit = whole[0] if whole else "ns"
        if unit == "ns" and int(np.abs(ticks).max(initial=0)) >= _EXACT:
            unit = "us"
    scale = UNITS[unit]
    if scale % size == 0:
        each = scale // size
        numbers = (ticks // each).astype(np.float64) + (ticks % each) / each
    else:
        numbers = ticks.astype(np.float64) * (size / scale)
    numbers[missing] = np.nan
    return numbers, unit


def _all_whole(ticks: NDArray[np.int64], size: int, unit: int) -> bool:
    if size % unit == 0:
        return True
    return unit % size == 0 and not (ticks % (unit // size)).any()


def time_cells(numbers: FloatArray, unit: str, kind: str) -> NDArray[Any]:
    """Turn numbers back into datetime64 or timedelta64 cells; NaN becomes NaT.

    They are counted in seconds, or in the unit itself if that is smaller. What nanoseconds
    cannot hold (years before 1678 or after 2261) becomes the nearest they can.

    Examples
    --------
    >>> import numpy as np
    >>> time_cells(np.array([1.0, np.nan]), "D", "date")
    array(['1970-01-02T00:00:00',                 'NaT'], dtype='datetime64[s]')
    """
    stored = unit if unit in ("ms", "us", "ns") else "s"
    missing = np.isnan(numbers)
    ticks = np.where(missing, 0.0, numbers) * (UNITS[unit] // UNITS[stored])
    most = float((2**63 - 1024) // UNITS[stored])
    whole = np.rint(np.clip(ticks, -most, most)).astype(np.int64)
    whole[missing] = _NAT
    return whole.view(f"{'M' if kind == 'date' else 'm'}8[{stored}]")


def time_number(value: Any, unit: str, kind: str) -> float:
    """Return one date or duration as a number: Python's, numpy's and pandas' types, or ISO text.

    Raises
    ------
    ValueError
        If it is of another type.
    """
    if kind == "date" and getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    if hasattr(value, "to_numpy"):  # pandas' Timestamp and Timedelta
        value = value.to_numpy()
    wanted = np.datetime64 if kind == "date" else np.timedelta64
    python = (datetime.date, str) if kind == "date" else (datetime.timedelta,)
    if isinstance(value, python):
        value = wanted(value)  # type: ignore[arg-type]
    if not isinstance(value, wanted) or np.isnat(value):
        raise ValueError(f"{value!r} is no {kind}")
    numbers, _ = time_numbers(np.array([value]), unit)
    return float(numbers[0])


def time_value(number: float, unit: str, kind: str) -> Any:
    """Return one number as a Python date, datetime or timedelta (numpy's beyond their range)."""
    cell = time_cells(np.array([number]), unit, kind)[0]
    if kind == "date" and unit == "D" and number == round(number):
        cell = cell.astype("M8[D]")
    value = cell.item()
    return value if isinstance(value, (datetime.date, datetime.timedelta)) else cell
