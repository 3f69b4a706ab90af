"""A small network from a latent point to the tables of a structure, with its gradient.

Points are columns: a layer is ``W @ h + b``. They are worked off in blocks of a fixed number, each
by one thread and one-threaded matrix products, and what the blocks give is added up in their order.
So the number of threads changes nothing, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from bayescut._typing import FloatArray
from bayescut.learn.continuous.families import Families, Picks
from bayescut.learn.continuous.structure import Array

# Points of a block, and weights of features that it may have: they stay in the second-level cache.
# A step of accidents under a structure of eight parents (6,242 features) with blocks of 512, 256,
# 128 and 64 points: 26, 23, 18 and 21 ms; under a tree (316 features) 5.2, 5.7, 6.7 and 9.0 ms.
BLOCK, _FEWEST, _WEIGHTS_OF_A_BLOCK = 512, 64, 2**20
# Slope of a hidden unit below zero. Validation of baudio with a slope of 0 -38.543, with this one
# -38.500 (16 dimensions, 16,384 points); tanh after the same time 0.01 behind.
_SLOPE = 0.1
# Adam, with the usual constants.
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8

#: Applies a function to items, in threads or not, and gives the results in their order.
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextmanager
def point_threads(n_jobs: int) -> Iterator[Mapper]:
    """Threads for blocks of points, while matrix products have one each."""
    with threadpool_limits(1, user_api="blas"):
        if n_jobs == 1:
            yield map
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            yield pool.map


def normal_points(n_points: int, n_latent: int, rng: np.random.Generator) -> FloatArray:
    """Scrambled Sobol points, carried to a standard normal; array of shape (n_latent, n_points)."""
    try:
        sobol = qmc.Sobol(n_latent, scramble=True, rng=rng)
    except TypeError:  # SciPy before 1.15
        sobol = qmc.Sobol(n_latent, scramble=True, seed=rng)
    log2 = max(n_points - 1, 0).bit_length()
    points = sobol.random_base2(log2)[:n_points]
    # A coordinate of exactly 0 would lie at minus infinity; 2^-31 is less than half a step.
    np.clip(points, 2.0**-31, 1.0 - 2.0**-31, out=points)
    return np.ascontiguousarray(ndtri(points).T)


class Parameters(NamedTuple):
    """Weights and biases of the layers, input to output."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def arrays(self) -> list[Array]:
        """All arrays, in a fixed order."""
        return [*self.weights, *self.biases]

    def copy(self) -> Parameters:
        """Return a copy that does not change with the original."""
        weights = tuple(array.copy() for array in self.weights)
        return Parameters(weights, tuple(array.copy() for array in self.biases))

    @classmethod
    def of(cls, arrays: list[Array]) -> Parameters:
        """Put back together what `arrays` gave."""
        half = len(arrays) // 2
        return cls(tuple(arrays[:half]), tuple(arrays[half:]))


def start_parameters(
    layers: tuple[int, ...],
    n_outputs: int,
    logits: FloatArray,
    rng: np.random.Generator,
    dtype: Any,
) -> Parameters:
    """Random weights; the logits begin around the given ones.

    Parameters
    ----------
    layers : tuple of int
        Units of the layers from the latent point to the last hidden one.
    n_outputs : int
        Units of the last layer, see `Offsets`.
    logits : array of shape (n_logits,)
        What the outputs are added to: the tables of the whole table's rows.
    """
    sizes = (*layers, n_outputs)
    weights: list[Array] = []
    for n_in, n_out in pairwise(sizes):
        scale = np.sqrt(2.0 / n_in) if len(weights) < len(layers) - 1 else np.sqrt(1.0 / n_in)
        weights.append((rng.standard_normal((n_out, n_in)) * scale).astype(dtype))
    biases = [np.zeros(n, dtype=dtype) for n in layers[1:]]
    return Parameters(tuple(weights), (*biases, logits.astype(dtype)))


def adam_step(
    arrays: Sequence[Array], moments: Sequence[Array], gradient: list[Array], t: int, rate: float
) -> None:
    """Step ``t`` (from 1) of Adam upwards: changes arrays and moments, and uses the gradient up.

    ``moments`` holds the first moments of all arrays, then the second ones.
    """
    rate *= math.sqrt(1 - _BETA2**t) / (1 - _BETA1**t)
    n = len(gradient)
    for i, (array, slope) in enumerate(zip(arrays, gradient, strict=True)):
        first, second = moments[i], moments[n + i]
        first *= _BETA1
        first += (1 - _BETA1) * slope
        second *= _BETA2
        slope *= slope
        second += (1 - _BETA2) * slope
        np.sqrt(second, out=slope)
        slope += _EPSILON
        np.divide(first, slope, out=slope)
        slope *= rate
        array += slope


class _Pass(NamedTuple):
    """What a block keeps from the way up for the way down."""

    activations: list[Array]
    probability: Array
    shares: Array
    largest: Array
    total: Array


class Decoder:
    """Likelihood of rows under points, and its gradient.

    Parameters
    ----------
    families : Families
        The structure that all points share.
    parameters : Parameters
        Changed in place by who learns.
    mapper : callable
        ``map`` or that of a pool of threads.

    Raises
    ------
    ValueError
        If the parameters are those of another structure, as a checkpoint may say.
    """

    def __init__(self, families: Families, parameters: Parameters, mapper: Mapper = map) -> None:
        # Kernels take the outputs at their word.
        outputs = len(parameters.weights[-1]), len(parameters.biases[-1])
        if outputs != (families.offsets.n_outputs, families.n_logits):
            raise ValueError("the parameters do not fit the structure of the decoder")
        self.families = families
        self.parameters = parameters
        self.mapper = mapper
        in_cache = 2 ** (_WEIGHTS_OF_A_BLOCK // max(families.n_features, 1)).bit_length() // 2
        #: Points of a block.
        self.block = min(max(in_cache, _FEWEST), BLOCK)

    def activations(self, points: Array) -> list[Array]:
        """Points, hidden layers and logits."""
        values = [points]
        weights, biases = self.parameters
        last = len(weights) - 1
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            layer = weight @ values[-1]
            if i == last:
                layer = self.families.offsets.logits(layer)
            layer += bias[:, None]
            if i < last:
                np.maximum(layer, _SLOPE * layer, out=layer)
            values.append(layer)
        return values

    def logits(self, points: Array) -> Array:
        """Logits of all tables, one column for each point."""
        blocks = self._blocks(points)
        return np.hstack(list(self.mapper(lambda z: self.activations(z)[-1], blocks)))

    def feature_weights(self, points: Array) -> list[Array]:
        """Weights of the features, block by block."""
        return list(
            self.mapper(
                lambda z: self.families.weights(self.activations(z)[-1])[0], self._blocks(points)
            )
        )

    def gradient(
        self,
        rows: Picks,
        points: Array,
        log_weights: Array | None = None,
        *,
        by_parameters: bool = True,
    ) -> tuple[Array, list[Array], Array, Array]:
        r"""Mean log-likelihood's gradient over a batch of rows.

        .. math:: \ln p(x) = \ln \sum_i w_i \, p(x \mid z_i)

        Parameters
        ----------
        rows : Picks
            A batch of B rows, see `Families.rows`.
        points : array of shape (n_latent, N)
            The points.
        log_weights : array of shape (N,), optional
            Logarithms of the points' weights; all alike if left out.
        by_parameters : bool
            Whether the gradient by the parameters is needed; it is empty if not.

        Returns
        -------
        log_likelihood : array of shape (B,)
        gradient : list of arrays
            By the parameters, in the order of `Parameters.arrays`.
        point_gradient : array of shape (n_latent, N)
            By the points.
        shares : array of shape (N,)
            Mean responsibility of each point.
        """
        blocks = self._blocks(points)
        logs = [None] * len(blocks) if log_weights is None else self._blocks(log_weights)
        passes = list(self.mapper(lambda b: self._up(rows, *b), zip(blocks, logs, strict=True)))
        largest = np.max([p.largest for p in passes], axis=0)
        factors = [np.exp(p.largest - largest) for p in passes]
        total = np.sum([f * p.total for f, p in zip(factors, passes, strict=True)], axis=0)
        scale = 1 / (total * len(rows))
        done = list(
            self.mapper(
                lambda b: self._down(rows, b[0], b[1], by_parameters),
                [(p, f * scale) for p, f in zip(passes, factors, strict=True)],
            )
        )
        gradient = done[0][0]
        for other, _, _ in done[1:]:
            for sum_so_far, array in zip(gradient, other, strict=True):
                sum_so_far += array
        log_likelihood = largest + np.log(total)
        if log_weights is None:
            log_likelihood -= np.asarray(np.log(points.shape[1]), dtype=log_likelihood.dtype)
        return (
            log_likelihood,
            gradient,
            np.hstack([part for _, part, _ in done]),
            np.concatenate([part for _, _, part in done]),
        )

    def _up(self, rows: Picks, points: Array, log_weights: Array | None) -> _Pass:
        activations = self.activations(points)
        weights, probability = self.families.weights(activations[-1])
        shares = rows.times(weights)
        if log_weights is not None:
            shares += log_weights
        largest = shares.max(axis=1)
        shares -= largest[:, None]
        np.exp(shares, out=shares)
        return _Pass(activations, probability, shares, largest, shares.sum(axis=1))

    def _down(
        self, rows: Picks, up: _Pass, scale: Array, by_parameters: bool
    ) -> tuple[list[Array], Array, Array]:
        shares = up.shares
        shares *= scale[:, None]
        delta = self.families.gradient(rows.transposed_times(shares), up.probability)
        weights = self.parameters.weights
        by_weight: list[Array] = []
        by_bias: list[Array] = []
        for i in range(len(weights) - 1, -1, -1):
            below = up.activations[i]
            if by_parameters:
                by_bias.append(delta.sum(axis=1))
            if i == len(weights) - 1:
                delta = self.families.offsets.outputs(delta)
            if by_parameters:
                by_weight.append(delta @ below.T)
            delta = weights[i].T @ delta
            if i > 0:
                # Arithmetic, as a masked product takes five times as long.
                slope = (below > 0).astype(delta.dtype)
                slope *= 1 - _SLOPE
                slope += _SLOPE
                delta *= slope
        return [*by_weight[::-1], *by_bias[::-1]], delta, shares.sum(axis=0)

    def _blocks(self, points: Array) -> list[Array]:
        """Fixed numbers of points, each block contiguous."""
        starts = range(0, points.shape[-1], self.block)
        return [np.ascontiguousarray(points[..., i : i + self.block]) for i in starts]


def joint_blocks(
    rows: Picks, blocks: list[Array], log_weights: Sequence[Array | None]
) -> Iterator[tuple[Array, FloatArray]]:
    """Rows against the points of each block.

    Yields ``w_i p(x | z_i)`` relative to the block's largest, and the logarithm of the block's sum,
    for every row.
    """
    for block, logs in zip(blocks, log_weights, strict=True):
        joint = rows.times(block)
        if logs is not None:
            joint += logs
        largest = joint.max(axis=1)
        joint -= largest[:, None]
        np.exp(joint, out=joint)
        yield joint, largest.astype(np.float64) + np.log(joint.sum(axis=1))


def log_likelihood(
    families: Families,
    blocks: list[Array],
    picked: NDArray[Any],
    mapper: Mapper = map,
    n_rows: int = 512,
) -> FloatArray:
    """Log-likelihood of rows under points of equal weights whose feature weights are at hand."""
    n_points = sum(block.shape[1] for block in blocks)

    def of_rows(start: int) -> FloatArray:
        rows = families.rows(picked[start : start + n_rows], blocks[0].dtype)
        sums = [log_sum for _, log_sum in joint_blocks(rows, blocks, [None] * len(blocks))]
        result: FloatArray = np.logaddexp.reduce(sums, axis=0)
        return result - np.log(n_points)

    return np.concatenate(list(mapper(of_rows, range(0, len(picked), n_rows))))
