import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayescut as bc
from bayescut import CNetBD
from bayescut.estimators import ContinuousMixture
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import dumps, loads

SMALL = {"n_latent": 2, "hidden": (8, 8), "n_points": 64, "n_train_points": 64, "batch_size": 64}


def small(**settings):
    return ContinuousMixture(**{**SMALL, "random_state": 0, "max_epochs": 6, **settings})


@parametrize_with_checks(
    [small(max_epochs=1, n_jobs=1)],
)
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((600, 2))
    noise = 0.5 * rng.standard_normal((600, 8))
    X = (z @ rng.standard_normal((2, 8)) + noise > 0).astype(np.uint8)
    X[:, 7] += z[:, 1] > 1
    return X


def test_what_it_learns_and_carries(X):
    model = small(learning_rate=0.01, max_epochs=20).fit(X)
    assert model.score(X) > small(max_epochs=0).fit(X).score(X) + 0.1
    scores = model.validation_scores_
    assert len(scores) == model.n_epochs_ + 1 <= 21
    assert max(scores) > scores[0]
    assert 1 < model.n_components_ <= 64
    assert model.n_parameters_ == model.circuit_.n_parameters
    worlds = np.array(list(np.ndindex(*[2] * 7, 3)))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    half = X[:5].astype(float)
    half[:, ::2] = np.nan
    others = np.array(list(np.ndindex(2, 2, 2, 2)))
    for row, found in zip(half, model.score_samples(half), strict=True):
        filled = np.repeat(row[None], 16, axis=0)
        filled[:, ::2] = others
        assert found == pytest.approx(np.logaddexp.reduce(model.score_samples(filled)))
    assert model.sample(3, evidence={7: 2}, random_state=0)[:, 7].tolist() == [2, 2, 2]


def test_same_seed_same_model_on_any_number_of_threads(X):
    first = small(n_train_points=1100, n_jobs=1).fit(X)
    again = small(n_train_points=1100, n_jobs=3).fit(X)
    assert again.circuit_ == first.circuit_
    assert again.validation_scores_ == first.validation_scores_
    assert small(random_state=1).fit(X).validation_scores_ != first.validation_scores_


def test_a_weight_is_a_row_given_that_often(X):
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 4, len(X))
    weighted = small().fit(X, sample_weight=weights)
    order = rng.permutation(weights.sum())
    repeated = small().fit(np.repeat(X, weights, axis=0)[order])
    assert weighted.circuit_ == repeated.circuit_


def test_a_heavy_row_has_its_probability():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(500, 6))
    X[0] = 1
    weights = np.ones(500)
    weights[0] = 50_000
    model = small(max_epochs=15, learning_rate=0.01).fit(X, sample_weight=weights)
    assert np.exp(model.score_samples(X[:1]))[0] == pytest.approx(0.99, abs=0.01)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.filterwarnings("ignore:sample_weight adds up")
def test_tiny_and_huge_weights(X, scale):
    model = small(max_epochs=2).fit(X, sample_weight=np.full(len(X), scale))
    assert np.isfinite(model.score(X))


def test_validation_rows_are_not_learned_from(X):
    model = small().fit(X[:400], X_valid=X[400:])
    assert model.score(X[400:]) == pytest.approx(model.validation_score_, abs=1e-4)
    other = small(max_epochs=0).fit(X[:400], X_valid=X[400:][::-1][:50])
    assert other.circuit_ == small(max_epochs=0).fit(X[:400], X_valid=X[400:]).circuit_
    with pytest.raises(DataError):
        small().fit(X[:400], X_valid=X[:0])
    with pytest.raises(DataError):
        small().fit(X[:400], X_valid=X[400:, :3])


def test_columns_of_all_kinds():
    rng = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "many": rng.integers(0, 5, 300),
            "one": "always",
            "two": rng.random(300) < 0.5,
            "text": rng.choice(["a", "b", "c"], 300),
        }
    )
    frame["two"] |= frame["many"] > 3
    model = small().fit(frame)
    assert [domain.n_states for domain in model.domains_] == [5, 1, 2, 3]
    worlds = pandas.MultiIndex.from_product(
        [range(5), ["always"], [False, True], ["a", "b", "c"]], names=list(frame)
    ).to_frame(index=False)
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    assert (model.sample(20, random_state=0)["one"] == "always").all()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_get_one_tree(rows):
    X = np.array([[0, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]])[:rows]
    model = small(validation_fraction=0.001).fit(X)
    assert model.n_components_ == 1 and model.n_epochs_ == 0
    assert np.isnan(model.validation_score_)
    assert np.isfinite(model.score_samples(np.zeros((1, 3)))).all()


def test_constant_tables_and_one_column():
    for X in (np.zeros((50, 3), int), np.ones((50, 1), int), np.arange(60)[:, None] % 3):
        model = small(max_epochs=2).fit(X)
        assert np.isfinite(model.score(X))
        assert model.score(X) <= 1e-9


def test_wide_structures(X):
    model = small(width=3).fit(X)
    widest = np.diff(model.circuit_.fam_parent_ptr).max()
    assert 1 < widest <= 3
    worlds = np.array(list(np.ndindex(*[2] * 7, 3)))
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)


def test_a_decoder_without_hidden_layers(X):
    model = small(hidden=(), learning_rate=0.03, max_epochs=20).fit(X)
    assert max(model.validation_scores_) > model.validation_scores_[0]


def test_a_run_goes_on_from_a_checkpoint(X, tmp_path):
    path = tmp_path / "run.bc"
    whole = small(max_epochs=7).fit(X)
    first = small(max_epochs=3, checkpoint=path).fit(X)
    assert first.n_epochs_ == 3
    assert bc.load(path).n_epochs_ == 3
    second = small(max_epochs=7, checkpoint=path).fit(X)
    assert second.validation_scores_ == whole.validation_scores_
    assert second.circuit_ == whole.circuit_
    third = small(max_epochs=7, checkpoint=path, n_points=8).fit(X)  # points may change
    assert third.validation_scores_ == whole.validation_scores_ and third.n_components_ <= 8
    for other, message in ((X[:, :4], "another table"), (X[::-1], "another table")):
        with pytest.raises(DataError, match=message):
            small(checkpoint=path).fit(other)
    for changed in ({"n_latent": 3}, {"learning_rate": 0.5}, {"random_state": 8}):
        with pytest.raises(DataError, match="other settings"):
            small(checkpoint=path, **changed).fit(X)
    with pytest.raises(DataError, match="another table"):
        small(checkpoint=path).fit(X, X_valid=X[:50])
    for model in (CNetBD().fit(X), small(max_epochs=1).fit(X), second):
        bc.save(model, path)
        with pytest.raises(ModelFileError, match="not a checkpoint"):
            small(checkpoint=path).fit(X)


def test_a_seed_that_was_drawn_is_in_the_checkpoint(X, tmp_path):
    path = tmp_path / "run.bc"
    first = small(max_epochs=2, checkpoint=path, random_state=None).fit(X)
    second = small(max_epochs=4, checkpoint=path, random_state=None).fit(X)
    assert second.validation_scores_[:3] == first.validation_scores_


SCRIPT = """
import sys, numpy as np
from bayescut.estimators import ContinuousMixture
X = (np.random.default_rng(0).random((2000, 20)) < 0.4).astype(np.uint8)
model = ContinuousMixture(
    max_epochs=10**9, patience=10**9, random_state=0, checkpoint=sys.argv[1], n_train_points=64
)
try:
    print("started", flush=True)
    model.fit(X)
except KeyboardInterrupt:
    print(model.n_epochs_, model.score(X) < 0, flush=True)
"""


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_an_interrupted_run_leaves_a_usable_model(tmp_path, how):
    path = tmp_path / "run.bc"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "started\n"
        for _ in range(1200):
            if path.exists():
                break
            time.sleep(0.1)
        if how == "kill":
            process.kill()
        else:
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline().split()[1] == "True"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    model = bc.load(path)
    X = (np.random.default_rng(0).random((2000, 20)) < 0.4).astype(np.uint8)
    assert np.isfinite(model.score(X))
    n_epochs = model.n_epochs_
    model.set_params(max_epochs=n_epochs + 1, n_points=64)
    assert model.fit(X).n_epochs_ >= n_epochs


def test_a_budget_ends_the_run(X):
    model = small(max_epochs=10**6, patience=10**6, time_budget=1.0).fit(X)
    assert 1 <= model.n_epochs_ < 10**6
    hurried = small(time_budget=1e-9).fit(X)
    assert hurried.n_epochs_ <= 1 and np.isfinite(hurried.score(X))


def test_files_and_progress(X, capsys):
    model = small(verbose=1, max_epochs=2).fit(X)
    assert "ContinuousMixture" in capsys.readouterr().err
    back = loads(dumps(model))
    assert back.validation_scores_ == model.validation_scores_
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize(
    "settings",
    [
        {"n_latent": 0},
        {"n_latent": 10**6},
        {"n_points": 0},
        {"tol": -1.0},
        {"hidden": (0,)},
        {"hidden": 16},
        {"width": -1},
        {"width": 40},
        {"batch_size": 0},
        {"n_train_points": 2.5},
        {"learning_rate": 0.0},
        {"weight_decay": -0.1},
        {"learning_rate": 2.0, "weight_decay": 0.5},
        {"max_epochs": -1},
        {"patience": 0},
        {"validation_fraction": 1.0},
        {"validation_fraction": 0.0},
        {"time_budget": 0},
        {"random_state": -1},
        {"n_jobs": 0},
    ],
    ids=str,
)
def test_bad_settings(X, settings):
    with pytest.raises(ValueError, match="must"):
        small(**settings).fit(X)


@pytest.mark.filterwarnings("ignore:overflow")
def test_weights_that_overflow_are_told(X):
    with pytest.raises(DataError, match="divide them"):
        small().fit(X, sample_weight=np.full(len(X), 1e308))
