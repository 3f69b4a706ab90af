"""The cutset learners before Bayesian scores (CNet, XCNet, dCSN): are they the published ones.

    python benchmarks/rivals.py                          # CNet and XCNet, all sets: a minute
    python benchmarks/rivals.py --learners DCSN --sets nltcs plants dna
    python benchmarks/rivals.py --learners               # only the table of what has been run

Training and validation rows are stacked, as in the paper (Yang, Gala, Peharz, AISTATS 2023), whose
values stand in ``reference/``. CNet and DCSN agree if their test log-likelihood lies
within 1 % of the published one; XCNet if the mean of ten seeds lies within two standard deviations
of a run. Seconds are of one `fit` with warm kernels: the best of three (CNet), the mean of ten
seeds (XCNet), one (DCSN). Processor seconds (of all threads together) are what the clock would
show for CNet and XCNet on a machine that does nothing else.

Published sizes of dCSN are of networks learned from the training part alone, 2 for an edge and 1
for a leaf, less 4; these are learned too, to compare (--skip-sizes: not).

Leaves of a few rows have many equally good trees. Ours takes the edge of the lowest index, which
makes the first column the hub; in ``tretail`` and ``kosarek`` columns are sorted by frequency, so
that the hub is a column whose value is often not the one seen in the leaf, and then all others are
predicted by the prior. ``XCNet-shuffled`` is XCNet with the columns in random order, as a check.

Every result is appended to a CSV file as it comes; what is there is not run again without --force.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import bayescut as bc
from _results import (
    REFERENCE,
    RESULTS,
    Row,
    latest,
    learning_rows,
    markdown,
    open_csv,
    publish,
    read_csv,
    warm_up,
)
from bayescut.datasets import DEBD_NAMES, fetch_debd

PUBLISHED = {"CNet": "CNet", "XCNet": "XCNet", "XCNet-shuffled": "XCNet", "DCSN": "dCSN"}
SEEDS = 10
FIELDS = [
    "dataset", "learner", "rows", "columns", "test_ll", "test_ll_sd", "paper_test_ll", "agrees",
    "parameters", "parameters_as_published", "paper_parameters", "cuts", "seconds",
    "processor_seconds", "paper_seconds", "ratio",
]  # fmt: skip


def published(kind: str) -> dict[tuple[str, str], float]:
    """A published table by data set and learner."""
    return {
        (row["dataset"], name): float(row[column])
        for row in read_csv(REFERENCE / f"{kind}.csv")
        for name, column in PUBLISHED.items()
    }


def learners_of(name: str) -> list[bc.CNet | bc.XCNet | bc.DCSN]:
    """The models that are fitted in turn: seeds of XCNet, repetitions of CNet."""
    if name.startswith("XCNet"):
        return [bc.XCNet(random_state=seed) for seed in range(SEEDS)]
    return [bc.CNet() for _ in range(3)] if name == "CNet" else [bc.DCSN()]


def measure(name: str, dataset: str, sizes: bool) -> Row:
    """Learn and score one cell."""
    data = fetch_debd(dataset)
    X = learning_rows(data)
    models = learners_of(name)
    random = name.startswith("XCNet")
    seconds, processor, scores = [], [], []
    for seed, model in enumerate(models):
        order = np.arange(X.shape[1])
        if name == "XCNet-shuffled":
            order = np.random.default_rng(seed).permutation(order)
        table = np.ascontiguousarray(X[:, order])
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(table)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - cpu)
        if random or seed == 0:
            scores.append(model.score(data.test[:, order]))
    spent, spent_cpu = (np.mean(t) if random else min(t) for t in (seconds, processor))
    kept = models[: len(scores)]
    mean = float(np.mean(scores))
    sd = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    parameters = float(np.mean([model.n_parameters_ for model in kept]))
    as_published = f"{parameters:.10g}"
    if name == "DCSN":
        part = bc.DCSN().fit(data.train) if sizes else None
        as_published = "" if part is None else str(part.n_parameters_ - part.n_cuts_ - 4)
    paper_ll = published("log_likelihood")[dataset, name]
    tolerance = 2.0 * sd if random else 0.01 * abs(paper_ll)
    paper_seconds = published("learning_time")[dataset, name]
    return {
        "dataset": dataset,
        "learner": name,
        "rows": str(len(X)),
        "columns": str(X.shape[1]),
        "test_ll": f"{mean:.4f}",
        "test_ll_sd": f"{sd:.4f}" if random else "",
        "paper_test_ll": f"{paper_ll:.3f}",
        "agrees": "yes" if abs(mean - paper_ll) <= tolerance else "no",
        "parameters": f"{parameters:.10g}",
        "parameters_as_published": as_published,
        "paper_parameters": f"{published('circuit_size')[dataset, name]:.10g}",
        "cuts": f"{np.mean([model.n_cuts_ for model in kept]):g}",
        "seconds": f"{spent:.4f}",
        "processor_seconds": f"{spent_cpu:.4f}",
        "paper_seconds": f"{paper_seconds:g}",
        "ratio": f"{paper_seconds / spent:.1f}",
    }


def table(path: Path) -> str:
    """Markdown tables of everything that has been run; agreement comes before time."""
    rows = latest(path, "dataset", "learner")
    lines = []
    for name, column in PUBLISHED.items():
        found = [rows[d, name] for d in DEBD_NAMES if (d, name) in rows]
        if not found:
            continue
        agree = sum(r["agrees"] == "yes" for r in found)
        sizes = [r for r in found if r["parameters_as_published"]]
        equal = sum(float(r["parameters_as_published"]) == float(r["paper_parameters"])
                    for r in sizes)  # fmt: skip
        ratios = [
            [math.log(float(r["paper_seconds"]) / float(r[clock])) for r in found]
            for clock in ("seconds", "processor_seconds")
        ]
        mean, mean_cpu = (math.exp(np.mean(logs)) for logs in ratios)
        lines += [f"## {name}", ""]
        lines.append(f"Test log-likelihoods agree on {agree} of {len(found)} sets.")
        if not name.startswith("XCNet"):
            lines.append(f"Sizes are the published ones on {equal} of {len(sizes)}.")
        lines.append(
            f"{mean:.0f} times as fast as published in the geometric mean by the clock, "
            f"{mean_cpu:.0f} times by processor seconds."
        )
        head = ["data set", f"{name}", f"{column}*", "", "parameters", "as published counts",
                "parameters*", "seconds", "processor", "seconds*", "ratio"]  # fmt: skip
        cells = []
        for r in found:
            spread = f" ± {float(r['test_ll_sd']):.3f}" if r["test_ll_sd"] else ""
            cells.append([
                r["dataset"], f"{float(r['test_ll']):.3f}{spread}", r["paper_test_ll"],
                "" if r["agrees"] == "yes" else "differs", r["parameters"],
                r["parameters_as_published"], r["paper_parameters"], r["seconds"],
                r["processor_seconds"],
                r["paper_seconds"], r["ratio"],
            ])  # fmt: skip
        lines += ["", *markdown(head, cells), ""]
    lines += [
        "* published numbers. XCNet: mean and standard deviation of a run; where it differs, ties",
        "between equally good trees are the reason (see the script), as the same learner shows",
        "with the columns in random order (XCNet-shuffled).",
    ]
    return "\n".join(lines)


def run(cells: Sequence[tuple[str, str]], args: argparse.Namespace) -> None:
    """Learn and score what is not yet in the results."""
    with open_csv(args.results, FIELDS, "dataset", "learner") as store:
        todo = store.missing(cells, force=args.force)
        if todo:
            tables = [fetch_debd("nltcs").train[:2000], fetch_debd("dna").train[:600]]
            warm_up([lambda name=name: learners_of(name)[0] for name in PUBLISHED], tables)
        for dataset, name in todo:
            row = measure(name, dataset, not args.skip_sizes)
            store.append(row)
            print(", ".join(f"{key} {value}" for key, value in row.items() if value != ""))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(DEBD_NAMES), choices=DEBD_NAMES)
    parser.add_argument("--learners", nargs="*", default=["CNet", "XCNet"], choices=PUBLISHED)
    parser.add_argument("--skip-sizes", action="store_true", help="DCSN: learn from all rows only")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    parser.add_argument("--results", type=Path, default=RESULTS / "rivals.csv")
    args = parser.parse_args(argv)
    cells = [(dataset, name) for name in args.learners for dataset in args.sets]
    if cells:
        run(cells, args)
    publish(args.results.with_suffix(".md"), table(args.results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
