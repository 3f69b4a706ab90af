"""Kernels of trees for one column: their tables, and their answers for rows with missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray


@kernel
def posteriors(
    codes,
    mark,
    target,
    offsets,
    rank,
    root,
    column,
    threshold,
    left,
    right,
    log_weight,
    log_range,
    block,
    leaf,
    block_table,
    leaf_table,
    deepest,
    out,
):
    """Add p(target | other columns) of every tree to the rows of ``out``."""
    n, m = codes.shape
    known = np.empty(m, dtype=np.int64)
    stack = np.empty(deepest, dtype=np.int32)
    so_far = np.empty(deepest)
    reached = np.empty(deepest, dtype=np.int32)
    score = np.empty(deepest)
    for row in range(n):
        n_known = 0
        for j in range(m):
            if j != target and codes[row, j] != mark:
                known[n_known] = j
                n_known += 1
        for tree in range(len(root)):
            n_reached = 0
            top = 1
            stack[0] = root[tree]
            so_far[0] = 0.0
            while top > 0:
                top -= 1
                node = stack[top]
                value = so_far[top]
                if block[node] >= 0 and n_known < m - 1:
                    b = block[node]
                    for k in range(n_known):
                        j = known[k]
                        value += block_table[b, offsets[j] + codes[row, j]]
                j = column[node]
                if j < 0:
                    reached[n_reached] = leaf[node]
                    score[n_reached] = value
                    n_reached += 1
                elif codes[row, j] != mark:
                    child = left[node]
                    if rank[tree, offsets[j] + codes[row, j]] >= threshold[node]:
                        child = right[node]
                    stack[top] = child
                    so_far[top] = value + log_weight[child] - log_range[child]
                    top += 1
                else:
                    for child in (right[node], left[node]):
                        stack[top] = child
                        so_far[top] = value + log_weight[child]
                        top += 1
            if n_reached == 1:
                for k in range(out.shape[1]):
                    out[row, k] += leaf_table[reached[0], k]
                continue
            best = score[0]
            for i in range(1, n_reached):
                best = max(best, score[i])
            total = 0.0
            for i in range(n_reached):
                score[i] = np.exp(score[i] - best)
                total += score[i]
            for i in range(n_reached):
                share = score[i] / total
                if share > 0.0:
                    for k in range(out.shape[1]):
                        out[row, k] += share * leaf_table[reached[i], k]


@kernel
def _count(left, right, row_leaf, codes, weights, target, n_target, prior_rows):
    """Weights of all nodes, and the tables of the target, shrunken towards the parents'."""
    n_nodes = len(left)
    mass = np.zeros(n_nodes)
    table = np.zeros((n_nodes, n_target))
    for row in range(len(codes)):
        mass[row_leaf[row]] += weights[row]
        table[row_leaf[row], codes[row, target]] += weights[row]
    # Children stand behind their parents.
    for node in range(n_nodes - 1, -1, -1):
        if left[node] >= 0:
            for child in (left[node], right[node]):
                mass[node] += mass[child]
                for k in range(n_target):
                    table[node, k] += table[child, k]
    for k in range(n_target):
        table[0, k] = (table[0, k] + 1.0 / n_target) / (mass[0] + 1.0)
    for node in range(n_nodes):
        if left[node] >= 0:
            for child in (left[node], right[node]):
                for k in range(n_target):
                    table[child, k] = (table[child, k] + prior_rows * table[node, k]) / (
                        mass[child] + prior_rows
                    )
    return mass, table


@kernel
def _blocks(left, right, mass, least):
    """Root of the block that each node lies in, -1 above all blocks."""
    root = np.full(len(left), -1, dtype=np.int32)
    for node in range(len(left)):
        if root[node] < 0:
            if left[node] < 0 or mass[left[node]] < least or mass[right[node]] < least:
                root[node] = node
        if root[node] >= 0 and left[node] >= 0:
            root[left[node]] = root[node]
            root[right[node]] = root[node]
    return root


@kernel
def _block_counts(row_leaf, root, place, codes, weights, offsets, n_blocks):
    counts = np.zeros((n_blocks, offsets[-1]))
    for row in range(len(codes)):
        b = place[root[row_leaf[row]]]
        for j in range(codes.shape[1]):
            counts[b, offsets[j] + codes[row, j]] += weights[row]
    return counts


@kernel
def _ranges(left, right, column, threshold, root, place, rank, sizes, offsets, table, log_range):
    """Restrict the tables of blocks to their ranges, and find the shares of the nodes' ranges."""
    n_nodes, m = len(left), len(sizes)
    low = np.zeros((n_nodes, m), dtype=np.int32)
    high = np.zeros((n_nodes, m), dtype=np.int32)
    for j in range(m):
        high[0, j] = sizes[j]
    for node in range(n_nodes):
        if root[node] == node:
            b = place[node]
            for j in range(m):
                total = 0.0
                for state in range(offsets[j], offsets[j + 1]):
                    inside = low[node, j] <= rank[state] and rank[state] < high[node, j]
                    table[b, state] = table[b, state] if inside else 0.0
                    total += table[b, state]
                for state in range(offsets[j], offsets[j + 1]):
                    table[b, state] /= total
        if left[node] < 0:
            continue
        j = column[node]
        for child in (left[node], right[node]):
            for v in range(m):
                low[child, v] = low[node, v]
                high[child, v] = high[node, v]
            if child == left[node]:
                high[child, j] = threshold[node]
            else:
                low[child, j] = threshold[node]
            if root[node] >= 0:
                b = place[root[node]]
                above = 0.0
                below = 0.0
                for state in range(offsets[j], offsets[j + 1]):
                    if low[node, j] <= rank[state] and rank[state] < high[node, j]:
                        above += table[b, state]
                    if low[child, j] <= rank[state] and rank[state] < high[child, j]:
                        below += table[b, state]
                log_range[child] = np.log(below / above)


def settle_tree(
    left: IntArray,
    right: IntArray,
    column: IntArray,
    threshold: IntArray,
    row_leaf: IntArray,
    codes: CodeArray,
    weights: FloatArray,
    target: int,
    sizes: IntArray,
    rank: IntArray,
    usual: FloatArray,
    kernels: list[FloatArray | None],
    block_rows: float,
    block_prior: float,
    prior_rows: float,
) -> dict[str, Any]:
    """Give a tree its tables from the rows it was grown from.

    Parameters
    ----------
    left, right, column, threshold : int32 arrays of shape (n_nodes,)
        The tree; children of leaves are -1.
    row_leaf : int32 array of shape (n,)
        Leaf of each row.
    codes, weights
        The rows.
    target, sizes, rank
        As in `TargetForest`.
    usual : float64 array of shape (sum of sizes,)
        Shares of the states in all rows.
    kernels : list of float64 arrays or None
        For each column, how much a row in one state counts for others.
    block_rows, block_prior, prior_rows : float
        Least weight of a block; rows in advance for its tables, and for those of the target.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mass, table = _count(
        left, right, row_leaf, codes, weights, target, int(sizes[target]), prior_rows
    )
    root = _blocks(left, right, mass, block_rows)
    roots = np.flatnonzero(root == np.arange(len(root)))
    place = np.full(len(left), -1, dtype=np.int32)
    place[roots] = np.arange(len(roots))
    blocks = _block_counts(row_leaf, root, place, codes, weights, offsets, len(roots))
    for j, spread in enumerate(kernels):
        if spread is not None:
            here = slice(offsets[j], offsets[j + 1])
            blocks[:, here] = blocks[:, here] @ spread
    blocks += block_prior * usual
    log_range = np.zeros(len(left))
    _ranges(left, right, column, threshold, root, place, rank, sizes, offsets, blocks, log_range)
    log_weight = np.zeros(len(left))
    inner = np.flatnonzero(left >= 0)
    for side in (left, right):
        log_weight[side[inner]] = np.log(mass[side[inner]] / mass[inner])
    leaves = np.flatnonzero(left < 0)
    leaf = np.full(len(left), -1, dtype=np.int32)
    leaf[leaves] = np.arange(len(leaves))
    with np.errstate(divide="ignore"):
        block_table = np.log(blocks)
    return {
        "left": left,
        "right": right,
        "column": column,
        "threshold": threshold,
        "log_weight": log_weight,
        "log_range": log_range,
        "block": place,
        "leaf": leaf,
        "block_table": block_table,
        "leaf_table": table[leaves],
    }
