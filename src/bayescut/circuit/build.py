"""Circuits written by hand.

Small functions make nodes, :func:`circuit` lays them out as a :class:`~bayescut.circuit.Circuit`.
A node used twice is stored once. Probabilities are given as probabilities, not as logs.

Examples
--------
>>> from bayescut.circuit import build
>>> coin = build.categorical(1, [0.5, 0.5])
>>> node = build.decision(0, [0.7, 0.3], coin, build.categorical(1, [0.1, 0.9]))
>>> build.circuit(node, [2, 2]).n_parameters
3
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescut._typing import FloatArray
from bayescut.circuit._kinds import (
    CATEGORICAL,
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    PRODUCT,
    SUM,
)
from bayescut.circuit._model import ARRAYS, Circuit
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError

__all__ = [
    "Node",
    "categorical",
    "chow_liu",
    "circuit",
    "decision",
    "gaussian",
    "independent",
    "indicator",
    "junction",
    "mixture",
    "product",
    "weighted_sum",
]


@dataclass(frozen=True)
class Family:
    """A variable of a junction leaf, its parents, and log p(variable | parents)."""

    var: int
    parents: tuple[int, ...]
    log_table: FloatArray


@dataclass(frozen=True, eq=False)
class Node:
    """A node on its way into a circuit; made by the functions of this module."""

    kind: int
    var: int = -1
    state: int = -1
    children: tuple[Node, ...] = ()
    log_weight: FloatArray = field(default_factory=lambda: np.empty(0))
    param: FloatArray = field(default_factory=lambda: np.empty(0))
    families: tuple[Family, ...] = ()


def _log(probabilities: ArrayLike) -> FloatArray:
    array = np.array(probabilities, dtype=np.float64)
    if np.any(~(array >= 0)):
        raise CircuitError(f"Probabilities must not be negative or NaN: {array.tolist()}.")
    with np.errstate(divide="ignore"):
        return np.log(array)


def indicator(var: int, state: int) -> Node:
    """Input that is 1 if the variable has the state, else 0."""
    return Node(INDICATOR, var=var, state=state)


def categorical(var: int, probabilities: ArrayLike) -> Node:
    """Input p(X_var = k) = probabilities[k]."""
    return Node(CATEGORICAL, var=var, param=_log(probabilities))


def gaussian(var: int, mean: float, deviation: float) -> Node:
    """Normal density of a continuous variable."""
    return Node(GAUSSIAN, var=var, param=np.array([mean, deviation], dtype=np.float64))


def junction(families: Iterable[tuple[int, Sequence[int], ArrayLike]]) -> Node:
    """Thin junction tree: p(x) = Π p(x_v | parents of v).

    Parameters
    ----------
    families : iterable of (variable, parents, table)
        In an order where parents come first. ``table`` has one axis per parent and one for the
        variable, p(x_v | parents) in the last. The parents of a variable must lie together in one
        earlier family, which keeps the cost of a query linear in the sizes of the tables.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> exclusive_or = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> leaf = build.junction(
    ...     [(0, [], [0.5, 0.5]), (1, [0], [[0.5, 0.5], [0.5, 0.5]]), (2, [0, 1], exclusive_or)]
    ... )
    >>> build.circuit(leaf, [2, 2, 2]).n_parameters
    7
    """
    made = []
    for var, parents, table in families:
        logs = _log(table)
        if logs.ndim != len(parents) + 1:
            raise CircuitError(
                f"The table of variable {var} needs one axis for each of its {len(parents)} "
                f"parents and one for itself; it has {logs.ndim}."
            )
        made.append(Family(int(var), tuple(int(p) for p in parents), logs))
    return Node(JUNCTION, families=tuple(made))


def independent(probabilities: Sequence[ArrayLike], variables: Sequence[int] | None = None) -> Node:
    """Junction leaf of width 0: independent variables (default 0, 1, ...)."""
    names = range(len(probabilities)) if variables is None else variables
    return junction([(v, (), table) for v, table in zip(names, probabilities, strict=True)])


def chow_liu(
    parents: Sequence[int], tables: Sequence[ArrayLike], variables: Sequence[int] | None = None
) -> Node:
    """Junction leaf of width 1: a Chow–Liu tree or forest.

    Parameters
    ----------
    parents : sequence of int
        Position of each variable's parent in this very sequence, -1 for roots.
    tables : sequence of array
        p(x) of a root, shape (K,); p(x | parent), shape (K_parent, K), of the others.
    variables : sequence of int, optional
        Which variable stands at each position; default 0, 1, ...
    """
    m = len(parents)
    names = list(range(m)) if variables is None else [int(v) for v in variables]
    if not len(tables) == len(names) == m:
        raise CircuitError("parents, tables and variables must have the same length.")
    below: list[list[int]] = [[] for _ in range(m)]
    waiting: list[int] = []
    for position, parent in enumerate(parents):
        if not -1 <= parent < m:
            raise CircuitError(f"Position {position}: there is no position {parent}.")
        (waiting if parent < 0 else below[parent]).append(position)
    waiting.reverse()
    families = []
    while waiting:
        position = waiting.pop()
        parent = parents[position]
        names_of = () if parent < 0 else (names[parent],)
        families.append((names[position], names_of, tables[position]))
        waiting.extend(reversed(below[position]))
    if len(families) != m:
        raise CircuitError("The parents form a cycle.")
    return junction(families)


def product(*children: Node) -> Node:
    """Product of nodes with disjoint scopes."""
    return Node(PRODUCT, children=children, log_weight=np.zeros(len(children)))


def weighted_sum(weights: ArrayLike, *children: Node) -> Node:
    """Σ_k weights[k] · child_k."""
    return Node(SUM, children=children, log_weight=_edge_weights(weights, children))


def decision(var: int, weights: ArrayLike, *children: Node) -> Node:
    """Σ_k weights[k] · [X_var = k] · child_k, one child for each state of the variable."""
    return Node(DECISION, var=var, children=children, log_weight=_edge_weights(weights, children))


def _edge_weights(weights: ArrayLike, children: tuple[Node, ...]) -> FloatArray:
    logs = _log(weights)
    if logs.shape != (len(children),):
        raise CircuitError(f"{len(children)} children but weights of shape {logs.shape}.")
    return logs


def circuit(root: Node, domains: Domains | ArrayLike) -> Circuit:
    """Lay out a node and all below it as a circuit.

    Parameters
    ----------
    root : Node
        The root.
    domains : Domains or sequence of int
        The domains, or the number of states of each variable (0: continuous).
    """
    if not isinstance(domains, Domains):
        domains = Domains.of_sizes(domains)
    arrays = _Arrays()
    position: dict[int, int] = {}
    waiting = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if id(node) in position:
            continue
        if is_ready:
            position[id(node)] = len(arrays.kind)
            arrays.add(node, [position[id(child)] for child in node.children])
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
    return arrays.freeze(domains)


class _Arrays:
    """The arrays of a circuit while they grow."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.var: list[int] = []
        self.state: list[int] = []
        self.child_ptr: list[int] = [0]
        self.child: list[int] = []
        self.log_weight: list[float] = []
        self.param_ptr: list[int] = [0]
        self.param: list[float] = []
        self.fam_ptr: list[int] = [0]
        self.fam_var: list[int] = []
        self.fam_host: list[int] = []
        self.fam_parent_ptr: list[int] = [0]
        self.fam_parent: list[int] = []
        self.fam_table_ptr: list[int] = [0]
        self.fam_table: list[float] = []

    def add(self, node: Node, children: list[int]) -> None:
        self.kind.append(node.kind)
        self.var.append(node.var)
        self.state.append(node.state)
        self.child.extend(children)
        self.child_ptr.append(len(self.child))
        self.log_weight.extend(node.log_weight.tolist())
        self.param.extend(node.param.ravel().tolist())
        self.param_ptr.append(len(self.param))
        self._add_families(node)
        self.fam_ptr.append(len(self.fam_var))

    def _add_families(self, node: Node) -> None:
        family_of: dict[int, int] = {}
        scope_of: dict[int, set[int]] = {}
        for family in node.families:
            host = -1
            if family.parents:
                unknown = [p for p in family.parents if p not in family_of]
                if unknown:
                    raise CircuitError(
                        f"Variable {family.var}: its parent {unknown[0]} has no earlier family."
                    )
                # If any family holds all parents, that of the parent listed last does.
                host = max(family_of[p] for p in family.parents)
                if not scope_of[host].issuperset(family.parents):
                    raise CircuitError(
                        f"The parents {list(family.parents)} of variable {family.var} "
                        "do not lie together in one earlier family."
                    )
            position = len(self.fam_var)
            family_of[family.var] = position
            scope_of[position] = {family.var, *family.parents}
            self.fam_var.append(family.var)
            self.fam_host.append(host)
            self.fam_parent.extend(family.parents)
            self.fam_parent_ptr.append(len(self.fam_parent))
            self.fam_table.extend(family.log_table.ravel().tolist())
            self.fam_table_ptr.append(len(self.fam_table))

    def freeze(self, domains: Domains) -> Circuit:
        arrays: dict[str, Any] = {
            name: np.array(getattr(self, name), dtype=dtype) for name, dtype in ARRAYS.items()
        }
        return Circuit(domains=domains, **arrays)


def mixture(weights: ArrayLike, circuits: Sequence[Circuit]) -> Circuit:
    """Σ_k weights[k] · circuit_k as one circuit; mixtures of mixtures become one flat sum.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> coins = [build.circuit(build.categorical(0, [p, 1 - p]), [2]) for p in (0.1, 0.5)]
    >>> both = build.mixture([0.5, 0.5], coins)
    >>> build.mixture([0.2, 0.8], [coins[0], both])
    Circuit(1 variables, 4 nodes, 5 parameters, depth 1: 1 sum, 3 categorical)
    """
    log_weights = _log(weights)
    if not circuits:
        raise CircuitError("A mixture needs at least one circuit.")
    if log_weights.shape != (len(circuits),):
        raise CircuitError(f"{len(circuits)} circuits but weights of shape {log_weights.shape}.")
    for k, member in enumerate(circuits):
        if member.domains != circuits[0].domains:
            raise CircuitError(f"Circuit {k} has other domains than circuit 0.")
    parts: dict[str, list[Any]] = {name: [] for name in ARRAYS}
    roots: list[Any] = []
    root_weights: list[Any] = []
    n_nodes = n_families = 0
    for log_weight, member in zip(log_weights, circuits, strict=True):
        arrays = dict(member.arrays())
        size = member.n_nodes
        if member.kind[-1] == SUM:
            # The member's root is not taken along: its children hang on the new root.
            begin = int(member.child_ptr[-2])
            roots.append(member.child[begin:] + n_nodes)
            root_weights.append(member.log_weight[begin:] + log_weight)
            size -= 1
            for name in ("kind", "var", "state", "child_ptr", "param_ptr", "fam_ptr"):
                arrays[name] = arrays[name][:-1]
            for name in ("child", "log_weight"):
                arrays[name] = arrays[name][:begin]
        else:
            roots.append(np.array([n_nodes + size - 1]))
            root_weights.append(np.array([log_weight]))
        arrays["child"] = arrays["child"] + np.int32(n_nodes)
        host = arrays["fam_host"]
        arrays["fam_host"] = np.where(host < 0, host, host + np.int32(n_families))
        for name, array in arrays.items():
            parts[name].append(np.diff(array) if name.endswith("_ptr") else array)
        n_nodes += size
        n_families += len(member.fam_var)
    new_children = np.concatenate(roots)
    one = {"kind": [SUM], "var": [-1], "state": [-1], "child": new_children}
    one |= {"log_weight": np.concatenate(root_weights), "child_ptr": [len(new_children)]}
    one |= {"param_ptr": [0], "fam_ptr": [0]}
    for name, last in one.items():
        parts[name].append(np.asarray(last))
    joined: dict[str, Any] = {}
    for name, dtype in ARRAYS.items():
        array = np.concatenate(parts[name]).astype(dtype)
        if name.endswith("_ptr"):
            array = np.concatenate([np.zeros(1, dtype=dtype), np.cumsum(array, dtype=dtype)])
        joined[name] = array
    return Circuit(domains=circuits[0].domains, **joined)
