"""Products inside the cutset tree: columns that fall apart are cut on their own."""

import itertools
import math

import numpy as np
import pytest
from tests.learn.small import table_of

import bayescut as bc
from bayescut.circuit._kinds import DECISION, JUNCTION, PRODUCT
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.leaves.leaf import Leaf, join_leaves
from bayescut.learn.leaves.treeleaves import Trees
from bayescut.scores import BayesDirichlet, NoPrior, StructurePrior
from bayescut.scores.circuit_score import bayes_score


def two_groups(n=1200, seed=0, n_states=2):
    """Two independent groups of four columns, each worth a cut on its first column."""
    rng = np.random.default_rng(seed)
    groups = []
    for _ in range(2):
        switch = rng.integers(0, 2, n)
        a = np.where(rng.random(n) < 0.8, switch, rng.integers(0, n_states, n))
        b = np.where(rng.random(n) < 0.95, a, rng.integers(0, n_states, n))
        c = np.where(switch == 1, b, a[::-1])
        d = np.where(switch == 0, b, rng.integers(0, n_states, n))
        groups.append(np.column_stack([switch, a, b, c, d]))
    noise = rng.integers(0, 2, size=(n, 2))
    return np.column_stack([*groups, noise]).astype(np.uint8)


def learner(products, prior):
    return CutsetLearner(
        BayesDirichlet(1.0, divide=False),
        prior,
        Trees(by_mutual_information=False, spanning=False),
        products=products,
    )


@pytest.mark.parametrize("n_states", [2, 3])
def test_groups_are_cut_on_their_own(n_states):
    X = two_groups(n_states=n_states)
    sizes = np.maximum(X.max(axis=0).astype(np.int64) + 1, 2)
    domains = bc.CutsetNetwork().fit(X).circuit_.domains
    plain = learner(False, StructurePrior()).learn(table_of(X, sizes))
    apart = learner(True, StructurePrior()).learn(table_of(X, sizes))
    assert apart.is_product
    # both groups are cut, and the columns of noise are one leaf
    assert sorted(part.cut is None for part in apart.children) == [False, False, True]
    leaf = next(part.leaf for part in apart.children if part.leaf is not None)
    assert set(leaf.columns) == {10, 11}
    assert apart.total_score() > plain.total_score()
    circuit = freeze_cutset(apart, domains)
    assert np.sum(circuit.kind == PRODUCT) >= 1
    properties = circuit.properties
    assert properties.deterministic and properties.decomposable and properties.smooth


@pytest.mark.parametrize("prior", [NoPrior(), StructurePrior()])
def test_the_score_is_that_of_the_circuit(prior):
    X = two_groups(seed=3)
    m = X.shape[1]
    root = learner(True, prior).learn(table_of(X, np.full(m, 2)))
    circuit = freeze_cutset(root, bc.CutsetNetwork().fit(X).circuit_.domains)
    cost = 0.0
    if isinstance(prior, StructurePrior):
        for node in root.walk():
            if node.cut is not None:
                cost += math.log(node.n_choices)
            elif node.leaf is not None:
                cost += math.log(node.n_choices) * len(node.leaf.parents)
    expected = bayes_score(circuit, X, ess=1.0, divide=False) - cost
    assert root.total_score() == pytest.approx(expected, rel=1e-10)


def test_networks_with_products_are_distributions():
    X = two_groups(n=800, seed=1)[:, [0, 1, 2, 3, 5, 6, 7, 8, 10]]
    model = bc.CutsetNetwork(products=True, width=1).fit(X)
    assert {PRODUCT, DECISION, JUNCTION} <= set(model.circuit_.kind.tolist())
    worlds = np.array(list(itertools.product([0, 1], repeat=9)), dtype=np.uint8)
    assert np.exp(model.score_samples(worlds)).sum() == pytest.approx(1.0)
    half = worlds[::37].astype(float)
    half[:, ::2] = np.nan
    seen = ~np.isnan(half[0])
    p = np.exp(model.score_samples(worlds))
    for row, value in zip(half, model.score_samples(half), strict=True):
        agree = (worlds[:, seen] == row[seen]).all(axis=1)
        assert math.exp(value) == pytest.approx(p[agree].sum())


def test_wide_leaves_take_the_place_of_products_that_do_not_pay():
    X = two_groups()
    narrow = bc.CutsetNetwork(products=True, width=1).fit(X)
    wide = bc.CutsetNetwork(products=True, width=4).fit(X)
    assert wide.structure_score_ >= narrow.structure_score_


def test_the_decomposable_networks_of_di_mauro():
    X = two_groups(n=3000)
    plain = bc.DCSN(forests=True).fit(X)
    apart = bc.DCSN(forests=True, products=True).fit(X)
    assert not np.any(plain.circuit_.kind == PRODUCT)
    assert np.any(apart.circuit_.kind == PRODUCT)
    # a cut for one group does not split the rows of the other
    assert apart.n_parameters_ < plain.n_parameters_
    new = two_groups(n=3000, seed=9)
    assert apart.score(new) > plain.score(new) - 0.02
    # spanning trees do not fall apart
    tree = bc.DCSN(products=True).fit(X)
    assert tree.structure_score_ == bc.DCSN().fit(X).structure_score_


def test_weights_are_repeated_rows():
    X = two_groups(n=400, seed=2)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    model = bc.CutsetNetwork(products=True).fit(X, sample_weight=weights)
    repeated = bc.CutsetNetwork(products=True).fit(np.repeat(X, weights, axis=0))
    assert model.score(X) == pytest.approx(repeated.score(X), rel=1e-6)


def test_join_leaves():
    ptr = np.array([0, 0, 1])
    one = Leaf(np.array([3, 1]), np.array([-1, 0]), ptr, np.array([3]), np.arange(6.0))
    two = Leaf(np.array([0, 2]), np.array([-1, 0]), ptr, np.array([0]), np.arange(6.0, 12.0))
    joined = join_leaves([one, two])
    assert joined.columns.tolist() == [3, 1, 0, 2]
    assert joined.hosts.tolist() == [-1, 0, -1, 2]
    assert joined.parent_ptr.tolist() == [0, 0, 1, 1, 2]
    assert joined.parents.tolist() == [3, 0]
    np.testing.assert_array_equal(joined.tables, np.arange(12.0))
    assert join_leaves([one]) is one
