"""``bayescut report``: a synthetic table beside the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayescut._atomic import writing
from bayescut.cli._errors import CommandError, count
from bayescut.cli._options import Json, check_places, reads_table
from bayescut.cli._tables import TableOptions, read_table, with_types
from bayescut.cli._terminal import emit, emit_json, print_table, waiting

__all__ = ["report", "save_figure"]


@reads_table
def report(
    real: Annotated[str, typer.Argument(help="The real table: CSV or Parquet; - is a pipe.")],
    synthetic: Annotated[str, typer.Argument(help="The synthetic table.")],
    options: TableOptions,
    held_out: Annotated[
        str | None,
        typer.Option(
            "--held-out",
            help="Real rows that the synthetic table was not made from. Default: 30 % of the real "
            "table.",
            metavar="FILE",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column that classifiers predict. Default: the last one of labels."),
    ] = None,
    draw: Annotated[
        str | None,
        typer.Option(help="Draw the report into this picture (.png, .svg, .pdf).", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a synthetic table with the real one it was made from.

    Distances (total variation, 0 alike, 1 apart) of columns and of pairs of columns, accuracy on
    held-out real rows of a classifier learned from either table, and rows that equal a real row.
    Beside each stands what real rows that were held out have.
    """
    check_places(draw, table=real, **{"synthetic table": synthetic, "held-out table": held_out})
    sources = [real, synthetic] if held_out is None else [real, synthetic, held_out]
    # A synthetic table need not have the columns that its model was not to look at.
    tables = [
        with_types(read_table(source, options, lacking=source != real).used, options)
        for source in sources
    ]
    for source, table in zip(sources[1:], tables[1:], strict=True):
        _check_columns(real, tables[0], source, table)
    from bayescut.report import compare_tables

    with waiting("comparing"):
        found = compare_tables(*tables, target=target)
    if draw is not None:
        save_figure(found.draw(), draw)
    if as_json:
        emit_json(found.record())
        return
    emit(
        f"{count(found.n_synthetic, 'synthetic row')}, {count(found.n_real, 'real row')}, "
        f"{count(found.n_held_out, 'real row')} held out"
    )
    print_table(["", "synthetic", "held out"], found.lines(), left=(0,))
    if draw is not None:
        emit(f"\n{draw}: drawing of the report")


def _check_columns(real: str, wanted: Any, source: str, table: Any) -> None:
    """Refuse a table whose columns have other names than those of the real one."""
    if "integer" in (wanted.columns.inferred_type, table.columns.inferred_type):
        return  # columns without names follow each other
    first, second = (list(map(str, frame.columns)) for frame in (wanted, table))
    lost = [name for name in first if name not in set(second)]
    more = [name for name in second if name not in set(first)]
    if lost:
        listed = ",".join(lost[:8]) + (",..." if len(lost) > 8 else "")
        raise CommandError(
            f"{source!r} has no column {lost[0]!r}, which {real!r} has: leave out what it lacks "
            f"with --ignore '{listed}'."
        )
    if more:
        raise CommandError(f"{source!r} has a column {more[0]!r}, which {real!r} has not.")


def save_figure(figure: Any, path: str) -> None:
    """Write a matplotlib figure in the format that the name of the file says."""
    kind = Path(path).suffix.lstrip(".").casefold() or "png"
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise CommandError(f"{path!r} is no picture: its name ends in one of {', '.join(known)}.")
    with writing(path, "wb") as stream:
        figure.savefig(stream, format=kind, dpi=150)
