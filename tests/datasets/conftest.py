"""A tiny published data set, a server that publishes it, and a machine that has nothing yet."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from bayescut.datasets import _download
from bayescut.datasets._manifest import MANIFEST, SPLITS, FileRecord

# It stands in for the real set of this name.
NAME = "nltcs"
_ROWS = {"train": 5, "valid": 2, "test": 3}
_VARIABLES = 4


class Publication:
    """The tables of the tiny set and the bytes they are published as."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.tables = {
            split: rng.integers(0, 2, (_ROWS[split], _VARIABLES), dtype=np.uint8)
            for split in SPLITS
        }
        self.content = {
            split: "".join(",".join(map(str, row)) + "\n" for row in table).encode()
            for split, table in self.tables.items()
        }
        self.records = {
            split: FileRecord(
                NAME, split, *table.shape, hashlib.sha256(self.content[split]).hexdigest()
            )
            for split, table in self.tables.items()
        }

    def write(self, folder: Path, *, gzipped: bool) -> None:
        """Put the three files into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for split, record in self.records.items():
            content = self.content[split]
            name = record.filename + (".gz" if gzipped else "")
            (folder / name).write_bytes(gzip.compress(content) if gzipped else content)


class Server:
    """Answers with the published files, or as the test says.

    ``script[filename]`` holds the coming answers of a file, one word each; when it is empty, the
    answer is the file. ``requests`` lists the paths asked for.
    """

    def __init__(self, publication: Publication) -> None:
        self.files = {
            f"/{NAME}/{record.filename}": publication.content[split]
            for split, record in publication.records.items()
        }
        self.script: dict[str, list[str]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                content = server.files.get(self.path)
                answers = server.script.get(self.path.rsplit("/", 1)[-1], [])
                answer = answers.pop(0) if answers else "whole"
                if content is None:
                    self.send_error(404)
                elif answer.isdigit():
                    self.send_error(int(answer))
                else:
                    self._send(content, answer)

            def _send(self, content: bytes, answer: str) -> None:
                self.send_response(200)
                body = content
                if answer == "corrupted":
                    body = bytes([content[0] ^ 1]) + content[1:]
                elif answer == "longer":
                    body = content * 3
                elif "gzipped" in answer:
                    self.send_header("Content-Encoding", "gzip")
                    body = gzip.compress(content)
                if answer == "damaged gzipped":
                    body = body[:10] + b"\xff" * (len(body) - 10)
                # Without a length the client cannot know from the headers where the body ends.
                if answer != "truncated without length":
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if "truncated" in answer else body)

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No folder of data anywhere, an empty cache, no waiting between attempts; gives the cache."""
    for variable in ("BAYESCUT_DATA", "BAYESCUT_BASE_URL", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("BAYESCUT_CACHE", str(cache))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(_download, "BACKOFF_S", 0.0)
    monkeypatch.setattr(_download, "TIMEOUT_S", 5.0)
    return cache


@pytest.fixture
def publication(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> Publication:
    """Make the tiny set the published one."""
    tiny = Publication()
    for split, record in tiny.records.items():
        monkeypatch.setitem(MANIFEST, (NAME, split), record)
    return tiny


@pytest.fixture
def server(publication: Publication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Publish the tiny set on a local port."""
    with Server(publication) as running:
        monkeypatch.setenv("BAYESCUT_BASE_URL", running.url)
        yield running
