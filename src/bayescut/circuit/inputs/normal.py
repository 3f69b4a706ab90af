r"""Normal: numbers that are jointly Gaussian, each regressed on those before it.

.. math:: x_i = \mu_i + \sum_{j < i} b_{ij} (x_j - \mu_j) + \sigma_i \epsilon_i

The variables are numbers with cells (`bayescut.data.grid`), in the order of the leaf's families,
each of which sees all cells of its variable as one. Parameters: all means, then for every variable
the coefficients of those before it and its standard deviation given them.

A circuit measures numbers by the density within their cells, ln p(x) = ln P(cell) + ln f(x) -
ln F(cell): so the value of a normal leaf is its log-density less that of every number within its
cell. Unknown numbers are integrated out exactly. The cell of one number, or an interval, is known
in closed form; the likelihood of two such in one leaf, and the posterior of the others given one,
are integrals in one dimension. More than these are refused by name.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import MISSING, NORMAL, RESTRICTED
from bayescut.circuit._plan import (
    CELLS,
    FIRST,
    LAST,
    PARAM,
    VAR,
    VAR_OFFSET,
    VAR_STATES,
    Inputs,
    Leaves,
    Plan,
)
from bayescut.circuit._route import list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import InputKind, Routed
from bayescut.circuit.inputs._scratch import Marks, Scratch, Sinks, add_moments, draw
from bayescut.circuit.inputs.gaussian import HALF_LOG_TAU
from bayescut.exceptions import PropertyError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit
    from bayescut.circuit.flows import Flows

# What is known of a number.
_KNOWN, _SOME_CELLS, _UNKNOWN = 0, 1, 2
# Least variance that is left of a number given others, as a part of its own: rounding.
_LEAST = 1e-14
# Less probability than this counts as this: an interval a hundred deviations away is not an error.
_LEAST_MASS = 1e-300
# Panels of the quadrature over a number that is known to lie in an interval: each of four points,
# at most half a deviation wide, out to eight deviations.
_PANEL, _REACH = 0.5, 8.0
_POINT_0, _POINT_1 = 0.3399810435848563, 0.8611363115940526
_WEIGHT_0, _WEIGHT_1 = 0.6521451548625461, 0.34785484513745385
_MOST_POINTS = 4096


@inner
def _mass(low: float, high: float) -> float:
    """Probability of [low, high] under the standard normal, without loss in either tail."""
    root = math.sqrt(0.5)
    if low > 0.0:
        return 0.5 * (math.erfc(low * root) - math.erfc(high * root))
    return 0.5 * (math.erfc(-high * root) - math.erfc(-low * root))


@inner
def _within(low: float, high: float, share: float) -> float:
    """Where [low, high] has this share of its probability below, under the standard normal."""
    whole = _mass(low, high)
    a, b = max(low, -40.0), min(high, 40.0)
    if not (a < b and whole > 0.0):
        # Beyond what numbers can hold: the end that is nearer to the middle.
        return high if high < 0.0 else low
    for _ in range(64):
        middle = 0.5 * (a + b)
        if _mass(low, middle) < share * whole:
            a = middle
        else:
            b = middle
    return 0.5 * (a + b)


@inner
def _low_end(block: Block, offset: int, state: int) -> float:
    return block.ends[offset + state]


@inner
def _high_end(block: Block, offset: int, n_states: int, state: int) -> float:
    return block.ends[offset + state + 1] if state + 1 < n_states else np.inf


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
def _status(block: Block, r: int, v: int) -> int:
    """What is known of number v in row r."""
    state = block.states[r, v]
    if state == MISSING:
        return _UNKNOWN
    if state < RESTRICTED and not np.isnan(block.values[r, v]):
        return _KNOWN
    return _SOME_CELLS


@inner
def _weight(block: Block, r: int, v: int, offset: int, state: int) -> float:
    """How far a cell is possible for a number that is not known."""
    own = block.states[r, v]
    if own == MISSING:
        return 1.0
    if own < RESTRICTED:
        return 1.0 if own == state else 0.0
    return block.weights[r if len(block.weights) > 1 else 0, offset + state]


@inner
def _covariance(param: FloatArray, at: int, m: int, cov: FloatArray) -> None:
    for i in range(m):
        row = at + m + i * (i + 1) // 2
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
def _condition(
    cov: FloatArray, order: IntArray, n: int, factor: FloatArray, z: FloatArray, i: int
) -> tuple[float, float]:
    """Shift of the mean, and deviation, of variable i given the n that are known.

    Row n of ``factor`` gets the coefficients of the known ones' standardised residuals ``z``.
    """
    line = factor[n]
    shift, variance = 0.0, cov[i, i]
    for a in range(n):
        total = cov[i, order[a]]
        for b in range(a):
            total -= factor[a, b] * line[b]
        total /= factor[a, a]
        line[a] = total
        shift += total * z[a]
        variance -= total * total
    return shift, math.sqrt(max(variance, _LEAST * cov[i, i]))


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
def _know_all(
    plan: Inputs,
    block: Block,
    r: int,
    variables: IntArray,
    at: int,
    cov: FloatArray,
    order: IntArray,
    factor: FloatArray,
    z: FloatArray,
) -> tuple[int, float, int, int]:
    """Take in the known numbers of row r.

    Returns how many there are, their log-density, the last variable of which some cells are
    possible (-1: none), and how many such there are.
    """
    n, value, some, n_some = 0, 0.0, -1, 0
    n_variables = len(plan.variable)
    for i in range(len(variables)):
        v = variables[i]
        status = _status(block, r, v)
        if status == _KNOWN:
            shift, deviation = _condition(cov, order, n, factor, z, i)
            rest = (block.values[r, v] - plan.param[at + i] - shift) / deviation
            value -= 0.5 * rest * rest + math.log(deviation) + HALF_LOG_TAU
            value -= block.values[r, n_variables + v]
            order[n], factor[n, n], z[n] = i, deviation, rest
            n += 1
        elif status == _SOME_CELLS:
            some = i
            n_some += 1
    return n, value, some, n_some


@inner
def _best_cell(
    block: Block, r: int, v: int, offset: int, k: int, mean: float, deviation: float
) -> tuple[int, float]:
    """The cell of the largest probability times weight, and that."""
    best, most = -1, -1.0
    for s in range(k):
        weight = _weight(block, r, v, offset, s)
        if weight > 0.0:
            low = (_low_end(block, offset, s) - mean) / deviation
            high = (_high_end(block, offset, k, s) - mean) / deviation
            here = weight * _mass(low, high)
            if here > most:
                best, most = s, here
    return best, most


@inner
def _maximise(
    plan: Inputs,
    block: Block,
    r: int,
    variables: IntArray,
    at: int,
    cov: FloatArray,
    order: IntArray,
    factor: FloatArray,
    z: FloatArray,
    write: bool,
) -> float:
    """Give unknown numbers, one after the other, their best cells given all before; return the
    log of the product of the known numbers' density and the cells' probabilities."""
    n, value, _, _ = _know_all(plan, block, r, variables, at, cov, order, factor, z)
    for i in range(len(variables)):
        v = variables[i]
        if _status(block, r, v) == _KNOWN:
            continue
        k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
        shift, deviation = _condition(cov, order, n, factor, z, i)
        mean = plan.param[at + i] + shift
        cell, mass = _best_cell(block, r, v, offset, k, mean, deviation)
        value += math.log(max(mass, _LEAST_MASS))
        low, high = _low_end(block, offset, cell), _high_end(block, offset, k, cell)
        x = min(max(mean, low), high)
        order[n], factor[n, n], z[n] = i, deviation, (x - mean) / deviation
        n += 1
        if write:
            block.values[r, v] = x
            block.states[r, v] = cell
    return value


@inner
def _points(
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
        low = max((_low_end(block, offset, s) - mean) / deviation, -_REACH)
        high = min((_high_end(block, offset, k, s) - mean) / deviation, _REACH)
        if weight <= 0.0 or not low < high:
            continue
        n_panels = min(int((high - low) / width) + 1, (_MOST_POINTS - n) // 4)
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
        cell, _ = _best_cell(block, r, v, offset, k, mean, deviation)
        low = (_low_end(block, offset, cell) - mean) / deviation
        high = (_high_end(block, offset, k, cell) - mean) / deviation
        place[0], share[0], total, n = (low if low > 0.0 else high), 1.0, 1.0, 1
    for j in range(n):
        share[j] /= total
    return n


@inner
def _allowed(plan: Inputs, block: Block, r: int, v: int, mean: float, deviation: float) -> float:
    """Probability of the cells that are possible for a number, times their weights."""
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    total = 0.0
    for s in range(k):
        weight = _weight(block, r, v, offset, s)
        if weight > 0.0:
            low = (_low_end(block, offset, s) - mean) / deviation
            high = (_high_end(block, offset, k, s) - mean) / deviation
            total += weight * _mass(low, high)
    return total


@inner
def _along(
    cov: FloatArray, i: int, j: int, n: int, factor: FloatArray, line: FloatArray, deviation: float
) -> float:
    """How far variable i goes with a deviation of variable j, both given the n known ones.

    ``line`` and row n of ``factor`` are what `_condition` has left of j and of i.
    """
    total = cov[i, j]
    for a in range(n):
        total -= factor[n, a] * line[a]
    return total / deviation


@inner
def _panel(rest: float, along: float) -> float:
    """Width of panels that is narrow enough for a number that goes along with this one."""
    width = min(_PANEL, _PANEL * rest / max(abs(along), 1e-300))
    return max(width, 2.0 * _REACH * 4.0 / _MOST_POINTS)


@inner
def _second(
    plan: Inputs,
    block: Block,
    r: int,
    variables: IntArray,
    at: int,
    cov: FloatArray,
    order: IntArray,
    n: int,
    factor: FloatArray,
    z: FloatArray,
    some: int,
    place: FloatArray,
    share: FloatArray,
) -> float:
    """Log-probability of what is known of another number than ``some``, given that of this one.

    An integral in one dimension, of a product of normal distribution functions: by quadrature.
    """
    other = 0
    while other == some or _status(block, r, variables[other]) != _SOME_CELLS:
        other += 1
    shift, deviation = _condition(cov, order, n, factor, z, some)
    mean = plan.param[at + some] + shift
    line = factor[n, :n].copy()
    shift, spread = _condition(cov, order, n, factor, z, other)
    along = _along(cov, other, some, n, factor, line, deviation)
    centre = plan.param[at + other] + shift
    rest = math.sqrt(max(spread * spread - along * along, _LEAST * cov[other, other]))
    v = variables[some]
    k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
    width = _panel(rest, along)
    total = 0.0
    for j in range(_points(block, r, v, offset, k, mean, deviation, width, place, share)):
        here = centre + along * place[j]
        total += share[j] * _allowed(plan, block, r, variables[other], here, rest)
    return math.log(max(total, _LEAST_MASS))


@kernel
def _values(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    nodes: IntArray,
    maximise: bool,
) -> tuple[int, int]:
    """Write the values; returns the first (node, row) in which cells of more than two numbers are
    known, (-1, -1) if there is none."""
    which = ws.which
    n_variables = len(plan.variable)
    for node in nodes:
        first, at = leaves.node[node, FIRST], plan.node[node, PARAM]
        m = leaves.node[node, LAST] - first
        variables = leaves.family[first : first + m, VAR].astype(np.int64)
        order, x, z = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m)
        cov, factor = np.empty((m, m)), np.empty((m + 1, m + 1))
        place, share = np.empty(0), np.empty(0)
        ready = False
        for row in range(list_rows(need[node], which)):
            r = which[row]
            whole, inside = True, 0.0
            for i in range(m):
                whole = whole and _status(block, r, variables[i]) == _KNOWN
                x[i] = block.values[r, variables[i]] - plan.param[at + i]
                inside += block.values[r, n_variables + variables[i]]
            if whole:
                value[start[node] + row] = _complete_value(plan.param, at, m, x) - inside
                continue
            if not ready:
                _covariance(plan.param, at, m, cov)
                ready = True
            if maximise:
                value[start[node] + row] = _maximise(
                    plan, block, r, variables, at, cov, order, factor, z, False
                )
                continue
            n, found, some, n_some = _know_all(plan, block, r, variables, at, cov, order, factor, z)
            if n_some > 2:
                return node, r
            if n_some > 0:
                v = variables[some]
                shift, deviation = _condition(cov, order, n, factor, z, some)
                mean = plan.param[at + some] + shift
                found += math.log(max(_allowed(plan, block, r, v, mean, deviation), _LEAST_MASS))
            if n_some > 1:
                if len(place) == 0:
                    place, share = np.empty(_MOST_POINTS), np.empty(_MOST_POINTS)
                found += _second(
                    plan, block, r, variables, at, cov, order, n, factor, z, some, place, share
                )
            value[start[node] + row] = found
    return -1, -1


@kernel
def _posteriors(
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
    which = ws.which
    want_posterior, want_moments = len(sinks.posterior) > 0, sinks.moments.shape[1] > 0
    want_sums = len(sinks.params) > 0
    place, share = np.empty(_MOST_POINTS), np.empty(_MOST_POINTS)
    for node in nodes:
        first, at = leaves.node[node, FIRST], plan.node[node, PARAM]
        m = leaves.node[node, LAST] - first
        variables = leaves.family[first : first + m, VAR].astype(np.int64)
        order, z, line = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m)
        cov, factor = np.empty((m, m)), np.empty((m + 1, m + 1))
        centre, left = np.empty(m), np.empty((m, m))
        _covariance(plan.param, at, m, cov)
        for row in range(list_rows(need[node], which)):
            r, weight = which[row], flow[start[node] + row]
            if weight == 0.0:
                continue
            n, _, some, n_some = _know_all(plan, block, r, variables, at, cov, order, factor, z)
            if n_some > 1:
                return node, r
            u_mean, u_dev, n_points = 0.0, 1.0, 0
            if some >= 0:
                shift, u_dev = _condition(cov, order, n, factor, z, some)
                u_mean = plan.param[at + some] + shift
                for a in range(n):
                    line[a] = factor[n, a]
                v = variables[some]
                k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                # Narrow enough for the steepest of the others, as a function of this one.
                width = _PANEL
                for i in range(m):
                    if i != some and _status(block, r, variables[i]) == _UNKNOWN:
                        shift, deviation = _condition(cov, order, n, factor, z, i)
                        along = _along(cov, i, some, n, factor, line, u_dev)
                        rest = deviation * deviation - along * along
                        width = min(width, _panel(math.sqrt(max(rest, _LEAST * cov[i, i])), along))
                n_points = _points(block, r, v, offset, k, u_mean, u_dev, width, place, share)
                total = 0.0
                mean = 0.0
                square = 0.0
                for j in range(n_points):
                    mean += share[j] * place[j]
                for j in range(n_points):
                    square += share[j] * (place[j] - mean) ** 2
                if want_moments:
                    add_moments(
                        sinks.moments[r, v], weight, u_mean + u_dev * mean, u_dev**2 * square
                    )
                # A single cell that is left has been marked as observed.
                if want_posterior and block.states[r, v] >= RESTRICTED:
                    for s in range(k):
                        w = _weight(block, r, v, offset, s)
                        if w > 0.0:
                            low = (_low_end(block, offset, s) - u_mean) / u_dev
                            high = (_high_end(block, offset, k, s) - u_mean) / u_dev
                            total += w * _mass(low, high)
                    if total > 0.0:
                        for s in range(k):
                            w = _weight(block, r, v, offset, s)
                            if w > 0.0:
                                low = (_low_end(block, offset, s) - u_mean) / u_dev
                                high = (_high_end(block, offset, k, s) - u_mean) / u_dev
                                part = w * _mass(low, high) / total
                                sinks.posterior[offset + s, r] += weight * part
                    else:
                        cell, _ = _best_cell(block, r, v, offset, k, u_mean, u_dev)
                        sinks.posterior[offset + cell, r] += weight
            for i in range(m):
                v = variables[i]
                if _status(block, r, v) != _UNKNOWN or not (want_posterior or want_moments):
                    continue
                k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                shift, deviation = _condition(cov, order, n, factor, z, i)
                mean = plan.param[at + i] + shift
                along = 0.0
                if some >= 0:
                    along = _along(cov, i, some, n, factor, line, u_dev)
                rest = math.sqrt(max(deviation * deviation - along * along, _LEAST * cov[i, i]))
                points = n_points if some >= 0 and along != 0.0 else 1
                for j in range(points):
                    here, part = mean, 1.0
                    if points > 1 or (some >= 0 and along != 0.0):
                        here, part = mean + along * place[j], share[j]
                    if want_moments:
                        add_moments(sinks.moments[r, v], weight * part, here, rest * rest)
                    if want_posterior:
                        below = 0.0
                        for s in range(k):
                            high = _high_end(block, offset, k, s)
                            low = (_low_end(block, offset, s) - here) / rest
                            below = _mass(low, (high - here) / rest)
                            if below > 0.0:
                                sinks.posterior[offset + s, r] += weight * part * below
            if want_sums:
                for i in range(m):
                    sinks.tables[leaves.node[node, CELLS] + i] += weight
                _add_sums(
                    plan, block, r, variables, at, cov, order, factor, z, n, weight,
                    centre, left, sinks.params,
                )  # fmt: skip
    return -1, -1


@inner
def _add_sums(
    plan: Inputs,
    block: Block,
    r: int,
    variables: IntArray,
    at: int,
    cov: FloatArray,
    order: IntArray,
    factor: FloatArray,
    z: FloatArray,
    n: int,
    weight: float,
    centre: FloatArray,
    left: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the expected deviations from the means, and their products, where the parameters are."""
    m = len(variables)
    for i in range(m):
        centre[i] = block.values[r, variables[i]] - plan.param[at + i]
        for j in range(m):
            left[i, j] = 0.0
    for i in range(m):
        if _status(block, r, variables[i]) == _KNOWN:
            continue
        shift, _ = _condition(cov, order, n, factor, z, i)
        centre[i] = shift
        line = factor[n, :n].copy()
        for j in range(i + 1):
            if _status(block, r, variables[j]) != _KNOWN:
                _condition(cov, order, n, factor, z, j)
                total = cov[i, j]
                for a in range(n):
                    total -= factor[n, a] * line[a]
                left[i, j] = total
    for i in range(m):
        sums[at + i] += weight * centre[i]
        row = at + m + i * (i + 1) // 2
        for j in range(i + 1):
            sums[row + j] += weight * (centre[i] * centre[j] + left[i, j])


@kernel
def _fill(
    plan: Inputs,
    leaves: Leaves,
    ws: Marks,
    block: Block,
    nodes: IntArray,
    taken: IntArray,
    maximise: bool,
) -> tuple[int, int]:
    which = ws.which
    for node in nodes:
        first, at = leaves.node[node, FIRST], plan.node[node, PARAM]
        m = leaves.node[node, LAST] - first
        n_rows = list_rows(taken[node], which)
        if n_rows == 0:
            continue
        variables = leaves.family[first : first + m, VAR].astype(np.int64)
        order, z = np.empty(m, dtype=np.int64), np.empty(m)
        cov, factor = np.empty((m, m)), np.empty((m + 1, m + 1))
        _covariance(plan.param, at, m, cov)
        for row in range(n_rows):
            r = which[row]
            if maximise:
                _maximise(plan, block, r, variables, at, cov, order, factor, z, True)
                continue
            n, _, some, n_some = _know_all(plan, block, r, variables, at, cov, order, factor, z)
            if n_some > 1:
                return node, r
            for turn in range(-1, m):
                # First the number of which something is known, then the others in their order.
                i = some if turn < 0 else turn
                if i < 0 or (turn >= 0 and turn == some):
                    continue
                v = variables[i]
                status = _status(block, r, v)
                if status == _KNOWN:
                    continue
                k, offset = plan.variable[v, VAR_STATES], plan.variable[v, VAR_OFFSET]
                shift, deviation = _condition(cov, order, n, factor, z, i)
                mean = plan.param[at + i] + shift
                if status == _UNKNOWN:
                    # Box and Muller; 1 - u lies in (0, 1].
                    radius = math.sqrt(-2.0 * math.log(1.0 - draw(ws.random, r)))
                    rest = radius * math.cos(2.0 * math.pi * draw(ws.random, r))
                    cell = _cell_of(block, offset, k, mean + deviation * rest)
                else:
                    cell, total = -1, 0.0
                    for s in range(k):
                        weight = _weight(block, r, v, offset, s)
                        if weight > 0.0:
                            low = (_low_end(block, offset, s) - mean) / deviation
                            high = (_high_end(block, offset, k, s) - mean) / deviation
                            total += weight * _mass(low, high)
                    left = draw(ws.random, r) * total
                    for s in range(k):
                        weight = _weight(block, r, v, offset, s)
                        if weight > 0.0 and total > 0.0:
                            low = (_low_end(block, offset, s) - mean) / deviation
                            high = (_high_end(block, offset, k, s) - mean) / deviation
                            here = weight * _mass(low, high)
                            if here > 0.0:
                                cell = s
                                left -= here
                                if left < 0.0:
                                    break
                    if cell < 0:
                        cell, _ = _best_cell(block, r, v, offset, k, mean, deviation)
                    low = (_low_end(block, offset, cell) - mean) / deviation
                    high = (_high_end(block, offset, k, cell) - mean) / deviation
                    rest = _within(low, high, draw(ws.random, r))
                order[n], factor[n, n], z[n] = i, deviation, rest
                n += 1
                block.values[r, v] = mean + deviation * rest
                block.states[r, v] = cell
    return -1, -1


class Normal(InputKind):
    """Hooks of normal leaves."""

    kind = NORMAL

    def values(
        self, plan: Plan, ws: Scratch, routed: Routed, nodes: IntArray, maximise: bool
    ) -> None:
        """See `InputKind.values`."""
        bad = _values(plan.inputs, plan.leaves, ws.marks, *routed, nodes, maximise)
        _refuse_cells(plan, routed.block, *bad)

    def posteriors(
        self,
        plan: Plan,
        ws: Scratch,
        routed: Routed,
        nodes: IntArray,
        flow: FloatArray,
        sinks: Sinks,
    ) -> None:
        """See `InputKind.posteriors`."""
        block, need, start, _ = routed
        bad = _posteriors(
            plan.inputs, plan.leaves, ws.marks, block, need, start, nodes, flow, sinks
        )
        _refuse_cells(plan, block, *bad)

    def fill(
        self,
        plan: Plan,
        ws: Scratch,
        block: Block,
        nodes: IntArray,
        taken: IntArray,
        maximise: bool,
        blank: bool,
    ) -> None:
        """See `InputKind.fill`."""
        bad = _fill(plan.inputs, plan.leaves, ws.marks, block, nodes, taken, maximise)
        _refuse_cells(plan, block, *bad)

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """See `InputKind.n_params`."""
        m = circuit.fam_ptr[nodes + 1] - circuit.fam_ptr[nodes]
        return m + m * (m + 1) // 2

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        among = (circuit.fam_var >= 0) & (circuit.fam_var < len(circuit.domains))
        if not among.all():
            return  # the check of families says which
        for node in nodes.tolist():
            first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
            bad = np.ones(1, dtype=bool)
            one = np.array([node])
            families = range(first, last)
            if any(circuit.domains[int(v)].grid is None for v in circuit.fam_var[first:last]):
                self.refuse(bad, one, "its variables must be numbers with cells.")
            if any(circuit.fam_states[f] != 1 for f in families) or np.any(
                np.diff(circuit.fam_parent_ptr[first : last + 1])
            ):
                self.refuse(bad, one, "its families see all cells as one, and have no parents.")
            m = last - first
            param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
            deviation = param[m + np.cumsum(np.arange(1, m + 1)) - 1]
            if not (np.isfinite(param).all() and (deviation > 0).all()):
                self.refuse(bad, one, "it needs finite parameters and positive deviations.")

    def n_parameters(self, circuit: Circuit, nodes: IntArray) -> int:
        """Those that are not zero: a coefficient of zero is an edge that is not there."""
        ends = zip(circuit.param_ptr[nodes], circuit.param_ptr[nodes + 1], strict=True)
        return sum(int(np.count_nonzero(circuit.param[begin:end])) for begin, end in ends)

    def structure(self, circuit: Circuit, node: int) -> tuple[IntArray, list[list[int]]]:
        """The variables of a leaf, and of each the places of its parents among them."""
        variables = circuit.fam_var[circuit.fam_ptr[node] : circuit.fam_ptr[node + 1]]
        m = len(variables)
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        lines = [param[m + i * (i + 1) // 2 :][:i] for i in range(m)]
        return variables, [np.flatnonzero(line).tolist() for line in lines]

    def seen(self, circuit: Circuit, node: int, used: Flows) -> tuple[float, Any, Any]:
        """Weight, mean and scatter of what a leaf has seen, from the flows of complete rows."""
        m = int(circuit.fam_ptr[node + 1] - circuit.fam_ptr[node])
        begin, end = circuit.param_ptr[node], circuit.param_ptr[node + 1]
        n = float(used.tables[circuit.fam_table_ptr[circuit.fam_ptr[node]]])
        first, second = np.split(used.categorical[begin:end], [m])
        if n == 0:
            return 0.0, np.zeros(m), np.zeros((m, m))
        shift = first / n
        products = np.zeros((m, m))
        products[np.tril_indices(m)] = second
        products += np.tril(products, -1).T
        return n, circuit.param[begin : begin + m] + shift, products - n * np.outer(shift, shift)

    def entropy(self, param: Any) -> float:
        """See `InputKind.entropy`."""
        raise PropertyError("The entropy of cells is not known in closed form for normal leaves.")


def _refuse_cells(plan: Plan, block: Block, node: int, row: int) -> None:
    if node < 0:
        return
    first, last = plan.leaves.node[node, FIRST], plan.leaves.node[node, LAST]
    _tell([
        int(v) for v in plan.leaves.family[first:last, VAR] if _status(block, row, int(v)) == 1
    ])  # fmt: skip


def _tell(variables: list[int]) -> NoReturn:
    names = ", ".join(str(v) for v in variables)
    raise PropertyError(
        f"Intervals of columns {names} at once have no exact answer: they depend on each other in "
        "Gaussian leaves. Give a number for all but one of them, or learn without such leaves "
        "(gaussian=False)."
    )
