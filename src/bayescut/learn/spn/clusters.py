r"""Clusters of rows by a naive Bayes mixture, one row at a time: the sums of LearnSPN.

A row joins the cluster under which it is most probable,

.. math:: \arg\max_c \sum_j \ln \frac{n_{cj}(x_j) + s}{n_c + K_j s}, \qquad s = 0.1,

the row itself taken out, or opens a new one if that is at most a price. Counts of a cluster are
kept as logarithms relative to the most frequent state of every column, so that a row costs one
addition for each cluster and each of its *other* cells, for all clusters at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from bayescut._kernels import inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.spn.draws import derive, shuffled

#: Pseudo-count of every state in the clustering.
SMOOTHING = 0.1
#: Passes over the rows in a restart.
PASSES = 4
# Log-probabilities nearer than this are the same: which is larger hangs on the order of additions.
_NEAR = 1e-9
# Below every log-probability, and a number.
_NEVER = -1e300


class Rows(NamedTuple):
    """Rows of a slice of a table, as the kernels of this module read them.

    Attributes
    ----------
    states : uint16 array of shape (n, p)
        Their codes.
    cell_ptr : int64 array of shape (p + 1,)
        Column j owns cells ``cell_ptr[j] .. cell_ptr[j + 1] - 1``, one for each state.
    usual : int64 array of shape (p,)
        The most frequent state of every column.
    bit_ptr : int64 array of shape (p + 1,)
        Column j owns bits ``bit_ptr[j] .. bit_ptr[j + 1] - 1``, one for each other state.
    row_ptr, row_bit, row_column : int64, int32 and int32 arrays
        The bits of row i are ``row_bit[row_ptr[i] : row_ptr[i + 1]]``, of these columns.
    weight : float64 array of shape (n,)
        Weights of the rows.
    logs : float64 array
        ``ln(k + SMOOTHING)`` for k = 0, 1, ...; empty if weights are not all 1.
    """

    states: CodeArray
    cell_ptr: IntArray
    usual: IntArray
    bit_ptr: IntArray
    row_ptr: IntArray
    row_bit: IntArray
    row_column: IntArray
    weight: FloatArray
    logs: FloatArray


@kernel
def read_rows(codes, rows, columns, sizes, weights, logs):
    """Gather some rows and columns; ``weights`` of all rows of the table may be empty (all 1)."""
    n, p = rows.shape[0], columns.shape[0]
    states = np.empty((n, p), dtype=np.uint16)
    cell_ptr = np.zeros(p + 1, dtype=np.int64)
    bit_ptr = np.zeros(p + 1, dtype=np.int64)
    for j in range(p):
        cell_ptr[j + 1] = cell_ptr[j] + sizes[columns[j]]
        bit_ptr[j + 1] = bit_ptr[j] + sizes[columns[j]] - 1
    weight = np.ones(n)
    totals = np.zeros(cell_ptr[p])
    for i in range(n):
        line = codes[rows[i]]
        if weights.shape[0] > 0:
            weight[i] = weights[rows[i]]
        for j in range(p):
            x = line[columns[j]]
            states[i, j] = x
            totals[cell_ptr[j] + x] += weight[i]
    usual = np.zeros(p, dtype=np.int64)
    for j in range(p):
        usual[j] = np.argmax(totals[cell_ptr[j] : cell_ptr[j + 1]])
    row_ptr = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        row_ptr[i + 1] = row_ptr[i]
        for j in range(p):
            row_ptr[i + 1] += states[i, j] != usual[j]
    row_bit = np.empty(row_ptr[n], dtype=np.int32)
    row_column = np.empty(row_ptr[n], dtype=np.int32)
    k = 0
    for i in range(n):
        for j in range(p):
            x = np.int64(states[i, j])
            if x != usual[j]:
                row_bit[k] = bit_ptr[j] + x - (x > usual[j])
                row_column[k] = j
                k += 1
    return Rows(states, cell_ptr, usual, bit_ptr, row_ptr, row_bit, row_column, weight, logs)


@inner
def log_count(x, logs):
    """``ln(x + SMOOTHING)``; -1 rows, which no one asks for, count as nothing."""
    if logs.shape[0] > 0:
        k = np.int64(x)
        return logs[k] if k >= 0 else 0.0
    return np.log(max(x, 0.0) + SMOOTHING)


@inner
def log_size(cell_ptr, n):
    """Denominators of all columns together: the sum of ``ln(n + K s)``."""
    total = 0.0
    size = 0
    value = 0.0
    for j in range(cell_ptr.shape[0] - 1):
        k = cell_ptr[j + 1] - cell_ptr[j]
        if k != size:
            size = k
            value = np.log(max(n, 0.0) + k * SMOOTHING)
        total += value
    return total


@inner
def update_cluster(data, counts, size, base, without, gains, c):
    """Work out the logarithms of cluster ``c`` anew after its counts have changed."""
    p = data.usual.shape[0]
    own = counts[c]
    total = 0.0
    total_without = 0.0
    for j in range(p):
        first = data.cell_ptr[j]
        n_usual = own[first + data.usual[j]]
        usual = log_count(n_usual, data.logs)
        total += usual
        total_without += log_count(n_usual - 1.0, data.logs)
        b = data.bit_ptr[j]
        for s in range(data.cell_ptr[j + 1] - first):
            if s != data.usual[j]:
                gains[b, c] = log_count(own[first + s], data.logs) - usual
                b += 1
    base[c] = total - log_size(data.cell_ptr, size[c])
    without[c] = total_without - log_size(data.cell_ptr, size[c] - 1.0)


@inner
def count_row(data, counts, size, c, i, sign):
    """Put row ``i`` into cluster ``c``, or take it out."""
    w = sign * data.weight[i]
    for j in range(data.usual.shape[0]):
        counts[c, data.cell_ptr[j] + data.states[i, j]] += w
    size[c] += w


@inner
def value_without(data, counts, size, without, c, i):
    """Log-probability of row ``i`` under its own cluster ``c`` without it."""
    own = counts[c]
    if data.logs.shape[0] > 0:
        value = without[c]
        for k in range(data.row_ptr[i], data.row_ptr[i + 1]):
            j = data.row_column[k]
            first = data.cell_ptr[j]
            value -= log_count(own[first + data.usual[j]] - 1.0, data.logs)
            value += log_count(own[first + data.states[i, j]] - 1.0, data.logs)
        return value
    w = data.weight[i]
    value = -log_size(data.cell_ptr, size[c] - w)
    for j in range(data.usual.shape[0]):
        value += log_count(own[data.cell_ptr[j] + data.states[i, j]] - w, data.logs)
    return value


@inner
def all_values(data, base, gains, n_clusters, i, values):
    """Log-probability of row ``i`` under every cluster."""
    for c in range(n_clusters):
        values[c] = base[c]
    for k in range(data.row_ptr[i], data.row_ptr[i + 1]):
        gain = gains[data.row_bit[k]]
        for c in range(n_clusters):
            values[c] += gain[c]


# No value is NaN: told so, LLVM finds the largest of several at once.
@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def largest(values, n):
    """Largest of the first ``n`` values."""
    top = _NEVER
    for c in range(n):
        top = max(top, values[c])
    return top


@kernel
def cluster_once(data, price, penalty, key, max_clusters):
    """One restart of the clustering, from a random order of the rows.

    Parameters
    ----------
    data : Rows
        At least two rows.
    price : float
        A row whose best cluster is not above this opens a new one. It is halved whenever a pass
        ends with a single cluster.
    penalty : float
        Price of a cluster in the value of the whole.
    key : int
        Source of the order.
    max_clusters : int
        No more are opened.

    Returns
    -------
    labels, n_clusters, price, value
        Cluster of every row, their number, the price at the end, and the penalised log-likelihood.
    """
    n, p = data.states.shape
    order = shuffled(key, n)
    labels = np.full(n, -1, dtype=np.int64)
    room = 8
    counts = np.zeros((room, data.cell_ptr[p]))
    size = np.zeros(room)
    base = np.zeros(room)
    without = np.zeros(room)
    gains = np.zeros((data.bit_ptr[p], room))
    values = np.empty(room)
    members = np.zeros(room, dtype=np.int64)
    n_clusters = 0
    done = 0
    while done < PASSES:
        for t in range(n):
            i = order[t]
            own = labels[i]
            all_values(data, base, gains, n_clusters, i, values)
            if own >= 0:
                values[own] = _NEVER
                if members[own] > 1:
                    values[own] = value_without(data, counts, size, without, own, i)
            best = -1
            best_value = largest(values, n_clusters)
            if best_value > _NEVER:
                best = 0
                while values[best] < best_value - _NEAR:
                    best += 1
            alone = own >= 0 and members[own] == 1
            if best < 0 or best_value <= price + _NEAR:
                if alone:
                    continue  # it would open the cluster that it is
                if n_clusters < max_clusters or best < 0:
                    best = n_clusters
            if best == own:
                continue
            if own >= 0:
                count_row(data, counts, size, own, i, -1.0)
                members[own] -= 1
                if not alone:
                    update_cluster(data, counts, size, base, without, gains, own)
            if best == n_clusters:
                if n_clusters == room:
                    wide = np.zeros((gains.shape[0], 2 * room))
                    wide[:, :room] = gains
                    gains = wide
                    counts = np.concatenate((counts, np.zeros_like(counts)))
                    size = np.concatenate((size, np.zeros(room)))
                    base = np.concatenate((base, np.zeros(room)))
                    without = np.concatenate((without, np.zeros(room)))
                    values = np.empty(2 * room)
                    members = np.concatenate((members, np.zeros(room, dtype=np.int64)))
                    room *= 2
                counts[best] = 0.0
                size[best] = 0.0
                members[best] = 0
                n_clusters += 1
            labels[i] = best
            count_row(data, counts, size, best, i, 1.0)
            members[best] += 1
            update_cluster(data, counts, size, base, without, gains, best)
            if alone:  # the last cluster takes the place of the empty one
                n_clusters -= 1
                if own != n_clusters:
                    for r in range(n):
                        if labels[r] == n_clusters:
                            labels[r] = own
                    counts[own] = counts[n_clusters]
                    size[own] = size[n_clusters]
                    members[own] = members[n_clusters]
                    update_cluster(data, counts, size, base, without, gains, own)
        if n_clusters == 1:
            price *= 0.5
            done = 1
        else:
            done += 1
    total = 0.0
    whole = data.weight.sum()
    share = np.log(size[:n_clusters] / whole)
    for i in range(n):
        all_values(data, base, gains, n_clusters, i, values)
        for c in range(n_clusters):
            values[c] += share[c]
        top = largest(values, n_clusters)
        mass = 0.0
        for c in range(n_clusters):
            if values[c] > top - 40.0:  # below rounding
                mass += np.exp(values[c] - top)
        total += data.weight[i] * (top + np.log(mass))
    return labels, n_clusters, price, total - penalty * n_clusters


@inner
def opening_price(cell_ptr, penalty):
    """Price of a cluster before any restart: the penalty, and what a row alone is worth."""
    price = -penalty
    for j in range(cell_ptr.shape[0] - 1):
        k = cell_ptr[j + 1] - cell_ptr[j]
        price += np.log((1.0 + SMOOTHING) / (1.0 + k * SMOOTHING))
    return price


@kernel
def first_price(data, cluster_penalty):
    """What `cluster_once` is to be called with: the first price, and the price of a cluster."""
    penalty = cluster_penalty * data.usual.shape[0]
    return opening_price(data.cell_ptr, penalty), penalty


@kernel
def best_clusters(data, cluster_penalty, n_restarts, key, max_clusters, reset_price):
    """Labels and number of clusters of the best of several restarts, one after the other."""
    start, penalty = first_price(data, cluster_penalty)
    price = start
    best_value = -np.inf
    best_labels = np.zeros(data.weight.shape[0], dtype=np.int64)
    best_size = 0
    for restart in range(n_restarts):
        if reset_price:
            price = start
        labels, size, price, value = cluster_once(
            data, price, penalty, derive(key, restart), max_clusters
        )
        if value > best_value + _NEAR or best_size == 0:
            best_value = value
            best_labels = labels
            best_size = size
    return best_labels, best_size
