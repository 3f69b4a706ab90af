"""From a learned decoder to a circuit: points, their weights, and one structure for all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bayescut._clock import working_time
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit._kinds import JUNCTION, SUM
from bayescut.circuit.coarse import coarse
from bayescut.data.domains import Domains
from bayescut.learn.continuous.decoder import (
    Decoder,
    Mapper,
    Parameters,
    adam_step,
    joint_blocks,
    normal_points,
)
from bayescut.learn.continuous.families import Families
from bayescut.learn.continuous.rows import Rows
from bayescut.learn.continuous.structure import Array, Structure

_DTYPE = np.float32
# Rows looked at to choose the number of points, and to fit their weights, at most.
_HELD_ROWS = 2**12
_TRAIN_ROWS = 2**15
_ROWS_OF_A_SLAB = 512
# Points that are moved, at most. Validation of baudio with weights fitted by EM, without and with
# two passes: 1,024 points -38.832 and -38.762 in 1 s, 4,096 points -38.606 and (one pass) -38.592
# in 2 s. With many points there is less to gain, and a pass takes longer.
_MOST_MOVED = 2048
# Learning rates of the points and of the logarithms of their weights.
_POINT_RATE, _WEIGHT_RATE = 1e-2, 5e-3


@dataclass(frozen=True)
class Compiled:
    """A mixture over points of one structure.

    Attributes
    ----------
    families : Families
        The structure.
    logits : array of shape (n_logits, N)
        Tables of the points.
    weights : float64 array of shape (N,)
        Weights of the points.
    score : float
        Mean log-likelihood of the held-out rows; NaN without any.
    """

    families: Families
    logits: Array
    weights: FloatArray
    score: float

    def circuit(self, domains: Domains) -> Circuit:
        """The mixture as a circuit, with rounded logits."""
        tables = self.families.log_tables(self.logits)
        return coarse(
            shared_structure_circuit(domains, self.families.structure, tables, self.weights)
        )


def compile_decoder(
    parameters: list[Array],
    structure: Structure,
    sizes: IntArray,
    train: Rows,
    held: Rows,
    *,
    n_points: int,
    tol: float,
    seed: int,
    n_moves: int = 2,
    n_steps: int = 3,
    mapper: Mapper = map,
    deadline: float = math.inf,
) -> Compiled:
    """Replace the integral by a sum over fixed points.

    Parameters
    ----------
    parameters : list of arrays
        The decoder.
    structure, sizes
        Families and numbers of states.
    train, held : Rows
        Rows that fit the weights of the points, and rows that choose their number and say when to
        stop.
    n_points : int
        Most points.
    tol : float
        Nats that a held-out row may lose on average by there being fewer.
    seed : int
        Seed of the points.
    n_moves : int
        Most passes over the training rows in which points, if they are few, move up the gradient.
    n_steps : int
        Most steps of EM for the weights afterwards. A pass or step that does not help the held-out
        rows is the last of its kind and is not kept.
    mapper, deadline
        See `ContinuousLearner.run`; a step that might not end before the deadline is left out.
    """
    families = Families(structure, sizes)
    decoder = Decoder(families, Parameters.of(parameters), mapper)
    n_latent = parameters[0].shape[1]
    rng = np.random.default_rng([seed, 7])
    points = normal_points(n_points, n_latent, np.random.default_rng([seed, 8])).astype(_DTYPE)
    if not parameters[len(parameters) // 2 - 1].any():
        points = points[:, :1]  # the same tables everywhere
    weights, score = np.full(points.shape[1], 1.0 / points.shape[1]), math.nan
    if len(held):
        held = held.at_most(_HELD_ROWS, rng)
        picked = families.features(held.codes)
        blocks = decoder.feature_weights(points)
        began = working_time()
        n_all = points.shape[1]
        n, score = _fewest(families, blocks, picked, held.weights, tol, mapper)
        points, weights = points[:, :n], np.full(n, 1.0 / n)
        train = train.at_most(_TRAIN_ROWS, rng)
        settled = Settled(points, weights, score)
        if n > 1 and len(train):
            # Seconds that a row takes at these points: what is left out if time is short.
            pace = (working_time() - began) * n / n_all / len(held)
            job = _Job(decoder, train, families.features(train.codes), held, picked, rng)
            for _ in range(n_moves if n <= _MOST_MOVED else 0):
                if working_time() + pace * (4 * len(train) + len(held)) >= deadline:
                    break
                moved = job.move(settled)
                if not moved.score > settled.score:
                    break
                settled = moved
            for _ in range(n_steps):
                if working_time() + 1.5 * pace * (len(train) + len(held)) >= deadline:
                    break
                weighed = job.weigh(settled)
                if not weighed.score > settled.score:
                    break
                settled = weighed
        points, weights, score = settled
    logits = decoder.logits(points)
    return Compiled(families, logits[:, weights > 0], weights[weights > 0], score)


class Settled(NamedTuple):
    """Points, their weights, and the mean log-likelihood of the held-out rows."""

    points: Array
    weights: FloatArray
    score: float


@dataclass(frozen=True)
class _Job:
    """Fits points and weights to training rows, and looks at held-out ones."""

    decoder: Decoder
    train: Rows
    train_picked: Array
    held: Rows
    held_picked: Array
    rng: np.random.Generator

    def move(self, now: Settled) -> Settled:
        """One pass over the training rows in which points and weights follow the gradient.

        More than one or two fit what is particular to the training rows: the held-out rows of
        baudio with 1,024 points have -38.856 before, -38.779 after the first pass, and then less.
        """
        families = self.decoder.families
        n = len(now.weights)
        points = now.points.copy()
        logs = np.log(np.maximum(now.weights, 1e-30)).astype(_DTYPE)
        point_moments = [np.zeros_like(points) for _ in range(2)]
        log_moments = [np.zeros_like(logs) for _ in range(2)]
        size = int(np.clip(self.train.total, len(self.train), 2 * len(self.train)))
        order = self.train.draw(size, self.rng)
        for t, begin in enumerate(range(0, size, _ROWS_OF_A_SLAB), start=1):
            picked = self.train_picked[order[begin : begin + _ROWS_OF_A_SLAB]]
            rows = families.rows(picked, _DTYPE)
            _, _, by_point, shares = self.decoder.gradient(rows, points, logs, by_parameters=False)
            adam_step([points], point_moments, [by_point * _DTYPE(n)], t, _POINT_RATE)
            adam_step([logs], log_moments, [(shares - np.exp(logs)) * _DTYPE(n)], t, _WEIGHT_RATE)
            logs -= _DTYPE(logsumexp(logs))
        weights = np.exp(logs.astype(np.float64))
        return self._judged(points, weights / weights.sum())

    def weigh(self, now: Settled) -> Settled:
        """One step of EM for the weights."""
        blocks = self.decoder.feature_weights(now.points)
        _, shares = _log_likelihood_and_shares(
            self.decoder.families, blocks, self.train_picked, now.weights, self.decoder.mapper,
            self.train.weights,
        )  # fmt: skip
        return self._judged(now.points, shares, blocks)

    def _judged(
        self, points: Array, weights: FloatArray, blocks: list[Array] | None = None
    ) -> Settled:
        found, _ = _log_likelihood_and_shares(
            self.decoder.families, blocks or self.decoder.feature_weights(points),
            self.held_picked, weights, self.decoder.mapper,
        )  # fmt: skip
        return Settled(points, weights, float(np.average(found, weights=self.held.weights)))


def _fewest(
    families: Families,
    blocks: list[Array],
    picked: Array,
    row_weights: FloatArray,
    tol: float,
    mapper: Mapper,
) -> tuple[int, float]:
    """Fewest points, all or a power of two, that lose at most ``tol``, and what is left.

    The first 2^k points of a Sobol sequence are a point set of their own, so one pass over all
    points looks at every number.
    """
    n, whole = sum(block.shape[1] for block in blocks), blocks[0].shape[1]
    sizes = [2**k for k in range((n - 1).bit_length())] + [n]
    ends = [size for size in sizes[:-1] if size < whole] + [*range(whole, n, whole), n]
    small = [0, *(end for end in ends if end < whole), whole]
    pieces = [np.ascontiguousarray(blocks[0][:, a:b]) for a, b in pairwise(small)] + blocks[1:]

    def of_rows(begin: int) -> FloatArray:
        rows = families.rows(picked[begin : begin + _ROWS_OF_A_SLAB], _DTYPE)
        parts = [log_sum for _, log_sum in joint_blocks(rows, pieces, [None] * len(pieces))]
        return np.logaddexp.accumulate(parts, axis=0)

    slabs = list(mapper(of_rows, range(0, len(picked), _ROWS_OF_A_SLAB)))
    so_far = np.average(np.concatenate(slabs, axis=1), axis=1, weights=row_weights)
    score = {end: value - math.log(end) for end, value in zip(ends, so_far, strict=True)}
    best = max(score[size] for size in sizes)
    fewest = next(size for size in sizes if score[size] >= best - tol)
    return fewest, float(score[fewest])


def _log_likelihood_and_shares(
    families: Families,
    blocks: list[Array],
    picked: Array,
    weights: FloatArray,
    mapper: Mapper,
    row_weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Log-likelihood of rows, and the mean responsibilities of the points if asked for."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights).astype(_DTYPE)
    parts = np.split(logs, np.cumsum([block.shape[1] for block in blocks])[:-1])

    def of_rows(begin: int) -> tuple[FloatArray, FloatArray]:
        end = begin + _ROWS_OF_A_SLAB
        rows = families.rows(picked[begin:end], _DTYPE)
        joint = list(joint_blocks(rows, blocks, parts))
        total: FloatArray = np.logaddexp.reduce([log_sum for _, log_sum in joint], axis=0)
        if row_weights is None:
            return total, np.empty(0)
        shares = [
            (row_weights[begin:end] * np.exp(log_sum - total) / part.sum(axis=1)) @ part
            for part, log_sum in joint
        ]
        return total, np.concatenate(shares)

    slabs = list(mapper(of_rows, range(0, len(picked), _ROWS_OF_A_SLAB)))
    shares = np.sum([part for _, part in slabs], axis=0)
    if row_weights is not None:
        shares /= shares.sum()
    return np.concatenate([total for total, _ in slabs]), shares


def shared_structure_circuit(
    domains: Domains, structure: Structure, tables: FloatArray, weights: FloatArray
) -> Circuit:
    """Mixture of thin junction trees that have one structure and tables of their own.

    Parameters
    ----------
    domains : Domains
        The columns.
    structure : Structure
        The families, one for each column.
    tables : float64 array of shape (N, n_cells)
        Log tables of each component: families end to end, the column's own state fastest.
    weights : float64 array of shape (N,)
        Weights of the components.

    Returns
    -------
    Circuit
        A sum over N junction leaves, or the leaf if there is one.
    """
    n, n_families = len(tables), len(structure.columns)
    sizes = domains.n_states
    n_parents = np.diff(structure.parent_ptr)
    cells = sizes[structure.columns].astype(np.int64)
    np.multiply.at(cells, np.repeat(np.arange(n_families), n_parents), sizes[structure.parents])
    first = np.arange(n)[:, None] * n_families
    hosts = np.where(structure.hosts >= 0, structure.hosts + first, -1)
    inner = 0 if n == 1 else 1
    log_weights = np.log(weights)
    return Circuit(
        kind=np.array([JUNCTION] * n + [SUM] * inner, dtype=np.uint8),
        var=np.full(n + inner, -1, dtype=np.int32),
        state=np.full(n + inner, -1, dtype=np.int32),
        child_ptr=np.array([0] * (n + 1) + [n] * inner, dtype=np.int64),
        child=np.arange(n * inner, dtype=np.int32),
        log_weight=(log_weights - logsumexp(log_weights))[: n * inner],
        param_ptr=np.zeros(n + inner + 1, dtype=np.int64),
        param=np.empty(0),
        fam_ptr=np.minimum(np.arange(n + inner + 1), n) * n_families,
        fam_var=np.tile(structure.columns, n).astype(np.int32),
        fam_host=hosts.ravel().astype(np.int32),
        fam_parent_ptr=_ends(np.tile(n_parents, n)),
        fam_parent=np.tile(structure.parents, n).astype(np.int32),
        fam_table_ptr=_ends(np.tile(cells, n)),
        fam_table=tables.ravel(),
        domains=domains,
    )


def _ends(lengths: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
