"""Saving and loading: bit-exact round trips, atomic writing, refusal of what cannot be stored."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.files.models import Toy, circuit_of_every_kind, same_circuit

import bayescut.files as files
from bayescut.circuit import Circuit, build
from bayescut.data import Domain, Domains
from bayescut.exceptions import ModelFileError
from bayescut.files import dumps, load, loads, save


@pytest.fixture
def circuit():
    return circuit_of_every_kind()


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(files.ESTIMATORS, "Toy", Toy.__module__)


def round_trip(model):
    return loads(dumps(model))


# ------------------------------------------------------------------------------------- circuits


def test_a_circuit_comes_back_bit_by_bit(circuit):
    back = round_trip(circuit)
    assert isinstance(back, Circuit)
    assert same_circuit(circuit, back)
    assert back.domains[1].labels.tolist() == ["klein", "mittel", "groß"]
    assert [type(label) for label in back.domains[2].labels.tolist()] == [int, int]
    assert not back.log_weight.flags.writeable
    assert dumps(back) == dumps(circuit)


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_paths(circuit, tmp_path, kind):
    path = kind(str(tmp_path / "größe.bc"))
    save(circuit, path)
    assert same_circuit(load(path), circuit)
    assert os.listdir(tmp_path) == ["größe.bc"]


def test_file_objects(circuit, tmp_path):
    stream = io.BytesIO()
    save(circuit, stream)
    assert stream.getvalue() == dumps(circuit)
    stream.seek(0)
    assert same_circuit(load(stream), circuit)
    with open(tmp_path / "model.bc", "wb", buffering=0) as raw:
        save(circuit, raw)
    with open(tmp_path / "model.bc", "rb") as buffered:
        assert same_circuit(load(buffered), circuit)
    stream = io.BytesIO(b"before" + dumps(circuit))
    stream.seek(6)
    assert same_circuit(load(stream), circuit)


def test_a_writer_that_takes_a_few_bytes_at_a_time(circuit):
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:100]))

    stream = Slow()
    save(circuit, stream)
    assert stream.getvalue() == dumps(circuit)


def test_text_files_and_other_objects_are_type_errors(circuit, tmp_path):
    for target in (io.StringIO(), None, 3):
        with pytest.raises(TypeError, match="binary"):
            save(circuit, target)
        with pytest.raises(TypeError, match="binary"):
            load(target if target is None or isinstance(target, int) else io.StringIO("x"))
    with pytest.raises(TypeError, match="Circuit or an estimator"):
        save({"a": 1}, tmp_path / "x.bc")
    assert os.listdir(tmp_path) == []


def test_bytes_likes(circuit):
    data = dumps(circuit)
    assert same_circuit(loads(bytearray(data)), circuit)
    assert same_circuit(loads(memoryview(data)), circuit)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.bc")
    with pytest.raises(FileNotFoundError):
        save(circuit_of_every_kind(), tmp_path / "no folder" / "x.bc")


def test_the_error_names_the_file(tmp_path):
    path = tmp_path / "model.bc"
    path.write_bytes(b"something else")
    with pytest.raises(ModelFileError, match=r"model\.bc.*not a bayescut model file"):
        load(path)


def test_a_device_is_written_to_and_not_replaced(circuit):
    if not os.path.exists("/dev/null"):
        pytest.skip("no such device here")
    save(circuit, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(ModelFileError, match="empty"):
        load("/dev/null")


LABELS = {
    "bool": [True, False],
    "int": [-(2**63), 2**63 - 1],
    "large int": [2**80, -(2**80)],
    "float": [0.1, -0.0],
    "tiny float": [5e-324, 1.7976931348623157e308],
    "str": ["", "ü🦉\n\0"],
    "surrogate": ["\ud800", "ok"],
    "mixed": [1, "1"],
    "mixed numbers": [False, 2.0],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_and_their_types(labels):
    array = np.empty(2, dtype=object)
    array[:] = labels
    domains = Domains([Domain("x", 2, array, None)])
    circuit = build.circuit(build.categorical(0, [0.5, 0.5]), domains)
    back = round_trip(circuit).domains
    assert back == domains
    restored = back[0].labels
    assert restored.dtype == domains[0].labels.dtype
    assert [(type(x), repr(x)) for x in restored.tolist()] == [(type(x), repr(x)) for x in labels]


# ------------------------------------------------------------------------------------- atomicity


def test_a_failure_leaves_the_old_file(circuit, tmp_path, monkeypatch):
    path = tmp_path / "model.bc"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="disk full"):
                save(circuit, path)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["model.bc"]


def test_an_interrupt_leaves_the_old_file(circuit, tmp_path, monkeypatch):
    path = tmp_path / "model.bc"
    path.write_bytes(b"old")

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(circuit, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.bc"]


def test_a_model_that_cannot_be_stored_touches_nothing(registered, tmp_path):
    path = tmp_path / "model.bc"
    path.write_bytes(b"old")
    with pytest.raises(ModelFileError):
        save(Toy(options=object()), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.bc"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX")
def test_modes_and_links(circuit, tmp_path):
    path, link = tmp_path / "model.bc", tmp_path / "link.bc"
    umask = os.umask(0o027)
    try:
        save(circuit, path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    save(circuit, link)
    assert link.is_symlink() and same_circuit(load(path), circuit)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


# ------------------------------------------------------------------------------------- estimators

VALUES = {
    "none": None,
    "bool": True,
    "int": -(2**70),
    "float": 0.1,
    "minus zero": -0.0,
    "inf": float("inf"),
    "nan": float("nan"),
    "str": "ü\ud800\0",
    "list": [1, [2.0, "x"], []],
    "tuple": (1, (None,), ()),
    "dict": {"a": 1, 2: (3,), True: {}},
    "kind dict": {"kind": "estimator"},
    "float64": np.float64(0.1),
    "float64 inf": np.float64("-inf"),
    "int32": np.int32(-7),
    "uint64": np.uint64(2**64 - 1),
    "bool_": np.bool_(True),
    "str_": np.str_("x"),
    "array": np.array([[0.1, np.nan], [-0.0, np.inf]]),
    "strings": np.array([["a", "größe"], ["", "🦉"]]),
    "names": np.array(["a", "größe", "", None, 3, 0.5], dtype=object),
    "object matrix": np.array([["a", "b"]], dtype=object),
    "a string": np.array("abc"),
    "empty strings": np.array(["", ""], dtype="<U0"),
    "no strings": np.array([], dtype="<U3"),
    "big endian strings": np.array(["ab"], dtype=">U2"),
    "zero-dimensional": np.array(1.5),
    "domains": Domains.of_sizes([2, 3, 0]),
}


def identical(a, b):
    """Same type and same bits, all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("=") or a.shape != b.shape:
            return False
        if a.dtype.kind in "OU":
            return all(map(identical, a.ravel().tolist(), b.ravel().tolist()))
        return a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return identical(list(a.items()), list(b.items()))
    if isinstance(a, Domains):
        return a == b
    return repr(a) == repr(b)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_parameters_and_states(registered, circuit, value):
    model = Toy(ess=float("inf"), random_state=7, options=value)
    assert identical(round_trip(model).get_params(), model.get_params())
    model.circuit_ = circuit
    model.value_ = value
    model.many_ = [value, (value, circuit)]
    back = round_trip(model)
    assert type(back) is Toy
    assert identical(back.options, value) and identical(back.value_, value)
    assert identical(back.many_[0], value)
    assert same_circuit(back.circuit_, circuit) and same_circuit(back.many_[1][1], circuit)
    assert list(vars(back)) == list(vars(model))
    assert dumps(back) == dumps(model)


def test_an_unfitted_estimator_comes_back_unfitted(registered):
    back = round_trip(Toy(ess=3))
    assert vars(back) == {"ess": 3, "random_state": None, "options": None, "base": None}


def test_estimators_within_estimators(registered, circuit):
    inner = Toy(ess=2)
    inner.circuit_ = circuit
    outer = Toy(base=inner)
    outer.circuit_, outer.parts_ = circuit, [inner, inner]
    back = round_trip(outer)
    assert same_circuit(back.base.circuit_, circuit)
    assert [part.ess for part in back.parts_] == [2, 2]


def test_circuits_share_their_columns(registered, circuit):
    model = Toy()
    model.circuit_ = circuit
    alone = len(dumps(model))
    model.parts_ = [circuit] * 3
    back = round_trip(model)
    assert back.parts_[0].domains is back.circuit_.domains
    assert len(dumps(model)) < 5 * alone


REFUSED = {
    "RandomState": (np.random.RandomState(0), "integer seed"),
    "Generator": (np.random.default_rng(0), "integer seed"),
    "object": (object(), "cannot be stored"),
    "function": (print, "cannot be stored"),
    "class": (Toy, "cannot be stored"),
    "bytes": (b"abc", "cannot be stored"),
    "complex": (1j, "cannot be stored"),
    "set": ({1}, "cannot be stored"),
    "date": (np.datetime64("2020-01-01"), "cannot be stored"),
    "dates": (np.array(["2020-01-01"], dtype="datetime64[D]"), "cannot be stored"),
    "float32": (np.float32(1), "cannot be stored"),
    "record": (np.zeros(1, dtype=[("a", "i4")]), "cannot be stored"),
    "large": (10**200, "too large"),
    "key": ({(1, 2): 3}, "key"),
    "in a list": ([1, [2, object()]], r"parameter 'options'\[1\]\[1\]"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stored_is_named(registered, value, message):
    with pytest.raises(ModelFileError, match="parameter 'options'") as caught:
        dumps(Toy(options=value))
    assert caught.match(message)


def test_a_random_generator_as_seed_is_refused(registered):
    with pytest.raises(ModelFileError, match=r"parameter 'random_state' is a Generator.*integer"):
        dumps(Toy(random_state=np.random.default_rng(0)))


def test_a_list_within_itself_is_refused(registered):
    endless: list = []
    endless.append(endless)
    with pytest.raises(ModelFileError, match="nests too deep"):
        dumps(Toy(options=endless))


def test_the_deepest_value_allowed_comes_back(registered):
    def nested(depth, wrap):
        value = 1
        for _ in range(depth):
            value = wrap(value)
        return value

    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: Toy(options=v)):
        deepest = nested(files.MAX_DEPTH - 1, wrap)
        data = dumps(Toy(options=deepest))
        assert dumps(loads(data)) == data
        with pytest.raises(ModelFileError, match="too deep"):
            dumps(Toy(options=nested(files.MAX_DEPTH + 1, wrap)))


def test_classes_out_of_the_registry_are_refused(registered):
    class Derived(Toy):
        pass

    class Foreign:
        pass

    Foreign.__name__ = "Toy"
    for model in (Derived(), Foreign()):
        with pytest.raises(TypeError, match="estimator of bayescut"):
            dumps(model)
