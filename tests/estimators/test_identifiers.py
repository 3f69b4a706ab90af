import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

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
        model = CutsetNetwork(shrinkage=False).fit(X, sample_weight=weights)
    names = np.full((150, 3), np.nan)
    names[:, 1] = X[:, 1]
    expected = (weights + 1 / 150) / (weights.sum() + 1)
    np.testing.assert_allclose(np.exp(model.score_samples(names)), expected)


def test_new_names_get_as_much_as_the_marginal_likelihood_asks_for():
    X = rows_with_names()
    X[:30, 1] = X[30, 1]  # one name is a frequent one
    names = np.arange(150, dtype=np.uint16)
    counts = np.bincount(X[:, 1], minlength=150)

    def evidence(ess):  # the Dirichlet-multinomial probability of the column
        a = ess / 150
        own = gammaln(counts + a).sum() - 150 * gammaln(a)
        return own + gammaln(ess) - gammaln(150 + ess)

    ess = max((2.0**step for step in range(21)), key=evidence)
    assert 1.0 < ess < 2.0**20
    with pytest.warns(IdentifierWarning):
        model = CutsetNetwork(n_states=[3, 150, 3]).fit(X)
    asked = np.full((150, 3), np.nan)
    asked[:, 1] = names
    expected = (counts + ess / 150) / (150 + ess)
    np.testing.assert_allclose(np.exp(model.score_samples(asked)), expected)


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
    with pytest.raises(DataError, match=r"47 GiB to count\. Column 1 has 30000"):
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


# The peak is that of a process: no other test may have touched the memory before.
LEARN_MUCH = """
import re
from pathlib import Path
import numpy as np
from bayescut import CutsetNetwork
from bayescut.estimators import _validation

def peak():
    # Not getrusage: its peak is also that of the process that started this one.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def learn(k, n):
    rng = np.random.default_rng(0)
    first = rng.integers(0, k, n)
    second = (first + rng.integers(0, k // 3, n)) % k
    X = np.column_stack([first, second, first * 4 // k]).astype(np.uint16)
    return CutsetNetwork(identifiers="keep", n_states=[k, k, 4], n_jobs=2).fit(X)

learn(40, 400)
before = peak()
model = learn(1000, 8000)
n_bits = 2 * 999 + 3
print(model.n_cuts_, (peak() - before) / (n_bits**2 * _validation._STATES_PAIR_BYTES))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_learning_takes_about_as_much_memory_as_the_guard_says():
    # The first time, compiling takes more memory than learning.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", LEARN_MUCH], capture_output=True, text=True, check=True
        )
    n_cuts, ratio = done.stdout.split()
    assert int(n_cuts) > 0
    assert 0.5 < float(ratio) < 2.0
