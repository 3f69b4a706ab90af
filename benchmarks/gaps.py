"""Cells missing from the rows that are learned from: what do they cost?

    python benchmarks/gaps.py run                       # a fifth and half of the cells, all tables
    python benchmarks/gaps.py run --sets chess --part valid --models CutsetMixture
    python benchmarks/gaps.py table                     # Markdown from what has been run

Tables, parts and units are those of ``mixed.py``. Cells of the training part are removed completely
at random (seed 0; a column keeps two cells at least), then learned from as they are, and with every
gap filled by the most frequent label or the median of its column. The loss is what a row of the
judged part has less, in nats, than with nothing removed, also as a part of that of filling. Beside
it stands the loss where as many cells are removed as whole rows (the mean of three draws): what
so many cells are worth by themselves. Test parts are judged once for a version.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _results import RESULTS, latest, load, markdown, open_csv, publish
from bayescut import CutsetMixture, CutsetNetwork
from mixed import NUMBERS, SETS, read, read_numbers

PATH = RESULTS / "gaps.csv"
KEYS = ("dataset", "model", "part", "share", "gaps")
FIELDS = [*KEYS, "log_likelihood", "seconds", "load"]
SHARES = (0.2, 0.5)
_NOTE = """Nats that a row has less than with nothing removed, by the part of the cells that is
removed. Filled: with the most frequent label or the median. As rows: as many cells removed as whole
rows, the mean of three draws, which is what so many cells are worth where nothing is left to guess
them from."""
# Draws of whole rows that are removed.
_DRAWS = 3
MODELS = {
    "CutsetNetwork": lambda n_jobs: CutsetNetwork(n_jobs=n_jobs),
    "CutsetMixture": lambda n_jobs: CutsetMixture(10, n_jobs=n_jobs, random_state=0),
}


def remove(table: pd.DataFrame, share: float) -> pd.DataFrame:
    """Remove a share of the cells, but never all of a column."""
    rng = np.random.default_rng(0)
    hidden = rng.random(table.shape) < share
    hidden[:2] = False
    return table.mask(hidden)


def fill(table: pd.DataFrame) -> pd.DataFrame:
    """Fill every gap with the most frequent label of its column, or its median."""
    filled = table.copy()
    for column in table:
        cells = table[column]
        if isinstance(cells.dtype, pd.CategoricalDtype):
            filled[column] = cells.fillna(cells.mode()[0])
        else:
            # The lower of two medians: a value of the column, not one between its steps.
            filled[column] = cells.fillna(cells.quantile(0.5, interpolation="lower"))
    return filled


def parts_of(name: str, folder: Path) -> tuple[list[pd.DataFrame], dict[str, str] | None]:
    """Training, validation and test part, and the kinds of columns where they are not clear."""
    if name in NUMBERS:
        parts = read_numbers(name, folder)
        return parts, dict.fromkeys(parts[0].columns, "number")
    parts = read(name, folder)
    numbers = [c for c in parts[0] if not isinstance(parts[0][c].dtype, pd.CategoricalDtype)]
    return parts, dict.fromkeys(numbers, "number") or None


def fewer(table: pd.DataFrame, share: float, seed: int) -> pd.DataFrame:
    """Remove a share of the rows."""
    return table[np.random.default_rng(seed).random(len(table)) >= share]


def run(names: list[str], models: list[str], part: str, n_jobs: int, folder: Path) -> None:
    """Learn from every table as it is, with gaps, and with gaps filled."""
    with open_csv(PATH, FIELDS, *KEYS) as store:
        for name in names:
            (train, *others), kinds = parts_of(name, folder)
            judged = others[part == "test"]
            tables = {("0", "none"): train}
            for share in SHARES:
                gappy = remove(train, share)
                tables[f"{share:g}", "as they are"] = gappy
                tables[f"{share:g}", "filled"] = fill(gappy)
                for seed in range(_DRAWS):
                    tables[f"{share:g}", f"rows {seed}"] = fewer(train, share, seed)
            for model in models:
                for (share, gaps), table in tables.items():
                    key = (name, model, part, share, gaps)
                    if key in latest(PATH, *KEYS):
                        continue
                    learner: Any = MODELS[model](n_jobs).set_params(columns=kinds)
                    start = time.perf_counter()
                    learner.fit(table)
                    seconds = time.perf_counter() - start
                    value = learner.set_params(unseen="missing").score(judged)
                    row = dict(zip(KEYS, key, strict=True)) | {
                        "log_likelihood": f"{value:.4f}", "seconds": f"{seconds:.1f}",
                        "load": load(),
                    }  # fmt: skip
                    store.append(row)
                    print(", ".join(map(str, row.values())), flush=True)


def table(part: str) -> str:
    """Losses by gaps and by filling them, as Markdown."""
    found = latest(PATH, *KEYS)
    heads = ["set", "model", "complete"]
    for share in SHARES:
        heads += [f"{share:.0%} removed: loss", "filled", "part of it", "as rows"]
    lines = []
    for name, model in sorted({key[:2] for key in found}, key=lambda k: (k[1], k[0])):
        values = {
            key[3:]: float(row["log_likelihood"])
            for key, row in found.items()
            if key[:3] == (name, model, part)
        }
        if ("0", "none") not in values:
            continue
        line = [name, model, f"{values['0', 'none']:.2f}"]
        for share in (f"{share:g}" for share in SHARES):
            if (share, "filled") in values and (share, "as they are") in values:
                own = values["0", "none"] - values[share, "as they are"]
                other = values["0", "none"] - values[share, "filled"]
                line += [f"{own:.2f}", f"{other:.2f}", f"{own / other:.2f}" if other > 0 else ""]
            else:
                line += [""] * 3
            rows = [
                values[share, f"rows {i}"] for i in range(_DRAWS) if (share, f"rows {i}") in values
            ]
            line.append(f"{values['0', 'none'] - np.mean(rows):.2f}" if rows else "")
        lines.append(line)
    return "\n".join([*markdown(heads, lines, left=(0, 1)), "", _NOTE])


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *NUMBERS])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["CutsetNetwork"])
    parser.add_argument("--part", choices=("valid", "test"), default="test")
    parser.add_argument("--jobs", type=int, default=-1)
    default = Path(os.environ.get("BAYESCUT_DATA", "data")) / "mixed"
    parser.add_argument("--data", type=Path, default=default, help="folder of the sets")
    options = parser.parse_args(words)
    if options.command == "run":
        names = options.sets or [*SETS, *NUMBERS]
        run(names, options.models, options.part, options.jobs, options.data)
    else:
        publish(RESULTS / "gaps.md", table(options.part))


if __name__ == "__main__":
    main()
