"""Scores of circuits whose branches are sets of states and whose leaves see groups of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import gammaln
from tests.circuit.random_circuits import Case, deterministic_cases
from tests.oracle.worlds import Worlds

from bayescut.circuit import build
from bayescut.scores.circuit_score import bayes_score, refit


def log_dirichlet(counts, e):
    """Log marginal likelihood of counts under a symmetric Dirichlet of total weight e."""
    a = e / len(counts)
    n = sum(counts)
    return float(gammaln(e) - gammaln(n + e) + sum(gammaln(c + a) - gammaln(a) for c in counts))


def grouped():
    """x0 in {0, 1} or 2; below the first branch x0 has two states, and x1 sees them as one."""
    low = build.junction(
        [(0, [], [0.5, 0.5]), (1, [0], [[0.3, 0.7]])],
        views={0: build.View([0, 1, -1])},
        parent_views={(1, 0): build.View([0, 0, -1])},
    )
    high = build.categorical(1, [0.4, 0.6])
    node = build.decision(0, [0.5, 0.5], low, high, branches=[{0, 1}, {2}])
    return build.circuit(node, [3, 2])


def test_a_grouped_cut_by_hand():
    X = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [2, 0], [2, 0]])
    circuit = grouped()
    expected = log_dirichlet([4, 2], 1.0)  # the cut
    expected += log_dirichlet([2, 2], 1.0) + log_dirichlet([1, 3], 1.0)  # x0, then x1, below
    expected += log_dirichlet([2, 0], 1.0)  # x1 where x0 = 2
    assert bayes_score(circuit, X, ess=1.0, divide=False) == pytest.approx(expected, rel=1e-12)
    fitted = refit(circuit, X, ess=1.0, divide=False)
    assert np.exp(fitted.log_weight) == pytest.approx([4.5 / 7, 2.5 / 7])
    assert np.exp(fitted.fam_table) == pytest.approx([0.5, 0.5, 1.5 / 5, 3.5 / 5])
    assert Worlds(fitted).p.sum() == pytest.approx(1.0)
    assert circuit.properties.deterministic and circuit.properties.smooth
    assert circuit.n_parameters == 1 + 1 + 1 + 1


@settings(max_examples=60, deadline=None)
@given(deterministic_cases)
def test_the_score_is_the_product_of_sequential_predictions(case: Case) -> None:
    circuit = case.circuit
    every = Worlds(circuit)
    rows = every.rows[every.p > 0]
    rows = rows[np.random.default_rng(0).integers(0, len(rows), 5)]
    found = bayes_score(circuit, rows, ess=1.3)
    assert math.isfinite(found)
    total = 0.0
    model = refit(circuit, np.empty((0, rows.shape[1])), ess=1.3)
    for i in range(len(rows)):
        total += model.log_likelihood(rows[i : i + 1])[0]
        model = refit(circuit, rows[: i + 1], ess=1.3)
    assert found == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_files_and_drawing_of_grouped_cuts():
    from bayescut.circuit.outline import outline
    from bayescut.files import dumps, loads

    circuit = grouped()
    assert loads(dumps(circuit)) == circuit
    text = "\n".join(outline(circuit, 3))
    assert "0, 1 (0.5)" in text and "2 (0.5)" in text
    assert circuit.draw() is not None
