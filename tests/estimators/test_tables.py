"""Estimators on real tables: labels, numbers, dates, constants, columns without values."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescut as bc
from bayescut.exceptions import DataError, ZeroProbabilityError


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    n = 600
    smoker = rng.random(n) < 0.4
    age = np.where(smoker, rng.normal(50, 8, n), rng.normal(30, 8, n)).round().clip(0)
    height = (170 + 10 * rng.standard_normal(n) - 0.2 * (age - 40)).round(1)
    days = rng.integers(0, 400, n)
    return pd.DataFrame(
        {
            "smoker": np.where(smoker, "yes", "no"),
            "age": age.astype(np.int64),
            "height": height,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D"),
            "town": rng.choice(["Bonn", "Jena", "Ulm"], n),
            "planet": "Earth",
            "unknown": np.full(n, np.nan),
        }
    )


@pytest.fixture(scope="module", params=["CutsetNetwork", "CutsetMixture"])
def model(request, people):
    if request.param == "CutsetNetwork":
        return bc.CutsetNetwork(n_jobs=1).fit(people)
    return bc.CutsetMixture(n_components=3, tol=0.1, n_jobs=1, random_state=0).fit(people)


@pytest.fixture(scope="module")
def network(people):
    return bc.CutsetNetwork(n_jobs=1).fit(people)


def test_kinds_of_columns(model):
    kinds = [domain.kind for domain in model.domains_]
    assert kinds == ["label", "number", "number", "date", "label", "label", "empty"]


def test_columns_overrule(people):
    small = people[["age", "smoker"]]
    model = bc.CNetBD(columns={"age": "label"}).fit(small)
    assert model.domains_[0].kind == "label"
    array = np.random.default_rng(0).integers(0, 9, (100, 2))
    assert bc.CNetBD(columns={1: "number"}).fit(array).domains_[1].kind == "number"
    with pytest.raises(TypeError, match="columns must be a mapping"):
        bc.CNetBD(columns=["age"]).fit(small)
    with pytest.raises(DataError, match="kinds are"):
        bc.CNetBD(columns={"age": "numeric"}).fit(small)


def test_density_of_one_number_sums_to_one():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.poisson(20, 300), "y": rng.integers(0, 2, 300)})
    X.loc[0, "x"] = 90
    model = bc.CNetBD().fit(X)
    wide = np.arange(-300, 20_000)
    total = 0.0
    for y in (0, 1):
        rows = pd.DataFrame({"x": wide, "y": y})
        total += np.exp(model.score_samples(rows)).sum()
    assert total == pytest.approx(1, abs=1e-5)
    # The other column marginalised: the density of x alone.
    alone = np.exp(model.score_samples(pd.DataFrame({"x": wide, "y": np.nan}))).sum()
    assert alone == pytest.approx(1, abs=1e-5)


def test_density_of_two_numbers_integrates_to_one():
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, 400)
    X = np.column_stack([x, x + 0.3 * rng.normal(0, 1, 400)]).round(1)
    model = bc.CutsetNetwork(n_jobs=1).fit(X)
    steps = [domain.grid.step for domain in model.domains_]
    axes = [np.arange(-25 / step, 25 / step + 1) * step for step in steps]
    grid = np.array(np.meshgrid(*axes)).reshape(2, -1).T
    mass = np.exp(model.score_samples(grid)).sum() * steps[0] * steps[1]
    assert mass == pytest.approx(1, abs=0.01)  # what lies beyond +-25 are tails
    assert mass < 1 + 1e-9


def test_likelihood_is_bounded_by_the_step(network, people):
    ll = network.score_samples(people)
    assert np.isfinite(ll).all()
    ceiling = sum(
        -np.log(domain.grid.step) for domain in network.domains_ if domain.grid is not None
    )
    assert ll.max() <= ceiling
    wild = people.head(1).assign(age=10**6, height=-1e6)
    assert np.isfinite(network.score_samples(wild)).all()


def test_draws_look_like_the_table(model, people):
    drawn = model.sample(400, random_state=0)
    assert list(drawn.dtypes.astype(str))[:4] == list(people.dtypes.astype(str))[:4]
    assert drawn["unknown"].isna().all() and (drawn["planet"] == "Earth").all()
    tenths = drawn["height"] * 10
    assert np.allclose(tenths, tenths.round())
    assert (drawn["since"] == drawn["since"].dt.normalize()).all()
    assert drawn["age"].min() >= 0
    assert abs(drawn["age"].mean() - people["age"].mean()) < 2
    ages = drawn.groupby("smoker")["age"].mean()
    assert ages["yes"] - ages["no"] > 10
    again = model.sample(400, random_state=0)
    pd.testing.assert_frame_equal(drawn, again)


def test_intervals_and_sets_as_evidence(model):
    evidence = {
        "age": bc.between(33, 38, closed="left"),
        "smoker": "no",
        "town": {"Bonn", "Ulm"},
        "since": bc.at_least("2020-06-15"),
        "height": bc.below(170.05),
    }
    drawn = model.sample(300, evidence=evidence, random_state=1)
    assert set(drawn["age"]) == {33, 34, 35, 36, 37}
    assert (drawn["smoker"] == "no").all() and set(drawn["town"]) == {"Bonn", "Ulm"}
    assert drawn["since"].min() >= pd.Timestamp("2020-06-15")
    assert drawn["height"].max() < 170.05
    best = model.mpe(evidence)
    assert 33 <= best["age"][0] < 38 and best["height"][0] < 170.05
    found = model.marginals(evidence)
    assert 33 <= found["age", "mean"][0] <= 37
    assert 33 <= found["age", "5%"][0] <= found["age", "95%"][0] <= 37
    assert found["since", "50%"][0] >= pd.Timestamp("2020-06-15")
    assert found["town", "Jena"][0] == 0


def test_moments_within_an_interval_are_those_of_draws(network):
    evidence = {"age": bc.between(33, 47), "height": bc.at_least(171.3)}
    drawn = network.sample(6000, evidence=evidence, random_state=2)
    found = network.marginals(evidence).iloc[0]
    for name in ("age", "height"):
        error = drawn[name].std() / np.sqrt(len(drawn))
        assert abs(found[name, "mean"] - drawn[name].mean()) < 5 * error
        assert found[name, "std"] == pytest.approx(drawn[name].std(), rel=0.1)
        assert abs(found[name, "50%"] - drawn[name].median()) <= 8 * error + 0.1


def test_conditional_probabilities_of_intervals(network):
    whole = {"age": bc.between(20, 49)}
    parts = [{"age": bc.between(20, 29)}, {"age": bc.between(30, 49)}]
    p = [np.exp(network.conditional_log_likelihood(part, whole)[0]) for part in parts]
    assert sum(p) == pytest.approx(1)
    # Number by number: mass of whole numbers.
    each = [np.exp(network.conditional_log_likelihood({"age": a}, whole)[0]) for a in range(20, 30)]
    assert sum(each) == pytest.approx(p[0])
    assert network.conditional_log_likelihood({"age": 19}, whole)[0] == -np.inf
    assert network.conditional_log_likelihood({"age": bc.above(49)}, whole)[0] == -np.inf
    assert network.conditional_log_likelihood(whole, {"age": 20})[0] == pytest.approx(0)
    assert network.conditional_log_likelihood({"age": 25}, {"age": 25})[0] == pytest.approx(0)
    assert network.conditional_log_likelihood({"age": 25}, {"age": 26})[0] == -np.inf


def test_rows_of_a_table_against_a_mapping(network, people):
    rows = people.head(5).assign(smoker=None)
    found = network.conditional_log_likelihood({"smoker": "yes"}, rows)
    posterior = network.marginals(rows)
    assert np.allclose(np.exp(found), posterior["smoker", "yes"])
    assert posterior["age", "mean"].tolist() == rows["age"].tolist()
    assert (posterior["age", "std"] == 0).all()


def test_expectations(network, people):
    rows = people.head(4).assign(age=np.nan, smoker=None)
    found = network.expectation(rows, {"age": "mean", "smoker": {"yes": 1, "no": 0}})
    posterior = network.marginals(rows)
    assert np.allclose(found["age"], posterior["age", "mean"])
    assert np.allclose(found["smoker"], posterior["smoker", "yes"])
    square = network.expectation(rows, {"age": "square"})["age"]
    assert np.allclose(square, posterior["age", "mean"] ** 2 + posterior["age", "std"] ** 2)
    young = network.expectation(rows, {"age": bc.below(40)})["age"]
    asked = network.conditional_log_likelihood({"age": bc.below(40)}, rows)
    assert np.allclose(young, np.exp(asked))
    within = network.expectation({"age": bc.between(30, 60)}, {"age": bc.at_most(45)})
    asked = network.conditional_log_likelihood({"age": bc.at_most(45)}, {"age": bc.between(30, 60)})
    assert np.allclose(within["age"], np.exp(asked))
    assert network.expectation(people.head(2), {"age": bc.at_least(0)})["age"].tolist() == [1, 1]
    assert network.expectation(rows, {"town": {"Bonn"}})["town"].between(0, 1).all()
    with pytest.raises(DataError, match="'mean', 'square'"):
        network.expectation(rows, {"age": np.log})
    with pytest.raises(DataError, match="number for each of its labels"):
        network.expectation(rows, ["town"])
    with pytest.raises(DataError, match="ask for an interval"):
        network.expectation(rows, {"age": 30})


def test_mpe_is_the_mode_of_the_joint_density():
    rng = np.random.default_rng(5)
    a = rng.integers(0, 2, 300)
    X = pd.DataFrame({"a": a, "x": rng.poisson(12 + 10 * a), "y": rng.poisson(40 - 15 * a)})
    model = bc.CutsetNetwork(gaussian=False, n_jobs=1).fit(X)
    every = pd.DataFrame(
        [(a, x, y) for a in (0, 1) for x in range(60) for y in range(80)], columns=["a", "x", "y"]
    )
    density = model.score_samples(every)
    best, value = model.mpe({}, return_log_likelihood=True)
    assert value[0] == pytest.approx(density.max())
    assert model.score_samples(best)[0] == pytest.approx(value[0])
    inside = every["x"].between(17, 25) & every["y"].isin([24, 33, 41])
    best, value = model.mpe({"x": bc.between(17, 25), "y": {24, 33, 41}}, True)
    assert value[0] == pytest.approx(density[inside].max())
    assert best["x"][0] in range(17, 26) and best["y"][0] in (24, 33, 41)


@pytest.mark.parametrize("method", ["mpe", "mode", "median", "mean", "sample"])
def test_impute(model, people, method):
    rng = np.random.default_rng(0)
    holes = people.head(40).copy()
    for name in ("smoker", "age", "height", "since"):
        holes[name] = holes[name].astype("Int64" if name == "age" else holes[name].dtype)
        holes.loc[rng.random(40) < 0.4, name] = None
    holes.index = holes.index + 1000
    filled = model.impute(holes, method=method, random_state=0)
    assert filled.index.equals(holes.index)
    for name in ("smoker", "age", "height", "since"):
        assert filled[name].notna().all()
        seen = holes[name].notna()
        assert (filled[name][seen] == holes[name][seen]).all()
    assert filled["age"].dtype == "int64" and filled["since"].dtype == people["since"].dtype
    assert np.allclose(filled["height"] * 10, (filled["height"] * 10).round())
    assert filled["unknown"].isna().all()


def test_medians_of_imputed_numbers(network):
    row = {"smoker": "yes"}
    frame = pd.DataFrame(
        [{"smoker": "yes", "age": None, "height": None, "since": pd.NaT, "town": None,
          "planet": None, "unknown": np.nan}]
    )  # fmt: skip
    filled = network.impute(frame, method="median")
    assert filled["age"][0] == network.marginals(row)["age", "50%"][0]
    assert filled["since"][0] == network.marginals(row)["since", "50%"][0]


def test_arrays_with_fractions():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 200), rng.normal(0, 1, 200).round(2)])
    model = bc.CNetBD().fit(X)
    found = model.marginals([[1, np.nan]], quantiles=(0.5,))
    assert found[0].tolist() == [[0, 1, 0]] and found[1].shape == (1, 3)
    drawn = model.sample(50, random_state=0)
    assert set(drawn[:, 0]) <= {0, 1, 2}
    steps = drawn[:, 1] / model.domains_[1].grid.step
    assert np.allclose(steps, steps.round())
    assert model.expectation([[1, np.nan]], [1]).shape == (1, 1)


def test_codes_are_learned_as_before(people):
    X = np.random.default_rng(0).integers(0, 4, (200, 5))
    codes = bc.CutsetNetwork(n_jobs=1).fit(X)
    frame = bc.CutsetNetwork(n_jobs=1).fit(pd.DataFrame(X))
    assert all(domain.grid is None for domain in codes.domains_)
    assert np.array_equal(codes.score_samples(X), frame.score_samples(pd.DataFrame(X)))
    assert np.array_equal(codes.score_samples(X), codes.circuit_.log_likelihood(X))


def test_evidence_that_is_impossible(network):
    with pytest.raises(DataError, match="no value of it"):
        network.sample(evidence={"smoker": "perhaps"})
    with pytest.raises(DataError, match="town"):
        network.mpe({"town": []})
    with pytest.raises(DataError, match="There is no column"):
        network.marginals({"income": 3})
    with pytest.raises(DataError, match="no date"):
        network.marginals({"since": bc.above(3)})
    codes = bc.CNetBD(ess=0.1).fit(np.array([[0, 0], [1, 1]] * 10))
    with pytest.raises((ZeroProbabilityError, DataError)):
        codes.marginals({0: {0}, 1: {7}})


def test_model_files_hold_numbers(network, people):
    file = io.BytesIO()
    bc.save(network, file)
    file.seek(0)
    again = bc.load(file)
    rows = people.head(20)
    assert np.array_equal(again.score_samples(rows), network.score_samples(rows))
    pd.testing.assert_frame_equal(
        again.sample(20, random_state=0), network.sample(20, random_state=0)
    )
    assert again.domains_ == network.domains_


def test_dates_in_arrays_are_read_as_they_are_given_back() -> None:
    days = pd.date_range("2020-01-01", periods=40, freq="D")
    spans = pd.to_timedelta(np.arange(40) % 9, unit="h")
    frame = pd.DataFrame({"day": days, "span": spans, "kind": list("ab") * 20})
    model = bc.CutsetNetwork(n_jobs=1).fit(frame)
    array = np.empty(frame.shape, dtype=object)
    for j, name in enumerate(frame):
        array[:, j] = frame[name].to_numpy().astype(object) if name == "kind" else list(frame[name])
    array[3, 0] = None
    frame.loc[3, "day"] = pd.NaT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no names
        found = model.score_samples(array)
    np.testing.assert_allclose(found, model.score_samples(frame))
    array[2, 0] = "yesterday"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError, match=r"'yesterday' in row 2.*is no date"):
            model.score_samples(array)


@pytest.mark.filterwarnings("ignore::bayescut.exceptions.IdentifierWarning")
@pytest.mark.parametrize("job", ["density", "imputer"])
def test_observed_cells_keep_digits_that_floats_have_not(job):
    rng = np.random.default_rng(0)
    n = 60
    table = pd.DataFrame(
        {
            "id": rng.integers(10**17, 10**18, n),
            "seen": pd.array(rng.integers(2**62, 2**63 - 1, n), dtype="Int64"),
            "at": pd.to_datetime(rng.integers(10**18, 2 * 10**18, n), unit="ns", utc=True),
            "took": pd.to_timedelta(rng.integers(0, 10**15, n), unit="ns"),
            "kind": rng.choice(["a", "b"], n),
        }
    )
    table.loc[::3, ["seen", "at", "took", "kind"]] = None
    if job == "density":
        filled = bc.CNetBD().fit(table).impute(table)
    else:
        filled = bc.CutsetImputer(n_members=2, n_trees=0, n_jobs=1).fit(table).transform(table)
    assert filled.notna().all(axis=None)
    for name in table:
        known = table[name].notna()
        assert (filled[name][known] == table[name][known]).all()
        assert filled[name].dtype == table[name].dtype


def test_salaries_in_thousands_are_drawn_in_thousands():
    rng = np.random.default_rng(0)
    salary = (rng.normal(50, 10, 500).round() * 1000).astype(int)
    model = bc.CutsetNetwork(n_jobs=1).fit(pd.DataFrame({"salary": salary}))
    drawn = model.sample(200, random_state=0)
    assert (drawn.salary % 1000 == 0).all() and drawn.salary.dtype == salary.dtype
    # Those that were recorded have probability one, and a density by the unit of the table.
    every = pd.DataFrame({"salary": np.arange(-200_000, 400_000, 1000)})
    assert 1000 * np.exp(model.score_samples(every)).sum() == pytest.approx(1.0, abs=0.02)
    at = np.exp(model.conditional_log_likelihood({"salary": bc.between(49_500, 50_499)}, {}))
    one = 1000 * np.exp(model.score_samples(pd.DataFrame({"salary": [50_000]})))
    np.testing.assert_allclose(at, one)


def test_whole_numbers_that_floats_confuse_are_labels():
    names = 10**17 + np.arange(300)
    table = pd.DataFrame({"id": names, "b": np.random.default_rng(1).integers(0, 3, 300)})
    report = bc.data.describe_table(table)
    assert report.columns[0].kind == "label"
    with pytest.warns(UserWarning, match="id"):
        model = bc.CutsetNetwork(n_jobs=1).fit(table)
    assert np.exp(model.score_samples(table)).sum() <= 1
    assert model.impute(table.head(3)).id.tolist() == names[:3].tolist()
    mixed = table.assign(id=table.id.astype(object))
    assert bc.data.describe_table(mixed).columns[0].kind == "label"
