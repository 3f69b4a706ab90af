"""``bayescut check``: what every column of a table is taken for, before any learning."""

from __future__ import annotations

from typing import Annotated

import typer

from bayescut.cli._options import (
    Encoding,
    Header,
    Ignore,
    Json,
    Kinds,
    Missing,
    OwnMissing,
    Quiet,
    Separator,
    kinds_of,
    table_options,
)
from bayescut.cli._tables import read_table, with_types
from bayescut.cli._terminal import emit, emit_json
from bayescut.data import describe_table

__all__ = ["check"]


def check(
    table: Annotated[str, typer.Argument(help="CSV or Parquet file; - is a pipe.")],
    kinds: Kinds = None,
    text: Annotated[
        bool, typer.Option("--text", help="Take all values as labels, numbers included (007).")
    ] = False,
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    missing: Missing = None,
    only_missing: OwnMissing = False,
    ignore: Ignore = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what every column of a table is taken for: its kind, its values, its gaps.

    All problems are listed at once; with any, the exit code is 1. Nothing is learned.
    """
    options = table_options(
        separator,
        header,
        missing,
        ignore,
        only_missing=only_missing,
        encoding=encoding,
        text=text,
        quiet=quiet,
    )
    frame = with_types(read_table(table, options).used, text)
    report = describe_table(frame, columns=kinds_of(kinds))
    if as_json:
        emit_json(
            {
                "rows": report.n_rows,
                "columns": [
                    {
                        "name": column.name,
                        "dtype": column.dtype,
                        "kind": column.kind,
                        "values": column.n_distinct,
                        "states": column.n_states,
                        "missing": column.n_missing,
                        "step": column.step,
                        "warnings": list(column.warnings),
                        "problem": column.problem,
                    }
                    for column in report.columns
                ],
            }
        )
    else:
        for line in str(report).splitlines():
            emit(line)
    if report.problems:
        raise typer.Exit(1)
