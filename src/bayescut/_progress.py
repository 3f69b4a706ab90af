"""Progress bars: rich if it is installed, one line on standard error if not, quiet by default."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def progress(description: str, total: float, verbose: int) -> Iterator[Advance]:
    """Show the progress of something with ``total`` units of work.

    Parameters
    ----------
    description : str
        What is going on.
    total : float
        Units of work in all.
    verbose : int
        Nothing is shown at 0.

    Yields
    ------
    callable
        To be told how many units were just done.
    """
    if not verbose:
        yield lambda amount: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield from _plain(description, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount: bar.advance(task, amount)


def _plain(description: str, total: float) -> Iterator[Advance]:
    done = 0.0
    start = last = time.monotonic()

    def advance(amount: float) -> None:
        nonlocal done, last
        done += amount
        now = time.monotonic()
        if now - last >= 1.0:
            last = now
            share = done / total if total else 1.0
            print(f"{description}: {share:4.0%}, {now - start:.0f} s", file=sys.stderr)

    yield advance
    print(f"{description}: done in {time.monotonic() - start:.1f} s", file=sys.stderr)
