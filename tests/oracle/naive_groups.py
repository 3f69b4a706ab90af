"""Cuts that ask about sets of states, written for reading: loops over rows, sets and cells."""

from __future__ import annotations

import itertools

import numpy as np

from tests.oracle.naive_learner import bd_family, joint


def independent_score(codes, sizes, columns, weights, ess):
    """Bayes-Dirichlet score of columns that are independent."""
    return sum(bd_family(joint(codes, sizes, [c], weights), ess) for c in columns)


def set_gain(codes, sizes, column, states, weights, ess):
    """What it gains to tell rows with one of these states from the others, other columns
    independent on both sides."""
    others = [c for c in range(len(sizes)) if c != column]
    side = np.isin(codes[:, column], list(states))
    gain = -independent_score(codes, sizes, others, weights, ess)
    for part in (side, ~side):
        gain += independent_score(codes[part], sizes, others, weights[part], ess)
    return gain


def prefixes(order):
    """The divisions of states in an order into what comes first and the rest."""
    return [frozenset(order[: i + 1]) for i in range(len(order) - 1)]


def axis_order(codes, sizes, column, weights):
    """The states that occur, along the first axis of a correspondence analysis."""
    others = [c for c in range(len(sizes)) if c != column]
    tables = [joint(codes, sizes, [column, c], weights) for c in others]
    table = np.concatenate(tables, axis=1)
    whole = joint(codes, sizes, [column], weights)
    filled = np.flatnonzero(whole > 0)
    table, whole = table[filled], whole[filled]
    total = table.sum(axis=0)
    table, total = table[:, total > 0], total[total > 0]
    expected = np.outer(whole, total) / whole.sum()
    left, _, _ = np.linalg.svd((table - expected) / np.sqrt(np.outer(whole, total)))
    return filled[np.argsort(left[:, 0] / np.sqrt(whole), kind="stable")].tolist()


def forest_score(codes, sizes, columns, weights, ess, edge_cost=0.0):
    """Score of the best forest: Kruskal's algorithm with edges of positive worth."""
    total = independent_score(codes, sizes, columns, weights, ess)
    edges = []
    for u, v in itertools.combinations(columns, 2):
        table = joint(codes, sizes, [u, v], weights)
        worth = bd_family(table, ess) - bd_family(table.sum(axis=0), ess) - edge_cost
        edges.append((worth, u, v))
    group = {c: c for c in columns}
    for worth, u, v in sorted(edges, reverse=True):
        if worth > 0 and group[u] != group[v]:
            total += worth
            old = group[u]
            group = {c: group[v] if g == old else g for c, g in group.items()}
    return total


def some_family(codes, states, column, parents, weights):
    """Counts of a family among the rows that have none but the listed states."""
    members = [*parents, column]
    table = np.zeros([len(states[c]) for c in members])
    for row, weight in zip(codes, weights, strict=True):
        if all(row[c] in states[c] for c in members):
            table[tuple(states[c].index(row[c]) for c in members)] += weight
    return table


def kept_worth(codes, sizes, column, states, edges, weights, ess, cut_ess, edge_cost=0.0):
    """Score of a cut by a question whose branches both have the forest of ``edges``.

    ``edges`` lists pairs of a parent and its child.
    """
    side = np.isin(codes[:, column], list(states))
    shares = np.array([weights[~side].sum(), weights[side].sum()])
    total = bd_family(shares, cut_ess)
    parent = {child: above for above, child in edges}
    for part, answer in ((~side, False), (side, True)):
        left = [np.arange(k).tolist() for k in sizes]
        left[column] = [x for x in range(sizes[column]) if (x in states) == answer]
        settled = len(left[column]) == 1
        for c in range(len(sizes)):
            if settled and c == column:
                continue
            above = parent.get(c)
            parents = [] if above is None or (settled and above == column) else [above]
            table = some_family(codes[part], left, c, parents, weights[part])
            total += bd_family(table, ess) - edge_cost * len(parents)
    return total
