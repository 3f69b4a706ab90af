"""Complete rows of cutset networks and their mixtures: decisions, then one look-up per family.

The numbers are those of :mod:`bayescut.circuit._evaluate`, to the last bit. This kernel needs no
look at what a row leaves open, and less time to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayescut._kernels import borrowed, inner, kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._evaluate import log_sum_end
from bayescut.circuit._exp import exp
from bayescut.circuit._kinds import CATEGORICAL, DECISION, JUNCTION, SUM
from bayescut.circuit._plan import (
    KIND,
    NODE_VAR,
    NODE_VIEW,
    PARAM,
    PARENT_VAR,
    PARENTS,
    PARENTS_END,
    STACK,
    START,
    SWITCH,
    TABLE,
    TREE,
    VAR,
    VIEWED,
    Inputs,
    Leaves,
    Nodes,
)
from bayescut.circuit.inputs._families import leaf_arrays, look_up, look_up_four, look_up_seen
from bayescut.circuit.inputs._stack import stack_look_up

# Rows of `chain`.
LEAVES = 0  # the leaves that rows have reached
BEFORE = 1  # row -> the row before it at the same leaf
PICKED = 2  # at most ROWS rows of one leaf
DEPTH = 3  # row -> number of decisions on its way

# Rows of a binary tree that are looked up together, each in a lane of its own: 0.6 ns per cell
# against 1.1 for four rows at a time. Fewer than FEW_ROWS are not worth the empty lanes.
ROWS = 64
FEW_ROWS = 24

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


def is_network(circuit: Circuit) -> bool:
    """Say whether a complete row takes one path to one leaf, below each child of a sum at the root
    if there is one."""
    kinds = circuit.kind[:-1] if circuit.kind[-1] == SUM else circuit.kind
    along = (kinds == DECISION) | (kinds == JUNCTION) | (kinds == CATEGORICAL)
    return bool(along.all())


@inner
def _pick(chain: IntArray, last: int) -> int:
    """Pick at most ROWS rows of a leaf, from its last one (-1: none) on; return how many."""
    n = 0
    r = last
    while r >= 0 and n < ROWS:
        chain[PICKED, n] = r
        n += 1
        r = chain[BEFORE, r]
    return n


@inner
def _pick_columns(codes: CodeArray, chain: IntArray, n: int, columns: CodeArray) -> None:
    """Write the picked rows as columns."""
    for v in range(codes.shape[1]):
        for k in range(n):
            columns[v, k] = codes[np.uint64(chain[PICKED, k]), v]


@inner
def _tree_rows(
    family: IntArray, parent: IntArray, table: FloatArray, columns: CodeArray, sums: FloatArray
) -> None:
    """Log-probabilities of ROWS complete rows under a tree of binary variables."""
    for r in range(ROWS):
        sums[r] = 0.0
    for f in range(len(family)):
        start, v = family[f, START], family[f, VAR]
        u = v
        a, b = table[start], table[start + 1]
        c, d = a, b
        if family[f, PARENTS] < family[f, PARENTS_END]:
            u = parent[family[f, PARENTS], PARENT_VAR]
            c, d = table[start + 2], table[start + 3]
        for r in range(ROWS):
            off = b if columns[v, r] != 0 else a
            on = d if columns[v, r] != 0 else c
            sums[r] += on if columns[u, r] != 0 else off


@inner
def _leaf_rows(
    plan: Leaves,
    leaf: int,
    last: int,
    codes: CodeArray,
    chain: IntArray,
    columns: CodeArray,
    sums: FloatArray,
    out: FloatArray,
) -> None:
    """Write the values of a leaf for its rows, four at a time, or ROWS if it is a binary tree."""
    family, parent, _ = leaf_arrays(plan, leaf)
    table = plan.table[plan.node[leaf, TABLE] :]
    r = last
    while r >= 0 and plan.node[leaf, VIEWED]:
        out[r] = look_up_seen(plan, family, parent, table, codes[r])
        r = chain[BEFORE, r]
    while plan.node[leaf, TREE]:
        picked = _pick(chain, r)
        if picked < FEW_ROWS:
            break
        _pick_columns(codes, chain, picked, columns)
        _tree_rows(family, parent, table, columns, sums)
        for k in range(picked):
            out[chain[PICKED, k]] = sums[k]
        r = chain[BEFORE, chain[PICKED, picked - 1]]
    while r >= 0:
        s = chain[BEFORE, r]
        t = chain[BEFORE, s] if s >= 0 else -1
        u = chain[BEFORE, t] if t >= 0 else -1
        if u < 0:
            out[r] = look_up(family, parent, table, codes[r])
            r = s
            continue
        out[r], out[s], out[t], out[u] = look_up_four(
            family, parent, table, codes[r], codes[s], codes[t], codes[u]
        )
        r = chain[BEFORE, u]


@inner
def _input_row(plan: Inputs, node: int, row: CodeArray) -> float:
    """Log value of a categorical input for a complete row."""
    state = np.int64(row[plan.node[node, NODE_VAR]])
    view = plan.node[node, NODE_VIEW]
    if view < 0:
        return plan.param[plan.node[node, PARAM] + state]
    local = plan.view_local[view + state]
    if local < 0:
        return -np.inf
    return plan.param[plan.node[node, PARAM] + local] + plan.view_share[view + state]


@kernel
def complete_rows(
    plan: Nodes,
    inputs: Inputs,
    leaves: Leaves,
    nodes: IntArray,
    codes: CodeArray,
    limit: CodeArray,
    last: IntArray,
    chain: IntArray,
    path: IntArray,
    columns: CodeArray,
    sums: FloatArray,
    out: FloatArray,
) -> bool:
    """Write the log values of nodes to ``out`` (node, row) if all rows are complete.

    If some code is not below its ``limit`` nothing is written and the answer is False. ``last``
    (node -> its last row, -1 before and after), ``chain`` (4, rows), ``path`` (rows, depth),
    ``columns`` (variables, ROWS) and ``sums`` (ROWS or lanes) are scratch.
    """
    plan, inputs, leaves = borrowed(plan), borrowed(inputs), borrowed(leaves)
    records, child, log_weight = plan.node, plan.child, plan.log_weight
    n = len(codes)
    for r in range(n):
        wrong = 0
        for v in range(len(limit)):
            wrong += codes[r, v] >= limit[v]
        if wrong > 0:
            return False
    for i in range(len(nodes)):
        if records[nodes[i], STACK] >= 0:
            continue
        n_leaves = 0
        found = out[i]
        for r in range(n):
            node = nodes[i]
            depth = 0
            while records[node, KIND] == DECISION:
                v = records[node, NODE_VAR]
                e = plan.switch[records[node, SWITCH] + np.int64(codes[r, v])]
                if e < 0:
                    break
                path[r, depth] = e
                depth += 1
                node = np.int64(child[e])
            chain[DEPTH, r] = depth
            found[r] = -np.inf
            if records[node, KIND] == CATEGORICAL:
                found[r] = _input_row(inputs, node, codes[r])
            elif records[node, KIND] == JUNCTION:
                if last[node] < 0:
                    chain[LEAVES, n_leaves] = node
                    n_leaves += 1
                chain[BEFORE, r] = last[node]
                last[node] = r
        for j in range(n_leaves):
            leaf = chain[LEAVES, j]
            _leaf_rows(leaves, leaf, last[leaf], codes, chain, columns, sums, found)
            last[leaf] = -1
        # From the leaf up, as the evaluator adds them.
        for r in range(n):
            for d in range(chain[DEPTH, r] - 1, -1, -1):
                found[r] = log_weight[path[r, d]] + found[r]
    return True


@kernel
def complete_stacks(
    plan: Leaves, position: IntArray, codes: CodeArray, lane: FloatArray, out: FloatArray
) -> None:
    """Write the log values of all leaves in stacks for complete rows to ``out[position[leaf]]``."""
    plan = borrowed(plan)
    for k in range(len(plan.stack_ptr) - 1):
        leaves = plan.stack_node[plan.stack_ptr[k] : plan.stack_ptr[k + 1]]
        n = len(leaves)
        for r in range(len(codes)):
            stack_look_up(plan, codes[r], leaves[0], 0, n, lane)
            for j in range(n):
                out[position[leaves[j]], r] = lane[j]


@kernel
def sum_rows(log_weight: FloatArray, terms: FloatArray, maximise: bool, out: FloatArray) -> None:
    """Write the values of a sum whose children have the values ``terms`` (child, row)."""
    n = len(out)
    top, total = np.full(n, -np.inf), np.zeros(n)
    for k in range(len(terms)):
        if log_weight[k] > -np.inf:
            for r in range(n):
                top[r] = max(top[r], log_weight[k] + terms[k, r])
    if not maximise:
        for k in range(len(terms)):
            if log_weight[k] > -np.inf:
                for r in range(n):
                    total[r] += exp(log_weight[k] + terms[k, r] - top[r])
    log_sum_end(top, total, n, maximise, out)
