"""How many threads to use."""

from __future__ import annotations

import numbers

from joblib import effective_n_jobs


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` stands for, as joblib and scikit-learn read it.

    None is one thread, unless a ``joblib.parallel_config`` says otherwise; -1 is all cores, -2 all
    but one.

    Examples
    --------
    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return int(effective_n_jobs(None))
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, not {n_jobs!r}.")
    return int(effective_n_jobs(int(n_jobs)))
