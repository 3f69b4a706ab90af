"""The benchmark of the cutset rivals runs on its smallest settings and does nothing twice."""

import csv

import pytest
from tests.published import at_hand

from bayescut.datasets import DEBD_NAMES


@pytest.fixture(scope="module")
def rivals(load):
    return load("rivals")


def test_published_values_are_complete(rivals):
    for kind in ("log_likelihood", "learning_time", "circuit_size"):
        assert set(rivals.published(kind)) == {
            (name, learner) for name in DEBD_NAMES for learner in rivals.PUBLISHED
        }
    assert rivals.published("circuit_size")["dna", "DCSN"] == 1767


def test_one_set(rivals, tmp_path, capsys):
    at_hand("nltcs"), at_hand("dna")
    path = tmp_path / "rivals.csv"
    arguments = ["--sets", "nltcs", "--learners", "CNet", "DCSN", "--results", str(path)]
    assert rivals.main(arguments) == 0
    said = capsys.readouterr().out
    assert said.index("agree on 1 of 1") < said.index("times as fast")
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["learner"] for row in rows] == ["CNet", "DCSN"]
    assert all(row["agrees"] == "yes" for row in rows)
    assert rows[1]["parameters_as_published"] == rows[1]["paper_parameters"] == "1017"
    before = path.read_text()
    assert rivals.main(arguments) == 0
    assert path.read_text() == before
    assert path.with_suffix(".md").read_text().strip() in said


@pytest.mark.parametrize("arguments", ["--sets nothing", "--learners CNetBD"])
def test_refusals(rivals, arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        rivals.main(arguments.split())
    assert exit_.value.code == 2
    assert "error" in capsys.readouterr().err
