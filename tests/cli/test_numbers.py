"""Numbers, dates and gaps on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command

import bayescut as bc
from bayescut.circuit import Evidence, build
from bayescut.cli._language import Condition, QuestionError, parse_conditions
from bayescut.data import Domain, Domains, learn_grid


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    n = 300
    smoker = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "smoker": np.where(smoker, "yes", "no"),
            "age": (30 + 20 * smoker + rng.normal(0, 6, n)).round().astype(int),
            "height": (170 + rng.normal(0, 8, n)).round(1),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "children": rng.integers(0, 4, n),
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    path = tmp_path_factory.mktemp("numbers") / "people.csv"
    frame.to_csv(path, index=False, date_format="%Y-%m-%d")
    # Whole numbers with gaps are written with a point by pandas.
    text = path.read_text(encoding="utf-8").replace(".0,", ",").replace(".0\n", "\n")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    path = table.with_suffix(".bc")
    frame = pd.read_csv(table, parse_dates=["since"])
    for name in ("age", "children"):
        frame[name] = frame[name].astype("Int64")
    bc.save(bc.CutsetNetwork(n_jobs=1).fit(frame), path)
    return path


def test_check(command: Command, table: Path) -> None:
    out = command.ok("check", table)
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert lines["age"][2] == "number" and lines["since"][2] == "date"
    assert lines["children"][2] == "label" and lines["smoker"][2] == "label"
    assert "300 rows, 5 columns" in out
    report = json.loads(command.ok("check", table, "--json", "--kind", "children=number"))
    kinds = [column["kind"] for column in report["columns"]]
    assert kinds == ["label", "number", "number", "date", "number"]
    assert all(column["missing"] > 0 for column in report["columns"])


def test_check_lists_all_problems(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\ninf,1.5,x\n1.5,-inf,y\n", encoding="utf-8")
    code, out, err = command("check", path)
    assert code == 1 and err == ""
    assert out.count("problem: ") == 2
    message = command.error("check", path, "--kind", "c=colour")
    assert "kinds are" in message
    assert "no column 'd'" in command.error("check", path, "--kind", "d=label")


def test_fit_as_it_comes(command: Command, table: Path, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.bc"
    summary = json.loads(command.ok("fit", table, "-o", path, "--json"))
    assert summary["rows"] == 300
    learned = bc.load(path)
    assert learned.domains_ == bc.load(model).domains_
    out = command.ok("show", path)
    assert "numbers, 98% from" in out and "dates, 98% from" in out
    scored = json.loads(command.ok("score", path, table, "--json"))
    assert scored["mean_log_likelihood"] == pytest.approx(summary["mean_log_likelihood"])
    command.ok("fit", table, "-o", path, "--kind", "children=number,age=label")
    kinds = {domain.name: domain.kind for domain in bc.load(path).domains_}
    assert kinds["children"] == "number" and kinds["age"] == "label"


def test_questions_about_numbers(command: Command, model: Path) -> None:
    learned = bc.load(model)

    def probability(question: str) -> float:
        return float(json.loads(command.ok("query", model, question, "--json"))["probability"])

    expected = learned.conditional_log_likelihood(
        {"age": bc.between(30, 40, closed="left")}, {"smoker": "yes"}
    )
    assert probability("P(30 <= age < 40 | smoker=yes)") == pytest.approx(math.exp(expected[0]))
    both = probability("P(age >= 30, age < 40 | smoker=yes)")
    assert both == pytest.approx(math.exp(expected[0]))
    parts = [probability(f"P({c})") for c in ("age < 35", "age = 35", "age > 35")]
    assert sum(parts) == pytest.approx(1)
    assert probability("P(age != 35)") == pytest.approx(1 - parts[1])
    assert probability("P(age not in {35, 36})") < 1 - parts[1]
    assert probability("P(age > 40, age < 30)") == 0
    assert probability("P(since >= 2020-06-01)") == pytest.approx(
        math.exp(learned.conditional_log_likelihood({"since": bc.at_least("2020-06-01")}, {})[0])
    )
    assert "not a value" in command.error("query", model, "P(age > old)")
    assert "probability zero" in command.error("query", model, "P(smoker=yes | 50 < age < 40)")


def test_distributions_of_numbers(command: Command, model: Path) -> None:
    found = json.loads(command.ok("query", model, "P(age | smoker=yes, age >= 33)", "--json"))
    total = sum(line["probability"] for line in found["distribution"])
    assert total == pytest.approx(1)
    expected = bc.load(model).marginals({"smoker": "yes", "age": bc.at_least(33)})
    assert found["summaries"]["age"]["mean"] == pytest.approx(expected["age", "mean"][0])
    assert found["summaries"]["age"]["50%"] == expected["age", "50%"][0]
    assert "mean" in command.ok("query", model, "P(since)")
    found = json.loads(command.ok("query", model, "MPE(| 30 <= age <= 33)", "--json"))
    assert 30 <= found["assignment"]["age"] <= 33
    assert found["assignment"]["since"].startswith("2020-")
    assert "density" in command.ok("query", model, "MPE(age | smoker=no)")


def test_draws_within_intervals(command: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "drawn.csv"
    given = "31 <= age <= 34, since < 2020-03-01, height > 172.3"
    command.ok("sample", model, "-n", 50, "--given", given, "--seed", 1, "-o", path)
    drawn = pd.read_csv(path)
    assert drawn["age"].between(31, 34).all() and drawn["age"].dtype == "int64"
    assert (drawn["since"] < "2020-03-01").all() and (drawn["height"] > 172.3).all()
    records = json.loads(command.ok("sample", model, "-n", 2, "--json", "--seed", 0))
    assert len(records) == 2 and records[0]["since"].startswith("2020")


@pytest.mark.parametrize("method", ["mpe", "mode", "median", "mean", "sample"])
def test_imputation(
    command: Command, table: Path, model: Path, tmp_path: Path, method: str
) -> None:
    path = tmp_path / "filled.csv"
    command.ok("impute", model, table, "-o", path, "--method", method, "--seed", 0)
    before, after = pd.read_csv(table, dtype=str), pd.read_csv(path, dtype=str)
    assert after.notna().all(axis=None)
    seen = before.notna()
    assert (before[seen] == after[seen])[seen].all(axis=None) or (
        before.where(seen, "") == after.where(seen, "")
    ).all(axis=None)
    assert after["age"].str.fullmatch(r"\d+").all()
    assert after["since"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    assert after["children"].str.fullmatch(r"\d").all()


def test_intervals_are_read() -> None:
    assert parse_conditions("30 <= age < 40") == (
        Condition("age", ">=", ("30",)),
        Condition("age", "<", ("40",)),
    )
    assert parse_conditions("40 > age >= 30, b=1")[:2] == (
        Condition("age", "<", ("40",)),
        Condition("age", ">=", ("30",)),
    )
    with pytest.raises(QuestionError, match="as before"):
        parse_conditions("30 <= age > 40")


def test_predictions_look_at_numbers_inside_cells(command: Command, tmp_path: Path) -> None:
    values = np.round(np.random.default_rng(0).normal(25, 6, 2000), 3)
    grid = learn_grid(values, max_cells=4)
    domains = Domains(Domain(name, grid.n_cells, grid=grid) for name in ("x", "y"))
    leaf = build.normal([0, 1], [25, 25], [[0, 0], [0.99, 0]], [6, 1])
    circuit = build.circuit(leaf, domains)
    model = tmp_path / "normal.bc"
    bc.save(circuit, model)
    x = np.linspace(15, 35, 40)
    table = tmp_path / "x.csv"
    pd.DataFrame({"x": x}).to_csv(table, index=False)
    out = command.ok("predict", model, table, "--target", "y")
    found = np.array([float(line) for line in out.split()[1:]])
    codes = np.column_stack([grid.codes(x), np.full(len(x), -1)])
    numbers = np.column_stack([x, np.full(len(x), np.nan)])
    chances = circuit.marginals(Evidence(codes, values=numbers))[:, grid.n_cells :]
    np.testing.assert_allclose(found, grid.quantile(chances, [0.5])[:, 0], rtol=1e-9)
    assert len(np.unique(found)) > 30


@pytest.mark.parametrize(("column", "cell"), [("age", "old"), ("since", "yesterday")])
def test_text_among_numbers(
    command: Command, model: Path, table: Path, tmp_path: Path, column: str, cell: str
) -> None:
    frame = pd.read_csv(table, dtype=str)[:30]
    frame.loc[4, column] = None
    empty = tmp_path / "empty.csv"
    frame.to_csv(empty, index=False)
    frame.loc[4, column] = cell
    odd = tmp_path / "odd.csv"
    frame.to_csv(odd, index=False)
    said = command.error("score", model, odd)
    assert said.startswith(f"'{cell}' in row 4, column '{column}' is no") and "NaN" not in said
    assert said.endswith("taken as missing with --unseen missing.") and "pandas" not in said
    found = command.ok("score", model, odd, "--rows", "--unseen", "missing")
    assert found == command.ok("score", model, empty, "--rows")
