"""Long tables: do seconds grow linearly in rows, and how much memory is needed beside the table.

    python benchmarks/scale.py                                  # 0.5 M, 5 M and 20 M rows
    python benchmarks/scale.py --rows 20000 --columns 20 --repeat 1

Every size is learned by CNetBD in a process of its own. Its table (uint8) is drawn, block by block
and in place, from a fixed cutset network: some cuts over trees that differ. So there is something
to find, and it is the same at every size: what was found is printed first, as the number of cuts
and the log-likelihood of fresh rows under the learned circuit and under the true one. Memory is
that of the process before the table is made (interpreter, libraries, kernels), its peak from then
on, and what `fit` added at its peak to what was there just before, which has the target.
The table goes to ``benchmarks/results/scale.csv``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _results import RESULTS, warm_up, write_csv
from bayescut.bench._environment import peak_memory, reset_peak_memory
from bayescut.bench._runner import call_apart

BLOCK = 1 << 16  # rows drawn at a time
DEPTH = 3  # cuts from the root of the true network to its leaves
TEST_ROWS = 20_000
MB = 1e6


class TrueNetwork:
    """A cutset network with ``2 ** DEPTH`` trees, to draw from.

    Column d decides at depth d. All other columns form a tree of their own in each branch, with a
    parent among the columns before them.
    """

    def __init__(self, n_columns: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n_columns = n_columns
        self.n_leaves = 2**DEPTH
        self.branch = rng.uniform(0.35, 0.65, size=DEPTH)
        shape = (self.n_leaves, n_columns)
        # Parents lie among the tree's columns before a column, the first one has none.
        self.parent = DEPTH + np.array(
            [
                [rng.integers(max(j - DEPTH, 1)) for j in range(n_columns)]
                for _ in range(self.n_leaves)
            ]
        )
        # Probability of a one, given the parent's state.
        self.table = np.stack([rng.uniform(0.05, 0.4, shape), rng.uniform(0.5, 0.95, shape)], -1)
        # Branches differ in the direction of half of their edges, not only in their trees.
        flip = rng.random(shape) < 0.5
        self.table[flip] = self.table[flip, ::-1]

    @property
    def n_cuts(self) -> int:
        """Number of decisions."""
        return self.n_leaves - 1

    def draw(self, table: NDArray[np.uint8], seed: int) -> NDArray[np.float64]:
        """Overwrite a table by rows from the network, and return their log-probabilities.

        The first `TEST_ROWS` only: nothing of the length of the table is kept.
        """
        kept = []
        for number, start in enumerate(range(0, len(table), BLOCK)):
            block = table[start : start + BLOCK]
            logs = self._draw_block(block, np.random.default_rng([seed, number]))
            if start < TEST_ROWS:
                kept.append(logs)
        return np.concatenate(kept)[:TEST_ROWS]

    def _draw_block(
        self, block: NDArray[np.uint8], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        n = len(block)
        logs = np.zeros(n)
        leaf = np.zeros(n, dtype=np.intp)
        for d in range(DEPTH):
            block[:, d] = rng.random(n) < self.branch[d]
            logs += np.log(np.where(block[:, d] == 1, self.branch[d], 1 - self.branch[d]))
            leaf = 2 * leaf + block[:, d]
        for which in range(self.n_leaves):
            rows = np.flatnonzero(leaf == which)
            columns = np.zeros((self.n_columns, len(rows)), dtype=np.uint8)  # a column is a line
            own = np.zeros(len(rows))
            for j in range(DEPTH, self.n_columns):
                # A column without a parent looks at itself, which is still zero.
                p = self.table[which, j][columns[self.parent[which, j]]]
                columns[j] = rng.random(len(rows)) < p
                own += np.log(np.where(columns[j] == 1, p, 1 - p))
            block[rows, DEPTH:] = columns[DEPTH:].T
            logs[rows] += own
        return logs


def measure(n_rows: int, n_columns: int, repeat: int, jobs: int) -> dict[str, Any]:
    """Draw a table, learn from it, and look at the clock and at memory."""
    import bayescut as bc

    network = TrueNetwork(n_columns)
    test = np.empty((TEST_ROWS, n_columns), dtype=np.uint8)
    true_ll = float(network.draw(test, seed=1).mean())
    warm_up([partial(bc.CNetBD, n_jobs=jobs)], [test[:1000]])
    reset_peak_memory()
    process = peak_memory() or 0

    table = np.empty((n_rows, n_columns), dtype=np.uint8)
    start = time.perf_counter()
    network.draw(table, seed=2)
    drawing = time.perf_counter() - start
    drawn = peak_memory() or 0
    reset_peak_memory()
    before = peak_memory() or 0
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        model = bc.CNetBD(n_jobs=jobs).fit(table)
        seconds.append(time.perf_counter() - start)
    peak = peak_memory() or 0
    return {
        "rows": n_rows,
        "columns": n_columns,
        "cuts": model.n_cuts_,
        "true_cuts": network.n_cuts,
        "parameters": model.n_parameters_,
        "test_ll": round(model.score(test), 4),
        "true_test_ll": round(true_ll, 4),
        "seconds": round(min(seconds), 3),
        "drawing_seconds": round(drawing, 1),
        "table_mb": round(table.nbytes / MB, 1),
        "process_mb": round(process / MB, 1),
        "peak_mb": round(max(drawn, peak) / MB, 1),
        "fit_mb": round((peak - before) / MB, 1),
        "allowed_mb": round(0.4 * table.nbytes / MB + 200, 1),
    }


def in_new_process(**settings: int) -> dict[str, Any]:
    """Run `measure` in a process of its own."""
    answer = call_apart("scale:measure", settings)
    if answer["status"] != "ok":
        raise SystemExit(f"{answer['error']}\n{answer.get('detail', '')}")
    return dict(answer["value"])


def report(results: Sequence[dict[str, Any]]) -> None:
    """Print what was found, then seconds, then memory."""
    print("\nWhat was found: cuts, and mean log-likelihood of fresh rows\n")
    for r in results:
        print(
            f"{r['rows']:>11,} rows: {r['cuts']} cuts (true network: {r['true_cuts']}), "
            f"{r['test_ll']:.4f} (true network: {r['true_test_ll']:.4f})"
        )
    print("\nSeconds of fit, best; and for each million rows\n")
    for r in results:
        rate = r["seconds"] / r["rows"] * 1e6
        print(f"{r['rows']:>11,} rows: {r['seconds']:8.3f} s {rate:8.3f} s per million")
    for small, large in pairwise(results):
        more = large["rows"] / small["rows"]
        longer = large["seconds"] / small["seconds"]
        asked = f"at most {1.2 * more:g} is asked"
        print(f"{more:g} times the rows take {longer:.2f} times as long [{asked}]")
    print("\nMemory in MB: table, process before it, peak of the process, what fit added\n")
    for r in results:
        fine = "within" if r["fit_mb"] <= r["allowed_mb"] else "ABOVE"
        print(
            f"{r['rows']:>11,} rows: {r['table_mb']:8.1f} {r['process_mb']:8.1f} "
            f"{r['peak_mb']:8.1f} {r['fit_mb']:8.1f}, {fine} 40 % of the table + 200 MB = "
            f"{r['allowed_mb']:.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, learn, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[500_000, 5_000_000, 20_000_000])
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=2, help="fits of each size, at least 1")
    parser.add_argument("--jobs", type=int, default=-1, help="threads of a fit, -1: all cores")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the CSV")
    options = parser.parse_args(arguments)
    if options.columns <= DEPTH or options.repeat < 1 or min(options.rows) < 1:
        parser.error(f"needs more than {DEPTH} columns, a row and a repetition")
    results = []
    for n_rows in options.rows:
        print(f"{n_rows:,} rows ...", file=sys.stderr, flush=True)
        results.append(
            in_new_process(
                n_rows=n_rows,
                n_columns=options.columns,
                repeat=options.repeat,
                jobs=options.jobs,
            )
        )
    report(results)
    path = options.output / "scale.csv"
    write_csv(path, list(results[0]), results)
    print(f"\nwrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
