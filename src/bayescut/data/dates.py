"""Dates as text: the form in which a column writes them, found out, read and written.

======================  =====================================================================
text                    is
======================  =====================================================================
2020-03-01, 2020/3/1    year, month, day
31/03/2020, 31.3.2020   day, month, year: some date of the column has a first number above 12
03/31/2020              month, day, year: some date of the column has a second number above 12
01/03/2020              either, as long as no date of the column shows which: not guessed
1 Mar 2020, 1-Mar-2020  day, month, year; ``March 1, 2020`` the other way round
01/03/20                a year of two digits: not guessed
======================  =====================================================================

A time of day may follow, and after that a time zone. All dates of a column have one form.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DateForm", "find_date_form"]

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH_OF = {
    "sept": 9,
    **{name[:3]: number for number, name in enumerate(_MONTHS, 1)},
    **{name: number for number, name in enumerate(_MONTHS, 1)},
}
_TIME = (
    r"(?:(?P<gap>[ T]|, )(?P<hour>\d{1,2}):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?P<fraction>\.\d{1,9})?)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
_NAME = r"(?P<b>[A-Za-z]{3,9})"
_FORMS = tuple(
    (order, re.compile(form + _TIME))
    for order, form in (
        ("ymd", r"(?P<year>\d{4})(?P<sign>[-/.])(?P<b>\d{1,2})(?P=sign)(?P<a>\d{1,2})"),
        # a and b are the first and the second number here until it is known which is the day.
        ("either", r"(?P<a>\d{1,2})(?P<sign>[-/.])(?P<b>\d{1,2})(?P=sign)(?P<year>\d{4})"),
        ("short", r"(?P<a>\d{1,2})(?P<sign>[-/.])(?P<b>\d{1,2})(?P=sign)(?P<year>\d\d)"),
        ("day name", rf"(?P<a>\d{{1,2}})(?P<sign>[-/. ]){_NAME}(?P=sign)(?P<year>\d{{4}})"),
        ("name day", rf"{_NAME}(?P<sign> )(?P<a>\d{{1,2}})(?P<comma>,?) (?P<year>\d{{4}})"),
    )
)
_UTC = ("Z", "+00:00", "+0000", "-00:00")


@dataclass(frozen=True)
class DateForm:
    """The form in which all dates of a column are written.

    Parameters
    ----------
    order : {"ymd", "dmy", "mdy", "day name", "name day", "either", "both", "short"}
        What stands where. ``either``: nothing shows whether days or months come first; ``both``:
        some dates show one and some the other; ``short``: years of two digits.
    sign : str
        Between the parts.
    example : str
        One of the texts.
    padded : bool
        Whether days and months below 10 have two digits.
    names : bool
        Whether months are written out.
    comma : bool
        Whether one stands before the year.
    gap : str
        Between date and time of day; empty if there is none.
    parts : int
        Parts of the time of day: 0, or 2 with minutes, 3 with seconds, 4 with fractions.
    half : str
        What stands before AM and PM and whether they are capitals: "", "PM", " PM", "pm", " pm".
    zone : str
        What stands for UTC if there are time zones, else empty.
    """

    order: str
    sign: str
    example: str
    padded: bool = True
    names: bool = False
    comma: bool = False
    gap: str = ""
    parts: int = 0
    half: str = ""
    zone: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the dates can be read."""
        return self.order not in ("either", "both", "short")

    @property
    def is_iso(self) -> bool:
        """Whether ISO 8601 writes dates so."""
        return self.order == "ymd" and self.sign == "-" and self.padded and not self.half

    @property
    def problem(self) -> str:
        """Say why the dates cannot be read."""
        if self.order == "short":
            return f"dates with years of two digits such as {self.example}"
        if self.order == "both":
            return "dates that begin with the day in some rows and with the month in others"
        return f"dates such as {self.example} that nowhere show which number is the month"

    @property
    def advice(self) -> str:
        """Say what to do about it."""
        iso = "write them as 2020-12-31"
        if self.order == "either":
            return (
                f"{iso}, or say what comes first: pandas.to_datetime(..., dayfirst=True), on the "
                "command line --day-first or --month-first"
            )
        return f"{iso}, or convert them with pandas.to_datetime(..., format=...)"

    def series(self, column: Any) -> Any:
        """Return a pandas column of such texts as dates; gaps stay gaps."""
        pandas = import_module("pandas")
        if self.is_iso:
            return pandas.to_datetime(column, format="ISO8601", utc=bool(self.zone))
        codes, different = pandas.factorize(column)
        dates = np.append(self.read(different), np.datetime64("NaT"))[codes]
        found = pandas.Series(dates, index=column.index, name=column.name)
        return found.dt.tz_localize("UTC") if self.zone else found

    def read(self, texts: Iterable[str]) -> NDArray[np.datetime64]:
        """Return dates, in UTC where a time zone is given; ValueError if one is none."""
        known = _pattern(self.order)
        return np.array([self._read(known, text) for text in texts], dtype="M8[us]")

    def _read(self, known: re.Pattern[str], text: str) -> datetime.datetime:
        match = known.fullmatch(text.strip())
        if match is None or not self.is_known:
            raise ValueError(f"{text!r} is no date")
        part = match.groupdict()
        day, month = part["a"], part["b"]
        if self.order == "mdy":
            day, month = month, day
        hour = int(part["hour"] or 0)
        if part["half"]:
            if not 1 <= hour <= 12:
                raise ValueError(f"{text!r} is no time of day")
            hour = hour % 12 + 12 * (part["half"].strip().casefold() == "pm")
        found = datetime.datetime(
            int(part["year"]),
            _month(month),
            int(day),
            hour,
            int(part["minute"] or 0),
            int(part["second"] or 0),
            round(float(part["fraction"] or 0) * 1_000_000) % 1_000_000,
        )
        zone = part["zone"]
        if not zone or zone in _UTC:
            return found
        ahead = datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        return found - ahead if zone[0] == "+" else found + ahead

    def write(self, value: datetime.date) -> str:
        """Write a date as the column does.

        Examples
        --------
        >>> import datetime
        >>> from bayescut.data.dates import find_date_form
        >>> find_date_form(["31/1/2020", "2/12/2019"]).write(datetime.date(2020, 3, 1))
        '1/3/2020'
        """
        width = 2 if self.padded else 1
        day, month, year = f"{value.day:0{width}d}", f"{value.month:0{width}d}", f"{value.year:04d}"
        if "name" in self.order:
            name = _MONTHS[value.month - 1].capitalize()
            month = name if self.names else name[:3]
        text = {
            "ymd": self.sign.join((year, month, day)),
            "mdy": self.sign.join((month, day, year)),
            "name day": f"{month} {day}{',' if self.comma else ''} {year}",
        }.get(self.order, self.sign.join((day, month, year)))
        return text + self._time(value) if self.parts else text

    def _time(self, value: datetime.date) -> str:
        time = value.time() if isinstance(value, datetime.datetime) else datetime.time()
        hour = (time.hour + 11) % 12 + 1 if self.half else time.hour
        text = f"{self.gap}{hour:0{1 if self.half else 2}d}:{time.minute:02d}"
        if self.parts > 2:
            text += f":{time.second:02d}"
        if self.parts > 3:
            text += f".{time.microsecond:06d}"
        if self.half:
            half = "PM" if time.hour >= 12 else "AM"
            text += " " * (self.half[0] == " ") + (half if self.half.isupper() else half.lower())
        return text + self.zone


def _pattern(order: str) -> re.Pattern[str]:
    wanted = "either" if order in ("dmy", "mdy", "both") else order
    return next(form for name, form in _FORMS if name == wanted)


def _month(text: str) -> int:
    number = int(text) if text.isdecimal() else _MONTH_OF.get(text.casefold())
    if number is None:
        raise ValueError(f"{text!r} is no month")
    return number


def find_date_form(texts: Sequence[Any], day_first: bool | None = None) -> DateForm | None:
    """Find the form in which all of some texts are dates.

    Parameters
    ----------
    texts : sequence
        The different cells of a column, gaps left out.
    day_first : bool, optional
        Whether days come before months, where the texts do not show it.

    Returns
    -------
    DateForm or None
        None if they are no dates, or not all of one form.

    Examples
    --------
    >>> from bayescut.data.dates import find_date_form
    >>> find_date_form(["01/03/2020", "31/03/2020"]).order
    'dmy'
    >>> find_date_form(["01/03/2020", "02/03/2020"]).order
    'either'
    >>> find_date_form(["01/03/2020", "n/a"]) is None
    True
    """
    if not len(texts) or not isinstance(texts[0], str):
        return None
    # Most columns are no dates, which their first cell shows.
    first = texts[0].strip()
    order, pattern = next(
        ((name, form) for name, form in _FORMS if form.fullmatch(first)), ("", None)
    )
    if pattern is None:
        return None
    matches = [pattern.fullmatch(text.strip()) if isinstance(text, str) else None for text in texts]
    found = [match for match in matches if match is not None]
    if len(found) < len(matches) or len({match["sign"] for match in found}) > 1:
        return None
    if order == "either":
        order = _day_or_month(found, day_first)
        if not order:
            return None
    form = _describe(order, first, found)
    if form.order == "short" and not _plausible(found):
        return None
    if form.is_known:
        try:
            years = form.read(texts).astype("M8[Y]").astype(np.int64) + 1970
        except ValueError:  # the 31st of February
            return None
        # What nanoseconds since 1970 can count.
        if years.min() < 1678 or years.max() > 2261:
            return None
    return form


def _day_or_month(found: list[re.Match[str]], day_first: bool | None) -> str:
    first = [int(match["a"]) for match in found]
    second = [int(match["b"]) for match in found]
    if max(*first, *second) > 31 or min(*first, *second) < 1:
        return ""
    if any(a > 12 and b > 12 for a, b in zip(first, second, strict=True)):
        return ""
    if max(first) > 12:
        return "both" if max(second) > 12 else "dmy"
    if max(second) > 12:
        return "mdy"
    return "either" if day_first is None else "dmy" if day_first else "mdy"


def _plausible(found: list[re.Match[str]]) -> bool:
    """Whether numbers of two digits are days and months throughout, and not codes."""
    return all(
        min(int(m["a"]), int(m["b"])) <= 12 and 1 <= int(m["a"]) <= 31 and 1 <= int(m["b"]) <= 31
        for m in found
    )


def _describe(order: str, example: str, found: list[re.Match[str]]) -> DateForm:
    numbers = [text for m in found for text in (m["a"], m["b"]) if text.isdecimal()]
    timed = next((m for m in found if m["gap"]), None)
    parts = [4 if m["fraction"] else 3 if m["second"] else 2 if m["minute"] else 0 for m in found]
    zones = {m["zone"] for m in found if m["zone"]}
    zone = next(iter(zones)) if len(zones) == 1 else "+00:00" if zones else ""
    return DateForm(
        order,
        found[0]["sign"],
        example,
        all(len(text) == 2 for text in numbers),
        any(len(m["b"]) > 3 for m in found),
        bool(found[0].groupdict().get("comma")),
        "" if timed is None else timed["gap"],
        max(parts),
        next((m["half"] for m in found if m["half"]), "") if timed is not None else "",
        zone if not zone or zone in _UTC else "+00:00",
    )
