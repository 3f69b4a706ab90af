"""Leaves: thin junction trees, first as a structure that fits some rows, then with parameters.

Numbers that are jointly Gaussian are leaves of another kind (`bayescut.learn.leaves.normal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.data.table import Table

Groups = tuple["IntArray | None", ...]


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
    states : mapping from int to int64 array, or None
        The states that tables have for columns that cannot have all of those of their domains.
    groups : tuple of int64 arrays and None, or None
        For every entry of ``parents`` the groups in which a family sees the parent's states: the
        group of each state that tables have for it. None: it sees them as they are.
    """

    columns: IntArray
    hosts: IntArray
    parent_ptr: IntArray
    parents: IntArray
    tables: FloatArray
    states: Mapping[int, IntArray] | None = None
    groups: Groups | None = None


class NormalLeaf(NamedTuple):
    """Numbers that are jointly Gaussian, each regressed on those before it.

    Attributes
    ----------
    columns : int64 array of shape (m,)
        The numbers.
    mean, deviation : float64 arrays of shape (m,)
        Their means, and their deviations given those before.
    coefficients : float64 array of shape (m, m)
        Strictly lower triangular.
    """

    columns: IntArray
    mean: FloatArray
    coefficients: FloatArray
    deviation: FloatArray

    @property
    def states(self) -> None:
        """None: such a leaf looks at no states."""
        return None


class LeafFit(NamedTuple):
    """Structure of a leaf before it has parameters.

    Attributes
    ----------
    columns, hosts, parent_ptr, parents : int64 arrays
        The families, see `Leaf`.
    counts : float64 array
        Counts of the families among the leaf's rows, end to end.
    sizes : int64 array
        Numbers of states of all columns of the table, as far as the leaf's rows can have them.
    n_rows : int
        Number of the leaf's rows.
    weight : float
        Their weight.
    ess : float
        Equivalent sample size of a family.
    score : float
        Score of the leaf, structure costs included.
    states : mapping from int to int64 array, or None
        The states that are left of some columns, see `Leaf`.
    groups : tuple of int64 arrays and None, or None
        In which groups families see the states of parents, see `Leaf`. Counts and score know them.
    """

    columns: IntArray
    hosts: IntArray
    parent_ptr: IntArray
    parents: IntArray
    counts: FloatArray
    sizes: IntArray
    n_rows: int
    weight: float
    ess: float
    score: float
    states: Mapping[int, IntArray] | None = None
    groups: Groups | None = None

    @property
    def families(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Numbers of states, columns and their parents, as kernels take them.

        Parents that are seen in groups are columns of their own.
        """
        sizes, parents = self.sizes, self.parents
        if self.groups is not None:
            seen = [
                int(self.sizes[p]) if group is None else int(group.max()) + 1
                for p, group in zip(self.parents.tolist(), self.groups, strict=True)
            ]
            sizes = np.concatenate([self.sizes, np.array(seen, dtype=self.sizes.dtype)])
            parents = len(self.sizes) + np.arange(len(seen))
        # Those of a table are read-only, others are not: kernels would be compiled for both.
        sizes = sizes.view()
        sizes.setflags(write=False)
        return sizes, self.columns, self.parent_ptr, parents

    def leaf(self, tables: FloatArray) -> Leaf:
        """Return the leaf with these parameters."""
        return Leaf(
            self.columns,
            self.hosts,
            self.parent_ptr,
            self.parents,
            tables,
            self.states,
            self.groups,
        )


class Leaves(Protocol):
    """Makes leaves, in two steps: most of those that are fitted do not stay."""

    def fit(
        self,
        table: Table,
        rows: IntArray,
        columns: IntArray,
        ess: float,
        n_choices: int,
        states: Mapping[int, IntArray] | None = None,
    ) -> LeafFit:
        """Find the structure of a leaf over ``columns`` for ``rows`` of a complete table.

        ``n_choices`` is how many columns a parent is one of to the structure prior. ``states``
        lists the states of columns of which the rows cannot have all.
        """
        ...

    def settle(self, fit: LeafFit) -> Leaf:
        """Work out the parameters of a leaf that stays."""
        ...


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
        {c: left for leaf in leaves if leaf.states for c, left in leaf.states.items()},
        tuple(g for leaf in leaves for g in leaf.groups or (None,) * len(leaf.parents)),
    )


def left_of(
    sizes: IntArray, columns: IntArray, states: Mapping[int, IntArray] | None
) -> tuple[IntArray, Mapping[int, IntArray] | None]:
    """Numbers of states of all columns where some have lost states, and what is left of those.

    Only ``columns`` are looked at; None if all of them have all their states.
    """
    few = {c: states[c] for c in columns.tolist() if c in states} if states else {}
    if not few:
        return sizes, None
    left = sizes.copy()
    for column, here in few.items():
        left[column] = len(here)
    return left, few
