"""A circuit while it is split: ANDs of two, ORs whose branches exclude each other, shared literals.

Rows are not stored at nodes. Each complete row uses one branch of one OR at every node of the
vtree, so a matrix of edges, one line for each node of the vtree, holds them all, however large the
circuit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut._typing import BitArray, FloatArray, IntArray
from bayescut.scores.potentials import log_gamma

LITERAL, OR, AND = 0, 1, 2


class Vtree(NamedTuple):
    """A binary tree over the columns.

    Attributes
    ----------
    left, right, parent : int32 arrays
        Children of every node (-1: a leaf) and its parent (-1: the root).
    leaf_of : int32 array of shape (m,)
        Leaf of every column.
    cell_ptr : int64 array of shape (m + 1,)
        Column v owns literals ``cell_ptr[v] .. cell_ptr[v + 1] - 1``, one for each state.
    """

    left: IntArray
    right: IntArray
    parent: IntArray
    leaf_of: IntArray
    cell_ptr: IntArray


class Sketch(NamedTuple):
    """Nodes and edges, with room for more.

    Attributes
    ----------
    used : int64 array
        Number of nodes, number of edges, the root.
    kind : int8 array
        LITERAL, OR or AND.
    place : int32 array
        Node of the vtree.
    first, second : int32 arrays
        Column and state of a literal, children of an AND, first edge and number of edges of an OR.
        The first nodes are the literals, in order.
    literals : uint64 array of shape (nodes, words)
        Literals at and below a node.
    free : int32 array
        Columns of an AND of which two literals or more lie below it.
    value : float64 array of shape (nodes, 3)
        What an OR adds to the log-likelihood of training and of validation rows and to the score.
    owner, child, following : int32 arrays
        OR and child of an edge, and the next edge of the same OR (-1: none).
    counts : float64 array of shape (edges, 2)
        Weight of training and validation rows that use an edge.
    """

    used: IntArray
    kind: IntArray
    place: IntArray
    first: IntArray
    second: IntArray
    literals: BitArray
    free: IntArray
    value: FloatArray
    owner: IntArray
    child: IntArray
    following: IntArray
    counts: FloatArray


def empty_sketch(n_nodes: int, n_edges: int, n_literals: int) -> Sketch:
    """Return a sketch without nodes."""
    return Sketch(
        np.zeros(3, np.int64),
        np.zeros(n_nodes, np.int8),
        np.zeros(n_nodes, np.int32),
        np.zeros(n_nodes, np.int32),
        np.zeros(n_nodes, np.int32),
        np.zeros((n_nodes, (n_literals + 63) // 64), np.uint64),
        np.zeros(n_nodes, np.int32),
        np.zeros((n_nodes, 3)),
        np.zeros(n_edges, np.int32),
        np.zeros(n_edges, np.int32),
        np.full(n_edges, -1, np.int32),
        np.zeros((n_edges, 2)),
    )


def with_more_room(sketch: Sketch) -> Sketch:
    """Return a copy that holds twice as many nodes and edges."""
    longer = empty_sketch(2 * len(sketch.kind), 2 * len(sketch.owner), 1)
    arrays = []
    for old, new in zip(sketch, longer, strict=True):
        if old.shape[0] == 3 and old.dtype == np.int64:
            arrays.append(old.copy())
            continue
        grown = np.empty((new.shape[0], *old.shape[1:]), dtype=old.dtype)
        grown[: len(old)] = old
        grown[len(old) :] = -1 if old is sketch.following else 0
        arrays.append(grown)
    return Sketch(*arrays)


@inner
def count_free(mask, cell_ptr):
    """Number of columns with two literals or more in a mask."""
    found = 0
    for v in range(cell_ptr.shape[0] - 1):
        found += has_two(mask, cell_ptr[v], cell_ptr[v + 1])
    return found


@inner
def has_two(mask, lo, hi):
    """Whether two of the literals ``lo .. hi - 1`` are in a mask."""
    some = np.uint64(0)
    for c in range(lo, hi):
        some += (mask[c >> 6] >> np.uint64(c & 63)) & np.uint64(1)
    return some > np.uint64(1)


@inner
def add_and(sketch, place, prime, sub, cell_ptr):
    """Add an AND of two nodes."""
    node = sketch.used[0]
    sketch.used[0] += 1
    sketch.kind[node] = AND
    sketch.place[node] = place
    sketch.first[node] = prime
    sketch.second[node] = sub
    for w in range(sketch.literals.shape[1]):
        sketch.literals[node, w] = sketch.literals[prime, w] | sketch.literals[sub, w]
    sketch.free[node] = count_free(sketch.literals[node], cell_ptr)
    return node


@inner
def add_or(sketch, place):
    """Add an OR that has no edges yet."""
    node = sketch.used[0]
    sketch.used[0] += 1
    sketch.kind[node] = OR
    sketch.place[node] = place
    sketch.first[node] = -1
    sketch.second[node] = 0
    sketch.literals[node, :] = 0
    sketch.value[node, :] = 0.0
    return node


@inner
def add_edge(sketch, owner, child, after):
    """Add an edge behind edge ``after`` of an OR (-1: as its first)."""
    edge = sketch.used[1]
    sketch.used[1] += 1
    sketch.owner[edge] = owner
    sketch.child[edge] = child
    sketch.counts[edge, :] = 0.0
    if after < 0:
        sketch.following[edge] = sketch.first[owner]
        sketch.first[owner] = edge
    else:
        sketch.following[edge] = sketch.following[after]
        sketch.following[after] = edge
    sketch.second[owner] += 1
    for w in range(sketch.literals.shape[1]):
        sketch.literals[owner, w] |= sketch.literals[child, w]
    return edge


@inner
def value_or(sketch, node, pseudocount, ess, sign, totals):
    """Work out what an OR adds to likelihoods and score; add it to ``totals`` or take it off.

    Weights are ``(n_e + pseudocount / c) / (n + pseudocount)`` of an OR with c > 1 edges, 1 if
    there is one. The score is the Bayes-Dirichlet score with ``ess`` over the edges.
    """
    c = sketch.second[node]
    value = sketch.value[node]
    if sign > 0.0:
        value[:] = 0.0
        if c > 1:
            n = 0.0
            e = sketch.first[node]
            while e >= 0:
                n += sketch.counts[e, 0]
                e = sketch.following[e]
            e = sketch.first[node]
            while e >= 0:
                share = (sketch.counts[e, 0] + pseudocount / c) / (n + pseudocount)
                if sketch.counts[e, 0] > 0.0:
                    value[0] += sketch.counts[e, 0] * np.log(share)
                if sketch.counts[e, 1] > 0.0:
                    value[1] += sketch.counts[e, 1] * np.log(share)
                if sketch.counts[e, 0] > 0.0:
                    value[2] += log_gamma(sketch.counts[e, 0] + ess / c) - log_gamma(ess / c)
                e = sketch.following[e]
            if n > 0.0:
                value[2] += log_gamma(ess) - log_gamma(n + ess)
    for k in range(3):
        totals[k] += sign * value[k]


@kernel
def value_all(sketch, pseudocount, ess, totals):
    """Work out all ORs."""
    totals[:] = 0.0
    for node in range(sketch.used[0]):
        if sketch.kind[node] == OR:
            value_or(sketch, node, pseudocount, ess, 1.0, totals)
