"""Every public estimator survives a file: parameters, circuit, columns and answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, DensityMixin
from tests.files.models import reseal, rewrite, same_circuit

import bayescut.estimators
from bayescut.exceptions import ModelFileError
from bayescut.files import ESTIMATORS, dumps, load, loads, save

CLASSES = {
    name: cls
    for name, cls in vars(bayescut.estimators).items()
    if isinstance(cls, type) and issubclass(cls, BaseEstimator) and not name.startswith("_")
}


# Those that are a density; the others use one for a job, see tests/estimators/test_tasks.py.
DENSITIES = [name for name in ESTIMATORS if issubclass(CLASSES[name], DensityMixin)]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, 6), dtype=np.uint8)
    X[:, 1] = X[:, 0] ^ (rng.random(200) < 0.1)
    return X


@pytest.fixture(scope="module")
def frame(table):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "wet": table[:, 0].astype(bool),
            "sky": np.where(table[:, 1] == 1, "grau", "blau"),
            "level": pandas.Categorical(np.where(table[:, 2] == 1, "hi", "lo"), ["lo", "hi"]),
            "count": table[:, 3].astype(np.int64) * 7 - 2,
        }
    )


def test_the_registry_names_every_public_estimator():
    assert {n: c for n, c in CLASSES.items() if not getattr(c, "__abstractmethods__", ())} == {
        name: getattr(bayescut.estimators, name) for name in ESTIMATORS
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_unfitted(name):
    model = CLASSES[name](n_states=3, verbose=1) if name in DENSITIES else CLASSES[name](width=3)
    back = loads(dumps(model))
    assert type(back) is type(model)
    assert vars(back) == vars(model)


@pytest.mark.parametrize("name", DENSITIES)
def test_fitted_on_an_array(name, table, tmp_path):
    model = CLASSES[name](n_states=np.int64(2)).fit(table)
    save(model, tmp_path / "model.bc")
    back = load(tmp_path / "model.bc")
    assert set(vars(back)) == set(vars(model))
    assert same_circuit(back.circuit_, model.circuit_)
    assert back.domains_ == model.domains_
    for attribute in model._state_names:
        assert repr(getattr(back, attribute)) == repr(getattr(model, attribute))
    for score in {"structure_score_", "lower_bound_", "oob_score_"} & set(dir(model)):
        assert repr(getattr(back, score)) == repr(getattr(model, score))
    rows = table.astype(float)
    rows[::2, ::2] = np.nan
    np.testing.assert_array_equal(back.score_samples(rows), model.score_samples(rows))
    np.testing.assert_array_equal(back.sample(20, random_state=1), model.sample(20, random_state=1))
    assert dumps(back) == dumps(model)


@pytest.mark.parametrize("name", DENSITIES)
def test_fitted_on_a_frame(name, frame):
    pandas = pytest.importorskip("pandas")
    model = CLASSES[name]().fit(frame)
    back = loads(dumps(model))
    assert back.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(back.score_samples(frame), model.score_samples(frame))
    drawn = back.sample(10, random_state=1)
    pandas.testing.assert_frame_equal(drawn, model.sample(10, random_state=1))
    assert drawn.dtypes.tolist() == frame.dtypes.tolist()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_states_that_do_not_fit(name, table):
    data = dumps(CLASSES[name]().fit(table, table[:, 0]))
    header = {}
    rewrite(data, lambda h, _: header.update(h))
    for key in header["state"]:
        if key == "circuit_":
            continue

        def drop(h, _, key=key):
            del h["state"][key]

        with pytest.raises(ModelFileError, match=f"inconsistent {name}"):
            loads(rewrite(data, drop))

    def add(h, _):
        h["state"]["__class__"] = 1

    with pytest.raises(ModelFileError, match=f"inconsistent {name}"):
        loads(rewrite(data, add))
    assert reseal(data) == data
