"""`ContinuousMixture` learned from training rows alone, and averages of a few of them.

    python benchmarks/continuous.py run --sets baudio jester --members 4
    python benchmarks/continuous.py table          # Markdown from what has been run

Every member learns from the training part; the validation part says when to stop and how many
points there are, and is not learned from. Settings were chosen on validation parts; the test part
is looked at once, with the settings of the results. Members differ in their seed, and with it in
their tree; each is averaged with those of the same run before it. A result is appended to a CSV
file as it comes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from _results import REFERENCE, RESULTS, latest, load, markdown, open_csv, publish, warm_up
from bayescut.datasets import DEBD_NAMES, fetch_debd
from bayescut.estimators import ContinuousMixture

FIELDS = [
    "dataset", "member", "valid_ll", "test_ll", "average_valid_ll", "average_test_ll", "epochs",
    "points", "parameters", "seconds", "processor_seconds", "n_jobs", "load", "settings",
]  # fmt: skip


def run(
    names: list[str],
    members: int,
    n_jobs: int,
    budget: float | None,
    settings: dict[str, float],
    with_test: bool,
    path: Path,
) -> None:
    """Learn and score the members of each set."""
    warm_up(
        [lambda: ContinuousMixture(n_points=8, max_epochs=1, n_jobs=n_jobs)],
        [fetch_debd("nltcs").train[:300]],
    )
    for name in names:
        data = fetch_debd(name)
        total_valid = np.full(len(data.valid), -np.inf)
        total_test = np.full(len(data.test), -np.inf)
        for member in range(members):
            model = ContinuousMixture(
                random_state=member, n_jobs=n_jobs, time_budget=budget, **settings
            )
            start, cpu = time.perf_counter(), time.process_time()
            model.fit(data.train, X_valid=data.valid)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            valid = model.score_samples(data.valid)
            total_valid = np.logaddexp(total_valid, valid)
            row = {
                "dataset": name,
                "member": member,
                "valid_ll": f"{valid.mean():.4f}",
                "average_valid_ll": f"{total_valid.mean() - np.log(member + 1):.4f}",
                "epochs": model.n_epochs_,
                "points": model.n_components_,
                "parameters": model.n_parameters_,
                "seconds": f"{seconds:.1f}",
                "processor_seconds": f"{cpu:.1f}",
                "n_jobs": n_jobs,
                "load": load(),
                "settings": " ".join(f"{k}={v}" for k, v in settings.items()),
            }
            if with_test:
                test = model.score_samples(data.test)
                total_test = np.logaddexp(total_test, test)
                row["test_ll"] = f"{test.mean():.4f}"
                row["average_test_ll"] = f"{total_test.mean() - np.log(member + 1):.4f}"
            with open_csv(path, FIELDS, "dataset", "member", "settings") as store:
                store.append({key: str(value) for key, value in row.items()})
            print(f"{name}, member {member}: {row['valid_ll']} in {cpu:.0f} s of a processor")


def table(path: Path) -> str:
    """Markdown table of everything that has been run with the default settings."""
    best = latest(REFERENCE / "best_known.csv", "dataset")
    rows = []
    found = {k: v for k, v in latest(path, "dataset", "member", "settings").items() if not k[2]}
    for name in DEBD_NAMES:
        lines = [line for key, line in sorted(found.items()) if key[0] == name]
        if not lines:
            continue
        first, last = lines[0], lines[-1]
        rows.append(
            [
                name,
                _pair(first["valid_ll"], first["test_ll"]),
                f"{len(lines)}",
                _pair(last["average_valid_ll"], last["average_test_ll"]),
                first["points"],
                first["epochs"],
                f"{np.mean([float(line['processor_seconds']) for line in lines]):.0f}",
                best[name]["best_tractable"],
                best[name]["best_of_anything"],
            ]
        )
    head = ["data set", "one member", "members", "their average", "points", "epochs",
            "processor seconds a member", "best tractable*", "best of anything*"]  # fmt: skip
    notes = [
        "",
        "Log-likelihood in nats, validation / test; points and epochs of the first member. Learned",
        "from training rows alone. * published, test.",
    ]
    return "\n".join([*markdown(head, rows), *notes])


def _pair(valid: str, test: str) -> str:
    return f"{float(valid):.3f} / {float(test):.3f}" if test else f"{float(valid):.3f}"


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--sets", nargs="+", default=list(DEBD_NAMES))
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--budget", type=float, default=None, help="seconds for each member")
    parser.add_argument("--latent", type=int, help="dimensions, if not the default")
    parser.add_argument("--width", type=int, help="parents of a column, if not the default")
    parser.add_argument("--test", action="store_true", help="score the test part too")
    parser.add_argument("--results", type=Path, default=RESULTS / "continuous.csv")
    args = parser.parse_args(arguments)
    if args.what == "run":
        asked = {"n_latent": args.latent, "width": args.width}
        settings = {name: value for name, value in asked.items() if value is not None}
        run(args.sets, args.members, args.jobs, args.budget, settings, args.test, args.results)
    publish(args.results.with_suffix(".md"), table(args.results))


if __name__ == "__main__":
    main()
