"""What the scripts share: CSV files that grow line by line, and work before a clock starts."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._atomic import write_text
from bayescut._text import markdown, to_csv
from bayescut.bench import BenchError
from bayescut.bench._store import Store, read
from bayescut.datasets import Dataset

__all__ = [
    "HERE",
    "REFERENCE",
    "RESULTS",
    "CsvRows",
    "Row",
    "latest",
    "learning_rows",
    "load",
    "markdown",
    "open_csv",
    "publish",
    "read_csv",
    "warm_up",
    "write_csv",
]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
REFERENCE = HERE / "reference"

Row = dict[str, str]


class CsvRows:
    """Rows of a CSV file with a line of names; comments begin with ``#``.

    Parameters
    ----------
    fields : sequence of str
        The columns of a new file. A file that is there has to have them all, in any order.
    keys : sequence of str
        The columns that identify a row. The key of one column is its cell, that of several a
        tuple.
    """

    def __init__(self, fields: Sequence[str], keys: Sequence[str]) -> None:
        self.fields = list(fields)
        self.keys = list(keys)
        self._names: list[str] | None = None

    def head(self) -> str:
        """Return the line of names."""
        self._names = self.fields
        return _csv_line(self.fields)

    def decode(self, line: str) -> Row | None:
        """Return a row, None for the names and for comments."""
        if line.startswith("#"):
            return None
        cells = next(csv.reader([line.rstrip("\r\n")]))
        if self._names is None:
            absent = [name for name in self.fields if name not in cells]
            if absent:
                raise ValueError(f"there is no column {', '.join(absent)}")
            self._names = cells
            return None
        if len(cells) != len(self._names):
            raise ValueError(f"{len(cells)} cells instead of {len(self._names)}")
        return dict(zip(self._names, cells, strict=True))

    def encode(self, record: Mapping[str, object]) -> str:
        """Return the line of a row; columns that it does not have stay empty."""
        names = self._names or self.fields
        unknown = [name for name in record if name not in names]
        if unknown:
            raise BenchError(f"There is no column {', '.join(unknown)} among {', '.join(names)}.")
        cells = ["" if record.get(name) is None else str(record[name]) for name in names]
        if any("\n" in cell or "\r" in cell for cell in cells):
            raise BenchError("A cell of a results file must not have several lines.")
        return _csv_line(cells)

    def key(self, record: Mapping[str, object]) -> Hashable:
        """Return the cells that identify a row."""
        cells = tuple(str(record[name]) for name in self.keys)
        return cells[0] if len(cells) == 1 else cells


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def open_csv(path: Path, fields: Sequence[str], *keys: str) -> Store[Row]:
    """Open a CSV file for appending: the store of ``bayescut bench`` with rows instead of results.

    Every row is on the disk as soon as it is there; a run that was killed leaves whole lines.
    """
    return Store(path, CsvRows(fields, keys))


def latest(path: Path, *keys: str) -> dict[Any, Row]:
    """Rows of a CSV file by the cell of one column, or by the cells of several; none without it.

    A forced run adds a line and leaves the old one: of lines with equal keys the last counts.
    """
    return read(path, CsvRows(keys, keys)) if path.exists() else {}


def read_csv(path: Path) -> list[Row]:
    """Rows of a CSV file without its comments, none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def write_csv(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, to_csv(fields, ([row.get(name, "") for name in fields] for row in rows)))


def publish(path: Path, text: str) -> None:
    """Write a page of tables and print it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text + "\n")
    print(text)


def learning_rows(data: Dataset) -> NDArray[np.uint8]:
    """Training and validation rows, stacked."""
    return np.vstack([data.train, data.valid])


def warm_up(
    models: Iterable[Callable[[], Any]], tables: Iterable[NDArray[np.uint8]], **fit: Any
) -> None:
    """Compile the kernels on small tables, so that the first data set is not charged for it."""
    tables = list(tables)
    for make in models:
        for table in tables:
            make().fit(table, **fit).score(table)


def load() -> str:
    """How many processes wanted a core in the last minute; empty where nobody counts."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
