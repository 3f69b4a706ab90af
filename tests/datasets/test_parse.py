from __future__ import annotations

import numpy as np
import pytest

from bayescut.datasets._manifest import FileRecord
from bayescut.datasets._parse import check, parse
from bayescut.exceptions import DatasetError


def _record(rows: int, variables: int) -> FileRecord:
    return FileRecord("tiny", "valid", rows, variables, "0" * 64)


@pytest.mark.parametrize("separator", [",", " "])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (7, 3)])
def test_reads_what_was_written(separator: str, shape: tuple[int, int]) -> None:
    table = np.random.default_rng(1).integers(0, 2, shape, dtype=np.uint8)
    text = "".join(separator.join(map(str, row)) + "\n" for row in table)
    found = parse(text.encode(), _record(*shape))
    np.testing.assert_array_equal(found, table)
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous
    assert found.flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0,1\n", "expected 2 rows of 2 variables .* found 1 rows of 2 variables"),
        (b"0,1,1\n1,0,0\n", "found 2 rows of 3 variables"),
        (b"", "found 0 rows of 0 variables"),
        (b"0,1\n1,2\n", "row 1, column 1 reads b'2"),
        (b"0,1\n/,1\n", "row 1, column 0 reads b'/,'"),
        (b"0,1\n1 1\n", "row 1, column 0 reads b'1 '"),
        (b"0,1,1,0\n", "row 0, column 1 reads b'1,'"),
        (b"0;1\n1;1\n", "not separated by commas or blanks"),
    ],
)
def test_refuses_what_is_no_such_table(content: bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        parse(content, _record(2, 2))
    assert "tiny.valid.data" in str(caught.value)


def test_checksum_names_file_expected_and_found() -> None:
    with pytest.raises(DatasetError) as caught:
        check(b"0\n", _record(1, 1), "somewhere", "Do this.")
    message = str(caught.value)
    for part in ("somewhere", "tiny.valid.data", "0" * 64, "(2 bytes)", "Do this."):
        assert part in message
    # sha256 of b"0\n"
    assert "9a271f2a916b0b6ee6cecb2426f0b3206ef074578be55d9bc94f6f3fe3ab86aa" in message
