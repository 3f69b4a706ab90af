"""One cell of a benchmark, or any function, in a process of its own.

``python -m bayescut.bench._cell``: the request is one line of JSON on standard input, the answer
one on standard output. Standard input stays open as long as the runner lives: when it ends, so does
this process, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from bayescut.bench._environment import peak_memory, reset_peak_memory
from bayescut.bench._specs import load_dataset, parse_learner
from bayescut.exceptions import DatasetError

# Small enough to cost little, large enough that cuts are made and every kernel is used.
WARM_UP_ROWS = 512
WARM_UP_COLUMNS = 64


def main() -> None:
    """Answer the request on standard input."""
    # Whatever a learner prints goes to standard error: the answer has its channel to itself.
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_die_with_runner, daemon=True).start()
    try:
        function = find_function(request["function"])
        answer = {"status": "ok", "value": function(**request["arguments"])}
    except DatasetError as error:
        answer = {"status": "unavailable", "error": one_line(error)}
    except Exception as error:
        traceback.print_exc()
        answer = {"status": "failed", "error": one_line(error)}
    with answer_to:
        answer_to.write(json.dumps(answer) + "\n")


def find_function(name: str) -> Callable[..., Any]:
    """Import ``package.module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def _die_with_runner() -> None:
    # Not sys.stdin: its lock, held by a thread that waits, would keep the process from ending.
    while os.read(0, 1024):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with any processes the learner has started
    os._exit(1)


def one_line(error: BaseException) -> str:
    """Return the kind and the message of an error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def measure(learner: str, dataset: str, seed: int | None, protocol: str) -> dict[str, Any]:
    """Fit a learner, score the test rows, and return the fields of a result.

    Parameters
    ----------
    learner, dataset : str
        Canonical names.
    seed : int or None
        The ``random_state``.
    protocol : str
        ``"train+valid"`` or ``"train"``.
    """
    data = load_dataset(dataset)
    spec = parse_learner(learner)
    stacked = protocol == "train+valid"
    table = np.concatenate([data.train, data.valid]) if stacked else data.train
    warmed_up = _warm_up(spec.build(seed), table)
    model = spec.build(seed)
    reset_peak_memory()
    base = peak_memory()
    begin = time.perf_counter()
    model.fit(table)
    fit_seconds = time.perf_counter() - begin
    # The memory of learning: scoring may need more, on another machine or another day.
    peak = peak_memory()
    begin = time.perf_counter()
    rows = np.asarray(model.score_samples(data.test), dtype=np.float64)
    score_seconds = time.perf_counter() - begin
    if rows.shape != (len(data.test),):
        raise ValueError(f"score_samples returned shape {rows.shape} for {len(data.test)} rows")
    with np.errstate(invalid="ignore"):  # rows of probability zero: the mean is −inf
        mean, deviation = float(rows.mean()), float(rows.std())
    return {
        "test_log_likelihood": _json_number(mean),
        "test_standard_error": _json_number(deviation / np.sqrt(len(rows))),
        "valid_log_likelihood": None
        if stacked
        else _json_number(float(np.mean(model.score_samples(data.valid)))),
        "fit_seconds": fit_seconds,
        "score_seconds": score_seconds,
        "n_parameters": _size(model),
        "peak_memory_bytes": peak,
        "base_memory_bytes": base,
        "n_rows": len(table),
        "n_test_rows": len(data.test),
        "n_columns": table.shape[1],
        "warmed_up": warmed_up,
    }


def _warm_up(model: Any, table: Any) -> bool:
    small = np.ascontiguousarray(table[:WARM_UP_ROWS, :WARM_UP_COLUMNS])
    try:
        model.fit(small)
        model.score_samples(small)
    except Exception:  # a table too small for this learner: its compile time will be counted
        return False
    return True


def _size(model: Any) -> int | None:
    size = getattr(model, "n_parameters_", None)
    if size is None:
        size = getattr(getattr(model, "circuit_", None), "n_parameters", None)
    return None if size is None else int(size)


def _json_number(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)


if __name__ == "__main__":
    main()
