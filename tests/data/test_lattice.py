"""Recording steps, on made and on real columns."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescut.data.lattice import distinct_values, find_step, on_lattice, snap, to_bins
from bayescut.exceptions import DataError


def step_of(values, weights=None):
    return find_step(*distinct_values(np.asarray(values, dtype=float), weights))


@pytest.mark.parametrize(
    ("values", "step", "exact"),
    [
        ([1, 2, 5], 1.0, True),
        ([1000, 2000], 1.0, True),
        ([-3.0], 1.0, True),
        ([0.5, 1, 3.5], 0.5, True),
        ([0.1, 0.2, 0.7], 0.1, True),
        ([0.1, 0.2, 0.75], 0.05, True),
        ([1e-5, 3e-5, 8e-5], 1e-5, True),
        ([123456.78, 123456.79], 0.01, True),
        (np.float32([0.1, 0.3, 1.7, 20.9]), 0.1, True),
        (np.float32([1000.123, 1000.456, 999.001]), 0.001, True),
        # Tenths with one hundredth in twelve.
        (np.append(np.arange(11) / 10, 0.33), 0.1, False),
        # All zeros but for a few hundredths: zero lies on every lattice.
        ([0.0] * 100 + [0.01, 0.37, 0.12, 0.55], 0.01, True),
    ],
)
def test_steps(values, step, exact):
    found, whole = step_of(values)
    assert found == pytest.approx(step, rel=1e-12)
    assert whole is exact


def test_no_lattice():
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    step, exact = step_of(values)
    bulk = np.subtract(*np.quantile(values, [0.95, 0.05]))
    assert bulk / 512 / 2.5 < step <= bulk / 512
    assert not exact
    assert step_of(1e9 * values)[0] == pytest.approx(1e9 * step, rel=0.01)
    assert step_of(1e-9 * values)[0] == pytest.approx(1e-9 * step, rel=0.01)


def test_digits_of_a_computation_are_no_lattice():
    values = np.random.default_rng(0).uniform(size=2000).round(9)
    assert step_of(values)[0] == 0.001


@pytest.mark.parametrize("value", [0.0, 3.7, -1e-300, 5e-324, 1e300, np.pi])
def test_constants(value):
    step, _ = step_of([value] * 3)
    assert step > 0
    assert np.isfinite(to_bins(np.array([value]), step)).all()


def test_numbers_beyond_whole_floats():
    step, _ = step_of([2.0**60, 2.0**61])
    assert step >= 2.0**8


def test_weights_are_rows():
    values = np.array([0.1, 0.2, 0.25])
    twice = np.repeat(values, [3, 0, 2])
    distinct, rows = distinct_values(values, np.array([3.0, 0.0, 2.0]))
    plain, counts = distinct_values(twice)
    np.testing.assert_array_equal(distinct, plain)
    np.testing.assert_array_equal(rows, counts)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], None, "at least one value"),
        ([np.inf, 1], None, "finite"),
        ([np.nan, 1], [1.0, 1.0], "finite"),
        ([1.0], [-1.0], "not negative"),
        ([1.0], [np.nan], "finite"),
        ([1.0], [0.0], "positive weight"),
        ([1.0], [1.0, 1.0], "1 values but 2 weights"),
    ],
)
def test_bad_values(values, weights, message):
    with pytest.raises(DataError, match=message):
        distinct_values(np.array(values), weights)


@given(st.integers(-(10**9), 10**9), st.sampled_from([1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 1e-4, 1e-6]))
def test_snapped_values_have_the_decimals_of_the_step(number, step):
    value = snap(np.array([float(number)]), step).item()
    assert to_bins(np.array([value]), step).item() == number
    assert on_lattice(np.array([value]), step).all()
    assert float(f"{value:.6f}") == value


DATA = os.environ.get("BAYESCUT_DATA")
STEPS = {
    # The steps of wine as a chemist would write them; its density has a fifth decimal.
    "abda-wine": [0.1, 0.01, 0.01, 0.1, 0.001, 1, 1, 1e-5, 0.01, 0.01, 0.1],
    "abda-abalone": [None, 0.005, 0.005, 0.005, 0.0005, 0.0005, 0.0005, 0.0005],
    # Its gains and losses: 92 and 95 % are zero.
    "abda-adult": [None, None, 0.01, None, None, None, None, None, None, 0.01, 0.01],
}


@pytest.mark.parametrize("name", STEPS)
def test_real_columns(name):
    path = Path(DATA or ".") / "mixed" / name / "train.csv.gz"
    if DATA is None or not path.exists():
        pytest.skip("set BAYESCUT_DATA to a folder with the mixed tables")
    with gzip.open(path, "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1)
    for column, step in enumerate(STEPS[name]):
        if step is not None:
            assert step_of(table[:, column])[0] == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize("weight", [1e-20, 1e20])
def test_weights_that_no_grid_holds_are_told(weight):
    with pytest.raises(DataError, match="multiply sample_weight by a constant"):
        distinct_values(np.array([1.0, 2.5]), np.array([weight, weight]))


def test_whole_numbers_in_tens_hundreds_and_thousands():
    rng = np.random.default_rng(0)
    for step in (10, 100, 1000):
        values = np.unique(step * rng.integers(-50, 300, 400)).astype(float)
        assert find_step(values, np.ones(len(values))) == (float(step), True)
        odd = np.sort(np.append(values, step * 7 + 1.0))  # one value between says that it is not so
        assert find_step(odd, np.ones(len(odd))) == (1.0, True)
    few = 100.0 * np.arange(5)
    assert find_step(few, np.ones(5)) == (1.0, True)
    assert find_step(np.zeros(1), np.ones(1)) == (1.0, True)


def test_hundredths_are_a_recording_however_wide_the_range():
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(50_000, 12_000, 500),
        np.exp(rng.normal(10, 2, 3000)),
        rng.uniform(-1e9, 1e9, 400),
    ):
        step, exact = find_step(*distinct_values(values.round(2)))
        assert (step, exact) == (0.01, True)
        assert find_step(*distinct_values(values))[0] > 1.0
    # Finer ones are digits of a computation.
    assert find_step(*distinct_values(rng.normal(0, 1, 500).round(7)))[0] == 0.005
