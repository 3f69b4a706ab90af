"""A tiny data set and learners that behave, fail, hang and die; cells import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayescut.datasets import Dataset

DATA = "tests.bench.tiny:load"


def load(n: int = 60) -> Dataset:
    """Three columns, the second a copy of the first."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, 2, (n, 3), dtype=np.uint8)
    table[:, 1] = table[:, 0]
    third = n // 3
    return Dataset("tiny", table[:third], table[third : 2 * third], table[2 * third :])


def unavailable() -> Dataset:
    """A data set that cannot be had."""
    from bayescut.exceptions import DatasetError

    raise DatasetError("the library is closed")


def process(square: int) -> dict[str, int]:
    """Say who is working."""
    print("working")
    return {"pid": os.getpid(), "nine": square * square}


def long_answer(n: int) -> str:
    """Return more than a pipe holds."""
    return "x" * n


class Uniform:
    """Every row has the same probability; ``shift`` makes results differ."""

    def __init__(self, shift: float = 0.0, random_state: int | None = None) -> None:
        self.shift = shift
        self.random_state = random_state

    def fit(self, X: Any) -> Uniform:
        """Learn the number of columns."""
        print("learning")  # what learners print must not disturb the answer
        self.n_columns = X.shape[1]
        self.n_parameters_ = 2 * self.n_columns
        return self

    def score_samples(self, X: Any) -> Any:
        """Return the log-probability of rows of fair coins."""
        level = -self.n_columns * np.log(2) + self.shift + (self.random_state or 0)
        return np.full(len(X), level)


class Plain(Uniform):
    """The same without randomness."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__(shift)


class Surprised(Plain):
    """Holds the first row of any table to be impossible."""

    def score_samples(self, X: Any) -> Any:
        """Return −inf once."""
        values = super().score_samples(X)
        values[0] = -np.inf
        return values


class Failing(Plain):
    """Cannot learn."""

    def fit(self, X: Any) -> Uniform:
        """Raise."""
        raise ArithmeticError("no solution\nin two lines")


class Dying(Plain):
    """Takes its process with it."""

    def fit(self, X: Any) -> Uniform:
        """Kill this process."""
        os.kill(os.getpid(), signal.SIGKILL)
        return self


class Waiting(Plain):
    """Writes its process number and waits until a file appears."""

    def __init__(self, folder: str, shift: float = 0.0) -> None:
        super().__init__(shift)
        self.folder = folder

    def fit(self, X: Any) -> Uniform:
        """Wait for ``folder/go``."""
        folder = Path(self.folder)
        (folder / "pid").write_text(str(os.getpid()), encoding="ascii")
        while not (folder / "go").exists():
            time.sleep(0.02)
        return super().fit(X)
