"""From the sketch of Strudel to the frozen circuit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayescut._typing import FloatArray
from bayescut.circuit import Circuit, build
from bayescut.circuit._kinds import CATEGORICAL
from bayescut.data.domains import Domains
from bayescut.learn.strudel.sketch import AND, LITERAL, Sketch


def freeze_mixture(
    sketch: Sketch, shares: FloatArray, weights: FloatArray, domains: Domains
) -> Circuit:
    """Turn a sketch with several sets of weights into a mixture.

    Parameters
    ----------
    sketch : Sketch
        The structure of all components.
    shares : float64 array of shape (K,)
        Weights of the components.
    weights : float64 array of shape (edges, K)
        Weights of the sketch's edges in each.
    domains : Domains
        The states of all columns.
    """
    first = freeze_sketch(sketch, weights[:, 0], domains)
    # The same circuit with the numbers of edges in the place of weights says which goes where.
    root, edges = _nodes(sketch, weights[:, 0], domains)
    of_weight, of_param = [], []
    for node in _in_layout_order(root):
        own = edges.get(id(node), [])
        if node.kind == CATEGORICAL:
            of_param += own
        else:
            of_weight += own or [-1] * len(node.children)
    at_weight, at_param = np.array(of_weight, dtype=np.int64), np.array(of_param, dtype=np.int64)
    logs = np.log(weights)
    circuits = []
    for k in range(len(shares)):
        log_weight = np.where(at_weight >= 0, logs[at_weight, k], 0.0)
        circuits.append(replace(first, log_weight=log_weight, param=logs[at_param, k]))
    return build.mixture(shares, circuits)


def _in_layout_order(root: build.Node) -> list[build.Node]:
    """Nodes in the order in which `build.circuit` lays them out."""
    found: list[build.Node] = []
    seen: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if id(node) in seen:
            continue
        if is_ready:
            seen.add(id(node))
            found.append(node)
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
    return found


def freeze_sketch(sketch: Sketch, weights: FloatArray, domains: Domains) -> Circuit:
    """Turn a sketch into a circuit of decisions, sums and products.

    ORs over the literals of a column become categorical inputs, those whose branches begin with the
    literals of one column decisions, and those with one branch are left out.

    Parameters
    ----------
    sketch : Sketch
        The structure.
    weights : float64 array
        Weights of its edges.
    domains : Domains
        The states of all columns.

    Returns
    -------
    Circuit
        Smooth, structured decomposable and deterministic.
    """
    return build.circuit(_nodes(sketch, weights, domains)[0], domains)


def _nodes(
    sketch: Sketch, weights: FloatArray, domains: Domains
) -> tuple[build.Node, dict[int, list[int]]]:
    """Root of the circuit, and the edges of the sketch whose weights a node has, by its id."""
    sizes = domains.n_states.tolist()
    kind, first, second = (a.tolist() for a in (sketch.kind, sketch.first, sketch.second))
    child, following = sketch.child.tolist(), sketch.following.tolist()
    made: dict[int, build.Node] = {}
    edges_in: dict[int, list[int]] = {}

    def edges_of(node: int) -> list[int]:
        found = []
        e = first[node]
        while e >= 0:
            found.append(e)
            e = following[e]
        return found

    def needs(node: int) -> list[int]:
        if kind[node] == LITERAL:
            return []
        if kind[node] == AND:
            return [first[node], second[node]]
        below = [child[e] for e in edges_of(node)]
        column = decides(below)
        return [second[c] for c in below] if column >= 0 else below

    def decides(below: list[int]) -> int:
        """Column whose literals begin all branches, one for each state; -1 if there is none."""
        if any(kind[c] != AND or kind[first[c]] != LITERAL for c in below):
            return -1
        columns = {first[first[c]] for c in below}
        states = {second[first[c]] for c in below}
        v = columns.pop()
        return v if not columns and len(states) == len(below) == sizes[v] else -1

    def told(node: build.Node, edges: list[int]) -> build.Node:
        edges_in[id(node)] = edges
        return node

    def make(node: int) -> build.Node:
        if kind[node] == LITERAL:
            return build.indicator(first[node], second[node])
        if kind[node] == AND:
            return build.product(made[first[node]], made[second[node]])
        edges = edges_of(node)
        below = [child[e] for e in edges]
        if len(edges) == 1 and decides(below) < 0:
            return made[below[0]]
        shares = [float(weights[e]) for e in edges]
        if all(kind[c] == LITERAL for c in below):
            table = [0.0] * sizes[first[below[0]]]
            for c, share in zip(below, shares, strict=True):
                table[second[c]] = share
            by_cell = sorted(edges, key=lambda e: second[child[e]])
            return told(build.categorical(first[below[0]], table), by_cell)
        v = decides(below)
        if v >= 0:
            by_state = sorted(edges, key=lambda e: second[first[child[e]]])
            shares = [float(weights[e]) for e in by_state]
            subs = [made[second[child[e]]] for e in by_state]
            return told(build.decision(v, shares, *subs), by_state)
        return told(build.weighted_sum(shares, *[made[c] for c in below]), edges)

    root = int(sketch.used[2])
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in made:
            continue
        if ready:
            made[node] = make(node)
        else:
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(needs(node)) if c not in made)
    return made[root], edges_in
