"""Synthetic tables beside real ones."""

import numpy as np
import pytest

from bayescut.exceptions import DataError
from bayescut.report import compare_tables

pd = pytest.importorskip("pandas")


def people(n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    town = rng.choice(["north", "south"], n)
    income = np.round(20 + 0.5 * age + 10 * (town == "north") + rng.normal(0, 4, n), 1)
    rich = np.where(income > 52, "yes", "no")
    return pd.DataFrame({"age": age, "town": town, "income": income, "rich": rich})


def test_rows_of_the_same_kind_are_as_near_as_held_out_rows():
    report = compare_tables(people(2000, 0), people(2000, 1), people(2000, 2))
    assert report.target == "rich"
    assert abs(report.columns.mean() - report.columns_real.mean()) < 0.03
    assert abs(report.pairs.mean() - report.pairs_real.mean()) < 0.03
    assert report.accuracy == pytest.approx(report.accuracy_real, abs=0.05)
    assert report.accuracy > report.accuracy_guess
    assert report.copies == pytest.approx(report.copies_real, abs=0.05)


def test_shuffled_columns_keep_marginals_and_lose_pairs():
    real = people(1500, 0)
    rng = np.random.default_rng(0)
    mixed = pd.DataFrame({name: rng.permutation(real[name]) for name in real})
    report = compare_tables(real, mixed, people(1500, 1))
    assert report.columns.max() == pytest.approx(0.0, abs=1e-12)
    age, income = 0, 2
    assert report.pairs[age, income] > 3 * report.pairs_real[age, income]
    assert report.accuracy < report.accuracy_real - 0.1


def test_copies_are_counted():
    real = people(400, 0)
    report = compare_tables(real, pd.concat([real.head(30), people(70, 5)]), people(100, 6))
    assert 0.3 <= report.copies <= 0.35 and report.copies_real < 0.05


def test_gaps_and_numbers_without_labels():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(300, 2)).round(2)
    gappy = real.copy()
    gappy[::3, 0] = np.nan
    report = compare_tables(real, gappy)
    assert report.target is None and np.isnan(report.accuracy)
    assert report.columns[0] > 0.25
    assert len(report.lines()) == 5
    with pytest.raises(DataError, match="numbers"):
        compare_tables(real, gappy, target=0)
    with pytest.raises(DataError, match="two rows"):
        compare_tables(real[:1], gappy)


def test_one_picture_and_one_record():
    import json

    report = compare_tables(people(300, 0), people(300, 1), target="town")
    assert report.target == "town"
    assert json.loads(json.dumps(report.record()))["rows"]["synthetic"] == 300
    pytest.importorskip("matplotlib")
    assert len(report.draw().axes) == 3


def test_labels_that_real_rows_do_not_have_are_no_gaps():
    real, held_out = people(600, 0), people(300, 1)
    odd, gappy = people(600, 2), people(600, 2)
    odd.loc[:299, "town"] = "west"
    gappy.loc[:299, "town"] = None
    town = list(real.columns).index("town")
    strange = compare_tables(real, odd, held_out)
    gaps = compare_tables(real.where(real.age < 40), gappy, held_out)
    assert strange.columns[town] == pytest.approx(0.5, abs=0.01)
    assert gaps.columns[town] < 0.25
    # A row with a label of its own equals no row in which that cell is missing.
    lost = real.assign(town=real.town.where(real.index >= 100))
    made = lost.head(100).assign(town="west")
    assert compare_tables(lost, lost.head(100), held_out).copies == 1.0
    assert compare_tables(lost, made, held_out).copies == 0.0


def test_copies_are_counted_among_all_rows_if_none_are_held_out():
    real = people(400, 0).drop_duplicates(ignore_index=True)
    report = compare_tables(real, real)
    assert report.copies == 1.0 and report.copies_real == 0.0
    twice = pd.concat([real, real.head(100)], ignore_index=True)
    report = compare_tables(twice, people(100, 5))
    assert report.copies < 0.05 and report.copies_real == pytest.approx(200 / len(twice))


def test_names_are_nothing_to_predict():
    real = people(400, 0)
    real["name"] = [f"row {k}" for k in range(len(real))]
    report = compare_tables(real, real.sample(frac=1.0, random_state=0))
    assert report.target == "rich"
    with pytest.raises(DataError, match="choose another target"):
        compare_tables(real, real, target="name")


def test_the_picture_says_what_a_guess_reaches():
    pytest.importorskip("matplotlib")
    report = compare_tables(people(300, 0), people(300, 1), people(300, 2))
    bars = report.draw().axes[2]
    assert "guess" in [text.get_text() for text in bars.texts]
    assert f"{report.accuracy:.2f}" in [text.get_text() for text in bars.texts]
