"""The way up of normal leaves: the values of rows."""

from __future__ import annotations

import math

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._plan import VAR_OFFSET, VAR_STATES, Inputs, Leaves
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._normals import (
    KNOWN,
    LEAST_MASS,
    MOST_POINTS,
    SOME_CELLS,
    Leaf,
    along,
    chance_of_all,
    condition,
    covariance,
    know_all,
    left_over,
    maximised,
    open_leaf,
    panel,
    points,
    status,
)
from bayescut.circuit.inputs._normals_several import N_POINTS, in_intervals, lattice
from bayescut.circuit.inputs._scratch import Marks
from bayescut.circuit.inputs.gaussian import HALF_LOG_TAU


@inner
def _complete_value(param: FloatArray, at: int, m: int, x: FloatArray) -> float:
    """Log-density of deviations from the mean, all known."""
    total = 0.0
    for i in range(m):
        row = at + m + i * (i + 1) // 2
        rest = x[i]
        for j in range(i):
            rest -= param[row + j] * x[j]
        rest /= param[row + i]
        total -= 0.5 * rest * rest + math.log(param[row + i]) + HALF_LOG_TAU
    return total


@inner
def _second(
    plan: Inputs,
    block: Block,
    r: int,
    leaf: Leaf,
    n: int,
    some: int,
    place: FloatArray,
    share: FloatArray,
) -> float:
    """Log-probability of what is known of another number than ``some``, given that of this one.

    An integral in one dimension, of a product of normal distribution functions: by quadrature.
    """
    variables, at = leaf.variables, leaf.at
    other = 0
    while other == some or status(block, r, variables[other]) != SOME_CELLS:
        other += 1
    shift, deviation = condition(leaf, n, some)
    mean = plan.param[at + some] + shift
    line = leaf.factor[n, :n].copy()
    shift, spread = condition(leaf, n, other)
    slope = along(leaf, other, some, n, line, deviation)
    centre = plan.param[at + other] + shift
    rest = left_over(leaf, other, spread, slope)
    v = variables[some]
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    width = panel(rest, slope)
    total = 0.0
    for j in range(points(block, r, v, offset, k, mean, deviation, width, place, share)):
        here = centre + slope * place[j]
        total += share[j] * chance_of_all(plan, block, r, variables[other], here, rest)
    return math.log(max(total, LEAST_MASS))


@kernel
def normal_values(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> None:
    """Write the values."""
    plan, leaves, ws, block = borrowed(plan), borrowed(leaves), borrowed(ws), borrowed(block)
    which = ws.which
    n_variables = len(plan.variable)
    for node in nodes:
        leaf = open_leaf(plan, leaves, node)
        variables, at, m = leaf.variables, leaf.at, len(leaf.variables)
        x = np.empty(m)
        place, share, z = np.empty(0), np.empty(0), np.empty((0, 0))
        ready = False
        for row in range(list_rows(need[node], which)):
            r = which[row]
            whole, inside = True, 0.0
            for i in range(m):
                whole = whole and status(block, r, variables[i]) == KNOWN
                x[i] = block.values[r, variables[i]] - plan.param[at + i]
                inside += block.values[r, n_variables + variables[i]]
            if whole:
                value[start[node] + row] = _complete_value(plan.param, at, m, x) - inside
                continue
            if not ready:
                covariance(plan.param, leaf)
                ready = True
            if maximise:
                value[start[node] + row] = maximised(plan, block, r, leaf, False)
                continue
            n, found, some, n_some = know_all(plan, block, r, leaf)
            if n_some > 2:
                if len(share) == 0:
                    z, share = np.empty((N_POINTS, m)), np.empty(max(N_POINTS, MOST_POINTS))
                    place = np.empty(MOST_POINTS)
                several = in_intervals(plan, block, r, leaf, n)
                part = lattice(plan, block, r, leaf, n, several, 0.0, z, share)
                value[start[node] + row] = found + math.log(max(part, LEAST_MASS))
                continue
            if n_some > 0:
                shift, deviation = condition(leaf, n, some)
                mean = plan.param[at + some] + shift
                part = chance_of_all(plan, block, r, variables[some], mean, deviation)
                found += math.log(max(part, LEAST_MASS))
            if n_some > 1:
                if len(place) == 0:
                    place, share = np.empty(MOST_POINTS), np.empty(MOST_POINTS)
                found += _second(plan, block, r, leaf, n, some, place, share)
            value[start[node] + row] = found
