r"""Missing cells in training: drawn from a model, which is learned again from what was drawn.

If cells are missing at random (whether a cell is missing depends on what is observed alone), the
posterior over structures and parameters given the observed cells is a mixture over the posteriors
given completed tables, and draws from it come from alternating two steps [1]_:

* draw the missing cells from their exact conditional under the current model,
* learn the model again from the completed table.

Draws confirm the structure they come from: from a model without an edge they show none. So the
first model is a forest of *available-case* counts (every pair of columns is counted in the rows
that have both), beside which smooth numbers are drawn from a Gaussian of their normal scores, and
the others are richer than a single network: mixtures whose components share one structure and have
tables of their own. Where smooth numbers are missing, mixtures with Gaussian components follow,
which give numbers instead of cells; and for small tables cutset networks, which know tables that
are ruled by cases, of which the first is learned from the rows without gaps. In the end cells are
drawn from a mixture of one model of each kind, weighted by rows that were left out of them: what
draws a row is what knows it best.

.. [1] M. A. Tanner, W. H. Wong. The calculation of posterior distributions by data augmentation.
   JASA 82, 1987.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from bayescut._clock import working_time
from bayescut._jobs import side_by_side
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, build
from bayescut.circuit.queries import completed_numbers
from bayescut.data.domains import Domain, Domains, missing_code
from bayescut.data.table import Table
from bayescut.learn.components import ComponentLearner
from bayescut.learn.cutset.freeze import freeze_cutset
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.leaves.normal import expected, smooth_columns, with_numbers
from bayescut.learn.mixture.em import evidence_of
from bayescut.learn.mixture.gaussian import NormalLearner
from bayescut.learn.mixture.shared import SharedLearner
from bayescut.learn.mixture.start import KMeansStart
from bayescut.learn.mixture.weights import most_likely_weights
from bayescut.learn.tables.copula import learn_copula
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior
from bayescut.scores.wishart import NormalWishart

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
# Sweeps with Gaussian components, and one row of so many that says whether there are any.
# Validation of CutsetMixture with gaps in a fifth of the cells without and with such sweeps, and
# without gaps: vehicle -51.06, -49.10, -46.85, wdbc 24.7, 31.9, 34.9, abalone 10.98, 11.59, 11.70.
# They are more where there are few rows: half of vehicle's cells missing, validation of
# CutsetNetwork with 12 sweeps -56.93, with 40 -53.75, with 120 -53.51.
_GAUSSIAN_SWEEPS, _GAUSSIAN_ROWS = (12, 40), 100_000
# Weight from which a kind of models counts. Validation of CutsetNetwork with gaps in a fifth / half
# of the cells, drawn from the kind that left-out rows prefer and from all by their weights: abalone
# 10.09 / 9.02 and 10.12 / 9.89, segment -4.9 / -6.0 and -3.1 / -5.4, concrete 4.5 / -4.1 and
# 5.2 / -4.1, wdbc 32.5 / 23.0 and 31.9 / 24.2, wine -3.78 / -4.43 and -3.75 / -4.40, others alike.
_LEAST_WEIGHT = 0.02
# Part of the rows, without gaps in their numbers, that is enough to begin with.
_PART_WITHOUT_GAPS = 0.25
_LEFT_OUT = 5
# Sweeps with networks, for tables of so many cells, and rows without gaps to begin with. Validation
# of CutsetNetwork with gaps in a fifth of the cells without and with such sweeps, and without gaps:
# chess -11.96, -11.68, -11.26, dermatology -23.28, -23.20, -22.73, german -25.19, -25.18, -25.16;
# student and breast stay with mixtures.
_NETWORK_SWEEPS = 4
_MOST_CELLS = 2**18
_FEWEST_WHOLE = 50


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
        codes = table.codes[some]
        seen = codes != missing_code(codes.dtype)
        ones = np.zeros((len(some), offsets[-1]), dtype=np.float32)
        at, column = np.nonzero(seen)
        ones[at, offsets[column] + codes[at, column]] = 1.0
        weighted = ones
        if table.weights is not None:
            weighted = ones * table.weights[some, None].astype(np.float32)
        counts += weighted.T @ ones
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


class _Kind(NamedTuple):
    """Models of one kind, and the log-likelihoods of rows left out under such a model."""

    models: list[Circuit]
    left_out: FloatArray


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
    gaussian : bool
        Whether numbers may be drawn from mixtures with Gaussian components.
    quick : bool
        As few sweeps as there may be, and no cutset networks: for a look at the table.

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
        gaussian: bool = True,
        quick: bool = False,
    ) -> None:
        self.table = table
        self.seed = seed
        self.n_jobs = n_jobs
        self.numbers = smooth_columns(table) if gaussian else np.empty(0, dtype=np.int64)
        self.rows = np.flatnonzero(~table.observed.all(axis=1))
        self.models = [available_forest(table)]
        self._before: NormalWishart | None = None
        if n_sweeps is None:
            # Loss of CutsetNetwork's validation by gaps in a fifth of the cells, 8 and 20 sweeps:
            # dermatology (256 rows) 1.01 and 0.43, german (700) 0.155 and 0.150, student (276) 0.19
            # and 0.26. With modes filled in: 2.21, 1.10, 2.61.
            n_sweeps = int(np.clip(100_000 // table.n_rows, 8, 20))
        labels: IntArray | None = None
        for sweep in range(n_sweeps):
            if working_time() >= deadline:
                break
            completed = self.single(sweep) if sweep else self._first()
            if labels is None:
                size = int(np.clip(table.n_rows // 100, 2, 20))
                labels = KMeansStart(completed, size).labels(size, seed, most_rows=100 * size)
            model, labels = self._sweep(completed, labels, sweep, gaussian=False)
            keep = self.models if sweep > n_sweeps - _COPIES else []
            self.models = [*keep, model]
        if labels is None or working_time() >= deadline:
            return
        gaps_in_numbers = len(self.numbers) > 1 and not table.observed[:, self.numbers].all()
        networks = table.codes.size <= _MOST_CELLS and not quick
        if not (gaps_in_numbers or networks):
            return
        cells = _Kind(self.models, self._mixture_logs(labels, gaussian=False))
        kinds = [cells]
        if gaps_in_numbers:
            most = _GAUSSIAN_SWEEPS[0] if quick else _GAUSSIAN_ROWS // table.n_rows
            kinds += self._gaussians(
                labels, n_sweeps, int(np.clip(most, *_GAUSSIAN_SWEEPS)), deadline
            )
        if networks:
            self.models = self._mixed(kinds)
            kinds += self._networks(n_sweeps, deadline)
        self.models = self._mixed(kinds)

    def _first(self) -> Table:
        """Draw the missing cells for the first time."""
        numbers = learn_copula(self.table, columns=self.numbers)
        if numbers is None:
            return self.single(0)
        rng = np.random.default_rng([self.seed, 21])
        codes = self.table.codes.copy()
        codes[self.rows] = numbers.fill(codes[self.rows], rng)
        codes[self.rows] = self.models[0].sample_conditional(
            codes[self.rows], rng, n_jobs=self.n_jobs
        )
        return replace(self.table, codes=codes)

    def _gaussians(
        self, labels: IntArray, first: int, n_sweeps: int, deadline: float
    ) -> list[_Kind]:
        """Mixtures of Gaussian components, if there is time for them."""
        for sweep in range(first, first + n_sweeps):
            if working_time() >= deadline:
                return []
            model, labels = self._sweep(self.single(sweep), labels, sweep, gaussian=True)
            keep = self.models if sweep > first + n_sweeps - _COPIES else []
            self.models = [*keep, model]
        return [_Kind(self.models, self._mixture_logs(labels, gaussian=True))]

    def _networks(self, first: int, deadline: float) -> list[_Kind]:
        """Cutset networks, if there is time for them."""
        table = self.table
        whole = table.take(np.flatnonzero(table.observed.all(axis=1)))
        if len(whole.weighty()) >= _FEWEST_WHOLE:
            self.models = [self._network(whole)]
        networks: list[Circuit] = []
        for sweep in range(first, first + _NETWORK_SWEEPS):
            if working_time() >= deadline:
                return []
            networks.append(self._network(self.single(sweep)))
            self.models = networks[-1:]
        self.models = networks
        return [_Kind(networks, self._left_out_logs(self._network))]

    def _weights(self, kinds: list[_Kind]) -> FloatArray:
        """Weights of kinds of models that are most likely given rows left out."""
        rows = self.table.all_weights[::_LEFT_OUT]
        if not rows.sum() > 0:
            return np.eye(len(kinds))[0]
        weights = most_likely_weights(np.array([kind.left_out for kind in kinds]), rows)
        weights[weights < _LEAST_WEIGHT] = 0.0
        return weights / weights.sum()

    def _mixed(self, kinds: list[_Kind]) -> list[Circuit]:
        """Mixtures of one model of each kind: what draws a row is what knows it best."""
        weights = self._weights(kinds)
        used = [(w, kind) for w, kind in zip(weights, kinds, strict=True) if w > 0]
        if len(used) == 1:
            return used[0][1].models
        return [
            build.mixture([w for w, _ in used], [k.models[i % len(k.models)] for _, k in used])
            for i in range(_COPIES)
        ]

    def _sweep(
        self, completed: Table, labels: IntArray, sweep: int, gaussian: bool
    ) -> tuple[Circuit, IntArray]:
        """Learn a mixture from the rows of each of its components, and draw those anew."""
        learned = completed
        if gaussian:
            learned = completed = self._with_numbers(completed, sweep)
            # Numbers that are anywhere in their cells blur the components, which then draw numbers
            # that are as blurred: the first ones are learned from rows that have all numbers.
            if not self.models[-1].has_normals:
                learned = self._with_whole_rows(completed)
        model = self._mixture(learned, labels, self.seed + sweep, gaussian)
        told = evidence_of(completed, model)
        shares = model.responsibilities(told, n_jobs=self.n_jobs).shares
        chosen = np.random.default_rng([self.seed, 6, sweep]).random((self.table.n_rows, 1))
        return model, (np.cumsum(shares, axis=1)[:, :-1] < chosen).sum(axis=1)

    def _with_whole_rows(self, completed: Table) -> Table:
        """Give rows that lack numbers no weight, if enough others are left."""
        assert self.table.values is not None
        whole = ~np.isnan(self.table.values[:, self.numbers]).any(axis=1)
        weights = np.where(whole, completed.all_weights, 0.0)
        enough = weights.sum() >= _PART_WITHOUT_GAPS * completed.total_weight()
        return completed.with_weights(weights) if enough else completed

    def _with_numbers(self, completed: Table, number: int) -> Table:
        rng = np.random.default_rng([self.seed, 14, number])
        return with_numbers(completed, self.numbers, rng)

    def _mixture_logs(self, labels: IntArray, gaussian: bool) -> FloatArray:
        inside = labels[np.arange(len(labels)) % _LEFT_OUT > 0]
        return self._left_out_logs(lambda some: self._mixture(some, inside, self.seed, gaussian))

    def _left_out_logs(self, learn: Callable[[Table], Circuit]) -> FloatArray:
        """Log-likelihoods of what is observed of rows, under a model learned from the others."""
        every = np.arange(self.table.n_rows)
        inside, outside = every[every % _LEFT_OUT > 0], every[every % _LEFT_OUT == 0]
        held = self.table.take(outside)
        completed = self.single(0)
        if len(self.numbers):
            completed = self._with_numbers(completed, 0)
        completed = completed.take(inside)
        if completed.total_weight() == 0:
            return np.full(len(outside), -np.inf)
        model = learn(completed)
        return model.log_likelihood(evidence_of(held, model), n_jobs=self.n_jobs)

    def _mixture(
        self, completed: Table, labels: IntArray, seed: int, gaussian: bool = False
    ) -> Circuit:
        """Learn a mixture whose components share one structure from the rows of each."""
        learner: ComponentLearner
        learner = SharedLearner(BayesDirichlet(1.0, divide=False), StructurePrior(), _WIDTH)
        if gaussian:
            if self._before is None:
                self._before = expected(completed, self.numbers, seed=self.seed)
            learner = NormalLearner(learner, StructurePrior(), self.numbers, before=self._before)
        shared = learner.for_components(completed, seed)
        rows = [np.flatnonzero(labels == k).astype(np.int32) for k in np.unique(labels)]
        mass = np.array([completed.total_weight(some) for some in rows])
        alive = [k for k in range(len(rows)) if mass[k] > 0]

        def learn(k: int) -> Circuit:
            found = shared.learn(completed, rows[k])
            return found if isinstance(found, Circuit) else freeze_cutset(found, completed.domains)

        circuits = side_by_side(learn, alive, self.n_jobs)
        return build.mixture(mass[alive] / mass[alive].sum(), list(circuits))

    def _network(self, completed: Table) -> Circuit:
        """Learn a cutset network, as `CutsetNetwork` does from cells."""
        learner = NetworkLearner(
            BayesDirichlet(1.0, divide=False),
            StructurePrior(),
            n_jobs=self.n_jobs,
        )
        return freeze_cutset(learner.learn(completed), completed.domains)

    def draw(self, number: int) -> tuple[CodeArray, FloatArray | None]:
        """Draw the rows that have gaps, a draw of its own for each number.

        Returns
        -------
        CodeArray, FloatArray or None
            Their states; and their numbers, NaN where there is but a state.
        """
        model = self.models[number % len(self.models)]
        rng = np.random.default_rng([self.seed, 7, number])
        if model.has_normals:
            told = evidence_of(self.table, model, self.rows)
            return completed_numbers(model, told, rng, n_jobs=self.n_jobs)
        codes = model.sample_conditional(self.table.codes[self.rows], rng, n_jobs=self.n_jobs)
        values = self.table.values
        return np.asarray(codes), None if values is None else values[self.rows]

    def single(self, number: int) -> Table:
        """Return the table with its missing cells drawn."""
        codes, values = self.table.codes.copy(), self.table.values
        codes[self.rows], drawn = self.draw(number)
        if drawn is not None and values is not None:
            values = values.copy()
            values[self.rows] = drawn
        return replace(self.table, codes=codes, values=values)

    def copies(self, n_copies: int = _COPIES) -> Table:
        """Return the table with several draws of every incomplete row, which share its weight."""
        table = self.table
        whole = np.setdiff1d(np.arange(table.n_rows), self.rows)
        codes, numbers = zip(*[self.draw(number) for number in range(n_copies)], strict=True)
        weights = table.all_weights
        values = None
        if table.values is not None:
            values = np.concatenate([table.values[whole], *numbers])
        return Table(
            np.concatenate([table.codes[whole], *codes]),
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
