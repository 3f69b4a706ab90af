"""Tables of the members of an ensemble: cells of their own, gaps drawn anew."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from bayescut.circuit import build
from bayescut.data import Domains, encode_table, learn_domains
from bayescut.data.table import Table
from bayescut.learn.ensemble.own_tables import OwnTables


def table(n=400, gaps=0.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, n)
    X = np.column_stack([x, x + rng.normal(0, 0.5, n), rng.integers(0, 2, n) + 0.0]).round(2)
    domains = learn_domains(X, numbers=True, columns={2: "label"})
    X[rng.random(X.shape) < gaps] = np.nan
    codes, values = encode_table(X, domains, allow_missing=True)
    return Table(codes, domains, None, values)


def test_every_member_has_cells_of_its_own() -> None:
    whole = table()
    tables = OwnTables(whole, 3, seed=1)
    first, again, second = tables.draw(5), tables.draw(5), tables.draw(6)
    assert np.array_equal(first.table.codes, again.table.codes)
    assert first.table.sizes.tolist() == [8, 8, 2]
    assert not np.array_equal(first.table.codes[:, :2], second.table.codes[:, :2])
    assert np.array_equal(first.table.codes[:, 2], whole.codes[:, 2])
    for own in (first, second, tables.plain):
        for j in range(2):
            grid = own.table.domains[j].grid
            assert np.array_equal(grid.codes(whole.values[:, j]), own.table.codes[:, j])


def test_restored_members_have_the_density_of_their_own_cells() -> None:
    whole = table()
    own = OwnTables(whole, 2, seed=0).draw(3)
    rng = np.random.default_rng(2)
    tables = [rng.dirichlet(np.ones(k)) for k in own.table.sizes]
    circuit = build.circuit(build.independent(tables), own.table.domains)
    restored = own.restore(circuit)
    assert restored.domains == whole.domains
    mine = circuit.log_likelihood(own.table.codes) + own.table.log_inside
    assert_allclose(restored.log_likelihood(whole.codes) + whole.log_inside, mine, rtol=1e-12)


def test_every_member_has_draws_of_its_own() -> None:
    whole = table(gaps=0.3)
    tables = OwnTables(whole, 2, seed=0)
    first, second = tables.draw(0).table, tables.draw(1).table
    assert not first.has_gaps and not second.has_gaps
    assert not np.isnan(first.values[:, :2]).any()
    seen = whole.observed
    assert np.array_equal(first.values[seen], whole.values[seen], equal_nan=True)
    assert (first.codes[~seen] != second.codes[~seen]).any()
    for j in range(2):
        grid = first.domains[j].grid
        assert np.array_equal(grid.codes(first.values[:, j]), first.codes[:, j])


def test_drawn_cells_follow_the_model_and_the_density() -> None:
    whole = table(n=4000, gaps=0.3)
    completed = OwnTables(whole, 3, seed=0).draw(0).table
    gone = ~whole.observed[:, 1] & whole.observed[:, 0]
    x, y = completed.values[gone, 0], completed.values[gone, 1]
    seen = whole.observed[:, 1] & whole.observed[:, 0]
    expected = np.corrcoef(whole.values[seen, 0], whole.values[seen, 1])[0, 1]
    # Eight cells let through most of it; none at all would be 0.89 away.
    assert abs(np.corrcoef(x, y)[0, 1] - expected) < 0.1
    assert abs(y.std() - whole.values[seen, 1].std()) < 0.1


def test_complete_labels_are_left_as_they_are() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(np.uint8)
    labels = Table(codes, Domains.binary(3))
    tables = OwnTables(labels, None, seed=0)
    assert tables.draw(7) is tables.plain
    assert tables.plain.table is labels
    circuit = build.circuit(build.independent([[0.5, 0.5]] * 3), [2, 2, 2])
    assert tables.plain.restore(circuit) is circuit
