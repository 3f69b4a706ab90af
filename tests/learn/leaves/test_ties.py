"""Ties among the trees of a part of a table go to what the whole table prefers."""

import itertools
import math

import numpy as np
import pytest
from tests.learn.cutset.test_learner import SCORES, signature, table
from tests.learn.small import table_of
from tests.oracle.naive_learner import _Symmetric, joint, mutual_information, spanning_tree

from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import Stop
from bayescut.learn.leaves.treeleaves import TIE_ROWS
from bayescut.scores import BayesDirichlet

CASES = {
    "sparse": (400, [2] * 9, 0.05, 12),
    "dense": (300, [2] * 7, None, 40),
    "states": (300, [3, 2, 4, 1, 3, 2], None, 8),
    "one row": (100, [2] * 6, 0.2, 1),
    "all rows": (80, [2] * 6, 0.1, 80),
}


def make(name):
    n, sizes, density, part = CASES[name]
    if density is None:
        codes = table(len(name), n, sizes)
    else:
        rng = np.random.default_rng(len(name))
        shape = (n, len(sizes))
        source = rng.random((n, 3)) < density
        copied = source[:, rng.integers(0, 3, len(sizes))] & (rng.random(shape) < 0.8)
        codes = (copied | (rng.random(shape) < density / 4)).astype(np.uint8)
    return codes, np.array(sizes), np.arange(part, dtype=np.int32)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_tree_of_a_part_agrees_with_kruskal_on_both_tables(name, weighted):
    codes, sizes, rows = make(name)
    own = np.random.default_rng(3).random(len(codes)) + 0.1 if weighted else None
    weights = np.ones(len(codes)) if own is None else own
    ess = 0.1
    learner = CutsetLearner(BayesDirichlet(ess), stop=Stop(rows=math.inf))
    whole = table_of(codes, sizes, own)
    found = signature(learner.for_components(whole).learn(whole, rows))
    # The naive twin: the part's rows, and all rows at next to no weight.
    both = np.vstack([codes[rows], codes])
    both_weights = np.concatenate([weights[rows], weights * (TIE_ROWS / weights.sum())])
    m = len(sizes)
    mi = {
        e: mutual_information(joint(both, sizes, e, both_weights), ess)
        for e in itertools.combinations(range(m), 2)
    }
    expected = spanning_tree(_Symmetric(mi, m))
    assert len(found) == m - 1
    assert sum(mi[e] for e in found) == pytest.approx(sum(mi[e] for e in expected), abs=1e-11)


def test_constant_columns_hang_together_as_in_the_whole_table():
    rng = np.random.default_rng(0)
    codes = (rng.random((600, 6)) < 0.5).astype(np.uint8)
    codes[:, 4] = codes[:, 2]
    codes[:, 5] = codes[:, 3]
    codes[:30, 2:] = 0  # the part has nothing to say about these
    sizes, rows = np.full(6, 2), np.arange(30, dtype=np.int32)
    learner = CutsetLearner(SCORES["BD"], stop=Stop(rows=math.inf))
    whole = table_of(codes, sizes)
    alone = signature(learner.learn(whole, rows))
    part = signature(learner.for_components(whole).learn(whole, rows))
    assert {(2, 4), (3, 5)} <= part
    assert not {(2, 4), (3, 5)} <= alone


def cuts(node):
    return (node.cut, node.n, node.cut_score, tuple(cuts(child) for child in node.children))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", SCORES)
def test_cuts_and_scores_are_those_of_the_rows_alone(kind, weighted):
    sizes = np.array([2] * 7)
    codes = table(6, 300, sizes)
    rows = np.arange(0, 300, 2, dtype=np.int32)
    weights = np.random.default_rng(1).random(300) + 0.1 if weighted else None
    learner = CutsetLearner(SCORES[kind])
    whole = table_of(codes, sizes, weights)
    alone = learner.learn(whole, rows)
    part = learner.for_components(whole).learn(whole, rows)
    assert alone.children
    assert cuts(alone) == cuts(part)
    assert alone.total_score() == part.total_score()
