"""A circuit over coarse states as a circuit over finer ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import build
from bayescut.circuit._kinds import CATEGORICAL, DECISION, INDICATOR, JUNCTION, NORMAL, PRODUCT, SUM
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
    finer = _Finer(circuit, views, shares)
    nodes: list[build.Node] = []
    for i in range(circuit.n_nodes):
        kind, var = int(circuit.kind[i]), int(circuit.var[i])
        begin, end = int(circuit.child_ptr[i]), int(circuit.child_ptr[i + 1])
        children = tuple(nodes[c] for c in circuit.child[begin:end].tolist())
        log_weight = circuit.log_weight[begin:end]
        if kind == CATEGORICAL:
            param = circuit.param[circuit.param_ptr[i] : circuit.param_ptr[i + 1]]
            view = finer.view(var, int(circuit.view[i]))
            nodes.append(build.Node(kind, var=var, param=param, view=view))
        elif kind == INDICATOR:
            within = np.asarray(views[var]) == circuit.state[i]
            view = build.View(np.where(within, 0, -1).tolist(), np.asarray(shares[var]).tolist())
            nodes.append(build.categorical(var, [1.0], view))
        elif kind == JUNCTION:
            nodes.append(build.Node(kind, families=_families(circuit, i, finer)))
        elif kind == NORMAL:
            param = circuit.param[circuit.param_ptr[i] : circuit.param_ptr[i + 1]]
            own = circuit.fam_var[circuit.fam_ptr[i] : circuit.fam_ptr[i + 1]].tolist()
            blind = tuple(build.Family(v, (), np.zeros(1)) for v in own)
            nodes.append(build.Node(kind, param=param, families=blind))
        elif kind in (SUM, PRODUCT):
            nodes.append(build.Node(kind, children=children, log_weight=log_weight))
        elif kind == DECISION:
            sets = [
                circuit.branch_state[circuit.branch_ptr[e] : circuit.branch_ptr[e + 1]]
                for e in range(begin, end)
            ]
            nodes.append(_decision(var, children, log_weight, sets, views[var], shares[var]))
        else:
            raise CircuitError(f"Node {i} is of a kind that has no finer form.")
    return build.circuit(nodes[-1], domains)


class _Finer:
    """Views of coarse states as views of finer ones."""

    def __init__(
        self, circuit: Circuit, views: Sequence[IntArray], shares: Sequence[FloatArray]
    ) -> None:
        self.circuit, self.views, self.shares = circuit, views, shares
        self.known: dict[tuple[int, int], build.View | None] = {}

    def view(self, var: int, coarse: int) -> build.View | None:
        """How finer states look through a view of the coarse ones (-1: all of these)."""
        key = var, coarse
        if key not in self.known:
            local = np.asarray(self.views[var])
            share = np.asarray(self.shares[var], dtype=np.float64)
            if coarse >= 0:
                begin, end = self.circuit.view_ptr[coarse], self.circuit.view_ptr[coarse + 1]
                share = share * np.exp(self.circuit.view_share[begin:end])[local]
                local = self.circuit.view_local[begin:end][local]
            same = bool(np.array_equal(local, np.arange(len(local))))
            self.known[key] = None if same else build.View(local.tolist(), share.tolist())
        return self.known[key]


def _families(circuit: Circuit, node: int, finer: _Finer) -> tuple[build.Family, ...]:
    made = []
    for f in range(int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])):
        var = int(circuit.fam_var[f])
        among = slice(circuit.fam_parent_ptr[f], circuit.fam_parent_ptr[f + 1])
        parents = tuple(circuit.fam_parent[among].tolist())
        table = circuit.fam_table[circuit.fam_table_ptr[f] : circuit.fam_table_ptr[f + 1]]
        shape = [*circuit.fam_parent_states[among].tolist(), int(circuit.fam_states[f])]
        views = tuple(
            finer.view(p, int(u))
            for p, u in zip(parents, circuit.fam_parent_view[among], strict=True)
        )
        own = finer.view(var, int(circuit.fam_view[f]))
        made.append(build.Family(var, parents, table.reshape(shape), own, views))
    return tuple(made)


def _decision(
    var: int,
    children: tuple[build.Node, ...],
    log_weight: FloatArray,
    branches: Sequence[IntArray],
    view: IntArray,
    share: FloatArray,
) -> build.Node:
    sets, below = [], []
    for states, child in zip(branches, children, strict=True):
        cells = np.flatnonzero(np.isin(view, states))
        sets.append(tuple(cells.tolist()))
        if len(states) > 1 or len(cells) == 1:
            below.append(child)
            continue
        # The coarse state settles the column but for its division.
        local = np.where(view == states[0], 0, -1)
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
