"""Arrays and lists: learning domains, encoding, decoding."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayescut.data import Domain, Domains, decode, encode, encode_sets, learn_domains
from bayescut.data.tables import column_range
from bayescut.exceptions import DataError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "longdouble"]


def sizes(X, n_states=None):
    return learn_domains(X, n_states).n_states.tolist()


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + [">i4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_number_dtype(dtype, order):
    values = np.array([[0, 2, 0], [1, 0, 0], [0, 5, 0]])
    X = np.asarray(values, dtype=dtype, order=order)
    domains = learn_domains(X)
    assert domains.n_states.tolist() == [2, 6, 2]
    codes = encode(X, domains, allow_missing=False)
    assert codes.dtype == np.uint8
    assert codes.flags.c_contiguous
    np.testing.assert_array_equal(codes, values)


@pytest.mark.parametrize(
    "X",
    [
        [[0, 1], [1, 0]],
        ((0, 1), (1, 0)),
        [[False, True], [True, False]],
        [[0.0, 1.0], [1.0, 0.0]],
        np.array([[0, 1], [1, 0]], dtype=object),
        np.array([[False, 1.0], [np.int8(1), np.float32(0)]], dtype=object),
        np.array([[0, 1], [1, 0]]) == 1,
        np.ma.MaskedArray([[0, 1], [1, 0]]),
    ],
)
def test_every_container(X):
    domains = learn_domains(X)
    assert domains == Domains.binary(2)
    np.testing.assert_array_equal(encode(X, domains, allow_missing=False), [[0, 1], [1, 0]])


def test_constant_columns_are_binary():
    assert sizes([[0, 1], [0, 1]]) == [2, 2]


def test_one_row_and_one_column():
    assert sizes([[0, 3]]) == [2, 4]
    assert sizes([[0], [2]]) == [3]


def test_n_states_is_a_floor():
    X = [[0, 2], [1, 0]]
    assert sizes(X, 4) == [4, 4]
    assert sizes(X, [2, 5]) == [2, 5]
    assert sizes(X, 1) == [2, 3]
    assert sizes(X, np.array([3, 2])) == [3, 3]


@pytest.mark.parametrize("bad", [0, -1, 65535, 2.5, "2", [2], [[2, 2]], [2, 2, 2], [2, 0]])
def test_bad_n_states(bad):
    with pytest.raises(DataError, match="n_states must"):
        learn_domains([[0, 1]], bad)


def test_codes_of_16_bits():
    X = np.array([[0, 300], [254, 0]])
    domains = learn_domains(X)
    assert domains.n_states.tolist() == [255, 301]
    codes = encode(X, domains, allow_missing=False)
    assert codes.dtype == np.uint16
    np.testing.assert_array_equal(codes, X)
    holes = np.array([[0, np.nan], [254, 0]])
    np.testing.assert_array_equal(
        encode(holes, domains, allow_missing=True), [[0, 65535], [254, 0]]
    )
    again = encode(codes, domains, allow_missing=False)
    assert np.shares_memory(again, codes)


def test_most_states():
    assert sizes(np.array([[65533]])) == [65534]
    codes = encode([[65533.0, np.nan]], Domains.of_sizes([65534, 2]), allow_missing=True)
    assert codes.tolist() == [[65533, 65535]]


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_complete_codes_keep_their_memory(dtype):
    X = np.random.default_rng(0).integers(0, 2, (50, 7)).astype(dtype)
    X.setflags(write=False)
    codes = encode(X, learn_domains(X), allow_missing=True)
    assert codes.dtype == np.uint8
    assert np.shares_memory(codes, X)
    np.testing.assert_array_equal(codes, X)


def test_memory_mapped(tmp_path):
    X = np.random.default_rng(0).integers(0, 3, (50, 7)).astype(np.uint8)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    codes = encode(mapped, learn_domains(mapped), allow_missing=False)
    assert type(codes) is np.ndarray
    assert np.shares_memory(codes, mapped)
    np.testing.assert_array_equal(codes, X)


def _peak(function):
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_columns", [1, 20, 5000])
def test_complete_codes_need_no_memory(n_columns):
    X = np.zeros((20_000_000 // n_columns, n_columns), dtype=np.uint8)
    domains, learning = _peak(lambda: learn_domains(X))
    codes, encoding = _peak(lambda: encode(X, domains, allow_missing=False))
    assert np.shares_memory(codes, X)
    # Domain objects are a few hundred bytes a column; the table has 20 MB.
    assert learning < 100_000 + 1000 * n_columns
    assert encoding < 100_000 + 1000 * n_columns


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
def test_other_dtypes_need_the_codes_and_a_block(dtype):
    X = np.zeros((100_000, 40), dtype=dtype)
    domains, learning = _peak(lambda: learn_domains(X))
    _, encoding = _peak(lambda: encode(X, domains, allow_missing=True))
    block = 8 * 2**17
    assert learning < 4 * block
    assert encoding < X.size + 4 * block


def test_missing_cells():
    X = np.array([[0.0, np.nan], [np.nan, 2.0]])
    domains = learn_domains(X)
    assert domains.n_states.tolist() == [2, 3]
    codes = encode(X, domains, allow_missing=True)
    np.testing.assert_array_equal(codes, [[0, 255], [255, 2]])
    with pytest.raises(DataError, match=r"Missing value \(NaN\) in row 0, column 1"):
        encode(X, domains, allow_missing=False)


def test_missing_cells_of_objects_and_masks():
    X = np.array([[0, None], [float("nan"), 2]], dtype=object)
    masked = np.ma.MaskedArray([[0, 7], [7, 2]], mask=[[False, True], [True, False]])
    domains = Domains.of_sizes([2, 3])
    for table in (X, [[0, None], [None, 2]], masked):
        assert learn_domains(table) == domains
        codes = encode(table, domains, allow_missing=True)
        np.testing.assert_array_equal(codes, [[0, 255], [255, 2]])


def test_pandas_na_in_an_object_array():
    pd = pytest.importorskip("pandas")
    X = np.array([[0, pd.NA], [pd.NaT, 2]], dtype=object)
    codes = encode(X, learn_domains(X), allow_missing=True)
    np.testing.assert_array_equal(codes, [[0, 255], [255, 2]])


def test_all_missing_column():
    X = np.array([[np.nan, 0.0]])
    assert sizes(X) == [2, 2]


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64", "object", "uint64"])
def test_unseen_values(dtype):
    domains = Domains.of_sizes([2, 3])
    X = np.array([[0, 0], [1, 3], [2, 1]], dtype=dtype)
    with pytest.raises(DataError, match=r"Unseen value 3 in row 1, column 1\. .* 0, 1, 2\."):
        encode(X, domains, allow_missing=True)
    codes = encode(X, domains, allow_missing=True, unseen="missing")
    np.testing.assert_array_equal(codes, [[0, 0], [1, 255], [255, 1]])


def test_255_is_no_back_door_to_missing():
    X = np.array([[255]], dtype=np.uint8)
    with pytest.raises(DataError, match="Unseen value 255"):
        encode(X, Domains.binary(1), allow_missing=True)


def test_huge_values_are_unseen():
    domains = Domains.binary(1)
    for X in (np.array([[2**63]], dtype=np.uint64), np.array([[1e300]])):
        codes = encode(X, domains, allow_missing=True, unseen="missing")
        assert codes.tolist() == [[255]]
        with pytest.raises(DataError, match="Unseen value"):
            encode(X, domains, allow_missing=True)


def test_unseen_in_a_late_block_names_its_row():
    X = np.zeros((300_000, 2))
    X[250_001, 1] = 9
    with pytest.raises(DataError, match="Unseen value 9 in row 250001, column 1"):
        encode(X, Domains.binary(2), allow_missing=True)


def test_unseen_needs_missing():
    with pytest.raises(DataError, match="needs allow_missing"):
        encode([[0]], Domains.binary(1), allow_missing=False, unseen="missing")
    with pytest.raises(DataError, match="unseen must be"):
        encode([[0]], Domains.binary(1), allow_missing=True, unseen="ignore")


def test_arrays_are_looked_up_as_labels():
    domains = Domains(
        [
            Domain("colour", 2, ["blue", "red"], "object"),
            Domain("size", 3, [1, 5, 7], "int64"),
            Domain("year", 3, [-1, 0, 1], "int64"),
        ]
    )
    X = np.array([["red", 7, -1], [None, np.nan, 1.0]], dtype=object)
    np.testing.assert_array_equal(
        encode(X, domains, allow_missing=True), [[1, 2, 0], [255, 255, 2]]
    )
    with pytest.raises(DataError, match=r"Missing value .* in row 1, column 'colour'"):
        encode(X, domains, allow_missing=False)
    with pytest.raises(DataError, match=r"Unseen value 'red' in row 0, column 'size'\..* 1, 5, 7"):
        encode(X[:, [0, 0, 2]], domains, allow_missing=True)
    numbers = np.array([[1, -1], [np.nan, 0], [7, np.nan], [7, 0.5], [1, 2]])
    expected = [[0, 0], [255, 1], [2, 255], [2, 255], [0, 255]]
    codes = encode(numbers, domains[1:], allow_missing=True, unseen="missing")
    np.testing.assert_array_equal(codes, expected)
    with pytest.raises(DataError, match=r"Unseen value 0\.5 in row 3, column 'year'"):
        encode(numbers, domains[1:], allow_missing=True)
    integers = np.array([[1, -1], [5, 0]], dtype=np.int8)
    np.testing.assert_array_equal(
        encode(integers, domains[1:], allow_missing=True), [[0, 0], [1, 1]]
    )
    text = np.array([["red"], ["blue"]])
    np.testing.assert_array_equal(encode(text, domains[:1], allow_missing=True), [[1], [0]])


def test_unhashable_cell_is_no_label():
    domains = Domains([Domain("a", 2, ["x", "y"], "object")])
    with pytest.raises(TypeError, match="argument must be a string or a number, not 'dict'"):
        encode(np.array([[{}]], dtype=object), domains, allow_missing=True)


@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.int16, np.int64, np.uint64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=40),
        elements=st.integers(0, 100),
    ),
    st.booleans(),
)
def test_integer_round_trip(X, transposed):
    X = X.T if transposed else X
    domains = learn_domains(X)
    np.testing.assert_array_equal(domains.n_states, np.maximum(X.max(axis=0).astype(int) + 1, 2))
    codes = encode(X, domains, allow_missing=False)
    back = decode(codes, domains, as_frame=False)
    assert back.dtype == np.int64
    np.testing.assert_array_equal(back, X)


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
        elements=st.sampled_from([0.0, 1.0, 2.0, 300.0, np.nan]),
    )
)
def test_float_round_trip(X):
    domains = learn_domains(X)
    back = decode(encode(X, domains, allow_missing=True), domains, as_frame=False)
    assert back.dtype == (np.float64 if np.isnan(X).any() else np.int64)
    np.testing.assert_array_equal(back, X)


@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint8, np.int32]),
        st.tuples(st.integers(1, 3000), st.integers(1, 5)),
        elements=st.integers(0, 120),
        fill=st.integers(0, 120),
    ),
    st.booleans(),
)
def test_column_range_beside_plain_reductions(X, signed):
    if signed and X.dtype.kind == "i":
        X = -X
    low, high = column_range(X)
    np.testing.assert_array_equal(high, X.max(axis=0))
    np.testing.assert_array_equal(low, X.min(axis=0) if X.dtype.kind == "i" else 0)


def test_decode_labels():
    domains = Domains([Domain("a", 2, ["x", "y"], "object"), Domain("b", 2, [3, 9], "int64")])
    codes = np.array([[0, 1], [255, 255]], dtype=np.uint8)
    back = decode(codes, domains, as_frame=False)
    assert back.tolist() == [["x", 9], [None, None]]
    numbers = decode(codes[:, 1:], domains[1:], as_frame=False)
    np.testing.assert_array_equal(numbers, [[9.0], [np.nan]])
    assert decode(codes[:1, 1:], domains[1:], as_frame=False).dtype == np.int64
    floats = Domains([Domain("c", 2, [0.0, 4.0], "float64")])
    np.testing.assert_array_equal(decode(codes[:1, :1], floats, as_frame=False), [[0.0]])
    big = Domains([Domain("d", 2, [2**60, 2**60 + 1], "int64")])
    assert decode(codes[:, 1:], big, as_frame=False).tolist() == [[2**60 + 1], [None]]


def test_decode_refuses_codes_outside():
    domains = Domains.of_sizes([2, 3])
    with pytest.raises(DataError, match=r"Code 2 in row 1, column 0 is outside 0, \.\.\., 1"):
        decode(np.array([[0, 0], [2, 0]], dtype=np.uint8), domains, as_frame=False)
    with pytest.raises(DataError, match="do not fit 2 columns"):
        decode(np.zeros((2, 3), dtype=np.uint8), domains, as_frame=False)
    with pytest.raises(DataError, match="uint8 or uint16"):
        decode(np.zeros((2, 2)), domains, as_frame=False)


def test_allowed_states():
    domains = Domains(
        [Domain("a", 2), Domain("b", 3, ["x", "y", "z"]), Domain("c", 2, [False, True])]
    )
    allowed = encode_sets({"b": ["z", "x"], 2: {True}}, domains)
    assert allowed.dtype == bool
    assert allowed.tolist() == [True, True, True, False, True, False, True]
    assert encode_sets({}, domains).all()
    assert encode_sets({"b": "y", "a": None, "c": np.nan}, domains).tolist() == (
        [True, True, False, True, False, True, True]
    )
    assert encode_sets({"a": np.array([1])}, domains)[:2].tolist() == [False, True]
    assert encode_sets({"a": 1}, domains)[:2].tolist() == [False, True]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"d": [0]}, "no column 'd'"),
        ({7: [0]}, "no column 7"),
        ({"b": ["x", "w"]}, r"column 'b': 'w' is no value of it\. Known values: 'x', 'y'"),
        ({"a": [2]}, "column 'a': 2 is no value of it"),
        ({"a": []}, "allows no value of column 'a'"),
        ({"a": [0], 0: [1]}, "twice"),
    ],
)
def test_bad_sets(evidence, message):
    domains = Domains([Domain("a", 2), Domain("b", 2, ["x", "y"])])
    with pytest.raises(DataError, match=message):
        encode_sets(evidence, domains)


def test_continuous_columns_have_no_codes():
    with pytest.raises(DataError, match="Column 1 is continuous"):
        encode([[0, 0.5]], Domains.of_sizes([2, 0]), allow_missing=True)
