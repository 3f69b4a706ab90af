r"""Which columns depend on each other in some rows: the products of LearnSPN.

Two columns are linked if the G-statistic of their joint counts,

.. math:: G_{ij} = 2 \sum_{ab} n_{ab} \ln \frac{n_{ab}\, n}{n_a n_b}
          \ge 2 g (k_i - 1)(k_j - 1) + 0.001,

where :math:`k_i` is the number of states of column i that occur; groups are connected components.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, kernel
from bayescut.data.bits import pack_rows, popcount

_SLACK = 0.001


@inner
def xlogx(x, table):
    """``x ln x``, from the table if there is one (counts are whole numbers)."""
    if table.shape[0] > 0:
        return table[np.int64(x)]
    return x * np.log(x) if x > 0.0 else 0.0


@inner
def count_states(codes, rows, columns, sizes, weights):
    """Weight of every state of every column, end to end, and the weight of the rows."""
    p = columns.shape[0]
    ptr = np.zeros(p + 1, dtype=np.int64)
    for j in range(p):
        ptr[j + 1] = ptr[j] + sizes[columns[j]]
    counts = np.zeros(ptr[p])
    total = 0.0
    for i in range(rows.shape[0]):
        line = codes[rows[i]]
        w = weights[rows[i]] if weights.shape[0] > 0 else 1.0
        total += w
        for j in range(p):
            counts[ptr[j] + line[columns[j]]] += w
    return ptr, counts, total


@inner
def joint_entropy(codes, rows, u, v, k_v, weights, bits, u_bit, v_bit, k_u, singles, cells, table):
    """Sum of ``n_ab ln n_ab`` over the joint states of two columns.

    Rows that count once are counted by popcounts of ``bits``, from ``u_bit`` and ``v_bit`` on.
    ``singles`` are the counts of the states of u, then those of v.
    """
    cells[: k_u * k_v] = 0.0
    if weights.shape[0] == 0:
        for b in range(k_v):
            cells[b] = singles[k_u + b]
        for a in range(1, k_u):
            rest = singles[a]
            for b in range(1, k_v):
                x = np.uint64(0)
                first, second = bits[u_bit + a - 1], bits[v_bit + b - 1]
                for w in range(bits.shape[1]):
                    x += popcount(first[w] & second[w])
                cells[a * k_v + b] = np.float64(x)
                cells[b] -= np.float64(x)
                rest -= np.float64(x)
            cells[a * k_v] = rest
            cells[0] -= rest
    else:
        for i in range(rows.shape[0]):
            line = codes[rows[i]]
            cells[line[u] * k_v + line[v]] += weights[rows[i]]
    total = 0.0
    for c in range(k_u * k_v):
        total += xlogx(cells[c], table)
    return total


@kernel
def dependent_groups(codes, rows, columns, sizes, weights, factor, table):
    """Number the groups of columns that depend on each other.

    Parameters
    ----------
    codes, rows, columns, sizes, weights
        The slice of a table; ``weights`` of all its rows, empty if they count once.
    factor : float
        g of the test.
    table : float64 array
        ``k ln k`` for k = 0, 1, ..., empty if rows have weights.

    Returns
    -------
    groups, n_groups, ptr, counts, total
        Group of every column, numbered by their first columns, or -1 if it depends on no other;
        the counts of the states of all columns and the weight of the rows.
    """
    p = columns.shape[0]
    ptr, counts, n = count_states(codes, rows, columns, sizes, weights)
    whole = xlogx(n, table)
    # G is at most twice the entropy of a column in all rows: most columns of a sparse table fail
    # this and need no partners.
    entropy = np.empty(p)
    seen = np.zeros(p, dtype=np.int64)
    waiting = np.empty(p, dtype=np.int64)
    n_waiting = 0
    n_bits = 0
    largest = 1
    for j in range(p):
        entropy[j] = whole
        for c in range(ptr[j], ptr[j + 1]):
            entropy[j] -= xlogx(counts[c], table)
            seen[j] += counts[c] > 0.0
        least = 2.0 * factor * (seen[j] - 1) + _SLACK
        if seen[j] > 1 and 2.0 * entropy[j] >= least - 1e-9:
            waiting[n_waiting] = j
            n_waiting += 1
            n_bits += sizes[columns[j]] - 1
            largest = max(largest, sizes[columns[j]])
    groups = np.full(p, -1, dtype=np.int64)
    if n_waiting < 2:
        return groups, 0, ptr, counts, n

    bit_column = np.empty(n_bits, dtype=np.int64)
    bit_state = np.empty(n_bits, dtype=np.int64)
    first_bit = np.zeros(p, dtype=np.int64)
    b = 0
    for t in range(n_waiting):
        first_bit[waiting[t]] = b
        for s in range(1, sizes[columns[waiting[t]]]):
            bit_column[b] = columns[waiting[t]]
            bit_state[b] = s
            b += 1
    bits = np.empty((n_bits, (rows.shape[0] + 63) // 64), dtype=np.uint64)
    if weights.shape[0] == 0:
        pack_rows(codes, rows, bit_column, bit_state, False, bits)
    cells = np.empty(largest * largest)
    singles = np.empty(2 * largest)

    found = np.empty(n_waiting, dtype=np.int64)
    n_groups = 0
    while n_waiting > 0:
        # Breadth first from the first column left; a column once linked is not tested again.
        found[0] = waiting[0]
        n_found = 1
        for t in range(1, n_waiting):
            waiting[t - 1] = waiting[t]
        n_waiting -= 1
        head = 0
        while head < n_found and n_waiting > 0:
            u = found[head]
            head += 1
            k_u = sizes[columns[u]]
            for a in range(k_u):
                singles[a] = counts[ptr[u] + a]
            left = 0
            for t in range(n_waiting):
                v = waiting[t]
                k_v = sizes[columns[v]]
                threshold = 2.0 * factor * (seen[u] - 1) * (seen[v] - 1) + _SLACK
                linked = False
                if 2.0 * min(entropy[u], entropy[v]) >= threshold - 1e-9:
                    for a in range(k_v):
                        singles[k_u + a] = counts[ptr[v] + a]
                    joint = joint_entropy(
                        codes, rows, columns[u], columns[v], k_v, weights, bits,
                        first_bit[u], first_bit[v], k_u, singles, cells, table,
                    )  # fmt: skip
                    linked = 2.0 * (joint - whole + entropy[u] + entropy[v]) >= threshold
                if linked:
                    found[n_found] = v
                    n_found += 1
                else:
                    waiting[left] = v
                    left += 1
            n_waiting = left
        if n_found > 1:
            for t in range(n_found):
                groups[found[t]] = n_groups
            n_groups += 1
    return groups, n_groups, ptr, counts, n
