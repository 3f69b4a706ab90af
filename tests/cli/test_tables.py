"""The files people have, and the mistakes in them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Command, Edit, make_people

import bayescut as bc
from bayescut.cli._dialect import MISSING, Dialect, check_lines, find_dialect, has_header
from bayescut.cli._tables import TableOptions, read_table
from bayescut.exceptions import BayescutError


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


TABLE = "age,smoker\n" + "old,yes\nyoung,no\nold,yes\nyoung,yes\n" * 10


# ------------------------------------------------------------------------------------- ragged rows


@pytest.mark.parametrize(
    ("broken", "line", "cells"),
    [
        ("old,yes,\n", 3, "3 cells"),
        ("old,yes,extra\n", 3, "3 cells"),
        ("old\n", 3, "1 cell,"),
        ('"old"\n', 3, "1 cell,"),
        ('"old, very",yes,\n', 3, "3 cells"),
    ],
)
@pytest.mark.parametrize("name", ["fit", "score", "impute"])
def test_rows_of_another_length_are_refused(
    command: Command, tmp_path: Path, broken: str, line: int, cells: str, name: str
) -> None:
    good = write(tmp_path / "good.csv", TABLE)
    model = tmp_path / "m.bc"
    command.ok("fit", good, "-o", model)
    head, first, rest = TABLE.split("\n", 2)
    path = write(tmp_path / "t.csv", f"{head}\n{first}\n{broken}{rest}")
    arguments = ("fit", path, "-o", tmp_path / "new.bc") if name == "fit" else (name, model, path)
    message = command.error(*arguments)
    assert f"line {line}: {cells}" in message
    assert "2 in the first line" in message
    assert not (tmp_path / "new.bc").exists()


def test_a_comma_at_the_end_of_every_row_is_refused(command: Command, tmp_path: Path) -> None:
    head, rest = TABLE.split("\n", 1)
    path = write(tmp_path / "t.csv", head + "\n" + rest.replace("\n", ",\n"))
    message = command.error("fit", path, "-o", tmp_path / "m.bc")
    assert "line 2: 3 cells, but 2 in the first line, the last one empty: a comma" in message


def test_the_line_is_right_after_line_breaks_in_quotes(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", '"home\ntown",b\n"x\ny",1\n\nx,2\nx,2,3\n')
    assert "line 7: 3 cells" in command.error("fit", path, "-o", tmp_path / "m.bc")
    path = write(tmp_path / "u.csv", 'a,b\n1,"2\n1,2\n1,2\n')
    message = command.error("fit", path, "-o", tmp_path / "m.bc", "--header")
    assert "quote" in message


# ------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("a,a", "several columns named 'a'"),
        ('a,"a"', "several columns named 'a'"),
        ('"a\nb","a\nb"', "several columns named 'a b'"),
        ("a, a ", "several columns named 'a'"),
        ("a,", "no name for column 2"),
        (",a", "no name for column 1"),
        ('a,"\n"', "no name for column 2"),
        (",", "all cells of the first line are empty"),
    ],
)
def test_names_that_are_none(command: Command, tmp_path: Path, head: str, words: str) -> None:
    path = write(tmp_path / "t.csv", f"{head}\nx,1\ny,2\n")
    message = command.error("fit", path, "-o", tmp_path / "m.bc")
    assert words in message
    if "named" in words:
        assert "--no-header" in message


def test_names_with_line_breaks(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", '"home\ntown",b\nx,1\ny,0\nx,1\n')
    command.ok("fit", path, "-o", tmp_path / "m.bc")
    assert bc.load(tmp_path / "m.bc").domains_.names == ["home town", "b"]
    assert "3 rows" in command.ok("score", tmp_path / "m.bc", path)


def test_a_column_without_a_name_can_be_left_out(command: Command, tmp_path: Path) -> None:
    frame = make_people(40)
    path = tmp_path / "t.csv"
    frame.to_csv(path)  # with the row numbers, under no name
    model = tmp_path / "m.bc"
    assert "--ignore '#1'" in command.error("fit", path, "-o", model)
    command.ok("fit", path, "-o", model, "--ignore", "#1")
    assert bc.load(model).domains_.names == list(frame.columns)
    assert "40 rows" in command.ok("score", model, path, "--ignore", "#1")


# ---------------------------------------------------------------------------------------- encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_are_found_and_kept(command: Command, tmp_path: Path, encoding: str) -> None:
    text = "stadt;größe\nKöln;groß\nUlm;klein\n" * 1 + "Köln;groß\nUlm;klein\n" * 10
    path = write(tmp_path / "t.csv", text, encoding)
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model)
    assert bc.load(model).domains_.names == ["stadt", "größe"]
    gaps = write(tmp_path / "gaps.csv", "stadt;größe\r\nKöln;\r\nUlm;klein\r\n", encoding)
    command.ok("impute", model, gaps, "-o", gaps)
    assert gaps.read_bytes() == "stadt;größe\r\nKöln;groß\r\nUlm;klein\r\n".encode(encoding)


def test_encodings_can_be_named(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b\nя,1\nд,0\nя,1\n", "koi8-r")
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model, "--encoding", "koi8-r")
    assert bc.load(model).domains_[0].labels.tolist() == ["д", "я"]
    assert "no encoding 'klingon'" in command.error(
        "fit", path, "-o", model, "--encoding", "klingon"
    )
    path.write_bytes(b"a,b\n\x81\x8d,1\n")
    assert "--encoding" in command.error("fit", path, "-o", model)


def test_nul_is_refused(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b\nx,1\nx\0y,2\n")
    message = command.error("fit", path, "-o", tmp_path / "m.bc")
    assert "NUL character in line 3" in message
    path = tmp_path / "u.csv"
    path.write_bytes(TABLE.encode("utf-16-le"))
    assert "--encoding utf-16" in command.error("fit", path, "-o", tmp_path / "m.bc")
    command.ok("fit", path, "-o", tmp_path / "m.bc", "--encoding", "utf-16-le")


# ------------------------------------------------------------------------------ separators, packing


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " "])
def test_separators_are_found_and_kept(command: Command, tmp_path: Path, separator: str) -> None:
    frame = make_people(200)
    frame["note"] = np.where(frame["flag"], "a, b", "c; d")
    path, model = tmp_path / "t.txt", tmp_path / "m.bc"
    frame.to_csv(path, index=False, sep=separator)
    command.ok("fit", path, "-o", model)
    assert bc.load(model).domains_.names == list(frame.columns)
    frame.loc[3, "age"] = None
    frame.to_csv(path, index=False, sep=separator, na_rep="NA")
    command.ok("impute", model, path, "-o", tmp_path / "filled.txt")
    filled = pd.read_csv(tmp_path / "filled.txt", sep=separator, keep_default_na=False)
    assert list(filled.columns) == list(frame.columns)
    assert filled["age"][3] in ("old", "middle", "young")
    assert filled.drop(index=3).astype(str).equals(frame.drop(index=3).astype(str))


def test_commas_in_numbers_are_no_separators() -> None:
    assert find_dialect("a;b\n1,5;2\n1,7;3\n").separator == ";"
    assert find_dialect("1,5;2,1\n1,7;3,3\n").separator == ";"
    assert find_dialect("town\nSan Jose\nNew York\n").separator == ","
    assert find_dialect("'a','b c'\n'd','e f'\n").quote == "'"
    assert find_dialect("it's,b\nthat's,c\n").quote == '"'


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
def test_packed_files(command: Command, tmp_path: Path, suffix: str) -> None:
    path, model = tmp_path / f"t.csv{suffix}", tmp_path / "m.bc"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.csv", TABLE)
    else:
        pack = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
        path.write_bytes(pack.compress(TABLE.encode()))
    command.ok("fit", path, "-o", model)
    command.ok("fit", "-", "-o", model, stdin=path.read_bytes())
    if suffix != ".zip":
        out = tmp_path / f"drawn.csv{suffix}"
        command.ok("sample", model, "-n", 7, "-o", out)
        text = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix].decompress(out.read_bytes())
        assert text.count(b"\n") == 8
    path.write_bytes(path.read_bytes()[:20])
    assert "cannot be unpacked" in command.error("fit", path, "-o", model)


def test_parquet_says_what_to_install(
    command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("pyarrow", "fastparquet"):
        monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1....PAR1")
    message = command.error("fit", path, "-o", tmp_path / "m.bc")
    assert "pip install 'bayescut[parquet]'" in message
    monkeypatch.setattr("bayescut.cli._output.find_spec", lambda name: None)
    message = command.error("sample", model, "-o", tmp_path / "drawn.parquet")
    assert "pip install 'bayescut[parquet]'" in message
    assert not (tmp_path / "drawn.parquet").exists()


# ------------------------------------------------------------------------------------------- header


def table_of(rows: list[str]) -> tuple[list[str], list[list[str]]]:
    cells = [row.split(",") for row in rows]
    return cells[0], [list(column) for column in zip(*cells[1:], strict=True)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["name,age", "x,1", "y,2"], True),
        (["x,1", "y,2", "x,2"], False),
        (["usual,proper", "usual,proper", "pretentious,proper", "usual,improper"], False),
        (["parents,nursery", "usual,proper", "pretentious,proper", "usual,proper"], True),
        (["0,1,2,3", "1,0,0,1", "0,0,1,1"], True),  # numbered columns
        (["0,1", "1,0", "0,0"], False),
        (["a,b", "?,1", "x,?"], True),
        (["?,5", "?,6", "?,7"], False),
        (["name", "Ada", "Alan", "Kurt"], True),
        (["yes", "no", "yes", "no", "yes"], False),
        (["species", "Adelie", "Adelie", "Gentoo"], True),
    ],
)
def test_headers(rows: list[str], expected: bool) -> None:
    first, columns = table_of(rows)
    assert has_header(first, columns, ["", *MISSING]) is expected


def test_a_header_is_decided_from_all_rows(command: Command, tmp_path: Path) -> None:
    # The second line alone could be under a header; the value shows up again far below.
    rows = [f"v{i % 7},w{i % 5}" for i in range(300)]
    path = write(tmp_path / "t.csv", "\n".join(rows))
    out, remark = command.told("fit", path, "-o", tmp_path / "m.bc", "--json")
    assert json.loads(out)["rows"] == 300
    assert "first line looks like the others" in remark
    assert (
        json.loads(command.ok("fit", path, "-o", tmp_path / "m.bc", "--header", "--json"))["rows"]
        == 299
    )


def test_a_table_for_a_model_has_its_names(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TABLE)
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model)
    # One row whose values are all new: alone, it would not tell what stands above it.
    rows = write(tmp_path / "u.csv", "age,smoker\nage,smoker\n")
    command.ok("score", model, rows, "--unseen", "missing")


# ------------------------------------------------------------------------------------ missing cells


def test_the_words_for_missing(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"x{i % 2},{word}\n" for i, word in enumerate(["1", *MISSING, "", "1", "0"]))
    path = write(tmp_path / "t.csv", "a,b\n" + rows)
    model = tmp_path / "m.bc"

    def gaps(*options: str) -> int:
        report = json.loads(command.ok("check", path, "--json", *options))
        return int(report["columns"][1]["missing"])

    assert gaps() == len(MISSING) + 1
    assert gaps("--only-missing") == 1
    assert gaps("--only-missing", "--missing", "?") == 2
    command.ok("fit", path, "-o", model)
    code, out, _ = command("fit", "--help")
    assert code == 0
    flat = " ".join(out.replace("│", " ").split())
    assert " ".join(MISSING) in flat
    assert "--only-missing" in flat


def test_an_empty_line_is_a_gap_in_a_table_of_one_column(command: Command, tmp_path: Path) -> None:
    model = tmp_path / "m.bc"
    command.ok("fit", write(tmp_path / "t.csv", "a\nx\ny\nx\n"), "-o", model)
    path = write(tmp_path / "u.csv", "a\nx\n\ny\n")
    assert command.ok("impute", model, path) == "a\nx\nx\ny\n"


# ------------------------------------------------------------------------------------------ outputs


def test_cells_that_are_known_stay_as_they_stand(command: Command, tmp_path: Path) -> None:
    text = "code,size,flag\n" + "007,1.50,TRUE\n7,2.50,FALSE\n" * 5
    path = write(tmp_path / "t.csv", text.replace("1.50", "1").replace("2.50", "2"))
    model = tmp_path / "m.bc"
    command.ok("fit", path, "-o", model)
    gaps = write(tmp_path / "gaps.csv", "code,size,flag\n007,01,TRUE\n7,2,FALSE\n0007,?,TRUE\n")
    out = command.ok("impute", model, gaps)
    assert out.splitlines()[1:3] == ["007,01,TRUE", "7,2,FALSE"]
    assert out.splitlines()[3] in ("0007,01,TRUE", "0007,2,FALSE".replace("FALSE", "TRUE"))


def certain_model(tmp_path: Path) -> Path:
    path = tmp_path / "certain.bc"
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v"] * 20})
    bc.save(bc.CNetBIC(beta=0.0).fit(table), path)
    return path


def test_a_failure_leaves_the_table_as_it_was(command: Command, tmp_path: Path) -> None:
    model = certain_model(tmp_path)
    text = "a,b\nx,\nx,v\n"
    path = write(tmp_path / "t.csv", text)
    assert "row 1 has probability zero" in command.error("impute", model, path, "-o", path)
    assert path.read_text(encoding="utf-8") == text
    write(path, "a,b\nx,\ny,\n")
    command.ok("impute", model, path, "-o", path)
    assert path.read_text(encoding="utf-8") == "a,b\nx,u\ny,v\n"
    assert sorted(os.listdir(tmp_path)) == ["certain.bc", "t.csv"]


def test_outputs_replace_what_was_there_when_they_are_complete(
    command: Command, model: Path, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "out.csv", "old")

    def explode(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    commands = [
        ("sample", model, "-n", 5, "-o", path),
        ("sample", model, "-n", 5, "-o", path, "--json"),
        ("impute", model, people, "-o", path),
        ("score", model, people, "--rows", "-o", path),
    ]
    for arguments in commands:
        with monkeypatch.context() as patch:
            patch.setattr("bayescut._atomic.os.fsync", explode)
            assert "No space left" in command.error(*arguments)
        assert path.read_text(encoding="utf-8") == "old"
        assert os.listdir(tmp_path) == ["out.csv"]
    for arguments in commands:
        assert command.ok(*arguments) == ""
        assert path.read_text(encoding="utf-8") != "old"
        path.write_text("old", encoding="utf-8")
    assert len(json.loads(command.ok("sample", model, "-n", 5, "--json"))) == 5
    assert "--output is for --rows" in command.error("score", model, people, "-o", path, code=2)


def test_values_that_the_encoding_lacks(command: Command, tmp_path: Path) -> None:
    model = tmp_path / "m.bc"
    command.ok("fit", write(tmp_path / "t.csv", "a,b\nя,1\nя,1\nä,0\n"), "-o", model)
    path = write(tmp_path / "u.csv", "a,b\nä,0\n?,1\n", "cp1252")
    before = path.read_bytes()
    assert "cannot be written in cp1252" in command.error("impute", model, path, "-o", path)
    assert path.read_bytes() == before


def test_a_table_of_tabs(command: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "drawn.tsv"
    command.ok("sample", model, "-n", 3, "-o", path)
    assert path.read_text(encoding="utf-8").count("\t") == 4 * 5


# ---------------------------------------------------------------------------------------- fast path


def test_counting_separators_agrees_with_reading_cells() -> None:
    rng = np.random.default_rng(0)
    dialect = Dialect()
    for _ in range(300):
        lines = [
            ",".join(rng.choice(["", "x", " y", '"q"', '"a,b"'], size=rng.choice([2, 2, 2, 3])))
            for _ in range(rng.integers(1, 5))
        ]
        text = str(rng.choice(["\n", "\r\n"])).join(lines)
        rows = [row for row in csv.reader(io.StringIO(text), skipinitialspace=True) if row]
        even = len({len(row) for row in rows}) == 1 and any(cell.strip() for cell in rows[0])
        try:
            assert check_lines(text, dialect, "t") == rows[0]
            assert even
        except BayescutError:
            assert not even


def test_no_suggestion_is_better_than_nonsense(command: Command, model: Path, edited: Edit) -> None:
    for name in ("xyz", "id", "temperature", "kilometres"):
        message = command.error("query", model, f"P({name}=1)")
        assert "did you mean" not in message
        message = command.error("score", model, edited("age,smoker,ill", f"age,smoker,{name}"))
        assert "did you mean" not in message
    assert "did you mean 'home town'" in command.error("query", model, "P(home_town=1)")
    assert "did you mean 'age'" in command.error("query", model, "P(Age=1)")


def test_tables_are_read_in_python_too(people: Path) -> None:
    table = read_table(str(people), TableOptions(), cells=True)
    assert table.header
    assert table.cells.shape == table.frame.shape


def test_decimal_commas(command: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers, labels = rng.normal(20, 3, 80), rng.choice(["a", "b,c"], 80)
    lines = [f"{x:.2f};{s}".replace(".", ",") for x, s in zip(numbers, labels, strict=True)]
    lines[3] = ";a"
    path, model = tmp_path / "t.csv", tmp_path / "t.bc"
    path.write_text("x;s\n" + "\n".join(lines) + "\n", encoding="utf-8")
    report = json.loads(command.ok("check", path, "--json"))["columns"]
    assert [column["kind"] for column in report] == ["number", "label"]
    command.ok("fit", path, "-o", model, "-l", "CNetBD")
    command.ok("impute", model, path, "-o", path, "--method", "median")
    filled = path.read_text(encoding="utf-8").splitlines()[1:]
    assert [new for new, old in zip(filled, lines, strict=True) if new != old] == [filled[3]]
    assert re.fullmatch(r"\d+,\d+;a", filled[3])
    # Points are points where any number has one.
    path.write_text("x;y\n1,5;2.5\n2,5;3.5\n", encoding="utf-8")
    report = json.loads(command.ok("check", path, "--json"))["columns"]
    assert [column["kind"] for column in report] == ["label", "number"]


def test_one_is_one(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n2\n", encoding="utf-8")
    assert "2 rows, 1 column\n" in command.ok("check", path)


# ----------------------------------------------------------------------------------- leading zeros


def test_labels_keep_their_leading_zeros(command: Command, tmp_path: Path) -> None:
    codes = [f"{i:05d}" for i in range(998, 1006)]
    rows = [f"{code},{i % 2},{i}" for i, code in enumerate(codes * 10)]
    table = write(tmp_path / "t.csv", "\n".join(["zip code,side,n", *rows, ""]))
    model = tmp_path / "t.bc"
    _, _, err = command("check", table)
    assert "'zip code' loses the leading zeros" in err and "--kind 'zip code=label'" in err
    assert "'n'" not in err and "'side'" not in err
    command.ok("fit", table, "-o", model, "--kind", "zip code=label")
    drawn = command.ok("sample", model, "-n", 20).splitlines()[1:]
    assert {line.split(",")[0] for line in drawn} <= set(codes)
    answer = command.ok("query", model, "P('zip code'=00998)")
    assert float(answer.split("=")[-1].split()[0]) == pytest.approx(1 / 8, rel=0.2)
    assert "zeros" not in command("check", table, "--kind", "zip code=number")[2]
    # Columns of a file without names keep their numbers when others are left out.
    bare = write(tmp_path / "bare.csv", "\n".join([f"{i % 3},{row}" for i, row in enumerate(rows)]))
    args = (bare, "--no-header", "--ignore", "0", "--json")
    found = json.loads(command.ok("check", *args, "--kind", "1=label,3=label"))["columns"]
    assert [(c["name"], c["dtype"], c["kind"]) for c in found] == [
        ("1", "str", "label"),
        ("2", "int64", "label"),
        ("3", "int64", "label"),
    ]
    args = (bare, "--no-header", "--ignore", "0")
    command.ok("fit", *args, "-o", model, "--kind", "1=label")
    assert "mean log-likelihood" in command.ok("score", model, *args)
