"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from bayescut.cli._tables import PIPE, TableOptions, split_names

__all__ = ["Header", "Ignore", "Json", "Missing", "ModelFile", "Separator", "table_options"]

ModelFile = Annotated[str, typer.Argument(help="Model file, as fit writes it; - is a pipe.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Separator = Annotated[
    str | None,
    typer.Option("--sep", help="What stands between cells. Guessed if not given.", metavar="SIGN"),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line holds names. Default: yes, unless all its cells are numbers.",
        show_default=False,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        help="A further text for missing cells (empty, NA and NaN always are). Repeatable.",
        metavar="TEXT",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="Columns to leave out: a,b or repeated.", metavar="COLUMNS"),
]


def table_options(
    separator: str | None,
    header: bool | None,
    missing: list[str] | None,
    ignore: list[str] | None,
    text: bool = False,
) -> TableOptions:
    """Gather the options of a table."""
    if separator is not None:
        separator = {"\\t": "\t", "tab": "\t", "space": " "}.get(separator, separator)
        if len(separator) != 1:
            raise typer.BadParameter("--sep is one sign, or the word tab.")
    return TableOptions(separator, header, tuple(missing or ()), split_names(ignore), text)


def one_pipe(**sources: str | None) -> None:
    """Refuse to read two things from standard input."""
    piped = [name for name, source in sources.items() if source == PIPE]
    if len(piped) > 1:
        raise typer.BadParameter(f"Only one of {' and '.join(piped)} can come through -.")
