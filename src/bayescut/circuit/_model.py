"""The frozen model: a circuit as flat arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import queries
from bayescut.circuit._check import check_circuit, freeze
from bayescut.circuit._kinds import CATEGORICAL, DECISION, GAUSSIAN, NAMES, SUM
from bayescut.circuit._plan import Plan, Sizes, depth_of, make_plan, sizes
from bayescut.circuit.flows import Flows, entropy, flows
from bayescut.circuit.properties import (
    Properties,
    check_properties,
    first_nondeterministic,
    first_offenders,
    is_separable,
)
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError, PropertyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARRAYS: dict[str, type] = {
    "kind": np.uint8,
    "var": np.int32,
    "state": np.int32,
    "child_ptr": np.int64,
    "child": np.int32,
    "log_weight": np.float64,
    "param_ptr": np.int64,
    "param": np.float64,
    "fam_ptr": np.int64,
    "fam_var": np.int32,
    "fam_host": np.int32,
    "fam_parent_ptr": np.int64,
    "fam_parent": np.int32,
    "fam_table_ptr": np.int64,
    "fam_table": np.float64,
}


@dataclass(frozen=True, eq=False, repr=False)
class Circuit:
    """A probabilistic circuit: sums and products over inputs, as flat read-only arrays.

    Nodes stand in topological order, children before parents, the root last. All probabilities
    are natural logarithms. Circuits are built by hand with :mod:`bayescut.circuit.build`, by the
    learners, or by :func:`bayescut.load`; the constructor checks every index and every sum of
    probabilities and raises :class:`~bayescut.exceptions.CircuitError` naming the node.

    Parameters
    ----------
    kind : uint8 array (n,)
        SUM 0, DECISION 1, PRODUCT 2, INDICATOR 3, CATEGORICAL 4, JUNCTION 5, GAUSSIAN 6.
    var : int32 array (n,)
        The variable of a decision, indicator, categorical or Gaussian node, else -1.
    state : int32 array (n,)
        The state of an indicator, else -1.
    child_ptr, child, log_weight : int64 (n + 1,), int32 (E,), float64 (E,)
        The edges of node i are ``child_ptr[i]:child_ptr[i + 1]``; those of a product have log
        weight 0. A decision on X has one edge for each state: edge k is [X = k] times its child.
    param_ptr, param : int64 (n + 1,), float64 (P,)
        K log-probabilities of a categorical input; mean and standard deviation of a Gaussian.
    fam_ptr : int64 (n + 1,)
        The families of a junction leaf, in an order where hosts come first.
    fam_var, fam_host : int32 (F,)
        A family's variable, and the earlier family that contains all its parents (-1: none).
    fam_parent_ptr, fam_parent : int64 (F + 1,), int32
        Its parents.
    fam_table_ptr, fam_table : int64 (F + 1,), float64 (T,)
        log p(x | parents) in C order, the first parent slowest, x fastest.
    domains : Domains
        The states of every variable (0 states: continuous).

    Examples
    --------
    >>> from bayescut.circuit import build
    >>> rain = build.decision(
    ...     0, [0.8, 0.2], build.categorical(1, [0.9, 0.1]), build.categorical(1, [0.3, 0.7])
    ... )
    >>> circuit = build.circuit(rain, [2, 2])
    >>> circuit
    Circuit(2 variables, 3 nodes, 3 parameters, depth 1: 1 decision, 2 categorical)
    >>> circuit.log_likelihood([[1, 1], [1, float("nan")]]).round(4)
    array([-1.9661, -1.6094])
    """

    kind: IntArray
    var: IntArray
    state: IntArray
    child_ptr: IntArray
    child: IntArray
    log_weight: FloatArray
    param_ptr: IntArray
    param: FloatArray
    fam_ptr: IntArray
    fam_var: IntArray
    fam_host: IntArray
    fam_parent_ptr: IntArray
    fam_parent: IntArray
    fam_table_ptr: IntArray
    fam_table: FloatArray
    domains: Domains

    def __post_init__(self) -> None:
        if not isinstance(self.domains, Domains):
            raise CircuitError(f"domains must be Domains, not {type(self.domains).__name__}.")
        for name, dtype in ARRAYS.items():
            object.__setattr__(self, name, freeze(name, getattr(self, name), dtype))
        check_circuit(self)

    # ---------------------------------------------------------------- what it is

    @property
    def n_nodes(self) -> int:
        """Number of nodes; a junction leaf is one node."""
        return len(self.kind)

    @property
    def root(self) -> int:
        """The root node: the last one."""
        return len(self.kind) - 1

    @cached_property
    def n_parameters(self) -> int:
        """Number of independent parameters.

        A sum or decision with K edges has K − 1, a categorical input K − 1, a Gaussian 2, and a
        family of a junction leaf (K − 1) for each assignment of its parents. A Chow–Liu tree over
        m binary variables has 2m − 1 and a binary cut 1: the size of a circuit in the literature.
        """
        arity = np.diff(self.child_ptr)
        is_sum = (self.kind == SUM) | (self.kind == DECISION)
        counts = np.diff(self.param_ptr)
        cells = np.diff(self.fam_table_ptr)
        sizes = self.domains.n_states[self.fam_var]
        return int(
            (arity[is_sum] - 1).sum()
            + (counts[self.kind == CATEGORICAL] - 1).sum()
            + counts[self.kind == GAUSSIAN].sum()
            + (cells // sizes * (sizes - 1)).sum()
        )

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables of the circuit: all variables of its domains."""
        return tuple(range(len(self.domains)))

    @cached_property
    def depth(self) -> int:
        """Number of edges on the longest path from the root to an input."""
        return int(depth_of(self.child_ptr, self.child))

    @cached_property
    def properties(self) -> Properties:
        """Which structural properties hold, and where the others first fail."""
        return check_properties(self)

    @cached_property
    def first_offenders(self) -> tuple[int | None, int | None]:
        """The first nodes that are not smooth and not decomposable."""
        return first_offenders(self)

    @cached_property
    def first_nondeterministic(self) -> int | None:
        """The first node that is not deterministic."""
        return first_nondeterministic(self)

    def require(self, *, deterministic: bool = False) -> None:
        """Raise :class:`PropertyError` naming the offending node unless the properties hold.

        Every query needs a smooth and decomposable circuit, some need a deterministic one.
        """
        not_smooth, not_decomposable = self.first_offenders
        wanted = {"smooth": not_smooth, "decomposable": not_decomposable}
        if deterministic:
            wanted["deterministic"] = self.first_nondeterministic
        for name, node in wanted.items():
            if node is not None:
                raise PropertyError(
                    f"This query needs a circuit that is {name}; "
                    f"node {node} ({NAMES[self.kind[node]]}) is not."
                )

    @cached_property
    def is_mixture(self) -> bool:
        """Whether the root is a sum over circuits that share no node."""
        return bool(self.kind[-1] == SUM) and is_separable(self.child_ptr, self.child)

    @cached_property
    def plan(self) -> Plan:
        """The index maps of the kernels; worked out on first use, never stored."""
        return make_plan(self)

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of a kernel's workspace."""
        return sizes(self)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, without the domains."""
        return {name: getattr(self, name) for name in ARRAYS}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        return self.domains == other.domains and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # Caches stay behind, and the copy is checked like any other circuit.
        return Circuit, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        counts = np.bincount(self.kind, minlength=len(NAMES))
        kinds = ", ".join(
            f"{count} {name}" for count, name in zip(counts, NAMES, strict=True) if count
        )
        return (
            f"Circuit({len(self.domains)} variables, {self.n_nodes} nodes, "
            f"{self.n_parameters} parameters, depth {self.depth}: {kinds})"
        )

    # ---------------------------------------------------------------- queries

    def log_likelihood(
        self,
        codes: Any,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Log-probability of each row; see :func:`bayescut.circuit.queries.log_likelihood`."""
        return queries.log_likelihood(self, codes, allowed, values=values, n_jobs=n_jobs)

    def node_log_likelihood(
        self,
        codes: Any,
        nodes: ArrayLike,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Log values of several nodes; see :func:`bayescut.circuit.queries.node_log_likelihood`."""
        return queries.node_log_likelihood(
            self, codes, nodes, allowed, values=values, n_jobs=n_jobs
        )

    def sample(
        self,
        n: int = 1,
        random_state: queries.RandomState = None,
        *,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        """Draw rows; see :func:`bayescut.circuit.queries.sample`."""
        return queries.sample(self, n, random_state, n_jobs=n_jobs)

    def sample_conditional(
        self,
        codes: Any,
        random_state: queries.RandomState = None,
        *,
        allowed: ArrayLike | None = None,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        """Complete rows by draws; see :func:`bayescut.circuit.queries.sample_conditional`."""
        return queries.sample_conditional(
            self, codes, random_state, allowed=allowed, values=values, n_jobs=n_jobs
        )

    def conditional_log_likelihood(
        self,
        query: Any,
        evidence: Any,
        allowed: ArrayLike | None = None,
        *,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """log p(query | evidence) of each row.

        See :func:`bayescut.circuit.queries.conditional_log_likelihood`.
        """
        return queries.conditional_log_likelihood(self, query, evidence, allowed, n_jobs=n_jobs)

    def marginals(
        self,
        codes: Any,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Posterior of every variable; see :func:`bayescut.circuit.queries.marginals`."""
        return queries.marginals(self, codes, allowed, values=values, n_jobs=n_jobs)

    def moments(
        self,
        codes: Any,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> queries.Moments:
        """Moments of continuous variables; see :func:`bayescut.circuit.queries.moments`."""
        return queries.moments(self, codes, allowed, values=values, n_jobs=n_jobs)

    def expectation(
        self,
        codes: Any,
        functions: Mapping[int, ArrayLike] | Sequence[ArrayLike],
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Posterior expectations; see :func:`bayescut.circuit.queries.expectation`."""
        return queries.expectation(self, codes, functions, allowed, values=values, n_jobs=n_jobs)

    def mpe(
        self,
        codes: Any,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[Any], FloatArray]:
        """Most probable explanations; see :func:`bayescut.circuit.queries.mpe`."""
        return queries.mpe(self, codes, allowed, values=values, n_jobs=n_jobs)

    def flows(
        self,
        codes: Any,
        sample_weight: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> Flows:
        """Expected counts of edges and table cells; see :func:`bayescut.circuit.flows.flows`."""
        return flows(self, codes, sample_weight, allowed, values=values, n_jobs=n_jobs)

    def entropy(self) -> float:
        """Entropy in nats; see :func:`bayescut.circuit.flows.entropy`."""
        return entropy(self)

    # ---------------------------------------------------------------- other forms

    def expand(self) -> Circuit:
        """Turn decisions and junctions into plain sums; see :func:`bayescut.circuit.expand`."""
        from bayescut.circuit.expansion import expand

        return expand(self)

    def draw(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the circuit; see :func:`bayescut.circuit.drawing.draw`."""
        from bayescut.circuit.drawing import draw

        return draw(self, ax, **options)
