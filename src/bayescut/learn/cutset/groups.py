r"""Questions about a set of states: which sets a cut on a column of many states may tell apart.

A column of K states has :math:`2^{K-1} - 1` divisions in two. Two orders of its states are looked
at, and for each of them the K - 1 divisions into what comes first and the rest: the order of the
domain (for numbers it is the only one), and the order in which the states pull the other columns:
their coordinates on the first axis of a correspondence analysis of the states against the states of
all other columns. The division is taken that would raise the score most if all other columns were
independent.
"""

from __future__ import annotations

import math

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut.learn.leaves.celltables import cells_table
from bayescut.scores.potentials import look_up, potential, shift_of

# Steps of the power method. It is the order of the coordinates that counts, not their values.
_STEPS = 8


@inner
def states_table(counts, n, sizes, ptr, active, t, table):
    """Joint counts of the states of column ``t`` (rows) and of all other columns, side by side."""
    c = active[t]
    lo, k = ptr[c], sizes[c]
    at = 0
    for s in range(active.shape[0]):
        if s == t:
            continue
        j = active[s]
        for x in range(1, k):
            rest = float(counts[lo + x - 1, lo + x - 1])
            for b in range(ptr[j], ptr[j + 1]):
                both = float(counts[lo + x - 1, b])
                table[x, at + 1 + b - ptr[j]] = both
                rest -= both
            table[x, at] = max(rest, 0.0)
        rest = float(n)
        for b in range(ptr[j], ptr[j + 1]):
            rest -= counts[b, b]
            table[0, at + 1 + b - ptr[j]] = counts[b, b]
        table[0, at] = rest
        for y in range(at, at + sizes[j]):
            for x in range(1, k):
                table[0, y] -= table[x, y]
            table[0, y] = max(table[0, y], 0.0)
        at += sizes[j]


@inner
def dot(a, b):
    """Inner product in eight sums side by side: one sum would wait for itself at every step."""
    a, b = borrowed(a), borrowed(b)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    i = 0
    while i + 8 <= a.shape[0]:
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
        i += 8
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    while i < a.shape[0]:
        total += a[i] * b[i]
        i += 1
    return total


@inner
def first_axis(table, whole, total, n, filled):
    """Coordinates of the states on the first axis of a correspondence analysis.

    ``total`` are the sums of the columns of ``table``.
    """
    table, whole, total, filled = (
        borrowed(table), borrowed(whole), borrowed(total), borrowed(filled),
    )  # fmt: skip
    k, width = filled.shape[0], table.shape[1]
    root = np.sqrt(total)
    inverse = np.empty(width)
    for y in range(width):
        inverse[y] = 1.0 / root[y] if total[y] > 0.0 else 0.0
    z = np.empty((k, width))
    start = 0
    largest = -1.0
    for i in range(k):
        x = filled[i]
        scale = 1.0 / math.sqrt(whole[x])
        share = math.sqrt(whole[x]) / n
        for y in range(width):
            z[i, y] = table[x, y] * inverse[y] * scale - share * root[y]
        norm = dot(z[i], z[i])
        if norm > largest:
            largest = norm
            start = i
    axis = z[start].copy()
    point = np.zeros(k)
    for _ in range(_STEPS):
        norm = 0.0
        for i in range(k):
            point[i] = dot(z[i], axis)
            norm += point[i] * point[i]
        if norm <= 0.0:
            break
        axis[:] = 0.0
        for i in range(k):
            step = point[i] / math.sqrt(norm)
            for y in range(width):
                axis[y] += step * z[i, y]
    for i in range(k):
        point[i] /= math.sqrt(whole[filled[i]])
    return point


@inner
def sort_states(states, point):
    """Sort states by their coordinates, in place; those that share one stay in order.

    There are few. A stable ``np.argsort`` takes 1.2 s to compile.
    """
    for i in range(1, states.shape[0]):
        x, at = states[i], point[i]
        j = i
        while j > 0 and point[j - 1] > at:
            states[j], point[j] = states[j - 1], point[j - 1]
            j -= 1
        states[j], point[j] = x, at


@inner
def divided_score(phi, part, total, n_part, n, sizes, active, t, ess, cells):
    """Score of all columns but ``t``, independent among some rows and among the others.

    ``part`` are the counts of their states among ``n_part`` of ``n`` rows, ``total`` those of all.
    """
    part, total, sizes, active, cells = (
        borrowed(part), borrowed(total), borrowed(sizes), borrowed(active), borrowed(cells),
    )  # fmt: skip
    one = other = 0.0
    at = 0
    for s in range(active.shape[0]):
        if s == t:
            continue
        k = sizes[active[s]]
        known = cells_table(cells, k)
        shift = shift_of(phi, ess / k, known.size)
        for y in range(at, at + k):
            one += look_up(phi, part[y], ess / k, known, shift)
            other += look_up(phi, max(total[y] - part[y], 0.0), ess / k, known, shift)
        at += k
    one -= (active.shape[0] - 1) * potential(phi, n_part, ess)
    other -= (active.shape[0] - 1) * potential(phi, n - n_part, ess)
    return one + other


@kernel
def best_sets(counts, n, sizes, ptr, active, ordered, ess, phi, cells, gain, inside, first):
    """The best set of states of every active column, and what asking about it would gain.

    Parameters
    ----------
    counts, n, sizes, ptr
        Pair counts and their layout.
    active : int64 array of shape (m,)
        The columns.
    ordered : bool array of shape (m,)
        Whether the order of the domain is the only one.
    ess, phi, cells
        Equivalent sample size, potential and its tables.
    gain : float64 array of shape (m,)
        Written: gain of the best set over no cut, -inf where all rows have the same state.
    inside : bool array
        Written from ``first[t]`` on: whether each state is in the set. States without rows are on
        the side of more rows.
    first : int64 array of shape (m,)
    """
    counts, sizes, ptr, active = borrowed(counts), borrowed(sizes), borrowed(ptr), borrowed(active)
    cells, gain, inside, first = borrowed(cells), borrowed(gain), borrowed(inside), borrowed(first)
    m = active.shape[0]
    width = 0
    for t in range(m):
        width += sizes[active[t]]
    for t in range(m):
        c = active[t]
        k = sizes[c]
        side = inside[first[t] : first[t] + k]
        side[:] = False
        gain[t] = -np.inf
        whole = np.empty(k)
        whole[0] = n
        for x in range(1, k):
            whole[x] = counts[ptr[c] + x - 1, ptr[c] + x - 1]
            whole[0] -= whole[x]
        whole[0] = max(whole[0], 0.0)
        filled = np.flatnonzero(whole > 0.0)
        if filled.shape[0] < 2:
            continue
        table = np.empty((k, width - k))
        states_table(counts, n, sizes, ptr, active, t, table)
        total = np.zeros(width - k)
        for x in range(k):
            for y in range(width - k):
                total[y] += table[x, y]
        part = np.zeros(width - k)
        before = divided_score(phi, part, total, 0.0, float(n), sizes, active, t, ess, cells)
        for way in range(2):
            order = filled
            if way == 1:
                if ordered[t] or filled.shape[0] < 3:
                    break
                point = first_axis(table, whole, total, float(n), filled)
                order = filled.copy()
                sort_states(order, point)
            part[:] = 0.0
            rows = 0.0
            best = 0
            low, high = k, -1
            for i in range(order.shape[0] - 1):
                x = order[i]
                rows += whole[x]
                for y in range(width - k):
                    part[y] += table[x, y]
                low, high = min(low, x), max(high, x)
                if way == 1 and (high == filled[i] or low == filled[order.shape[0] - 1 - i]):
                    continue  # the first or the last states of the domain: seen already
                score = divided_score(
                    phi, part, total, rows, float(n), sizes, active, t, ess, cells
                )
                if score - before > gain[t] + 1e-9:
                    gain[t] = score - before
                    best = i + 1
            if best > 0:
                side[:] = False
                size = 0.0
                for i in range(best):
                    side[order[i]] = True
                    size += whole[order[i]]
                if 2.0 * size > n:
                    for x in range(k):
                        side[x] |= whole[x] <= 0.0
