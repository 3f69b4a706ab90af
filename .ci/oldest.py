"""Print the oldest declared version of everything the library and its tests need, for pip.

The floors in pyproject.toml are claims; ``make test-oldest`` runs the suite with exactly these, on
the Python that runs this script. Tools that judge the sources (ruff, mypy, mkdocs) are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# pip is wherever this is run, and carries what reads requirements.
from pip._vendor.packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCE_TOOLS = {"ruff", "mypy"}
SOURCE_EXTRAS = {"docs"}


def oldest(project: dict[str, Any]) -> list[str]:
    """Return ``name==version`` for each floor that holds on this Python."""
    pins: dict[str, str] = {}
    extras = project["optional-dependencies"]
    groups = [
        project["dependencies"],
        *(extras[name] for name in extras if name not in SOURCE_EXTRAS),
    ]
    for text in (text for group in groups for text in group):
        requirement = Requirement(text)
        name = requirement.name
        if name == project["name"] or name in SOURCE_TOOLS:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        floors = [spec.version for spec in requirement.specifier if spec.operator == ">="]
        if len(floors) != 1:
            raise SystemExit(f"{text!r} in pyproject.toml has no floor: write {name}>=version")
        if name in pins:
            raise SystemExit(f"{name} has two floors on this Python in pyproject.toml")
        pins[name] = floors[0]
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


if __name__ == "__main__":
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write("\n".join(oldest(tomllib.loads(text)["project"])) + "\n")
