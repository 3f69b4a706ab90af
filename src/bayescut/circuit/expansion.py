"""Decisions and junction leaves as plain sums, products and inputs: the same function."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as assignments
from typing import TYPE_CHECKING

from bayescut.circuit import build
from bayescut.circuit._kinds import CATEGORICAL, DECISION, GAUSSIAN, INDICATOR, PRODUCT, SUM

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


def expand(circuit: Circuit) -> Circuit:
    """Return an equal circuit of sums, products, indicators, categorical and Gaussian inputs.

    A decision becomes a sum over products of an indicator and a child. A junction leaf becomes one
    sum for each family and assignment of its parents, shared by all that refer to it: the circuit
    has as many parameters as before and as many edges, up to a factor, as the tables have cells.

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> leaf = build.chow_liu([-1, 0], [[0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]])
    >>> build.circuit(leaf, [2, 2]).expand()
    Circuit(2 variables, 7 nodes, 3 parameters, depth 2:
    1 sum, 2 product, 2 indicator, 2 categorical)
    """
    indicators: dict[tuple[int, int], build.Node] = {}

    def indicator(var: int, state: int) -> build.Node:
        key = (var, state)
        if key not in indicators:
            indicators[key] = build.indicator(var, state)
        return indicators[key]

    made: list[build.Node] = []
    for node in range(circuit.n_nodes):
        kind, var = int(circuit.kind[node]), int(circuit.var[node])
        begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        children = tuple(made[c] for c in circuit.child[begin:end].tolist())
        log_weight = circuit.log_weight[begin:end]
        if kind in (CATEGORICAL, GAUSSIAN):
            param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
            made.append(build.Node(kind, var=var, param=param))
        elif kind == INDICATOR:
            made.append(indicator(var, int(circuit.state[node])))
        elif kind == DECISION:
            branches = tuple(
                build.product(indicator(var, k), child) for k, child in enumerate(children)
            )
            made.append(build.Node(SUM, children=branches, log_weight=log_weight))
        elif kind in (SUM, PRODUCT):
            made.append(build.Node(kind, children=children, log_weight=log_weight))
        else:
            made.append(_expand_leaf(circuit, node, indicator))
    return build.circuit(made[-1], circuit.domains)


def _expand_leaf(
    circuit: Circuit, node: int, indicator: Callable[[int, int], build.Node]
) -> build.Node:
    first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
    n_states = circuit.domains.n_states
    parents = {
        f: circuit.fam_parent[circuit.fam_parent_ptr[f] : circuit.fam_parent_ptr[f + 1]].tolist()
        for f in range(first, last)
    }
    hosted: dict[int, list[int]] = {f: [] for f in range(-1, last)}
    for f in range(first, last):
        hosted[int(circuit.fam_host[f])].append(f)
    sums: dict[tuple[int, tuple[int, ...]], build.Node] = {}
    for f in range(last - 1, first - 1, -1):
        v = int(circuit.fam_var[f])
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        rows = table.reshape(-1, n_states[v])
        given = assignments(*(range(n_states[p]) for p in parents[f]))
        for row, assignment in zip(rows, given, strict=True):
            known = dict(zip(parents[f], assignment, strict=True))
            if not hosted[f]:
                sums[f, assignment] = build.Node(CATEGORICAL, var=v, param=row)
                continue
            branches = []
            for k in range(n_states[v]):
                known[v] = k
                below = [sums[g, tuple(known[p] for p in parents[g])] for g in hosted[f]]
                branches.append(build.product(indicator(v, k), *below))
            sums[f, assignment] = build.Node(SUM, children=tuple(branches), log_weight=row)
    roots = [sums[f, ()] for f in hosted[-1]]
    return roots[0] if len(roots) == 1 else build.product(*roots)
