"""Tables of results grow line by line, and the published ones are those of the lines beneath."""

import shutil
from pathlib import Path

import pytest

from bayescut.bench import BenchError
from bayescut.datasets import load_binary_digits

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))


@pytest.fixture(scope="module")
def results(load):
    return load("_results")


@pytest.fixture
def folder(tmp_path):
    """The published CSV files without the pages made of them."""
    for path in (BENCHMARKS / "results").glob("*.csv"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SCRIPTS)
def test_help(load, name, capsys):
    with pytest.raises(SystemExit) as exit_:
        load(name).main(["--help"])
    assert exit_.value.code == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "arguments", "target"),
    [
        ("beyond", ["table"], "beyond.csv"),
        ("continuous", ["table"], "continuous.csv"),
        ("rivals", ["--learners"], "rivals.csv"),
        ("em_mixtures", ["table"], "."),
    ],
)
def test_pages_are_made_of_the_lines(load, folder, name, arguments, target, capsys):
    load(name).main([*arguments, "--results", str(folder / target)])
    page = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert page == (BENCHMARKS / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert page == capsys.readouterr().out


def test_page_of_mnist_is_made_of_the_lines(load, folder):
    page = load("binary_mnist").table(folder) + "\n"
    assert page == (BENCHMARKS / "results" / "binary_mnist.md").read_text(encoding="utf-8")


def test_last_line_counts_in_a_page(load, folder):
    beyond = load("beyond")
    path = folder / "beyond.csv"
    key = ("nltcs", "CutsetNetwork", "train+valid")
    row = beyond.latest(path, *beyond.KEYS)[key]
    assert "1234567" not in beyond.table(path)
    with beyond.open_csv(path, beyond.FIELDS, *beyond.KEYS) as store:
        assert store.missing([key]) == []
        assert store.missing([key], force=True) == [key]
        store.append(row | {"parameters": "1234567"})
    assert "1234567" in beyond.table(path)


def test_both_protocols_are_columns_of_a_page(load, folder):
    beyond = load("beyond")
    path = folder / "beyond.csv"
    row = beyond.latest(path, *beyond.KEYS)["nltcs", "CutsetEnsemble", "train+valid"]
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rest = [line for line in lines if ",CutsetEnsemble,train," not in line]
    path.write_text("".join(rest), encoding="utf-8")
    assert "from training alone" not in beyond.table(path)
    with beyond.open_csv(path, beyond.FIELDS, *beyond.KEYS) as store:
        store.append(row | {"protocol": "train", "test_ll": "-5.1234", "budget_s": "12.5"})
    page = beyond.table(path)
    assert "| **-5.123** |" in page and f"{float(row['test_ll']):.3f}" in page
    assert "CutsetEnsemble from training alone: above EM-CNetBD on 1, above ID-SPN on 1" in page
    assert "above the best of anything on 1 of 1, 12.5 s each." in page


FIELDS = ["set", "learner", "value"]


def test_lines_are_appended_at_once(results, tmp_path):
    path = tmp_path / "new" / "table.csv"
    assert results.read_csv(path) == [] and results.latest(path, "set") == {}
    with results.open_csv(path, FIELDS, "set", "learner") as store:
        store.append({"set": "a", "learner": "x", "value": "1,5"})
        assert path.read_bytes() == b'set,learner,value\na,x,"1,5"\n'
        store.append({"set": "b", "learner": "x"})
        store.append({"set": "a", "learner": "x", "value": "2"})
        assert store.missing([("a", "x"), ("c", "x")]) == [("c", "x")]
        with pytest.raises(BenchError, match="no column colour"):
            store.append({"set": "a", "colour": "red"})
        with pytest.raises(BenchError, match="several lines"):
            store.append({"set": "a", "learner": "two\nlines"})
    found = results.latest(path, "set", "learner")
    assert list(found) == [("a", "x"), ("b", "x")]
    assert found["a", "x"]["value"] == "2"
    assert results.latest(path, "set")["b"]["value"] == ""


def test_columns_keep_the_order_of_the_file_and_comments_stay(results, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("# where it is from\nvalue,set,learner\n1,a,x\n")
    with results.open_csv(path, FIELDS, "set") as store:
        assert store.records == {"a": {"set": "a", "learner": "x", "value": "1"}}
        store.append({"set": "b", "learner": "y", "value": "2"})
    assert path.read_text() == "# where it is from\nvalue,set,learner\n1,a,x\n2,b,y\n"
    assert results.read_csv(path)[1] == {"value": "2", "set": "b", "learner": "y"}
    with pytest.raises(BenchError, match="there is no column colour"):
        results.open_csv(path, [*FIELDS, "colour"], "set")


def test_a_killed_run_leaves_whole_lines(results, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("set,learner,value\na,x,1\nb,x")
    assert list(results.latest(path, "set")) == ["a"]
    with results.open_csv(path, FIELDS, "set") as store:
        store.append({"set": "b", "learner": "x", "value": "2"})
    assert path.read_text() == "set,learner,value\na,x,1\nb,x,2\n"


def test_a_file_keeps_its_line_ends(results, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"a\r\n1\r\n")
    with results.open_csv(path, ["a"], "a") as store:
        assert list(store.records) == ["1"]
        store.append({"a": "2"})
    assert path.read_bytes() == b"a\r\n1\r\n2\r\n"


def test_files_are_written_whole(results, tmp_path):
    path = tmp_path / "deep" / "table.csv"
    results.write_csv(path, ["a", "b"], [{"a": 3}, {"a": "x,y", "b": 1.5}])
    assert path.read_text() == 'a,b\n3,\n"x,y",1.5\n'
    results.publish(path.with_suffix(".md"), "page")
    assert path.with_suffix(".md").read_text() == "page\n"


def test_comments_are_left_out(results, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("# where it is from\na,b\n1,2\n")
    assert results.read_csv(path) == [{"a": "1", "b": "2"}]


def test_warm_up_fits_and_scores(results):
    seen = []

    class Model:
        def fit(self, X, y=None):
            seen.append(("fit", len(X), y))
            return self

        def score(self, X):
            seen.append(("score", len(X)))

    tables = iter([[1, 2], [3]])
    results.warm_up([Model, Model], tables, y=0)
    assert seen == [("fit", 2, 0), ("score", 2), ("fit", 1, 0), ("score", 1)] * 2


def test_learning_rows(results):
    digits = load_binary_digits()
    rows = results.learning_rows(digits)
    assert len(rows) == len(digits.train) + len(digits.valid) and rows.dtype == digits.train.dtype
