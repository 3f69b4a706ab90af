"""Normal leaves of which several numbers are known to lie in intervals.

Their probability is an integral in as many dimensions. It is taken at the points of a lattice: the
numbers are placed in their intervals one after the other, each by its distribution given those
before, and a point counts as much as the intervals are probable along its way (Genz 1992). With
2,048 points of a folded Kronecker lattice the error is about 1e-4 of the probability,
2e-3 where three intervals nearly exclude each other.
"""

from __future__ import annotations

import math

import numpy as np

from bayescut._kernels import inner
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._plan import VAR_OFFSET, VAR_STATES, Inputs
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._normals import (
    SOME_CELLS,
    Leaf,
    best_cell,
    chance,
    chance_of_all,
    condition,
    ends,
    know,
    mass,
    status,
)
from bayescut.circuit.inputs.gaussian import HALF_LOG_TAU

N_POINTS = 2048


@inner
def _within(low: float, high: float, share: float) -> float:
    """Where [low, high] has this share of its probability below, under the standard normal."""
    whole = mass(low, high)
    if not (low < high and whole > 0.0):
        # Beyond what numbers can hold: the end that is nearer to the middle.
        return high if high < 0.0 else low
    # In the lower tail, where there are digits to tell probabilities apart.
    flip = low > 0.0
    if flip:
        low, high, share = -high, -low, 1.0 - share
    below = 0.5 * math.erfc(-low * math.sqrt(0.5)) + share * whole
    if not below > 0.0:
        z = high
    else:
        z = _quantile(below)
    z = min(max(z, low), high)
    return -z if flip else z


@inner
def _quantile(p: float) -> float:
    """Quantile of the standard normal: a rational start (Hastings 1955), and Halley's steps."""
    upper = p > 0.5
    tail = max(1.0 - p if upper else p, 1e-300)
    t = math.sqrt(-2.0 * math.log(tail))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    z = top / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(2):
        u = (0.5 * math.erfc(-z * math.sqrt(0.5)) - tail) * math.exp(0.5 * z * z + HALF_LOG_TAU)
        z -= u / (1.0 + 0.5 * z * u)
    return -z if upper else z


@inner
def place_within(
    plan: Inputs, block: Block, r: int, v: int, mean: float, deviation: float, share: float
) -> tuple[int, float]:
    """Place a number where its possible cells have a share of their probability below.

    Returns its cell, and itself in deviations from the mean.
    """
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    rest = share * chance_of_all(plan, block, r, v, mean, deviation)
    cell, inside = -1, 0.5
    for s in range(k):
        here = chance(block, r, v, offset, k, s, mean, deviation)
        if here > 0.0:
            cell, inside = s, min(max(rest / here, 0.0), 1.0)
            rest -= here
            if rest < 0.0:
                break
    if cell < 0:
        cell, _ = best_cell(block, r, v, offset, k, mean, deviation)
    low, high = ends(block, offset, k, cell, mean, deviation)
    return cell, _within(low, high, inside)


@inner
def in_intervals(plan: Inputs, block: Block, r: int, leaf: Leaf, n: int) -> IntArray:
    """The places in a leaf of the numbers of which some cells are possible, given the n known.

    The least probable first, which leaves points of the lattice that count more alike.
    """
    found = np.empty(len(leaf.variables), dtype=np.int64)
    chances = np.empty(len(leaf.variables))
    k = 0
    for i in range(len(leaf.variables)):
        v = leaf.variables[i]
        if status(block, r, v) == SOME_CELLS:
            shift, deviation = condition(leaf, n, i)
            mean = plan.param[leaf.at + i] + shift
            found[k], chances[k] = i, chance_of_all(plan, block, r, v, mean, deviation)
            k += 1
    return found[np.argsort(chances[:k], kind="mergesort")]


@inner
def lattice(
    plan: Inputs,
    block: Block,
    r: int,
    leaf: Leaf,
    n: int,
    some: IntArray,
    shift: float,
    z: FloatArray,
    share: FloatArray,
) -> float:
    """Place the numbers ``some`` of a row at the points of a lattice, given the n known ones.

    Parameters
    ----------
    plan, block, r, leaf, n
        A leaf, and what is known of a row.
    some : int64 array of shape (k,)
        Places in the leaf, in the order in which they are taken in.
    shift : float
        Moves the lattice.
    z : float64 array of shape (N_POINTS, k)
        Written: the standardised residuals of the numbers.
    share : float64 array of shape (N_POINTS,)
        Written: how much each point counts, one in all.

    Returns
    -------
    float
        Probability of what is known of these numbers.
    """
    k = len(some)
    total = 0.0
    for p in range(N_POINTS):
        share[p] = 1.0
        for t in range(k):
            i = some[t]
            v = leaf.variables[i]
            along, deviation = condition(leaf, n + t, i)
            mean = plan.param[leaf.at + i] + along
            share[p] *= chance_of_all(plan, block, r, v, mean, deviation)
            u = (p + 0.5) * 2.0 ** ((t + 1.0) / (k + 1.0)) + shift
            u = 1.0 - abs(2.0 * (u - math.floor(u)) - 1.0)
            _, z[p, t] = place_within(plan, block, r, v, mean, deviation, u)
            know(leaf, n + t, i, deviation, z[p, t])
        total += share[p]
    for p in range(N_POINTS):
        share[p] = share[p] / total if total > 0.0 else 1.0 / N_POINTS
    return total / N_POINTS
