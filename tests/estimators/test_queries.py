"""The queries of estimators, on codes and on DataFrames, against enumeration."""

import numpy as np
import pandas as pd
import pytest

from bayescut import CNetBD, CutsetMixture, CutsetNetwork
from bayescut.exceptions import DataError


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 500
    old = rng.random(n) < 0.4
    smoker = rng.random(n) < np.where(old, 0.6, 0.2)
    city = np.where(rng.random(n) < 0.7, np.where(old, "Graz", "Leuven"), "Eindhoven")
    return pd.DataFrame(
        {
            "age": pd.Categorical(
                np.where(old, "old", "young"), categories=["young", "old"], ordered=True
            ),
            "smoker": smoker,
            "city": city,
            "children": rng.integers(0, 3, n) + old,
        }
    )


def worlds(model):
    """All complete rows as a DataFrame, with their probabilities."""
    sizes = model.domains_.n_states
    codes = np.array(list(np.ndindex(*sizes)), dtype=np.uint8)
    return codes, np.exp(model.circuit_.log_likelihood(codes))


MODELS = [
    CNetBD(ess=1.0),
    CutsetNetwork(),
    CutsetMixture(n_components=2, random_state=0, tol=0.01),
]


@pytest.fixture(params=MODELS, ids=lambda m: type(m).__name__, scope="module")
def model(request, frame):
    return request.param.fit(frame)


def test_rows_of_a_frame(model, frame):
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.score_samples(frame).shape == (500,)
    mixed = frame[["city", "age", "children", "smoker"]]
    np.testing.assert_allclose(model.score_samples(mixed), model.score_samples(frame))
    partial = frame.astype(object)
    partial.loc[0, "city"] = None
    codes, p = worlds(model)
    first = model._encode(frame.iloc[:1])[0]
    agree = (codes[:, [0, 1, 3]] == first[[0, 1, 3]]).all(axis=1)
    assert model.score_samples(partial.iloc[:1])[0] == pytest.approx(np.log(p[agree].sum()))


def test_samples_come_back_as_a_frame(model, frame):
    draws = model.sample(200, random_state=0)
    assert list(draws.columns) == list(frame.columns)
    assert draws.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert set(draws["city"]) <= set(frame["city"])
    given = model.sample(50, evidence={"city": "Graz", "smoker": True}, random_state=1)
    assert (given["city"] == "Graz").all() and given["smoker"].all()


def test_marginals(model, frame):
    partial = frame.iloc[:3].astype(object)
    partial.iloc[:, 2:] = None
    found = model.marginals(partial)
    codes, p = worlds(model)
    for i in range(3):
        row = model._encode(frame.iloc[[i]])[0]
        agree = (codes[:, :2] == row[:2]).all(axis=1)
        for j, column in enumerate(frame.columns):
            domain = model.domains_[j]
            for code in range(domain.n_states):
                expected = p[agree & (codes[:, j] == code)].sum() / p[agree].sum()
                assert found[column, domain.label(code)].iloc[i] == pytest.approx(expected)


def test_marginals_of_codes():
    X = np.array([[0, 0], [1, 1], [1, 1], [1, 2]])
    model = CNetBD(ess=1.0).fit(X)
    found = model.marginals([[np.nan, 1.0]])
    assert [block.shape for block in found] == [(1, 2), (1, 3)]
    np.testing.assert_allclose(found[1], [[0, 1, 0]])
    p = np.exp(model.score_samples([[0, 1], [1, 1]]))
    np.testing.assert_allclose(found[0][0], p / p.sum())


def test_completions(model, frame):
    partial = frame.iloc[:20].astype(object)
    partial.loc[::2, "city"] = None
    partial.loc[::3, "age"] = None
    best, value = model.mpe(partial, return_log_likelihood=True)
    assert best.dtypes.astype(str).tolist() == frame.dtypes.astype(str).tolist()
    assert best.index.equals(partial.index)
    np.testing.assert_allclose(model.score_samples(best), value)
    for method in ("mpe", "mode", "sample"):
        filled = model.impute(partial, method=method, random_state=0)
        assert not filled.isna().any().any()
        assert (filled["smoker"] == frame["smoker"].iloc[:20]).all()
        seen = partial["city"].notna()
        assert (filled.loc[seen, "city"] == frame["city"].iloc[:20][seen]).all()
    if not isinstance(model, CutsetMixture):
        codes, p = worlds(model)
        first = model._encode(partial.iloc[:1])[0]
        observed = first != 255
        agree = (codes[:, observed] == first[observed]).all(axis=1)
        assert value[0] == pytest.approx(np.log(p[agree].max()))
    with pytest.raises(ValueError, match="method"):
        model.impute(partial, method="guess")


def test_conditional_queries(model):
    found = model.conditional_log_likelihood({"smoker": True}, {"age": "old"})
    codes, p = worlds(model)
    age, smoker = model.domains_.index("age"), model.domains_.index("smoker")
    old = codes[:, age] == model.domains_[age].code("old")
    smokes = codes[:, smoker] == model.domains_[smoker].code(True)
    assert found[0] == pytest.approx(np.log(p[old & smokes].sum() / p[old].sum()))
    both = model.conditional_log_likelihood({"age": "young"}, {"age": "old"})
    assert both[0] == -np.inf
    with pytest.raises(DataError, match="no value"):
        model.conditional_log_likelihood({"age": "ancient"}, {})
    with pytest.raises((DataError, KeyError, ValueError), match="weight"):
        model.conditional_log_likelihood({"weight": 3}, {})
