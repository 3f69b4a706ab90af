from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.bench.tiny import DATA

from bayescut.bench import BenchError, Result, _runner, environment, read_results, run
from bayescut.bench._cell import measure
from bayescut.bench._runner import call_apart, run_cell
from bayescut.bench._store import Key

TINY = "tests.bench.tiny"


def test_a_cell_measures() -> None:
    fields = measure(f"{TINY}:Uniform", DATA, 1, "train+valid")
    assert fields["test_log_likelihood"] == pytest.approx(1 - 3 * np.log(2))
    assert (fields["n_rows"], fields["n_test_rows"], fields["n_columns"]) == (40, 20, 3)
    assert fields["n_parameters"] == 6
    assert fields["valid_log_likelihood"] is None
    assert fields["warmed_up"] is True
    assert 0 < fields["fit_seconds"] < 60 and 0 < fields["score_seconds"] < 60
    assert fields["peak_memory_bytes"] >= fields["base_memory_bytes"] > 2**20


def test_a_cell_may_learn_from_training_rows_only() -> None:
    fields = measure("CNetBD", DATA, None, "train")
    assert fields["n_rows"] == 20
    assert fields["valid_log_likelihood"] == pytest.approx(-2 * np.log(2), abs=0.2)
    assert fields["test_log_likelihood"] == pytest.approx(-2 * np.log(2), abs=0.2)
    assert fields["n_parameters"] == 5


def test_impossible_test_rows_are_told() -> None:
    fields = measure(f"{TINY}:Surprised", DATA, None, "train+valid")
    assert fields["test_log_likelihood"] == "-inf"
    json.dumps(fields, allow_nan=False)


def test_the_environment_is_recorded() -> None:
    found = environment()
    assert found["cores"] >= 1  # type: ignore[operator]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "numba", "scikit-learn", "bayescut", "commit", "cpu"} <= set(found)


@pytest.mark.parametrize(
    ("learner", "data", "status", "error"),
    [
        ("Uniform", DATA, "ok", None),
        ("Failing", DATA, "failed", "ArithmeticError: no solution in two lines"),
        ("Dying", DATA, "failed", "the process was killed, by the system if memory ran out"),
        ("Plain", f"{TINY}:unavailable", "unavailable", "DatasetError: the library is closed"),
    ],
)
def test_every_end_of_a_process_is_a_result(
    learner: str, data: str, status: str, error: str | None
) -> None:
    result = run_cell((f"{TINY}:{learner}", data, None, "train+valid"))
    assert (result.status, result.error) == (status, error)
    assert result.environment == environment()
    assert result.started is not None
    if learner == "Failing":
        assert "Traceback" in (result.detail or "")
    if status == "ok":
        assert result.test_log_likelihood == pytest.approx(-3 * np.log(2))


def test_cells_that_take_too_long_are_stopped(tmp_path: Path) -> None:
    learner = f"{TINY}:Waiting(folder={str(tmp_path)!r})"
    result = run_cell((learner, DATA, None, "train+valid"), time_limit=0.05)
    assert (result.status, result.time_limit) == ("timeout", 0.05)
    assert result.error == "stopped after 0.05 s"


def test_any_function_can_be_called_apart() -> None:
    answer = call_apart("tests.bench.tiny:process", {"square": 3})
    assert answer["status"] == "ok"
    assert answer["value"]["nine"] == 9
    assert answer["value"]["pid"] != os.getpid()
    answer = call_apart("tests.bench.tiny:process", {"square": "three"})
    assert (answer["status"], "Traceback" in answer["detail"]) == ("failed", True)
    assert "TypeError" in answer["error"]
    assert call_apart("tests.bench.tiny:nothing", {})["status"] == "failed"
    assert len(call_apart("tests.bench.tiny:long_answer", {"n": 10**6})["value"]) == 10**6


class FakeCells:
    """Stands in for processes: counts the cells that were run."""

    def __init__(self, status: str = "ok") -> None:
        self.status = status
        self.ran: list[Key] = []

    def __call__(self, cell: Key, time_limit: float | None = None) -> Result:
        self.ran.append(cell)
        return Result(*cell, status=self.status, test_log_likelihood=-float(len(self.ran)))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCells:
    cells = FakeCells()
    monkeypatch.setattr(_runner, "run_cell", cells)
    return cells


def test_what_is_there_is_not_run_again(tmp_path: Path, fake: FakeCells) -> None:
    path = tmp_path / "results.jsonl"
    started, seen = [], []
    run(
        ["CNetBD"],
        ["dna", "book"],
        path,
        on_start=lambda cell, done, todo: started.append((cell[1], done, todo)),
        on_result=seen.append,
    )
    assert started == [("dna", 0, 2), ("book", 1, 2)]
    assert seen == read_results(path)
    results = run(["CNetBIC", "CNetBD"], ["dna", "book"], path)
    assert [(r.learner, r.dataset, r.test_log_likelihood) for r in results] == [
        ("CNetBIC", "dna", -3.0),
        ("CNetBD", "dna", -1.0),
        ("CNetBIC", "book", -4.0),
        ("CNetBD", "book", -2.0),
    ]
    run(["CNetBD"], ["dna"], path, protocol="train")
    assert len(fake.ran) == 5
    forced = run(["CNetBD"], ["dna"], path, force=True)
    assert [r.test_log_likelihood for r in forced] == [-6.0]
    assert len(read_results(path)) == 5


@pytest.mark.parametrize(
    ("status", "again", "again_with_retry"),
    [("ok", 0, 0), ("failed", 0, 1), ("timeout", 0, 1), ("unavailable", 1, 1)],
)
def test_failures_are_kept_until_they_are_tried_again(
    tmp_path: Path, fake: FakeCells, status: str, again: int, again_with_retry: int
) -> None:
    path = tmp_path / "results.jsonl"
    fake.status = status
    run(["CNetBD"], ["dna"], path)
    run(["CNetBD"], ["dna"], path)
    assert len(fake.ran) == 1 + again
    run(["CNetBD"], ["dna"], path, retry=True)
    assert len(fake.ran) == 1 + again + again_with_retry


def test_a_time_limit_is_positive(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="time limit"):
        run(["CNetBD"], ["dna"], tmp_path / "r", time_limit=0)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait for another process; a minute is far more than it ever takes."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_kill_9_loses_at_most_the_running_cell(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    learners = [f"{TINY}:Plain", f"{TINY}:Waiting(folder={str(tmp_path)!r})"]
    code = f"from bayescut.bench import run; run({learners!r}, [{DATA!r}], {str(path)!r})"
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    runner = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    pid_file = tmp_path / "pid"
    wait_for(lambda: pid_file.exists() and pid_file.read_text() != "", "the second cell")
    before = path.read_bytes()
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    # The cell notices that nobody waits for it any more.
    wait_for(lambda: not is_running(int(pid_file.read_text())), "the end of the orphaned cell")
    assert path.read_bytes() == before
    assert [result.learner for result in read_results(path)] == learners[:1]

    path.write_bytes(before + before[: len(before) // 2])  # as if killed while writing
    (tmp_path / "go").touch()
    results = run(learners, [DATA], path)
    assert [result.status for result in results] == ["ok", "ok"]
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 2
