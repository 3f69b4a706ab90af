r"""Continuous latent variables under one tree, learned by gradients.

.. math:: p(x) = \int N(z; 0, I) \, p_T(x \mid z) \, dz \approx \sum_i w_i \, p_T(x \mid z_i)

A small network turns a point z into the tables of a tree T (or of a thin junction tree) whose
structure is learned from a bootstrap sample. The integral is a sum over scrambled Sobol points,
anew in every step while learning and over fixed points afterwards, which makes the model an
ordinary mixture of trees with one structure: all queries are exact. Correia, Gala, Quaeghebeur,
de Campos and Peharz (AAAI 2023) call these continuous mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bayescut._clock import working_time
from bayescut._typing import IntArray
from bayescut.circuit import Circuit
from bayescut.data.domains import Domains
from bayescut.data.table import Table
from bayescut.learn.continuous.circuit import compile_decoder
from bayescut.learn.continuous.decoder import (
    Decoder,
    Mapper,
    Parameters,
    adam_step,
    log_likelihood,
    normal_points,
    point_threads,
    start_parameters,
)
from bayescut.learn.continuous.families import Families
from bayescut.learn.continuous.rows import Rows
from bayescut.learn.continuous.structure import Array, Structure
from bayescut.learn.leaves.junction import JunctionLeaves
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import NoPrior

_DTYPE = np.float32
# Point sets that take turns in the steps.
_N_SETS = 64
# Rows of the sample that the structure is learned from, at most.
_MOST_SAMPLE = 2**20
# Rows between two looks at the held-out rows, and held-out rows looked at, at most.
_EPOCH_ROWS = 2**15
# Batches between two looks, at least: small tables pass several times.
_EPOCH_BATCHES = 16
_HELD_ROWS = 2**12
# Copies of a row that an epoch may hold on average: repeated rows teach nothing new in one epoch.
_MOST_COPIES = 4
# A gain on held-out rows below this part of their log-likelihood is none.
_LEAST_GAIN = 1e-5
# Epochs of the last stretch, as a part of those before. Members that had seen 78 % of the training
# rows, after none and six such epochs with all of them, validation: baudio -38.611 and -38.574,
# tmovie -52.93 and -52.62.
_LAST_STRETCH = 0.25
# Parts of the time of a member by which it is to be learned, judged, and finished.
_LEARNING, _JUDGED, _FINISHED = 0.65, 0.75, 0.9
# Points of a member of very many cells.
_FEWEST_POINTS = 64


class TooLong(Exception):
    """Learning would take longer than there is time.

    Attributes
    ----------
    seconds : float
        How long it would take.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class State:
    """Where a run stands: all it needs to go on.

    Attributes
    ----------
    structure : Structure
        What all points share.
    parameters, average, best : list of arrays
        Of the decoder: those of the last step, their running average, and the average that was
        best on held-out rows.
    moments : list of arrays
        First and second moments of Adam, one after the other.
    rate : float
        Learning rate.
    scores : list of float
        Mean log-likelihood of the held-out rows at the start (one tree) and after each epoch.
    n_idle, n_cuts, n_steps : int
        Epochs without a gain, cuts of the rate, steps since the last of them.
    finished : bool
        Whether learning has come to its end.
    """

    structure: Structure
    parameters: list[Array]
    average: list[Array]
    best: list[Array]
    moments: list[Array]
    rate: float
    scores: list[float] = field(default_factory=list)
    n_idle: int = 0
    n_cuts: int = 0
    n_steps: int = 0
    finished: bool = False

    @property
    def epoch(self) -> int:
        """Number of epochs so far."""
        return max(len(self.scores) - 1, 0)


@dataclass(frozen=True)
class ContinuousLearner:
    """Learns decoders.

    Parameters
    ----------
    n_latent : int
        Dimensions of the latent variable.
    hidden : tuple of int
        Units of the hidden layers.
    n_points : int
        Points of a step; twice as many are used to look at held-out rows. Validation of baudio with
        512 points -38.596, with 1,024 -38.563, with 2,048 the same in twice the time.
    batch : int
        Rows of a step.
    rate : float
        Learning rate at the start.
    decay : float
        Of the running average of the parameters. Validation of baudio after 12 epochs: -38.72
        without an average, -38.65 with it.
    weight_decay : float
        Part of the weights (not of the biases) that a step takes away, times the rate. Validation
        with 0 and 0.5: bnetflix -54.924 and -54.872, tmovie -52.58 and -52.47 (2 is better there,
        -52.43, and worse on bnetflix, -55.07).
    patience : int
        Epochs without a gain on held-out rows after which the rate is cut and learning goes on
        from the best parameters.
    cut, max_cuts : float, int
        Factor of such a cut, and how many there are before the end.
    width : int
        Most parents of a column; 1 is a tree.
    ess : float
        Equivalent sample size: of the score that chooses the structure, and of the tables that
        learning starts from.
    seed : int
        Seed of everything.
    """

    n_latent: int = 16
    hidden: tuple[int, ...] = (128, 256)
    n_points: int = 1024
    batch: int = 256
    rate: float = 3e-3
    decay: float = 0.99
    weight_decay: float = 0.5
    patience: int = 3
    cut: float = 0.3
    max_cuts: int = 2
    width: int = 1
    ess: float = 1.0
    seed: int = 0

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])

    def draw_structure(self, rows: Rows, sizes: IntArray) -> Structure:
        """Structure of a bootstrap sample: the best tree, or a thin junction tree."""
        sample = rows.bootstrap(_MOST_SAMPLE, self._rng(1))
        score = BayesDirichlet(self.ess, divide=False)
        leaves = JunctionLeaves(score, NoPrior(), self.width, len(sample))
        table = Table(rows.codes, Domains.of_sizes(sizes))
        every = np.arange(len(sizes))
        fit = leaves.fit(table, sample, every, score.root_ess, len(every))
        return Structure(fit.columns, fit.parent_ptr, fit.parents, fit.hosts)

    def start(self, train: Rows, sizes: IntArray) -> State:
        """Begin: the best so far is the structure's one tree, at every point."""
        structure = self.draw_structure(train, sizes)
        families = Families(structure, sizes)
        logits = families.mean_logits(families.features(train.codes), train.weights, self.ess)
        layers = (self.n_latent, *self.hidden)
        begin = start_parameters(layers, families.offsets.n_outputs, logits, self._rng(2), _DTYPE)
        tree = begin.copy()
        tree.weights[-1][...] = 0
        return State(
            structure,
            begin.arrays(),
            [array.copy() for array in begin.arrays()],
            tree.arrays(),
            [np.zeros_like(array) for array in begin.arrays() * 2],
            self.rate,
        )

    def run(
        self,
        state: State,
        train: Rows,
        held: Rows,
        sizes: IntArray,
        mapper: Mapper = map,
        deadline: float = math.inf,
    ) -> Iterator[State]:
        """Learn epoch by epoch, changing the state and yielding it after each.

        Parameters
        ----------
        state : State
            From `start`, or from an earlier run that is to go on.
        train, held : Rows
            Rows to learn from, and those that say when the rate is cut and when to stop. Without
            any of either nothing is learned.
        sizes : int array of shape (m,)
            Numbers of states of the columns.
        mapper : callable
            ``map``, or that of a pool of threads. The result does not depend on it.
        deadline : float
            By `bayescut._clock.working_time`: when the epoch is broken off and looked at.
        """
        if not len(train) or not len(held):
            state.finished = True
        if state.finished:
            return
        families = Families(state.structure, sizes)
        decoder = Decoder(families, Parameters.of(state.parameters), mapper)
        judged = Judge(
            families, held.at_most(_HELD_ROWS, self._rng(3)), self.check_points(), mapper
        )
        if not state.scores:
            state.scores.append(judged.score(state.best))
        steps = self._steps(train, families)
        while not state.finished:
            self._pass(state, decoder, steps, self._rng(4, state.epoch), deadline)
            self._judge(state, judged.score(state.average))
            yield state
            if working_time() >= deadline:
                return

    def seconds_of_an_epoch(
        self, state: State, train: Rows, sizes: IntArray, mapper: Mapper
    ) -> float:
        """Time that an epoch takes, by one step that is not taken."""
        families = Families(state.structure, sizes)
        decoder = Decoder(families, Parameters.of(state.parameters), mapper)
        points = normal_points(self.n_points, self.n_latent, self._rng(5, 0)).astype(_DTYPE)
        picked = families.features(train.codes[: self.batch])
        began = working_time()
        decoder.gradient(families.rows(picked, _DTYPE), points)
        return (working_time() - began) * self._epoch_rows(train) / self.batch

    def finish(
        self,
        state: State,
        rows: Rows,
        sizes: IntArray,
        mapper: Mapper = map,
        deadline: float = math.inf,
    ) -> list[Array]:
        """Go on from the best for a while with all rows, those that said when to stop among them.

        Parameters
        ----------
        state : State
            Of a run that has ended; it stays as it is.
        rows, sizes, mapper, deadline
            See `run`.

        Returns
        -------
        list of arrays
            Parameters of the decoder: the best ones, if nothing was learned.
        """
        n_epochs = math.ceil(_LAST_STRETCH * state.epoch)
        if n_epochs == 0 or max(state.scores[1:]) <= state.scores[0]:
            return state.best
        last = replace(
            state,
            parameters=[array.copy() for array in state.best],
            average=[array.copy() for array in state.best],
            moments=[np.zeros_like(array) for array in state.moments],
            rate=self.rate * self.cut,
            n_steps=0,
        )
        families = Families(state.structure, sizes)
        decoder = Decoder(families, Parameters.of(last.parameters), mapper)
        steps = self._steps(rows, families)
        for epoch in range(n_epochs):
            if working_time() >= deadline:
                break
            self._pass(last, decoder, steps, self._rng(10, epoch), deadline)
        return last.average if all(np.isfinite(a).all() for a in last.average) else state.best

    def _steps(self, rows: Rows, families: Families) -> _Steps:
        return _Steps(rows, families.features(rows.codes), self._epoch_rows(rows), {})

    def _epoch_rows(self, rows: Rows) -> int:
        size = int(np.clip(rows.total, len(rows), _MOST_COPIES * len(rows)))
        return max(min(size, _EPOCH_ROWS), _EPOCH_BATCHES * self.batch)

    def _pass(
        self,
        state: State,
        decoder: Decoder,
        steps: _Steps,
        rng: np.random.Generator,
        deadline: float,
    ) -> None:
        """Go through the rows once, by steps."""
        order = steps.rows.draw(steps.size, rng)
        for begin in range(0, steps.size, self.batch):
            which = int(rng.integers(_N_SETS))
            if which not in steps.points:
                points = normal_points(self.n_points, self.n_latent, self._rng(5, which))
                steps.points[which] = points.astype(_DTYPE)
            picked = steps.picked[order[begin : begin + self.batch]]
            rows = decoder.families.rows(picked, _DTYPE)
            _, gradient, _, _ = decoder.gradient(rows, steps.points[which])
            self._step(state, gradient)
            if working_time() >= deadline:
                break

    def check_points(self) -> Array:
        """Points at which held-out rows are looked at while learning."""
        return normal_points(2 * self.n_points, self.n_latent, self._rng(6)).astype(_DTYPE)

    def _step(self, state: State, gradient: list[Array]) -> None:
        """Go a step upwards, and take it into the average."""
        state.n_steps += 1
        t = state.n_steps
        for weight in Parameters.of(state.parameters).weights:
            weight *= _DTYPE(1 - state.rate * self.weight_decay)
        adam_step(state.parameters, state.moments, gradient, t, state.rate)
        # Short at first, so that the start is soon forgotten.
        decay = min(self.decay, (1 + t) / (10 + t))
        for average, parameter in zip(state.average, state.parameters, strict=True):
            average *= decay
            average += (1 - decay) * parameter

    def _judge(self, state: State, score: float) -> None:
        """Take note of an epoch: keep the best, cut the rate or finish after idle ones."""
        if not score > -math.inf:
            score = -math.inf  # a step too far
        # The tree of the start is kept as long as it is the best, but learning does not go back
        # to it: the same tables at all points are a saddle, from where no gradient leads away.
        learned = max(state.scores[1:], default=-math.inf)
        from_tree = max(learned, score) <= state.scores[0]
        if score > max(state.scores):
            state.best = [array.copy() for array in state.average]
        state.scores.append(score)
        if score - learned > _LEAST_GAIN * abs(score):
            state.n_idle = 0
            return
        state.n_idle += 1
        if state.n_idle < self.patience:
            return
        state.n_idle = state.n_steps = 0
        state.n_cuts += 1
        state.rate *= self.cut
        state.finished = state.n_cuts > self.max_cuts
        back = state.average if from_tree else state.best
        for array, average, source in zip(state.parameters, state.average, back, strict=True):
            array[...] = source
            average[...] = source
        for moment in state.moments:
            moment[...] = 0


class _Steps(NamedTuple):
    """Rows of an epoch: all, the features they pick, how many are drawn, and points in use."""

    rows: Rows
    picked: Array
    size: int
    points: dict[int, Array]


def learn_member(
    learner: ContinuousLearner,
    train: Rows,
    held: Rows,
    unseen: Rows,
    domains: Domains,
    *,
    n_points: int = 16_384,
    most_cells: float = math.inf,
    tol: float = 0.005,
    max_epochs: int = 200,
    n_jobs: int = 1,
    time_left: float = math.inf,
    fewest_epochs: int = 0,
) -> tuple[Circuit, Circuit]:
    """Learn a mixture of trees with one structure from a table, at one go.

    Parameters
    ----------
    learner : ContinuousLearner
        Settings and seed.
    train, held, unseen : Rows
        Complete rows: to learn from, to say when to stop and how many points are needed, and the
        rest of the table.
    domains : Domains
        The columns.
    n_points, tol
        See `compile_decoder`.
    most_cells : float
        Cells of the tables of all points, at most; but there are 64 points if need be.
    max_epochs : int
        Most epochs.
    n_jobs : int
        Threads.
    time_left : float
        Seconds for all of it; the points of the second circuit may take a little longer.
    fewest_epochs : int
        `TooLong` is raised if there seems to be no time for so many.

    Returns
    -------
    judged : Circuit
        What was made without the unseen rows, to be judged by them.
    member : Circuit
        The same after a last stretch with all rows.
    """
    began = working_time()
    sizes = domains.n_states
    state = learner.start(train, sizes)
    with point_threads(n_jobs) as mapper:
        if fewest_epochs and time_left < math.inf and len(train):
            seconds = fewest_epochs * learner.seconds_of_an_epoch(state, train, sizes, mapper)
            if working_time() - began + seconds > _LEARNING * time_left:
                raise TooLong(seconds / _LEARNING)
        n_cells = Families(state.structure, sizes).n_cells
        n_points = int(np.clip(most_cells / n_cells, min(_FEWEST_POINTS, n_points), n_points))
        epochs = learner.run(state, train, held, sizes, mapper, began + _LEARNING * time_left)
        while state.epoch < max_epochs and next(epochs, None) is not None:
            pass

        def compiled(parameters: list[Array], rows: Rows, until: float) -> Circuit:
            return compile_decoder(
                parameters, state.structure, sizes, rows, held,
                n_points=n_points, tol=tol, seed=learner.seed, mapper=mapper, deadline=until,
            ).circuit(domains)  # fmt: skip

        judged = compiled(state.best, train, began + _JUDGED * time_left)
        every = train.joined(held, unseen)
        last = learner.finish(state, every, sizes, mapper, began + _FINISHED * time_left)
        if last is state.best:
            return judged, judged
        return judged, compiled(last, every, began + time_left)


class Judge:
    """Mean log-likelihood of held-out rows at fixed points."""

    def __init__(self, families: Families, held: Rows, points: Array, mapper: Mapper) -> None:
        self.families = families
        self.weights = held.weights
        self.picked = families.features(held.codes)
        self.points = points
        self.mapper = mapper

    def score(self, parameters: list[Array]) -> float:
        """Score of a decoder."""
        decoder = Decoder(self.families, Parameters.of(parameters), self.mapper)
        weights = decoder.feature_weights(self.points)
        found = log_likelihood(self.families, weights, self.picked, mapper=self.mapper)
        return float(np.average(found, weights=self.weights))
