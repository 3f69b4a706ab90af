"""Circuits laid out one after the other, under sums and products: one circuit of several."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescut._typing import IntArray
from bayescut.circuit._kinds import SUM
from bayescut.circuit._model import ARRAYS, Circuit
from bayescut.data.domains import Domains


class Joining:
    """Arrays of a circuit that is put together; children come before their parents."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {name: [] for name in ARRAYS}
        self._views: dict[bytes, int] = {}
        self._n_families = 0
        self.n_nodes = 0

    def add_circuit(
        self, member: Circuit, columns: IntArray | None = None, *, root: bool = True
    ) -> int:
        """Take a circuit along; returns the number of nodes so far, its root is the last of them.

        Parameters
        ----------
        member : Circuit
            What is added.
        columns : int array, optional
            The columns of the whole that its variables are; None: the same.
        root : bool
            Whether its root is taken along.
        """
        arrays: dict[str, Any] = dict(member.arrays())
        size = member.n_nodes
        if not root:
            begin = int(member.child_ptr[-2])
            size -= 1
            for name in ("kind", "var", "state", "view", "child_ptr", "param_ptr", "fam_ptr"):
                arrays[name] = arrays[name][:-1]
            for name in ("child", "log_weight"):
                arrays[name] = arrays[name][:begin]
            arrays["branch_ptr"] = arrays["branch_ptr"][: begin + 1]
        if columns is not None:
            var = arrays["var"]
            arrays["var"] = np.where(var >= 0, columns[np.maximum(var, 0)], -1)
            arrays["fam_var"] = columns[arrays["fam_var"]]
            arrays["fam_parent"] = columns[arrays["fam_parent"]]
        arrays["child"] = arrays["child"] + np.int32(self.n_nodes)
        host = arrays["fam_host"]
        arrays["fam_host"] = np.where(host < 0, host, host + np.int32(self._n_families))
        self._join_views(member, arrays)
        for name, array in arrays.items():
            self._parts[name].append(np.diff(array) if name.endswith("_ptr") else array)
        self.n_nodes += size
        self._n_families += len(member.fam_var)
        return self.n_nodes

    def add_node(self, kind: int, children: ArrayLike, log_weights: ArrayLike) -> int:
        """Add a sum or product of nodes that are there; returns the number of nodes so far."""
        below = np.asarray(children)
        one: dict[str, Any] = {
            "kind": [kind], "var": [-1], "state": [-1], "view": [-1], "child": below,
            "log_weight": log_weights, "child_ptr": [len(below)], "param_ptr": [0], "fam_ptr": [0],
            "branch_ptr": np.zeros(len(below), dtype=int),
        }  # fmt: skip
        for name, values in one.items():
            self._parts[name].append(np.asarray(values))
        self.n_nodes += 1
        return self.n_nodes

    def add_beside(
        self,
        circuit: Circuit,
        kind: int,
        beside: int,
        log_weights: ArrayLike,
        columns: IntArray | None = None,
    ) -> None:
        """Take a circuit along with a node beside it, under a product or a sum.

        A mixture stays one: each of its components has the node beside it.

        Parameters
        ----------
        circuit : Circuit
            What is added.
        kind : int
            Of the node that holds both.
        beside : int
            A node that is there.
        log_weights : array of shape (2,)
            Of the circuit (or component), and of what stands beside it.
        columns : int array, optional
            See `add_circuit`.
        """
        root = circuit.root
        if circuit.kind[root] != SUM:
            last = self.add_circuit(circuit, columns) - 1
            self.add_node(kind, [last, beside], log_weights)
            return
        edges = slice(*circuit.child_ptr[root : root + 2])
        children = self.n_nodes + circuit.child[edges]
        self.add_circuit(circuit, columns, root=False)
        both = [self.add_node(kind, [child, beside], log_weights) - 1 for child in children]
        self.add_node(SUM, both, circuit.log_weight[edges])

    def circuit(self, domains: Domains) -> Circuit:
        """The whole; its root is the node that was added last."""
        joined: dict[str, Any] = {}
        for name, dtype in ARRAYS.items():
            array: Any = np.concatenate(self._parts[name]).astype(dtype)
            if name.endswith("_ptr"):
                array = np.concatenate([np.zeros(1, dtype=dtype), np.cumsum(array, dtype=dtype)])
            joined[name] = array
        return Circuit(domains=domains, **joined)

    def _join_views(self, member: Circuit, arrays: dict[str, Any]) -> None:
        """Number the views in a member's arrays among those of all members, each once.

        The arrays keep the views that are new.
        """
        n = len(member.view_ptr) - 1
        new = np.full(n + 1, -1, dtype=np.int32)  # its last entry: no view
        kept = np.zeros(n, dtype=bool)
        for u in range(n):
            begin, end = member.view_ptr[u], member.view_ptr[u + 1]
            key = member.view_local[begin:end].tobytes() + member.view_share[begin:end].tobytes()
            kept[u] = key not in self._views
            new[u] = self._views.setdefault(key, len(self._views))
        for name in ("view", "fam_view", "fam_parent_view"):
            arrays[name] = new[arrays[name]]
        lengths = np.diff(member.view_ptr)
        inside = np.repeat(kept, lengths)
        arrays["view_local"] = member.view_local[inside]
        arrays["view_share"] = member.view_share[inside]
        arrays["view_ptr"] = np.concatenate([[0], np.cumsum(lengths[kept])])
