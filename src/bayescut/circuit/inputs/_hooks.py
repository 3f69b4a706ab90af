"""What the rest of the library asks of a kind of input, outside the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import NAMES
from bayescut.circuit._plan import Plan
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._scratch import Scratch, Sinks
from bayescut.exceptions import CircuitError, PropertyError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit


class Routed(NamedTuple):
    """A block, the rows that need each node, and where the values of a node begin."""

    block: Block
    need: IntArray  # uint64 (nodes, words): bit r of row r
    start: IntArray  # node i has start[i + 1] - start[i] values, one for each row that needs it
    value: FloatArray


class InputKind:
    """A kind of input; subclasses are one file each, with their kernels.

    A pass treats all nodes of a kind in one call: inputs do not depend on each other.
    """

    kind: int
    continuous = False  # whether its variable has numbers instead of states
    dirichlet = False  # whether its parameters are tables with a Dirichlet prior

    def values(
        self, plan: Plan, ws: Scratch, routed: Routed, nodes: IntArray, maximise: bool
    ) -> None:
        """Write the log values of nodes for the rows that need them.

        Every unknown variable is summed (or maximised) out, as far as the evidence leaves it.
        """
        raise NotImplementedError

    def posteriors(
        self,
        plan: Plan,
        ws: Scratch,
        routed: Routed,
        nodes: IntArray,
        flow: FloatArray,
        sinks: Sinks,
    ) -> None:
        """Add what rows expect of the variables and parameters of nodes, times their flows.

        ``flow`` lies beside ``routed.value``.
        """
        raise NotImplementedError

    def fill(
        self,
        plan: Plan,
        ws: Scratch,
        block: Block,
        nodes: IntArray,
        taken: IntArray,
        maximise: bool,
        blank: bool,
    ) -> None:
        """Give unknown variables their most probable states, or draws, in the rows that have taken
        a node. ``blank`` says that nothing at all is observed in the block."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name."""
        return NAMES[self.kind]

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """How many entries of ``Circuit.param`` each node has."""
        return np.zeros(len(nodes), dtype=np.int64)

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """Raise :class:`CircuitError` if the parameters of a node are not valid."""

    def n_parameters(self, circuit: Circuit, nodes: IntArray) -> int:
        """Number of independent parameters of some nodes together."""
        return int(self.n_params(circuit, nodes).sum())

    def text(self, circuit: Circuit, node: int, name: str) -> str:
        """A few words for drawings and outlines; ``name`` is that of its variable."""
        return name

    def refuse(self, bad: NDArray[np.bool_], nodes: IntArray, message: str) -> None:
        """Raise, naming the first bad node."""
        if bad.any():
            raise CircuitError(f"Node {nodes[int(np.argmax(bad))]} ({self.name}): {message}")

    # What follows is asked of continuous inputs only. A statistic is the weight, the mean and the
    # sum of squared deviations of the numbers a node has seen.

    def log_marginal(self, prior: Any, statistic: Any) -> float:
        """Log marginal likelihood of what a node has seen."""
        raise PropertyError(f"Bayesian scores are not defined for {self.name} inputs.")

    def max_log_likelihood(self, node: int, statistic: Any) -> float:
        """Largest log-likelihood of what a node has seen."""
        raise PropertyError(f"BIC is not defined for {self.name} inputs.")

    def refit(self, prior: Any, statistic: Any) -> list[float]:
        """Parameters after what a node has seen."""
        raise PropertyError(f"There is no posterior mean of the parameters of {self.name} inputs.")

    def entropy(self, param: Any) -> float:
        """Differential entropy in nats."""
        raise PropertyError(f"The entropy of {self.name} inputs is not implemented.")


class OneVariable(InputKind):
    """A kind of input with one variable; a subclass says what its three kernels are.

    Each treats all nodes of the kind, called as below.
    """

    kernels: tuple[Any, Any, Any]

    def values(
        self, plan: Plan, ws: Scratch, routed: Routed, nodes: IntArray, maximise: bool
    ) -> None:
        """See `InputKind.values`."""
        self.kernels[0](plan.inputs, ws.marks, *routed, nodes, maximise)

    def posteriors(
        self,
        plan: Plan,
        ws: Scratch,
        routed: Routed,
        nodes: IntArray,
        flow: FloatArray,
        sinks: Sinks,
    ) -> None:
        """See `InputKind.posteriors`."""
        block, need, start, _ = routed
        self.kernels[1](plan.inputs, ws.marks, block, need, start, nodes, flow, sinks)

    def fill(
        self,
        plan: Plan,
        ws: Scratch,
        block: Block,
        nodes: IntArray,
        taken: IntArray,
        maximise: bool,
        blank: bool,
    ) -> None:
        """See `InputKind.fill`."""
        self.kernels[2](plan.inputs, ws.marks, block, nodes, taken, maximise)


def own_param(circuit: Circuit, nodes: IntArray, at: int) -> NDArray[Any]:
    """The ``at``-th parameter of each node."""
    return circuit.param[circuit.param_ptr[nodes] + at]
