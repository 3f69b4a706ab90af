import warnings

import numpy as np
import pandas as pd
import pytest

from bayescut import CutsetNetwork
from bayescut.data import Domains
from bayescut.estimators._validation import check_size, find_identifiers
from bayescut.exceptions import DataError, IdentifierWarning


def rows_with_names(n=150, seed=0):
    """A column that is different in every row between two that depend on each other."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n)
    last = np.where(rng.random(n) < 0.9, first, 0)
    return np.column_stack([first, rng.permutation(n), last]).astype(np.uint16)


def test_a_column_of_names_is_told_and_independent():
    X = rows_with_names()
    with pytest.warns(IdentifierWarning, match=r"1 \(150 states\)") as told:
        model = CutsetNetwork().fit(X)
    assert len(told) == 1
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    rest = X.astype(float)
    rest[:, 1] = np.nan
    together = model.score_samples(X)
    np.testing.assert_allclose(together, model.score_samples(names) + model.score_samples(rest))
    np.testing.assert_allclose(model.score_samples(names), -np.log(150))
    # The other columns are learned as if it were not there.
    alone = CutsetNetwork().fit(X[:, [0, 2]])
    np.testing.assert_allclose(model.score_samples(rest), alone.score_samples(X[:, [0, 2]]))
    assert model.n_parameters_ == alone.n_parameters_ + 149


def test_weights_and_names():
    X = rows_with_names()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork().fit(X, sample_weight=weights)
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    expected = (weights + 1 / 150) / (weights.sum() + 1)
    np.testing.assert_allclose(np.exp(model.score_samples(names)), expected)


def test_nothing_but_names():
    X = np.random.default_rng(0).permutation(100)[:, None].astype(np.uint16)
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork().fit(X)
    np.testing.assert_allclose(model.score_samples(X), -np.log(100))


def test_names_are_kept_where_that_is_asked_for():
    X = rows_with_names()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CutsetNetwork(identifiers="keep").fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.raises(ValueError, match="identifiers must be 'independent' or 'keep'"):
        CutsetNetwork(identifiers="drop").fit(X)


def test_what_is_an_identifier():
    domains = Domains.of_sizes([2, 32, 33, 200, 201])
    assert find_identifiers(domains, 1000).tolist() == [4]
    assert find_identifiers(domains, 20).tolist() == [2, 3, 4]
    assert find_identifiers(domains, 10**6).tolist() == []


def test_the_guard_counts_what_is_learned_about():
    domains = Domains.of_sizes([2, 30_000, 5])
    with pytest.raises(DataError, match=r"27 GiB to count\. Column 1 has 30000"):
        check_size(domains)
    check_size(domains, np.array([1]))


def test_copies_of_rows_with_gaps_are_not_more_rows():
    # Rows with gaps are learned from in five copies: 500 rows would teach something of 100 names.
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in range(100)]
    table = pd.DataFrame({"name": names, "a": rng.choice(["x", "y"], 100), "b": "z"})
    table["a"] = table["a"].mask(np.arange(100) % 10 > 0)
    table["b"] = rng.choice(["x", "y"], 100)
    with pytest.warns(IdentifierWarning, match=r"from 100 rows .* 'name' \(100 states\)"):
        model = CutsetNetwork(n_jobs=1).fit(table)
    assert model.n_parameters_ < 150
