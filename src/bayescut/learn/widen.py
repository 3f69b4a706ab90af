"""Wide leaves for a grown network: fitted at every node, kept where they beat the cuts below."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.cutset import Node
from bayescut.learn.junction import JunctionLeaves


def widen(
    root: Node,
    codes: CodeArray,
    rows: IntArray,
    leaves: JunctionLeaves,
    sample_weight: FloatArray | None = None,
    n_jobs: int = 1,
) -> None:
    """Replace the leaves of a grown network by wide ones, and prune it bottom-up.

    Every node gets the best leaf of the wider class. A cut is kept only where it and what lies
    below it score better than the leaf in its place; ties go to the leaf.

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

    def visit(node: Node, rows: IntArray, columns: IntArray) -> None:
        jobs.append((node, rows, columns))
        if node.cut is None:
            return
        column = codes[rows, node.cut]
        rest = columns[columns != node.cut]
        for state, child in enumerate(node.children):
            visit(child, rows[column == state], rest)

    visit(root, rows, np.arange(codes.shape[1]))
    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][1]))
    with ThreadPoolExecutor(n_jobs) as executor:
        found = executor.map(
            lambda i: leaves.fit(codes, jobs[i][1], jobs[i][2], jobs[i][0].ess, sample_weight),
            order,
        )
        fits = dict(zip(order, found, strict=True))
    # Parents were visited before their children: backwards, every child is settled first.
    worth: dict[int, float] = {}
    for i in reversed(range(len(jobs))):
        node = jobs[i][0]
        fit = fits[i]
        node.score = fit.score
        if node.cut is not None:
            below = node.cut_score + sum(worth[id(child)] for child in node.children)
            if below > fit.score:
                worth[id(node)] = below
                continue
            node.cut = None
            node.children = []
            node.log_weight = None
        node.leaf = fit.leaf
        worth[id(node)] = fit.score
