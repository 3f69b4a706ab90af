"""A circuit over coarse states as a circuit over finer ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import build
from bayescut.circuit._kinds import CATEGORICAL, DECISION, JUNCTION, PRODUCT, SUM
from bayescut.circuit._model import Circuit
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError

__all__ = ["refine"]


def refine(
    circuit: Circuit,
    domains: Domains,
    views: Sequence[IntArray],
    shares: Sequence[FloatArray],
) -> Circuit:
    r"""Return the circuit over finer states in which coarse states are divided by fixed shares.

    .. math:: p(x) = p_{\text{coarse}}(s(x)) \prod_j \text{share}_j(x_j)

    Parameters
    ----------
    circuit : Circuit
        Over the coarse states.
    domains : Domains
        Of the finer states.
    views : sequence of int arrays
        For each column, the coarse state of each of its states.
    shares : sequence of float64 arrays
        For each column, the probability of each state within its coarse state.

    Returns
    -------
    Circuit
        Deterministic if `circuit` is.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.circuit import build
    >>> from bayescut.circuit.refine import refine
    >>> from bayescut.data import Domains
    >>> coarse = build.circuit(build.categorical(0, [0.4, 0.6]), [2])
    >>> fine = refine(
    ...     coarse, Domains.of_sizes([3]), [np.array([0, 1, 1])], [np.array([1, 0.5, 0.5])]
    ... )
    >>> np.exp(fine.log_likelihood([[0], [1], [2]])).round(3)
    array([0.4, 0.3, 0.3])
    """
    same = [bool(np.array_equal(view, np.arange(len(view)))) for view in views]
    seen = [
        None if same[j] else build.View(np.asarray(view).tolist(), np.asarray(share).tolist())
        for j, (view, share) in enumerate(zip(views, shares, strict=True))
    ]
    nodes: list[build.Node] = []
    for i in range(circuit.n_nodes):
        kind, var = int(circuit.kind[i]), int(circuit.var[i])
        begin, end = int(circuit.child_ptr[i]), int(circuit.child_ptr[i + 1])
        children = tuple(nodes[c] for c in circuit.child[begin:end].tolist())
        log_weight = circuit.log_weight[begin:end]
        if kind == CATEGORICAL and circuit.view[i] < 0:
            param = circuit.param[circuit.param_ptr[i] : circuit.param_ptr[i + 1]]
            nodes.append(build.Node(kind, var=var, param=param, view=seen[var]))
        elif kind == JUNCTION:
            nodes.append(build.Node(kind, families=_families(circuit, i, seen)))
        elif kind in (SUM, PRODUCT):
            nodes.append(build.Node(kind, children=children, log_weight=log_weight))
        elif kind == DECISION and _is_plain(circuit, begin, end):
            nodes.append(_decision(var, children, log_weight, views[var], shares[var]))
        else:
            raise CircuitError(f"Node {i} sees a column through a view of its own already.")
    return build.circuit(nodes[-1], domains)


def _is_plain(circuit: Circuit, begin: int, end: int) -> bool:
    """Whether the branches of a decision are the states, one by one."""
    states = circuit.branch_state[circuit.branch_ptr[begin] : circuit.branch_ptr[end]]
    return bool(np.array_equal(states, np.arange(end - begin)))


def _families(
    circuit: Circuit, node: int, seen: Sequence[build.View | None]
) -> tuple[build.Family, ...]:
    sizes = circuit.domains.n_states
    made = []
    for f in range(int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])):
        var = int(circuit.fam_var[f])
        among = slice(circuit.fam_parent_ptr[f], circuit.fam_parent_ptr[f + 1])
        parents = tuple(circuit.fam_parent[among].tolist())
        if circuit.fam_view[f] >= 0 or np.any(circuit.fam_parent_view[among] >= 0):
            raise CircuitError(f"Node {node} sees a column through a view of its own already.")
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        shape = [int(sizes[p]) for p in (*parents, var)]
        views = tuple(seen[p] for p in parents)
        made.append(build.Family(var, parents, table.reshape(shape), seen[var], views))
    return tuple(made)


def _decision(
    var: int,
    children: tuple[build.Node, ...],
    log_weight: FloatArray,
    view: IntArray,
    share: FloatArray,
) -> build.Node:
    sets, below = [], []
    for state, child in enumerate(children):
        cells = np.flatnonzero(view == state)
        sets.append(tuple(cells.tolist()))
        if len(cells) == 1:
            below.append(child)
            continue
        # The coarse state settles the column but for its division.
        local = np.where(view == state, 0, -1)
        inside = build.Node(
            CATEGORICAL,
            var=var,
            param=np.zeros(1),
            view=build.View(local.tolist(), np.where(local < 0, 1.0, share).tolist()),
        )
        below.append(build.product(inside, child))
    return build.Node(
        DECISION, var=var, children=tuple(below), log_weight=log_weight, branches=tuple(sets)
    )
