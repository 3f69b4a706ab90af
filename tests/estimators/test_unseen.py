"""Values that training did not show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import bayescut as bc
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
