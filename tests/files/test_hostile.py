"""Well-packed files with a right checksum and wrong content: each is refused, saying why."""

from __future__ import annotations

import json
import sys
import tracemalloc

import numpy as np
import pytest
from tests.files.models import (
    Toy,
    circuit_of_every_kind,
    reseal,
    rewrite,
    with_header,
    with_header_text,
)

import bayescut.files as files
from bayescut.circuit._model import ARRAYS
from bayescut.exceptions import ModelFileError
from bayescut.files import dumps, loads

PREFIX = "circuit0/"


@pytest.fixture(scope="module")
def data():
    return dumps(circuit_of_every_kind())


@pytest.fixture
def fitted(monkeypatch):
    monkeypatch.setitem(files.ESTIMATORS, "Toy", Toy.__module__)
    model = Toy(options=[1, 2])
    model.circuit_ = circuit_of_every_kind()
    model.value_ = np.float64(1.5)
    return dumps(model)


def broken(data, name, index, value):
    def change(_, blocks):
        blocks[PREFIX + name][index] = value

    return rewrite(data, change)


INCONSISTENT = {
    "a cycle": ("child", 0, 11),
    "a node that is its own child": ("child", 2, 4),
    "a child after its parent": ("child", 2, 5),
    "a child out of range": ("child", 0, 10**6),
    "a negative child": ("child", 0, -1),
    "the most negative child": ("child", 0, -(2**31)),
    "an unknown kind": ("kind", 0, 7),
    "the largest kind": ("kind", 0, 255),
    "another kind": ("kind", 1, 4),
    "a variable out of range": ("var", 3, 4),
    "a negative variable": ("var", 5, -2),
    "a variable where none belongs": ("var", 11, 0),
    "a continuous variable in a decision": ("var", 3, 3),
    "a state out of range": ("state", 6, 2),
    "a negative state": ("state", 6, -1),
    "a state where none belongs": ("state", 0, 0),
    "child_ptr that does not begin at 0": ("child_ptr", 0, 1),
    "child_ptr with a negative entry": ("child_ptr", 4, -1),
    "child_ptr that falls": ("child_ptr", 4, 4),
    "child_ptr that ends beyond the children": ("child_ptr", -1, 2**62),
    "child_ptr that rises beyond the children": ("child_ptr", 6, 1000),
    "param_ptr that falls": ("param_ptr", 1, 9),
    "param_ptr that ends too early": ("param_ptr", -1, 1),
    "fam_ptr that falls": ("fam_ptr", 2, 0),
    "fam_ptr beyond the families": ("fam_ptr", 2, 9),
    "families on another node": ("fam_ptr", 1, 1),
    "fam_parent_ptr that falls": ("fam_parent_ptr", 2, -5),
    "fam_parent_ptr beyond the parents": ("fam_parent_ptr", 1, 3),
    "fam_table_ptr that falls": ("fam_table_ptr", 1, 12),
    "fam_table_ptr beyond the cells": ("fam_table_ptr", -1, 18),
    "a family twice": ("fam_var", 1, 1),
    "a family of a variable out of range": ("fam_var", 0, 99),
    "a family of a negative variable": ("fam_var", 0, -1),
    "a family of a continuous variable": ("fam_var", 0, 3),
    "a host later than its family": ("fam_host", 1, 3),
    "a host that is its own family": ("fam_host", 1, 1),
    "a host in another leaf": ("fam_host", 3, 0),
    "a host out of range": ("fam_host", 1, 2**31 - 1),
    "no host for parents": ("fam_host", 1, -1),
    "a host without parents": ("fam_host", 0, 0),
    "a parent that is not in the host": ("fam_parent", 0, 0),
    "a parent out of range": ("fam_parent", 0, 99),
    "a negative parent": ("fam_parent", 0, -3),
    "weights that are NaN": ("log_weight", 0, np.nan),
    "weights that are infinite": ("log_weight", 0, np.inf),
    "weights that vanish": ("log_weight", 0, -np.inf),
    "weights over 1": ("log_weight", 0, 0.5),
    "a weight on a product": ("log_weight", 2, -0.1),
    "a NaN on a product": ("log_weight", 2, np.nan),
    "probabilities that are NaN": ("param", 2, np.nan),
    "probabilities over 1": ("param", 2, 3.0),
    "a table with NaN": ("fam_table", 0, np.nan),
    "a table with infinity": ("fam_table", 4, np.inf),
    "a table that does not sum to 1": ("fam_table", 4, -1.0),
    "a mean that is infinite": ("param", 0, np.inf),
    "a deviation of zero": ("param", 1, 0.0),
    "a negative deviation": ("param", 1, -1.0),
    "a deviation that is NaN": ("param", 1, np.nan),
}


@pytest.mark.parametrize(("name", "index", "value"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_inconsistent_arrays(data, name, index, value):
    with pytest.raises(ModelFileError, match="inconsistent circuit: "):
        loads(broken(data, name, index, value))


def test_a_family_too_wide_to_check_in_time(data):
    with pytest.raises(ModelFileError, match="more than 64 parents"):
        loads(broken(data, "fam_parent_ptr", slice(2, None), 1000))


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_wrong_form(data, name):
    def apply(change):
        def edit(_, blocks):
            blocks[PREFIX + name] = change(blocks[PREFIX + name])

        return rewrite(data, edit)

    for change in (
        lambda a: a[:-1],
        lambda a: a[:0],
        lambda a: np.append(a, a[-1:]),
        lambda a: a[:, None],
        lambda a: a[0].reshape(()),
        lambda a: a.view(np.int8),
        lambda a: a.view(np.uint64) if a.dtype.itemsize == 8 else a.astype(np.float64),
        lambda a: "text",
    ):
        with pytest.raises(ModelFileError):
            loads(apply(change))

    def drop(_, blocks):
        del blocks[PREFIX + name]

    with pytest.raises(ModelFileError, match=f"{name}' is missing"):
        loads(rewrite(data, drop))


def test_a_block_too_many(data):
    def add(_, blocks):
        blocks["more"] = np.zeros(1)

    with pytest.raises(ModelFileError, match="'more'"):
        loads(rewrite(data, add))


def header_value(**fields):
    def change(header, _):
        header.update(fields)

    return change


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "pickle"},
        {"kind": None},
        {"kind": ["circuit"]},
        {"kind": "tuple"},
        {"arrays": 0},
        {"arrays": "circuit1/"},
        {"domains": None},
        {"domains": PREFIX + "kind"},
        {"domains": "nothing"},
        {"more": 1},
    ],
    ids=str,
)
def test_malformed_descriptions(data, fields):
    with pytest.raises(ModelFileError):
        loads(rewrite(data, header_value(**fields)))


def with_columns(data, change):
    def edit(header, blocks):
        columns = json.loads(blocks[header["domains"]])
        columns = change(columns) or columns
        blocks[header["domains"]] = json.dumps(columns)

    return rewrite(data, edit)


@pytest.mark.parametrize(
    "field",
    [
        {"name": 1},
        {"name": ["flag"]},
        {"name": "count"},
        {"name": None},
        {"n_states": -1},
        {"n_states": 1},
        {"n_states": 3},
        {"n_states": 0},
        {"n_states": 2.0},
        {"n_states": True},
        {"n_states": "2"},
        {"n_states": 10**9},
        {"n_states": 10**30, "labels": None},
        {"n_states": 65534, "labels": None},
        {"labels": [True]},
        {"labels": [True, True]},
        {"labels": [1, True]},
        {"labels": [None, True]},
        {"labels": [[], True]},
        {"labels": [{}, True]},
        {"labels": [{"interval": [0, 1]}, True]},
        {"labels": [{"interval": [1, 0, "left"]}, True]},
        {"labels": [{"interval": [0, 1, "__class__"]}, True]},
        {"labels": "ab"},
        {"dtype": 5},
        {"dtype": "U999999999"},
        {"dtype": ["bool"]},
        {"dtype": "(5000,5000)f8"},
        {"dtype": "f8,(5000,5000)f8"},
        {"dtype": "S9"},
        {"dtype": "V8"},
        {"dtype": "complex128"},
        {"dtype": "period[D]"},
        {"dtype": "datetime64[ns]"},
        {"dtype": "Sparse[int]"},
        {"dtype": "categoryfoo"},
        {"dtype": "dictionary<values=string, indices=int32>[pyarrow]"},
        {"dtype": ""},
        {"dtype": "int64"},  # the labels are truth values
        {"dtype": "float64"},
        {"dtype": "str"},
        {"dtype": "string[pyarrow]"},
        {"dtype": "bool", "labels": [0, 1]},
        {"dtype": "boolean", "labels": None},
        {"dtype": "int8", "labels": [0, 128]},
        {"dtype": "uint8", "labels": [-1, 0]},
        {"dtype": "UInt8", "labels": [0, 256]},
        {"dtype": "Int16", "labels": [0.5, 1.5]},
        {"dtype": "int64", "labels": [0, 2**63]},
        {"dtype": "float64", "labels": ["a", "b"]},
        {"more": 1},
    ],
    ids=str,
)
def test_impossible_columns(data, field):
    with pytest.raises(ModelFileError):
        loads(with_columns(data, lambda columns: columns[0].update(field)))


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns[:3],
        lambda columns: [*columns, {**columns[0], "name": "new"}],
        lambda columns: [{}],
        lambda columns: [None],
        lambda columns: {"columns": columns},
        lambda columns: "text",
        lambda columns: columns[0].pop("dtype") and None,
    ],
    ids=range(7),
)
def test_wrong_lists_of_columns(data, change):
    with pytest.raises(ModelFileError):
        loads(with_columns(data, change))


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "NaN", "[NaN]", "[" * 10**6, '[{"name":1,"name":1}]']
)
def test_bad_json_in_the_columns(data, text):
    def edit(header, blocks):
        blocks[header["domains"]] = text

    with pytest.raises(ModelFileError):
        loads(rewrite(data, edit))


def test_duplicate_keys_and_deep_nesting_in_the_header(data):
    with pytest.raises(ModelFileError, match="twice"):
        loads(with_header_text(data, lambda t: t.replace('"kind"', '"kind":"circuit","kind"', 1)))
    with pytest.raises(ModelFileError, match="nests deeper"):
        loads(with_header_text(data, lambda t: '{"header":' * 10**5 + t))
    with pytest.raises(ModelFileError, match="bad JSON"):
        loads(with_header_text(data, lambda t: t[:-1]))


def test_sealing_works(data):
    assert reseal(data) == data
    loads(with_header_text(data, lambda t: t + " "))


# ------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("name", ["CNetBD2", "os.system", "BaseEstimator", "builtins.eval", ""])
def test_unknown_classes(fitted, name):
    with pytest.raises(ModelFileError, match=r"class .* unknown to this bayescut"):
        loads(rewrite(fitted, header_value(**{"class": name})))


def test_a_registered_class_that_is_not_there(fitted, monkeypatch):
    for module in ("bayescut.nowhere", "bayescut.files"):
        monkeypatch.setitem(files.ESTIMATORS, "Later", module)
        with pytest.raises(ModelFileError, match="unknown to this bayescut"):
            loads(rewrite(fitted, header_value(**{"class": "Later"})))


def test_nothing_is_imported_by_a_file(fitted):
    before = set(sys.modules)
    with pytest.raises(ModelFileError):
        loads(rewrite(fitted, header_value(**{"class": "antigravity"})))
    assert "antigravity" not in set(sys.modules) - before


def test_unknown_parameters(fitted):
    def change(header, _):
        header["params"]["n_wings"] = 2

    with pytest.raises(ModelFileError, match=r"inconsistent Toy: TypeError.*n_wings"):
        loads(rewrite(fitted, change))


def test_a_state_the_estimator_refuses(fitted):
    def change(header, blocks):
        del header["state"]["circuit_"]
        for name in [name for name in blocks if name.startswith(("circuit", "domains"))]:
            del blocks[name]

    with pytest.raises(ModelFileError, match=r"inconsistent Toy: KeyError.*circuit_"):
        loads(rewrite(fitted, change))


ENTRIES = {
    "unknown kind": {"kind": "module", "name": "os"},
    "no kind": {"a": 1},
    "kind of wrong type": {"kind": 3},
    "unhashable kind": {"kind": []},
    "tuple without items": {"kind": "tuple"},
    "tuple of a text": {"kind": "tuple", "items": "ab"},
    "dict of a dict": {"kind": "dict", "items": {}},
    "dict of triples": {"kind": "dict", "items": [[1, 2, 3]]},
    "dict with a list for key": {"kind": "dict", "items": [[[1], 2]]},
    "dict with a key twice": {"kind": "dict", "items": [["a", 2], ["a", 3]]},
    "dict with an equal key": {"kind": "dict", "items": [[True, 2], [1, 3]]},
    "float": {"kind": "float", "value": "1e5"},
    "float of a number": {"kind": "float", "value": 1},
    "scalar of a list": {"kind": "scalar", "dtype": "float64", "value": [1]},
    "scalar of wrong type": {"kind": "scalar", "dtype": "float64", "value": "1"},
    "scalar out of range": {"kind": "scalar", "dtype": "int8", "value": 1000},
    "scalar far out of range": {"kind": "scalar", "dtype": "uint64", "value": 10**90},
    "negative scalar": {"kind": "scalar", "dtype": "uint8", "value": -1},
    "scalar of unknown type": {"kind": "scalar", "dtype": "object", "value": 1},
    "missing block": {"kind": "array", "block": "nothing"},
    "stolen block": {"kind": "array", "block": PREFIX + "kind"},
    "text as array": {"kind": "array", "block": "domains0"},
    "array as text": {"kind": "domains", "block": PREFIX + "kind"},
    "strings of another type": {"kind": "strings", "block": PREFIX + "kind"},
    "objects of wrong count": {"kind": "objects", "shape": [2], "items": [1]},
    "objects of negative shape": {"kind": "objects", "shape": [-1, -1], "items": [1]},
    "objects of huge shape": {"kind": "objects", "shape": [0, 2**70], "items": []},
    "objects of large shape": {"kind": "objects", "shape": [0, *[2**30] * 7], "items": []},
    "objects of nine dimensions": {"kind": "objects", "shape": [1] * 9, "items": [1]},
    "circuit twice": {"kind": "circuit", "arrays": PREFIX, "domains": "domains0"},
    "estimator without class": {"kind": "estimator", "params": {}, "state": {}},
    "estimator of wrong class": {"kind": "estimator", "class": 1, "params": {}, "state": {}},
    "estimator of a list": {"kind": "estimator", "class": "Toy", "params": [], "state": {}},
}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize("place", ["params", "state"])
def test_malformed_values(fitted, place, entry):
    def change(document):
        target = document["header"][place]
        target["options" if place == "params" else "value_"] = [entry]

    with pytest.raises(ModelFileError):
        loads(with_header(fitted, change))


def test_strings_that_are_no_unicode(fitted):
    for points in (
        np.array([[0x110000]], dtype=np.uint32),
        np.array([[2**32 - 1]], dtype=np.uint32),
        np.zeros((3, 0), dtype=np.uint32),
        np.array(5, dtype=np.uint32),
    ):

        def change(header, blocks, points=points):
            blocks["points"] = points
            header["state"]["value_"] = {"kind": "strings", "block": "points"}

        with pytest.raises(ModelFileError, match="strings"):
            loads(rewrite(fitted, change))


def test_memory_stays_near_the_size_of_the_file(data):
    # All the parts that declare sizes, each with the largest lie that its place allows.
    lies = [
        broken(data, "child_ptr", -1, 2**62),
        broken(data, "fam_table_ptr", -1, 2**62),
        with_columns(data, lambda columns: columns[0].update(n_states=65534, labels=None)),
        with_header(data, lambda d: d["blocks"][0].__setitem__(4, 2**61)),
        with_header(data, lambda d: d["blocks"][0].__setitem__(2, [2**61])),
    ]
    for lie in lies:
        tracemalloc.start()
        with pytest.raises(ModelFileError):
            loads(lie)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20
