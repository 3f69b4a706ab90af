from __future__ import annotations

import csv
import io

import pytest

from bayescut.bench import KINDS, BenchError, Result, make_table, published
from bayescut.bench._reference import DATASET_TITLES
from bayescut.bench.tables import show
from bayescut.datasets import DEBD_NAMES


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


def test_the_published_tables_are_whole() -> None:
    for kind, learners in (("log_likelihood", 9), ("time", 8), ("size", 5)):
        table = published(kind)
        assert table is not None
        assert len(table.learners) == learners
        assert len(table.cells) == 20 * learners
        assert {dataset for _, dataset in table.cells} == set(DEBD_NAMES)
        assert "AISTATS 2023" in table.source
    assert published("memory") is None
    assert set(DEBD_NAMES) < set(DATASET_TITLES)
    best = published("best_known")
    assert best is not None
    assert best.value("best known", "binarized_mnist") == -99.82
    ours = published("log_likelihood")
    assert ours is not None
    for name in DEBD_NAMES:  # nothing published beats the best published by more than rounding
        values = [ours.value(learner, name) for learner in ours.learners]
        assert max(v for v in values if v is not None) <= best.value("best known", name) + 0.006  # type: ignore[operator]


def test_ours_and_published_side_by_side() -> None:
    table = make_table(RESULTS, best_known=True)
    assert table.datasets == ("nltcs", "dna")  # in the published order
    assert [column.title for column in table.columns[:2]] == ["CNetBD", "Best"]
    assert [column.title for column in table.columns[2:]] == [
        *("CNet", "XCNet", "dCSN", "CNetBD", "CNetBIC"),
        *("Strudel", "LearnSPN", "ID-SPN", "EM-CNetBD", "best known"),
    ]
    assert table.best("nltcs") == {1}
    assert table.columns[1].cells["dna"].text == "timeout"
    assert any("largest difference" in note for note in table.notes)


def test_equal_numbers_are_equally_bold() -> None:
    table = make_table(RESULTS, "size", compare=["CNetBD", "CNetBIC"])
    titles = [column.title for column in table.columns]
    assert titles == ["CNetBD", "Best", "CNetBD", "CNetBIC"]
    assert table.best("nltcs") == {0, 1, 2}
    assert table.best("dna") == {0, 2, 3}
    assert "CNetBD has the size of CNetBD† on 2 of 2 data sets." in table.notes


def test_faster_is_better_and_a_time_out_is_a_bound() -> None:
    table = make_table(RESULTS, "time", compare=["CNetBD"])
    assert table.best("dna") == {0}
    assert table.columns[1].cells["dna"].text == "> 60"
    assert any("times as fast as CNetBD†" in note for note in table.notes)


def test_seeds_are_averaged_and_one_failure_fails_all() -> None:
    results = [ok("X(y=1)", "dna", value, seed=seed) for seed, value in enumerate([-1.0, -3.0])]
    cell = make_table(results, compare=False).columns[0].cells["dna"]
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
    with pytest.raises(BenchError, match="no published numbers of 'Nobody'"):
        make_table(RESULTS, compare=["Nobody"])
    # Published log-likelihoods, but no published times.
    assert len(make_table(RESULTS, "time", compare=["EM-CNetBD"]).columns) == 2


def test_learners_of_one_name_keep_their_modules() -> None:
    table = make_table([ok("a:X", "dna", -1.0), ok("b:X", "dna", -2.0)], compare=False)
    assert [column.title for column in table.columns] == ["a:X", "b:X"]


def test_markdown() -> None:
    text = make_table(RESULTS, compare=["CNetBD"]).to_markdown()
    lines = text.splitlines()
    lines = [" ".join(line.split()) for line in lines]
    assert lines[2] == "| Data set | CNetBD | Best | CNetBD† |"
    assert lines[3] == "|----------|------------:|-----------:|------------:|"
    assert lines[4] == "| NLTCS | -6.064 | **-5.000** | -6.064 |"
    assert lines[5] == "| DNA | **-87.643** | timeout | **-87.643** |"
    assert "† published: Yang, Gala, Peharz, AISTATS 2023, Table 1." in text


def test_csv_has_full_precision() -> None:
    results = [*RESULTS, ok("S", "dna", -1.0, seed=0), ok("S", "dna", -2.0, seed=1)]
    rows = list(csv.DictReader(io.StringIO(make_table(results).to_csv())))
    assert rows[0]["dataset"] == "nltcs"
    assert float(rows[0]["CNetBD"]) == -6.0642
    assert rows[0]["CNetBD (published)"] == "-6.064"
    assert rows[1]["Best"] == "timeout"
    assert rows[1]["S"] == "-1.5"
    assert float(rows[1]["S sd"]) == pytest.approx(0.7071, abs=1e-4)


def test_latex_is_balanced_and_escaped() -> None:
    results = [ok("a_b:C_D(x='50%')", "dna", -1.0)]
    text = make_table(results, best_known=True).to_latex()
    assert r"C\_D(x='50\%')" in text
    assert r"\begin{tabular}{lr|rrrrr|rrrr|r}" in text
    assert r"\textbf{$-$1.000}" in text
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.replace(r"\&", "").count("&") == 11


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
