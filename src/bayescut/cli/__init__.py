"""The command line: ``bayescut --help``. Needs typer and rich: ``pip install 'bayescut[cli]'``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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
        return _main(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while the library is being imported
        print("bayescut: stopped", file=sys.stderr)
        return 130


def _main(words: list[str]) -> int:
    if words == ["--version"]:
        from bayescut import __version__

        print(f"bayescut {__version__}")
        return 0
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
