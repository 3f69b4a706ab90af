"""The way down of normal leaves: posteriors of their numbers, and what fills rows in."""

from __future__ import annotations

import math

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import RESTRICTED
from bayescut.circuit._plan import CELLS, VAR_OFFSET, VAR_STATES, Inputs, Leaves
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._normals import (
    KNOWN,
    MOST_POINTS,
    PANEL,
    UNKNOWN,
    Leaf,
    along,
    best_cell,
    chance,
    chance_of_all,
    condition,
    covariance,
    ends,
    know,
    know_all,
    left_over,
    mass,
    maximised,
    open_leaf,
    panel,
    points,
    status,
)
from bayescut.circuit.inputs._scratch import Marks, Sinks, add_moments, draw


@inner
def _within(low: float, high: float, share: float) -> float:
    """Where [low, high] has this share of its probability below, under the standard normal."""
    whole = mass(low, high)
    a, b = max(low, -40.0), min(high, 40.0)
    if not (a < b and whole > 0.0):
        # Beyond what numbers can hold: the end that is nearer to the middle.
        return high if high < 0.0 else low
    for _ in range(64):
        middle = 0.5 * (a + b)
        if mass(low, middle) < share * whole:
            a = middle
        else:
            b = middle
    return 0.5 * (a + b)


@inner
def _cell_of(block: Block, offset: int, n_states: int, x: float) -> int:
    low, high = 0, n_states - 1
    while low < high:
        middle = (low + high + 1) // 2
        if block.ends[offset + middle] <= x:
            low = middle
        else:
            high = middle - 1
    return low


@inner
def _add_cells(
    plan: Inputs,
    block: Block,
    r: int,
    v: int,
    mean: float,
    deviation: float,
    weight: float,
    posterior: FloatArray,
) -> None:
    """Add the posterior of a number of which some cells are possible."""
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    total = chance_of_all(plan, block, r, v, mean, deviation)
    if not total > 0.0:
        cell, _ = best_cell(block, r, v, offset, k, mean, deviation)
        posterior[offset + cell, r] += weight
        return
    for s in range(k):
        here = chance(block, r, v, offset, k, s, mean, deviation)
        if here > 0.0:
            posterior[offset + s, r] += weight * (here / total)


@kernel
def normal_posteriors(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    nodes: IntArray,
    flow: FloatArray,
    sinks: Sinks,
) -> tuple[int, int]:
    """Add what rows expect; returns the first (node, row) in which cells of more than one number
    are known, (-1, -1) if there is none."""
    plan, leaves, ws = borrowed(plan), borrowed(leaves), borrowed(ws)
    block, sinks = borrowed(block), borrowed(sinks)
    which = ws.which
    want_posterior, want_moments = len(sinks.posterior) > 0, sinks.moments.shape[1] > 0
    want_sums = len(sinks.params) > 0
    place, share = np.empty(MOST_POINTS), np.empty(MOST_POINTS)
    for node in nodes:
        leaf = open_leaf(plan, leaves, node)
        variables, at, m = leaf.variables, leaf.at, len(leaf.variables)
        line, centre, left = np.empty(m), np.empty(m), np.empty((m, m))
        covariance(plan.param, leaf)
        for row in range(list_rows(need[node], which)):
            r, weight = which[row], flow[start[node] + row]
            if weight == 0.0:
                continue
            n, _, some, n_some = know_all(plan, block, r, leaf)
            if n_some > 1:
                return node, r
            u_dev, n_points = 1.0, 0
            if some >= 0:
                shift, u_dev = condition(leaf, n, some)
                u_mean = plan.param[at + some] + shift
                for a in range(n):
                    line[a] = leaf.factor[n, a]
                v = variables[some]
                k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                # Narrow enough for the steepest of the others, as a function of this one.
                width = PANEL
                for i in range(m):
                    if i != some and status(block, r, variables[i]) == UNKNOWN:
                        shift, deviation = condition(leaf, n, i)
                        slope = along(leaf, i, some, n, line, u_dev)
                        width = min(width, panel(left_over(leaf, i, deviation, slope), slope))
                n_points = points(block, r, v, offset, k, u_mean, u_dev, width, place, share)
                if want_moments:
                    mean, square = 0.0, 0.0
                    for j in range(n_points):
                        mean += share[j] * place[j]
                    for j in range(n_points):
                        square += share[j] * (place[j] - mean) ** 2
                    add_moments(
                        sinks.moments[r, v], weight, u_mean + u_dev * mean, u_dev**2 * square
                    )
                # A single cell that is left has been marked as observed.
                if want_posterior and block.states[r, v] >= RESTRICTED:
                    _add_cells(plan, block, r, v, u_mean, u_dev, weight, sinks.posterior)
            for i in range(m):
                v = variables[i]
                if status(block, r, v) != UNKNOWN or not (want_posterior or want_moments):
                    continue
                k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                shift, deviation = condition(leaf, n, i)
                mean = plan.param[at + i] + shift
                slope = along(leaf, i, some, n, line, u_dev) if some >= 0 else 0.0
                rest = left_over(leaf, i, deviation, slope)
                for j in range(n_points if slope != 0.0 else 1):
                    here, part = mean, 1.0
                    if slope != 0.0:
                        here, part = mean + slope * place[j], share[j]
                    if want_moments:
                        add_moments(sinks.moments[r, v], weight * part, here, rest * rest)
                    if want_posterior:
                        for s in range(k):
                            low, high = ends(block, offset, k, s, here, rest)
                            below = mass(low, high)
                            if below > 0.0:
                                sinks.posterior[offset + s, r] += weight * part * below
            if want_sums:
                for i in range(m):
                    sinks.tables[leaves.node[node, CELLS] + i] += weight
                _add_sums(plan, block, r, leaf, n, weight, centre, left, sinks.params)
    return -1, -1


@inner
def _add_sums(
    plan: Inputs,
    block: Block,
    r: int,
    leaf: Leaf,
    n: int,
    weight: float,
    centre: FloatArray,
    left: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the expected deviations from the means, and their products, where the parameters are."""
    variables, at, m = leaf.variables, leaf.at, len(leaf.variables)
    for i in range(m):
        centre[i] = block.values[r, variables[i]] - plan.param[at + i]
        for j in range(m):
            left[i, j] = 0.0
    for i in range(m):
        if status(block, r, variables[i]) == KNOWN:
            continue
        shift, _ = condition(leaf, n, i)
        centre[i] = shift
        line = leaf.factor[n, :n].copy()
        for j in range(i + 1):
            if status(block, r, variables[j]) != KNOWN:
                condition(leaf, n, j)
                left[i, j] = along(leaf, i, j, n, line, 1.0)
    for i in range(m):
        sums[at + i] += weight * centre[i]
        row = at + m + i * (i + 1) // 2
        for j in range(i + 1):
            sums[row + j] += weight * (centre[i] * centre[j] + left[i, j])


@inner
def _draw_within(
    plan: Inputs, block: Block, r: int, v: int, mean: float, deviation: float, random: IntArray
) -> tuple[int, float]:
    """Draw a number of which some cells are possible: its cell, and itself in deviations."""
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    cell = -1
    rest = draw(random, r) * chance_of_all(plan, block, r, v, mean, deviation)
    for s in range(k):
        here = chance(block, r, v, offset, k, s, mean, deviation)
        if here > 0.0:
            cell = s
            rest -= here
            if rest < 0.0:
                break
    if cell < 0:
        cell, _ = best_cell(block, r, v, offset, k, mean, deviation)
    low, high = ends(block, offset, k, cell, mean, deviation)
    return cell, _within(low, high, draw(random, r))


@kernel
def normal_fill(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
) -> tuple[int, int]:
    """Fill rows in; returns the first (node, row) in which cells of more than one number are known,
    (-1, -1) if there is none."""
    plan, leaves, ws, block = borrowed(plan), borrowed(leaves), borrowed(ws), borrowed(block)
    which = ws.which
    for node in nodes:
        n_rows = list_rows(taken[node], which)
        if n_rows == 0:
            continue
        leaf = open_leaf(plan, leaves, node)
        covariance(plan.param, leaf)
        for row in range(n_rows):
            r = which[row]
            if maximise:
                maximised(plan, block, r, leaf, True)
                continue
            n, _, some, n_some = know_all(plan, block, r, leaf)
            if n_some > 1:
                return node, r
            for turn in range(-1, len(leaf.variables)):
                # First the number of which something is known, then the others in their order.
                i = some if turn < 0 else turn
                if i < 0 or (turn >= 0 and turn == some):
                    continue
                v = leaf.variables[i]
                known = status(block, r, v)
                if known == KNOWN:
                    continue
                shift, deviation = condition(leaf, n, i)
                mean = plan.param[leaf.at + i] + shift
                if known == UNKNOWN:
                    # Box and Muller; 1 - u lies in (0, 1].
                    radius = math.sqrt(-2.0 * math.log(1.0 - draw(ws.random, r)))
                    rest = radius * math.cos(2.0 * math.pi * draw(ws.random, r))
                    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                    cell = _cell_of(block, offset, k, mean + deviation * rest)
                else:
                    cell, rest = _draw_within(plan, block, r, v, mean, deviation, ws.random)
                n = know(leaf, n, i, deviation, rest)
                block.values[r, v] = mean + deviation * rest
                block.states[r, v] = cell
    return -1, -1
