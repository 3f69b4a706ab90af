"""Up: the log values of inner nodes, node by node, for all rows of a block that need them.

The one place where sums are evaluated, as sums or as maxima. What a row gets depends on the row and
the circuit alone, bit for bit: every row adds the same terms in the same order, whatever stands
beside it.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._exp import exp
from bayescut.circuit._kinds import DECISION, INDICATOR, PRODUCT, RESTRICTED
from bayescut.circuit._plan import (
    EDGE_STATE,
    EDGE_TEST,
    EDGES,
    EDGES_END,
    KIND,
    NODE_VAR,
    VAR_OFFSET,
    Nodes,
)
from bayescut.circuit._route import leave_open, list_rows
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._scratch import Marks
from bayescut.data.bits import trailing_zeros


@inner
def weigh_branch(plan: Nodes, block: Block, node: int, e: int, r: int) -> float:
    """Log of how far the evidence leaves the state that a decision's branch stands for."""
    state = plan.edge[e, EDGE_STATE]
    v = plan.node[node, NODE_VAR]
    if state < 0 or block.states[r, v] != RESTRICTED:
        return 0.0
    weight = block.weights[r if len(block.weights) > 1 else 0]
    return np.log(weight[plan.variable[v, VAR_OFFSET] + state])


@inner
def log_sum_end(
    top: FloatArray, total: FloatArray, n: int, maximise: bool, out: FloatArray
) -> None:
    """Write the logs of sums, given the largest terms and the sums relative to these."""
    for i in range(n):
        out[i] = top[i]
        if not maximise and total[i] != 1.0 and top[i] > -np.inf:
            out[i] = top[i] + np.log(total[i])


@inner
def same_rows(need: IntArray, a: int, b: int) -> bool:
    """Whether two nodes are needed by the same rows."""
    for w in range(need.shape[1]):
        if need[a, w] != need[b, w]:
            return False
    return True


@inner
def _sum(
    plan: Nodes,
    ws: Marks,
    block: Block,
    node: int,
    n: int,
    need: IntArray,
    start: IntArray,
    maximise: bool,
    value: FloatArray,
) -> None:
    """Evaluate a sum or a decision for its n rows."""
    top, total, slot, which = ws.top, ws.total, ws.slot, ws.which
    is_decision = plan.node[node, KIND] == DECISION
    weighted = is_decision and block.weights.shape[1] > 0
    for i in range(n):
        top[i], total[i] = -np.inf, 0.0
        slot[which[i]] = i
    # First the largest term of every row, then the sum relative to it.
    for adding in range(1 if maximise else 2):
        for e in range(plan.node[node, EDGES], plan.node[node, EDGES_END]):
            weight = plan.log_weight[e]
            if weight == -np.inf:
                continue
            below = plan.child[e]
            j = start[below]
            if not is_decision and same_rows(need, node, below):
                if adding:
                    for i in range(n):
                        total[i] += exp(weight + value[j + i] - top[i])
                else:
                    for i in range(n):
                        top[i] = max(top[i], weight + value[j + i])
                continue
            # The child's rows in order; those that come from this node are added.
            for w in range(need.shape[1]):
                bits = need[below, w]
                mine = need[node, w]
                if is_decision:
                    mine &= block.possible[plan.edge[e, EDGE_TEST], w]
                while bits:
                    lowest = bits & (~bits + np.uint64(1))
                    if mine & lowest:
                        r = 64 * w + np.int64(trailing_zeros(bits))
                        i = slot[r]
                        term = weight + value[j]
                        if weighted:
                            term += weigh_branch(plan, block, node, e, r)
                        if adding:
                            total[i] += exp(term - top[i])
                        else:
                            top[i] = max(top[i], term)
                    bits ^= lowest
                    j += 1
    log_sum_end(top, total, n, maximise, value[start[node] :])


@inner
def _product(
    plan: Nodes,
    ws: Marks,
    block: Block,
    node: int,
    n: int,
    need: IntArray,
    left: IntArray,
    start: IntArray,
    value: FloatArray,
) -> None:
    """Evaluate a product for its n rows."""
    slot, which = ws.slot, ws.which
    own = start[node]
    n_left = leave_open(plan, block, node, need[node], left)
    for i in range(n):
        value[own + i] = 0.0 if n_left == n else -np.inf
        slot[which[i]] = own + i
    if n_left < n:
        for w in range(len(left)):
            bits = left[w]
            while bits:
                value[slot[64 * w + np.int64(trailing_zeros(bits))]] = 0.0
                bits &= bits - np.uint64(1)
        if n_left == 0:
            return
    for e in range(plan.node[node, EDGES], plan.node[node, EDGES_END]):
        below = plan.child[e]
        j = start[below]
        if plan.node[below, KIND] == INDICATOR and block.weights.shape[1] == 0:
            continue  # the rows it leaves have the value 1
        if n_left == n and same_rows(need, node, below):
            for i in range(n):
                value[own + i] += value[j + i]
            continue
        for w in range(need.shape[1]):
            bits = need[below, w]
            while bits:
                lowest = bits & (~bits + np.uint64(1))
                if left[w] & lowest:
                    value[slot[64 * w + np.int64(trailing_zeros(bits))]] += value[j]
                bits ^= lowest
                j += 1


@kernel
def evaluate(
    plan: Nodes,
    ws: Marks,
    block: Block,
    need: IntArray,
    start: IntArray,
    value: FloatArray,
    maximise: bool,
) -> None:
    """Write the log values of all inner nodes for the rows that need them; inputs come before."""
    plan, ws, block = borrowed(plan), borrowed(ws), borrowed(block)
    left = np.empty(need.shape[1], dtype=np.uint64)
    for node in range(len(need)):
        n = start[node + 1] - start[node]
        kind = plan.node[node, KIND]
        if n == 0 or kind >= INDICATOR:
            continue
        list_rows(need[node], ws.which)
        if kind == PRODUCT:
            _product(plan, ws, block, node, n, need, left, start, value)
        else:
            _sum(plan, ws, block, node, n, need, start, maximise, value)
