"""Ten files as they come, through all commands, as somebody would who has just installed this.

Excerpts are written for this test in the dialects of the files that people start with; where the
published file is at hand it is read too. Only identifiers are left out.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Command, make_people

import bayescut as bc


@dataclass(frozen=True)
class Excerpt:
    """A file as it comes.

    Parameters
    ----------
    columns : dict from name to values (drawn from), or "id", "real", "date"
    header : bool
    separator, quote_all, gap, encoding
        How it is written; ``quote_all`` is the sign around every text.
    gaps : dict from column to the share of empty cells
    question : str
        Something to ask.
    """

    columns: dict[str, Any]
    question: str
    header: bool = True
    separator: str = ","
    quote: str = ""
    gap: str = ""
    gaps: dict[str, float] | None = None
    encoding: str = "utf-8"
    line_end: str = "\n"
    suffix: str = ".csv"
    codes: str = ""

    @property
    def left_out(self) -> list[str]:
        kinds = ("id",)
        return [
            name if self.header else str(place)
            for place, (name, kind) in enumerate(self.columns.items())
            if kind in kinds
        ]

    def text(self, n: int = 150, seed: int = 0) -> str:
        rng = np.random.default_rng(seed)
        lines = []
        if self.header:
            lines.append(self.separator.join(self._quoted(name) for name in self.columns))
        for row in range(n):
            cells = []
            for name, kind in self.columns.items():
                if (self.gaps or {}).get(name, 0) > rng.random():
                    cells.append(self.gap)
                elif kind == "id":
                    cells.append(self._quoted(f'No. {row}, "the" {name}'))
                elif kind == "real":
                    cells.append(f"{rng.normal(40, 9):.2f}")
                elif kind == "date":
                    cells.append(f"2019-03-{rng.integers(1, 29):02d} 20:{rng.integers(60):02d}:09")
                else:
                    cells.append(self._quoted(str(rng.choice(kind))))
            lines.append(self.separator.join(cells))
        return self.line_end.join(lines) + self.line_end

    def _quoted(self, cell: str) -> str:
        if self.quote and not cell.replace(".", "").isdigit():
            return f"{self.quote}{cell}{self.quote}"
        if self.separator in cell or '"' in cell:
            return '"' + cell.replace('"', '""') + '"'
        return cell


YES = ["yes", "no"]
TEN = {
    "titanic": Excerpt(
        {
            "PassengerId": "id",
            "Survived": [0, 1],
            "Pclass": [1, 2, 3],
            "Name": "id",
            "Sex": ["male", "female"],
            "Age": "real",
            "SibSp": [0, 1, 2],
            "Cabin": ["", "C85", "B42"],
            "Embarked": ["S", "C", "Q"],
        },
        "P(Survived=1 | Sex=female, Pclass=1)",
        gaps={"Age": 0.2, "Embarked": 0.05},
        line_end="\r\n",
    ),
    "penguins": Excerpt(
        {
            "species": ["Adelie", "Gentoo", "Chinstrap"],
            "island": ["Torgersen", "Biscoe", "Dream"],
            "bill_length_mm": "real",
            "body_mass_g": "real",
            "sex": ["male", "female"],
            "year": [2007, 2008, 2009],
        },
        "P(species | island=Biscoe)",
        gap="NA",
        gaps={"sex": 0.1, "bill_length_mm": 0.05},
    ),
    "taxis": Excerpt(
        {
            "pickup": "date",
            "dropoff": "date",
            "passengers": [1, 2, 3, 4],
            "distance": "real",
            "color": ["yellow", "green"],
            "payment": ["credit card", "cash"],
            "pickup_borough": ["Manhattan", "Queens", "Bronx"],
        },
        'P(payment="credit card" | color=yellow, passengers>=2)',
        gaps={"payment": 0.05, "pickup_borough": 0.05},
        suffix=".csv.gz",
    ),
    "adult": Excerpt(
        {
            "age": "real",
            "workclass": ["Private", "State-gov", "Self-emp-not-inc"],
            "education": ["Bachelors", "HS-grad", "11th"],
            "education-num": [13, 9, 7],
            "sex": ["Male", "Female"],
            "country": ["United-States", "Cuba"],
            "income": ["<=50K", ">50K"],
        },
        "P(6='>50K' | 4=Male, 2=Bachelors)",
        header=False,
        separator=", ",
        gap="?",
        gaps={"workclass": 0.06},
    ),
    "german": Excerpt(
        {
            "checking": ["A11", "A12", "A13", "A14"],
            "duration": [6, 12, 24, 48],
            "history": ["A30", "A32", "A34"],
            "residence": [1, 2, 3, 4],
            "class": [1, 2],
        },
        "P(4=2 | 0=A11)",
        header=False,
        separator=" ",
        suffix=".data",
    ),
    "nursery": Excerpt(
        {
            "parents": ["usual", "pretentious", "great_pret"],
            "has_nurs": ["proper", "less_proper", "improper"],
            "children": ["1", "2", "3", "more"],
            "finance": ["convenient", "inconv"],
            "class": ["recommend", "priority", "not_recom"],
        },
        "P(4=priority | 0=usual, 2=more)",
        header=False,
        suffix=".data",
    ),
    "bank": Excerpt(
        {
            "age": "real",
            "job": ["unemployed", "services", "management"],
            "marital": ["married", "single"],
            "default": YES,
            "month": ["oct", "may", "apr"],
            "y": YES,
        },
        "P(y=yes | job=services, month!=may)",
        separator=";",
        quote='"',
    ),
    "breast-cancer": Excerpt(
        {
            "age": ["40-49", "50-59", "60-69"],
            "menopause": ["premeno", "ge40", "lt40"],
            "inv-nodes": ["0-2", "3-5"],
            "degree": ["1", "2", "3"],
            "breast": ["left", "right"],
            "class": ["recurrence-events", "no-recurrence-events"],
        },
        "P(5=recurrence-events | 0=40-49)",
        header=False,
        quote="'",
        gap="nan",
        gaps={"inv-nodes": 0.03},
    ),
    "horse-colic": Excerpt(
        {
            "surgery": [1, 2],
            "age": [1, 9],
            "temperature": "real",
            "pulse": "real",
            "extremities": [1, 2, 3, 4],
            "outcome": [1, 2, 3],
            "lesion": ["02208", "00000"],
        },
        "P(0=1 | 5=2)",
        header=False,
        gap="?",
        gaps={"surgery": 0.02, "extremities": 0.3, "temperature": 0.2},
        codes="6",
    ),
    "satellites": Excerpt(
        {
            "ID": "id",
            "Country_of_Operator": ["USA", "Denmark", "Côte d'Ivoire"],
            "Users": ["Civil", "Commercial", "Military/Government"],
            "Class_of_Orbit": ["LEO", "GEO", "MEO"],
            "Type_of_Orbit": ["Polar", "Sun-Synchronous"],
            "Perigee_km": "real",
        },
        "P(Class_of_Orbit=LEO | Users in {Civil, Military/Government})",
        gaps={"Type_of_Orbit": 0.4, "Perigee_km": 0.02},
        encoding="utf-8-sig",
    ),
}


@pytest.mark.parametrize("name", TEN)
def test_a_new_user(command: Command, tmp_path: Path, name: str) -> None:
    kind = TEN[name]
    path, model = tmp_path / f"{name}{kind.suffix}", tmp_path / f"{name}.bc"
    content = kind.text().encode(kind.encoding)
    path.write_bytes(gzip.compress(content) if kind.suffix.endswith("gz") else content)
    ignore = ["--ignore", ",".join(kind.left_out)] if kind.left_out else []
    quiet = [] if kind.header else ["--no-header"]
    codes = ["--kind", f"{kind.codes}=label"] if kind.codes else []
    kinds = _kinds(command, path, ignore + quiet + codes)
    expected_kinds = {"real": "number", "date": "date"}
    assert list(kinds.values()) == [
        expected_kinds.get(values, "label") if isinstance(values, str) else "label"
        for values in kind.columns.values()
        if values != "id"
    ]
    fit = ["fit", path, "-o", model, *ignore, *codes, "--json"]
    code, out, err = command(*fit)
    assert code == 0, err
    # The one thing that is said: that there is no header, if there is none.
    assert ("has no header" in err) is not kind.header
    assert err.count("\n") == (not kind.header)
    summary = json.loads(out)
    assert summary["columns"] == len(kind.columns) - len(kind.left_out)
    learned = bc.load(model)
    if kind.header:
        expected = [column for column in kind.columns if column not in kind.left_out]
        assert learned.domains_.names == expected
    for domain in learned.domains_:
        if domain.labels is None:
            assert domain.grid is not None
            continue
        assert not any(str(label) in ("?", "nan", "NA") for label in domain.labels.tolist())
        assert not any(str(label)[0] in "'\" " for label in domain.labels.tolist())

    command.ok("show", model)
    answer = command.ok("query", model, kind.question)
    assert "probability" in answer or " = 0." in answer
    filled = tmp_path / "filled.csv"
    assert command.ok("impute", model, path, "-o", filled, *ignore, *quiet) == ""
    _compare(kind, content.decode(kind.encoding), filled.read_bytes().decode(kind.encoding))
    drawn = list(csv.reader(io.StringIO(command.ok("sample", model, "-n", 20, "--seed", 0))))
    # Where columns are left out, the others keep their numbers in the file as names.
    assert len(drawn) == 20 + (kind.header or bool(ignore))
    assert {len(row) for row in drawn} == {summary["columns"]}
    scored = json.loads(command.ok("score", model, path, *ignore, *quiet, "--json"))
    assert scored["rows"] == 150
    assert np.isfinite(scored["mean_log_likelihood"])
    label = next(column for column in reversed(list(kinds)) if kinds[column] == "label")
    _predict(command, model, path, ignore + quiet, label, 150)


def _compare(kind: Excerpt, before: str, after: str) -> None:
    """Only gaps of columns that were learned have changed."""
    style = {
        "delimiter": kind.separator[0],
        "quotechar": kind.quote or '"',
        "skipinitialspace": True,
    }
    old = list(csv.reader(io.StringIO(before), **style))  # type: ignore[arg-type]
    new = list(csv.reader(io.StringIO(after), **style))  # type: ignore[arg-type]
    assert len(old) == len(new)
    assert after.count("\r\n") == before.count("\r\n")
    learned = set(range(len(kind.columns))) - {
        j
        for j, name in enumerate(kind.columns)
        if (name if kind.header else str(j)) in kind.left_out
    }
    gaps = {"", kind.gap}
    for one, other in zip(old, new, strict=True):
        for j, (cell, filled) in enumerate(zip(one, other, strict=True)):
            if j in learned and cell in gaps:
                assert filled not in gaps
            else:
                assert filled == cell


def _kinds(command: Command, path: Path, options: list[str]) -> dict[str, str]:
    """What check takes the columns for, without a problem and with a line for each."""
    report = json.loads(command.ok("check", path, *options, "--json"))["columns"]
    assert all(column["problem"] is None for column in report)
    lines = command.ok("check", path, *options).splitlines()
    assert lines[0].split()[:3] == ["column", "dtype", "kind"]
    assert all(line.startswith("warning: ") for line in lines[len(report) + 2 :])
    return {str(column["name"]): column["kind"] for column in report}


def _predict(
    command: Command, model: Path, path: Path, options: list[str], label: str, n_rows: int
) -> None:
    """A column of labels from the others."""
    text = command.ok("predict", model, path, "--target", label, *options)
    # In the dialect of the table.
    separator = next(sign for sign in ",; \t" if sign in text.splitlines()[0])
    quote = "'" if text.startswith("'") else '"'
    head, *rows = csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote)
    assert head[:2] == [label, "probability"]
    assert len(rows) == n_rows
    assert all(0 < float(row[1]) <= 1 for row in rows)


FOLDER = Path(os.environ.get("BAYESCUT_DATA", "nowhere")) / "mixed"


@dataclass(frozen=True)
class Published:
    """A published file.

    Parameters
    ----------
    question : str
    numbers : tuple of str
        Columns that are numbers.
    ignore : str
        Identifiers, which a user leaves out.
    header : bool
    separator : str
    codes : str
        Columns said to be labels, which have leading zeros.
    """

    question: str
    numbers: tuple[str, ...]
    ignore: str = ""
    header: bool = False
    separator: str = ","
    codes: str = ""


REAL = {
    "adult-train": Published(
        "P(14='>50K' | 0 >= 40, 9=Male)", ("0", "2", "10", "11", "12"), separator=", "
    ),
    "breast-cancer": Published("P(9=recurrence-events | 0=40-49)", ()),
    "gefs-german": Published("P(20=2 | 1 > 24, 0=A11)", ("1", "4", "12"), separator=" "),
    "horse-colic": Published(
        "P(23=1 | 38 <= 3 < 39.5)",
        ("3", "4", "5", "15", "18", "19", "21"),
        ignore="2",
        codes="24=label,25=label,26=label",
    ),
    "satellites": Published(
        "P(Class_of_Orbit | Period_minutes >= 1400)",
        (
            "Perigee_km",
            "Apogee_km",
            "Eccentricity",
            "Period_minutes",
            "Launch_Mass_kg",
            "Dry_Mass_kg",
            "Power_watts",
            "Date_of_Launch",
            "Expected_Lifetime",
            "longitude_radians_of_geo",
            "Inclination_radians",
        ),
        ignore="ID",
        header=True,
    ),
}
GAPS = {"", "?", "nan", "NA"}


@pytest.mark.parametrize("name", REAL)
def test_the_files_at_hand(command: Command, tmp_path: Path, name: str) -> None:
    path = FOLDER / name / "data.csv.gz"
    if not path.exists():
        pytest.skip("the file is not on this machine")
    kind = REAL[name]
    options = ["--ignore", kind.ignore] if kind.ignore else []
    codes = ["--kind", kind.codes] if kind.codes else []
    model = tmp_path / "m.bc"
    code, out, err = command("fit", path, "-o", model, "--json", *options, *codes)
    assert code == 0, err
    # Nothing but that there is no header, and which columns teach nothing.
    said = err.splitlines()
    assert ("has no header" in err) is not kind.header
    assert all("has no header" in line or "taken to be independent" in line for line in said)
    options += [] if kind.header else ["--no-header"]
    kinds = _kinds(command, path, options + codes)
    assert tuple(column for column, what in kinds.items() if what == "number") == kind.numbers

    # Answers are asked for a part of the file: everything is slower than counting.
    content = gzip.decompress(path.read_bytes())
    lines = content.decode("utf-8").splitlines(keepends=True)
    part = tmp_path / "part.csv"
    part.write_text("".join(lines[:200]), encoding="utf-8", newline="")
    rows = _cells(part.read_text(encoding="utf-8"), kind.separator)
    assert json.loads(out)["rows"] == len([line for line in lines if line.strip()]) - kind.header
    answer = command.ok("query", model, kind.question)
    assert "probability" in answer or " = 0." in answer
    command.ok("impute", model, part, "-o", part, *options)
    filled = _cells(part.read_text(encoding="utf-8"), kind.separator)
    assert len(filled) == len(rows)
    ignored = []
    if kind.ignore:
        ignored = [rows[0].index(kind.ignore) if kind.header else int(kind.ignore)]
    for before, after in zip(rows[kind.header :], filled[kind.header :], strict=True):
        for j, (cell, new) in enumerate(zip(before, after, strict=True)):
            if cell in GAPS and j not in ignored:
                assert new not in GAPS
            else:
                assert new == cell
    drawn = command.ok("sample", model, "-n", 5, "--seed", 0)
    assert len(list(csv.reader(io.StringIO(drawn)))) >= 5
    label = next(column for column in reversed(list(kinds)) if column not in kind.numbers)
    _predict(command, model, part, options, label, len(rows) - kind.header)
    for domain in bc.load(model).domains_:
        if domain.labels is not None:
            assert not any(str(label)[0] in "?'\" " for label in domain.labels.tolist())


def _cells(text: str, separator: str) -> list[list[str]]:
    quote = "'" if text.startswith("'") else '"'
    found = csv.reader(
        io.StringIO(text), delimiter=separator[0], quotechar=quote, skipinitialspace=True
    )
    return [row for row in found if row]


def test_nothing_is_written_over_what_is_read(command: Command, tmp_path: Path) -> None:
    table, model = tmp_path / "d.csv", tmp_path / "d.bc"
    make_people(200).to_csv(table, index=False)
    command.ok("fit", table, "-o", model, "-q")
    kept = table.read_bytes(), model.read_bytes()
    for words in (
        ("fit", table, "-o", table),
        ("predict", model, table, "-t", "smoker", "-o", table),
        ("predict", model, table, "-t", "smoker", "-o", tmp_path / "." / "d.bc"),
        ("impute", model, table, "-o", model),
        ("sample", model, "-n", 2, "-o", model),
        ("show", model, "--draw", model),
        ("report", table, table, "--draw", table),
    ):
        result = command.error(*words)
        assert "name another file" in result
    assert (table.read_bytes(), model.read_bytes()) == kept


def test_reports_of_tables_whose_model_ignored_a_column(command: Command, tmp_path: Path) -> None:
    real, made = tmp_path / "real.csv", tmp_path / "made.csv"
    people = make_people(200)
    people.assign(name=[f"n{k}" for k in range(200)]).to_csv(real, index=False)
    people.sample(100, random_state=0).to_csv(made, index=False)
    assert "synthetic rows" in command.ok("report", real, made, "--ignore", "name")
    assert "no column 'nam' to ignore" in command.error("report", real, made, "--ignore", "nam")


def test_questions_about_no_number(command: Command, tmp_path: Path) -> None:
    model = tmp_path / "d.bc"
    people = make_people(200).assign(height=np.linspace(150, 190, 200).round(1))
    bc.save(bc.CutsetNetwork(n_jobs=1).fit(people), model)
    people.to_csv(tmp_path / "d.csv", index=False)
    for question in ("P(height<nan)", "P(height>nan)", "P(kids<nan)", "P(height=nan | kids=2)"):
        assert "nan" in command.error("query", model, question)
    assert "stand in quotes" in command.error("query", model, "P(smoker=>50K)")
    assert "--quantiles" in command.error(
        "predict", model, tmp_path / "d.csv", "-t", "height", "--proba"
    )
