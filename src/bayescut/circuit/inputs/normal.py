r"""Normal: numbers that are jointly Gaussian, each regressed on those before it.

.. math:: x_i = \mu_i + \sum_{j < i} b_{ij} (x_j - \mu_j) + \sigma_i \epsilon_i

The variables are numbers with cells (`bayescut.data.grid`), in the order of the leaf's families,
each of which sees all cells of its variable as one. Parameters: all means, then for every variable
the coefficients of those before it and its standard deviation given them.

A circuit measures numbers by the density within their cells, ln p(x) = ln P(cell) + ln f(x) -
ln F(cell): so the value of a normal leaf is its log-density less that of every number within its
cell. Unknown numbers are integrated out exactly. The cell of one number, or an interval, is known
in closed form; the likelihood of two such in one leaf, and the posterior of the others given one,
are integrals in one dimension, by quadrature. More at once are taken at the points of a lattice,
with an error of about 1e-4 of the probability (`_normals_several`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit._kinds import NORMAL
from bayescut.circuit._plan import Plan
from bayescut.circuit.evidence import Block
from bayescut.circuit.inputs._hooks import InputKind, Routed
from bayescut.circuit.inputs._normals_down import normal_fill, normal_posteriors
from bayescut.circuit.inputs._normals_up import normal_values
from bayescut.circuit.inputs._scratch import Scratch, Sinks
from bayescut.exceptions import PropertyError

if TYPE_CHECKING:
    from bayescut.circuit._model import Circuit
    from bayescut.circuit.flows import Flows


class Normal(InputKind):
    """Hooks of normal leaves."""

    kind = NORMAL

    def values(
        self, plan: Plan, ws: Scratch, routed: Routed, nodes: IntArray, maximise: bool
    ) -> None:
        """See `InputKind.values`."""
        normal_values(plan.inputs, plan.leaves, ws.marks, *routed, nodes, maximise)

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
        normal_posteriors(
            plan.inputs, plan.leaves, ws.marks, block, need, start, nodes, flow, sinks
        )

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
        normal_fill(plan.inputs, plan.leaves, ws.marks, block, nodes, taken, maximise)

    def n_params(self, circuit: Circuit, nodes: IntArray) -> NDArray[Any]:
        """See `InputKind.n_params`."""
        m = circuit.fam_ptr[nodes + 1] - circuit.fam_ptr[nodes]
        return m + m * (m + 1) // 2

    def check(self, circuit: Circuit, nodes: IntArray) -> None:
        """See `InputKind.check`."""
        among = (circuit.fam_var >= 0) & (circuit.fam_var < len(circuit.domains))
        if not among.all():
            return  # the check of families says which
        for node in nodes.tolist():
            first, last = int(circuit.fam_ptr[node]), int(circuit.fam_ptr[node + 1])
            bad = np.ones(1, dtype=bool)
            one = np.array([node])
            families = range(first, last)
            if any(circuit.domains[int(v)].grid is None for v in circuit.fam_var[first:last]):
                self.refuse(bad, one, "its variables must be numbers with cells.")
            if any(circuit.fam_states[f] != 1 for f in families) or np.any(
                np.diff(circuit.fam_parent_ptr[first : last + 1])
            ):
                self.refuse(bad, one, "its families see all cells as one, and have no parents.")
            m = last - first
            param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
            deviation = param[m + np.cumsum(np.arange(1, m + 1)) - 1]
            if not (np.isfinite(param).all() and (deviation > 0).all()):
                self.refuse(bad, one, "it needs finite parameters and positive deviations.")

    def n_parameters(self, circuit: Circuit, nodes: IntArray) -> int:
        """Those that are not zero: a coefficient of zero is an edge that is not there."""
        ends = zip(circuit.param_ptr[nodes], circuit.param_ptr[nodes + 1], strict=True)
        return sum(int(np.count_nonzero(circuit.param[begin:end])) for begin, end in ends)

    def structure(self, circuit: Circuit, node: int) -> tuple[IntArray, list[list[int]]]:
        """The variables of a leaf, and of each the places of its parents among them."""
        variables = circuit.fam_var[circuit.fam_ptr[node] : circuit.fam_ptr[node + 1]]
        m = len(variables)
        param = circuit.param[circuit.param_ptr[node] : circuit.param_ptr[node + 1]]
        lines = [param[m + i * (i + 1) // 2 :][:i] for i in range(m)]
        return variables, [np.flatnonzero(line).tolist() for line in lines]

    def seen(self, circuit: Circuit, node: int, used: Flows) -> tuple[float, Any, Any]:
        """Weight, mean and scatter of what a leaf has seen, from the flows of complete rows."""
        m = int(circuit.fam_ptr[node + 1] - circuit.fam_ptr[node])
        begin, end = circuit.param_ptr[node], circuit.param_ptr[node + 1]
        n = float(used.tables[circuit.fam_table_ptr[circuit.fam_ptr[node]]])
        first, second = np.split(used.categorical[begin:end], [m])
        if n == 0:
            return 0.0, np.zeros(m), np.zeros((m, m))
        shift = first / n
        products = np.zeros((m, m))
        products[np.tril_indices(m)] = second
        products += np.tril(products, -1).T
        return n, circuit.param[begin : begin + m] + shift, products - n * np.outer(shift, shift)

    def entropy(self, param: Any) -> float:
        """See `InputKind.entropy`."""
        raise PropertyError("The entropy of cells is not known in closed form for normal leaves.")
