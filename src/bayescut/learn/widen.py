"""Wide leaves for a grown network: fitted at every node, kept where they beat the cuts below."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.cutset import Node
from bayescut.learn.junction import JunctionLeaves, LeafFit


def widen(
    root: Node,
    codes: CodeArray,
    rows: IntArray,
    leaves: JunctionLeaves,
    sample_weight: FloatArray | None = None,
    n_jobs: int = 1,
) -> None:
    """Replace the leaves of a grown network by wide ones, and prune it bottom-up.

    Every node gets the best leaf of the wider class. A cut, or a product, is kept only where it and
    what lies below it score better than the leaf in its place; ties go to the leaf.

    Parameters
    ----------
    root : Node
        A settled network; changed in place.
    codes : array of shape (N, m)
        The table it was learned from.
    rows : int32 array
        The rows it was learned from.
    leaves : JunctionLeaves
        Fits the wide leaves.
    sample_weight : array of shape (N,), optional
        Non-negative weights.
    n_jobs : int
        Threads; nodes are fitted side by side.
    """
    jobs: list[tuple[Node, IntArray, IntArray]] = []
    scopes = _scopes(root)
    stack = [(root, rows)]
    while stack:
        node, inside = stack.pop()
        jobs.append((node, inside, scopes[id(node)]))
        for state, child in enumerate(node.children):
            below = inside if node.cut is None else inside[codes[inside, node.cut] == state]
            stack.append((child, below))

    def fit_leaf(i: int) -> LeafFit:
        node, inside, scope = jobs[i]
        return leaves.fit(codes, inside, scope, node.ess, sample_weight, node.n_choices)

    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1]))
    with ThreadPoolExecutor(n_jobs) as executor:
        found = executor.map(fit_leaf, order)
        fits = {id(jobs[i][0]): fit for i, fit in zip(order, found, strict=True)}
        kept = _prune([node for node, _, _ in jobs], fits)
        # Only now: shrunken parameters are counted among all rows.
        settled = executor.map(lambda node: leaves.settle(fits[id(node)]), kept)
        for node, leaf in zip(kept, settled, strict=True):
            node.leaf = leaf


def _prune(nodes: list[Node], fits: dict[int, LeafFit]) -> list[Node]:
    """Make a leaf of every node where that is worth as much; return the leaves that are left.

    ``nodes`` are listed with parents before their children.
    """
    worth: dict[int, float] = {}
    for node in reversed(nodes):
        leaf_score = fits[id(node)].score
        node.score = leaf_score
        below = node.cut_score + sum(worth[id(child)] for child in node.children)
        if node.children and below > leaf_score:
            worth[id(node)] = below
            continue
        node.cut = None
        node.children = []
        node.log_weight = None
        worth[id(node)] = leaf_score
    return [node for node in nodes[0].walk() if not node.children]


def _scopes(root: Node) -> dict[int, IntArray]:
    """Columns of every node, in order."""
    found: dict[int, IntArray] = {}
    for node in reversed(list(root.walk())):
        if node.leaf is not None:
            scope = node.leaf.columns
        elif node.cut is None:
            scope = np.concatenate([found[id(part)] for part in node.children])
        else:
            scope = np.append(found[id(node.children[0])], node.cut)
        found[id(node)] = np.sort(scope)
    return found
