from __future__ import annotations

import hashlib

import numpy as np
from sklearn.datasets import load_digits

from bayescut.datasets import load_binary_digits


def test_shapes_and_types() -> None:
    data = load_binary_digits()
    assert data.name == "binary_digits"
    assert [len(data.train), len(data.valid), len(data.test)] == [1078, 270, 449]
    for table in (data.train, data.valid, data.test):
        assert table.shape[1] == 64
        assert table.dtype == np.uint8
        assert table.flags.c_contiguous
        assert table.flags.owndata
        assert set(np.unique(table)) == {0, 1}


def test_parts_make_up_the_whole() -> None:
    data = load_binary_digits()
    whole = (load_digits().data > 7).astype(np.uint8)
    parts = np.concatenate([data.train, data.valid, data.test])
    np.testing.assert_array_equal(
        np.sort(parts.view("V64"), axis=0), np.sort(whole.view("V64"), axis=0)
    )


def test_split_never_changes() -> None:
    # Published numbers stand on these rows: a new NumPy must not reshuffle them unnoticed.
    data = load_binary_digits()
    found = [
        hashlib.sha256(part.tobytes()).hexdigest()[:16]
        for part in (data.train, data.valid, data.test)
    ]
    assert found == ["65292f19cbd214c7", "33e7d7cd604caa38", "880f9f8af5569a9c"]
