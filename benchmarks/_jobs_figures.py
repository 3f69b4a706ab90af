"""Pictures of the jobs, for the documentation: what `tasks.py` measured, and two real tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from sklearn.datasets import load_wine

import bayescut as bc
from bayescut.plots.depends import dependence_graph, dependence_map
from bayescut.report import compare_tables

# Ours first; colour-blind safe (Okabe and Ito).
_STYLES = {
    "CutsetClassifier": ("#0072b2", "o"),
    "CutsetImputer": ("#0072b2", "o"),
    "largest surprisal": ("#0072b2", "o"),
    "CutsetOutlierDetector": ("#56b4e9", "s"),
    "HistGB": ("#d55e00", "v"),
    "HistGB, masks": ("#cc79a7", "^"),
    "forest, KNN-7": ("#009e73", "D"),
    "forests in turn": ("#009e73", "D"),
    "KNN-5": ("#b8860b", "P"),
    "median": ("#80604d", "X"),
    "IsolationForest": ("#009e73", "D"),
    "Lace": ("#d55e00", "v"),
}
_TITLES = {
    "HistGB": "boosting",
    "HistGB, masks": "boosting, masks in training",
    "forest, KNN-7": "forest, gaps from 7 neighbours",
    "KNN-5": "five nearest rows",
    "IsolationForest": "isolation forest",
    "largest surprisal": "CutsetOutlierDetector, largest surprisal of a cell",
    "CutsetOutlierDetector": "CutsetOutlierDetector, score of the row",
}


def draw_jobs(rows: Sequence[dict[str, str]], folder: Path) -> list[Path]:
    """Draw everything; return the files.

    Parameters
    ----------
    rows : sequence of dict
        Lines of ``tasks.csv``.
    folder : Path
        Where the pictures go.
    """
    table = pd.DataFrame(rows)
    for column in ("missing", "score", "second"):
        table[column] = pd.to_numeric(table[column])
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "classify": _classify(table[table.job == "classify"]),
        "gaps": _by_set(table[table.job == "impute"], "mean absolute error, columns in [0, 1]"),
        "odd": _by_set(table[table.job == "anomalies"], "AUC, one cell of a row exchanged"),
        "synthetic": _synthetic(),
        "depends": _depends(),
    }
    files = []
    for name, figure in pictures.items():
        files.append(folder / f"{name}.png")
        figure.savefig(files[-1], dpi=110, facecolor="white")
        plt.close(figure)
    return files


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], method: str, line: str = "-") -> None:
    colour, marker = _STYLES[method]
    title = _TITLES.get(method, method)
    axes.plot(x, y, linestyle=line, color=colour, marker=marker, markersize=6, label=title)


def _classify(table: pd.DataFrame) -> plt.Figure:
    """Accuracy and log-loss against the share of features that are hidden."""
    figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    means = table.groupby(["method", "missing"])[["score", "second"]].mean()
    n_sets = table.dataset.nunique()
    for axes, column, title in zip(panels, means, ("accuracy", "log-loss"), strict=True):
        for method in [name for name in _STYLES if name in table.method.unique()]:
            values = means.loc[method, column]
            _line(axes, 100 * values.index.to_numpy(), values.to_numpy(), method)
        axes.set(xlabel="features hidden, %", title=f"{title}, mean of {n_sets} sets")
        axes.set_xticks([0, 30, 60, 90])
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].legend(frameon=False, loc="upper left")
    return figure


def _by_set(table: pd.DataFrame, title: str) -> plt.Figure:
    """One line for each set, one mark for each method."""
    table = table.groupby(["dataset", "method"]).score.mean().unstack()
    names = table.mean(axis=1).sort_values().index
    figure, axes = plt.subplots(figsize=(7.5, 0.3 * len(names) + 1.9), layout="constrained")
    for method in [name for name in _STYLES if name in table.columns]:
        _line(axes, table.loc[names, method].to_list(), list(range(len(names))), method, "none")
    axes.set_yticks(range(len(names)), [name.removeprefix("uci-") for name in names])
    axes.set_ylim(-0.5, len(names) - 0.5)
    axes.set_xlabel(title)
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure


def _wines() -> pd.DataFrame:
    wines = load_wine(as_frame=True)
    return wines.data.assign(cultivar=wines.target.map({0: "first", 1: "second", 2: "third"}))


def _synthetic() -> plt.Figure:
    """The report of a synthetic table of wines beside the real one."""
    wines = _wines().sample(frac=1, random_state=0)
    real, held_out = wines.iloc[::2], wines.iloc[1::2]
    model = bc.CutsetMixture(5, random_state=0).fit(real)
    return compare_tables(real, model.sample(len(real), random_state=0), held_out).draw()


def _depends() -> plt.Figure:
    """The mutual information of all pairs of columns of the wines: heat map and graph."""
    model = bc.CutsetMixture(5, random_state=0).fit(_wines())
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 5.4), layout="constrained")
    strength = model.mutual_information(normalised=True)
    dependence_map(strength, axes=left)
    dependence_graph(strength, axes=right, n_edges=20)
    return figure
