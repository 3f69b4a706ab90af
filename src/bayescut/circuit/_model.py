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
from bayescut.circuit._kinds import DECISION, NAMES, NORMAL, SUM
from bayescut.circuit._passes import Passes
from bayescut.circuit._plan import depth_of
from bayescut.circuit.evidence import cell_ends
from bayescut.circuit.flows import Flows, entropy, flows
from bayescut.circuit.inputs import INPUTS
from bayescut.circuit.properties import (
    Properties,
    check_properties,
    first_nondeterministic,
    first_offenders,
)
from bayescut.data.domains import Domains
from bayescut.exceptions import CircuitError, PropertyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARRAYS: dict[str, type] = {
    "kind": np.uint8,
    "var": np.int32,
    "state": np.int32,
    "view": np.int32,
    "child_ptr": np.int64,
    "child": np.int32,
    "log_weight": np.float64,
    "branch_ptr": np.int64,
    "branch_state": np.int32,
    "param_ptr": np.int64,
    "param": np.float64,
    "fam_ptr": np.int64,
    "fam_var": np.int32,
    "fam_view": np.int32,
    "fam_host": np.int32,
    "fam_parent_ptr": np.int64,
    "fam_parent": np.int32,
    "fam_parent_view": np.int32,
    "fam_table_ptr": np.int64,
    "fam_table": np.float64,
    "view_ptr": np.int64,
    "view_local": np.int32,
    "view_share": np.float64,
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
        SUM 0, DECISION 1, PRODUCT 2, INDICATOR 3, CATEGORICAL 4, JUNCTION 5, GAUSSIAN 6, STUDENT 7,
        NORMAL 8.
    var : int32 array (n,)
        The variable of a decision, indicator, categorical or continuous input, else -1.
    state : int32 array (n,)
        The state of an indicator, else -1.
    child_ptr, child, log_weight : int64 (n + 1,), int32 (E,), float64 (E,)
        The edges of node i are ``child_ptr[i]:child_ptr[i + 1]``; those of a product have log
        weight 0.
    param_ptr, param : int64 (n + 1,), float64 (P,)
        K log-probabilities of a categorical input; mean and standard deviation of a Gaussian;
        location, scale and degrees of freedom of a Student-t; of a normal leaf of m numbers the m
        means, then for each number the coefficients of those before it and its deviation.
    fam_ptr : int64 (n + 1,)
        The families of a junction leaf, in an order where hosts come first; of a normal leaf its
        numbers in their order, each seen through a view that shows one state.
    fam_var, fam_host : int32 (F,)
        A family's variable, and the earlier family that contains all its parents (-1: none).
    fam_parent_ptr, fam_parent : int64 (F + 1,), int32
        Its parents.
    fam_table_ptr, fam_table : int64 (F + 1,), float64 (T,)
        log p(x | parents) in C order, the first parent slowest, x fastest.
    domains : Domains
        The states of every variable (0 states: continuous).
    branch_ptr, branch_state : int64 (E + 1,), int32, optional
        The states of its variable that lead along an edge of a decision: disjoint sets. Along an
        edge of one state the variable is settled, and the child does not mention it; along an edge
        of several the child does, and leaves it no other state. Default: edge k is state k.
    view, fam_view, fam_parent_view : int32 (n,), (F,), (number of parents,), optional
        Through which view a categorical input, a family's variable, or a parent is seen; -1 (the
        default): every state as it is.
    view_ptr, view_local, view_share : int64 (U + 1,), int32, float64, optional
        A view gives every state of a variable the state it looks like, -1 if it is impossible
        there, and the log-probability of the state among those that look the same.

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
    branch_ptr: IntArray = None  # type: ignore[assignment]
    branch_state: IntArray = None  # type: ignore[assignment]
    view: IntArray = None  # type: ignore[assignment]
    fam_view: IntArray = None  # type: ignore[assignment]
    fam_parent_view: IntArray = None  # type: ignore[assignment]
    view_ptr: IntArray = None  # type: ignore[assignment]
    view_local: IntArray = None  # type: ignore[assignment]
    view_share: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not isinstance(self.domains, Domains):
            raise CircuitError(f"domains must be Domains, not {type(self.domains).__name__}.")
        for name, default in _defaults(self).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
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
        is_sum = (self.kind == SUM) | (self.kind == DECISION)
        total = int((np.diff(self.child_ptr)[is_sum] - 1).sum())
        for kind in INPUTS.values():
            nodes = np.flatnonzero(self.kind == kind.kind)
            if len(nodes):
                total += kind.n_parameters(self, nodes)
        return total

    @cached_property
    def has_normals(self) -> bool:
        """Whether some leaves look at the numbers themselves, not at their cells alone."""
        return bool(np.any(self.kind == NORMAL))

    @cached_property
    def cell_ends(self) -> FloatArray:
        """Lower ends of the cells of all numbers, empty if no leaf looks at numbers."""
        ends = cell_ends(self.domains) if self.has_normals else np.empty(0)
        ends.setflags(write=False)
        return ends

    @cached_property
    def view_states(self) -> IntArray:
        """Number of states that each view shows, shape (U,)."""
        sizes = [
            self.view_local[begin:end].max(initial=-1) + 1
            for begin, end in zip(self.view_ptr[:-1], self.view_ptr[1:], strict=True)
        ]
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def fam_states(self) -> IntArray:
        """Number of states of each family's variable, as the family sees them, shape (F,)."""
        return self._seen_states(self.fam_var, self.fam_view)

    @cached_property
    def fam_parent_states(self) -> IntArray:
        """Number of states of each parent, as the family sees them."""
        return self._seen_states(self.fam_parent, self.fam_parent_view)

    def _seen_states(self, variables: IntArray, views: IntArray) -> IntArray:
        every = self.domains.n_states[variables]
        return np.where(views < 0, every, np.append(self.view_states, 0)[views])

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
    def _first_offenders(self) -> tuple[int | None, int | None]:
        return first_offenders(self)

    @cached_property
    def _first_nondeterministic(self) -> int | None:
        return first_nondeterministic(self)

    def require(self, *, deterministic: bool = False) -> None:
        """Raise :class:`PropertyError` naming the offending node unless the properties hold.

        Every query needs a smooth and decomposable circuit, some need a deterministic one.
        """
        not_smooth, not_decomposable = self._first_offenders
        wanted = {"smooth": not_smooth, "decomposable": not_decomposable}
        if deterministic:
            wanted["deterministic"] = self._first_nondeterministic
        for name, node in wanted.items():
            if node is not None:
                raise PropertyError(
                    f"This query needs a circuit that is {name}; "
                    f"node {node} ({NAMES[self.kind[node]]}) is not."
                )

    @cached_property
    def _passes(self) -> Passes:
        return Passes(self)

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

    def log_likelihood(self, rows: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Log-probability of each row; see :func:`bayescut.circuit.queries.log_likelihood`."""
        return queries.log_likelihood(self, rows, n_jobs=n_jobs)

    def node_log_likelihood(
        self, rows: Any, nodes: ArrayLike, *, n_jobs: int | None = None
    ) -> FloatArray:
        """Log values of several nodes; see :func:`bayescut.circuit.queries.node_log_likelihood`."""
        return queries.node_log_likelihood(self, rows, nodes, n_jobs=n_jobs)

    def responsibilities(self, rows: Any, *, n_jobs: int | None = None) -> queries.Responsibilities:
        """Posterior of a mixture's components.

        See :func:`bayescut.circuit.queries.responsibilities`.
        """
        return queries.responsibilities(self, rows, n_jobs=n_jobs)

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
        rows: Any,
        random_state: queries.RandomState = None,
        *,
        n_jobs: int | None = None,
    ) -> NDArray[Any]:
        """Complete rows by draws; see :func:`bayescut.circuit.queries.sample_conditional`."""
        return queries.sample_conditional(self, rows, random_state, n_jobs=n_jobs)

    def conditional_log_likelihood(
        self, query: Any, evidence: Any, *, n_jobs: int | None = None
    ) -> FloatArray:
        """log p(query | evidence) of each row.

        See :func:`bayescut.circuit.queries.conditional_log_likelihood`.
        """
        return queries.conditional_log_likelihood(self, query, evidence, n_jobs=n_jobs)

    def marginals(self, rows: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Posterior of every variable; see :func:`bayescut.circuit.queries.marginals`."""
        return queries.marginals(self, rows, n_jobs=n_jobs)

    def moments(self, rows: Any, *, n_jobs: int | None = None) -> queries.Moments:
        """Moments of continuous variables; see :func:`bayescut.circuit.queries.moments`."""
        return queries.moments(self, rows, n_jobs=n_jobs)

    def expectation(
        self,
        rows: Any,
        functions: Mapping[int, ArrayLike] | Sequence[ArrayLike],
        *,
        n_jobs: int | None = None,
    ) -> FloatArray:
        """Posterior expectations; see :func:`bayescut.circuit.queries.expectation`."""
        return queries.expectation(self, rows, functions, n_jobs=n_jobs)

    def mpe(self, rows: Any, *, n_jobs: int | None = None) -> tuple[NDArray[Any], FloatArray]:
        """Most probable explanations; see :func:`bayescut.circuit.queries.mpe`."""
        return queries.mpe(self, rows, n_jobs=n_jobs)

    def flows(
        self,
        rows: Any,
        sample_weight: ArrayLike | None = None,
        *,
        n_jobs: int | None = None,
    ) -> Flows:
        """Expected counts of edges and table cells; see :func:`bayescut.circuit.flows.flows`."""
        return flows(self, rows, sample_weight, n_jobs=n_jobs)

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


def _defaults(circuit: Circuit) -> dict[str, Any]:
    """The arrays of a circuit without views whose decisions have an edge for every state."""
    given = {name: np.asarray(getattr(circuit, name)) for name in ("kind", "child_ptr", "child")}
    defaults: dict[str, Any] = {
        "view": np.full(given["kind"].shape, -1, dtype=np.int32),
        "fam_view": np.full(np.shape(circuit.fam_var), -1, dtype=np.int32),
        "fam_parent_view": np.full(np.shape(circuit.fam_parent), -1, dtype=np.int32),
        "view_ptr": np.zeros(1, dtype=np.int64),
        "view_local": np.empty(0, dtype=np.int32),
        "view_share": np.empty(0),
    }
    if circuit.branch_ptr is None or circuit.branch_state is None:
        try:
            arity = np.diff(given["child_ptr"])
            first = np.repeat(given["child_ptr"][:-1], arity)
            is_branch = np.repeat(given["kind"] == DECISION, arity)
            number = np.arange(len(first)) - first
            lengths = np.zeros(given["child"].size, dtype=np.int64)
            lengths[: len(is_branch)] = is_branch[: len(lengths)]
        except (ValueError, TypeError, IndexError):
            # Malformed: the check will say what is wrong.
            number, is_branch, lengths = np.empty(0), np.empty(0, dtype=bool), np.zeros(0)
        defaults["branch_ptr"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        defaults["branch_state"] = number[is_branch].astype(np.int32)
    return defaults
