"""Imports go one way: the order of the layers that CONTRIBUTING.md states, by the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "bayescut"

# A part imports from layers above its own line here, and from itself; never from its neighbours.
# Modules of the package whose names begin with an underscore stand before all of them.
LAYERS = (
    ("exceptions",),
    ("data", "datasets", "plots"),
    ("counts", "circuit"),
    ("scores", "files"),
    ("learn",),
    ("estimators",),
    ("__init__",),
    ("bench", "demo", "report"),
    ("cli",),
    ("__main__",),
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

# Imports against the order, as "importing module: imported part", each with its reason. Imports in
# functions and for type checkers count like all others.
ALLOWED: dict[str, str] = {}


def rank(part: str) -> int:
    if part not in RANK and part.startswith("_"):
        return -1
    if part not in RANK:
        pytest.fail(f"bayescut.{part} has no place in the order of the layers: give it one")
    return RANK[part]


def imported(tree: ast.AST, package: str, parts: set[str]) -> Iterator[str]:
    """Yield the parts of the package that a module imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == package:
                # A name that is no module (`from bayescut import CNetBD`) is one of __init__.
                part = rest.partition(".")[0]
                yield part if part in parts else "__init__"


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(PACKAGE.rglob("*.py"))
PARTS = {part_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_go_one_way(path: Path) -> None:
    own = part_of(path)
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    back = sorted(
        other
        for other in set(imported(tree, "bayescut", PARTS))
        # Modules in front of all layers may use each other.
        if other != own and rank(other) >= rank(own) and not rank(other) == rank(own) == -1
        if f"{module}: {other}" not in ALLOWED
    )
    assert not back, f"{module} imports {back}, which the order of the layers does not allow"


def test_what_is_allowed_is_needed() -> None:
    found = {
        f"{'.'.join(path.relative_to(PACKAGE.parent).with_suffix('').parts)}: {other}"
        for path in FILES
        for other in imported(ast.parse(path.read_text(encoding="utf-8")), "bayescut", PARTS)
    }
    assert set(ALLOWED) <= found


def test_every_kind_of_import_is_seen() -> None:
    tree = ast.parse(
        "import bayescut.scores.base\n"
        "if TYPE_CHECKING:\n    from bayescut.learn.leaves import trees\n"
        "def f():\n    from bayescut import CNetBD, files\n    import numpy, bayescut.cli as c\n"
    )
    parts = {"scores", "learn", "files", "cli"}
    assert sorted(imported(tree, "bayescut", parts)) == [
        *("__init__", "cli", "files", "learn", "scores")
    ]


def test_the_order_is_the_one_contributors_read() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"```text\n(data.*?)```", text, re.S)
    assert block is not None
    written = [set(re.findall(r"\w+", line)) for line in re.split(r"→", block[1])]
    assert written == [
        set(parts) - {"__init__"} for parts in LAYERS[1:-1] if parts != ("__init__",)
    ]
    assert set(RANK) <= PARTS
