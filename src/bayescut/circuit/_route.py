"""Down: which rows of a block need which nodes.

A set of rows is a line of bits. A sum hands its rows on to all children, a decision only those that
may be in the states of a branch, a product those that its indicators leave. Observed, missing and
set-valued evidence are one thing here: the bits of the routing tests.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import IntArray
from bayescut.circuit._kinds import DECISION, INDICATOR, PRODUCT, RESTRICTED
from bayescut.circuit._plan import (
    EDGE_TEST,
    EDGES,
    EDGES_END,
    KIND,
    NODE_TEST,
    TEST_MEMBER,
    TEST_VAR,
    VAR_OFFSET,
    VAR_STATES,
    Nodes,
)
from bayescut.circuit.evidence import Block
from bayescut.data.bits import popcount, trailing_zeros


@inner
def _run_tests(plan: Nodes, block: Block) -> None:
    """Write the bits of every routing test."""
    n, n_words = len(block.states), block.possible.shape[1]
    column = np.empty(64 * n_words, dtype=np.uint16)
    some = np.zeros(64 * n_words, dtype=np.uint8)
    last = -1
    n_restricted = 0
    for t in range(len(plan.test)):
        v, at = plan.test[t, TEST_VAR], plan.test[t, TEST_MEMBER]
        k = plan.variable[v, VAR_STATES]
        if v != last:
            # The entry behind the last state stands for all that is unknown.
            last = v
            n_restricted = 0
            for r in range(n):
                state = block.states[r, v]
                n_restricted += state == RESTRICTED
                column[r] = min(np.int64(state), k)
        for r in range(n):
            some[r] = plan.member[at + np.int64(column[r])]
        if n_restricted > 0:
            offset = plan.variable[v, VAR_OFFSET]
            for r in range(n):
                if block.states[r, v] == RESTRICTED:
                    weight = block.weights[r if len(block.weights) > 1 else 0]
                    some[r] = 0
                    for s in range(k):
                        if plan.member[at + s] and weight[offset + s] > 0.0:
                            some[r] = 1
        for w in range(n_words):
            bits = np.uint64(0)
            for b in range(64):
                bits |= np.uint64(some[64 * w + b]) << np.uint64(b)
            block.possible[t, w] = bits


@inner
def list_rows(need: IntArray, which: IntArray) -> int:
    """List the rows of a line of bits; return how many there are."""
    n = 0
    for w in range(len(need)):
        bits = need[w]
        while bits:
            which[n] = 64 * w + np.int64(trailing_zeros(bits))
            n += 1
            bits &= bits - np.uint64(1)
    return n


@inner
def leave_open(plan: Nodes, block: Block, node: int, need: IntArray, left: IntArray) -> int:
    """Write the rows of a product that all its indicators allow; return how many there are."""
    n_words = len(need)
    for w in range(n_words):
        left[w] = need[w]
    for e in range(plan.node[node, EDGES], plan.node[node, EDGES_END]):
        below = plan.child[e]
        if plan.node[below, KIND] == INDICATOR:
            test = plan.node[below, NODE_TEST]
            for w in range(n_words):
                left[w] &= block.possible[test, w]
    n = 0
    for w in range(n_words):
        n += int(popcount(left[w]))
    return n


@kernel
def route(plan: Nodes, block: Block, roots: IntArray, need: IntArray, start: IntArray) -> None:
    """Write the rows that need each node, and where the values of a node begin.

    Node i has ``start[i + 1] - start[i]`` values, one for each row that needs it.
    """
    plan, block = borrowed(plan), borrowed(block)
    n_nodes, n_words = need.shape
    _run_tests(plan, block)
    left = np.empty(n_words, dtype=np.uint64)
    need[:] = np.uint64(0)
    for root in roots:
        for r in range(len(block.unknown)):
            if block.unknown[r] >= 0:
                need[root, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
    for node in range(n_nodes - 1, -1, -1):
        begin, end = plan.node[node, EDGES], plan.node[node, EDGES_END]
        if begin == end:
            continue
        some = np.uint64(0)
        for w in range(n_words):
            some |= need[node, w]
        if some == 0:
            continue
        kind = plan.node[node, KIND]
        if kind == PRODUCT:
            if leave_open(plan, block, node, need[node], left) == 0:
                continue
            for e in range(begin, end):
                below = plan.child[e]
                for w in range(n_words):
                    need[below, w] |= left[w]
            continue
        for e in range(begin, end):
            if plan.log_weight[e] == -np.inf:
                continue
            below = plan.child[e]
            if kind == DECISION:
                test = plan.edge[e, EDGE_TEST]
                for w in range(n_words):
                    need[below, w] |= need[node, w] & block.possible[test, w]
            else:
                for w in range(n_words):
                    need[below, w] |= need[node, w]
    start[0] = 0
    for node in range(n_nodes):
        n = 0
        for w in range(n_words):
            n += int(popcount(need[node, w]))
        start[node + 1] = start[node] + n
