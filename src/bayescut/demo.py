"""What the library does, in a minute: ``python -m bayescut.demo``.

Learns every circuit of `LEARNERS` on the embedded binary digits, prints what they are worth, and
draws digits from them: new ones, and completions of real ones whose left, lower or random half was
hidden.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import bayescut as bc
from bayescut._progress import progress
from bayescut._text import print_table
from bayescut.datasets import Dataset, load_binary_digits
from bayescut.plots import half_masks, image_panels, inpainting_panels, sample_panels

SHAPE = (8, 8)
SAMPLES = 49  # images per panel of samples
INPAINTED = 24  # digits that are completed, in two lines

# Name and maker of everything the demo learns. A learner needs fit, score, sample, mpe and
# n_parameters_; a structure_score_ is shown if it has one.
LEARNERS: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("CNetBD", lambda: bc.CNetBD()),
    ("CNetBIC", lambda: bc.CNetBIC()),
    ("CutsetNetwork", lambda: bc.CutsetNetwork()),
    ("EMCNetBD", lambda: bc.EMCNetBD(n_components=10, random_state=0)),
    ("CutsetEnsemble", lambda: bc.CutsetEnsemble(n_chains=5, n_bags=8, random_state=0)),
)


@dataclass(frozen=True, eq=False)
class Result:
    """A fitted learner and its line of the table."""

    name: str
    model: Any
    test_log_likelihood: float
    n_parameters: int
    seconds: float
    structure_score: float | None

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        score = "" if self.structure_score is None else f"{self.structure_score:,.1f}"
        return (
            self.name,
            f"{self.test_log_likelihood:.3f}",
            f"{self.n_parameters:,}",
            f"{self.seconds:.3f}",
            score,
        )


HEADINGS = ("learner", "test log-likelihood", "parameters", "seconds", "structure score")
NOTE = (
    "Log-likelihoods are per row, natural logarithm. Structure scores are of all rows learned from "
    "and compare circuits of one learner only: each learner has its own."
)


HINT = "For a progress bar and a nicer table: pip install 'bayescut[cli]'"


def warm_up(make: Callable[[], Any], rows: np.ndarray) -> None:
    """Have all kernels a learner and its queries need compiled, or read from numba's cache."""
    model = make().fit(rows)
    model.score(rows)
    sample_panels({"": model}, rows[:2])
    inpainting_panels({"": model}, rows[:2], half_masks(SHAPE))


def learn(name: str, make: Callable[[], Any], X: np.ndarray, test: np.ndarray) -> Result:
    """Fit one learner and judge it on rows it has not seen."""
    start = time.perf_counter()
    model = make().fit(X)
    seconds = time.perf_counter() - start
    score = getattr(model, "structure_score_", None)
    return Result(name, model, model.score(test), model.n_parameters_, seconds, score)


def run(output: Path, *, seed: int = 0, quiet: bool = False) -> list[Result]:
    """Run the demo.

    Parameters
    ----------
    output : Path
        Folder for the pictures; made if it does not exist.
    seed : int
        Seed of the draws.
    quiet : bool
        Whether neither a bar nor remarks are wanted, only results.

    Returns
    -------
    list of Result
        One for every learner.
    """
    data: Dataset = load_binary_digits()
    X = np.vstack([data.train, data.valid])
    say(
        f"Binary digits: {len(X):,} rows to learn from, {len(data.test):,} to test, "
        f"{X.shape[1]} pixels."
    )
    if not quiet:
        say(
            "The first run on a machine compiles the kernels, which takes about a minute; "
            "later runs find them in the cache."
        )
    with progress("", 2 * len(LEARNERS), 0 if quiet else 1, transient=True) as advance:
        start = time.perf_counter()
        for name, make in LEARNERS:
            advance(description=f"{name}: compiling kernels or reading them from the cache")
            warm_up(make, X[:64])
            advance(1)
        warm = time.perf_counter() - start
        results = []
        for name, make in LEARNERS:
            advance(description=f"{name}: learning")
            results.append(learn(name, make, X, data.test))
            advance(1)
    say(f"Kernels were ready after {warm:.1f} s, which the table leaves out.\n")
    print_table(HEADINGS, [result.cells() for result in results], title="Density of binary digits")
    say(f"\n{NOTE}")
    draw(results, data.test, output, seed)
    if not quiet and find_spec("rich") is None:
        say(HINT)
    return results


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)


def draw(results: Sequence[Result], test: np.ndarray, output: Path, seed: int) -> None:
    """Write the pictures, or say what they need."""
    models = {result.name: result.model for result in results}
    panels = sample_panels(models, test[:SAMPLES], random_state=seed)
    try:
        figures = {
            "samples.png": ("real digits and samples", image_panels(panels, SHAPE, across=3))
        }
        for task, hidden in half_masks(SHAPE).items():
            panels = inpainting_panels(
                models, test[:INPAINTED], {task: hidden}, n_draws=1, random_state=seed
            )
            # A model is a line, its most probable completions on the left and its draws beside.
            figures[f"inpainting_{task.replace(' ', '_')}.png"] = (
                f"real digits completed, {task} hidden",
                image_panels(panels, SHAPE, n_columns=INPAINTED // 2, across=2),
            )
    except ImportError:
        say("No pictures without matplotlib: pip install 'bayescut[plot]'")
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, (what, figure) in figures.items():
        path = output / name
        figure.savefig(path)
        say(f"{path}: {what}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run the demo."""
    parser = argparse.ArgumentParser(prog="python -m bayescut.demo", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("demo_output"), help="folder for the pictures"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    options = parser.parse_args(arguments)
    run(options.output, seed=options.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
