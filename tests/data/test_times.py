"""Dates and durations as numbers, and back."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescut.data.times import UNITS, time_cells, time_kind, time_number, time_numbers, time_value


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["date", "duration"])
@given(ticks=st.lists(st.integers(-(10**5), 10**5), min_size=1, max_size=5))
def test_round_trip_in_every_unit(unit, kind, ticks):
    letter = "M" if kind == "date" else "m"
    cells = np.array(ticks, dtype=f"{letter}8[{unit}]")
    for stored in (cells, cells.astype(f"{letter}8[ns]")):
        numbers, found = time_numbers(stored)
        assert UNITS[found] >= UNITS[unit]
        assert (np.floor(numbers) == numbers).all()
        np.testing.assert_array_equal(time_cells(numbers, found, kind), cells)


def test_missing_cells():
    numbers, unit = time_numbers(np.array(["NaT", "1970-01-03"], dtype="M8[D]"))
    assert unit == "D"
    np.testing.assert_array_equal(numbers, [np.nan, 2.0])
    assert np.isnat(time_cells(numbers, unit, "date")).tolist() == [True, False]


def test_given_units_keep_fractions():
    noon = np.array(["1970-01-02T12"], dtype="M8[h]")
    assert time_numbers(noon, "D")[0].tolist() == [1.5]
    assert time_numbers(noon.astype("M8[D]"), "h")[0].tolist() == [24.0]


def test_nanoseconds_of_today_are_kept_to_the_microsecond():
    cells = np.array([1_700_000_000_123_456_789], dtype="M8[ns]")
    numbers, unit = time_numbers(cells)
    assert unit == "us"
    error = time_cells(numbers, unit, "date").astype("M8[ns]") - cells
    assert abs(error.astype(int)).max() <= 1000


def test_months_and_years():
    assert time_numbers(np.array(["1970-02"], dtype="M8[M]"))[0].tolist() == [31.0]
    assert time_numbers(np.array(["1971"], dtype="M8[Y]"))[0].tolist() == [365.0]


@pytest.mark.parametrize(
    ("value", "unit", "kind", "number"),
    [
        ("1970-01-02", "D", "date", 1.0),
        ("1970-01-01T06:00", "D", "date", 0.25),
        (datetime.date(1970, 1, 3), "h", "date", 48.0),
        (datetime.datetime(1970, 1, 1, 1), "m", "date", 60.0),
        (pd.Timestamp("1970-01-01 01:00", tz="Europe/Berlin"), "s", "date", 0.0),
        (np.datetime64("1969-12-31"), "D", "date", -1.0),
        (datetime.timedelta(hours=36), "D", "duration", 1.5),
        (pd.Timedelta("1s"), "ms", "duration", 1000.0),
        (np.timedelta64(90, "m"), "h", "duration", 1.5),
    ],
)
def test_single_values(value, unit, kind, number):
    assert time_number(value, unit, kind) == number
    back = time_value(number, unit, kind)
    assert time_number(back, unit, kind) == number


@pytest.mark.parametrize("value", [3, 1.5, None, "noon", np.datetime64("NaT"), {}])
@pytest.mark.parametrize("kind", ["date", "duration"])
def test_what_is_no_time(value, kind):
    with pytest.raises(ValueError, match=r"noon|is no"):
        time_number(value, "D", kind)


def test_far_away_times_stay_within_nanoseconds():
    for number in (1e300, -1e300):
        for unit in UNITS:
            cell = time_cells(np.array([number]), unit, "date")
            assert not np.isnat(cell.astype("M8[ns]")).any()
    assert time_value(1.0, "D", "date") == datetime.date(1970, 1, 2)
    assert time_value(1.0, "h", "date") == datetime.datetime(1970, 1, 1, 1)


def test_kinds():
    assert time_kind(np.dtype("M8[s]")) == "date"
    assert time_kind(pd.DatetimeTZDtype(tz="UTC")) == "date"
    assert time_kind(np.dtype("m8[s]")) == "duration"
    assert time_kind(np.dtype(float)) is None
    assert time_kind(pd.CategoricalDtype()) is None
