"""Rows to draw from: equal ones collected, each with its weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray

# Copies of a row up to which those held out are drawn; of more, the expected part is taken.
_MOST_COPIES = 2.0**40


@dataclass(frozen=True)
class Rows:
    """Distinct rows of a table in a fixed order, and how often each counts.

    What is learned depends on nothing else: a weight of k is a row given k times, exactly, and the
    order of the rows does not matter.

    Attributes
    ----------
    codes : array of shape (n, m)
        Distinct rows.
    weights : float64 array of shape (n,)
        Positive weights.
    """

    codes: CodeArray
    weights: FloatArray

    @classmethod
    def of(cls, codes: CodeArray, sample_weight: FloatArray | None = None) -> Rows:
        """Collect equal rows; those without weight are left out."""
        if sample_weight is not None:
            used = sample_weight > 0
            codes, sample_weight = codes[used], sample_weight[used]
        codes = np.ascontiguousarray(codes)
        keys = codes.view(np.dtype((np.void, codes.dtype.itemsize * codes.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        weights = np.bincount(place.ravel(), sample_weight, minlength=len(first))
        return cls(codes[first], weights.astype(np.float64))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw rows by systematic sampling, in random order.

        A row of weight w comes ``size * w / total`` times, rounded up or down; with whole weights
        and their sum as ``size``, exactly w times.
        """
        order = rng.permutation(len(self))
        ends = np.cumsum(self.weights[order])
        marks = (np.arange(size) + rng.random()) * (ends[-1] / size)
        last = len(self) - 1
        drawn: IntArray = order[np.minimum(np.searchsorted(ends, marks, side="right"), last)]
        return rng.permutation(drawn)

    def bootstrap(self, most: int, rng: np.random.Generator) -> IntArray:
        """Draw as many rows as the weights add up to (at least 1), with replacement."""
        size = int(np.clip(np.rint(min(self.total, most)), 1, most))
        times = rng.multinomial(size, self.weights / self.weights.sum())
        return np.repeat(np.arange(len(self), dtype=np.int32), times)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Hold out a fraction; every copy of a row given k times goes its own way.

        Held-out rows are then as much like the others as rows still to come will be: if equal rows
        stayed together, those held out would all be new, and learning would stop too early.
        """
        copies = np.floor(self.weights)
        many = copies > _MOST_COPIES
        drawn = rng.binomial(np.where(many, 0.0, copies).astype(np.int64), fraction)
        rest = np.where(rng.random(len(self)) < fraction, self.weights - copies, 0.0)
        held = np.where(many, fraction * self.weights, drawn + rest)
        return self.part(np.maximum(self.weights - held, 0.0)), self.part(held)

    def part(self, weights: FloatArray) -> Rows:
        """Return the rows of positive weight among these weights."""
        return Rows(self.codes[weights > 0], weights[weights > 0])

    def joined(self, *others: Rows) -> Rows:
        """Return these rows and others together."""
        parts = (self, *others)
        weights = np.concatenate([part.weights for part in parts])
        return Rows.of(np.concatenate([part.codes for part in parts]), weights)

    def at_most(self, size: int, rng: np.random.Generator) -> Rows:
        """Return a sample if there are more rows than ``size``."""
        if len(self) <= size:
            return self
        return self.part(np.bincount(self.draw(size, rng), minlength=len(self)).astype(np.float64))
