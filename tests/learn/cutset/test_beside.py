"""Cuts on labels with Gaussian leaves in view."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayescut as bc
from bayescut.circuit._kinds import NORMAL
from bayescut.data import encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.learn.cutset import network as module
from bayescut.learn.cutset.beside import cut_beside
from bayescut.learn.cutset.widen import fit_beside, fit_leaves
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.normal import NormalLeaves
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior

SCORE, PRIOR = BayesDirichlet(1.0, divide=False), StructurePrior()


def temperatures(n=800, seed=0):
    """A temperature in two units, and labels that depend on it."""
    rng = np.random.default_rng(seed)
    celsius = rng.normal(20, 8, n).round(1)
    season = np.digitize(celsius + rng.normal(0, 4, n), [10, 17, 23, 30])
    return pd.DataFrame(
        {
            "celsius": celsius,
            "fahrenheit": (celsius * 1.8 + 32).round(1),
            "sales": np.where(celsius + rng.normal(0, 3, n) > 20, "high", "low"),
            "season": np.array(["frost", "cold", "mild", "warm", "hot"])[season],
        }
    )


def parts(frame, weights=None):
    domains = learn_domains(frame, numbers=True)
    codes, values = encode_table(frame, domains, allow_missing=True)
    table = Table(codes, domains, weights, values)
    rows = table.weighty()
    normals = NormalLeaves.of(table, PRIOR)
    return table, rows, JunctionLeaves(SCORE, PRIOR, 4, len(rows), table.total_weight()), normals


def test_labels_stay_related_to_numbers_that_determine_each_other():
    frame = temperatures()
    model = bc.CutsetNetwork().fit(frame)
    assert np.any(model.circuit_.kind == NORMAL)
    new = temperatures(20_000, seed=1)
    for ask, given, rows in (
        ({"sales": "high"}, {"celsius": bc.above(25)}, new.celsius > 25),
        ({"sales": "high"}, {"celsius": bc.below(15)}, new.celsius < 15),
        ({"season": "hot"}, {"fahrenheit": bc.above(90)}, new.fahrenheit > 90),
    ):
        true = (new[rows][next(iter(ask))] == next(iter(ask.values()))).mean()
        found = np.exp(model.conditional_log_likelihood(ask, given))[0]
        assert found == pytest.approx(true, abs=0.08)
    assert model.score(new) > bc.CutsetNetwork(gaussian=False).fit(frame).score(new) + 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_cuts_are_those_of_their_parts(weighted):
    weights = np.random.default_rng(2).integers(1, 3, 800).astype(float) if weighted else None
    table, rows, leaves, normals = parts(temperatures(), weights)
    root = cut_beside(table, rows, leaves, normals, SCORE, PRIOR)
    assert root is not None and root.n_cuts > 1
    every = [(root, rows)]
    for node, inside in every:
        assert node.n == table.total_weight(inside)
        below = 0.0
        for branch, child in enumerate(node.children):
            part = node.rows_of(branch, inside, table.codes)
            below += fit_beside(child, table, part, leaves, normals).score
            every.append((child, part))
        if node.cut is None:
            continue
        assert node.cut not in normals.columns
        # Dirichlet-multinomial of the branches, less what the choice of the cut costs.
        sizes = np.array([child.n for child in node.children])
        left = node.states.get(node.cut, np.arange(table.sizes[node.cut]))
        assert sorted(np.concatenate(node.branches).tolist()) == left.tolist()
        assert node.cut_score < SCORE.cut(sizes, node.ess)
        alone = fit_beside(node, table, inside, leaves, normals).score
        assert node.cut_score + below > alone
    fit_leaves(root, table, rows, leaves, 1, False, normals)
    assert root.total_score() > fit_beside(root, table, rows, leaves, normals).score


def test_a_weight_is_a_row_given_so_often():
    frame = temperatures(300)
    weights = np.random.default_rng(3).integers(1, 4, 300)
    once = bc.CutsetNetwork().fit(frame, sample_weight=weights)
    again = bc.CutsetNetwork().fit(frame.loc[frame.index.repeat(weights)])
    # Numbers of cells, which no leaf looks at, are equally good.
    np.testing.assert_allclose(once.score_samples(frame), again.score_samples(frame))


def test_no_search_where_there_is_nothing_to_cut(monkeypatch):
    frame = temperatures(200)
    table, rows, leaves, normals = parts(frame[["celsius", "fahrenheit"]])
    assert cut_beside(table, rows, leaves, normals, SCORE, PRIOR) is None
    noise = frame.assign(sales=np.random.default_rng(0).choice(["a", "b"], 200))
    table, rows, leaves, normals = parts(noise[["celsius", "fahrenheit", "sales"]])
    assert cut_beside(table, rows, leaves, normals, SCORE, PRIOR) is None
    asked = []
    monkeypatch.setattr(module, "cut_beside", lambda *rest: asked.append(rest))
    bc.CutsetNetwork(gaussian=False).fit(frame)
    bc.CutsetNetwork().fit(frame[["sales", "season"]])
    assert not asked
    monkeypatch.setattr(module, "_MOST_CELLS", 100)
    bc.CutsetNetwork().fit(frame)
    assert not asked


def test_gaps_of_skewed_numbers_do_not_make_them_gaussian():
    rng = np.random.default_rng(0)

    def rows(n):
        return pd.DataFrame(
            {
                "price": np.exp(rng.normal(3, 1.2, n)).round(2),
                "share": (rng.beta(2, 5, n) * 100).round(1),
                "label": rng.choice(["a", "b", "c"], n),
            }
        )

    frame, new = rows(600), rows(2000)
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    model = bc.CutsetNetwork().fit(holes)
    drawn = model.sample(4000, random_state=0)
    assert (drawn["price"] < 0).mean() < 0.01
    found = np.exp(model.conditional_log_likelihood({"price": bc.below(5)}, {}))[0]
    assert found == pytest.approx((new["price"] < 5).mean(), abs=0.05)
    assert (drawn["price"] < 5).mean() == pytest.approx(found, abs=0.03)
    assert model.score(new) > bc.CutsetNetwork().fit(frame).score(new) - 0.3
