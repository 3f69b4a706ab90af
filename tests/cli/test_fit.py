from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command, Edit, make_people

import bayescut as bc
from bayescut.cli import main
from bayescut.files import loads


def test_fit_learns_what_python_learns(command: Command, people: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bc"
    out = command.ok("fit", people, "-o", path, "--learner", "CNetBD(ess=1.0)", "--json")
    summary = json.loads(out)
    frame = make_people()
    expected = bc.CNetBD(ess=1.0).fit(frame)
    loaded = bc.load(path)
    assert loaded.get_params()["ess"] == 1.0
    assert list(loaded.feature_names_in_) == list(frame.columns)
    np.testing.assert_allclose(loaded.score_samples(frame), expected.score_samples(frame))
    assert summary["parameters"] == expected.n_parameters_
    assert (summary["rows"], summary["columns"]) == frame.shape
    assert summary["mean_log_likelihood"] == pytest.approx(expected.score(frame))
    assert "mean log-likelihood" in command.ok("fit", people, "-o", path)


def test_pipes(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with open(people, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["fit", "-", "-o", "-"]) == 0
    assert loads(capsysbinary.readouterr().out).n_features_in_ == 6


def test_missing_cells_are_learned_from_or_dropped(
    command: Command, gaps: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.bc"
    frame = pd.read_csv(gaps, keep_default_na=False, na_values=["", "NA", "NaN"])
    complete = frame.dropna()
    summary = json.loads(command.ok("fit", gaps, "-o", path, "--json"))
    assert summary["rows"] == 60
    domains = bc.load(path).domains_
    assert domains[3].labels.tolist() == [0, 2, 4, 6]  # whole, though read as fractions
    assert domains[5].labels.tolist() == [False, True]
    command.ok("fit", gaps, "-o", path, "--gaps", "informative")
    assert len(bc.load(path).circuit_.domains) == 12
    assert "6 columns" in command.ok("show", path)
    assert "mean log-likelihood" in command.ok("score", path, gaps)
    assert "= 0." in command.ok("query", path, "P(smoker=yes)")
    assert len(command.ok("sample", path, "-n", 3).splitlines()) == 4
    summary = json.loads(command.ok("fit", gaps, "-o", path, "--drop-missing", "--json"))
    assert summary["rows"] == len(complete)
    domains = bc.load(path).domains_
    assert domains[3].labels.tolist() == [0, 2, 4, 6]  # whole again, though read as fractions
    assert domains[5].labels.tolist() == [False, True]


def test_all_rows_missing(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,\n,2\n", encoding="utf-8")
    message = command.error("fit", path, "-o", tmp_path / "m.bc", "--drop-missing")
    assert "Every row has a missing cell" in message


@pytest.mark.parametrize("form", ["tsv", "semicolon", "gz", "parquet", "plain"])
def test_formats(command: Command, tmp_path: Path, form: str) -> None:
    frame = make_people(50)
    path = tmp_path / {"tsv": "t.tsv", "gz": "t.csv.gz", "parquet": "t.parquet"}.get(form, "t.csv")
    if form == "parquet":
        frame.to_parquet(path)
    else:
        separator = {"tsv": "\t", "semicolon": ";"}.get(form, ",")
        text = frame.to_csv(index=False, sep=separator)
        path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model)
    assert bc.load(model).domains_.names == list(frame.columns)
    if form == "parquet":
        command.ok("fit", "-", "-o", model, stdin=path.read_bytes())


def test_a_file_of_codes_has_no_header(command: Command, tmp_path: Path) -> None:
    path, model = tmp_path / "t.data", tmp_path / "m.bc"
    codes = np.random.default_rng(0).integers(0, 2, (40, 3))
    path.write_text("\n".join(",".join(map(str, row)) for row in codes), encoding="utf-8")
    out, remark = command.told("fit", path, "-o", model, "--json")
    assert "has no header" in remark
    assert "--header" in remark and "--no-header" in remark
    assert json.loads(out)["rows"] == 40
    for quiet in ("--no-header", "--quiet"):
        assert json.loads(command.ok("fit", path, "-o", model, "--json", quiet))["rows"] == 40
    assert bc.load(model).domains_.names is None
    assert "mean log-likelihood" in command.ok("score", model, path)
    assert "= 0." in command.ok("query", model, "P(2=1 | 0=0)")
    assert "no names, use their positions 0 to 2" in command.error("query", model, "P(a=1)")
    assert "There is no column 'a'" in command.error("predict", model, path, "--target", "a")
    sample = command.ok("sample", model, "-n", 2)
    assert len(sample.splitlines()) == 2
    path.write_text("7,8,9\n" + path.read_text(encoding="utf-8").split("\n", 1)[1], "utf-8")
    assert json.loads(command.ok("fit", path, "-o", model, "--header", "--json"))["rows"] == 39


def test_text_keeps_leading_zeros(command: Command, tmp_path: Path) -> None:
    path, model = tmp_path / "t.csv", tmp_path / "m.bc"
    path.write_text("code,b\n007,1\n7,0\n07,1\n", encoding="utf-8")
    command.ok("fit", path, "-o", model, "--text")
    assert bc.load(model).domains_[0].labels.tolist() == ["007", "07", "7"]
    assert "3 rows" in command.ok("score", model, path)


def test_columns_can_be_left_out(command: Command, edited: Edit, tmp_path: Path) -> None:
    path = edited("age,smoker", "age of person,smoker")
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model, "--ignore", "age of person,kids", "--ignore", "flag")
    assert bc.load(model).domains_.names == ["smoker", "ill", "home town"]
    message = command.error("fit", path, "-o", model, "--ignore", "age of persons")
    assert "Did you mean 'age of person'?" in message


def test_other_words_for_missing(command: Command, edited: Edit, tmp_path: Path) -> None:
    path = edited(",Köln,", ",unknown,")
    model = tmp_path / "m.bc"
    for options, known in (((), True), (("--missing", "unknown"), False)):
        command.ok("fit", path, "-o", model, *options)
        labels = [domain.labels.tolist() for domain in bc.load(model).domains_]
        assert any("unknown" in own for own in labels) is known


def test_what_cannot_be_learned_is_told_in_a_line(
    command: Command, people: Path, edited: Edit, tmp_path: Path
) -> None:
    model = tmp_path / "m.bc"
    missing = tmp_path / "no.csv"
    assert "There is no file" in command.error("fit", missing, "-o", model)
    assert "is a folder" in command.error("fit", tmp_path, "-o", model)
    assert "no folder" in command.error("fit", people, "-o", tmp_path / "deep" / "m.bc")
    assert "cannot be written" in command.error("fit", people, "-o", tmp_path)
    assert "Did you mean 'CNetBD'" in command.error("fit", people, "-o", model, "-l", "CNetBT")
    assert "must be greater" in command.error("fit", people, "-o", model, "-l", "CNetBD(ess=-1)")
    foreign = "sklearn.mixture:GaussianMixture"
    assert "model file" in command.error("fit", people, "-o", model, "-l", foreign)
    assert "several columns named 'age'" in command.error(
        "fit", edited("age,smoker", "age,age"), "-o", model
    )
    empty = tmp_path / "empty.csv"
    empty.touch()
    assert "cannot be read as a table" in command.error("fit", empty, "-o", model)
    assert "standard input" in command.error("fit", "-", "-o", model, stdin="")
    empty.write_text("a,b\n", encoding="utf-8")
    assert "no rows" in command.error("fit", empty, "-o", model)
    empty.write_text("a,b\ninf,1\n0.7,2\n", encoding="utf-8")
    message = command.error("fit", empty, "-o", model)
    assert "inf" in message
    assert "--ignore" in message
    empty.write_bytes(b"PAR1 but not really")
    assert "cannot be read" in command.error("fit", empty, "-o", model)
    assert not model.exists()


def test_usage_errors_are_told_as_such(command: Command, people: Path, tmp_path: Path) -> None:
    assert "--help" in command.error("fit", people, code=2)
    assert "No such command" in command.error("nonsense", code=2)
    message = command.error("fit", people, "-o", "-", "--json", code=2)
    assert "exclude each other" in message
    assert "one sign" in command.error("fit", people, "-o", tmp_path / "m", "--sep", "ab", code=2)
