"""Ctrl-C while a compiled kernel runs.

A kernel that returns a named tuple has Python look up its class when the work is done, and numba
does not look whether that failed. Python delivers a Ctrl-C pressed meanwhile at exactly this place,
the first Python code to run: the KeyboardInterrupt becomes a SystemError ("returned a result with
an exception set") or a crash of the process. Here such a Ctrl-C is delivered a moment later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, TypeVar

__all__ = ["interruptible", "late_interrupts"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Seconds after which a Ctrl-C that came at a bad moment is delivered again.
_LATER = 0.01


def _in_lookup(frame: FrameType | None) -> bool:
    """Tell whether numba is looking up the class of a result."""
    serialize = sys.modules.get("numba.core.serialize")
    code = getattr(getattr(serialize, "_numba_unpickle", None), "__code__", None)
    while code is not None and frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


class _Late:
    """Keeps a Ctrl-C that came at a bad moment and delivers it again, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not _in_lookup(frame):
            signal.default_int_handler(number, frame)
        self._waiting = True
        timer = threading.Timer(_LATER, self._deliver)
        timer.daemon = True
        timer.start()

    def take(self) -> bool:
        """Tell whether one is waiting, and forget it."""
        with self._lock:
            waiting, self._waiting = self._waiting, False
            return waiting

    def _deliver(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting = False
                os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def late_interrupts() -> Iterator[None]:
    """See that Ctrl-C is a KeyboardInterrupt in here, whatever kernels are running.

    Does nothing outside the main thread, which alone is interrupted, and where somebody else
    handles Ctrl-C.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    late = _Late()
    signal.signal(signal.SIGINT, late.handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if late.take():
            raise KeyboardInterrupt


def interruptible(function: Function) -> Function:
    """Let a function that calls kernels end in a KeyboardInterrupt when Ctrl-C is pressed."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with late_interrupts():
            return function(*arguments, **options)

    return call  # type: ignore[return-value]
