"""The passes over a circuit, block by block: route and evaluate, then spread or choose.

All queries go through the four functions of `Passes`. A block is as many rows as keep its evidence
and its values in the caches; what a row gets does not depend on it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._jobs import count_jobs
from bayescut._kernels import kernel
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._choose import choose
from bayescut.circuit._evaluate import evaluate
from bayescut.circuit._kinds import SUM
from bayescut.circuit._lookup import ROWS, complete_rows, complete_stacks, is_network, sum_rows
from bayescut.circuit._plan import STACK, make_plan, make_sizes
from bayescut.circuit._route import list_rows, route
from bayescut.circuit._spread import spread
from bayescut.circuit._threads import in_chunks
from bayescut.circuit.evidence import Block, Rows, read_block
from bayescut.circuit.inputs import INPUTS
from bayescut.circuit.inputs._hooks import Routed
from bayescut.circuit.inputs._scratch import Scratch, Sinks, make_scratch
from bayescut.data.domains import missing_code
from bayescut.exceptions import ZeroProbabilityError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit

MAX_ROWS = 1024
_STATE_CELLS = 1 << 18  # 0.5 MB of states
_NODE_VALUES = 1 << 22  # 32 MB of values, if every node is needed by every row
_POSTERIORS = 1 << 16  # 0.5 MB
# Starting a thread takes as long as this many visits of a family.
_MIN_VISITS = 200_000


class Passes:
    """The passes over one circuit; made once per circuit, used by any number of threads."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.plan = make_plan(circuit)
        self.sizes = make_sizes(circuit, self.plan)
        self.is_network = is_network(circuit)
        nodes = ((kind, np.flatnonzero(circuit.kind == kind.kind)) for kind in INPUTS.values())
        self.inputs = [(kind, found) for kind, found in nodes if len(found)]
        self._local = threading.local()

    def block_rows(self, with_joint: bool = False) -> int:
        """How many rows make a block; a function of the circuit alone."""
        domains = self.circuit.domains
        n = min(
            MAX_ROWS,
            _STATE_CELLS // max(1, len(domains)),
            _NODE_VALUES // self.circuit.n_nodes,
        )
        if with_joint:
            n = min(n, _POSTERIORS // max(1, int(domains.n_states.sum())))
        return max(64, n // 64 * 64)

    def chunk(self, n_rows: int, n_jobs: int | None, with_joint: bool = False) -> int:
        """How many rows a thread takes at once, for answers that do not depend on it."""
        size = self.block_rows(with_joint)
        threads = count_jobs(n_jobs)
        if threads > 1 and n_rows * (len(self.circuit.fam_var) + 1) > _MIN_VISITS:
            share = -(-n_rows // threads)
            size = min(size, max(64, -(-share // 64) * 64))
        return size

    def scratch(self, with_joint: bool = False) -> Scratch:
        """The scratch memory of this thread."""
        name = "joint" if with_joint else "plain"
        found: Scratch | None = getattr(self._local, name, None)
        if found is None:
            found = make_scratch(self.sizes, self.block_rows(), with_joint)
            setattr(self._local, name, found)
        return found

    # ---------------------------------------------------------------- one block

    def up(
        self,
        rows: Rows,
        begin: int,
        end: int,
        roots: IntArray,
        maximise: bool = False,
        with_joint: bool = False,
    ) -> Routed:
        """Route some rows and evaluate the nodes they need."""
        block = read_block(self.circuit, self.plan, rows, begin, end)
        n_words = block.possible.shape[1]
        need = np.empty((self.circuit.n_nodes, n_words), dtype=np.uint64)
        start = np.empty(self.circuit.n_nodes + 1, dtype=np.int64)
        route(self.plan.nodes, block, roots, need, start)
        routed = Routed(block, need, start, np.empty(int(start[-1])))
        ws = self.scratch(with_joint)
        for kind, nodes in self.inputs:
            kind.values(self.plan, ws, routed, nodes, maximise)
        evaluate(self.plan.nodes, ws.marks, *routed, maximise)
        return routed

    def spread(self, routed: Routed, begin: int, weights: FloatArray, sinks: Sinks) -> None:
        """Add what evaluated rows expect to the sinks."""
        ws = self.scratch(True)
        flow = np.empty_like(routed.value)
        bad = spread(
            self.plan.nodes, ws.marks, routed.block, self.circuit.root, routed.need,
            routed.start, routed.value, weights, flow, sinks,
        )  # fmt: skip
        refuse_impossible(bad, begin)
        for kind, nodes in self.inputs:
            kind.posteriors(self.plan, ws, routed, nodes, flow, sinks)

    def choose(
        self,
        rows: Rows,
        begin: int,
        seeds: IntArray,
        maximise: bool,
        blank: bool,
        numbers: IntArray,
    ) -> Block:
        """Complete rows from ``begin`` on, which the caller knows by ``numbers``, by their most
        probable explanations or by draws."""
        root = np.array([self.circuit.root])
        end = begin + len(numbers)
        ws = self.scratch()
        if blank:
            block = read_block(self.circuit, self.plan, rows, begin, end)
            need = np.empty((self.circuit.n_nodes, block.possible.shape[1]), dtype=np.uint64)
            routed = Routed(block, need, np.empty(0, dtype=np.int64), np.empty(0))
        else:
            routed = self.up(rows, begin, end, root, maximise)
            block = routed.block
        if block.values.shape[1]:
            block = block._replace(values=block.values.copy())
        ws.marks.random[: end - begin] = seeds
        taken = np.empty_like(routed.need)
        bad = choose(
            self.plan.nodes, ws.marks, block, self.circuit.root, routed.need, routed.start,
            maximise, blank, routed.value, taken,
        )  # fmt: skip
        refuse_impossible(int(numbers[bad]) if bad >= 0 else -1)
        for kind, nodes in self.inputs:
            kind.fill(self.plan, ws, block, nodes, taken, maximise, blank)
        return block

    # ---------------------------------------------------------------- all rows

    def values(
        self, rows: Rows, nodes: NDArray[Any], n_jobs: int | None, maximise: bool = False
    ) -> FloatArray:
        """Log values of nodes, shape (number of nodes, number of rows)."""
        out = np.empty((len(nodes), rows.n_rows))
        roots = np.array(nodes, dtype=np.int64)
        plain = rows.weights.shape[1] == 0 and self.is_network

        size = self.chunk(rows.n_rows, n_jobs)

        def work(begin: int, end: int) -> None:
            if plain and self._look_up(rows.codes[begin:end], roots, maximise, out[:, begin:end]):
                return
            for first in range(begin, end, size):
                last = min(first + size, end)
                routed = self.up(rows, first, last, roots, maximise)
                _gather(roots, routed.need, routed.start, routed.value, out[:, first:last])

        # Looking up a block takes about as long as calling the kernel for it.
        blocks = 4 if plain and size == self.block_rows() else 1
        in_chunks(rows.n_rows, blocks * size, n_jobs, work)
        return out

    def _look_up(self, codes: CodeArray, nodes: IntArray, maximise: bool, out: FloatArray) -> bool:
        """Write the values of complete rows; False if some row is not complete."""
        circuit, plan = self.circuit, self.plan
        is_root = (nodes == circuit.root) & (circuit.kind[-1] == SUM)
        if is_root.any():
            if len(nodes) > 1:
                return False  # the children would be worked out once for every node
            begin, end = circuit.child_ptr[-2], circuit.child_ptr[-1]
            below = circuit.child[begin:end].astype(np.int64)
            terms = np.empty((len(below), len(codes)))
            if not self._look_up(codes, below, maximise, terms):
                return False
            sum_rows(circuit.log_weight[begin:end], terms, maximise, out[0])
            return True
        limit = np.minimum(circuit.domains.n_states, missing_code(codes.dtype)).astype(codes.dtype)
        n = len(codes)
        done = complete_rows(
            plan.nodes,
            plan.inputs,
            plan.leaves,
            nodes,
            codes,
            limit,
            np.full(circuit.n_nodes, -1),
            np.empty((4, max(n, ROWS)), dtype=np.int64),
            np.empty((n, circuit.depth + 1), dtype=np.int32),
            np.zeros((len(circuit.domains), ROWS), dtype=codes.dtype),
            np.empty(ROWS),
            out,
        )
        if done and len(plan.leaves.stack_ptr) > 1:
            # A leaf of a stack that is not asked for goes to a row that nobody reads.
            position = np.full(circuit.n_nodes, len(nodes))
            position[nodes] = np.arange(len(nodes))
            if np.any(position[plan.leaves.stack_node] < len(nodes)):
                every = np.empty((len(nodes) + 1, n))
                complete_stacks(plan.leaves, position, codes, np.empty(self.sizes.lanes), every)
                asked = np.flatnonzero(plan.leaves.node[nodes, STACK] >= 0)
                out[asked] = every[asked]
        return bool(done)


@kernel
def _gather(
    roots: IntArray, need: IntArray, start: IntArray, value: FloatArray, out: FloatArray
) -> None:
    """Write the values of some nodes, -inf where a row is impossible."""
    which = np.empty(64 * need.shape[1], dtype=np.int64)
    out[:] = -np.inf
    for k in range(len(roots)):
        root = roots[k]
        n = list_rows(need[root], which)
        for i in range(n):
            out[k, which[i]] = value[start[root] + i]


def refuse_impossible(row: int, begin: int = 0) -> None:
    """Raise :class:`ZeroProbabilityError` if a kernel has stopped at a row."""
    if row >= 0:
        raise ZeroProbabilityError(
            f"The evidence in row {begin + row} has probability zero under the model, "
            "so nothing can be conditioned on it."
        )
