"""Telling why the first run on a machine takes longer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayescut.cli._errors import say
from bayescut.cli._terminal import is_terminal

__all__ = ["compiling"]

# Seconds between two lines that tell how far it is.
PAUSE = 5.0


@contextmanager
def compiling(*, quiet: bool = False) -> Iterator[None]:
    """Say once that kernels are being compiled, if they are, and then how many are done.

    Kernels found in numba's cache are not compiled, so that only first runs speak.
    """
    if quiet or not is_terminal(sys.stderr):
        yield
        return
    from numba.core import event

    class Told(event.Listener):  # type: ignore[misc]
        done = 0
        begin = last = 0.0

        def on_start(self, found: Any) -> None:
            if not self.begin:
                self.begin = self.last = time.monotonic()
                say(
                    "compiling kernels: the first run on a machine takes up to a minute longer, "
                    "later ones find them in the cache"
                )

        def on_end(self, found: Any) -> None:
            self.done += 1
            now = time.monotonic()
            if now - self.last >= PAUSE:
                self.last = now
                say(f"compiling kernels: {self.done} done in {now - self.begin:.0f} s")

    with event.install_listener("numba:compile", Told()):
        yield
