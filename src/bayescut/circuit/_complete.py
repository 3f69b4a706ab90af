"""Complete rows of cutset networks: decisions, then one look-up for each family of a leaf.

The numbers are those of :mod:`bayescut.circuit._evaluate`, to the last bit. This kernel is compiled
in 1 s where the evaluator of any evidence takes 8, and needs no look at what a row leaves open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_arrays, look_up, look_up_four
from bayescut.circuit._kinds import CATEGORICAL, DECISION, JUNCTION, SUM
from bayescut.circuit._plan import EDGES, KIND, NODE_VAR, PARAM, Plan

# Rows of the scratch.
LEAVES = 0  # the leaves that rows have reached
BEFORE = 1  # row -> the row before it at the same leaf

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


def is_network(circuit: Circuit, nodes: IntArray) -> bool:
    """Say whether a complete row takes one path from each of the nodes to one leaf."""
    kinds = circuit.kind[:-1] if circuit.is_mixture else circuit.kind
    along = (kinds == DECISION) | (kinds == JUNCTION) | (kinds == CATEGORICAL)
    return bool(along.all()) and not np.any(circuit.kind[nodes] == SUM)


@kernel
def complete_rows(
    plan: Plan,
    nodes: IntArray,
    codes: CodeArray,
    limit: CodeArray,
    start: int,
    last: IntArray,
    chain: IntArray,
    out: FloatArray,
) -> bool:
    """Write the log values of nodes to ``out[:, start:start + len(codes)]`` if rows are complete.

    If some code is not below its ``limit`` nothing is written and the answer is False. ``last``
    (node -> its last row, -1 before and after) and ``chain`` (2, rows) are scratch.
    """
    records, child, log_weight, param = plan.node, plan.child, plan.log_weight, plan.param
    n = len(codes)
    for r in range(n):
        wrong = 0
        for v in range(len(limit)):
            wrong += codes[r, v] >= limit[v]
        if wrong > 0:
            return False
    for i in range(len(nodes)):
        n_leaves = 0
        for r in range(n):
            node = nodes[i]
            total = 0.0
            while records[node, KIND] == DECISION:
                e = records[node, EDGES] + np.int64(codes[r, records[node, NODE_VAR]])
                total += log_weight[e]
                node = np.int64(child[e])
            if total > -np.inf and records[node, KIND] == CATEGORICAL:
                total += param[records[node, PARAM] + codes[r, records[node, NODE_VAR]]]
            elif total > -np.inf:
                if last[node] < 0:
                    chain[LEAVES, n_leaves] = node
                    n_leaves += 1
                chain[BEFORE, r] = last[node]
                last[node] = r
            out[i, start + r] = total
        # Leaf by leaf, four rows at a time.
        for j in range(n_leaves):
            leaf = chain[LEAVES, j]
            family, parent, _, table, _ = leaf_arrays(plan, leaf)
            r = last[leaf]
            last[leaf] = -1
            while r >= 0:
                s = chain[BEFORE, r]
                t = chain[BEFORE, s] if s >= 0 else -1
                u = chain[BEFORE, t] if t >= 0 else -1
                if u < 0:
                    out[i, start + r] += look_up(family, parent, table, codes[r])
                    r = s
                    continue
                a, b, c, d = look_up_four(
                    family, parent, table, codes[r], codes[s], codes[t], codes[u]
                )
                out[i, start + r] += a
                out[i, start + s] += b
                out[i, start + t] += c
                out[i, start + u] += d
                r = chain[BEFORE, u]
    return True
