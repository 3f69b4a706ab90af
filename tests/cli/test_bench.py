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
    assert len(lines) == 6 + 3  # results as they come, then the table
    assert lines[6].split() == [
        "Data",
        "set",
        "CNetBD(ess=1,",
        "n_candidates=3)",
        "CNetBIC",
        "CNetBD",
    ]
    assert lines[8].split() == ["dna", "-6.050", "failed", "-6.050"]
    assert lines[2] == "CNetBD nltcs: log-likelihood -6.0500, 0.020 s, 205 parameters"
    assert lines[4] == "CNetBIC dna: failed: ValueError: no"
    return path


def test_a_run_goes_on_where_it_was(command: Command, results: Path) -> None:
    again = ("bench", "run", "-l", "CNetBD", "-l", "CNetBIC", "-d", "nltcs", "-d", "dna")
    table = ["Data set  CNetBD  CNetBIC", "nltcs     -6.050   -6.050", "dna       -6.050   failed"]
    assert command.ok(*again, "-o", results).splitlines() == table
    out = command.ok(*again, "-o", results, "--retry", "--json")
    assert [json.loads(line)["learner"] for line in out.splitlines()] == ["CNetBIC"]
    assert len(command.ok(*again, "-o", results, "--force").splitlines()) == 4 + 3
    assert len(read_results(results)) == 6


def test_seeds(command: Command, results: Path) -> None:
    learner = "tests.bench.tiny:Uniform"
    out = command.ok("bench", "run", "-l", learner, "-d", "dna", "-o", results, "--seeds", "0,3-4")
    assert [line.split(":")[1] for line in out.splitlines()[:3]] == [
        f"Uniform dna seed {seed}" for seed in (0, 3, 4)
    ]
    assert out.splitlines()[4].split() == ["dna", "-6.050", "±", "0.000"]
    message = command.error("bench", "run", "-l", "A", "-d", "dna", "--seeds", "x", code=2)
    assert "Seeds are" in message


def test_tables(command: Command, results: Path, tmp_path: Path) -> None:
    lines = command.ok("bench", "table", results).splitlines()
    assert lines[0].split()[:3] == ["Data", "set", "CNetBD(ess=1,"]
    assert lines[2].split() == ["dna", "-6.050", "failed", "-6.050"]
    text = command.ok("bench", "table", results, "--format", "md", "--kind", "time")
    assert text.startswith("**Learning time") and "| failed |" in text
    path = tmp_path / "size.csv"
    command.ok("bench", "table", results, "--kind", "size", "-o", path, "-d", "dna")
    assert path.read_text(encoding="utf-8").splitlines()[1] == "dna,205.0,failed,205.0"
    command.ok("bench", "table", results, "-o", tmp_path / "page.md")
    assert "| dna | **-6.050** | failed | **-6.050** |" in (tmp_path / "page.md").read_text()
    found = json.loads(command.ok("bench", "table", results, "--json"))
    assert found["columns"][1]["notes"] == {"dna": "failed"}
    assert "no results with protocol" in command.error("bench", "table", results, "--train-only")


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
