"""What is settled about a network once it has grown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.leaves.leaf import Leaf, NormalLeaf


@dataclass(eq=False, kw_only=True)
class Settled:
    """A node of a cutset network, and with it the network below.

    Attributes
    ----------
    n : float
        Number of training rows that reach the node, or their weight.
    ess : float
        Equivalent sample size of the node's tables.
    n_choices : int
        Number of columns not cut on the way here, of which every choice at this node is one. More
        than the node's columns if it is a part of a product: which columns are a part is found by
        looking at the data, so a choice among them costs as much as one among all.
    columns : int64 array
        The node's columns, in order.
    score : float
        Score of the leaf the node is, or would be without its cut; NaN if no leaf was fitted here
        (at nodes cut by a rule that does not judge).
    states : dict of int to int64 array
        The states that are left of columns of which cuts above have ruled out some, ascending.
    leaf : Leaf, NormalLeaf or None
        The leaf with its parameters; None for a node that is cut, or a product of parts.
    cut : int or None
        The column the node is cut on; None for a leaf and for a product.
    branches : tuple of tuples of int, or None
        The states that lead along each branch; None: one branch for every state.
    log_weight : float64 array or None
        Logarithms of the probabilities of its branches.
    cut_score : float
        Score of the cut alone.
    children : list of Settled
        One for every branch of the cut; of a product, its parts: nodes over different
        columns of the same rows.
    """

    n: float
    ess: float
    n_choices: int
    columns: IntArray
    score: float = np.nan
    states: dict[int, IntArray] = field(default_factory=dict)
    leaf: Leaf | NormalLeaf | None = None
    cut: int | None = None
    branches: tuple[tuple[int, ...], ...] | None = None
    log_weight: FloatArray | None = None
    cut_score: float = 0.0
    children: list[Settled] = field(default_factory=list)

    @property
    def is_product(self) -> bool:
        """Whether the children are parts of the node's columns, not of its rows."""
        return self.cut is None and len(self.children) > 0

    @property
    def n_cuts(self) -> int:
        """Number of cuts."""
        return sum(node.cut is not None for node in self.walk())

    def rows_of(self, branch: int, rows: IntArray, codes: CodeArray) -> IntArray:
        """Those of a node's rows that a branch of its cut, or a part of a product, has."""
        if self.cut is None:
            return rows
        here = codes[rows, self.cut]
        if self.branches is None:
            return rows[here == branch]
        # Numpy's ``isin`` takes 0.1 ms however few the rows are.
        inside = np.zeros(np.iinfo(codes.dtype).max + 1, dtype=np.bool_)
        inside[list(self.branches[branch])] = True
        return rows[inside[here]]

    def total_score(self) -> float:
        """Score of the whole network: its cuts and its leaves."""
        return sum(n.cut_score if n.children else n.score for n in self.walk())

    def walk(self) -> Iterator[Settled]:
        """Yield the nodes of this network, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))
