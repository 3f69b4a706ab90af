"""One split: which branch, on which column, and what it does to the circuit and its rows."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut.learn.leaves.trees import pair_potential, single_potential
from bayescut.learn.strudel.sketch import (
    AND,
    LITERAL,
    OR,
    add_and,
    add_edge,
    add_or,
    has_two,
    value_or,
)
from bayescut.scores.potentials import XLOGX, potential


@kernel
def most_used(sketch, order_of):
    """Find the branch with most training rows that can be split.

    Of several the first in post-order, the order in which a depth-first search leaves the nodes.

    Parameters
    ----------
    sketch : Sketch
    order_of : int32 array
        Scratch, one entry for each node.

    Returns
    -------
    edge, n_nodes
        -1 if no branch can be split; the number of nodes that are still used.
    """
    order_of[: sketch.used[0]] = 0
    stack = np.empty(sketch.used[0] + 1, dtype=np.int64)
    turn = np.empty(sketch.used[0] + 1, dtype=np.int64)  # next edge of an OR, next side of an AND
    root = sketch.used[2]
    stack[0] = root
    turn[0] = sketch.first[root] if sketch.kind[root] == OR else 0
    order_of[root] = 1
    depth = 1
    best = np.int64(-1)
    n_nodes = 1
    while depth > 0:
        node = stack[depth - 1]
        child = np.int64(-1)
        if sketch.kind[node] == OR:
            e = turn[depth - 1]
            if e >= 0:
                child = np.int64(sketch.child[e])
                turn[depth - 1] = sketch.following[e]
        elif sketch.kind[node] == AND:
            if turn[depth - 1] < 2:
                child = np.int64(
                    sketch.first[node] if turn[depth - 1] == 0 else sketch.second[node]
                )
                turn[depth - 1] += 1
        if child >= 0:
            if order_of[child] == 0:
                order_of[child] = 1
                n_nodes += 1
                if sketch.kind[child] != LITERAL:
                    stack[depth] = child
                    turn[depth] = sketch.first[child] if sketch.kind[child] == OR else 0
                    depth += 1
            continue
        depth -= 1
        if sketch.kind[node] == OR:
            e = np.int64(sketch.first[node])
            while e >= 0:
                if sketch.free[sketch.child[e]] > 0:
                    if best < 0 or sketch.counts[e, 0] > sketch.counts[best, 0]:
                        best = e
                e = np.int64(sketch.following[e])
    return best, n_nodes


@kernel
def free_columns(sketch, edge, cell_ptr):
    """Columns of which two literals or more lie below a branch."""
    mask = sketch.literals[sketch.child[edge]]
    found = np.empty(cell_ptr.shape[0] - 1, dtype=np.int64)
    size = 0
    for v in range(cell_ptr.shape[0] - 1):
        if has_two(mask, cell_ptr[v], cell_ptr[v + 1]):
            found[size] = v
            size += 1
    return found[:size].copy()


@kernel
def information_sums(counts, n, ones, n_constant, pair_table, single_table):
    """Sum of the mutual information of each binary column with all others, ``n + 4`` times.

    Tables are smoothed by one row for each cell. ``counts`` are pair counts of the columns that
    vary, ``ones`` their single counts; ``n_constant`` other columns have one state only.
    ``pair_table[k]`` is ``(k + 1) ln (k + 1)`` and ``single_table[k]`` is ``(k + 2) ln (k + 2)``.

    Returns
    -------
    sums, constant_sum
        Of the columns that vary, and of any that does not.
    """
    m = ones.shape[0]
    sums = np.zeros(m)
    whole = (n + 4.0) * np.log(n + 4.0)
    own = np.empty(m)
    for i in range(m):
        own[i] = single_table[ones[i]] + single_table[n - ones[i]]
    constant = single_table[0] + single_table[n]
    constant_sum = (n_constant - 1) * (pair_table[n] + 3.0 * pair_table[0] + whole - 2.0 * constant)
    for i in range(m):
        line = counts[i]
        n_i = ones[i]
        total = 0.0
        for j in range(i + 1, m):
            both = np.int64(line[j])
            value = (
                pair_table[both]
                + pair_table[n_i - both]
                + pair_table[ones[j] - both]
                + pair_table[n - n_i - ones[j] + both]
            )
            value += whole - own[i] - own[j]
            total += value
            sums[j] += value
        sums[i] += total
        value = pair_table[n_i] + pair_table[n - n_i] + 2.0 * pair_table[0]
        value += whole - own[i] - constant
        sums[i] += n_constant * value
        constant_sum += value
    return sums, constant_sum


@kernel
def general_sums(counts, n, sizes, ptr, ess):
    """`information_sums` of columns of any number of states, from sums of weights."""
    m = sizes.shape[0]
    sums = np.zeros(m)
    none = np.empty(0)
    whole = potential(XLOGX, n, ess)
    column = np.empty(sizes.max())
    own = np.empty(m)
    for i in range(m):
        own[i] = single_potential(XLOGX, counts, n, ptr[i], ptr[i + 1], ess / sizes[i])
    for i in range(m):
        for j in range(i + 1, m):
            a = ess / (sizes[i] * sizes[j])
            value = pair_potential(XLOGX, counts, n, ptr, i, j, a, none, column)
            value += whole - own[i] - own[j]
            sums[i] += value
            sums[j] += value
    return sums


@kernel
def path_to(parent, top, leaf):
    """Nodes of a vtree from ``top`` down to a leaf."""
    size = 1
    p = np.int64(leaf)
    while p != top:
        p = np.int64(parent[p])
        size += 1
    path = np.empty(size, dtype=np.int64)
    p = np.int64(leaf)
    for i in range(size - 1, -1, -1):
        path[i] = p
        p = np.int64(parent[p])
    return path


@inner
def towards(sketch, vtree, node, below):
    """Child of an AND on the side of its vtree node that ``below`` is."""
    if vtree.left[sketch.place[node]] == below:
        return np.int64(sketch.first[node])
    return np.int64(sketch.second[node])


@kernel
def split(sketch, vtree, edges, states, weights, edge, v, pseudocount, ess, totals):
    """Replace a branch by copies conditioned on the states of a column, and move its rows.

    Only nodes along the path of the vtree from the branch to the column change; the others are
    shared by the copies.

    Parameters
    ----------
    sketch, vtree
        The circuit; changed in place.
    edges : int32 array of shape (places, N)
        Edges that the rows use; changed in place.
    states : uint16 array of shape (m, N)
        Columns of the table.
    weights : float64 array of shape (N, 2)
        Weights of the rows as training and as validation rows.
    edge, v : int
        Branch and column.
    pseudocount, ess : float
        See `value_or`.
    totals : float64 array of shape (3,)
        Log-likelihoods and score; updated.

    Returns
    -------
    bool
        False if there is no room; nothing has changed then.
    """
    owner = np.int64(sketch.owner[edge])
    target = np.int64(sketch.child[edge])
    top = np.int64(sketch.place[owner])
    path = path_to(vtree.parent, top, vtree.leaf_of[v])
    depth = path.shape[0]
    next_place = np.full(vtree.parent.shape[0], -1)
    next_place[path[:-1]] = path[1:]
    lo, hi = vtree.cell_ptr[v], vtree.cell_ptr[v + 1]

    # Nodes below the branch along the path, level by level: ANDs, then the ORs (or literals) of
    # the next level, then their ANDs ...
    old_nodes, old_edges = sketch.used[0], sketch.used[1]
    listed = np.empty(old_nodes, dtype=np.int64)
    seen = np.zeros(old_nodes, dtype=np.bool_)
    listed[0] = target
    size = 1
    start = 0
    n_edges = 0
    for i in range(1, depth):
        stop = size
        for t in range(start, stop):
            if sketch.kind[listed[t]] == AND:
                c = towards(sketch, vtree, listed[t], path[i])
                if not seen[c]:
                    seen[c] = True
                    listed[size] = c
                    size += 1
        middle = size
        for t in range(stop, middle):
            if sketch.kind[listed[t]] == OR:
                e = np.int64(sketch.first[listed[t]])
                while e >= 0:
                    n_edges += 1
                    c = np.int64(sketch.child[e])
                    if not seen[c] and sketch.kind[c] == AND:
                        seen[c] = True
                        listed[size] = c
                        size += 1
                    e = np.int64(sketch.following[e])
        start = middle
    n_states = hi - lo
    if (
        old_nodes + n_states * size > sketch.kind.shape[0]
        or old_edges + n_states * (n_edges + 1) > sketch.owner.shape[0]
    ):
        return False

    for t in range(size):
        if sketch.kind[listed[t]] == OR:
            value_or(sketch, listed[t], pseudocount, ess, -1.0, totals)
    value_or(sketch, owner, pseudocount, ess, -1.0, totals)

    # The branch leaves its OR; its copies come first.
    e = np.int64(sketch.first[owner])
    if e == edge:
        sketch.first[owner] = sketch.following[edge]
    else:
        while sketch.following[e] != edge:
            e = np.int64(sketch.following[e])
        sketch.following[e] = sketch.following[edge]
    sketch.second[owner] -= 1

    inside = np.flatnonzero(edges[top] == edge)
    image = np.full(old_nodes, -1, dtype=np.int64)  # what a node becomes; -1: nothing
    copied = np.full(old_edges, -1, dtype=np.int64)
    last = np.int64(-1)
    mask = sketch.literals[target].copy()
    for s in range(n_states - 1, -1, -1):
        cell = lo + s
        if not (mask[cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1):
            continue
        for t in range(size - 1, -1, -1):
            node = listed[t]
            if sketch.kind[node] == LITERAL:
                image[node] = node if node == cell else -1
            elif sketch.kind[node] == AND:
                place = np.int64(sketch.place[node])
                c = towards(sketch, vtree, node, next_place[place])
                if image[c] < 0:
                    image[node] = -1
                elif image[c] == c:
                    image[node] = node
                elif sketch.first[node] == c:
                    image[node] = add_and(
                        sketch, place, image[c], sketch.second[node], vtree.cell_ptr
                    )
                else:
                    image[node] = add_and(
                        sketch, place, sketch.first[node], image[c], vtree.cell_ptr
                    )
            elif sketch.place[node] == path[depth - 1]:  # all states of the column
                image[node] = cell
            else:
                same = True
                left = 0
                e = np.int64(sketch.first[node])
                while e >= 0:
                    c = np.int64(sketch.child[e])
                    same = same and image[c] == c
                    left += image[c] >= 0
                    e = np.int64(sketch.following[e])
                if same:
                    image[node] = node
                elif left == 0:
                    image[node] = -1
                else:
                    new = add_or(sketch, sketch.place[node])
                    image[node] = new
                    after = np.int64(-1)
                    e = np.int64(sketch.first[node])
                    while e >= 0:
                        c = image[sketch.child[e]]
                        if c >= 0:
                            after = add_edge(sketch, new, c, after)
                            copied[e] = after
                        e = np.int64(sketch.following[e])
        branch = add_edge(sketch, owner, image[target], last)
        last = branch
        for k in range(inside.shape[0]):
            r = inside[k]
            if states[v, r] != s:
                continue
            edges[top, r] = branch
            sketch.counts[branch] += weights[r]
            for i in range(1, depth):
                e = np.int64(edges[path[i], r])
                if e < 0:
                    break
                became = image[sketch.owner[e]]
                if became == sketch.owner[e]:
                    break
                sketch.counts[e] -= weights[r]
                if sketch.kind[became] == LITERAL:
                    edges[path[i], r] = -1
                    break
                edges[path[i], r] = copied[e]
                sketch.counts[copied[e]] += weights[r]
    sketch.counts[edge, :] = 0.0

    for t in range(size):
        if sketch.kind[listed[t]] == OR:
            value_or(sketch, listed[t], pseudocount, ess, 1.0, totals)
    value_or(sketch, owner, pseudocount, ess, 1.0, totals)
    for node in range(old_nodes, sketch.used[0]):
        if sketch.kind[node] == OR:
            value_or(sketch, node, pseudocount, ess, 1.0, totals)
    return True
