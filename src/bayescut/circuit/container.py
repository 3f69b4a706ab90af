"""One file of typed arrays under a JSON header: the envelope of every saved model.

The format, version 1, all integers little endian on every machine::

    offset  size  content
    0       8     magic bytes 89 42 43 54 0D 0A 1A 0A
    8       2     format version, uint16
    10      2     reserved, zero
    12      4     header length H, uint32, at most 64 MiB
    16      8     length of the whole file, uint64
    24      H     strict JSON {"header": {...}, "blocks": [[name, dtype, shape, packed, raw]]}
    24+H    ...   the blocks, one zlib stream of `packed` bytes each, in the order of the table
    end-32  32    sha256 of everything before it

Numeric blocks are split into byte planes before compression (all first bytes, then all second
bytes, ...): index arrays become long runs of zeros. Text blocks are UTF-8.

Nothing in a file is ever executed or imported, and nothing that it declares is believed before it
is checked against the bytes that are really there, so memory stays within a fixed factor of the
size of the file. The checksum finds accidents, not attackers: who reads arrays from a container
still has to check every index in them.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from math import isfinite, prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayescut.exceptions import ModelFileError

__all__ = ["DTYPES", "FORMAT_VERSION", "Block", "pack", "parse_json", "read_bytes", "unpack"]

Block = NDArray[Any] | str

# The line ends and the control-Z show a transfer in text mode, the high bit a 7-bit one.
MAGIC = b"\x89BCT\r\n\x1a\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<8sHHIQ")
_DIGEST_BYTES = 32
MIN_FILE_BYTES = _PREFIX.size + _DIGEST_BYTES

MAX_HEADER_BYTES = 64 << 20
MAX_NESTING = 64
MAX_NUMBER_CHARS = 400  # int() of a long literal takes quadratic time
MAX_DIMENSIONS = 8

# Deflate cannot expand by more than 1032: a larger claim is a lie and is refused unread.
MAX_RATIO = 1032
RATIO_SLACK = 64
# Text is parsed into Python objects, which weigh some 20 times as much, so it may expand by less.
MAX_TEXT_RATIO = 64
TEXT_SLACK = 1 << 20

DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype("?"),
    "int8": np.dtype("i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
    "uint64": np.dtype("<u8"),
    "float64": np.dtype("<f8"),
}
_TEXT = "utf8"


class Reader(Protocol):
    """Anything with a binary ``read``."""

    def read(self, size: int, /) -> bytes | None: ...


# ---------------------------------------------------------------------------------------- writing


def pack(header: Mapping[str, Any], blocks: Mapping[str, Block]) -> bytes:
    """Bytes of a container.

    Parameters
    ----------
    header : mapping
        JSON-able values; floats have to be finite.
    blocks : mapping of str to ndarray or str
        Arrays of bool, integers or float64, and texts. Byte order and memory layout are free.

    Returns
    -------
    bytes

    Raises
    ------
    ModelFileError
        If a value has no place in the format.

    Examples
    --------
    >>> import numpy as np
    >>> data = pack({"kind": "demo"}, {"x": np.arange(3)})
    >>> header, blocks = unpack(data)
    >>> header, blocks["x"]
    ({'kind': 'demo'}, array([0, 1, 2]))
    """
    table: list[list[Any]] = []
    payload: list[bytes] = []
    for name, block in blocks.items():
        if isinstance(block, str):
            packed, raw = _pack_text(name, block)
            table.append([name, _TEXT, [], len(packed), raw])
        else:
            packed = _pack_array(name, block)
            table.append([name, block.dtype.name, list(block.shape), len(packed), block.nbytes])
        payload.append(packed)
    head = write_json({"header": dict(header), "blocks": table}).encode("ascii")
    if len(head) > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"the header of this model takes {len(head)} bytes; a file holds {MAX_HEADER_BYTES}"
        )
    total = _PREFIX.size + len(head) + sum(map(len, payload)) + _DIGEST_BYTES
    parts = [_PREFIX.pack(MAGIC, FORMAT_VERSION, 0, len(head), total), head, *payload]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def _pack_array(name: str, array: NDArray[Any]) -> bytes:
    dtype = DTYPES.get(array.dtype.name)
    if dtype is None or array.ndim > MAX_DIMENSIONS:
        raise ModelFileError(
            f"array {name!r} of dtype {array.dtype} and {array.ndim} dimensions cannot be stored"
        )
    little = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
    planes = little.view(np.uint8).reshape(-1, dtype.itemsize).T
    return zlib.compress(planes.tobytes(), 9)


def _pack_text(name: str, text: str) -> tuple[bytes, int]:
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ModelFileError(f"text {name!r} is no valid Unicode: {error}") from error
    packed = zlib.compress(raw, 9)
    if len(raw) > MAX_TEXT_RATIO * len(packed) + TEXT_SLACK:
        packed = zlib.compress(raw, 0)
    return packed, len(raw)


def write_json(value: Any) -> str:
    """Compact ASCII JSON without NaN and infinities."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the model holds a value that JSON cannot: {error}") from error


# ---------------------------------------------------------------------------------------- reading


def read_bytes(stream: Reader) -> bytearray:
    """All bytes of the container in a binary stream, and at most one more.

    The stream is read in pieces, as far as it goes: a length declared in the file reserves no
    memory, and a stream that is no container is left after its first bytes.
    """
    data = bytearray()
    _extend(stream, data, _PREFIX.size)
    _, total = _check_prefix(data)
    _extend(stream, data, total + 1)
    return data


def _extend(stream: Reader, data: bytearray, upto: int) -> None:
    while len(data) < upto:
        piece = stream.read(min(upto - len(data), 1 << 20))
        if not piece:
            return
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise TypeError("the file object has to be opened in binary mode ('rb')")
        data += piece


def unpack(data: bytes | bytearray | memoryview) -> tuple[dict[str, Any], dict[str, Block]]:
    """Header and blocks of a container: the inverse of `pack`.

    Parameters
    ----------
    data : bytes-like
        A whole container, nothing before and nothing after it.

    Returns
    -------
    header : dict
    blocks : dict of str to ndarray or str
        Arrays are new, writeable and in the byte order of the machine.

    Raises
    ------
    ModelFileError
        If anything is wrong, saying what.
    """
    view = memoryview(data).cast("B")
    head_bytes, total = _check_prefix(view)
    if len(view) < total:
        raise ModelFileError(
            f"the file is truncated: it has {len(view)} bytes and should have {total}"
        )
    if len(view) > total:
        raise ModelFileError(f"the file has extra bytes after its end at {total}")
    body = view[: total - _DIGEST_BYTES]
    if hashlib.sha256(body).digest() != view[total - _DIGEST_BYTES :]:
        raise ModelFileError("the file is corrupt: its checksum does not match its content")
    head = body[_PREFIX.size : _PREFIX.size + head_bytes]
    header, table = _check_header(parse_json(bytes(head)))
    return header, _unpack_blocks(table, body[_PREFIX.size + head_bytes :])


def _check_prefix(data: bytearray | memoryview) -> tuple[int, int]:
    """Lengths of the header and of the file, as declared and possible."""
    if len(data) == 0:
        raise ModelFileError("the file is empty")
    magic = bytes(data[: len(MAGIC)])
    if magic != MAGIC[: len(magic)]:
        raise ModelFileError("this is not a bayescut model file (wrong magic bytes)")
    if len(data) < _PREFIX.size:
        raise ModelFileError(f"the file is truncated: it ends after {len(data)} bytes")
    _, version, reserved, head_bytes, total = _PREFIX.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"the file has format version {version} and this bayescut reads up to "
            f"{FORMAT_VERSION}: upgrade bayescut"
        )
    if version != FORMAT_VERSION or reserved != 0:
        raise ModelFileError(f"the file is corrupt: no format version {version}.{reserved} exists")
    if head_bytes > MAX_HEADER_BYTES or head_bytes > total - MIN_FILE_BYTES:
        raise ModelFileError(
            f"the file is corrupt: a header of {head_bytes} bytes in a file of {total}"
        )
    return head_bytes, total


def parse_json(text: bytes) -> Any:
    """Value of strict JSON: UTF-8, no duplicate keys, finite numbers, bounded nesting."""
    if _nesting(text) > MAX_NESTING:
        raise ModelFileError(f"the JSON in the file nests deeper than {MAX_NESTING}")
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
        )
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError, JSONDecodeError
        raise ModelFileError(f"the file holds bad JSON: {error}") from error


def _nesting(text: bytes) -> int:
    """Deepest bracket level outside strings, found before the recursive parser runs.

    Malformed text may give any number; the parser then refuses it, at no more than this depth.
    """
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    codes = np.frombuffer(plain, dtype=np.uint8)
    if codes.size == 0:
        return 0
    # Parity of the quotes so far: 1 inside a string. Counting modulo 256 keeps the parity.
    inside = np.cumsum(codes == ord('"'), dtype=np.uint8) & 1
    step = np.zeros(256, dtype=np.int8)
    step[[ord("["), ord("{")]] = 1
    step[[ord("]"), ord("}")]] = -1
    steps = step[codes]
    steps[inside == 1] = 0
    return int(np.cumsum(steps, dtype=np.int32).max())


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ModelFileError("the JSON in the file has a key twice in one object")
    return result


def _integer(literal: str) -> int:
    if len(literal) > MAX_NUMBER_CHARS:
        raise ModelFileError("the JSON in the file has a number with too many digits")
    return int(literal)


def _real(literal: str) -> float:
    value = float(literal)
    if not isfinite(value):
        raise ModelFileError(f"the JSON in the file has the number {literal[:40]}, out of range")
    return value


def _constant(literal: str) -> float:
    raise ModelFileError(f"the JSON in the file has {literal}, which is not JSON")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _check_header(document: Any) -> tuple[dict[str, Any], list[Any]]:
    if not isinstance(document, dict) or set(document) != {"header", "blocks"}:
        raise ModelFileError("the header is malformed: it needs 'header' and 'blocks' alone")
    header, table = document["header"], document["blocks"]
    if not isinstance(header, dict) or not isinstance(table, list):
        raise ModelFileError("the header is malformed: an object and a list are expected")
    return header, table


def _unpack_blocks(table: list[Any], payload: memoryview) -> dict[str, Block]:
    # The whole table is checked before the first byte is decompressed.
    names: set[str] = set()
    position = 0
    for row in table:
        _check_row(row)
        name, packed = row[0], row[3]
        if name in names:
            raise ModelFileError(f"the block table names {name!r} twice")
        names.add(name)
        position += packed
    if position != len(payload):
        raise ModelFileError(
            f"the block table claims {position} bytes and the file holds {len(payload)}"
        )
    blocks: dict[str, Block] = {}
    position = 0
    for name, dtype, shape, packed, raw in table:
        content = _inflate(name, payload[position : position + packed], raw)
        position += packed
        if dtype == _TEXT:
            blocks[name] = _text(name, content)
        else:
            blocks[name] = _array(name, content, DTYPES[dtype], shape)
    return blocks


def _check_row(row: Any) -> None:
    if not isinstance(row, list) or len(row) != 5:
        raise ModelFileError("the block table is malformed: rows of five entries are expected")
    name, dtype, shape, packed, raw = row
    if not isinstance(name, str) or not isinstance(dtype, str) or not isinstance(shape, list):
        raise ModelFileError("the block table is malformed: name, dtype or shape is of wrong type")
    if not _is_size(packed) or not _is_size(raw):
        raise ModelFileError(f"block {name!r} has an impossible size: {packed!r}, {raw!r}")
    if dtype == _TEXT:
        possible = not shape and raw <= MAX_TEXT_RATIO * packed + TEXT_SLACK
    elif dtype not in DTYPES:
        raise ModelFileError(f"block {name!r} has the unknown dtype {dtype!r}")
    elif len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise ModelFileError(f"block {name!r} has an impossible shape")
    else:
        itemsize = DTYPES[dtype].itemsize
        # numpy multiplies the extents even of an empty array; the product has to fit.
        fits = prod(max(extent, 1) for extent in shape) * itemsize < 1 << 62
        possible = fits and prod(shape) * itemsize == raw
    if not possible or raw > MAX_RATIO * packed + RATIO_SLACK:
        raise ModelFileError(
            f"block {name!r} cannot hold {raw} bytes as {dtype} of shape {shape} "
            f"in {packed} compressed bytes"
        )


def _inflate(name: str, packed: memoryview, raw: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than declared, so that the end of the stream is reached and an excess
        # shows. The output grows with what is found: `raw` reserves nothing.
        content = stream.decompress(packed, raw + 1)
    except zlib.error as error:
        raise ModelFileError(f"block {name!r} is corrupt: {error}") from error
    except (MemoryError, OverflowError) as error:
        raise ModelFileError(f"block {name!r} needs {raw} bytes: not enough memory") from error
    if len(content) != raw or not stream.eof or stream.unused_data:
        raise ModelFileError(f"block {name!r} does not hold the {raw} bytes it declares")
    return content


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"text {name!r} is no valid UTF-8: {error}") from error


def _array(name: str, content: bytes, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
    planes = np.frombuffer(content, dtype=np.uint8).reshape(dtype.itemsize, -1)
    if dtype.kind == "b" and planes.size and planes.max() > 1:
        raise ModelFileError(f"block {name!r} of truth values holds a byte other than 0 and 1")
    flat = planes.T.copy(order="C").view(dtype).reshape(shape)
    return flat.astype(dtype.newbyteorder("="), copy=False)
