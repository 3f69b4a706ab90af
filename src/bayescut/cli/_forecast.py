"""What a long fit will take, told before it begins."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescut.cli._errors import say
from bayescut.cli._silence import is_quiet

if TYPE_CHECKING:
    from bayescut.data import Domains

__all__ = ["forecast", "seconds_at", "working_bytes"]

# Fits of fewer row-and-pair-of-state units take seconds: on the twenty binary sets and the tables
# of labels 0.06 to 2 ns each with more than sixty states, so that this is ten seconds.
_LONG = 5e9
# Rows of the larger of two parts that are learned from beforehand: a sixteenth of all, but so many
# if they are not more than an eighth. With few rows, other work counts than with many.
_PART = 4000
# Fewer rows than this in the smaller part say nothing.
_LEAST = 250
# A shorter fit is not worth a line.
_TELL = 10.0
# As `estimators._validation.check_size` counts: bytes for each pair of states at the peak.
_PAIR_BYTES = 32
# Row numbers, those of both branches of a cut, and what they are sorted by.
_ROW_BYTES = 12
# Tables of candidates, trees and leaves, whatever the rows: 17 to 40 MB on most tables.
_BASE_BYTES = 20_000_000

# Told beside taken, in processor seconds and in memory beside the table. CutsetNetwork: Binary
# MNIST 0.9 and 1.1, adult (numbers, labels, gaps) 1.1 and 0.6, gesture (numbers) 0.7 and 1.6, chess
# (labels) 0.9 and 0.6, phishing (labels) 0.8 and 4.5 (of 5 MB), kdd (binary) 0.9 and 1.0, jungle
# (labels) 1.3 and 1.1, c20ng (910 binary columns) 2.6 and 1.9; CutsetMixture of baudio 1.4 and 1.3.
# From a thirty-second and a sixteenth of the rows, seconds were off by 0.3 (chess) to 4 (adult).


def working_bytes(n_rows: int, domains: Domains) -> int:
    """Bytes that learning takes besides the table: codes, bits of the states, counts of pairs."""
    states = domains.n_states
    bits = int(np.maximum(states - 1, 1).sum())
    width = 2 if states.max(initial=0) > 254 else 1
    numbers = sum(domain.grid is not None for domain in domains)
    per_row = len(domains) * width + bits / 8 + 8 * len(domains) * (numbers > 0) + _ROW_BYTES
    return int(_BASE_BYTES + n_rows * per_row + _PAIR_BYTES * bits**2)


def seconds_at(n_rows: int, measured: list[tuple[int, float]]) -> float:
    """Seconds for so many rows along the line through two measurements.

    Examples
    --------
    >>> from bayescut.cli._forecast import seconds_at
    >>> seconds_at(1000, [(100, 2.0), (200, 3.0)])
    11.0
    """
    (few, short), (more, longer) = measured
    slope = (longer - short) / (more - few)
    if slope <= 0:
        # Noise, or a search that took fewer rounds: between nothing and all of it grows.
        return longer * math.sqrt(n_rows / more)
    # More rows are seldom worse than that many times the work; in few rows it only begins.
    slope = min(slope, longer / more)
    return longer + slope * (n_rows - more)


def forecast(model: Any, frame: Any, clock: Callable[[], float] = time.perf_counter) -> None:
    """Tell how long a fit will take and what memory, if it will take long.

    Learns from parts of the rows, so that the learner, the table and the machine are those of the
    fit.

    Parameters
    ----------
    model : estimator
        As it will be fitted.
    frame : DataFrame
    clock : callable
        Seconds since some time.
    """
    if is_quiet():
        return
    from sklearn.base import clone

    from bayescut.data import describe_table
    from bayescut.exceptions import BayescutError

    n_rows = len(frame)
    more = max(n_rows // 16, min(n_rows // 8, _PART))
    sizes = (more // 2, more)
    # Rows are drawn: the first ones are often of one kind.
    order = np.random.default_rng(0).permutation(n_rows)
    some = frame.iloc[np.sort(order[: min(n_rows, 20_000)])]
    columns = getattr(model, "columns", None)
    try:
        domains = describe_table(some, columns=columns, max_cells=32).domains
    except (BayescutError, TypeError):
        return  # the fit will say what is wrong, with the whole table before it
    bits = float(np.maximum(domains.n_states - 1, 1).sum())
    if n_rows * bits**2 < _LONG:
        return
    memory = _size(working_bytes(n_rows, domains))
    budget = getattr(model, "time_budget", None)
    if budget is not None:
        say(f"learning takes about {_duration(budget)} and {memory} of memory")
        return
    if sizes[0] < _LEAST:
        return
    measured = []
    try:
        for size in (_LEAST, *sizes):  # the first one has the kernels compiled
            part = frame.iloc[np.sort(order[:size])]
            begin = clock()
            clone(model).set_params(verbose=0).fit(part)
            measured.append((size, clock() - begin))
    except (BayescutError, ValueError, TypeError):
        return
    seconds = seconds_at(n_rows, measured[1:])
    if seconds >= _TELL:
        say(f"learning takes about {_duration(seconds)} and {memory} of memory")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{max(n_bytes / 1e6, 1):.0f} MB"
