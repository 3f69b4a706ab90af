from __future__ import annotations

import math
from pathlib import Path

import pytest

from bayescut.bench import BenchError, Result, read_results
from bayescut.bench._store import Results, Store


def result(dataset: str = "dna", value: float = -1.5, **more: object) -> Result:
    return Result("CNetBD", dataset, None, "train+valid", "ok", value, **more)  # type: ignore[arg-type]


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    first = result(environment={"cores": 2}, n_parameters=3)
    second = Result("A(x='é')", "b", 4, "train", "failed", error="line", detail="one\ntwo")
    with Store(path, Results()) as store:
        store.append(first)
        store.append(second)
    assert read_results(path) == [first, second]
    assert path.read_bytes().count(b"\n") == 2


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    line = result(value=-math.inf, test_standard_error=math.nan).to_json()
    back = Result.from_json(line)
    assert back.test_log_likelihood == -math.inf
    assert math.isnan(back.test_standard_error or 0.0)


def test_the_latest_result_of_a_cell_counts(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Store(path, Results()) as store:
        for value in (-1.0, -2.0):
            store.append(result(value=value))
    assert [r.test_log_likelihood for r in read_results(path)] == [-2.0]


@pytest.mark.parametrize("kept", [1, 20, -2])
def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "results.jsonl"
    whole, torn = result("dna").to_json() + "\n", result("nltcs").to_json()
    path.write_text(whole + torn[:kept], encoding="utf-8")
    assert read_results(path) == [result("dna")]
    with Store(path, Results()) as store:
        store.append(result("book"))
    assert read_results(path) == [result("dna"), result("book")]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(result("dna").to_json(), encoding="utf-8")
    with Store(path, Results()) as store:
        store.append(result("book"))
    assert read_results(path) == [result("dna"), result("book")]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    good = result().to_json()
    for bad in ("{", "[]", '{"format": 2}', '{"format": 1}', good.replace('"ok"', '"fine"')):
        path.write_text(f"{good}\n{bad}\n{good}\n", encoding="utf-8")
        with pytest.raises(BenchError, match="Line 2 of"):
            read_results(path)


def test_fields_of_newer_versions_are_passed_over() -> None:
    line = result().to_json().replace('"seed": null', '"seed": null, "colour": "red"')
    assert Result.from_json(line) == result()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "results.jsonl"
    with Store(path, Results()), pytest.raises(BenchError, match="Another run"):
        Store(path, Results())
    with Store(path, Results()):
        pass
