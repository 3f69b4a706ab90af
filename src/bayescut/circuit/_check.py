"""Is this bundle of arrays a circuit? Every index is checked before any kernel follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import (
    CATEGORICAL,
    DECISION,
    GAUSSIAN,
    INDICATOR,
    JUNCTION,
    NAMES,
    PRODUCT,
)
from bayescut.exceptions import CircuitError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

# Probabilities must sum to 1 within this; a sum of 65,534 rounded terms stays well inside.
TOLERANCE = 1e-6
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
    for name in ("var", "state"):
        _same_length(name, getattr(circuit, name), n)
    _pointers("child_ptr", circuit.child_ptr, n, len(circuit.child))
    _same_length("log_weight", circuit.log_weight, len(circuit.child))
    _pointers("param_ptr", circuit.param_ptr, n, len(circuit.param))
    n_families = len(circuit.fam_var)
    _pointers("fam_ptr", circuit.fam_ptr, n, n_families)
    _same_length("fam_host", circuit.fam_host, n_families)
    _pointers("fam_parent_ptr", circuit.fam_parent_ptr, n_families, len(circuit.fam_parent))
    _pointers("fam_table_ptr", circuit.fam_table_ptr, n_families, len(circuit.fam_table))
    _check_nodes(circuit)
    _check_families(circuit)
    _check_reach(circuit)


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


def _check_nodes(circuit: Circuit) -> None:
    kind, var, state = circuit.kind, circuit.var, circuit.state
    n_states = circuit.domains.n_states
    n, n_variables = len(kind), len(n_states)
    _refuse(circuit, kind > GAUSSIAN, "there is no such kind of node.")

    named = (kind == DECISION) | (kind == INDICATOR) | (kind == CATEGORICAL) | (kind == GAUSSIAN)
    _refuse(
        circuit,
        named & ((var < 0) | (var >= n_variables)),
        f"its variable must be one of 0, ..., {n_variables - 1}.",
    )
    _refuse(circuit, ~named & (var != -1), "it has no variable of its own, var must be -1.")
    sizes = np.where(named, n_states[np.where(named, var, 0)], -1)
    _refuse(circuit, (kind == GAUSSIAN) & (sizes != 0), "its variable must be continuous.")
    _refuse(
        circuit, named & (kind != GAUSSIAN) & (sizes < 1), "its variable must not be continuous."
    )
    is_indicator = kind == INDICATOR
    _refuse(
        circuit,
        is_indicator & ((state < 0) | (state >= sizes)),
        "its state is not a state of its variable.",
    )
    _refuse(circuit, ~is_indicator & (state != -1), "only an indicator has a state.")

    arity = np.diff(circuit.child_ptr)
    inner = kind <= PRODUCT
    _refuse(circuit, ~inner & (arity != 0), "an input has no children.")
    _refuse(circuit, inner & (arity == 0), "it needs at least one child.")
    _refuse(
        circuit,
        (kind == DECISION) & (arity != sizes),
        "a decision has exactly one edge for each state of its variable.",
    )
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
    bad = _unnormalised(circuit.log_weight, circuit.child_ptr)
    _refuse(
        circuit, inner & (kind != PRODUCT) & bad, "its weights must be probabilities summing to 1."
    )

    counts = np.diff(circuit.param_ptr)
    expected = np.where(kind == CATEGORICAL, sizes, np.where(kind == GAUSSIAN, 2, 0))
    _refuse(circuit, counts != expected, "it has the wrong number of parameters.")
    bad = _unnormalised(circuit.param, circuit.param_ptr)
    _refuse(circuit, (kind == CATEGORICAL) & bad, "its probabilities must sum to 1.")
    gaussian = np.flatnonzero(kind == GAUSSIAN)
    if gaussian.size:
        mean = circuit.param[circuit.param_ptr[gaussian]]
        deviation = circuit.param[circuit.param_ptr[gaussian] + 1]
        bad = np.zeros(n, dtype=bool)
        bad[gaussian] = ~(np.isfinite(mean) & np.isfinite(deviation) & (deviation > 0))
        _refuse(circuit, bad, "it needs a finite mean and a positive, finite standard deviation.")


def _refuse_at(circuit: Circuit, owner: IntArray, bad: NDArray[np.bool_], message: str) -> None:
    if bad.any():
        at_node = np.zeros(len(circuit.kind), dtype=bool)
        at_node[owner[bad]] = True
        _refuse(circuit, at_node, message)


def _check_families(circuit: Circuit) -> None:
    counts = np.diff(circuit.fam_ptr)
    is_junction = circuit.kind == JUNCTION
    _refuse(circuit, ~is_junction & (counts != 0), "only a junction has families.")
    _refuse(circuit, is_junction & (counts == 0), "a junction has at least one family.")
    fault, node, family = _family_fault(
        circuit.fam_ptr,
        circuit.fam_var,
        circuit.fam_host,
        circuit.fam_parent_ptr,
        circuit.fam_parent,
        circuit.fam_table_ptr,
        circuit.fam_table,
        circuit.domains.n_states,
    )
    if fault:
        position = family - int(circuit.fam_ptr[node])
        raise CircuitError(f"Node {node} (junction), family {position}: {_FAMILY_FAULTS[fault]}")


_FAMILY_FAULTS = (
    "",
    "its variable is out of range or continuous.",
    "its variable already has a family in this leaf.",
    "its host must be an earlier family of the same leaf (or -1 if it has no parents).",
    "a parent is not in the family of the host.",
    "a parent is listed twice.",
    "its table must have one cell per state of the variable and assignment of the parents.",
    "its table must hold probabilities that sum to 1 for every assignment of the parents.",
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
def _unnormalised(logs: FloatArray, pointers: IntArray) -> Any:
    """Mark the ranges whose exponentials do not sum to 1."""
    bad = np.zeros(len(pointers) - 1, dtype=np.bool_)
    for i in range(len(pointers) - 1):
        total = 0.0
        for j in range(pointers[i], pointers[i + 1]):
            total += np.exp(logs[j])
        # Written so that a NaN counts as bad.
        bad[i] = not (abs(total - 1.0) <= TOLERANCE)
    return bad


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
            cells = n_states[v]
            for i in range(begin, end):
                p = parent[i]
                found = p == fam_var[host]
                for j in range(parent_ptr[host], parent_ptr[host + 1]):
                    found = found or parent[j] == p
                if not found:
                    return 4, node, f
                for j in range(begin, i):
                    if parent[j] == p:
                        return 5, node, f
                cells *= n_states[p]
                if cells > MAX_CELLS:
                    return 6, node, f
            if table_ptr[f + 1] - table_ptr[f] != cells:
                return 6, node, f
            for c in range(table_ptr[f], table_ptr[f + 1], n_states[v]):
                total = 0.0
                for k in range(n_states[v]):
                    total += np.exp(table[c + k])
                if not (abs(total - 1.0) <= TOLERANCE):
                    return 7, node, f
    return 0, -1, -1
