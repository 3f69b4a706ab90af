"""Members for a target, their folds and their densities."""

import numpy as np
import pytest

from bayescut.data import Domain, Domains, encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.learn.cells.conditional import (
    ConditionalLearner,
    Recipe,
    _Drawn,
    content_folds,
    distinct_rows,
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=200), 2)
    label = rng.integers(0, 3, 200)
    y = ((x > 0) ^ (label == 2)).astype(int)
    domains = learn_domains(np.column_stack([x, label]).astype(object), columns={0: "number"})
    codes, _ = encode_table(
        np.column_stack([x, label]).astype(object), domains, allow_missing=False
    )
    return Table(np.column_stack([codes, y]).astype(np.uint8), Domains([*domains, Domain(None, 2)]))


def test_equal_rows_are_in_one_fold_wherever_they_stand(table):
    twice = table.take(np.r_[np.arange(200), np.arange(200)])
    folds = content_folds(twice, 4)
    np.testing.assert_array_equal(folds[:200], folds[200:])
    np.testing.assert_array_equal(folds[:200], content_folds(table, 4))
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(content_folds(table.take(order), 4), folds[order])
    distinct = np.unique(table.codes, axis=0)
    for label in (0, 1):
        own = content_folds(Table(distinct, table.domains), 4)[distinct[:, -1] == label]
        counts = np.bincount(own, minlength=4)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("kind", ["class", "joint"])
def test_probabilities_of_a_member_are_those_of_its_circuits(table, kind):
    learner = ConditionalLearner((Recipe(kind, 2),))
    member = learner.member(table, Recipe(kind, 2), np.arange(200), np.random.default_rng(0))
    assert max(view.max() for view in member.views[:1]) <= 3
    found = np.exp(member.log_proba(table.codes[:, :-1]))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        member.log_likelihood(table.codes), np.log(found[np.arange(200), table.codes[:, -1]])
    )
    if kind == "joint":
        joint = []
        for state in (0, 1):
            rows = np.column_stack([member.features(table.codes[:, :-1]), np.full(200, state)])
            joint.append(member.circuits[0].log_likelihood(rows.astype(np.uint8)))
        expected = np.exp(np.column_stack(joint) - np.logaddexp(*joint)[:, None])
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_density_over_cells_sums_to_one(table):
    learner = ConditionalLearner((Recipe("density", 2), Recipe("density", 3)), n_folds=3)
    pool = learner.learn(table, 5, seed=0)
    circuit = pool.circuit(pool.recipe_weights(None))
    sizes = circuit.domains.n_states.tolist()
    worlds = np.array(list(np.ndindex(*sizes)))
    assert np.exp(circuit.log_likelihood(worlds)).sum() == pytest.approx(1.0)
    assert pool.n_members == 5


def test_gaps_are_drawn_as_cells_of_the_table(table):
    codes = table.codes.copy()
    gaps = np.random.default_rng(0).random(codes.shape) < 0.3
    gaps[:, -1] = False
    codes[gaps] = 255
    gappy = Table(codes, table.domains)
    drawn = _Drawn(gappy, 0, 1, np.inf)
    first, second = drawn.single(0).codes, drawn.single(1).codes
    for filled in (first, second):
        np.testing.assert_array_equal(filled[~gaps], codes[~gaps])
        assert (filled < table.sizes).all()
    assert (first != second).any()
    np.testing.assert_array_equal(first, drawn.single(0).codes)
    # A number is drawn from all of its cells, and about where it was.
    number = gaps[:, 0]
    assert len(np.unique(first[number, 0])) > 2**3
    learner = ConditionalLearner((Recipe("tree", 3), Recipe("joint", 2)), n_folds=3)
    pool = learner.learn(gappy, 4, seed=0)
    assert {len(made.circuits) for made in pool.recipes.values()} == {2}


def test_distinct_rows_do_not_know_their_order_or_how_often_they_were_given(table):
    weights = np.random.default_rng(0).integers(1, 4, table.n_rows).astype(float)
    one, place = distinct_rows(table.with_weights(weights))
    order = np.random.default_rng(1).permutation(
        np.repeat(np.arange(table.n_rows), weights.astype(int))
    )
    other, _ = distinct_rows(table.take(order))
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.codes[place], table.codes)
    assert distinct_rows(one.with_weights(None))[0].weights is None


def test_unseen_rows_are_predicted_by_members_that_left_them_out(table):
    learner = ConditionalLearner((Recipe("class", 2),), n_folds=4)
    pool = learner.learn(table, 2, seed=0)
    rows, found = learner.unseen_proba(pool, table, {"class 2": 1.0})
    folds = content_folds(table, 4)
    np.testing.assert_array_equal(rows, np.flatnonzero(folds < 2))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    first = pool.recipes["class 2"].circuits[0]
    out = np.flatnonzero(folds == 0)
    expected = np.exp(first.log_proba(table.codes[out, :-1]))
    np.testing.assert_allclose(found[np.isin(rows, out)], expected)


def test_without_numbers_there_is_one_recipe_of_each_kind(table):
    recipes = (Recipe("class", 3), Recipe("joint", 3), Recipe("class", 2), Recipe("joint", 2))
    labels = Table(np.ascontiguousarray(table.codes[:, 1:]), Domains(list(table.domains)[1:]))
    pool = ConditionalLearner(recipes).learn(labels, 4, seed=0)
    assert list(pool.recipes) == ["class 3", "joint 3"]
    assert list(ConditionalLearner(recipes).learn(table, 4, seed=0).recipes) == [
        recipe.name for recipe in recipes
    ]
