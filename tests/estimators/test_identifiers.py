import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import bayescut as bc
from bayescut import CutsetEnsemble, CutsetMixture, CutsetNetwork, load, save
from bayescut.data import Domains
from bayescut.estimators._validation import check_size, find_identifiers
from bayescut.exceptions import DataError, IdentifierWarning


def rows_with_names(n=150, seed=0):
    """A column that is different in every row between two that depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n)
    last = np.where(rng.random(n) < 0.9, first, 0)
    return np.column_stack([first, rng.permutation(n), last]).astype(np.uint16)


def test_a_column_of_names_is_told_and_independent():
    X = rows_with_names()
    with pytest.warns(IdentifierWarning, match=r"1 \(150 states\)") as told:
        model = CutsetNetwork().fit(X)
    assert len(told) == 1
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    rest = X.astype(float)
    rest[:, 1] = np.nan
    together = model.score_samples(X)
    np.testing.assert_allclose(together, model.score_samples(names) + model.score_samples(rest))
    np.testing.assert_allclose(model.score_samples(names), -np.log(150))
    # The other columns are learned as if it were not there.
    alone = CutsetNetwork().fit(X[:, [0, 2]])
    np.testing.assert_allclose(model.score_samples(rest), alone.score_samples(X[:, [0, 2]]))
    assert model.n_parameters_ == alone.n_parameters_ + 149


def test_weights_and_names():
    X = rows_with_names()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork(shrinkage=False).fit(X, sample_weight=weights)
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    expected = (weights + 1 / 150) / (weights.sum() + 1)
    np.testing.assert_allclose(np.exp(model.score_samples(names)), expected)


def test_new_names_get_as_much_as_the_marginal_likelihood_asks_for():
    X = rows_with_names()
    X[:30, 1] = X[30, 1]  # one name is a frequent one
    names = np.arange(150, dtype=np.uint16)
    counts = np.bincount(X[:, 1], minlength=150)

    def evidence(ess):  # the Dirichlet-multinomial probability of the column
        a = ess / 150
        own = gammaln(counts + a).sum() - 150 * gammaln(a)
        return own + gammaln(ess) - gammaln(150 + ess)

    ess = max((2.0**step for step in range(21)), key=evidence)
    assert 1.0 < ess < 2.0**20
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork(n_states=[3, 150, 3]).fit(X)
    asked = np.full((150, 3), np.nan)
    asked[:, 1] = names
    expected = (counts + ess / 150) / (150 + ess)
    np.testing.assert_allclose(np.exp(model.score_samples(asked)), expected)


def test_nothing_but_names():
    """There is nothing to be independent of: the last column is learned as any other."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.permutation(100), rng.permutation(100)]).astype(np.uint16)
    np.testing.assert_allclose(CutsetNetwork().fit(X[:, :1]).score_samples(X[:, :1]), -np.log(100))
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork().fit(X)
    np.testing.assert_allclose(model.score_samples(X), -2 * np.log(100))


def test_names_are_kept_where_that_is_asked_for():
    X = rows_with_names()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CutsetNetwork(identifiers="keep").fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.raises(ValueError, match="identifiers must be 'independent' or 'keep'"):
        CutsetNetwork(identifiers="drop").fit(X)


def test_what_is_an_identifier():
    domains = Domains.of_sizes([2, 32, 33, 200, 201])
    assert find_identifiers(domains, 1000).tolist() == [4]
    assert find_identifiers(domains, 20).tolist() == [2, 3, 4]
    assert find_identifiers(domains, 10**6).tolist() == []


def test_the_guard_counts_what_is_learned_about():
    domains = Domains.of_sizes([2, 30_000, 5])
    with pytest.raises(DataError, match=r"47 GiB to count\. Column 1 has 30000"):
        check_size(domains)
    check_size(domains, np.array([1]))


@pytest.mark.parametrize("kind", [CutsetNetwork, CutsetEnsemble])
def test_the_guard_counts_rows_by_their_weights(kind):
    X = np.column_stack([np.arange(9000), np.arange(9000) % 2]).astype(np.uint16)
    # By nine rows of each, the column is none that nothing can be learned about.
    with pytest.raises(DataError, match=r"4 GiB to count\. Column 0 has 9000"):
        kind(n_jobs=1).fit(X, sample_weight=np.full(9000, 9.0))


def test_copies_of_rows_with_gaps_are_not_more_rows():
    # Rows with gaps are learned from in five copies: 500 rows would teach something of 100 names.
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in range(100)]
    table = pd.DataFrame({"name": names, "a": rng.choice(["x", "y"], 100), "b": "z"})
    table["a"] = table["a"].mask(np.arange(100) % 10 > 0)
    table["b"] = rng.choice(["x", "y"], 100)
    with pytest.warns(IdentifierWarning, match=r"from 100 rows .* 'name' \(100 states\)"):
        model = CutsetNetwork(n_jobs=1).fit(table)
    assert model.n_parameters_ < 150


MAKERS = {
    "mixture": lambda **k: CutsetMixture(2, max_iter=3, tol=0.1, random_state=0, n_jobs=1, **k),
    "ensemble": lambda **k: CutsetEnsemble(2, 2, n_bags=2, random_state=0, n_jobs=1, **k),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_mixtures_and_ensembles_set_names_apart(kind, tmp_path):
    X, make = rows_with_names(), MAKERS[kind]
    with pytest.warns(IdentifierWarning, match=r"1 \(150 states\)") as told:
        model = make().fit(X)
    assert len(told) == 1
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    rest = X.astype(float)
    rest[:, 1] = np.nan
    np.testing.assert_allclose(model.score_samples(names), -np.log(150))
    alone = make().fit(X[:, [0, 2]])
    np.testing.assert_allclose(model.score_samples(rest), alone.score_samples(X[:, [0, 2]]))
    np.testing.assert_allclose(model.score_samples(X) + np.log(150), model.score_samples(rest))
    assert model.circuit_.properties.smooth and model.circuit_.properties.decomposable
    assert model.compress(max_parameters=model.n_parameters_).score(X) == pytest.approx(
        model.score(X), abs=0.1
    )
    if kind == "mixture":
        assert model.n_components_ == alone.n_components_
        np.testing.assert_allclose(
            model.predict_proba(rest), alone.predict_proba(X[:, [0, 2]]), atol=1e-12
        )
    else:  # as the leaf does among the rows that are left
        assert model.oob_score_ == pytest.approx(alone.oob_score_ - np.log(150), abs=1e-3)
    save(model, tmp_path / "model.bc")
    np.testing.assert_array_equal(
        load(tmp_path / "model.bc").score_samples(X), model.score_samples(X)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = make(identifiers="keep").fit(X)
    assert np.isfinite(kept.score(X))


def test_a_mixture_with_names_goes_on_from_a_checkpoint(tmp_path):
    X = rows_with_names()
    settings = {"n_components": 2, "structure": "own", "tol": 0.0, "patience": 99,
                "assignment": "sampled", "random_state": 0, "n_jobs": 1}  # fmt: skip
    path = tmp_path / "em.bc"
    with pytest.warns(IdentifierWarning):
        whole = CutsetMixture(max_iter=4, **settings).fit(X)
        CutsetMixture(max_iter=2, checkpoint=path, **settings).fit(X)
        second = CutsetMixture(max_iter=4, checkpoint=path, **settings).fit(X)
        warm = CutsetMixture(max_iter=2, warm_start=True, **settings).fit(X)
        save(warm, tmp_path / "warm.bc")
        loaded = load(tmp_path / "warm.bc")
        for model in (warm, loaded):
            model.set_params(max_iter=4).fit(X)
    for model in (second, warm, loaded):
        np.testing.assert_array_equal(model.score_samples(X), whole.score_samples(X))


def test_names_with_gaps_and_validation_rows():
    X = pd.DataFrame(rows_with_names()).astype(object).map(str)
    X.iloc[::7, 1] = None
    X.iloc[3::9, 0] = None
    with pytest.warns(IdentifierWarning):
        model = CutsetMixture([1, 2], random_state=0, unseen="missing").fit(
            X.iloc[20:], X_valid=X.iloc[20:40].ffill().bfill()
        )
    assert set(model.validation_scores_) == {1, 2}
    with pytest.warns(IdentifierWarning):
        other = CutsetEnsemble(2, 2, n_bags=2, random_state=0, unseen="missing").fit(X)
    for one in (model, other):
        assert np.isfinite(one.score(X))
        assert one.impute(X).notna().to_numpy().all()


# The peak is that of a process: no other test may have touched the memory before.
LEARN_MUCH = """
import re
from pathlib import Path
import numpy as np
import bayescut as bc
from bayescut import CutsetEnsemble, CutsetMixture, CutsetNetwork, load, save
from bayescut.estimators import _validation

def peak():
    # Not getrusage: its peak is also that of the process that started this one.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def learn(k, n):
    rng = np.random.default_rng(0)
    first = rng.integers(0, k, n)
    second = (first + rng.integers(0, k // 3, n)) % k
    X = np.column_stack([first, second, first * 4 // k]).astype(np.uint16)
    return CutsetNetwork(identifiers="keep", n_states=[k, k, 4], n_jobs=2).fit(X)

learn(40, 400)
before = peak()
model = learn(1000, 8000)
n_bits = 2 * 999 + 3
print(model.n_cuts_, (peak() - before) / (n_bits**2 * _validation._STATES_PAIR_BYTES))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_learning_takes_about_as_much_memory_as_the_guard_says():
    # The first time, compiling takes more memory than learning.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LEARN_MUCH], capture_output=True, text=True, check=True
        )
    n_cuts, ratio = done.stdout.split()
    assert int(n_cuts) > 0
    assert 0.5 < float(ratio) < 2.0


def people(n=160, seed=0):
    """Two related columns, and names that are different in every row."""
    rng = np.random.default_rng(seed)
    height = rng.normal(170, 10, n).round(1)
    size = np.where(height + rng.normal(0, 4, n) > 170, "tall", "short")
    return pd.DataFrame({"name": [f"n{i}" for i in range(n)], "height": height, "size": size})


@pytest.mark.parametrize("make", [bc.CutsetClassifier, bc.CutsetRegressor])
def test_predictors_do_not_look_at_identifiers(make, tmp_path):
    frame = people()
    frame.loc[::9, "size"] = None
    frame["weight"] = (frame["height"] - 100 + np.arange(160) % 7).astype(float)
    y = np.where(frame["weight"] > 70, "a", "b") if make is bc.CutsetClassifier else frame["weight"]
    X = frame[["name", "height", "size"]]
    with pytest.warns(IdentifierWarning, match=r"'name' \(160 states\)") as told:
        model = make(n_members=6).fit(X, y)
    assert len(told) == 1
    assert "identifiers=" not in str(told[0].message)
    alone = make(n_members=6).fit(X[["height", "size"]], y)
    ask = X[:20].assign(name=["somebody else", None] * 10)
    np.testing.assert_array_equal(model.predict(ask), alone.predict(ask[["height", "size"]]))
    bc.save(model, tmp_path / "model.bc")
    np.testing.assert_array_equal(bc.load(tmp_path / "model.bc").predict(ask), model.predict(ask))


def test_imputer_and_detector_set_identifiers_apart(tmp_path):
    frame = people()
    known = frame[["height", "size"]].copy()
    frame.loc[::8, "size"] = None
    frame.loc[3, "name"] = None
    settings = {"n_members": 4, "n_trees": 2}
    with pytest.warns(IdentifierWarning, match="'name'"):
        imputer = bc.CutsetImputer(**settings).fit(frame)
    alone = bc.CutsetImputer(**settings).fit(frame[["height", "size"]])
    filled = imputer.transform(frame)
    assert filled["name"].notna().all()
    assert list(filled.columns) == ["name", "height", "size"]
    # Weights of trees beside the mixture are found from rows hidden in groups of columns.
    assert (filled["size"] == alone.transform(frame[["height", "size"]])["size"]).all()
    assert (filled["size"] == known["size"]).mean() > 0.9
    assert imputer.cell_shares_.shape == (3, 3)
    assert imputer.cell_shares_[0].tolist() == [1.0, 0.0, 0.0]
    bc.save(imputer, tmp_path / "imputer.bc")
    again = bc.load(tmp_path / "imputer.bc").transform(frame)
    pd.testing.assert_frame_equal(again, filled)
    with pytest.warns(IdentifierWarning, match="'name'"):
        detector = bc.CutsetOutlierDetector(**settings).fit(frame)
    odd = frame[:1].assign(height=[120.0], size=["tall"])
    assert detector.score_samples(odd)[0] < np.quantile(detector.score_samples(frame), 0.05)
