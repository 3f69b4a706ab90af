"""The pages are true: every Python block runs, and what stands behind ``# ->`` comes out.

Blocks of a page build on each other. ``<!-- skip -->`` on the line before a block leaves it out,
``<!-- run -->`` before a shell block runs its ``bayescut`` commands in this process.
"""

import ast
import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

from bayescut.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>\w+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S
)
CLAIM = re.compile(r"# (?:.* )?-> (?P<value>.*)$")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page):
    """Yield (language, mark, first line, code) of a page's blocks."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield found["language"], found["mark"], line, found["code"]


def run_python(code, page, first_line, names):
    """Run a block statement by statement; compare values with what the page says of them."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        where = f"{page.name}:{first_line + statement.lineno - 1}"
        ast.increment_lineno(statement, first_line - 1)
        end = statement.end_lineno - first_line
        claim = CLAIM.search(lines[end])
        if claim is None or not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), where, "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), where, "eval"), names)
        # NumPy scalars print differently from version to version.
        value = value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value
        want, got = claim["value"] + "\n", repr(value) + "\n"
        assert doctest.OutputChecker().check_output(want, got, FLAGS), f"{where}: {got}"


def run_shell(code, page):
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "bayescut", f"{page.name}: {line}"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(words[1:]) == 0, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for language, mark, line, code in blocks(page):
        if language == "python" and mark != "skip":
            with contextlib.redirect_stdout(io.StringIO()):
                run_python(code, page, line, names)
        elif language == "sh" and mark == "run":
            run_shell(code, page)


def test_commands_name_scripts_and_options_that_exist():
    named = 0
    for page in PAGES:
        for language, _, _, code in blocks(page):
            for line in code.splitlines() if language == "sh" else []:
                words = shlex.split(line, comments=True)
                script = next((word for word in words if word.startswith("benchmarks/")), None)
                if script is None:
                    continue
                source = (ROOT / script).read_text(encoding="utf-8")
                for option in (word for word in words if word.startswith("--")):
                    assert f'"{option}"' in source, f"{page.name}: {line}"
                named += 1
    assert named
