"""Files that are either complete or as they were: written beside their place, then moved."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

__all__ = ["check_folder", "sync_folder", "write_bytes", "write_text", "writing"]

PathLike = str | bytes | os.PathLike[Any]


def check_folder(path: PathLike) -> None:
    """Raise FileNotFoundError unless the folder of a file to be written exists."""
    folder = os.path.dirname(os.path.realpath(os.fsdecode(path)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", folder)


@contextmanager
def writing(path: PathLike, mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """Open a file for writing that takes its place only when the block has ended well.

    After an error, an interrupt or a kill the file is what it was before. A file that is replaced
    keeps its permissions; links are followed. Pipes and devices cannot be replaced and are written
    to directly.

    Parameters
    ----------
    path : path-like
        The file; its folder has to exist.
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
    >>> from bayescut._atomic import writing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.csv")
    ...     with writing(path) as stream:
    ...         _ = stream.write(b"a,b")
    ...         before = os.path.exists(path)
    ...     before, os.path.exists(path)
    (False, True)
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"mode must be 'w' or 'wb', got {mode!r}")
    # Through links: the file they point to is replaced, not the link.
    target = os.path.realpath(os.fsdecode(path))
    permissions = None
    with suppress(FileNotFoundError):
        permissions = os.stat(target).st_mode
    if permissions is not None and not stat.S_ISREG(permissions):
        with open(target, mode, **options) as stream:  # a directory is refused here
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
    sync_folder(folder)


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write a whole file; see `writing`."""
    with writing(path) as stream:
        stream.write(data)


def write_text(path: PathLike, text: str) -> None:
    """Write a whole file of text as UTF-8, line ends as they are; see `writing`."""
    write_bytes(path, text.encode("utf-8"))


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the new name of a file last; folders cannot be opened everywhere, and need not be."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
