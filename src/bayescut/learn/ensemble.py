"""Ensembles: averaged samples from the posterior over structures and assignments.

Two kinds of members, because neither is best everywhere:

* *chains*: mixtures whose rows are assigned by draws from their responsibilities and which are
  relearned at every sweep; the last sweeps of several chains are averaged,
* *bags*: single networks on bootstrap samples that look at a random part of the columns for cuts.

Every member leaves rows out (a chain one fold, a bag those not drawn), and the weight of each kind
is fitted to the rows its members have not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit.build import mixture
from bayescut.data.domains import Domains
from bayescut.learn.freeze import freeze_cutset
from bayescut.learn.mixture import StructuralEM
from bayescut.learn.network import NetworkLearner
from bayescut.learn.rules import RandomGain

Kind = Literal["chain", "bag"]
KINDS: tuple[Kind, ...] = ("chain", "bag")


@dataclass(frozen=True)
class StopRule:
    """When the time is up, and whom to tell of progress."""

    deadline: float
    advance: Callable[[float], None]

    def __call__(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline


@dataclass
class Pool:
    """Members so far, and what each kind predicts for the rows it has not seen.

    Attributes
    ----------
    members : dict of lists of circuits
        Members of each kind.
    unseen : dict of arrays of shape (n,)
        Logarithm of the summed predictions of the members that have not seen a row.
    n_unseen : dict of arrays of shape (n,)
        Number of such members.
    """

    n_rows: int
    members: dict[Kind, list[Circuit]] = field(default_factory=dict)
    unseen: dict[Kind, FloatArray] = field(default_factory=dict)
    n_unseen: dict[Kind, IntArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in KINDS:
            self.members.setdefault(kind, [])
            self.unseen.setdefault(kind, np.full(self.n_rows, -np.inf))
            self.n_unseen.setdefault(kind, np.zeros(self.n_rows, dtype=np.int64))

    def add(
        self, kind: Kind, member: Circuit, codes: CodeArray, left_out: IntArray, n_jobs: int
    ) -> None:
        """Take in a member that has not seen the rows ``left_out``."""
        self.members[kind].append(member)
        if len(left_out):
            predicted = member.log_likelihood(codes[left_out], n_jobs=n_jobs)
            total = self.unseen[kind]
            total[left_out] = np.logaddexp(total[left_out], predicted)
            self.n_unseen[kind][left_out] += 1

    def _unseen_rows(
        self, sample_weight: FloatArray | None
    ) -> tuple[list[Kind], FloatArray, FloatArray]:
        """The kinds there are, their predictions of unseen rows, and those rows' weights."""
        kinds = [kind for kind in KINDS if self.members[kind]]
        rows = np.ones(self.n_rows, dtype=bool)
        for kind in kinds:
            rows &= self.n_unseen[kind] > 0
        log_p = np.stack(
            [self.unseen[kind][rows] - np.log(self.n_unseen[kind][rows]) for kind in kinds]
        )
        return kinds, log_p, np.ones(rows.sum()) if sample_weight is None else sample_weight[rows]

    def unseen_log_likelihood(self, sample_weight: FloatArray | None) -> float:
        """Log-likelihood of all rows, estimated from those that members have not seen."""
        kinds, log_p, weight = self._unseen_rows(sample_weight)
        if not len(weight):
            return float("nan")
        shares = self.kind_weights(sample_weight)[[KINDS.index(kind) for kind in kinds]]
        with np.errstate(divide="ignore"):
            total = np.logaddexp.reduce(log_p + np.log(shares)[:, None], axis=0)
        whole = self.n_rows if sample_weight is None else sample_weight.sum()
        return float(np.average(total, weights=weight) * whole)

    def kind_weights(self, sample_weight: FloatArray | None, n_steps: int = 200) -> FloatArray:
        """Weights of the kinds that maximise the likelihood of unseen rows, by EM."""
        kinds, log_p, weight = self._unseen_rows(sample_weight)
        if len(kinds) == 1 or not len(weight):
            return np.array([kind in kinds for kind in KINDS]) / len(kinds)
        shares = np.full(len(KINDS), 1.0 / len(KINDS))
        for _ in range(n_steps):
            with np.errstate(divide="ignore"):
                joint = log_p + np.log(shares)[:, None]
            joint -= np.logaddexp.reduce(joint, axis=0)
            shares = np.average(np.exp(joint), axis=1, weights=weight)
        return shares

    def circuit(self, sample_weight: FloatArray | None) -> Circuit:
        """All members as one mixture."""
        shares = self.kind_weights(sample_weight)
        weights, circuits = [], []
        for share, kind in zip(shares, KINDS, strict=True):
            members = self.members[kind]
            if share > 1e-6:
                weights.extend([share / len(members)] * len(members))
                circuits.extend(members)
        total = np.sum(weights)
        return mixture(np.array(weights) / total, circuits)


@dataclass(frozen=True)
class EnsembleLearner:
    """Adds members to a pool, a round at a time.

    Parameters
    ----------
    learner : NetworkLearner
        Learns components (without cuts) and bagged networks (with cuts).
    n_components : int
        Components of a chain.
    n_burn, n_keep : int
        Sweeps of a chain that are thrown away, and that become members.
    n_bags : int
        Bagged networks of a round.
    n_folds : int
        Folds of rows; the chain of round r leaves out fold r modulo this.
    n_jobs : int
        Threads.
    """

    learner: NetworkLearner
    n_components: int
    n_burn: int
    n_keep: int
    n_bags: int
    n_folds: int
    n_jobs: int = 1

    def add_chain(
        self,
        pool: Pool,
        codes: CodeArray,
        domains: Domains,
        sample_weight: FloatArray | None,
        labels: IntArray,
        seed: int,
        number: int,
        stop: StopRule,
    ) -> None:
        """Run a chain on all folds but one and keep its last sweeps."""
        fold = np.random.default_rng([seed, 7]).permutation(len(codes)) % self.n_folds
        out = fold == number % self.n_folds
        if out.all() or self.n_folds < 2:
            out[:] = False
        left_out = np.flatnonzero(out)
        inside = np.flatnonzero(~out)
        rows = np.ascontiguousarray(codes[inside])
        weights = None if sample_weight is None else sample_weight[inside]
        job = StructuralEM(replace(self.learner, candidates=None, n_jobs=1), "sampled", self.n_jobs)
        start = job.start(rows, domains, labels[inside], weights)
        sweeps = job.run(start, rows, weights, seed=(seed * 1009 + number) % 2**31)
        for sweep, iteration in enumerate(sweeps):
            if sweep >= self.n_burn:
                pool.add("chain", iteration.circuit, codes, left_out, self.n_jobs)
            done = sweep + 1 >= self.n_burn + self.n_keep
            stop.advance(1)
            if done or (stop() and sweep >= self.n_burn):
                return

    def add_bags(
        self,
        pool: Pool,
        codes: CodeArray,
        domains: Domains,
        sample_weight: FloatArray | None,
        seed: int,
        number: int,
        stop: StopRule,
    ) -> None:
        """Learn networks on bootstrap samples."""
        n = len(codes)

        def learn(i: int) -> tuple[Circuit, IntArray] | None:
            if stop() and pool.members["bag"]:
                return None
            rng = np.random.default_rng([seed, 11, number, i])
            rows = np.sort(rng.integers(0, n, n)).astype(np.int32)
            learner = replace(self.learner, candidates=RandomGain(0.2, 3, rng), n_jobs=1)
            root = learner.grow(codes, domains.n_states, sample_weight, rows=rows)
            seen = np.zeros(n, dtype=bool)
            seen[rows] = True
            return freeze_cutset(root, domains), np.flatnonzero(~seen)

        with ThreadPoolExecutor(self.n_jobs) as executor:
            for found in executor.map(learn, range(self.n_bags)):
                if found is not None:
                    pool.add("bag", found[0], codes, found[1], self.n_jobs)
                stop.advance(1)
