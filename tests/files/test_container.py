"""The container: round trips, and every way a file can be wrong."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from bayescut.circuit import container
from bayescut.circuit.container import pack, parse_json, read_bytes, unpack
from bayescut.exceptions import ModelFileError

HEADER = {"kind": "demo", "list": [1, 2.5, None, True, "é\ud800"]}
BLOCKS = {
    "float64": np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 5e-324]),
    "int64": np.arange(-3, 4, dtype=np.int64),
    "uint8": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "bool": np.array([True, False]),
    "scalar": np.array(7, dtype=np.int32),
    "empty": np.zeros((0, 3)),
    "text": "Grüße 🦉",
}


def sealed(document, payload=b"", version=1, reserved=0, head_bytes=None, total=None):
    """A file with a right checksum around anything."""
    head = document if isinstance(document, bytes) else json.dumps(document).encode()
    size = 24 + len(head) + len(payload) + 32
    prefix = struct.pack(
        "<8sHHIQ",
        container.MAGIC,
        version,
        reserved,
        len(head) if head_bytes is None else head_bytes,
        size if total is None else total,
    )
    body = prefix + head + payload
    return body + hashlib.sha256(body).digest()


def one_block(dtype="float64", shape=(2,), raw=None, packed=None, content=None, name="x"):
    """A file with one block, of which any part can be a lie."""
    content = bytes(16) if content is None else content
    stream = zlib.compress(content)
    row = [
        name,
        dtype,
        list(shape) if isinstance(shape, tuple) else shape,
        len(stream) if packed is None else packed,
        len(content) if raw is None else raw,
    ]
    return sealed({"header": {}, "blocks": [row]}, stream)


def test_round_trip_keeps_bits_shapes_and_types():
    header, blocks = unpack(pack(HEADER, BLOCKS))
    assert header == HEADER
    assert list(blocks) == list(BLOCKS)
    assert blocks.pop("text") == BLOCKS["text"]
    for name, array in blocks.items():
        expected = BLOCKS[name]
        assert array.dtype == expected.dtype and array.dtype.isnative, name
        assert array.shape == expected.shape and array.tobytes() == expected.tobytes(), name
        assert array.flags.writeable and array.flags.c_contiguous


def test_the_same_content_gives_the_same_bytes():
    assert pack(HEADER, BLOCKS) == pack(HEADER, BLOCKS)


def test_files_are_little_endian_whatever_the_arrays_are():
    values = np.array([1.5, -2.0, 3e300])
    big, strided = values.astype(">f8"), np.repeat(values, 2)[::2]
    assert pack({}, {"x": big}) == pack({}, {"x": values}) == pack({}, {"x": strided})
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(unpack(pack({}, {"x": fortran}))[1]["x"], fortran)


def test_index_arrays_shrink():
    array = np.arange(10_000, dtype=np.int64)
    assert len(pack({}, {"x": array})) < array.nbytes / 50


def test_a_uniform_text_stays_within_the_bound_of_texts():
    text = "a" * (8 << 20)
    assert unpack(pack({}, {"x": text}))[1]["x"] == text


@pytest.mark.parametrize(
    "array",
    [np.array(["a"]), np.array([1j]), np.array([None]), np.zeros((1,) * 9), np.float32([1.0])],
    ids=["str", "complex", "object", "nine dimensions", "float32"],
)
def test_other_arrays_are_refused_when_written(array):
    with pytest.raises(ModelFileError, match="cannot be stored"):
        pack({}, {"x": array})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_other_header_values_are_refused_when_written(value):
    with pytest.raises(ModelFileError, match="JSON cannot"):
        pack({"x": value}, {})


def test_a_header_over_the_limit_is_refused_when_written(monkeypatch):
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ModelFileError, match="header of this model"):
        pack({"x": "a" * 100}, {})


def test_every_truncation_is_refused():
    data = pack(HEADER, BLOCKS)
    for size in range(len(data)):
        with pytest.raises(ModelFileError, match=r"truncated|empty"):
            unpack(data[:size])
        with pytest.raises(ModelFileError, match=r"truncated|empty"):
            unpack(read_bytes(io.BytesIO(data[:size])))


def test_every_bit_flip_is_refused():
    data = bytearray(pack(HEADER, BLOCKS))
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(ModelFileError):
                unpack(data)
            data[position] ^= 1 << bit
    unpack(data)


def test_extra_bytes_are_refused():
    data = pack(HEADER, BLOCKS) + b"\0"
    with pytest.raises(ModelFileError, match="extra bytes"):
        unpack(data)
    with pytest.raises(ModelFileError, match="extra bytes"):
        unpack(read_bytes(io.BytesIO(data + bytes(100))))


@pytest.mark.parametrize(
    "data", [b"PK\x03\x04" + bytes(100), b"\x80\x04\x95" + bytes(100), b"hello", bytes(500)]
)
def test_other_files_are_refused(data):
    with pytest.raises(ModelFileError, match="not a bayescut model file"):
        unpack(data)


def test_versions():
    document = {"header": {}, "blocks": []}
    assert unpack(sealed(document)) == ({}, {})
    with pytest.raises(ModelFileError, match=r"version 2 .*upgrade bayescut"):
        unpack(sealed(document, version=2))
    with pytest.raises(ModelFileError, match="upgrade bayescut"):
        unpack(sealed(b"a layout of the future", version=65535))
    with pytest.raises(ModelFileError, match="corrupt"):
        unpack(sealed(document, version=0))
    with pytest.raises(ModelFileError, match="corrupt"):
        unpack(sealed(document, reserved=1))


@pytest.mark.parametrize("head_bytes", [1, 3, 1000, (64 << 20) + 1, 2**32 - 1])
def test_a_wrong_header_length_is_refused(head_bytes):
    with pytest.raises(ModelFileError):
        unpack(sealed({"header": {}, "blocks": []}, head_bytes=head_bytes))


@pytest.mark.parametrize("total", [0, 1, 56, 2**40, 2**64 - 1])
def test_a_wrong_file_length_is_refused_without_memory(total):
    data = sealed({"header": {}, "blocks": []}, total=total)
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        unpack(read_bytes(io.BytesIO(data)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_stream_without_end_is_left_after_its_first_bytes():
    class Endless:
        n_read = 0

        def read(self, size):
            self.n_read += size
            return bytes(size)

    stream = Endless()
    with pytest.raises(ModelFileError, match="not a bayescut"):
        read_bytes(stream)
    assert stream.n_read < 100


def test_a_stream_may_give_its_bytes_in_drops():
    class Drops(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 7))

    data = pack(HEADER, BLOCKS)
    assert read_bytes(Drops(data)) == data


def test_a_text_stream_is_a_type_error():
    with pytest.raises(TypeError, match="binary"):
        read_bytes(io.StringIO("hello"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "bad JSON"),
        (b"", "bad JSON"),
        (b"\xff", "bad JSON"),
        (b"[1,]", "bad JSON"),
        (b"[1] 2", "bad JSON"),
        (b'{"a": 1, "a": 1}', "key twice"),
        (b'[{"a": {"b": 1, "b": 2}}]', "key twice"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "out of range"),
        (b"1" * 1000, "too many digits"),
        (b"[" * 100_000, "nests deeper"),
        (b"[" * 65 + b"]" * 65, "nests deeper"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nests deeper"),
        (b'["\\\\",' * 65 + b"1" + b"]" * 65, "nests deeper"),
        (b'["\\"",' * 65 + b"1" + b"]" * 65, "nests deeper"),
    ],
)
def test_bad_json(text, message):
    with pytest.raises(ModelFileError, match=message):
        parse_json(text)


def test_brackets_in_strings_do_not_nest():
    for inner in ["[" * 1000, '"' + "{" * 1000, '\\"[' * 500, "\\" + "[" * 1000, "\\" * 7 + '"[[']:
        assert parse_json(json.dumps([inner]).encode()) == [inner]
    assert parse_json(b"[" * 64 + b"]" * 64) is not None
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"header": {}},
        {"header": {}, "blocks": [], "more": 1},
        {"header": [], "blocks": []},
        {"header": {}, "blocks": {}},
        {"header": {}, "blocks": [[]]},
        {"header": {}, "blocks": [{}]},
        {"header": {}, "blocks": [[1, "bool", [0], 8, 0]]},
        {"header": {}, "blocks": [["x", 1, [0], 8, 0]]},
        {"header": {}, "blocks": [["x", "bool", 0, 8, 0]]},
    ],
)
def test_malformed_headers(document):
    with pytest.raises(ModelFileError, match="malformed"):
        unpack(sealed(document))


@pytest.mark.parametrize(
    "lie",
    [
        {"dtype": "object"},
        {"dtype": "float128"},
        {"dtype": "<f8"},
        {"dtype": "S16"},
        {"shape": (3,)},
        {"shape": (1,)},
        {"shape": (-2,)},
        {"shape": (-1, -2)},
        {"shape": (2.0,)},
        {"shape": (True, 2)},
        {"shape": ("2",)},
        {"shape": (1,) * 8 + (2,)},
        {"shape": (2**62, 4)},
        {"shape": (2**61, 2**61, 0), "raw": 0, "content": b""},
        {"raw": 8, "shape": (1,)},
        {"raw": 24, "shape": (3,)},
        {"raw": 2**40, "shape": (2**37,)},
        {"raw": 2**70, "shape": (2**67,)},
        {"raw": -16},
        {"raw": 16.0},
        {"packed": -1},
        {"packed": 2**40},
        {"packed": 5},
        {"packed": True},
        {"dtype": "bool", "shape": (16,), "content": b"\2" * 16},
        {"dtype": "utf8", "shape": (16,)},
        {"dtype": "utf8", "shape": (), "content": b"\xff" * 16},
        {"dtype": "utf8", "shape": (), "raw": 3 << 20},
    ],
    ids=str,
)
def test_a_lie_about_a_block_is_refused_without_memory(lie):
    data = one_block(**lie)
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        unpack(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_block_named_twice():
    stream = zlib.compress(b"\0")
    row = ["x", "uint8", [1], len(stream), 1]
    with pytest.raises(ModelFileError, match="twice"):
        unpack(sealed({"header": {}, "blocks": [row, row]}, stream * 2))


def test_a_decompression_bomb_is_stopped_at_its_declared_size():
    content = bytes(64 << 20)
    data = one_block(content=content, shape=(2000,), raw=16_000)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="does not hold the 16000 bytes"):
        unpack(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_bomb_of_text_is_refused():
    data = one_block(content=b"[" * (64 << 20), dtype="utf8", shape=())
    with pytest.raises(ModelFileError, match="cannot hold"):
        unpack(data)


@pytest.mark.parametrize(
    "stream",
    [b"", b"x", zlib.compress(bytes(16))[:-1], zlib.compress(bytes(16)) + b"\0", bytes(20)],
    ids=["empty", "short", "cut", "followed", "zeros"],
)
def test_bad_streams(stream):
    row = ["x", "float64", [2], len(stream), 16]
    with pytest.raises(ModelFileError, match="block 'x'"):
        unpack(sealed({"header": {}, "blocks": [row]}, stream))


def test_unclaimed_payload_is_refused():
    with pytest.raises(ModelFileError, match="claims 0 bytes and the file holds 3"):
        unpack(sealed({"header": {}, "blocks": []}, b"abc"))
