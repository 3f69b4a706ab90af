from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

import bayescut as bc
from bayescut.circuit import build
from bayescut.cli import main
from bayescut.cli._app import app
from bayescut.cli._compiling import REMARK, compiling
from bayescut.cli._silence import hush, speaking
from bayescut.cli._terminal import bar, emit, emit_json, is_terminal, note, print_table, waiting


def test_help_teaches(command: Command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    for word in ("fit", "query", "bench", "datasets", "demo", "show", "P(smoker=yes"):
        assert word in out
    for name in ("fit", "show", "query", "score", "impute", "sample", "demo", "bench", "datasets"):
        code, out, err = command(name, "--help")
        assert (code, err) == (0, "")
        assert "Usage" in out
    code, out, err = command()
    assert (code, err) == (0, "")
    assert "Usage" in out
    assert command.ok("--version") == f"bayescut {bc.__version__}\n"


def test_help_comes_at_once() -> None:
    # numba and scikit-learn take seconds where the machine is busy.
    program = (
        "import sys; from bayescut.cli import main; main(['fit', '--help']); "
        "sys.exit(str(sorted({'numba', 'sklearn', 'pandas', 'scipy'} & set(sys.modules))))"
    )
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.stderr.strip() == "[]"


def test_debug_shows_where(command: Command, tmp_path: Path) -> None:
    missing = tmp_path / "no.bc"
    for arguments in (("--debug", "show", missing), ("show", missing, "--debug")):
        code, _, err = command(*arguments)
        assert code == 1
        assert "Traceback" in err
        assert err.rstrip().splitlines()[-1].startswith("bayescut: error: There is no file")


def test_surprises_are_one_line_too(
    command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*arguments: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("bayescut.circuit.outline.outline", explode)
    code, _, err = command("show", model)
    assert code == 1
    assert err == "bayescut: error: KeyError: 'x' (this should not happen; --debug shows where)\n"

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bayescut.circuit.outline.outline", interrupt)
    code, _, err = command("show", model)
    assert code == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_a_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["--help"]) == 1
    assert capsys.readouterr().err == (
        f"bayescut: error: the command line needs {package}: pip install 'bayescut[cli]'\n"
    )


def test_the_version_needs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("typer", "rich", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"bayescut {bc.__version__}\n", "")


def test_without_pandas_a_line_says_what_to_install(
    command: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = command.error("fit", people, "-o", tmp_path / "m.bc")
    assert "pip install 'bayescut[pandas]'" in message


def test_the_program_itself(tmp_path: Path) -> None:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "bayescut", "fit", "nobody.csv", "-o", str(tmp_path / "m.bc")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bayescut: error: There is no file 'nobody.csv': check the path.\n"


def test_show(command: Command, model: Path, people: Path, tmp_path: Path) -> None:
    out = command.ok("show", model)
    assert out.startswith("CNetBIC: beta=0.0, n_candidates=10\n6 columns, ")
    assert "properties: smooth, decomposable, deterministic" in out
    assert "São Paulo, SP" in out
    facts = json.loads(command.ok("show", model, "--json"))
    loaded = bc.load(model)
    assert facts["parameters"] == loaded.n_parameters_
    assert facts["states"] == {
        "age": 3,
        "smoker": 2,
        "ill": 2,
        "kids": 4,
        "home town": 3,
        "flag": 2,
    }
    bc.save(loaded.circuit_, tmp_path / "circuit.bc")
    assert command.ok("show", tmp_path / "circuit.bc").startswith("Circuit\n")


def test_show_draws_and_ends(command: Command, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "model.png"
    pictures = set()
    for theme in ("light", "dark"):
        command.ok("show", model, "--draw", path, "--theme", theme)
        assert path.read_bytes().startswith(b"\x89PNG")
        pictures.add(path.read_bytes())
    assert len(pictures) == 2
    command.ok("show", model, "--draw", tmp_path / "model.svg")
    assert "is no picture" in command.error("show", model, "--draw", tmp_path / "model.doc")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.png", "model.svg"]
    whole = command.ok("show", model).splitlines()
    assert len(command.ok("show", model, "--depth", 0).splitlines()) < len(whole)
    assert len(command.ok("show", model, "--lines", 2).splitlines()) <= len(whole)


def test_the_demo(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("bayescut.demo.run", lambda output, **more: seen.append((output, more)))
    command.ok("demo", "-o", tmp_path, "--seed", 3)
    command.ok("demo", "-o", tmp_path, "-q")
    assert seen == [(tmp_path, {"seed": 3, "quiet": False}), (tmp_path, {"seed": 0, "quiet": True})]


class Screen:
    """A stream that somebody looks at."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def test_progress_is_for_those_who_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with bar("counting", 2) as update:
            update(1)
            update(1, "counted")
        with waiting("thinking"):
            note("a remark")

    work()
    assert capsys.readouterr() == ("", "")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    assert is_terminal(screen)
    work()
    with bar("counting", 1), monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        emit("an answer above the bar")
    assert "an answer above the bar" in screen.text
    assert "a remark" in screen.text
    assert "count" in screen.text
    assert capsys.readouterr().out == ""


def test_a_first_run_says_once_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from numba import njit

    def work() -> None:
        for _ in range(2):  # as learning and scoring do
            with compiling():
                for _ in range(2):
                    njit(lambda x: x + 1)(2)

    with speaking():
        work()
        assert capsys.readouterr() == ("", f"bayescut: {REMARK}\n")
        work()
        assert capsys.readouterr() == ("", "")
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with speaking():
        work()
    assert screen.text.startswith("bayescut: compiling kernels: the first run")
    assert screen.text.count("the first run") == 1
    assert "compiling kernels: 2 done" in screen.text  # beside a bar
    screen.text = ""
    known = njit(lambda x: x + 1)
    known(2)
    with speaking():
        with compiling():
            known(2)  # compiled before
        with compiling(quiet=True):
            njit(lambda x: x + 2)(2)
        hush(True)
        work()
    assert screen.text == ""


def test_warnings_are_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(*arguments: object, **more: object) -> None:
        warnings.warn("Leave them out,\nor pass identifiers='keep'.", UserWarning, stacklevel=1)

    monkeypatch.setattr("bayescut.demo.run", warn)
    _, err = command.told("demo")
    assert err == (
        "bayescut: Leave them out with --ignore, or learn with -l "
        "\"CutsetNetwork(identifiers='keep')\".\n"
    )
    command.ok("demo", "--quiet")


def test_what_packages_say_to_each_other_is_not_told(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(*arguments: object, **more: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always", DeprecationWarning)
            warnings.warn("old_name is new_name", DeprecationWarning, stacklevel=1)

    monkeypatch.setattr("bayescut.demo.run", warn)
    command.ok("demo")


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from _commands(found, (*path, name))
        else:
            yield (*path, name), found


def test_every_command_can_be_quiet() -> None:
    from typer.main import get_command

    found = dict(_commands(get_command(app)))
    assert ("fit",) in found and ("bench", "run") in found
    for path, each in found.items():
        options = {flag for option in each.params for flag in option.opts}
        assert {"--quiet", "-q"} <= options, path


def test_quiet_is_quiet(
    command: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {}
    for arguments in ((), ("--quiet",)):
        screen = Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        assert main([*arguments, "fit", str(people), "-o", str(tmp_path / "m.bc")]) == 0
        texts[arguments] = screen.text
    assert "Try: bayescut show" in texts[()]
    assert "CutsetNetwork" not in texts[("--quiet",)]
    assert "Try:" not in texts[("--quiet",)]


def test_tables_for_people_and_for_pipes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(["name", "n"], [["a", "10"], ["long [b]", "2"]])
    assert capsys.readouterr().out == "name       n\na         10\nlong [b]   2\n"
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    print_table(["name", "n"], [["long [b]", "2"]], bold=lambda row, column: column == 1)
    assert "long [b]" in screen.text


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": [float("-inf"), (1, True)], "b": Path("é")})
    assert json.loads(capsys.readouterr().out) == {"a": [None, [1, True]], "b": "é"}


@pytest.mark.parametrize(
    "words",
    [
        ("query", "MODEL", "P(age)"),
        ("sample", "MODEL", "-n", "3"),
        ("score", "MODEL", "TABLE"),
        ("impute", "MODEL", "TABLE"),
        ("show", "MODEL"),
        ("check", "TABLE"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("before", [True, False])
def test_answers_can_come_alone(
    words: tuple[str, ...],
    before: bool,
    people: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    places = {"MODEL": str(model), "TABLE": str(people)}
    arguments = [places.get(word, word) for word in words]
    assert main(["--quiet", *arguments] if before else [*arguments, "-q"]) == 0
    assert screen.text == ""
    assert capsys.readouterr().out


@pytest.mark.parametrize(("columns", "said"), [(13, "... 1 more column;"), (14, "2 more columns;")])
def test_columns_that_are_not_listed(
    command: Command, tmp_path: Path, columns: int, said: str
) -> None:
    model = tmp_path / "m.bc"
    leaves = [build.categorical(j, [0.5, 0.5]) for j in range(columns)]
    bc.save(build.circuit(build.product(*leaves), [2] * columns), model)
    assert said in command.ok("show", model)
