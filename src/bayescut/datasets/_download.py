"""One published file over HTTPS, whole or not at all."""

from __future__ import annotations

import gzip
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from pathlib import Path

from bayescut._atomic import write_bytes
from bayescut._progress import progress
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


def _receive(url: str, record: FileRecord, verbose: int) -> bytes:
    # Compressed on the way, Binary MNIST is 3 MB instead of 110 MB.
    request = urllib.request.Request(
        url, headers={"Accept-Encoding": "gzip", "User-Agent": "bayescut"}
    )
    content = bytearray()
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_S) as response,
        progress(record.filename, record.n_bytes, verbose) as advance,
    ):
        gzipped = response.headers.get("Content-Encoding", "").lower() == "gzip"
        inflate = zlib.decompressobj(wbits=31).decompress if gzipped else None
        while chunk := response.read(_CHUNK):
            plain = inflate(chunk) if inflate else chunk
            content += plain
            advance(len(plain))
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
    except ValueError as error:  # http.client.InvalidURL is one too
        raise DatasetError(
            f"{url!r} is no address: set BAYESCUT_BASE_URL to one like https://host/path."
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
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(destination, gzip.compress(content, compresslevel=6, mtime=0))
    except OSError as error:
        raise DatasetError(
            f"Cannot keep {destination.name} in the cache: {error}. "
            "Set BAYESCUT_CACHE to a folder that can be written."
        ) from error
