"""A circuit over coarse states as one over finer ones, against the product by hand."""

import numpy as np
import pytest

from bayescut import CutsetNetwork
from bayescut.circuit import build
from bayescut.circuit.refine import refine
from bayescut.data import Domains

VIEWS = [
    np.array([0, 0, 1, 2]),
    np.array([0, 1, 2]),
    np.array([0, 1, 1, 2, 2]),
    np.array([0, 1, 2]),
]
SHARES = [np.array([0.3, 0.7, 1, 1]), np.ones(3), np.array([1, 0.4, 0.6, 0.5, 0.5]), np.ones(3)]
FINE = Domains.of_sizes([4, 3, 5, 3])
WORLDS = np.array(list(np.ndindex(4, 3, 5, 3)))


def expected(circuit):
    coarse = np.column_stack([view[WORLDS[:, j]] for j, view in enumerate(VIEWS)])
    shares = sum(np.log(share[WORLDS[:, j]]) for j, share in enumerate(SHARES))
    return circuit.log_likelihood(coarse) + shares


@pytest.fixture(scope="module", params=[0, 1])
def circuit(request):
    rng = np.random.default_rng(request.param)
    X = rng.integers(0, 3, (300, 4))
    X[:, 1] = np.where(X[:, 0] == 0, X[:, 2], X[:, 1])
    X[:, 3] = np.where(rng.random(300) < 0.8, X[:, 2], X[:, 3])
    return CutsetNetwork(products=bool(request.param)).fit(X).circuit_


def test_every_world(circuit):
    fine = refine(circuit, FINE, VIEWS, SHARES)
    np.testing.assert_allclose(fine.log_likelihood(WORLDS), expected(circuit), atol=1e-12)
    assert fine.properties.deterministic and fine.properties.smooth


def test_marginals_under_evidence(circuit):
    fine = refine(circuit, FINE, VIEWS, SHARES)
    p = np.exp(expected(circuit))
    given = WORLDS[:, 2] == 3
    found = fine.marginals([[np.nan, np.nan, 3, np.nan]])[0, :4]
    by_hand = [p[given & (WORLDS[:, 0] == k)].sum() / p[given].sum() for k in range(4)]
    np.testing.assert_allclose(found, by_hand, atol=1e-12)


def test_mixtures_can_be_refined_and_refined_again():
    leaf = build.categorical(0, [0.4, 0.6])
    coarse = build.circuit(build.weighted_sum([0.5, 0.5], leaf, build.categorical(0, [1, 0])), [2])
    view, share = [np.array([0, 1, 1])], [np.array([1, 0.25, 0.75])]
    fine = refine(coarse, Domains.of_sizes([3]), view, share)
    np.testing.assert_allclose(np.exp(fine.log_likelihood([[0], [1], [2]])), [0.7, 0.075, 0.225])
    # And once more, through the views that are there.
    again = refine(
        fine, Domains.of_sizes([4]), [np.array([0, 1, 2, 2])], [np.array([1, 1, 0.5, 0.5])]
    )
    found = np.exp(again.log_likelihood([[0], [1], [2], [3]]))
    np.testing.assert_allclose(found, [0.7, 0.075, 0.1125, 0.1125])


def test_grouped_cuts_and_parents_can_be_refined():
    low = build.junction(
        [(0, [], [0.5, 0.5]), (1, [0], [[0.3, 0.7]])],
        views={0: build.View([0, 1, -1])},
        parent_views={(1, 0): build.View([0, 0, -1])},
    )
    high = build.categorical(1, [0.4, 0.6])
    node = build.decision(0, [0.6, 0.4], low, high, branches=[{0, 1}, {2}])
    coarse = build.circuit(node, [3, 2])
    views = [np.array([0, 1, 1, 2, 2]), np.array([0, 1, 1])]
    shares = [np.array([1, 0.2, 0.8, 0.5, 0.5]), np.array([1, 0.1, 0.9])]
    fine = refine(coarse, Domains.of_sizes([5, 3]), views, shares)
    rows = np.array(list(np.ndindex(5, 3)))
    seen = np.column_stack([views[j][rows[:, j]] for j in range(2)])
    expected = np.exp(coarse.log_likelihood(seen))
    for j in range(2):
        expected = expected * shares[j][rows[:, j]]
    np.testing.assert_allclose(np.exp(fine.log_likelihood(rows)), expected)
    assert expected.sum() == pytest.approx(1.0)
    assert fine.properties.deterministic
