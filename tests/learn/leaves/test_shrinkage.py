"""Tables shrunk towards the rows outside of a leaf, against plain counting."""

import numpy as np
import pytest
from scipy.special import gammaln
from tests.learn.small import table_of
from tests.oracle.naive_learner import joint

import bayescut as bc
from bayescut.counts.families import family_counts, weight_planes
from bayescut.data.bits import bit_layout, pack
from bayescut.datasets import load_binary_digits
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.shrinkage import (
    STRENGTHS,
    Outside,
    choose_strength,
    log_marginal,
    posterior_tables,
)
from bayescut.scores import BayesDirichlet, StructurePrior

SIZES = [
    [2] * 6,
    [3, 2, 4, 2],
    [2, 1, 3, 2],
]
NO_PLANES = np.empty((0, 0), dtype=np.uint64)


def two_parents_each(sizes):
    """Families in which every column has up to two earlier ones as parents."""
    parents = [list(range(max(0, v - 2), v)) for v in range(len(sizes))]
    ptr = np.concatenate([[0], np.cumsum([len(p) for p in parents])])
    flat = np.array([p for group in parents for p in group], dtype=np.int64)
    return np.arange(len(sizes)), ptr, flat, parents


def random_table(seed, n, sizes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n, len(sizes)))
    codes[:, -1] = np.minimum(codes[:, 0], sizes[-1] - 1)
    return codes.astype(np.uint8)


def naive_counts(codes, sizes, parents, weights):
    tables = [
        joint(codes, sizes, [*group, v], weights).reshape(-1, sizes[v])
        for v, group in enumerate(parents)
    ]
    return tables


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 200])
@pytest.mark.parametrize("sizes", SIZES)
def test_counts_of_families(sizes, n, weighted):
    codes = random_table(n, n, sizes)
    columns, ptr, flat, parents = two_parents_each(sizes)
    layout = bit_layout(columns, np.array(sizes))
    rows = np.arange(n, dtype=np.int32)
    weights, planes, unit = np.ones(n), NO_PLANES, 1.0
    if weighted and n:
        weights = np.random.default_rng(0).integers(0, 2**24, n) / 2**20
        weights[0] = 16.0
        planes, unit = weight_planes(weights)
    counts = family_counts(
        pack(codes, rows, layout), planes, unit, n, layout.sizes, layout.ptr, columns, ptr, flat
    )
    expected = np.concatenate([t.ravel() for t in naive_counts(codes, sizes, parents, weights)])
    np.testing.assert_allclose(counts, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("strength", [0.0, 0.5, 16.0])
def test_tables_and_likelihood_agree_with_the_formula(sizes, strength):
    codes = random_table(1, 150, sizes)
    columns, ptr, flat, parents = two_parents_each(sizes)
    inside, outside = codes[:40], codes[40:]
    own = naive_counts(inside, sizes, parents, np.ones(40))
    others = naive_counts(outside, sizes, parents, np.ones(110))
    ess = 1.5
    total, tables = 0.0, []
    for n, o in zip(own, others, strict=True):
        a = ess / n.size
        q = (o + a) / (o + a).sum(axis=1, keepdims=True)
        alpha = a + strength * q
        total += (gammaln(n + alpha) - gammaln(alpha)).sum()
        total -= (gammaln((n + alpha).sum(axis=1)) - gammaln(alpha.sum(axis=1))).sum()
        tables.append((n + alpha) / (n + alpha).sum(axis=1, keepdims=True))
    flat_own = np.concatenate([t.ravel() for t in own])
    flat_others = np.concatenate([t.ravel() for t in others])
    families = (np.array(sizes), columns, ptr, flat)
    assert log_marginal(flat_own, flat_others, *families, ess, strength) == pytest.approx(total)
    found = posterior_tables(flat_own, flat_others, *families, ess, strength)
    np.testing.assert_allclose(np.exp(found), np.concatenate([t.ravel() for t in tables]))


def test_the_strength_is_where_the_likelihood_is_largest():
    sizes = [2] * 8
    columns, ptr, flat, parents = two_parents_each(sizes)
    families = (np.array(sizes), columns, ptr, flat)

    def strength(inside, outside):
        counts = [
            np.concatenate(
                [t.ravel() for t in naive_counts(part, sizes, parents, np.ones(len(part)))]
            )
            for part in (inside, outside)
        ]
        chosen = choose_strength(*counts, *families, 1.0)
        values = [log_marginal(*counts, *families, 1.0, s) for s in STRENGTHS]
        assert chosen == STRENGTHS[int(np.argmax(values))]
        return chosen

    rng = np.random.default_rng(0)
    alike = (rng.random((600, 8)) < np.linspace(0.02, 0.6, 8)).astype(np.uint8)
    different = np.where(rng.random((300, 8)) < 0.97, 1, 0).astype(np.uint8)
    assert strength(alike[:30], alike[30:]) >= 16
    assert strength(different, alike) <= 0.5


@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_shrink_towards_the_rows_outside_them(weighted):
    sizes = np.array([2, 3, 2, 2])
    codes = random_table(3, 300, sizes)
    weights = np.random.default_rng(1).integers(1, 9, 300) / 4 if weighted else None
    every, rows = np.arange(300, dtype=np.int32), np.arange(0, 300, 5, dtype=np.int32)
    columns = np.array([0, 1, 3])
    whole = table_of(codes, sizes, weights)
    settings = (BayesDirichlet(1.0, divide=False), StructurePrior(), 2, 300)
    plain = JunctionLeaves(*settings).fit(whole, rows, columns, 1.0, 3)
    leaves = JunctionLeaves(*settings, outside=Outside(whole, every))
    shrunk = leaves.fit(whole, rows, columns, 1.0, 3)
    assert shrunk.score == plain.score
    leaf = leaves.settle(shrunk)
    np.testing.assert_array_equal(leaf.parents, plain.parents)
    w = np.ones(300) if weights is None else weights
    rest = np.setdiff1d(every, rows)
    own, others = [], []
    for f, v in enumerate(leaf.columns):
        family = [*leaf.parents[leaf.parent_ptr[f] : leaf.parent_ptr[f + 1]], v]
        own.append(joint(codes[rows], sizes, family, w[rows]).ravel())
        others.append(joint(codes[rest], sizes, family, w[rest]).ravel())
    own, others = np.concatenate(own), np.concatenate(others)
    families = (sizes, leaf.columns, leaf.parent_ptr, leaf.parents)
    strength = choose_strength(own, others, *families, 1.0)
    expected = posterior_tables(own, others, *families, 1.0, strength)
    np.testing.assert_allclose(leaf.tables, expected, rtol=1e-6)


def test_a_network_without_cuts_has_nothing_outside():
    X = random_table(0, 80, [2] * 5)
    with_it = bc.CutsetNetwork().fit(X)
    without = bc.CutsetNetwork(shrinkage=False).fit(X)
    assert with_it.n_cuts_ == 0
    np.testing.assert_array_equal(with_it.circuit_.fam_table, without.circuit_.fam_table)


def test_shrinkage_helps_on_new_rows():
    data = load_binary_digits()
    plain = bc.CutsetNetwork(shrinkage=False, width=1).fit(data.train)
    shrunk = bc.CutsetNetwork(width=1).fit(data.train)
    assert shrunk.n_cuts_ == plain.n_cuts_ > 0
    assert shrunk.structure_score_ == plain.structure_score_
    assert shrunk.score(data.valid) > plain.score(data.valid)
