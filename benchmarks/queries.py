"""Speed of queries, beside deeprob-kit where it answers the same question rightly.

    pip install deeprob-kit==1.1.0      # optional peer
    python benchmarks/queries.py

Prints parity first, then time. Trees: one Chow-Liu tree learned by `CNetBD`, handed to deeprob-kit
with the same parameters; log-likelihood of complete rows and of rows with half the cells missing.
Models: rows per second of every query on a cutset network and on mixtures of 20 and 300 components
at three widths. The best of several runs counts; kernels are warm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bayescut as bc
from _results import RESULTS, write_csv
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.data.table import Table
from bayescut.datasets import fetch_binary_mnist, fetch_debd
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.mixture.em import StructuralEM
from bayescut.scores import BayesDirichlet

FIELDS = [
    "part", "data", "columns", "model", "query", "rows", "rows_per_s", "ns_per_cell", "peer",
    "ratio",
]  # fmt: skip


def best_time(work: Callable[[], Any], repeat: int = 3) -> float:
    """Least seconds of several runs, after one that warms up."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def data_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows."""
    data = fetch_binary_mnist() if name == "binarized_mnist" else fetch_debd(name)
    return data.train, data.test


def one_tree(train: np.ndarray) -> Circuit:
    """A circuit that is one Chow-Liu tree, learned from so few rows that nothing is cut."""
    n = min(len(train), 2000)
    while True:
        model = bc.CNetBD().fit(train[:n])
        if model.n_cuts_ == 0:
            return model.circuit_
        n //= 2


def halved(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Rows with half the cells missing, as codes."""
    out = rows.copy()
    out[np.random.default_rng(seed).random(rows.shape) < 0.5] = 255
    return out


def peer_model(circuit: Circuit) -> Any:
    """The same tree or cutset network in deeprob-kit, with the same parameters."""
    from deeprob.spn.structure.cltree import BinaryCLT
    from deeprob.spn.structure.leaf import Bernoulli
    from deeprob.spn.structure.node import Product, Sum, assign_ids

    built: dict[int, Any] = {}
    for node in range(circuit.n_nodes):
        lo, hi = circuit.fam_ptr[node], circuit.fam_ptr[node + 1]
        if hi > lo:
            scope = sorted(int(v) for v in circuit.fam_var[lo:hi])
            place = {v: i for i, v in enumerate(scope)}
            tree, params, root = [-1] * len(scope), np.zeros((len(scope), 2, 2)), -1
            for f in range(lo, hi):
                v = place[int(circuit.fam_var[f])]
                table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
                first = circuit.fam_parent_ptr[f]
                if circuit.fam_parent_ptr[f + 1] > first:
                    tree[v] = place[int(circuit.fam_parent[first])]
                    params[v] = table.reshape(2, 2)
                else:
                    root, params[v] = scope[v], np.stack([table, table])
            built[node] = BinaryCLT(scope, root=root, tree=tree, params=params.tolist())
            continue
        lo, hi = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        cut = int(circuit.var[node])
        branches = [
            Product(children=[Bernoulli(cut, p=float(state)), built[int(child)]])
            for state, child in enumerate(circuit.child[lo:hi])
        ]
        built[node] = Sum(weights=np.exp(circuit.log_weight[lo:hi]), children=branches)
    model = built[circuit.root]
    return model if circuit.n_nodes == 1 else assign_ids(model)


def beside_peer(names: list[str], n_rows: int) -> list[dict[str, Any]]:
    """Log-likelihoods on single trees, ours and deeprob-kit's."""
    from deeprob.spn.algorithms.inference import log_likelihood

    rows = []
    cases = [(name, label) for name in names for label in ("tree", "network")]
    for name, label in cases:
        train, test = data_of(name)
        circuit = one_tree(train) if label == "tree" else bc.CNetBD().fit(train).circuit_
        if label == "network" and circuit.n_nodes == 1:
            continue
        peer = peer_model(circuit)
        ask_peer = peer.log_likelihood if label == "tree" else partial(log_likelihood, peer)
        complete = np.ascontiguousarray(np.resize(test, (n_rows, test.shape[1])))
        for query, codes in (("complete", complete), ("half missing", halved(complete))):
            floats = np.where(codes == 255, np.nan, codes).astype(np.float32)
            ours = circuit.log_likelihood(codes, n_jobs=-1)
            with np.errstate(divide="ignore"):
                theirs = np.asarray(ask_peer(floats)).ravel()
            difference = np.abs(ours - theirs).max()
            print(f"{name} {label} {query}: largest difference {difference:.1e} nats (float32)")
            if not difference < 1e-4 * np.abs(ours).max():
                print("  the answers differ: no time is reported")
                continue
            mine = best_time(partial(circuit.log_likelihood, codes, n_jobs=-1))
            with np.errstate(divide="ignore"):
                other = best_time(partial(ask_peer, floats))
            rows.append(entry("peer", name, codes.shape, label, f"log-likelihood, {query}", mine))
            rows[-1] |= {"peer": f"{n_rows / other:.0f}", "ratio": f"{other / mine:.1f}"}
            print(f"  {n_rows / mine:12,.0f} rows/s, deeprob-kit {n_rows / other:10,.0f}: "
                  f"{other / mine:.1f} times as fast")  # fmt: skip
    return rows


def entry(
    part: str, name: str, shape: tuple[int, ...], model: str, query: str, seconds: float
) -> dict[str, Any]:
    """A line of the results."""
    n, m = shape
    return {
        "part": part, "data": name, "columns": m, "model": model, "query": query, "rows": n,
        "rows_per_s": f"{n / seconds:.0f}", "ns_per_cell": f"{seconds / n / m * 1e9:.2f}",
    }  # fmt: skip


def models(train: np.ndarray) -> dict[str, Circuit]:
    """A network, and mixtures over random parts of the rows."""
    train = np.ascontiguousarray(train[:12_000])
    table = Table(train, Domains.binary(train.shape[1]))
    em = StructuralEM(CutsetLearner(BayesDirichlet(0.1)), table, n_jobs=2)
    found = {"CNetBD": bc.CNetBD().fit(train).circuit_}
    for size in (20, 300):
        labels = np.arange(len(train)) % size
        found[f"mixture of {size}"] = em.start(labels)
    return found


def every_query(names: list[str], n_rows: int) -> list[dict[str, Any]]:
    """Rows per second of all queries on all models."""
    rows = []
    for name in names:
        train, test = data_of(name)
        for label, circuit in models(train).items():
            n = n_rows if label == "CNetBD" else max(n_rows // 20, 50)
            codes = np.ascontiguousarray(np.resize(test, (n, test.shape[1])))
            half = halved(codes)
            queries: dict[str, Callable[..., Any]] = {
                "log-likelihood, complete": circuit.log_likelihood,
                "log-likelihood, half missing": circuit.log_likelihood,
                "marginals, half missing": circuit.marginals,
                "MPE, half missing": circuit.mpe,
                "sample, half missing": circuit.sample_conditional,
                "sample": circuit.sample,
            }
            for query, ask in queries.items():
                given: Any = half if "half" in query else codes
                work = partial(ask, n if query == "sample" else given, n_jobs=-1)
                seconds = best_time(work, repeat=2)
                rows.append(entry("queries", name, codes.shape, label, query, seconds))
                print(f"{name:16s} {label:15s} {query:30s} {n / seconds:12,.0f} rows/s")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sets", nargs="+", default=["jester", "c20ng", "binarized_mnist"])
    parser.add_argument("--results", type=Path, default=RESULTS / "queries.csv")
    args = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    try:
        import deeprob  # noqa: F401
    except ImportError:
        print("deeprob-kit is not installed: no peer")
    else:
        rows += beside_peer(args.sets, args.rows)
    rows += every_query(args.sets, args.rows)
    write_csv(args.results, FIELDS, rows)


if __name__ == "__main__":
    main()
