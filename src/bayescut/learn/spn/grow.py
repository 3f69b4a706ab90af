"""LearnSPN: columns that do not depend on each other apart, else rows in clusters, top-down.

The whole tree below a cluster of the root is grown by one kernel without the interpreter: the wide
tables have tens of thousands of slices of a few rows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.spn.clusters import (
    SMOOTHING,
    Rows,
    best_clusters,
    cluster_once,
    first_price,
    read_rows,
)
from bayescut.learn.spn.draws import derive
from bayescut.learn.spn.independence import count_states, dependent_groups

SUM, PRODUCT, LEAF = 0, 1, 2
# Numbers of the parts of a slice, from which their random orders derive: clusters from 0 on,
# groups of columns from here on.
_GROUPS = 1 << 32


class Grown(NamedTuple):
    """A tree of sums and products over independent columns, parents before children.

    All nodes below a node follow it directly.

    Attributes
    ----------
    kind : int8 array of shape (n,)
        SUM, PRODUCT or LEAF.
    parent : int32 array of shape (n,)
        -1 for the root.
    log_weight : float64 array of shape (n,)
        Logarithm of the share of a sum's rows, 0 if the parent is no sum.
    column_ptr, column : int64 and int32 arrays
        Columns of a leaf.
    counts : float64 array
        Counts of the states of a leaf's columns, end to end in the order of ``column``.
    """

    kind: IntArray
    parent: IntArray
    log_weight: FloatArray
    column_ptr: IntArray
    column: IntArray
    counts: FloatArray

    @property
    def n_nodes(self) -> int:
        """Number of nodes; as in the literature a column of a leaf is one, and so is a product."""
        wide = np.diff(self.column_ptr) > 1
        # A leaf of several columns under a sum is a product of its own, under a product it is not.
        under_sum = np.ones(len(self.kind), dtype=bool)
        under_sum[1:] = self.kind[self.parent[1:]] == SUM
        extra = np.count_nonzero((self.kind == LEAF) & wide & under_sum)
        return int(np.count_nonzero(self.kind != LEAF) + len(self.column) + extra)


@inner
def with_room(array, size):
    """Return the array, or a longer copy if it has less than ``size`` entries."""
    if array.shape[0] >= size:
        return array
    longer = np.zeros(max(size, 2 * array.shape[0]), dtype=array.dtype)
    longer[: array.shape[0]] = array
    return longer


@kernel
def grow_below(
    codes, rows, columns, sizes, weights, logs, xlogx, log_weight, key, factor, cluster_penalty,
    min_rows, n_restarts, max_clusters, reset_price,
):  # fmt: skip
    """Grow what lies below a sum for one of its clusters.

    Returns the arrays of `Grown`; nodes whose parent is -1 are children of the sum, and
    ``log_weight`` is what the cluster's share adds to their weights.
    """
    kind = np.zeros(64, dtype=np.int8)
    parent = np.zeros(64, dtype=np.int32)
    edge = np.zeros(64)
    column_ptr = np.zeros(65, dtype=np.int64)
    column = np.zeros(64, dtype=np.int32)
    counts = np.zeros(64)
    n_nodes = n_columns = n_counts = 0

    # Slices that wait, last in first out; their rows and columns end where the next one's begin.
    row_pool = rows.copy()
    column_pool = columns.copy()
    task_rows = np.zeros((16, 2), dtype=np.int64)
    task_columns = np.zeros((16, 2), dtype=np.int64)
    task_key = np.zeros(16, dtype=np.int64)
    task_parent = np.full(16, -1, dtype=np.int64)
    task_weight = np.zeros(16)
    task_linked = np.zeros(16, dtype=np.bool_)
    task_rows[0, 1] = rows.shape[0]
    task_columns[0, 1] = columns.shape[0]
    task_key[0] = key
    task_weight[0] = log_weight
    n_tasks = 1
    while n_tasks > 0:
        n_tasks -= 1
        row_top, column_top = task_rows[n_tasks, 0], task_columns[n_tasks, 0]
        inside = row_pool[row_top : task_rows[n_tasks, 1]].copy()
        scope = column_pool[column_top : task_columns[n_tasks, 1]].copy()
        own_key, above = task_key[n_tasks], task_parent[n_tasks]
        weight = task_weight[n_tasks]
        p = scope.shape[0]
        linked = task_linked[n_tasks]
        if not linked:
            groups, n_groups, ptr, states, total = dependent_groups(
                codes, inside, scope, sizes, weights, factor, xlogx
            )
            if total <= min_rows or inside.shape[0] < 2:
                groups[:] = -1
                n_groups = 0
            n_alone = 0
            for j in range(p):
                n_alone += groups[j] < 0
            linked = n_groups == 1 and n_alone == 0
            if not linked:
                n_parts = n_groups + (n_alone > 0)
                if n_parts > 1:
                    kind = with_room(kind, n_nodes + 1)
                    parent = with_room(parent, n_nodes + 1)
                    edge = with_room(edge, n_nodes + 1)
                    column_ptr = with_room(column_ptr, n_nodes + 2)
                    kind[n_nodes] = PRODUCT
                    parent[n_nodes] = above
                    edge[n_nodes] = weight
                    column_ptr[n_nodes + 1] = n_columns
                    above = n_nodes
                    weight = 0.0
                    n_nodes += 1
                if n_alone > 0:
                    kind = with_room(kind, n_nodes + 1)
                    parent = with_room(parent, n_nodes + 1)
                    edge = with_room(edge, n_nodes + 1)
                    column_ptr = with_room(column_ptr, n_nodes + 2)
                    column = with_room(column, n_columns + n_alone)
                    kind[n_nodes] = LEAF
                    parent[n_nodes] = above
                    edge[n_nodes] = weight
                    counts = with_room(counts, n_counts + ptr[p])
                    for j in range(p):
                        if groups[j] < 0:
                            column[n_columns] = scope[j]
                            n_columns += 1
                            for c in range(ptr[j], ptr[j + 1]):
                                counts[n_counts] = states[c]
                                n_counts += 1
                    column_ptr[n_nodes + 1] = n_columns
                    n_nodes += 1
                for g in range(n_groups - 1, -1, -1):
                    if n_tasks == task_key.shape[0]:
                        task_rows = np.concatenate((task_rows, task_rows))
                        task_columns = np.concatenate((task_columns, task_columns))
                        task_key = np.concatenate((task_key, task_key))
                        task_parent = np.concatenate((task_parent, task_parent))
                        task_weight = np.concatenate((task_weight, task_weight))
                        task_linked = np.concatenate((task_linked, task_linked))
                    row_pool = with_room(row_pool, row_top + inside.shape[0])
                    row_pool[row_top : row_top + inside.shape[0]] = inside
                    task_rows[n_tasks, 0] = row_top
                    row_top += inside.shape[0]
                    task_rows[n_tasks, 1] = row_top
                    column_pool = with_room(column_pool, column_top + p)
                    task_columns[n_tasks, 0] = column_top
                    for j in range(p):
                        if groups[j] == g:
                            column_pool[column_top] = scope[j]
                            column_top += 1
                    task_columns[n_tasks, 1] = column_top
                    task_key[n_tasks] = derive(own_key, _GROUPS + g)
                    task_parent[n_tasks] = above
                    task_weight[n_tasks] = weight
                    task_linked[n_tasks] = True
                    n_tasks += 1
                continue
            own_key = derive(own_key, _GROUPS)

        # Columns that hang together: a sum over clusters of the rows. A sum below a sum is merged
        # with it.
        if above >= 0 and kind[above] == PRODUCT:
            kind = with_room(kind, n_nodes + 1)
            parent = with_room(parent, n_nodes + 1)
            edge = with_room(edge, n_nodes + 1)
            column_ptr = with_room(column_ptr, n_nodes + 2)
            kind[n_nodes] = SUM
            parent[n_nodes] = above
            edge[n_nodes] = 0.0
            column_ptr[n_nodes + 1] = n_columns
            above = n_nodes
            weight = 0.0
            n_nodes += 1
        data = read_rows(codes, inside, scope, sizes, weights, logs)
        labels, n_clusters = best_clusters(
            data, cluster_penalty, n_restarts, own_key, max_clusters, reset_price
        )
        whole = data.weight.sum()
        for c in range(n_clusters - 1, -1, -1):
            if n_tasks == task_key.shape[0]:
                task_rows = np.concatenate((task_rows, task_rows))
                task_columns = np.concatenate((task_columns, task_columns))
                task_key = np.concatenate((task_key, task_key))
                task_parent = np.concatenate((task_parent, task_parent))
                task_weight = np.concatenate((task_weight, task_weight))
                task_linked = np.concatenate((task_linked, task_linked))
            row_pool = with_room(row_pool, row_top + inside.shape[0])
            task_rows[n_tasks, 0] = row_top
            mass = 0.0
            for i in range(inside.shape[0]):
                if labels[i] == c:
                    row_pool[row_top] = inside[i]
                    row_top += 1
                    mass += data.weight[i]
            task_rows[n_tasks, 1] = row_top
            column_pool = with_room(column_pool, column_top + p)
            column_pool[column_top : column_top + p] = scope
            task_columns[n_tasks, 0] = column_top
            column_top += p
            task_columns[n_tasks, 1] = column_top
            task_key[n_tasks] = derive(own_key, c)
            task_parent[n_tasks] = above
            task_weight[n_tasks] = weight + np.log(mass / whole)
            task_linked[n_tasks] = False
            n_tasks += 1
    return (
        kind[:n_nodes], parent[:n_nodes], edge[:n_nodes], column_ptr[: n_nodes + 1],
        column[:n_columns], counts[:n_counts],
    )  # fmt: skip


@kernel
def count_leaf(codes, rows, columns, sizes, weights):
    """Counts of the states of some columns, end to end."""
    return count_states(codes, rows, columns, sizes, weights)[1]


@dataclass(frozen=True)
class SPNLearner:
    """Settings of LearnSPN; see `bayescut.estimators.LearnSPN`.

    Parameters
    ----------
    cluster_penalty, g_factor : float
        Price of a cluster for each column, factor of the test.
    min_rows : int
        A slice of this many rows or fewer has independent columns.
    n_restarts, max_clusters : int
        Restarts of a clustering, most clusters of it.
    reset_price : bool
        Begin every restart with the full price of a cluster.
    seed : int
        Source of the orders of rows.
    """

    cluster_penalty: float = 0.6
    g_factor: float = 10.0
    min_rows: int = 4
    n_restarts: int = 10
    max_clusters: int = 2000
    reset_price: bool = False
    seed: int = 0

    def root_labels(
        self,
        codes: CodeArray,
        rows: IntArray,
        sizes: IntArray,
        weights: FloatArray,
        n_jobs: int = 1,
    ) -> tuple[IntArray, int]:
        """Clusters of the root, which do not depend on the factor of the test.

        Restarts run side by side with the price that the first one begins with; those after one
        that has halved it are run again, so that threads change nothing.
        """
        data = _read(codes, rows, np.arange(codes.shape[1]), sizes, weights)
        start, penalty = first_price(data, self.cluster_penalty)
        key = self._root_key
        price = start

        def restart(number: int) -> tuple[IntArray, int, float, float]:
            own = derive(key, number)
            return cluster_once(data, price, penalty, own, self.max_clusters)

        best: tuple[float, IntArray, int] | None = None
        done = 0
        with ThreadPoolExecutor(n_jobs) as executor:
            while done < self.n_restarts:
                stop = min(self.n_restarts, done + (n_jobs if not self.reset_price else 10**6))
                for found in list(executor.map(restart, range(done, stop))):
                    labels, size, after, value = found
                    done += 1
                    if best is None or value > best[0] + 1e-9:
                        best = value, labels, size
                    if after != price and not self.reset_price:
                        price = after
                        break
        if best is None:
            raise ValueError("at least one restart is needed")
        return best[1], best[2]

    @property
    def _root_key(self) -> int:
        return derive(self.seed % 2**63, 0)

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        weights: FloatArray | None = None,
        *,
        rows: IntArray | None = None,
        clusters: tuple[IntArray, int] | None = None,
        n_jobs: int = 1,
        settled: Callable[[int], None] | None = None,
    ) -> Grown:
        """Learn a structure with its counts from complete codes.

        Parameters
        ----------
        codes : array of shape (N, m)
            Complete codes.
        sizes : int64 array of shape (m,)
            Numbers of states.
        weights : float64 array of shape (N,), optional
            Positive weights of the rows that are learned from.
        rows : int32 array, optional
            The rows to learn from.
        clusters : optional
            What `root_labels` has found.
        n_jobs : int
            Threads; the result does not depend on it.
        settled : callable, optional
            Hears how many more rows of the root are done.
        """
        if rows is None:
            rows = np.arange(len(codes), dtype=np.int32)
        weight = np.empty(0) if weights is None else np.asarray(weights, dtype=np.float64)
        sizes = np.array(sizes, dtype=np.int64)
        columns = np.arange(codes.shape[1])
        mass = weight[rows] if len(weight) else np.ones(len(rows))
        if len(columns) == 1 or mass.sum() <= self.min_rows or len(rows) < 2:
            counts = count_leaf(codes, rows, columns, sizes, weight)
            return Grown(
                np.array([LEAF], dtype=np.int8),
                np.array([-1], dtype=np.int32),
                np.zeros(1),
                np.array([0, len(columns)]),
                columns.astype(np.int32),
                counts,
            )
        if clusters is None:
            clusters = self.root_labels(codes, rows, sizes, weight, n_jobs)
        labels, n_clusters = clusters
        logs, xlogx = _log_table(len(rows), weight), _xlogx_table(len(rows), weight)

        def below(c: int) -> tuple[IntArray, ...]:
            inside = labels == c
            part = grow_below(
                codes, rows[inside], columns, sizes, weight, logs, xlogx,
                np.log(mass[inside].sum() / mass.sum()), derive(self._root_key, c),
                float(self.g_factor), float(self.cluster_penalty), float(self.min_rows),
                self.n_restarts, self.max_clusters, self.reset_price,
            )  # fmt: skip
            if settled is not None:
                settled(int(inside.sum()))
            return part

        order = np.argsort(-np.bincount(labels, minlength=n_clusters), kind="stable").tolist()
        with ThreadPoolExecutor(n_jobs) as executor:
            found = dict(zip(order, executor.map(below, order), strict=True))
        return _under_one_sum([found[c] for c in range(n_clusters)])


def _read(
    codes: CodeArray, rows: IntArray, columns: IntArray, sizes: IntArray, weights: FloatArray
) -> Rows:
    logs = _log_table(len(rows), weights)
    return read_rows(codes, rows, columns, np.array(sizes, dtype=np.int64), weights, logs)


def _log_table(n: int, weights: FloatArray) -> FloatArray:
    return np.log(np.arange(n + 1) + SMOOTHING) if len(weights) == 0 else np.empty(0)


def _xlogx_table(n: int, weights: FloatArray) -> FloatArray:
    if len(weights):
        return np.empty(0)
    k = np.arange(n + 1, dtype=np.float64)
    return k * np.log(np.maximum(k, 1.0))


def _under_one_sum(parts: list[tuple[IntArray, ...]]) -> Grown:
    """Put the trees of the root's clusters under the root."""
    kind, parent, edge = [np.array([SUM], np.int8)], [np.array([-1], np.int32)], [np.zeros(1)]
    widths, column, counts = [np.zeros(1, np.int64)], [], []
    first = 1
    for part in parts:
        kind.append(part[0])
        parent.append(np.where(part[1] < 0, 0, part[1] + first).astype(np.int32))
        edge.append(part[2])
        widths.append(np.diff(part[3]))
        column.append(part[4])
        counts.append(part[5])
        first += len(part[0])
    column_ptr = np.concatenate([[0], np.cumsum(np.concatenate(widths))]).astype(np.int64)
    return Grown(
        np.concatenate(kind),
        np.concatenate(parent),
        np.concatenate(edge),
        column_ptr,
        np.concatenate(column),
        np.concatenate(counts),
    )
