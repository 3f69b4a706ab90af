"""The benchmark scripts run, on their smallest settings, and say what they mean."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.published import at_hand

from bayescut.datasets import DEBD_NAMES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def paper_learners(load):
    return load("paper_learners")


@pytest.fixture(scope="module")
def scale(load):
    return load("scale")


@pytest.fixture
def nltcs():
    return at_hand("nltcs")


@pytest.fixture
def new_processes(monkeypatch):
    """Let new processes find the package where this one found it."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_paper_learners_on_one_set(nltcs, new_processes, tmp_path):
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "benchmarks" / "paper_learners.py"), "--sets", "nltcs",
            "--repeat", "1", "--jobs", "1", "--skip-start-up", "--output", str(tmp_path),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 of 2 circuits are the published ones" in done.stdout
    assert done.stdout.index("Parity") < done.stdout.index("Seconds")
    lines = read(tmp_path / "paper_learners.csv")
    assert [line["learner"] for line in lines] == ["CNetBD", "CNetBIC"]
    for line in lines:
        assert line["parity"] == "equal"
        assert line["parameters"] == line["paper_parameters"]
        ratio = float(line["paper_seconds"]) / float(line["seconds_best"])
        assert float(line["ratio"]) == pytest.approx(ratio, rel=0.01)


def test_one_learner_and_start_up(nltcs, paper_learners, monkeypatch, tmp_path, capsys):
    times = [("first fit, kernels compiled", (12.5, 11.0))]
    monkeypatch.setattr(paper_learners, "start_up", lambda repeat: times)
    arguments = "--sets nltcs --learners CNetBIC --repeat 2 --output".split()
    assert paper_learners.main([*arguments, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "CNetBIC: geometric mean" in said and "CNetBD: geometric mean" not in said
    assert read(tmp_path / "start_up.csv") == [
        {
            "what": "first fit, kernels compiled",
            "seconds": "12.5000",
            "processor_seconds": "11.0000",
        }
    ]


def test_start_up_runs_in_new_processes(nltcs, paper_learners, new_processes, monkeypatch):
    real = paper_learners.in_new_process
    caches, known = [], {}

    def with_the_usual_cache(code, **environment):
        caches.append(environment.get("NUMBA_CACHE_DIR"))
        if code not in known:  # a process each is enough here
            known[code] = real(code)
        return known[code]

    monkeypatch.setattr(paper_learners, "in_new_process", with_the_usual_cache)
    times = paper_learners.start_up(repeat=1)
    assert len(times) == 6
    assert all(clock > 0 and cpu > 0 for _, (clock, cpu) in times)
    assert caches[:2] == [None, None] and caches[2] == caches[3] is not None
    assert not Path(caches[2]).exists()


def test_reference_is_complete(paper_learners):
    reference = paper_learners.read_reference()
    assert set(reference) == {(d, x) for d in DEBD_NAMES for x in paper_learners.LEARNERS}
    assert reference["bbc", "CNetBD"].paper_parameters == 58849
    assert reference["nltcs", "CNetBIC"].authors_test_ll == -6.0425


def test_parity_is_told(paper_learners):
    reference = paper_learners.read_reference()
    plants, bbc, ad = (reference[name, "CNetBD"] for name in ("plants", "bbc", "ad"))
    judge = paper_learners.parity
    assert judge("plants", "CNetBD", 3399, -13.697, plants) == "equal"
    assert judge("plants", "CNetBD", 3398, -13.697, plants) == "differs: parameters"
    assert judge("plants", "CNetBD", 1, -13.72, plants) == "differs: parameters, log-likelihood"
    assert judge("bbc", "CNetBD", 58849, -320.0, bbc) == "equal"
    assert judge("bbc", "CNetBD", 58849, -346.0, bbc) == "differs: log-likelihood"
    assert judge("ad", "CNetBD", 6219, -15.54, ad) == "equal"
    assert judge("ad", "CNetBD", 9325, -15.54, ad) == "equal"


def test_missed_parity_is_the_exit_status(nltcs, paper_learners, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(paper_learners, "tolerance", lambda dataset, learner: (1.0, 2.0))
    arguments = "--sets nltcs --learners CNetBD --repeat 1 --skip-start-up --output".split()
    assert paper_learners.main([*arguments, str(tmp_path)]) == 1
    assert "0 of 1 circuits are the published ones" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", ["--sets nothing", "--learners CNet", "--repeat 0", "--jobs many"]
)
def test_paper_learners_refuses(paper_learners, arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        paper_learners.main(arguments.split())
    assert exit_.value.code == 2
    assert "error" in capsys.readouterr().err


def test_scale_on_small_tables(scale, new_processes, tmp_path, capsys):
    arguments = "--rows 5000 20000 --columns 30 --repeat 1 --jobs 1 --output".split()
    assert scale.main([*arguments, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.index("What was found") < said.index("Seconds") < said.index("Memory")
    assert "4 times the rows take" in said
    lines = read(tmp_path / "scale.csv")
    assert [line["rows"] for line in lines] == ["5000", "20000"]
    for line in lines:
        assert abs(float(line["test_ll"]) - float(line["true_test_ll"])) < 0.2
        # The process (an interpreter with its libraries), the table beside it, and fit on top.
        process, table, fit = (float(line[key]) for key in ("process_mb", "table_mb", "fit_mb"))
        assert process > 50 and fit >= 0
        # A small table may fit into memory that was given back before: then nothing is added.
        assert float(line["peak_mb"]) >= process
        assert table == pytest.approx(float(line["rows"]) * 30 / 1e6, abs=0.06)


@pytest.mark.parametrize("arguments", ["--columns 3", "--repeat 0", "--rows 0"])
def test_scale_refuses(scale, arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        scale.main(arguments.split())
    assert exit_.value.code == 2
    assert "error" in capsys.readouterr().err


def test_true_network_draws_what_it_says(scale):
    network = scale.TrueNetwork(6, seed=3)
    table = np.empty((scale.TEST_ROWS, 6), dtype=np.uint8)
    logs = network.draw(table, seed=1)
    rows, first, number = np.unique(table, axis=0, return_index=True, return_counts=True)
    probability = np.exp(logs[first])
    assert len(rows) == 64  # all of them: none is rarer than 0.65 ** 3 * 0.05 ** 3 by design
    assert probability.sum() == pytest.approx(1.0)
    # Equal rows have equal probabilities, and frequencies lie within five standard errors.
    np.testing.assert_allclose(logs, np.log(probability)[np.searchsorted(_key(rows), _key(table))])
    error = np.sqrt(probability * (1 - probability) / len(table))
    assert (np.abs(number / len(table) - probability) < 5 * error).all()


def _key(rows):
    return rows @ (1 << np.arange(rows.shape[1])[::-1])


def test_true_network_is_the_same_for_every_length(scale):
    network = scale.TrueNetwork(8)
    long, short = (np.empty((n, 8), dtype=np.uint8) for n in (3 * scale.BLOCK // 2, scale.BLOCK))
    network.draw(long, seed=2)
    network.draw(short, seed=2)
    np.testing.assert_array_equal(long[: scale.BLOCK], short)
