"""Where files may already lie on this machine."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from bayescut.datasets._manifest import FileRecord
from bayescut.exceptions import DatasetError

__all__ = ["cache_folder", "data_folder", "find_file", "folders", "read_file"]


def data_folder() -> Path | None:
    """Return the folder named by ``BAYESCUT_DATA``, or None when it is not set.

    Raises
    ------
    DatasetError
        If the variable names something that is not a folder.
    """
    value = os.environ.get("BAYESCUT_DATA")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"BAYESCUT_DATA is set to {value!r}, which is not a folder.")
    return folder


def folders(cache_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders a file is looked for in, in this order: the named one, the cache."""
    named = data_folder()
    cache = cache_folder(cache_dir)
    return [cache] if named is None else [named, cache]


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder downloads are kept in; it need not exist yet.

    Parameters
    ----------
    cache_dir : path-like, optional
        Taken as it is. Otherwise ``BAYESCUT_CACHE``, ``$XDG_CACHE_HOME/bayescut`` or
        ``~/.cache/bayescut``, the first that is set.
    """
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    if own := os.environ.get("BAYESCUT_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "bayescut"
    try:
        return Path.home() / ".cache" / "bayescut"
    except RuntimeError as error:
        raise DatasetError(
            "No home folder to keep downloads in; set BAYESCUT_CACHE to a folder."
        ) from error


def _candidates(folder: Path, record: FileRecord) -> Iterator[Path]:
    # The last two are the layouts of the public repository, for those who cloned it.
    layouts = (record.folder, ".", record.dataset, f"datasets/{record.dataset}")
    for layout in layouts:
        for suffix in (".gz", ""):
            yield folder / layout / (record.filename + suffix)


def find_file(folder: Path, record: FileRecord) -> Path | None:
    """Return the file in a folder that should hold a record: plain or gzipped, nested or flat."""
    return next((path for path in _candidates(folder, record) if path.is_file()), None)


def read_file(path: Path) -> bytes:
    """Return the plain content of a file that may be gzipped.

    Raises
    ------
    DatasetError
        If it cannot be read or its compression is damaged.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read: {error}. Delete or replace it.") from error
