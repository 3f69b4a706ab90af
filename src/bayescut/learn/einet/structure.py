"""Which sets of columns a network is about, and how each is divided in two.

A *region* is a set of columns, a *partition* divides a region into two smaller regions. The
structure of an EiNet is nothing but these, chosen before any row is looked at: rectangles of an
image (Poon and Domingos 2011), or trees that halve the columns at random (Peharz et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayescut._typing import IntArray

# Python objects are made for every region and partition: a minute's worth of them. The largest
# structure of the literature has 12,936 partitions.
MAX_PARTITIONS = 1_000_000

Box = tuple[tuple[int, int], ...]


class RegionGraph(NamedTuple):
    """Regions and their partitions.

    Attributes
    ----------
    regions : list of int64 arrays
        Columns of each region, ascending. The first region is the root: all columns.
    partitions : list of (int, int, int)
        Region, and the two regions that it is divided into. A region without a partition is a
        leaf.
    """

    regions: list[IntArray]
    partitions: list[tuple[int, int, int]]


def poon_domingos(shape: Sequence[int], pieces: int | Sequence[int]) -> RegionGraph:
    """Boxes of an array of columns, each divided at every cut point inside it.

    Parameters
    ----------
    shape : sequence of int
        Lengths of the axes; columns stand in C order, for an image row by row.
    pieces : int or sequence of int
        Pieces d of every axis: cut points are at ceil(i * length / d). Of several numbers a box
        uses the first (give the coarsest first) that has a cut point inside it.

    Returns
    -------
    RegionGraph

    Examples
    --------
    >>> len(poon_domingos((28, 28), 4).partitions)
    200
    >>> len(poon_domingos((28, 28), [7, 28]).partitions)
    12936
    """
    levels = [pieces] if isinstance(pieces, (int, np.integer)) else list(pieces)
    cuts = [
        [sorted({math.ceil(i * side / d) for i in range(1, d)} - {side}) for side in shape]
        for d in levels
    ]
    numbers = np.arange(math.prod(shape)).reshape(tuple(shape))

    def divide(box: Box) -> list[tuple[Box, Box]]:
        for of_axis in cuts:
            found = []
            for axis, (low, high) in enumerate(box):
                for cut in of_axis[axis]:
                    if low < cut < high:
                        below = (*box[:axis], (low, cut), *box[axis + 1 :])
                        above = (*box[:axis], (cut, high), *box[axis + 1 :])
                        found.append((below, above))
            if found:
                return found
        return []

    root = tuple((0, int(side)) for side in shape)
    place = {root: 0}
    waiting = [root]
    partitions = []
    for box in waiting:  # grows while it is walked through
        for halves in divide(box):
            for half in halves:
                if half not in place:
                    place[half] = len(place)
                    waiting.append(half)
            partitions.append((place[box], place[halves[0]], place[halves[1]]))
            _check_size(len(partitions))
    regions = [numbers[tuple(slice(*ends) for ends in box)].ravel() for box in waiting]
    return RegionGraph(regions, partitions)


def random_binary_trees(
    n_columns: int, n_trees: int, depth: int, rng: np.random.Generator
) -> RegionGraph:
    """Trees that halve a random permutation of the columns, all with one root.

    Parameters
    ----------
    n_columns : int
        Number of columns.
    n_trees : int
        Number of trees; all regions below the root are a tree's own.
    depth : int
        How often the columns are halved; single columns are not divided any more.
    rng : Generator
        Source of the permutations.

    Returns
    -------
    RegionGraph

    Examples
    --------
    >>> graph = random_binary_trees(8, 3, 2, np.random.default_rng(0))
    >>> len(graph.regions), len(graph.partitions)
    (19, 9)
    """
    regions: list[IntArray] = [np.arange(n_columns)]
    partitions: list[tuple[int, int, int]] = []
    for _ in range(n_trees):
        level = [(0, rng.permutation(n_columns))]
        for _ in range(depth):
            below = []
            for region, columns in level:
                if len(columns) < 2:
                    continue
                half = len(columns) // 2
                parts = columns[:half], columns[half:]
                first = len(regions)
                regions += [np.sort(part) for part in parts]
                partitions.append((region, first, first + 1))
                below += [(first, parts[0]), (first + 1, parts[1])]
            _check_size(len(partitions))
            level = below
    return RegionGraph(regions, partitions)


def _check_size(n_partitions: int) -> None:
    if n_partitions > MAX_PARTITIONS:
        raise ValueError(
            f"the structure has more than {MAX_PARTITIONS:,} partitions: take fewer pieces, trees "
            "or levels"
        )
