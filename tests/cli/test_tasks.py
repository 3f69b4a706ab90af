"""``bayescut predict``, ``anomalies``, ``report`` and ``show --depends``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command, make_people

import bayescut as bc


def test_predict_is_what_the_model_says(command: Command, model: Path, tmp_path: Path) -> None:
    people = make_people(50)
    path = tmp_path / "new.csv"
    people.drop(columns="smoker").to_csv(path, index=False)
    out = command.ok("predict", model, path, "--target", "smoker", "--proba", "-q")
    found = pd.read_csv(io.StringIO(out))
    estimator = bc.load(model)
    chances = estimator.predict_proba(people, target="smoker")
    np.testing.assert_allclose(found[["P(no)", "P(yes)"]], chances, atol=1e-12)
    np.testing.assert_allclose(found["probability"], chances.max(axis=1), atol=1e-12)
    assert found["smoker"].tolist() == estimator.predict(people, target="smoker").tolist()
    assert list(found.columns) == ["smoker", "probability", "P(no)", "P(yes)"]


def test_predict_does_not_look_at_the_target(command: Command, model: Path, tmp_path: Path) -> None:
    people = make_people(50)
    people.assign(smoker="seldom").to_csv(tmp_path / "odd.csv", index=False)
    people.drop(columns="smoker").to_csv(tmp_path / "none.csv", index=False)
    asked = ("predict", model, "--target", "smoker", "--proba", "-q")
    assert command.ok(*asked, tmp_path / "odd.csv") == command.ok(*asked, tmp_path / "none.csv")


def test_predict_of_files_without_names(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 300)
    rows = np.column_stack([first, first % 2, rng.integers(0, 2, 300)])
    model = bc.CutsetNetwork(n_jobs=1).fit(rows)
    bc.save(model, tmp_path / "bare.bc")
    expected = model.predict(rows, target=1).tolist()
    odd = np.where([0, 1, 0], 7, rows)  # what the file says of the target is not looked at
    for k, table in enumerate((rows, odd, rows[:, [0, 2]])):
        np.savetxt(tmp_path / f"{k}.csv", table, "%d", ",")
        asked = ("predict", tmp_path / "bare.bc", tmp_path / f"{k}.csv", "--target", 1, "-q")
        found = pd.read_csv(io.StringIO(command.ok(*asked, "--no-header")), header=None)
        assert pd.to_numeric(found[0].iloc[-300:]).tolist() == expected


def test_impute_by_an_imputer(command: Command, tmp_path: Path) -> None:
    people = make_people(300)
    imputer = bc.CutsetImputer(n_members=4, n_jobs=1).fit(people)
    bc.save(imputer, tmp_path / "filler.bc")
    gappy = people.head(40).astype(object)
    gappy = gappy.mask(np.random.default_rng(0).random(gappy.shape) < 0.3)
    gappy.to_csv(tmp_path / "gaps.csv", index=False)
    out = command.ok("impute", tmp_path / "filler.bc", tmp_path / "gaps.csv", "-q")
    found = pd.read_csv(io.StringIO(out), keep_default_na=False)
    filled = imputer.transform(gappy)
    assert found["age"].tolist() == filled["age"].tolist()
    assert found["home town"].tolist() == filled["home town"].tolist()
    assert found["kids"].tolist() == filled["kids"].astype(int).tolist()


def test_predict_refuses(command: Command, model: Path, people: Path) -> None:
    asked = ("predict", model, people, "-q", "--target")
    assert "no column 'smokes'" in command.error(*asked, "smokes")
    assert "no quantiles" in command.error(*asked, "smoker", "--quantiles", "0.5")
    assert "between 0 and 1" in command.error(*asked, "age", "--quantiles", "2", code=2)


def test_predict_takes_classifiers_and_regressors(
    command: Command, tmp_path: Path, people: Path
) -> None:
    table = make_people(200)
    features = table.drop(columns="smoker")
    model = bc.CutsetClassifier(n_members=6, n_jobs=1).fit(features, table.smoker)
    bc.save(model, tmp_path / "smoker.bc")
    new = make_people(30)
    gappy = new.mask(np.random.default_rng(0).random(new.shape) < 0.2)
    gappy.to_csv(tmp_path / "new.csv", index=False)
    asked = ("predict", tmp_path / "smoker.bc", tmp_path / "new.csv", "-q")
    found = pd.read_csv(io.StringIO(command.ok(*asked, "--target", "smoker", "--proba")))
    chances = model.predict_proba(gappy.drop(columns="smoker"))
    np.testing.assert_allclose(found[["P(no)", "P(yes)"]], chances, atol=1e-12)
    assert found["smoker"].tolist() == model.predict(gappy.drop(columns="smoker")).tolist()
    assert "no quantiles" in command.error(*asked, "--target", "smoker", "--quantiles", "0.5")
    assert "smoker" in command.error(*asked)  # a column the classifier has not seen
    gappy.drop(columns="smoker").to_csv(tmp_path / "new.csv", index=False)
    bare = pd.read_csv(io.StringIO(command.ok(*asked)))
    assert list(bare.columns) == ["prediction", "probability"]
    assert "predicts one column" in command.error("score", tmp_path / "smoker.bc", people, "-q")
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"x": rng.normal(size=100).round(2)})
    regressor = bc.CutsetRegressor(n_members=4, n_jobs=1).fit(numbers, 2 * numbers.x)
    bc.save(regressor, tmp_path / "y.bc")
    numbers.to_csv(tmp_path / "x.csv", index=False)
    out = command.ok(
        "predict", tmp_path / "y.bc", tmp_path / "x.csv", "-q", "--quantiles", "0.1,0.9"
    )
    found = pd.read_csv(io.StringIO(out))
    np.testing.assert_allclose(found["prediction"], regressor.predict(numbers, method="median"))
    np.testing.assert_allclose(found[["q0.1", "q0.9"]], regressor.interval(numbers, 0.8))


def test_predict_says_which_column_a_density_needs(
    command: Command, model: Path, people: Path
) -> None:
    assert "--target" in command.error("predict", model, people, "-q")


def test_anomalies_lists_the_odd_row_and_the_cell(
    command: Command, people: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.csv"
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y"], 300)
    table = pd.DataFrame({"a": a, "b": a, "c": rng.choice(["u", "v"], 300)})
    table.to_csv(path, index=False)
    command("fit", path, "-o", tmp_path / "pairs.bc", "-q")
    table.loc[7, "b"] = "y" if table.loc[7, "a"] == "x" else "x"
    table.to_csv(path, index=False)
    listed = json.loads(
        command.ok("anomalies", tmp_path / "pairs.bc", path, "-n", 2, "--json", "-q")
    )
    assert listed[0]["row"] == 7
    assert listed[0]["score"] < listed[1]["score"]
    assert listed[0]["cells"][0]["column"] in ("a", "b")
    text = command.ok("anomalies", tmp_path / "pairs.bc", path, "-n", 1, "-q")
    assert "7" in text and "b=" in text and "line 2" in text


def test_report_as_table_json_and_picture(command: Command, people: Path, tmp_path: Path) -> None:
    make_people(300).sample(frac=1, random_state=0).to_csv(tmp_path / "fake.csv", index=False)
    picture = tmp_path / "report.png"
    pytest.importorskip("matplotlib")
    out = command.ok("report", people, tmp_path / "fake.csv", "--draw", picture, "-q")
    assert "distance of pairs, mean" in out and "rows that equal a real row" in out
    assert picture.read_bytes()[:4] == b"\x89PNG"
    told = json.loads(
        command.ok("report", people, tmp_path / "fake.csv", "--target", "smoker", "--json", "-q")
    )
    assert told["target"] == "smoker" and set(told["columns"]) == set(make_people(1).columns)
    assert "no picture" in command.error(
        "report", people, tmp_path / "fake.csv", "--draw", tmp_path / "x.doc", "-q"
    )


def test_report_says_which_columns_a_table_lacks(command: Command, tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("id,a,b\n" + "".join(f"{k},x,y\n" for k in range(9)))
    (tmp_path / "fake.csv").write_text("a,b\nx,y\nx,y\n")
    files = tmp_path / "real.csv", tmp_path / "fake.csv"
    error = command.error("report", *files)
    assert "fake.csv' has no column 'id'" in error and "--ignore 'id'" in error
    assert "real.csv' has a column 'id'" in command.error("report", *files[::-1])


def test_anomalies_show_whole_numbers_as_they_are(command: Command, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = "".join(f"{k % 3},{k % 2}\n" for k in range(40))
    table.write_text("a,b\n" + rows + ",1\n7,0\n")
    command.ok("fit", table, "-o", tmp_path / "m.bc", "-q")
    out = command.ok("anomalies", tmp_path / "m.bc", table, "-n", 2)
    assert "a=7 (" in out


def test_show_depends(command: Command, model: Path, tmp_path: Path) -> None:
    out = command.ok("show", model, "--depends", "-")
    first = out.splitlines()[2 if "---" in out.splitlines()[1] else 1]
    assert {"smoker", "ill"} <= set(first.split()) or {"age", "smoker"} <= set(first.split())
    pytest.importorskip("matplotlib")
    picture = tmp_path / "depends.svg"
    told = json.loads(command.ok("show", model, "--depends", picture, "--json"))
    information = np.array(told["mutual_information"])
    np.testing.assert_allclose(information, information.T)
    assert picture.read_text().startswith("<?xml")


def test_show_depends_given_columns_and_conditions(command: Command, model: Path) -> None:
    told = json.loads(command.ok("show", model, "--depends", "-", "--json"))
    at = told["columns"].index("smoker")
    free = np.array(told["mutual_information"])
    fixed = json.loads(command.ok("show", model, "--depends", "-", "--given", "smoker", "--json"))
    assert fixed["given"] == "smoker"
    information = np.array(fixed["mutual_information"])
    assert np.allclose(information[at], 0.0) and free[at].max() > 0.01
    known = json.loads(
        command.ok("show", model, "--depends", "-", "--given", "smoker=yes", "--json")
    )
    assert np.allclose(np.array(known["mutual_information"])[at], 0.0)
    assert "nothing" in command.error("show", model, "--depends", "-", "--given", "nothing")
    assert "--depends" in command.error("show", model, "--given", "smoker")
    assert "bar" in command.error("show", model, "--depends", "-", "--given", "ill | smoker=yes")


def test_anomalies_by_a_bare_circuit_and_by_a_detector(
    command: Command, people: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y"], 300)
    table = pd.DataFrame({"a": a, "b": a, "c": rng.choice(["u", "v"], 300)})
    bc.save(bc.CutsetNetwork().fit(table).circuit_, tmp_path / "circuit.bc")
    detector = bc.CutsetOutlierDetector(n_members=2, n_trees=0, n_jobs=1).fit(table)
    bc.save(detector, tmp_path / "detector.bc")
    table.loc[7, "b"] = "y" if table.loc[7, "a"] == "x" else "x"
    path = tmp_path / "pairs.csv"
    table.to_csv(path, index=False)
    out = command.ok("anomalies", tmp_path / "circuit.bc", path, "-n", 1, "--json", "-q")
    assert json.loads(out)[0]["row"] == 7
    table.loc[9, "c"] = "w"
    table.to_csv(path, index=False)
    listed = json.loads(
        command.ok("anomalies", tmp_path / "detector.bc", path, "-n", 2, "--json", "-q")
    )
    assert sorted(entry["row"] for entry in listed) == [7, 9]
    (odd,) = [entry for entry in listed if entry["row"] == 9]
    assert odd["cells"][0]["column"] == "c" and odd["cells"][0]["value"] == "w"
    np.testing.assert_allclose(odd["score"], detector.score_samples(table)[9])
    options = ("anomalies", tmp_path / "detector.bc", path, "-q", "--unseen")
    assert "Unseen value 'w'" in command.error(*options, "error")
    assert json.loads(command.ok(*options, "missing", "-n", 1, "--json"))[0]["row"] == 7
