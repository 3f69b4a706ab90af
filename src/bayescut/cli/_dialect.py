"""How a table of text is written: encoding, separator, quotes, header; and whether it is whole."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bayescut.cli._errors import CommandError

__all__ = [
    "ALWAYS_MISSING",
    "MISSING",
    "Dialect",
    "check_lines",
    "check_names",
    "decode_text",
    "find_dialect",
    "has_header",
    "is_number",
]

ALWAYS_MISSING = ("",)
#: Cells that mean "not observed". Words such as None or null are labels: many tables mean them so.
MISSING = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "<NA>")

# Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Where lines agree under several, the first of these: commas also stand in numbers and text.
_SEPARATORS = ("\t", ";", "|", ",", " ")
_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "blank"}
# Lines that separator and quotes are found from.
_HEAD = 1000
# Titanic's longest cell has 82 characters; csv refuses cells of more than 131,072 by itself.
_LONGEST_CELL = 1 << 24


@dataclass(frozen=True)
class Dialect:
    """How a table is written.

    Parameters
    ----------
    separator, quote : str
        One sign each.
    encoding : str
        As Python names it; utf-8-sig has a byte-order mark.
    line_end : str
    decimal : str
        What stands before the fraction of a number: a comma in many countries, where cells are told
        apart by other signs.
    """

    separator: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    line_end: str = "\n"
    decimal: str = "."

    def rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a text with the line each ends in; empty lines have no cells."""
        csv.field_size_limit(_LONGEST_CELL)
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.separator,
            quotechar=self.quote,
            skipinitialspace=True,
            strict=False,
        )
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise CommandError(f"line {reader.line_num}: {error}") from error


# ------------------------------------------------------------------------------------------- bytes


def decode_text(content: bytes, title: str, encoding: str | None = None) -> tuple[str, str]:
    """Return the text of a file and its encoding.

    Without a byte-order mark text is UTF-8, and Windows-1252 where it cannot be: the encoding of
    most old tables, in which (unlike in Latin-1) some bytes are impossible.
    """
    if encoding is None:
        tried = [name for mark, name in _MARKS if content.startswith(mark)][:1]
        tried = tried or ["utf-8", "cp1252"]
    else:
        try:
            tried = [codecs.lookup(encoding).name]
        except LookupError:
            raise CommandError(
                f"There is no encoding {encoding!r}: utf-8, cp1252 and latin-1 are common ones."
            ) from None
        if tried == ["utf-8"] and content.startswith(codecs.BOM_UTF8):
            tried = ["utf-8-sig"]
    for name in tried:
        try:
            text = content.decode(name)
        except UnicodeError:
            continue
        _refuse_nul(text, title)
        return text, name
    raise CommandError(
        f"{title} is not text in {' or '.join(tried)}: name its encoding with --encoding."
    )


def _refuse_nul(text: str, title: str) -> None:
    at = text.find("\0")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        raise CommandError(
            f"{title} is no table of text: there is a NUL character in line {line}. If it is "
            "UTF-16, say so with --encoding utf-16."
        )


# ------------------------------------------------------------------------------- separator, quotes


def find_dialect(
    text: str, encoding: str = "utf-8", separator: str | None = None, suffix: str = ""
) -> Dialect:
    """Find out how a table is written, from its first lines.

    Parameters
    ----------
    text : str
    encoding : str
        What the text was decoded from.
    separator : str, optional
        If it is known.
    suffix : str
        Of the file: ``.tsv`` has tabs.

    Examples
    --------
    >>> from bayescut.cli._dialect import find_dialect
    >>> found = find_dialect("a;b\\n1,5;2\\n")
    >>> found.separator, found.decimal
    (';', ',')
    """
    head = _head(text)
    line_end = "\r\n" if "\r\n" in head else "\n"
    quote = _quote(head)
    if separator is None and suffix == ".tsv":
        separator = "\t"
    if separator is None:
        separator = _separator(head, quote)
    return Dialect(separator, quote, encoding, line_end, _decimal(head, separator, quote))


def _head(text: str) -> str:
    end = 0
    for _ in range(_HEAD):
        end = text.find("\n", end) + 1
        if end == 0:
            return text
    return text[:end]


def _quote(head: str) -> str:
    """Return the single quote if cells stand in them and none stands in double quotes."""
    double = re.search(r'(?:^|[,;|\t ])"', head, re.MULTILINE)
    single = re.findall(r"(?:^|[,;|\t ])'[^'\n]*'(?=$|[,;|\t ])", head, re.MULTILINE)
    return "'" if double is None and len(single) > head.count("\n") else '"'


def _separator(head: str, quote: str) -> str:
    best, best_share = ",", 0.0
    for sign in _SEPARATORS:
        try:
            widths = [len(row) for _, row in Dialect(sign, quote).rows(head) if row]
        except CommandError:
            continue
        if not widths:
            break
        width, count = Counter(widths).most_common(1)[0]
        # Two words in every line are text; a table between blanks has more columns.
        if width < (3 if sign == " " else 2):
            continue
        share = count / len(widths)
        if share > best_share + 1e-9:
            best, best_share = sign, share
    return best


def _decimal(head: str, separator: str, quote: str) -> str:
    """Return the comma if numbers are written with it, and none with a point."""
    if separator in ", ":
        return "."
    edge = re.escape(separator + quote)
    cell = rf"(?:^|[{edge}])[+-]?\d+%s\d+(?=$|[{edge}\r])"
    if re.search(cell % ",", head, re.MULTILINE) is None:
        return "."
    return "." if re.search(cell % r"\.", head, re.MULTILINE) else ","


# ------------------------------------------------------------------------------------------ checks


def check_lines(text: str, dialect: Dialect, title: str) -> list[str]:
    """Return the first row, or raise unless every other row has as many cells."""
    found = _even(text, dialect)
    if found is not None:
        return found
    first: list[str] | None = None
    start = 1
    for line, row in dialect.rows(text):
        begin, start = start, line + 1
        if not row:
            continue
        if first is None:
            first = row
            if not any(cell.strip() for cell in row):
                raise CommandError(f"{title}, line {begin}: all cells of the first line are empty.")
        elif len(row) != len(first):
            more = len(row) > len(first)
            last = f"the last one empty: a {_NAMES.get(dialect.separator, 'separator')} too many? "
            hint = last if more and not row[-1].strip() else ""
            if line > begin:
                hint = f"the row ends in line {line}: a quote that is not closed? "
            raise CommandError(
                f"{title}, line {begin}: {len(row)} cell{'s' * (len(row) != 1)}, but "
                f"{len(first)} in the first line{', ' if hint else ': '}{hint}correct the line"
                f"{'' if len(first) > 1 else ', or name the separator with --sep'}."
            )
    if first is None:
        raise CommandError(f"{title} cannot be read as a table: it is empty.")
    return first


def _even(text: str, dialect: Dialect) -> list[str] | None:
    """Return the first row of a text without quotes and of equal lines, None for any other.

    Counting separators takes a tenth of the time of reading cells.
    """
    if dialect.quote in text or dialect.separator == " ":
        return None
    lines = iter(io.StringIO(text, newline=None))
    first = next((line for line in lines if line != "\n"), "")
    count = first.count(dialect.separator)
    if (
        not first.strip()
        or not first.strip(f"{dialect.separator} \n")
        or any(line.count(dialect.separator) != count and line != "\n" for line in lines)
    ):
        return None
    return next(iter(dialect.rows(first)))[1]


def check_names(cells: Sequence[str], title: str, ignored: Sequence[str] = ()) -> list[str]:
    """Return the names in a header.

    A column without a name is called by its place, ``#3``, and has to be ignored.
    """
    names = [" ".join(cell.split()) or f"#{place}" for place, cell in enumerate(cells, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    advice = "if the first line holds values, say --no-header"
    if twice:
        raise CommandError(f"{title} has several columns named {twice[0]!r}: rename one; {advice}.")
    for place, cell in enumerate(cells, 1):
        if not cell.strip() and f"#{place}" not in ignored:
            raise CommandError(
                f"{title} has no name for column {place}: give it one, or leave it out with "
                f"--ignore '#{place}'; {advice}."
            )
    return names


# ------------------------------------------------------------------------------------------ header

# Chances that a name is a number, and that it is also a value of its column.
_NUMBER_AS_NAME = 0.02
_VALUE_AS_NAME = 0.01
# Most tables have a header.
_PRIOR = 0.9


def is_number(cell: str) -> bool:
    """Tell whether a text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def has_header(
    first: Sequence[str], columns: Sequence[Iterable[str]], missing: Sequence[str]
) -> bool:
    r"""Decide from the whole table whether its first row holds names.

    For every column, the chance that its first cell is a name is held against the chance that it
    is one more value: of numbers if the others are, of the values seen there, of new ones as often
    as the others were new (Good and Turing's estimate). The product of these odds decides.

    Parameters
    ----------
    first : sequence of str
    columns : sequence of iterables of str
        The cells below.
    missing : sequence of str
        Texts of cells that were not observed.

    Examples
    --------
    >>> from bayescut.cli._dialect import has_header
    >>> has_header(["a", "b"], [["x", "y", "x"], ["1", "2", "1"]], [""])
    True
    >>> has_header(["x", "3"], [["x", "y", "x"], ["1", "2", "1"]], [""])
    False
    """
    gaps = set(missing)
    columns = [list(column) for column in columns]
    if not any(columns):
        return not all(is_number(cell) or cell in gaps for cell in first)
    if _numbered(first):
        return True
    odds = math.log(_PRIOR / (1 - _PRIOR))
    for cell, column in zip(first, columns, strict=True):
        if cell.strip() in gaps:
            continue
        counts = Counter(column)
        for gap in gaps:
            counts.pop(gap, None)
        n = sum(counts.values())
        if n == 0:
            continue
        numbers = sum(count for value, count in counts.items() if is_number(value))
        numeric = is_number(cell)
        name = _NUMBER_AS_NAME if numeric else 1 - _NUMBER_AS_NAME
        value = ((numbers if numeric else n - numbers) + 0.5) / (n + 1)
        if not (numeric and numbers > n / 2):  # whether a number was seen before says little
            seen = counts[cell]
            new = (sum(count == 1 for count in counts.values()) + 0.5) / (n + 1)
            name *= _VALUE_AS_NAME / len(counts) if seen else 1 - _VALUE_AS_NAME
            value *= seen / (n + 1) if seen else new
        odds += math.log(name) - math.log(value)
    return odds > 0


def _numbered(first: Sequence[str]) -> bool:
    """Tell whether the first row counts its cells, as tables without names are often written."""
    if len(first) < 4 or not all(cell.strip().isdecimal() for cell in first):
        return False
    numbers = [int(cell) for cell in first]
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(first)))
