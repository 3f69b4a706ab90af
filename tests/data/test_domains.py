"""Domains: values, comparison, JSON."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescut.data import MISSING8, MISSING16, Domain, Domains, code_dtype, missing_code
from bayescut.exceptions import DataError


def test_sizes_offsets_names():
    domains = Domains.of_sizes([2, 3, 1], names=["a", "b", "c"])
    np.testing.assert_array_equal(domains.n_states, [2, 3, 1])
    np.testing.assert_array_equal(domains.offsets, [0, 2, 5, 6])
    assert domains.n_states.dtype == domains.offsets.dtype == np.int64
    assert domains.names == ["a", "b", "c"]
    assert not domains.n_states.flags.writeable
    assert not domains.offsets.flags.writeable
    assert len(domains) == 3
    assert domains[1].n_states == 3
    assert domains[:2] == Domains.of_sizes([2, 3], names=["a", "b"])


def test_binary():
    assert Domains.binary(4) == Domains.of_sizes([2, 2, 2, 2])
    assert Domains.binary(4).names is None


def test_label_arrays_are_read_only_copies():
    labels = np.array([3, 5])
    domain = Domain("a", 2, labels, "int64")
    labels[0] = 4
    assert domain.label(0) == 3
    assert not domain.labels.flags.writeable


def test_code_and_label():
    domain = Domain("size", 3, ["S", "M", "L"], "category")
    assert [domain.code(label) for label in "SML"] == [0, 1, 2]
    assert domain.label(2) == "L"
    with pytest.raises(DataError, match=r"'XL' is not among .* 'size'.*'S', 'M', 'L'"):
        domain.code("XL")
    with pytest.raises(DataError, match="Code 3 is outside"):
        domain.label(3)
    with pytest.raises(DataError, match=r"\['S'\] is not among"):
        domain.code(["S"])


def test_known_values_are_shortened():
    text = Domain(None, 300).known_values()
    assert text == "Known values: 0, 1, 2, 3, 4, ..., 299 (300 in all)."


@pytest.mark.parametrize(
    ("labels", "start"),
    [
        (None, 0),
        ([0, 1], 0),
        ([False, True], 0),
        ([0.0, 1.0, 2.0], 0),
        ([-1, 0, 1], -1),
        ([1, 3], None),
        ([2, 1], None),
        ([0.5, 1.5], None),
        (["a", "b"], None),
        ([2**60, 2**60 + 1], None),
    ],
)
def test_start(labels, start):
    assert Domain(None, 2 if labels is None else len(labels), labels).start == start


def test_index():
    domains = Domains.binary(2, names=["a", "b"])
    assert domains.index("b") == domains.index(1) == domains.index(np.int32(1)) == 1
    with pytest.raises(DataError, match=r"no column 'c'\. Columns: 'a', 'b'"):
        domains.index("c")
    with pytest.raises(DataError, match="no column 2: positions run from 0 to 1"):
        domains.index(2)
    with pytest.raises(DataError, match="no column -1"):
        domains.index(-1)
    with pytest.raises(DataError, match="name or position"):
        domains.index(True)
    with pytest.raises(DataError, match="have no names"):
        Domains.binary(2).index("a")


def test_equality_tells_label_types_apart():
    kinds = [Domain("a", 2, labels) for labels in ([0, 1], [0.0, 1.0], [False, True])]
    assert len({*kinds, *kinds}) == 3
    assert Domain("a", 2, [0, 1]) == kinds[0]
    assert Domain("a", 2) != kinds[0]
    assert Domains([kinds[0]]) != Domains([kinds[1]])
    assert hash(Domains([kinds[0]])) == hash(Domains([Domain("a", 2, [0, 1])]))
    assert Domains.binary(1) != "binary"


def test_pickle():
    domains = Domains([Domain("a", 2, ["x", "y"], "object"), Domain("b", 3)])
    hash(domains)
    assert pickle.loads(pickle.dumps(domains)) == domains


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Domain("a", -1), "-1 states"),
        (lambda: Domain("a", 65535), "bin its values"),
        (lambda: Domain("a", 2, ["x"]), "2 states but 1 labels"),
        (lambda: Domain("a", 2, ["x", "x"]), "label twice"),
        (lambda: Domain("a", 2, [1, True]), "label twice"),
        (lambda: Domains([Domain("a", 2), Domain(None, 2)]), "all columns have a name"),
        (lambda: Domains.binary(3, names=["a", "b", "a"]), r"more than once: \['a'\]"),
        (lambda: Domains.binary(3, names=["a"]), "3 columns but 1 names"),
        (lambda: Domains.from_json("[{}]"), "does not describe domains"),
        (lambda: Domains.from_json("nothing"), "does not describe domains"),
        (lambda: missing_code(np.int64), "uint8 or uint16, not int64"),
    ],
)
def test_bad_domains(build, message):
    with pytest.raises(DataError, match=message):
        build()


@pytest.mark.parametrize("label", [None, float("nan"), float("inf"), (1, 2), 1j])
def test_bad_labels(label):
    with pytest.raises(TypeError, match="label must be"):
        Domain("a", 2, ["x", label])


def test_code_dtype():
    assert code_dtype(Domains.of_sizes([254, 2])) == np.uint8
    assert code_dtype(Domains.of_sizes([255, 2])) == np.uint16
    assert code_dtype(Domains.of_sizes([65534])) == np.uint16
    assert code_dtype(Domains.of_sizes([0, 2])) == np.uint8
    assert missing_code(np.uint8) == MISSING8 == 255
    assert missing_code(np.uint16) == MISSING16 == 65535


labels_of_any_kind = st.lists(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(st.lists(labels_of_any_kind, max_size=4), st.booleans())
def test_json_round_trip(tables, named):
    domains = Domains(
        Domain(f"c{j}" if named else None, len(labels), labels, "object")
        for j, labels in enumerate(tables)
    )
    again = Domains.from_json(domains.to_json())
    assert again == domains
    for before, after in zip(domains, again, strict=True):
        assert before.labels.dtype == after.labels.dtype
        assert list(map(type, before.labels.tolist())) == list(map(type, after.labels.tolist()))


def test_json_keeps_intervals():
    pd = pytest.importorskip("pandas")
    labels = pd.cut([1, 2, 3], 2).categories
    domains = Domains([Domain("a", 2, labels, "category")])
    again = Domains.from_json(domains.to_json())
    assert again == domains
    assert again[0].code(labels[1]) == 1


def test_json_without_labels():
    domains = Domains.of_sizes([2, 300])
    assert Domains.from_json(domains.to_json()) == domains


def test_repr():
    assert repr(Domains.of_sizes([2, 3])) == "Domains(2 columns, n_states=[2, 3])"
    assert repr(Domains.binary(9)).endswith("2, ...])")
