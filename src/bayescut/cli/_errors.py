"""How commands fail: one clear line, an exit code, and a traceback only when asked for."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from bayescut._interrupts import late_interrupts
from bayescut.cli._silence import is_quiet, speaking
from bayescut.exceptions import BayescutError, ModelFileError

__all__ = ["CommandError", "UsageError", "close_name", "count", "guarded", "say"]

# Newer typer carries its own copy of click: the classes are found through what both export.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


#: Exit code after Ctrl-C, as of any program that a signal ends.
STOPPED = 130


class CommandError(BayescutError):
    """An error found by the command line itself."""


def say(text: str) -> None:
    """Tell something that the user should know, on standard error; nothing after ``--quiet``."""
    if not is_quiet():
        print(f"bayescut: {text}", file=sys.stderr)


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> from bayescut.cli._errors import count
    >>> count(1, "other column"), count(1200, "row")
    ('1 other column', '1,200 rows')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def close_name(name: str, names: Sequence[str]) -> str | None:
    """Return the one of some names that was probably meant, None if none is close.

    One is if it is equal but for case, blanks and the like, or if a quarter of its letters at most
    have to change; in names of three letters and less everything is close to everything.

    Examples
    --------
    >>> from bayescut.cli._errors import close_name
    >>> close_name("smokr", ["age", "smoker"]), close_name("xyz", ["ill", "yx"])
    ('smoker', None)
    """
    plain = {_plain(known): known for known in reversed(names)}
    if _plain(name) in plain:
        return plain[_plain(name)]
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum()) or name


def guarded(work: Callable[[], int | None], *, debug: bool) -> int:
    """Do the work of a command and turn what goes wrong into a line and an exit code.

    Parameters
    ----------
    work : callable
    debug : bool
        Whether to print tracebacks.

    Returns
    -------
    int
        0, or 2 for a command that was not understood, 1 for other errors, 130 after Ctrl-C.
    """
    try:
        with late_interrupts(), speaking(), _warnings_as_remarks():
            code = work()
        sys.stdout.flush()
        if code == STOPPED:  # newer typer turns the interrupt into this code
            print("bayescut: stopped", file=sys.stderr)
        return int(code or 0)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("bayescut: stopped", file=sys.stderr)
        return STOPPED
    except SystemExit as stop:  # how click ends when whoever read our output has gone
        return stop.code if isinstance(stop.code, int) else 1
    except BrokenPipeError:
        # The same, found when the last of the output is written. The interpreter must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed, as asked
            return 0
        if debug:
            traceback.print_exc()
        print(f"bayescut: error: {_describe(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


@contextmanager
def _warnings_as_remarks() -> Iterator[None]:
    """Tell warnings as remarks, without the line of the source that they come from."""

    def tell(message: Warning | str, category: type[Warning], *arguments: Any) -> None:
        if issubclass(category, (DeprecationWarning, PendingDeprecationWarning)):
            return  # of one package to another: nothing for those who use neither
        text = _one_line(message)
        for python, here in _OPTIONS:
            text = text.replace(python, here)
        say(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        yield


# What warnings advise in Python, and how it is said here.
_OPTIONS = (
    ("Leave them out,", "Leave them out with --ignore,"),
    ("pass identifiers='keep'", "learn with -l \"CutsetNetwork(identifiers='keep')\""),
)


def _describe(error: Exception) -> str:
    if isinstance(error, _ClickException):
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", "bayescut")
        return f"{_one_line(error.format_message())} See {path} --help."  # type: ignore[attr-defined]
    if isinstance(error, ModelFileError):
        return f"{_one_line(error)}. Save the model again, or learn it again with bayescut fit."
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"There is no file {os.fsdecode(error.filename)!r}: check the path."
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)!r} cannot be used: {error.strerror}."
    if isinstance(error, MemoryError):
        return "Out of memory: use fewer rows or columns."
    if isinstance(error, (BayescutError, ValueError, TypeError, OSError)):
        return _one_line(error)
    return (
        f"{type(error).__name__}: {_one_line(error)} (this should not happen; --debug shows where)"
    )


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
