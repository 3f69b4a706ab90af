"""Time that budgets are counted by: it stands still while kernels are compiled.

The first fit on a machine compiles for a minute. A budget of 20 s would be spent on that, and the
model be the first thing that was learned.
"""

from __future__ import annotations

import time
from typing import Any

from numba.core import event


class _Compiling(event.Listener):  # type: ignore[misc]
    """Adds up the time for which at least one kernel is being compiled, by whatever thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.began = 0.0
        self.seconds = 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.began = time.monotonic()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.monotonic() - self.began

    def passed(self, now: float) -> float:
        """Seconds so far."""
        return self.seconds + (now - self.began if self.depth else 0.0)


_compiling = _Compiling()
# Numba compiles under a lock and tells of what it does inside it: starts and ends come in order.
event.register("numba:compile", _compiling)


def working_time() -> float:
    """Return seconds of `time.monotonic` less those in which kernels were compiled.

    Examples
    --------
    >>> from bayescut._clock import working_time
    >>> began = working_time()
    >>> working_time() >= began
    True
    """
    now = time.monotonic()
    return now - _compiling.passed(now)
