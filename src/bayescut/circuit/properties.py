"""Structural properties of circuits: what makes which query exact.

smooth
    The children of a sum have the same scope (those of a decision too).
decomposable
    The children of a product have disjoint scopes; below an edge of one state a decision's
    variable is not mentioned. Smooth and decomposable circuits marginalise exactly.
deterministic
    At most one child of a sum is possible for any complete row. A decision is deterministic by
    construction; the children of a plain sum must differ pairwise in the possible states of some
    variable. Then maxima, entropies and Bayesian scores are exact.
structured decomposable
    Decomposable, and products of the same scope split it into the same parts. A decision on X
    splits X from the rest; a junction leaf splits as its families branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import IntArray
from bayescut.circuit._kinds import DECISION, INDICATOR, JUNCTION, NORMAL, PRODUCT, SUM

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


@dataclass(frozen=True)
class Properties:
    """Structural properties, each with the first node that breaks it (None if it holds).

    They follow from the shape of the circuit alone; parameters, zeros included, play no part.
    """

    smooth: bool
    decomposable: bool
    deterministic: bool
    structured_decomposable: bool
    not_smooth_at: int | None = None
    not_decomposable_at: int | None = None
    not_deterministic_at: int | None = None
    not_structured_decomposable_at: int | None = None


def first_offenders(circuit: Circuit) -> tuple[int | None, int | None]:
    """Return the first node that is not smooth and the first that is not decomposable."""
    smooth, decomposable = _first_offenders(
        circuit.kind,
        circuit.var,
        circuit.child_ptr,
        circuit.child,
        circuit.branch_ptr,
        circuit.fam_ptr,
        circuit.fam_var,
        len(circuit.domains),
    )
    return _node(smooth), _node(decomposable)


def _node(node: int) -> int | None:
    return None if node < 0 else int(node)


@kernel
def _first_offenders(
    kind: IntArray,
    var: IntArray,
    child_ptr: IntArray,
    child: IntArray,
    branch_ptr: IntArray,
    fam_ptr: IntArray,
    fam_var: IntArray,
    n_variables: int,
) -> tuple[int, int]:
    n = len(kind)
    n_words = (n_variables + 63) // 64
    scope = np.zeros((n, n_words), dtype=np.uint64)
    one = np.uint64(1)
    not_smooth = not_decomposable = -1
    for node in range(n):
        own = scope[node]
        if fam_ptr[node] < fam_ptr[node + 1]:
            for f in range(fam_ptr[node], fam_ptr[node + 1]):
                own[fam_var[f] >> 6] |= one << np.uint64(fam_var[f] & 63)
            continue
        first = child_ptr[node]
        overlap = False
        v = var[node]
        bit = one << np.uint64(v & 63) if v >= 0 else np.uint64(0)
        for e in range(first, child_ptr[node + 1]):
            below = scope[child[e]]
            if kind[node] == DECISION:
                # Along an edge of one state the variable is settled; along others it is not.
                inside = (below[v >> 6] & bit) != 0
                if branch_ptr[e + 1] - branch_ptr[e] == 1:
                    overlap = overlap or inside
                elif not inside and not_smooth < 0:
                    not_smooth = node
            for w in range(n_words):
                here = below[w]
                if kind[node] == DECISION and w == v >> 6:
                    here |= bit
                if kind[node] == PRODUCT:
                    overlap = overlap or (own[w] & here) != 0
                elif e > first and own[w] != here and not_smooth < 0:
                    not_smooth = node
                own[w] |= here
        if v >= 0 and kind[node] != DECISION:
            overlap = overlap or (own[v >> 6] & bit) != 0
            own[v >> 6] |= bit
        if overlap and not_decomposable < 0:
            not_decomposable = node
    return not_smooth, not_decomposable


def first_nondeterministic(circuit: Circuit) -> int | None:
    """Return the first sum of which two children may be possible together."""
    sums = np.flatnonzero(circuit.kind == SUM)
    if len(sums) == 0:
        return None
    confined = confined_states(circuit)
    for node in sums.tolist():
        begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        if not _disjoint([confined[c] for c in circuit.child[begin:end].tolist()]):
            return int(node)
    return None


def confined_states(circuit: Circuit) -> list[dict[int, int]]:
    """For each node the variables that it confines, each with the states it leaves as bits."""
    kind = circuit.kind
    n_states = circuit.domains.n_states.tolist()
    shown = _shown_states(circuit)
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
    seen = np.flatnonzero(circuit.fam_view >= 0)
    leaves: dict[int, dict[int, int]] = {}
    for f in seen.tolist():
        states = shown[circuit.fam_view[f]]
        if states != (1 << n_states[circuit.fam_var[f]]) - 1:
            leaves.setdefault(int(owner[f]), {})[int(circuit.fam_var[f])] = states
    confined: list[dict[int, int]] = []
    free: dict[int, int] = {}
    for node in range(circuit.n_nodes):
        v = int(circuit.var[node])
        if kind[node] == INDICATOR:
            confined.append({v: 1 << int(circuit.state[node])} if n_states[v] > 1 else free)
            continue
        if circuit.view[node] >= 0:
            states = shown[circuit.view[node]]
            confined.append({v: states} if states != (1 << n_states[v]) - 1 else free)
            continue
        if node in leaves:
            confined.append(leaves[node])
            continue
        begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        children = [confined[c] for c in circuit.child[begin:end].tolist()]
        if kind[node] == DECISION:
            settled = [
                {**below, v: _bits(circuit, e)}
                for e, below in zip(range(begin, end), children, strict=True)
            ]
            confined.append(_disjunction(settled, n_states))
        elif kind[node] == PRODUCT:
            confined.append(_conjunction(children) if any(children) else free)
        elif kind[node] == SUM and all(children):
            confined.append(_disjunction(children, n_states))
        else:
            confined.append(free)
    return confined


def _bits(circuit: Circuit, edge: int) -> int:
    """The states of a decision's edge as bits."""
    begin, end = circuit.branch_ptr[edge], circuit.branch_ptr[edge + 1]
    return sum(1 << s for s in circuit.branch_state[begin:end].tolist())


def _shown_states(circuit: Circuit) -> list[int]:
    """The states that each view leaves possible, as bits."""
    return [
        sum(1 << s for s in np.flatnonzero(circuit.view_local[begin:end] >= 0).tolist())
        for begin, end in zip(circuit.view_ptr[:-1], circuit.view_ptr[1:], strict=True)
    ]


def _conjunction(children: list[dict[int, int]]) -> dict[int, int]:
    together: dict[int, int] = {}
    for child in children:
        for v, states in child.items():
            together[v] = together[v] & states if v in together else states
    return together


def _disjunction(children: list[dict[int, int]], n_states: list[int]) -> dict[int, int]:
    together = dict(children[0])
    for child in children[1:]:
        for v in list(together):
            states = together[v] | child.get(v, -1)
            if states == -1 or states == (1 << n_states[v]) - 1:
                del together[v]
            else:
                together[v] = states
    return together


def _disjoint(children: list[dict[int, int]]) -> bool:
    if len(children) == 1:
        return True
    # The usual case first: one variable tells all children apart.
    for v in children[0]:
        union = 0
        for child in children:
            states = child.get(v, -1)
            if states == -1 or states & union:
                break
            union |= states
        else:
            return True
    return all(
        any(states & second.get(v, -1) == 0 for v, states in first.items())
        for i, first in enumerate(children)
        for second in children[i + 1 :]
    )


def first_unstructured(circuit: Circuit) -> int | None:
    """Return the first node that splits its scope unlike an earlier node of the same scope."""
    # A scope is known by the sum of 128-bit random numbers, one per variable: equal sums of
    # different scopes do not happen.
    marks = np.random.default_rng(0).integers(2**63, size=(len(circuit.domains), 2)).tolist()
    mark = [high << 64 | low for high, low in marks]
    parts_of: dict[int, frozenset[int]] = {}
    scope: list[int] = []
    for node in range(circuit.n_nodes):
        kind = circuit.kind[node]
        splits: list[list[int]] = []
        if kind == JUNCTION:
            total = 0
            for parts in _leaf_splits(circuit, node, mark):
                splits.append(parts)
                total = sum(parts)
            scope.append(total)
        elif kind == NORMAL:
            first, last = circuit.fam_ptr[node], circuit.fam_ptr[node + 1]
            scope.append(sum(mark[v] for v in circuit.fam_var[first:last]))
        else:
            begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
            below = [scope[c] for c in circuit.child[begin:end].tolist()]
            own = [mark[circuit.var[node]]] if circuit.var[node] >= 0 else []
            if kind == DECISION:
                # A branch of several states goes on with the variable: it splits nothing off.
                single = np.diff(circuit.branch_ptr[begin : end + 1]) == 1
                rest = {c if one else c - own[0] for c, one in zip(below, single, strict=True)}
                below = [next(iter(rest))] if single.any() else []
                if not single.any():
                    own = [next(iter(rest)) + own[0]]
            elif kind == SUM:
                below = below[:1]
            parts = own + below
            if kind in (PRODUCT, DECISION):
                splits.append(parts)
            scope.append(sum(parts))
        for parts in splits:
            if len(parts) > 1:
                found = frozenset(parts)
                if parts_of.setdefault(sum(parts), found) != found:
                    return node
    return None


def _leaf_splits(circuit: Circuit, node: int, mark: list[int]) -> Iterator[list[int]]:
    """Yield how each family splits the scope at and below it; last, the split of the leaf."""
    first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
    hosted: list[list[int]] = [[] for _ in range(last - first)]
    roots: list[int] = []
    for f in range(last - 1, first - 1, -1):
        parts = [mark[circuit.fam_var[f]], *hosted[f - first]]
        yield parts
        host = int(circuit.fam_host[f])
        (roots if host < 0 else hosted[host - first]).append(sum(parts))
    yield roots


def check_properties(circuit: Circuit) -> Properties:
    """Work out all structural properties."""
    not_smooth, not_decomposable = circuit._first_offenders
    not_deterministic = circuit._first_nondeterministic
    not_structured = not_decomposable
    if not_structured is None:
        not_structured = first_unstructured(circuit)
    return Properties(
        smooth=not_smooth is None,
        decomposable=not_decomposable is None,
        deterministic=not_deterministic is None,
        structured_decomposable=not_structured is None,
        not_smooth_at=not_smooth,
        not_decomposable_at=not_decomposable,
        not_deterministic_at=not_deterministic,
        not_structured_decomposable_at=not_structured,
    )
