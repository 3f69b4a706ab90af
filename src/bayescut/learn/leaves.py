"""Settled leaves: thin junction trees with their parameters, whatever search found them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.data.bits import BitLayout


class Leaf(NamedTuple):
    """A thin junction tree over columns, with its parameters.

    Attributes
    ----------
    columns : int64 array of shape (F,)
        One family per column, in an order in which its parents come earlier.
    hosts : int64 array of shape (F,)
        The earlier family that contains all parents (-1: no parents).
    parent_ptr : int64 array of shape (F + 1,)
        Family ``f`` has the parents ``parents[parent_ptr[f] : parent_ptr[f + 1]]``.
    parents : int64 array
        Parent columns, the first the slowest index of the table.
    tables : float64 array
        ``log p(x | parents)`` of the families, end to end, the column's own state fastest.
    """

    columns: IntArray
    hosts: IntArray
    parent_ptr: IntArray
    parents: IntArray
    tables: FloatArray


def tree_leaf(layout: BitLayout, order: IntArray, parent: IntArray, tables: FloatArray) -> Leaf:
    """Make a leaf of width 1 from a tree over positions of a layout."""
    family = np.empty(len(layout.columns), dtype=np.int64)
    family[order] = np.arange(len(order))
    parents = parent[order]
    has_parent = parents >= 0
    hosts = np.where(has_parent, family[parents], -1)
    parent_ptr = np.concatenate([[0], np.cumsum(has_parent)])
    columns = layout.columns
    return Leaf(columns[order], hosts, parent_ptr, columns[parents[has_parent]], tables)


def join_leaves(leaves: list[Leaf]) -> Leaf:
    """Put leaves over different columns side by side: their product is a leaf too."""
    if len(leaves) == 1:
        return leaves[0]
    first = np.cumsum([0] + [len(leaf.columns) for leaf in leaves])
    hosts = [
        np.where(leaf.hosts >= 0, leaf.hosts + start, -1)
        for leaf, start in zip(leaves, first, strict=False)
    ]
    n_parents = np.concatenate([np.diff(leaf.parent_ptr) for leaf in leaves])
    return Leaf(
        np.concatenate([leaf.columns for leaf in leaves]),
        np.concatenate(hosts),
        np.concatenate([[0], np.cumsum(n_parents)]),
        np.concatenate([leaf.parents for leaf in leaves]),
        np.concatenate([leaf.tables for leaf in leaves]),
    )
