"""The value of a network by recursion over its regions, one row and one component at a time."""

from __future__ import annotations

import math

import numpy as np


def naive_log_likelihood(layout, parameters, row, least=1e-6):
    """Log-likelihood of one row; None where nothing is observed."""
    made = {}
    for layer, table in zip(layout.leaves, parameters.leaves, strict=True):
        for at, cells in enumerate(layer.cells):
            values = []
            for component in table[at].astype(float):
                value = 1.0
                for cell, states, p in zip(cells, layer.states[at], component, strict=True):
                    column = int(np.searchsorted(layout.offsets, cell, side="right")) - 1
                    if row[column] is not None and row[column] == cell - layout.offsets[column]:
                        value *= (1 - states * least) * p + least
                values.append(value)
            made[layer.first + at] = values
    for t, layer in enumerate(layout.sums):
        n = layer.shape[1]
        for g in range(layer.shape[0]):
            values = [0.0] * parameters.weights[t].shape[1]
            for p in range(g * n, (g + 1) * n):
                left, right = made[int(layer.left[p])], made[int(layer.right[p])]
                for k in range(len(values)):
                    share = float(parameters.mixing[t][g, p - g * n, k]) if n > 1 else 1.0
                    for i, a in enumerate(left):
                        for j, b in enumerate(right):
                            w = float(parameters.weights[t][p, k, i * len(right) + j])
                            values[k] += share * w * a * b
            made[layer.first + g] = values
    return math.log(made[layout.n_regions - 1][0])
