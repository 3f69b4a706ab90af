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

    def visit(node: Node, rows: IntArray) -> None:
        jobs.append((node, rows, scopes[id(node)]))
        for state, child in enumerate(node.children):
            inside = rows if node.cut is None else rows[codes[rows, node.cut] == state]
            visit(child, inside)

    def fit_leaf(i: int) -> LeafFit:
        node, inside, scope = jobs[i]
        return leaves.fit(codes, inside, scope, node.ess, sample_weight, node.n_choices)

    visit(root, rows)
    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1]))
    with ThreadPoolExecutor(n_jobs) as executor:
        found = executor.map(fit_leaf, order)
        fits = dict(zip(order, found, strict=True))
    # Parents were visited before their children: backwards, every child is settled first.
    worth: dict[int, float] = {}
    for i in reversed(range(len(jobs))):
        node = jobs[i][0]
        fit = fits[i]
        node.score = fit.score
        if node.children:
            below = node.cut_score + sum(worth[id(child)] for child in node.children)
            if below > fit.score:
                worth[id(node)] = below
                continue
            node.cut = None
            node.children = []
            node.log_weight = None
        node.leaf = fit.leaf
        worth[id(node)] = fit.score


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
