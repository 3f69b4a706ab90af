"""LearnSPN, Strudel and ID-SPN: do they reach what was published of the originals, and how fast.

    python benchmarks/spn_rivals.py                           # small sets first, all learners
    python benchmarks/spn_rivals.py --learners Strudel --sets nltcs dna
    python benchmarks/spn_rivals.py --learners                # only the tables of what has been run
    python benchmarks/spn_rivals.py --ties accidents          # how much ties move a learning curve

Learned from the training part, settings and stopping by the validation part, scored on the test
part, as the originals were. Published values stand in ``bayescut.bench.reference`` (Yang, Gala,
Peharz, AISTATS 2023), with two exceptions: LearnSPN on jester is -53.48 (its -75.989 is a misprint;
logs of the original program say -53.5), and mixtures of Strudel are compared with the best of its
authors (dissertation of R. Geh). Points of learning curves are of the original program without an
early stop (repository UCLA-StarAI/Tractable-PC-Regularization).

LearnSPN's published values are not exact likelihoods: the original program approximates
exponentials and divides every sum by 1.01, which costs 0.04 nats at each sum that a row passes.
Ours are exact and should lie above.

A result agrees if it is at most so much below the published value: nothing (LearnSPN, exact against
approximate), 0.5 % (Strudel), 0.3 % (mixtures, ID-SPN), and 0.02 nats or 0.1 % either way (curves).
Seconds are of one `fit` by the clock and of all threads together (processor), on a machine that may
do other things: compare processor seconds. Every result is appended to a CSV file as it comes; what
is there is not run again without --force.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _results import REFERENCE, RESULTS, latest, load, markdown, open_csv, publish, read_csv
from bayescut.datasets import DEBD_NAMES, Dataset, fetch_debd
from bayescut.estimators import IDSPN, LearnSPN, Strudel
from bayescut.learn.strudel.grow import Growth, StrudelLearner, tied_for_most

# From the smallest table to the largest.
SETS = [
    "nltcs", "dna", "plants", "jester", "tretail", "baudio", "bnetflix", "accidents", "pumsb_star",
    "kosarek", "msweb", "tmovie", "book", "ad", "bbc", "cwebkb", "cr52", "msnbc", "kdd", "c20ng",
]  # fmt: skip
LEARNERS = ["LearnSPN", "Strudel", "Strudel-curve", "Strudel-bd", "Strudel-mixture", "IDSPN"]
COLUMN = {"LearnSPN": "LearnSPN", "Strudel": "Strudel", "Strudel-bd": "Strudel", "IDSPN": "ID-SPN"}
# How far below the published value a result may lie, as a part of it.
SLACK = {"LearnSPN": 0.0, "Strudel": 0.005, "Strudel-bd": 0.005, "Strudel-mixture": 0.003,
         "IDSPN": 0.003}  # fmt: skip
MIXTURES = {
    "nltcs": -6.06, "msnbc": -6.04, "kdd": -2.13, "plants": -12.98, "baudio": -41.50,
    "jester": -55.03, "bnetflix": -58.69, "accidents": -28.73, "tretail": -10.81,
    "pumsb_star": -24.12, "dna": -86.22, "kosarek": -10.68, "msweb": -9.71, "book": -34.99,
    "tmovie": -53.67, "cwebkb": -155.33, "cr52": -86.22, "c20ng": -154.47, "bbc": -254.41,
    "ad": -16.38,
}  # fmt: skip
# Test log-likelihood of the original program after 1000 and 2000 splits.
CURVES: dict[str, tuple[float, ...]] = {
    "nltcs": (-6.062, -6.082), "msnbc": (-6.121, -6.074), "kdd": (-2.172, -2.173),
    "plants": (-14.081, -13.754), "baudio": (-42.294, -42.489), "jester": (-55.254, -55.453),
    "bnetflix": (-58.669, -58.683), "accidents": (-30.863, -29.798), "tretail": (-10.994, -11.148),
    "pumsb_star": (-28.090, -26.501), "dna": (-95.709,), "kosarek": (-10.987, -10.949),
    "msweb": (-10.153, -10.089), "book": (-36.393, -35.790), "tmovie": (-63.572, -60.951),
    "cwebkb": (-162.166, -160.879), "cr52": (-93.653, -93.074), "c20ng": (-162.875, -161.953),
    "bbc": (-260.274, -258.947), "ad": (-16.496, -16.420),
}  # fmt: skip
# What a reader of a table has to know.
REMARKS = {
    "LearnSPN": "tmovie with the best of four starts of the chosen setting (the default), others "
    "with one (the default before). One start lies anywhere within half a nat on tmovie: with four "
    "its validation rises from -56.90 to -56.49. With other work beside it; on a quiet machine of "
    "two cores the grid of eight, with one start, takes 293 s for all twenty sets, 531 of "
    "processors.",
    "Strudel-curve": "accidents has columns that negate each other: nearly half of its splits have "
    "ties, which the original decides by rounding errors. The first, the last or a random one of "
    "tied columns give -30.53 to -30.80 and -29.77 to -29.85: ties move the curve as far as we are "
    "from the original, though no rule tried has its two values (`--ties accidents`).",
    "Strudel-mixture": "pumsb_star, msweb, book, tmovie and bbc with the default steps of EM, the "
    "others with fewer (`tol=1e-4`, `max_iter=100`).",
}
FIELDS = [
    "dataset", "learner", "test_ll", "valid_ll", "published", "agrees", "parameters", "nodes",
    "chosen", "seconds", "processor_seconds", "paper_seconds", "load",
]  # fmt: skip


def published(kind: str) -> dict[tuple[str, str], float]:
    """A published table by data set and learner."""
    rows = read_csv(REFERENCE / f"{kind}.csv")
    found = {(r["dataset"], name): float(r[c]) for r in rows for name, c in COLUMN.items()}
    if kind == "log_likelihood":
        found["jester", "LearnSPN"] = -53.48
        found |= {(name, "Strudel-mixture"): value for name, value in MIXTURES.items()}
    else:
        found |= {(r["dataset"], "Strudel-mixture"): float(r["Strudel"]) for r in rows}
    return found


def make(learner: str, n_jobs: int) -> Any:
    """The estimator of a learner, before it is fitted."""
    if learner == "LearnSPN":
        return LearnSPN(random_state=0, n_jobs=n_jobs)
    if learner == "IDSPN":
        return IDSPN(random_state=0, n_jobs=n_jobs)
    if learner == "Strudel-bd":
        return Strudel(criterion="bd", random_state=0, n_jobs=n_jobs)
    if learner == "Strudel-mixture":
        return Strudel(n_components=[5, 10, 20, 40], random_state=0, n_jobs=n_jobs)
    return Strudel(random_state=0, n_jobs=n_jobs)


def chosen(model: Any) -> str:
    """What was chosen on the validation rows."""
    names = (
        "cluster_penalty_", "g_factor_", "alpha_", "n_splits_", "n_components_", "max_clusters_",
        "n_extensions_", "n_iter_",
    )  # fmt: skip
    found = [(name, getattr(model, name)) for name in names if hasattr(model, name)]
    return " ".join(f"{name}={value:g}" for name, value in found)


def measure(learner: str, data: Dataset, n_jobs: int) -> dict[str, object]:
    """Learn and score one cell."""
    model = make(learner, n_jobs)
    start, cpu = time.perf_counter(), time.process_time()
    if learner == "Strudel-bd":
        model.fit(data.train)
    else:
        model.fit(data.train, X_valid=data.valid)
    seconds, processor = time.perf_counter() - start, time.process_time() - cpu
    value = model.score(data.test)
    target = published("log_likelihood")[data.name, learner]
    return {
        "dataset": data.name,
        "learner": learner,
        "test_ll": f"{value:.4f}",
        "valid_ll": f"{model.score(data.valid):.4f}",
        "published": f"{target:.3f}",
        "agrees": "yes" if value >= target * (1 + SLACK[learner]) else "no",
        "parameters": model.n_parameters_,
        "nodes": getattr(model, "n_nodes_", model.circuit_.n_nodes),
        "chosen": chosen(model),
        "seconds": f"{seconds:.2f}",
        "processor_seconds": f"{processor:.2f}",
        "paper_seconds": f"{published('learning_time')[data.name, learner]:g}",
        "load": load(),
    }


class RandomTies(Growth):
    """Strudel that splits on a random one of the columns that are tied."""

    seed = 0
    n_ties = 0

    def choose_column(self, edge: int) -> int:
        """One of the columns of most mutual information."""
        free, sums = self.information(edge)
        tied = tied_for_most(sums)
        self.n_ties += len(tied) > 1
        return int(free[np.random.default_rng([self.seed, len(self.splits)]).choice(tied)])


def ties(data: Dataset, n_seeds: int = 5) -> None:
    """Print learning curves for other decisions between tied columns.

    The original decides by the rounding errors of its sums, which no other program repeats.
    Accidents has pairs of columns that are each other's negation, with equal sums always.
    """
    for seed in range(n_seeds):
        growth = RandomTies(*_curve_learner(data), valid=data.test)
        growth.seed = seed
        found = " ".join(f"{value:.4f}" for value in _curve_points(growth, 2))
        print(f"{data.name}, seed {seed}: {found}; {growth.n_ties} of {len(growth.splits)} tied")


def _curve_learner(data: Dataset) -> tuple[StrudelLearner, Any, Any]:
    learner = StrudelLearner(patience=None, max_nodes=None)
    return learner, data.train, np.full(data.train.shape[1], 2)


def _curve_points(growth: Growth, n_points: int) -> list[float]:
    """Likelihood of the second rows after every thousand splits."""
    growth.start()
    found = []
    for k in range(n_points):
        while len(growth.splits) < 1000 * (k + 1) and growth.split_most_used():
            pass
        found.append(growth.valid_mean)
    return found


def curve(data: Dataset) -> dict[str, object]:
    """Test likelihood after 1000 and 2000 splits beside the original's."""
    start, cpu = time.perf_counter(), time.process_time()
    growth = Growth(*_curve_learner(data), valid=data.test)
    targets = CURVES[data.name]
    found = _curve_points(growth, len(targets))
    near = [
        abs(f - t) <= max(0.02, 0.001 * abs(t)) + 5e-4 for f, t in zip(found, targets, strict=True)
    ]
    return {
        "dataset": data.name,
        "learner": "Strudel-curve",
        "test_ll": " ".join(f"{value:.4f}" for value in found),
        "valid_ll": "",
        "published": " ".join(f"{value:.3f}" for value in targets),
        "agrees": "yes" if all(near) else "no",
        "parameters": "",
        "nodes": growth.n_nodes,
        "chosen": f"splits={len(growth.splits)}",
        "seconds": f"{time.perf_counter() - start:.2f}",
        "processor_seconds": f"{time.process_time() - cpu:.2f}",
        "paper_seconds": "",
        "load": load(),
    }


def table(path: Path) -> str:
    """Markdown tables of everything that has been run; agreement comes before time."""
    rows = latest(path, "dataset", "learner")
    lines: list[str] = []
    for learner in LEARNERS:
        found = [rows[d, learner] for d in DEBD_NAMES if (d, learner) in rows]
        if not found:
            continue
        agree = sum(r["agrees"] == "yes" for r in found)
        seconds = sum(float(r["processor_seconds"]) for r in found)
        missing = [d for d in DEBD_NAMES if (d, learner) not in rows]
        lines += [f"## {learner}", "", f"Agrees on {agree} of the {len(found)} sets that were run."]
        if missing:
            lines.append(f"Not run: {', '.join(missing)}.")
        paper = [float(r["paper_seconds"]) for r in found if r["paper_seconds"]]
        told = f"; published: {sum(paper):.0f} s" if paper else ""
        lines.append(f"Processor seconds of these sets together: {seconds:.0f}{told}.")
        if learner in REMARKS:
            lines.append(REMARKS[learner])
        head = ["data set", "test", "published*", "", "validation", "parameters", "nodes", "chosen",
                "seconds", "processor", "seconds*"]  # fmt: skip
        cells = [
            [r["dataset"], r["test_ll"], r["published"], "" if r["agrees"] == "yes" else "below",
             r["valid_ll"], r["parameters"], r["nodes"], r["chosen"], r["seconds"],
             r["processor_seconds"], r["paper_seconds"]]
            for r in found
        ]  # fmt: skip
        lines += ["", *markdown(head, cells), ""]
    lines.append("* published numbers, see the script for their sources.")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--learners", nargs="*", default=LEARNERS, choices=LEARNERS)
    parser.add_argument("--ties", choices=SETS, help="print curves for other decisions of ties")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    parser.add_argument("--results", type=Path, default=RESULTS / "spn_rivals.csv")
    args = parser.parse_args(argv)
    if args.ties:
        ties(fetch_debd(args.ties))
        return 0
    done = latest(args.results, "dataset", "learner")
    for dataset in args.sets:
        for learner in args.learners:
            if (dataset, learner) in done and not args.force:
                continue
            data = fetch_debd(dataset)
            row = curve(data) if learner == "Strudel-curve" else measure(learner, data, args.jobs)
            with open_csv(args.results, FIELDS, "dataset", "learner") as store:
                store.append({key: str(value) for key, value in row.items()})
            print(", ".join(f"{key} {value}" for key, value in row.items() if value), flush=True)
    publish(args.results.with_suffix(".md"), table(args.results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
