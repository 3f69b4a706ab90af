"""Tables of labels: cuts about sets of states against cuts with a branch for every state.

    python benchmarks/labels.py                      # every table, log-likelihood of validation
    python benchmarks/labels.py --part test          # the same for the test parts
    python benchmarks/labels.py --tables chess german --output folder
    python benchmarks/labels.py --folds 5 --tables kr-vs-kp splice  # both kinds on five folds
    python benchmarks/labels.py --speed 50000 200000 # seconds by rows, 50 columns of 5 states
    python benchmarks/labels.py --speed 200000 --before ../before  # beside another checkout

The tables are those of ``mixed/`` in the folder that ``BAYESCUT_DATA`` names. Every column is taken
as labels, numbers too; states are those of all parts, so that no row is impossible for its label
alone. Where a table comes without parts, a fixed shuffle makes them: 70, 10 and 20 percent. The
table goes to ``benchmarks/results/labels.csv``, one line for a table, a part and a kind of cut, and
from there to ``labels.md``; ``hidden-class`` is drawn by ``tables/hidden_class.py`` beside the
data, and its truth is known.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _results import RESULTS, latest, markdown, open_csv, publish
from bayescut import CutsetNetwork
from bayescut.exceptions import IdentifierWarning

FIELDS = ("table", "part", "cuts", "rows", "columns", "most_states", "log_likelihood", "n_cuts",
          "parameters", "seconds")  # fmt: skip
_REPEATS = 3
FOLD_FIELDS = ("table", "rows", "folds", "gain", "error", "score_gain")
KINDS: dict[str, dict[str, Any]] = {
    "states": {"groups": False, "identifiers": "keep"},
    "sets": {"groups": True},
}
# Adult's columns that hold labels, the income with them.
_ADULT = [1, 3, 5, 6, 7, 8, 9, 13, 14]


class Parts(NamedTuple):
    """Codes of a table's parts, and the numbers of states of its columns."""

    train: NDArray[np.uint16]
    valid: NDArray[np.uint16]
    test: NDArray[np.uint16]
    states: list[int]


def _folder() -> Path:
    return Path(os.environ.get("BAYESCUT_DATA", "data"))


def _read(name: str, file: str, head: bool = True) -> list[list[str]]:
    with gzip.open(_folder() / "mixed" / name / f"{file}.csv.gz", "rt", newline="") as lines:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row]
    return rows[1:] if head else rows


def _code(parts: Sequence[list[list[str]]]) -> Parts:
    every = np.array([row for part in parts for row in part])
    codes = np.empty(every.shape, dtype=np.uint16)
    states = []
    for j in range(every.shape[1]):
        labels, codes[:, j] = np.unique(every[:, j], return_inverse=True)
        states.append(len(labels))
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    train, valid, test = np.split(codes, cuts)
    return Parts(train, valid, test, states)


def _shuffled(rows: list[list[str]]) -> Parts:
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    a, b = round(0.7 * len(rows)), round(0.8 * len(rows))
    return _code([[rows[i] for i in part] for part in (order[:a], order[a:b], order[b:])])


def _abda(name: str) -> Parts:
    return _code([_read(name, part) for part in ("train", "valid", "test")])


def _adult() -> Parts:
    train, test = (
        [[row[c].rstrip(".") for c in _ADULT] for row in _read(name, "data", head=False)
         if len(row) == 15]
        for name in ("adult-train", "adult-test")
    )  # fmt: skip
    last = round(0.9 * len(train))
    return _code([train[:last], train[last:], test])


def _splice() -> Parts:
    return _shuffled([row[1:] for row in _read("gefs-splice", "data")])  # without their names


def _drawing() -> str:
    return str(_folder().parent / "tables" / "hidden_class.py")


def _hidden() -> Parts:
    train, test, truth = runpy.run_path(_drawing())["hidden_class"](n_train=10_000)
    print(f"hidden-class: the truth has {truth:.3f} on test")
    return Parts(train[:9_000], train[9_000:], test, [5] * 50)


TABLES = {
    "breast-cancer": lambda: _shuffled(_read("breast-cancer", "data", head=False)),
    "dermatology": lambda: _abda("abda-dermatology"),
    "student": lambda: _abda("abda-student"),
    "german": lambda: _abda("abda-german"),
    "kr-vs-kp": lambda: _shuffled(_read("gefs-kr-vs-kp", "data")),
    "splice": _splice,
    "chess": lambda: _abda("abda-chess"),
    "phishing": lambda: _shuffled(_read("gefs-phishing", "data")),
    "adult": _adult,
    "hidden-class": _hidden,
}


def measure(name: str, part: str, kind: str) -> dict[str, Any]:
    """Learn from the training part (for test, from that and validation) and judge a part."""
    parts = TABLES[name]()
    train = parts.train if part == "valid" else np.concatenate([parts.train, parts.valid])
    judged = parts.valid if part == "valid" else parts.test
    model = CutsetNetwork(n_states=parts.states, **KINDS[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifierWarning)
        start = time.process_time()
        model.fit(train)
        seconds = time.process_time() - start
    return {
        "table": name, "part": part, "cuts": kind, "rows": len(train),
        "columns": train.shape[1], "most_states": max(parts.states),
        "log_likelihood": f"{model.score(judged):.4f}", "n_cuts": model.n_cuts_,
        "parameters": model.n_parameters_, "seconds": f"{seconds:.2f}",
    }  # fmt: skip


def compare(name: str, n_folds: int) -> dict[str, Any]:
    """What sets gain over states on rows left out of a whole table, fold by fold, three times."""
    parts = TABLES[name]()
    rows = np.concatenate([parts.train, parts.valid, parts.test])
    gain, score_gain = np.zeros(len(rows)), 0.0
    for seed in range(_REPEATS):
        fold = np.random.default_rng(seed).permutation(np.arange(len(rows)) % n_folds)
        for k in range(n_folds):
            for kind, sign in (("sets", 1), ("states", -1)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", IdentifierWarning)
                    model = CutsetNetwork(n_states=parts.states, **KINDS[kind]).fit(rows[fold != k])
                gain[fold == k] += sign * model.score_samples(rows[fold == k]) / _REPEATS
                n_rows = np.count_nonzero(fold != k) * n_folds * _REPEATS
                score_gain += sign * model.structure_score_ / n_rows
    return {
        "table": name, "rows": len(rows), "folds": n_folds, "gain": f"{gain.mean():.4f}",
        "error": f"{gain.std() / np.sqrt(len(gain)):.4f}",
        "score_gain": f"{score_gain:.4f}",
    }  # fmt: skip


# Run with the sources of either checkout, so it needs nothing that only one of them has.
_LEARN = """
import os, runpy, sys, time
from bayescut import CutsetNetwork
rows, columns, states, jobs = map(int, sys.argv[2:])
draw = runpy.run_path(sys.argv[1])["hidden_class"]
train, test, truth = draw(n_train=rows, columns=columns, states=states)
CutsetNetwork(n_jobs=jobs).fit(train[:2000])  # compile before any clock starts
cpu, wall = time.process_time(), time.perf_counter()
model = CutsetNetwork(n_jobs=jobs).fit(train)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(
    f"{rows} x {columns} x {states}: {cpu:.2f} s of processors, {wall:.2f} s on the clock, "
    f"{model.n_cuts_} cuts, {model.score(test):.3f} (truth {truth:.3f})",
    f"load {os.getloadavg()[0]:.1f}",
)
"""


def speed(rows: Sequence[int], columns: int, states: int, n_jobs: int, before: Path | None) -> None:
    """Learn in processes of their own, this checkout and the other one in turns."""
    here = Path(__file__).resolve().parent.parent
    for n in rows:
        for source in (here, before, here, before) if before is not None else (here,):
            print("now   " if source == here else "before", end=" ", flush=True)
            environment = dict(os.environ, PYTHONPATH=str(source / "src"))
            environment["NUMBA_CACHE_DIR"] = str(source / "build" / "numba" / "labels")
            command = [sys.executable, "-c", _LEARN, _drawing()]
            command += [str(value) for value in (n, columns, states, n_jobs)]
            subprocess.run(command, env=environment, check=True)


def write_page(folder: Path) -> None:
    """Write the table of what is known about either kind of cuts; sizes are those for test."""
    found = latest(folder / "labels.csv", "table", "part", "cuts")
    heads = ["table", "rows", "columns", "most states"]
    wanted = [
        (part, kind, field)
        for part, field in (("valid", "log_likelihood"), ("test", "log_likelihood"),
                            ("test", "parameters"))
        for kind in KINDS
    ]  # fmt: skip
    for part, kind, field in wanted:
        heads.append(f"{part}, {kind}" if field == "log_likelihood" else f"{field}, {kind}")
    lines = []
    for name in TABLES:
        shape = found.get((name, "test", "sets"))
        if shape is not None:
            line = [name, shape["rows"], shape["columns"], shape["most_states"]]
            for part, kind, field in wanted:
                line.append(found.get((name, part, kind), {}).get(field, ""))
            lines.append(line)
    publish(folder / "labels.md", "\n".join(markdown(heads, lines)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--part", choices=("valid", "test"), default="valid")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folds", type=int, help="compare both kinds on so many folds")
    parser.add_argument("--speed", nargs="+", type=int, metavar="ROWS")
    parser.add_argument("--columns", type=int, default=50, help="of the table of --speed")
    parser.add_argument("--states", type=int, default=5, help="of the table of --speed")
    parser.add_argument("--jobs", type=int, default=-1, help="threads of --speed")
    parser.add_argument("--before", type=Path, help="another checkout for --speed")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.speed:
        speed(options.speed, options.columns, options.states, options.jobs, options.before)
        return
    if options.folds:
        with open_csv(options.output / "labels_folds.csv", FOLD_FIELDS, "table") as store:
            for name in options.tables:
                row = compare(name, options.folds)
                store.append({key: str(value) for key, value in row.items()})
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        return
    path = options.output / "labels.csv"
    warm = np.random.default_rng(0).integers(0, 3, size=(200, 4)).astype(np.uint16)
    for kind in options.kinds:  # compile before any clock starts
        CutsetNetwork(**KINDS[kind]).fit(warm)
    with open_csv(path, FIELDS, "table", "part", "cuts") as store:
        for name in options.tables:
            for kind in options.kinds:
                row = measure(name, options.part, kind)
                store.append({key: str(value) for key, value in row.items()})
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    write_page(options.output)


if __name__ == "__main__":
    main()
