"""Averaged posterior samples: the best density the library knows."""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np

from bayescut._progress import progress
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.data import Domains
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._mixture import cluster
from bayescut.estimators._validation import check_count, count_jobs, draw_seed, repeated_rows
from bayescut.exceptions import DataError, ModelFileError
from bayescut.files import load, save
from bayescut.learn.ensemble import KINDS, EnsembleLearner, Pool, StopRule
from bayescut.learn.network import NetworkLearner
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior


class CutsetEnsemble(CircuitEstimator):
    r"""Average of posterior samples over structures: our best density, as one circuit.

    Two kinds of members are averaged. *Chains* are mixtures of thin junction trees whose rows are
    assigned to components by draws from their responsibilities; structures are relearned at every
    sweep, and the last sweeps of several independent chains are kept. *Bags* are single cutset
    networks on bootstrap samples. Every member leaves out some rows, and the weights of the two
    kinds maximise the likelihood of rows their members have not seen; no validation set is needed.

    Parameters
    ----------
    n_chains : int, default=16
        Number of independent chains. More are better, with diminishing returns.
    n_components : int or None, default=None
        Components of each chain; None: one for every 100 rows, 5 at least and 60 at most.
    n_burn, n_keep : int, default=8 and 3
        Sweeps of a chain that are thrown away, and that are kept.
    n_bags : int, default=64
        Number of bagged networks.
    width : int, default=4
        Most parents of a column in a leaf.
    ess : float, default=1.0
        Equivalent sample size of every node.
    shrinkage : bool, default=True
        Shrink the tables of components and leaves towards the rows outside them; see
        `CutsetNetwork`.
    time_budget : float or None, default=None
        Seconds after which learning stops with what it has; at least one member is learned.
    checkpoint : path or None, default=None
        File to which the ensemble is saved after each round of one chain and some bags. If it
        exists, `fit` adds the rounds that are missing to it.
    random_state : int, Generator or None, default=None
        Seed.
    n_states, n_jobs, verbose
        See `CNetBD`. Without a time budget the result does not depend on the number of threads.

    Attributes
    ----------
    circuit_ : Circuit
        The ensemble as one circuit, a mixture: every query is exact but the most probable
        completion, which is the usual approximation.
    n_members_ : dict
        Number of members of each kind.
    kind_weights_ : dict
        Weights of the kinds.
    structure_score_ : float
        Log-likelihood of the training rows under members that have not seen them (those rows that
        have such members of both kinds), per row times the number of rows.
    n_parameters_ : int

    Examples
    --------
    >>> from bayescut import CutsetEnsemble
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = CutsetEnsemble(n_chains=2, n_bags=2, random_state=0).fit(X)
    >>> model.n_members_
    {'chain': 6, 'bag': 2}
    """

    _state_names = ("structure_score_", "n_members_", "kind_weights_", "n_rounds_", "seed_")

    n_members_: dict[str, int]
    kind_weights_: dict[str, float]
    n_rounds_: int
    seed_: int

    def __init__(
        self,
        n_chains: int = 16,
        n_components: int | None = None,
        *,
        n_burn: int = 8,
        n_keep: int = 3,
        n_bags: int = 64,
        width: int = 4,
        ess: float = 1.0,
        shrinkage: bool = True,
        time_budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_states: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_chains = n_chains
        self.n_components = n_components
        self.n_burn = n_burn
        self.n_keep = n_keep
        self.n_bags = n_bags
        self.width = width
        self.ess = ess
        self.shrinkage = shrinkage
        self.time_budget = time_budget
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_states = n_states
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(
        self, codes: CodeArray, domains: Domains, sample_weight: FloatArray | None
    ) -> Circuit:
        n_chains = check_count("n_chains", self.n_chains, low=0)
        n_bags = check_count("n_bags", self.n_bags, low=0)
        if n_chains + n_bags == 0:
            raise ValueError("n_chains and n_bags must not both be 0")
        deadline = math.inf
        if self.time_budget is not None:
            if not self.time_budget > 0:
                raise ValueError(f"time_budget must be greater than 0, got {self.time_budget!r}")
            deadline = time.monotonic() + self.time_budget
        # Whole-number weights become repeated rows, which keeps the counts of a sweep whole.
        rows, weights = repeated_rows(sample_weight, len(codes))
        if sample_weight is not None:
            codes = np.ascontiguousarray(codes[rows])
            weights = None if weights is None else weights[rows]
        # A round is one chain and its share of the bags, so that any stop leaves both kinds.
        n_rounds = max(n_chains, 1)
        learner = self._ensemble_learner(codes, n_rounds)
        seed = draw_seed(self.random_state)
        pool, first, seed = self._resume(domains, len(codes), seed)
        if first:
            self._settle(pool, weights, first, seed)
        n_sweeps = n_chains * (learner.n_burn + learner.n_keep)
        title = type(self).__name__
        with progress(title, n_sweeps + n_bags, self.verbose) as advance:
            stop = StopRule(deadline, advance)
            for number in range(first, n_rounds):
                if number < n_chains:
                    labels = cluster(codes, domains, learner.n_components, seed + number, weights)
                    learner.add_chain(pool, codes, domains, weights, labels, seed, number, stop)
                if n_bags:
                    learner.add_bags(pool, codes, domains, weights, seed, number, stop)
                self._settle(pool, weights, number + 1, seed)
                if self.checkpoint is not None:
                    self._pool: Pool | None = pool
                    try:
                        save(self, self.checkpoint)
                    finally:
                        self._pool = None
                if stop():
                    break
        return self.circuit_

    def _ensemble_learner(self, codes: CodeArray, n_rounds: int) -> EnsembleLearner:
        size = self.n_components
        if size is None:
            size = int(np.clip(len(codes) // 100, 5, 60))
        network = NetworkLearner(
            BayesDirichlet(self.ess, spread=False),
            StructurePrior(),
            check_count("width", self.width, low=0),
            shrink=bool(self.shrinkage),
        )
        return EnsembleLearner(
            network,
            n_components=check_count("n_components", size),
            n_burn=check_count("n_burn", self.n_burn, low=0),
            n_keep=check_count("n_keep", self.n_keep),
            n_bags=-(-self.n_bags // n_rounds),
            n_folds=max(n_rounds, 2),
            n_jobs=count_jobs(self.n_jobs),
        )

    def _settle(self, pool: Pool, weights: FloatArray | None, n_rounds: int, seed: int) -> None:
        """Make the members so far into the fitted model."""
        shares = pool.kind_weights(weights)
        self._keep(
            pool.circuit(weights),
            structure_score_=pool.unseen_log_likelihood(weights),
            n_members_={kind: len(pool.members[kind]) for kind in KINDS},
            kind_weights_=dict(zip(KINDS, shares.tolist(), strict=True)),
            n_rounds_=n_rounds,
            seed_=seed,
        )

    def _resume(self, domains: Domains, n_rows: int, seed: int) -> tuple[Pool, int, int]:
        """Go on from a checkpoint, or begin."""
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return Pool(n_rows), 0, seed
        other = load(self.checkpoint)
        pool = getattr(other, "_pool", None)
        if type(other) is not type(self) or pool is None:
            raise ModelFileError(
                f"{os.fspath(self.checkpoint)!r} is not a checkpoint of a {type(self).__name__}; "
                "remove it or name another file"
            )
        if other.circuit_.domains != domains or pool.n_rows != n_rows:
            raise DataError("the checkpoint was made from another table; remove it")
        return pool, other.n_rounds_, other.seed_

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        pool = getattr(self, "_pool", None)
        if state and pool is not None:
            state["pool"] = {
                kind: [pool.members[kind], pool.unseen[kind], pool.n_unseen[kind]] for kind in KINDS
            }
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("pool", None)
        super()._set_state(state)
        if stored is not None:
            parts = {kind: stored[kind] for kind in KINDS}
            n_rows = len(parts["chain"][1])
            self._pool = Pool(
                n_rows,
                {kind: list(part[0]) for kind, part in parts.items()},
                {kind: np.array(part[1], dtype=np.float64) for kind, part in parts.items()},
                {kind: np.array(part[2], dtype=np.int64) for kind, part in parts.items()},
            )
