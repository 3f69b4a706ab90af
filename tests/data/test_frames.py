"""DataFrames: labels, names, missing cells, dtypes there and back."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescut.data import Domain, Domains, column_names, decode, encode, learn_domains
from bayescut.exceptions import DataError

pd = pytest.importorskip("pandas")


def domain_of(values, dtype=None, n_states=None):
    (domain,) = learn_domains(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}), n_states)
    return domain


def labels_of(values, dtype=None, n_states=None):
    return domain_of(values, dtype, n_states).labels.tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "labels"),
    [
        ([True, True], "bool", [False, True]),
        ([True, None], "boolean", [False, True]),
        ([True, None], "object", [False, True]),
        ([0, 0], "int64", [0, 1]),
        ([1, 1], "uint8", [0, 1]),
        ([1, None], "Int8", [0, 1]),
        ([1, None], "float64", [0.0, 1.0]),
        ([1, 1], "object", [0, 1]),
        ([None, None], "float64", [0.0, 1.0]),
        ([None, None], "Int64", [0, 1]),
        ([5, 3, 5], "int64", [3, 5]),
        ([-1, 3], "int8", [-1, 3]),
        ([7, 7], "int64", [7]),
        ([7.0, np.nan], "float64", [7.0]),
        ([2.0, 7.0, np.nan], "float32", [2.0, 7.0]),
        ([2, 7, None], "Float64", [2.0, 7.0]),
        (["b", "a", None], "object", ["a", "b"]),
        (["b", "a", None], "string", ["a", "b"]),
        (["b", "b"], "object", ["b"]),
        (["b", 2, 1, None], "object", [1, 2, "b"]),
        (["a", "b"], pd.CategoricalDtype(["b", "c", "a"]), ["b", "c", "a"]),
        ([None], pd.CategoricalDtype(["b", "a"]), ["b", "a"]),
        ([0.5], pd.CategoricalDtype([0.5, 0.25]), [0.5, 0.25]),
        ([2**60, 2**60 + 1], "int64", [2**60, 2**60 + 1]),
        ([2**64 - 1, 3], "uint64", [3, 2**64 - 1]),
        ([0, 3], pd.SparseDtype("int64", 0), [0, 3]),
    ],
)
def test_labels(values, dtype, labels):
    learned = labels_of(values, dtype)
    assert learned == labels
    assert list(map(type, learned)) == list(map(type, labels))


def test_arrow_strings():
    assert labels_of(["b", "a", None], "string[pyarrow]") == ["a", "b"]
    frame = pd.DataFrame({"a": pd.Series([3, 5, None], dtype="int64[pyarrow]")})
    domains = learn_domains(frame)
    assert domains[0].labels.tolist() == [3, 5]
    codes = encode(frame, domains, allow_missing=True)
    assert codes.tolist() == [[0], [1], [255]]
    pd.testing.assert_frame_equal(decode(codes, domains, as_frame=True), frame)


def test_n_states():
    assert labels_of([0, 1], n_states=4) == [0, 1, 2, 3]
    assert labels_of([0, 2], n_states=4) == [0, 1, 2, 3]
    assert labels_of([0.0, np.nan], n_states=3) == [0.0, 1.0, 2.0]
    assert labels_of([5, 6], n_states=2) == [5, 6]
    domain = domain_of([0, 1], "int8", n_states=200)
    assert (domain.n_states, domain.dtype) == (200, "int64")
    with pytest.raises(DataError, match=r"n_states asks for 3 states of column 'a'.*category"):
        labels_of(["x", "y"], n_states=3)


@pytest.mark.parametrize(
    ("values", "dtype", "error", "message"),
    [
        ([0.0, 0.5], "float64", DataError, r"Value 0\.5 in row 1, column 'a'.*bin it"),
        ([0.0, np.inf], "float64", DataError, "Value inf in row 1, column 'a'"),
        ([0.0, 0.5], "object", DataError, r"Value 0\.5 in row 1, column 'a'.*bin it"),
        ([None, None], "object", DataError, "No value of column 'a' was observed"),
        (["2020-01-01"], "datetime64[ns]", DataError, "column 'a' has dtype datetime64"),
        ([1j], "complex128", DataError, "column 'a' has dtype complex128"),
        ([0, {}], "object", TypeError, "must be a string or a number, not 'dict'.*row 1, column"),
        ([0, (1, 2)], "object", TypeError, "a number, not 'tuple'.*row 1, column 'a'"),
        (range(65535), "int64", DataError, "65535 states, more than 65534: bin it"),
    ],
)
def test_columns_without_states(values, dtype, error, message):
    with pytest.raises(error, match=message):
        domain_of(values, dtype)


def test_names_keep_their_case_in_messages():
    with pytest.raises(DataError, match="column 'Age'"):
        learn_domains(pd.DataFrame({"Age": pd.to_datetime(["2020-01-01"])}))


def test_no_rows_and_no_columns():
    with pytest.raises(DataError, match=r"0 sample\(s\) \(shape=\(0, 1\)\)"):
        learn_domains(pd.DataFrame({"a": []}))
    with pytest.raises(DataError, match=r"0 feature\(s\) \(shape=\(2, 0\)\)"):
        learn_domains(pd.DataFrame(index=[0, 1]))


def test_duplicate_names():
    frame = pd.DataFrame([[0, 1, 1]], columns=["a", "b", "a"])
    with pytest.raises(DataError, match=r"more than once: \['a'\]"):
        learn_domains(frame)
    with pytest.raises(DataError, match=r"more than once: \['a'\]"):
        encode(frame, Domains.binary(3), allow_missing=True)


def test_names_that_are_not_strings():
    frame = pd.DataFrame(np.array([[0, 3], [1, 5]]))
    domains = learn_domains(frame)
    assert column_names(frame) is None
    assert domains.names is None
    back = decode(encode(frame, domains, allow_missing=False), domains, as_frame=True)
    pd.testing.assert_frame_equal(back, frame)
    with pytest.raises(TypeError, match="only supported if all input features have string names"):
        learn_domains(pd.DataFrame([[0, 1]], columns=["a", 1]))


def test_columns_are_matched_by_name():
    frame = pd.DataFrame({"a": [0, 1], "b": ["x", "y"], "c": [True, False]})
    domains = learn_domains(frame)
    codes = encode(frame, domains, allow_missing=False)
    np.testing.assert_array_equal(codes, [[0, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(
        encode(frame[["c", "a", "b"]], domains, allow_missing=False), codes
    )


def test_numbers_are_matched_by_name_too():
    frame = pd.DataFrame({"a": [0, 1], "b": [1, 1]})
    domains = learn_domains(frame)
    np.testing.assert_array_equal(
        encode(frame[["b", "a"]], domains, allow_missing=False), [[0, 1], [1, 1]]
    )


def test_other_names():
    frame = pd.DataFrame({name: [0, 1] for name in "abcdefgh"})
    domains = learn_domains(frame)
    with pytest.raises(DataError) as caught:
        encode(frame.rename(columns={"a": "z"}), domains, allow_missing=False)
    assert str(caught.value) == (
        "The feature names should match those that were passed during fit.\n"
        "Feature names unseen at fit time:\n- z\n"
        "Feature names seen at fit time, yet now missing:\n- a\n"
    )
    with pytest.raises(DataError, match=r"now missing:\n- b\n- c\n- d\n- e\n- f\n- \.\.\.\n"):
        encode(frame[["a"]], domains, allow_missing=False)


def test_frames_and_arrays_mix():
    frame = pd.DataFrame({"a": [0, 1], "b": [3, 5]})
    domains = learn_domains(frame)
    codes = encode(frame, domains, allow_missing=False)
    np.testing.assert_array_equal(encode(frame.to_numpy(), domains, allow_missing=False), codes)
    np.testing.assert_array_equal(
        encode(frame.to_numpy().tolist(), domains, allow_missing=False), codes
    )
    np.testing.assert_array_equal(
        encode(frame, Domains.of_sizes([2, 6]), allow_missing=False), frame.to_numpy()
    )
    with pytest.raises(DataError, match="X has 2 features, but the model is expecting 3"):
        encode(frame, Domains.binary(3), allow_missing=False)


def test_a_frame_of_codes_keeps_its_memory():
    X = np.random.default_rng(0).integers(0, 2, (30, 4)).astype(np.uint8)
    frame = pd.DataFrame(X, columns=list("abcd"), copy=False)
    codes = encode(frame, learn_domains(frame), allow_missing=False)
    assert np.shares_memory(codes, X)


def test_labels_are_matched_across_dtypes():
    domains = learn_domains(pd.DataFrame({"a": [3, 5, 9]}))
    for values in (
        pd.Series([9.0, 3.0, np.nan]),
        pd.Series([9, 3, None], dtype="Int8"),
        pd.Series([9, 3, None], dtype="object"),
        pd.Series([9, 3, None], dtype="category"),
    ):
        codes = encode(pd.DataFrame({"a": values}), domains, allow_missing=True)
        assert codes[:, 0].tolist() == [2, 0, 255]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["x", "w", None], dtype="object"),
        pd.Series(["x", "w", None], dtype="string"),
        pd.Series(["x", "w", None], dtype="category"),
    ],
)
def test_unseen_labels(values):
    domains = learn_domains(pd.DataFrame({"a": ["x", "y"]}))
    frame = pd.DataFrame({"a": values})
    with pytest.raises(
        DataError, match=r"Unseen value 'w' in row 1, column 'a'\. Known values: 'x', 'y'\."
    ):
        encode(frame, domains, allow_missing=True)
    codes = encode(frame, domains, allow_missing=True, unseen="missing")
    assert codes[:, 0].tolist() == [0, 255, 255]
    with pytest.raises(DataError, match=r"Missing value .* in row 1, column 'a'"):
        encode(frame.iloc[[0, 2]], domains, allow_missing=False)


@pytest.mark.parametrize("value", [4, 4.0, 3.5, "3", -1, 2**62, 1e300])
def test_unseen_numbers(value):
    for known in ([3, 5], [2, 3]):
        domains = learn_domains(pd.DataFrame({"a": known}))
        with pytest.raises(DataError, match=r"Unseen value .* in row 0, column 'a'"):
            encode(pd.DataFrame({"a": [value]}), domains, allow_missing=True)


def test_unseen_dates_and_dicts():
    domains = learn_domains(pd.DataFrame({"a": [3, 5]}))
    dates = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])})
    with pytest.raises(DataError, match="Unseen value Timestamp"):
        encode(dates, domains, allow_missing=True)
    with pytest.raises(TypeError, match="string or a number, not 'dict'"):
        encode(pd.DataFrame({"a": [{}]}), domains, allow_missing=True)


def test_row_of_an_unseen_label_in_a_late_block():
    frame = pd.DataFrame({"a": ["x"] * 40_000 + ["y"]})
    domains = learn_domains(frame.iloc[:5])
    with pytest.raises(DataError, match="in row 40000, column 'a'"):
        encode(frame, domains, allow_missing=True)


def test_many_labels_take_16_bits():
    frame = pd.DataFrame({"a": [f"v{i:04}" for i in range(1000)]})
    domains = learn_domains(frame)
    codes = encode(frame, domains, allow_missing=False)
    assert codes.dtype == np.uint16
    np.testing.assert_array_equal(codes[:, 0], np.arange(1000))
    pd.testing.assert_frame_equal(decode(codes, domains, as_frame=True), frame)


def every_dtype():
    frame = pd.DataFrame(
        {
            "bool": [True, False, True],
            "bits": [0, 1, 1],
            "int": [3, -5, 3],
            "small": np.array([7, 9, 7], dtype=np.int8),
            "float": [2.0, 4.0, 2.0],
            "single": np.array([2, 4, 2], dtype=np.float32),
            "nullable": pd.array([3, 4, 5], dtype="Int16"),
            "boolean": pd.array([True, False, False], dtype="boolean"),
            "text": ["x", "y", "x"],
            "string": pd.array(["x", "y", "x"], dtype="string"),
            "object": np.array(["x", 3, "x"], dtype=object),
            "category": pd.Categorical(["x", "y", "x"], categories=["y", "z", "x"]),
            "ordered": pd.Categorical(["lo", "hi", "lo"], ["lo", "hi"], ordered=True),
            "numbers": pd.Categorical([3, 1, 3], categories=[3, 1]),
            "binned": pd.cut([0.1, 0.5, 0.9], [0, 0.3, 0.6, 1]),
        },
        index=["r", "s", "t"],
    )
    return frame


def test_round_trip_of_every_dtype():
    frame = every_dtype()
    domains = learn_domains(frame)
    domains = Domains.from_json(domains.to_json())
    codes = encode(frame, domains, allow_missing=False)
    back = decode(codes, domains, index=frame.index, as_frame=True)
    pd.testing.assert_frame_equal(back, frame)


def test_round_trip_of_every_dtype_with_missing_cells():
    frame = every_dtype()
    domains = learn_domains(frame)
    codes = encode(frame, domains, allow_missing=False).copy()
    codes[1] = 255
    back = decode(codes, domains, index=frame.index, as_frame=True)
    assert back.iloc[1].isna().all()
    nullable = {"bool": "boolean", "bits": "Int64", "int": "Int64", "small": "Int8"}
    for name in frame.columns:
        expected = nullable.get(name, frame[name].dtype)
        assert back[name].dtype == expected, name
        assert back[name].iloc[[0, 2]].tolist() == frame[name].iloc[[0, 2]].tolist()
    np.testing.assert_array_equal(encode(back, domains, allow_missing=True), codes)


def test_decode_of_arrays_as_frame():
    domains = Domains.of_sizes([2, 3])
    codes = np.array([[0, 2], [1, 255]], dtype=np.uint8)
    back = decode(codes, domains, as_frame=True, columns=["u", "v"], index=[5, 6])
    assert back["u"].dtype == "int64"
    assert back["v"].dtype == "Int64"
    assert list(back.index) == [5, 6]
    assert back["v"].isna().tolist() == [False, True]


@given(
    st.lists(
        st.none() | st.integers(-3, 3) | st.text(alphabet="ab", max_size=2),
        min_size=1,
        max_size=20,
    ).filter(lambda values: any(value is not None for value in values))
)
def test_object_round_trip(values):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    domains = learn_domains(frame)
    codes = encode(frame, domains, allow_missing=True)
    back = decode(codes, domains, as_frame=True)["a"].tolist()
    assert back == values
    cells = frame.to_numpy()
    np.testing.assert_array_equal(
        encode(cells, domains, allow_missing=True, unseen="missing"), codes
    )


@given(st.lists(st.none() | st.sampled_from([0, 1, 2, 10**6, -4]), min_size=1, max_size=20))
def test_nullable_round_trip(values):
    frame = pd.DataFrame({"a": pd.array(values, dtype="Int64")})
    domains = learn_domains(frame)
    back = decode(encode(frame, domains, allow_missing=True), domains, as_frame=True)
    pd.testing.assert_frame_equal(back, frame)


def test_without_pandas():
    script = """
import sys
sys.modules["pandas"] = None  # makes every import of pandas fail
import numpy as np
from bayescut.data import Domain, Domains, decode, encode, learn_domains
from bayescut.exceptions import BayescutError
X = [[0, 1], [1, None]]
domains = learn_domains(X)
codes = encode(X, domains, allow_missing=True)
decode(codes, domains, as_frame=False)
text = Domains([Domain("a", 2, ["x", "y"], "object")])
assert encode(np.array([["y"]]), text, allow_missing=True) == 1
try:
    decode(codes, domains, as_frame=True)
except BayescutError as error:
    assert "pip install" in str(error)
else:
    raise AssertionError("no error")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_periods_are_refused_like_dates():
    table = pd.DataFrame({"month": pd.period_range("2020-01", periods=3, freq="M"), "a": [0, 1, 0]})
    with pytest.raises(DataError, match=r"column 'month' has dtype period\[M\].*to_timestamp\(\)"):
        learn_domains(table)


def test_labels_without_a_dtype_become_a_frame():
    domains = Domains([Domain("a", 2, ["x", "y"]), Domain("b", 2, [0.5, 1.5]), Domain("c", 3)])
    frame = decode(np.array([[1, 0, 2]], dtype=np.uint8), domains, as_frame=True)
    assert frame.iloc[0].tolist() == ["y", 0.5, 2]
