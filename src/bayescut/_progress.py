"""The progress bar: rich if it is installed, now and then a line if not, nothing by default."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Advance", "progress", "screen"]

# Seconds between two lines where there is no bar: short work stays quiet.
_LINE_SECONDS = 5.0

# The bars on the screen: only one can be drawn, so that work within work becomes a line of it.
_shown: list[Any] = []


class Advance(Protocol):
    """To be told what was just done, and what is going on now."""

    def __call__(self, amount: float = 0.0, description: str | None = None) -> None:
        """Take in ``amount`` units of finished work and a new description."""


def screen() -> Any:
    """Return the console of the bar on the screen, None if there is none."""
    return _shown[-1].console if _shown else None


@contextmanager
def progress(
    description: str, total: float | None, verbose: int = 1, *, transient: bool = False
) -> Iterator[Advance]:
    """Show on standard error how something gets on.

    Parameters
    ----------
    description : str
        What is going on.
    total : float or None
        Units of work in all; None if nobody knows.
    verbose : int, default=1
        Nothing is shown at 0.
    transient : bool, default=False
        Whether the bar disappears when it is done.

    Yields
    ------
    Advance
        ``advance(amount)`` says how many units were just done, ``advance(description=...)`` what
        is going on now.

    Examples
    --------
    >>> from bayescut._progress import progress
    >>> with progress("counting", 3, verbose=0) as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    if verbose <= 0:
        yield _nothing
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        yield _Lines(description, total)
        return
    if _shown:
        bar = _shown[-1]
        task = bar.add_task(description, total=total)
        try:
            yield _updater(bar, task)
        finally:
            bar.remove_task(task)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=transient,
        # Standard output keeps to itself: it may be a file, and what rich redirects goes to the
        # screen.
        redirect_stdout=False,
    )
    with bar:
        task = bar.add_task(description, total=total)
        _shown.append(bar)
        try:
            yield _updater(bar, task)
        finally:
            _shown.remove(bar)


def _nothing(amount: float = 0.0, description: str | None = None) -> None:
    pass


def _updater(bar: Any, task: Any) -> Advance:
    def advance(amount: float = 0.0, description: str | None = None) -> None:
        bar.update(task, advance=amount, description=description)

    return advance


class _Lines:
    """Lines for those without rich."""

    def __init__(self, description: str, total: float | None) -> None:
        self.description = description
        self.total = total
        self.done = 0.0
        self.start = self.last = time.monotonic()

    def __call__(self, amount: float = 0.0, description: str | None = None) -> None:
        self.done += amount
        if description is not None:
            self.description = description
        now = time.monotonic()
        if now - self.last < _LINE_SECONDS:
            return
        self.last = now
        share = f"{self.done / self.total:4.0%}, " if self.total else ""
        print(f"{self.description}: {share}{now - self.start:.0f} s", file=sys.stderr)
