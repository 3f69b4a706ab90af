"""How finely numbers are learned."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescut as bc
from bayescut.data import learn_domains
from bayescut.data.encode import encode_table
from bayescut.data.table import Table
from bayescut.learn.leaves.normal import with_numbers
from bayescut.learn.tables import resolution


def test_wide_tables_have_fewer_cells(monkeypatch):
    x = np.random.default_rng(0).normal(size=(2000, 1))
    frame = pd.DataFrame(np.hstack([x, 2 * x, x**3, -x, np.exp(x)])).add_prefix("x")
    domains = learn_domains(frame, numbers=True)
    codes, values = encode_table(frame, domains, allow_missing=False)
    table = Table(codes, domains, None, values)
    counted = []
    pairs = resolution.available_pairs

    def noted(some):
        counted.append(int(some.domains.n_states.sum()))
        return pairs(some)

    monkeypatch.setattr(resolution, "available_pairs", noted)
    # Of 2,000 columns, pairs of 64,000 states took 30 GiB.
    for most, depth in ((1000, 5), (100, 4), (50, 3), (25, 2), (1, 2)):
        monkeypatch.setattr(resolution, "_MOST_STATES", most)
        assert resolution.best_depth(table) == depth
        assert all(n <= most for n in counted)
        counted.clear()


def numbers(n=400, gaps=0.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "y": x + 0.02 * rng.normal(size=n), "z": rng.normal(size=n)})
    frame = frame.round(3).mask(rng.random(frame.shape) < gaps)
    domains = learn_domains(frame, numbers=True)
    codes, values = encode_table(frame, domains, allow_missing=True)
    return frame, Table(codes, domains, None, values)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_the_learner_is_asked_about_complete_tables_of_better_and_better_resolutions(gaps):
    _, table = numbers(gaps=gaps)
    first = resolution.best_depth(table)
    assert first >= 3
    asked = []

    def worth(some):
        assert not some.has_gaps
        asked.append(int(some.sizes[0]))
        # Whatever the cells are worth inside, this learner wants eight.
        return -1e9 * abs(int(some.sizes[0]).bit_length() - 4)

    assert resolution.choose_depth(table, worth) == 3
    # As far as it gets better, and a step further, on the other side too.
    expected = [2**depth for depth in range(first, 1, -1)]
    assert asked in (expected, [*expected, 2 ** (first + 1)])
    coarse = resolution.coarsen(table, 3)
    assert coarse.sizes.tolist() == [8, 8, 8]
    np.testing.assert_array_equal(coarse.observed, table.observed)


def test_a_density_within_cells_makes_resolutions_comparable():
    _, table = numbers()
    grids = [domain.grid for domain in table.domains]
    for depth in (2, 4):
        coarse = resolution.coarsen(table, depth)
        whole = sum(grid.log_density(table.values[:, j]).sum() for j, grid in enumerate(grids))
        cells = sum(
            np.log(domain.grid.mass)[coarse.codes[:, j]].sum()
            for j, domain in enumerate(coarse.domains)
        )
        np.testing.assert_allclose(resolution._density_inside(coarse, table), whole - cells)


def test_numbers_that_were_drawn_are_worth_as_much_in_any_resolution():
    """On average over numbers drawn from the cells, but for what is the same everywhere."""
    _, table = numbers(100, gaps=0.3)
    rng = np.random.default_rng(0)
    fine = resolution.coarsen(table, 5)
    codes = np.where(fine.observed, fine.codes, rng.integers(0, fine.sizes, fine.codes.shape))
    fine = replace(fine, codes=codes.astype(np.uint8))

    def gain(some):
        coarse = [resolution._density_inside(resolution.coarsen(some, d), some) for d in (2, 4)]
        return coarse[1] - coarse[0]

    drawn = [gain(with_numbers(fine, np.arange(3), rng)) for _ in range(5)]
    np.testing.assert_allclose(drawn, gain(fine))
    assert gain(fine) > 0


def test_large_and_late_tables_are_not_asked_about(monkeypatch):
    _, table = numbers()
    by_forests = resolution.best_depth(table)

    def worth(some):
        raise AssertionError("asked")

    assert resolution.choose_depth(table, worth, deadline=-np.inf) == by_forests
    monkeypatch.setattr(resolution, "_MOST_ASKED", 100)
    assert resolution.choose_depth(table, worth) == by_forests
    monkeypatch.setattr(resolution, "_MOST_ASKED", 10**9)
    monkeypatch.setattr(resolution, "_MOST_STATES_ASKED", 10)
    assert resolution.choose_depth(table, worth) == by_forests


def test_networks_see_numbers_that_follow_each_other_in_fine_cells():
    frame, table = numbers(2000)
    depth = resolution.best_depth(table)
    model = bc.CutsetNetwork(n_jobs=1, gaussian=False).fit(frame)
    assert model.circuit_.domains[0].n_states >= 2**depth
    # A weight is a row.
    weights = np.ones(len(frame))
    weights[:50] = 2
    repeated = pd.concat([frame, frame[:50]])
    first = bc.CutsetNetwork(n_jobs=1, gaussian=False).fit(frame, sample_weight=weights)
    second = bc.CutsetNetwork(n_jobs=1, gaussian=False).fit(repeated)
    np.testing.assert_allclose(first.score_samples(frame), second.score_samples(frame))


@pytest.mark.parametrize("learner", [bc.CutsetNetwork, bc.CutsetEnsemble])
def test_identifiers_have_no_part_in_how_numbers_are_learned(learner, monkeypatch):
    frame, _ = numbers(200, gaps=0.1)
    frame["name"] = [f"n{i}" for i in range(200)]
    seen = []
    choose = resolution.choose_depth

    def noted(table, *rest):
        seen.append(table.domains.names)
        return choose(table, *rest)

    for module in ("_base", "_ensemble"):
        monkeypatch.setattr(f"bayescut.estimators.{module}.choose_depth", noted)
    settings = {} if learner is bc.CutsetNetwork else {"n_chains": 0, "n_bags": 1}
    with pytest.warns(bc.exceptions.IdentifierWarning, match="name"):
        model = learner(**settings).fit(frame)
    assert seen == [["x", "y", "z"]]
    assert model.domains_.names == ["x", "y", "z", "name"]
    alone = learner(**settings).fit(frame[["x", "y", "z"]])
    apart = np.log(model.marginals(frame[:1].assign(name=None))["name"].to_numpy()[0, 0])
    np.testing.assert_allclose(
        model.score_samples(frame), alone.score_samples(frame[["x", "y", "z"]]) + apart
    )
