"""Ctrl-C while a compiled kernel runs.

A kernel that returns a named tuple calls Python code to make it, after its work is done. If Ctrl-C
was pressed meanwhile, the KeyboardInterrupt is raised in there, where numba does not look for
errors; the interpreter then finds a result together with an exception and raises a SystemError
whose first cause is the KeyboardInterrupt.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

__all__ = ["interruptible", "is_interrupt"]

Function = TypeVar("Function", bound=Callable[..., Any])


def is_interrupt(error: BaseException) -> bool:
    """Tell whether an error is a KeyboardInterrupt, or a SystemError that hides one.

    Examples
    --------
    >>> from bayescut._interrupts import is_interrupt
    >>> hidden = SystemError("returned a result with an exception set")
    >>> hidden.__cause__ = KeyboardInterrupt()
    >>> is_interrupt(hidden), is_interrupt(SystemError())
    (True, False)
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while isinstance(found, SystemError) and id(found) not in seen:
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return isinstance(found, KeyboardInterrupt)


def interruptible(function: Function) -> Function:
    """Let a function that calls kernels end in a KeyboardInterrupt when Ctrl-C is pressed."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except SystemError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from error
            raise

    return call  # type: ignore[return-value]
