"""Is this bundle of arrays a circuit? Every index is checked before any kernel follows it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import DECISION, INDICATOR, JUNCTION, NAMES, NORMAL, PRODUCT
from bayescut.circuit.inputs import INPUTS
from bayescut.circuit.properties import confined_states
from bayescut.exceptions import CircuitError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

# Probabilities must sum to 1 within this: 20,000 nested sums that are off by as much still have a
# total within 2e-5. A sum of 65,534 rounded terms stays inside.
TOLERANCE = 1e-9
# More cells than this in one table is a mistake, not a model (and would overflow the products).
MAX_CELLS = 1 << 40


def freeze(name: str, values: Any, dtype: type) -> NDArray[Any]:
    """Return a read-only, contiguous, one-dimensional copy (or the array itself, if it is one)."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise CircuitError(f"{name} must be one-dimensional, not of shape {array.shape}.")
    target: np.dtype[Any] = np.dtype(dtype)
    if array.size == 0:
        array = array.astype(target)
    elif target.kind in "ui":
        if array.dtype.kind not in "ui":
            raise CircuitError(f"{name} must hold integers, not {array.dtype}.")
        limits = np.iinfo(target)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise CircuitError(f"{name} holds a value that does not fit {target}.")
    elif array.dtype.kind not in "fui":
        raise CircuitError(f"{name} must hold numbers, not {array.dtype}.")
    if array.dtype != target or array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, dtype=target, order="C")
        array.setflags(write=False)
    return array


def check_circuit(circuit: Circuit) -> None:
    """Raise :class:`CircuitError` naming the first node at which the arrays make no circuit."""
    n = len(circuit.kind)
    if n == 0:
        raise CircuitError("A circuit has at least one node.")
    for name in ("var", "state", "view"):
        _same_length(name, getattr(circuit, name), n)
    _pointers("child_ptr", circuit.child_ptr, n, len(circuit.child))
    _same_length("log_weight", circuit.log_weight, len(circuit.child))
    _pointers("param_ptr", circuit.param_ptr, n, len(circuit.param))
    n_families = len(circuit.fam_var)
    _pointers("fam_ptr", circuit.fam_ptr, n, n_families)
    _same_length("fam_host", circuit.fam_host, n_families)
    _same_length("fam_view", circuit.fam_view, n_families)
    _same_length("fam_parent_view", circuit.fam_parent_view, len(circuit.fam_parent))
    _pointers("fam_parent_ptr", circuit.fam_parent_ptr, n_families, len(circuit.fam_parent))
    _pointers("fam_table_ptr", circuit.fam_table_ptr, n_families, len(circuit.fam_table))
    _pointers("branch_ptr", circuit.branch_ptr, len(circuit.child), len(circuit.branch_state))
    _check_views(circuit)
    _check_nodes(circuit)
    _check_branches(circuit)
    _check_families(circuit)
    _check_reach(circuit)
    _check_settled(circuit)


def _same_length(name: str, array: NDArray[Any], expected: int) -> None:
    if len(array) != expected:
        raise CircuitError(f"{name} has {len(array)} entries, expected {expected}.")


def _pointers(name: str, pointers: IntArray, n: int, end: int) -> None:
    _same_length(name, pointers, n + 1)
    if pointers[0] != 0 or pointers[-1] != end or np.any(pointers[1:] < pointers[:-1]):
        raise CircuitError(f"{name} must rise from 0 to {end}.")


def _refuse(circuit: Circuit, bad: NDArray[np.bool_], message: str) -> None:
    if bad.any():
        node = int(np.argmax(bad))
        kind = int(circuit.kind[node])
        name = NAMES[kind] if kind < len(NAMES) else f"kind {kind}"
        raise CircuitError(f"Node {node} ({name}): {message}")


def _check_views(circuit: Circuit) -> None:
    """Views show states 0, 1, ...; the shares of states that look the same sum to 1."""
    pointers, local, share = circuit.view_ptr, circuit.view_local, circuit.view_share
    if len(pointers) == 0 or pointers[0] != 0 or pointers[-1] != len(local):
        raise CircuitError(f"view_ptr must rise from 0 to {len(local)}.")
    if np.any(pointers[1:] < pointers[:-1]):
        raise CircuitError(f"view_ptr must rise from 0 to {len(local)}.")
    _same_length("view_share", share, len(local))
    for u, (begin, end) in enumerate(pairwise(pointers)):
        shown = local[begin:end]
        seen = shown >= 0
        if np.any(shown < -1) or np.any(shown >= len(shown)) or not seen.any():
            raise CircuitError(f"View {u}: it must show states 0, 1, ..., or -1 for impossible.")
        with np.errstate(over="ignore"):
            totals = np.bincount(shown[seen], weights=np.exp(share[begin:end][seen]))
        if not np.all(np.abs(totals - 1.0) <= TOLERANCE):
            raise CircuitError(f"View {u}: the shares of states that look the same must sum to 1.")
    n_views = len(pointers) - 1
    sizes = np.append(np.diff(pointers), -1)
    n_states = circuit.domains.n_states
    for name, views, variables in (
        ("view", circuit.view, circuit.var),
        ("fam_view", circuit.fam_view, circuit.fam_var),
        ("fam_parent_view", circuit.fam_parent_view, circuit.fam_parent),
    ):
        if np.any((views < -1) | (views >= n_views)):
            raise CircuitError(f"{name} names a view that does not exist.")
        used = np.flatnonzero(views >= 0)
        fits = (variables[used] >= 0) & (variables[used] < len(n_states))
        if not fits.all() or np.any(sizes[views[used]] != n_states[variables[used]]):
            raise CircuitError(f"{name}: a view needs one entry for each state of its variable.")


def _check_nodes(circuit: Circuit) -> None:
    kind, var, state = circuit.kind, circuit.var, circuit.state
    n_states = circuit.domains.n_states
    n, n_variables = len(kind), len(n_states)
    _refuse(circuit, kind >= len(NAMES), "there is no such kind of node.")

    named = (kind == DECISION) | ((kind >= INDICATOR) & (kind != JUNCTION) & (kind != NORMAL))
    _refuse(
        circuit,
        named & ((var < 0) | (var >= n_variables)),
        f"its variable must be one of 0, ..., {n_variables - 1}.",
    )
    _refuse(circuit, ~named & (var != -1), "it has no variable of its own, var must be -1.")
    sizes = np.where(named, n_states[np.where(named, var, 0)], -1)
    numeric = np.isin(kind, [k for k, hooks in INPUTS.items() if hooks.continuous])
    _refuse(circuit, numeric & (sizes != 0), "its variable must be continuous.")
    _refuse(circuit, named & ~numeric & (sizes < 1), "its variable must not be continuous.")
    _refuse(circuit, (kind != INDICATOR) & (state != -1), "only an indicator has a state.")
    viewed = np.isin(kind, [k for k, hooks in INPUTS.items() if hooks.dirichlet]) & named
    _refuse(circuit, ~viewed & (circuit.view != -1), "only a categorical input has a view.")

    arity = np.diff(circuit.child_ptr)
    inner = kind <= PRODUCT
    _refuse(circuit, ~inner & (arity != 0), "an input has no children.")
    _refuse(circuit, inner & (arity == 0), "it needs at least one child.")
    owner = np.repeat(np.arange(n), arity)
    _refuse_at(
        circuit,
        owner,
        (circuit.child < 0) | (circuit.child >= owner),
        "a child must come before its parent in the order of the nodes.",
    )
    weighted = kind[owner] != PRODUCT
    _refuse_at(
        circuit, owner, ~weighted & (circuit.log_weight != 0), "product edges have log weight 0."
    )
    bad = unnormalised(circuit.log_weight, circuit.child_ptr)
    _refuse(
        circuit, inner & (kind != PRODUCT) & bad, "its weights must be probabilities summing to 1."
    )

    counts = np.diff(circuit.param_ptr)
    expected = np.zeros(n, dtype=np.int64)
    for number, hooks in INPUTS.items():
        nodes = np.flatnonzero(kind == number)
        if len(nodes):
            expected[nodes] = hooks.n_params(circuit, nodes)
    _refuse(circuit, counts != expected, "it has the wrong number of parameters.")
    for number, hooks in INPUTS.items():
        nodes = np.flatnonzero(kind == number)
        if len(nodes):
            hooks.check(circuit, nodes)


def _check_branches(circuit: Circuit) -> None:
    """The edges of a decision stand for disjoint, non-empty sets of states; no others do."""
    lengths = np.diff(circuit.branch_ptr)
    owner = np.repeat(np.arange(len(circuit.kind)), np.diff(circuit.child_ptr))
    is_branch = circuit.kind[owner] == DECISION
    message = "only the edges of a decision have states, and each of them has."
    _refuse_at(circuit, owner, is_branch != (lengths > 0), message)
    node = np.repeat(owner, lengths)
    states = circuit.branch_state
    n_states = circuit.domains.n_states[circuit.var[node]] if len(node) else states
    _refuse_at(
        circuit, node, (states < 0) | (states >= n_states), "a branch names a state out of range."
    )
    key = node * (int(circuit.domains.n_states.max(initial=0)) + 1) + states
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), dtype=bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    _refuse_at(circuit, node, again, "a state leads along two of its edges.")
    # Within an edge, states stand in order: then equal sets are equal arrays.
    edge = np.repeat(np.arange(len(lengths)), lengths)
    falls = np.zeros(len(states), dtype=bool)
    falls[1:] = (edge[1:] == edge[:-1]) & (states[1:] <= states[:-1])
    _refuse_at(circuit, node, falls, "the states of a branch must be in rising order.")


def _check_settled(circuit: Circuit) -> None:
    """Below a branch of several states its variable has no other state."""
    wide = np.flatnonzero(np.diff(circuit.branch_ptr) > 1)
    if len(wide) == 0:
        return
    confined = confined_states(circuit)
    owner = np.repeat(np.arange(len(circuit.kind)), np.diff(circuit.child_ptr))
    for e in wide.tolist():
        node = int(owner[e])
        v = int(circuit.var[node])
        states = 0
        for s in circuit.branch_state[circuit.branch_ptr[e] : circuit.branch_ptr[e + 1]].tolist():
            states |= 1 << s
        every = (1 << int(circuit.domains.n_states[v])) - 1
        left = confined[int(circuit.child[e])].get(v, every)
        if left & ~states:
            bad = np.zeros(len(circuit.kind), dtype=bool)
            bad[node] = True
            _refuse(
                circuit, bad,
                f"below a branch of several states, variable {v} must have no other state.",
            )  # fmt: skip


def _refuse_at(circuit: Circuit, owner: IntArray, bad: NDArray[np.bool_], message: str) -> None:
    if bad.any():
        at_node = np.zeros(len(circuit.kind), dtype=bool)
        at_node[owner[bad]] = True
        _refuse(circuit, at_node, message)


def _check_families(circuit: Circuit) -> None:
    counts = np.diff(circuit.fam_ptr)
    is_junction = (circuit.kind == JUNCTION) | (circuit.kind == NORMAL)
    _refuse(circuit, ~is_junction & (counts != 0), "only a junction or a normal leaf has families.")
    _refuse(circuit, is_junction & (counts == 0), "it has at least one family.")
    fault, node, family = _family_fault(
        circuit.fam_ptr,
        circuit.fam_var,
        circuit.fam_host,
        circuit.fam_parent_ptr,
        circuit.fam_parent,
        circuit.fam_table_ptr,
        circuit.fam_table,
        circuit.domains.n_states,
        circuit.fam_view,
        circuit.fam_parent_view,
        circuit.view_ptr,
        circuit.view_local,
        circuit.view_states,
    )
    if fault:
        position = family - int(circuit.fam_ptr[node])
        name = NAMES[circuit.kind[node]]
        raise CircuitError(f"Node {node} ({name}), family {position}: {_FAMILY_FAULTS[fault]}")


_FAMILY_FAULTS = (
    "",
    "its variable is out of range or continuous.",
    "its variable already has a family in this leaf.",
    "its host must be an earlier family of the same leaf (or -1 if it has no parents).",
    "a parent is not in the family of the host.",
    "a parent is listed twice.",
    "its table must have one cell per state of the variable and assignment of the parents.",
    "its table must hold probabilities that sum to 1 for every assignment of the parents.",
    "a parent is seen more finely than its host sees it.",
)


def _check_reach(circuit: Circuit) -> None:
    used = np.zeros(len(circuit.kind), dtype=bool)
    used[circuit.child] = True
    used[-1] = True
    _refuse(circuit, ~used, "nothing leads to it; the root is the last node.")
    present = np.zeros(len(circuit.domains), dtype=bool)
    present[circuit.var[circuit.var >= 0]] = True
    present[circuit.fam_var] = True
    if not present.all():
        missing = int(np.argmin(present))
        raise CircuitError(f"Variable {missing} of the domains occurs nowhere in the circuit.")


@kernel
def unnormalised(logs: FloatArray, pointers: IntArray) -> Any:
    """Mark the ranges whose exponentials do not sum to 1."""
    bad = np.zeros(len(pointers) - 1, dtype=np.bool_)
    for i in range(len(pointers) - 1):
        total = 0.0
        for j in range(pointers[i], pointers[i + 1]):
            total += np.exp(logs[j])
        # Written so that a NaN counts as bad.
        bad[i] = not (abs(total - 1.0) <= TOLERANCE)
    return bad


@inner
def _follows(
    n_states: int,
    fine: int,
    coarse: int,
    view_ptr: IntArray,
    view_local: IntArray,
    view_states: IntArray,
) -> bool:
    """Whether what one view shows of a state decides what another one shows."""
    if fine == coarse or (fine < 0 and coarse < 0):
        return True
    k = n_states if fine < 0 else view_states[fine]
    shown = np.full(k, -2, dtype=np.int64)
    for s in range(n_states):
        here = s if fine < 0 else view_local[view_ptr[fine] + s]
        there = s if coarse < 0 else view_local[view_ptr[coarse] + s]
        if here < 0:
            continue
        if there < 0 or (shown[here] >= 0 and shown[here] != there):
            return False
        shown[here] = there
    return True


@kernel
def _family_fault(
    fam_ptr: IntArray,
    fam_var: IntArray,
    fam_host: IntArray,
    parent_ptr: IntArray,
    parent: IntArray,
    table_ptr: IntArray,
    table: FloatArray,
    n_states: IntArray,
    fam_view: IntArray,
    parent_view: IntArray,
    view_ptr: IntArray,
    view_local: IntArray,
    view_states: IntArray,
) -> tuple[int, int, int]:
    """Return (fault, node, family) of the first malformed family, fault 0 if there is none."""
    n_variables = len(n_states)
    seen = np.full(n_variables, -1, dtype=np.int64)  # the leaf in which a variable was last seen
    for node in range(len(fam_ptr) - 1):
        first = fam_ptr[node]
        for f in range(first, fam_ptr[node + 1]):
            v = fam_var[f]
            if v < 0 or v >= n_variables or n_states[v] < 1:
                return 1, node, f
            if seen[v] == node:
                return 2, node, f
            seen[v] = node
            host = fam_host[f]
            begin, end = parent_ptr[f], parent_ptr[f + 1]
            if begin == end:
                if host != -1:
                    return 3, node, f
            elif host < first or host >= f:
                return 3, node, f
            k = n_states[v] if fam_view[f] < 0 else view_states[fam_view[f]]
            cells = k
            for i in range(begin, end):
                p = parent[i]
                found = p == fam_var[host]
                seen_by_host = fam_view[host]
                for j in range(parent_ptr[host], parent_ptr[host + 1]):
                    if parent[j] == p:
                        found = True
                        seen_by_host = parent_view[j]
                if not found:
                    return 4, node, f
                if not _follows(
                    n_states[p], seen_by_host, parent_view[i], view_ptr, view_local, view_states
                ):
                    return 8, node, f
                for j in range(begin, i):
                    if parent[j] == p:
                        return 5, node, f
                cells *= n_states[p] if parent_view[i] < 0 else view_states[parent_view[i]]
                if cells > MAX_CELLS:
                    return 6, node, f
            if table_ptr[f + 1] - table_ptr[f] != cells:
                return 6, node, f
            for c in range(table_ptr[f], table_ptr[f + 1], k):
                total = 0.0
                for s in range(k):
                    total += np.exp(table[c + s])
                if not (abs(total - 1.0) <= TOLERANCE):
                    return 7, node, f
    return 0, -1, -1
