"""One published file over HTTPS, whole or not at all."""

from __future__ import annotations

import gzip
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bayescut.datasets._manifest import FileRecord
from bayescut.datasets._parse import check
from bayescut.exceptions import DatasetError

__all__ = ["BASE_URL", "download", "store", "url_of"]

_REPOSITORY = "UCLA-StarAI/Density-Estimation-Datasets"
_COMMIT = "37d53c1a8ba488d0a39e8c64bd3387577080b143"
#: Where the files are published; the environment variable ``BAYESCUT_BASE_URL`` names a mirror.
BASE_URL = f"https://raw.githubusercontent.com/{_REPOSITORY}/{_COMMIT}/datasets"

ATTEMPTS = 3
BACKOFF_S = 1.0  # before the second attempt; doubles before each further one
TIMEOUT_S = 30.0  # without a single byte
_CHUNK = 1 << 16
_WORTH_RETRYING = frozenset({408, 425, 429})  # and every 5xx


class _Transient(Exception):
    """A failure that another attempt may not meet."""


def url_of(record: FileRecord) -> str:
    """Return the address a file is downloaded from."""
    base = os.environ.get("BAYESCUT_BASE_URL") or BASE_URL
    try:
        parts = urllib.parse.urlsplit(base)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        sound = False
    if not sound or any(letter.isspace() for letter in base):
        raise DatasetError(
            f"BAYESCUT_BASE_URL is set to {base!r}, which is no address of a mirror: one begins "
            "with https:// or http:// and a host."
        )
    return f"{base.rstrip('/')}/{record.dataset}/{record.filename}"


@contextmanager
def _progress(record: FileRecord, verbose: int) -> Iterator[Callable[[int], object]]:
    """Yield a function that is told how many bytes came in."""
    try:
        if verbose <= 0:
            raise ImportError
        from rich import progress
        from rich.console import Console
    except ImportError:  # quiet, or without the cli extra
        yield lambda n_bytes: None
        return
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(record.filename, total=record.n_bytes)
        yield lambda n_bytes: bar.update(task, completed=n_bytes)


def _receive(url: str, record: FileRecord, verbose: int) -> bytes:
    # Compressed on the way, Binary MNIST is 3 MB instead of 110 MB.
    request = urllib.request.Request(
        url, headers={"Accept-Encoding": "gzip", "User-Agent": "bayescut"}
    )
    content = bytearray()
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_S) as response,
        _progress(record, verbose) as advance,
    ):
        gzipped = response.headers.get("Content-Encoding", "").lower() == "gzip"
        inflate = zlib.decompressobj(wbits=31).decompress if gzipped else None
        while chunk := response.read(_CHUNK):
            content += inflate(chunk) if inflate else chunk
            advance(len(content))
            # Not the file (a login page, a wrong mirror): the checksum will say so, without
            # reading on for as long as the server likes.
            if len(content) > record.n_bytes:
                break
    # The size is known from the manifest, so a cut connection shows even where the server
    # announced no length; http.client does not report a short read by itself.
    if len(content) < record.n_bytes:
        raise _Transient(f"the answer ended after {len(content)} of {record.n_bytes} bytes")
    return bytes(content)


def _attempt(url: str, record: FileRecord, verbose: int) -> bytes:
    """Receive once, telling failures that may pass from those that will not."""
    try:
        return _receive(url, record, verbose)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection open
            if error.code >= 500 or error.code in _WORTH_RETRYING:
                raise _Transient(f"the server answered {error.code} {error.reason}") from error
            raise DatasetError(
                f"Cannot download {record.filename}: {url} answered {error.code} {error.reason}."
            ) from error
    except urllib.error.URLError as error:
        raise _Transient(f"no connection: {error.reason}") from error
    except zlib.error as error:
        raise _Transient(f"the compressed answer is damaged: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _Transient(f"{type(error).__name__}: {error}") from error


def download(record: FileRecord, *, verbose: int = 0) -> bytes:
    """Download a published file and check it.

    Parameters
    ----------
    record : FileRecord
        The file.
    verbose : int, default=0
        Above 0, shows a progress bar on standard error if rich is installed.

    Returns
    -------
    bytes
        Its plain content, whose sha256 is that of the manifest.

    Raises
    ------
    DatasetError
        If it cannot be had after three attempts, or is not the published file.
    """
    url = url_of(record)
    failure: _Transient | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(BACKOFF_S * 2 ** (attempt - 1))
        try:
            content = _attempt(url, record, verbose)
        except _Transient as error:
            failure = error
            continue
        check(content, record, url, "Nothing was kept; try again or use another mirror.")
        return content
    raise DatasetError(
        f"Cannot download {record.filename} from {url} ({ATTEMPTS} attempts; the last: {failure}). "
        f"Without a network, put {record.filename} or {record.filename}.gz into a folder and set "
        "the environment variable BAYESCUT_DATA to it; load_binary_digits() needs no download."
    ) from failure


def store(content: bytes, destination: Path) -> None:
    """Write gzipped content to a file that is either complete or absent.

    Parameters
    ----------
    content : bytes
        Plain content.
    destination : Path
        The file; its folder is made when it does not exist.

    Raises
    ------
    DatasetError
        If it cannot be written.
    """
    # A name of its own for every writer: two processes may fetch the same file at once.
    partial = destination.with_name(f".{destination.name}.{uuid.uuid4().hex}.part")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(gzip.compress(content, compresslevel=6, mtime=0))
            os.replace(partial, destination)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise DatasetError(
            f"Cannot keep {destination.name} in the cache: {error}. "
            "Set BAYESCUT_CACHE to a folder that can be written."
        ) from error
