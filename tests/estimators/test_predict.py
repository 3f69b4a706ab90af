"""Any column from any others, and surprisal, against sums over worlds."""

import numpy as np
import pandas as pd
import pytest

from bayescut import CNetBD, CutsetMixture, CutsetNetwork
from bayescut.circuit import build
from bayescut.data import Domains, learn_domains
from bayescut.estimators._density import posterior
from bayescut.estimators._predict import cell_surprisal, predicted
from bayescut.exceptions import DataError

WORLDS = np.array(list(np.ndindex(2, 3, 2)))


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 300), rng.integers(0, 3, 300), rng.integers(0, 2, 300)])
    X[:, 2] = np.where(rng.random(300) < 0.8, X[:, 0] ^ (X[:, 1] == 2), X[:, 2])
    return X


@pytest.fixture(scope="module")
def model(X):
    return CutsetNetwork(n_jobs=1).fit(X)


def test_probabilities_of_a_column(model):
    p = np.exp(model.score_samples(WORLDS))
    row = np.array([[1, np.nan, np.nan]])
    given = WORLDS[:, 0] == 1
    expected = [p[given & (WORLDS[:, 1] == k)].sum() / p[given].sum() for k in range(3)]
    np.testing.assert_allclose(model.predict_proba(row, target=1)[0], expected)
    assert model.predict(row, target=1)[0] == np.argmax(expected)
    # What the row says of the target itself is not looked at; the default is the last column.
    told = np.array([[1, 2, 0]])
    np.testing.assert_allclose(
        model.predict_proba(told, 1), model.predict_proba([[1, np.nan, 0]], 1)
    )
    np.testing.assert_array_equal(model.predict(told), model.predict(told, target=2))


def test_frames_need_not_have_the_target(X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(c=np.where(X[:, 2] == 1, "yes", "no"))
    model = CNetBD(n_jobs=1).fit(frame)
    found = model.predict(frame.drop(columns="c"), target="c")
    assert set(found) <= {"yes", "no"}
    assert np.mean(found == frame.c) > 0.7
    with pytest.raises(DataError, match="quantiles"):
        model.quantile(frame, target="c", q=0.5)
    with pytest.raises(DataError, match="no column"):
        model.predict(frame, target="z")
    with pytest.raises(DataError, match="mean"):
        model.predict(frame, target="c", method="mean")


def test_what_is_said_of_the_target_is_not_looked_at(X):
    # ... even if it is a label that training did not show.
    rows = X[:20].astype(float)
    odd = rows.copy()
    odd[:, 1] = 7
    model = CutsetNetwork(n_jobs=1).fit(X)
    np.testing.assert_array_equal(model.predict_proba(odd, 1), model.predict_proba(rows, 1))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = CutsetNetwork(n_jobs=1).fit(frame)
    strange = frame.head(20).assign(b="seven")
    expected = model.predict(frame.head(20).drop(columns="b"), target="b")
    np.testing.assert_array_equal(model.predict(strange, target="b"), expected)
    assert strange.b.tolist() == ["seven"] * 20  # the table asked about stays as it was


@pytest.mark.parametrize("named", [False, True])
def test_nor_is_it_in_tables_of_any_kind(X, named):
    odd = X[:20].astype(int)
    odd[:, 1] = 7
    truth = pd.DataFrame(X, columns=["a", "b", "c"]) if named else X
    model = CutsetNetwork(n_jobs=1).fit(truth)
    expected = model.predict_proba(X[:20], 1)
    others = pd.DataFrame(odd[:, [0, 2]], columns=[0, 1])
    for table in (odd, odd.tolist(), odd.astype(object), pd.DataFrame(odd), others):
        np.testing.assert_array_equal(model.predict_proba(table, 1), expected)
    assert (odd[:, 1] == 7).all()
    with pytest.raises(ValueError, match=r"columns|features"):
        model.predict_proba(odd[:, :1], 1)


def test_columns_given_come_as_any_sequence(model):
    both = model.mutual_information(given=(0, np.int64(2)))
    np.testing.assert_array_equal(model.mutual_information(given=np.array([0, 2])), both)
    np.testing.assert_array_equal(model.mutual_information(given=iter([0, 2])), both)


def test_surprisal_by_hand(model):
    p = np.exp(model.score_samples(WORLDS))
    row = np.array([[0, 2, 1]])
    found, relative = model.surprisal(row)[0], model.surprisal(row, relative=True)[0]
    for j in range(3):
        others = [k for k in range(3) if k != j]
        same = (WORLDS[:, others] == row[0, others]).all(axis=1)
        chances = p[same] / p[same].sum()
        own = chances[WORLDS[same][:, j] == row[0, j]][0]
        assert found[j] == pytest.approx(-np.log(own))
        assert relative[j] == pytest.approx(-np.log(own) + (chances * np.log(chances)).sum())


def test_missing_cells_have_no_surprisal(model):
    found = model.surprisal([[0, np.nan, 1]])
    assert np.isnan(found[0, 1]) and np.isfinite(found[0, [0, 2]]).all()


def test_mixtures_tell_components_or_columns(X):
    model = CutsetMixture(n_components=2, random_state=0, n_jobs=1).fit(X)
    assert model.predict_proba(X).shape == (300, 2)
    assert model.predict_proba(X, target=1).shape == (300, 3)
    assert set(model.predict(X, target=2)) <= {0, 1}
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))


def test_numbers_by_their_cells():
    """Median, mean and mode of a number follow from the probabilities of its cells."""
    numbers = np.array([[0.5], [1.5], [2.5], [9.5]])
    domain = learn_domains(numbers, numbers=True)[0]
    cells = domain.grid.codes(numbers[:, 0])
    chances = np.zeros((1, domain.n_states))
    chances[0, cells[2]] = 1.0
    middle = predicted(chances, domain, None)[0]
    assert domain.grid.codes(middle) == cells[2]
    assert domain.grid.cdf(chances, middle)[0] == pytest.approx(0.5, abs=0.2)
    assert predicted(chances, domain, "mean")[0] == pytest.approx(domain.grid.mean[cells[2]])
    assert predicted(chances, domain, "mode")[0] == domain.grid.mode[cells[2]]


def test_surprisal_of_numbers():
    rng = np.random.default_rng(0)
    numbers = np.round(rng.gamma(2.0, 10.0, 400), 1)[:, None]
    domains = learn_domains(numbers, numbers=True)
    grid = domains[0].grid
    circuit = build.circuit(build.categorical(0, grid.mass), Domains(domains))
    cells = rng.choice(grid.n_cells, 4000, p=grid.mass)
    values = grid.draw(cells, rng.random(4000))
    codes = grid.codes(values)[:, None]

    def ask(codes, values, column):
        return posterior(circuit, codes, column, values=values)

    plain = cell_surprisal(circuit.domains, codes, values[:, None], False, ask)
    np.testing.assert_allclose(plain[:, 0], -grid.log_density(values), atol=1e-9)
    # The only column follows its own density: nothing is more surprising than anything else.
    relative = cell_surprisal(circuit.domains, codes, values[:, None], True, ask)
    inside = np.abs(values - np.mean(grid.range)) <= np.ptp(grid.range) / 2
    np.testing.assert_allclose(relative[inside], 0.0, atol=1e-9)
    # But what lies beyond all of it.
    beyond = relative[~inside]
    assert (beyond > -1e-9).all() and beyond.max() > 1


def test_dates_and_durations_are_predicted_as_such():
    rng = np.random.default_rng(0)
    days = rng.integers(0, 300, 200)
    frame = pd.DataFrame({
        "begun": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"),
        "took": pd.to_timedelta(np.where(days < 150, 3, 9) + rng.integers(0, 2, 200), unit="D"),
        "kind": np.where(days < 150, "early", "late"),
    })  # fmt: skip
    model = CutsetNetwork(columns={"took": "duration"}).fit(frame)
    early = frame[frame.kind == "early"][:2]
    found = model.predict(early, target="begun")
    assert found.dtype.kind == "M"
    assert (found >= np.datetime64("2020-01-01")).all() and (
        found < np.datetime64("2020-06-01")
    ).all()
    assert (found == found.astype("M8[D]")).all()  # whole days, as the table has them
    low, high = model.quantile(early, target="begun", q=[0.1, 0.9]).T
    assert low.dtype.kind == "M" and (low < found).all() and (found < high).all()
    took = model.quantile(early, target="took", q=0.5)
    assert took.dtype.kind == "m" and (took <= np.timedelta64(4, "D")).all()


def test_truth_values_are_predicted_as_such():
    table = pd.DataFrame({"on": [True, False] * 30, "n": [2**60 + 1, 2**60] * 30})
    model = CNetBD().fit(table)
    found = model.predict(table.head(2), target="on")
    assert found.dtype == bool and found.tolist() == [True, False]
    assert model.predict(table.head(2), target="n").tolist() == [2**60 + 1, 2**60]


def test_numbers_far_beyond_those_of_training_are_the_odd_cells():
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "height": rng.normal(170, 10, n).round(1),
            "income": rng.normal(3000, 400, n).round(),
            "city": rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    model = CutsetNetwork(n_jobs=1).fit(table)
    odd = table.head(3).assign(city="C")
    odd.loc[0, "height"] = 1700.0
    odd.loc[1, "income"] = -99999.0
    found = model.surprisal(odd, relative=True)
    assert found.loc[[0, 1]].idxmax(axis=1).tolist() == ["height", "income"]
    assert found.loc[2].idxmax() == "city"
    alone = CutsetNetwork(n_jobs=1).fit(table[["height"]])
    far = pd.DataFrame({"height": [table.height.max(), 250.0, 400.0, 4000.0]})
    found = alone.surprisal(far, relative=True)["height"].to_numpy()
    assert (np.diff(found) > 0.5).all()
