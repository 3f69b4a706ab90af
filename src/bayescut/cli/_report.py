"""``bayescut report``: a synthetic table beside the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayescut._atomic import writing
from bayescut.cli._errors import CommandError, count
from bayescut.cli._options import (
    Encoding,
    Header,
    Ignore,
    Json,
    Missing,
    OwnMissing,
    Quiet,
    Separator,
    one_pipe,
    table_options,
)
from bayescut.cli._tables import read_table
from bayescut.cli._terminal import emit, emit_json, print_table, waiting

__all__ = ["report", "save_figure"]


def report(
    real: Annotated[str, typer.Argument(help="The real table: CSV or Parquet; - is a pipe.")],
    synthetic: Annotated[str, typer.Argument(help="The synthetic table.")],
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
    separator: Separator = None,
    encoding: Encoding = None,
    header: Header = None,
    missing: Missing = None,
    only_missing: OwnMissing = False,
    ignore: Ignore = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare a synthetic table with the real one it was made from.

    Distances (total variation, 0 alike, 1 apart) of columns and of pairs of columns, accuracy on
    held-out real rows of a classifier learned from either table, and rows that equal a real row.
    Beside each stands what real rows that were held out have.
    """
    one_pipe(real=real, synthetic=synthetic)
    options = table_options(
        separator,
        header,
        missing,
        ignore,
        only_missing=only_missing,
        encoding=encoding,
        quiet=quiet,
    )
    tables = [read_table(source, options) for source in (real, synthetic)]
    held = None if held_out is None else read_table(held_out, options).used
    from bayescut.report import compare_tables

    with waiting("comparing"):
        found = compare_tables(tables[0].used, tables[1].used, held, target=target)
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


def save_figure(figure: Any, path: str) -> None:
    """Write a matplotlib figure in the format that the name of the file says."""
    kind = Path(path).suffix.lstrip(".").casefold() or "png"
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise CommandError(f"{path!r} is no picture: its name ends in one of {', '.join(known)}.")
    with writing(path, "wb") as stream:
        figure.savefig(stream, format=kind, dpi=150)
