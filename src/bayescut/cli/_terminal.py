"""What commands print, and where: answers on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["bar", "emit", "emit_json", "is_terminal", "note", "print_table", "waiting"]


def is_terminal(stream: Any) -> bool:
    """Tell whether somebody is looking."""
    return bool(getattr(stream, "isatty", lambda: False)())


# The bar on the screen, if there is one: lines have to go above it.
_bars: list[Any] = []


def emit(text: str) -> None:
    """Print an answer."""
    if _bars and is_terminal(sys.stdout):
        _bars[-1].console.print(text, markup=False, highlight=False, soft_wrap=True)
    else:
        sys.stdout.write(text + "\n")


def emit_json(value: Any, stream: Any = None) -> None:
    """Print an answer for machines: one line. Numbers that are not finite become null."""
    (stream or sys.stdout).write(
        json.dumps(_finite(value), ensure_ascii=False, allow_nan=False) + "\n"
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def note(text: str) -> None:
    """Say something in passing; nothing if nobody is looking."""
    if is_terminal(sys.stderr):
        print(text, file=sys.stderr)


def print_table(
    headings: Sequence[str],
    lines: Iterable[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    bold: Callable[[int, int], bool] = lambda row, column: False,
    title: str | None = None,
) -> None:
    """Print a table: framed for people, aligned text for pipes.

    Parameters
    ----------
    headings : sequence of str
    lines : iterable of sequences of str
    left : sequence of int
        Columns of text; the others are numbers and stand to the right.
    bold : callable
        Whether a cell, given its row and column, is bold.
    title : str, optional
        Stands above the table, for people only.
    """
    body = [list(line) for line in lines]
    if is_terminal(sys.stdout):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

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
    widths = [max(map(len, column)) for column in zip(headings, *body, strict=True)]
    for line in (list(headings), *body):
        cells = [
            cell.ljust(width) if position in left else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        emit("  ".join(cells).rstrip())


Update = Callable[..., None]


@contextmanager
def bar(description: str, total: float | None) -> Iterator[Update]:
    """Show a progress bar on standard error if somebody is looking.

    Yields
    ------
    callable
        ``update(amount)`` tells how much was just done, ``update(description=...)`` what is going
        on now.
    """
    if not is_terminal(sys.stderr):
        yield lambda amount=0.0, description=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if total is not None:
        columns += [BarColumn(), TextColumn("{task.percentage:>3.0f}%")]
    # Standard output keeps to itself: it may be a file, and what rich redirects goes to the
    # screen.
    shown = Progress(
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
    with shown:
        task = shown.add_task(description, total=total)

        def update(amount: float = 0.0, description: str | None = None) -> None:
            shown.update(task, advance=amount, description=description)

        _bars.append(shown)
        try:
            yield update
        finally:
            _bars.remove(shown)


@contextmanager
def waiting(description: str) -> Iterator[None]:
    """Show that something is going on, if it takes more than a moment."""
    if not is_terminal(sys.stderr):
        yield
        return
    done = threading.Event()

    def spin() -> None:
        if done.wait(0.5):
            return
        with bar(description, None):
            done.wait()

    spinner = threading.Thread(target=spin, daemon=True)
    spinner.start()
    try:
        yield
    finally:
        done.set()
        spinner.join()
