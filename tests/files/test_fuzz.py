"""Random damage to valid files, blind and with a right checksum.

Three seconds by default; ``BAYESCUT_FUZZ_SECONDS=60`` runs the long version, and
``BAYESCUT_FUZZ_SEED`` repeats a run.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import time

import numpy as np
import pandas as pd
import pytest
from tests.files.models import (
    Toy,
    circuit_of_every_kind,
    reseal,
    same_circuit,
    with_header,
    with_header_text,
)

import bayescut as bc
import bayescut.files as files
from bayescut.circuit import Circuit
from bayescut.circuit.container import pack, unpack
from bayescut.data import code_dtype, missing_code
from bayescut.estimators._base import CircuitEstimator
from bayescut.exceptions import ModelFileError, PropertyError
from bayescut.files import dumps, loads

SECONDS = float(os.environ.get("BAYESCUT_FUZZ_SECONDS", "3"))
SEED = int(os.environ.get("BAYESCUT_FUZZ_SEED", "0"))

WHOLE_NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**53]
WHOLE_NUMBERS += [2**62, 2**63 - 1, 2**63, 2**64, 10**30]
WHOLE_NUMBERS += [-n for n in WHOLE_NUMBERS]
REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e308, -1e308, np.inf, -np.inf, np.nan]
JUNK = [None, True, False, "", "x", "inf", [], {}, [[]], 0.5, *WHOLE_NUMBERS[:12]]


# ---------------------------------------------------------------------------------------- mutators


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change bytes anywhere, without knowing what they mean."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        size = rng.choice([1, 2, 4, 8, 100])
        action = rng.randrange(6)
        if action == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            changed[at : at + size] = rng.randbytes(len(changed[at : at + size]))
        elif action == 2:
            changed[at : at + size] = b""
        elif action == 3:
            changed[at:at] = rng.randbytes(size)
        elif action == 4:
            source = rng.randrange(len(changed) + 1)
            changed[at : at + size] = changed[source : source + size]
        else:
            del changed[at:]
    return bytes(changed)


def damage_and_seal(data: bytes, rng: random.Random) -> bytes:
    changed = damage(data, rng)
    return reseal(changed) if len(changed) > 32 else changed


def damage_prefix(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    at = rng.randrange(24)
    changed[at] = rng.randrange(256)
    return reseal(changed) if rng.random() < 0.5 else bytes(changed)


def mutate_value(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Another array: a changed, moved, added or missing entry, or another type or shape."""
    changed = array.copy()
    action = rng.randrange(10)
    if action < 6 and changed.size:
        at = rng.randrange(changed.size)
        flat = changed.reshape(-1)
        if changed.dtype.kind == "f":
            neighbour = float(flat[rng.randrange(flat.size)])
            flat[at] = rng.choice([*REALS, neighbour, np.nextafter(flat[at], 1)])
        else:
            nearby = int(flat[at]) + rng.choice([-2, -1, 1, 2])
            value = rng.choice([nearby, nearby, int(rng.choice(flat)), rng.choice(WHOLE_NUMBERS)])
            limits = np.iinfo(changed.dtype)
            flat[at] = min(max(value, limits.min), limits.max)
    elif action == 6 and changed.size > 1:
        a, b = rng.randrange(changed.size), rng.randrange(changed.size)
        flat = changed.reshape(-1)
        flat[[a, b]] = flat[[b, a]]
    elif action == 7:
        changed = changed.reshape(-1)[: rng.randrange(changed.size + 1)]
    elif action == 8:
        changed = np.append(changed, changed.reshape(-1)[: rng.choice([1, 2, 50])])
    elif action == 9:
        with np.errstate(all="ignore"):
            changed = changed.astype(rng.choice(["uint8", "int16", "int64", "uint64"]))
    return changed


def mutate_array(data: bytes, rng: random.Random) -> bytes:
    header, blocks = unpack(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        name = rng.choice([n for n in blocks if not isinstance(blocks[n], str)])
        with np.errstate(all="ignore"):
            blocks[name] = mutate_value(blocks[name], rng)
    return pack(header, blocks)


def mutate_blocks(data: bytes, rng: random.Random) -> bytes:
    """Drop, rename or exchange whole blocks."""
    header, blocks = unpack(data)
    a, b = rng.choice(list(blocks)), rng.choice(list(blocks))
    action = rng.randrange(3)
    if action == 0:
        del blocks[a]
    elif action == 1:
        blocks[a + "x"] = blocks.pop(a)
    else:
        blocks[a], blocks[b] = blocks[b], blocks[a]
    return pack(header, blocks)


def mutate_json(document, rng: random.Random) -> None:
    """Change, drop, copy or add one value somewhere in a tree of lists and objects."""
    places = []

    def walk(value):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    container, key = rng.choice(places)
    action = rng.randrange(5)
    if action < 2:
        container[key] = rng.choice(JUNK)
    elif action == 2:
        del container[key]
    elif action == 3:
        other, source = rng.choice(places)
        if isinstance(other, dict) and source in other:
            container[key] = json.loads(json.dumps(other[source]))
    elif isinstance(container, dict):
        container[rng.choice(["kind", "x", "items", "class"])] = rng.choice(JUNK)
    else:
        container.insert(key, rng.choice(JUNK))


def mutate_header(data: bytes, rng: random.Random) -> bytes:
    return with_header(data, lambda document: mutate_json(document, rng))


def mutate_header_text(data: bytes, rng: random.Random) -> bytes:
    def edit(text: str) -> str:
        at = rng.randrange(len(text))
        piece = rng.choice(['"', "[", "]", "{", "}", ",", ":", "\\", "NaN", "1e999", "\0", "é"])
        return text[:at] + piece * rng.choice([1, 1, 100]) + text[at + rng.choice([0, 1]) :]

    return with_header_text(data, edit)


def mutate_columns(data: bytes, rng: random.Random) -> bytes:
    header, blocks = unpack(data)
    name = rng.choice([n for n in blocks if isinstance(blocks[n], str)])
    columns = json.loads(blocks[name])
    mutate_json(columns, rng)
    blocks[name] = json.dumps(columns)
    return pack(header, blocks)


DTYPES = ["(5000,5000)f8", "f8,f8", "U99", "S9", "V8", "O", "category", "bool", "int8", "UInt8"]
DTYPES += ["float64", "str", "string", "object", "boolean", "datetime64[ns]", "period[D]", "", None]
SETTINGS = ["checkpoint", "ess", "n_jobs", "n_states", "unseen", "verbose", "n_candidates", "wings"]


def mutate_dtype(data: bytes, rng: random.Random) -> bytes:
    """Another dtype, or other labels under the same one."""
    header, blocks = unpack(data)
    name = rng.choice([n for n in blocks if isinstance(blocks[n], str)])
    columns = json.loads(blocks[name])
    column = rng.choice(columns)
    if rng.random() < 0.7:
        column["dtype"] = rng.choice(DTYPES)
    elif column["labels"]:
        at = rng.randrange(len(column["labels"]))
        column["labels"][at] = rng.choice(
            ["x", 300, -1, True, 0.5, 2**63, {"interval": [0, 1, "left"]}]
        )
    blocks[name] = json.dumps(columns)
    return pack(header, blocks)


def mutate_settings(data: bytes, rng: random.Random) -> bytes:
    """Settings and attributes of an estimator; a circuit has none."""
    header, blocks = unpack(data)
    if header["kind"] == "circuit":
        return data
    values = [
        *JUNK,
        "error",
        "missing",
        "/tmp/x.bc",
        -1,
        10**9,
        ["a", "b"],
        {"kind": "float", "value": "nan"},
    ]
    if rng.random() < 0.6:
        header["params"][rng.choice(SETTINGS)] = rng.choice(values)
    else:
        key = rng.choice(
            ["feature_names", "from_frame", "structure_score_", "n_cuts_", "made_from"]
        )
        header["state"][key] = rng.choice(values)
    return pack(header, blocks)


SEALED = [
    mutate_dtype,
    mutate_settings,
    damage_and_seal,
    damage_prefix,
    mutate_array,
    mutate_array,
    mutate_array,
    mutate_blocks,
    mutate_header,
    mutate_header_text,
    mutate_columns,
]


# ------------------------------------------------------------------------------------------- judge


def check_accepted(model) -> None:
    """Whatever is loaded is a sound model: it answers, and is written and read again as itself."""
    if isinstance(model, Toy):
        for circuit in (getattr(model, "circuit_", None), getattr(model, "other_", None)):
            if isinstance(circuit, Circuit):
                check_accepted(circuit)
        assert dumps(loads(dumps(model))) == dumps(model)
        return
    if isinstance(model, CircuitEstimator):
        check_accepted(model.circuit_)
        assert getattr(model, "checkpoint", None) is None
        again = loads(dumps(model))
        assert dumps(again) == dumps(model)
        drawn = model.sample(2, random_state=0)
        assert np.isfinite(model.score_samples(drawn)).all()
        names = getattr(model, "feature_names_in_", None)
        assert names is None or list(names) == model.domains_.names
        return
    assert isinstance(model, Circuit)
    assert repr(model)
    assert same_circuit(loads(dumps(model)), model)
    # Every world of the discrete variables, the continuous ones integrated out.
    dtype = code_dtype(model.domains)
    missing = missing_code(dtype)
    states = [range(n) if n else [missing] for n in model.domains.n_states]
    if math.prod(map(len, states)) > 100:
        return
    worlds = np.array([*itertools.product(*states), [missing] * len(states)], dtype=dtype)
    try:
        values = model.log_likelihood(worlds, n_jobs=1)
    except PropertyError:  # sound, but not smooth or not decomposable, and it says so
        return
    # The tolerance of one sum is 1e-6, and a path crosses a few of them.
    np.testing.assert_allclose(np.exp(values[:-1]).sum(), 1, atol=1e-4)
    np.testing.assert_allclose(values[-1], 0, atol=1e-4)


def fuzz(originals: list[bytes], seconds: float) -> tuple[int, int]:
    rng = random.Random(SEED)
    n_refused = n_accepted = 0
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        data = rng.choice(originals)
        blind = rng.random() < 0.3
        mutant = damage(data, rng) if blind else rng.choice(SEALED)(data, rng)
        if mutant == data:
            continue
        try:
            model = loads(mutant)
        except ModelFileError as error:
            assert str(error)
            n_refused += 1
        else:
            assert not blind, "a damaged file was accepted"
            check_accepted(model)
            n_accepted += 1
    return n_refused, n_accepted


@pytest.fixture
def originals(monkeypatch):
    monkeypatch.setitem(files.ESTIMATORS, "Toy", Toy.__module__)
    circuit = circuit_of_every_kind()
    model = Toy(ess=np.float64(0.1), options={"a": (1, float("inf"))}, base=Toy(ess=[1, None]))
    model.circuit_, model.other_ = circuit, circuit
    model.names_ = np.array(["a", "bc"])
    model.objects_ = np.array(["a", "bc", None], dtype=object)
    model.counts_ = np.arange(6).reshape(2, 3)
    frame = pd.DataFrame(
        {
            "age": pd.cut(np.arange(40) % 9, [0, 3, 6, 9], right=False),
            "kids": np.arange(40) % 3,
            "town": np.where(np.arange(40) % 5 < 2, "Ulm", "Bonn"),
        }
    )
    network = bc.CNetBD().fit(frame)
    # Numbers, dates and durations with gaps that tell something.
    since = pd.Timestamp("2020-02-28") + pd.to_timedelta(np.arange(40) % 7, "D")
    mixed = pd.DataFrame(
        {
            "mass": np.where(np.arange(40) % 6 == 0, np.nan, (np.arange(40) % 11) / 4),
            "since": pd.Series(since).mask(np.arange(40) % 9 == 1),
            "wait": pd.to_timedelta(np.arange(40) % 5, "h"),
            "sort": pd.array([None if i % 8 == 3 else i % 2 == 0 for i in range(40)], "boolean"),
        }
    )
    gaps = bc.CNetBD(missing="informative", columns={"mass": "number"}).fit(mixed)
    return [dumps(circuit), dumps(model), dumps(network), dumps(gaps)]


def test_mutants_are_refused_or_sound(originals):
    for data in originals:
        check_accepted(loads(data))  # compiles the kernels
    n_refused, n_accepted = fuzz(originals, SECONDS)
    if "BAYESCUT_FUZZ_SECONDS" in os.environ:
        print(f"{n_refused + n_accepted:,} files, {n_accepted:,} of them sound")
    # Both ways are taken: a rule that refuses everything would test nothing.
    assert n_refused > 0 and n_accepted > 0
