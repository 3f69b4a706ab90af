"""How many threads ``n_jobs`` asks for: joblib's meaning, everywhere."""

from __future__ import annotations

import numbers

from joblib import effective_n_jobs

__all__ = ["count_jobs"]


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for.

    Parameters
    ----------
    n_jobs : int or None
        None is 1 (or what `joblib.parallel_config` says), -1 all cores, -2 all but one.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        If it is 0 or not a whole number.

    Examples
    --------
    >>> from bayescut._jobs import count_jobs
    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return max(1, effective_n_jobs(None))
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, got {n_jobs!r}")
    return max(1, effective_n_jobs(int(n_jobs)))
