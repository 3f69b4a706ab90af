from __future__ import annotations

import csv
import io

import pytest

from bayescut.bench import KINDS, BenchError, Result, make_table
from bayescut.bench.table import show


def ok(learner: str, dataset: str, value: float, **more: object) -> Result:
    fields = {"seed": None, "protocol": "train+valid", "fit_seconds": 0.05, "n_parameters": 205}
    fields |= more
    return Result(learner, dataset, status="ok", test_log_likelihood=value, **fields)  # type: ignore[arg-type]


def bad(learner: str, dataset: str, status: str, **more: object) -> Result:
    return Result(learner, dataset, None, "train+valid", status, **more)  # type: ignore[arg-type]


RESULTS = [
    ok("CNetBD", "dna", -87.6428, n_parameters=359),
    ok("CNetBD", "nltcs", -6.0642),
    ok("a.b:Best", "nltcs", -5.0),
    bad("a.b:Best", "dna", "timeout", time_limit=60.0),
]


def test_learners_side_by_side() -> None:
    table = make_table(RESULTS)
    assert table.datasets == ("dna", "nltcs")
    assert table.headings == ["Data set", "CNetBD", "Best"]
    assert table.lines == [["dna", "-87.643", "timeout"], ["nltcs", "-6.064", "-5.000"]]
    assert [table.best(name) for name in table.datasets] == [{0}, {1}]


def test_equal_numbers_are_equally_bold() -> None:
    table = make_table([ok("A", "dna", -1.00049), ok("B", "dna", -1.0), ok("C", "dna", -1.001)])
    assert table.best("dna") == {0, 1}
    assert [table.is_bold(0, column) for column in range(4)] == [False, True, True, False]


def test_faster_is_better_and_a_time_out_is_a_bound() -> None:
    table = make_table([*RESULTS, ok("Slow", "dna", -1.0, fit_seconds=0.06)], "time")
    assert table.best("dna") == {0}
    assert table.columns[1].cells["dna"].text == "> 60"
    assert table.lines[1][3] == "–"  # never run


def test_seeds_are_averaged_and_one_failure_fails_all() -> None:
    results = [ok("X(y=1)", "dna", value, seed=seed) for seed, value in enumerate([-1.0, -3.0])]
    cell = make_table(results).columns[0].cells["dna"]
    assert (cell.value, cell.n_seeds, cell.text) == (-2.0, 2, "-2.000 ± 1.414")
    results.append(Result("X(y=1)", "dna", 2, "train+valid", "failed"))
    assert make_table(results).columns[0].cells["dna"].text == "failed"
    assert make_table(results[:1], "memory").columns[0].cells["dna"].text == ""


def test_which_results_are_shown() -> None:
    mixed = [*RESULTS, ok("CNetBD", "book", -1.0, protocol="train")]
    assert "book" not in make_table(mixed).datasets
    assert make_table(mixed, protocol="train").datasets == ("book",)
    assert make_table(RESULTS, datasets=["DNA", "book"]).datasets == ("dna", "book")
    with pytest.raises(BenchError, match="no results yet"):
        make_table([])
    with pytest.raises(BenchError, match="no results with protocol"):
        make_table(RESULTS, protocol="train")
    with pytest.raises(BenchError, match="kind must be"):
        make_table(RESULTS, "beauty")


def test_learners_of_one_name_keep_their_modules() -> None:
    table = make_table([ok("a:X", "dna", -1.0), ok("b:X", "dna", -2.0)])
    assert [column.title for column in table.columns] == ["a:X", "b:X"]


def test_markdown() -> None:
    results = [*RESULTS, ok("S", "dna", -1.0, seed=0), ok("S", "dna", -2.0, seed=1)]
    assert make_table(results).to_markdown().splitlines() == [
        "**Mean test log-likelihood (nats, larger is better); learned from training and validation "
        "rows.**",
        "",
        "| Data set | CNetBD | Best | S |",
        "|---|---:|---:|---:|",
        "| dna | -87.643 | timeout | **-1.500 ± 0.707** |",
        "| nltcs | -6.064 | **-5.000** | – |",
        "",
        "Several seeds: mean ± standard deviation.",
    ]


def test_csv_has_full_precision() -> None:
    results = [*RESULTS, ok("S", "dna", -1.0, seed=0), ok("S", "dna", -2.0, seed=1)]
    rows = list(csv.DictReader(io.StringIO(make_table(results).to_csv())))
    assert rows[1]["dataset"] == "nltcs"
    assert float(rows[1]["CNetBD"]) == -6.0642
    assert rows[0]["Best"] == "timeout"
    assert rows[0]["S"] == "-1.5"
    assert float(rows[0]["S sd"]) == pytest.approx(0.7071, abs=1e-4)
    assert (rows[1]["S"], rows[1]["S sd"]) == ("", "")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-6.0005, "log_likelihood", "-6.000"),
        (float("-inf"), "log_likelihood", "-inf"),
        (0.0123, "time", "0.012"),
        (1.234, "time", "1.23"),
        (123.4, "time", "123.4"),
        (1089.44, "size", "1089.4"),
        (300.2, "memory", "300"),
    ],
)
def test_numbers_as_printed(value: float, kind: str, text: str) -> None:
    assert kind in KINDS
    assert show(value, kind) == text
