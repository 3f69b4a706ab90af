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
from bayescut.circuit.inputs._normals_several import (
    N_POINTS,
    in_intervals,
    lattice,
    place_within,
)
from bayescut.circuit.inputs._scratch import Marks, Sinks, add_moments, draw

# Draws of numbers in several intervals that may be rejected.
_MOST_TRIES = 256


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
) -> None:
    """Add what rows expect."""
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
                _add_several(plan, block, r, leaf, n, weight, sinks)
                some = -1
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
                if n_some > 1:
                    continue  # added already
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


@inner
def _add_several(
    plan: Inputs, block: Block, r: int, leaf: Leaf, n: int, weight: float, sinks: Sinks
) -> None:
    """Add the posteriors of all numbers that are not known, several of them in intervals.

    That of a number in an interval is added where it is the last to be taken in: given all others
    its cells are known in closed form.
    """
    want_posterior, want_moments = len(sinks.posterior) > 0, sinks.moments.shape[1] > 0
    if not (want_posterior or want_moments):
        return
    some = in_intervals(plan, block, r, leaf, n)
    k = len(some)
    z, share = np.empty((N_POINTS, k)), np.empty(N_POINTS)
    for turn in range(k):
        first = some[0]
        for t in range(k - 1):
            some[t] = some[t + 1]
        some[k - 1] = first
        v = leaf.variables[first]
        lattice(plan, block, r, leaf, n, some, 0.0, z, share)
        for p in range(N_POINTS):
            part = weight * share[p]
            if part == 0.0:
                continue
            for t in range(k - 1):
                leaf.z[n + t] = z[p, t]
            shift, deviation = condition(leaf, n + k - 1, first)
            mean = plan.param[leaf.at + first] + shift
            if want_moments:
                x = mean + deviation * z[p, k - 1]
                add_moments(sinks.moments[r, v], part, x, 0.0)
            if want_posterior and block.states[r, v] >= RESTRICTED:
                _add_cells(plan, block, r, v, mean, deviation, part, sinks.posterior)
            if turn < k - 1:
                continue
            know(leaf, n + k - 1, first, deviation, z[p, k - 1])
            for i in range(len(leaf.variables)):
                u = leaf.variables[i]
                if status(block, r, u) == UNKNOWN:
                    shift, deviation = condition(leaf, n + k, i)
                    mean = plan.param[leaf.at + i] + shift
                    if want_moments:
                        add_moments(sinks.moments[r, u], part, mean, deviation * deviation)
                    if want_posterior:
                        _add_cells(plan, block, r, u, mean, deviation, part, sinks.posterior)


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
def _draw_several(plan: Inputs, block: Block, r: int, leaf: Leaf, n: int, random: IntArray) -> int:
    """Draw the numbers of which some cells are possible; returns how many are known then.

    Each is drawn given those before, and all of them are rejected unless the intervals of the later
    ones were probable. If that happens too often one of those rejected is taken, by its chance.
    """
    some = in_intervals(plan, block, r, leaf, n)
    k = len(some)
    z, share = np.empty((_MOST_TRIES, k)), np.empty(_MOST_TRIES)
    total, chosen = 0.0, -1
    for p in range(_MOST_TRIES):
        share[p] = 1.0
        for t in range(k):
            i = some[t]
            v = leaf.variables[i]
            shift, deviation = condition(leaf, n + t, i)
            mean = plan.param[leaf.at + i] + shift
            if t > 0:
                share[p] *= chance_of_all(plan, block, r, v, mean, deviation)
            _, z[p, t] = place_within(plan, block, r, v, mean, deviation, draw(random, r))
            know(leaf, n + t, i, deviation, z[p, t])
        total += share[p]
        if draw(random, r) < share[p]:
            chosen = p
            break
    if chosen < 0:
        rest = draw(random, r) * total
        for p in range(_MOST_TRIES):
            rest -= share[p]
            if share[p] > 0.0 or chosen < 0:
                chosen = p
                if rest < 0.0:
                    break
    for t in range(k):
        i = some[t]
        v = leaf.variables[i]
        shift, deviation = condition(leaf, n + t, i)
        know(leaf, n + t, i, deviation, z[chosen, t])
        x = plan.param[leaf.at + i] + shift + deviation * z[chosen, t]
        offset = plan.variable[v, VAR_OFFSET]
        block.values[r, v] = x
        if block.states[r, v] >= RESTRICTED:  # otherwise it is known
            block.states[r, v] = _cell_of(block, offset, plan.variable[v, VAR_STATES], x)
    return n + k


@kernel
def normal_fill(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
) -> None:
    """Fill rows in."""
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
                n = _draw_several(plan, block, r, leaf, n, ws.random)
                some = -1
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
                    cell, rest = place_within(
                        plan, block, r, v, mean, deviation, draw(ws.random, r)
                    )
                n = know(leaf, n, i, deviation, rest)
                block.values[r, v] = mean + deviation * rest
                block.states[r, v] = cell
