"""How many threads ``n_jobs`` asks for, and work done side by side in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")


def count_jobs(n_jobs: Any) -> int:
    """Return the number of threads that ``n_jobs`` asks for, in joblib's sense.

    Parameters
    ----------
    n_jobs : int or None
        None is 1, unless a ``joblib.parallel_config`` around the call says otherwise; -1 are all
        cores this process may use, -2 all but one, and so on. Inside a worker of joblib, all cores
        are its share of them.

    Raises
    ------
    ValueError
        If it is 0 or no whole number.

    Examples
    --------
    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    if n_jobs is not None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
            raise ValueError(f"n_jobs must be a whole number other than 0, or None, got {n_jobs!r}")
        if n_jobs > 0:
            return int(n_jobs)
    from joblib import effective_n_jobs  # 0.1 s that a query in so many threads need not pay

    return int(effective_n_jobs(None if n_jobs is None else int(n_jobs)))


def side_by_side(work: Callable[[T], R], items: Iterable[T], n_jobs: int) -> list[R]:
    """Do the work of all items in ``n_jobs`` threads; return the results in their order."""
    if n_jobs == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_jobs) as executor:
        return list(executor.map(work, items))
