r"""Trees of cuts that are chosen for one column, and their exact answers when cells are missing.

Networks that explain whole rows spend their cuts on all columns; these spend them on one, the
*target*. Every tree is a deterministic circuit of all columns: decisions along the tree, and in a
leaf independent columns,

.. math:: p(x, y) = \sum_\ell w_\ell \, p(y \mid \ell) \prod_j p(x_j \mid \ell),

where :math:`p(x_j \mid \ell)` is the column's distribution in the nearest node above that has
enough rows (a *block*), restricted to the states that lead to the leaf. With all features known one
leaf is left, as in any tree; where some are missing the leaves they could lead to are weighted by
what the others say, which is marginalisation in that circuit and no filling in. Correia, Peharz and
de Campos (2020) made such densities of random forests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

from bayescut._jobs import side_by_side
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domains, missing_code
from bayescut.data.table import Table
from bayescut.learn.cells._targeted import posteriors, settle_tree

__all__ = ["ForestLearner", "TargetForest", "table_cells"]

# Rows of a block at least: the columns of fewer rows tell little of where a row belongs.
_BLOCK_ROWS = 20.0
# Rows that a node's table of the target is given in advance, spread as its parent's.
_PRIOR_ROWS = 1.0
# Rows that a column's table in a block is given in advance, spread as in the whole table.
_BLOCK_PRIOR = 2.0
# States of a number that a row of a block counts for, as a share of all: a triangle around its own.
_SPREAD = 1 / 8
# The same for the target's tables: unseen rows choose among these.
_TARGET_SPREADS = (0.0, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
# No state is thought less likely when they do.
_LEAST = 1e-13
# Rows asked about at once in one thread.
_ROWS = 2048


@dataclass(frozen=True, eq=False)
class TargetForest:
    """Trees for one column of a table.

    Parameters
    ----------
    target : int
        The column.
    sizes : int64 array of shape (m,)
        Numbers of states of all columns.
    rank : uint16 array of shape (n_trees, sum of sizes)
        Order in which each tree sees the states of each column.
    root : int32 array of shape (n_trees,)
        Roots of the trees among all nodes.
    column, threshold, left, right : int32 arrays of shape (n_nodes,)
        States of rank below the threshold go left; the column of a leaf is -1.
    log_weight : float64 array of shape (n_nodes,)
        Log share of a node's rows in its parent's.
    log_range : float64 array of shape (n_nodes,)
        Below the root of a block: log share that the states of a node's range have in its parent's
        range, by the block's table of the column its parent is cut by.
    block : int32 array of shape (n_nodes,)
        Row of ``block_table`` that begins here, or -1.
    leaf : int32 array of shape (n_nodes,)
        Row of ``leaf_table``, or -1.
    block_table : float32 array of shape (n_blocks, sum of sizes)
        Log-probabilities of the states of the columns.
    leaf_table : float32 array of shape (n_leaves, K)
        Probabilities of the target's states. Tables are most of what a forest takes, and are known
        from a few rows: half the bytes are enough.
    """

    target: int
    sizes: IntArray
    rank: IntArray
    root: IntArray
    column: IntArray
    threshold: IntArray
    left: IntArray
    right: IntArray
    log_weight: FloatArray
    log_range: FloatArray
    block: IntArray
    leaf: IntArray
    block_table: FloatArray
    leaf_table: FloatArray

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype))
        _check(self)

    def state(self) -> dict[str, Any]:
        """Return what a file holds of the forest: files know no single precision."""
        wide = {
            name: getattr(self, name).astype(np.float64)
            for name, dtype in _DTYPES.items()
            if dtype is np.float32
        }
        return {name: getattr(self, name) for name in ("target", *_DTYPES)} | wide

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TargetForest:
        """Read what `state` returned, trusting nothing."""
        if set(state) != {"target", *_DTYPES} or type(state["target"]) is not int:
            raise ValueError("this does not describe trees for a column")
        return cls(**state)

    @classmethod
    def join(cls, forests: Sequence[TargetForest]) -> TargetForest:
        """Return all trees of forests for the same column as one."""
        grown = [{n: getattr(f, n) for n in _DTYPES if n != "sizes"} for f in forests]
        return _joined(grown, forests[0].target, forests[0].sizes)

    def spread(self, table: Table, rows: IntArray, hidden: CodeArray | None = None) -> TargetForest:
        """Spread the leaves' tables of a number over neighbouring cells as suits other rows best.

        Leaves of few rows know few of a number's cells. How far each counts for its neighbours is
        chosen by the likelihood of rows that the trees have not seen.

        Parameters
        ----------
        table : Table
            The table of the trees.
        rows : int array
            Rows whose target is observed and that the trees were not learned from.
        hidden : array of shape (n_rows, m), optional
            These rows as the trees are to see them, if not as they are.
        """
        if table.domains[self.target].grid is None or not len(rows):
            return self
        found = self.proba(table.codes[rows] if hidden is None else hidden)
        state = table.codes[rows, self.target].astype(np.int64)[:, None]
        weights = table.all_weights[rows]
        best, best_score = self, -np.inf
        for share in _TARGET_SPREADS:
            kernel = _triangle(found.shape[1], share)
            own = np.take_along_axis(found @ kernel, state, axis=1)[:, 0]
            score = float(weights @ np.log(np.maximum(own, _LEAST)))
            if score > best_score:
                best_score = score
                best = replace(self, leaf_table=self.leaf_table @ kernel)
        return best

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    def proba(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Probabilities of the target's states given the other columns, averaged over the trees.

        Parameters
        ----------
        codes : array of shape (n, m)
            Rows; missing cells are marginalised, and the target's are not looked at.
        n_jobs : int
            Threads.
        """
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        mark = missing_code(codes.dtype)
        deepest = int(np.diff(np.append(self.root, len(self.column))).max())

        def ask(begin: int) -> FloatArray:
            rows = np.ascontiguousarray(codes[begin : begin + _ROWS])
            out = np.zeros((len(rows), self.leaf_table.shape[1]))
            posteriors(
                rows, mark, self.target, offsets, self.rank, self.root, self.column,
                self.threshold, self.left, self.right, self.log_weight, self.log_range,
                self.block, self.leaf, self.block_table, self.leaf_table, deepest, out,
            )  # fmt: skip
            return out

        parts = side_by_side(ask, range(0, len(codes), _ROWS), n_jobs)
        found = np.concatenate(parts) if parts else np.zeros((0, self.leaf_table.shape[1]))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def circuit(self, tree: int, domains: Domains) -> Circuit:
        """Return a tree as a circuit of all columns."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(int)
        rank = self.rank[tree]

        def grow(node: int, block: int, low: IntArray, high: IntArray) -> build.Node:
            block = int(self.block[node]) if self.block[node] >= 0 else block
            j = int(self.column[node])
            if j < 0:
                own = self.leaf_table[self.leaf[node]].astype(np.float64)
                parts = [build.categorical(self.target, own / own.sum())]
                for v in range(len(self.sizes)):
                    if v != self.target:
                        here = slice(offsets[v], offsets[v + 1])
                        inside = (rank[here] >= low[v]) & (rank[here] < high[v])
                        if inside.sum() == 1 < self.sizes[v]:
                            continue  # a cut has settled it
                        p = np.exp(self.block_table[block, here].astype(np.float64))[inside]
                        local = np.where(inside, np.cumsum(inside) - 1, -1).tolist()
                        parts.append(build.categorical(v, p / p.sum(), build.View(local)))
                return build.product(*parts)
            own = rank[offsets[j] : offsets[j + 1]]
            children, weights, branches = [], [], []
            for child, side in ((self.left[node], 0), (self.right[node], 1)):
                lo, hi = low.copy(), high.copy()
                if side == 0:
                    hi[j] = self.threshold[node]
                else:
                    lo[j] = self.threshold[node]
                states = np.flatnonzero((own >= lo[j]) & (own < hi[j]))
                children.append(grow(int(child), block, lo, hi))
                weights.append(float(np.exp(self.log_weight[child])))
                branches.append(states.tolist())
            return build.decision(j, weights, *children, branches=branches)

        begin = np.zeros(len(self.sizes), dtype=np.int64)
        return build.circuit(grow(int(self.root[tree]), -1, begin, self.sizes.copy()), domains)


def table_cells(n_rows: int, target: int, sizes: IntArray) -> float:
    """Numbers in the tables of a tree, at most."""
    return float(n_rows) * float(sizes[target]) + n_rows / _BLOCK_ROWS * float(sizes.sum())


@dataclass(frozen=True)
class ForestLearner:
    """Learns trees for one column of a complete table.

    Cuts are drawn: for every column a random threshold between the states that occur, and the one
    that tells most of the target is taken (extremely randomised trees, Geurts et al. 2006). So
    trees differ though they see the same rows.

    Parameters
    ----------
    n_trees : int
        Trees of a forest.
    least_rows : float
        Weight of a leaf's rows at least.
    """

    n_trees: int = 8
    least_rows: float = 3.0

    def learn(self, table: Table, target: int, rng: np.random.Generator) -> TargetForest:
        """Learn a forest.

        Parameters
        ----------
        table : Table
            Complete rows.
        target : int
            The column.
        rng : numpy.random.Generator
            Draws the cuts.
        """
        codes, weights = table.codes, table.all_weights
        sizes = table.sizes.astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        domain = table.domains[target]
        label = codes[:, target].astype(np.int64)
        number = np.arange(domain.n_states, dtype=np.float64)
        if domain.grid is not None:
            number = domain.grid.mean
        y = number[label] if domain.grid is not None else label
        usual, kernels = _usual(table, offsets)
        smallest = min(0.5, self.least_rows / weights.sum())
        grown: list[dict[str, Any]] = []
        for _ in range(self.n_trees):
            rank = _order(table, offsets, label, number, weights, domain.grid is not None, rng)
            ranks = np.empty(codes.shape, dtype=np.float32)
            for j in range(len(sizes)):
                ranks[:, j] = rank[offsets[j] : offsets[j + 1]][codes[:, j]]
            ranks[:, target] = 0.0
            seed = int(rng.integers(2**31))
            kind = ExtraTreeClassifier if domain.grid is None else ExtraTreeRegressor
            model = kind(max_features=1.0, min_weight_fraction_leaf=smallest, random_state=seed)
            # What is handed over is known to be right; checking it takes as long as a small tree.
            with config_context(assume_finite=True, skip_parameter_validation=True):
                tree = model.fit(ranks, y, sample_weight=weights).tree_
            # Thresholds lie between whole ranks.
            threshold = np.floor(tree.threshold).astype(np.int32) + 1
            grown.append(
                settle_tree(
                    tree.children_left.astype(np.int32),
                    tree.children_right.astype(np.int32),
                    np.where(tree.children_left < 0, -1, tree.feature).astype(np.int32),
                    threshold,
                    tree.apply(ranks).astype(np.int32),
                    np.ascontiguousarray(codes),
                    weights,
                    target,
                    sizes,
                    rank,
                    usual,
                    kernels,
                    _BLOCK_ROWS,
                    _BLOCK_PRIOR,
                    _PRIOR_ROWS,
                )
                | {"rank": rank[None], "root": np.zeros(1, dtype=np.int32)}
            )
        return _joined(grown, target, sizes)


def _usual(table: Table, offsets: IntArray) -> tuple[FloatArray, list[FloatArray | None]]:
    """Shares of all states in the table, and how the rows of a number's cell count for others."""
    usual = np.zeros(offsets[-1])
    kernels: list[FloatArray | None] = []
    weights = table.all_weights
    for j, domain in enumerate(table.domains):
        n = domain.n_states
        counts = np.bincount(table.codes[:, j], weights, minlength=n)
        kernel = None
        if domain.grid is not None and n > 2:
            kernel = _triangle(n, _SPREAD)
        kernels.append(kernel)
        usual[offsets[j] : offsets[j + 1]] = (counts + 1.0 / n) / (counts.sum() + 1.0)
    return usual, kernels


def _triangle(n: int, share: float) -> FloatArray:
    """How much a row in one of n ordered states counts for others, rows sum to one."""
    away = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    kernel = np.maximum(0.0, 1.0 - away / max(1.0, share * n))
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def _order(
    table: Table,
    offsets: IntArray,
    label: IntArray,
    number: FloatArray,
    weights: FloatArray,
    by_mean: bool,
    rng: np.random.Generator,
) -> IntArray:
    """Order in which a tree sees the states: cells as they are, labels by what they say of y."""
    rank = np.empty(offsets[-1], dtype=np.uint16)
    chosen = int(rng.integers(len(number)))
    if by_mean:
        worth = number[label]
    else:
        worth = (label == (1 if len(number) == 2 else chosen)).astype(np.float64)
    mean = float(np.average(worth, weights=weights))
    for j, domain in enumerate(table.domains):
        n = domain.n_states
        here = slice(offsets[j], offsets[j + 1])
        if domain.grid is not None or n <= 2:
            rank[here] = np.arange(n)
            continue
        total = np.bincount(table.codes[:, j], weights, minlength=n)
        above = np.bincount(table.codes[:, j], weights * worth, minlength=n)
        share = (above + mean) / (total + 1.0)
        order = np.lexsort((rng.random(n), share))
        rank[here][order] = np.arange(n)
    return rank


def _joined(grown: Sequence[dict[str, Any]], target: int, sizes: IntArray) -> TargetForest:
    """Put trees, or forests, into one forest."""
    parts: dict[str, list[Any]] = {}
    nodes, blocks, leaves = 0, 0, 0
    for tree in grown:
        shift = {"left": nodes, "right": nodes, "root": nodes, "block": blocks, "leaf": leaves}
        for name, array in tree.items():
            if name in shift:
                array = np.where(array < 0, -1, array + shift[name]).astype(np.int32)
            parts.setdefault(name, []).append(array)
        nodes += len(tree["column"])
        blocks += len(tree["block_table"])
        leaves += len(tree["leaf_table"])
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return TargetForest(target=target, sizes=sizes, **joined)


_DTYPES: dict[str, type] = {
    "sizes": np.int64,
    "rank": np.uint16,
    "root": np.int32,
    "column": np.int32,
    "threshold": np.int32,
    "left": np.int32,
    "right": np.int32,
    "log_weight": np.float64,
    "log_range": np.float64,
    "block": np.int32,
    "leaf": np.int32,
    "block_table": np.float32,
    "leaf_table": np.float32,
}


def _check(forest: TargetForest) -> None:
    """Refuse arrays that would lead a kernel out of them."""
    sizes, column, leaf, block = forest.sizes, forest.column, forest.leaf, forest.block
    n, m = len(column), len(sizes)
    if not 0 <= forest.target < m or sizes.ndim != 1 or not (sizes >= 1).all():
        raise ValueError("the trees of a column that does not exist")
    one = ("threshold", "left", "right", "log_weight", "log_range", "block", "leaf")
    if column.ndim != 1 or any(getattr(forest, name).shape != (n,) for name in one):
        raise ValueError("the nodes of trees are not all described")
    total = int(sizes.sum())
    if forest.rank.shape != (len(forest.root), total) or not len(forest.root):
        raise ValueError("the trees do not say how they see the states")
    tables = forest.block_table.ndim == forest.leaf_table.ndim == 2
    if not tables or forest.block_table.shape[1] != total:
        raise ValueError("the tables of trees do not fit the columns")
    if forest.leaf_table.shape[1] != sizes[forest.target]:
        raise ValueError("the tables of trees do not fit their target")
    if not (np.isfinite(forest.leaf_table).all() and (forest.leaf_table >= 0).all()):
        raise ValueError("a leaf of a tree has no probabilities")
    logs = (forest.log_weight, forest.log_range, forest.block_table)
    if any(np.isnan(array).any() or (array == np.inf).any() for array in logs):
        raise ValueError("a tree has weights that are no numbers")
    if forest.root[0] != 0 or (np.diff(forest.root) <= 0).any() or forest.root[-1] >= n:
        raise ValueError("the roots of trees are out of order")
    end = np.append(forest.root[1:], n)[np.searchsorted(forest.root, np.arange(n), "right") - 1]
    inner = column >= 0
    at = np.arange(n)
    for side in (forest.left[inner], forest.right[inner]):
        if ((side <= at[inner]) | (side >= end[inner])).any():
            raise ValueError("the nodes of a tree are out of order")
    if (column >= m).any() or (column[inner] == forest.target).any():
        raise ValueError("a tree is cut by a column that it must not look at")
    if ((leaf[~inner] < 0) | (leaf[~inner] >= len(forest.leaf_table))).any():
        raise ValueError("a leaf of a tree has no table")
    if (block >= len(forest.block_table)).any():
        raise ValueError("a block of a tree has no table")
