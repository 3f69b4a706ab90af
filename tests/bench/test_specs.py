from __future__ import annotations

import pytest
from tests.bench import tiny

from bayescut.bench import (
    BenchError,
    dataset_names,
    load_dataset,
    parse_learner,
    plan,
    split_specs,
)
from bayescut.datasets import DEBD_NAMES


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("CNetBD", "CNetBD"),
        (" CNetBD() ", "CNetBD"),
        ("CNetBD(n_candidates=None, ess=1)", "CNetBD(ess=1, n_candidates=None)"),
        ("CNetBD( 0.5 )", "CNetBD(0.5)"),
        ("a.b:C(x=[1, -2], y='t:u')", "a.b:C(x=[1, -2], y='t:u')"),
        ("a.b:Outer.Inner", "a.b:Outer.Inner"),
    ],
)
def test_a_learner_has_one_spelling(spec: str, canonical: str) -> None:
    assert parse_learner(spec).spec == canonical
    assert parse_learner(canonical).spec == canonical


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "CNetBD(",
        "CNetBD(ess=open('x'))",
        "CNetBD(ess=__import__('os').system('true'))",
        "CNetBD(**{})",
        "CNetBD + 1",
        "os.system",
        "a b:C",
        "[x for x in y]",
    ],
)
def test_nothing_but_literals_is_read(spec: str) -> None:
    with pytest.raises(BenchError):
        parse_learner(spec)


def test_unknown_learners_are_told_before_any_work() -> None:
    with pytest.raises(BenchError, match="Did you mean 'CNetBD'"):
        plan(["CNetBF"], ["dna"])
    with pytest.raises(BenchError, match="cannot be imported"):
        plan(["nowhere.at_all:Learner"], ["dna"])
    with pytest.raises(BenchError, match="no density estimator"):
        plan(["sklearn.linear_model:LinearRegression"], ["dna"])
    with pytest.raises(BenchError, match="It takes: ess"):
        plan(["CNetBD(nonsense=1)"], ["dna"])
    with pytest.raises(BenchError, match="protocol"):
        plan(["CNetBD"], ["dna"], protocol="test")
    with pytest.raises(BenchError, match="At least one"):
        plan([], ["dna"])


def test_seeds_belong_to_learners_that_draw() -> None:
    cells = plan(
        ["tests.bench.tiny:Uniform", "tests.bench.tiny:Uniform(random_state=7)", "CNetBD"],
        ["dna"],
        seeds=[0, 1],
    )
    assert [(learner, seed) for learner, _, seed, _ in cells] == [
        ("tests.bench.tiny:Uniform", 0),
        ("tests.bench.tiny:Uniform", 1),
        ("tests.bench.tiny:Uniform(random_state=7)", None),
        ("CNetBD", None),
    ]
    assert parse_learner("tests.bench.tiny:Uniform").build(5).random_state == 5
    assert parse_learner("tests.bench.tiny:Uniform(random_state=7)").build(5).random_state == 7


def test_other_estimators_work() -> None:
    model = parse_learner("sklearn.neighbors:KernelDensity(bandwidth=0.2)").build(seed=1)
    assert model.bandwidth == 0.2


def test_splitting_leaves_brackets_and_quotes_alone() -> None:
    assert split_specs("A(x=1, y='(,'), B ,C([1, 2])") == ["A(x=1, y='(,')", "B", "C([1, 2])"]


def test_dataset_names() -> None:
    assert dataset_names(["digits", "MNIST", "DNA", "dna"]) == [
        "binary_digits",
        "binarized_mnist",
        "dna",
    ]
    assert dataset_names(["debd"]) == list(DEBD_NAMES)
    with pytest.raises(BenchError, match="Did you mean 'nltcs'"):
        dataset_names(["nltc"])


def test_data_sets_from_elsewhere() -> None:
    name = dataset_names([f"{tiny.DATA}(n = 30)"])[0]
    assert name == f"{tiny.DATA}(n=30)"
    assert load_dataset(name).test.shape == (10, 3)
    with pytest.raises(BenchError, match="no part 'train'"):
        load_dataset("builtins:list")
