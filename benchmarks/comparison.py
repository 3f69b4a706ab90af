"""Learners on data sets beside the published numbers: every table, in every format, and the figure.

    python benchmarks/comparison.py run                    # the ten systems of the paper, and ours
    python benchmarks/comparison.py run -l CNetBD CutsetNetwork --sets nltcs dna
    python benchmarks/comparison.py report                 # tables and figures of what has been run
    python benchmarks/comparison.py report --results my.jsonl --output my_report

``run`` is ``bayescut bench run`` on the twenty data sets (any learner, ``package.module:Class``
too, in a process of its own; what is there is not run again), followed by a report. The report sets
the results beside the tables of the paper (Yang, Gala, Peharz, AISTATS 2023) and the best published
tractable models: log-likelihood, time, size and memory as Markdown, CSV and LaTeX, and the Pareto
figure of likelihood against time on white and on dark paper, with hollow marks for published
learners that were not run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from _latex import latex
from _pareto import pareto_points, plot_pareto
from _published import COUNTERPARTS, compare, published
from _results import RESULTS
from bayescut._atomic import write_text
from bayescut.bench import KINDS, Result, read_results, run
from bayescut.bench._specs import parse_learner
from bayescut.datasets import DEBD_NAMES

# The systems of the paper, its own first; EiNets learn on a GPU where there is one.
LEARNERS = (
    "CNetBD", "CNetBIC", "EMCNetBD", "CNet", "XCNet", "DCSN", "Strudel", "LearnSPN", "IDSPN",
    "EiNet(backend='torch')", "CutsetNetwork", "CutsetMixture",
)  # fmt: skip


def write_report(results: Sequence[Result], folder: Path, protocol: str | None) -> list[Path]:
    """Write every table in every format, and the Pareto figure in both themes."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        table = compare(results, kind, protocol=protocol, best_known=True)
        texts = {"md": table.to_markdown(), "csv": table.to_csv(), "tex": latex(table)}
        for ending, text in texts.items():
            written.append(folder / f"{kind}.{ending}")
            write_text(written[-1], text)
    # Published points of what was run here would only crowd the panels.
    known = published("log_likelihood")
    run_here = {COUNTERPARTS.get(parse_learner(result.learner).class_name) for result in results}
    others = [] if known is None else [name for name in known.learners if name not in run_here]
    for theme in ("light", "dark"):
        written.append(folder / f"pareto_{theme}.png")
        points = pareto_points(results, protocol=protocol, learners=others)
        plot_pareto(points, theme=theme).savefig(written[-1], dpi=150)
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--learners", "-l", nargs="+", default=list(LEARNERS))
    parser.add_argument("--sets", nargs="+", default=list(DEBD_NAMES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--time-limit", type=float, help="seconds a learner may take on a set")
    parser.add_argument("--train-only", action="store_true", help="learn from training rows only")
    parser.add_argument("--force", action="store_true", help="run again what is there")
    parser.add_argument("--results", type=Path, default=RESULTS / "comparison" / "results.jsonl")
    parser.add_argument("--output", type=Path, help="folder of the report; that of the results")
    args = parser.parse_args(arguments)
    protocol = "train" if args.train_only else "train+valid"
    if args.what == "run":
        run(
            args.learners,
            args.sets,
            args.results,
            seeds=args.seeds,
            protocol=protocol,
            time_limit=args.time_limit,
            force=args.force,
            verbose=1,
        )
    folder = args.output or args.results.parent
    for path in write_report(read_results(args.results), folder, protocol):
        print(path)


if __name__ == "__main__":
    main()
