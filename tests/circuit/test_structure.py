"""Construction, validation and structural properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError, PropertyError

half = [0.5, 0.5]


def small() -> Circuit:
    """A decision over a leaf of width 2 and a product of a categorical and a tree."""
    left = build.junction(
        [(1, [], half), (2, [1], [half, half]), (3, [1, 2], [[half, half], [half, half]])]
    )
    right = build.product(
        build.categorical(1, half), build.chow_liu([-1, 0], [half, [half, half]], [2, 3])
    )
    return build.circuit(build.decision(0, half, left, right), [2] * 4)


def change(**changes: Any) -> Circuit:
    """Return the small circuit with some of its arrays replaced."""
    circuit = small()
    return Circuit(**{"domains": circuit.domains, **circuit.arrays(), **changes})


def with_entry(name: str, index: int, value: Any) -> dict[str, Any]:
    array = getattr(small(), name).copy()
    array[index] = value
    return {name: array}


def test_what_a_circuit_says_about_itself() -> None:
    circuit = small()
    assert repr(circuit) == (
        "Circuit(4 variables, 5 nodes, 12 parameters, depth 2: "
        "1 decision, 1 product, 1 categorical, 2 junction)"
    )
    # 1 for the cut, 1 + 2 + 4 for the leaf of width 2, 1 for the categorical, 3 for the tree.
    assert circuit.n_parameters == 1 + 7 + 1 + 3
    assert circuit.scope == (0, 1, 2, 3)
    assert circuit.kind.tolist() == [5, 4, 5, 2, 1]


def test_the_size_of_a_cutset_network_is_that_of_the_literature() -> None:
    m = 7
    leaf = build.chow_liu([-1] + [0] * (m - 2), [half] + [[half, half]] * (m - 2), range(1, m))
    circuit = build.circuit(build.decision(0, half, leaf, leaf), [2] * m)
    assert circuit.n_nodes == 2  # the leaf is shared
    other = build.chow_liu([-1] + [0] * (m - 2), [half] + [[half, half]] * (m - 2), range(1, m))
    circuit = build.circuit(build.decision(0, half, leaf, other), [2] * m)
    assert circuit.n_parameters == 1 + 2 * (2 * (m - 1) - 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (with_entry("kind", 1, 9), "Node 1 .*no such kind"),
        (with_entry("var", 1, 4), "Node 1 .*categorical.*variable must be one of"),
        (with_entry("var", 3, 0), "Node 3 .*no variable of its own"),
        (with_entry("state", 0, 0), "Node 0 .*only an indicator"),
        (with_entry("child", 0, 4), "Node 3 .*child must come before"),
        (with_entry("child", 0, -1), "Node 3 .*child must come before"),
        (with_entry("child", 0, 2), "Node 1 .*nothing leads to it"),
        (with_entry("log_weight", 0, -1.0), "Node 3 .*product edges"),
        (with_entry("log_weight", 2, -1.0), "Node 4 .*summing to 1"),
        (with_entry("log_weight", 2, np.nan), "Node 4 .*summing to 1"),
        (with_entry("log_weight", 2, np.inf), "Node 4 .*summing to 1"),
        (with_entry("param", 0, 0.0), "Node 1 .*probabilities must sum to 1"),
        (with_entry("child_ptr", 4, 3), "Node 3 .*|Node 4 .*"),
        (with_entry("child_ptr", 0, 1), "child_ptr must rise"),
        (with_entry("param_ptr", 1, 1), "Node 0 .*wrong number of parameters"),
        (with_entry("fam_ptr", 2, 4), "Node 1 .*only a junction"),
        (with_entry("fam_var", 1, 7), "Node 0 .*family 1: its variable is out of range"),
        (with_entry("fam_var", 1, 1), "Node 0 .*family 1: its variable already"),
        (with_entry("fam_host", 0, 0), "Node 0 .*family 0: its host"),
        (with_entry("fam_host", 2, 2), "Node 0 .*family 2: its host"),
        (with_entry("fam_host", 4, 1), "Node 2 .*family 1: its host"),
        (with_entry("fam_host", 2, 0), "Node 0 .*family 2: a parent is not in"),
        (with_entry("fam_parent", 1, 2), "Node 0 .*family 2: a parent is listed twice"),
        (with_entry("fam_table", 3, 0.0), "Node 0 .*family 1: its table must hold prob"),
        (with_entry("fam_table_ptr", 1, 3), "Node 0 .*family 0: its table must have one cell"),
        ({"var": np.zeros(3, dtype=np.int32)}, "var has 3 entries, expected 5"),
        ({"kind": np.zeros(0, dtype=np.uint8)}, "at least one node"),
        ({"kind": np.zeros((5, 1), dtype=np.uint8)}, "one-dimensional"),
        ({"child": np.zeros(4)}, "child must hold integers"),
        ({"child": np.full(4, 2**40)}, "does not fit int32"),
        ({"domains": Domains.binary(5)}, "Variable 4 .*occurs nowhere"),
        (with_entry("branch_state", 1, 2), "Node 4 .*state out of range"),
        (with_entry("branch_state", 1, 0), "Node 4 .*two of its edges"),
        (with_entry("branch_ptr", 3, 0), "Node 4 .*only the edges of a decision have states"),
        (with_entry("branch_ptr", 1, 1), "branch_ptr must rise"),
        (with_entry("branch_ptr", -1, 1), "branch_ptr must rise"),
        (with_entry("view", 1, 0), "view names a view that does not exist"),
        (with_entry("fam_view", 1, -2), "fam_view names a view that does not exist"),
        ({"view_ptr": np.zeros(0, dtype=np.int64)}, "view_ptr must rise"),
        ({"view_share": np.zeros(1)}, "view_share has 1 entries, expected 0"),
        ({"domains": Domains.of_sizes([2, 0, 2, 2])}, "Node 1 .*must not be continuous"),
        ({"domains": [2, 2, 2, 2]}, "domains must be Domains"),
    ],
)
def test_malformed_arrays_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        change(**changes)


def test_builders_refuse_nonsense() -> None:
    with pytest.raises(CircuitError, match="2 children but weights"):
        build.weighted_sum([1.0], build.indicator(0, 0), build.indicator(0, 1))
    with pytest.raises(CircuitError, match="negative"):
        build.categorical(0, [1.5, -0.5])
    with pytest.raises(CircuitError, match="one axis"):
        build.junction([(0, [], [half, half])])
    with pytest.raises(CircuitError, match="cycle"):
        build.chow_liu([1, 0], [[half, half], [half, half]])
    with pytest.raises(CircuitError, match="no position 5"):
        build.chow_liu([-1, 5], [half, [half, half]])
    with pytest.raises(CircuitError, match="do not lie together"):
        cube = np.full((2, 2, 2), 0.5)
        build.circuit(build.junction([(0, [], half), (1, [], half), (2, [0, 1], cube)]), [2] * 3)
    with pytest.raises(CircuitError, match="parent 1 has no earlier family"):
        build.circuit(build.junction([(0, [1], [half, half]), (1, [], half)]), [2, 2])
    with pytest.raises(CircuitError, match="positive"):
        build.circuit(build.gaussian(0, 0.0, 0.0), [0])
    with pytest.raises(CircuitError, match="must be continuous"):
        build.circuit(build.gaussian(0, 0.0, 1.0), [2])
    with pytest.raises(CircuitError, match="not a state"):
        build.circuit(build.indicator(0, 2), [2])


def properties(node: build.Node, n_states: list[int]) -> tuple[bool, bool, bool, bool]:
    found = build.circuit(node, n_states).properties
    return (
        found.smooth,
        found.decomposable,
        found.deterministic,
        found.structured_decomposable,
    )


def test_good_circuits_have_all_properties() -> None:
    circuit = small()
    assert circuit.properties.smooth
    assert circuit.properties.decomposable
    assert circuit.properties.deterministic
    assert circuit.properties.not_smooth_at is None


def test_not_smooth() -> None:
    node = build.weighted_sum(half, build.categorical(0, half), build.categorical(1, half))
    circuit = build.circuit(node, [2, 2])
    assert not circuit.properties.smooth
    assert circuit.properties.not_smooth_at == 2
    for query in (circuit.log_likelihood, circuit.marginals, circuit.mpe, circuit.flows):
        with pytest.raises(PropertyError, match=r"smooth; node 2 \(sum\)"):
            query([[0, 0]])


def test_not_decomposable() -> None:
    node = build.product(build.categorical(0, half), build.categorical(0, half))
    circuit = build.circuit(node, [2])
    assert circuit.properties.not_decomposable_at == 2
    assert not circuit.properties.structured_decomposable
    with pytest.raises(PropertyError, match=r"decomposable; node 2 \(product\)"):
        circuit.sample(1)
    leaf = build.independent([half, half])
    circuit = build.circuit(build.decision(0, half, leaf, leaf), [2, 2])
    assert circuit.properties.not_decomposable_at == 1


def test_determinism_is_a_matter_of_structure() -> None:
    a, b = build.categorical(0, [1.0, 0.0]), build.categorical(0, [0.0, 1.0])
    node = build.weighted_sum(half, a, b)
    # Zeros are learned or set, they are not structure.
    assert properties(node, [2]) == (True, True, False, True)
    with pytest.raises(PropertyError, match="deterministic; node 2"):
        build.circuit(node, [2]).entropy()
    assert properties(
        build.weighted_sum(half, build.indicator(0, 0), build.indicator(0, 1)), [2]
    ) == (True, True, True, True)

    # Told apart pairwise, but by no single variable.
    def world(x: int, y: int, z: int) -> build.Node:
        return build.product(build.indicator(0, x), build.indicator(1, y), build.indicator(2, z))

    pairwise = build.weighted_sum([0.2, 0.3, 0.5], world(0, 0, 1), world(1, 0, 1), world(1, 1, 0))
    assert properties(pairwise, [2, 2, 2])[2]
    overlapping = build.weighted_sum(
        [0.2, 0.3, 0.5], world(0, 0, 1), world(1, 0, 1), world(0, 0, 1)
    )
    assert not properties(overlapping, [2, 2, 2])[2]
    # Sums and decisions pass on what all their children exclude.
    low = build.weighted_sum(half, build.indicator(0, 0), build.indicator(0, 1))
    assert properties(build.weighted_sum(half, low, build.indicator(0, 2)), [3])[2]
    assert not properties(build.weighted_sum(half, low, build.indicator(0, 1)), [3])[2]


def test_structured_decomposability() -> None:
    def cut(v: int, rest: build.Node, other: build.Node) -> build.Node:
        return build.decision(v, half, rest, other)

    chain = build.chow_liu([-1, 0], [half, [half, half]], [1, 2])
    back = build.chow_liu([-1, 0], [half, [half, half]], [2, 1])
    assert properties(cut(0, chain, back), [2] * 3)[3]  # two variables split in one way only
    wide = [[half, half]] * 2
    first = build.chow_liu([-1, 0, 1], [half, *wide], [1, 2, 3])
    second = build.chow_liu([-1, 0, 1], [half, *wide], [2, 1, 3])
    assert not properties(cut(0, first, second), [2] * 4)[3]
    assert properties(cut(0, first, first), [2] * 4)[3]
    split = build.product(
        build.categorical(1, half), build.chow_liu([-1, 0], [half, [half, half]], [2, 3])
    )
    assert properties(cut(0, first, split), [2] * 4)[3]
    circuit = build.circuit(cut(0, first, second), [2] * 4)
    assert circuit.properties.not_structured_decomposable_at == 1


def test_drawing() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    nodes = [small(), small().expand()]
    nodes.append(build.circuit(build.gaussian(0, 1.0, 2.0), [0]))
    nodes.append(build.mixture(half, [small(), small()]))
    for circuit in nodes:
        ax = circuit.draw()
        assert len(ax.texts) >= 1
        plt.close(ax.figure)
    texts = {text.get_text() for text in small().draw(max_leaf_variables=2).texts}
    assert {"cut on 0", "0 (0.5)", "1 (0.5)"} <= texts
    assert any(text.endswith("over 3 variables") for text in texts)
    plt.close("all")
    with pytest.raises(ValueError, match="theme must be"):
        small().draw(theme="blue")
