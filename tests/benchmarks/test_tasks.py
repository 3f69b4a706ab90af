"""The benchmark of the jobs: what is hidden, how rivals are fed, what is written."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def tasks(load):
    return load("tasks")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    return pd.DataFrame({"x": x, "label": np.where(rng.random(120) < 0.5, "a", "b")})


def test_hidden_cells_are_as_many_as_said(tasks, frame):
    rows = tasks.hide(frame, 0.3, np.random.default_rng(0))
    assert 0.2 < rows.isna().to_numpy().mean() < 0.4
    known = rows.notna()
    assert (rows.x[known.x] == frame.x[known.x]).all()
    assert tasks.hide(frame, 0.0, np.random.default_rng(0)).notna().all().all()


def test_labels_become_numbers_or_dummies_and_stay_missing(tasks, frame):
    coded = tasks.Coded(frame)
    rows = frame.head(3).assign(label=["a", "b", None])
    assert coded.numbers(rows).label.tolist()[:2] == [0.0, 1.0]
    dummies = coded.dummies(rows)
    assert dummies[["label=0", "label=1"]].iloc[:2].to_numpy().tolist() == [[1, 0], [0, 1]]
    assert dummies.iloc[2, 1:].isna().all()


@pytest.mark.parametrize("masks", [False, True])
def test_rivals_predict_rows_with_gaps(tasks, frame, masks):
    y = np.where(frame.x > 0, "high", "low")
    for rival in (tasks.Boosted(masks), tasks.ForestKNN()):
        rival.fit(frame, y)
        whole = rival.predict_proba(frame)
        assert np.mean(whole.argmax(axis=1) == (y == "low")) > 0.9
        gappy = rival.predict_proba(tasks.hide(frame, 0.5, np.random.default_rng(0)))
        np.testing.assert_allclose(gappy.sum(axis=1), 1.0)


def test_calibration_error_is_the_distance_of_saying_from_being_right(tasks):
    labels, y = np.array(["a", "b"]), np.array(["a"] * 80 + ["b"] * 20)
    proba = np.tile([0.8, 0.2], (100, 1))
    order = np.random.default_rng(0).permutation(100)
    assert tasks.calibration_error(labels, y, np.tile([1.0, 0.0], (100, 1))) == pytest.approx(0.2)
    assert tasks.calibration_error(labels, y[order], proba) < 0.12


def test_labels_are_filled_by_all_methods(tasks):
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y", "z"], 150)
    table = pd.DataFrame({"a": a, "b": a, "c": rng.choice(["u", "v"], 150)})
    gappy = table.mask(rng.random(table.shape) < 0.2)
    for method in ("CutsetImputer", "KNN-5", "most frequent", "forests in turn"):
        filled = tasks.fill_labels(method, gappy)
        assert filled.notna().all().all()
        known = gappy.notna().to_numpy()
        assert (filled.to_numpy() == table.to_numpy())[known].all()
        if method != "most frequent":
            alone = gappy.a.isna() & gappy.b.notna()
            assert (filled.a == table.a)[alone].mean() > 0.9


def test_results_are_kept_once_and_averaged_where_all_ran(tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "PATH", tmp_path / "tasks.csv")
    line = {"job": "classify", "fold": 0, "missing": 0.3, "second": "0.5", "fit_seconds": "1"}
    rows = [
        line | {"dataset": "one", "method": "ours", "score": "0.8"},
        line | {"dataset": "one", "method": "theirs", "score": "0.7"},
        line | {"dataset": "two", "method": "ours", "score": "0.2"},
    ]
    tasks.keep(iter(rows))
    assert tasks.done("classify", "two", 0, "ours")
    assert not tasks.done("classify", "two", 0, "theirs")
    text = tasks.table()
    assert "1 sets (one)" in text and "0.800" in text and "0.200" not in text
