from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command, Edit, make_people

import bayescut as bc
from bayescut.circuit import build

Row = dict[str, Any]


@pytest.fixture(scope="module")
def joint(model: Path) -> list[tuple[Row, float]]:
    """All rows there are, with their probabilities."""
    estimator = bc.load(model)
    domains = estimator.domains_
    states = list(product(*(range(domain.n_states) for domain in domains)))
    values = np.exp(estimator.circuit_.log_likelihood(np.array(states, dtype=np.uint8)))
    assert values.sum() == pytest.approx(1)
    labels = [
        {d.name: d.label(state) for d, state in zip(domains, row, strict=True)} for row in states
    ]
    return list(zip(labels, values.tolist(), strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "event", "given"),
    [
        ("P(smoker=yes)", lambda r: r["smoker"] == "yes", lambda r: True),
        (
            "P(smoker=yes | age=old, ill=1)",
            lambda r: r["smoker"] == "yes",
            lambda r: r["age"] == "old" and r["ill"] == 1,
        ),
        (
            "p( ill==1, kids >= 4 | 'home town' = \"São Paulo, SP\", age not in {old, 'young'} )",
            lambda r: r["ill"] == 1 and r["kids"] >= 4,
            lambda r: r["home town"] == "São Paulo, SP" and r["age"] == "middle",
        ),
        (
            "P(kids in {0, 6.0}, flag=true | smoker != yes)",
            lambda r: r["kids"] in (0, 6) and r["flag"],
            lambda r: r["smoker"] != "yes",
        ),
        ("P(ill=1 | ill=1)", lambda r: True, lambda r: True),
        ("P(ill=1 | ill=0)", lambda r: False, lambda r: True),
        ("P(kids<2|kids<5)", lambda r: r["kids"] < 2, lambda r: r["kids"] < 5),
    ],
)
def test_probabilities_are_exact(
    command: Command,
    model: Path,
    joint: list[tuple[Row, float]],
    question: str,
    event: Callable[[Row], bool],
    given: Callable[[Row], bool],
) -> None:
    below = sum(p for row, p in joint if given(row))
    expected = sum(p for row, p in joint if given(row) and event(row)) / below
    answer = json.loads(command.ok("query", model, question, "--json"))
    assert answer["probability"] == pytest.approx(expected)
    if expected:
        assert answer["log_probability"] == pytest.approx(math.log(expected), abs=1e-9)
    else:
        assert answer["log_probability"] is None
    text = command.ok("query", model, question)
    assert text.startswith(f"{question} = {answer['probability']:.6g}")


def test_distributions_are_exact(
    command: Command, model: Path, joint: list[tuple[Row, float]]
) -> None:
    out = command.ok("query", model, "P(smoker, age | ill=1, age!=old)", "--json")
    lines = json.loads(out)["distribution"]
    kept = [(row, p) for row, p in joint if row["ill"] == 1]
    below = sum(p for row, p in kept if row["age"] != "old")
    assert len(lines) == 4
    for line in lines:
        wanted = line["assignment"]
        expected = sum(p for row, p in kept if {**row, **wanted} == row) / below
        assert line["probability"] == pytest.approx(expected)
    text = command.ok("query", model, "P(smoker | ill=1)").splitlines()
    assert text[1].split() == ["smoker", "probability"]
    assert [line.split()[0] for line in text[2:]] == ["no", "yes"]


def test_explanations_are_exact(
    command: Command, model: Path, joint: list[tuple[Row, float]]
) -> None:
    kept = [(p, row) for row, p in joint if row["ill"] == 1 and row["kids"] in (2, 4)]
    below = sum(p for row, p in joint if row["ill"] == 1 and row["kids"] in (2, 4))
    best, row = max(kept, key=lambda pair: pair[0])
    answer = json.loads(command.ok("query", model, "MPE(| ill=1, kids in {2, 4})", "--json"))
    assert answer["probability"] == pytest.approx(best / below)
    assert answer["assignment"] == {name: row[name] for name in row if name != "ill"}
    assert answer["exact"] is True
    text = command.ok("query", model, "MPE(age, 'home town' | ill=1, kids in {2, 4})")
    assert "given the evidence, the whole row has probability" in text
    assert "  the whole row has probability" in command.ok("query", model, "MPE(age)")
    assert f"= age={row['age']}, home town={row['home town']}\n" in text


def test_explanations_of_mixtures_are_marked(command: Command, tmp_path: Path) -> None:
    node = build.weighted_sum([0.5, 0.5], *(build.categorical(0, p) for p in ([0.2, 0.8], [1, 0])))
    path = tmp_path / "mixture.bc"
    bc.save(build.circuit(node, [2]), path)
    assert json.loads(command.ok("query", path, "MPE()", "--json"))["exact"] is False
    assert "approximate" in command.ok("query", path, "MPE(0)")


def test_questions_through_a_pipe(command: Command, model: Path) -> None:
    out = command.ok("query", model, "-", "--json", stdin="P(ill=1)\n\nP(ill=0)\n")
    chances = [json.loads(line)["probability"] for line in out.splitlines()]
    assert sum(chances) == pytest.approx(1)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("P(smokr=yes)", "There is no column 'smokr': did you mean 'smoker'?"),
        ("P(smoker=maybe)", "'maybe' is not a value of column 'smoker'. Known values: 'no', 'yes'"),
        ("P(ill=1 | ill=1, ill=0)", "probability zero under this model: drop or change"),
        ("MPE(| ill=1, ill=0)", "probability zero under this model: drop or change"),
        ("P(ill=1 | )", ""),
        ("P()", "asks for nothing"),
        ("P(ill=1", "Expected ')', found the end at character 8"),
        ("P(home town=1)", "Names and values with blanks or signs stand in quotes."),
        ("P(height (cm) > 3)", "Names and values with blanks or signs stand in quotes."),
        ("P(ill=1) x", "Expected the end, found 'x'"),
        ("P(ill=1 | age)", "'age' in 'P(ill=1 | age)' is a column without a value"),
        ("P(ill=)", "Expected a value, found ')'"),
        ("P(ill in 1)", "Expected '{'"),
        ("P(ill not 1)", "Expected 'in'"),
        ("P(age='old)", "The quote at character 7"),
        ("P(a!b)", "Unexpected '!'"),
        ("P(age<3)", "< compares numbers"),
        ("MPE(age=old)", "name columns without values"),
        ("ill=1", "is no question"),
        ("", "is no question"),
    ],
)
def test_bad_questions_are_told_in_a_line(
    command: Command, model: Path, question: str, message: str
) -> None:
    if question == "P(ill=1 | )":  # an empty condition is no condition
        command.ok("query", model, question)
        return
    assert message in command.error("query", model, question)


def test_evidence_of_probability_zero(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "certain.bc"
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    bc.save(bc.CNetBIC(beta=0.0).fit(table), path)
    assert "probability zero" in command.error("query", path, "P(a=x | a=x, b=v)")
    assert "probability zero" in command.error("sample", path, "--given", "a=x, b=v")
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\nx,u\nx,v\n", encoding="utf-8")
    message = command.error("impute", path, rows, "-o", tmp_path / "out.csv")
    assert "row 1 has probability zero" in message
    assert json.loads(command.ok("score", path, rows, "--json")) == {
        "rows": 2,
        "mean_log_likelihood": None,
        "standard_error": None,
        "impossible_rows": 1,
    }
    assert "the first is row 1" in command.ok("score", path, rows)


def test_scores_are_those_of_python(
    command: Command, model: Path, people: Path, gaps: Path
) -> None:
    estimator = bc.load(model)
    frame = pd.read_csv(gaps, keep_default_na=False, na_values=["", "NA", "NaN"])
    expected = estimator.score_samples(frame)
    assert frame.isna().any().all()
    rows = [float(line) for line in command.ok("score", model, gaps, "--rows").split()]
    np.testing.assert_array_equal(rows, expected)
    summary = json.loads(command.ok("score", model, people, "--json"))
    assert summary["mean_log_likelihood"] == pytest.approx(estimator.score(make_people()))
    assert summary["rows"] == 400
    shuffled = frame[frame.columns[::-1]].to_csv(index=False)
    out = command.ok("score", model, "-", "--rows", "--json", stdin=shuffled)
    np.testing.assert_allclose(json.loads(out)["log_likelihood"], expected)


def test_wrong_tables_are_told_in_a_line(
    command: Command, model: Path, edited: Edit, tmp_path: Path
) -> None:
    message = command.error("score", model, edited("age,smoker", "agee,smoker"))
    assert message.startswith("The model has no column 'agee': did you mean 'age'?")
    path = edited("age,smoker,ill", "age,smoker,xyz")
    assert "--ignore xyz" in command.error("score", model, path)
    message = command.error("score", model, path, "--ignore", "xyz")
    assert "no column 'ill': add it, with empty cells" in message
    path = edited("old,", "ancient,")
    message = command.error("score", model, path)
    assert "Unseen value 'ancient'" in message
    assert "Known values: 'middle', 'old', 'young'" in message
    assert "--unseen missing" in message
    command.ok("score", model, path, "--unseen", "missing")
    # One odd cell makes a column of numbers text; the others are still found.
    message = command.error("score", model, edited(",yes,1,", ",yes,many,"))
    assert "Unseen value 'many'" in message
    assert "column 'ill'. Known values: 0, 1" in message
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("1,2\n3,4\n", encoding="utf-8")
    assert "has 2 columns, but the model has 6" in command.error(
        "score", model, narrow, "--no-header"
    )


def test_models_that_are_none(command: Command, model: Path, people: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    broken = tmp_path / "broken.bc"
    for damaged in (b"", b"text", content[:200], content[:-9] + b"\0" * 9):
        broken.write_bytes(damaged)
        message = command.error("score", broken, people)
        assert "cannot load" in message
        assert "bayescut fit" in message
    assert "There is no file" in command.error("show", tmp_path / "no.bc")
    bc.save(bc.CNetBD(), broken)
    assert "has not learned anything yet" in command.error("show", broken)
    assert "Only one" in command.error("score", "-", "-", code=2)
    assert "--help" in command.error("sample", model, "-n", 0, code=2)


def test_a_model_through_a_pipe(command: Command, model: Path) -> None:
    assert "= 0." in command.ok("query", "-", "P(ill=1)", stdin=model.read_bytes())


def test_samples_follow_the_conditions(command: Command, model: Path, tmp_path: Path) -> None:
    given = "age in {old, young}, 'home town'='São Paulo, SP', kids>2"
    arguments = ("sample", model, "-n", 200, "--given", given, "--seed", 3)
    out = command.ok(*arguments)
    frame = pd.read_csv(io.StringIO(out))
    assert len(frame) == 200
    assert set(frame["age"]) == {"old", "young"}
    assert set(frame["home town"]) == {"São Paulo, SP"}
    assert set(frame["kids"]) == {4, 6}
    assert command.ok(*arguments) == out
    records = json.loads(command.ok("sample", model, "-n", 3, "--json"))
    assert len(records) == 3
    assert type(records[0]["flag"]) is bool
    path = tmp_path / "drawn.csv"
    assert command.ok("sample", model, "-n", 5, "-o", path) == ""
    assert list(pd.read_csv(path).columns) == list(make_people(1).columns)


def test_samples_come_in_blocks(
    command: Command, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bayescut.cli._models.BLOCK", 7)
    path = tmp_path / "drawn.parquet"
    command.ok("sample", model, "-n", 20, "-o", path, "--seed", 0)
    whole = pd.read_parquet(path)
    text = pd.read_csv(
        io.StringIO(command.ok("sample", model, "-n", 20, "--seed", 0)), keep_default_na=False
    )
    assert len(whole) == 20
    assert whole.astype(str).equals(text.astype(str))


@pytest.mark.parametrize("method", ["mpe", "mode", "median", "sample"])
def test_imputation(command: Command, model: Path, gaps: Path, method: str) -> None:
    out = command.ok("impute", model, gaps, "--method", method, "--seed", 1)
    filled = pd.read_csv(io.StringIO(out), keep_default_na=False, na_values=["", "NA", "NaN"])
    frame = pd.read_csv(gaps, keep_default_na=False, na_values=["", "NA", "NaN"])
    assert not filled.isna().any().any()
    observed = frame.notna()
    for column in frame:
        here = observed[column]
        assert (filled[column][here].astype(str) == frame[column][here].map(_plain)).all()
    circuit = bc.load(model).circuit_
    codes = bc.load(model)._encode(frame)
    if method == "mpe":
        expected = circuit.mpe(codes)[1]
        np.testing.assert_allclose(bc.load(model).score_samples(filled), expected)
    if method in ("mode", "median"):
        row = int(np.argmax(~observed["smoker"]))
        offset = int(circuit.domains.offsets[1])
        best = int(circuit.marginals(codes[row : row + 1])[0, offset : offset + 2].argmax())
        assert filled["smoker"][row] == ("no", "yes")[best]


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) else str(value)


def test_imputation_keeps_ignored_columns_and_the_order(
    command: Command, model: Path, gaps: Path
) -> None:
    frame = pd.read_csv(gaps, keep_default_na=False)
    frame.insert(2, "person", range(60))
    frame = frame[frame.columns[::-1]]
    out = command.ok("impute", model, "-", "--ignore", "person", stdin=frame.to_csv(index=False))
    filled = pd.read_csv(io.StringIO(out))
    assert list(filled.columns) == list(frame.columns)
    assert list(filled["person"]) == list(range(60))
