"""Files written beside their place and moved there when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

__all__ = ["atomic_writer", "check_folder"]


def check_folder(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
    """Raise FileNotFoundError unless the folder of a file to be written exists."""
    folder = os.path.dirname(os.path.realpath(os.fsdecode(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", folder)


@contextmanager
def atomic_writer(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes], mode: str = "w", **options: Any
) -> Iterator[IO[Any]]:
    """Open a file for writing that takes its place when the block ends without an error.

    A failure, an interrupt, a full disk or a power cut leaves the old file as it was and nothing
    beside it. Links are followed: the file they point to is replaced. A pipe or a device cannot be
    replaced and is written to directly.

    Parameters
    ----------
    path : path-like
        Where the file is to be.
    mode : {"w", "wb"}
        Text or bytes.
    **options
        Of the built-in ``open``: encoding, newline.

    Yields
    ------
    file object

    Examples
    --------
    >>> import os, tempfile
    >>> from bayescut._atomic import atomic_writer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.txt")
    ...     with atomic_writer(path) as stream:
    ...         _ = stream.write("whole")
    ...         os.path.exists(path)
    ...     os.listdir(folder)
    False
    ['a.txt']
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"mode must be 'w' or 'wb', got {mode!r}")
    target = os.path.realpath(os.fsdecode(path))
    permissions = None
    with suppress(FileNotFoundError):
        permissions = os.stat(target).st_mode
    if permissions is not None and not stat.S_ISREG(permissions):
        with open(target, mode, **options) as stream:  # a folder is refused here
            yield stream
        return
    check_folder(target)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, mode.replace("w", "x"), **options) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if permissions is not None:
            os.chmod(temporary, stat.S_IMODE(permissions))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    # Makes the new name durable; folders cannot be opened everywhere, and need not be.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
