"""Leaves for a network of cuts: fitted at every node, kept where they beat the cuts below.

Where a node has smooth numbers of which no cut has ruled out any, they may be a Gaussian leaf
beside a leaf of the other columns, if the score prefers that to a leaf of all columns in cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayescut._jobs import side_by_side
from bayescut._typing import IntArray
from bayescut.data.table import Table
from bayescut.learn.cutset.settled import Settled
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.learn.leaves.leaf import Leaf, LeafFit, NormalLeaf
from bayescut.learn.leaves.normal import NormalLeaves

# Rows of a node that is fitted by itself, for the memory of its packed rows.
_MANY_ROWS = 2**19


class Beside(NamedTuple):
    """A Gaussian leaf beside a leaf of the other columns, if there are any."""

    score: float
    normal: NormalLeaf
    normal_score: float
    rest: LeafFit | None


def fit_leaves(
    root: Settled,
    table: Table,
    rows: IntArray,
    leaves: JunctionLeaves,
    n_jobs: int = 1,
    merge: bool = False,
    normals: NormalLeaves | None = None,
) -> None:
    """Give a network its leaves, and prune it bottom-up.

    Every node gets the best leaf there is. A cut, or a product, is kept only where it and what lies
    below it score better than the leaf in its place; ties go to the leaf.

    Parameters
    ----------
    root : Settled
        A network of cuts and products; changed in place.
    table : Table
        What it was learned from.
    rows : int32 array
        The rows it was learned from.
    leaves : JunctionLeaves
        Makes the leaves.
    n_jobs : int
        Threads; nodes are fitted side by side.
    merge : bool
        Let the families of the leaves that stay see states of their parents in groups.
    normals : NormalLeaves, optional
        Makes Gaussian leaves, where they are worth more.
    """
    jobs: list[tuple[Settled, IntArray]] = []
    stack = [(root, rows)]
    while stack:
        node, inside = stack.pop()
        jobs.append((node, inside))
        for branch, child in enumerate(node.children):
            stack.append((child, node.rows_of(branch, inside, table.codes)))

    def fit_leaf(i: int) -> LeafFit | Beside:
        node, inside = jobs[i]
        fit = leaves.fit(table, inside, node.columns, node.ess, node.n_choices, node.states)
        if normals is None or len(inside) == 0:
            return fit
        beside = fit_beside(node, table, inside, leaves, normals)
        return fit if beside is None or beside.score <= fit.score else beside

    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1]))
    # A node of very many rows is fitted by itself: one at a time is packed, not several.
    large = sum(len(jobs[i][1]) > _MANY_ROWS for i in order)
    found = [fit_leaf(i) for i in order[:large]] + side_by_side(fit_leaf, order[large:], n_jobs)
    fits = {id(jobs[i][0]): fit for i, fit in zip(order, found, strict=True)}
    kept = _prune([node for node, _ in jobs], fits)

    # Only now: shrunken parameters are counted among all rows.
    def settle(node: Settled) -> list[tuple[IntArray, float, Leaf | NormalLeaf]]:
        fit = fits[id(node)]
        parts: list[tuple[IntArray, float, Leaf | NormalLeaf]] = []
        rest: LeafFit | None
        if isinstance(fit, Beside):
            parts.append((fit.normal.columns, fit.normal_score, fit.normal))
            rest = fit.rest
        else:
            rest = fit
        if rest is not None:
            rest = leaves.merged(rest) if merge else rest
            parts.append((np.sort(rest.columns), rest.score, leaves.settle(rest)))
        return parts

    settled = side_by_side(settle, kept, n_jobs)
    for node, parts in zip(kept, settled, strict=True):
        node.score = sum(score for _, score, _ in parts)
        if len(parts) == 1:
            node.leaf = parts[0][2]
            continue
        node.children = [
            Settled(
                n=node.n, ess=node.ess, n_choices=node.n_choices, columns=columns, score=score,
                states=node.states, leaf=leaf,
            )
            for columns, score, leaf in parts
        ]  # fmt: skip
        node.cut_score = 0.0


def fit_beside(
    node: Settled, table: Table, rows: IntArray, leaves: JunctionLeaves, normals: NormalLeaves
) -> Beside | None:
    """Fit a Gaussian leaf of the smooth numbers of a node, and one of its other columns."""
    smooth = np.intersect1d(node.columns, normals.columns)
    smooth = smooth[[c not in node.states for c in smooth.tolist()]]
    if len(smooth) < 2:
        return None
    normal, score = normals.fit(table, rows, smooth, node.n_choices)
    others = np.setdiff1d(node.columns, smooth)
    if len(others) == 0:
        return Beside(score, normal, score, None)
    rest = leaves.fit(table, rows, others, node.ess, node.n_choices, node.states)
    return Beside(score + rest.score, normal, score, rest)


def _prune(nodes: list[Settled], fits: dict[int, LeafFit | Beside]) -> list[Settled]:
    """Make a leaf of every node where that is worth as much; return the leaves that are left.

    ``nodes`` are listed with parents before their children.
    """
    worth: dict[int, float] = {}
    for node in reversed(nodes):
        node.score = fits[id(node)].score
        below = node.cut_score + sum(worth[id(child)] for child in node.children)
        if node.children and below > node.score:
            worth[id(node)] = below
            continue
        node.cut = node.branches = None
        node.children = []
        node.log_weight = None
        worth[id(node)] = node.score
    return [node for node in nodes[0].walk() if not node.children]
