"""Tables in files and pipes: CSV and Parquet, read and written with pandas."""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bayescut.cli._answers import find_state
from bayescut.cli._errors import CommandError
from bayescut.cli._terminal import waiting
from bayescut.data import Domain, Domains

__all__ = [
    "TableOptions",
    "Writer",
    "drop_ignored",
    "match_table",
    "pandas",
    "read_table",
    "split_names",
]

PIPE = "-"
#: Cells that mean "not observed". Words such as None or null are labels: many tables mean them so.
MISSING = ("", "NA", "NaN", "nan", "<NA>")
_PARQUET = b"PAR1"
_OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def pandas() -> Any:
    """Return pandas, or say how to get it."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise CommandError(
            "pandas is needed to read and write tables: pip install 'bayescut[pandas]'"
        ) from error


@dataclass(frozen=True)
class TableOptions:
    """How to read a table.

    Parameters
    ----------
    separator : str or None
        Between cells; None guesses from the first line.
    header : bool or None
        Whether the first line holds names; None: unless all its cells are numbers.
    missing : tuple of str
        Further texts that mean "not observed".
    ignore : tuple of str
        Columns to leave out.
    text : bool
        Whether every value is a label as it stands, numbers included.
    """

    separator: str | None = None
    header: bool | None = None
    missing: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    text: bool = False


def split_names(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return names given by repeated options, each of which may hold several with commas."""
    return tuple(
        name.strip() for value in values or () for name in value.split(",") if name.strip()
    )


@dataclass
class _Source:
    """A file or what came through a pipe."""

    title: str
    content: Any  # a path, or bytes
    suffix: str = ""

    def stream(self) -> Any:
        """Return what pandas reads from."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content

    def head(self) -> bytes:
        """Return the beginning of the (decompressed) content."""
        if isinstance(self.content, bytes):
            return self.content[: 1 << 20]
        opener = _OPENERS.get(self.suffix, open)
        with opener(self.content, "rb") as stream:
            return bytes(stream.read(1 << 20))


def _open(source: str) -> _Source:
    if source == PIPE:
        content = sys.stdin.buffer.read()
        if not content.strip():
            raise CommandError("Nothing came through standard input: pipe a table into -.")
        return _Source("standard input", content)
    path = Path(source)
    if path.is_dir():
        raise CommandError(f"{source!r} is a folder: name a CSV or Parquet file.")
    if not path.exists():
        raise FileNotFoundError(2, "No such file", source)
    return _Source(repr(source), os.fspath(path), path.suffix.casefold())


def read_table(source: str, options: TableOptions, domains: Domains | None = None) -> Any:
    """Read a table into a DataFrame.

    Parameters
    ----------
    source : str
        A CSV file (.gz, .bz2, .xz and .zip too) or a Parquet file; ``-`` is standard input.
    options : TableOptions
    domains : Domains, optional
        Of the model that is to use it: columns of text labels are read as text even where they
        look like numbers.

    Returns
    -------
    DataFrame
        With all columns; `drop_ignored` leaves out those to be ignored.
    """
    place = _open(source)
    with waiting(f"reading {place.title}"):
        try:
            if place.suffix in (".parquet", ".pq") or place.head()[:4] == _PARQUET:
                frame = pandas().read_parquet(place.stream())
            else:
                frame = _read_csv(place, options, domains)
        except ImportError as error:
            raise CommandError(f"{place.title} cannot be read: {error}") from error
        except (ValueError, UnicodeError, OSError, EOFError) as error:
            if isinstance(error, CommandError):
                raise
            raise CommandError(f"{place.title} cannot be read as a table: {error}.") from error
    if frame.columns.inferred_type == "integer" and options.ignore:
        frame.columns = frame.columns.astype(str)
    columns = [str(column) for column in frame.columns]
    for name in options.ignore:
        if name not in columns:
            raise CommandError(
                f"{place.title} has no column {name!r} to ignore. {_close(name, columns)}"
            )
    if not len(frame) or len(columns) <= len(options.ignore):
        raise CommandError(f"{place.title} has no rows or no columns.")
    return frame


def drop_ignored(frame: Any, options: TableOptions) -> Any:
    """Leave out the columns to be ignored."""
    return frame.drop(columns=list(options.ignore)) if options.ignore else frame


def _read_csv(place: _Source, options: TableOptions, domains: Domains | None) -> Any:
    lines = (
        place.head().decode("utf-8-sig", "replace").splitlines() if place.suffix != ".zip" else []
    )
    first = next((line for line in lines if line.strip()), "")
    separator = options.separator or _separator(first, place.suffix)
    names = next(csv.reader([first], delimiter=separator), []) if len(separator) == 1 else []
    header = options.header if options.header is not None else not _all_numbers(names)
    if header:
        twice = sorted({name for name in names if name and names.count(name) > 1})
        if twice:
            raise CommandError(f"{place.title} has several columns named {twice[0]!r}: rename one.")
    keys: list[Any] = names if header else list(range(len(names)))
    types: Any = None
    if options.text:
        types = str
    elif domains is not None:
        types = {key: str for key in _text_columns(keys, domains, header)}
    return pandas().read_csv(
        place.stream(),
        sep=separator,
        header=0 if header else None,
        dtype=types,
        keep_default_na=False,
        na_values=[*MISSING, *options.missing],
        skipinitialspace=True,
        # Types are inferred from whole columns, not from pieces that may disagree.
        low_memory=False,
    )


def _separator(line: str, suffix: str) -> str:
    if suffix == ".tsv":
        return "\t"
    bare = "".join(line.split('"')[::2])  # what is not in quotes
    return max(",;\t", key=lambda sign: (bare.count(sign), sign == ","))


def _all_numbers(cells: Sequence[str]) -> bool:
    def is_number(cell: str) -> bool:
        try:
            float(cell)
        except ValueError:
            return cell.strip() in MISSING
        return True

    return bool(cells) and any(map(str.strip, cells)) and all(map(is_number, cells))


def _text_columns(keys: Sequence[Any], domains: Domains, header: bool) -> list[Any]:
    if header and domains.names is not None:
        known = {domain.name: domain for domain in domains}
        pairs = [(key, known.get(key)) for key in keys]
    else:
        pairs = list(zip(keys, domains, strict=False))
    return [
        key
        for key, domain in pairs
        if domain is not None
        and domain.labels is not None
        and all(isinstance(label, str) for label in domain.labels.tolist())
    ]


def _close(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    some = ", ".join(map(repr, names[:8]))
    return f"Columns: {some}{', ...' if len(names) > 8 else ''}."


def match_table(frame: Any, domains: Domains, title: str = "the table") -> Any:
    """Check a table's columns against a model's, and its text against the labels.

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
            close = difflib.get_close_matches(unknown[0], absent or names, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}? If not, " if close else ""
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
        if (values := _as_labels(frame[column], domain)) is not None
    }
    if changed:
        frame = frame.copy(deep=False)
        for column, values in changed.items():
            frame[column] = values
    return frame


def _more(names: Sequence[str]) -> str:
    return "" if len(names) == 1 else f" (and {len(names) - 1} more)"


def _as_labels(column: Any, domain: Domain) -> Any:
    """Return text as labels where the labels are not text, None if there is nothing to do.

    One odd cell makes pandas read a whole column of numbers as text.
    """
    if domain.labels is not None and all(isinstance(x, str) for x in domain.labels.tolist()):
        return None
    if getattr(column.dtype, "kind", "O") not in "OT":
        return None
    codes, uniques = pandas().factorize(column)
    labels = np.empty(len(uniques) + 1, dtype=object)
    for position, value in enumerate(uniques):
        state = find_state(value, domain) if isinstance(value, str) else -1
        labels[position] = value if state < 0 else domain.label(state)
    labels[-1] = None
    return pandas().Series(labels[codes], index=column.index, dtype=object)


@dataclass
class Writer:
    """Writes a table piece by piece to a CSV or Parquet file, or to standard output (``-``).

    Parameters
    ----------
    target : str
    header : bool
        Whether CSV begins with the column names.
    """

    target: str
    header: bool = True
    _pieces: list[Any] = field(default_factory=list)
    _stream: Any = None

    @property
    def is_parquet(self) -> bool:
        """Whether the target is a Parquet file."""
        return Path(self.target).suffix.casefold() in (".parquet", ".pq")

    def __enter__(self) -> Writer:
        if self.target == PIPE:
            self._stream = sys.stdout
        elif not self.is_parquet:
            opener = _OPENERS.get(Path(self.target).suffix.casefold(), open)
            self._stream = opener(self.target, "wt", encoding="utf-8", newline="")
        return self

    def write(self, frame: Any) -> None:
        """Write the next rows."""
        if self._stream is None:
            self._pieces.append(frame)
            return
        frame.to_csv(self._stream, index=False, header=self.header, lineterminator="\n")
        self.header = False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._stream is not None:
            if self._stream is not sys.stdout:
                self._stream.close()
        elif error is None:
            whole = pandas().concat(self._pieces, ignore_index=True)
            try:
                whole.set_axis(whole.columns.astype(str), axis=1).to_parquet(self.target)
            except ImportError as problem:
                raise CommandError(f"{self.target!r} cannot be written: {problem}") from problem


def output_stream() -> BinaryIO:
    """Return standard output for bytes."""
    return sys.stdout.buffer
