"""Arithmetic of normal leaves.

What is known of a row's numbers is taken in one by one: the factor of the known numbers' covariance
grows by a line, and what is left of any other number is a shift of its mean and a deviation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayescut._kernels import inner, merged
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    FIRST,
    LAST,
    PARAM,
    VAR,
    VAR_OFFSET,
    VAR_STATES,
    Inputs,
    Leaves,
)
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs.gaussian import HALF_LOG_TAU

# What is known of a number.
KNOWN, SOME_CELLS, UNKNOWN = 0, 1, 2
# Least variance that is left of a number given others, as a part of its own: rounding.
_LEAST = 1e-14
# Less probability than this counts as this: an interval a hundred deviations away is not an error.
LEAST_MASS = 1e-300
# Panels of the quadrature over a number that is known to lie in an interval: each of four points,
# at most half a deviation wide, out to eight deviations.
PANEL, _REACH = 0.5, 8.0
_POINT_0, _POINT_1 = 0.3399810435848563, 0.8611363115940526
_WEIGHT_0, _WEIGHT_1 = 0.6521451548625461, 0.34785484513745385
MOST_POINTS = 4096


class Leaf(NamedTuple):
    """A leaf, and what is known of its numbers in one row."""

    at: int  # where its parameters begin
    variables: IntArray
    cov: FloatArray
    order: IntArray  # the numbers that are known, as they were taken in
    factor: FloatArray  # of their covariance, a line for each
    z: FloatArray  # their standardised residuals


@inner
def open_leaf(plan: Inputs, leaves: Leaves, node: int) -> Leaf:
    """Return a leaf with room for a row; its covariance is yet to be written."""
    first = leaves.node[node, FIRST]
    m = leaves.node[node, LAST] - first
    return Leaf(
        plan.node[node, PARAM],
        leaves.family[first : first + m, VAR].astype(np.int64),
        np.empty((m, m)),
        np.empty(m, dtype=np.int64),
        np.empty((m + 1, m + 1)),
        np.empty(m),
    )


@inner
def mass(low: float, high: float) -> float:
    """Probability of [low, high] under the standard normal, without loss in either tail."""
    root = math.sqrt(0.5)
    if low > 0.0:
        return 0.5 * (math.erfc(low * root) - math.erfc(high * root))
    return 0.5 * (math.erfc(-high * root) - math.erfc(-low * root))


@inner
def status(block: Block, r: int, v: int) -> int:
    """What is known of number v in row r."""
    state = block.states[r, v]
    if state == MISSING:
        return UNKNOWN
    if state < RESTRICTED and not np.isnan(block.values[r, v]):
        return KNOWN
    return SOME_CELLS


@merged
def _weight(block: Block, r: int, v: int, offset: int, state: int) -> float:
    """How far a cell is possible for a number that is not known."""
    own = block.states[r, v]
    if own == MISSING:
        return 1.0
    if own < RESTRICTED:
        return 1.0 if own == state else 0.0
    return block.weights[r if len(block.weights) > 1 else 0, offset + state]


@merged
def ends(
    block: Block, offset: int, k: int, state: int, mean: float, deviation: float
) -> tuple[float, float]:
    """Where a cell begins and ends, in deviations from a mean."""
    high = block.ends[offset + state + 1] if state + 1 < k else np.inf
    return (block.ends[offset + state] - mean) / deviation, (high - mean) / deviation


@merged
def chance(
    block: Block, r: int, v: int, offset: int, k: int, state: int, mean: float, deviation: float
) -> float:
    """Probability of a cell times how far it is possible; -1 if it is not."""
    weight = _weight(block, r, v, offset, state)
    if not weight > 0.0:
        return -1.0
    low, high = ends(block, offset, k, state, mean, deviation)
    return weight * mass(low, high)


@inner
def chance_of_all(
    plan: Inputs, block: Block, r: int, v: int, mean: float, deviation: float
) -> float:
    """Probability of the cells that are possible for a number, times their weights."""
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    total = 0.0
    for s in range(k):
        weight = _weight(block, r, v, offset, s)
        if weight > 0.0:
            low, high = ends(block, offset, k, s, mean, deviation)
            total += weight * mass(low, high)
    return total


@inner
def best_cell(
    block: Block, r: int, v: int, offset: int, k: int, mean: float, deviation: float
) -> tuple[int, float]:
    """The cell of the largest probability times weight, and that."""
    best, most = -1, -1.0
    for s in range(k):
        here = chance(block, r, v, offset, k, s, mean, deviation)
        if here > most:
            best, most = s, here
    return best, most


@inner
def covariance(param: FloatArray, leaf: Leaf) -> None:
    """Write the covariance of a leaf's numbers."""
    cov, m = leaf.cov, len(leaf.variables)
    for i in range(m):
        row = leaf.at + m + i * (i + 1) // 2
        own = param[row + i] * param[row + i]
        for k in range(i):
            total = 0.0
            for j in range(i):
                total += param[row + j] * cov[j, k]
            cov[i, k] = total
            cov[k, i] = total
        for j in range(i):
            own += param[row + j] * cov[i, j]
        cov[i, i] = own


@inner
def condition(leaf: Leaf, n: int, i: int) -> tuple[float, float]:
    """Shift of the mean, and deviation, of variable i given the n that are known.

    Row n of ``leaf.factor`` gets the coefficients of the known ones' standardised residuals.
    """
    cov, order, factor = leaf.cov, leaf.order, leaf.factor
    line = factor[n]
    shift, variance = 0.0, cov[i, i]
    for a in range(n):
        total = cov[i, order[a]]
        for b in range(a):
            total -= factor[a, b] * line[b]
        total /= factor[a, a]
        line[a] = total
        shift += total * leaf.z[a]
        variance -= total * total
    return shift, math.sqrt(max(variance, _LEAST * cov[i, i]))


@inner
def know(leaf: Leaf, n: int, i: int, deviation: float, rest: float) -> int:
    """Take in variable i as known, after `condition`; returns how many are known then."""
    leaf.order[n], leaf.factor[n, n], leaf.z[n] = i, deviation, rest
    return n + 1


@inner
def know_all(plan: Inputs, block: Block, r: int, leaf: Leaf) -> tuple[int, float, int, int]:
    """Take in the known numbers of row r.

    Returns how many there are, their log-density, the last variable of which some cells are
    possible (-1: none), and how many such there are.
    """
    n, value, some, n_some = 0, 0.0, -1, 0
    n_variables = len(plan.variable)
    for i in range(len(leaf.variables)):
        v = leaf.variables[i]
        known = status(block, r, v)
        if known == KNOWN:
            shift, deviation = condition(leaf, n, i)
            rest = (block.values[r, v] - plan.param[leaf.at + i] - shift) / deviation
            value -= 0.5 * rest * rest + math.log(deviation) + HALF_LOG_TAU
            value -= block.values[r, n_variables + v]
            n = know(leaf, n, i, deviation, rest)
        elif known == SOME_CELLS:
            some = i
            n_some += 1
    return n, value, some, n_some


@inner
def maximised(plan: Inputs, block: Block, r: int, leaf: Leaf, write: bool) -> float:
    """Give unknown numbers, one after the other, their best cells given all before; return the
    log of the product of the known numbers' density and the cells' probabilities."""
    n, value, _, _ = know_all(plan, block, r, leaf)
    for i in range(len(leaf.variables)):
        v = leaf.variables[i]
        if status(block, r, v) == KNOWN:
            continue
        k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
        shift, deviation = condition(leaf, n, i)
        mean = plan.param[leaf.at + i] + shift
        cell, most = best_cell(block, r, v, offset, k, mean, deviation)
        value += math.log(max(most, LEAST_MASS))
        low = block.ends[offset + cell]
        high = block.ends[offset + cell + 1] if cell + 1 < k else np.inf
        x = min(max(mean, low), high)
        n = know(leaf, n, i, deviation, (x - mean) / deviation)
        if write:
            block.values[r, v] = x
            block.states[r, v] = cell
    return value


@inner
def points(
    block: Block,
    r: int,
    v: int,
    offset: int,
    k: int,
    mean: float,
    deviation: float,
    width: float,
    place: FloatArray,
    share: FloatArray,
) -> int:
    """Points and weights of a quadrature over the cells that are possible for a number."""
    n, total = 0, 0.0
    for s in range(k):
        weight = _weight(block, r, v, offset, s)
        low, high = ends(block, offset, k, s, mean, deviation)
        low, high = max(low, -_REACH), min(high, _REACH)
        if weight <= 0.0 or not low < high:
            continue
        n_panels = min(int((high - low) / width) + 1, (MOST_POINTS - n) // 4)
        half = 0.5 * (high - low) / max(n_panels, 1)
        for panel in range(n_panels):
            middle = low + (2 * panel + 1) * half
            for j in range(4):
                at = _POINT_0 if j < 2 else _POINT_1
                q = _WEIGHT_0 if j < 2 else _WEIGHT_1
                u = middle + (at if j % 2 else -at) * half
                place[n], share[n] = u, weight * q * half * math.exp(-0.5 * u * u)
                total += share[n]
                n += 1
    if not total > 0.0:
        # All of it lies beyond the reach: at the end that is nearest.
        cell, _ = best_cell(block, r, v, offset, k, mean, deviation)
        low, high = ends(block, offset, k, cell, mean, deviation)
        place[0], share[0], total, n = (low if low > 0.0 else high), 1.0, 1.0, 1
    for j in range(n):
        share[j] /= total
    return n


@inner
def along(leaf: Leaf, i: int, j: int, n: int, line: FloatArray, deviation: float) -> float:
    """How far variable i goes with a deviation of variable j, both given the n known ones.

    ``line`` and row n of ``leaf.factor`` are what `condition` has left of j and of i.
    """
    total = leaf.cov[i, j]
    for a in range(n):
        total -= leaf.factor[n, a] * line[a]
    return total / deviation


@inner
def left_over(leaf: Leaf, i: int, deviation: float, with_other: float) -> float:
    """Deviation of variable i that is left beside what goes with another."""
    rest = deviation * deviation - with_other * with_other
    return math.sqrt(max(rest, _LEAST * leaf.cov[i, i]))


@inner
def panel(rest: float, along: float) -> float:
    """Width of panels that is narrow enough for a number that goes along with this one."""
    width = min(PANEL, PANEL * rest / max(abs(along), 1e-300))
    return max(width, 2.0 * _REACH * 4.0 / MOST_POINTS)
