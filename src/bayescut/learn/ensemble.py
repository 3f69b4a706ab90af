"""Ensembles: averaged samples from the posterior over structures and assignments.

Members are made by several recipes, because none is best everywhere:

* *chains*: mixtures whose rows are assigned by draws from their responsibilities and which are
  relearned at every sweep; the last sweeps of many chains are averaged. The structure prior has its
  full strength in some and less in others,
* *shared* chains: the components of a chain have one structure, narrow or wide, and tables of their
  own (`bayescut.learn.shared`),
* chains of *trees*: their components are the published networks, cuts over spanning trees without
  a structure prior,
* *bags*: single networks on bootstrap samples that look at a random part of the columns for cuts.

Every member leaves rows out (a chain one fold, a bag those not drawn), and the weight of each
recipe is fitted to the rows its members have not seen. The recipe of the largest weight for every
turn it has had makes the next members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from bayescut._typing import FloatArray, IntArray
from bayescut.circuit import Circuit
from bayescut.circuit.build import mixture
from bayescut.data.table import Table
from bayescut.learn.freeze import freeze_cutset
from bayescut.learn.mixture import ComponentLearner, StructuralEM
from bayescut.learn.network import NetworkLearner
from bayescut.learn.rules import RandomGain

BAG = "bag"
# A few weights are fitted: more rows than this would not make them any better.
_MOST_UNSEEN = 20_000
# A recipe that looks useless is tried again now and then: its first member may have been poor.
_LEAST_SHARE = 0.05
# A recipe of less weight is left out of the circuit.
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class StopRule:
    """When the time is up, and whom to tell of progress."""

    deadline: float
    advance: Callable[[float], None]

    def __call__(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline


@dataclass
class Members:
    """Members made by one recipe, and what they predict for the rows they have not seen.

    Attributes
    ----------
    circuits : list of Circuit
        The members.
    unseen : float64 array of shape (n,)
        Logarithm of the summed predictions of the members that have not seen a row.
    n_unseen : int64 array of shape (n,)
        Number of such members.
    n_turns : int
        How often the recipe was followed.
    """

    circuits: list[Circuit]
    unseen: FloatArray
    n_unseen: IntArray
    n_turns: int = 0


@dataclass
class Pool:
    """Members made by all recipes.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    recipes : dict of Members
        By the name of the recipe.
    """

    n_rows: int
    recipes: dict[str, Members] = field(default_factory=dict)

    @classmethod
    def empty(cls, n_rows: int, names: Sequence[str]) -> Pool:
        """A pool without members."""
        return cls(
            n_rows,
            {
                name: Members([], np.full(n_rows, -np.inf), np.zeros(n_rows, dtype=np.int64))
                for name in names
            },
        )

    @property
    def n_members(self) -> int:
        """Number of all members."""
        return sum(len(members.circuits) for members in self.recipes.values())

    def add(
        self, recipe: str, member: Circuit, table: Table, left_out: IntArray, n_jobs: int
    ) -> None:
        """Take in a member that has not seen the rows ``left_out``."""
        members = self.recipes[recipe]
        members.circuits.append(member)
        if len(left_out):
            predicted = member.log_likelihood(table.codes[left_out], n_jobs=n_jobs)
            members.unseen[left_out] = np.logaddexp(members.unseen[left_out], predicted)
            members.n_unseen[left_out] += 1

    def _unseen_rows(
        self, sample_weight: FloatArray | None
    ) -> tuple[list[str], FloatArray, FloatArray]:
        """Recipes that have members, their predictions of unseen rows, and those rows' weights."""
        names = [name for name, members in self.recipes.items() if members.circuits]
        seen_by_none = np.ones(self.n_rows, dtype=bool)
        for name in names:
            seen_by_none &= self.recipes[name].n_unseen > 0
        rows = np.flatnonzero(seen_by_none)
        if len(rows) > _MOST_UNSEEN:
            rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_UNSEEN, replace=False))
        log_p = np.empty((len(names), len(rows)))
        for line, name in zip(log_p, names, strict=True):
            members = self.recipes[name]
            line[:] = members.unseen[rows] - np.log(members.n_unseen[rows])
        return names, log_p, np.ones(len(rows)) if sample_weight is None else sample_weight[rows]

    def unseen_score(self, shares: dict[str, float], sample_weight: FloatArray | None) -> float:
        """Mean log-likelihood of rows under members that have not seen them; NaN without any."""
        names, log_p, weight = self._unseen_rows(sample_weight)
        if not len(weight):
            return float("nan")
        with np.errstate(divide="ignore"):
            log_share = np.log([shares[name] for name in names])
        total = np.logaddexp.reduce(log_p + log_share[:, None], axis=0)
        return float(np.average(total, weights=weight))

    def recipe_weights(self, sample_weight: FloatArray | None) -> dict[str, float]:
        """Weights of the recipes that maximise the likelihood of unseen rows, by EM."""
        names, log_p, weight = self._unseen_rows(sample_weight)
        shares = np.full(len(names), 1.0 / len(names))
        if len(names) > 1 and weight.sum() > 0:
            # Relative to the best recipe of a row: EM on numbers that do not underflow.
            p = np.exp(log_p - log_p.max(axis=0))
            for _ in range(200):
                joint = p * shares[:, None]
                joint /= joint.sum(axis=0)
                before, shares = shares, np.average(joint, axis=1, weights=weight)
                if np.abs(shares - before).max() < 1e-5:
                    break
        found = dict(zip(names, shares.tolist(), strict=True))
        return {name: found.get(name, 0.0) for name in self.recipes}

    def turn_number(self, recipe: str) -> int:
        """Number of a recipe's next turn that no other turn has."""
        return list(self.recipes).index(recipe) + len(self.recipes) * self.recipes[recipe].n_turns

    def next_recipe(self, names: Sequence[str], sample_weight: FloatArray | None) -> str:
        """Which of the recipes is to have the next turn."""
        for name in names:
            if self.recipes[name].n_turns == 0:
                return name
        shares = self.recipe_weights(sample_weight)
        return max(names, key=lambda k: max(shares[k], _LEAST_SHARE) / self.recipes[k].n_turns)

    def circuit(self, shares: dict[str, float]) -> Circuit:
        """All members as one mixture, the recipes weighted by their shares."""
        weights: list[float] = []
        circuits: list[Circuit] = []
        for name, share in shares.items():
            members = self.recipes[name].circuits
            if share > _LEAST_WEIGHT:
                weights.extend([share / len(members)] * len(members))
                circuits.extend(members)
        return mixture(np.array(weights) / np.sum(weights), circuits)


@dataclass(frozen=True)
class EnsembleLearner:
    """Adds members to a pool, a turn at a time.

    Parameters
    ----------
    chains : dict of ComponentLearner
        Learners of the components of chains, by the name of the recipe.
    bags : NetworkLearner
        Learns bagged networks.
    n_components : int
        Components of a chain.
    n_burn, n_keep : int
        Sweeps of a chain that are thrown away (times the sweep factor of its learner), and that
        become members.
    n_folds : int
        Folds of rows; turn t of a recipe for chains leaves out fold t modulo this.
    n_jobs : int
        Threads.
    """

    chains: dict[str, ComponentLearner]
    bags: NetworkLearner
    n_components: int
    n_burn: int
    n_keep: int
    n_folds: int
    n_jobs: int = 1

    def add_chain(
        self,
        pool: Pool,
        recipe: str,
        table: Table,
        labels: IntArray,
        seed: int,
        stop: StopRule,
    ) -> None:
        """Run a chain on all folds but one and keep its last sweeps.

        A chain whose time is up before it has a sweep to keep is given up, if there are others.
        """
        members = pool.recipes[recipe]
        number = pool.turn_number(recipe)
        turn, members.n_turns = members.n_turns, members.n_turns + 1
        fold = np.random.default_rng([seed, 7]).permutation(table.n_rows) % self.n_folds
        out = fold == turn % self.n_folds
        if out.all() or self.n_folds < 2:
            out[:] = False
        left_out = np.flatnonzero(out)
        inside = np.flatnonzero(~out)
        learner = self.chains[recipe]
        n_burn = self.n_burn * learner.sweep_factor
        n_sweeps = n_burn + self.n_keep
        em = StructuralEM(
            learner,
            table.take(inside),
            assignment="sampled",
            n_jobs=self.n_jobs,
            seed=(seed * 1009 + number) % 2**31,
        )
        for sweep, iteration in enumerate(em.run(em.start(labels[inside]))):
            if sweep >= n_burn:
                pool.add(recipe, iteration.circuit, table, left_out, self.n_jobs)
            stop.advance((self.n_burn + self.n_keep) / n_sweeps)
            done = sweep + 1 >= n_sweeps
            if done or (stop() and pool.n_members):
                return

    def add_bags(self, pool: Pool, table: Table, n_bags: int, seed: int, stop: StopRule) -> None:
        """Learn networks on bootstrap samples."""
        members = pool.recipes[BAG]
        turn, members.n_turns = members.n_turns, members.n_turns + 1
        n = table.n_rows

        def learn(i: int) -> tuple[Circuit, IntArray] | None:
            if stop() and pool.n_members:
                return None
            rng = np.random.default_rng([seed, 11, turn, i])
            rows = np.sort(rng.integers(0, n, n)).astype(np.int32)
            learner = replace(self.bags, candidates=RandomGain(0.2, 3, rng), n_jobs=1)
            root = learner.learn(table, rows)
            seen = np.zeros(n, dtype=bool)
            seen[rows] = True
            return freeze_cutset(root, table.domains), np.flatnonzero(~seen)

        with ThreadPoolExecutor(self.n_jobs) as executor:
            for found in executor.map(learn, range(n_bags)):
                if found is not None:
                    pool.add(BAG, found[0], table, found[1], self.n_jobs)
                stop.advance(1)
