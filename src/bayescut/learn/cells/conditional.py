"""One column given the others: networks with grids of their own, weighted by what they predict.

A *member* sees every number through states of its own: the grid's cells, joined by halvings at
random quantiles. Its network is one of all columns, the target among them (*joint*), or one of the
features for each state of the target (*class*). Every member leaves out a fold of the rows, and the
weights of the recipes maximise the likelihood of the target of rows their members have not seen,
given the features: the conditional likelihood, not that of the whole row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescut._clock import working_time
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit.refine import refine
from bayescut.data.cells import halvings
from bayescut.data.domains import Domains, code_dtype, missing_code
from bayescut.data.table import Table
from bayescut.exceptions import DataError
from bayescut.learn.cells.targeted import ForestLearner, TargetForest, table_cells
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.learn.ensemble.pool import Pool
from bayescut.learn.tables.copula import NormalScores, learn_copula
from bayescut.learn.tables.gaps import Completions, fill_empty
from bayescut.learn.tables.resolution import coarsen
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior

__all__ = [
    "ConditionalLearner",
    "Member",
    "NormalMember",
    "Recipe",
    "TreeMember",
    "distinct_rows",
]

# Sweeps in which gaps are drawn from a model learned from the last draws, and the share of a
# budget that they may take.
_SWEEPS = 8
_GAP_TIME = 0.25
# Halvings of a number's grid in the models from which gaps are drawn.
_GAP_DEPTH = 3
# Trees of a member, and numbers in their tables: of more rows fewer trees, 8 MB for a member.
_N_TREES = 16
_MOST_CELLS = 2e6
# A recipe that looks useless is tried again now and then: its first members may have been poor.
_LEAST_SHARE = 0.02
# No probability of a state of the target is less; it would take a single row to ruin a mean.
_LEAST_LOG = -700.0


@dataclass(frozen=True)
class Recipe:
    """How a member is made.

    Parameters
    ----------
    kind : {"class", "joint", "density", "tree", "normal"}
        A network for each state of the target, or one of all columns: to predict the target, or
        the whole row. Or trees whose cuts are chosen for the target; or, of a number, a Gaussian of
        normal scores.
    depth : int
        Halvings of the features' grids: at most 2^depth states. Of trees, rows of a leaf at least.
    """

    kind: str
    depth: int

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.kind} {self.depth}"


@dataclass(frozen=True)
class Member:
    """Networks that predict the last column of a table from the others.

    Parameters
    ----------
    views : tuple of uint16 arrays
        For each feature, the member's state of each state (or cell) of the table.
    target_view : uint16 array of shape (T,)
        The member's state of each state of the target.
    log_share : float64 array of shape (T,)
        Log share of each state of the target within the member's state.
    circuits : tuple of Circuit
        One of features and target, or one of the features for each of the member's states.
    log_prior : float64 array, or None
        Log-probabilities of the member's states of the target; None for a joint network.
    """

    views: tuple[IntArray, ...]
    target_view: IntArray
    log_share: FloatArray
    circuits: tuple[Circuit, ...]
    log_prior: FloatArray | None

    def features(self, codes: CodeArray) -> CodeArray:
        """Return the features as the member sees them."""
        return _see(codes, self.views, self.circuits[0].domains)

    def log_proba(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probabilities of the target's states given features, shape (n, T).

        Parameters
        ----------
        codes : array of shape (n, m)
            Features; missing ones are marginalised.
        n_jobs : int
            Threads.
        """
        if self.log_prior is None:
            domains = self.circuits[0].domains
            rows = np.full((len(codes), len(domains)), 0, dtype=code_dtype(domains))
            rows[:, :-1] = self.features(codes)
            rows[:, -1] = missing_code(rows.dtype)
            posterior = self.circuits[0].marginals(rows, n_jobs=n_jobs)[:, domains.offsets[-2] :]
            with np.errstate(divide="ignore"):
                found = np.log(posterior)
        else:
            rows = self.features(codes)
            terms = [circuit.log_likelihood(rows, n_jobs=n_jobs) for circuit in self.circuits]
            found = np.column_stack(terms) + self.log_prior
            found -= np.logaddexp.reduce(found, axis=1, keepdims=True)
        return np.asarray(np.maximum(found, _LEAST_LOG)[:, self.target_view] + self.log_share)

    def refined(self, domains: Domains) -> Circuit:
        """Return a joint network as a circuit over the states of the table."""
        views = (*self.views, self.target_view)
        shares = [np.exp(_log_share(domains, j, view)) for j, view in enumerate(views)]
        return refine(self.circuits[0], domains, views, shares)

    def log_likelihood(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probability of the last column of complete targets given the others."""
        found = self.log_proba(codes[:, :-1], n_jobs)
        return np.take_along_axis(found, codes[:, -1:].astype(np.int64), axis=1)[:, 0]


@dataclass(frozen=True)
class TreeMember:
    """Trees that predict the last column of a table from the others."""

    forest: TargetForest

    def log_proba(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probabilities of the target's states given features, shape (n, T)."""
        rows = np.hstack([codes, np.zeros((len(codes), 1), dtype=codes.dtype)])
        with np.errstate(divide="ignore"):
            found = np.log(self.forest.proba(rows, n_jobs))
        return np.asarray(np.maximum(found, _LEAST_LOG))

    def log_likelihood(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probability of the last column of complete targets given the others."""
        found = self.log_proba(codes[:, :-1], n_jobs)
        return np.take_along_axis(found, codes[:, -1:].astype(np.int64), axis=1)[:, 0]


@dataclass(frozen=True)
class NormalMember:
    """Normal scores that predict the last column of a table, a number, from the other numbers."""

    normal: NormalScores

    def log_proba(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probabilities of the target's cells given features, shape (n, T)."""
        target = codes.shape[1]
        rows = np.hstack([codes, np.zeros((len(codes), 1), dtype=codes.dtype)])
        return np.asarray(np.log(self.normal.proba(rows, [target])[target]))

    def log_likelihood(self, codes: CodeArray, n_jobs: int = 1) -> FloatArray:
        """Log-probability of the last column of complete targets given the others."""
        found = self.log_proba(codes[:, :-1])
        return np.take_along_axis(found, codes[:, -1:].astype(np.int64), axis=1)[:, 0]


def _see(codes: CodeArray, views: tuple[IntArray, ...], domains: Domains) -> CodeArray:
    """Translate columns of a table into the states of a member."""
    dtype = code_dtype(domains)
    absent = missing_code(codes.dtype)
    out = np.empty((len(codes), len(views)), dtype=dtype)
    for j, view in enumerate(views):
        look_up = np.append(view, missing_code(dtype)).astype(dtype)
        column = codes[:, j].astype(np.int64)
        out[:, j] = look_up[np.where(codes[:, j] == absent, len(view), column)]
    return out


@dataclass(frozen=True)
class ConditionalLearner:
    """Makes members for the last column of a table.

    Parameters
    ----------
    recipes : tuple of Recipe
        Kinds of members.
    width : int
        Most parents of a column in a leaf.
    ess : float
        Equivalent sample size of the networks.
    n_folds : int
        Folds of the rows; each member leaves one out.
    target_depth : int or None
        Halvings of a target that is a number; None: all cells.
    n_jobs : int
        Threads. The result does not depend on it, unless time runs out.
    """

    recipes: tuple[Recipe, ...]
    width: int = 6
    ess: float = 1.0
    n_folds: int = 8
    target_depth: int | None = None
    n_jobs: int = 1

    def learn(
        self,
        table: Table,
        n_members: int,
        seed: int,
        deadline: float = np.inf,
        advance: Callable[[float], None] | None = None,
    ) -> Pool:
        """Return a pool of members with their predictions of unseen rows.

        Parameters
        ----------
        table : Table
            Features and, last, the target; features may have gaps.
        n_members : int
            Members altogether; at least one of every recipe is made.
        seed : int
            Of the grids and of the draws for gaps.
        deadline : float
            When to stop, by `bayescut._clock.working_time`; every recipe has one member
            nevertheless.
        advance : callable, optional
            Told of every member.
        """
        names = [recipe.name for recipe in self._told_apart(table)]
        pool = Pool.empty(table.n_rows, names)
        folds = content_folds(table, self.n_folds)
        drawn = None
        if table.has_gaps:
            drawn = _Drawn(fill_empty(table), seed, self.n_jobs, deadline)
        made = 0
        while made < max(n_members, len(names)):
            if made >= len(names) and working_time() >= deadline:
                break
            # Turns of a round are settled before it begins, so that threads change nothing. Two
            # turns of every recipe come first: weights from one fold are chance on small tables.
            jobs: list[tuple[Recipe, int]] = []
            for recipe in self._round(pool, table, max(n_members, len(names)) - made):
                members = pool.recipes[recipe.name]
                jobs.append((recipe, members.n_turns))
                members.n_turns += 1

            def make(job: tuple[Recipe, int]) -> tuple[Recipe, Any, IntArray]:
                recipe, turn = job
                rng = np.random.default_rng([seed, names.index(recipe.name), turn])
                out = folds == turn % self.n_folds
                if out.all():  # a table of one row, or of equal rows, is learned from as it is
                    out = np.zeros(table.n_rows, dtype=bool)
                number = len(names) * turn + names.index(recipe.name)
                whole = table if drawn is None else drawn.single(number)
                made: Any = self.member(whole, recipe, np.flatnonzero(~out), rng)
                if recipe.kind == "density":
                    made = made.refined(table.domains)
                elif recipe.kind == "tree":
                    made = TreeMember(made.forest.spread(table, np.flatnonzero(out)))
                return recipe, made, np.flatnonzero(out)

            with ThreadPoolExecutor(self.n_jobs) as executor:
                # A pool asks its members for likelihoods alone.
                for recipe, member, out in executor.map(make, jobs):
                    pool.add(recipe.name, member, table, out, self.n_jobs)
                    made += 1
                    if advance is not None:
                        advance(1)
        return pool

    def unseen_proba(
        self, pool: Pool, table: Table, shares: dict[str, float]
    ) -> tuple[IntArray, FloatArray]:
        """Probabilities of the target's states for rows, from members that have not seen them.

        Returns
        -------
        rows : int array of shape (n,)
        probabilities : float64 array of shape (n, T)
        """
        folds = content_folds(table, self.n_folds)
        found = np.zeros((table.n_rows, int(table.sizes[-1])))
        features = table.codes[:, :-1]
        for recipe in self._of(pool):
            members: Any = pool.recipes[recipe.name].circuits
            for turn, member in enumerate(members):
                out = np.flatnonzero(folds == turn % self.n_folds)
                if shares[recipe.name] > 0 and 0 < len(out) < table.n_rows:
                    share = shares[recipe.name] / len(members)
                    found[out] += share * np.exp(member.log_proba(features[out], self.n_jobs))
        total = found.sum(axis=1)
        rows = np.flatnonzero(total > 0)
        return rows, found[rows] / total[rows, None]

    def _told_apart(self, table: Table) -> list[Recipe]:
        """Return the recipes that make different members: without numbers, depths are all one."""
        told = [d.grid is not None and d.n_states > 1 for d in table.domains]
        recipes = [
            recipe
            for recipe in self.recipes
            if recipe.kind != "normal" or (told[-1] and any(told[:-1]))
        ]
        if any(told[:-1]) or any(recipe.kind == "density" for recipe in recipes):
            return recipes
        kinds = {recipe.kind: recipe for recipe in reversed(recipes)}
        return [
            recipe for recipe in recipes if recipe.kind == "tree" or kinds[recipe.kind] is recipe
        ]

    def _of(self, pool: Pool) -> list[Recipe]:
        return [recipe for recipe in self.recipes if recipe.name in pool.recipes]

    def _round(self, pool: Pool, table: Table, room: int) -> list[Recipe]:
        turns = {recipe: pool.recipes[recipe.name].n_turns for recipe in self._of(pool)}
        if min(turns.values()) < 2:
            return [recipe for recipe, turn in turns.items() if turn == min(turns.values())][:room]
        shares = pool.recipe_weights(table.weights)
        chosen = []
        for _ in range(min(room, 2)):
            best = max(turns, key=lambda r: max(shares[r.name], _LEAST_SHARE) / turns[r])
            turns[best] += 1
            chosen.append(best)
        return chosen

    def member(
        self, table: Table, recipe: Recipe, rows: IntArray, rng: np.random.Generator
    ) -> Member | TreeMember | NormalMember:
        """Learn a member from some rows of a complete table."""
        target = table.n_columns - 1
        if recipe.kind == "normal":
            normal = learn_copula(table, rows)
            if normal is None or not normal.knows(target):
                raise DataError("Normal scores need a target that is a number, and another one.")
            return NormalMember(normal)
        if recipe.kind == "tree":
            room = _MOST_CELLS / table_cells(len(rows), target, table.sizes)
            forests = ForestLearner(int(np.clip(room, 1, _N_TREES)), recipe.depth)
            return TreeMember(forests.learn(table.take(rows), target, rng))
        views = tuple(self._view(table, j, recipe.depth, rng) for j in range(target))
        depth = recipe.depth if recipe.kind == "density" else self.target_depth
        target_view = self._view(table, target, depth, rng)
        sizes = [int(view.max()) + 1 for view in (*views, target_view)]
        domains = Domains.of_sizes(sizes)
        codes = _see(table.codes[rows], (*views, target_view), domains)
        weights = None if table.weights is None else table.weights[rows]
        share = _log_share(table.domains, target, target_view)
        if recipe.kind != "class":
            circuit = self._network(Table(codes, domains, weights))
            return Member(views, target_view, share, (circuit,), None)
        features = Domains.of_sizes(sizes[:-1])
        whole = Table(np.ascontiguousarray(codes[:, :-1]), features, weights)
        label = codes[:, -1]
        counts = np.bincount(label, weights, minlength=sizes[-1]) + 1.0 / sizes[-1]
        circuits = tuple(
            self._network(whole, np.flatnonzero(label == state).astype(np.int32))
            for state in range(sizes[-1])
        )
        return Member(views, target_view, share, circuits, np.log(counts / counts.sum()))

    def _view(
        self, table: Table, column: int, depth: int | None, rng: np.random.Generator
    ) -> IntArray:
        grid = table.domains[column].grid
        n_states = table.domains[column].n_states
        if grid is None or depth is None or grid.n_cells <= 2:
            return np.arange(n_states, dtype=np.uint16)
        return grid.view(depth, halvings(grid.mass, rng)).astype(np.uint16)

    def _network(self, table: Table, rows: IntArray | None = None) -> Circuit:
        learner = NetworkLearner(
            BayesDirichlet(self.ess, divide=False),
            StructurePrior(),
            self.width,
            TopGain(10),
            products=True,
        )
        return freeze_cutset(learner.learn(table, rows), table.domains)


class _Drawn:
    """Completions of a table whose numbers have fine cells.

    Coarse states are drawn from models of coarse states
    (`bayescut.learn.tables.gaps.Completions`), and cells within them by the density of their
    column.
    """

    def __init__(self, table: Table, seed: int, n_jobs: int, deadline: float) -> None:
        self.table, self.seed = table, seed
        now = working_time()
        self.coarse = Completions(
            coarsen(table, _GAP_DEPTH),
            seed,
            n_jobs=n_jobs,
            n_sweeps=_SWEEPS,
            gaussian=False,
            deadline=now + _GAP_TIME * (deadline - now),
        )

    def single(self, number: int) -> Table:
        """Return the table with its missing cells drawn, a draw of its own for each number."""
        table, drawn = self.table, self.coarse.single(number).codes
        codes, gaps = table.codes.copy(), ~table.observed
        rng = np.random.default_rng([self.seed, 13, number])
        for j in np.flatnonzero(gaps.any(axis=0)).tolist():
            grid, wanted = table.domains[j].grid, gaps[:, j]
            if grid is None:
                codes[wanted, j] = drawn[wanted, j]
                continue
            view = grid.view(_GAP_DEPTH).astype(np.int64)
            below = np.append(0.0, np.cumsum(grid.mass))
            first = np.searchsorted(view, np.arange(view[-1] + 2))
            low, high = below[first[drawn[wanted, j]]], below[first[drawn[wanted, j] + 1]]
            place = low + (high - low) * rng.random(int(wanted.sum()))
            cell = np.searchsorted(below, place, side="right") - 1
            codes[wanted, j] = np.clip(
                cell, first[drawn[wanted, j]], first[drawn[wanted, j] + 1] - 1
            )
        return replace(table, codes=codes)


def _log_share(domains: Domains, column: int, view: IntArray) -> FloatArray:
    """Log share of each state within the member's state, by the density of a number."""
    grid = domains[column].grid
    if grid is None:
        return np.zeros(len(view))
    total = np.bincount(view, grid.mass)
    return np.asarray(np.log(grid.mass) - np.log(total[view]))


def distinct_rows(table: Table) -> tuple[Table, IntArray]:
    """Collect equal rows, in an order that depends on what is in them alone.

    A model is then the same bit by bit whether a row weighs 2 or is given twice, and wherever it
    stands: neither the order of rows nor a near tie that rounding settles can tell.

    Returns
    -------
    table : Table
        Distinct rows with the sums of their weights.
    place : int array of shape (n,)
        Which of them each row is.
    """
    codes = np.ascontiguousarray(table.codes)
    keys = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.bincount(place.ravel(), table.weights, minlength=len(first)).astype(np.float64)
    kept = None if bool(np.all(weights == 1.0)) else weights
    return Table(np.ascontiguousarray(codes[first]), table.domains, kept), place.ravel()


def content_folds(table: Table, n_folds: int) -> IntArray:
    """Folds of the rows that depend on what is in a row alone, not on where it stands.

    Equal rows are in one fold: repeated rows on either side would flatter members that learn them
    by heart. The rows of each state of the last column are spread evenly.
    """
    distinct, place = np.unique(table.codes, axis=0, return_inverse=True)
    place = place.reshape(-1)
    keys = np.array(
        [
            int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little")
            for row in distinct
        ],
        dtype=np.uint64,
    )
    fold = np.empty(len(distinct), dtype=np.int64)
    begin = 0
    for label in np.unique(distinct[:, -1]):
        own = np.flatnonzero(distinct[:, -1] == label)
        order = own[np.argsort(keys[own], kind="stable")]
        fold[order] = (begin + np.arange(len(own))) % n_folds
        begin += len(own)
    return fold[place]
