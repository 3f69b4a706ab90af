"""Mixtures of cutset networks by structural EM, with soft or sampled assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from bayescut._jobs import side_by_side
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, Evidence
from bayescut.circuit.build import mixture
from bayescut.circuit.queries import Responsibilities
from bayescut.data.table import Table
from bayescut.learn.components import ComponentLearner
from bayescut.learn.cutset.freeze import freeze_cutset

# A row whose responsibility is below this is left out of a component's rows. All rows together
# lose at most this part of their weight to every component; seen on jester: 5e-6 of it.
DROP = 1e-4
# Copies of a row up to which each is drawn; of more, the expected part is taken.
_MOST_COPIES = 2.0**40


class Iteration(NamedTuple):
    """A step of the algorithm.

    Attributes
    ----------
    circuit : Circuit
        The mixture before the step's M-step.
    lower_bound : float
        Its mean training log-likelihood.
    dropped : float
        Largest part of the training weight that a component lost because responsibilities below
        rounding were skipped in making this mixture.
    """

    circuit: Circuit
    lower_bound: float
    dropped: float


def responsibilities(
    circuit: Circuit, codes: CodeArray | Evidence, n_jobs: int
) -> Responsibilities:
    r"""E-step: :math:`r_{nk} \propto a_k \, p(x_n \mid G_k)` with posterior-mean parameters.

    Parameters
    ----------
    circuit : Circuit
        A mixture: a sum over components.
    codes : array of shape (n, m), or Evidence
        Rows; missing cells are marginalised.
    n_jobs : int
        Threads.

    Returns
    -------
    Responsibilities
    """
    return circuit.responsibilities(codes, n_jobs=n_jobs)


def evidence_of(table: Table, circuit: Circuit, rows: IntArray | None = None) -> Any:
    """Return what a circuit is told of rows of a table: codes, and numbers if it looks at them."""
    codes = table.codes if rows is None else table.codes[rows]
    # What predicts one column of a table knows no numbers and no circuit's properties.
    if table.values is None or not getattr(circuit, "has_normals", False):
        return codes
    return Evidence(codes, values=table.values if rows is None else table.values[rows])


class StructuralEM:
    """Structural EM over cutset networks: structures are relearned in every M-step.

    Parameters
    ----------
    learner : ComponentLearner
        Learns a component from its share of the rows.
    table : Table
        Complete rows.
    assignment : {"soft", "sampled"}
        ``soft`` gives every component fractional rows. ``sampled`` draws one component for every
        row from its responsibilities: counts stay whole, and a sweep costs about as much as one
        network on all rows, whatever the number of components.
    n_jobs : int
        Threads; components are learned side by side. The result does not depend on it.
    seed : int
        Seed of the sampled assignments, and of what the components share. The draws of step t
        depend on (seed, t) alone, so that a run can be resumed.
    check : callable, optional
        Called before every component is learned; raises an exception to break the run off.
    """

    def __init__(
        self,
        learner: ComponentLearner,
        table: Table,
        *,
        assignment: Literal["soft", "sampled"] = "soft",
        n_jobs: int = 1,
        seed: int = 0,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.check = check
        self.learner = learner.for_components(table, seed)
        self.table = table
        self.assignment = assignment
        self.n_jobs = n_jobs
        self.seed = seed

    def start(self, labels: IntArray) -> Circuit:
        """Learn one component from each cluster; all weigh the same, as in the paper."""
        n_components = int(labels.max()) + 1
        rows = [np.flatnonzero(labels == k).astype(np.int32) for k in range(n_components)]
        rows = [r for r in rows if len(r)]
        circuits = self._learn(rows, [self.table.weights] * len(rows))
        return mixture(np.full(len(rows), 1.0 / len(rows)), circuits)

    def run(self, circuit: Circuit, *, first: int = 0) -> Iterator[Iteration]:
        """Yield the mixture after every step, without end.

        Parameters
        ----------
        circuit : Circuit
            A mixture to go on from.
        first : int
            Number of the first step.
        """
        dropped = 0.0
        weights = self.table.all_weights
        step = first
        while True:
            shares, log_likelihood = self._expect(circuit)
            yield Iteration(circuit, float(np.average(log_likelihood, weights=weights)), dropped)
            circuit, dropped = self._maximise(shares, step)
            step += 1

    def step(self, circuit: Circuit, number: int) -> Circuit:
        """Return the mixture after one step from another one, whatever rows that was learned from.

        Parameters
        ----------
        circuit : Circuit
            A mixture.
        number : int
            Number of the step.
        """
        return self._maximise(self._expect(circuit).shares, number)[0]

    def _expect(self, circuit: Circuit) -> Responsibilities:
        return responsibilities(circuit, evidence_of(self.table, circuit), self.n_jobs)

    def _maximise(self, shares: FloatArray, step: int) -> tuple[Circuit, float]:
        """Relearn the components from their shares of the rows; see `Iteration` for the number."""
        dropped = 0.0
        weights = self.table.all_weights
        parts: list[FloatArray | None]
        if self.assignment == "sampled":
            rng = np.random.default_rng([self.seed, step])
            if self.table.weights is None:
                rows = _whole_rows(shares, rng)
                mass = np.array([float(len(r)) for r in rows])
                parts = [None] * len(rows)
            else:
                rows, parts, mass = _drawn_copies(shares, weights, rng)
        else:
            rows, parts, mass, dropped = _fractions_of_rows(shares, weights)
        # A component with less than a row to its name has nothing to learn from.
        alive = [k for k in range(len(mass)) if len(rows[k]) and mass[k] >= min(1.0, mass.max())]
        circuits = self._learn([rows[k] for k in alive], [parts[k] for k in alive])
        return mixture(mass[alive] / mass[alive].sum(), circuits), dropped

    def _learn(self, rows: list[IntArray], weights: list[FloatArray | None]) -> list[Circuit]:
        """Learn the components side by side, the largest first so that no core is left idle."""

        learners = self.learner.for_each(self.table, rows, weights)

        def learn(k: int) -> Circuit:
            if self.check is not None:
                self.check()
            found = learners[k].learn(self.table.with_weights(weights[k]), rows[k])
            if isinstance(found, Circuit):
                return found
            return freeze_cutset(found, self.table.domains)

        order = sorted(range(len(rows)), key=lambda k: -len(rows[k]))
        found = dict(zip(order, side_by_side(learn, order, self.n_jobs), strict=True))
        return [found[k] for k in range(len(rows))]


def _whole_rows(shares: FloatArray, rng: np.random.Generator) -> list[IntArray]:
    """Draw a component for every row; return the rows of each."""
    u = rng.random(len(shares))
    chosen = (np.cumsum(shares, axis=1) < u[:, None]).sum(axis=1)
    chosen = np.minimum(chosen, shares.shape[1] - 1)
    return [np.flatnonzero(chosen == k).astype(np.int32) for k in range(shares.shape[1])]


def _drawn_copies(
    shares: FloatArray, weights: FloatArray, rng: np.random.Generator
) -> tuple[list[IntArray], list[FloatArray | None], FloatArray]:
    """Draw a component for every copy of every row; return rows and weights of each component.

    What a weight has beyond whole copies is one copy more, of that weight. Of very many copies
    every component gets its expected part.
    """
    shares = shares / shares.sum(axis=1, keepdims=True)
    many = weights > _MOST_COPIES
    copies = np.where(many, 0.0, np.floor(weights))
    drawn = rng.multinomial(copies.astype(np.int64), shares).astype(np.float64)
    rest = np.where(many, 0.0, weights - copies)
    chosen = (np.cumsum(shares, axis=1) < rng.random(len(shares))[:, None]).sum(axis=1)
    np.minimum(chosen, shares.shape[1] - 1, out=chosen)
    drawn[np.arange(len(drawn)), chosen] += rest
    drawn[many] = shares[many] * weights[many, None]
    rows = [np.flatnonzero(part > 0).astype(np.int32) for part in drawn.T]
    parts: list[FloatArray | None] = [np.ascontiguousarray(part) for part in drawn.T]
    return rows, parts, drawn.sum(axis=0)


def _fractions_of_rows(
    shares: FloatArray, weights: FloatArray
) -> tuple[list[IntArray], list[FloatArray | None], FloatArray, float]:
    """Rows of every component with their fractional weights, and the mass left out."""
    rows: list[IntArray] = []
    parts: list[FloatArray | None] = []
    mass = np.empty(shares.shape[1])
    dropped = 0.0
    for k in range(shares.shape[1]):
        share = shares[:, k]
        kept = share > DROP
        rows.append(np.flatnonzero(kept).astype(np.int32))
        part = share * weights
        parts.append(part)
        mass[k] = part.sum()
        dropped = max(dropped, float(part[~kept].sum()) / float(weights.sum()))
    return rows, parts, mass, dropped


def converge(
    steps: Iterator[Iteration],
    *,
    max_iter: int,
    tol: float,
    patience: int,
    told: Callable[[int, Iteration], None],
    done: list[float] | None = None,
) -> tuple[list[float], bool]:
    """Follow EM until it stops improving.

    Stops after ``patience`` steps in a row that raise the best lower bound so far by less than
    ``tol`` times its size, or after ``max_iter`` steps. ``told`` hears of every step as it is done.

    Returns
    -------
    list of float, bool
        The lower bounds, and whether the run converged.
    """
    bounds = list(done or [])
    idle = 0
    for n_done, iteration in enumerate(steps, start=len(bounds)):
        if bounds and iteration.lower_bound - max(bounds) < tol * abs(max(bounds)):
            idle += 1
        else:
            idle = 0
        bounds.append(iteration.lower_bound)
        told(n_done, iteration)
        if idle >= patience:
            return bounds, True
        if n_done >= max_iter:
            return bounds, False
    raise AssertionError("EM has no end")
