import time

from numba import njit

from bayescut import _clock
from bayescut._clock import _Compiling, working_time


def test_time_stands_still_while_kernels_are_compiled():
    @njit
    def kernel(x):
        return x + 1

    real, ours = time.monotonic(), working_time()
    assert kernel(1) == 2
    compiled = (time.monotonic() - real) - (working_time() - ours)
    assert compiled > 0
    before = _clock._compiling.seconds
    assert kernel(2) == 3  # compiled already
    assert _clock._compiling.seconds == before


def test_kernels_that_compile_others_are_counted_once(monkeypatch):
    now = iter([10.0, 13.0])
    monkeypatch.setattr(_clock.time, "monotonic", lambda: next(now))
    told = _Compiling()
    told.on_start(None)
    told.on_start(None)
    assert told.passed(12.0) == 2.0  # while it goes on
    told.on_end(None)
    assert told.passed(12.5) == 2.5
    told.on_end(None)
    assert told.seconds == told.passed(99.0) == 3.0
