"""Draws from a network, given what its values were worked out from."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.learn.einet.em import first_cells
from bayescut.learn.einet.layout import Layout
from bayescut.learn.einet.passes import Parameters, Upward

# Numbers that one choice among products may hold at a time.
_MOST_NUMBERS = 2**22


def draw_cells(
    layout: Layout,
    parameters: Parameters,
    leaves: list[Any],
    up: Upward,
    weights: FloatArray | None,
    rng: np.random.Generator,
) -> IntArray:
    """Draw a state of every column for every row.

    Parameters
    ----------
    layout : Layout
        The structure.
    parameters : Parameters
        Weights, as NumPy arrays.
    leaves : list of arrays of shape (L, K, c)
        Probabilities of cells.
    up : Upward
        Values for the rows, those of partitions kept.
    weights : float64 array of shape (n_cells,), or None
        What is known about columns that are not observed.
    rng : Generator
        Source of the draws.

    Returns
    -------
    int64 array of shape (B, m)
        Columns that are observed are drawn too, as if they were not.
    """
    n_rows = up.values.shape[2] if layout.sums else len(up.log_likelihood)
    # The component that a row takes of each region; -1: it does not come there.
    taken = np.full((layout.n_regions, n_rows), -1, dtype=np.int64)
    taken[-1] = 0
    for t in range(len(layout.sums) - 1, -1, -1):
        _choose(layout, parameters, up, t, taken, rng)
    out = np.zeros((n_rows, len(layout.offsets) - 1), dtype=np.int64)
    for layer, table in zip(layout.leaves, leaves, strict=True):
        for at, cells in enumerate(layer.cells):
            own = taken[layer.first + at]
            rows = np.flatnonzero(own >= 0)
            if len(rows) == 0:
                continue
            begins = first_cells(layer.states[at])
            for begin, width in zip(begins, layer.states[at][begins], strict=True):
                here = slice(begin, begin + width)
                chances = table[at][own[rows], here].astype(np.float64)
                if weights is not None:
                    chances = chances * weights[cells[here]]
                column = int(np.searchsorted(layout.offsets, cells[begin], side="right")) - 1
                out[rows, column] = _pick(chances, rng)
    return out


def _choose(
    layout: Layout,
    parameters: Parameters,
    up: Upward,
    t: int,
    taken: IntArray,
    rng: np.random.Generator,
) -> None:
    """Draw a partition and a pair of components wherever a row comes to a region of a layer."""
    layer, k = layout.sums[t], layout.n_components
    weights, product = parameters.weights[t], up.products[t]
    region, row = np.nonzero(taken[layer.first : layer.first + layer.shape[0]] >= 0)
    component = taken[layer.first + region, row]
    for begin in range(0, len(row), max(1, _MOST_NUMBERS // (k * k))):
        some = slice(begin, begin + max(1, _MOST_NUMBERS // (k * k)))
        g, b, own = region[some], row[some], component[some]
        partition = g
        if layer.shape[1] > 1:
            each = product.reshape(*layer.shape, *product.shape[1:])[g, :, own, b]
            chances = parameters.mixing[t][g, :, own] * each * up.scales[t][g, :, b]
            partition = g * layer.shape[1] + _pick(chances.astype(np.float64), rng)
        left, right = layer.left[partition], layer.right[partition]
        chances = up.values[left, :, b][:, :, None] * up.values[right, :, b][:, None]
        chances = chances.reshape(len(b), k * k) * weights[partition, own]
        pair = _pick(chances.astype(np.float64), rng)
        taken[left, b] = pair // k
        taken[right, b] = pair % k


def _pick(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw a number for each line of chances, which need not sum to 1."""
    edges = np.cumsum(chances, axis=1)
    mark = rng.random(len(edges))[:, None] * edges[:, -1:]
    # A draw of 0 or rounding must not pick what has no chance.
    return np.minimum((edges <= mark).sum(axis=1), edges.shape[1] - 1)
