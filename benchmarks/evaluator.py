"""Every query on every kind of model, beside another checkout of this library.

    git worktree add ../before COMMIT
    python benchmarks/evaluator.py --before ../before

Models are learned once, by the other checkout (this one understands all its circuits), and handed
to both as files of plain arrays; each checkout runs in processes of its own, in turns, on one
thread. Prints how far the answers are apart, then times as ratios:
the best of several runs, and the spread of the ratio over the turns.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FIELDS = ["model", "query", "before_us", "now_us", "ratio", "lowest", "highest", "apart"]


def workloads(quick: bool) -> dict[str, dict[str, Any]]:
    """Circuits as arrays, with rows: a network, mixtures, an ensemble, labels, plain sums."""
    import bayescut as bc
    from bayescut.circuit.build import mixture
    from bayescut.datasets import fetch_debd

    jester, plants = fetch_debd("jester"), fetch_debd("plants")
    found: dict[str, tuple[Any, np.ndarray]] = {}
    network = bc.CNetBD().fit(jester.train).circuit_
    found["network, 100 columns"] = network, jester.test
    found["wide network, 100 columns"] = bc.CutsetNetwork().fit(jester.train).circuit_, jester.test
    rng = np.random.default_rng(0)
    for size in (20,) if quick else (20, 300):
        members = []
        for _ in range(size):
            rows = rng.integers(0, len(jester.train), 600 if size == 300 else 3000)
            members.append(bc.CNetBD().fit(jester.train[rows]).circuit_)
        found[f"mixture of {size}"] = mixture(np.full(size, 1 / size), members), jester.test
    ensemble = bc.CutsetEnsemble(n_chains=8, n_bags=4, random_state=0).fit(plants.train[:4000])
    found["ensemble, 69 columns"] = ensemble.circuit_, plants.test
    k = np.array([9, 16, 7, 15, 6, 5, 2, 42, 2, 4, 3, 8, 5])
    group = rng.integers(0, 6, 16_000)
    labels = np.column_stack(
        [(group * (j + 3) + rng.geometric(0.4, len(group))) % n for j, n in enumerate(k)]
    )
    many = bc.CutsetEnsemble(n_chains=8, n_bags=4, random_state=0).fit(labels[:4000])
    found["ensemble, 13 label columns"] = many.circuit_, labels.astype(np.uint8)
    tree = bc.CNetBD().fit(jester.train[:500]).circuit_
    found["expanded tree"] = tree.expand(), jester.test
    found["expanded network"] = network.expand(), jester.test
    return {
        name: {"circuit": circuit, "rows": np.ascontiguousarray(rows, dtype=np.uint8)}
        for name, (circuit, rows) in found.items()
    }


def learn(folder: Path, quick: bool) -> None:
    """Learn the models with the checkout this process imports; write them to files."""
    for number, (label, work) in enumerate(workloads(quick).items()):
        circuit = work["circuit"]
        n_rows = 1000 if circuit.n_nodes < 200 else 250
        np.savez(
            folder / f"{number} {label}.npz",
            n_states=circuit.domains.n_states,
            rows=work["rows"],
            n_rows=n_rows,
            **circuit.arrays(),
        )
        print(f"{label}: {circuit}", flush=True)


def ask(circuit: Any, query: str, rows: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Answer one query, in the words of either version."""
    import bayescut.circuit as library

    if "sets" in query:
        blank = np.full_like(rows, 255)
        if hasattr(library, "Evidence"):
            return circuit.log_likelihood(library.Evidence(blank, masks), n_jobs=1)
        return circuit.log_likelihood(blank, masks, n_jobs=1)
    verb = query.split(",")[0]
    if verb == "log-likelihood":
        return circuit.log_likelihood(rows, n_jobs=1)
    if verb == "marginals":
        return circuit.marginals(rows, n_jobs=1)
    if verb == "MPE":
        return circuit.mpe(rows, n_jobs=1)[1]
    if verb == "sample":
        if "evidence" in query:
            return circuit.sample_conditional(rows, 0, n_jobs=1)
        return circuit.sample(len(rows), 0, n_jobs=1)
    raise ValueError(query)


QUERIES = {
    "log-likelihood, complete": (0.0, 8),
    "log-likelihood, 5 % missing": (0.05, 4),
    "log-likelihood, half missing": (0.5, 2),
    "log-likelihood, sets": (1.0, 1),
    "marginals, half missing": (0.5, 2),
    "MPE, evidence": (0.5, 2),
    "sample, evidence": (0.5, 2),
    "sample": (0.0, 4),
}


def worker(folder: Path, quick: bool) -> None:
    """Time all queries of all models in this checkout; answers and times go to files."""
    from bayescut.circuit import Circuit
    from bayescut.data import Domains

    times: dict[str, float] = {}
    answers: dict[str, np.ndarray] = {}
    known = set(Circuit.__dataclass_fields__)
    for path in sorted(folder.glob("*.npz")):
        data = np.load(path)
        arrays = {name: data[name] for name in data.files if name in known and name != "domains"}
        circuit = Circuit(domains=Domains.of_sizes(data["n_states"]), **arrays)
        base = int(data["n_rows"])
        for query, (missing, factor) in QUERIES.items():
            n = max(64, base * factor // (2 if quick else 1))
            rng = np.random.default_rng(1)
            rows = np.resize(data["rows"], (n, data["rows"].shape[1]))
            rows = np.ascontiguousarray(rows)
            rows[rng.random(rows.shape) < missing] = 255
            masks = rng.random((n, int(circuit.domains.n_states.sum()))) < 0.8
            first = circuit.domains.offsets[:-1] + rng.integers(0, circuit.domains.n_states)
            masks[:, first] = True
            answer = ask(circuit, query, rows, masks)
            best = np.inf
            for _ in range(3):
                begin = time.perf_counter()
                ask(circuit, query, rows, masks)
                best = min(best, time.perf_counter() - begin)
            key = f"{path.stem}|{query}"
            times[key] = 1e6 * best / n
            if not query.startswith("sample"):
                answers[key] = answer
    (folder / "times.json").write_text(json.dumps(times))
    np.savez(folder / "answers", **answers)  # a folder's own npz files are read before


def start(source: Path, folder: Path, task: str, quick: bool) -> None:
    """Run a task of this script on the sources of one checkout."""
    environment = dict(os.environ, PYTHONPATH=str(source / "src"))
    environment["NUMBA_CACHE_DIR"] = str(source / "build" / "numba" / "evaluator")
    command = [sys.executable, __file__, task, str(folder)] + ["--quick"] * quick
    subprocess.run(command, env=environment, check=True)


def run(source: Path, folder: Path, quick: bool) -> tuple[dict[str, float], dict[str, Any]]:
    """Time one checkout; return the times and the answers."""
    start(source, folder, "--worker", quick)
    times = json.loads((folder / "times.json").read_text())
    with np.load(folder / "answers.npz") as data:
        answers = {name: data[name] for name in data.files}
    (folder / "answers.npz").unlink()
    return times, answers


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--learn", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path)
    args = parser.parse_args(arguments)
    if args.worker:
        worker(args.worker, args.quick)
        return
    if args.learn:
        learn(args.learn, args.quick)
        return
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start(args.before, folder, "--learn", args.quick)
        before, now, apart = [], [], {}
        for turn in range(args.turns):
            old, old_answers = run(args.before, folder, args.quick)
            new, new_answers = run(here, folder, args.quick)
            before.append(old)
            now.append(new)
            for key, answer in old_answers.items():
                both = np.isfinite(answer) | np.isfinite(new_answers[key])
                difference = np.abs(answer - new_answers[key])[both]
                apart[key] = float(np.nanmax(difference, initial=0.0))
            print(f"turn {turn + 1}: largest difference of any answer {max(apart.values()):.1e}")
        lines = []
        for key in before[0]:
            model, query = key.split(" ", 1)[1].split("|")
            ratios = [b[key] / n[key] for b, n in zip(before, now, strict=True)]
            old, new = min(b[key] for b in before), min(n[key] for n in now)
            lines.append(
                {
                    "model": model,
                    "query": query,
                    "before_us": f"{old:.2f}",
                    "now_us": f"{new:.2f}",
                    "ratio": f"{old / new:.2f}",
                    "lowest": f"{min(ratios):.2f}",
                    "highest": f"{max(ratios):.2f}",
                    "apart": f"{apart.get(key, float('nan')):.0e}",
                }
            )
            print("{model:28s} {query:30s} {before_us:>10s} {now_us:>10s} {ratio:>7s} "
                  "({lowest} to {highest})".format(**lines[-1]))  # fmt: skip
    if args.results:
        with args.results.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, FIELDS)
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
