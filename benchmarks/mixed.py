"""Mixed tables of labels and numbers: the sets of ABDA with their training, validation, test parts.

    python benchmarks/mixed.py run --sets abalone german --budget 60
    python benchmarks/mixed.py table               # Markdown from what has been run

Mean log-likelihood of a row in nats. Columns whose names begin with k are discrete and count with
their mass, those that begin with x are real and count with their density, never above one over the
recording step of their column; the steps are printed and kept with the results. Labels of any
part are declared as categories. Everything is learned from the training part alone; the number of
components and the ridge of the Gaussian mixture are chosen on the validation part, the settings of
the library on the validation parts of abalone, wine, german and diabetes. Test parts are looked at
once. Rows of the test part that do not occur in training are scored on their own, too: a quarter of
those of wine do.

Rivals under the same protocol: independence (the density of every column by itself), and a Gaussian
mixture of the real columns (full or diagonal) beside independent discrete ones.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

from _results import RESULTS, latest, load, markdown, open_csv, publish
from bayescut import CutsetEnsemble, CutsetNetwork
from bayescut.data import describe_table, encode_table

SETS = ("abalone", "wine", "german", "student", "breast", "dermatology", "chess")
FIELDS = [
    "dataset", "model", "valid_ll", "test_ll", "new_rows_ll", "new_rows", "seconds", "n_jobs",
    "load", "settings", "steps",
]  # fmt: skip
PATH = RESULTS / "mixed.csv"
# More values than this make a discrete column a number of whole steps, as the library decides.
_LABELS = 20


def read(name: str, folder: Path) -> list[pd.DataFrame]:
    """Read training, validation and test part, with the labels of all parts as categories."""
    parts = [
        pd.read_csv(folder / f"abda-{name}" / f"{p}.csv.gz") for p in ("train", "valid", "test")
    ]
    for column in parts[0]:
        values = pd.concat([part[column] for part in parts]).dropna()
        if column.startswith("k") and values.nunique() <= _LABELS:
            categories = np.sort(values.unique())
            for part in parts:
                part[column] = pd.Categorical(part[column], categories=categories)
    return parts


class Independence:
    """Every column by itself."""

    def fit(self, train: pd.DataFrame) -> Independence:
        self.domains = describe_table(train).domains
        codes, _ = encode_table(train, self.domains, allow_missing=True)
        self.tables = []
        for j, domain in enumerate(self.domains):
            seen = codes[:, j][codes[:, j] < domain.n_states]
            counts = np.bincount(seen, minlength=domain.n_states) + 1 / domain.n_states
            self.tables.append(np.log(counts / counts.sum()))
        return self

    def columns(self, rows: pd.DataFrame) -> np.ndarray:
        codes, values = encode_table(rows, self.domains, allow_missing=True)
        out = np.zeros(codes.shape)
        for j, domain in enumerate(self.domains):
            seen = codes[:, j] < domain.n_states
            if domain.grid is not None:
                out[seen, j] = domain.grid.log_density(values[seen, j])
            else:
                out[seen, j] = self.tables[j][codes[seen, j]]
        return out

    def score_samples(self, rows: pd.DataFrame) -> np.ndarray:
        return self.columns(rows).sum(axis=1)


class GaussianBesideLabels:
    """A Gaussian mixture of the real columns, chosen by validation, beside independent others."""

    def fit(self, train: pd.DataFrame, valid: pd.DataFrame) -> GaussianBesideLabels:
        self.alone = Independence().fit(train)
        self.real = [c for c in train if c.startswith("x")]
        X = train[self.real].to_numpy(dtype=float)
        self.mean, self.scale = X.mean(axis=0), X.std(axis=0)
        best = -np.inf
        for kind in ("full", "diag"):
            for size in (1, 2, 5, 10, 20, 40):
                for ridge in (1e-6, 1e-4, 1e-2):
                    model = GaussianMixture(
                        size, covariance_type=kind, reg_covar=ridge, random_state=0
                    ).fit((X - self.mean) / self.scale)
                    self.model, self.settings = model, f"{kind} {size} ridge={ridge:g}"
                    score = float(self.score_samples(valid).mean())
                    if score > best:
                        best, kept = score, (model, self.settings)
        self.model, self.settings = kept
        return self

    def score_samples(self, rows: pd.DataFrame) -> np.ndarray:
        X = (rows[self.real].to_numpy(dtype=float) - self.mean) / self.scale
        others = [j for j, c in enumerate(rows) if not c.startswith("x")]
        density = self.model.score_samples(X) - np.log(self.scale).sum()
        return density + self.alone.columns(rows)[:, others].sum(axis=1)


def steps(train: pd.DataFrame) -> str:
    """Recording steps of the real columns."""
    report = describe_table(train)
    return " ".join(f"{c.name}={c.step:g}" for c in report.columns if c.step is not None)


def run(names: list[str], budget: float, n_jobs: int, folder: Path) -> None:
    """Learn and score each set."""
    for name in names:
        train, valid, test = read(name, folder)
        known = set(map(tuple, train.astype(object).itertuples(index=False)))
        new = np.array(
            [tuple(row) not in known for row in test.astype(object).itertuples(index=False)]
        )
        models: dict[str, Any] = {
            "independence": Independence(),
            "CutsetNetwork": CutsetNetwork(n_jobs=n_jobs),
            "CutsetEnsemble": CutsetEnsemble(time_budget=budget, n_jobs=n_jobs, random_state=0),
        }
        if sum(c.startswith("x") for c in train) > 1:
            models["Gaussian mixture"] = GaussianBesideLabels()
        for title, model in models.items():
            start = time.perf_counter()
            if title == "Gaussian mixture":
                model.fit(train, valid)
            else:
                model.fit(train)
            seconds = time.perf_counter() - start
            score = model.score_samples(test)
            settings = getattr(model, "settings", "")
            if title == "CutsetEnsemble":
                settings = f"time_budget={budget:g} random_state=0"
            row = {
                "dataset": name,
                "model": title,
                "valid_ll": f"{model.score_samples(valid).mean():.4f}",
                "test_ll": f"{score.mean():.4f}",
                "new_rows_ll": f"{score[new].mean():.4f}",
                "new_rows": int(new.sum()),
                "seconds": f"{seconds:.1f}",
                "n_jobs": n_jobs,
                "load": load(),
                "settings": settings,
                "steps": steps(train),
            }
            with open_csv(PATH, FIELDS, "dataset", "model") as store:
                store.append({key: str(value) for key, value in row.items()})
            print(f"{name}, {title}: {row['test_ll']} ({row['new_rows_ll']} new rows)", flush=True)
        print(f"  steps: {steps(train)}")


def table() -> str:
    """Test log-likelihoods as Markdown."""
    found = list(latest(PATH, "dataset", "model").values())
    titles = ["independence", "Gaussian mixture", "CutsetNetwork", "CutsetEnsemble"]
    lines = []
    for name in SETS:
        rows = {r["model"]: r for r in found if r["dataset"] == name}
        if rows:
            some = next(iter(rows.values()))
            cells = [f"{float(rows[t]['test_ll']):.2f}" if t in rows else "" for t in titles]
            ensemble = rows.get("CutsetEnsemble")
            cells.append(f"{float(ensemble['new_rows_ll']):.2f}" if ensemble else "")
            lines.append([name, *cells, some["steps"]])
    head = ["set", *titles, "CutsetEnsemble, new rows", "steps"]
    return "\n".join(markdown(head, lines, left=(0, 6)))


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for an ensemble")
    parser.add_argument("--jobs", type=int, default=-1)
    default = Path(os.environ.get("BAYESCUT_DATA", "data")) / "mixed"
    parser.add_argument("--data", type=Path, default=default, help="folder of the sets")
    arguments = parser.parse_args(words)
    if arguments.command == "run":
        run(arguments.sets, arguments.budget, arguments.jobs, arguments.data)
    else:
        publish(RESULTS / "mixed.md", table())


if __name__ == "__main__":
    main()
