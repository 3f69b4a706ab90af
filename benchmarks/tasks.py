"""The jobs people have: classify with features missing, fill gaps, intervals, odd cells.

    python benchmarks/tasks.py classify --sets vehicle diabetes --folds 1
    python benchmarks/tasks.py impute --sets iris glass
    python benchmarks/tasks.py labels           # gaps in tables of labels
    python benchmarks/tasks.py intervals
    python benchmarks/tasks.py anomalies
    python benchmarks/tasks.py table            # Markdown from what has been run
    python benchmarks/tasks.py pictures         # those of the documentation

The tables lie in the folder ``mixed`` of ``BAYESCUT_DATA``: the sets of GeFs (Correia et al. 2020)
for classification, fourteen of the sets of ForestDiffusion (Jolicoeur-Martineau et al. 2024) for
imputation. Folds, masks and seeds are fixed. Settings are the defaults of the library and of the
rivals; ours were chosen on other sets (diabetes of scikit-learn, authent, vehicle and vowel without
their classes for gaps; diabetes of scikit-learn, authent and slump for numbers; glass for classes).
Before normal scores were added to the imputer, its errors on iris, wheat-seeds and glass had been
seen; whether they count, and how much, is decided column by column on training cells. A
result is on the disk as soon as it is there, and a line that is there is not run again. Seconds of
imputation are those of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import MinMaxScaler

from _jobs_figures import draw_jobs
from _results import RESULTS, latest, load, markdown, open_csv, publish
from bayescut import (
    CutsetClassifier,
    CutsetImputer,
    CutsetOutlierDetector,
    CutsetRegressor,
)
from mixed import Lace

PATH = RESULTS / "tasks.csv"
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
FIELDS = [
    "job", "dataset", "fold", "method", "missing", "score", "second", "fit_seconds", "seconds",
    "load", "calibration",
]  # fmt: skip
KEYS = ("job", "dataset", "fold", "method", "missing")

# What gives the answer away or names a row.
LEFT_OUT = {
    "miceprotein": ["MouseID", "Genotype", "Treatment", "Behavior"],
    "splice": ["Instance_name"],
    "vowel": ["Speaker_Number"],
}
CLASSIFY = [
    "diabetes", "vehicle", "wdbc", "cmc", "vowel", "authent", "german", "segment",
    "winequality_red", "dresses", "kr-vs-kp", "splice", "miceprotein", "phishing",
    "winequality_white", "gesture", "dna", "jungle",
]  # fmt: skip
IMPUTE = [
    "iris", "wine", "wheat-seeds", "uci-yacht", "uci-concreteslump", "glass", "ecoli",
    "uci-concrete", "uci-airfoil", "wdbc", "ionosphere", "winequality_red", "sonar",
    "winequality_white",
]  # fmt: skip
LABELS = ["breast-cancer", "cmc", "german"]
MISSING = (0.0, 0.3, 0.6, 0.9)


def folder() -> Path:
    """Where the tables are."""
    return Path(os.environ.get("BAYESCUT_DATA", "data")) / "mixed"


def class_table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features and classes of a set of GeFs; the class is the last column."""
    german = name == "german"
    frame = pd.read_csv(
        folder() / f"gefs-{name}" / "data.csv.gz",
        header=None if german else "infer",
        sep=" " if german else ",",
        na_values=["?"],
        quotechar="'" if name == "kr-vs-kp" else '"',
    )
    frame.columns = [str(column) for column in frame.columns]
    frame = frame.drop(columns=LEFT_OUT.get(name, []))
    return frame.iloc[:, :-1], frame.iloc[:, -1].astype(str).to_numpy()


def hide(X: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Hide a share of the cells, completely at random."""
    hidden = rng.random(X.shape) < share
    kinds = {c: float if X[c].dtype.kind in "iuf" else object for c in X.columns}
    return X.astype(kinds).mask(hidden)


class Coded:
    """Tables as rivals take them: numbers as they are, labels as numbers or one-hot."""

    def __init__(self, X: pd.DataFrame) -> None:
        self.labels = [c for c in X.columns if X[c].dtype.kind not in "iuf"]
        self.known = {c: sorted(X[c].dropna().astype(str).unique()) for c in self.labels}

    def numbers(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return labels as their positions, NaN where missing or unknown."""
        out = X.copy()
        for column in self.labels:
            place = {label: k for k, label in enumerate(self.known[column])}
            out[column] = X[column].map(lambda v, p=place: p.get(str(v), np.nan)).astype(float)
        return out.astype(float)

    def dummies(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return labels as one column for each state, all NaN where missing."""
        out = self.numbers(X)
        parts = [out.drop(columns=self.labels)]
        for column in self.labels:
            for k in range(len(self.known[column])):
                values = (out[column] == k).astype(float).where(out[column].notna())
                parts.append(values.rename(f"{column}={k}").to_frame())
        return pd.concat(parts, axis=1)


class Boosted:
    """Gradient boosting, which takes NaN as it comes; with masks, it has seen NaN in training."""

    def __init__(self, masks: bool) -> None:
        self.masks = masks

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Boosted:
        self.coded = Coded(X)
        if self.masks:
            # Every row four times: whole, and with each of the shares of the test hidden.
            rng = np.random.default_rng(1)
            X = pd.concat([X] + [hide(X, share, rng) for share in MISSING[1:]])
            y = np.tile(y, len(MISSING))
        chosen = [c in self.coded.labels for c in X.columns]
        wide = any(len(v) > 250 for v in self.coded.known.values())
        self.model = HistGradientBoostingClassifier(
            categorical_features=None if wide else chosen, random_state=0, early_stopping=True
        )
        self.model.fit(self.coded.numbers(X), y)
        return self

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.coded.numbers(X))


class ForestKNN:
    """Random forest on complete rows; missing features are filled from the seven nearest rows."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> ForestKNN:
        self.coded = Coded(X)
        table = self.coded.dummies(X)
        self.scale = MinMaxScaler().fit(table)
        self.fill = KNNImputer(n_neighbors=7).fit(self.scale.transform(table))
        self.model = RandomForestClassifier(300, random_state=0, n_jobs=1)
        self.model.fit(self._ready(X), y)
        return self

    def _ready(self, X: pd.DataFrame) -> np.ndarray:
        return self.fill.transform(self.scale.transform(self.coded.dummies(X)))

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self._ready(X))


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "CutsetClassifier": lambda: CutsetClassifier(n_jobs=1),
    "HistGB": lambda: Boosted(False),
    "HistGB, masks": lambda: Boosted(True),
    "forest, KNN-7": ForestKNN,
}


def classify(names: list[str], folds: int, most_rows: int) -> Iterator[dict[str, Any]]:
    """Accuracy and log-loss of every method on the same folds with the same cells hidden."""
    for name in names:
        X, y = class_table(name)
        labels = np.unique(y)
        splits = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
        for fold, (train, test) in zip(range(folds), splits, strict=False):
            train, test = train[:most_rows], test[:most_rows]
            for method, make in CLASSIFIERS.items():
                wanted = {"job": "classify", "dataset": name, "fold": fold, "method": method}
                if done(**wanted):
                    continue
                start = time.perf_counter()
                model = make().fit(X.iloc[train], y[train])
                fitted = time.perf_counter() - start
                present = np.unique(y[train])
                for share in MISSING:
                    rng = np.random.default_rng([fold, round(10 * share)])
                    rows = hide(X.iloc[test], share, rng)
                    start = time.perf_counter()
                    found = model.predict_proba(rows)
                    seconds = time.perf_counter() - start
                    proba = np.full((len(test), len(labels)), 1e-15)
                    proba[:, np.isin(labels, present)] = found
                    # Forests say 0; without a floor a single row decides their log-loss.
                    proba = np.clip(proba, 1e-6, None)
                    proba /= proba.sum(axis=1, keepdims=True)
                    yield wanted | {
                        "missing": share,
                        "score": f"{accuracy_score(y[test], labels[proba.argmax(axis=1)]):.4f}",
                        "second": f"{log_loss(y[test], proba, labels=labels):.4f}",
                        "fit_seconds": f"{fitted:.1f}",
                        "seconds": f"{seconds:.2f}",
                        "calibration": f"{calibration_error(labels, y[test], proba):.4f}",
                    }


def calibration_error(labels: np.ndarray, y: np.ndarray, proba: np.ndarray) -> float:
    """Mean distance between how sure a method is of its class and how often it is right.

    In ten bins of equal numbers of rows.
    """
    sure = proba.max(axis=1)
    right = labels[proba.argmax(axis=1)] == y
    order = np.argsort(sure, kind="stable")
    bins = np.array_split(order, min(10, len(order)))
    return float(sum(len(b) * abs(sure[b].mean() - right[b].mean()) for b in bins) / len(order))


def number_table(name: str) -> pd.DataFrame:
    """The numbers of a set for imputation, without its class."""
    bundled = {"iris": load_iris, "wine": load_wine, "wdbc": load_breast_cancer}
    if name in bundled:
        return pd.DataFrame(bundled[name]().data)
    if name.startswith("winequality"):
        return pd.read_csv(folder() / f"gefs-{name}" / "data.csv.gz").iloc[:, :-1].astype(float)
    frame = pd.read_csv(folder() / name / "data.csv.gz", header=None)
    if not name.startswith("uci-"):
        frame = frame.iloc[:, :-1]
    return frame.astype(float)


def imputers(n_columns: int) -> dict[str, Callable[[], Any]]:
    """Methods of imputation by name."""
    forest = RandomForestRegressor(30, max_features="sqrt", random_state=0, n_jobs=1)
    return {
        "CutsetImputer": lambda: CutsetImputer(n_jobs=1),
        "KNN-5": lambda: KNNImputer(n_neighbors=5),
        "median": lambda: SimpleImputer(strategy="median"),
        "forests in turn": lambda: IterativeImputer(forest, max_iter=5, random_state=0, tol=1e-2),
    }


def impute(names: list[str], folds: int) -> Iterator[dict[str, Any]]:
    """Mean absolute error of hidden cells, columns scaled to [0, 1]; 20 % are hidden.

    Beside it that of the nearest of five draws, cell by cell.
    """
    for name in names:
        table = pd.DataFrame(MinMaxScaler().fit_transform(number_table(name)))
        for fold in range(folds):
            hidden = np.random.default_rng([fold, 5]).random(table.shape) < 0.2
            gappy = table.mask(hidden)
            gappy = gappy.loc[:, gappy.notna().any()]
            for method, make in imputers(table.shape[1]).items():
                wanted = {"job": "impute", "dataset": name, "fold": fold, "method": method}
                if done(**wanted):
                    continue
                start = time.process_time()
                model = make()
                filled = np.asarray(model.fit_transform(gappy))
                seconds = time.process_time() - start
                error = np.abs(filled - table.to_numpy())[hidden].mean()
                best = error
                if method == "CutsetImputer":
                    draws = model.draws(gappy, 5)
                    apart = [np.abs(d.to_numpy() - table.to_numpy())[hidden] for d in draws]
                    best = np.min(apart, axis=0).mean()
                yield wanted | {
                    "missing": 0.2,
                    "score": f"{error:.4f}",
                    "second": f"{best:.4f}",
                    "fit_seconds": f"{seconds:.1f}",
                }


def label_table(name: str) -> pd.DataFrame:
    """A table of labels; numbers of few values are labels, others are left out."""
    if name == "breast-cancer":
        frame = pd.read_csv(folder() / name / "data.csv.gz", header=None, dtype=str)
    else:
        X, y = class_table(name)
        frame = X.assign(target=y).loc[:, lambda f: f.nunique() <= 20].astype(str)
    frame = frame.apply(lambda column: column.str.strip("'"))
    frame.columns = [str(column) for column in frame.columns]
    return frame.where(~frame.isin(["?", "nan"]))


def fill_labels(method: str, gappy: pd.DataFrame) -> pd.DataFrame:
    """Fill a table of labels."""
    if method == "CutsetImputer":
        return CutsetImputer(n_jobs=1).fit_transform(gappy)
    if method == "most frequent":
        return gappy.fillna(gappy.mode().iloc[0])
    coded = Coded(gappy)
    table = coded.dummies(gappy)
    if method == "KNN-5":
        model: Any = KNNImputer(n_neighbors=5)
    else:
        forest = RandomForestRegressor(30, max_features="sqrt", random_state=0, n_jobs=1)
        model = IterativeImputer(forest, max_iter=5, random_state=0, tol=1e-2)
    dense = pd.DataFrame(model.fit_transform(table), columns=table.columns, index=table.index)
    out = gappy.copy()
    for column in coded.labels:
        own = [f"{column}={k}" for k in range(len(coded.known[column]))]
        best = np.array(coded.known[column])[dense[own].to_numpy().argmax(axis=1)]
        out[column] = out[column].where(out[column].notna(), best)
    return out


def labels(names: list[str], folds: int) -> Iterator[dict[str, Any]]:
    """Share of hidden labels that are filled in right; 20 % are hidden."""
    for name in names:
        table = label_table(name)
        for fold in range(folds):
            hidden = np.random.default_rng([fold, 6]).random(table.shape) < 0.2
            hidden &= table.notna().to_numpy()
            gappy = table.mask(hidden)
            for method in ("CutsetImputer", "KNN-5", "most frequent", "forests in turn"):
                wanted = {"job": "labels", "dataset": name, "fold": fold, "method": method}
                if done(**wanted):
                    continue
                start = time.process_time()
                filled = fill_labels(method, gappy)
                seconds = time.process_time() - start
                right = (filled.to_numpy() == table.to_numpy())[hidden].mean()
                yield wanted | {
                    "missing": 0.2,
                    "score": f"{right:.4f}",
                    "fit_seconds": f"{seconds:.1f}",
                }


def intervals(names: list[str], folds: int) -> Iterator[dict[str, Any]]:
    """Coverage of 80 % intervals, and R2 beside it.

    Repeated rows count once: on both sides of a fold they would flatter all.
    """
    for name in names:
        table = number_table(name).drop_duplicates(ignore_index=True)
        X, y = table.iloc[:, :-1], table.iloc[:, -1].to_numpy()
        splits = KFold(5, shuffle=True, random_state=0).split(X)
        for fold, (train, test) in zip(range(folds), splits, strict=False):
            wanted: dict[str, Any] = {"job": "intervals", "dataset": name, "fold": fold}
            if done(**wanted, method="CutsetRegressor"):
                continue
            start = time.perf_counter()
            model = CutsetRegressor(n_jobs=1).fit(X.iloc[train], y[train])
            fitted = time.perf_counter() - start
            low, high = model.interval(X.iloc[test], 0.8).T
            inside = np.mean((low <= y[test]) & (y[test] <= high))
            yield wanted | {
                "method": "CutsetRegressor",
                "missing": 0.0,
                "score": f"{inside:.4f}",
                "second": f"{model.score(X.iloc[test], y[test]):.4f}",
                "fit_seconds": f"{fitted:.1f}",
            }
            forest = RandomForestRegressor(300, random_state=0, n_jobs=1)
            forest.fit(X.iloc[train], y[train])
            trees = np.array([t.predict(X.iloc[test].to_numpy()) for t in forest.estimators_])
            low, high = np.quantile(trees, [0.1, 0.9], axis=0)
            yield wanted | {
                "method": "forest, spread of trees",
                "missing": 0.0,
                "score": f"{np.mean((low <= y[test]) & (y[test] <= high)):.4f}",
                "second": f"{forest.score(X.iloc[test], y[test]):.4f}",
            }


def anomalies(names: list[str], folds: int) -> Iterator[dict[str, Any]]:
    """AUC of rows with one cell exchanged for that of another row; how often the cell is found."""
    for name in names:
        table = number_table(name)
        splits = KFold(5, shuffle=True, random_state=0).split(table)
        for fold, (train, test) in zip(range(folds), splits, strict=False):
            rng = np.random.default_rng([fold, 9])
            usual, odd = table.iloc[test], table.iloc[test].copy()
            changed = rng.integers(0, table.shape[1], len(test))
            for row, column in enumerate(changed):
                others = table.iloc[train, column].to_numpy()
                odd.iat[row, column] = rng.choice(others[others != odd.iat[row, column]])
            both = pd.concat([usual, odd])
            truth = np.repeat([0, 1], len(test))
            wanted = {"job": "anomalies", "dataset": name, "fold": fold, "missing": 0.0}
            installed = importlib.util.find_spec("lace") is not None
            if installed and not done("anomalies", name, fold, "Lace"):
                yield wanted | {"method": "Lace"} | by_lace(table.iloc[train], both, truth, changed)
            if done("anomalies", name, fold, "CutsetOutlierDetector"):
                continue
            start = time.perf_counter()
            model = CutsetOutlierDetector(n_jobs=1).fit(table.iloc[train])
            fitted = time.perf_counter() - start
            auc = roc_auc_score(truth, -model.score_samples(both))
            surprise = model.surprisal(both, relative=True).to_numpy()
            hit = np.mean(surprise[len(test) :].argmax(axis=1) == changed)
            yield wanted | {
                "method": "CutsetOutlierDetector",
                "score": f"{auc:.4f}",
                "second": f"{hit:.4f}",
                "fit_seconds": f"{fitted:.1f}",
            }
            auc = roc_auc_score(truth, surprise.max(axis=1))
            yield wanted | {"method": "largest surprisal", "score": f"{auc:.4f}"}
            forest = IsolationForest(random_state=0).fit(table.iloc[train])
            auc = roc_auc_score(truth, -forest.score_samples(both))
            yield wanted | {"method": "IsolationForest", "score": f"{auc:.4f}"}


def by_lace(
    train: pd.DataFrame, both: pd.DataFrame, truth: np.ndarray, changed: np.ndarray
) -> dict[str, Any]:
    """Odd rows by their density, odd cells by their density given the rest of their row."""
    train, both = (part.astype(float).add_prefix("x") for part in (train, both))
    start = time.perf_counter()
    model = Lace().fit(train)
    fitted = time.perf_counter() - start
    auc = roc_auc_score(truth, -model.score_samples(both))
    odd = both.iloc[len(both) - len(changed) :]
    hits = 0
    for (_, row), column in zip(odd.iterrows(), changed, strict=True):
        known = row.to_dict()
        surprise = [
            -model.log_density_given({name: known[name]}, {c: known[c] for c in known if c != name})
            for name in known
        ]
        hits += int(np.argmax(surprise)) == column
    return {
        "score": f"{auc:.4f}",
        "second": f"{hits / len(odd):.4f}",
        "fit_seconds": f"{fitted:.1f}",
    }


def keep(results: Iterator[dict[str, Any]]) -> None:
    """Write results as they come."""
    with open_csv(PATH, FIELDS, *KEYS) as store:
        for row in results:
            store.append({**row, "load": load()})
            print(", ".join(f"{k} {v}" for k, v in row.items()), flush=True)


def done(job: str, dataset: str, fold: int, method: str) -> bool:
    """Whether a result is there already."""
    known = latest(PATH, "job", "dataset", "fold", "method")
    return (job, dataset, str(fold), method) in known


def table() -> str:
    """Means over the sets and folds that every method has been run on."""
    rows = list(latest(PATH, *KEYS).values())
    parts: list[str] = []
    heads = {
        "classify": ("accuracy", "log-loss"),
        "impute": ("mean absolute error", "best of 5 draws"),
        "labels": ("accuracy", ""),
        "intervals": ("coverage of 80 %", "R2"),
        "anomalies": ("AUC", "cell found"),
    }
    for job, (first, second) in heads.items():
        own = pd.DataFrame([row for row in rows if row["job"] == job])
        if own.empty:
            continue
        numbers = ["score", "second", "calibration", "fit_seconds"]
        own[numbers] = own.reindex(columns=numbers).apply(pd.to_numeric)
        # A mean over other sets than those of the rivals would say nothing.
        told = own.groupby(["dataset", "fold", "missing"]).calibration.transform("count")
        own.loc[told < own.method.nunique(), "calibration"] = np.nan
        methods = own.method.unique()
        place = own.groupby(["dataset", "fold", "missing"]).method.nunique()
        shared = place[place == len(methods)].index
        own = own.set_index(["dataset", "fold", "missing"]).loc[shared].reset_index()
        sets = sorted(own.dataset.unique())
        means = own.groupby(["missing", "method"])[numbers].mean()
        heading = ["missing", "method", first, second, "calibration error", "seconds to fit"]
        used = [k for k, title in enumerate(heading[2:]) if title]
        if means.calibration.isna().all():
            used.remove(2)
        lines = [
            [
                str(missing),
                str(method),
                *(f"{row[k]:.3f}" if row[k] == row[k] else "" for k in used),
            ]
            for (missing, method), row in zip(means.index, means.to_numpy(), strict=True)
        ]
        n_folds = own.fold.nunique()
        parts += [f"**{job}**: {len(sets)} sets ({', '.join(sets)}), {n_folds} fold(s)", ""]
        heading = heading[:2] + [heading[2 + k] for k in used]
        parts += [*markdown(heading, lines), ""]
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    jobs = ["classify", "impute", "labels", "intervals", "anomalies", "table", "pictures"]
    parser.add_argument("job", choices=jobs)
    parser.add_argument("--sets", nargs="+", help="data sets, by default all of the job")
    parser.add_argument("--folds", type=int, default=1, help="how many of the folds or masks")
    parser.add_argument("--rows", type=int, default=4000, help="most rows to learn from")
    parser.add_argument("--results", type=Path, help="another file, for runs side by side")
    options = parser.parse_args(arguments)
    if options.results is not None:
        global PATH
        PATH = options.results
    numbers = ["uci-concrete", "uci-airfoil", "uci-yacht", "winequality_red"]
    if options.job == "classify":
        keep(classify(options.sets or CLASSIFY, options.folds, options.rows))
    elif options.job == "impute":
        keep(impute(options.sets or IMPUTE, options.folds))
    elif options.job == "labels":
        keep(labels(options.sets or LABELS, options.folds))
    elif options.job == "intervals":
        keep(intervals(options.sets or numbers, options.folds))
    elif options.job == "anomalies":
        keep(anomalies(options.sets or numbers, options.folds))
    elif options.job == "pictures":
        for path in draw_jobs(list(latest(PATH, *KEYS).values()), PICTURES):
            print(path.relative_to(PICTURES.parents[1]))
    else:
        publish(RESULTS / "tasks.md", table())


if __name__ == "__main__":
    main()
