"""What the library does, in a minute: ``python -m bayescut.demo``.

Learns every circuit of `LEARNERS` on the embedded binary digits, prints what they are worth, and
draws digits from them: new ones, and completions of real ones whose left, lower or random half was
hidden.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bayescut as bc
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

Step = Callable[[str], None]


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


class PlainScreen:
    """Output without rich: lines."""

    hint: str | None = "For a progress bar and a nicer table: pip install 'bayescut[cli]'"

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, flush=True)

    @contextmanager
    def steps(self, total: int) -> Iterator[Step]:
        """Count the steps of the work as they begin."""
        done = 0

        def step(what: str) -> None:
            nonlocal done
            done += 1
            self.say(f"[{done}/{total}] {what}")

        yield step

    def table(self, title: str, lines: Sequence[Sequence[str]]) -> None:
        """Print a table whose first column is text and whose others are numbers."""
        widths = [max(map(len, column)) for column in zip(HEADINGS, *lines, strict=True)]
        self.say(f"\n{title}")
        for line in (HEADINGS, *lines):
            first, *rest = (
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            self.say("  ".join([first, *rest]))


class RichScreen(PlainScreen):
    """Output with rich: a progress bar and a framed table."""

    hint = None

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def steps(self, total: int) -> Iterator[Step]:
        """Show a bar that moves on with every step."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task("", total=total)
            begun = 0

            def step(what: str) -> None:
                nonlocal begun
                bar.update(task, description=what, completed=begun)
                begun += 1

            yield step
            bar.update(task, description="done", completed=total)

    def table(self, title: str, lines: Sequence[Sequence[str]]) -> None:
        """Print a table whose first column is text and whose others are numbers."""
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for i, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="left" if i == 0 else "right")
        for line in lines:
            table.add_row(*line)
        self.console.print(table)


def screen() -> PlainScreen:
    """Return where to print: with rich if it is installed."""
    try:
        return RichScreen()
    except ImportError:
        return PlainScreen()


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


def run(output: Path, *, seed: int = 0, out: PlainScreen | None = None) -> list[Result]:
    """Run the demo.

    Parameters
    ----------
    output : Path
        Folder for the pictures; made if it does not exist.
    seed : int
        Seed of the draws.
    out : PlainScreen, optional
        Where to print.

    Returns
    -------
    list of Result
        One for every learner.
    """
    out = screen() if out is None else out
    data: Dataset = load_binary_digits()
    X = np.vstack([data.train, data.valid])
    out.say(
        f"Binary digits: {len(X):,} rows to learn from, {len(data.test):,} to test, "
        f"{X.shape[1]} pixels."
    )
    out.say(
        "The first run on a machine compiles the kernels, which takes about a minute; "
        "later runs find them in the cache."
    )
    with out.steps(2 * len(LEARNERS)) as step:
        start = time.perf_counter()
        for name, make in LEARNERS:
            step(f"{name}: compiling kernels or reading them from the cache")
            warm_up(make, X[:64])
        warm = time.perf_counter() - start
        results = []
        for name, make in LEARNERS:
            step(f"{name}: learning")
            results.append(learn(name, make, X, data.test))
    out.say(f"Kernels were ready after {warm:.1f} s, which the table leaves out.")
    out.table("Density of binary digits", [result.cells() for result in results])
    out.say(NOTE)
    draw(results, data.test, output, seed, out)
    if out.hint:
        out.say(out.hint)
    return results


def draw(
    results: Sequence[Result], test: np.ndarray, output: Path, seed: int, out: PlainScreen
) -> None:
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
        out.say("No pictures without matplotlib: pip install 'bayescut[plot]'")
        return
    output.mkdir(parents=True, exist_ok=True)
    for name, (what, figure) in figures.items():
        path = output / name
        figure.savefig(path)
        out.say(f"{path}: {what}")


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
