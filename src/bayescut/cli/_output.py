"""Tables that commands write: whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from bayescut._atomic import writing
from bayescut.cli._dialect import Dialect
from bayescut.cli._errors import CommandError
from bayescut.cli._tables import PARQUET_SUFFIXES, PIPE, no_parquet, pandas

__all__ = ["Writer", "output_stream", "text_output"]

_COMPRESSED: dict[str, Callable[..., Any]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}


@contextmanager
def text_output(target: str, encoding: str = "utf-8") -> Iterator[Any]:
    """Open a file for text, compressed if its name says so, or standard output (``-``).

    A file takes its place when the block ends without an error.
    """
    if target == PIPE:
        yield sys.stdout
        return
    with ExitStack() as stack:
        raw = stack.enter_context(writing(target, "wb"))
        suffix = Path(target).suffix.casefold()
        if suffix in _COMPRESSED:
            # Without a name and a time inside, equal tables are equal files.
            kind = {"mtime": 0, "filename": "", "fileobj": raw} if suffix == ".gz" else None
            opener = _COMPRESSED[suffix]
            raw = stack.enter_context(opener(mode="wb", **kind) if kind else opener(raw, "wb"))
        stream = io.TextIOWrapper(raw, encoding=encoding, newline="", write_through=True)
        try:
            yield stream
            stream.flush()
        finally:
            stream.detach()


@dataclass
class Writer:
    """Writes a table piece by piece to a CSV or Parquet file, or to standard output (``-``).

    Parameters
    ----------
    target : str
    header : bool
        Whether CSV begins with the column names.
    dialect : Dialect
        How CSV is written; a file named .tsv has tabs.
    """

    target: str
    header: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    _pieces: list[Any] = field(default_factory=list)
    _stream: Any = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        if self.is_parquet and find_spec("pyarrow") is None and find_spec("fastparquet") is None:
            raise no_parquet(repr(self.target), "written")

    @property
    def is_parquet(self) -> bool:
        """Whether the target is a Parquet file."""
        return Path(self.target).suffix.casefold() in PARQUET_SUFFIXES

    def __enter__(self) -> Writer:
        if not self.is_parquet:
            self._stream = self._stack.enter_context(
                text_output(self.target, self.dialect.encoding)
            )
        return self

    def write(self, frame: Any) -> None:
        """Write the next rows."""
        if self._stream is None:
            self._pieces.append(frame)
            return
        separator = "\t" if ".tsv" in Path(self.target).suffixes else self.dialect.separator
        try:
            frame.to_csv(
                self._stream,
                index=False,
                header=self.header,
                sep=separator,
                quotechar=self.dialect.quote,
                decimal=self.dialect.decimal,
                lineterminator=self.dialect.line_end,
            )
        except UnicodeEncodeError as error:
            raise CommandError(
                f"{error.object[error.start : error.end]!r} cannot be written in "
                f"{self.dialect.encoding}, the encoding of the table: save the table as UTF-8 "
                "first."
            ) from error
        self.header = False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stack.__exit__(kind, error, trace)
        if self._stream is None and error is None:
            whole = pandas().concat(self._pieces, ignore_index=True)
            with writing(self.target, "wb") as stream:
                whole.set_axis(whole.columns.astype(str), axis=1).to_parquet(stream)


def output_stream() -> BinaryIO:
    """Return standard output for bytes."""
    return sys.stdout.buffer
