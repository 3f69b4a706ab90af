"""Small models for the tests of files, and tools to compare and to break them."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
from sklearn.base import BaseEstimator

from bayescut.circuit import Circuit
from bayescut.circuit._model import ARRAYS
from bayescut.circuit.container import pack, unpack
from bayescut.data import Domain, Domains

DOMAINS = Domains(
    [
        Domain("flag", 2, np.array([False, True]), "bool"),
        Domain("größe", 3, np.array(["klein", "mittel", "groß"], dtype=object), "object"),
        Domain("count", 2, np.array([-5, 7]), "int64"),
        Domain("weight", 0, None, "float64"),
    ]
)


def arrays_of_every_kind() -> dict[str, np.ndarray]:
    """A mixture with every kind of node, over the four columns of `DOMAINS`."""
    nodes = [  # kind, var, state, children, weights, parameters
        (6, 3, -1, [], [], [0.1, 2.5]),  # 0 gaussian
        (5, -1, -1, [], [], []),  # 1 junction: p(1) p(2|1)
        (5, -1, -1, [], [], []),  # 2 junction: p(2) p(1|2)
        (1, 0, -1, [1, 2], [1 / 3, 2 / 3], []),  # 3 decision
        (2, -1, -1, [3, 0], [1, 1], []),  # 4 product
        (4, 0, -1, [], [], [0.25, 0.75]),  # 5 categorical
        (3, 2, 0, [], [], []),  # 6 indicator
        (3, 2, 1, [], [], []),  # 7 indicator
        (0, -1, -1, [6, 7], [0.3, 0.7], []),  # 8 sum
        (4, 1, -1, [], [], [0.5, 0.5]),  # 9 categorical, seen through a view
        (2, -1, -1, [5, 8, 9, 0], [1, 1, 1, 1], []),  # 10 product
        (0, -1, -1, [4, 10], [0.9, 0.1], []),  # 11 sum, the root
    ]
    families = [  # node, variable, host, parents, table
        (1, 1, -1, [], [0.2, 0.3, 0.5]),
        (1, 2, 0, [1], [0.1, 0.9, 0.6, 0.4, 0.5, 0.5]),
        (2, 2, -1, [], [0.4, 0.6]),
        (2, 1, 2, [2], [0.7, 0.2, 0.1, 1 / 3, 1 / 3, 1 / 3]),
    ]

    def ends(lengths):
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def flat(lists, dtype):
        return np.array([x for values in lists for x in values], dtype=dtype)

    kind, var, state, children, weights, params = zip(*nodes, strict=True)
    owner, fam_var, fam_host, parents, tables = zip(*families, strict=True)
    with np.errstate(divide="ignore"):
        param = [p if k == 6 else np.log(p) for k, p in zip(kind, params, strict=True)]
        return {
            "kind": np.array(kind, dtype=np.uint8),
            "var": np.array(var, dtype=np.int32),
            "state": np.array(state, dtype=np.int32),
            "child_ptr": ends([len(c) for c in children]),
            "child": flat(children, np.int32),
            "log_weight": np.log(flat(weights, np.float64)),
            "param_ptr": ends([len(p) for p in params]),
            "param": flat(param, np.float64),
            "fam_ptr": ends(np.bincount(owner, minlength=len(nodes))),
            "fam_var": np.array(fam_var, dtype=np.int32),
            "fam_host": np.array(fam_host, dtype=np.int32),
            "fam_parent_ptr": ends([len(p) for p in parents]),
            "fam_parent": flat(parents, np.int32),
            "fam_table_ptr": ends([len(t) for t in tables]),
            "fam_table": np.log(flat(tables, np.float64)),
            "branch_ptr": ends([k == 1 for k, c in zip(kind, children, strict=True) for _ in c]),
            "branch_state": np.array([0, 1], dtype=np.int32),
            "view": np.where(np.arange(len(nodes)) == 9, 0, -1).astype(np.int32),
            "fam_view": np.full(len(families), -1, dtype=np.int32),
            "fam_parent_view": np.full(2, -1, dtype=np.int32),
            "view_ptr": np.array([0, 3]),
            "view_local": np.array([0, 1, 1], dtype=np.int32),
            "view_share": np.log([1.0, 0.25, 0.75]),
        }


def circuit_of_every_kind() -> Circuit:
    return Circuit(domains=DOMAINS, **arrays_of_every_kind())


def same_circuit(a: Circuit, b: Circuit) -> bool:
    """Equal bit by bit, dtypes and columns with their labels included."""
    return a.domains == b.domains and all(
        getattr(a, name).dtype == getattr(b, name).dtype
        and getattr(a, name).tobytes() == getattr(b, name).tobytes()
        for name in ARRAYS
    )


class Toy(BaseEstimator):
    """An estimator with parameters and a state of every type that a file holds."""

    def __init__(self, ess=0.1, random_state=None, options=None, base=None):
        self.ess = ess
        self.random_state = random_state
        self.options = options
        self.base = base

    def _get_state(self):
        return {k: v for k, v in vars(self).items() if k.endswith("_")}

    def _set_state(self, state):
        if "circuit_" not in state:
            raise KeyError("circuit_")
        for name, value in state.items():
            setattr(self, name, value)


def reseal(body: bytes | bytearray) -> bytes:
    """A right length and checksum on content that was changed (its old checksum is cut off)."""
    body = bytearray(body[:-32])
    if len(body) >= 24:
        struct.pack_into("<Q", body, 16, len(body) + 32)
    return bytes(body) + hashlib.sha256(body).digest()


def rewrite(data: bytes, change) -> bytes:
    """The file with ``change(header, blocks)`` applied to its content, well packed and sealed."""
    header, blocks = unpack(data)
    change(header, blocks)
    return pack(header, blocks)


def with_header_text(data: bytes, change) -> bytes:
    """The file with ``change(text)`` applied to the text of its header, sealed."""
    (size,) = struct.unpack_from("<I", data, 12)
    text = change(data[24 : 24 + size].decode()).encode()
    changed = data[:12] + struct.pack("<I", len(text)) + data[16:24] + text + data[24 + size :]
    return reseal(changed)


def with_header(data: bytes, change) -> bytes:
    """The file with ``change(document)`` applied to its parsed header, block table included."""

    def edit(text):
        document = json.loads(text)
        change(document)
        return json.dumps(document)

    return with_header_text(data, edit)
