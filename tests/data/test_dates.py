"""Dates as text: forms that are found, read, written, or told to be ambiguous."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from bayescut.data import describe_table, encode_table
from bayescut.data.dates import find_date_form
from bayescut.exceptions import DataError

START = datetime.datetime(2019, 11, 3, 9, 5, 7)
DATES = [START + datetime.timedelta(days=37 * i, hours=5 * i, minutes=i) for i in range(40)]

# How a program writes dates, and what that is called.
FORMS = {
    "%Y-%m-%d": "ymd",
    "%Y/%m/%d": "ymd",
    "%Y.%m.%d %H:%M": "ymd",
    "%Y-%m-%dT%H:%M:%S": "ymd",
    "%Y-%m-%dT%H:%M:%SZ": "ymd",
    "%Y-%m-%d %H:%M:%S.%f": "ymd",
    "%d/%m/%Y": "dmy",
    "%d.%m.%Y": "dmy",
    "%d-%m-%Y %H:%M:%S": "dmy",
    "%m/%d/%Y": "mdy",
    "%m/%d/%Y %I:%M %p": "mdy",
    "%m/%d/%Y, %I:%M:%S %p": "mdy",
    "%d %b %Y": "day name",
    "%d-%B-%Y": "day name",
    "%b %d, %Y": "name day",
    "%B %d %Y %H:%M": "name day",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_read_and_written(form: str) -> None:
    texts = [date.strftime(form) for date in DATES]
    found = find_date_form(texts)
    assert found is not None and found.is_known and found.order == FORMS[form]
    expected = [datetime.datetime.strptime(text, form) for text in texts]
    assert found.read(texts).tolist() == expected
    written = [found.write(date) for date in expected]
    # An hour of one or two digits is the same time.
    assert found.read(written).tolist() == expected
    if "%I" not in form:
        assert written == texts
    series = found.series(pd.Series([*texts, None]))
    assert series.isna().tolist() == [False] * len(texts) + [True]
    plain = series.dt.tz_localize(None) if form.endswith("Z") else series
    assert [time.to_pydatetime() for time in plain[:-1]] == expected


def test_numbers_below_ten() -> None:
    texts = [f"{date.day}/{date.month}/{date.year}" for date in DATES]
    found = find_date_form(texts)
    assert found is not None and found.order == "dmy"
    assert [found.write(date) for date in DATES] == texts


def test_zones_count_in_utc() -> None:
    found = find_date_form(["2020-03-01T01:00:00+02:00", "2020/03/01"])
    assert found is None  # two forms
    texts = ["1.3.2020 01:00+02:00", "13.3.2020 01:00-01:30"]
    found = find_date_form(texts)
    assert found is not None
    times = found.read(texts).astype("M8[m]").astype(str).tolist()
    assert times == ["2020-02-29T23:00", "2020-03-13T02:30"]
    assert found.write(datetime.datetime(2020, 3, 1, 4, 5)) == "1.3.2020 04:05+00:00"


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["01/03/2020", "12/11/2020"], "either"),
        (["13/03/2020", "03/13/2020"], "both"),
        (["01/03/20", "13/03/20"], "short"),
    ],
)
def test_what_is_not_guessed(texts: list[str], order: str) -> None:
    found = find_date_form(texts)
    assert found is not None and found.order == order and not found.is_known
    with pytest.raises(ValueError, match="no date"):
        found.read(texts)
    first = find_date_form(texts, day_first=True)
    other = find_date_form(texts, day_first=False)
    assert first is not None and other is not None
    if order == "either":
        assert first.read(texts).astype("M8[D]").astype(str).tolist() == [
            "2020-03-01",
            "2020-11-12",
        ]
        assert other.read(texts).astype("M8[D]").astype(str).tolist() == [
            "2020-01-03",
            "2020-12-11",
        ]
    else:
        assert first.order == other.order == order


def test_what_the_dates_show_is_stronger_than_what_is_said() -> None:
    found = find_date_form(["13/03/2020", "01/02/2020"], day_first=False)
    assert found is not None and found.order == "dmy"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["a"],
        [1.5],
        ["2020-03-01", None],
        ["2020-03-01", 3],
        ["2020-03-01", "soon"],
        ["2020-03-01", "2020/03/02"],
        ["2020-02-30"],
        ["31/02/2020", "01/02/2020"],
        ["13/13/2020"],
        ["32/01/2020"],
        ["00/01/2020"],
        ["40-49"],
        ["192.168.10.1"],
        ["20.30.10"],
        ["99-98-97"],
        ["1 Foo 2020"],
        ["1 Mayo 2020"],
        ["2020-03-01 25:00"],
        ["2020-03-01 13:00 PM"],
        ["0001-01-01"],
        ["9999-12-31"],
        ["555-12-3456"],
    ],
)
def test_what_is_no_date(texts: list[object]) -> None:
    assert find_date_form(texts) is None


def frame(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"day": texts, "x": np.arange(len(texts)) / 2})


def test_kind_date_reads_the_order_that_shows() -> None:
    for form in ("%d/%m/%Y", "%m/%d/%Y", "%d %b %Y"):
        table = frame([date.strftime(form) for date in DATES])
        domains = describe_table(table, columns={"day": "date"}).domains
        iso = frame([date.strftime("%Y-%m-%d") for date in DATES])
        assert domains[0].kind == "date"
        expected = encode_table(iso, domains, allow_missing=False)[1]
        values = encode_table(table, domains, allow_missing=False)[1]
        assert values is not None and np.array_equal(values, expected)


def test_kind_date_refuses_what_is_ambiguous() -> None:
    table = frame(["01/03/2020", "02/03/2020", "03/04/2020"])
    with pytest.raises(DataError, match=r"Column 'day' has dates such as 01/03/2020 .* 2020-12-31"):
        describe_table(table, columns={"day": "date"}).domains  # noqa: B018
    domains = describe_table(frame(["13/03/2020", "02/03/2020"]), columns={"day": "date"}).domains
    with pytest.raises(DataError, match="dayfirst=True"):
        encode_table(table, domains, allow_missing=False)


@pytest.mark.parametrize(
    ("texts", "warning"),
    [
        (["01/03/2020", "02/03/2020"], "01/03/2020 that nowhere show which number is the month"),
        (["13/03/2020", "03/13/2020"], "begin with the day in some rows"),
        (["01/03/20", "13/03/20"], "years of two digits such as 01/03/20"),
        (["2020-03-01", "2020-03-02"], "columns={'day': 'date'} takes them as such"),
        (["13/03/2020", "2/03/2020"], "columns={'day': 'date'} takes them as such"),
    ],
)
def test_text_that_looks_like_dates_is_told(texts: list[str], warning: str) -> None:
    report = describe_table(frame(texts))
    assert report.columns[0].kind == "label"
    assert warning in " ".join(report.columns[0].warnings)
    # Who says that they are labels need not be told.
    assert describe_table(frame(texts), columns={"day": "label"}).columns[0].warnings == ()


def test_whole_numbers_that_look_like_dates_are_told() -> None:
    table = pd.DataFrame({"day": [int(date.strftime("%Y%m%d")) for date in DATES]})
    assert "(20191103)" in " ".join(describe_table(table).columns[0].warnings)
    table["day"] += 50
    assert not any("dates" in text for text in describe_table(table).columns[0].warnings)
