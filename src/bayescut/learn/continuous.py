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
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.continuous_decoder import (
    Decoder,
    Mapper,
    Parameters,
    log_likelihood,
    normal_points,
    start_parameters,
)
from bayescut.learn.continuous_families import Array, Families, Structure
from bayescut.learn.junction import JunctionLeaves
from bayescut.learn.outside import shrink_tables
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import NoPrior

_DTYPE = np.float32


@dataclass(frozen=True)
class Rows:
    """Distinct rows of a table in a fixed order, and how often each counts.

    What is learned depends on nothing else, so a weight of k is a row given k times, exactly.
    """

    codes: CodeArray
    weights: FloatArray

    @classmethod
    def of(cls, codes: CodeArray, sample_weight: FloatArray | None) -> Rows:
        """Collect equal rows; those without weight are left out."""
        if sample_weight is not None:
            codes = codes[sample_weight > 0]
            sample_weight = sample_weight[sample_weight > 0]
        codes = np.ascontiguousarray(codes)
        keys = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        weights = np.bincount(place.ravel(), sample_weight, minlength=len(first))
        return cls(codes[first], weights.astype(np.float64))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Row numbers by systematic sampling in random order.

        A row of weight w comes ``size * w / total`` times, rounded up or down; with whole weights
        and ``size`` their sum exactly w times.
        """
        order = rng.permutation(len(self))
        ends = np.cumsum(self.weights[order])
        marks = (np.arange(size) + rng.random()) * (ends[-1] / size)
        drawn: IntArray = order[np.minimum(np.searchsorted(ends, marks, "right"), len(self) - 1)]
        return rng.permutation(drawn)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Hold out a fraction of the weight: of a row given k times each copy goes its own way."""
        whole = np.floor(self.weights)
        rest = self.weights - whole
        # Past this the share of a row is its expectation to three digits.
        many = whole > 2**40
        held = rng.binomial(np.where(many, 0, whole).astype(np.int64), fraction).astype(np.float64)
        held += np.where(rng.random(len(self)) < fraction, rest, 0.0)
        held = np.where(many, fraction * self.weights, held)
        kept = np.where(held >= self.weights, 0.0, self.weights - held)
        return self._part(kept), self._part(held)

    def _part(self, weights: FloatArray) -> Rows:
        return Rows(self.codes[weights > 0], weights[weights > 0])


@dataclass
class State:
    """Everything a run needs to go on."""

    structure: Structure
    parameters: list[Array]
    first_moment: list[Array]
    second_moment: list[Array]
    best: list[Array]
    rate: float
    best_score: float = -math.inf
    best_epoch: int = 0
    epoch: int = 0
    n_steps: int = 0
    n_idle: int = 0
    n_cuts: int = 0
    scores: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ContinuousLearner:
    n_latent: int = 16
    hidden: tuple[int, ...] = (128, 256)
    n_train_points: int = 2048
    n_check_points: int = 4096
    n_sets: int = 64
    batch: int = 256
    rate: float = 2e-3
    patience: int = 4
    cut: float = 0.3
    max_cuts: int = 3
    width: int = 1
    ess: float = 1.0
    max_epoch_rows: int = 32768
    seed: int = 0

    def draw_structure(self, rows: Rows, sizes: IntArray) -> tuple[Structure, FloatArray]:
        """Structure of a bootstrap sample, and log tables of all rows over it."""
        rng = np.random.default_rng([self.seed, 31])
        n = int(np.clip(round(min(rows.total, 2.0**30)), 1, max(4 * len(rows), 2**20)))
        times = rng.multinomial(n, rows.weights / rows.total)
        sample = np.repeat(np.arange(len(rows), dtype=np.int32), times)
        score = BayesDirichlet(self.ess, spread=False)
        leaves = JunctionLeaves(score, NoPrior(), self.width, sizes, n)
        fit = leaves.fit(rows.codes, sample, np.arange(len(sizes)), score.root_ess)
        tables = shrink_tables(
            fit.counts, np.zeros_like(fit.counts), sizes, *fit.families, fit.ess
        )
        return Structure(fit.columns, fit.parent_ptr, fit.parents, fit.hosts), tables

    def start(self, train: Rows, sizes: IntArray) -> State:
        structure, tables = self.draw_structure(train, sizes)
        families = Families(structure, sizes)
        rng = np.random.default_rng([self.seed, 32])
        layers = (self.n_latent, *self.hidden)
        parameters = start_parameters(layers, families.logits_of(tables), rng, _DTYPE).arrays()
        zeros = [np.zeros_like(a) for a in parameters]
        return State(
            structure,
            parameters,
            zeros,
            [z.copy() for z in zeros],
            [p.copy() for p in parameters],
            self.rate,
        )

    def run(
        self, state: State, train: Rows, held: Rows, sizes: IntArray, mapper: Mapper = map,
        deadline: float = math.inf,
    ) -> Iterator[State]:
        families = Families(state.structure, sizes)
        decoder = Decoder(families, Parameters.of(state.parameters), mapper)
        sets = [
            normal_points(self.n_train_points, self.n_latent, [self.seed, 33, s]).astype(_DTYPE)
            for s in range(self.n_sets)
        ]
        check = normal_points(self.n_check_points, self.n_latent, [self.seed, 34]).astype(_DTYPE)
        picked = families.features(train.codes)
        held_picked = families.features(held.codes)
        size = int(np.clip(train.total, len(train), 4 * len(train)))
        size = min(size, self.max_epoch_rows)
        while True:
            rng = np.random.default_rng([self.seed, 35, state.epoch])
            order = train.draw(size, rng)
            which = rng.integers(0, len(sets), -(-size // self.batch))
            for b, s in enumerate(which):
                rows = order[b * self.batch : (b + 1) * self.batch]
                indicators = families.indicators(picked[rows], _DTYPE)
                _, gradient, _, _ = decoder.gradient(indicators, sets[s])
                adam(state, gradient)
                if time.monotonic() > deadline:
                    break
            weights = decoder.feature_weights(check)
            found = log_likelihood(families, weights, held_picked, None, mapper)
            score = float(np.average(found, weights=held.weights))
            state.epoch += 1
            state.scores.append(score)
            if score > state.best_score:
                state.best_score, state.best_epoch, state.n_idle = score, state.epoch, 0
                state.best = [p.copy() for p in state.parameters]
            else:
                state.n_idle += 1
            done = time.monotonic() > deadline
            if state.n_idle >= self.patience:
                state.n_idle = 0
                state.n_cuts += 1
                state.rate *= self.cut
                for array, best in zip(state.parameters, state.best, strict=True):
                    array[...] = best
                for moment in (*state.first_moment, *state.second_moment):
                    moment[...] = 0
                state.n_steps = 0
                done |= state.n_cuts > self.max_cuts
            yield state
            if done:
                return


def adam(state: State, gradient: list[Array]) -> None:
    """One step of Adam upwards."""
    state.n_steps += 1
    t = state.n_steps
    rate = state.rate * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    arrays = zip(state.parameters, state.first_moment, state.second_moment, gradient, strict=True)
    for parameter, first, second, g in arrays:
        first *= 0.9
        first += 0.1 * g
        second *= 0.999
        second += 0.001 * g * g
        parameter += rate * first / (np.sqrt(second) + 1e-8)
