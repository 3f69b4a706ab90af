"""Offsets: what the outputs of a decoder add to the logits of a structure, cell by cell."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayescut.learn.continuous.structure import Offsets, Structure

# Families as a column and its parents: trees, wide families, states of many numbers and of one.
CASES = {
    "tree": ([2, 3, 2], [(0, ()), (1, (0,)), (2, (1,))]),
    "wide": ([2, 3, 4, 2], [(0, ()), (1, (0,)), (2, (0, 1)), (3, (1, 0, 2))]),
    "constant": ([1, 3, 2, 1], [(0, ()), (1, (0,)), (2, (0, 1)), (3, (1, 2))]),
    "binary": ([2] * 5, [(0, ()), (1, (0,)), (2, (1, 0)), (3, (2, 1, 0)), (4, (3, 1))]),
}


def structure_of(families):
    parents = [p for _, some in families for p in some]
    ptr = np.cumsum([0] + [len(some) for _, some in families])
    columns = np.array([column for column, _ in families])
    return Structure(columns, ptr, np.array(parents, dtype=np.int64), np.full(len(families), -1))


def naive_matrix(sizes, families):
    """Which outputs each logit is the sum of, as a matrix of 0 and 1."""
    lines, n_outputs = [], 0
    for column, parents in families:
        free, radix = sizes[column] - 1, [sizes[p] for p in parents]
        cells = list(itertools.product(*map(range, radix)))
        terms = []
        for c, s in itertools.product(cells, range(free)):
            if len(parents) <= 1:
                terms.append([(c, s)])
            else:
                terms.append([s] + [(i, d, s) for i, d in enumerate(c) if d > 0])
        if len(parents) <= 1:
            names = list(itertools.product(cells, range(free)))
        else:
            names = list(range(free))
            for i, k in enumerate(radix):
                names += [(i, d, s) for d in range(1, k) for s in range(free)]
        for term in terms:
            lines.append([n_outputs + names.index(name) for name in term])
        n_outputs += len(names)
    matrix = np.zeros((len(lines), n_outputs))
    for line, which in zip(matrix, lines, strict=True):
        line[which] = 1
    return matrix


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_outputs_add_up_and_gradients_come_back(case, dtype):
    sizes, families = CASES[case]
    offsets = Offsets.of(structure_of(families), np.array(sizes))
    matrix = naive_matrix(sizes, families)
    assert offsets.n_outputs == matrix.shape[1]
    rng = np.random.default_rng(0)
    outputs = rng.standard_normal((offsets.n_outputs, 7)).astype(dtype)
    gradient = rng.standard_normal((len(matrix), 7)).astype(dtype)
    rounding = 1e-12 if dtype is np.float64 else 1e-5
    logits = offsets.logits(outputs)
    assert logits.dtype == dtype
    assert_allclose(logits, matrix @ outputs, atol=rounding)
    assert_allclose(offsets.outputs(gradient.copy()), matrix.T @ gradient, atol=rounding)


def test_tables_of_one_parent_are_free():
    sizes, families = CASES["tree"]
    offsets = Offsets.of(structure_of(families), np.array(sizes))
    outputs = np.ones((offsets.n_outputs, 2))
    assert offsets.logits(outputs) is outputs
