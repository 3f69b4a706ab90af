"""The density of optional Polya trees, beside a recursion written from the formula."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescut.data import polya
from bayescut.data.polya import polya_density


def beta_ratio(a, b, n0, n1):
    def log_beta(x, y):
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    return math.exp(log_beta(a + n0, b + n1) - log_beta(a, b))


def naive_tree(rows, low, high, total, first, depth=0):
    """Evidence and mean density by bin of the node [low, high); rows: bin -> weight."""
    inside = sum(w for b, w in rows.items() if low <= b < high)
    uniform = {b: 1 / (high - low) for b in range(low, high)}
    if high - low < 2 or inside <= total / 256:
        return 1.0, uniform
    left = math.floor((high - low) * (first if depth == 0 else 0.5) + 0.5)
    middle = low + min(max(left, 1), high - low - 1)
    p = (middle - low) / (high - low)
    phi0, density0 = naive_tree(rows, low, middle, total, first, depth + 1)
    phi1, density1 = naive_tree(rows, middle, high, total, first, depth + 1)
    n0 = sum(w for b, w in rows.items() if low <= b < middle)
    n1 = inside - n0
    split = beta_ratio(p, 1 - p, n0, n1) * p**-n0 * (1 - p) ** -n1 * phi0 * phi1
    phi = 0.5 + 0.5 * split
    stop = 0.5 / phi
    share = (p + n0) / (1 + inside)
    mean = {b: stop * uniform[b] + (1 - stop) * share * density0[b] for b in range(low, middle)}
    mean |= {
        b: stop * uniform[b] + (1 - stop) * (1 - share) * density1[b] for b in range(middle, high)
    }
    return phi, mean


def naive_density(rows, n_trees):
    low, high = min(rows), max(rows) + 1
    total = sum(rows.values())
    mean = dict.fromkeys(range(low, high), 0.0)
    for tree in range(n_trees):
        first = (1 + (tree + 0.5) / n_trees) / 3
        for b, density in naive_tree(rows, low, high, total, first)[1].items():
            mean[b] += density / n_trees
    return mean


def by_bin(edges, mass):
    return np.repeat(mass / np.diff(edges), np.diff(edges))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.dictionaries(
        st.integers(-20, 20), st.sampled_from([1.0, 2.0, 0.25, 7.5]), min_size=1, max_size=15
    ),
    n_trees=st.integers(1, 4),
)
def test_against_the_recursion(rows, n_trees):
    bins = np.array(sorted(rows))
    weights = np.array([rows[b] for b in sorted(rows)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polya, "_ALIKE", 1.0)
        edges, mass = polya_density(bins, weights, n_trees)
    expected = naive_density(rows, n_trees)
    np.testing.assert_allclose(by_bin(edges, mass), list(expected.values()), rtol=1e-12)
    assert edges[0] == bins[0]
    assert edges[-1] == bins[-1] + 1


def test_light_nodes_are_not_split():
    # 600 bins of one row each: nodes of two rows and less stay whole.
    edges, _ = polya_density(np.arange(600), np.ones(600), n_trees=1)
    assert np.diff(edges).min() >= 2


def test_alike_pieces_are_joined():
    rng = np.random.default_rng(0)
    bins, rows = np.unique(rng.normal(0, 300, 5000).round().astype(np.int64), return_counts=True)
    edges, mass = polya_density(bins, rows.astype(float))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polya, "_ALIKE", 1.0)
        all_edges, all_mass = polya_density(bins, rows.astype(float))
    assert len(mass) < len(all_mass) / 2
    ratio = by_bin(edges, mass) / by_bin(all_edges, all_mass)
    assert ratio.max() < 1.02
    assert ratio.min() > 1 / 1.02
    assert mass.sum() == pytest.approx(1, abs=1e-12)


def test_heavy_values_become_atoms():
    rng = np.random.default_rng(0)
    values = np.concatenate([np.zeros(900, dtype=np.int64), rng.integers(1, 100_000, 100)])
    bins, rows = np.unique(values, return_counts=True)
    edges, mass = polya_density(bins, rows.astype(float))
    assert edges[1] == 1
    assert mass[0] == pytest.approx(0.9, abs=0.01)


def test_one_value():
    edges, mass = polya_density(np.array([7]), np.array([3.0]))
    np.testing.assert_array_equal(edges, [7, 8])
    np.testing.assert_array_equal(mass, [1.0])


def test_huge_ranges():
    edges, mass = polya_density(np.array([-(2**52), 0, 2**52]), np.array([1.0, 1000.0, 1.0]))
    assert mass[edges[:-1] == 0].item() > 0.9
    assert (mass > 0).all()
