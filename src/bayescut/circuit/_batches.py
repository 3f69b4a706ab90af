"""Evidence as the kernels read it, and the threads that share its rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit._complete import ROWS
from bayescut.circuit._evaluate import read_rows
from bayescut.circuit._plan import MIN_PAIRS, make_lanes, make_workspace
from bayescut.data.domains import code_dtype, missing_code
from bayescut.exceptions import DataError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

# Rows that a thread takes at once: 1.6 MB of 784 variables.
CHUNK = 1024
# Fewer where threads would stand idle and the rows are worth it: starting one takes as long as
# 100 000 visits of a family, and most rows visit a part of the families only.
MIN_CHUNK = 64
MIN_VISITS = 2_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class Evidence:
    """The rows of a query: codes, masks of allowed states, values of continuous variables."""

    codes: CodeArray
    allowed: NDArray[np.bool_]  # (n, states), (1, states) for all rows, or (1, 0): no masks
    values: FloatArray  # (n, variables), or (1, 0): none

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def rows(self, begin: int, end: int) -> Evidence:
        """The evidence of some of the rows."""
        allowed, values = self.allowed, self.values
        if len(allowed) > 1:
            allowed = allowed[begin:end]
        if values.shape[1] > 0:
            values = values[begin:end]
        return Evidence(self.codes[begin:end], allowed, values)


def read_evidence(
    circuit: Circuit,
    codes: Any,
    allowed: ArrayLike | None = None,
    values: ArrayLike | None = None,
) -> Evidence:
    """Check the shapes and dtypes of a query's rows.

    uint8 and uint16 arrays are codes whose largest value means "not observed". Anything else is a
    table in the labels of the domains (NaN: not observed) and is encoded first; for a circuit with
    continuous variables that is a float table with codes and values side by side.
    """
    domains = circuit.domains
    n_variables = len(domains)
    continuous = domains.n_states == 0
    array = codes if isinstance(codes, np.ndarray) else None
    if array is None or array.dtype not in (np.uint8, np.uint16):
        if continuous.any():
            array, values = _split_table(circuit, codes, values)
        else:
            from bayescut.data import encode

            array = encode(codes, domains, allow_missing=True)
    if array.ndim != 2 or array.shape[1] != n_variables:
        raise DataError(
            f"Expected a table with {n_variables} columns, one per variable; "
            f"got shape {array.shape}."
        )
    n = len(array)
    mask = np.empty((1, 0), dtype=np.bool_)
    if allowed is not None:
        mask = np.array(allowed, dtype=np.bool_, ndmin=2, order="C")
        n_columns = int(domains.n_states.sum())
        if mask.shape not in ((1, n_columns), (n, n_columns)):
            raise DataError(
                f"allowed must have shape ({n_columns},) or ({n}, {n_columns}), not {mask.shape}."
            )
    reals = np.empty((1, 0))
    if continuous.any():
        if values is None:
            if np.any(array[:, continuous] != missing_code(array.dtype)):
                raise DataError(
                    "The circuit has continuous variables: give their numbers in `values`, "
                    "or the whole table as floats."
                )
            values = np.full((n, n_variables), np.nan)
        reals = np.array(values, dtype=np.float64, order="C")
        if reals.shape != (n, n_variables):
            raise DataError(f"values must have shape {(n, n_variables)}, not {reals.shape}.")
    return Evidence(np.ascontiguousarray(array), mask, reals)


def _split_table(
    circuit: Circuit, table: Any, values: ArrayLike | None
) -> tuple[CodeArray, ArrayLike]:
    if values is not None:
        raise DataError("Give `values` together with uint8 or uint16 codes, or one float table.")
    domains = circuit.domains
    floats = np.array(table, dtype=np.float64, ndmin=2)
    if floats.ndim != 2 or floats.shape[1] != len(domains):
        raise DataError(f"Expected a table with {len(domains)} columns; got shape {floats.shape}.")
    dtype = code_dtype(domains)
    codes = np.full(floats.shape, missing_code(dtype), dtype=dtype)
    for v, n_states in enumerate(domains.n_states):
        column = floats[:, v]
        observed = ~np.isnan(column)
        if n_states == 0:
            codes[observed, v] = 0
            continue
        bad = observed & ~((column >= 0) & (column < n_states) & (column == np.floor(column)))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"{column[row]:g} at {domains.where(row, v)} is not a state: "
                f"expected a whole number from 0 to {n_states - 1}, or NaN."
            )
        codes[observed, v] = column[observed].astype(dtype)
    return codes, floats


def join_table(circuit: Circuit, codes: CodeArray, values: FloatArray) -> NDArray[Any]:
    """Return rows as the caller gave them: codes, or one float table if some are continuous."""
    if values.shape[1] == 0:
        return codes
    table = np.where(codes == missing_code(codes.dtype), np.nan, codes.astype(np.float64))
    continuous = circuit.domains.n_states == 0
    table[:, continuous] = values[:, continuous]
    return table


class Scratch:
    """What one thread needs to work on chunks of a query's rows."""

    def __init__(
        self, circuit: Circuit, evidence: Evidence, n_nodes: int = 1, with_joint: bool = False
    ) -> None:
        self.circuit = circuit
        self.evidence = evidence
        # A row needs each leaf at most once, and once more where a node is itself a leaf.
        self.most_pairs = circuit.sizes.leaves + n_nodes
        # Room for many rows beside the largest: a leaf is fast only for many rows at once.
        n_pairs = self.most_pairs + MIN_PAIRS
        self.workspace = make_workspace(circuit.sizes, n_pairs)
        self.lanes = make_lanes(circuit.sizes, n_pairs, with_joint)
        self.random = np.zeros(1, dtype=np.uint64)
        n_rows = min(CHUNK, evidence.n_rows)
        self.last = np.full(circuit.n_nodes, -1)
        self.chain = np.empty((3, max(n_rows, ROWS)), dtype=np.int64)
        self.columns = np.zeros((len(circuit.domains), ROWS), dtype=evidence.codes.dtype)
        self.sums = np.empty(ROWS)
        self._rows = np.empty((n_rows, len(circuit.domains)), dtype=np.uint16)
        self._unknown = np.empty(n_rows, dtype=np.int64)
        # An observed continuous variable has code 0.
        self._limit = np.maximum(circuit.domains.n_states, 1).astype(np.uint16)

    def read(self, start: int, stop: int) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return (states, number of unknown variables) of at most CHUNK rows."""
        evidence, plan = self.evidence, self.circuit.plan
        rows, unknown = self._rows[: stop - start], self._unknown[: stop - start]
        row, column = read_rows(
            evidence.codes,
            missing_code(evidence.codes.dtype),
            evidence.allowed,
            evidence.values,
            plan.variable,
            self._limit,
            start,
            stop,
            rows,
            unknown,
        )
        if row >= 0:
            domains = self.circuit.domains
            where = domains.where(row, column)
            if domains.n_states[column] == 0:
                value = evidence.values[row, column]
                raise DataError(f"{value:g} at {where} is not a finite number.")
            raise DataError(
                f"Code {evidence.codes[row, column]} at {where} is not a state: "
                f"expected 0 to {domains.n_states[column] - 1}."
            )
        return rows, unknown


def n_threads(n_jobs: int | None, n_tasks: int) -> int:
    """Return how many threads to use: all cores for None, never more than there is work."""
    if n_jobs is None or n_jobs == -1:
        available = getattr(os, "sched_getaffinity", None)
        n_jobs = len(available(0)) if available else os.cpu_count() or 1
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be a positive number, -1 or None, not {n_jobs}.")
    return max(1, min(n_jobs, n_tasks))


def in_chunks(
    n_rows: int,
    n_jobs: int | None,
    prepare: Callable[[], T],
    work: Callable[[T, int, int], None],
    n_families: int = 0,
) -> None:
    """Call ``work(scratch, start, stop)`` for every chunk of rows, on several threads.

    Each thread makes its own scratch with ``prepare`` and takes every n-th chunk. What a chunk
    writes depends on its own rows only, so threads never change a result. ``n_families`` is how
    many families of junction leaves a row may visit.
    """
    size = CHUNK
    if n_rows * n_families > MIN_VISITS:
        share = -(-n_rows // n_threads(n_jobs, n_rows))
        size = min(CHUNK, max(MIN_CHUNK, share))
    starts = range(0, n_rows, size)
    threads = n_threads(n_jobs, len(starts))
    faults: dict[int, Exception] = {}

    def thread(index: int) -> None:
        scratch = prepare()
        for start in starts[index::threads]:
            try:
                work(scratch, start, min(start + size, n_rows))
            except Exception as error:
                faults[start] = error
                return

    if threads == 1 and n_rows:
        thread(0)
    elif n_rows:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(thread, index) for index in range(threads)]:
                done.result()
    if faults:
        # The first bad row is the same on any number of threads.
        raise faults[min(faults)]


def in_order(
    n_rows: int,
    size: int,
    n_jobs: int | None,
    work: Callable[[int, int], T],
    add: Callable[[T], None],
) -> None:
    """Call ``add(work(start, stop))`` for chunks of ``size`` rows, adding in the order of rows.

    Floating point sums depend on their order, so the chunks may be worked in parallel but are
    always added in the same order; at most ``threads + 1`` results wait.
    """
    starts = range(0, n_rows, size)
    threads = n_threads(n_jobs, len(starts))
    if threads == 1:
        for start in starts:
            add(work(start, min(start + size, n_rows)))
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = []
        for start in starts:
            waiting.append(pool.submit(work, start, min(start + size, n_rows)))
            if len(waiting) > threads:
                add(waiting.pop(0).result())
        for done in waiting:
            add(done.result())
