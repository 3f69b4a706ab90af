"""Values that training did not show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import bayescut as bc
from bayescut.data import learn_domains, unseen_cells
from bayescut.exceptions import DataError
from bayescut.files import dumps, loads


def rare_labels(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    town = rng.choice(["Bonn", "Ulm"], n)
    town[[5, 50, 100]] = ["Jena", "Gera", "Suhl"]  # each in one fold only
    return pd.DataFrame({"town": town, "warm": rng.random(n) < 0.5, "size": rng.integers(0, 3, n)})


ESTIMATORS = {
    "network": lambda **options: bc.CutsetNetwork(**options),
    "published": lambda **options: bc.CNetBD(**options),
    "forest": lambda **options: bc.XCNet(random_state=0, **options),
    "mixture": lambda **options: bc.CutsetMixture(n_components=2, random_state=0, **options),
    "em": lambda **options: bc.EMCNetBD(n_components=2, random_state=0, **options),
    "ensemble": lambda **options: bc.CutsetEnsemble(2, 2, n_bags=2, random_state=0, **options),
}


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_an_unseen_value_is_an_error_or_missing(make) -> None:
    table = rare_labels()
    train, test = table.iloc[:60], table.iloc[60:]
    with pytest.raises(DataError, match=r"Unseen value 'Suhl' in row 40.*unseen='missing'"):
        make().fit(train).score_samples(test)
    model = make(unseen="missing").fit(train)
    hidden = test.assign(town=test["town"].where(test["town"] != "Suhl", None))
    np.testing.assert_array_equal(model.score_samples(test), model.score_samples(hidden))
    assert model.impute(test)["town"].isin(set(train["town"])).all()
    again = loads(dumps(model))
    assert again.unseen == "missing"
    np.testing.assert_array_equal(again.score_samples(test), model.score_samples(test))


def test_codes_beyond_those_of_training_are_missing_too() -> None:
    X = np.random.default_rng(0).integers(0, 3, (60, 3))
    model = bc.CNetBD(unseen="missing").fit(X)
    expected = model.score_samples([[0, np.nan, 1]])
    np.testing.assert_array_equal(model.score_samples([[0, 9, 1]]), expected)


def test_cross_validation_gives_numbers() -> None:
    table = rare_labels()
    folds = KFold(4)
    scores = cross_val_score(bc.CutsetNetwork(unseen="missing"), table, cv=folds)
    assert np.isfinite(scores).all()
    # By hand: what the folds do not know is hidden.
    for score, (train, test) in zip(scores, folds.split(table), strict=True):
        known = set(table["town"].iloc[train])
        part = table.iloc[test]
        part = part.assign(town=part["town"].where(part["town"].isin(known), None))
        assert score == pytest.approx(bc.CutsetNetwork().fit(table.iloc[train]).score(part))
    with pytest.raises(DataError, match="unseen='missing'"):
        cross_val_score(bc.CutsetNetwork(), table, cv=folds, error_score="raise")
    search = GridSearchCV(bc.CNetBD(unseen="missing"), {"ess": [0.1, 1.0, 10.0]}, cv=folds)
    search.fit(table)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["ess"] in (0.1, 1.0, 10.0)


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="unseen must be 'error' or 'missing', got 'ignore'"):
        bc.CNetBD(unseen="ignore").fit([[0, 1], [1, 0]])


def test_labels_that_training_did_not_show_are_odd() -> None:
    train = rare_labels()
    train = train[~train["town"].isin(["Jena", "Gera", "Suhl"])]
    model = bc.CutsetOutlierDetector(n_members=2, n_trees=0, n_jobs=1).fit(train)
    test = train.head(4).copy()
    test["town"] = test["town"].astype(object)
    test.iloc[0, 0], test.iloc[1, 0] = "Suhl", None
    scores = model.score_samples(test)
    assert scores[0] == scores.min() and model.predict(test)[0] == -1
    hidden = test.assign(town=[None, *test["town"][1:]])
    usual = model.score_samples(hidden)
    np.testing.assert_array_equal(scores[1:], usual[1:])
    surprise = model.surprisal(test)
    assert surprise.iloc[0, 0] == pytest.approx(np.log(len(train) + 1))
    assert np.isnan(surprise.iloc[1, 0])
    np.testing.assert_array_equal(surprise.iloc[0, 1:], model.surprisal(hidden).iloc[0, 1:])
    # Relative to what was to be expected of the town.
    chance = model._cell_posterior(*model._read_table(hidden.head(1)), 0)[0]
    expected = np.log(len(train) + 1) + (chance * np.log(chance)).sum()
    assert model.surprisal(test, relative=True).iloc[0, 0] == pytest.approx(expected)
    again = loads(dumps(model))
    np.testing.assert_array_equal(again.score_samples(test), scores)
    # A row of nothing but unknown labels is odd, too.
    strange = pd.DataFrame({"town": ["Suhl"], "warm": [None], "size": [None]})
    charge = np.log(len(train) + 1)
    relative = model.surprisal(strange, relative=True).iloc[0, 0]
    assert model.score_samples(strange)[0] == pytest.approx(-charge - relative + model.largest_[1])
    with pytest.raises(DataError, match="Unseen value 'Suhl'"):
        model.set_params(unseen="error").score_samples(test)
    np.testing.assert_array_equal(model.set_params(unseen="missing").score_samples(test), usual)


@pytest.mark.parametrize("frame", [False, True])
def test_unseen_cells(frame: bool) -> None:
    X = np.array([[0, 1], [1, 0], [2, 1]])
    table = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    domains = learn_domains(table)
    odd = np.array([[3.0, np.nan], [1.0, 0.0], [0.0, 7.0]])
    found = unseen_cells(pd.DataFrame(odd, columns=["a", "b"]) if frame else odd, domains)
    np.testing.assert_array_equal(found, [[True, False], [False, False], [False, True]])
