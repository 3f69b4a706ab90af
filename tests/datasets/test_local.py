"""Files that already lie on the machine: where they are looked for, and that they are checked."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from bayescut.datasets import _download, _local, fetch_debd
from bayescut.datasets._manifest import SPLITS
from bayescut.exceptions import DatasetError

from .conftest import NAME, Publication


def _assert_loads(publication: Publication, **options: object) -> None:
    data = fetch_debd(NAME, download=False, **options)  # type: ignore[arg-type]
    for split in SPLITS:
        np.testing.assert_array_equal(getattr(data, split), publication.tables[split])


@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("layout", ["debd", ".", NAME, f"datasets/{NAME}"])
def test_layouts(
    layout: str,
    gzipped: bool,
    publication: Publication,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publication.write(tmp_path / "data" / layout, gzipped=gzipped)
    monkeypatch.setenv("BAYESCUT_DATA", str(tmp_path / "data"))
    _assert_loads(publication)


def test_order_of_places(
    publication: Publication, bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "named", bare_machine]
    monkeypatch.setenv("BAYESCUT_DATA", str(places[0]))
    for place in places:
        publication.write(place, gzipped=False)
    # Each damaged place is the one that answers, until it no longer has the file.
    for place in places:
        damaged = place / f"{NAME}.train.data"
        damaged.write_bytes(b"nonsense")
        with pytest.raises(DatasetError) as caught:
            fetch_debd(NAME, download=False)
        assert str(damaged) in str(caught.value)
        damaged.unlink()
    with pytest.raises(DatasetError, match="download=False") as caught:
        fetch_debd(NAME, download=False)
    assert all(str(place) in str(caught.value) for place in places)


def test_no_other_place_is_looked_in(bare_machine: Path, tmp_path: Path) -> None:
    # The package knows nothing of folders beside a checkout: the Makefile names them.
    assert _local.folders() == [bare_machine]
    assert _local.folders(tmp_path) == [tmp_path]


def test_cache_dir_takes_the_place_of_the_cache(publication: Publication, tmp_path: Path) -> None:
    publication.write(tmp_path / "own" / "debd", gzipped=True)
    with pytest.raises(DatasetError, match="download=False"):
        fetch_debd(NAME, download=False)
    _assert_loads(publication, cache_dir=tmp_path / "own")
    _assert_loads(publication, cache_dir=str(tmp_path / "own"))


def test_named_folder_must_exist(
    publication: Publication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESCUT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=r"BAYESCUT_DATA.*not a folder"):
        fetch_debd(NAME, download=False)


def test_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("BAYESCUT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert _local.cache_folder() == tmp_path / ".cache" / "bayescut"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _local.cache_folder() == tmp_path / "xdg" / "bayescut"
    monkeypatch.setenv("BAYESCUT_CACHE", str(tmp_path / "own"))
    assert _local.cache_folder() == tmp_path / "own"
    assert _local.cache_folder("given") == Path("given")


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"0,1\n" * 500)[:-20], b""])
def test_damaged_compression(content: bytes, publication: Publication, bare_machine: Path) -> None:
    bare_machine.mkdir()
    (bare_machine / f"{NAME}.train.data.gz").write_bytes(content)
    with pytest.raises(DatasetError, match=rf"{NAME}\.train\.data"):
        fetch_debd(NAME, download=False)


def test_mismatch_is_never_replaced_silently(
    publication: Publication, bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication.write(bare_machine, gzipped=False)
    wrong = bare_machine / f"{NAME}.valid.data"
    wrong.write_bytes(publication.content["valid"][::-1])

    def no_download(*args: object, **options: object) -> bytes:
        raise AssertionError("a damaged file must be reported")

    monkeypatch.setattr(_download, "download", no_download)
    with pytest.raises(DatasetError, match="is not the published") as caught:
        fetch_debd(NAME)
    assert publication.records["valid"].sha256 in str(caught.value)
    assert str(wrong) in str(caught.value)
