"""What a number was measured with."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bayescut
from bayescut._jobs import count_jobs

__all__ = ["environment", "peak_memory", "reset_peak_memory"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


@cache
def environment() -> dict[str, str | int | None]:
    """Return versions, processor, cores and, in a checkout, the commit.

    Examples
    --------
    >>> from bayescut.bench import environment
    >>> sorted(environment())[:4]
    ['bayescut', 'commit', 'cores', 'cpu']
    """
    found: dict[str, str | int | None] = {
        "bayescut": bayescut.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": count_jobs(-1),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # pragma: no cover - all are dependencies
            found[package] = None
    return found


def _cpu() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None


def _commit() -> str | None:
    """The commit of the checkout this package runs from, with ``+`` if files were changed."""
    root = Path(bayescut.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        return None

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def reset_peak_memory() -> None:
    """Let `peak_memory` begin anew, where the system can: compiling takes 100 MB and more."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int | None:
    """Largest resident memory of this process, in bytes."""
    try:
        # Not ru_maxrss: a child inherits in it what its parent had used before the start.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        import resource
        import sys
    except ImportError:  # pragma: no cover - Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)
