import os

import joblib
import pytest

from bayescut import CNetBD
from bayescut._jobs import count_jobs, side_by_side


def test_jobs_are_counted_as_joblib_does():
    cores = joblib.cpu_count()
    assert count_jobs(None) == 1
    assert count_jobs(7) == 7
    assert count_jobs(-1) == cores
    assert count_jobs(-2) == max(1, cores - 1)
    assert count_jobs(-1000) == 1
    with joblib.parallel_config("threading", n_jobs=3):
        assert count_jobs(None) == 3
        assert count_jobs(2) == 2
    assert count_jobs(None) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_impossible_numbers_of_jobs(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be"):
        count_jobs(n_jobs)
    with pytest.raises(ValueError, match="n_jobs must be"):
        CNetBD(n_jobs=n_jobs).fit([[0, 1], [1, 0]])


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_come_in_the_order_of_the_items(n_jobs):
    assert side_by_side(lambda x: x * x, range(20), n_jobs) == [x * x for x in range(20)]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this platform")
def test_only_cores_of_this_process_are_counted():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert count_jobs(-1) == 1
    finally:
        os.sched_setaffinity(0, before)
