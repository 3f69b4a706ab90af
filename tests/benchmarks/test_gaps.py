"""The benchmark of gaps: what is removed, how it is filled, what the table says."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def gaps(load):
    return load("gaps")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    label = pd.Categorical(rng.choice(["a", "b", "c"], 200, p=[0.6, 0.3, 0.1]))
    return pd.DataFrame({"x": rng.normal(size=200).round(2), "label": label})


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_cells_are_removed_but_never_all(gaps, frame, share):
    gappy = gaps.remove(frame, share)
    assert gappy.isna().to_numpy()[2:].mean() == pytest.approx(share, abs=0.06)
    assert gappy.iloc[:2].notna().all().all()
    known = gappy.notna().to_numpy()
    assert (gappy.astype(object).to_numpy() == frame.astype(object).to_numpy())[known].all()


def test_gaps_are_filled_by_the_middle_of_what_is_known(gaps, frame):
    gappy = gaps.remove(frame, 0.5)
    filled = gaps.fill(gappy)
    assert filled.notna().all().all() and (filled.dtypes == frame.dtypes).all()
    assert set(filled.label[gappy.label.isna()]) == {"a"}
    number = filled.x[gappy.x.isna()].unique()
    # A value that the column has: between the two middle ones there may be none in its steps.
    assert len(number) == 1 and number[0] in set(gappy.x.dropna())
    assert abs((gappy.x < number[0]).sum() - (gappy.x > number[0]).sum()) <= 2


def test_losses_are_parts_of_the_losses_by_filling(gaps, tmp_path, monkeypatch):
    monkeypatch.setattr(gaps, "PATH", tmp_path / "gaps.csv")
    values = {
        ("0", "none"): 5.0, ("0.2", "as they are"): 4.5, ("0.2", "filled"): 3.0,
        ("0.5", "as they are"): 3.0, ("0.5", "filled"): 6.0,
        ("0.2", "rows 0"): 4.0, ("0.2", "rows 1"): 4.5,
    }  # fmt: skip
    lines = [",".join(gaps.FIELDS)]
    lines += [f"one,CutsetNetwork,test,{a},{b},{v},1.0,0.0" for (a, b), v in values.items()]
    lines += ["two,CutsetNetwork,test,0.2,filled,1.0,1.0,0.0"]  # not yet run to its end
    gaps.PATH.write_text("\n".join(lines) + "\n")
    table = gaps.table("test").splitlines()
    assert table[3] == ""
    cells = [cell.strip() for cell in table[2].strip("|").split("|")]
    # Where filling gains, its loss has no parts.
    own = ["0.50", "2.00", "0.25", "0.75", "2.00", "-1.00", "", ""]
    assert cells == ["one", "CutsetNetwork", "5.00", *own]
