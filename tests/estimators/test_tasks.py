"""The classifier, the regressor, the imputer and the outlier detector."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayescut import (
    CNetBD,
    CutsetClassifier,
    CutsetImputer,
    CutsetOutlierDetector,
    CutsetRegressor,
    load,
    save,
)
from bayescut.data import Domains, encode_table
from bayescut.estimators._outliers import standard_scores, threshold, usual_largest
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import dumps, loads
from bayescut.learn.cells.conditional import TreeMember

pd = pytest.importorskip("pandas")


# Why a common check of scikit-learn does not apply.
EXPECTED_FAILURES = {
    # Whole numbers in an array are codes from 0 on, in a DataFrame labels as far as they occur.
    "check_regressor_data_not_an_array": "compares a DataFrame of labels with an array of codes",
}


@parametrize_with_checks(
    [
        CutsetClassifier(n_members=4, n_jobs=1),
        CutsetRegressor(n_members=2, n_jobs=1),
        CutsetImputer(n_members=3, n_jobs=1),
        CutsetOutlierDetector(n_members=3, n_jobs=1),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_common_checks_of_scikit_learn(estimator, check):
    check(estimator)


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    town = rng.choice(["north", "south", "west"], n)
    income = np.round(20 + 0.5 * age + 10 * (town == "north") + rng.normal(0, 4, n), 1)
    y = np.where((income > 52) ^ (rng.random(n) < 0.05), "buys", "leaves")
    return pd.DataFrame({"age": age, "town": town, "income": income}), y


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def classifier(table):
    return CutsetClassifier(n_members=8, n_jobs=1).fit(*table)


def test_classifier_predicts_rows_it_has_not_seen(classifier):
    X, y = people(seed=1)
    proba = classifier.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert classifier.score(X, y) > 0.85
    assert log_loss(y, proba, labels=classifier.classes_) < 0.45
    np.testing.assert_allclose(classifier.predict_log_proba(X), np.log(proba))
    assert sum(classifier.n_members_.values()) == 8
    assert sum(classifier.recipe_weights_.values()) == pytest.approx(1.0)
    assert -0.5 < classifier.oob_score_ < 0


def test_missing_features_are_summed_over_exactly(classifier, table):
    """p(c | x without town) = sum over towns of p(c, town | x), in every member."""
    X, _ = table
    gap = X.head(3).assign(town=np.nan)
    codes, _ = encode_table(gap, classifier.domains_, allow_missing=True)
    kinds = set()
    for weight, member in classifier.members_:
        assert 0 < weight <= 1
        kinds.add(type(member))
        if isinstance(member, TreeMember):
            domains = Domains.of_sizes(member.forest.sizes)
            rows = np.column_stack([codes, np.full(3, 255)]).astype(np.uint8)
            trees = range(member.forest.n_trees)
            found = [member.forest.circuit(k, domains).marginals(rows)[:, -2:] for k in trees]
            expected = np.log(np.mean(found, axis=0))
            np.testing.assert_allclose(member.log_proba(codes), expected, atol=1e-5)
            continue
        if member.log_prior is None:
            continue
        rows = member.features(codes)
        parts = []
        for circuit, prior in zip(member.circuits, member.log_prior, strict=True):
            terms = []
            for state in range(3):
                full = rows.copy()
                full[:, 1] = state
                terms.append(circuit.log_likelihood(full))
            parts.append(np.logaddexp.reduce(terms, axis=0) + prior)
        expected = np.column_stack(parts)
        expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(member.log_proba(codes), expected, atol=1e-10)


def test_a_weight_of_two_is_a_row_given_twice_to_the_last_bit(table):
    X, y = table
    X, y = X.head(120), y[:120]
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(X)), weights))
    for model, target in (
        (CutsetClassifier(n_members=6, n_jobs=1), y),
        (CutsetRegressor(n_members=4, n_jobs=1), X.income.to_numpy()),
    ):
        features = X[["age", "town"]]
        weighed = clone(model).fit(features, target, sample_weight=weights)
        given = clone(model).fit(features.iloc[order], target[order])
        np.testing.assert_array_equal(
            weighed._target_proba(features), given._target_proba(features)
        )


def test_nothing_known_gives_about_the_shares_of_the_classes(classifier, table):
    blank = pd.DataFrame({"age": [np.nan], "town": [None], "income": [np.nan]})
    share = np.mean(table[1] == "buys")
    assert classifier.predict_proba(blank)[0, 0] == pytest.approx(share, abs=0.03)


def test_gaps_in_training(table):
    X, y = table
    rng = np.random.default_rng(3)
    gappy = X.astype(object).mask(rng.random(X.shape) < 0.2)
    model = CutsetClassifier(n_members=4, n_jobs=1).fit(gappy, y)
    fresh, truth = people(seed=2)
    assert model.score(fresh, truth) > 0.8


def test_unseen_labels_are_missing_or_refused(classifier, table):
    X = table[0].head(2).assign(town="moon")
    gap = table[0].head(2).assign(town=np.nan)
    np.testing.assert_array_equal(classifier.predict_proba(X), classifier.predict_proba(gap))
    strict = CutsetClassifier(n_members=4, unseen="error", n_jobs=1).fit(*table)
    with pytest.raises(DataError, match="moon"):
        strict.predict(X)


def test_same_table_in_any_order_and_by_any_number_of_threads(table):
    X, y = table
    order = np.random.default_rng(0).permutation(len(y))
    first = CutsetClassifier(n_members=5, n_jobs=1).fit(X, y).predict_proba(X)
    second = CutsetClassifier(n_members=5, n_jobs=3).fit(X.iloc[order], y[order]).predict_proba(X)
    np.testing.assert_allclose(first, second, atol=1e-12)


def test_a_weight_of_two_is_a_row_given_twice_and_zero_is_none():
    X, y = people(120)
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    twice = np.repeat(np.arange(len(y)), weights)
    model = CutsetClassifier(n_members=4, n_jobs=1)
    one = clone(model).fit(X, y, sample_weight=weights).predict_proba(X)
    two = clone(model).fit(X.iloc[twice], y[twice]).predict_proba(X)
    np.testing.assert_allclose(one, two, atol=1e-9)


def test_bad_targets_are_named(table):
    X, y = table
    holes = y.astype(object)
    holes[7] = None
    with pytest.raises(DataError, match="row 7"):
        CutsetClassifier().fit(X, holes)
    with pytest.raises(DataError, match="row 3"):
        CutsetRegressor().fit(X, np.where(np.arange(len(X)) == 3, np.nan, 1.0))
    with pytest.raises(ValueError, match="time_budget"):
        CutsetClassifier(time_budget=0).fit(X, y)


def test_time_budget_keeps_one_member_of_each_recipe(table):
    model = CutsetClassifier(n_members=1000, time_budget=1e-9, n_jobs=1).fit(*table)
    assert set(model.n_members_.values()) == {1}


def test_grid_search_and_pickle(table):
    X, y = table
    search = GridSearchCV(CutsetClassifier(n_members=4, n_jobs=1), {"width": [1, 2]}, cv=2)
    search.fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def labels_only(X):
    return X.assign(age=np.where(X.age > 50, "old", "young"), income=(X.income > 50).astype(str))


def test_model_files(tmp_path, table):
    X, y = labels_only(table[0]), table[1]
    models = [
        CutsetClassifier(n_members=4, n_jobs=1).fit(X, y),
        CutsetRegressor(n_members=2, n_jobs=1).fit(X, table[0].income),
    ]
    for model in models:
        save(model, tmp_path / "model.bc")
        again = load(tmp_path / "model.bc")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.get_params() == model.get_params()
        assert again.oob_score_ == model.oob_score_
    imputer = CutsetImputer(n_members=2, n_jobs=1).fit(X)
    gappy = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    assert loads(dumps(imputer)).transform(gappy).equals(imputer.transform(gappy))
    for method in ("median", "sample"):
        imputer = CutsetImputer(method, n_members=3, n_trees=2, n_jobs=1).fit(gappy)
        np.testing.assert_allclose(imputer.cell_shares_.sum(axis=1), 1.0)
        assert imputer.cell_shares_[:, 1].max() > 0
        again = loads(dumps(imputer))
        pd.testing.assert_frame_equal(again.transform(gappy), imputer.transform(gappy))
        np.testing.assert_array_equal(again.cell_shares_, imputer.cell_shares_)
    detector = CutsetOutlierDetector(n_members=2, n_jobs=1).fit(X)
    np.testing.assert_array_equal(
        loads(dumps(detector)).score_samples(gappy), detector.score_samples(gappy)
    )


def test_a_file_whose_trees_or_scores_do_not_fit_is_refused(table):
    imputer = CutsetImputer(n_members=3, n_trees=1, n_jobs=1).fit(table[0])
    assert (imputer.cell_shares_[[0, 2], 2] > 0).all() and imputer.cell_shares_[1, 2] == 0
    again = loads(dumps(imputer))
    gappy = table[0].mask(np.random.default_rng(0).random(table[0].shape) < 0.3)
    pd.testing.assert_frame_equal(again.transform(gappy), imputer.transform(gappy))
    state = imputer._get_state()
    cells = state["cells"]
    for name, wrong, message in (
        ("forests", cells["forests"][::-1], "trees"),
        ("shares", 2 * cells["shares"], "trees"),
        ("covariance", None, "normal scores"),
        ("covariance", -cells["covariance"], "positive"),
    ):
        with pytest.raises(ValueError, match=message):
            CutsetImputer()._set_state(state | {"cells": cells | {name: wrong}})


def test_a_file_whose_member_does_not_fit_is_refused(table):
    model = CutsetClassifier(n_members=4, n_jobs=1).fit(labels_only(table[0]), table[1])
    state = model._get_state()
    state["members"][0]["views"][1] = np.array([0, 1, 9], dtype=np.uint16)
    with pytest.raises(ValueError, match="does not fit"):
        CutsetClassifier()._set_state(state)


# ------------------------------------------------------------------------------- numbers


def test_files_of_regressors_hold_all_kinds_of_members(table):
    X = table[0]
    model = CutsetRegressor(n_members=10, n_jobs=1).fit(X[["age", "town"]], X.income)
    kinds = {type(member).__name__ for _, member in model.members_}
    assert {"TreeMember", "NormalMember"} <= kinds
    again = loads(dumps(model))
    features = X[["age", "town"]].mask(np.random.default_rng(0).random((len(X), 2)) < 0.3)
    np.testing.assert_array_equal(again.predict_cells(features), model.predict_cells(features))
    state = model._get_state()
    for entry in state["members"]:
        if "covariance" in entry:
            entry["columns"] = np.array([0, 1])
    with pytest.raises(ValueError, match="normal scores"):
        CutsetRegressor()._set_state(state)


@pytest.fixture(scope="module")
def regressor(table):
    X, _ = table
    return CutsetRegressor(n_members=8, n_jobs=1).fit(X[["age", "town"]], X.income)


def test_regressor(regressor):
    X, _ = people(seed=4)
    features = X[["age", "town"]]
    assert regressor.score(features, X.income) > 0.4
    low, middle, high = regressor.quantile(features, [0.1, 0.5, 0.9]).T
    assert (low <= middle).all() and (middle <= high).all()
    np.testing.assert_array_equal(regressor.predict(features, method="median"), middle)
    np.testing.assert_array_equal(regressor.interval(features, 0.8), np.column_stack([low, high]))
    for coverage in (0, 1, 80):
        with pytest.raises(ValueError, match="coverage must be"):
            regressor.interval(features, coverage)
    inside = np.mean((low <= X.income) & (X.income <= high))
    assert 0.65 < inside <= 1.0
    np.testing.assert_allclose(regressor.predict_cells(features).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["datetime64[s]", "timedelta64[s]"])
def test_regressors_refuse_dates_instead_of_predicting_nanoseconds(kind):
    y = np.arange(20).astype(kind)
    with pytest.raises(DataError, match="not dates or durations"):
        CutsetRegressor(n_members=2).fit(np.arange(20.0)[:, None] / 2, y)


def test_mean_of_a_prediction_is_that_of_its_draws(regressor):
    X = people(seed=4)[0][["age", "town"]].head(1)
    cells = regressor.predict_cells(X)[0]
    rng = np.random.default_rng(0)
    drawn = regressor.grid_.draw(rng.choice(len(cells), 20_000, p=cells), rng.random(20_000))
    assert regressor.predict(X)[0] == pytest.approx(drawn.mean(), abs=0.3)


# ---------------------------------------------------------------------------------- gaps


def test_imputer_keeps_what_is_known_and_the_types(table):
    X, _ = table
    gone = np.random.default_rng(1).random(X.shape) < 0.2
    gappy = X.astype({"age": "Int64"}).mask(gone)
    imputer = CutsetImputer(n_members=4, n_jobs=1)
    for method in ("median", "mean", "mode", "mpe", "sample"):
        filled = clone(imputer).set_params(method=method).fit(gappy).transform(gappy)
        assert not filled.isna().any().any()
        assert list(filled.columns) == list(X.columns)
        for j, name in enumerate(X.columns):
            known = ~gone[:, j]
            assert (filled[name][known] == X[name][known]).all()
        assert set(filled.town) == {"north", "south", "west"}
    assert imputer.fit(gappy).get_feature_names_out().tolist() == list(X.columns)


def test_median_fill_is_nearer_than_the_column_median(table):
    X, _ = table
    gone = np.random.default_rng(2).random(len(X)) < 0.3
    gappy = X.assign(income=X.income.mask(gone))
    filled = CutsetImputer(n_members=6, n_jobs=1).fit_transform(gappy)
    error = (filled.income - X.income)[gone].abs().mean()
    assert error < 0.8 * (X.income - gappy.income.median())[gone].abs().mean()


def test_draws_differ_and_repeat(table):
    X = table[0].assign(income=np.nan).assign(income=lambda d: table[0].income)
    X.loc[:40, "income"] = np.nan
    imputer = CutsetImputer(n_members=3, n_jobs=1).fit(X)
    draws = imputer.draws(X, 3)
    assert not draws[0].equals(draws[1])
    assert draws[0].equals(imputer.draws(X, 1)[0])


def test_imputer_with_an_estimator_in_a_pipeline_and_set_output():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 4))
    X[:, 1] = X[:, 0]
    imputer = CutsetImputer(estimator=CNetBD(n_jobs=1)).fit(X)
    gappy = np.array([[1, np.nan, 0, 1], [np.nan, 0, 0, 1]])
    assert imputer.transform(gappy)[:, :2].tolist() == [[1, 1], [0, 0]]
    framed = imputer.set_output(transform="pandas").transform(gappy)
    assert list(framed.columns) == ["x0", "x1", "x2", "x3"]
    pipeline = make_pipeline(CutsetImputer(n_members=2, n_jobs=1), DecisionTreeClassifier())
    assert pipeline.fit(X, X[:, 0]).predict(gappy).tolist() == [1, 0]


def test_a_column_never_seen_stays_missing():
    X = pd.DataFrame({"a": ["x", "y"] * 10, "b": [None] * 20})
    filled = CutsetImputer(n_members=2, n_jobs=1).fit(X).transform(X)
    assert filled.b.isna().all() and filled.a.equals(X.a)


def test_a_circuit_that_knows_more_than_the_table_has_columns(table):
    """As where a density was told which cells were missing."""
    X = labels_only(table[0])
    wide = X.assign(gap=np.where(X.age == "old", "yes", "no"))
    imputer, detector = CutsetImputer(n_members=2), CutsetOutlierDetector(n_members=2)
    for model in (imputer, detector):
        model.fit(wide)
        model.domains_ = Domains(model.domains_[:3])
        model._set_names(list(X.columns))
    gappy = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    for model in (imputer, loads(dumps(imputer))):
        assert model.transform(gappy).shape == X.shape
    assert detector.score_samples(gappy).shape == (len(X),)
    assert detector.surprisal(gappy).shape == X.shape


# ---------------------------------------------------------------------------------- odd


@pytest.fixture(scope="module")
def detector(table):
    return CutsetOutlierDetector(n_members=4, n_jobs=1).fit(table[0])


def test_cells_are_judged_by_all_that_is_said_of_them(table, detector):
    X = table[0].head(20)
    found = detector.surprisal(X, relative=False)
    codes, values = detector._read_table(X)
    blank = codes.copy()
    blank[:, 2] = 255
    chances = detector._cells.proba(blank, [2])[2]
    own = np.log(chances[np.arange(20), codes[:, 2]])
    inside = detector.domains_[2].grid.log_inside(values[:, 2])
    np.testing.assert_allclose(found["income"], -own - inside)
    np.testing.assert_array_equal(loads(dumps(detector)).surprisal(X), found)
    plain = CutsetOutlierDetector(n_members=3, n_trees=0, n_jobs=1).fit(table[0])
    assert plain.cell_shares_.tolist() == [[1, 0, 0]] * 3
    alone = plain.circuit_.marginals(blank)[:, plain.domains_.offsets[2] :]
    own = np.log(alone[np.arange(20), codes[:, 2]])
    np.testing.assert_allclose(plain.surprisal(X)["income"], -own - inside)


def test_scores_compare_rows_with_different_gaps(detector):
    """Rows from the model score about the same whatever is missing; log-likelihoods do not."""
    X, _ = people(seed=6)
    whole, part = detector.score_samples(X), detector.score_samples(X.assign(income=np.nan))
    assert abs(whole.mean() - part.mean()) < 0.5
    assert 0.5 < whole.std() < 2 and 0.5 < part.std() < 2
    blank = pd.DataFrame({"age": [np.nan], "town": [None], "income": [np.nan]})
    assert detector.score_samples(blank)[0] == 0


def test_rows_that_are_larger_throughout_are_odd():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(500, 1))
    rows = pd.DataFrame(np.exp(0.4 * (shared + rng.normal(size=(500, 6))))).add_prefix("x")
    model = CutsetOutlierDetector(n_members=4, n_trees=0, n_jobs=1).fit(rows[:250])
    scores = model.score_samples(pd.concat([rows[250:], rows[250:] * 3]))
    usual, larger = scores[:250], scores[250:]
    # 0.60 if numbers count as odd for their size in the outer 1 % alone.
    assert (larger[:, None] < usual).mean() > 0.8


def test_an_odd_row_and_the_cell_to_blame(detector):
    odd = pd.DataFrame({"age": [20], "town": ["south"], "income": [69.0]})
    usual = pd.DataFrame({"age": [20], "town": ["south"], "income": [30.0]})
    assert detector.score_samples(odd)[0] < detector.score_samples(usual)[0]
    surprise = detector.surprisal(odd, relative=True)
    assert surprise.iloc[0].idxmax() in ("income", "age")
    assert detector.surprisal(usual, relative=True).to_numpy().max() < surprise.to_numpy().max()


def test_one_wrong_cell_among_many_makes_a_row_odd():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 1)) + 0.3 * rng.normal(size=(400, 10))
    model = CutsetOutlierDetector(n_members=4, n_jobs=1).fit(rows[:200])
    odd = rows[200:].copy()
    for i, j in enumerate(rng.integers(0, 10, 200)):
        odd[i, j] = rng.choice(rows[:200, j])
    both, truth = np.concatenate([rows[200:], odd]), np.repeat([0, 1], 200)
    codes, values = model._read_table(both)
    whole = roc_auc_score(truth, -standard_scores(model.circuit_, codes, values, seed=0))
    assert roc_auc_score(truth, -model.score_samples(both)) > whole + 0.05
    # As comparable between rows of different gaps as before.
    part = rows[200:].copy()
    part[rng.random(part.shape) < 0.5] = np.nan
    assert abs(model.score_samples(part).mean() - model.score_samples(rows[200:]).mean()) < 0.5


def test_the_largest_of_some_cells():
    cells = np.random.default_rng(0).normal(size=(3, 5))
    found = usual_largest(cells)
    for k in range(1, 6):
        each = [cells[:, list(some)].max(axis=1) for some in combinations(range(5), k)]
        assert found[k] == pytest.approx(np.mean(each))
    assert found[0] == 0
    gaps = np.vstack([cells, [[np.nan, 1.0, np.nan, 3.0, np.nan]], np.full((1, 5), np.nan)])
    assert usual_largest(gaps)[1] == pytest.approx((found[1] * 3 + 2) / 4)
    assert usual_largest(gaps)[2] == pytest.approx((found[2] * 3 + 3) / 4)
    assert_allclose(usual_largest(gaps)[3:], found[3:])
    assert_allclose(usual_largest(gaps[3:]), [0, 2, 3, 3, 3, 3])
    assert_allclose(usual_largest(cells, np.array([2.0, 0, 0])), usual_largest(cells[:1]))
    assert_allclose(usual_largest(gaps[4:]), 0)
    many = usual_largest(np.sort(np.random.default_rng(1).random((2, 1500))))
    assert np.isfinite(many).all() and (np.diff(many) >= -1e-9).all()


def test_threshold_of_weighted_rows():
    scores = np.array([3.0, 1.0, 2.0, 5.0])
    assert threshold(scores, None, 0.25) == 1.5
    assert threshold(scores, None, 0.3) == 2.0
    assert threshold(scores, np.array([1, 0, 3, 0.0]), 0.75) == 2.5
    assert threshold(scores, np.array([1, 0, 3, 0.0]), 0.5) == 2.0
    assert threshold(scores, np.array([1, 0, 3, 0.0]), 0.9) == 3.0
    assert threshold(np.zeros(4), None, 0.5) == 0.0


def test_contamination(table):
    X, _ = table
    model = CutsetOutlierDetector(contamination=0.1, n_members=2, n_jobs=1).fit(X)
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.1, abs=0.02)
    np.testing.assert_array_equal(model.decision_function(X) < 0, model.predict(X) == -1)
    for bad in (0.0, 0.6, "some"):
        with pytest.raises(ValueError, match="contamination"):
            CutsetOutlierDetector(contamination=bad).fit(X)


def test_rows_without_weight_teach_detectors_nothing(table):
    X = table[0].copy()
    weights = np.ones(len(X))
    weights[:5] = 0
    X.loc[X.index[:5], "town"] = "nowhere"
    odd = CutsetOutlierDetector(n_members=2, n_trees=0, n_jobs=1).fit(X, sample_weight=weights)
    rest = CutsetOutlierDetector(n_members=2, n_trees=0, n_jobs=1).fit(X[5:])
    assert odd.weight_ == rest.weight_ == len(X) - 5
    assert odd.offset_ == pytest.approx(rest.offset_)
    np.testing.assert_allclose(odd.score_samples(X[5:50]), rest.score_samples(X[5:50]))


@pytest.mark.parametrize("weight", [-5.0, float("nan"), float("inf"), "x", [1.0]])
def test_detectors_of_files_have_a_weight(table, weight):
    odd = CutsetOutlierDetector(n_members=2, n_trees=0, n_jobs=1).fit(table[0][:50])
    odd.weight_ = weight
    with pytest.raises(ModelFileError, match="weight"):
        loads(dumps(odd))
