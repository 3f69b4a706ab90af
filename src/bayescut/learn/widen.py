"""Leaves for a network of cuts: fitted at every node, kept where they beat the cuts below."""

from __future__ import annotations

from bayescut._jobs import side_by_side
from bayescut._typing import IntArray
from bayescut.data.table import Table
from bayescut.learn.junction import JunctionLeaves
from bayescut.learn.leaves import Leaf, LeafFit
from bayescut.learn.settled import Settled


def fit_leaves(
    root: Settled,
    table: Table,
    rows: IntArray,
    leaves: JunctionLeaves,
    n_jobs: int = 1,
    merge: bool = False,
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
    """
    jobs: list[tuple[Settled, IntArray]] = []
    stack = [(root, rows)]
    while stack:
        node, inside = stack.pop()
        jobs.append((node, inside))
        for branch, child in enumerate(node.children):
            stack.append((child, node.rows_of(branch, inside, table.codes)))

    def fit_leaf(i: int) -> LeafFit:
        node, inside = jobs[i]
        return leaves.fit(table, inside, node.columns, node.ess, node.n_choices, node.states)

    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1]))
    found = side_by_side(fit_leaf, order, n_jobs)
    fits = {id(jobs[i][0]): fit for i, fit in zip(order, found, strict=True)}
    kept = _prune([node for node, _ in jobs], fits)

    # Only now: shrunken parameters are counted among all rows.
    def settle(node: Settled) -> tuple[float, Leaf]:
        fit = leaves.merged(fits[id(node)]) if merge else fits[id(node)]
        return fit.score, leaves.settle(fit)

    settled = side_by_side(settle, kept, n_jobs)
    for node, (score, leaf) in zip(kept, settled, strict=True):
        node.score, node.leaf = score, leaf


def _prune(nodes: list[Settled], fits: dict[int, LeafFit]) -> list[Settled]:
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
