"""EiNets on Binary MNIST: likelihood, seconds of an epoch, and whether all backends agree.

    python benchmarks/einet.py                                   # 1.2 M weights, on the processor
    python benchmarks/einet.py --network large --device cuda     # 84 M weights, needs a GPU
    python benchmarks/einet.py --network pd:4,16:7 --epochs 20   # pieces of an image, components
    python benchmarks/einet.py --network trees:5:32:10           # depth, trees, components

Networks learn from the training part (50,000 images), stop by the validation part and are scored on
the test part once, when they have stopped. First the same steps of EM are made with NumPy, with the
device, and by the flows of a circuit: nothing is timed unless they agree. Every epoch is a line of
``einet_epochs.csv``, every finished run one of ``einet.csv``. After ``--minutes`` a run is left in
a checkpoint, from which the same command goes on.

Published: -113.6 with 1.2 M parameters and -99.8 with 84 M (Yang, Gala, Peharz, AISTATS 2023).
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._jobs import count_jobs
from bayescut.circuit._kinds import SUM
from bayescut.data import Domains
from bayescut.datasets import fetch_binary_mnist
from bayescut.learn.einet.backend import Backend, make_backend
from bayescut.learn.einet.em import Progress, Settings, Trainer, run_em, start
from bayescut.learn.einet.freeze import freeze_network
from bayescut.learn.einet.layout import Layout, lay_out
from bayescut.learn.einet.passes import Counts, Parameters
from bayescut.learn.einet.structure import poon_domingos, random_binary_trees

HERE = Path(__file__).resolve().parent
SHAPE = (28, 28)
NETWORKS = {"small": "pd:4,16:7", "large": "pd:7:30"}
EPOCH_FIELDS = ["network", "seed", "device", "alpha", "epoch", "seconds", "train_ll", "valid_ll"]
FIELDS = [
    "network", "seed", "device", "alpha", "weights", "epochs", "best_epoch", "valid_ll", "test_ll",
    "epoch_seconds", "total_seconds", "device_mib", "torch", "numpy",
]  # fmt: skip


def make_layout(network: str, shape: tuple[int, int], seed: int) -> Layout:
    """Read ``pd:pieces:components`` or ``trees:depth:trees:components``."""
    kind, *numbers = NETWORKS.get(network, network).split(":")
    n = shape[0] * shape[1]
    try:
        if kind == "pd":
            pieces, k = numbers
            graph = poon_domingos(shape, [int(d) for d in pieces.split(",")])
        elif kind == "trees":
            depth, n_trees, k = numbers
            rng = np.random.default_rng([seed, 1])
            graph = random_binary_trees(n, int(n_trees), int(depth), rng)
        else:
            raise ValueError
        return lay_out(graph, np.full(n, 2), int(k))
    except ValueError:
        raise SystemExit(
            f"--network {network}: small, large, pd:PIECES:K or trees:DEPTH:TREES:K"
        ) from None


# ----------------------------------------------------------------------------------------- parity


def largest_difference(first: Parameters, second: Parameters) -> float:
    """Largest difference of two sets of parameters."""
    pairs = zip(first, second, strict=True)
    return max(
        (float(np.abs(a - b).max()) for x, y in pairs for a, b in zip(x, y, strict=True)),
        default=0.0,
    )


def step_by_flows(layout: Layout, parameters: Parameters, rows: NDArray[np.uint8]) -> float:
    """Largest difference between a step of EM and the one that a circuit's flows give."""
    domains = Domains.of_sizes([2] * rows.shape[1])
    circuit = freeze_network(layout, parameters, domains)
    flows = circuit.flows(rows)
    weight = np.exp(circuit.log_weight)
    for node in np.flatnonzero(circuit.kind == SUM):
        edges = slice(*circuit.child_ptr[node : node + 2])
        weight[edges] = flows.edges[edges] / flows.edges[edges].sum()
    trainer = Trainer(layout, parameters, Settings(step_size=1.0), make_backend(dtype="float64"))
    trainer.count(rows)
    trainer.update()
    after = freeze_network(layout, trainer.parameters.map(np.asarray), domains)
    return float(np.abs(np.exp(after.log_weight) - weight).max())


def check_parity(backends: dict[str, Backend]) -> None:
    """Make the same steps everywhere and compare; end the program if they differ."""
    rng = np.random.default_rng(0)
    tiny = lay_out(poon_domingos((3, 3), 3), np.full(9, 2), 2)
    rows = rng.integers(0, 2, size=(20, 9)).astype(np.uint8)
    found = {"flows of a circuit": step_by_flows(tiny, start(tiny, rng), rows)}
    layout = lay_out(poon_domingos((8, 8), 4), np.full(64, 2), 6)
    rows = rng.integers(0, 2, size=(500, 64)).astype(np.uint8)
    first = start(layout, rng)
    ends = {}
    for name, backend in {"numpy": make_backend(dtype="float64"), **backends}.items():
        with backend.busy():
            trainer = Trainer(layout, first, Settings(batch_size=200), backend)
            for _ in range(3):
                trainer.epoch(rows, np.arange(500))
            ends[name] = trainer.parameters.map(backend.get)
    for name, end in ends.items():
        if name != "numpy":
            found[name] = largest_difference(ends["numpy"], end)
    for name, difference in found.items():
        print(f"parity: {name} against NumPy in float64: {difference:.1e}", flush=True)
        if not difference < (1e-4 if "float32" in name else 1e-6):
            raise SystemExit(f"{name} does not agree with NumPy")


# ------------------------------------------------------------------------------------ checkpoints


def write_checkpoint(path: Path, trainer: Trainer, progress: Progress, seconds: float) -> None:
    """Write all that a run needs to go on."""
    backend = trainer.backend
    arrays: dict[str, Any] = {
        "train": progress.train, "valid": progress.valid, "best_epoch": progress.best_epoch,
        "n_seen": trainer.n_seen, "weight_seen": trainer.weight_seen, "seconds": seconds,
    }  # fmt: skip
    groups = {"now": trainer.parameters, "best": progress.best, "counts": trainer.counts}
    for name, group in groups.items():
        for i, part in enumerate(group or ()):
            for t, array in enumerate(part):
                arrays[f"{name}_{i}_{t}"] = backend.get(array)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    with open(beside, "wb") as file:
        np.savez(file, **arrays)
    os.replace(beside, path)


def read_checkpoint(path: Path, trainer: Trainer) -> tuple[Progress, float]:
    """Bring a run to where it was."""
    put = trainer.backend.put
    with np.load(path) as found:

        def group(name: str, like: Any) -> list[list[Any]]:
            return [
                [put(found[f"{name}_{i}_{t}"]) for t in range(len(part))]
                for i, part in enumerate(like)
            ]

        trainer.parameters = Parameters(*group("now", trainer.parameters))
        trainer.counts = Counts(*group("counts", trainer.counts))
        best = Parameters(*group("best", trainer.parameters))
        trainer.n_seen, trainer.weight_seen = int(found["n_seen"]), float(found["weight_seen"])
        trainer.take_logs()
        progress = Progress(
            found["train"].tolist(), found["valid"].tolist(), best, int(found["best_epoch"])
        )
        return progress, float(found["seconds"])


# -------------------------------------------------------------------------------------------- run


def append(path: Path, fields: list[str], row: dict[str, Any]) -> None:
    """Add a line to a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields)
        if new:
            writer.writeheader()
        writer.writerow(row)


def memory(args: argparse.Namespace) -> str:
    """Most memory of the device that was used so far, in MiB."""
    if not str(args.device or "").startswith("cuda"):
        return ""
    import torch

    return f"{torch.cuda.max_memory_allocated() / 2**20:.0f}"


def run(args: argparse.Namespace, seed: int, backend: Backend, data: Any, end: float) -> bool:
    """Learn a network or go on with it; return whether it is finished."""
    layout = make_layout(args.network, SHAPE, seed)
    settings = Settings(
        args.batch_size, args.step_size, args.alpha, args.epochs, args.min_epochs, args.patience
    )
    device = "numpy" if args.device is None else args.device
    own = {"network": args.network, "seed": seed, "device": device, "alpha": args.alpha}
    name = f"einet_{args.network}_{seed}_{device}".replace(":", "-").replace(",", "_")
    checkpoint = args.checkpoints / f"{name}.npz"
    train, valid, test = (part[: args.rows] for part in (data.train, data.valid, data.test))
    print(f"{args.network}, seed {seed}: {layout.n_weights:,} weights on {device}", flush=True)
    trainer = Trainer(layout, start(layout, np.random.default_rng(seed)), settings, backend)
    progress, before = Progress([], []), 0.0
    if checkpoint.exists():
        progress, before = read_checkpoint(checkpoint, trainer)
        print(f"goes on after epoch {len(progress.train)}", flush=True)
    clock = [time.perf_counter()]
    spent = [before]
    stopped = []

    def after(found: Progress) -> bool:
        now = time.perf_counter()
        seconds, clock[0] = now - clock[0], now
        spent[0] += seconds
        row = {
            **own, "epoch": len(found.train), "seconds": f"{seconds:.3f}",
            "train_ll": f"{found.train[-1]:.4f}", "valid_ll": f"{found.valid[-1]:.4f}",
        }  # fmt: skip
        append(args.output / "einet_epochs.csv", EPOCH_FIELDS, row)
        print(
            f"epoch {row['epoch']}: {seconds:.2f} s, training {row['train_ll']}, validation "
            f"{row['valid_ll']} (best {max(found.valid):.3f} in {found.best_epoch})",
            flush=True,
        )
        # An epoch more than there is time for would be lost.
        if now + 1.5 * seconds > end and not found.done(settings):
            stopped.append(True)
            return False
        return True

    progress = run_em(
        trainer, train, np.arange(len(train)), None, lambda v: float(v.mean()), valid, seed,
        progress=progress, after_epoch=after,
    )  # fmt: skip
    if stopped:
        write_checkpoint(checkpoint, trainer, progress, spent[0])
        print(f"out of time after epoch {len(progress.train)}: {checkpoint}", flush=True)
        return False
    if progress.best is None:
        raise SystemExit("no epoch was made")
    trainer.parameters = progress.best
    trainer.take_logs()
    test_ll = float(trainer.log_likelihood(test).mean())
    try:
        import torch

        version = torch.__version__
    except ImportError:
        version = ""
    n_epochs = len(progress.train)
    row = {
        **own, "weights": layout.n_weights, "epochs": n_epochs, "best_epoch": progress.best_epoch,
        "valid_ll": f"{max(progress.valid):.4f}", "test_ll": f"{test_ll:.4f}",
        "epoch_seconds": f"{spent[0] / n_epochs:.3f}", "total_seconds": f"{spent[0]:.1f}",
        "device_mib": memory(args), "torch": version, "numpy": np.__version__,
    }  # fmt: skip
    append(args.output / "einet.csv", FIELDS, row)
    checkpoint.unlink(missing_ok=True)
    print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return True


def finished(args: argparse.Namespace, seed: int) -> bool:
    """Whether there is a line for this network and seed."""
    path = args.output / "einet.csv"
    if not path.exists():
        return False
    device = "numpy" if args.device is None else args.device
    wanted = [args.network, str(seed), device, str(args.alpha)]
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return any([r[name] for name in ("network", "seed", "device", "alpha")] == wanted for r in rows)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    begin = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", default="small", help="small, large, pd:..., trees:...")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=int, default=300, help="most epochs")
    parser.add_argument("--min-epochs", type=int, default=100)
    parser.add_argument("--patience", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=6400)
    parser.add_argument("--step-size", type=float, default=0.5)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--device", help="cpu or cuda, of PyTorch; left out: NumPy")
    parser.add_argument("--block-rows", type=int, help="rows worked on at a time")
    parser.add_argument("--tf32", action="store_true", help="let a GPU round factors to 10 bits")
    parser.add_argument("--data", type=Path, help="folder of the data sets (BAYESCUT_DATA)")
    parser.add_argument("--rows", type=int, help="so many images of each part only: a trial")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="leave a checkpoint after so long"
    )
    parser.add_argument("--output", type=Path, default=HERE / "results" / "einet")
    parser.add_argument("--checkpoints", type=Path, help="folder of checkpoints (--output)")
    parser.add_argument("--jobs", type=int, default=-1, help="threads of NumPy")
    args = parser.parse_args(arguments)
    args.checkpoints = args.checkpoints or args.output
    if args.data is not None:
        os.environ["BAYESCUT_DATA"] = str(args.data.resolve())
    name = "numpy" if args.device is None else "torch"
    backend = make_backend(name, args.device, "float32", count_jobs(args.jobs))
    if args.tf32:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = True
    others: dict[str, Backend] = {"NumPy in float32": make_backend(dtype="float32")}
    if args.device is not None:
        others[f"{args.device} in float64"] = make_backend("torch", args.device, "float64")
        if not args.tf32:
            others[f"{args.device} in float32"] = backend
    check_parity(others)
    if args.block_rows is not None:
        backend.block_rows = args.block_rows
    data = fetch_binary_mnist(download=False)
    with backend.busy():
        for seed in args.seeds:
            if finished(args, seed):
                print(f"{args.network}, seed {seed}: there already", flush=True)
            elif not run(args, seed, backend, data, begin + 60 * args.minutes):
                return


if __name__ == "__main__":
    main()
