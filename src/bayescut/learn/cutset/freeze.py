"""From the small mutable objects of the search to the frozen circuit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._kinds import CATEGORICAL, DECISION, JUNCTION, NORMAL, PRODUCT
from bayescut.circuit.build import View
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.leaves.leaf import Leaf, NormalLeaf
from bayescut.learn.leaves.spare import with_spare


def freeze_network(root: Settled, table: Table) -> Circuit:
    """Freeze a network that is a model by itself; see `freeze_cutset`.

    One with Gaussian leaves has the columns of its table by themselves beside it, for rows that are
    like no other (`bayescut.learn.leaves.spare`).
    """
    return with_spare(freeze_cutset(root, table.domains), table)


def freeze_cutset(root: Settled, domains: Domains) -> Circuit:
    """Turn a grown cutset network into a circuit of decisions and products over leaves.

    Parameters
    ----------
    root : Settled
        A network whose leaves have parameters.
    domains : Domains
        The states of all columns.

    Returns
    -------
    Circuit
        Deterministic, smooth and decomposable; one node per node of the network.
    """
    nodes = list(root.walk())[::-1]  # children before parents
    index = {id(node): i for i, node in enumerate(nodes)}
    sizes = domains.n_states
    kind: list[int] = []
    var: list[int] = []
    children: list[int] = []
    log_weights: list[FloatArray] = []
    columns: list[IntArray] = []
    hosts, parents, tables, n_parents = [], [], [], []
    n_families, n_edges, params, n_params = [], [], [], []
    views = _Views(sizes)
    node_view: list[int] = []
    family_view: list[int] = []
    parent_view: list[int] = []
    branch_states: list[int] = []
    n_branch_states: list[int] = []
    first = 0
    for node in nodes:
        leaf = node.leaf
        node_view.append(-1)
        branches: Sequence[Sequence[int]] = [()] * len(node.children)
        if node.cut is not None:
            branches = node.branches or [(k,) for k in range(len(node.children))]
        for states in branches:
            branch_states.extend(states)
            n_branch_states.append(len(states))
        n_edges.append(len(node.children))
        n_params.append(0)
        n_families.append(0)
        if node.is_product:
            kind.append(PRODUCT)
            var.append(-1)
            children.extend(index[id(child)] for child in node.children)
            log_weights.append(np.zeros(len(node.children)))
        elif leaf is None:
            assert node.cut is not None and node.log_weight is not None
            kind.append(DECISION)
            var.append(node.cut)
            children.extend(index[id(child)] for child in node.children)
            log_weights.append(node.log_weight)
        elif isinstance(leaf, NormalLeaf):
            m = len(leaf.columns)
            kind.append(NORMAL)
            var.append(-1)
            n_families[-1] = m
            columns.append(leaf.columns)
            hosts.append(np.full(m, -1))
            n_parents.append(np.zeros(m, dtype=np.int64))
            # Its families see all cells of a number as one.
            one = [np.zeros(sizes[c], dtype=np.int64) for c in leaf.columns.tolist()]
            family_view.extend(map(views.of, [leaf] * m, leaf.columns.tolist(), one))
            tables.append(np.zeros(m))
            params.append(leaf.mean)
            params.extend(np.append(leaf.coefficients[i, :i], leaf.deviation[i]) for i in range(m))
            n_params[-1] = m + m * (m + 1) // 2
            first += m
        elif len(leaf.columns) == 1:
            kind.append(CATEGORICAL)
            var.append(int(leaf.columns[0]))
            node_view[-1] = views.of(leaf, var[-1])
            params.append(leaf.tables)
            n_params[-1] = len(leaf.tables)
        else:
            kind.append(JUNCTION)
            var.append(-1)
            n_families[-1] = len(leaf.columns)
            columns.append(leaf.columns)
            hosts.append(np.where(leaf.hosts >= 0, leaf.hosts + first, -1))
            n_parents.append(np.diff(leaf.parent_ptr))
            parents.append(leaf.parents)
            family_view.extend(views.of(leaf, c) for c in leaf.columns.tolist())
            grouped = leaf.groups or (None,) * len(leaf.parents)
            for c, group in zip(leaf.parents.tolist(), grouped, strict=True):
                parent_view.append(views.of(leaf, c, group))
            tables.append(leaf.tables)
            first += len(leaf.columns)

    fam_var = _join(columns, np.int32)
    parent_count = _join(n_parents, np.int64)
    fam_parent = _join(parents, np.int32)
    parent_ptr = _pointers(parent_count)
    fam_view = np.array(family_view, dtype=np.int32)
    fam_parent_view = np.array(parent_view, dtype=np.int32)
    # Cells of a family: its own states times those of its parents.
    cells = views.n_states(fam_var, fam_view)
    owner = np.repeat(np.arange(len(fam_var)), parent_count)
    np.multiply.at(cells, owner, views.n_states(fam_parent, fam_parent_view))
    return Circuit(
        kind=np.array(kind, dtype=np.uint8),
        var=np.array(var, dtype=np.int32),
        state=np.full(len(nodes), -1, dtype=np.int32),
        child_ptr=_pointers(n_edges),
        child=np.array(children, dtype=np.int32),
        log_weight=_join(log_weights, np.float64),
        param_ptr=_pointers(n_params),
        param=_join(params, np.float64),
        fam_ptr=_pointers(n_families),
        fam_var=fam_var,
        fam_host=_join(hosts, np.int32),
        fam_parent_ptr=parent_ptr,
        fam_parent=fam_parent,
        fam_table_ptr=_pointers(cells),
        fam_table=_join(tables, np.float64),
        domains=domains,
        branch_ptr=_pointers(n_branch_states),
        branch_state=np.array(branch_states, dtype=np.int32),
        view=np.array(node_view, dtype=np.int32),
        fam_view=fam_view,
        fam_parent_view=fam_parent_view,
        view_ptr=_pointers([len(local) for local in views.local]),
        view_local=_join(views.local, np.int32),
        view_share=_join(views.share, np.float64),
    )


class _Views:
    """The views of a circuit while it is laid out, each once."""

    def __init__(self, sizes: IntArray) -> None:
        self.local: list[IntArray] = []
        self.share: list[FloatArray] = []
        self._sizes = sizes
        self._shown: list[int] = []
        self._number: dict[tuple[int, bytes], int] = {}
        self._known: dict[tuple[int, bytes, bytes | None], int] = {}

    def of(self, leaf: Leaf | NormalLeaf, column: int, group: IntArray | None = None) -> int:
        """Number of the view through which a leaf sees a column; -1 if it sees it as it is."""
        few = (leaf.states or {}).get(column)
        if few is None and group is None:
            return -1
        if few is None:
            few = np.arange(self._sizes[column])
        size = int(self._sizes[column])
        asked = size, few.tobytes(), None if group is None else group.tobytes()
        if asked not in self._known:
            self._known[asked] = self._lay_out(size, few, group)
        return self._known[asked]

    def _lay_out(self, size: int, few: IntArray, group: IntArray | None) -> int:
        view = np.full(size, -1, dtype=np.int32)
        view[few] = np.arange(len(few)) if group is None else group
        local, share = View(view.tolist()).arrays()
        key = (len(local), local.tobytes())
        if key not in self._number:
            self._number[key] = len(self.local)
            self.local.append(local)
            self.share.append(share)
            self._shown.append(int(local.max()) + 1)
        return self._number[key]

    def n_states(self, columns: IntArray, views: IntArray) -> IntArray:
        """Numbers of states of columns as they are seen."""
        shown = np.array([*self._shown, 0], dtype=np.int64)
        return np.where(views < 0, self._sizes[columns].astype(np.int64), shown[views])


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)


def _pointers(lengths: list[int] | IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]).astype(np.int64)
