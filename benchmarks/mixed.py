"""Mixed tables of labels and numbers: the sets of ABDA with their training, validation, test parts.

    python benchmarks/mixed.py run --sets abalone german --budget 60
    python benchmarks/mixed.py numbers --sets airfoil concrete --budget 60
    python benchmarks/mixed.py table               # Markdown from what has been run

Mean log-likelihood of a row in nats. Columns whose names begin with k are discrete and count with
their mass, those that begin with x are real and count with their density, never above one over the
recording step of their column; the steps are printed and kept with the results. Labels of any
part are declared as categories. Everything is learned from the training part alone; the number of
components and the ridge of the Gaussian mixture are chosen on the validation part, the settings of
the library on the validation parts of abalone, wine, german and diabetes. Test parts are looked at
once. Rows of the test part that do not occur in training are scored on their own, too: a quarter of
those of wine do.

``numbers`` runs tables of numbers alone (without the column of classes and without constants; 70,
10 and 20 % of the rows in the order that seed 0 shuffles them to) against the best of 36 Gaussian
mixtures by validation and against the average of eight of its kind. Where columns determine each
other, the density of a Gaussian mixture has no bound but its ridge. So the mixtures are scored once
as they are and once under the library's rule: no deviation below 0.6 recording steps.

``--chains`` and ``--bags`` say how many members an ensemble has instead of how long it learns: what
comes out does not depend on what else the machine does.

Rivals under the same protocol: independence (the density of every column by itself), a Gaussian
mixture of the real columns (full or diagonal) beside independent discrete ones, and, where it is
installed (``pip install pylace polars``), Lace: eight states, 400 steps each, whose density of a
number has no bound. Lace refuses labels that training did not show; such rows are left out of its
mean, and the settings say how many.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.mixture import GaussianMixture

from _results import RESULTS, latest, load, markdown, open_csv, publish
from bayescut import CutsetEnsemble, CutsetMixture, CutsetNetwork
from bayescut.data import describe_table, encode_table

SETS = ("abalone", "wine", "german", "student", "breast", "dermatology", "chess")
FIELDS = [
    "dataset", "model", "valid_ll", "test_ll", "new_rows_ll", "new_rows", "seconds", "n_jobs",
    "load", "settings", "steps",
]  # fmt: skip
PATH = RESULTS / "mixed.csv"
NUMBERS = {
    "airfoil": "uci-airfoil", "concrete": "uci-concrete",
    "wine quality red": "gefs-winequality_red",
    "wine quality white": "gefs-winequality_white", "segment": "gefs-segment",
    "vehicle": "gefs-vehicle", "wdbc": "gefs-wdbc", "gesture": "gefs-gesture",
    "authent": "gefs-authent",
}  # fmt: skip
NUMBERS_PATH = RESULTS / "mixed_numbers.csv"
# Deviation that no Gaussian goes below, in steps: that of the library's Gaussian leaves.
_LEAST_STEPS = 0.6
# Numbers of components that a mixture chooses from by rows that it holds out itself.
SIZES = [5, 10, 20, 40]
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


class Lace:
    """Cross-categorisation by Lace, where it is installed."""

    n_states, n_steps = 8, 400

    def fit(self, train: pd.DataFrame) -> Lace:
        import lace

        # Discrete columns are labels, as the types of the sets say: as numbers they did worse.
        self.known = {c: set(train[c].dropna().astype(str)) for c in train if c.startswith("k")}
        self.engine = lace.Engine.from_df(
            self._frame(train, index=True), n_states=self.n_states, rng_seed=0
        )
        self.engine.update(self.n_steps)
        self.settings = f"{self.n_states} states x {self.n_steps} steps"
        return self

    def _frame(self, rows: pd.DataFrame, index: bool = False) -> Any:
        import polars

        cells: dict[str, list[Any]] = {"ID": list(map(str, range(len(rows))))} if index else {}
        for c in rows:
            missing = rows[c].isna()
            as_cell = str if c in self.known else float
            cells[c] = [
                None if gap else as_cell(v) for v, gap in zip(rows[c], missing, strict=True)
            ]
        return polars.DataFrame(cells)

    def score_samples(self, rows: pd.DataFrame) -> np.ndarray:
        told = np.ones(len(rows), dtype=bool)
        for c, labels in self.known.items():
            told &= (rows[c].isna() | rows[c].astype(str).isin(labels)).to_numpy()
        out = np.full(len(rows), np.nan)
        gaps, pattern = np.unique(rows.isna().to_numpy(), axis=0, return_inverse=True)
        for k, gap in enumerate(gaps):  # it refuses missing cells: what is known is asked for
            some = np.flatnonzero(told & (pattern.reshape(-1) == k))
            if len(some) and not gap.all():
                known = self._frame(rows.iloc[some, np.flatnonzero(~gap)])
                out[some] = np.asarray(self.engine.logp(known))
        return out

    def log_density_given(self, cell: dict[str, float], rest: dict[str, float]) -> float:
        """Log density of numbers given others."""
        import polars

        found = self.engine.logp(polars.DataFrame({c: [x] for c, x in cell.items()}), given=rest)
        return float(np.asarray(found).ravel()[0])


class GaussianMixtures:
    """The best Gaussian mixture by validation, and seven more like it from other starts."""

    def fit(self, train: pd.DataFrame, valid: pd.DataFrame, grids: list[Any]) -> GaussianMixtures:
        X = train.to_numpy(dtype=float)
        self.mean, self.scale = X.mean(axis=0), X.std(axis=0)
        self.floor = np.array([(_LEAST_STEPS * grid.step) ** 2 for grid in grids]) / self.scale**2
        Z, V = ((part - self.mean) / self.scale for part in (X, valid.to_numpy(dtype=float)))
        best = -np.inf
        for kind in ("full", "diag"):
            for size in (1, 2, 5, 10, 20, 40):
                for ridge in (1e-6, 1e-4, 1e-2):
                    found = GaussianMixture(
                        size, covariance_type=kind, reg_covar=ridge, random_state=0
                    ).fit(Z)
                    score = self._log_density(found, V, bounded=True).mean()
                    if score > best:
                        best, chosen = score, (kind, size, ridge)
        kind, size, ridge = chosen
        self.settings = f"{kind} {size} ridge={ridge:g}"
        self.models = [
            GaussianMixture(size, covariance_type=kind, reg_covar=ridge, random_state=i).fit(Z)
            for i in range(8)
        ]
        return self

    def _log_density(self, model: GaussianMixture, Z: np.ndarray, bounded: bool) -> np.ndarray:
        terms = []
        for weight, mean, cov in zip(model.weights_, model.means_, model.covariances_, strict=True):
            whole = np.diag(cov) if cov.ndim == 1 else cov.copy()
            if bounded:
                whole[np.diag_indices(len(whole))] += self.floor
            root = np.linalg.cholesky(whole)
            z = np.linalg.solve(root, (Z - mean).T)
            log_det = np.log(np.diag(root)).sum() + 0.5 * len(mean) * np.log(2 * np.pi)
            terms.append(np.log(weight) - log_det - 0.5 * (z**2).sum(axis=0))
        return np.logaddexp.reduce(terms, axis=0) - np.log(self.scale).sum()

    def score_samples(
        self, rows: pd.DataFrame, n_models: int = 8, bounded: bool = True
    ) -> np.ndarray:
        Z = (rows.to_numpy(dtype=float) - self.mean) / self.scale
        found = [self._log_density(model, Z, bounded) for model in self.models[:n_models]]
        return np.logaddexp.reduce(found, axis=0) - np.log(len(found))


def read_numbers(name: str, folder: Path) -> list[pd.DataFrame]:
    """Read a table of numbers: training, validation and test part."""
    path = folder / NUMBERS[name] / "data.csv.gz"
    if NUMBERS[name].startswith("uci"):
        frame = pd.read_csv(path, header=None).rename(columns=lambda j: f"x{j}")
    else:
        frame = pd.read_csv(path).iloc[:, :-1]
    frame = frame.astype(float)
    frame = frame.loc[:, frame.nunique() > 1]
    order = np.random.default_rng(0).permutation(len(frame))
    ends = [round(0.7 * len(frame)), round(0.8 * len(frame))]
    return [frame.iloc[part] for part in np.split(order, ends)]


def run_numbers(
    names: list[str],
    ensemble: dict[str, Any],
    n_jobs: int,
    folder: Path,
    only: list[str] | None = None,
) -> None:
    """Learn and score tables of numbers."""
    for name in names:
        train, valid, test = read_numbers(name, folder)
        kinds = dict.fromkeys(train.columns, "number")
        domains = describe_table(train, columns=kinds).domains
        printed = " ".join(f"{domain.name}={domain.grid.step:g}" for domain in domains)
        found: dict[str, tuple[Any, str, float]] = {}
        rivals = (
            ("Gaussian mixture", 1, True), ("average of 8", 8, True),
            ("Gaussian mixture, unbounded", 1, False), ("average of 8, unbounded", 8, False),
        )  # fmt: skip
        if only is None or any(title in only for title, _, _ in rivals):
            rival = GaussianMixtures().fit(train, valid, [domain.grid for domain in domains])
            for title, size, bounded in rivals:
                scores = [rival.score_samples(part, size, bounded) for part in (valid, test)]
                found[title] = scores, rival.settings, 0.0
        models: dict[str, Any] = {
            "CutsetNetwork": CutsetNetwork(columns=kinds, n_jobs=n_jobs),
            "CutsetMixture": CutsetMixture(SIZES, columns=kinds, n_jobs=n_jobs, random_state=0),
            "CutsetEnsemble": CutsetEnsemble(
                columns=kinds, n_jobs=n_jobs, random_state=0, **ensemble
            ),
        }
        for title, model in models.items():
            if only is not None and title not in only:
                continue
            start = time.perf_counter()
            model.fit(train)
            seconds = time.perf_counter() - start
            settings = " ".join(f"{k}={v:g}" for k, v in ensemble.items())
            scores = [model.score_samples(part) for part in (valid, test)]
            found[title] = scores, settings if title == "CutsetEnsemble" else "", seconds
        for title, (scores, settings, seconds) in found.items():
            row = {
                "dataset": name,
                "model": title,
                "valid_ll": f"{scores[0].mean():.4f}",
                "test_ll": f"{scores[1].mean():.4f}",
                "rows": len(train),
                "columns": train.shape[1],
                "seconds": f"{seconds:.1f}",
                "n_jobs": n_jobs,
                "load": load(),
                "settings": settings,
                "steps": printed,
            }
            with open_csv(NUMBERS_PATH, list(row), "dataset", "model") as store:
                store.append({key: str(value) for key, value in row.items()})
            print(f"{name}, {title}: {row['test_ll']} (valid {row['valid_ll']})", flush=True)
        print(f"  steps: {printed}")
        for column in describe_table(train).columns:
            for warning in column.warnings:
                print(f"  {column.name}: {warning}")


def numbers_table() -> str:
    """Test log-likelihoods of tables of numbers as Markdown."""
    found = list(latest(NUMBERS_PATH, "dataset", "model").values())
    titles = [
        "Gaussian mixture", "average of 8", "Gaussian mixture, unbounded",
        "average of 8, unbounded", "CutsetNetwork", "CutsetMixture", "CutsetEnsemble",
    ]  # fmt: skip
    lines = []
    for name in NUMBERS:
        rows = {r["model"]: r for r in found if r["dataset"] == name}
        if rows:
            some = next(iter(rows.values()))
            cells = [f"{float(rows[t]['test_ll']):.2f}" if t in rows else "" for t in titles]
            lines.append([name, f"{some['rows']} x {some['columns']}", *cells, some["steps"]])
    return "\n".join(markdown(["set", "training", *titles, "steps"], lines, left=(0, 9)))


def steps(train: pd.DataFrame) -> str:
    """Recording steps of the real columns."""
    report = describe_table(train)
    return " ".join(f"{c.name}={c.step:g}" for c in report.columns if c.step is not None)


def run(
    names: list[str],
    ensemble: dict[str, Any],
    n_jobs: int,
    folder: Path,
    only: list[str] | None = None,
) -> None:
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
            "CutsetMixture": CutsetMixture(SIZES, n_jobs=n_jobs, random_state=0),
            "CutsetEnsemble": CutsetEnsemble(n_jobs=n_jobs, random_state=0, **ensemble),
        }
        if sum(c.startswith("x") for c in train) > 1:
            models["Gaussian mixture"] = GaussianBesideLabels()
        if importlib.util.find_spec("lace") is not None:
            models["Lace"] = Lace()
        for title, model in models.items():
            if only is not None and title not in only:
                continue
            start = time.perf_counter()
            if title == "Gaussian mixture":
                model.fit(train, valid)
            else:
                model.fit(train)
            seconds = time.perf_counter() - start
            score = model.score_samples(test)
            settings = getattr(model, "settings", "")
            if title == "Lace":
                settings += f", {np.isfinite(score).sum()} of {len(test)} test rows"
            if title == "CutsetEnsemble":
                settings = " ".join(f"{k}={v:g}" for k, v in ensemble.items()) + " random_state=0"
            row = {
                "dataset": name,
                "model": title,
                "valid_ll": f"{np.nanmean(model.score_samples(valid)):.4f}",
                "test_ll": f"{np.nanmean(score):.4f}",
                "new_rows_ll": f"{np.nanmean(score[new]):.4f}",
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
    titles = [
        "independence", "Gaussian mixture", "Lace", "CutsetNetwork", "CutsetMixture",
        "CutsetEnsemble",
    ]  # fmt: skip
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
    return "\n".join(markdown(head, lines, left=(0, 8)))


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "numbers", "table"))
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *NUMBERS])
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for an ensemble")
    parser.add_argument("--chains", type=int, help="chains of an ensemble instead of seconds")
    parser.add_argument("--bags", type=int, default=16, help="bags of such an ensemble")
    parser.add_argument("--only", nargs="+", help="models to run")
    parser.add_argument("--jobs", type=int, default=-1)
    default = Path(os.environ.get("BAYESCUT_DATA", "data")) / "mixed"
    parser.add_argument("--data", type=Path, default=default, help="folder of the sets")
    arguments = parser.parse_args(words)
    ensemble: dict[str, Any] = {"time_budget": arguments.budget}
    if arguments.chains is not None:
        ensemble = {"n_chains": arguments.chains, "n_bags": arguments.bags}
    if arguments.command == "run":
        run(arguments.sets or list(SETS), ensemble, arguments.jobs, arguments.data, arguments.only)
    elif arguments.command == "numbers":
        run_numbers(
            arguments.sets or list(NUMBERS), ensemble, arguments.jobs, arguments.data,
            arguments.only,
        )  # fmt: skip
    else:
        publish(RESULTS / "mixed.md", f"{table()}\n\n{numbers_table()}")


if __name__ == "__main__":
    main()
