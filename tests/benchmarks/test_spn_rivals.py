"""The benchmark of LearnSPN, Strudel and ID-SPN runs on its smallest settings, nothing twice."""

import csv
import re
from types import SimpleNamespace

import numpy as np
import pytest

from bayescut.datasets import DEBD_NAMES, fetch_debd


@pytest.fixture(scope="module")
def spn_rivals(load):
    return load("spn_rivals")


def test_published_values_are_complete(spn_rivals):
    learners = set(spn_rivals.LEARNERS) - {"Strudel-curve"}
    for kind in ("log_likelihood", "learning_time"):
        found = spn_rivals.published(kind)
        assert {(name, learner) for name in DEBD_NAMES for learner in learners} <= set(found)
    assert spn_rivals.published("log_likelihood")["jester", "LearnSPN"] == -53.48
    assert set(spn_rivals.SETS) == set(spn_rivals.CURVES) == set(DEBD_NAMES)
    assert set(spn_rivals.SLACK) == learners


def test_one_set(spn_rivals, tmp_path, capsys):
    try:
        fetch_debd("nltcs", download=False)
    except OSError:
        pytest.skip("the data sets are not at hand")
    path = tmp_path / "spn.csv"
    arguments = ["--sets", "nltcs", "--learners", "Strudel", "Strudel-bd", "--results", str(path)]
    assert spn_rivals.main(arguments) == 0
    said = capsys.readouterr().out
    assert said.index("Agrees on 1 of the 1") < said.index("Processor seconds")
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["learner"] for row in rows] == ["Strudel", "Strudel-bd"]
    assert float(rows[0]["test_ll"]) == pytest.approx(-6.068, abs=1e-3)
    before = path.read_text()
    assert spn_rivals.main(arguments) == 0
    assert path.read_text() == before
    assert path.with_suffix(".md").read_text().strip() in said


def test_ties_are_decided_in_other_ways(spn_rivals, capsys):
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, (200, 4))
    rows = np.hstack([one, 1 - one]).astype(np.uint8)  # each column has its negation
    data = SimpleNamespace(name="negations", train=rows, test=rows[:50])
    spn_rivals.ties(data, n_seeds=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        tied, splits = re.search(r"(\d+) of (\d+) tied", line).groups()
        assert 0 < int(tied) <= int(splits) <= 2000


@pytest.mark.parametrize("arguments", ["--sets nothing", "--learners CNetBD"])
def test_refusals(spn_rivals, arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        spn_rivals.main(arguments.split())
    assert exit_.value.code == 2
    assert "error" in capsys.readouterr().err
