"""Learners × data sets × seeds, one process for each cell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import bayescut
from bayescut._progress import progress
from bayescut.bench._environment import environment
from bayescut.bench._specs import BenchError, dataset_names, parse_learner
from bayescut.bench._store import Key, Result, Results, Store

__all__ = ["PROTOCOLS", "call_apart", "plan", "run", "run_cell"]

PROTOCOLS = ("train+valid", "train")
# What is kept of a failed process's standard error.
_DETAIL_CHARACTERS = 2000


def plan(
    learners: Iterable[str],
    datasets: Iterable[str],
    seeds: Sequence[int] = (0,),
    protocol: str = "train+valid",
) -> list[Key]:
    """Return the cells of a benchmark: data set by data set, each learner with each seed.

    Parameters
    ----------
    learners, datasets : iterables of str
        Names as `parse_learner` and `dataset_names` take them.
    seeds : sequence of int
        Values of ``random_state``. A learner without randomness has one cell, with seed None.
    protocol : {"train+valid", "train"}
        What is learned from.

    Examples
    --------
    >>> from bayescut.bench import plan
    >>> plan(["CNetBD", "CNetBIC"], ["dna"], seeds=[0, 1])
    [('CNetBD', 'dna', None, 'train+valid'), ('CNetBIC', 'dna', None, 'train+valid')]
    """
    if protocol not in PROTOCOLS:
        raise BenchError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}.")
    if not seeds:
        raise BenchError("At least one seed is needed.")
    parsed = list(dict.fromkeys(parse_learner(learner) for learner in learners))
    names = dataset_names(datasets)
    if not parsed or not names:
        raise BenchError("At least one learner and one data set are needed.")
    for learner in parsed:
        learner.build()  # a wrong name or argument is told before any work
    seeds_of = {
        learner: tuple(dict.fromkeys(seeds)) if learner.takes_seed else (None,)
        for learner in parsed
    }
    return [
        (learner.spec, name, seed, protocol)
        for name in names
        for learner in parsed
        for seed in seeds_of[learner]
    ]


def run(
    learners: Iterable[str],
    datasets: Iterable[str],
    path: str | os.PathLike[str],
    *,
    seeds: Sequence[int] = (0,),
    protocol: str = "train+valid",
    time_limit: float | None = None,
    force: bool = False,
    retry: bool = False,
    verbose: int = 0,
    on_start: Callable[[Key, int, int], None] | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Run every cell that the results file does not have yet.

    Each cell runs in a process of its own, one at a time: the data are loaded, the learner is
    fitted to a table of at most 512 rows and 64 columns so that its kernels are compiled, and then
    a new one is fitted to the whole table. Only this last fit is timed. A result is on the disk
    before the next cell begins; a run that was killed is taken up where it stopped.

    Log-likelihoods of tables of states are at most zero. Those of estimators for real numbers
    (Gaussian mixtures, kernel densities) are densities and cannot be compared with them.

    Parameters
    ----------
    learners : iterable of str
        ``"CNetBD"``, ``"CNetBD(ess=1.0)"`` or ``"package.module:Class(argument=1)"``: anything with
        ``fit(X)`` and ``score_samples(X)``.
    datasets : iterable of str
        See `dataset_names`.
    path : path-like
        The results file (JSON lines).
    seeds : sequence of int
        Values of ``random_state``, for learners that take it.
    protocol : {"train+valid", "train"}
        Learn from training and validation rows stacked, or from training rows only.
    time_limit : float, optional
        Seconds a cell may take, loading and compiling included.
    force : bool, default=False
        Run all cells again. The latest result counts.
    retry : bool, default=False
        Run those again that failed or ran out of time.
    verbose : int, default=0
        Above 0, show progress.
    on_start : callable, optional
        Called before each cell with its key, the number of cells run so far and that of all to be
        run.
    on_result : callable, optional
        Called with each new result.

    Returns
    -------
    list of Result
        Of all cells asked for, run now or before.
    """
    if time_limit is not None and not time_limit > 0:
        raise BenchError(f"The time limit must be a positive number of seconds, not {time_limit}.")
    cells = plan(learners, datasets, seeds, protocol)
    with Store(path, Results()) as store:
        finished = {"ok"} if retry else {"ok", "failed", "timeout"}
        todo = [
            cell
            for cell in cells
            if force or cell not in store.records or store.records[cell].status not in finished
        ]
        with progress("benchmark", len(todo), verbose) as advance:
            for done, cell in enumerate(todo):
                if on_start is not None:
                    on_start(cell, done, len(todo))
                result = run_cell(cell, time_limit)
                store.append(result)
                if on_result is not None:
                    on_result(result)
                advance(1)
        return [store.records[cell] for cell in cells]


def run_cell(cell: Key, time_limit: float | None = None) -> Result:
    """Run one cell in a process of its own; failures and time-outs are results too."""
    learner, dataset, seed, protocol = cell
    request = {"learner": learner, "dataset": dataset, "seed": seed, "protocol": protocol}
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    answer = call_apart("bayescut.bench._cell:measure", request, time_limit)
    found = {**request, **answer.pop("value", {}), **answer}
    found |= {"time_limit": time_limit, "started": started, "environment": environment()}
    # Through the reader of results files, which turns "-inf" into a number.
    return Result.from_json(json.dumps({"format": 1, **found}))


def call_apart(
    function: str, arguments: Mapping[str, Any], time_limit: float | None = None
) -> dict[str, Any]:
    """Call a function in a process of its own, which ends with this one.

    Parameters
    ----------
    function : str
        ``package.module:function``; the module has to be importable from here.
    arguments : mapping
        What JSON can carry.
    time_limit : float, optional
        Seconds after which the process is stopped.

    Returns
    -------
    dict
        ``status``: ``"ok"``, ``"failed"``, ``"timeout"`` or ``"unavailable"`` (a data set that
        could not be had); ``value``: what the function returned; or ``error``, one line, and
        ``detail``, the end of what the process said.
    """
    with tempfile.TemporaryFile() as said:
        answer = _ask({"function": function, "arguments": dict(arguments)}, time_limit, said)
        if answer["status"] == "failed":
            said.seek(0)
            text = said.read().decode("utf-8", "replace").strip()
            answer["detail"] = text[-_DETAIL_CHARACTERS:] or None
    return answer


def _ask(request: dict[str, Any], time_limit: float | None, said: Any) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bayescut.bench._cell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        env=_child_environment(),
        # A group of its own, so that a learner's own processes can be stopped with it.
        start_new_session=True,
    )
    # Not communicate(): it would close standard input, whose end tells the cell to die.
    assert process.stdin is not None and process.stdout is not None
    stream, answers = process.stdout, [b""]
    # Read as it comes: a process with a long answer does not end before somebody takes it.
    reader = threading.Thread(target=lambda: answers.append(stream.read()), daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        try:
            process.wait(time_limit)
        except subprocess.TimeoutExpired:
            return {"status": "timeout", "error": f"stopped after {time_limit:g} s"}
        reader.join()
        try:
            answer = json.loads(answers[-1])
        except ValueError:
            return {"status": "failed", "error": _how_it_ended(process.returncode)}
        return dict(answer)
    finally:
        _stop(process)
        reader.join()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:  # pragma: no cover - Windows
        process.kill()
    process.wait()


def _how_it_ended(code: int) -> str:
    if code == -getattr(signal, "SIGKILL", 9):
        return "the process was killed, by the system if memory ran out"
    if code < 0:
        with suppress(ValueError):
            return f"the process was ended by {signal.Signals(-code).name}"
    return f"the process ended with exit code {code} and no answer"


def _child_environment() -> dict[str, str]:
    """The environment of a cell: it imports this very package, and what the caller can import."""
    home = str(Path(bayescut.__file__).resolve().parents[1])
    paths = [home, *(path for path in sys.path if path), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}
