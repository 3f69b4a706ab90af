"""What the scripts share: tables that grow line by line, and what is done before a clock starts."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayescut
from bayescut.datasets import Dataset

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
REFERENCE = Path(bayescut.__file__).resolve().parent / "bench" / "reference"

Row = dict[str, str]


def read_csv(path: Path) -> list[Row]:
    """Rows of a CSV file without its comments, none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def latest(path: Path, *keys: str) -> dict[Any, Row]:
    """Rows of a CSV file by the cell of one column, or by the cells of several.

    A forced run adds a line and leaves the old one: of lines with equal keys the last counts.
    """
    rows = read_csv(path)
    if len(keys) == 1:
        return {row[keys[0]]: row for row in rows}
    return {tuple(row[key] for key in keys): row for row in rows}


def append(path: Path, fields: Sequence[str], row: Mapping[str, object]) -> None:
    """Add a row to a CSV file at once, so that an interrupted run loses nothing."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    end = _line_end(path)
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, fields, lineterminator=end)
        if new:
            writer.writeheader()
        writer.writerow(row)


def write_csv(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a CSV file anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    end = _line_end(path)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fields, lineterminator=end)
        writer.writeheader()
        writer.writerows(rows)


def _line_end(path: Path) -> str:
    """A file keeps its line ends, so that a difference to the old one shows what is new."""
    if not path.exists():
        return "\n"
    with path.open("rb") as stream:
        return "\r\n" if stream.readline().endswith(b"\r\n") else "\n"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> list[str]:
    """Lines of a Markdown table: text in the first column, numbers in the others."""
    rule = "|---" + "|---:" * (len(head) - 1) + "|"
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (head, *rows))
    return [first, rule, *others]


def publish(path: Path, text: str) -> None:
    """Write a page of tables and print it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
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
