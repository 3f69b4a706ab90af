from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from bayescut.bench import Result, _runner, read_results
from bayescut.bench._store import Key
from bayescut.datasets import DEBD_NAMES
from bayescut.exceptions import DatasetError


def fake_cell(cell: Key, time_limit: float | None = None) -> Result:
    if cell[0] == "CNetBIC" and cell[1] == "dna":
        return Result(*cell, status="failed", error="ValueError: no")
    return Result(
        *cell,
        status="ok",
        test_log_likelihood=-6.05,
        fit_seconds=0.02,
        n_parameters=205,
        peak_memory_bytes=2**28,
        time_limit=time_limit,
    )


@pytest.fixture
def results(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_runner, "run_cell", fake_cell)
    path = tmp_path / "results.jsonl"
    out = command.ok(
        *("bench", "run", "-l", "CNetBD(ess=1, n_candidates=3),CNetBIC", "-l", "CNetBD"),
        *("-d", "nltcs,dna", "-o", path, "--time-limit", 60),
    )
    lines = out.splitlines()
    assert len(lines) == 6
    assert lines[2] == "CNetBD nltcs: log-likelihood -6.0500, 0.020 s, 205 parameters"
    assert lines[4] == "CNetBIC dna: failed: ValueError: no"
    return path


def test_a_run_goes_on_where_it_was(command: Command, results: Path) -> None:
    again = ("bench", "run", "-l", "CNetBD", "-l", "CNetBIC", "-d", "nltcs", "-d", "dna")
    assert command.ok(*again, "-o", results) == ""
    out = command.ok(*again, "-o", results, "--retry", "--json")
    assert [json.loads(line)["learner"] for line in out.splitlines()] == ["CNetBIC"]
    assert len(command.ok(*again, "-o", results, "--force").splitlines()) == 4
    assert len(read_results(results)) == 6


def test_seeds(command: Command, results: Path) -> None:
    learner = "tests.bench.tiny:Uniform"
    out = command.ok("bench", "run", "-l", learner, "-d", "dna", "-o", results, "--seeds", "0,3-4")
    assert [line.split(":")[1] for line in out.splitlines()] == [
        f"Uniform dna seed {seed}" for seed in (0, 3, 4)
    ]
    message = command.error("bench", "run", "-l", "A", "-d", "dna", "--seeds", "x", code=2)
    assert "Seeds are" in message


def test_tables(command: Command, results: Path, tmp_path: Path) -> None:
    text = command.ok("bench", "table", results)
    assert text.startswith("**Mean test log-likelihood")
    assert "CNetBD†" in text
    assert "| failed |" in " ".join(text.split())
    text = command.ok("bench", "table", results, "--kind", "time", "--compare", "none")
    assert "†" not in text
    path = tmp_path / "size.tex"
    command.ok("bench", "table", results, "--kind", "size", "-o", path, "--compare", "CNetBD")
    assert r"\toprule" in path.read_text(encoding="utf-8")
    text = command.ok("bench", "table", results, "--format", "csv", "-d", "dna", "--best-known")
    assert text.splitlines()[1].startswith("dna,")
    found = json.loads(command.ok("bench", "table", results, "--json"))
    assert found["columns"][1]["notes"] == {"dna": "failed"}


def test_the_figure_and_the_report(command: Command, results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "p.svg"
    assert command.ok("bench", "plot", results, "-o", picture, "--theme", "dark") == f"{picture}\n"
    assert "Pareto" not in command.error("bench", "plot", tmp_path / "no.jsonl")
    folder = tmp_path / "deep" / "report"
    out = command.ok("bench", "report", results, "-o", folder)
    assert sorted(Path(line).name for line in out.splitlines()) == sorted(
        [f"{kind}.{form}" for kind in ("log_likelihood", "time", "size", "memory")
         for form in ("md", "csv", "tex")]
        + ["pareto_light.png", "pareto_dark.png"]
    )  # fmt: skip
    assert all(Path(line).stat().st_size > 100 for line in out.splitlines())


def test_bench_errors_are_one_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    assert "There is no file" in command.error("bench", "table", path)
    message = command.error("bench", "run", "-l", "Nope", "-d", "dna", "-o", path)
    assert "Unknown learner" in message
    assert "Unknown data set" in command.error(
        "bench", "run", "-l", "CNetBD", "-d", "x", "-o", path
    )
    path.write_text("{}\n", encoding="utf-8")
    assert "Line 1 of" in command.error("bench", "table", path)
    path.write_text("", encoding="utf-8")
    assert "no results yet" in command.error("bench", "table", path)


def test_datasets(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = json.loads(command.ok("datasets", "list", "--json"))
    assert [line["name"] for line in lines[:20]] == list(DEBD_NAMES)
    assert lines[0]["train"] == 16181
    assert lines[-1] == {
        "name": "binary_digits",
        "variables": 64,
        "train": 1078,
        "valid": 270,
        "test": 449,
        "place": "comes with scikit-learn",
    }
    assert len(command.ok("datasets", "list").splitlines()) == 23

    asked = []

    def load(name: str, *, download: bool = True, verbose: int = 0) -> None:
        asked.append((name, download))
        if name == "dna":
            raise DatasetError("the sha256\nis another")

    monkeypatch.setattr("bayescut.cli._datasets.load_dataset", load)
    assert command.ok("datasets", "fetch", "nltcs") == "nltcs: here, and as published\n"
    code, out, err = command("datasets", "verify", "nltcs", "dna")
    assert (code, err) == (1, "")
    assert out == "nltcs: as published\ndna: wrong: the sha256 is another\n"
    code, out, _ = command("datasets", "verify", "dna", "--json")
    assert json.loads(out)["dna"]["ok"] is False
    assert asked == [("nltcs", True), ("nltcs", False), ("dna", False), ("dna", False)]
    assert "Did you mean" in command.error("datasets", "fetch", "nltc")
