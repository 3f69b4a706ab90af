"""What the kernels want to know about a circuit, worked out once per circuit and never stored.

A family's *cells* are the entries of its table; a cell's *base* is the cell with the same parents
and state 0, so that a parent assignment is named by a cell. All cells and families inside a leaf
are counted from the leaf's start.

Leaves of one structure below one sum are a *stack*: cell c of the leaf in lane l of a stack of C
leaves is entry ``c * C + l`` of the stack's table, so that a cell is looked up once for all of
them. A leaf outside any stack is a stack of one.

The records of families and parents are rows of unsigned 32-bit numbers: one cache line holds two
families, and unsigned indices need no check for wrap-around (2.4 against 1.2 ns per look-up).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import kernel
from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import DECISION, INDICATOR, JUNCTION, SUM

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

# Columns of node.
KIND = 0
NODE_VAR = 1
NODE_STATE = 2
EDGES = 3  # its edges: from here ...
EDGES_END = 4  # ... to here
PARAM = 5  # its first parameter ...
PARAM_END = 6  # ... and the end of its parameters
FIRST = 7  # its families: from here ...
LAST = 8  # ... to here
CELLS = 9  # its first cell in Circuit.fam_table
N_CELLS = 10
TABLE = 11  # where the table of its stack begins in Plan.table
LANE = 12  # its place in the stack
STACK = 13  # number of its stack in Plan.stack_ptr, -1: it stands alone
N_LANES = 14  # leaves in the stack, 1 if it stands alone
PARENT_ROWS = 15  # where its part of Plan.parent begins
UP_START = 16  # where its part of Plan.up begins
FEW = 17  # a row with more unknown variables is evaluated in lanes of rows (`inputs._rows`)
VIEWED = 18  # whether one of its variables is seen through a view
NODE_VIEW = 19  # where its view begins in Plan.view_local, -1: it sees all states
NODE_TEST = 20  # the routing test of an indicator
SWITCH = 21  # where the edges of a decision begin in Plan.switch, one for each state
TREE = 22  # whether it is a tree of binary variables, each hosted by its parent
N_NODE = 23

# Columns of family.
START = 0  # first cell of its table
VAR = 1
STATES = 2  # number of states of the variable, as the family sees them
PARENTS = 3  # its rows of Plan.parent: from here ...
PARENTS_END = 4  # ... to here
HOST = 5  # meaningless without parents
UP = 6  # its part of Plan.up: one entry per cell of the host
VIEW = 7  # where the view of its variable begins in Plan.view_local, NONE: all states

# Columns of sends: a family's messages have one entry, a *slot*, for each base.
SLOT = 0  # its first slot
BASES = 1  # assignments of its parents
OWN = 2  # whether its only parent is its host's own variable
MARGIN = 3  # where the posterior of its variable lies, one entry per state
CLIQUE = 4  # where that of its cells lies, if a family hosted here wants it

# Columns of parent.
PARENT_VAR = 0
STRIDE = 1  # of the parent in the cells of the family
PARENT_STATES = 2
PARENT_VIEW = 3

# Columns of variable.
VAR_STATES = 0
VAR_OFFSET = 1

# Columns of test.
TEST_VAR = 0
TEST_MEMBER = 1  # where its part of Plan.member begins: one entry per state, one for "missing"

NONE = 0xFFFFFFFF

# Nanoseconds, measured: many rows in lanes visit all cells of a leaf, one row at a time those that
# agree with it, for all leaves of a stack at once.
LANE_CELL, LANE_FAMILY = 0.14, 1.9
STACK_CELL, STACK_FAMILY, STACK_LANE = 8.0, 6.0, 1.2
MAX_SLOTS = 1 << 15  # 32 MB of messages; larger leaves are never evaluated in lanes of rows
# Fewer leaves of one structure are faster as leaves that stand alone, many rows in lanes.
MIN_STACK = 8
# Larger ones are divided, so that the tables of a stack stay in the second-level cache while all
# rows pass over them: 4,096 trees of 100 columns, complete rows, 460 µs a row as one stack, 250 so.
STACK_CELLS = 1 << 17


class Nodes(NamedTuple):
    """What the passes over inner nodes read.

    The arrays of a plan are packed into few and handed over in groups, because each one costs time
    in every call between kernels, and more when they are compiled.
    """

    node: IntArray  # (n, N_NODE)
    child: IntArray
    log_weight: FloatArray
    switch: IntArray  # the edge that a state of a decision's variable takes, -1: none
    edge: IntArray  # (E, 2): routing test of a decision's edge, its state if it has one; else -1
    variable: IntArray  # (m, 2)
    test: IntArray  # (T, 2)
    member: IntArray  # uint8: whether a state, or "missing", passes a test


class Inputs(NamedTuple):
    """What inputs of one variable read."""

    node: IntArray
    param: FloatArray
    variable: IntArray
    view_local: IntArray  # state -> state as a view sees it, -1: impossible
    view_share: FloatArray  # log-probability of a state among those that look the same


class Leaves(NamedTuple):
    """What junction leaves read."""

    node: IntArray
    variable: IntArray
    family: IntArray  # (F, 8)
    parent: IntArray  # (number of parents, 4)
    sends: IntArray  # (F, 5)
    up: IntArray  # cell of the host -> slot of this family
    table: FloatArray
    stack_linear: FloatArray  # exp(table)
    linear: FloatArray  # the same numbers leaf by leaf, as Circuit.fam_table
    view_local: IntArray
    view_share: FloatArray
    view_linear: FloatArray  # exp(view_share)
    stack_ptr: IntArray
    stack_node: IntArray  # the leaves of each stack


class Plan(NamedTuple):
    """The arrays of a circuit with their index maps, in the form the kernels take them."""

    nodes: Nodes
    inputs: Inputs
    leaves: Leaves


# Columns of edge.
EDGE_TEST = 0
EDGE_STATE = 1


class Sizes(NamedTuple):
    """How large a workspace must be."""

    n_nodes: int
    families: int
    cells: int  # times lanes
    bases: int
    states: int
    lanes: int
    slots: int  # of leaves evaluated in lanes of rows
    margins: int  # likewise


def make_plan(circuit: Circuit) -> Plan:
    """Work out the index maps of a circuit."""
    domains = circuit.domains
    node, family, sends, parent, up = _layout(
        circuit.fam_ptr,
        circuit.fam_var,
        circuit.fam_view,
        circuit.fam_host,
        circuit.fam_parent_ptr,
        circuit.fam_parent,
        circuit.fam_parent_view,
        circuit.fam_table_ptr,
        circuit.fam_states,
        circuit.fam_parent_states,
        domains.n_states,
        circuit.view_ptr,
        circuit.view_local,
    )
    node[:, KIND] = circuit.kind
    node[:, NODE_VAR] = circuit.var
    node[:, NODE_STATE] = circuit.state
    node[:, EDGES] = circuit.child_ptr[:-1]
    node[:, EDGES_END] = circuit.child_ptr[1:]
    node[:, PARAM] = circuit.param_ptr[:-1]
    node[:, PARAM_END] = circuit.param_ptr[1:]
    node[:, TREE] = _is_tree(circuit)
    seen = np.append(circuit.view_ptr[:-1], -1)  # view -1: all states
    node[:, NODE_VIEW] = seen[circuit.view]
    stacks = _find_stacks(circuit)
    table = _stack_tables(circuit, node, stacks)
    _choose_lanes(node, family, sends, parent, MAX_SLOTS)
    edge, test, member = _tests(circuit, node)
    variable = np.column_stack([domains.n_states, domains.offsets[:-1]])
    lengths = np.array([len(stack) for stack in stacks], dtype=np.int64)
    linear = np.exp(circuit.fam_table)
    plan = Plan(
        Nodes(
            node=node,
            child=circuit.child,
            log_weight=circuit.log_weight,
            switch=_switches(circuit, node),
            edge=edge,
            variable=variable,
            test=test,
            member=member,
        ),
        Inputs(
            node=node,
            param=circuit.param,
            variable=variable,
            view_local=circuit.view_local,
            view_share=circuit.view_share,
        ),
        Leaves(
            node=node,
            variable=variable,
            family=family,
            parent=parent,
            sends=sends,
            up=up,
            table=table,
            stack_linear=np.exp(table) if stacks else linear,
            linear=linear,
            view_local=circuit.view_local,
            view_share=circuit.view_share,
            view_linear=np.exp(circuit.view_share),
            stack_ptr=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
            stack_node=np.concatenate([np.empty(0, dtype=np.int64), *stacks]).astype(np.int64),
        ),
    )
    for group in plan:
        for array in group:
            # All of them, or the kernels would be compiled anew for every mixture of the two.
            array.setflags(write=False)
    return plan


def _switches(circuit: Circuit, node: IntArray) -> IntArray:
    """Which edge each state takes at each decision; notes the places in ``node``."""
    decisions = np.flatnonzero(circuit.kind == DECISION)
    sizes = circuit.domains.n_states[circuit.var[decisions]]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    node[decisions, SWITCH] = ptr[:-1]
    switch = np.full(ptr[-1], -1, dtype=np.int64)
    lengths = np.diff(circuit.branch_ptr)
    edge = np.repeat(np.arange(len(lengths)), lengths)
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.child_ptr))
    switch[node[owner[edge], SWITCH] + circuit.branch_state] = edge
    return switch


def make_sizes(circuit: Circuit, plan: Plan) -> Sizes:
    """Return the sizes of the workspace that the circuit needs."""
    leaves = plan.leaves.node[circuit.kind == JUNCTION]
    n_families = leaves[:, LAST] - leaves[:, FIRST]
    slots, margins = count_slots(leaves, plan.leaves.family, plan.leaves.sends)
    in_lanes = leaves[:, FEW] < n_families
    table_cells = np.diff(circuit.fam_table_ptr)
    parent_cells = table_cells // np.maximum(circuit.fam_states, 1)
    return Sizes(
        n_nodes=circuit.n_nodes,
        families=int(n_families.max(initial=0)),
        cells=int((leaves[:, N_CELLS] * leaves[:, N_LANES]).max(initial=0)),
        bases=int(parent_cells.max(initial=1)),
        states=max(1, int(circuit.domains.n_states.max(initial=1))),
        lanes=int(leaves[:, N_LANES].max(initial=1)),
        slots=int(slots[in_lanes].max(initial=0)),
        margins=int(margins[in_lanes].max(initial=0)),
    )


def count_slots(leaves: IntArray, family: IntArray, sends: IntArray) -> tuple[IntArray, IntArray]:
    """How many messages, and how many posteriors, leaves have, given their records."""
    last = leaves[:, LAST] - 1
    slots = sends[last, SLOT].astype(np.int64) + sends[last, BASES]
    states = family[last, STATES].astype(np.int64)
    # Nothing is hosted by the last family of a leaf, so its margin ends them.
    return slots, sends[last, MARGIN] + states


def _is_tree(circuit: Circuit) -> NDArray[np.bool_]:
    """Say which nodes are trees of binary variables in which a variable's parent is its host."""
    n_parents = np.diff(circuit.fam_parent_ptr)
    fits = (circuit.domains.n_states[circuit.fam_var] == 2) & (n_parents <= 1)
    fits &= circuit.fam_view < 0
    child = np.flatnonzero(n_parents == 1)
    first = circuit.fam_parent_ptr[child]
    parent = circuit.fam_parent[first]
    fits[child] &= circuit.fam_var[circuit.fam_host[child]] == parent
    fits[child] &= circuit.fam_parent_view[first] < 0
    owner = np.repeat(np.arange(circuit.n_nodes), np.diff(circuit.fam_ptr))
    others = np.bincount(owner[~fits], minlength=circuit.n_nodes)
    return (circuit.kind == JUNCTION) & (others == 0)


def _find_stacks(circuit: Circuit) -> list[NDArray[Any]]:
    """List the junction leaves of one structure that are children of one sum alone."""
    uses = np.bincount(circuit.child, minlength=circuit.n_nodes)
    single = (circuit.kind == JUNCTION) & (uses == 1)
    stacks = []
    for node in np.flatnonzero(circuit.kind == SUM).tolist():
        begin, end = circuit.child_ptr[node], circuit.child_ptr[node + 1]
        children = circuit.child[begin:end]
        children = np.sort(children[single[children] & (circuit.log_weight[begin:end] > -np.inf)])
        if len(children) < MIN_STACK:
            continue
        alike: dict[bytes, list[int]] = {}
        for leaf in children.tolist():
            alike.setdefault(_structure_of(circuit, leaf), []).append(leaf)
        for group in alike.values():
            if len(group) >= MIN_STACK:
                first, last = circuit.fam_ptr[group[0]], circuit.fam_ptr[group[0] + 1]
                n_cells = int(circuit.fam_table_ptr[last] - circuit.fam_table_ptr[first])
                n_parts = max(1, min(len(group) // MIN_STACK, len(group) * n_cells // STACK_CELLS))
                stacks += np.array_split(np.array(group), n_parts)
    return stacks


def _structure_of(circuit: Circuit, leaf: int) -> bytes:
    """All that two leaves have in common if they differ in their numbers alone."""
    first, last = circuit.fam_ptr[leaf], circuit.fam_ptr[leaf + 1]
    begin, end = circuit.fam_parent_ptr[first], circuit.fam_parent_ptr[last]
    host = circuit.fam_host[first:last]
    parts = (
        circuit.fam_var[first:last],
        circuit.fam_view[first:last],
        np.where(host < 0, -1, host - first).astype(np.int32),
        np.diff(circuit.fam_parent_ptr[first : last + 1]).astype(np.int32),
        circuit.fam_parent[begin:end],
        circuit.fam_parent_view[begin:end],
    )
    return b"".join(part.tobytes() for part in parts)


def _stack_tables(circuit: Circuit, node: IntArray, stacks: list[NDArray[Any]]) -> FloatArray:
    """Place the tables of all leaves, those of a stack cell by cell; notes the places."""
    node[:, TABLE] = node[:, CELLS]
    node[:, N_LANES] = 1
    node[:, STACK] = -1
    if not stacks:
        return circuit.fam_table
    table = circuit.fam_table.copy()
    extra = []
    at = len(table)
    for k, leaves in enumerate(stacks):
        n_cells = int(node[leaves[0], N_CELLS])
        cells = node[leaves, CELLS][:, None] + np.arange(n_cells)
        extra.append(np.ascontiguousarray(circuit.fam_table[cells].T).ravel())
        node[leaves, TABLE] = at
        node[leaves, LANE] = np.arange(len(leaves))
        node[leaves, N_LANES] = len(leaves)
        node[leaves, STACK] = k
        at += n_cells * len(leaves)
    # What the stacks hold is not kept a second time.
    owner = np.repeat(np.arange(circuit.n_nodes), node[:, N_CELLS])
    kept = node[owner, STACK] < 0
    place = np.cumsum(kept) - 1
    alone = (node[:, N_CELLS] > 0) & (node[:, STACK] < 0)
    node[alone, TABLE] = place[node[alone, CELLS]]
    node[node[:, STACK] >= 0, TABLE] += int(kept.sum()) - len(table)
    joined: FloatArray = np.concatenate([table[kept], *extra])
    return joined


def _tests(circuit: Circuit, node: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Number the distinct routing tests: is the variable in one of these states?"""
    n_states = circuit.domains.n_states
    number: dict[tuple[int, bytes], int] = {}
    test: list[tuple[int, int]] = []
    members: list[NDArray[np.uint8]] = []
    size = 0

    def test_of(v: int, states: NDArray[Any]) -> int:
        nonlocal size
        key = (v, states.tobytes())
        if key not in number:
            number[key] = len(test)
            member = np.zeros(int(n_states[v]) + 1, dtype=np.uint8)
            member[states] = 1
            member[-1] = 1
            test.append((v, size))
            members.append(member)
            size += len(member)
        return number[key]

    edge = np.full((len(circuit.child), 2), -1, dtype=np.int64)
    lengths = np.diff(circuit.branch_ptr)
    single = np.flatnonzero(lengths == 1)
    edge[single, EDGE_STATE] = circuit.branch_state[circuit.branch_ptr[single]]
    for decision in np.flatnonzero(circuit.kind == DECISION).tolist():
        v = int(circuit.var[decision])
        for e in range(circuit.child_ptr[decision], circuit.child_ptr[decision + 1]):
            states = circuit.branch_state[circuit.branch_ptr[e] : circuit.branch_ptr[e + 1]]
            edge[e, EDGE_TEST] = test_of(v, states)
    node[:, NODE_TEST] = -1
    for indicator in np.flatnonzero(circuit.kind == INDICATOR).tolist():
        state = circuit.state[indicator : indicator + 1]
        node[indicator, NODE_TEST] = test_of(int(circuit.var[indicator]), state)
    tests = np.array(test, dtype=np.int64).reshape(-1, 2)
    return edge, tests, np.concatenate([np.empty(0, dtype=np.uint8), *members])


@kernel
def _choose_lanes(
    node: IntArray, family: IntArray, sends: IntArray, parent: IntArray, max_slots: int
) -> None:
    """Note how many unknown variables make lanes of rows the faster way through each leaf."""
    for leaf in range(len(node)):
        first, last = node[leaf, FIRST], node[leaf, LAST]
        n = last - first
        if n == 0:
            continue
        slots = np.int64(sends[last - 1, SLOT]) + np.int64(sends[last - 1, BASES])
        margins = np.int64(sends[last - 1, MARGIN]) + np.int64(family[last - 1, STATES])
        if max(slots, margins) > max_slots:
            node[leaf, FEW] = np.iinfo(np.int64).max
            continue
        lanes = node[leaf, N_LANES]
        limit = LANE_CELL * node[leaf, N_CELLS] + LANE_FAMILY * n
        low, high = -1, n
        while high - low > 1:
            middle = (low + high) // 2
            share = middle / n  # of the variables is unknown
            cost = n * (STACK_FAMILY / lanes + STACK_LANE)
            for f in range(first, last):
                cells = 1.0 + share * (family[f, STATES] - 1.0)
                known = 1.0 - share
                for j in range(family[f, PARENTS], family[f, PARENTS_END]):
                    own = parent[node[leaf, PARENT_ROWS] + j, PARENT_STATES]
                    cells *= 1.0 + share * (own - 1.0)
                    known *= 1.0 - share
                cost += (cells - known) * (STACK_CELL / lanes + STACK_LANE)
            if cost < limit:
                low = middle
            else:
                high = middle
        # Complete rows are look-ups, in stacks for all leaves at once.
        node[leaf, FEW] = max(low, 0 if lanes > 1 else -1)


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
    fam_view: IntArray,
    fam_host: IntArray,
    parent_ptr: IntArray,
    parents: IntArray,
    parent_view: IntArray,
    table_ptr: IntArray,
    fam_states: IntArray,
    parent_states: IntArray,
    n_states: IntArray,
    view_ptr: IntArray,
    view_local: IntArray,
) -> Any:
    n_nodes, n_families = len(fam_ptr) - 1, len(fam_var)
    up_ptr = np.zeros(n_families + 1, dtype=np.int64)
    for f in range(n_families):
        h = fam_host[f]
        up_ptr[f + 1] = up_ptr[f] + (table_ptr[h + 1] - table_ptr[h] if h >= 0 else 0)
    records = np.zeros((n_nodes, N_NODE), dtype=np.int64)
    family = np.empty((n_families, 8), dtype=np.uint32)
    parent = np.zeros((len(parents), 4), dtype=np.uint32)
    up = np.empty(up_ptr[n_families], dtype=np.uint32)
    sends = np.zeros((n_families, 5), dtype=np.uint32)
    for f in range(n_families):
        h, begin = fam_host[f], parent_ptr[f]
        sends[f, BASES] = (table_ptr[f + 1] - table_ptr[f]) // fam_states[f]
        if parent_ptr[f + 1] == begin + 1 and parents[begin] == fam_var[h]:
            sends[f, OWN] = 1
        elif h >= 0:
            sends[h, CLIQUE] = 1  # becomes its place
    for node in range(n_nodes):
        first, last = fam_ptr[node], fam_ptr[node + 1]
        if first == last:
            continue
        records[node, FIRST], records[node, LAST] = first, last
        records[node, CELLS] = table_ptr[first]
        records[node, N_CELLS] = table_ptr[last] - table_ptr[first]
        records[node, PARENT_ROWS] = parent_ptr[first]
        records[node, UP_START] = up_ptr[first]
        slot, posterior = np.int64(0), np.int64(0)
        for f in range(first, last):
            begin, end = parent_ptr[f], parent_ptr[f + 1]
            sends[f, SLOT] = slot
            slot += np.int64(sends[f, BASES])
            if sends[f, CLIQUE]:
                sends[f, CLIQUE] = posterior
                posterior += table_ptr[f + 1] - table_ptr[f]
            sends[f, MARGIN] = posterior
            posterior += fam_states[f]
            family[f, START] = table_ptr[f] - table_ptr[first]
            family[f, VAR] = fam_var[f]
            family[f, STATES] = fam_states[f]
            family[f, PARENTS] = begin - parent_ptr[first]
            family[f, PARENTS_END] = end - parent_ptr[first]
            family[f, HOST] = max(fam_host[f] - first, 0)
            family[f, UP] = up_ptr[f] - up_ptr[first]
            family[f, VIEW] = NONE
            if fam_view[f] >= 0:
                family[f, VIEW] = view_ptr[fam_view[f]]
                records[node, VIEWED] = 1
            step = fam_states[f]
            for i in range(end - 1, begin - 1, -1):
                parent[i, PARENT_VAR] = parents[i]
                parent[i, STRIDE] = step
                parent[i, PARENT_STATES] = parent_states[i]
                parent[i, PARENT_VIEW] = NONE
                if parent_view[i] >= 0:
                    parent[i, PARENT_VIEW] = view_ptr[parent_view[i]]
                    records[node, VIEWED] = 1
                step *= parent_states[i]
            h = fam_host[f]
            if h < 0:
                continue
            # The slot in f of every cell of the host, one variable of the host after the other.
            bases = up[up_ptr[f] : up_ptr[f + 1]]
            bases[:] = sends[f, SLOT]
            repeat = 1
            for j in range(parent_ptr[h + 1], parent_ptr[h] - 1, -1):
                # j = parent_ptr[h + 1] stands for the host's own variable, the fastest.
                own = j == parent_ptr[h + 1]
                u = fam_var[h] if own else parents[j]
                seen = fam_view[h] if own else parent_view[j]
                k = fam_states[h] if own else parent_states[j]
                for i in range(begin, end):
                    if parents[i] != u:
                        continue
                    placed = np.zeros(k, dtype=np.bool_)  # several states may look the same
                    for s in range(n_states[u]):
                        here = s if seen < 0 else view_local[view_ptr[seen] + s]
                        if here < 0 or placed[here]:
                            continue
                        placed[here] = True
                        there = s
                        if parent_view[i] >= 0:
                            there = view_local[view_ptr[parent_view[i]] + s]
                        for block in range(here * repeat, len(bases), k * repeat):
                            for c in range(block, block + repeat):
                                bases[c] += there * (parent[i, STRIDE] // family[f, STATES])
                repeat *= k
    return records, family, sends, parent, up
