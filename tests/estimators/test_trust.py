"""What a user must be able to rely on when something goes wrong or looks odd."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayescut as bc
from bayescut.exceptions import DataError


@pytest.fixture
def towns():
    return pd.DataFrame({"town": ["Bonn", "Oslo", "Bonn"] * 20, "wet": [0, 1, 1] * 20})


@pytest.mark.parametrize(
    "estimator",
    [bc.CNetBD(), bc.CutsetMixture(2, random_state=0), bc.CutsetEnsemble(1, n_bags=1)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_fit_that_fails_leaves_the_model_as_it_was(estimator, towns):
    model = estimator.fit(towns)
    before = model.marginals(towns[:1])
    others = towns.replace("Bonn", "Zug").assign(more=1)
    with pytest.raises(ValueError, match="ess"):
        model.set_params(ess=-1.0).fit(others)
    pd.testing.assert_frame_equal(model.marginals(towns[:1]), before)
    assert list(model.feature_names_in_) == ["town", "wet"]
    assert bc.files.loads(bc.files.dumps(model.set_params(ess=1.0))).score(towns) == model.score(
        towns
    )


def test_columns_with_numbers_for_names():
    """Positions as names are positions; other numbers cannot be told from positions."""
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (50, 3)))
    model = bc.CNetBD().fit(table)
    assert model.score(table.to_numpy()) == model.score(table)
    for columns in ([2, 1, 0], [0, 1, 7], [(0, "a"), (0, "b"), (1, "a")]):
        renamed = table.set_axis(pd.Index(columns), axis=1)
        for use in (bc.CNetBD().fit, model.score):
            with pytest.raises(TypeError, match="string names"):
                use(renamed)


def test_evidence_is_read_one_way(towns):
    model = bc.CNetBD().fit(towns)
    with pytest.raises(DataError, match="twice"):
        model.sample(1, evidence={"town": "Bonn", 0: "Oslo"})
    alone = model.conditional_log_likelihood({"town": "Bonn"}, {})
    for nothing in (None, np.nan, pd.NA):
        said = model.conditional_log_likelihood({"town": "Bonn"}, {"wet": nothing})
        np.testing.assert_array_equal(said, alone)


def test_normalised_weights_are_pointed_out(towns):
    with pytest.warns(UserWarning, match="adds up to 1 for 60 rows"):
        bc.CNetBD().fit(towns, sample_weight=np.full(60, 1 / 60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bc.CNetBD().fit(towns, sample_weight=np.full(60, 0.1))
        bc.CNetBD().fit(towns, sample_weight=np.eye(60)[0])


def test_widths_that_no_memory_holds():
    X = np.random.default_rng(0).integers(0, 2, (30, 3))
    for model in (
        bc.CutsetNetwork(width=17),
        bc.CutsetEnsemble(width=40),
        bc.CutsetEnsemble(shared_widths=(40,)),
    ):
        with pytest.raises(ValueError, match="at most 16"):
            model.fit(X)
    wide = bc.CutsetNetwork(width=16).fit(X)
    assert wide.score(X) == bc.CutsetNetwork(width=2).fit(X).score(X)


def test_columns_that_are_different_in_every_row():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"number": np.arange(900), "a": rng.integers(0, 2, 900)})
    table["b"] = table["a"]
    model = bc.CutsetNetwork().fit(table)
    assert np.isfinite(model.score(table))
    many = np.repeat(np.arange(33_000)[:, None], 1, axis=1)
    with pytest.raises(DataError, match="Column 0 has 33000 of them"):
        bc.CNetBD().fit(many)


def test_rows_keep_their_index():
    index = pd.MultiIndex.from_product([["x", "y"], [1, 2]], names=["group", "number"])
    table = pd.DataFrame({"a": [0, 1, 1, 0], "b": [1.0, 0.0, np.nan, 1.0]}, index=index)
    model = bc.CNetBD().fit(table.dropna())
    for filled in (model.impute(table), model.mpe(table), model.impute(table, "sample", 0)):
        pd.testing.assert_index_equal(filled.index, index)


def test_messages_name_what_was_given(tmp_path):
    model = bc.CNetBD().fit([[0, 1], [1, 0]])
    with pytest.raises(FileNotFoundError, match="no such folder") as caught:
        bc.save(model, tmp_path / "none" / "model.bc")
    assert caught.value.filename == str(tmp_path / "none")
    for start in (bc.CutsetMixture, bc.CutsetEnsemble):
        with pytest.raises(FileNotFoundError, match="no such folder"):
            start(checkpoint=tmp_path / "none" / "model.bc").fit([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="random_state cannot be used as a seed: 'x'"):
        model.sample(2, random_state="x")
    for n in (1.5, -1, True):
        with pytest.raises(ValueError, match="whole number"):
            model.circuit_.sample(n)
