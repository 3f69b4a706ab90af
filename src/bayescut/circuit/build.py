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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._join import Joining
from bayescut.circuit._kinds import (
    CATEGORICAL,
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    NORMAL,
    PRODUCT,
    STUDENT,
    SUM,
)
from bayescut.circuit._model import ARRAYS, Circuit
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError

__all__ = [
    "Node",
    "View",
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
    "student",
    "weighted_sum",
]


@dataclass(frozen=True)
class View:
    """How a leaf sees the states of a variable.

    Parameters
    ----------
    local : sequence of int
        For each state the state it looks like: 0, 1, ..., or -1 if it is impossible there.
    share : sequence of float, optional
        Probability of each state among those that look the same. Default: they are equally likely.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> size = build.categorical(0, [0.3, 0.7], view=build.View([0, 1, 1]))
    >>> build.circuit(size, [3]).log_likelihood([[2]]).round(4)
    array([-1.0498])
    """

    local: Sequence[int]
    share: Sequence[float] | None = None

    def arrays(self) -> tuple[IntArray, FloatArray]:
        """The states and the logs of the shares."""
        local = np.array(self.local, dtype=np.int32)
        if self.share is None:
            seen = np.maximum(local, 0)
            counts = np.bincount(seen[local >= 0], minlength=seen.max(initial=0) + 1)
            return local, np.where(local < 0, 0.0, -np.log(np.maximum(counts, 1)[seen]))
        logs = np.where(local < 0, 0.0, _log(np.where(local < 0, 1.0, self.share)))
        return local, logs


@dataclass(frozen=True)
class Family:
    """A variable of a junction leaf, its parents, and log p(variable | parents)."""

    var: int
    parents: tuple[int, ...]
    log_table: FloatArray
    view: View | None = None
    parent_views: tuple[View | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Node:
    """A node on its way into a circuit; made by the functions of this module."""

    kind: int
    var: int = -1
    state: int = -1
    children: tuple[Node, ...] = ()
    log_weight: FloatArray = field(default_factory=lambda: np.empty(0))
    branches: tuple[tuple[int, ...], ...] | None = None
    param: FloatArray = field(default_factory=lambda: np.empty(0))
    families: tuple[Family, ...] = ()
    view: View | None = None


def _log(probabilities: ArrayLike) -> FloatArray:
    array = np.array(probabilities, dtype=np.float64)
    if np.any(~(array >= 0)):
        raise CircuitError(f"Probabilities must not be negative or NaN: {array.tolist()}.")
    with np.errstate(divide="ignore"):
        return np.log(array)


def indicator(var: int, state: int) -> Node:
    """Input that is 1 if the variable has the state, else 0."""
    return Node(INDICATOR, var=var, state=state)


def categorical(var: int, probabilities: ArrayLike, view: View | None = None) -> Node:
    """Input p(X_var = k) = probabilities[k], for the states that a view shows if there is one."""
    return Node(CATEGORICAL, var=var, param=_log(probabilities), view=view)


def gaussian(var: int, mean: float, deviation: float) -> Node:
    """Normal density of a continuous variable."""
    return Node(GAUSSIAN, var=var, param=np.array([mean, deviation], dtype=np.float64))


def student(var: int, location: float, scale: float, freedom: float) -> Node:
    """Student-t density of a continuous variable, with so many degrees of freedom."""
    return Node(STUDENT, var=var, param=np.array([location, scale, freedom], dtype=np.float64))


def normal(
    variables: Sequence[int], mean: ArrayLike, coefficients: ArrayLike, deviation: ArrayLike
) -> Node:
    r"""Jointly Gaussian numbers, each regressed on those before it.

    .. math:: x_i = \mu_i + \sum_{j < i} b_{ij} (x_j - \mu_j) + \sigma_i \epsilon_i

    Parameters
    ----------
    variables : sequence of int
        Variables whose domains have a grid (`bayescut.data.Grid`).
    mean, deviation : array-like of shape (m,)
        Means, and standard deviations given the variables before.
    coefficients : array-like of shape (m, m)
        Entry (i, j), j < i, is that of variable j in the regression of variable i; others are not
        looked at.

    Examples
    --------
    >>> from bayescut.circuit import Evidence, build
    >>> from bayescut.data import Domain, Domains, learn_grid
    >>> grids = [learn_grid(range(50)), learn_grid(range(50))]
    >>> domains = Domains(Domain(None, grid.n_cells, grid=grid) for grid in grids)
    >>> leaf = build.normal([0, 1], [25, 25], [[0, 0], [0.9, 0]], [5, 2])
    >>> circuit = build.circuit(leaf, domains)
    >>> known = Evidence([[-1, 30]], values=[[float("nan"), 30]])
    >>> print((circuit.marginals(known)[0, :50] @ grids[0].mean).round(1))
    29.6
    """
    m = len(variables)
    lines = np.asarray(coefficients, dtype=np.float64).reshape(m, m)
    own = np.asarray(deviation, dtype=np.float64)
    parts = [np.asarray(mean, dtype=np.float64)]
    parts += [np.append(lines[i, :i], own[i]) for i in range(m)]
    families = tuple(Family(int(v), (), np.zeros(1)) for v in variables)
    return Node(NORMAL, param=np.concatenate(parts), families=families)


def junction(
    families: Iterable[tuple[int, Sequence[int], ArrayLike]],
    views: Mapping[int, View] | None = None,
    parent_views: Mapping[tuple[int, int], View] | None = None,
) -> Node:
    """Thin junction tree: p(x) = Π p(x_v | parents of v).

    Parameters
    ----------
    families : iterable of (variable, parents, table)
        In an order where parents come first. ``table`` has one axis per parent and one for the
        variable, p(x_v | parents) in the last. The parents of a variable must lie together in one
        earlier family, which keeps the cost of a query linear in the sizes of the tables.
    views : mapping from variable to View, optional
        How families see their own variables.
    parent_views : mapping from (variable, parent) to View, optional
        How a family sees a parent: states that look the same share a row of its table. Never finer
        than the family that holds its parents sees it.

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
        among = tuple((parent_views or {}).get((var, p)) for p in parents)
        own = (views or {}).get(var)
        made.append(Family(int(var), tuple(int(p) for p in parents), logs, own, among))
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


def decision(
    var: int,
    weights: ArrayLike,
    *children: Node,
    branches: Sequence[Iterable[int]] | None = None,
) -> Node:
    """Σ_k weights[k] · [X_var ∈ branches[k]] · child_k.

    By default there is one child for each state of the variable. A child for a single state does
    not mention the variable; a child for several states does, and leaves it no other state.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> small = build.categorical(0, [0.5, 0.5], view=build.View([0, 1, -1]))
    >>> low = build.product(small, build.categorical(1, [0.9, 0.1]))
    >>> high = build.categorical(1, [0.2, 0.8])
    >>> node = build.decision(0, [0.6, 0.4], low, high, branches=[{0, 1}, {2}])
    >>> build.circuit(node, [3, 2]).log_likelihood([[1, 0], [2, 0]]).round(4)
    array([-1.3093, -2.5257])
    """
    sets = None
    if branches is not None:
        sets = tuple(tuple(sorted({int(s) for s in states})) for states in branches)
        if len(sets) != len(children):
            raise CircuitError(f"{len(children)} children but {len(sets)} branches.")
    return Node(
        DECISION,
        var=var,
        children=children,
        log_weight=_edge_weights(weights, children),
        branches=sets,
    )


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
    arrays = _Arrays(domains)
    position: dict[int, int] = {}
    waiting = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if id(node) in position:
            continue
        if is_ready:
            position[id(node)] = len(arrays.lists["kind"])
            arrays.add(node, [position[id(child)] for child in node.children])
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
    return arrays.freeze()


class _Arrays:
    """The arrays of a circuit while they grow."""

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        self.lists: dict[str, list[Any]] = {
            name: [0] if name.endswith("_ptr") else [] for name in ARRAYS
        }
        self.views: dict[tuple[bytes, bytes], int] = {}

    def add(self, node: Node, children: list[int]) -> None:
        lists = self.lists
        lists["kind"].append(node.kind)
        lists["var"].append(node.var)
        lists["state"].append(node.state)
        lists["child"].extend(children)
        lists["child_ptr"].append(len(lists["child"]))
        lists["log_weight"].extend(node.log_weight.tolist())
        self._add_branches(node)
        self._check_shape(node.var, node.param, node.kind, node.view)
        lists["view"].append(self._view(node.view))
        lists["param"].extend(node.param.ravel().tolist())
        lists["param_ptr"].append(len(lists["param"]))
        self._add_families(self._blind(node))
        lists["fam_ptr"].append(len(lists["fam_var"]))

    def _add_branches(self, node: Node) -> None:
        sets: Sequence[Sequence[int]] = [()] * len(node.children)
        if node.kind == DECISION:
            sets = node.branches or [(k,) for k in range(len(node.children))]
            known = 0 <= node.var < len(self.domains)
            if node.branches is None and known:
                n_states = int(self.domains.n_states[node.var])
                if len(node.children) != n_states:
                    raise CircuitError(
                        f"A decision on variable {node.var} has exactly one edge for each of its "
                        f"{n_states} states, or says which states its edges stand for; "
                        f"it has {len(node.children)}."
                    )
        for states in sets:
            self.lists["branch_state"].extend(states)
            self.lists["branch_ptr"].append(len(self.lists["branch_state"]))

    def _blind(self, node: Node) -> Node:
        """The families of a normal leaf see all cells of a variable as one."""
        if node.kind != NORMAL:
            return node
        sizes = self.domains.n_states
        families = tuple(
            replace(family, view=View([0] * int(sizes[family.var])))
            if 0 <= family.var < len(sizes) else family
            for family in node.families
        )  # fmt: skip
        return replace(node, families=families)

    def _view(self, view: View | None) -> int:
        if view is None:
            return -1
        local, share = view.arrays()
        key = (local.tobytes(), share.tobytes())
        if key not in self.views:
            self.views[key] = len(self.views)
            self.lists["view_local"].extend(local.tolist())
            self.lists["view_share"].extend(share.tolist())
            self.lists["view_ptr"].append(len(self.lists["view_local"]))
        return self.views[key]

    def _n_states(self, var: int, view: View | None) -> int | None:
        """States of a variable as a view shows them; None if there is no such variable."""
        if view is not None:
            return int(max(view.local, default=-1)) + 1
        return int(self.domains.n_states[var]) if 0 <= var < len(self.domains) else None

    def _check_shape(self, var: int, param: FloatArray, kind: int, view: View | None) -> None:
        expected = self._n_states(var, view) if kind == CATEGORICAL else None
        if expected is not None and param.shape != (expected,):
            raise CircuitError(
                f"The probabilities of variable {var} must have the shape ({expected},), one for "
                f"each state, not {param.shape}."
            )

    def _add_families(self, node: Node) -> None:
        lists = self.lists
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
            seen = family.parent_views or (None,) * len(family.parents)
            shape = [self._n_states(p, v) for p, v in zip(family.parents, seen, strict=True)]
            shape.append(self._n_states(family.var, family.view))
            if None not in shape and family.log_table.shape != tuple(shape):
                raise CircuitError(
                    f"The table of variable {family.var} must have the shape {tuple(shape)}, the "
                    f"states of its parents and its own, not {family.log_table.shape}."
                )
            position = len(lists["fam_var"])
            family_of[family.var] = position
            scope_of[position] = {family.var, *family.parents}
            lists["fam_var"].append(family.var)
            lists["fam_view"].append(self._view(family.view))
            lists["fam_host"].append(host)
            lists["fam_parent"].extend(family.parents)
            lists["fam_parent_view"].extend(self._view(view) for view in seen)
            lists["fam_parent_ptr"].append(len(lists["fam_parent"]))
            lists["fam_table"].extend(family.log_table.ravel().tolist())
            lists["fam_table_ptr"].append(len(lists["fam_table"]))

    def freeze(self) -> Circuit:
        arrays: dict[str, Any] = {
            name: np.array(self.lists[name], dtype=dtype) for name, dtype in ARRAYS.items()
        }
        return Circuit(domains=self.domains, **arrays)


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
    whole = Joining()
    roots: list[Any] = []
    root_weights: list[Any] = []
    for log_weight, member in zip(log_weights, circuits, strict=True):
        before = whole.n_nodes
        if member.kind[-1] == SUM:
            # The member's root is not taken along: its children hang on the new root.
            begin = int(member.child_ptr[-2])
            roots.append(member.child[begin:] + before)
            root_weights.append(member.log_weight[begin:] + log_weight)
            whole.add_circuit(member, root=False)
        else:
            roots.append(np.array([whole.add_circuit(member) - 1]))
            root_weights.append(np.array([log_weight]))
    whole.add_node(SUM, np.concatenate(roots), np.concatenate(root_weights))
    return whole.circuit(circuits[0].domains)
