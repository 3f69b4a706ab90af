"""``bayescut check``: what every column of a table is taken for, before any learning."""

from __future__ import annotations

import typer

from bayescut.cli._options import Json, Kinds, TableFile, Text, kinds_of, reads_table
from bayescut.cli._tables import TableOptions, named_kinds, read_table, with_types
from bayescut.cli._terminal import emit, emit_json

__all__ = ["check"]


@reads_table
def check(
    table: TableFile,
    options: TableOptions,
    kinds: Kinds = None,
    text: Text = False,
    as_json: Json = False,
) -> None:
    """Say what every column of a table is taken for: its kind, its values, its gaps.

    All problems are listed at once; with any, the exit code is 1. Nothing is learned.
    """
    from bayescut.data import describe_table

    chosen = kinds_of(kinds)
    frame = read_table(table, options, kinds=chosen).used
    chosen = named_kinds(chosen, frame)
    frame = with_types(frame, options, chosen)
    report = describe_table(frame, columns=chosen)
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
