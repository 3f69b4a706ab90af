"""Regions in layers: blocks of partitions that are worked out together."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from bayescut._typing import IntArray
from bayescut.learn.einet.structure import RegionGraph


class LeafLayer(NamedTuple):
    """Leaf regions with equally many cells, the states of their columns.

    Attributes
    ----------
    first : int
        Number of the first of these regions.
    cells : int64 array of shape (L, c)
        Cells of each region among all cells of the table.
    states : int64 array of shape (L, c)
        Number of states of the column that each cell belongs to.
    """

    first: int
    cells: IntArray
    states: IntArray


class SumLayer(NamedTuple):
    """Regions of one level that have equally many partitions.

    Attributes
    ----------
    first : int
        Number of the first of these regions.
    shape : (int, int)
        Number of regions, and of the partitions of each.
    left, right : int64 arrays of shape (G * n,)
        The two regions that a partition divides its region into; partitions of one region stand
        together.
    begin : int
        Number of the first of these partitions.
    """

    first: int
    shape: tuple[int, int]
    left: IntArray
    right: IntArray
    begin: int


class Layout(NamedTuple):
    """A region graph in layers, regions below others first, the root last.

    Attributes
    ----------
    n_components : int
        Components K of every region but the root, which has one.
    n_cells : int
        Cells of the table: states of all columns.
    offsets : int64 array
        First cell of every column, and the end.
    leaves, sums : lists of layers
        In the order in which they are worked out; the last is the root's.
    parents : list of int64 arrays of shape (regions of the layer, most parents)
        For every layer, leaves first: in which halves of partitions its regions stand. Half h of
        partition p has the number ``h * n_partitions + p``; 2 * n_partitions fills up.
    columns : list of int64 arrays
        Columns of every region.
    """

    n_components: int
    n_cells: int
    offsets: IntArray
    leaves: list[LeafLayer]
    sums: list[SumLayer]
    parents: list[IntArray]
    columns: list[IntArray]

    @property
    def n_regions(self) -> int:
        """Number of regions, the root included."""
        return len(self.columns)

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return sum(len(layer.left) for layer in self.sums)

    def out(self, region: int) -> int:
        """Number of components of a region."""
        return 1 if region == self.n_regions - 1 else self.n_components

    @property
    def n_weights(self) -> int:
        """Number of weights: of products, of partitions that are mixed, and of cells."""
        products = sum(
            len(layer.left) * self.out(layer.first) * self.n_components**2 for layer in self.sums
        )
        mixing = sum(
            len(layer.left) * self.out(layer.first) for layer in self.sums if layer.shape[1] > 1
        )
        cells = sum(layer.cells.size * self.out(layer.first) for layer in self.leaves)
        return products + mixing + cells

    @property
    def n_parameters(self) -> int:
        """Number of independent parameters."""
        sums = sum(
            (len(layer.left) * self.n_components**2 - layer.shape[0]) * self.out(layer.first)
            for layer in self.sums
        )
        leaves = sum(
            float((1.0 - 1.0 / layer.states).sum()) * self.out(layer.first) for layer in self.leaves
        )
        return sums + round(leaves)

    @property
    def n_edges(self) -> int:
        """Number of edges of the circuit that the network is."""
        pairs = self.n_components**2
        return sum(
            len(layer.left) * (pairs * (2 + self.out(layer.first)))
            + (len(layer.left) * self.out(layer.first) if layer.shape[1] > 1 else 0)
            for layer in self.sums
        )


def lay_out(graph: RegionGraph, n_states: IntArray, n_components: int) -> Layout:
    """Bring the regions of a graph into layers.

    Parameters
    ----------
    graph : RegionGraph
        The structure.
    n_states : int array
        Number of states of every column.
    n_components : int
        Components of every region.
    """
    states = np.asarray(n_states, dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(states)])
    below: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for region, left, right in graph.partitions:
        below[region].append((left, right))
    level = _levels(len(graph.regions), below)
    cells = [
        np.concatenate([np.arange(offsets[j], offsets[j + 1]) for j in columns])
        for columns in graph.regions
    ]
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for region, height in enumerate(level):
        # Leaves by their number of cells, others by level and number of partitions. The root is
        # the only region of the highest level: all others are part of it.
        groups[height, len(below[region]) if height else len(cells[region])].append(region)
    place = np.empty(len(level), dtype=np.int64)
    order = [region for key in sorted(groups) for region in groups[key]]
    place[order] = np.arange(len(order))
    leaves: list[LeafLayer] = []
    sums: list[SumLayer] = []
    first = begin = 0
    for key in sorted(groups):
        members = groups[key]
        if key[0] == 0:
            of_cell = np.repeat(np.arange(len(states)), states)
            index = np.stack([cells[region] for region in members])
            leaves.append(LeafLayer(first, index, states[of_cell[index]]))
        else:
            halves = place[np.array([pair for region in members for pair in below[region]])]
            shape = len(members), key[1]
            sums.append(SumLayer(first, shape, halves[:, 0].copy(), halves[:, 1].copy(), begin))
            begin += len(halves)
        first += len(members)
    sizes = [len(layer.cells) for layer in leaves] + [layer.shape[0] for layer in sums]
    columns = [graph.regions[region] for region in order]
    parents = _parents(sums, sizes, begin)
    return Layout(n_components, int(offsets[-1]), offsets, leaves, sums, parents, columns)


def _levels(n_regions: int, below: dict[int, list[tuple[int, int]]]) -> list[int]:
    """Length of the longest way down from each region to a leaf."""
    level = [-1] * n_regions
    stack = [0]
    while stack:
        region = stack[-1]
        open_ones = [half for pair in below[region] for half in pair if level[half] < 0]
        if open_ones:
            stack += open_ones
            continue
        stack.pop()
        level[region] = max((1 + level[half] for pair in below[region] for half in pair), default=0)
    return level


def _parents(sums: list[SumLayer], sizes: list[int], n_partitions: int) -> list[IntArray]:
    halves = [
        np.concatenate([getattr(s, side) for s in sums]) for side in ("left", "right") if sums
    ]
    child = np.concatenate([*halves, np.empty(0, dtype=np.int64)])
    order = np.argsort(child, kind="stable")
    ptr = np.searchsorted(child[order], np.arange(sum(sizes) + 1))
    found = []
    first = 0
    for size in sizes:
        counts = np.diff(ptr[first : first + size + 1])
        table = np.full((size, counts.max(initial=0)), 2 * n_partitions, dtype=np.int64)
        for i in range(size):
            table[i, : counts[i]] = order[ptr[first + i] : ptr[first + i + 1]]
        found.append(table)
        first += size
    return found
