"""Our results beside the published ones: tables, LaTeX and the report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import comparison
from _latex import latex
from _published import DATASET_TITLES, compare, published
from bayescut.bench import BenchError, Result
from bayescut.bench._store import Results, Store
from bayescut.datasets import DEBD_NAMES


def ok(learner: str, dataset: str, value: float, **more: object) -> Result:
    fields = {
        "seed": None,
        "protocol": "train+valid",
        "fit_seconds": 0.05,
        "n_parameters": 205,
        "peak_memory_bytes": 2**28,
    }
    fields |= more
    return Result(learner, dataset, status="ok", test_log_likelihood=value, **fields)  # type: ignore[arg-type]


RESULTS = [
    ok("CNetBD", "dna", -87.6428, n_parameters=359),
    ok("CNetBD", "nltcs", -6.0642),
    ok("a.b:Best", "nltcs", -5.0),
    Result("a.b:Best", "dna", None, "train+valid", "timeout", time_limit=60.0),
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
    table = compare(RESULTS, best_known=True)
    assert table.datasets == ("nltcs", "dna")  # in the published order
    assert table.headings == [
        *("Data set", "CNetBD", "Best"),
        *("CNet†", "XCNet†", "dCSN†", "CNetBD†", "CNetBIC†"),
        *("Strudel†", "LearnSPN†", "ID-SPN†", "EM-CNetBD†", "best known"),
    ]
    assert table.best("nltcs") == {1}
    assert table.columns[1].cells["dna"].text == "timeout"
    assert "CNetBD against CNetBD†: largest difference +0.000 (DNA), 2 data sets." in table.notes
    lower = [ok("CNetBD", "dna", -90.643), *RESULTS[1:]]
    assert any("largest difference -3.000 (DNA)" in note for note in compare(lower).notes)


def test_the_best_known_is_never_bold() -> None:
    table = compare(RESULTS[:1], learners=["CNet"], best_known=True)
    assert table.headings == ["Data set", "CNetBD", "CNet†", "best known"]
    assert table.columns[2].cells["dna"].value > table.columns[0].cells["dna"].value
    assert table.best("dna") == {0}


def test_equal_numbers_are_equally_bold() -> None:
    table = compare(RESULTS, "size", learners=["CNetBD", "CNetBIC"])
    assert table.headings[1:] == ["CNetBD", "Best", "CNetBD†", "CNetBIC†"]
    assert table.best("nltcs") == {0, 1, 2}
    assert table.best("dna") == {0, 2, 3}
    assert "CNetBD has the size of CNetBD† on 2 of 2 data sets." in table.notes


def test_faster_is_better() -> None:
    table = compare(RESULTS, "time", learners=["cnet-bd"])
    assert table.best("dna") == {0}
    assert table.columns[1].cells["dna"].text == "> 60"
    assert any("times as fast as CNetBD†" in note for note in table.notes)


def test_settings_have_no_published_counterpart() -> None:
    table = compare([ok("CNetBD(ess=1.0)", "dna", -87.0)], learners=["CNetBD"])
    assert not any("largest difference" in note for note in table.notes)


def test_which_published_learners() -> None:
    with pytest.raises(BenchError, match="no published numbers of 'Nobody'"):
        compare(RESULTS, learners=["Nobody"])
    # Published log-likelihoods, but no published times.
    assert len(compare(RESULTS, "time", learners=["EM-CNetBD"]).columns) == 2


def test_markdown_and_csv() -> None:
    text = compare(RESULTS, learners=["CNetBD"]).to_markdown()
    lines = text.splitlines()
    assert lines[2:6] == [
        "| Data set | CNetBD | Best | CNetBD† |",
        "|---|---:|---:|---:|",
        "| NLTCS | -6.064 | **-5.000** | -6.064 |",
        "| DNA | **-87.643** | timeout | **-87.643** |",
    ]
    assert "† published: Yang, Gala, Peharz, AISTATS 2023, Table 1." in text
    rows = list(csv.DictReader(io.StringIO(compare(RESULTS).to_csv())))
    assert rows[0]["dataset"] == "nltcs" and float(rows[0]["CNetBD"]) == -6.0642
    assert rows[0]["CNetBD†"] == "-6.064"


def test_latex_is_balanced_and_escaped() -> None:
    text = latex(compare([ok("a_b:C_D(x='50%')", "dna", -1.0)], best_known=True))
    assert r"C\_D(x='50\%')" in text
    assert r"\begin{tabular}{lr|rrrrr|rrrr|r}" in text
    assert r"\textbf{$-$1.000}" in text
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.replace(r"\&", "").count("&") == 11


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "results.jsonl"
    with Store(path, Results()) as store:
        for result in RESULTS:
            store.append(result)
    comparison.main(["report", "--results", str(path), "--output", str(tmp_path / "deep" / "r")])
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(path.name for path in written) == sorted(
        [f"{kind}.{form}" for kind in ("log_likelihood", "time", "size", "memory")
         for form in ("md", "csv", "tex")]
        + ["pareto_light.png", "pareto_dark.png"]
    )  # fmt: skip
    assert all(path.stat().st_size > 20 for path in written)
    assert "| NLTCS | **256** | **256** |" in (tmp_path / "deep" / "r" / "memory.md").read_text()


def test_a_run_is_kept_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    learner, data = "tests.bench.tiny:Plain", "tests.bench.tiny:load"
    path = tmp_path / "results.jsonl"
    arguments = ["run", "-l", learner, "CNetBD", "--sets", data, "--results", str(path)]
    comparison.main(arguments)
    before = path.read_bytes()
    assert before.count(b"\n") == 2
    assert "| tests.bench.tiny:load |" in (tmp_path / "log_likelihood.md").read_text()
    comparison.main(arguments)
    assert path.read_bytes() == before
