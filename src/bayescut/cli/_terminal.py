"""What commands print, and where: answers on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayescut._progress import Advance, progress, screen
from bayescut._text import is_terminal, print_table
from bayescut.cli._silence import is_quiet

__all__ = ["bar", "emit", "emit_json", "is_terminal", "note", "print_table", "waiting"]


def emit(text: str) -> None:
    """Print an answer."""
    console = screen()
    if console is not None and is_terminal(sys.stdout):  # above the bar
        console.print(text, markup=False, highlight=False, soft_wrap=True)
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


def _watched() -> bool:
    """Tell whether somebody is looking who wants to see more than answers."""
    return is_terminal(sys.stderr) and not is_quiet()


def note(text: str) -> None:
    """Say something in passing; nothing if nobody is looking."""
    if _watched():
        print(text, file=sys.stderr)


@contextmanager
def bar(description: str, total: float | None) -> Iterator[Advance]:
    """Show a progress bar on standard error if somebody is looking; see `progress`."""
    with progress(description, total, _watched(), transient=True) as advance:
        yield advance


@contextmanager
def waiting(description: str) -> Iterator[None]:
    """Show that something is going on, if it takes more than a moment."""
    if not _watched():
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
