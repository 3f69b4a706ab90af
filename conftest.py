"""Keeps numba's compiled kernels apart for every state of the sources.

Numba sees a change of a kernel's own file but not of the files it calls into, so that a plain
``pytest`` after a change could run old machine code. ``python conftest.py`` prints the folder, for
the Makefile.
"""

import hashlib
import os
import re
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

# A shell that starts the tests in the background has them ignore Ctrl-C, and whatever they start
# with them: tests that stop a process that way would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


USES_NUMBA = re.compile(rb"^\s*(?:from|import)\s+(?:numba|llvmlite|bayescut\._kernels)\b", re.M)
IMPORT = re.compile(
    r"^\s*(?:from\s+(?P<module>[\w.]+)\s+import\s+(?P<names>\([^)]*\)|[^\n]*)"
    r"|import\s+(?P<plain>[\w., ]+))",
    re.M,
)


def kernel_files(folder: Path) -> list[Path]:
    """Return the files in which kernels stand and all that these import, one from another.

    What a kernel calls and the constants it was compiled with are found there. The other files may
    change without any kernel being compiled anew, which takes minutes for all of them.
    """
    todo = [path for path in folder.rglob("*.py") if USES_NUMBA.search(path.read_bytes())]
    found = set(todo)
    while todo:
        for match in IMPORT.finditer(todo.pop().read_text(encoding="utf-8")):
            module, names = match["module"], re.findall(r"\w+", match["names"] or "")
            modules = re.findall(r"[\w.]+", match["plain"]) if module is None else [module]
            # A name may be a module as well.
            modules += [f"{module}.{name}" for name in names]
            for name in modules:
                place = folder.joinpath(*name.split("."))
                for path in (place.with_suffix(".py"), place / "__init__.py"):
                    if path not in found and path.is_file():
                        found.add(path)
                        todo.append(path)
    return sorted(found, key=lambda path: path.as_posix())


def source_key(folder: Path) -> str:
    """Return a digest of the names and the contents of the files that kernels are made of."""
    digest = hashlib.sha256()
    for path in kernel_files(folder):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def numba_cache() -> str:
    """Return the folder for kernels compiled from the sources as they are.

    It lies in the folder that ``NUMBA_CACHE_DIR`` names, in ``build/numba`` when it is not set.
    """
    key = source_key(ROOT / "src")
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or ROOT / "build" / "numba")
    return str(base if base.name == key else base / key)


if __name__ == "__main__":
    print(numba_cache())
elif "numba" in sys.modules:
    raise RuntimeError("numba was imported before conftest.py could tell it where its cache is")
else:
    os.environ["NUMBA_CACHE_DIR"] = numba_cache()  # child processes take it over
