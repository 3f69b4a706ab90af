"""EiNet as an estimator: what it learns, when it stops, what it answers and refuses."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayescut.circuit import Circuit
from bayescut.estimators import EiNet
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import dumps, loads
from bayescut.learn.einet.network import DenseNetwork

SMALL = {"n_trees": 2, "depth": 2, "max_epochs": 20, "min_epochs": 5, "patience": 5}


def einet(k=3, **settings):
    return EiNet(k, **({**SMALL, "random_state": 0} | settings))


@parametrize_with_checks(
    [
        EiNet(
            2, n_trees=2, depth=1, max_epochs=3, validation_fraction=0, dtype="float64", n_jobs=1,
            random_state=0,
        )
    ]
)  # fmt: skip
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


def make_table(seed, n):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    X = (rng.random((n, 6)) < np.array([0.15, 0.5, 0.9])[hidden][:, None]).astype(np.uint8)
    X[hidden == 1, 3] = X[hidden == 1, 4]
    return X


@pytest.fixture(scope="module")
def X():
    return make_table(0, 300)


@pytest.fixture(scope="module")
def X_valid():
    return make_table(1, 150)


WORLDS = np.array(list(np.ndindex(*[2] * 6)))
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


def test_columns_of_several_states():
    rng = np.random.default_rng(1)
    X = rng.integers(0, [3, 2, 4, 3, 2], size=(200, 5))
    X[:, 2] = (X[:, 0] + X[:, 3] + (rng.random(200) < 0.1)) % 4
    for alpha in (0.0, 0.1):
        model = einet(n_states=[3, 2, 5, 3, 2], alpha=alpha).fit(X)  # one state is never seen
        worlds = np.array(list(np.ndindex(3, 2, 5, 3, 2)))
        values = model.score_samples(worlds)
        assert np.exp(values).sum() == pytest.approx(1.0) and np.isfinite(values).all()


def test_weights(X):
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    twice = einet().fit(np.repeat(X, weights, axis=0))
    weighted = einet().fit(X, sample_weight=weights)
    np.testing.assert_allclose(
        weighted.score_samples(WORLDS), twice.score_samples(WORLDS), rtol=1e-9
    )
    fractional = einet().fit(X, sample_weight=weights * 0.5)
    assert np.exp(fractional.score_samples(WORLDS)).sum() == pytest.approx(1.0)
    assert fractional.score(X) != weighted.score(X)


def test_threads_clones_pickles_and_files_do_not_change_the_result(X):
    model = einet(n_jobs=1).fit(X)
    expected = model.score_samples(X)
    other = clone(model).set_params(n_jobs=2).fit(X)
    np.testing.assert_array_equal(other.score_samples(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(X), expected)
    back = loads(dumps(model))
    assert type(back) is type(model) and back.get_params() == model.get_params()
    for attribute in model._state_names:
        assert repr(getattr(back, attribute)) == repr(getattr(model, attribute))
    np.testing.assert_array_equal(back.score_samples(X), expected)
    assert einet(random_state=1).fit(X).score(X) != model.score(X)


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
    "table",
    [np.ones((2, 3), np.uint8), np.array([[0], [1], [1]]), np.zeros((6, 3), np.uint8)],
    ids=["two rows", "one column", "all zero"],
)
def test_small_and_constant_tables_are_learned(table):
    model = einet().fit(table)
    worlds = np.array(list(np.ndindex(*[2] * table.shape[1])))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


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
    with pytest.raises(ValueError, match=r"columns|features"):
        einet().fit(X, X_valid=X[:, :5])
    with pytest.raises(ValueError):
        einet().fit(X, X_valid=np.full((3, 6), np.nan))
    with pytest.raises(ValueError, match="n_samples=1"):
        einet().fit(X[:1])
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
