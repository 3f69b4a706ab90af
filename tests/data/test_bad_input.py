"""Every table that cannot be used, one by one: the error names the offender and says what to do."""

import numpy as np
import pytest
from scipy import sparse

from bayescut.data import Domains, encode, learn_domains
from bayescut.exceptions import BayescutError, DataError

# Cells that no array may hold: table, error, message.
CELLS = {
    "negative": ([[0, 1], [1, -2]], DataError, r"Negative values in data: -2 in row 1, column 1"),
    "negative float": ([[0.0, -1.0]], DataError, r"Negative values in data: -1\.0 in row 0, col"),
    "negative int8": (
        np.array([[0], [-1]], dtype=np.int8),
        DataError,
        "Negative values in data: -1 in row 1, column 0",
    ),
    "negative and fractional": ([[0.5, -1.5]], DataError, r"Negative values .* -1\.5 in row 0"),
    "infinite": ([[0, 1], [np.inf, 0]], DataError, "Non-finite value inf in row 1, column 0"),
    "minus infinite": ([[0, -np.inf]], DataError, "Non-finite value -inf in row 0, column 1"),
    "fractional": ([[0, 1], [0, 0.5]], DataError, r"0\.5 in row 1, column 1 is not a whole.*bin"),
    "float32": (
        np.array([[0.25]], dtype=np.float32),
        DataError,
        r"0\.25 in row 0, column 0 is not a whole number",
    ),
    "text in a list": ([[0, 1], [0, "a"]], DataError, "Text 'a' in row 1, column 1.*DataFrame"),
    "text in objects": (
        np.array([[0, 1], [0, "a"]], dtype=object),
        DataError,
        "Text 'a' in row 1, column 1.*DataFrame",
    ),
    "text array": (np.array([["0", "1"]]), DataError, "Text '0' in row 0, column 0"),
    "bytes": (np.array([[b"0"]]), DataError, "Text b'0' in row 0, column 0"),
    "digits as text": (np.array([[0, "1"]], dtype=object), DataError, "Text '1' in row 0, col"),
    "dict": (
        np.array([[{"foo": "bar"}, 0]], dtype=object),
        TypeError,
        "argument must be a string or a number, not 'dict': row 0, column 0",
    ),
    "complex array": (np.array([[1j]]), DataError, "Complex data not supported"),
    "complex cell": (
        np.array([[0, 1j]], dtype=object),
        DataError,
        "Complex data not supported: 1j in row 0, column 1",
    ),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), DataError, "dtype datetime64"),
    "vectors": ([0, 1, 1], DataError, r"Expected 2D array, got 1D array.*Reshape your data"),
    "scalar": (3, DataError, "Expected 2D array, got scalar array"),
    "none": (None, DataError, "Expected 2D array or DataFrame, got None instead"),
    "path": ("table.csv", DataError, r"got the str 'table.csv' instead. Read files with pandas"),
    "mapping": ({"a": [0, 1]}, DataError, r"got the dict .* pandas.DataFrame\(...\) turns"),
    "cube": (np.zeros((2, 2, 2)), DataError, "Expected 2D array, got 3D array"),
    "ragged": ([[0, 1], [0, 1], [0]], DataError, "row 0 has 2 values, row 2 has 1"),
    "no rows": (
        np.zeros((0, 3)),
        DataError,
        r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required\.",
    ),
    "no columns": (
        np.zeros((3, 0)),
        DataError,
        r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required\.",
    ),
    "empty list": ([], DataError, "Expected 2D array, got 1D"),
    "sparse matrix": (
        sparse.csr_matrix([[0, 1]]),
        TypeError,
        r"Sparse data was passed for X, but dense data is required\. Use '.toarray\(\)'",
    ),
    "sparse array": (sparse.coo_array([[0, 1]]), TypeError, "Sparse data was passed"),
}


@pytest.mark.parametrize("case", CELLS)
def test_learning_refuses(case):
    X, error, message = CELLS[case]
    with pytest.raises(error, match=message):
        learn_domains(X)


@pytest.mark.parametrize("case", CELLS)
def test_encoding_refuses(case):
    X, error, message = CELLS[case]
    width = np.shape(X)[-1] if not sparse.issparse(X) and case != "ragged" and np.ndim(X) else 2
    for unseen in ("error", "missing"):
        with pytest.raises(error, match=message):
            encode(X, Domains.binary(max(width, 1)), allow_missing=True, unseen=unseen)


@pytest.mark.parametrize("dtype", ["int64", "uint16", "uint64", "float64", "object"])
def test_too_many_states(dtype):
    X = np.array([[0, 1], [0, 65534]]).astype(dtype)
    with pytest.raises(
        DataError, match=r"65534.* in row 1, column 1 .*more than 65534 states.*bin"
    ):
        learn_domains(X)


def test_far_too_large_numbers():
    for X in (np.array([[2**64 - 1]], dtype=np.uint64), np.array([[10**400]], dtype=object)):
        with pytest.raises(DataError, match="in row 0, column 0 gives the column more than"):
            learn_domains(X)


def test_wrong_number_of_columns():
    domains = Domains.binary(4)
    with pytest.raises(
        DataError, match="X has 3 features, but CNetBD is expecting 4 features as input"
    ):
        encode(np.zeros((2, 3)), domains, allow_missing=True, estimator_name="CNetBD")
    with pytest.raises(DataError, match="X has 5 features, but the model is expecting 4"):
        encode(np.zeros((2, 5), dtype=np.uint8), domains, allow_missing=True)


def test_named_columns_are_named():
    domains = Domains.binary(2, names=["wet", "cold"])
    for X, message in [
        ([[0, 1], [0, 7]], "Unseen value 7 in row 1, column 'cold'"),
        ([[0, -1]], "Negative .* row 0, column 'cold'"),
        ([[0.5, 1]], "row 0, column 'wet' is not a whole"),
        ([[0, "a"]], "Text 'a' in row 0, column 'cold'"),
    ]:
        with pytest.raises(DataError, match=message):
            encode(X, domains, allow_missing=True)


def test_errors_are_ours_and_value_errors():
    with pytest.raises(BayescutError):
        learn_domains([[-1]])
    with pytest.raises(ValueError, match="Negative"):
        learn_domains([[-1]])


def test_offender_in_a_late_block():
    X = np.zeros((300_000, 2))
    X[299_999, 0] = 0.5
    with pytest.raises(DataError, match="row 299999, column 0"):
        learn_domains(X)
