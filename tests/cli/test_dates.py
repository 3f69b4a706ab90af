"""Dates in the forms that people write them, through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command

import bayescut as bc

N = 300


def rows(n: int = N) -> pd.DataFrame:
    """Dates that are dense early and sparse late, so that what lies in a cell differs."""
    rng = np.random.default_rng(0)
    days = np.minimum(rng.exponential(200, n).astype(int), 3000)
    return pd.DataFrame(
        {
            "since": pd.Timestamp("2010-01-01") + pd.to_timedelta(days, "D"),
            "kind": np.where(rng.random(n) < 1 / (1 + days / 200), "new", "old"),
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dates") / "m.bc"
    bc.save(bc.CutsetNetwork(n_jobs=1).fit(rows()), path)
    return path


def written(path: Path, form: str, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False, date_format=form)
    return path


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d %b %Y"])
def test_scores_are_those_of_the_dates(
    command: Command, model: Path, tmp_path: Path, form: str
) -> None:
    table = written(tmp_path / "t.csv", form, rows())
    report = json.loads(command.ok("check", table, "--json"))
    assert [column["kind"] for column in report["columns"]] == ["date", "label"]
    found = command.ok("score", model, table, "--rows").split()
    expected = bc.load(model).score_samples(rows())
    np.testing.assert_allclose([float(value) for value in found], expected, rtol=1e-12)


def test_anomalies_show_the_dates_of_the_table(
    command: Command, model: Path, tmp_path: Path
) -> None:
    frame = rows(40)
    table = written(tmp_path / "t.csv", "%Y-%m-%d", frame)
    for entry in json.loads(command.ok("anomalies", model, table, "--json")):
        for cell in entry["cells"]:
            if cell["column"] == "since":
                assert cell["value"][:10] == str(frame["since"][entry["row"]])[:10]


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%b %d, %Y"])
def test_gaps_are_filled_in_the_form_of_the_table(
    command: Command, model: Path, tmp_path: Path, form: str
) -> None:
    frame = rows(60)
    frame.loc[::4, "since"] = pd.NaT
    table = written(tmp_path / "t.csv", form, frame)
    before = pd.read_csv(table, dtype=str)
    command.ok("impute", model, table, "-o", table, "--method", "median")
    after = pd.read_csv(table, dtype=str)
    pd.to_datetime(after["since"], format=form)  # every cell
    seen = before["since"].notna()
    assert (after["since"][seen] == before["since"][seen]).all()


def test_a_decimal_comma_leaves_dates_with_points_alone(command: Command, tmp_path: Path) -> None:
    frame = rows(80)
    frame["size"] = np.round(np.random.default_rng(1).normal(3, 1, 80), 2)
    table = tmp_path / "t.csv"
    frame.to_csv(table, index=False, date_format="%d.%m.%Y", sep=";", decimal=",")
    model = tmp_path / "m.bc"
    command("fit", table, "-o", model, "--quiet")
    frame.loc[::4, ["since", "size"]] = None
    frame.to_csv(table, index=False, date_format="%d.%m.%Y", sep=";", decimal=",")
    filled = command.ok("impute", model, table)
    lines = [line.split(";") for line in filled.splitlines()[1:]]
    pd.to_datetime(pd.Series([line[0] for line in lines]), format="%d.%m.%Y")
    assert all("." not in line[2] for line in lines)


def test_dates_that_do_not_show_their_order(command: Command, model: Path, tmp_path: Path) -> None:
    frame = rows()
    frame["since"] = frame["since"].map(lambda day: day.replace(day=1 + day.day % 12))
    table = written(tmp_path / "t.csv", "%d/%m/%Y", frame)
    out = command.ok("check", table)
    assert "warning: since: taken as labels, though they look like dates such as" in out
    assert "--day-first or --month-first" in out
    kind = json.loads(command.ok("check", table, "--json", "--day-first"))["columns"][0]
    assert kind["kind"] == "date" and kind["warnings"] == []
    code, _, err = command("fit", table, "-o", tmp_path / "m.bc")
    assert code == 0 and "column 'since' is taken as labels, with dates such as" in err
    code, _, err = command("fit", table, "-o", tmp_path / "m.bc", "--kind", "since=label")
    assert code == 0 and "dates" not in err
    # A model of dates does not guess, either.
    assert "--day-first or --month-first" in command.error("score", model, table)
    found = command.ok("score", model, table, "--rows", "--day-first").split()
    expected = bc.load(model).score_samples(frame)
    np.testing.assert_allclose([float(value) for value in found], expected, rtol=1e-12)
    other = command.ok("score", model, table, "--rows", "--month-first").split()
    assert other != found


def test_quantiles_of_dates_are_dates(command: Command, model: Path, tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "%d/%m/%Y", rows(20))
    out = command.ok("predict", model, table, "--target", "since", "--quantiles", "0.1,0.9")
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0] == ["since", "q0.1", "q0.9"]
    for line in lines[1:]:
        low, middle, high = (pd.Timestamp(line[j]) for j in (1, 0, 2))
        assert pd.Timestamp("2009-01-01") < low <= middle <= high


def test_labels_that_are_dates_if_that_is_said(command: Command, tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "%Y-%m-%d", rows(60))
    out = json.loads(command.ok("check", table, "--json", "--kind", "since=label"))
    assert out["columns"][0]["kind"] == "label"


def test_anomalies_show_days_without_a_time(command: Command, model: Path, tmp_path: Path) -> None:
    table = written(tmp_path / "t.csv", "%Y-%m-%d", rows(40))
    out = command.ok("anomalies", model, table, "-n", 40)
    assert "since=2" in out and "00:00:00" not in out
