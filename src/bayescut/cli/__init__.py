"""The command line: ``bayescut --help``. Needs typer and rich: ``pip install 'bayescut[cli]'``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

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
    except KeyboardInterrupt:  # while the library is being imported
        print("bayescut: stopped", file=sys.stderr)
        code = 130
    if arguments is None:
        # All is done and said. While Python takes itself down, a Ctrl-C would be an error of its
        # own.
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _main(words: list[str]) -> int:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(
            f"bayescut: error: the command line needs {error.name or 'typer and rich'}: "
            "pip install 'bayescut[cli]'",
            file=sys.stderr,
        )
        return 1
    from bayescut.cli._app import run

    return run(words)
