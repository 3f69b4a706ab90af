"""Random small circuits of every kind, and random evidence for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from bayescut.circuit import Circuit, build

Generator = np.random.Generator


def probabilities(rng: Generator, *shape: int) -> NDArray[np.float64]:
    """Return distributions along the last axis, some of them with zeros."""
    p = rng.dirichlet(np.full(shape[-1], 0.7), size=shape[:-1])
    if rng.random() < 0.3 and shape[-1] > 1:
        p[rng.random(p.shape) < 0.3] = 0.0
        p[p.sum(axis=-1) == 0] = 1.0 / shape[-1]
    return p / p.sum(axis=-1, keepdims=True)


class Maker:
    """Draws nodes; nodes of equal scope are now and then used again, which makes a DAG."""

    def __init__(self, rng: Generator, n_states: list[int], deterministic: bool) -> None:
        self.rng, self.n_states, self.deterministic = rng, n_states, deterministic
        self.made: dict[frozenset[int], list[build.Node]] = {}

    def node(self, scope: list[int], depth: int) -> build.Node:
        key = frozenset(scope)
        known = self.made.setdefault(key, [])
        if known and self.rng.random() < 0.25:
            return known[self.rng.integers(len(known))]
        node = self._fresh(scope, depth)
        known.append(node)
        return node

    def _fresh(self, scope: list[int], depth: int) -> build.Node:
        rng = self.rng
        kinds = ["junction", "junction"]
        if len(scope) == 1:
            kinds += ["categorical", "indicators"]
        elif depth > 0:
            kinds += ["decision", "decision", "product"]
        if depth > 0 and not self.deterministic:
            kinds.append("sum")
        kind = kinds[rng.integers(len(kinds))]
        if kind == "junction":
            return self.junction(scope)
        v = scope[rng.integers(len(scope))]
        k = self.n_states[v]
        if kind == "categorical":
            return build.categorical(v, probabilities(rng, k))
        if kind == "indicators":
            return build.weighted_sum(
                probabilities(rng, k), *(build.indicator(v, s) for s in range(k))
            )
        if kind == "decision":
            rest = [u for u in scope if u != v]
            if k > 2 and rng.random() < 0.5:
                return self.grouped(v, k, rest, depth)
            children = [self.node(rest, depth - 1) for _ in range(k)]
            return build.decision(v, probabilities(rng, k), *children)
        if kind == "product":
            cut = rng.integers(1, len(scope))
            order = list(rng.permutation(scope))
            return build.product(
                self.node(order[:cut], depth - 1), self.node(order[cut:], depth - 1)
            )
        n = rng.integers(1, 4)
        children = [self.node(scope, depth - 1) for _ in range(n)]
        return build.weighted_sum(probabilities(rng, n), *children)

    def grouped(self, v: int, k: int, rest: list[int], depth: int) -> build.Node:
        """A decision with a branch for every set of states, some states in none."""
        rng = self.rng
        group = rng.integers(-1, 2, size=k)
        group[rng.integers(k)] = 0
        branches = [np.flatnonzero(group == g).tolist() for g in range(2)]
        branches = [states for states in branches if states]
        children = []
        for states in branches:
            if len(states) == 1:
                children.append(self.node(rest, depth - 1))
                continue
            local = np.full(k, -1)
            local[states] = np.arange(len(states))
            view = build.View(local.tolist())
            if rng.random() < 0.5:
                own = build.categorical(v, probabilities(rng, len(states)), view)
                children.append(build.product(own, self.node(rest, depth - 1)))
            else:
                children.append(self.junction([v, *rest], views={v: view}))
        return build.decision(v, probabilities(rng, len(branches)), *children, branches=branches)

    def view(self, v: int) -> build.View:
        """States of v in groups, and some that are impossible."""
        rng, k = self.rng, self.n_states[v]
        n = int(rng.integers(1, k + 1))
        local = np.concatenate([np.arange(n), rng.integers(0, n, size=k - n)])
        rng.shuffle(local)
        share = rng.random(k) + 0.1
        share /= np.bincount(local, weights=share)[local]
        return build.View(local.tolist(), share.tolist())

    def junction(
        self,
        scope: list[int],
        width: int | None = None,
        views: dict[int, build.View] | None = None,
    ) -> build.Node:
        rng = self.rng
        views = dict(views or {})
        parent_views: dict[tuple[int, int], build.View] = {}
        with_views = bool(views) or rng.random() < 0.3
        width = int(rng.integers(0, 5)) if width is None else width
        scopes: list[list[int]] = []
        families = []
        for v in rng.permutation(scope).tolist():
            parents: list[int] = []
            if scopes:
                host = scopes[rng.integers(len(scopes))]
                n = int(rng.integers(0, min(width, len(host)) + 1))
                parents = rng.permutation(host)[:n].tolist()
            shape = []
            for u in parents:
                # What the host sees, or groups of what it sees if that is every state.
                seen = parent_views.get((host[-1], u)) if u != host[-1] else views.get(u)
                if seen is None and with_views and rng.random() < 0.3:
                    seen = self.view(u)
                if seen is not None:
                    parent_views[v, u] = seen
                shape.append(self.n_states[u] if seen is None else max(seen.local) + 1)
            if with_views and v not in views and rng.random() < 0.3:
                views[v] = self.view(v)
            shape.append(self.n_states[v] if v not in views else max(views[v].local) + 1)
            families.append((v, parents, probabilities(rng, *shape)))
            scopes.append([*parents, v])
        return build.junction(families, views, parent_views)


def random_circuit(seed: int, deterministic: bool = False) -> Circuit:
    """Return a random circuit over 1 to 5 variables of 1 to 4 states."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 6))
    n_states = rng.choice([1, 2, 2, 2, 3, 4], size=m).tolist()
    maker = Maker(rng, n_states, deterministic)
    return build.circuit(maker.node(list(range(m)), depth=3), n_states)


class Case(NamedTuple):
    """A circuit with partial rows and masks of allowed states."""

    circuit: Circuit
    codes: NDArray[np.uint8]
    allowed: NDArray[np.bool_]


def make_case(seed: int, deterministic: bool = False, n: int = 6) -> Case:
    circuit = random_circuit(seed, deterministic)
    rng = np.random.default_rng(seed + 1)
    n_states = circuit.domains.n_states
    codes = rng.integers(0, n_states, size=(n, len(n_states))).astype(np.uint8)
    codes[rng.random(codes.shape) < rng.choice([0.3, 0.6, 0.9])] = 255
    codes[0] = 255
    allowed = rng.random((n, int(n_states.sum()))) < 0.7
    return Case(circuit, codes, allowed)


seeds = st.integers(0, 2**32)
cases = st.builds(make_case, seeds)
deterministic_cases = st.builds(make_case, seeds, st.just(True))
