"""The threads that share the rows of a query."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bayescut._jobs import count_jobs

T = TypeVar("T")


def in_order(
    n_rows: int,
    size: int,
    n_jobs: int | None,
    work: Callable[[int, int], T],
    add: Callable[[T], None],
) -> None:
    """Call ``add(work(start, stop))`` for chunks of ``size`` rows, adding in the order of rows.

    Floating point sums depend on their order, so the chunks may be worked in parallel but are
    always added in the same order; at most ``threads + 1`` results wait. The first row that is
    refused is the same on any number of threads.
    """
    starts = range(0, n_rows, size)
    threads = max(1, min(count_jobs(n_jobs), len(starts)))
    if threads == 1:
        for start in starts:
            add(work(start, min(start + size, n_rows)))
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = []
        try:
            for start in starts:
                waiting.append(pool.submit(work, start, min(start + size, n_rows)))
                if len(waiting) > threads:
                    add(waiting.pop(0).result())
            for done in waiting:
                add(done.result())
        finally:
            for done in waiting:
                done.cancel()


def in_chunks(n_rows: int, size: int, n_jobs: int | None, work: Callable[[int, int], None]) -> None:
    """Call ``work(start, stop)`` for every chunk of rows, on several threads.

    What a chunk writes depends on its own rows only, so threads never change a result.
    """
    in_order(n_rows, size, n_jobs, work, lambda _: None)
