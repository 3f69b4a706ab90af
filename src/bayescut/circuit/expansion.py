"""Decisions and junction leaves as plain sums, products and inputs: the same function."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as assignments
from typing import TYPE_CHECKING

import numpy as np

from bayescut.circuit import build
from bayescut.circuit._kinds import CATEGORICAL, DECISION, INDICATOR, JUNCTION, PRODUCT, SUM

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
        if kind == INDICATOR:
            made.append(indicator(var, int(circuit.state[node])))
        elif kind == DECISION:
            branches = tuple(
                _branch(circuit, e, child, indicator)
                for e, child in zip(range(begin, end), children, strict=True)
            )
            made.append(build.Node(SUM, children=branches, log_weight=log_weight))
        elif kind in (SUM, PRODUCT):
            made.append(build.Node(kind, children=children, log_weight=log_weight))
        elif kind == JUNCTION:
            made.append(_expand_leaf(circuit, node, indicator))
        else:
            param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
            view = _view(circuit, int(circuit.view[node]))
            own = circuit.fam_var[circuit.fam_ptr[node] : circuit.fam_ptr[node + 1]].tolist()
            blind = tuple(build.Family(v, (), np.zeros(1)) for v in own)  # of a normal leaf
            made.append(build.Node(kind, var=var, param=param, families=blind, view=view))
    return build.circuit(made[-1], circuit.domains)


def _branch(
    circuit: Circuit, edge: int, child: build.Node, indicator: Callable[[int, int], build.Node]
) -> build.Node:
    """A branch of one state settles the variable; below one of several its child does so itself."""
    states = circuit.branch_state[circuit.branch_ptr[edge] : circuit.branch_ptr[edge + 1]]
    if len(states) > 1:
        return child
    owner = int(np.searchsorted(circuit.child_ptr, edge, side="right")) - 1
    return build.product(indicator(int(circuit.var[owner]), int(states[0])), child)


def _view(circuit: Circuit, number: int) -> build.View | None:
    if number < 0:
        return None
    begin, end = circuit.view_ptr[number], circuit.view_ptr[number + 1]
    share = np.exp(circuit.view_share[begin:end])
    return build.View(circuit.view_local[begin:end].tolist(), share.tolist())


def _expand_leaf(
    circuit: Circuit, node: int, indicator: Callable[[int, int], build.Node]
) -> build.Node:
    first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
    n_states = circuit.domains.n_states
    parents: dict[int, list[int]] = {}
    parent_views: dict[int, list[int]] = {}
    for f in range(first, last):
        begin, end = circuit.fam_parent_ptr[f], circuit.fam_parent_ptr[f + 1]
        parents[f] = circuit.fam_parent[begin:end].tolist()
        parent_views[f] = circuit.fam_parent_view[begin:end].tolist()
    hosted: dict[int, list[int]] = {f: [] for f in range(-1, last)}
    for f in range(first, last):
        hosted[int(circuit.fam_host[f])].append(f)

    def seen(view: int, state: int) -> int:
        return state if view < 0 else int(circuit.view_local[circuit.view_ptr[view] + state])

    def example(v: int, view: int) -> list[int]:
        """For every state that a view shows, one that looks like it."""
        first_of: dict[int, int] = {}
        for s in range(n_states[v]):
            if seen(view, s) >= 0:
                first_of.setdefault(seen(view, s), s)
        return [first_of[k] for k in range(len(first_of))]

    sums: dict[tuple[int, tuple[int, ...]], build.Node] = {}
    for f in range(last - 1, first - 1, -1):
        v, view = int(circuit.fam_var[f]), int(circuit.fam_view[f])
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        rows = table.reshape(-1, circuit.fam_states[f])
        shown = [example(p, u) for p, u in zip(parents[f], parent_views[f], strict=True)]
        own = _view(circuit, view)
        for row, given in zip(rows, assignments(*shown), strict=True):
            # A parent assignment is named by what the family sees of it.
            known = dict(zip(parents[f], given, strict=True))
            key = tuple(seen(u, s) for u, s in zip(parent_views[f], given, strict=True))
            if not hosted[f]:
                sums[f, key] = build.Node(CATEGORICAL, var=v, param=row, view=own)
                continue
            branches = []
            weights = []
            for s in range(n_states[v]):
                local = seen(view, s)
                if local < 0:
                    continue
                known[v] = s
                below = [
                    sums[
                        g,
                        tuple(
                            seen(u, known[p])
                            for p, u in zip(parents[g], parent_views[g], strict=True)
                        ),
                    ]
                    for g in hosted[f]
                ]
                branches.append(build.product(indicator(v, s), *below))
                share = 0.0 if view < 0 else circuit.view_share[circuit.view_ptr[view] + s]
                weights.append(row[local] + share)
            sums[f, key] = build.Node(SUM, children=tuple(branches), log_weight=np.array(weights))
    roots = [sums[f, ()] for f in hosted[-1]]
    return roots[0] if len(roots) == 1 else build.product(*roots)
