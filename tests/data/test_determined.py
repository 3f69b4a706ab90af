"""Numbers that are functions of others are named."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bayescut.data import describe_table
from bayescut.data.determined import determined_columns


def numbers(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 3, (n, 3))
    x[:, 2] = x[:, 0] + x[:, 1] + rng.normal(0, 0.2, n)
    return x.round(3)


def test_linear_functions_are_found() -> None:
    x = numbers()
    twice = (2 * x[:, 0] + 1).round(3)
    both = (x[:, 1] - 3 * x[:, 2]).round(3)
    whole = np.column_stack([x, twice, both])
    steps = np.full(5, 0.001)
    assert determined_columns(whole, steps) == {3: [0], 4: [1, 2]}
    # The third is a sum, but with more noise than rounding.
    assert determined_columns(x, steps[:3]) == {}
    holes = whole.copy()
    holes[::7, 0] = np.nan
    assert determined_columns(holes, steps) == {3: [0], 4: [1, 2]}
    weights = np.ones(300)
    broken = whole.copy()
    broken[:20, 3] = 0.0
    assert determined_columns(broken, steps) == {4: [1, 2]}
    weights[:20] = 0.0
    assert determined_columns(broken, steps, weights) == {3: [0], 4: [1, 2]}


def test_what_hardly_varies_or_has_few_rows_follows_from_nothing() -> None:
    rng = np.random.default_rng(1)
    rare = (rng.random(500) < 0.01) * rng.integers(1, 3, 500).astype(float)
    assert determined_columns(np.column_stack([rng.normal(size=500), rare]), np.ones(2)) == {}
    assert determined_columns(numbers(5), np.full(3, 0.001)) == {}
    assert determined_columns(numbers()[:, :1], np.full(1, 0.001)) == {}


def test_reports_name_them() -> None:
    x = numbers(9000)
    frame = pd.DataFrame({"a": x[:, 0], "kind": "u", "b": x[:, 1], "f": (1.8 * x[:, 0]).round(3)})
    report = describe_table(frame)
    told = "follows from a, but for rounding: its density is that of how it was recorded"
    assert [column.warnings for column in report.columns] == [(), (), (), (told,)]
    assert told in str(report)
    assert not any(column.warnings for column in describe_table(x).columns)
    again = describe_table(np.column_stack([x, x[:, 0] - x[:, 1]]))
    assert again.columns[3].warnings[0].startswith("follows from 0, 1, but")
