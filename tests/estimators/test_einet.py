"""EiNet: its two forms, when it stops and what it refuses, beside `test_learners`."""

import pickle
import sys

import numpy as np
import pytest
from tests.estimators.small import WORLDS, einet, make_table

from bayescut.circuit import Circuit
from bayescut.estimators import EiNet
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import dumps
from bayescut.learn.einet.network import DenseNetwork


@pytest.fixture(scope="module")
def X():
    return make_table(0, 300)


@pytest.fixture(scope="module")
def X_valid():
    return make_table(1, 150)


# With and without a circuit: the same answers.
FORMS = {"circuit": {}, "tensors": {"max_circuit_edges": 0, "dtype": "float64"}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [None, (2, 3)], ids=["trees", "image"])
def test_a_distribution_with_its_marginals(form, shape, X):
    model = einet(image_shape=shape, max_epochs=60, **FORMS[form]).fit(X)
    kind = Circuit if form == "circuit" else DenseNetwork
    assert isinstance(model.circuit_, kind) and model.n_parameters_ == model.circuit_.n_parameters
    assert np.exp(model.score_samples(WORLDS)).sum() == pytest.approx(1.0, abs=1e-6)
    partial = np.array([[np.nan, 1, 0, np.nan, 1, 1]])
    worlds = np.array([[a, 1, 0, b, 1, 1] for a in (0, 1) for b in (0, 1)])
    joint = model.score_samples(worlds)
    assert model.score_samples(partial)[0] == pytest.approx(np.logaddexp.reduce(joint), abs=1e-6)
    share = np.exp(joint[2:]).sum() / np.exp(joint).sum()
    assert model.marginals(partial)[0][0, 1] == pytest.approx(share, abs=1e-6)
    given = {2: 0, 1: {0, 1}}
    found = model.conditional_log_likelihood({0: 1}, given)[0]
    mask = WORLDS[:, 2] == 0
    p = np.exp(model.score_samples(WORLDS))
    assert np.exp(found) == pytest.approx(p[mask & (WORLDS[:, 0] == 1)].sum() / p[mask].sum())
    assert set(model.sample(20, {2: 0}, random_state=0)[:, 2]) == {0}
    filled = model.impute(partial, method="mode")
    assert not np.isnan(np.asarray(filled, dtype=float)).any()
    # Better than independence by far.
    p = (X.mean(axis=0) * len(X) + 1) / (len(X) + 2)
    independent = np.log(np.where(X == 1, p, 1 - p)).sum(axis=1).mean()
    assert model.score(X) > independent + 0.2


def test_tensors_and_circuit_give_one_answer(X):
    circuit = einet(dtype="float64").fit(X)
    tensors = einet(**FORMS["tensors"]).fit(X)
    assert circuit.n_parameters_ == tensors.n_parameters_
    assert circuit.n_weights_ == tensors.n_weights_ > circuit.n_parameters_
    np.testing.assert_allclose(
        tensors.score_samples(WORLDS), circuit.score_samples(WORLDS), atol=1e-6
    )
    assert circuit.circuit_.properties.smooth and circuit.circuit_.properties.decomposable
    back = pickle.loads(pickle.dumps(tensors))
    np.testing.assert_array_equal(back.score_samples(X), tensors.score_samples(X))
    with pytest.raises(AttributeError, match=r"'mpe' needs a circuit.*max_circuit_edges"):
        tensors.mpe(X[:2])
    with pytest.raises(ModelFileError, match=r"max_circuit_edges.*pickle"):
        dumps(tensors)
    assert isinstance(einet(max_circuit_edges=None).fit(X).circuit_, Circuit)


def test_seeds(X):
    assert einet(random_state=1).fit(X).score(X) != einet().fit(X).score(X)


def test_it_stops_on_validation_rows(X, X_valid):
    model = einet(k=6, max_epochs=200, min_epochs=10, patience=4, step_size=1.0)
    model.fit(X, X_valid=X_valid)
    curve = model.learning_curve_
    assert model.n_epochs_ == len(curve["valid"]) == len(curve["train"])
    assert model.best_epoch_ == np.argmax(curve["valid"]) + 1
    assert model.n_epochs_ in (200, max(10, model.best_epoch_ + 4))
    assert model.score(X_valid) == pytest.approx(curve["valid"].max(), abs=1e-4)


def test_without_validation_rows(X):
    model = einet(validation_fraction=0, step_size=1.0, alpha=0.0, dtype="float64").fit(X)
    # Every step of EM on all rows gains, so that the last is the best.
    assert model.best_epoch_ == model.n_epochs_ == 20
    assert model.score(X) == pytest.approx(model.learning_curve_["valid"][-1], abs=1e-6)
    weights = np.linspace(0.1, 1, len(X))
    weighted = einet(validation_fraction=0, dtype="float64").fit(X, sample_weight=weights)
    value = np.average(weighted.score_samples(X), weights=weights)
    assert value == pytest.approx(weighted.learning_curve_["valid"].max(), abs=1e-6)
    assert np.isfinite(einet(validation_fraction=0).fit(X[:1]).score(X[:1]))


def test_frames_gaps_and_a_progress_bar(capsys):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    colour = rng.choice(["red", "green", "blue"], 120)
    frame = pandas.DataFrame({
        "colour": colour, "always": "yes", "warm": np.where(colour == "red", "warm", "cold"),
        "size": rng.choice(["s", "m", None], 120), "weight": rng.normal(size=120),
    })  # fmt: skip
    for form in FORMS.values():
        model = einet(verbose=1, **form).fit(frame)
        assert "EiNet" in capsys.readouterr().err
        rows = frame.iloc[:3].copy()
        rows["colour"], rows["warm"], rows["size"] = ["red", "blue", None], "warm", None
        rows["weight"] = 0.5
        hot, odd, either = model.score_samples(rows)
        assert hot > odd and either >= np.logaddexp(hot, odd) - 1e-5
        assert set(model.sample(5, random_state=0)["always"]) == {"yes"}


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0}, {"n_trees": 0}, {"depth": -1}, {"image_shape": 6},
        {"image_shape": (2, 0)}, {"image_shape": (2, 3), "pieces": []},
        {"image_shape": (2, 3), "pieces": 0}, {"batch_size": 0}, {"step_size": 0},
        {"step_size": 1.5}, {"alpha": -1}, {"max_epochs": 0}, {"min_epochs": -1}, {"patience": 0},
        {"backend": "jax"}, {"device": "cuda"}, {"dtype": "float16"}, {"max_circuit_edges": -1},
        {"validation_fraction": 1.5}, {"random_state": -1}, {"n_jobs": 0},
    ],
    ids=repr,
)  # fmt: skip
def test_bad_settings(settings, X):
    with pytest.raises(ValueError, match=r"must be|must not be"):
        EiNet().set_params(**settings).fit(X)


def test_bad_tables(X, monkeypatch):
    with pytest.raises(DataError, match="image_shape=\\(2, 2\\) has 4 cells, the table 6 columns"):
        einet(image_shape=(2, 2)).fit(X)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"bayescut\[gpu\]"):
        einet(backend="torch").fit(X)


def test_pytorch(X):
    pytest.importorskip("torch")
    for form in FORMS.values():
        expected = einet(**({"dtype": "float64"} | form)).fit(X)
        settings = {"backend": "torch", "device": "cpu", "dtype": "float64"} | form
        found = einet(**settings).fit(X)
        np.testing.assert_allclose(
            found.score_samples(WORLDS), expected.score_samples(WORLDS), atol=1e-9
        )
