"""``n_jobs`` means what joblib means by it."""

import joblib
import numpy as np
import pytest

from bayescut._jobs import count_jobs


def test_joblib_semantics():
    cores = joblib.cpu_count()
    assert count_jobs(None) == 1
    assert count_jobs(5) == 5 and count_jobs(np.int64(2)) == 2
    assert count_jobs(-1) == cores
    assert count_jobs(-2) == max(1, cores - 1)
    assert count_jobs(-cores - 7) == 1
    with joblib.parallel_config(n_jobs=3):
        assert count_jobs(None) == 3


@pytest.mark.parametrize("value", [0, 1.0, "2", True, float("nan")])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="n_jobs must be a whole number other than 0, or None"):
        count_jobs(value)
