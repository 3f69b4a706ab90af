"""Telling why the first run on a machine takes longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bayescut.cli._errors import say
from bayescut.cli._silence import is_quiet, once
from bayescut.cli._terminal import bar

__all__ = ["REMARK", "compiling"]

# Two processor minutes with fit and all queries of a table with numbers and gaps, half of that for
# labels alone.
REMARK = (
    "compiling kernels: the first run on a machine takes a minute or two longer, later ones find "
    "them in the cache"
)


@contextmanager
def compiling(*, quiet: bool = False) -> Iterator[None]:
    """Say once in a command that kernels are being compiled, if they are; show how many are done.

    Kernels found in numba's cache are not compiled, so that only first runs speak.
    """
    if quiet or is_quiet():
        yield
        return
    from numba.core import event

    with ExitStack() as stack:

        class Told(event.Listener):  # type: ignore[misc]
            done = 0
            advance: Any = None

            def on_start(self, found: Any) -> None:
                if self.advance is None:
                    if once(REMARK):
                        say(REMARK)
                    self.advance = stack.enter_context(bar("compiling kernels", None))

            def on_end(self, found: Any) -> None:
                self.done += 1
                if self.advance is not None:
                    self.advance(0.0, f"compiling kernels: {self.done} done")

        with event.install_listener("numba:compile", Told()):
            yield
