"""The way over the network, against a server that answers well and badly."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bayescut.datasets import Dataset, _download, fetch_debd
from bayescut.datasets._manifest import MANIFEST, SPLITS
from bayescut.exceptions import DatasetError

from .conftest import NAME, Publication, Server

FIRST = f"{NAME}.train.data"


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def _assert_complete(data: Dataset, publication: Publication) -> None:
    for split in SPLITS:
        np.testing.assert_array_equal(getattr(data, split), publication.tables[split])


def test_downloads_once_then_reads_the_cache(
    server: Server, publication: Publication, bare_machine: Path
) -> None:
    _assert_complete(fetch_debd(NAME), publication)
    assert server.requests == [f"/{NAME}/{NAME}.{split}.data" for split in SPLITS]
    assert _files(bare_machine) == sorted(f"{NAME}.{split}.data.gz" for split in SPLITS)
    _assert_complete(fetch_debd(NAME), publication)
    _assert_complete(fetch_debd(NAME, download=False), publication)
    assert len(server.requests) == 3


def test_cache_dir_receives_the_files(
    server: Server, publication: Publication, bare_machine: Path, tmp_path: Path
) -> None:
    _assert_complete(fetch_debd(NAME, cache_dir=tmp_path / "own"), publication)
    assert len(_files(tmp_path / "own")) == 3
    assert not bare_machine.exists()


def test_compressed_answer(server: Server, publication: Publication) -> None:
    server.script[FIRST] = ["gzipped"]
    _assert_complete(fetch_debd(NAME), publication)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "failure",
    [
        "500",
        "503",
        "429",
        "truncated",
        "truncated without length",
        "truncated gzipped",
        "damaged gzipped",
    ],
)
def test_passing_failures_are_tried_again(
    failure: str, server: Server, publication: Publication, bare_machine: Path
) -> None:
    server.script[FIRST] = [failure, failure]
    _assert_complete(fetch_debd(NAME), publication)
    assert server.requests.count(f"/{NAME}/{FIRST}") == 3
    assert len(_files(bare_machine)) == 3


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("500", "the server answered 500"),
        ("truncated", "ended after 20 of 40 bytes"),
        ("truncated without length", "ended after 20 of 40 bytes"),
        ("damaged gzipped", "damaged"),
    ],
)
def test_lasting_failures_end_in_an_error(
    failure: str, message: str, server: Server, bare_machine: Path
) -> None:
    server.script[FIRST] = [failure] * 9
    with pytest.raises(DatasetError, match=message) as caught:
        fetch_debd(NAME)
    assert server.requests == [f"/{NAME}/{FIRST}"] * _download.ATTEMPTS
    assert f"{server.url}/{NAME}/{FIRST}" in str(caught.value)
    assert "BAYESCUT_DATA" in str(caught.value)
    assert _files(bare_machine) == []


@pytest.mark.parametrize("failure", ["corrupted", "longer"])
def test_wrong_content_is_refused_at_once(
    failure: str, server: Server, publication: Publication, bare_machine: Path
) -> None:
    server.script[FIRST] = [failure]
    with pytest.raises(DatasetError, match="is not the published") as caught:
        fetch_debd(NAME)
    assert publication.records["train"].sha256 in str(caught.value)
    assert len(server.requests) == 1
    assert _files(bare_machine) == []


def test_not_found_is_refused_at_once(server: Server, bare_machine: Path) -> None:
    server.files.clear()
    with pytest.raises(DatasetError, match="answered 404 Not Found") as caught:
        fetch_debd(NAME)
    assert FIRST in str(caught.value)
    assert len(server.requests) == 1
    assert _files(bare_machine) == []


def test_offline(publication: Publication, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("BAYESCUT_BASE_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(DatasetError, match="no connection") as caught:
        fetch_debd(NAME)
    for part in (FIRST, "3 attempts", "BAYESCUT_DATA", "load_binary_digits"):
        assert part in str(caught.value)


def test_waits_longer_before_each_attempt(
    server: Server, publication: Publication, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setattr(_download, "BACKOFF_S", 1.5)
    server.script[FIRST] = ["503", "503"]
    fetch_debd(NAME)
    assert waits == [1.5, 3.0]


def test_later_files_missing_keep_the_earlier_ones(
    server: Server, publication: Publication, bare_machine: Path
) -> None:
    server.script[f"{NAME}.test.data"] = ["404"]
    with pytest.raises(DatasetError, match="404"):
        fetch_debd(NAME)
    assert _files(bare_machine) == sorted([f"{FIRST}.gz", f"{NAME}.valid.data.gz"])
    _assert_complete(fetch_debd(NAME), publication)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_interrupted_write_leaves_nothing(
    error: BaseException, server: Server, bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        assert len(_files(bare_machine)) == 1  # the partial file
        raise error

    monkeypatch.setattr(os, "replace", fail)
    expected = DatasetError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        fetch_debd(NAME)
    assert _files(bare_machine) == []


def test_cache_that_cannot_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("BAYESCUT_CACHE", str(blocker / "cache"))
    with pytest.raises(DatasetError, match="BAYESCUT_CACHE"):
        fetch_debd(NAME)


def test_quiet_unless_asked(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    fetch_debd(NAME)
    assert capfd.readouterr() == ("", "")


def test_progress_bar(
    server: Server, publication: Publication, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    _assert_complete(fetch_debd(NAME, verbose=1), publication)
    out, err = capfd.readouterr()
    assert out == ""
    assert FIRST in err


def test_no_progress_bar_without_rich(
    server: Server,
    publication: Publication,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    _assert_complete(fetch_debd(NAME, verbose=1), publication)
    assert capfd.readouterr() == ("", "")


def test_public_address(bare_machine: Path) -> None:
    assert _download.url_of(MANIFEST["ad", "test"]) == (
        "https://raw.githubusercontent.com/UCLA-StarAI/Density-Estimation-Datasets/"
        "37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets/ad/ad.test.data"
    )


@pytest.mark.parametrize(
    "address", ["not a url", "mirror/data", "ftp//x", "http://", "http://[::1", "file:///x", "/x"]
)
def test_an_address_that_is_none(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("BAYESCUT_BASE_URL", address)
    with pytest.raises(DatasetError, match=r"BAYESCUT_BASE_URL is set to .* no address"):
        fetch_debd(NAME)
