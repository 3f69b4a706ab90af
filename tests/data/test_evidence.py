"""Evidence by value, set and interval: codes, weights of states, values."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest

from bayescut.data import (
    Domain,
    Domains,
    Interval,
    above,
    at_least,
    at_most,
    below,
    between,
    encode_evidence,
    encode_row,
    encode_sets,
    learn_domains,
)
from bayescut.exceptions import DataError

TABLE = pd.DataFrame(
    {
        "age": np.arange(200) % 60 + 18,
        "town": np.where(np.arange(200) % 3, "Bonn", "Ulm"),
        "income": np.random.default_rng(0).gamma(2, 1000, 200),
        "rooms": np.arange(200) % 5 + 1,
        "day": pd.date_range("2024-01-01", periods=200),
        "stay": pd.to_timedelta(np.arange(200) % 50, unit="h"),
        "nothing": np.nan,
    }
)
DOMAINS = learn_domains(TABLE, numbers=True)


def states(weights, name):
    j = DOMAINS.index(name)
    return weights[DOMAINS.offsets[j] : DOMAINS.offsets[j + 1]]


def weights_of(evidence):
    (name,) = evidence
    codes, weights, values = encode_evidence(evidence, DOMAINS)
    assert (codes == 255).all()
    assert np.isnan(values).all()
    for other in TABLE.columns.drop(name):
        assert (states(weights, other) == 1).all()
    return states(weights, name)


def test_nothing_said():
    codes, weights, values = encode_evidence({}, DOMAINS)
    assert (codes == 255).all()
    assert (weights == 1).all()
    assert np.isnan(values).all()
    assert values.shape == codes.shape == (1, 7)
    codes, weights, values = encode_evidence({"age": None, "town": np.nan}, DOMAINS)
    assert (codes == 255).all()
    assert (weights == 1).all()


def test_values():
    codes, weights, values = encode_evidence(
        {"age": 30, "town": "Ulm", "day": "2024-01-05", "income": 1e9}, DOMAINS
    )
    assert codes[0].tolist() == [
        DOMAINS[0].code(30),
        1,
        DOMAINS[2].n_states - 1,
        255,
        DOMAINS[4].code(datetime.date(2024, 1, 5)),
        255,
        255,
    ]
    assert values[0, 0] == 30
    assert values[0, 2] == 1e9
    assert values[0, 4] == DOMAINS[4].number("2024-01-05")
    assert np.isnan(values[0, [1, 3, 5, 6]]).all()
    for j in (0, 1, 2, 4):
        own = states(weights, TABLE.columns[j])
        assert own[codes[0, j]] == 1
        assert own.sum() == 1
    np.testing.assert_array_equal(
        codes[:, :2], encode_row({"age": 30, "town": "Ulm"}, DOMAINS)[:, :2]
    )


def test_discrete_tables_have_no_values():
    domains = Domains.of_sizes([2, 3])
    codes, weights, values = encode_evidence({0: 1, 1: {0, 2}}, domains)
    assert values is None
    assert codes.tolist() == [[1, 255]]
    np.testing.assert_array_equal(weights, encode_sets({0: 1, 1: {0, 2}}, domains))


def test_intervals_of_numbers():
    grid = DOMAINS[0].grid
    for said, low, high, closed in [
        (between(30, 40), 30, 40, "both"),
        (between(30, 40, "left"), 30, 40, "left"),
        (at_least(30), 30, math.inf, "both"),
        (at_most(30), -math.inf, 30, "both"),
        (above(30), 30, math.inf, "neither"),
        (below(30), -math.inf, 30, "neither"),
        (between(30, math.inf), 30, math.inf, "both"),
        (pd.Interval(30, 40, "right"), 30, 40, "right"),
    ]:
        np.testing.assert_array_equal(weights_of({"age": said}), grid.weights(low, high, closed))
    # Every age has a cell of its own.
    assert weights_of({"age": between(30, 40)}).sum() == 11
    assert weights_of({"age": between(30, 40, "neither")}).sum() == 9
    np.testing.assert_allclose(
        weights_of({"age": at_least(30)}) + weights_of({"age": below(30)}), 1
    )


def test_intervals_of_times():
    january = weights_of({"day": between("2024-01-01", "2024-01-31")})
    mass = (january * DOMAINS[4].grid.mass).sum()
    assert mass == pytest.approx(31 / 200, rel=0.03)
    hours = weights_of({"stay": below(datetime.timedelta(hours=10))})
    assert hours[:10].tolist() == [1.0] * 10
    assert hours[10:].max() == 0


def test_intervals_of_numeric_labels():
    assert weights_of({"rooms": between(2, 4)}).tolist() == [0, 1, 1, 1, 0]
    assert weights_of({"rooms": above(2)}).tolist() == [0, 0, 1, 1, 1]
    assert weights_of({"rooms": below(1.5)}).tolist() == [1, 0, 0, 0, 0]


def test_sets():
    assert weights_of({"town": {"Ulm"}}).tolist() == [0, 1]
    assert weights_of({"rooms": [1, 5]}).tolist() == [1, 0, 0, 0, 1]
    ages = weights_of({"age": {30, 31, 40}})
    grid = DOMAINS[0].grid
    assert np.flatnonzero(ages).tolist() == grid.codes([30, 31, 40]).tolist()
    # A number stands for its bin, once, wherever in the bin it lies.
    income = DOMAINS[2].grid
    one = weights_of({"income": {1000.0}})
    two = weights_of({"income": {1000.0, 1000.0 + income.step / 4}})
    np.testing.assert_array_equal(one, two)
    assert 0 < one.sum() < 1


def test_pandas_intervals_can_be_labels():
    bins = pd.cut(TABLE["age"], [0, 30, 100])
    domains = learn_domains(pd.DataFrame({"bins": bins}), numbers=True)
    codes, weights, _ = encode_evidence({"bins": pd.Interval(0, 30)}, domains)
    assert codes.tolist() == [[0]]
    assert weights.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"height": 1}, "There is no column 'height'"),
        ({"age": 30, 0: 31}, "twice"),
        ({"age": "old"}, "'age': 'old' is no value of it. It holds values of kind number"),
        ({"age": math.inf}, "is no value of it"),
        ({"age": between("a", "b")}, "'age': 'a' is not a number"),
        ({"day": between(1, 2)}, "'day': 1 is no date"),
        ({"age": set()}, "allows no value"),
        ({"age": {"old"}}, "'old' is no value of it"),
        ({"town": "Rome"}, "'Rome' is no value"),
        ({"town": {"Rome"}}, "'Rome' is no value"),
        ({"town": between("A", "C")}, "is an interval, but the column holds labels"),
        ({"age": between(30.2, 30.8)}, "leaves no value"),
        ({"rooms": between(10, 20)}, "leaves no value"),
        ({"nothing": 3}, "No value of it was observed"),
        ({"nothing": between(1, 3)}, "holds labels"),
    ],
)
def test_bad_evidence(evidence, message):
    with pytest.raises(DataError, match=message):
        encode_evidence(evidence, DOMAINS)


@pytest.mark.parametrize(
    ("low", "high", "closed", "message"),
    [
        (2, 1, "both", "is empty"),
        (1, 2, "open", "closed must be"),
        (math.nan, 2, "both", "low bound"),
        (1, pd.NaT, "both", "high bound"),
        (1, "b", "both", "cannot be compared"),
    ],
)
def test_bad_intervals(low, high, closed, message):
    with pytest.raises(DataError, match=message):
        Interval(low, high, closed)


def test_intervals_are_values():
    assert between(1, 2) == Interval(1, 2)
    assert len({between(1, 2), Interval(1, 2), at_least(1)}) == 2


def test_domain_checks():
    grid = DOMAINS[0].grid
    for build, message in [
        (lambda: Domain("a", 3, grid=grid), "as many states as cells"),
        (lambda: Domain("a", grid.n_cells, range(grid.n_cells), grid=grid), "no labels"),
        (lambda: Domain("a", 2, unit="D"), "only dates and durations"),
        (lambda: Domain("a", grid.n_cells, grid=grid, unit="week"), "only dates and durations"),
        (lambda: Domain("a", 2, empty=True), "is empty"),
        (lambda: Domain("a", 2, grid="grid"), "is no Grid"),
    ]:
        with pytest.raises(DataError, match=message):
            build()
