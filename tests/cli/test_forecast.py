"""What is said before a long fit."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from bayescut.cli import _forecast
from bayescut.cli._forecast import forecast, seconds_at, working_bytes
from bayescut.cli._silence import hush, speaking
from bayescut.data import Domains


class Slow(BaseEstimator):
    """Takes a second and a millisecond for each row, on a clock of its own."""

    rows: ClassVar[list[int]] = []
    now = 0.0

    def __init__(self, verbose: int = 0, time_budget: float | None = None) -> None:
        self.verbose = verbose
        self.time_budget = time_budget

    def fit(self, X: Any) -> Slow:
        Slow.rows.append(len(X))
        Slow.now += 1.0 + 0.001 * len(X)
        return self


@pytest.fixture(autouse=True)
def begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forecast, "_LONG", 1e5)
    Slow.rows, Slow.now = [], 0.0


def table(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({f"x{j}": rng.integers(0, 5, n) for j in range(4)})


def told(model: Any, n: int, capsys: pytest.CaptureFixture[str]) -> str:
    with speaking():
        forecast(model, table(n), clock=lambda: Slow.now)
    return capsys.readouterr().err


def test_it_is_told_from_parts_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        told(Slow(), 32_000, capsys) == "bayescut: learning takes about 33 s and 21 MB of memory\n"
    )
    assert Slow.rows == [250, 2000, 4000]
    Slow.rows = []
    assert "about 5 minutes" in told(Slow(), 320_000, capsys)
    assert Slow.rows == [250, 10_000, 20_000]
    assert "about 2.0 hours" in told(Slow(time_budget=7200), 32_000, capsys)


def test_a_budget_is_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "about 60 s" in told(Slow(time_budget=60), 32_000, capsys)
    assert Slow.rows == []


def test_short_fits_and_quiet_users_hear_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(Slow(), 8000, capsys) == ""  # nine seconds
    assert told(Slow(), 2000, capsys) == ""  # too few rows for parts of them
    monkeypatch.setattr(_forecast, "_LONG", 1e12)
    Slow.rows = []
    assert told(Slow(), 32_000, capsys) == ""
    with speaking():
        hush(True)
        forecast(Slow(), table(32_000))
    assert Slow.rows == []
    assert capsys.readouterr().err == ""


def test_lines_through_two_points() -> None:
    assert seconds_at(200, [(1, 5.0), (2, 5.0)]) == 50.0  # the slope drowned in noise
    assert seconds_at(1000, [(50, 1.0), (100, 4.0)]) == 40.0  # no more than proportional
    for few, more in itertools.pairwise([10, 20, 40]):
        assert seconds_at(1000, [(few, 2 + few), (more, 2 + more)]) == pytest.approx(1002)


def test_memory_is_that_of_rows_and_pairs() -> None:
    binary = Domains.of_sizes([2] * 100)
    rows = working_bytes(2_000_000, binary) - working_bytes(1_000_000, binary)
    assert rows == pytest.approx(1e6 * (100 + 12.5 + 12))
    many = Domains.of_sizes([3000] * 2)
    assert working_bytes(0, many) == 20_000_000 + 32 * 5998**2
