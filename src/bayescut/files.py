"""Saving and loading models: one file, no pickle, bit-exact.

A file (format: `bayescut.circuit.container`) holds data alone. Its header describes the model by a
tree of plain values; each JSON object in it has a ``kind`` from a fixed list (``circuit``,
``estimator``, ``array``, ``tuple``, ...), and classes are looked up in `ESTIMATORS`, never
imported by a name from the file. Every index is checked before a model is handed out, so that a
hostile file can do no more than be refused with a `ModelFileError`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bayescut._atomic import write_bytes
from bayescut.circuit._model import ARRAYS, Circuit
from bayescut.circuit.coarse import PACKED, pack_table, unpack_table
from bayescut.circuit.container import DTYPES, Block, pack, parse_json, read_bytes, unpack
from bayescut.data import Domains
from bayescut.exceptions import BayescutError, ModelFileError

__all__ = ["dumps", "load", "loads", "save"]

PathOrFile = str | bytes | os.PathLike[str] | os.PathLike[bytes] | BinaryIO

#: The classes a file may name, and where each lives. An estimator is stored by its constructor
#: parameters and by ``_get_state() -> dict`` (empty before `fit`); ``_set_state(state)`` restores
#: it on a new object. A state holds plain values, arrays, `Domains`, circuits and estimators.
ESTIMATORS: dict[str, str] = {
    "CNet": "bayescut.estimators",
    "CNetBD": "bayescut.estimators",
    "CNetBIC": "bayescut.estimators",
    "ContinuousMixture": "bayescut.estimators",
    "CutsetClassifier": "bayescut.estimators",
    "CutsetEnsemble": "bayescut.estimators",
    "CutsetImputer": "bayescut.estimators",
    "CutsetMixture": "bayescut.estimators",
    "CutsetNetwork": "bayescut.estimators",
    "CutsetOutlierDetector": "bayescut.estimators",
    "CutsetRegressor": "bayescut.estimators",
    "DCSN": "bayescut.estimators",
    "EMCNetBD": "bayescut.estimators",
    "EiNet": "bayescut.estimators",
    "IDSPN": "bayescut.estimators",
    "LearnSPN": "bayescut.estimators",
    "Strudel": "bayescut.estimators",
    "XCNet": "bayescut.estimators",
}

# A family over K >= 2 states each has at most 40 parents; with K = 1 their number is not bounded by
# the table, and checking them would take quadratic time.
MAX_PARENTS = 64

# A level of values takes up to three levels of JSON, which nests 64 deep.
MAX_DEPTH = 16
_MAX_INTEGER = 10**100
_MAX_CODE_POINT = 0x10FFFF
# The dtypes that a column of labels may be restored to. Any other is refused: numpy reads a whole
# language there, in which '(5000,5000)f8' makes 200 MB of every cell.
_WIDTHS = ("8", "16", "32", "64")
_WHOLE = {f"{kind}{width}" for kind in ("int", "uint", "Int", "UInt") for width in _WIDTHS}
_WHOLE |= {f"{kind}{width}[pyarrow]" for kind in ("int", "uint") for width in _WIDTHS}
_REAL = {"float16", "float32", "float64", "Float32", "Float64", "float[pyarrow]", "double[pyarrow]"}
_TRUTH = {"bool", "boolean", "bool[pyarrow]"}
_TEXT = {"str", "string", "string[python]", "string[pyarrow]", "large_string[pyarrow]"}
_ANY = {"object", "category", "category[ordered]"}
COLUMN_DTYPES = frozenset(_WHOLE | _REAL | _TRUTH | _TEXT | _ANY)
# Dates and durations, with time zones by name or by offset.
_TIMES = re.compile(
    r"(datetime64\[(s|ms|us|ns)(, [A-Za-z0-9_+\-/:]{1,40})?\]|timedelta64\[(s|ms|us|ns)\]"
    r"|timestamp\[(s|ms|us|ns)(, tz=[A-Za-z0-9_+\-/:]{1,40})?\]\[pyarrow\]"
    r"|duration\[(s|ms|us|ns)\]\[pyarrow\]|date(32\[day\]|64\[ms\])\[pyarrow\])"
)
_COLUMN = {"name", "n_states", "labels", "dtype"}
_NUMBER = {"grid", "unit", "empty"}
# Settings that are places to write to: a file from elsewhere has no say in that.
_PLACES = ("checkpoint",)
# What checks and constructors may raise on inconsistent content.
_REFUSALS = (
    BayescutError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


# ----------------------------------------------------------------------------------------- public


def save(model: Any, path: PathOrFile) -> None:
    """Write a circuit or an estimator, fitted or not, to one file.

    The file is written beside its place and moved there when it is complete: a failure, a full
    disk or a power cut leaves the old file as it was.

    Parameters
    ----------
    model : Circuit or estimator
        Any circuit, and any estimator of this library.
    path : str, path-like or binary file object
        Where to write; the usual extension is ``.bc``. To a file object the bytes are written at
        its position.

    Raises
    ------
    TypeError
        If `model` is no circuit and no estimator of this library.
    ModelFileError
        If a parameter cannot be stored: random generators (give an integer seed instead) and
        objects that are not plain values, arrays or models.

    See Also
    --------
    load : The inverse.

    Examples
    --------
    >>> import os, tempfile
    >>> from bayescut.circuit import build
    >>> from bayescut.files import load, save
    >>> circuit = build.circuit(build.categorical(0, [0.2, 0.8]), [2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.bc")
    ...     save(circuit, path)
    ...     load(path) == circuit
    True
    """
    data = dumps(model)
    if isinstance(path, str | bytes | os.PathLike):
        write_bytes(path, data)
    else:
        _check_stream(path, "write")
        _write_stream(path, data)


def load(path: PathOrFile) -> Any:
    """Read a model that `save` wrote.

    Safe on files from anywhere: nothing in a file is executed, nothing is taken on trust, and
    memory is bounded by what the file really holds.

    Parameters
    ----------
    path : str, path-like or binary file object
        A file object is read from its position to its end.

    Returns
    -------
    Circuit or estimator
        Equal to the saved model, bit by bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ModelFileError
        If the file is no model, is damaged, or was written in a newer format.

    See Also
    --------
    save : The inverse.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        _check_stream(path, "read")
        return loads(read_bytes(path))
    name = os.fsdecode(path)
    try:
        with open(name, "rb") as stream:
            return loads(read_bytes(stream))
    except ModelFileError as error:
        raise ModelFileError(f"cannot load {name!r}: {error}") from error


def dumps(model: Any) -> bytes:
    """Return the bytes that `save` would write.

    Parameters
    ----------
    model : Circuit or estimator

    Returns
    -------
    bytes
    """
    if not isinstance(model, Circuit) and _registered_name(model) is None:
        raise TypeError(
            f"a model file holds a Circuit or an estimator of bayescut, not {type(model).__name__}"
        )
    encoder = _Encoder()
    return pack(encoder.encode(model, "the model", 0), encoder.blocks)


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Return the model in the bytes of a file; raises as `load` does.

    Parameters
    ----------
    data : bytes-like

    Returns
    -------
    Circuit or estimator
    """
    header, blocks = unpack(data)
    if header.get("kind") not in ("circuit", "estimator"):
        raise ModelFileError("the file holds neither a circuit nor an estimator")
    decoder = _Decoder(blocks)
    model = decoder.decode(header)
    if decoder.blocks:
        raise ModelFileError(f"the file has a block too many: {next(iter(decoder.blocks))!r}")
    return model


def _check_stream(path: Any, method: str) -> None:
    if not hasattr(path, method):
        raise TypeError(f"a path or a binary file object is expected, not {type(path).__name__}")


# --------------------------------------------------------------------------------- model -> blocks


class _Encoder:
    """Turns values into JSON and moves arrays and texts into blocks."""

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self._domains: dict[Domains, str] = {}
        self._n_circuits = 0

    def encode(self, value: Any, where: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ModelFileError(f"{where} nests too deep to be stored")
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            if abs(value) >= _MAX_INTEGER:
                raise ModelFileError(f"{where} is too large a number to be stored")
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, np.generic):
            return self._scalar(value, where, depth)
        if isinstance(value, np.ndarray):
            return self._array(value, where, depth)
        if type(value) in (list, tuple):
            items = [self.encode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
            return items if type(value) is list else {"kind": "tuple", "items": items}
        if type(value) is dict:
            return {"kind": "dict", "items": self._pairs(value, where, depth)}
        if isinstance(value, Domains):
            return {"kind": "domains", "block": self._domain_block(value)}
        if isinstance(value, Circuit):
            return self._circuit(value)
        name = _registered_name(value)
        if name is not None:
            return self._estimator(value, name, where, depth)
        if isinstance(value, np.random.RandomState | np.random.Generator):
            raise ModelFileError(
                f"{where} is a {type(value).__name__}, which cannot be stored: "
                "use an integer seed or None"
            )
        raise ModelFileError(f"{where} is a {type(value).__name__}, which cannot be stored")

    def _pairs(self, value: dict[Any, Any], where: str, depth: int) -> list[list[Any]]:
        pairs = []
        for key, item in value.items():
            if not _is_key(key):
                raise ModelFileError(f"{where} has the key {key!r}, which cannot be stored")
            pairs.append([key, self.encode(item, f"{where}[{key!r}]", depth + 1)])
        return pairs

    def _scalar(self, value: np.generic[Any], where: str, depth: int) -> dict[str, Any]:
        if isinstance(value, np.str_):
            return {"kind": "scalar", "dtype": "str", "value": str(value)}
        name = value.dtype.name
        if name not in DTYPES:
            raise ModelFileError(f"{where} is a numpy {name}, which cannot be stored")
        item = self.encode(value.item(), where, depth + 1)
        return {"kind": "scalar", "dtype": name, "value": item}

    def _array(self, value: NDArray[Any], where: str, depth: int) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = [
                self.encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value.flat)
            ]
            return {"kind": "objects", "shape": list(value.shape), "items": items}
        if value.dtype.kind == "U":
            # As code points, so that the bounds of an array hold for a wide string type too.
            width = max(value.dtype.itemsize // 4, 1)
            flat = np.ascontiguousarray(value, dtype=f"=U{width}").reshape(-1)
            points = flat.view(np.uint32).reshape((*value.shape, width))
            return {"kind": "strings", "block": self._add("array", points)}
        if value.dtype.name not in DTYPES:
            raise ModelFileError(f"{where} has the dtype {value.dtype}, which cannot be stored")
        return {"kind": "array", "block": self._add("array", value)}

    def _add(self, stem: str, block: Block) -> str:
        name = f"{stem}{len(self.blocks)}"
        self.blocks[name] = block
        return name

    def _domain_block(self, domains: Domains) -> str:
        # The circuits of an ensemble share one table, so one text serves them all.
        if domains not in self._domains:
            text = domains.to_json()
            _check_domains(json.loads(text))  # what could not be read again is not written
            self._domains[domains] = self._add("domains", text)
        return self._domains[domains]

    def _circuit(self, circuit: Circuit) -> dict[str, Any]:
        prefix = f"circuit{self._n_circuits}/"
        self._n_circuits += 1
        _check_families(circuit.fam_parent_ptr)
        for name, array in (circuit.arrays() | pack_table(circuit)).items():
            self.blocks[prefix + name] = array
        return {
            "kind": "circuit",
            "arrays": prefix,
            "domains": self._domain_block(circuit.domains),
        }

    def _estimator(self, model: Any, name: str, where: str, depth: int) -> dict[str, Any]:
        inside = "" if depth == 0 else f" of {where}"
        params = model.get_params(deep=False)
        state = model._get_state()
        if state and hasattr(model, "_check_settings"):
            try:
                model._check_settings()
            except _REFUSALS as error:
                raise ModelFileError(
                    f"{where} has a setting that cannot be used: {_describe(error)}"
                ) from error
        return {
            "kind": "estimator",
            "class": name,
            "params": {
                key: None
                if key in _PLACES
                else self.encode(value, f"parameter {key!r}{inside}", depth + 1)
                for key, value in params.items()
            },
            "state": {
                key: self.encode(value, f"attribute {key!r}{inside}", depth + 1)
                for key, value in state.items()
            },
        }


def _is_key(key: Any) -> bool:
    return type(key) in (str, bool) or (type(key) is int and abs(key) < _MAX_INTEGER)


def _registered_name(model: Any) -> str | None:
    name = type(model).__name__
    if name not in ESTIMATORS or type(model) is not _registered_class(name):
        return None
    return name


def _registered_class(name: str) -> Any:
    try:
        return getattr(import_module(ESTIMATORS[name]), name)
    except (ImportError, AttributeError):
        return None


# --------------------------------------------------------------------------------- blocks -> model


class _Decoder:
    """Turns checked blocks back into values; each block is used once, domains may be shared."""

    def __init__(self, blocks: dict[str, Block]) -> None:
        self.blocks = blocks
        self._domains: dict[str, Domains] = {}
        self._kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": self._array,
            "circuit": self._circuit,
            "dict": self._dict,
            "domains": lambda entry: self._domain_block(*_fields(entry, block=str)),
            "estimator": self._estimator,
            "float": self._float,
            "objects": self._objects,
            "scalar": self._scalar,
            "strings": self._strings,
            "tuple": lambda entry: tuple(self._items(*_fields(entry, items=list))),
        }

    def decode(self, entry: Any) -> Any:
        if isinstance(entry, list):
            return self._items(entry)
        if not isinstance(entry, dict):
            return entry
        kind = entry.get("kind")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise ModelFileError(f"the header holds a value of the unknown kind {kind!r}")
        return self._kinds[kind](entry)

    def _items(self, items: list[Any]) -> list[Any]:
        return [self.decode(item) for item in items]

    def _dict(self, entry: dict[str, Any]) -> dict[Any, Any]:
        (pairs,) = _fields(entry, items=list)
        result: dict[Any, Any] = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not _is_key(pair[0]):
                raise ModelFileError("the header holds a malformed dict")
            if pair[0] in result:
                raise ModelFileError(f"the header holds a dict with the key {pair[0]!r} twice")
            result[pair[0]] = self.decode(pair[1])
        return result

    def _float(self, entry: dict[str, Any]) -> float:
        (text,) = _fields(entry, value=str)
        if text not in ("inf", "-inf", "nan"):
            raise ModelFileError(f"the header holds the malformed number {text[:40]!r}")
        return float(text)

    def _scalar(self, entry: dict[str, Any]) -> np.generic[Any]:
        dtype, value = _fields(entry, dtype=str, value=object)
        value = self.decode(value)
        if dtype == "str" and type(value) is str:
            return np.str_(value)
        expected = {"bool": bool, "float64": float}.get(dtype, int)
        if dtype not in DTYPES or type(value) is not expected:
            raise ModelFileError(f"the header holds a malformed number of type {dtype[:40]!r}")
        # Looked at here: before NumPy 2, a number that is too large is wrapped around.
        if expected is int and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise ModelFileError(f"the header holds {value}, too large for {dtype}")
        return np.dtype(dtype).type(value)

    def _take(self, name: str) -> Block:
        try:
            return self.blocks.pop(name)
        except KeyError:
            raise ModelFileError(f"block {name[:80]!r} is missing or used twice") from None

    def _take_array(self, name: str) -> NDArray[Any]:
        block = self._take(name)
        if isinstance(block, str):
            raise ModelFileError(f"block {name!r} is a text where an array is expected")
        return block

    def _array(self, entry: dict[str, Any]) -> NDArray[Any]:
        return self._take_array(*_fields(entry, block=str))

    def _strings(self, entry: dict[str, Any]) -> NDArray[Any]:
        points = self._take_array(*_fields(entry, block=str))
        if points.dtype != np.uint32 or points.ndim == 0 or points.shape[-1] == 0:
            raise ModelFileError("the file holds a malformed array of strings")
        if points.size and points.max() > _MAX_CODE_POINT:
            raise ModelFileError("the file holds an array of strings that are no Unicode")
        return points.view(f"=U{points.shape[-1]}").reshape(points.shape[:-1])

    def _objects(self, entry: dict[str, Any]) -> NDArray[Any]:
        shape, items = _fields(entry, shape=list, items=list)
        if len(shape) > 8 or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
            raise ModelFileError("the header holds an array of impossible shape")
        if math.prod(shape) != len(items) or math.prod(max(n, 1) for n in shape) >= 1 << 58:
            raise ModelFileError(f"the header holds {len(items)} objects for the shape {shape}")
        flat = np.empty(len(items), dtype=object)
        for position, item in enumerate(items):
            flat[position] = self.decode(item)
        return flat.reshape(shape)

    def _domain_block(self, name: str) -> Domains:
        if name not in self._domains:
            text = self._take(name)
            if not isinstance(text, str):
                raise ModelFileError(f"block {name!r} is an array where a text is expected")
            _check_domains(parse_json(text.encode("utf-8")))
            try:
                self._domains[name] = Domains.from_json(text)
            except _REFUSALS as error:
                raise ModelFileError(f"the file describes impossible columns: {error}") from error
        return self._domains[name]

    def _circuit(self, entry: dict[str, Any]) -> Circuit:
        prefix, domains_name = _fields(entry, arrays=str, domains=str)
        packed = prefix + "fam_row" in self.blocks
        dtypes = ARRAYS | PACKED if packed else ARRAYS
        arrays = {name: self._take_array(prefix + name) for name in dtypes}
        for name, dtype in dtypes.items():
            if arrays[name].ndim != 1 or arrays[name].dtype != dtype:
                raise ModelFileError(
                    f"the circuit's array {name!r} has to be {np.dtype(dtype)} in one dimension"
                )
        _check_families(arrays["fam_parent_ptr"])
        domains = self._domain_block(domains_name)
        try:
            if packed:
                n_cells = int(arrays["fam_table_ptr"][-1]) if len(arrays["fam_table_ptr"]) else 0
                parts = {name: arrays.pop(name) for name in PACKED}
                arrays["fam_table"] = unpack_table(**parts, n_cells=n_cells)
            for array in arrays.values():
                array.setflags(write=False)  # a frozen array is taken over without a copy
            return Circuit(domains=domains, **arrays)
        except _REFUSALS as error:
            raise ModelFileError(f"the file holds an inconsistent circuit: {error}") from error

    def _estimator(self, entry: dict[str, Any]) -> Any:
        name, params, state = _fields(entry, **{"class": str, "params": dict, "state": dict})
        cls = _registered_class(name) if name in ESTIMATORS else None
        if cls is None:
            raise ModelFileError(
                f"the file holds a model of the class {name[:80]!r}, unknown to this bayescut"
            )
        arguments = {
            key: None if key in _PLACES else self.decode(value) for key, value in params.items()
        }
        attributes = {key: self.decode(value) for key, value in state.items()}
        try:
            model = cls(**arguments)
            if attributes:
                model._set_state(attributes)
        except _REFUSALS as error:
            raise ModelFileError(
                f"the file holds an inconsistent {name}: {_describe(error)}"
            ) from error
        return model


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, BayescutError) else f"{type(error).__name__}: {error}"


def _fields(entry: Mapping[str, Any], **types: type) -> list[Any]:
    """Values of exactly these fields of a header entry, each of its type."""
    if set(entry) != {"kind", *types}:
        raise ModelFileError(f"the header's {entry.get('kind')!r} entry has wrong fields")
    for name, expected in types.items():
        if not isinstance(entry[name], expected):
            raise ModelFileError(f"the header's {entry['kind']!r} entry has a malformed {name!r}")
    return [entry[name] for name in types]


def _check_families(parent_ptr: NDArray[Any]) -> None:
    """Refuse families so wide that checking them would take long."""
    if np.any(parent_ptr[1:] > parent_ptr[:-1] + MAX_PARENTS):
        raise ModelFileError(f"a family with more than {MAX_PARENTS} parents cannot be stored")


def _check_domains(columns: Any) -> None:
    """Check the types in a description of columns; `Domains` checks what they mean."""
    if not isinstance(columns, list) or not columns:
        raise ModelFileError("the file describes no columns")
    names = set()
    for position, column in enumerate(columns):
        if not isinstance(column, dict) or not _COLUMN <= set(column) <= _COLUMN | _NUMBER:
            raise ModelFileError(f"the description of column {position} has wrong fields")
        name, labels, dtype = column["name"], column["labels"], column["dtype"]
        if (
            not isinstance(name, str | None)
            or type(column["n_states"]) is not int
            or not isinstance(labels, list | None)
            or not isinstance(dtype, str | None)
            or not all(map(_is_label, labels or []))
            or not isinstance(column.get("unit"), str | None)
            or type(column.get("empty", False)) is not bool
        ):
            raise ModelFileError(f"the description of column {position} is malformed")
        if column.get("grid") is not None or column.get("empty", False):
            _check_number_dtype(dtype, column, position)
        else:
            _check_dtype(dtype, labels, column["n_states"], position)
        if name is not None and name in names:
            raise ModelFileError(f"two columns have the name {name[:80]!r}")
        names.add(name)


def _check_dtype(dtype: str | None, labels: list[Any] | None, n_states: int, place: int) -> None:
    """Refuse a dtype that is not on the list, or that cannot hold the labels."""
    if dtype is None:
        return
    if dtype not in COLUMN_DTYPES:
        raise ModelFileError(f"column {place} has the dtype {dtype[:40]!r}, which cannot be stored")
    kinds = {int} if labels is None else {type(label) for label in labels}
    fits = dtype in _ANY
    if dtype in _TRUTH:
        fits = kinds <= {bool}
    elif dtype in _TEXT:
        fits = kinds <= {str}
    elif dtype in _WHOLE:
        limits = np.iinfo(dtype.removesuffix("[pyarrow]").lower())
        ends = [0, max(n_states - 1, 0)] if labels is None else labels
        fits = kinds <= {int} and all(limits.min <= label <= limits.max for label in ends)
    elif dtype in _REAL:
        fits = kinds <= {int, float}
    if not fits:
        raise ModelFileError(f"column {place} has labels that its dtype {dtype!r} cannot hold")


def _check_number_dtype(dtype: str | None, column: dict[str, Any], place: int) -> None:
    """Refuse a dtype that numbers, dates or durations cannot be restored to."""
    if column.get("empty", False):
        known = dtype is None or dtype in COLUMN_DTYPES or bool(_TIMES.fullmatch(dtype))
    elif column.get("unit") is not None:
        known = dtype is None or dtype == "object" or bool(_TIMES.fullmatch(dtype))
    else:
        known = dtype is None or dtype in _WHOLE or dtype in _REAL
    if not known:
        raise ModelFileError(
            f"column {place} holds numbers, which its dtype {str(dtype)[:40]!r} cannot hold"
        )


def _is_label(label: Any) -> bool:
    if not isinstance(label, dict):
        return type(label) in (bool, int, float, str)
    ends = label.get("interval")
    if set(label) != {"interval"} or not isinstance(ends, list) or len(ends) != 3:
        return False
    return all(type(end) in (int, float) for end in ends[:2]) and type(ends[2]) is str


# ---------------------------------------------------------------------------------------- writing


def _write_stream(stream: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            written = stream.write(view)
        except TypeError as error:
            raise TypeError("the file object has to be opened in binary mode ('wb')") from error
        if written is None:  # a writer that does not count takes all
            return
        view = view[written:]
