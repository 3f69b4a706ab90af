"""Where Strudel starts: a Chow-Liu tree as a structured circuit."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.counts.pairs import PairCounts
from bayescut.learn.leaves.trees import TreeRule
from bayescut.learn.strudel.sketch import (
    LITERAL,
    Sketch,
    Vtree,
    add_and,
    add_edge,
    add_or,
    empty_sketch,
)
from bayescut.scores.potentials import XLOGX, PotentialTables

#: Pseudo-rows of every pair of columns in mutual information: one for each cell of a binary pair.
INFORMATION_ESS = 4.0


def chow_liu_parents(pairs: PairCounts) -> IntArray:
    """Parents of the columns in the tree of most mutual information, -1 for its centre.

    The centre is the column with the least distance to the farthest other one, the first of
    several.
    """
    m = len(pairs.layout.columns)
    parent, order = np.full(m, -1, dtype=np.int64), np.zeros(m, dtype=np.int64)
    table = np.empty(0)
    if not pairs.weighted:
        table = PotentialTables().get(XLOGX, INFORMATION_ESS / 4.0, int(pairs.n))
    rule = TreeRule(XLOGX, XLOGX, True, 0.0, 0.0, 0.0)
    rule.fit(pairs, np.arange(m), INFORMATION_ESS, table, parent, order)
    near: list[list[int]] = [[] for _ in range(m)]
    for v in range(m):
        if parent[v] >= 0:
            near[v].append(int(parent[v]))
            near[int(parent[v])].append(v)
    # The farthest column from any one is an end of a longest path; its middle is the centre.
    one_end = _distances(near, 0)[1]
    first, other_end = _distances(near, one_end)
    second, _ = _distances(near, other_end)
    centre = min(range(m), key=lambda v: (max(first[v], second[v]), v))
    rooted = np.full(m, -1, dtype=np.int64)
    stack = [centre]
    while stack:
        v = stack.pop()
        for u in near[v]:
            if u != rooted[v]:
                rooted[u] = v
                stack.append(u)
    return rooted


def _distances(near: list[list[int]], start: int) -> tuple[list[int], int]:
    """Distances from a column, and a column that is farthest away."""
    distance = [-1] * len(near)
    distance[start] = 0
    queue = [start]
    for v in queue:
        for u in near[v]:
            if distance[u] < 0:
                distance[u] = distance[v] + 1
                queue.append(u)
    return distance, queue[-1]


def plant(
    parents: IntArray, sizes: IntArray, states: CodeArray, weights: FloatArray
) -> tuple[Vtree, Sketch, IntArray]:
    """Lay out a tree as a circuit.

    A column with children is a node of the vtree over itself and its children, which are joined
    pairwise, halves first. It has one OR for each state of its parent; joined children have one
    with a single branch.

    Parameters
    ----------
    parents : int64 array of shape (m,)
        Parent of every column, -1 for one of them.
    sizes : int64 array of shape (m,)
        Numbers of states.
    states : uint16 array of shape (m, N)
        Columns of the table.
    weights : float64 array of shape (N, 2)
        Weights of the rows as training and as validation rows.

    Returns
    -------
    vtree, sketch, edges
        ``edges[p, r]`` is the edge that row r uses at node p of the vtree, -1 if it needs none.
    """
    m = len(parents)
    below: list[list[int]] = [[] for _ in range(m)]
    root = int(np.flatnonzero(parents < 0)[0])
    for v in range(m):
        if parents[v] >= 0:
            below[parents[v]].append(v)
    order = [root]
    for v in order:
        order.extend(below[v])
    cell_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_cells = int(cell_ptr[-1])
    most = 8 * int((np.asarray(sizes) ** 2).sum()) + 64
    sketch = empty_sketch(most, most, n_cells)
    left, right, above = [], [], []

    def new_place(a: int, b: int) -> int:
        left.append(a)
        right.append(b)
        above.append(-1)
        if a >= 0:
            above[a] = above[b] = len(left) - 1
        return len(left) - 1

    lines: dict[int, IntArray] = {}  # edges of all rows at a node of the vtree
    for v in range(m):
        new_place(-1, -1)  # leaf v is node v of the vtree
        for s in range(sizes[v]):
            cell = int(cell_ptr[v]) + s
            sketch.kind[cell] = LITERAL
            sketch.place[cell], sketch.first[cell], sketch.second[cell] = v, v, s
            sketch.literals[cell, cell >> 6] |= np.uint64(1) << np.uint64(cell & 63)
    sketch.used[0] = n_cells

    # Circuits of a column for each state of its parent, and the vtree node they stand at.
    circuits: dict[int, list[int]] = {}
    places: dict[int, int] = {}
    for v in reversed(order):
        k = int(sizes[v])
        rest: list[int] = []
        place = v
        if below[v]:
            own = [(places.pop(u), circuits.pop(u)) for u in below[v]]
            sub, rest = _join(sketch, own, new_place, cell_ptr, lines, states[v])
            place = new_place(v, sub)
        copies = int(sizes[parents[v]]) if parents[v] >= 0 else 1
        made = np.empty((copies, k), dtype=np.int64)
        circuits[v] = []
        places[v] = place
        for q in range(copies):
            node = _new_or(sketch, place)
            last = -1
            for s in range(k - 1, -1, -1):
                child = int(cell_ptr[v]) + s
                if rest:
                    child = _new_and(sketch, place, child, rest[s], cell_ptr)
                last = made[q, s] = _new_edge(sketch, node, child, last)
            circuits[v].append(node)
        given = states[parents[v]] if parents[v] >= 0 else 0
        lines[place] = made[given, states[v]]
    sketch.used[2] = circuits[root][0]
    n_places = len(left)
    edges = np.full((n_places, states.shape[1]), -1, dtype=np.int32)
    for place, line in lines.items():
        edges[place] = line
        for part in range(2):
            found = np.bincount(line, weights[:, part], minlength=int(sketch.used[1]))
            sketch.counts[: len(found), part] += found
    tree = [np.array(side, dtype=np.int32) for side in (left, right, above)]
    vtree = Vtree(tree[0], tree[1], tree[2], np.arange(m, dtype=np.int32), cell_ptr)
    return vtree, sketch, edges


def _join(sketch, parts, new_place, cell_ptr, lines, own):
    """Join circuits of siblings pairwise; one circuit for each state of their parent."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    first, firsts = _join(sketch, parts[:half], new_place, cell_ptr, lines, own)
    second, seconds = _join(sketch, parts[half:], new_place, cell_ptr, lines, own)
    place = new_place(first, second)
    joined, made = [], []
    for a, b in zip(firsts, seconds, strict=True):
        node = _new_or(sketch, place)
        made.append(_new_edge(sketch, node, _new_and(sketch, place, a, b, cell_ptr), -1))
        joined.append(node)
    lines[place] = np.array(made, dtype=np.int64)[own]
    return place, joined


@kernel
def _new_or(sketch, place):
    return add_or(sketch, place)


@kernel
def _new_and(sketch, place, prime, sub, cell_ptr):
    return add_and(sketch, place, prime, sub, cell_ptr)


@kernel
def _new_edge(sketch, owner, child, after):
    return add_edge(sketch, owner, child, after)
