r"""ID-SPN: sums and products on top, models of direct dependence over many columns below.

The network starts as one leaf over everything. A leaf is replaced by a product over the groups of
its columns that share mutual information, each a sum over clusters of its rows, as long as that
pays. Leaves are Bayesian networks of this library instead of the original's Markov networks.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.counts.pairs import count_pairs
from bayescut.data.bits import bit_layout
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.learn.spn.compose import Piece
from bayescut.learn.spn.hard_em import RowSplits, distinct_rows
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior


class LeafModel(NamedTuple):
    """A leaf's circuit, the log-probability of all distinct training rows, and its score."""

    circuit: Circuit
    values: FloatArray
    score: float


@dataclass
class Region:
    """A node of the network while it grows.

    Attributes
    ----------
    rows, columns : int arrays
        What it is learned from.
    final : bool
        Not to be extended.
    model : LeafModel or None
        Of a leaf.
    kind : {"leaf", "sum", "product"}
    children : list of Region
    """

    rows: IntArray
    columns: IntArray
    final: bool = False
    model: LeafModel | None = None
    kind: Literal["leaf", "sum", "product"] = "leaf"
    children: list[Region] = field(default_factory=list)

    def leaves(self) -> list[Region]:
        """All leaves below."""
        if self.kind == "leaf":
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    def shares(self, weights: FloatArray) -> FloatArray:
        """Weights of a sum: shares of rows."""
        mass = np.array([weights[child.rows].sum() for child in self.children])
        return mass / mass.sum()

    def values(self, weights: FloatArray) -> FloatArray:
        """Log-probability of all distinct training rows."""
        if self.kind == "leaf":
            assert self.model is not None
            return self.model.values
        below = np.stack([child.values(weights) for child in self.children])
        if self.kind == "product":
            return below.sum(axis=0)
        return np.logaddexp.reduce(below + np.log(self.shares(weights))[:, None], axis=0)

    def score(self, weights: FloatArray) -> float:
        """Log marginal likelihood of the rows with their clusters given, a lower bound."""
        if self.kind == "leaf":
            assert self.model is not None
            return self.model.score
        total = sum(child.score(weights) for child in self.children)
        if self.kind == "sum":
            mass = np.array([weights[child.rows].sum() for child in self.children])
            k = len(mass)
            total += float(gammaln(k) - gammaln(mass.sum() + k) + gammaln(mass + 1.0).sum())
        return total

    def signature(self) -> int:
        """A number that networks share if they divide rows and columns in the same way."""
        own = self.kind, self.rows.tobytes(), self.columns.tobytes()
        return hash((own, tuple(child.signature() for child in self.children)))

    def piece(self, weights: FloatArray) -> Piece:
        """The finished network, to be composed."""
        if self.kind == "leaf":
            assert self.model is not None
            return Piece(self.model.circuit, self.columns)
        children = [child.piece(weights) for child in self.children]
        shares = self.shares(weights) if self.kind == "sum" else None
        return Piece(children=children, weights=shares)


@dataclass(frozen=True)
class IndirectLearner:
    """Settings of ID-SPN; see `bayescut.estimators.IDSPN`.

    Parameters
    ----------
    max_clusters : int
        Most clusters of a sum.
    cluster_penalty : float
        Price of a cluster.
    threshold : float
        Columns with more mutual information than this, in nats, stay together.
    max_extensions : int
        Leaves that are tried.
    min_columns, min_rows : int
        A leaf of so many columns or rows or fewer is not extended.
    accept : {"train", "score"}
        An extension is kept if the training likelihood does not fall, or if the score rises.
    width : int
        Most parents of a column in a leaf.
    cuts : bool
        Leaves may be cut (`CutsetNetwork`), else they are junction trees.
    ess : float
        Equivalent sample size of tables.
    seed : int
        Source of the first labels of clusterings.
    n_jobs : int
        Threads; the result does not depend on it.
    """

    max_clusters: int = 5
    cluster_penalty: float = 0.2
    threshold: float = 0.001
    max_extensions: int = 5
    min_columns: int = 10
    min_rows: int = 50
    accept: Literal["train", "score"] = "train"
    width: int = 4
    cuts: bool = True
    ess: float = 1.0
    seed: int = 0
    n_jobs: int = 1

    def grow(
        self,
        codes: CodeArray,
        sizes: IntArray,
        sample_weight: FloatArray | None = None,
        told: Callable[[int], None] | None = None,
        memory: dict[int, RowSplits] | None = None,
        distinct: tuple[CodeArray, FloatArray] | None = None,
    ) -> tuple[Region, FloatArray, int]:
        """Learn a network from complete codes, all rows of which have a positive weight.

        Settings that differ in price and number of clusters only may share a ``memory``: the
        clusterings of the whole table, which take longest, are then made once. ``distinct`` are
        the rows that differ and their weights, if they are known.

        Returns
        -------
        root, weights, n_kept
            The network, the weights of the rows, and the number of extensions that were kept.
        """
        n, m = codes.shape
        weights = np.ones(n) if sample_weight is None else sample_weight
        if distinct is None:
            rows, place = distinct_rows(codes)
            distinct = rows, np.bincount(place, weights).astype(np.float64)
        different, mass = distinct
        root = Region(np.arange(n, dtype=np.int32), np.arange(m))
        heap: list[tuple[int, int, Region]] = [(-n, 0, root)]
        kept = tried = count = 0
        while heap and tried < self.max_extensions:
            region = heapq.heappop(heap)[2]
            if told is not None:
                told(1)
            shared = memory if memory is not None and region is root else {}
            parts = self._extend(region, codes, sizes, weights, tried, shared)
            tried += 1
            if parts is None:
                continue
            if region.model is None and (region is not root or self.accept == "score"):
                self._fit([region], codes, sizes, sample_weight, different)
            new = Region(region.rows, region.columns, kind="product", children=parts)
            if len(parts) == 1:
                new = parts[0]
            self._fit(new.leaves(), codes, sizes, sample_weight, different)
            if not self._pays(region, new, root, weights, mass):
                region.final = True
                continue
            region.kind, region.children, region.model = new.kind, new.children, new.model
            region.final = new.final  # all columns alone: a leaf again
            kept += 1
            for leaf in region.leaves():
                if (
                    not leaf.final
                    and len(leaf.columns) > self.min_columns
                    and len(leaf.rows) > self.min_rows
                ):
                    count += 1
                    heapq.heappush(heap, (-len(leaf.rows), count, leaf))
        if root.kind == "leaf" and root.model is None:
            self._fit([root], codes, sizes, sample_weight, different)
        return root, weights, kept

    def _pays(
        self, region: Region, new: Region, root: Region, weights: FloatArray, mass: FloatArray
    ) -> bool:
        """Whether a leaf is better replaced; that of the root always is, as published."""
        if self.accept == "score":
            return new.score(weights) > region.score(weights)
        if region is root:
            return True
        before = float(mass @ root.values(weights))
        old = region.kind, region.children, region.model
        region.kind, region.children, region.model = new.kind, new.children, new.model
        after = float(mass @ root.values(weights))
        region.kind, region.children, region.model = old
        return after >= before - 1e-9 * abs(before)

    def _extend(
        self,
        region: Region,
        codes: CodeArray,
        sizes: IntArray,
        weights: FloatArray,
        step: int,
        memory: dict[int, RowSplits],
    ) -> list[Region] | None:
        """Groups of columns, each as clusters of rows; None if neither is found."""
        groups = column_groups(codes, region.rows, region.columns, sizes, weights, self.threshold)
        alone = [group for group in groups if len(group) == 1]
        parts = [Region(region.rows, group) for group in groups if len(group) > 1]
        split_any = len(groups) > 1
        for number, part in enumerate(parts):
            seed = [self.seed, step, number]
            clusters = self._clusters(part, codes, sizes, weights, seed, memory)
            if clusters is not None:
                part.kind, part.children = "sum", clusters
                split_any = True
        if alone:
            parts.append(Region(region.rows, np.sort(np.concatenate(alone)), final=True))
        return parts if split_any else None

    def _clusters(
        self,
        part: Region,
        codes: CodeArray,
        sizes: IntArray,
        weights: FloatArray,
        seed: list[int],
        memory: dict[int, RowSplits],
    ) -> list[Region] | None:
        key = hash((tuple(seed), part.rows.tobytes(), part.columns.tobytes()))
        if key not in memory:
            inside = np.ascontiguousarray(codes[np.ix_(part.rows, part.columns)])
            memory[key] = RowSplits(inside, sizes[part.columns], weights[part.rows], seed)
        penalty = self.cluster_penalty * len(part.columns) / codes.shape[1]
        labels = memory[key].best(penalty, self.max_clusters, self.n_jobs)
        n_clusters = int(labels.max()) + 1
        if n_clusters < 2:
            return None
        return [Region(part.rows[labels == c], part.columns) for c in range(n_clusters)]

    def _fit(
        self,
        regions: list[Region],
        codes: CodeArray,
        sizes: IntArray,
        sample_weight: FloatArray | None,
        distinct: CodeArray,
    ) -> None:
        """Give leaves their models, side by side."""
        learner = NetworkLearner(
            BayesDirichlet(self.ess, divide=False),
            StructurePrior(),
            self.width,
            TopGain(10) if self.cuts else None,
        )
        waiting = [region for region in regions if region.model is None]
        # Leaves over the same columns share the counts of all rows, to which they shrink.
        tables: dict[bytes, tuple[Table, Any]] = {}
        for region in waiting:
            key = region.columns.tobytes()
            if key not in tables:
                own = np.ascontiguousarray(codes[:, region.columns])
                table = Table(own, Domains.of_sizes(sizes[region.columns]), sample_weight)
                tables[key] = table, learner.for_components(table, 0)

        def fit(region: Region) -> LeafModel:
            table, part = tables[region.columns.tobytes()]
            grown = part.learn(table, region.rows)
            circuit = freeze_cutset(grown, table.domains)
            values = circuit.log_likelihood(distinct[:, region.columns], n_jobs=1)
            return LeafModel(circuit, values, grown.total_score())

        order = sorted(waiting, key=lambda region: -len(region.rows))
        with ThreadPoolExecutor(self.n_jobs) as executor:
            for region, model in zip(order, executor.map(fit, order), strict=True):
                region.model = model


def column_groups(
    codes: CodeArray,
    rows: IntArray,
    columns: IntArray,
    sizes: IntArray,
    weights: FloatArray,
    threshold: float,
) -> list[IntArray]:
    """Groups of columns linked by mutual information above a threshold, by their first columns."""
    layout = bit_layout(columns, sizes[columns])
    unweighted = bool(np.all(weights == 1.0))
    pairs = count_pairs(codes, layout, rows, None if unweighted else weights)
    m = len(columns)
    n = float(pairs.n)
    information = pair_information(pairs.counts.astype(np.float64), n, layout.ptr, m)
    linked = csr_matrix(information > threshold)
    _, group = connected_components(linked, directed=False)
    found: dict[int, list[int]] = {}
    for j in range(m):
        found.setdefault(int(group[j]), []).append(int(columns[j]))
    return [np.array(members) for members in found.values()]


def pair_information(counts: FloatArray, n: float, ptr: IntArray, m: int) -> FloatArray:
    """Mutual information of all pairs of columns from counts of reduced one-hot bits, in nats."""
    bits = np.diff(ptr)

    def fold(x: FloatArray) -> FloatArray:
        """Sum the bits of every column, along the first axis."""
        if np.all(bits == 1):
            return x
        folded = np.zeros((m, *x.shape[1:]))
        folded[bits > 0] = np.add.reduceat(x, ptr[:-1][bits > 0], axis=0)
        return folded

    single = np.diag(counts).copy()
    zero = np.maximum(n - fold(single), 0.0)  # rows in state 0 of each column
    own = fold(_xlogx(single)) + _xlogx(zero)
    joint = fold(fold(_xlogx(counts)).T)
    # Cells in which one of the two columns, or both, are in state 0.
    rest = np.maximum(single[:, None] - fold(counts).T, 0.0)  # bit, and state 0 of a column
    edge = fold(_xlogx(rest))
    corner = np.maximum(zero[:, None] - fold(rest).T, 0.0)
    joint = joint + edge + edge.T + _xlogx(corner)
    information = (joint - own[:, None] - own[None, :] + _xlogx(np.array(n))) / n
    np.fill_diagonal(information, 0.0)
    return information


def _xlogx(x: FloatArray) -> FloatArray:
    return x * np.log(np.where(x > 0, x, 1.0))
