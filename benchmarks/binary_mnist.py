"""Binary MNIST: likelihood, size and time of every learner, samples and inpainting to look at.

    python benchmarks/binary_mnist.py                       # everything, about an hour and a half
    python benchmarks/binary_mnist.py --models CNetBD EM-100
    python benchmarks/binary_mnist.py --figures-only        # pictures and table of what is there

Models are learned from the training and validation parts together (60,000 images) and scored on
the test part (10,000), once. Every model is saved when it is learned and its line is appended to a
CSV file; what is there is not learned again (delete its line, or give --force). Mixtures and the
ensemble save their state after every step too: a run that was interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayescut as bc
from _results import RESULTS, latest, learning_rows, load, markdown, open_csv, publish
from bayescut.datasets import fetch_binary_mnist
from bayescut.plots import half_masks, image_panels, inpainting_panels, sample_panels

SHAPE = (28, 28)
FIELDS = [
    "model", "rows", "test_ll", "train_ll", "parameters", "seconds", "cpu_s", "resumed", "load",
    "details",
]  # fmt: skip
SAMPLES = 50
INPAINTED = 20
DRAWS = 2  # completions drawn for each image
# Published: Yang, Gala, Peharz (AISTATS 2023), section 7.2, and the models it compares with.
PUBLISHED = (
    ("EiNet", -113.6, "1.2 M"),
    ("CNetBD", -118.7, "50 K"),
    ("EM-CNetBD, 300 components", -103.95, "470 K"),
)
# Steps of EM after the k-means start. Components of 200 rows and 1567 parameters overfit from the
# first step on: with 10,000 images and 50 components, 2,000 validation images have -112.08 after
# the start and -112.12 after three steps (-112.00 after one with soft assignments, which cost 1.4
# times as much). A larger equivalent sample size helps more: -111.27 with 1, -112.15 with 4.
STEPS = 4


def models(budget: float, small: bool) -> dict[str, Callable[[str | None], Any]]:
    """Makers of the models, given the file of their checkpoint."""
    em: dict[str, Any] = {
        "structure": "cnetbd", "ess": 0.1, "gaussian": False, "assignment": "sampled", "tol": 0.0,
        "random_state": 0, "verbose": 1,
    }  # fmt: skip
    if small:  # to see that everything runs
        return {
            "CNetBD": lambda path: bc.CNetBD(verbose=1),
            "EM-3": lambda path: bc.CutsetMixture(3, max_iter=1, checkpoint=path, **em),
            "CutsetNetwork": lambda path: bc.CutsetNetwork(width=2, verbose=1),
            "CutsetEnsemble": lambda path: bc.CutsetEnsemble(
                1,
                3,
                n_burn=1,
                n_keep=1,
                prior_scales=(1.0,),
                shared_widths=(),
                trees=False,
                n_bags=0,
                checkpoint=path,
                random_state=0,
            ),
        }
    return {
        "CNetBD": lambda path: bc.CNetBD(verbose=1),
        "EM-100": lambda path: bc.CutsetMixture(100, max_iter=STEPS, checkpoint=path, **em),
        "EM-300": lambda path: bc.CutsetMixture(300, max_iter=STEPS, checkpoint=path, **em),
        "EM-300-ess1": lambda path: bc.CutsetMixture(
            300, max_iter=2, checkpoint=path, **em | {"ess": 1.0}
        ),
        "CutsetNetwork": lambda path: bc.CutsetNetwork(verbose=1),
        # Eight members of 123 K parameters each: just under a million. Of 50,000 images, one has
        # -101.62 on the validation part; the mean of four sweeps of the same chain has -100.69.
        # No bags: single networks are eight nats behind.
        "CutsetEnsemble": lambda path: bc.CutsetEnsemble(
            8, 90, n_burn=2, n_keep=1, prior_scales=(1.0,), shared_widths=(), trees=False,
            n_bags=0, time_budget=budget, checkpoint=path, random_state=0, verbose=1,
        ),
        # One chain of 100 components with a shared structure of width 8 has -99.48 on the
        # validation part after two sweeps and -99.44 after six.
        "CutsetEnsemble-shared": lambda path: bc.CutsetEnsemble(
            8, 100, n_burn=1, n_keep=1, prior_scales=(), shared_widths=(8,), trees=False,
            n_bags=0, time_budget=budget, checkpoint=path, random_state=0, verbose=1,
        ),
        # Nothing is set but the time.
        "CutsetEnsemble-defaults": lambda path: bc.CutsetEnsemble(
            time_budget=budget, checkpoint=path, random_state=0, verbose=1
        ),
    }  # fmt: skip


def fit_timed(
    make: Callable[[str | None], Any], X: NDArray[np.uint8], checkpoint: Path
) -> tuple[Any, float, float, bool]:
    """Fit a model; return it, its seconds and processor seconds, and whether it was resumed.

    What an interrupted run has used is kept beside its checkpoint and counted too.
    """
    spent = checkpoint.with_suffix(".seconds")
    resumed = checkpoint.exists()
    before = [0.0, 0.0]
    if resumed and spent.exists():
        before = [float(word) for word in spent.read_text().split()]
    start, cpu = time.perf_counter(), time.process_time()
    try:
        model = make(str(checkpoint)).fit(X)
    finally:
        seconds = before[0] + time.perf_counter() - start
        processor = before[1] + time.process_time() - cpu
        spent.write_text(f"{seconds} {processor}\n")
    spent.unlink()
    checkpoint.unlink(missing_ok=True)
    if hasattr(model, "checkpoint"):
        model.checkpoint = None  # a model that is fitted again must not look for it
    return model, seconds, processor, resumed


def details(model: Any) -> str:
    """What is special about a model."""
    if isinstance(model, bc.CutsetMixture):
        bounds = " ".join(f"{bound:.3f}" for bound in model.lower_bounds_)
        return f"{model.n_components_} components, {model.n_iter_} steps, bounds {bounds}"
    if isinstance(model, bc.CutsetEnsemble):
        return f"members {model.n_members_}"
    return f"{model.n_cuts_} cuts"


def learn(
    wanted: dict[str, Callable[[str | None], Any]],
    X: NDArray[np.uint8],
    test: NDArray[np.uint8],
    folder: Path,
    force: bool,
) -> None:
    """Learn, save and score the models that are not there yet."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    with open_csv(folder / "binary_mnist.csv", FIELDS, "model") as store:
        todo = store.missing(wanted, force=force)
        print(f"{len(wanted) - len(todo)} of {len(wanted)} models are there already", flush=True)
        for number, name in enumerate(todo, start=1):
            title = f"[{number}/{len(todo)}] {name}"
            print(f"{title}: learning from {len(X):,} images", flush=True)
            checkpoint = folder / "models" / f"mnist_{name}.checkpoint"
            model, seconds, processor, resumed = fit_timed(wanted[name], X, checkpoint)
            busy = load()
            bc.save(model, model_path(folder, name))
            row = {
                "model": name,
                "rows": str(len(X)),
                "test_ll": f"{model.score(test):.4f}",
                "train_ll": f"{model.score(spread(X, 10000)):.4f}",
                "parameters": str(model.n_parameters_),
                "seconds": f"{seconds:.1f}",
                "cpu_s": f"{processor:.1f}",
                "resumed": str(resumed),
                "load": busy,
                "details": details(model),
            }
            store.append(row)
            print(
                f"{title}: {row['test_ll']} with {model.n_parameters_:,} parameters in "
                f"{seconds:.1f} s ({processor:.1f} s of processor time)",
                flush=True,
            )


def model_path(folder: Path, name: str) -> Path:
    """Where a model is kept."""
    return folder / "models" / f"mnist_{name}.bc"


def spread(rows: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """Images from all over a part: the test images are sorted by digit."""
    return rows[((np.arange(n) + 0.5) / n * len(rows)).astype(np.int64)]


def sample_figure(name: str, model: Any, test: NDArray[np.uint8]) -> Any:
    """Real images beside as many samples."""
    panels = sample_panels({name: model}, spread(test, SAMPLES))
    return image_panels(panels, SHAPE, n_columns=10, across=1)


def inpainting_figure(name: str, model: Any, test: NDArray[np.uint8]) -> Any:
    """Originals, and for each task what is seen, the most probable completion and draws."""
    real = spread(test, INPAINTED)
    panels = inpainting_panels({name: model}, real, half_masks(SHAPE), n_draws=DRAWS)
    return image_panels(panels, SHAPE, n_columns=INPAINTED, across=1)


def draw(names: list[str], test: NDArray[np.uint8], folder: Path) -> None:
    """Write the pictures of the models that are there."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not model_path(folder, name).exists():
            continue
        model = bc.load(model_path(folder, name))
        for what, make in (("samples", sample_figure), ("inpainting", inpainting_figure)):
            path = figures / f"mnist_{name}_{what}.png"
            make(name, model, test).savefig(path, dpi=150, facecolor="white")
            print(f"{path.name}: {path.stat().st_size // 1000} KB", flush=True)


def table(folder: Path) -> str:
    """Markdown table of everything that has been run."""
    head = ["model", "test log-likelihood", "training", "parameters", "seconds", "processor s", ""]
    rows = [
        [
            r["model"],
            f"{float(r['test_ll']):.2f}",
            f"{float(r['train_ll']):.2f}",
            f"{int(r['parameters']):,}",
            r["seconds"],
            r["cpu_s"],
            r["details"],
        ]
        for r in latest(folder / "binary_mnist.csv", "model").values()
    ]
    rows += [[f"{name}*", f"{value}", "", size, "", "", ""] for name, value, size in PUBLISHED]
    lines = [
        *markdown(head, rows, left=(0, 6)),
        "",
        "Mean log-likelihood in nats of the 10,000 test images and of 10,000 training images.",
        "* published numbers.",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", help="names of models; all when left out")
    parser.add_argument("--budget", type=float, default=1700.0, help="seconds for the ensemble")
    parser.add_argument("--rows", type=int, help="learn from so many images only: a trial")
    parser.add_argument("--small", action="store_true", help="small models: does it run?")
    parser.add_argument("--force", action="store_true", help="learn again what is there")
    parser.add_argument("--figures-only", action="store_true", help="learn nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of what is written")
    args = parser.parse_args(arguments)
    every = models(args.budget, args.small)
    names = args.models or list(every)
    unknown = sorted(set(names) - set(every))
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; there are {', '.join(every)}")
    data = fetch_binary_mnist()
    if not args.figures_only:
        X = learning_rows(data)
        test = data.test
        if args.rows is not None:
            X, test = spread(X, args.rows), spread(test, args.rows)
        learn({name: every[name] for name in names}, X, test, args.results, args.force)
    draw(names, data.test, args.results)
    publish(args.results / "binary_mnist.md", table(args.results))


if __name__ == "__main__":
    main()
