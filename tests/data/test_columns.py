"""What a column is: decided in one place, overruled by name, reported all at once."""

import datetime

import numpy as np
import pandas as pd
import pytest

from bayescut.data import (
    Domains,
    decode,
    describe_table,
    encode,
    encode_table,
    learn_domains,
    learn_grid,
)
from bayescut.exceptions import DataError

N = 60
RNG = np.random.default_rng(0)
NOW = pd.Timestamp("2024-02-28")
COLUMNS = {
    # name: cells, kind
    "text": (np.where(np.arange(N) % 2, "a", "b"), "label"),
    "category": (pd.Categorical(np.arange(N) % 3), "label"),
    "bool": (np.arange(N) % 2 == 0, "label"),
    "float": (RNG.normal(size=N).round(2), "number"),
    "float32": (RNG.normal(size=N).round(2).astype(np.float32), "number"),
    "few fractions": (np.arange(N) % 2 / 2, "number"),
    "whole floats": (np.arange(N) % 5 * 1.0, "label"),
    "many whole floats": (np.arange(N) % 21 * 1.0, "number"),
    "integer": (np.arange(N) % 20, "label"),
    "many integers": (np.arange(N) % 21, "number"),
    "counts with a tail": (np.array([*range(9), 45, 50])[np.arange(N) % 11], "number"),
    "few with gaps": (np.arange(N) % 10 * 100, "label"),
    "int8": ((np.arange(N) % 50 - 25).astype(np.int8), "number"),
    "uint16": ((np.arange(N) % 50).astype(np.uint16), "number"),
    "dates": (pd.date_range("2024-01-01", periods=N), "date"),
    "hours": (pd.date_range("2024-01-01", periods=N, freq="7h"), "date"),
    "zoned": (pd.date_range("2024-01-01", periods=N, freq="h", tz="Europe/Berlin"), "date"),
    "python dates": ([datetime.date(2024, 1, 1 + i % 31) for i in range(N)], "date"),
    "python times": ([datetime.datetime(2024, 1, 1, i % 24, 30) for i in range(N)], "date"),
    "durations": (pd.to_timedelta(np.arange(N), unit="min"), "duration"),
    "constant": (np.full(N, 7), "label"),
    "constant float": (np.full(N, 2.5), "number"),
    "constant text": (np.full(N, "x"), "label"),
    "empty": (np.full(N, np.nan), "empty"),
    "empty object": (np.full(N, None, dtype=object), "empty"),
    "object numbers": (np.array([0.5, *range(N - 1)], dtype=object), "number"),
    "object integers": (np.array([i % 4 for i in range(N)], dtype=object), "label"),
}


def frame(*names, gaps=False):
    table = pd.DataFrame({name: COLUMNS[name][0] for name in names or COLUMNS})
    for name in table.columns if gaps else []:
        dtype = table[name].dtype
        if dtype.kind in "biu":
            nullable = {"bool": "boolean"}.get(str(dtype))
            nullable = nullable or str(dtype).replace("int", "Int").replace("uI", "UI")
            table[name] = table[name].astype(nullable)
        table.loc[[3, 17], name] = None
    return table


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds(name):
    report = describe_table(frame(name))
    (column,) = report.columns
    assert column.kind == COLUMNS[name][1]
    assert column.kind == report.domains[0].kind
    assert column.problem is None
    assert (column.step is None) == (report.domains[0].grid is None)
    assert column.n_states == report.domains[0].n_states
    assert column.constant == name.startswith("constant")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("gaps", [False, True])
def test_round_trip(name, gaps):
    table = frame(name, gaps=gaps)
    domains = learn_domains(table, numbers=True)
    domains = Domains.from_json(domains.to_json())
    codes, values = encode_table(table, domains, allow_missing=True)
    np.testing.assert_array_equal(codes == 255, table.isna())
    if domains[0].grid is None:
        assert values is None
    else:
        np.testing.assert_array_equal(np.isnan(values), table.isna())
        np.testing.assert_array_equal(codes, domains[0].grid.codes(values))
    back = decode(codes, domains, values=values, as_frame=True)
    if name == "object numbers":
        table = table.astype(float)
    pd.testing.assert_frame_equal(back, table)


def test_all_columns_together_and_in_another_order():
    table = frame()
    domains = learn_domains(table, numbers=True)
    codes, values = encode_table(table, domains, allow_missing=True)
    again, same = encode_table(table[table.columns[::-1]], domains, allow_missing=True)
    np.testing.assert_array_equal(codes, again)
    np.testing.assert_array_equal(values, same)
    back = decode(codes, domains, values=values, as_frame=True)
    assert list(back.columns) == list(table.columns)
    pd.testing.assert_frame_equal(
        back.drop(columns="object numbers"), table.drop(columns="object numbers")
    )
    np.testing.assert_array_equal(codes, encode(table, domains, allow_missing=True))


def test_numbers_without_values_are_modes_of_their_cells():
    table = frame("float", "int8", "dates", "text")
    domains = learn_domains(table, numbers=True)
    codes = encode(table, domains, allow_missing=False)
    back = decode(codes, domains, as_frame=True)
    assert list(back.dtypes) == list(table.dtypes)
    np.testing.assert_array_equal(encode(back, domains, allow_missing=False), codes)


def test_discrete_tables_are_as_before():
    names = ["text", "category", "bool", "whole floats", "integer", "constant", "constant text"]
    table = frame(*names)
    assert learn_domains(table, numbers=True) == learn_domains(table)
    array = np.array([[0, 3], [1, 30]])
    for X in (array, array.astype(float), array.astype(np.uint8), array.tolist()):
        assert learn_domains(X, numbers=True) == learn_domains(X)
        assert learn_domains(X, [4, 2], numbers=True) == learn_domains(X, [4, 2])
        codes, values = encode_table(X, learn_domains(X), allow_missing=True)
        assert values is None
        np.testing.assert_array_equal(codes, array)
    assert '"grid"' not in learn_domains(table, numbers=True).to_json()


def test_overruled():
    table = pd.DataFrame(
        {
            "zip": np.arange(30) + 10_000,
            "age": np.arange(30) % 4,
            "dose": np.arange(30) % 3 / 2,
            "text": [str(i / 4) for i in range(30)],
            "day": [f"2024-01-{i + 1:02}" for i in range(30)],
            "category": pd.Categorical(np.arange(30) % 7),
            "flag": np.arange(30) % 2 == 0,
        }
    )
    plain = [domain.kind for domain in learn_domains(table, numbers=True)]
    assert plain == ["number", "label", "number", "label", "label", "label", "label"]
    kinds = {
        "zip": "label",
        "age": "number",
        "dose": "label",
        "text": "number",
        "day": "date",
        5: "number",
        "flag": "number",
    }
    domains = learn_domains(table, columns=kinds)
    assert [domain.kind for domain in domains] == list(kinds.values())
    assert domains[0].n_states == 30
    assert domains[2].labels.tolist() == [0.0, 0.5, 1.0]
    assert domains[3].grid.step == 0.05
    codes, values = encode_table(table, domains, allow_missing=False)
    back = decode(codes, domains, values=values, as_frame=True)
    assert back["zip"].tolist() == table["zip"].tolist()
    assert back["dose"].tolist() == table["dose"].tolist()
    assert back["text"].tolist() == [i / 4 for i in range(30)]
    assert back["day"].dt.day.tolist() == list(range(1, 31))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"b": "label"}, "There is no column 'b'"),
        ({"a": "numeric"}, "'numeric': the kinds are label, number, date, duration"),
        ({"a": "label", 0: "label"}, "twice"),
        ({"a": "date"}, "no date"),
        ({"a": "number"}, "'x' in row 1, column 'a' is not a number.*columns={'a': 'label'}"),
    ],
)
def test_bad_overrules(columns, message):
    with pytest.raises(DataError, match=message):
        learn_domains(pd.DataFrame({"a": ["1", "x"]}), columns=columns)


@pytest.mark.parametrize("cell", ["nan", "1,5", "", "?", {}, [1]])
def test_text_that_is_no_number_is_named(cell):
    cells = np.array([1.5, 2.5, None], dtype=object)
    cells[1] = cell
    with pytest.raises(DataError, match="in row 1, column 'a' is not a number"):
        learn_domains(pd.DataFrame({"a": cells}), columns={"a": "number"})
    domains = learn_domains(pd.DataFrame({"a": [1.5, 2.5]}), numbers=True)
    with pytest.raises(DataError, match="in row 1, column 'a' is not a number"):
        encode(pd.DataFrame({"a": cells}), domains, allow_missing=True)
    with pytest.raises(DataError, match="in row 1, column 'a' is not a number"):
        encode(cells[:, None], domains, allow_missing=True)


def test_numbers_that_are_too_large():
    with pytest.raises(DataError, match=r"Column 'a': Values of 1e\+200 .* change the unit"):
        learn_domains(pd.DataFrame({"a": [1e200, 0.5]}), numbers=True)


def test_kinds_do_not_mix():
    times = pd.DataFrame({"a": pd.date_range("2024-01-01", periods=30)})
    with pytest.raises(DataError, match="kind date, not numbers"):
        learn_domains(times, columns={"a": "number"})
    with pytest.raises(DataError, match="kind date, not duration"):
        learn_domains(times, columns={"a": "duration"})
    numbers = learn_domains(frame("float"), numbers=True)
    for column in (["x"] * 2, pd.to_timedelta([1, 2], unit="D")):
        with pytest.raises(DataError, match="'float'"):
            encode(pd.DataFrame({"float": column}), numbers, allow_missing=True)


# Arrays.


def test_arrays_with_fractions():
    X = np.array([[0.5, 0, 1, -1], [1.5, 1, 30, 3], [np.nan, 2, 2, 0]])
    X = np.vstack([X, np.column_stack([np.full(30, 0.25), [1] * 30, np.arange(30), [0] * 30])])
    domains = learn_domains(X, numbers=True)
    assert [domain.kind for domain in domains] == ["number", "label", "number", "number"]
    assert domains[1].labels is None
    assert domains[1].n_states == 3
    codes, values = encode_table(X, domains, allow_missing=True)
    assert codes[2, 0] == 255
    assert np.isnan(values[:, 1]).all()
    np.testing.assert_array_equal(decode(codes, domains, values=values, as_frame=False), X)
    assert learn_domains(X.tolist(), numbers=True) == domains
    assert learn_domains(X.astype(object), numbers=True) == domains


def test_arrays_overruled():
    X = np.arange(40).reshape(20, 2) % 7
    domains = learn_domains(X, columns={0: "number"})
    assert [domain.kind for domain in domains] == ["number", "label"]
    codes, values = encode_table(X, domains, allow_missing=False)
    np.testing.assert_array_equal(decode(codes, domains, values=values, as_frame=False), X)
    with pytest.raises(DataError, match="needs a pandas DataFrame"):
        learn_domains(X, columns={0: "date"})


def test_a_table_of_numbers_keeps_its_memory():
    X = np.random.default_rng(0).normal(size=(50, 3))
    domains = learn_domains(X, numbers=True)
    _, values = encode_table(X, domains, allow_missing=False)
    assert np.shares_memory(values, X)


def test_frames_and_arrays_mix():
    table = frame("float", "int8", "integer")
    domains = learn_domains(table, numbers=True)
    codes, values = encode_table(table, domains, allow_missing=False)
    for X in (table.to_numpy(), table.to_numpy().tolist()):
        again, same = encode_table(X, domains, allow_missing=False)
        np.testing.assert_array_equal(again, codes)
        np.testing.assert_array_equal(same, values)


def test_wide_codes_and_numbers():
    table = pd.DataFrame({"a": [f"{i:03}" for i in range(300)], "b": np.arange(300) / 2})
    table.loc[5, "b"] = np.nan
    domains = learn_domains(table, numbers=True)
    codes, values = encode_table(table, domains, allow_missing=True)
    assert codes.dtype == np.uint16
    assert codes[5, 1] == 65535
    back = decode(codes, domains, values=values, as_frame=True)
    pd.testing.assert_frame_equal(back, table)


# Cells that cannot be.


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_cells_are_named(value):
    good = frame("float", "text")
    domains = learn_domains(good, numbers=True)
    bad = good.copy()
    bad.loc[4, "float"] = value
    with pytest.raises(DataError, match=f"Non-finite value {value} in row 4, column 'float'"):
        encode(bad, domains, allow_missing=True)
    with pytest.raises(DataError, match=f"Non-finite value {value} in row 4, column 'float'"):
        learn_domains(bad, numbers=True)
    X = np.array([[0.5, 1.5], [value, 2.5]])
    with pytest.raises(DataError, match=f"Non-finite value {value} in row 1, column 0"):
        learn_domains(X, numbers=True)


def test_numbers_outside_the_range_are_fine_and_unseen_labels_are_not():
    table = frame("float", "text")
    domains = learn_domains(table, numbers=True)
    far = table.copy()
    far.loc[0, "float"], far.loc[1, "float"] = 1e9, -1e9
    codes, values = encode_table(far, domains, allow_missing=False)
    assert codes[:2, 0].tolist() == [domains[0].n_states - 1, 0]
    assert values[0, 0] == 1e9
    far.loc[2, "text"] = "new"
    with pytest.raises(DataError, match="Unseen value 'new' in row 2, column 'text'"):
        encode(far, domains, allow_missing=True)
    codes = encode(far, domains, allow_missing=True, unseen="missing")
    assert codes[2, 1] == 255


def test_gaps_are_refused_where_none_may_be():
    table = frame("float", gaps=True)
    domains = learn_domains(table, numbers=True)
    with pytest.raises(DataError, match=r"Missing value \(NaN\) in row 3, column 'float'"):
        encode(table, domains, allow_missing=False)
    with pytest.raises(DataError, match=r"Missing value \(NaN\) in row 3, column 'float'"):
        encode(table.to_numpy(), domains, allow_missing=False)


def test_empty_columns_stay_empty():
    table = frame("empty", "text")
    domains = learn_domains(table, numbers=True)
    with pytest.raises(DataError, match="no value of this column was observed in training"):
        encode(table.assign(empty=1.0), domains, allow_missing=True)
    codes = encode(table.assign(empty=1.0), domains, allow_missing=True, unseen="missing")
    assert (codes[:, 0] == 255).all()
    # A model that fills the cell has only one state to fill in.
    filled = decode(np.zeros((N, 2), dtype=np.uint8), domains, as_frame=True)
    assert filled["empty"].isna().all()
    assert domains[0].label(0) is None
    with pytest.raises(DataError, match="No value of it was observed"):
        domains[0].code(1.0)


def test_declared_bounds_are_kept():
    grid = learn_grid([1.5, 2.5], bounds=(0, 10))
    (domain,) = learn_domains(np.array([[1.5], [2.5]]), numbers=True)
    bounded = Domains([type(domain)(None, grid.n_cells, grid=grid)])
    with pytest.raises(DataError, match=r"Value 11.0 in row 0, column 0 lies beyond the bounds"):
        encode([[11.0]], bounded, allow_missing=True)


def test_integers_from_tails_fit_their_dtype():
    table = frame("int8", "uint16")
    domains = learn_domains(table, numbers=True)
    codes, values = encode_table(table, domains, allow_missing=False)
    values = values.copy()
    values[0], values[1] = 1e30, -1e30
    back = decode(codes, domains, values=values, as_frame=True)
    assert back.iloc[0].tolist() == [127, 65535]
    assert back.iloc[1].tolist() == [-128, 0]
    columns = {"a": np.arange(30), "b": np.arange(30, dtype=np.uint64)}
    wide = learn_domains(pd.DataFrame(columns), numbers=True)
    far = np.array([[1e30, 1e30], [-1e30, -1e30]])
    back = decode(np.zeros((2, 2), dtype=np.uint8), wide, values=far, as_frame=True)
    assert (back.iloc[0] > 2**62).all()
    assert back["a"].iloc[1] == -(2**63)


def test_integers_with_gaps_become_nullable():
    domains = learn_domains(frame("many integers", "uint16"), numbers=True)
    values = np.array([[3.0, np.nan], [np.nan, 7.0]])
    back = decode(np.zeros((2, 2), dtype=np.uint8), domains, values=values, as_frame=True)
    assert list(map(str, back.dtypes)) == ["Int64", "UInt16"]
    assert back.isna().to_numpy().tolist() == [[False, True], [True, False]]
    assert back.iloc[0, 0] == 3


def test_arrays_of_dates_come_back_as_objects():
    domains = learn_domains(frame("dates", "float"), numbers=True)
    codes, values = encode_table(frame("dates", "float"), domains, allow_missing=False)
    back = decode(codes, domains, values=values, as_frame=False)
    assert back.dtype == object
    assert back[1, 0] == np.datetime64("2024-01-02")
    with pytest.raises(DataError, match="do not fit codes"):
        decode(codes, domains, values=values[:3], as_frame=False)


# The report.


def test_report_names_everything_at_once():
    table = frame("float", "text", "dates")
    table["complex"] = 1j
    table["dicts"] = [{}] * N
    table.loc[0, "float"] = np.inf
    report = describe_table(table)
    assert [column.kind for column in report.columns] == [
        "unusable",
        "label",
        "date",
        "unusable",
        "unusable",
    ]
    assert len(report.problems) == 3
    with pytest.raises(DataError, match=r"(?s)3 columns cannot be used.*'float'.*complex.*'dicts'"):
        _ = report.domains
    text = str(report)
    assert "problem: Non-finite value inf in row 0, column 'float'" in text
    assert "60 rows, 5 columns" in text


def test_warnings():
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(100)],
            "id": np.arange(100) * 3,
            "gain": np.where(np.arange(100) < 92, 0, np.arange(100) / 4),
            "gappy": np.where(np.arange(100) < 60, np.nan, np.arange(100) / 4),
            "question": ["?" if i == 3 else str(i % 40) for i in range(100)],
            "empty": np.nan,
            "fine": np.arange(100) % 40,
        }
    )
    found = {c.name: " ".join(c.warnings) for c in describe_table(table).columns}
    assert "100 different values in 100 rows" in found["name"]
    assert "100 different values in 100 rows" in found["id"]
    assert "0.0 is the value of 92% of its rows" in found["gain"]
    assert "60% of its cells are missing" in found["gappy"]
    assert "if '?' marks gaps" in found["question"]
    assert "no value was observed" in found["empty"]
    assert found["fine"] == ""
    assert "warning: gain: 0.0 is the value of 92% of its rows" in str(describe_table(table))


def test_report_is_a_table():
    table = frame("text", "float", "dates", "constant", "empty")
    lines = str(describe_table(table)).splitlines()
    assert lines[0].split() == ["column", "dtype", "kind", "values", "states", "gaps", "step"]
    by_name = {line.split()[0]: line.split() for line in lines[1:6]}
    assert by_name["dates"][2:] == ["date", "60", "60", "0", "1", "D"]
    assert by_name["constant"][2:] == ["constant", "1", "1", "0"]
    assert by_name["empty"][2:] == ["empty", "0", "1", "60"]
    assert by_name["float"][-1] == "0.01"


def test_weights_reach_the_grids():
    table = frame("float")
    weights = np.arange(N) % 3
    domains = learn_domains(table, numbers=True, sample_weight=weights)
    repeated = table.loc[table.index.repeat(weights)].reset_index(drop=True)
    assert domains == learn_domains(repeated, numbers=True)
    with pytest.raises(DataError, match="60 rows but weights of shape"):
        learn_domains(table, numbers=True, sample_weight=[1.0])


def test_hostile_domains():
    domains = learn_domains(frame("float", "dates", "empty"), numbers=True)
    text = domains.to_json()
    for old, new in [
        ('"unit": "D"', '"unit": "fortnight"'),
        ('"unit": "D"', '"unit": 3'),
        ('"empty": true', '"empty": "yes"'),
        ('"n_states": 1,', '"n_states": 2,'),
        ('"exact": true', '"exact": 1'),
        ('"grid": {', '"grid": {"more": 1, '),
        ('"labels": null', '"labels": ["a"]'),
    ]:
        assert old in text
        with pytest.raises(DataError):
            Domains.from_json(text.replace(old, new))


def test_domains_of_numbers():
    domains = learn_domains(frame("float", "dates", "durations", "many integers"), numbers=True)
    number, date, duration, integer = domains
    assert number.known_values().startswith("It holds values of kind number, 98% of them from -")
    assert "2024-01-01 to 2024-02-29" in date.known_values()
    ages = learn_domains(pd.DataFrame({"age": np.arange(18, 81).repeat(4)}), numbers=True)[0]
    assert ages.known_values().endswith("98% of them from 18 to 80.")
    assert date.code(datetime.date(2024, 1, 2)) == date.code("2024-01-02") == 1
    assert date.code(NOW) == date.find(np.datetime64("2024-02-28"))
    assert date.label(0) == datetime.date(2024, 1, 1)
    assert duration.code(datetime.timedelta(minutes=3)) == 3
    assert duration.label(3) == datetime.timedelta(minutes=3)
    assert isinstance(integer.label(3), int)
    assert integer.code(3) == integer.code(np.int8(3)) == 3
    for domain, bad in ((number, "x"), (number, np.inf), (date, 3), (duration, "x"), (number, {})):
        assert domain.find(bad) == -1
        with pytest.raises(DataError, match="is not among the states"):
            domain.code(bad)
    assert len({number, date, duration, integer, number}) == 4
