"""The benchmark of EiNets: parity, a small run, and one taken up from its checkpoint."""

import csv

import numpy as np
import pytest

from bayescut.datasets import Dataset


@pytest.fixture
def einet(load, monkeypatch):
    script = load("einet")
    rng = np.random.default_rng(0)
    pixels = (rng.random((120, 16)) < np.where(rng.random((120, 1)) < 0.5, 0.2, 0.8)).astype("u1")
    data = Dataset("pixels", pixels[:60], pixels[60:90], pixels[90:])
    monkeypatch.setattr(script, "fetch_binary_mnist", lambda **options: data)
    monkeypatch.setattr(script, "SHAPE", (4, 4))
    return script


def run(script, folder, *more):
    settings = ["--network", "pd:2:3", "--min-epochs", "3", "--batch-size", "40", "--jobs", "1"]
    script.main([*settings, "--output", str(folder), *more])


def lines(folder, name):
    with open(folder / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_that_was_left_goes_on(einet, tmp_path, capsys, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(einet, whole, "--epochs", "5", "--seeds", "3")
    said = capsys.readouterr().out
    assert said.startswith("parity: flows of a circuit against NumPy in float64")
    for n in range(1, 5):
        run(einet, parts, "--epochs", "5", "--seeds", "3", "--minutes", "0")
        assert f"out of time after epoch {n}" in capsys.readouterr().out
        assert not (parts / "einet.csv").exists()
    run(einet, parts, "--epochs", "5", "--seeds", "3", "--minutes", "0")
    expected, found = (lines(folder, "einet.csv")[0] for folder in (whole, parts))
    assert found["test_ll"] == expected["test_ll"] and found["epochs"] == "5"
    curves = [[row["valid_ll"] for row in lines(f, "einet_epochs.csv")] for f in (whole, parts)]
    assert curves[0] == curves[1] and len(curves[0]) == 5
    assert not list(parts.glob("*.npz"))
    run(einet, parts, "--epochs", "5", "--seeds", "3")
    assert "there already" in capsys.readouterr().out
    run(einet, parts, "--network", "trees:2:2:2", "--epochs", "1", "--seeds", "0")
    assert len(lines(parts, "einet.csv")) == 2
    with pytest.raises(SystemExit, match="pd:PIECES:K"):
        run(einet, parts, "--network", "middling")


def test_a_difference_ends_the_program(einet, tmp_path, monkeypatch):
    monkeypatch.setattr(einet, "step_by_flows", lambda *arguments: 0.01)
    with pytest.raises(SystemExit, match="does not agree"):
        run(einet, tmp_path, "--epochs", "1")
