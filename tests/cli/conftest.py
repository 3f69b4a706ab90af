"""A table of people, with labels of every kind, and a model of it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescut.cli import main

pytest.importorskip("typer")
from bayescut.cli._compiling import REMARK

pd = pytest.importorskip("pandas")


def make_people(n: int = 400) -> Any:
    rng = np.random.default_rng(5)
    age = rng.choice(["middle", "old", "young"], n)
    smoker = np.where(rng.random(n) < np.where(age == "old", 0.6, 0.2), "yes", "no")
    return pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "ill": (rng.random(n) < np.where(smoker == "yes", 0.6, 0.1)).astype(int),
            "kids": rng.integers(0, 4, n) * 2,
            "home town": rng.choice(["Köln", "São Paulo, SP", "None"], n),
            "flag": rng.random(n) < 0.3,
        }
    )


class Command:
    """Runs the command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.capsys = capsys
        self.patch = patch

    def __call__(
        self, *arguments: object, stdin: bytes | str | None = None
    ) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error."""
        if stdin is not None:
            content = stdin.encode() if isinstance(stdin, str) else stdin
            self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
        self.capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        said = self.capsys.readouterr()
        # Whether kernels are in the cache is nothing that tests know.
        return code, said.out, said.err.replace(f"bayescut: {REMARK}\n", "")

    def ok(self, *arguments: object, stdin: bytes | str | None = None) -> str:
        """Return standard output of a command that works and says nothing else."""
        code, out, err = self(*arguments, stdin=stdin)
        assert err == ""
        assert code == 0
        return out

    def told(self, *arguments: object, stdin: bytes | str | None = None) -> tuple[str, str]:
        """Return standard output and the one remark of a command that works."""
        code, out, err = self(*arguments, stdin=stdin)
        assert code == 0, err
        assert err.startswith("bayescut: ")
        assert err.count("\n") == 1
        return out, err

    def error(self, *arguments: object, code: int = 1, stdin: bytes | str | None = None) -> str:
        """Return the one line that a command fails with."""
        found, out, err = self(*arguments, stdin=stdin)
        assert (found, out) == (code, "")
        assert err.startswith("bayescut: error: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err.removeprefix("bayescut: error: ").rstrip("\n")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="session")
def people(folder: Path) -> Path:
    path = folder / "people.csv"
    make_people().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def gaps(folder: Path) -> Path:
    """The people with cells missing in all the ways there are."""
    table = make_people(60).astype(object)
    hidden = np.random.default_rng(6).random(table.shape) < 0.2
    ways = np.array(["", "NA", "NaN"])[np.arange(table.size).reshape(table.shape) % 3]
    table = table.where(~hidden, ways)
    path = folder / "gaps.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(folder: Path, people: Path) -> Path:
    path = folder / "people.bc"
    # Without pseudo-counts some evidence is impossible, which the tests need.
    spec = "CNetBIC(beta=0.0)"
    assert main(["fit", str(people), "-o", str(path), "--learner", spec]) == 0
    return path


Edit = Callable[[str, str], Path]


@pytest.fixture
def edited(people: Path, tmp_path: Path) -> Edit:
    """Return the people with the first occurrence of one text replaced by another."""

    def edit(old: str, new: str) -> Path:
        path = tmp_path / "edited.csv"
        text = people.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return path

    return edit
