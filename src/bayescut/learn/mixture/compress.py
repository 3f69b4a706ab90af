"""Fewer parameters for a mixture: components are dropped where that loses least on some rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, Evidence
from bayescut.circuit._kinds import CATEGORICAL, DECISION, INDICATOR, JUNCTION, SUM
from bayescut.circuit.inputs import INPUTS

# Steps of EM for the weights of what is left, after every round of drops. Few, so that many weights
# do not learn few rows by heart.
_N_STEPS = 3
# Part of the parameters beyond the limit that one round drops: losses are those of single drops.
_ROUND = 0.5
# Rows times components that are looked at, at most (256 MiB).
_MOST_CELLS = 2**25
_MOST_ROWS, _LEAST_ROWS = 8192, 256


def compress(
    circuit: Circuit,
    max_parameters: int,
    codes: CodeArray,
    sample_weight: FloatArray | None = None,
    *,
    values: FloatArray | None = None,
    n_jobs: int = 1,
) -> Circuit:
    r"""Drop components of a mixture until it has at most so many parameters.

    Without component k, whose weight is :math:`w_k` and whose responsibility for a row
    :math:`r_k(x)`, the row loses :math:`\ln (1 - w_k) - \ln (1 - r_k(x))`. In rounds, the
    components that lose least for their parameters go, and the weights of the others are fitted to
    the rows by EM.

    Parameters
    ----------
    circuit : Circuit
        A sum over components, or a single one.
    max_parameters : int
        Most parameters.
    codes : array of shape (n, m)
        Rows that count.
    sample_weight : float64 array of shape (n,), optional
        Their weights.
    values : float64 array of shape (n, m), optional
        Their numbers, for circuits with normal leaves.
    n_jobs : int
        Threads.

    Raises
    ------
    ValueError
        If no component is small enough.
    """
    if circuit.n_parameters <= max_parameters:
        return circuit
    begin = int(circuit.child_ptr[-2])
    sizes = Sizes(circuit)
    whole = _without_indicators(circuit, len(sizes.own))
    smallest = sizes.alone[whole].min()
    if circuit.kind[-1] != SUM or smallest > max_parameters:
        raise ValueError(
            f"max_parameters must be at least {smallest}, the size of the smallest component, got "
            f"{max_parameters}"
        )
    weights = np.exp(circuit.log_weight[begin:])
    rows, row_weights = _some_rows(codes, sample_weight, len(sizes.own))
    told: Any = codes[rows]
    if circuit.has_normals:
        told = Evidence(told, values=None if values is None else values[rows])
    shares, log_likelihood = circuit.responsibilities(told, n_jobs=n_jobs)
    possible = log_likelihood > -np.inf
    if not (row_weights[possible] > 0).any():
        raise ValueError("the rows to compress by are impossible to the model, or have no weight")
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.where(weights > 0, shares[possible] / weights, 0.0)
    row_weights = row_weights[possible] / row_weights[possible].sum()
    alive = np.flatnonzero((weights > 0) & (sizes.alone <= max_parameters))
    if not (odds[:, alive] @ weights[alive] > 0).all():
        alive = np.flatnonzero(weights > 0)  # large components may be all that some rows have
    while True:
        w = _fit_weights(odds[:, alive], weights[alive], row_weights)
        weights[alive] = w
        excess = sizes.together(alive) - max_parameters
        if excess <= 0:
            break
        loss = _losses(odds[:, alive], w, row_weights)
        # One that knows more than some rows by heart is kept.
        loss[whole[alive] & (w == w[whole[alive]].max(initial=0.0))] = np.inf
        order = np.argsort(loss / (sizes.own[alive] + 1), kind="stable")
        freed = np.cumsum(sizes.own[alive][order] + 1)
        n_gone = 1 + int(np.searchsorted(freed, _ROUND * excess))
        gone = order[: min(n_gone, len(alive) - 1)]
        if len(gone) == 0:
            alive = np.array([int(np.argmin(np.where(whole, sizes.alone, np.inf)))])
            weights[alive] = 1.0
            break
        alive = np.delete(alive, gone)
    return keep_components(circuit, alive, weights[alive])


def _without_indicators(circuit: Circuit, n_components: int) -> NDArray[np.bool_]:
    """Which components have no indicators; all, if none is so.

    What is left of a mixture has to have a density everywhere: rows kept by heart have none beside
    them (`bayescut.learn.ensemble.repeats`).
    """
    every = np.ones(n_components, dtype=bool)
    above = circuit.kind == INDICATOR
    if circuit.kind[-1] != SUM or not above.any():
        return every
    for node in np.flatnonzero(np.diff(circuit.child_ptr)).tolist():
        below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
        above[node] = above[below].any()
    found = ~above[circuit.child[circuit.child_ptr[-2] :]]
    return found if found.any() else every


class Sizes:
    """Numbers of parameters of the components of a mixture; what several share counts once.

    Attributes
    ----------
    own : int array of shape (n_components,)
        Parameters that no other component has.
    alone : int array of shape (n_components,)
        Parameters of each component by itself.
    """

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._parameters = _parameters_of_nodes(circuit)
        if circuit.kind[-1] != SUM:
            self.own = self.alone = np.array([self._parameters.sum()])
            return
        roots = circuit.child[circuit.child_ptr[-2] :]
        owner = np.full(circuit.n_nodes, -1)  # -2: several
        owner[roots] = np.where(np.bincount(roots)[roots] > 1, -2, np.arange(len(roots)))
        for node in range(circuit.n_nodes - 2, -1, -1):
            below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
            taken = (owner[below] != -1) & (owner[below] != owner[node])
            owner[below] = np.where(taken, -2, owner[node])
        mine = owner >= 0
        self.own = np.bincount(owner[mine], self._parameters[mine], len(roots)).astype(np.int64)
        self._shared = np.flatnonzero(owner[:-1] == -2)[::-1].tolist()
        # Which components lead to which shared nodes, by an edge of their own or as their root.
        above = np.repeat(owner, np.diff(circuit.child_ptr))
        above[circuit.child_ptr[-2] :] = np.arange(len(roots))
        leads = (above >= 0) & (owner[circuit.child] == -2)
        pairs = np.unique(np.stack([above[leads], circuit.child[leads]]), axis=1)
        self._leading, self._led_to = pairs
        self.alone = self.own.copy()
        known: dict[bytes, int] = {}
        for k in np.unique(self._leading).tolist():
            nodes = self._led_to[self._leading == k]
            if nodes.tobytes() not in known:
                known[nodes.tobytes()] = self._below(nodes)
            self.alone[k] += known[nodes.tobytes()]

    def together(self, components: IntArray) -> int:
        """Return the parameters of the mixture of some components."""
        shared = self._below(self._led_to[np.isin(self._leading, components)])
        return int(self.own[components].sum()) + shared + len(components) - 1

    def _below(self, nodes: IntArray) -> int:
        """Parameters of shared nodes and of all below them."""
        circuit, reached = self._circuit, set(nodes.tolist())
        for node in self._shared:  # parents first
            if node in reached:
                below = circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]
                reached.update(below.tolist())
        return int(self._parameters[list(reached)].sum())


def _parameters_of_nodes(circuit: Circuit) -> IntArray:
    own = np.zeros(circuit.n_nodes, dtype=np.int64)
    edges = np.diff(circuit.child_ptr)
    branching = (circuit.kind == SUM) | (circuit.kind == DECISION)
    own[branching] = edges[branching] - 1
    families = np.diff(circuit.fam_table_ptr) // circuit.fam_states * (circuit.fam_states - 1)
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
    own += np.bincount(owner, families, minlength=circuit.n_nodes).astype(np.int64)
    single = circuit.kind == CATEGORICAL
    own[single] = np.diff(circuit.param_ptr)[single] - 1
    for kind in INPUTS.values():
        if kind.kind not in (CATEGORICAL, JUNCTION):
            for leaf in np.flatnonzero(circuit.kind == kind.kind).tolist():
                own[leaf] = kind.n_parameters(circuit, np.array([leaf]))
    return own


def keep_components(circuit: Circuit, kept: IntArray, weights: FloatArray) -> Circuit:
    """Return the mixture of some components of a mixture, in their order, with other weights."""
    roots = circuit.child[circuit.child_ptr[-2] :][kept]
    reached = np.zeros(circuit.n_nodes, dtype=bool)
    reached[roots] = True
    for node in range(circuit.n_nodes - 2, -1, -1):
        if reached[node]:
            reached[circuit.child[circuit.child_ptr[node] : circuit.child_ptr[node + 1]]] = True
    nodes = np.flatnonzero(reached)
    # A component that is a sum itself would be taken for a mixture of its parts.
    alone = len(kept) == 1 and circuit.kind[roots[0]] != SUM
    place = np.full(circuit.n_nodes, -1, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    old = dict(circuit.arrays())
    edges, child_ptr = _segments(circuit.child_ptr, nodes)
    states, branch_ptr = _segments(circuit.branch_ptr, edges)
    params, param_ptr = _segments(circuit.param_ptr, nodes)
    families, fam_ptr = _segments(circuit.fam_ptr, nodes)
    parents, fam_parent_ptr = _segments(circuit.fam_parent_ptr, families)
    cells, fam_table_ptr = _segments(circuit.fam_table_ptr, families)
    family_place = np.full(len(circuit.fam_var) + 1, -1, dtype=np.int64)
    family_place[families] = np.arange(len(families))  # the last entry is for "no host"
    new: dict[str, Any] = {name: old[name][nodes] for name in ("kind", "var", "state", "view")}
    new |= {"child": place[circuit.child[edges]], "log_weight": circuit.log_weight[edges]}
    new |= {"branch_state": circuit.branch_state[states], "param": circuit.param[params]}
    new |= {name: old[name][families] for name in ("fam_var", "fam_view")}
    new["fam_host"] = family_place[circuit.fam_host[families]]
    new |= {name: old[name][parents] for name in ("fam_parent", "fam_parent_view")}
    new["fam_table"] = circuit.fam_table[cells]
    new |= {name: old[name] for name in ("view_ptr", "view_local", "view_share")}
    if not alone:
        n = len(kept)
        last = {"kind": [SUM], "var": [-1], "state": [-1], "view": [-1], "child": place[roots]}
        last["log_weight"] = np.log(weights / weights.sum())
        for name, value in last.items():
            new[name] = np.concatenate([new[name], value])
        child_ptr = np.append(child_ptr, child_ptr[-1] + n)
        branch_ptr = np.append(branch_ptr, np.full(n, branch_ptr[-1]))
        param_ptr, fam_ptr = np.append(param_ptr, param_ptr[-1]), np.append(fam_ptr, fam_ptr[-1])
    new |= {"child_ptr": child_ptr, "branch_ptr": branch_ptr, "param_ptr": param_ptr}
    new |= {"fam_ptr": fam_ptr, "fam_parent_ptr": fam_parent_ptr, "fam_table_ptr": fam_table_ptr}
    typed = {name: np.asarray(new[name]).astype(array.dtype) for name, array in old.items()}
    return Circuit(domains=circuit.domains, **typed)


def _segments(ptr: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of what belongs to the chosen, and where each of them begins among these."""
    lengths = np.diff(ptr)[chosen]
    begin = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(begin[-1]) + np.repeat(ptr[chosen] - begin[:-1], lengths), begin


def _some_rows(
    codes: CodeArray, sample_weight: FloatArray | None, n_components: int
) -> tuple[IntArray, FloatArray]:
    """Rows enough to tell components apart, drawn if there are more."""
    weights = np.ones(len(codes)) if sample_weight is None else sample_weight
    most = int(np.clip(_MOST_CELLS // n_components, _LEAST_ROWS, _MOST_ROWS))
    rows = np.flatnonzero(weights > 0)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    return rows, weights[rows]


def _fit_weights(odds: FloatArray, weights: FloatArray, row_weights: FloatArray) -> FloatArray:
    """Weights of components after some steps of EM; ``odds`` are their probabilities of rows."""
    weights = weights / weights.sum()
    for _ in range(_N_STEPS):
        total = odds @ weights
        inside = total > 0
        weights = weights * ((row_weights[inside] / total[inside]) @ odds[inside])
        weights = weights / weights.sum()
    return weights


def _losses(odds: FloatArray, weights: FloatArray, row_weights: FloatArray) -> FloatArray:
    """Mean log-likelihood that is lost without each component."""
    total = odds @ weights
    inside = total > 0
    shares = np.minimum(odds[inside] * weights / total[inside, None], 1.0 - 1e-15)
    without = np.log1p(-np.minimum(weights, 1.0 - 1e-15))
    found: FloatArray = without - row_weights[inside] @ np.log1p(-shares)
    return found
