"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Annotated, Any

import typer

from bayescut.cli._dialect import MISSING
from bayescut.cli._errors import CommandError
from bayescut.cli._silence import hush
from bayescut.cli._tables import PIPE, TableOptions, split_names

__all__ = [
    "Encoding",
    "Gaps",
    "Header",
    "Ignore",
    "Json",
    "Kinds",
    "Missing",
    "ModelFile",
    "Output",
    "OwnMissing",
    "Quiet",
    "Separator",
    "TableFile",
    "Text",
    "Unseen",
    "check_places",
    "kinds_of",
    "reads_table",
    "table_options",
]

ModelFile = Annotated[str, typer.Argument(help="Model file, as fit writes it; - is a pipe.")]
TableFile = Annotated[str, typer.Argument(help="CSV or Parquet file; - is a pipe.")]
Output = Annotated[
    str,
    typer.Option("--output", "-o", help="CSV or Parquet file to write; - is standard output."),
]
Text = Annotated[
    bool, typer.Option("--text", help="Take all values as labels, numbers included (007).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No remarks and no progress on standard error.", callback=hush
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--sep", help="What stands between cells. Guessed if not given.", metavar="SIGN"),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="Of the text. Default: what its byte-order mark says, else UTF-8, else cp1252.",
        metavar="NAME",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line holds names. Default: decided from all columns.",
        show_default=False,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        help="A further text for missing cells; empty cells always are, and so are "
        f"{' '.join(MISSING)} by default. Repeatable.",
        metavar="TEXT",
    ),
]
OwnMissing = Annotated[
    bool,
    typer.Option(
        "--only-missing",
        help="Only empty cells and what --missing names are missing: ?, NA and the others are "
        "labels.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="Columns to leave out: a,b or repeated.", metavar="COLUMNS"),
]

DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--day-first/--month-first",
        help="How to read dates such as 01/03/2020 where no date of the column shows it.",
        show_default=False,
    ),
]


class UnseenChoice(str, Enum):
    """What happens to values that the model does not know."""

    error = "error"
    missing = "missing"


Unseen = Annotated[
    UnseenChoice | None,
    typer.Option(
        "--unseen",
        help="What to do with values the model does not know: stop, or take them as missing. "
        "Default: as the model was made, error otherwise.",
        show_default=False,
    ),
]


class Gaps(str, Enum):
    """What gaps of the training table tell."""

    random = "random"
    informative = "informative"


Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="What a column holds, where that is to be overruled: zip=label, age=number, "
        "since=date, wait=duration. Repeatable.",
        metavar="COLUMN=KIND",
    ),
]


def kinds_of(kinds: list[str] | None) -> dict[str | int, str]:
    """Read what columns hold."""
    found: dict[str | int, str] = {}
    for text in split_names(kinds):
        name, _, kind = text.rpartition("=")
        if not name:
            raise typer.BadParameter(f"--kind {text!r} is not of the form column=kind.")
        found[int(name) if name.isdecimal() else name] = kind
    return found


def table_options(
    separator: str | None,
    header: bool | None,
    missing: list[str] | None,
    ignore: list[str] | None,
    *,
    only_missing: bool = False,
    encoding: str | None = None,
    text: bool = False,
    quiet: bool = False,
    day_first: bool | None = None,
) -> TableOptions:
    """Gather the options of a table."""
    if separator is not None:
        separator = {"\\t": "\t", "tab": "\t", "space": " "}.get(separator, separator)
        if len(separator) != 1:
            raise typer.BadParameter("--sep is one sign, or the word tab.")
    words = (*(() if only_missing else MISSING), *(missing or ()))
    ignored = split_names(ignore)
    return TableOptions(separator, header, words, ignored, text, encoding, quiet, day_first)


_TABLE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "separator": (Separator, None),
    "encoding": (Encoding, None),
    "header": (Header, None),
    "missing": (Missing, None),
    "only_missing": (OwnMissing, False),
    "ignore": (Ignore, None),
    "day_first": (DayFirst, None),
    "quiet": (Quiet, False),
}


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of tables: they come as one, its parameter ``options``.

    Parameters
    ----------
    command : callable
        With a parameter ``options: TableOptions``.

    Returns
    -------
    callable
        With the options of tables in its place, for typer to see.
    """
    # On Python 3.10, get_type_hints() hides what typer needs of options whose default is None.
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _TABLE_OPTIONS.items()
    ]
    named = [
        *(parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own),
        *shared,
    ]
    # --json, which all commands have, stays last.
    named.sort(key=lambda parameter: parameter.name == "as_json")

    @wraps(command)
    def call(**given: Any) -> None:
        table = {name: given.pop(name) for name in _TABLE_OPTIONS}
        command(**given, options=table_options(text=given.get("text", False), **table))

    # typer reads both.
    call.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return call


def check_places(*outputs: str | None, **sources: str | None) -> None:
    """Refuse to read two things from standard input, and to write over what is read."""
    piped = [name for name, source in sources.items() if source == PIPE]
    if len(piped) > 1:
        raise typer.BadParameter(f"Only one of {' and '.join(piped)} can come through -.")
    for output in outputs:
        for name, source in sources.items():
            if output not in (None, PIPE) and source not in (None, PIPE) and _same(output, source):
                raise CommandError(
                    f"The output {output!r} is the {name} that is read: name another file."
                )


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there, or is no name of a file
        return False
