"""Is the score honest? Score per training row against test log-likelihood, with and without prior.

    python benchmarks/calibration.py

A log posterior that is to choose structures should not promise more than new rows keep. Both
columns come from `CutsetNetwork(width=1, shrinkage=False)`, with the structure prior and without,
on the twenty data sets (train and validation parts together, scored on the test part): the score
is about posterior means, not about shrunken tables. Writes a CSV and a figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import bayescut as bc
from _results import RESULTS, learning_rows, write_csv
from bayescut.datasets import DEBD_NAMES, fetch_debd

FIELDS = ["dataset", "prior", "score_per_row", "test_ll", "parameters"]


def measure(names: list[str]) -> list[dict[str, object]]:
    """Fit both learners on every data set."""
    rows = []
    for name in names:
        data = fetch_debd(name)
        X = learning_rows(data)
        for prior in (False, True):
            model = bc.CutsetNetwork(width=1, structure_prior=prior, shrinkage=False).fit(X)
            rows.append(
                {
                    "dataset": name,
                    "prior": prior,
                    "score_per_row": round(model.structure_score_ / len(X), 4),
                    "test_ll": round(model.score(data.test), 4),
                    "parameters": model.n_parameters_,
                }
            )
            print("{dataset:12s} prior {prior!s:5} {score_per_row:10.3f} {test_ll:10.3f}".format(
                **rows[-1]  # type: ignore[arg-type]
            ))  # fmt: skip
    return rows


def draw(rows: list[dict[str, object]], path: Path) -> None:
    """Gap between promise and test, one line for each data set."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(str(row["dataset"]) for row in rows))
    figure, axes = plt.subplots(figsize=(7.0, 0.28 * len(names) + 1.4), layout="constrained")
    for prior, colour, marker, label in (
        (False, "#d1495b", "o", "without prior"),
        (True, "#1f6f8b", "D", "with structure prior"),
    ):
        gaps = [
            100 * (float(r["score_per_row"]) - float(r["test_ll"])) / abs(float(r["test_ll"]))  # type: ignore[arg-type]
            for r in rows
            if r["prior"] == prior
        ]
        axes.plot(gaps, np.arange(len(names)), marker, color=colour, label=label, markersize=6)
    axes.axvline(0.0, color="0.5", linewidth=1)
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("score per training row above test log-likelihood, % (0: honest)")
    axes.grid(axis="x", color="0.85")
    axes.legend(loc="lower right", frameon=True)
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(DEBD_NAMES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args(arguments)
    rows = measure(args.sets)
    (args.results / "figures").mkdir(parents=True, exist_ok=True)
    write_csv(args.results / "calibration.csv", FIELDS, rows)
    draw(rows, args.results / "figures" / "calibration.png")


if __name__ == "__main__":
    main()
