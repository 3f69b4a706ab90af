"""The real files, where this machine has them beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bayescut.datasets import DEBD_NAMES, Dataset, fetch_binary_mnist, fetch_debd
from bayescut.datasets._local import checkout_folder
from bayescut.datasets._manifest import MANIFEST, SPLITS

SHARED = checkout_folder()
needs_shared = pytest.mark.skipif(SHARED is None, reason="no ../shared/data beside the checkout")


@pytest.fixture(autouse=True)
def _only_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BAYESCUT_DATA", raising=False)
    monkeypatch.setenv("BAYESCUT_CACHE", str(tmp_path))


def _assert_as_in_manifest(data: Dataset) -> None:
    for split in SPLITS:
        table, record = getattr(data, split), MANIFEST[data.name, split]
        assert table.shape == (record.rows, record.variables)
        assert table.dtype == np.uint8
        assert table.flags.c_contiguous
        assert table.flags.writeable
        assert table.max() == 1


def test_manifest_names_twenty_sets_and_mnist() -> None:
    assert len(DEBD_NAMES) == len(set(DEBD_NAMES)) == 20
    assert len(MANIFEST) == 63
    assert all(len(record.sha256) == 64 for record in MANIFEST.values())


@needs_shared
def test_manifest_agrees_with_the_shared_one() -> None:
    assert SHARED is not None
    with (SHARED / "MANIFEST.csv").open(newline="") as lines:
        shared = {(row["dataset"], row["split"]): row for row in csv.DictReader(lines)}
    assert shared.keys() == MANIFEST.keys()
    for key, record in MANIFEST.items():
        row = shared[key]
        assert (str(record.rows), str(record.variables)) == (row["rows"], row["variables"])
        assert record.sha256 == row["sha256"]


@needs_shared
@pytest.mark.parametrize("name", DEBD_NAMES)
def test_benchmark_set(name: str) -> None:
    data = fetch_debd(name, download=False)
    assert data.name == name
    _assert_as_in_manifest(data)


@needs_shared
def test_binary_mnist() -> None:
    data = fetch_binary_mnist(download=False)
    assert data.name == "binarized_mnist"
    _assert_as_in_manifest(data)


@needs_shared
def test_values_are_those_of_the_text() -> None:
    import gzip

    assert SHARED is not None
    with gzip.open(SHARED / "debd" / "nltcs.test.data.gz", "rt") as lines:
        naive = [[int(cell) for cell in line.split(",")] for line in lines]
    np.testing.assert_array_equal(fetch_debd("nltcs", download=False).test, naive)
