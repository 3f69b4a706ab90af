"""From the sketch of Strudel to the frozen circuit."""

from __future__ import annotations

from bayescut._typing import FloatArray
from bayescut.circuit import Circuit, build
from bayescut.data.domains import Domains
from bayescut.learn.strudel.sketch import AND, LITERAL, Sketch


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
    sizes = domains.n_states.tolist()
    kind, first, second = (a.tolist() for a in (sketch.kind, sketch.first, sketch.second))
    child, following = sketch.child.tolist(), sketch.following.tolist()
    made: dict[int, build.Node] = {}

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
            return build.categorical(first[below[0]], table)
        v = decides(below)
        if v >= 0:
            by_state = sorted(zip(below, shares, strict=True), key=lambda b: second[first[b[0]]])
            return build.decision(
                v, [s for _, s in by_state], *[made[second[c]] for c, _ in by_state]
            )
        return build.weighted_sum(shares, *[made[c] for c in below])

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
    return build.circuit(made[root], domains)
