"""What the kernels want to know about a circuit, worked out once per circuit and never stored.

A family's *cells* are the entries of its table; a cell's *base* is the cell with the same parents
and state 0, so a parent assignment is named by a cell and no division is ever needed. All cells
and families inside a leaf are counted from the leaf's start.

The records of families and parents are rows of unsigned 32-bit numbers: one cache line holds two
families, and unsigned indices need no check for wrap-around (2.4 against 1.2 ns per look-up).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import JUNCTION

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

# Columns of Plan.node.
KIND = 0
NODE_VAR = 1
NODE_STATE = 2
EDGES = 3  # its edges: from here ...
EDGES_END = 4  # ... to here
PARAM = 5  # its first parameter
FIRST = 6  # its families: from here ...
LAST = 7  # ... to here
TABLE = 8  # the cells of its families: from here ...
TABLE_END = 9  # ... to here
PARENT_ROWS = 10  # where its part of Plan.parent begins
UP_START = 11  # where its part of Plan.up begins
DENSE = 12  # whether its rows may be evaluated in lanes
TREE = 13  # whether it is a tree of binary variables, each hosted by its parent

# Columns of Plan.family.
START = 0  # first cell of its table
VAR = 1
STATES = 2  # number of states of the variable
PARENTS = 3  # its rows of Plan.parent: from here ...
PARENTS_END = 4  # ... to here
HOST = 5  # meaningless without parents
UP = 6  # its part of Plan.up: one entry per cell of the host
OFFSET = 7  # of the variable in arrays over all states

# Columns of Plan.parent.
PARENT_VAR = 0
STRIDE = 1  # of the parent in the cells of the family
PARENT_STATES = 2

# Columns of Plan.variable.
VAR_STATES = 0
VAR_OFFSET = 1

# Columns of Workspace.node, .value, .stack, .chain and rows of .cell, .base.
STAMP = 0  # node -> the pass that wrote its value
ORDER = 1  # the nodes of this pass, children before parents
LAST_PAIR = 2  # leaf -> its last pair
VALUE = 0  # node -> log value of the present row
FLOW = 1  # node -> posterior probability of being reached
NODE = 0
EDGE = 1
HEAD = 0  # family -> the last family that sent it a message
LINK = 1  # family -> the one that sent before it
MESSAGE = 0  # at the bases of each family
JOINT = 1  # cell -> posterior probability
ABOVE = 2  # base -> posterior probability

# Entries of Workspace.clock. Settings travel here rather than as arguments, because a constant
# argument makes the compiler build one more variant of the kernel that it is handed to.
PASS = 0  # number of the present pass
REACHED = 1  # nodes it has computed
MAXIMISE = 2  # whether sums are maxima
IN_LOGS = 3  # whether the messages of the last leaf are logs
MODE = 4  # what to do at a junction leaf:
COMPUTE = 0  # compute its value
COLLECT = 1  # note the leaf in Workspace.pair
REPLAY = 2  # take the value from Workspace.leaf_value
CURSOR = 5  # the next pair
N_PAIRS = 6  # number of pairs
ROOM = 7  # collect rows until there are more pairs than this
FIRST_ROW = 8  # the rows to treat: from here ...
LAST_ROW = 9  # ... to here
OUT = 10  # the column of the output that belongs to row 0

# Columns of Workspace.pair: a row that needs the value of a leaf.
LEAF = 0
ROW = 1
TARGET = 2  # the output to which the value is added, -1: it is replayed
NEXT = 3  # another pair of the same leaf, -1: none

# Columns of Workspace.row.
FIRST_PAIR = 0
AGAIN = 1  # whether the row has to be replayed

NONE = 0xFFFFFFFF  # the end of a chain of families


class Plan(NamedTuple):
    """The arrays of a circuit with their index maps, in the form the kernels take them.

    They are packed into few arrays because each one costs time in every call between kernels, and
    more when they are compiled.
    """

    node: IntArray  # (n, 14)
    child: IntArray
    log_weight: FloatArray
    param: FloatArray
    family: IntArray  # (F, 8)
    parent: IntArray  # (number of parents, 4)
    up: IntArray  # cell of the host -> base of this family
    table: FloatArray
    linear: FloatArray  # exp(table)
    variable: IntArray  # (m, 2)


class Sizes(NamedTuple):
    """How large a workspace must be."""

    n_nodes: int
    depth: int
    families: int
    cells: int
    bases: int
    states: int
    leaves: int
    dense_cells: int
    family_cells: int
    all_states: int


class Workspace(NamedTuple):
    """Scratch memory of one thread: O(nodes + largest leaf)."""

    clock: IntArray  # (11,)
    node: IntArray  # (n, 3)
    value: FloatArray  # (n, 2)
    stack: IntArray  # (depth, 2)
    chain: IntArray  # (families, 2)
    cell: FloatArray  # (3, cells)
    base: IntArray  # (2, bases)
    weight: FloatArray  # one number per state
    pair: IntArray  # (number of pairs, 4)
    leaf_value: FloatArray  # pair -> log value of its leaf
    row: IntArray  # (BLOCK, 2)


class Lanes(NamedTuple):
    """Scratch memory to evaluate one leaf for LANES rows at once, each in its own lane."""

    message: FloatArray  # (cells, LANES)
    number: FloatArray  # (3, LANES), see below
    possible: FloatArray  # (states, LANES): 1 if the evidence leaves the state, else 0
    state: IntArray  # (LANES,) the variable's entry in each row
    joint: FloatArray  # (cells, LANES)
    sums: FloatArray  # (cells of a family, LANES): posterior of the parents, at the bases
    chain: IntArray  # (families, 2)
    flow: FloatArray  # pair -> posterior probability that its row reaches its leaf
    pairs: IntArray  # (2, number of pairs): pairs of the leaf, their rows
    posterior: FloatArray  # (states of all variables, BLOCK + 8): marginals of a block's rows


# Rows of Lanes.number.
TERM = 0
PRODUCT_SO_FAR = 1
LOGS = 2

# Measured on a leaf of 784 variables, half of them missing, ns per row and variable: 8 lanes 6.5,
# 16 5.7, 32 3.4, 64 3.0, 128 5.6; one row at a time 20.
LANES = 64
# Rows whose leaves are evaluated together: 256 rows of 784 columns (0.4 MB) stay in the
# second-level cache while the components of a mixture pass over them one by one.
BLOCK = 256
# One row at a time visits only the cells that agree with the evidence; with more cells than this
# per family that is faster (binary, half missing, width 5: 75 ns against 56 in lanes).
DENSE_CELLS = 64
MAX_DENSE_CELLS = 1 << 17  # 64 MB of messages
MIN_PAIRS = 8192


def is_dense(n_cells: IntArray, n_families: IntArray) -> IntArray:
    """Say which leaves, given their sizes, are evaluated in lanes."""
    return (n_cells <= DENSE_CELLS * n_families) & (n_cells <= MAX_DENSE_CELLS)


def is_tree(circuit: Circuit) -> NDArray[np.bool_]:
    """Say which nodes are trees of binary variables in which a variable's parent is its host."""
    n_parents = np.diff(circuit.fam_parent_ptr)
    fits = (circuit.domains.n_states[circuit.fam_var] == 2) & (n_parents <= 1)
    child = np.flatnonzero(n_parents == 1)
    parent = circuit.fam_parent[circuit.fam_parent_ptr[child]]
    fits[child] &= circuit.fam_var[circuit.fam_host[child]] == parent
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
    others = np.bincount(owner[~fits], minlength=circuit.n_nodes)
    return (circuit.kind == JUNCTION) & (others == 0)


def make_plan(circuit: Circuit) -> Plan:
    """Work out the index maps of a circuit."""
    domains = circuit.domains
    node, family, parent, up = _layout(
        circuit.fam_ptr,
        circuit.fam_var,
        circuit.fam_host,
        circuit.fam_parent_ptr,
        circuit.fam_parent,
        circuit.fam_table_ptr,
        domains.n_states,
        domains.offsets,
    )
    node[:, KIND] = circuit.kind
    node[:, NODE_VAR] = circuit.var
    node[:, NODE_STATE] = circuit.state
    node[:, EDGES] = circuit.child_ptr[:-1]
    node[:, EDGES_END] = circuit.child_ptr[1:]
    node[:, PARAM] = circuit.param_ptr[:-1]
    n_cells = node[:, TABLE_END] - node[:, TABLE]
    node[:, DENSE] = is_dense(n_cells, node[:, LAST] - node[:, FIRST])
    node[:, TREE] = is_tree(circuit)
    return Plan(
        node=node,
        child=circuit.child,
        log_weight=circuit.log_weight,
        param=circuit.param,
        family=family,
        parent=parent,
        up=up,
        table=circuit.fam_table,
        linear=np.exp(circuit.fam_table),
        variable=np.column_stack([domains.n_states, domains.offsets[:-1]]),
    )


def sizes(circuit: Circuit) -> Sizes:
    """Return the sizes of the workspace that the circuit needs."""
    leaves = np.flatnonzero(circuit.kind == JUNCTION)
    first, last = circuit.fam_ptr[leaves], circuit.fam_ptr[leaves + 1]
    cells = circuit.fam_table_ptr[last] - circuit.fam_table_ptr[first]
    parent_cells = np.diff(circuit.fam_table_ptr) // circuit.domains.n_states[circuit.fam_var]
    dense = is_dense(cells, last - first)
    return Sizes(
        n_nodes=circuit.n_nodes,
        depth=circuit.depth + 1,
        families=int((last - first).max(initial=0)),
        cells=int(cells.max(initial=0)),
        bases=int(parent_cells.max(initial=1)),
        states=max(1, int(circuit.domains.n_states.max(initial=1))),
        leaves=len(leaves),
        dense_cells=int(cells[dense].max(initial=0)),
        family_cells=int(np.diff(circuit.fam_table_ptr).max(initial=0)),
        all_states=int(circuit.domains.n_states.sum()),
    )


def make_workspace(size: Sizes, n_pairs: int = 0) -> Workspace:
    """Allocate scratch memory for one thread; only blocks of rows want pairs."""
    return Workspace(
        clock=np.zeros(11, dtype=np.int64),
        node=np.zeros((size.n_nodes, 3), dtype=np.int64),
        value=np.empty((size.n_nodes, 2)),
        stack=np.empty((size.depth, 2), dtype=np.int64),
        chain=np.empty((size.families, 2), dtype=np.uint32),
        cell=np.empty((3, size.cells)),
        base=np.empty((2, size.bases), dtype=np.uint32),
        weight=np.empty(size.states),
        pair=np.empty((n_pairs, 4), dtype=np.int64),
        leaf_value=np.empty(n_pairs),
        row=np.empty((BLOCK, 2), dtype=np.int64),
    )


def make_lanes(size: Sizes, n_pairs: int, with_joint: bool = False) -> Lanes:
    """Allocate the lanes of one thread; only posteriors want the joint of a leaf."""
    return Lanes(
        message=np.empty((size.dense_cells, LANES)),
        number=np.empty((3, LANES)),
        possible=np.empty((size.states, LANES)),
        state=np.empty(LANES, dtype=np.uint16),
        joint=np.empty((size.dense_cells if with_joint else 0, LANES)),
        sums=np.empty((min(size.family_cells, size.dense_cells) if with_joint else 0, LANES)),
        chain=np.empty((size.families, 2), dtype=np.uint32),
        flow=np.empty(n_pairs if with_joint else 0),
        pairs=np.empty((2, n_pairs), dtype=np.int64),
        # Not a power of two: lines of the cache that lie 2048 bytes apart would evict each other.
        posterior=np.zeros((size.all_states if with_joint else 0, BLOCK + 8)),
    )


@kernel
def depth_of(child_ptr: IntArray, child: IntArray) -> int:
    """Return the number of edges on the longest path from the root."""
    n = len(child_ptr) - 1
    height = np.zeros(n, dtype=np.int64)
    for node in range(n):
        for e in range(child_ptr[node], child_ptr[node + 1]):
            height[node] = max(height[node], height[child[e]] + 1)
    return height[n - 1]


@kernel
def _layout(
    fam_ptr: IntArray,
    fam_var: IntArray,
    fam_host: IntArray,
    parent_ptr: IntArray,
    parents: IntArray,
    table_ptr: IntArray,
    n_states: IntArray,
    offsets: IntArray,
) -> Any:
    n_nodes, n_families = len(fam_ptr) - 1, len(fam_var)
    up_ptr = np.zeros(n_families + 1, dtype=np.int64)
    for f in range(n_families):
        h = fam_host[f]
        up_ptr[f + 1] = up_ptr[f] + (table_ptr[h + 1] - table_ptr[h] if h >= 0 else 0)
    records = np.zeros((n_nodes, 14), dtype=np.int64)
    family = np.empty((n_families, 8), dtype=np.uint32)
    parent = np.zeros((len(parents), 4), dtype=np.uint32)
    up = np.empty(up_ptr[n_families], dtype=np.uint32)
    of_variable = np.zeros(len(n_states), dtype=np.int64)
    for node in range(n_nodes):
        first, last = fam_ptr[node], fam_ptr[node + 1]
        if first == last:
            continue
        records[node, FIRST], records[node, LAST] = first, last
        records[node, TABLE], records[node, TABLE_END] = table_ptr[first], table_ptr[last]
        records[node, PARENT_ROWS] = parent_ptr[first]
        records[node, UP_START] = up_ptr[first]
        for f in range(first, last):
            v = fam_var[f]
            begin, end = parent_ptr[f], parent_ptr[f + 1]
            family[f, START] = table_ptr[f] - table_ptr[first]
            family[f, VAR] = v
            family[f, STATES] = n_states[v]
            family[f, PARENTS] = begin - parent_ptr[first]
            family[f, PARENTS_END] = end - parent_ptr[first]
            family[f, HOST] = max(fam_host[f] - first, 0)
            family[f, UP] = up_ptr[f] - up_ptr[first]
            family[f, OFFSET] = offsets[v]
            step = n_states[v]
            for i in range(end - 1, begin - 1, -1):
                parent[i, PARENT_VAR] = parents[i]
                parent[i, STRIDE] = step
                parent[i, PARENT_STATES] = n_states[parents[i]]
                step *= n_states[parents[i]]
            h = fam_host[f]
            if h < 0:
                continue
            # Stride in f of each variable of the host's family, 0 for those that f ignores.
            of_variable[fam_var[h]] = 0
            for j in range(parent_ptr[h], parent_ptr[h + 1]):
                of_variable[parents[j]] = 0
            for i in range(begin, end):
                of_variable[parents[i]] = parent[i, STRIDE]
            for cell in range(table_ptr[h + 1] - table_ptr[h]):
                k = n_states[fam_var[h]]
                base = table_ptr[f] - table_ptr[first] + cell % k * of_variable[fam_var[h]]
                rest = cell // k
                for j in range(parent_ptr[h + 1] - 1, parent_ptr[h] - 1, -1):
                    k = n_states[parents[j]]
                    base += rest % k * of_variable[parents[j]]
                    rest //= k
                up[up_ptr[f] + cell] = base
    return records, family, parent, up
