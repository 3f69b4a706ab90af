"""The real files, where this machine has them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.published import at_hand

from bayescut.datasets import DEBD_NAMES, Dataset, _local
from bayescut.datasets._manifest import MANIFEST, MNIST_NAME, SPLITS
from bayescut.exceptions import DatasetError


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


def test_manifest_agrees_with_the_one_beside_the_files() -> None:
    at_hand("nltcs")
    path = next(
        (f / "MANIFEST.csv" for f in _local.folders() if (f / "MANIFEST.csv").is_file()), None
    )
    if path is None:
        pytest.skip("the folder of the data sets has no MANIFEST.csv")
    with path.open(newline="") as lines:
        beside = {(row["dataset"], row["split"]): row for row in csv.DictReader(lines)}
    assert beside.keys() == MANIFEST.keys()
    for key, record in MANIFEST.items():
        row = beside[key]
        assert (str(record.rows), str(record.variables)) == (row["rows"], row["variables"])
        assert record.sha256 == row["sha256"]


@pytest.mark.parametrize("name", DEBD_NAMES)
def test_benchmark_set(name: str) -> None:
    data = at_hand(name)
    assert data.name == name
    _assert_as_in_manifest(data)


def test_binary_mnist() -> None:
    data = at_hand(MNIST_NAME)
    assert data.name == "binarized_mnist"
    _assert_as_in_manifest(data)


def test_values_are_those_of_the_text() -> None:
    data = at_hand("nltcs")
    record = MANIFEST["nltcs", "test"]
    path = next(p for f in _local.folders() if (p := _local.find_file(f, record)))
    naive = [[int(cell) for cell in line.split(b",")] for line in _local.read_file(path).split()]
    np.testing.assert_array_equal(data.test, naive)


def test_missing_files_are_no_silent_skip_in_ci(
    monkeypatch: pytest.MonkeyPatch, bare_machine: Path
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"nltcs\.train\.data is not in"):
        at_hand("nltcs")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="set BAYESCUT_DATA"):
        at_hand("nltcs")
    bare_machine.mkdir()
    for split in SPLITS:
        (bare_machine / f"nltcs.{split}.data").write_text("0,1\n")
    monkeypatch.delenv("CI")
    with pytest.raises(DatasetError, match="is not the published"):
        at_hand("nltcs")
