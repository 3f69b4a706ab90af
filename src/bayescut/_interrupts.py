"""Ctrl-C while compiled code runs.

Python delivers a Ctrl-C at the first Python code that runs after it, which need not be ours:

- A kernel that returns a named tuple has Python look up its class when the work is done, and numba
  does not look whether that failed. The KeyboardInterrupt becomes a SystemError ("returned a result
  with an exception set") or a crash of the process.
- LLVM tells Python when it has compiled a kernel; there the Ctrl-C is printed as an ignored
  exception, and lost. Other compiled code that forgets errors loses it without a word.

Here a Ctrl-C is delivered a moment later in the first case, and again in the second, until the
function that runs has been left.
"""

from __future__ import annotations

import _thread
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

# Seconds after which a Ctrl-C that would not be heard, or that may be lost, is delivered again.
_SOON = 0.01
_LATER = 0.2


# Python functions that compiled code calls without looking for errors: numba's look-up of classes,
# and what LLVM calls when it has compiled something or looks whether it has.
_DEAF = {"_numba_unpickle", "_raw_object_cache_notify", "_raw_object_cache_getbuffer"}


def _unheard(frame: FrameType | None) -> bool:
    """Tell whether an error raised in here would be forgotten."""
    while frame is not None:
        if frame.f_code.co_name in _DEAF:
            return True
        frame = frame.f_back
    return False


def _unwinding() -> bool:
    """Tell whether code runs because of a KeyboardInterrupt: in finally, except, or at an exit."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class _Interrupts:
    """Delivers a Ctrl-C until it has arrived."""

    def __init__(self) -> None:
        self.seen = False
        self._again = False
        self._closed = False
        self._lock = threading.Lock()

    def handle(self, number: int, frame: FrameType | None) -> None:
        again, self._again = self._again, False
        if again and self._closed:
            return
        self.seen = True
        unheard = _unheard(frame)
        timer = threading.Timer(_SOON if unheard else _LATER, self._deliver)
        timer.daemon = True
        timer.start()
        # Cleaning up is not interrupted, unless Ctrl-C is pressed once more.
        if not unheard and not (again and _unwinding()):
            signal.default_int_handler(number, frame)

    def _deliver(self) -> None:
        with self._lock:
            if not self._closed:
                self._again = True
                _thread.interrupt_main()

    def close(self) -> None:
        with self._lock:
            self._closed = True


@contextmanager
def late_interrupts() -> Iterator[None]:
    """See that Ctrl-C is a KeyboardInterrupt in here, whatever compiled code is running.

    Does nothing outside the main thread, which alone is interrupted, and where somebody else
    handles Ctrl-C.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    interrupts = _Interrupts()
    signal.signal(signal.SIGINT, interrupts.handle)
    try:
        yield
    finally:
        interrupts.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupts.seen and not _unwinding():
            raise KeyboardInterrupt


def interruptible(function: Function) -> Function:
    """Let a function that calls kernels end in a KeyboardInterrupt when Ctrl-C is pressed."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with late_interrupts():
            return function(*arguments, **options)

    return call  # type: ignore[return-value]
