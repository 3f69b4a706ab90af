"""The table printer: aligned text, Markdown, CSV, and a frame for people who look."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = ["aligned", "is_terminal", "markdown", "print_table", "to_csv"]


def is_terminal(stream: Any) -> bool:
    """Tell whether somebody is looking."""
    return bool(getattr(stream, "isatty", lambda: False)())


def _never(row: int, column: int) -> bool:
    return False


def aligned(
    headings: Sequence[str], lines: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)
) -> list[str]:
    """Return the lines of a table in columns of equal width.

    Parameters
    ----------
    headings : sequence of str
    lines : iterable of sequences of str
    left : sequence of int
        Columns of text; the others are numbers and stand to the right.

    Examples
    --------
    >>> from bayescut._text import aligned
    >>> print(*aligned(["name", "n"], [["a", "10"], ["long", "2"]]), sep="\\n")
    name   n
    a     10
    long   2
    """
    table = [list(headings), *(list(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(_justified(line, widths, left)).rstrip() for line in table]


def _justified(line: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if position in left else cell.rjust(width)
        for position, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def markdown(
    headings: Sequence[str],
    lines: Iterable[Sequence[str]] = (),
    *,
    left: Sequence[int] = (0,),
    bold: Callable[[int, int], bool] = _never,
) -> list[str]:
    """Return the lines of a Markdown table; parameters as of `print_table`.

    Examples
    --------
    >>> from bayescut._text import markdown
    >>> print(*markdown(["name", "n"], [["a", "10"]]), sep="\\n")
    | name | n |
    |---|---:|
    | a | 10 |
    """
    body = [
        [f"**{cell}**" if bold(row, i) else cell for i, cell in enumerate(line)]
        for row, line in enumerate(lines)
    ]
    rule = "".join("|---" if i in left else "|---:" for i in range(len(headings))) + "|"
    first, *rest = (
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in (list(headings), *body)
    )
    return [first, rule, *rest]


def to_csv(headings: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(lines)
    return text.getvalue()


def print_table(
    headings: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    bold: Callable[[int, int], bool] = _never,
    title: str | None = None,
) -> None:
    """Print a table: framed for people (with rich), aligned text for pipes.

    Parameters
    ----------
    headings : sequence of str
    lines : iterable of sequences of str
    left : sequence of int
        Columns of text; the others are numbers and stand to the right.
    bold : callable
        Whether a cell, given its row and column, is bold.
    title : str, optional
        Stands above the frame, for people only.
    """
    body = [list(line) for line in lines]
    if is_terminal(sys.stdout):
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            pass
        else:
            table = Table(title=title, title_justify="left")
            for position, heading in enumerate(headings):
                justify = "left" if position in left else "right"
                table.add_column(Text(heading), justify=justify)  # type: ignore[arg-type]
            for row, line in enumerate(body):
                table.add_row(
                    *(Text(c, style="bold" if bold(row, i) else "") for i, c in enumerate(line))
                )
            Console(highlight=False).print(table)
            return
    for text in aligned(headings, body, left=left):
        sys.stdout.write(text + "\n")
