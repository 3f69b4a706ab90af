"""LearnSPN as its pseudo-code reads, and the evaluation of the original program.

Slow twins of `bayescut.learn.spn`; they share only the source of random orders.
"""

from __future__ import annotations

import math

import numpy as np

from bayescut.learn.spn.draws import derive, shuffled

S = 0.1
GROUPS = 1 << 32


def g_statistic(x, y, w):
    """G of two columns of weighted rows, and its degrees of freedom."""
    n = w.sum()
    total = 0.0
    for a in np.unique(x):
        for b in np.unique(y):
            joint = w[(x == a) & (y == b)].sum()
            if joint > 0:
                total += joint * math.log(joint * n / (w[x == a].sum() * w[y == b].sum()))
    return 2 * total, (len(np.unique(x)) - 1) * (len(np.unique(y)) - 1)


def groups_of(codes, w, factor):
    """Connected components of the dependence graph, as lists of positions of columns."""
    p = codes.shape[1]
    part = list(range(p))
    for i in range(p):
        for j in range(i):
            g, dof = g_statistic(codes[:, i], codes[:, j], w)
            if dof > 0 and g >= 2 * dof * factor + 0.001:
                part = [part[j] if q == part[i] else q for q in part]
    return [[j for j in range(p) if part[j] == q] for q in dict.fromkeys(part)]


def log_probability(row, members, weights, sizes):
    """A row under a cluster with the given rows."""
    n = weights.sum()
    value = 0.0
    for j, k in enumerate(sizes):
        hits = weights[members[:, j] == row[j]].sum()
        value += math.log((hits + S) / (n + k * S))
    return value


def cluster_once(codes, w, sizes, price, penalty, key, max_clusters):
    """One restart; clusters are lists of rows."""
    n = len(codes)
    order = shuffled(key, n)
    clusters = []
    done = 0
    while done < 4:
        for i in order:
            home = next((c for c in clusters if i in c), None)
            others = [[r for r in c if r != i] for c in clusters]
            values = [
                log_probability(codes[i], codes[c], w[c], sizes) if c else -math.inf for c in others
            ]
            best_value = max(values, default=-math.inf)
            best = None
            if best_value > -math.inf:
                best = next(c for c, value in enumerate(values) if value >= best_value - 1e-9)
            if best is None or best_value <= price + 1e-9:
                if home is not None and len(home) == 1:
                    continue
                if len(clusters) < max_clusters or best is None:
                    best = len(clusters)
                    clusters.append([])
            if home is not None:
                place = clusters.index(home)
                if place == best:
                    continue
                home.remove(i)
            clusters[best].append(i)
            if home is not None and not home:
                last = clusters.pop()
                if place < len(clusters):
                    clusters[place] = last
        if len(clusters) == 1:
            price /= 2
            done = 1
        else:
            done += 1
    value = 0.0
    for i in range(n):
        terms = [
            math.log(w[c].sum() / w.sum()) + log_probability(codes[i], codes[c], w[c], sizes)
            for c in clusters
        ]
        value += w[i] * np.logaddexp.reduce(terms)
    labels = np.empty(n, dtype=int)
    for c, members in enumerate(clusters):
        labels[members] = c
    return labels, len(clusters), price, value - penalty * len(clusters)


def best_clusters(codes, w, sizes, settings, key):
    """Labels of the best restart."""
    p = codes.shape[1]
    penalty = settings.cluster_penalty * p
    start = -penalty + sum(math.log((1 + S) / (1 + k * S)) for k in sizes)
    price, best = start, None
    for restart in range(settings.n_restarts):
        if settings.reset_price:
            price = start
        labels, size, price, value = cluster_once(
            codes, w, sizes, price, penalty, derive(key, restart), settings.max_clusters
        )
        if best is None or value > best[0] + 1e-9:
            best = value, labels, size
    return best[1], best[2]


def learn(codes, w, sizes, settings, key, columns=None, linked=True):
    """Nested tuples: ("leaf", {column: counts}), ("product", [...]), ("sum", [(weight, node)])."""
    if columns is None:
        columns = list(range(codes.shape[1]))
    leaf = (
        "leaf",
        {
            v: tuple(w[codes[:, j] == s].sum() for s in range(sizes[j]))
            for j, v in enumerate(columns)
        },
    )
    if len(columns) == 1 or w.sum() <= settings.min_rows or len(codes) < 2:
        return leaf
    if not linked:
        groups = groups_of(codes, w, settings.g_factor)
        alone = [j for group in groups if len(group) == 1 for j in group]
        groups = [group for group in groups if len(group) > 1]
        if not groups:
            return leaf
        if alone or len(groups) > 1:
            parts = [
                learn(
                    codes[:, group], w, sizes[group], settings, derive(key, GROUPS + g),
                    [columns[j] for j in group],
                )
                for g, group in enumerate(groups)
            ]  # fmt: skip
            if alone:
                parts.insert(0, ("leaf", {columns[j]: leaf[1][columns[j]] for j in alone}))
            return ("product", parts)
        key = derive(key, GROUPS)
    labels, size = best_clusters(codes, w, sizes, settings, key)
    children = []
    for c in range(size):
        inside = labels == c
        share = w[inside].sum() / w.sum()
        below = learn(codes[inside], w[inside], sizes, settings, derive(key, c), columns, False)
        if below[0] == "sum":
            children += [(share * weight, node) for weight, node in below[1]]
        else:
            children.append((share, below))
    return ("sum", children)


def nested(grown, sizes):
    """The same nested tuples from a `Grown`."""
    counts = {}
    at = 0
    for k, column in enumerate(grown.column):
        counts[k] = tuple(grown.counts[at : at + sizes[column]])
        at += sizes[column]
    children = [[] for _ in grown.kind]
    for i in range(1, len(grown.kind)):
        children[grown.parent[i]].append(i)

    def make(i):
        if grown.kind[i] == 2:
            span = range(grown.column_ptr[i], grown.column_ptr[i + 1])
            return ("leaf", {int(grown.column[k]): counts[k] for k in span})
        if grown.kind[i] == 1:
            return ("product", [make(c) for c in children[i]])
        return ("sum", [(math.exp(grown.log_weight[c]), make(c)) for c in children[i]])

    return make(0)


def quick_exp(x):
    """The exponential function as the original program has it (Schraudolph 1999)."""
    high = np.trunc(1512775.3951951856 * np.maximum(x, -700.0) + (1072693248 - 60801))
    return (high.astype(np.int64) << 32).view(np.float64)


def original_log_likelihood(grown, sizes, logs, codes):
    """Evaluate rows as the original program does: quick exponentials, sums divided by 1.01."""
    start = np.concatenate([[0], np.cumsum(np.asarray(sizes)[grown.column])])
    values = [np.zeros(len(codes)) for _ in grown.kind]
    terms = [[] for _ in grown.kind]
    for i in range(len(grown.kind) - 1, -1, -1):
        if grown.kind[i] == 2:
            for k in range(grown.column_ptr[i], grown.column_ptr[i + 1]):
                values[i] += logs[start[k] + codes[:, grown.column[k]]]
        elif grown.kind[i] == 0:
            stack = np.array(terms[i])
            top = stack.max(axis=0)
            values[i] = top + np.log(quick_exp(stack - top).sum(axis=0) / 1.01)
            terms[i] = []
        if i > 0:
            above = grown.parent[i]
            if grown.kind[above] == 1:
                values[above] += values[i]
            else:
                terms[above].append(values[i] + grown.log_weight[i])
            values[i] = None
    return values[0]
