"""Files that are well formed and still no model that could be used."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.files.models import rewrite

import bayescut as bc
from bayescut.circuit import Circuit
from bayescut.data import Domain, Domains
from bayescut.exceptions import ModelFileError
from bayescut.files import COLUMN_DTYPES, dumps, loads


def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 80)
    return pd.DataFrame(
        {
            "age": pd.cut(age, [0, 30, 60, 90], right=False),
            "sex": pd.Categorical(rng.choice(["f", "m"], 80)),
            "kids": rng.integers(0, 3, 80),
            "warm": rng.random(80) < 0.5,
        }
    )


MODELS = {
    "CNetBD": lambda: bc.CNetBD(),
    "CutsetNetwork": lambda: bc.CutsetNetwork(),
    "XCNet": lambda: bc.XCNet(random_state=0),
    "CutsetMixture": lambda: bc.CutsetMixture(n_components=2, random_state=0),
    "CutsetEnsemble": lambda: bc.CutsetEnsemble(2, 2, n_bags=2, random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest):
    return MODELS[request.param]().fit(people())


@pytest.mark.parametrize(
    "settings",
    [
        {"n_jobs": 0},
        {"n_jobs": "all"},
        {"n_jobs": True},
        {"unseen": "guess"},
        {"unseen": None},
        {"verbose": "yes"},
        {"verbose": None},
        {"n_states": "many"},
        {"n_states": -1},
        {"n_states": [2]},
        {"n_states": 10**9},
    ],
    ids=str,
)
def test_impossible_settings(model, settings) -> None:
    def change(header, blocks) -> None:
        header["params"].update(settings)

    with pytest.raises(ModelFileError, match="inconsistent"):
        loads(rewrite(dumps(model), change))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("CNetBD", {"ess": -1.0}),
        ("CNetBD", {"ess": "0.1"}),
        ("CNetBD", {"ess": None}),
        ("CNetBD", {"n_candidates": 0}),
        ("CutsetNetwork", {"width": 10**6}),
        ("CutsetMixture", {"n_components": 0}),
        ("CutsetMixture", {"n_components": []}),
        ("CutsetMixture", {"tol": "small"}),
        ("CutsetMixture", {"structure": "aic"}),
        ("CutsetEnsemble", {"n_bags": -1}),
        ("CutsetEnsemble", {"shared_widths": [1, 1]}),
        ("CutsetEnsemble", {"prior_scales": 3}),
    ],
)
def test_settings_no_fit_would_take(name, settings) -> None:
    model = MODELS[name]().fit(people())

    def change(header, blocks) -> None:
        header["params"].update(settings)

    with pytest.raises(ModelFileError, match="inconsistent"):
        loads(rewrite(dumps(model), change))
    with pytest.raises(ModelFileError, match="a setting that cannot be used"):
        dumps(model.set_params(**settings))


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["age"],
        ["age", "sex", "kids", "kids"],
        ["age", "sex", "kids", 4],
        ["age", "sex", "kids", None],
        ["age", "sex", "kids", ["warm"]],
        ["sex", "age", "kids", "warm"],
        "abcd",
        {"kind": "dict", "items": []},
        {"kind": "tuple", "items": ["age", "sex", "kids", "warm"]},
        7,
    ],
    ids=str,
)
def test_malformed_feature_names(model, names) -> None:
    def change(header, blocks) -> None:
        header["state"]["feature_names"] = names

    with pytest.raises(ModelFileError, match="inconsistent"):
        loads(rewrite(dumps(model), change))


@pytest.mark.parametrize(
    "state", [{"from_frame": 1}, {"from_frame": None}, {"structure_score_": "high"}], ids=str
)
def test_malformed_attributes(model, state) -> None:
    def change(header, blocks) -> None:
        header["state"].update(state)

    with pytest.raises(ModelFileError, match="inconsistent"):
        loads(rewrite(dumps(model), change))


@pytest.mark.parametrize("name", ["CutsetMixture", "CutsetEnsemble"])
def test_a_loaded_model_has_no_place_to_write_to(tmp_path: Path, name: str) -> None:
    place = tmp_path / "checkpoint.bc"
    model = MODELS[name]().set_params(checkpoint=place).fit(people())
    assert bc.load(place).checkpoint is None  # a checkpoint itself, too
    assert str(tmp_path).encode() not in dumps(model)
    again = loads(dumps(model))
    assert again.checkpoint is None

    def change(header, blocks) -> None:
        header["params"]["checkpoint"] = str(tmp_path / "elsewhere.bc")

    hostile = loads(rewrite(dumps(model), change))
    assert hostile.checkpoint is None
    hostile.fit(people())
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.bc"]


def test_wide_dtypes_cost_nothing() -> None:
    data = dumps(bc.CNetBD().fit(people()))

    def change(header, blocks) -> None:
        name = next(name for name in blocks if name.startswith("domains"))
        blocks[name] = blocks[name].replace('"dtype": "int64"', '"dtype": "(5000,5000)f8"')

    hostile = rewrite(data, change)
    assert hostile != data
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=r"dtype '\(5000,5000\)f8'"):
        loads(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_intervals_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dumps(bc.CNetBD().fit(people()))
    loads(data)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModelFileError, match=r"intervals, which need pandas: pip install"):
        loads(data)


FRAMES = {
    "bool": [True, False],
    "boolean": [True, None],
    "object": ["a", None],
    "category": ["a", "b"],
    "float32": [0.0, 1.0],
    "Float64": [0.0, 1.0],
    "UInt8": [1, 200],
    "int16": [-5, 300],
    "string": ["a", "b"],
    "str": ["a", "b"],
}


@pytest.mark.parametrize("dtype", FRAMES)
def test_every_dtype_that_is_learned_comes_back(dtype: str) -> None:
    column = pd.Series(FRAMES[dtype] * 10, dtype=dtype)
    frame = pd.DataFrame({"a": column.dropna().reset_index(drop=True)})
    frame["b"] = np.arange(len(frame)) % 2
    model = bc.CNetBD().fit(frame)
    assert model.domains_[0].dtype in COLUMN_DTYPES
    again = loads(dumps(model))
    assert again.domains_ == model.domains_
    drawn = again.sample(5, random_state=0)
    assert drawn["a"].dtype == model.sample(5, random_state=0)["a"].dtype


def test_a_dtype_that_could_not_be_read_again_is_not_written() -> None:
    from bayescut.circuit import build

    circuit = build.circuit(build.categorical(0, [0.5, 0.5]), [2])
    odd = Circuit(domains=Domains([Domain("a", 2, ["x", "y"], "U9")]), **circuit.arrays())
    with pytest.raises(ModelFileError, match="which cannot be stored"):
        dumps(odd)
