"""The command line: ``bayescut --help``. Needs typer and rich: ``pip install 'bayescut[cli]'``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those the program was started with.

    Returns
    -------
    int
        0 if all went well, 1 after an error, 2 if the command was not understood, 130 after Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:  # answered without the extra, too
        from bayescut import __version__

        print(f"bayescut {__version__}")
        return 0
    try:
        code = _main(words)
    except KeyboardInterrupt:  # before or after the work
        print("bayescut: stopped", file=sys.stderr)
        code = 130
    if arguments is None:
        # All is done and said. While Python takes itself down, a Ctrl-C would be an error of its
        # own.
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: what is being imported would print it as an error of its own."""
    seen: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if seen and before is not signal.SIG_IGN:
        raise KeyboardInterrupt


def _main(words: list[str]) -> int:
    try:
        with _uninterrupted():
            import rich  # noqa: F401
            import typer  # noqa: F401
    except ImportError as error:
        print(
            f"bayescut: error: the command line needs {error.name or 'typer and rich'}: "
            "pip install 'bayescut[cli]'",
            file=sys.stderr,
        )
        return 1
    with _uninterrupted():
        from bayescut.cli._app import run

        if words and not words[0].startswith("-") and "--help" not in words:
            # What commands import when they begin to work: half done, it is a strange error.
            import bayescut.estimators._ensemble  # noqa: F401

            with suppress(ImportError):
                import pandas  # noqa: F401
    return run(words)
