"""Tables in files and pipes: CSV and Parquet, read with pandas."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescut.cli._dialect import (
    ALWAYS_MISSING,
    MISSING,
    Dialect,
    check_lines,
    check_names,
    decode_text,
    find_dialect,
    has_header,
)
from bayescut.cli._errors import CommandError, close_name, count, say
from bayescut.cli._terminal import waiting

if TYPE_CHECKING:
    from bayescut.data import Domain, Domains

__all__ = [
    "PARQUET_SUFFIXES",
    "PIPE",
    "Table",
    "TableOptions",
    "match_table",
    "named_kinds",
    "no_parquet",
    "pandas",
    "read_table",
    "split_names",
]

PIPE = "-"
PARQUET_SUFFIXES = (".parquet", ".pq")
# Rows from which it is decided whether the first one holds names. More would not change it, and
# 100,000 of 50 columns take 1.5 s.
_ROWS_TO_DECIDE = 20_000
# How compressed files begin.
_PACKED: tuple[tuple[bytes, Callable[[bytes], bytes]], ...] = (
    (b"\x1f\x8b", gzip.decompress),
    (b"BZh", bz2.decompress),
    (b"\xfd7zXZ\0", lzma.decompress),
)


def pandas() -> Any:
    """Return pandas, or say how to get it."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise CommandError(
            "pandas is needed to read and write tables: pip install 'bayescut[pandas]'"
        ) from error


def no_parquet(title: str, what: str) -> CommandError:
    """Say what is needed for Parquet files."""
    return CommandError(f"{title} cannot be {what}: Parquet needs pip install 'bayescut[parquet]'.")


@dataclass(frozen=True)
class TableOptions:
    """How to read a table.

    Parameters
    ----------
    separator : str or None
        Between cells; None finds it out.
    header : bool or None
        Whether the first line holds names; None finds it out.
    missing : tuple of str
        Texts of cells that were not observed, besides empty ones.
    ignore : tuple of str
        Columns to leave out.
    text : bool
        Whether every value is a label as it stands, numbers included.
    encoding : str or None
        None finds it out.
    quiet : bool
        Whether nothing is said of what was found out.
    day_first : bool or None
        Whether 01/03/2020 is in March, where no date of the column shows it.
    """

    separator: str | None = None
    header: bool | None = None
    missing: tuple[str, ...] = MISSING
    ignore: tuple[str, ...] = ()
    text: bool = False
    encoding: str | None = None
    quiet: bool = False
    day_first: bool | None = None


def split_names(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return names given by repeated options, each of which may hold several with commas."""
    return tuple(
        name.strip() for value in values or () for name in value.split(",") if name.strip()
    )


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Parameters
    ----------
    title : str
        Where it came from, for messages.
    frame : DataFrame
        Its columns, those to be ignored included.
    ignored : tuple of str
        Columns to leave out.
    header : bool
        Whether its first line held names.
    dialect : Dialect
        How it was written.
    cells : DataFrame of str or None
        Its cells as they stood in the file, if that was asked for.
    day_first : bool or None
        As the options say.
    """

    title: str
    frame: Any
    ignored: tuple[str, ...] = ()
    header: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    cells: Any = None
    day_first: bool | None = None

    @property
    def used(self) -> Any:
        """The columns that are not ignored."""
        return self.frame.drop(columns=list(self.ignored)) if self.ignored else self.frame


def _content(source: str) -> tuple[str, bytes, str]:
    """Return the title of a source, its (decompressed) content and the suffix of its name."""
    if source == PIPE:
        title, suffix = "standard input", ""
        content = sys.stdin.buffer.read()
        if not content.strip():
            raise CommandError("Nothing came through standard input: pipe a table into -.")
    else:
        path = Path(source)
        if path.is_dir():
            raise CommandError(f"{source!r} is a folder: name a CSV or Parquet file.")
        if not path.exists():
            raise FileNotFoundError(2, "No such file", source)
        title, content = repr(source), path.read_bytes()
        suffix = next((s for s in reversed(path.suffixes) if s.casefold() not in _PACKING), "")
    try:
        for mark, unpack in _PACKED:
            if content.startswith(mark):
                content = unpack(content)
                break
        if content.startswith(b"PK\x03\x04"):
            content = _unzip(content, title)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise CommandError(f"{title} cannot be unpacked: {error}.") from error
    return title, content, suffix.casefold()


_PACKING = (".gz", ".bz2", ".xz", ".zip")


def _unzip(content: bytes, title: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = [name for name in archive.namelist() if not name.endswith("/")]
        if len(files) != 1:
            raise CommandError(f"{title} holds {count(len(files), 'file')}: unpack it first.")
        return archive.read(files[0])


def read_table(
    source: str,
    options: TableOptions,
    domains: Domains | None = None,
    *,
    cells: bool = False,
    kinds: Mapping[str | int, str] | None = None,
    lacking: bool = False,
) -> Table:
    """Read a table.

    Parameters
    ----------
    source : str
        A CSV file (packed by gzip, bzip2, xz or zip too) or a Parquet file; ``-`` is standard
        input.
    options : TableOptions
    domains : Domains, optional
        Of the model that is to use it: columns of text labels are read as text even where they
        look like numbers.
    cells : bool
        Whether the cells are kept as they stand in the file, too.
    kinds : mapping from column to kind, optional
        What columns of a table to learn from are said to hold: labels keep their leading zeros, and
        those that others lose are told.
    lacking : bool
        Whether it may lack the columns to ignore.
    """
    title, content, suffix = _content(source)
    with waiting(f"reading {title}"):
        try:
            if suffix in PARQUET_SUFFIXES or content[:4] == b"PAR1":
                table = Table(title, pandas().read_parquet(io.BytesIO(content)), options.ignore)
            else:
                table = _read_csv(title, content, suffix, options, domains, cells, kinds)
        except ImportError as error:
            raise no_parquet(title, "read") from error
        except (ValueError, UnicodeError, OSError, EOFError) as error:
            if isinstance(error, CommandError):
                raise
            if "EOF inside string" in str(error):
                error = ValueError("a quote is opened in it and never closed")
            text = str(error).rstrip(".")
            raise CommandError(f"{title} cannot be read as a table: {text}.") from error
    frame = table.frame
    if frame.columns.inferred_type == "integer" and options.ignore:
        frame.columns = frame.columns.astype(str)
        if table.cells is not None:
            table.cells.columns = frame.columns
    columns = [str(column) for column in frame.columns]
    if lacking:
        table = replace(table, ignored=tuple(name for name in table.ignored if name in columns))
    for name in table.ignored:
        if name not in columns:
            close = close_name(name, columns)
            some = ", ".join(map(repr, columns[:8]))
            hint = f"Did you mean {close!r}?" if close else f"Columns: {some}"
            more = ", ..." if not close and len(columns) > 8 else "" if close else "."
            raise CommandError(f"{title} has no column {name!r} to ignore. {hint}{more}")
    if not len(frame) or len(columns) <= len(table.ignored):
        raise CommandError(f"{title} has no rows or no columns.")
    return table


def _read_csv(
    title: str,
    content: bytes,
    suffix: str,
    options: TableOptions,
    domains: Domains | None,
    cells: bool,
    kinds: Mapping[str | int, str] | None,
) -> Table:
    text, encoding = decode_text(content, title, options.encoding)
    # utf-8-sig leaves no mark behind, but a table that was joined from two may have one left.
    text = text.lstrip("\ufeff")
    dialect = find_dialect(text, encoding, options.separator, suffix)
    first = check_lines(text, dialect, title)
    if len(first) == 1:
        text = text.strip("\r\n")
    missing = [*ALWAYS_MISSING, *options.missing]
    keys: list[Any] = list(range(len(first)))
    body = _below(text, dialect)

    def parse(part: str, **settings: Any) -> Any:
        return pandas().read_csv(
            io.StringIO(part),
            header=None,
            names=keys,
            sep=dialect.separator,
            quotechar=dialect.quote,
            decimal=dialect.decimal,
            keep_default_na=False,
            skipinitialspace=True,
            index_col=False,
            # Types are inferred from whole columns, not from pieces that may disagree.
            low_memory=False,
            # In a table of one column an empty line is an empty cell.
            skip_blank_lines=len(first) > 1,
            **settings,
        )

    header = options.header
    known = set((None if domains is None else domains.names) or ())
    if header is None and known and 2 * len(known & set(map(str.strip, first))) > len(known):
        header = True
    if header is None:
        columns: list[Any] = [[] for _ in first]
        if body.strip():
            below = parse(body, dtype=object, na_filter=False, nrows=_ROWS_TO_DECIDE)
            columns = [below[key] for key in keys]
        header = has_header(first, columns, missing)
        expected = domains is not None and domains.names is None
        if not header and not expected and not options.quiet:
            say(
                f"{title} has no header: its first line looks like the others. Columns are "
                f"numbered from 0 to {len(first) - 1}; --header takes the line as names, "
                "--no-header leaves out this remark."
            )
    if header:
        keys, text = check_names(first, title, options.ignore), body
        if not body.strip():
            raise CommandError(f"{title} has no rows or no columns.")
    types: Any = None
    if options.text:
        types = str
    elif domains is not None:
        types = {key: str for key in _text_columns(keys, domains, header)}
    frame = parse(text, dtype=types, na_values=missing)
    if kinds is not None and not options.text:
        shown = parse(text, dtype=object, na_filter=False, nrows=_ROWS_TO_DECIDE)
        padded = [key for key in keys if _has_leading_zeros(frame[key], shown[key])]
        kinds = named_kinds(kinds, keys)
        said = {key: kinds.get(key, kinds.get(place)) for place, key in enumerate(keys)}
        types = {key: str for key in padded if said[key] == "label"}
        if types:
            frame = parse(text, dtype=types, na_values=missing)
        for key in padded:
            if said[key] is None and key not in options.ignore and not options.quiet:
                say(
                    f"column {str(key)!r} loses the leading zeros of its whole numbers; "
                    f"--kind {shlex.quote(f'{key}=label')} keeps them."
                )
    kept = parse(text, dtype=object, na_filter=False) if cells else None
    return Table(title, frame, options.ignore, header, dialect, kept, options.day_first)


def named_kinds(kinds: Mapping[str | int, str], names: Iterable[Any]) -> dict[str | int, str]:
    """Return kinds by the names of columns, where numbers are names.

    The columns of a file without names keep their numbers, as names, when some are left out.
    """
    known = set(names)
    return {str(key) if str(key) in known else key: kind for key, kind in kinds.items()}


def _has_leading_zeros(column: Any, cells: Any) -> bool:
    """Tell whether whole numbers of one width are written like 01234: codes of places or goods."""
    kind = getattr(column.dtype, "kind", "O")
    if kind not in "iuf" or (kind == "f" and not _is_whole(column.dropna())):
        return False
    texts = cells[column.iloc[: len(cells)].notna()].str.strip()
    return texts.str.len().nunique() == 1 and bool(texts.str.match(r"0\d").any())


def _below(text: str, dialect: Dialect) -> str:
    """Return what stands below the first row, which may have line breaks in quotes."""
    n_lines = next(line for line, row in dialect.rows(text) if row)
    lines = io.StringIO(text, newline="")
    return text[sum(len(next(lines)) for _ in range(n_lines)) :]


def _text_columns(keys: Sequence[Any], domains: Domains, header: bool) -> list[Any]:
    names = domains.names
    if names is not None and (header or set(names) <= set(map(str, keys))):
        known = {domain.name: domain for domain in domains}
        pairs = [(key, known.get(str(key))) for key in keys]
    else:
        pairs = list(zip(keys, domains, strict=False))
    return [
        key
        for key, domain in pairs
        if domain is not None
        and domain.labels is not None
        and all(isinstance(label, str) for label in domain.labels.tolist())
    ]


def match_table(
    frame: Any, domains: Domains, title: str = "the table", day_first: bool | None = None
) -> Any:
    """Check a table's columns against a model's, and its text against the labels.

    Parameters
    ----------
    frame : DataFrame
    domains : Domains
        Of the model.
    title : str
        Of the table, for messages.
    day_first : bool or None
        Whether 01/03/2020 is in March, where no date of the column shows it.

    Returns
    -------
    DataFrame
        With the model's columns in the model's order.
    """
    names = domains.names
    if names is None or frame.columns.inferred_type == "integer":
        if len(frame.columns) != len(domains):
            raise CommandError(
                f"{title} has {len(frame.columns)} columns, but the model has {len(domains)}: "
                "give as many, in the order they were learned in."
            )
        frame = frame.set_axis(range(len(domains)) if names is None else names, axis=1)
    else:
        found = [str(column) for column in frame.columns]
        unknown = [name for name in found if name not in set(names)]
        absent = [name for name in names if name not in set(found)]
        if unknown:
            close = close_name(unknown[0], absent)
            hint = f"did you mean {close!r}? If not, " if close else ""
            raise CommandError(
                f"The model has no column {unknown[0]!r}{_more(unknown)}: {hint}"
                f"leave it out with --ignore {','.join(unknown[:3])}."
            )
        if absent:
            raise CommandError(
                f"{title} has no column {absent[0]!r}{_more(absent)}: add it, with empty cells if "
                "it was not observed."
            )
        frame = frame[names]
    changed = {
        column: values
        for column, domain in zip(frame.columns, domains, strict=True)
        if (values := _as_known(frame[column], domain, day_first)) is not None
    }
    if changed:
        frame = frame.copy(deep=False)
        for column, values in changed.items():
            frame[column] = values
    return frame


def _more(names: Sequence[str]) -> str:
    return "" if len(names) == 1 else f" (and {len(names) - 1} more)"


def _as_known(column: Any, domain: Domain, day_first: bool | None) -> Any:
    """Return text as labels, numbers or dates where the model has these, None if nothing changes.

    One odd cell makes pandas read a whole column of numbers as text; such cells stay as they are.
    """
    from bayescut.cli._answers import find_state, read_number

    if domain.labels is not None and all(isinstance(x, str) for x in domain.labels.tolist()):
        return None
    if getattr(column.dtype, "kind", "O") not in "OT":
        return None
    if domain.kind == "date" and (dates := _as_dates(column, day_first)) is not None:
        return dates

    def known(text: str) -> Any:
        if domain.grid is not None:
            try:
                return domain.value(read_number(text, domain))
            except ValueError:
                return text
        state = find_state(text, domain)
        return text if state < 0 else domain.label(state)

    codes, uniques = pandas().factorize(column)
    cells = np.empty(len(uniques) + 1, dtype=object)
    for position, value in enumerate(uniques):
        cells[position] = known(value) if isinstance(value, str) else value
    cells[-1] = None
    return pandas().Series(cells[codes], index=column.index, dtype=object)


def _as_dates(column: Any, day_first: bool | None) -> Any:
    """Return text as dates if all of it is in one form of dates, else None."""
    from bayescut.data.dates import find_date_form

    form = find_date_form(column.dropna().unique(), day_first)
    if form is None:
        return None
    if not form.is_known:
        raise CommandError(f"Column {str(column.name)!r} has {form.problem}: {form.advice}.")
    return form.series(column)


def with_types(
    frame: Any,
    options: TableOptions,
    kinds: Mapping[str | int, str] | None = None,
    *,
    tell: bool = False,
) -> Any:
    """Give columns the types that CSV files do not state.

    Whole numbers and truth values with gaps, which pandas reads as fractions and objects, get types
    that have gaps. Text that is a date in every row becomes dates.

    Parameters
    ----------
    frame : DataFrame
    options : TableOptions
        Whether there are types at all, and whether days come before months.
    kinds : mapping from column to kind, optional
        What columns are said to hold: labels stay as they are.
    tell : bool
        Whether dates that cannot be read are told.
    """
    from bayescut.data.dates import find_date_form

    if options.text:
        return frame
    changed = {}
    for place, name in enumerate(frame):
        column = frame[name]
        kind = getattr(column.dtype, "kind", "O")
        seen = column.dropna()
        said = (kinds or {}).get(name, (kinds or {}).get(place))
        if not len(seen) or (said == "label" and kind in "OT"):
            continue
        if kind == "f" and len(seen) < len(column) and _is_whole(seen):
            changed[name] = column.astype("Int64")
        elif kind in "OT" and seen.map(type).eq(bool).all():
            changed[name] = column.astype("boolean")
        elif kind in "OT":
            form = find_date_form(seen.unique(), options.day_first)
            if form is None:
                continue
            if form.is_known:
                changed[name] = form.series(column)
            elif tell and said is None:
                say(f"column {str(name)!r} is taken as labels, with {form.problem}: {form.advice}.")
    frame = frame.copy(deep=False) if changed else frame
    for name, column in changed.items():
        frame[name] = column
    return frame


def _is_whole(column: Any) -> bool:
    values = column.to_numpy(dtype=np.float64)
    return bool((np.isfinite(values) & (np.floor(values) == values) & (abs(values) < 2**53)).all())
