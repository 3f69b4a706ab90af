r"""Missing cells in training: drawn from a model, which is learned again from what was drawn.

If cells are missing at random (whether a cell is missing depends on what is observed alone), the
posterior over structures and parameters given the observed cells is a mixture over the posteriors
given completed tables, and draws from it come from alternating two steps [1]_:

* draw the missing cells from their exact conditional under the current model,
* learn the model again from the completed table.

Draws confirm the structure they come from: from a model without an edge they show none. So the
first model is a forest of *available-case* counts (every pair of columns is counted in the rows
that have both), and the others are richer than a single network: mixtures whose components share
one structure and have tables of their own.

.. [1] M. A. Tanner, W. H. Wong. The calculation of posterior distributions by data augmentation.
   JASA 82, 1987.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import gammaln

from bayescut._clock import working_time
from bayescut._jobs import side_by_side
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domain, Domains, missing_code
from bayescut.data.table import Table
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.mixture.shared import SharedLearner
from bayescut.learn.mixture.start import KMeansStart
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior

__all__ = [
    "AvailableForest",
    "Completions",
    "available_forest",
    "available_pairs",
    "fill_empty",
    "some_rows",
    "with_indicators",
]

# Rows whose pairs are counted for the first model, which is soon forgotten.
_MOST_COUNTED = 50_000
_BLOCK = 4096
# Copies of an incomplete row from which one network is learned.
_COPIES = 5
# Most parents of a column in the models that cells are drawn from.
_WIDTH = 4


def available_forest(table: Table, ess: float = 1.0) -> Circuit:
    """Learn a forest in which every pair of columns is counted in the rows that have both.

    Edges are worth their Bayes-Dirichlet gain over independence in those rows. Where no cell is
    missing it is the forest of the best score.

    Parameters
    ----------
    table : Table
        Rows, with missing cells.
    ess : float
        Equivalent sample size of every pair.

    Returns
    -------
    Circuit
    """
    counts = available_pairs(table)
    forest = AvailableForest(counts, table.domains, ess)
    offsets, pseudo = table.domains.offsets, 1.0 / np.repeat(table.sizes, table.sizes)
    tables = []
    for v, u in enumerate(forest.parents.tolist()):
        here = slice(offsets[v], offsets[v + 1])
        if u < 0:
            own = counts.diagonal()[here] + ess * pseudo[here]
            tables.append(own / own.sum())
            continue
        above = slice(offsets[u], offsets[u + 1])
        joint = counts[above, here] + ess * np.outer(pseudo[above], pseudo[here])
        tables.append(joint / joint.sum(axis=1, keepdims=True))
    return build.circuit(build.chow_liu(forest.parents.tolist(), tables), table.domains)


class AvailableForest:
    """The best forest of available-case counts.

    Parameters
    ----------
    counts : float64 array of shape (sum of K, sum of K)
        Weight of the rows that have each pair of states; see `available_pairs`.
    domains : Domains
        The columns.
    ess : float
        Equivalent sample size of every pair.

    Attributes
    ----------
    parents : int64 array of shape (m,)
        Parent of each column, -1 for roots.
    score : float
        Log marginal likelihood of each column alone, and what the edges add to it.
    """

    def __init__(self, counts: FloatArray, domains: Domains, ess: float = 1.0) -> None:
        sizes, offsets = domains.n_states, domains.offsets
        pseudo = 1.0 / np.repeat(sizes, sizes)
        alpha = ess * np.outer(pseudo, pseudo)
        pairs = _blocks(gammaln(counts + alpha) - gammaln(alpha), offsets)
        # How often each state occurs in the rows in which another column is observed.
        beside = np.add.reduceat(counts, offsets[:-1], axis=1)
        single = ess * pseudo[:, None]
        alone = np.add.reduceat(gammaln(beside + single) - gammaln(single), offsets[:-1], axis=0)
        rows = np.add.reduceat(beside, offsets[:-1], axis=0)
        base = gammaln(ess) - gammaln(rows + ess)
        gain = pairs - alone - alone.T - base
        self.parents = _spanning_forest(np.maximum(gain, gain.T))
        edges = [(v, u) for v, u in enumerate(self.parents.tolist()) if u >= 0]
        own = (alone + base).diagonal().sum()
        self.score = float(own + sum(gain[v, u] for v, u in edges))


def some_rows(table: Table) -> IntArray:
    """Return the rows of a table whose pairs are counted."""
    rows = table.weighty()
    if len(rows) > _MOST_COUNTED:
        rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_COUNTED, replace=False))
    return rows


def available_pairs(table: Table) -> FloatArray:
    """Weight of the rows that have each pair of states, shape (sum of K, sum of K)."""
    offsets = table.domains.offsets
    counts = np.zeros((offsets[-1], offsets[-1]))
    rows = some_rows(table)
    for begin in range(0, len(rows), _BLOCK):
        some = rows[begin : begin + _BLOCK]
        codes, seen = table.codes[some], table.observed[some]
        ones = np.zeros((len(some), offsets[-1]), dtype=np.float32)
        at, column = np.nonzero(seen)
        ones[at, offsets[column] + codes[at, column]] = 1.0
        weights = table.all_weights[some].astype(np.float32)
        counts += (ones * weights[:, None]).T @ ones
    return counts


def _blocks(cells: FloatArray, offsets: IntArray) -> FloatArray:
    rows = np.add.reduceat(cells, offsets[:-1], axis=0)
    return np.asarray(np.add.reduceat(rows, offsets[:-1], axis=1))


def _spanning_forest(gain: FloatArray) -> IntArray:
    """Return the parents of the heaviest forest of edges of positive gain, -1 for roots."""
    m = len(gain)
    parents = np.full(m, -1, dtype=np.int64)
    open_columns = np.ones(m, dtype=bool)
    best, through = np.zeros(m), np.full(m, -1, dtype=np.int64)
    for _ in range(m):
        v = int(np.argmax(np.where(open_columns, best, -1.0)))
        open_columns[v] = False
        parents[v] = through[v]
        better = open_columns & (gain[v] > best)
        best[better], through[better] = gain[v, better], v
    return parents


class Completions:
    """Draws of the missing cells of a table.

    Parameters
    ----------
    table : Table
        Rows, with missing cells.
    seed : int
        Seed of the draws.
    n_jobs : int
        Threads; the draws do not depend on them.
    n_sweeps : int or None
        How often the cells are drawn and the model is learned again; None: 8 to 20 times, more
        often where there are few rows.
    deadline : float
        By `bayescut._clock.working_time`: no more sweeps are begun after it.

    Attributes
    ----------
    models : list of Circuit
        The models of the last sweeps, from which cells are drawn.

    Examples
    --------
    >>> from bayescut.data import Domains
    >>> codes = np.array([[0, 0], [1, 1], [0, 255], [255, 1]] * 20, dtype=np.uint8)
    >>> completions = Completions(Table(codes, Domains.binary(2)), seed=0)
    >>> completions.single(0).has_gaps
    False
    >>> completions.copies().n_rows, float(completions.copies().weights[-1])
    (240, 0.2)
    """

    def __init__(
        self,
        table: Table,
        seed: int,
        *,
        n_jobs: int = 1,
        n_sweeps: int | None = None,
        deadline: float = np.inf,
    ) -> None:
        self.table = table
        self.seed = seed
        self.n_jobs = n_jobs
        self.rows = np.flatnonzero(~table.observed.all(axis=1))
        self.models = [available_forest(table)]
        if n_sweeps is None:
            # Loss of CutsetNetwork's validation by gaps in a fifth of the cells, 8 and 20 sweeps:
            # dermatology (256 rows) 1.01 and 0.43, german (700) 0.155 and 0.150, student (276) 0.19
            # and 0.26. With modes filled in: 2.21, 1.10, 2.61.
            n_sweeps = int(np.clip(100_000 // table.n_rows, 8, 20))
        labels: IntArray | None = None
        for sweep in range(n_sweeps):
            if working_time() >= deadline:
                break
            completed = self.single(sweep)
            if labels is None:
                size = int(np.clip(table.n_rows // 100, 2, 20))
                labels = KMeansStart(completed, size).labels(size, seed, most_rows=100 * size)
            model = self._mixture(completed, labels, seed + sweep)
            shares = model.responsibilities(completed.codes, n_jobs=n_jobs).shares
            chosen = np.random.default_rng([seed, 6, sweep]).random((table.n_rows, 1))
            labels = (np.cumsum(shares, axis=1)[:, :-1] < chosen).sum(axis=1)
            keep = self.models if sweep > n_sweeps - _COPIES else []
            self.models = [*keep, model]

    def _mixture(self, completed: Table, labels: IntArray, seed: int) -> Circuit:
        """Learn a mixture whose components share one structure from the rows of each."""
        learner = SharedLearner(BayesDirichlet(1.0, divide=False), StructurePrior(), _WIDTH)
        shared = learner.for_components(completed, seed)
        rows = [np.flatnonzero(labels == k).astype(np.int32) for k in np.unique(labels)]
        mass = np.array([completed.total_weight(some) for some in rows])
        alive = [k for k in range(len(rows)) if mass[k] > 0]

        def learn(k: int) -> Circuit:
            return freeze_cutset(shared.learn(completed, rows[k]), completed.domains)

        circuits = side_by_side(learn, alive, self.n_jobs)
        return build.mixture(mass[alive] / mass[alive].sum(), list(circuits))

    def draw(self, number: int) -> CodeArray:
        """Draw the rows that have gaps, a draw of its own for each number."""
        model = self.models[number % len(self.models)]
        rng = np.random.default_rng([self.seed, 7, number])
        return np.asarray(
            model.sample_conditional(self.table.codes[self.rows], rng, n_jobs=self.n_jobs)
        )

    def single(self, number: int) -> Table:
        """Return the table with its missing cells drawn."""
        codes = self.table.codes.copy()
        codes[self.rows] = self.draw(number)
        return replace(self.table, codes=codes)

    def copies(self, n_copies: int = _COPIES) -> Table:
        """Return the table with several draws of every incomplete row, which share its weight."""
        table = self.table
        whole = np.setdiff1d(np.arange(table.n_rows), self.rows)
        drawn = [self.draw(number) for number in range(n_copies)]
        weights = table.all_weights
        values = None
        if table.values is not None:
            order = np.concatenate([whole, *[self.rows] * n_copies])
            values = table.values[order]
        return Table(
            np.concatenate([table.codes[whole], *drawn]),
            table.domains,
            np.concatenate([weights[whole], *[weights[self.rows] / n_copies] * n_copies]),
            values,
        )


def fill_empty(table: Table) -> Table:
    """Give columns of one state, whose cells can only be that, no gaps."""
    single = np.flatnonzero(table.sizes == 1)
    if not len(single) or table.observed[:, single].all():
        return table
    codes = table.codes.copy()
    mark = missing_code(codes.dtype)
    codes[:, single] = np.where(codes[:, single] == mark, 0, codes[:, single])
    return replace(table, codes=codes)


def with_indicators(table: Table, columns: list[int]) -> Table:
    """Add a column for each of some, which tells whether its cell is missing.

    Parameters
    ----------
    table : Table
        Rows, with missing cells.
    columns : list of int
        Positions of the columns whose gaps are told.

    Returns
    -------
    Table
        With columns of states 0 (observed) and 1 (missing) behind the others.
    """
    if not columns:
        return table
    names = table.domains.names
    taken = set(names or [])
    added = []
    for column in columns:
        name = None
        if names is not None:
            name = f"{names[column]} is missing"
            while name in taken:
                name += "?"
            taken.add(name)
        added.append(Domain(name, 2))
    gaps = (~table.observed[:, columns]).astype(table.codes.dtype)
    values = table.values
    if values is not None:
        values = np.hstack([values, np.full(gaps.shape, np.nan)])
    domains = Domains([*table.domains, *added])
    return Table(np.hstack([table.codes, gaps]), domains, table.weights, values)
