"""Ensembles: averaged samples from the posterior over structures and assignments.

Members are made by several recipes, because none is best everywhere:

* the single *network* of all rows, the first member,
* *chains*: mixtures whose rows are assigned by draws from their responsibilities and which are
  relearned at every sweep; the last sweeps of many chains are averaged. The structure prior has its
  full strength in some and less in others,
* *gaussian* chains: the numbers of a component are jointly Gaussian
  (`bayescut.learn.mixture.gaussian`),
* *shared* chains: the components of a chain have one structure, narrow or wide, and tables of their
  own (`bayescut.learn.mixture.shared`),
* chains of *trees*: their components are the published networks, cuts over spanning trees without
  a structure prior,
* chains of a few *networks*: their components are cut, too, which tables of labels ask for, and so
  do tables with a few hidden classes,
* *bags*: single networks on bootstrap samples that look at a random part of the columns for cuts,
* *repeats*: the rows that were there, each as likely as it came again (`repeats`),
* *continuous* mixtures of trees or of wide structures (`bayescut.learn.continuous.learner`).

Every member but the first sees numbers in cells of its own, and missing cells in draws of its own
(`own_tables`). It leaves rows out (a chain one fold, a bag those not drawn), and the weight of each
recipe is fitted to the rows its members have not seen (`pool`). Then chains and continuous members
have a last step with all rows: validation after 80 s of dna -77.20 without and -75.46 with it, of
accidents -26.06 and -26.04. The single network sees all rows; it is judged by what it makes of all
folds but one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayescut._clock import working_time
from bayescut._typing import IntArray
from bayescut.circuit import Circuit
from bayescut.data.table import Table
from bayescut.learn.components import ComponentLearner
from bayescut.learn.continuous.learner import ContinuousLearner, TooLong, learn_member
from bayescut.learn.continuous.rows import Rows
from bayescut.learn.cutset.freeze import freeze_cutset, freeze_network
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import RandomGain
from bayescut.learn.ensemble.clock import Clock, OutOfTime, watched
from bayescut.learn.ensemble.copies import Copies
from bayescut.learn.ensemble.own_tables import OwnTables
from bayescut.learn.ensemble.pool import BAG, NETWORK, REPEATS, Members, Pool
from bayescut.learn.ensemble.repeats import repeats_circuit, unseen_logs
from bayescut.learn.leaves.spare import with_spare
from bayescut.learn.mixture.em import StructuralEM
from bayescut.learn.mixture.start import KMeansStart

# Bags of one turn. Not the number of threads, on which the result must not depend.
_BAGS_OF_A_TURN = 4
# Numbers of the bags' own tables, beyond those of the chains'.
_FIRST_BAG = 1 << 20
# Rows looked at for each cluster a chain starts from. The sweeps forget the start: validation of
# book after k-means on all rows -32.94, on these -32.88, in a third of the time.
_ROWS_OF_A_CLUSTER = 50
# Rows that tell the single network from what is averaged; with fewer, more folds are learned.
_ENOUGH_ROWS = 2000
# Rows times columns squared from which a part of the rows says first how long a network takes.
# All rows took 5.5 times as long as an eighth of them on bbc, 4.5 times on baudio.
_LARGE_TABLE = 5e8
_PART_OF_A_LARGE_TABLE = 8
_TIMES_THE_PART = 5.5
# Sweeps of all folds but one that a sweep of all rows takes, with something to spare.
_SWEEP_OF_ALL = 1.3
# A chain has at least so many components, however short the time.
_FEWEST_COMPONENTS = 2
# Most points of a continuous member and most cells of their tables, the part of its rows that it
# holds out, and the part of its time that it may plan with.
_POINTS = 4096
_CELLS = 2**22
_HELD_OUT = 0.1
_PART_FOR_LEARNING = 0.9
# Epochs without which learning one is not worth while.
_FEWEST_EPOCHS = 8
# What a cell of the different rows takes to be kept: plants 0.7 s, bbc 1.3 s, msweb 2.9 s.
_SECONDS_OF_A_REPEATED_CELL = 1e-6


class Chains(NamedTuple):
    """A recipe for chains.

    Attributes
    ----------
    learner : ComponentLearner
        Learns the components.
    n_components : int
        How many there are.
    n_burn : int
        Sweeps that are thrown away.
    """

    learner: ComponentLearner
    n_components: int
    n_burn: int


@dataclass(frozen=True)
class EnsembleLearner:
    """Adds members to a pool, a turn at a time.

    Parameters
    ----------
    single : NetworkLearner or None
        Learns the single network.
    chains : dict of Chains
        What chains are made of, by the name of the recipe.
    bags : NetworkLearner
        Learns bagged networks.
    continuous : dict of ContinuousLearner
        Learners of continuous members, by the name of the recipe.
    n_keep : int
        Sweeps of a chain that become members.
    steps_of_a_turn : int
        What a turn counts for in the progress of the whole.
    n_chains, n_bags : int
        Most turns of recipes that leave out folds, and most bags.
    repeats : bool
        Whether rows that came again are kept.
    n_jobs : int
        Threads.
    """

    single: NetworkLearner | None
    chains: dict[str, Chains]
    bags: NetworkLearner
    continuous: dict[str, ContinuousLearner]
    n_keep: int
    steps_of_a_turn: int
    n_chains: int
    n_bags: int
    repeats: bool = True
    n_jobs: int = 1

    @property
    def recipes(self) -> list[str]:
        """Names of all recipes, in the order of their first turns."""
        first = [] if self.single is None else [NETWORK]
        repeats = [REPEATS] if self.repeats else []
        return [*first, *repeats, *self.chains, BAG, *self.continuous]

    def turns(
        self, pool: Pool, copies: Copies, tables: OwnTables, seed: int, clock: Clock
    ) -> Iterator[str]:
        """Add members until there are as many as asked for, or the time is up.

        Yields the recipe of each turn. Under a clock every recipe first gets a part of the time
        that leaves half of it, and no turn is begun that is not expected to end in time; a chain
        that is broken off has its last circuit for a member if there was no longer one. The first
        turn ends with a member whatever the clock says.

        Parameters
        ----------
        pool : Pool
            Changed in place.
        copies : Copies
            What members are judged by.
        tables : OwnTables
            The same rows as each member sees them.
        seed : int
            Seed of everything. What a turn makes depends on nothing but this, its recipe and its
            number, but for the clock.
        clock : Clock
            Says when the time is up.
        """
        weights = copies.table.weights
        clusters: KMeansStart | None = None
        folds = copies.folds(seed)
        if self.repeats:
            pool.recipes[REPEATS].expected = (
                _SECONDS_OF_A_REPEATED_CELL * copies.n_different * copies.table.n_columns
            )
        sizes = {name: chains.n_components for name, chains in self.chains.items()}
        while True:
            recipes = self._open(pool, clock)
            if not recipes:
                return
            recipe = pool.next_recipe(recipes, weights, by_cost=clock.keeps_time)
            if pool.recipes[recipe].n_turns and self._network_is_due(pool, copies.n_folds, clock):
                recipe = NETWORK
            members = pool.recipes[recipe]
            turn_clock = clock
            if clock.keeps_time and members.n_turns == 0 and pool.n_members:
                unjudged = sum(pool.recipes[name].n_turns == 0 for name in recipes)
                turn_clock = clock.within(clock.left / (2 * unjudged))
                seconds = {BAG: self._bag_seconds(pool), REPEATS: members.expected}
                if seconds.get(recipe, math.inf) <= clock.left / 2:
                    turn_clock = clock  # it cannot be made smaller
            left_out = np.flatnonzero(folds == self._fold(recipe, members) % copies.n_folds)
            if len(left_out) == copies.table.n_rows:
                left_out = left_out[:0]
            began = working_time()
            if recipe == NETWORK:
                self._add_network(pool, copies, tables, left_out, clock)
            elif recipe == REPEATS:
                _add_repeats(pool, copies, folds, turn_clock)
            elif recipe == BAG:
                self._add_bags(pool, copies, tables, seed, turn_clock)
            elif recipe in self.continuous:
                self._add_continuous(pool, recipe, copies, tables, left_out, seed, turn_clock)
            else:
                if clusters is None:
                    most = max(chains.n_components for chains in self.chains.values())
                    clusters = KMeansStart(tables.plain.table, most)
                size = sizes[recipe]
                fitting = self._add_chain(
                    pool, recipe, copies, tables, left_out, clusters, size, seed, turn_clock
                )
                whole = self.chains[recipe].n_components
                if size == whole and _FEWEST_COMPONENTS <= fitting < size:
                    sizes[recipe] = fitting
                    members.expected = 0.0
                    continue
            members.n_turns += 1
            members.seconds += working_time() - began
            yield recipe
            if clock.up() and pool.n_members:
                return

    def _fold(self, recipe: str, members: Members) -> int:
        """Number of the fold that a recipe leaves out next.

        Turns that made nothing do not count: what is judged by other rows than the rest cannot be
        compared with it.
        """
        if recipe == NETWORK:
            return members.n_turns
        return len(members.circuits) // (1 if recipe in self.continuous else self.n_keep)

    # ---------------------------------------------------------------- whose turn it is

    def _open(self, pool: Pool, clock: Clock) -> list[str]:
        """Recipes that have members left to make, and the time for one."""
        if self.single is not None:
            network = pool.recipes[NETWORK]
            if not network.circuits:
                return [NETWORK]
            if clock.keeps_time and not network.n_unseen.any():
                return []  # nothing could tell that anything is better
        by_folds = [name for name in pool.recipes if name not in (NETWORK, REPEATS, BAG)]
        more = sum(pool.recipes[name].n_turns for name in by_folds) < self.n_chains
        # Those with cheap sweeps first: wide tables may have no time for the others.
        cheap = [name for name, chains in self.chains.items() if chains.learner.sweep_factor > 1]
        recipes = list(cheap) if more else []
        # It is no model by itself: most rows are impossible to it.
        if self.repeats and pool.n_members and not pool.recipes[REPEATS].n_turns:
            recipes.insert(0, REPEATS)
        if len(pool.recipes[BAG].circuits) < self.n_bags:
            recipes.append(BAG)
        if more:
            recipes += [name for name in self.chains if name not in cheap]
            recipes += self.continuous
        if not clock.keeps_time or not pool.n_members:
            return recipes
        return [name for name in recipes if pool.recipes[name].expected <= clock.left]

    def _network_is_due(self, pool: Pool, n_folds: int, clock: Clock) -> bool:
        """Whether the single network has to be judged by another fold."""
        if self.single is None:
            return False
        network = pool.recipes[NETWORK]
        others = [members for name, members in pool.recipes.items() if name != NETWORK]
        return (
            network.n_turns < min(max(members.n_turns for members in others), n_folds)
            and int(np.count_nonzero(network.n_unseen)) < min(_ENOUGH_ROWS, pool.n_rows)
            and network.expected <= clock.left / 4
        )

    # ---------------------------------------------------------------- turns

    def _add_network(
        self, pool: Pool, copies: Copies, tables: OwnTables, left_out: IntArray, clock: Clock
    ) -> None:
        """Learn the single network of all rows, once, and one that has not seen a fold."""
        assert self.single is not None
        own, members = tables.plain, pool.recipes[NETWORK]
        table = own.table
        every = np.arange(table.n_rows, dtype=np.int32)
        if not members.circuits:
            learner = self.single
            if clock.keeps_time and table.n_rows * table.n_columns**2 > _LARGE_TABLE:
                began = working_time()
                learner.learn(table, every[::_PART_OF_A_LARGE_TABLE].copy())
                if (working_time() - began) * _TIMES_THE_PART > clock.left:
                    learner = replace(learner, width=1, candidates=None)  # the smallest member
            began = working_time()
            circuit = freeze_network(learner.learn(table, every), table)
            members.circuits.append(own.restore(circuit))
            members.expected = working_time() - began
            clock.advance(1)
            if learner is not self.single or members.expected > clock.left / 2:
                return
        if len(left_out):
            inside = np.delete(every, left_out)
            circuit = freeze_network(self.single.learn(table, inside), table.take(inside))
            members.judge(own.restore(circuit), copies.table, left_out, self.n_jobs)
            clock.advance(0)

    def _add_chain(
        self,
        pool: Pool,
        recipe: str,
        copies: Copies,
        tables: OwnTables,
        left_out: IntArray,
        clusters: KMeansStart,
        size: int,
        seed: int,
        clock: Clock,
    ) -> int:
        """Run a chain of some components on all folds but one and keep its last sweeps.

        Returns the number of components there is time for, which is less than ``size`` where the
        first ones have shown that not even one sweep would end in time.
        """
        members = pool.recipes[recipe]
        inside = np.delete(np.arange(copies.table.n_rows), left_out)
        number = pool.turn_number(recipe)
        own = tables.draw(number)
        seen = own.table.take(inside)
        learner, _, n_burn = self.chains[recipe]
        n_sweeps = n_burn + self.n_keep
        began = last = working_time()
        circuit: Circuit | None = None
        kept = sweep = 0
        pace = _Pace(clock, size, self.n_jobs)
        try:
            labels = clusters.labels(size, seed + number, most_rows=_ROWS_OF_A_CLUSTER * size)
            if pool.n_members:
                clock.check()
            em = StructuralEM(
                watched(learner, clock) if pool.n_members else learner,
                seen,
                assignment="sampled",
                n_jobs=self.n_jobs,
                seed=(seed * 1009 + number) % 2**31,
                check=pace.check if clock.keeps_time and pool.n_members else None,
            )
            pace.begin()
            for sweep, iteration in enumerate(em.run(em.start(labels[inside])), start=1):
                circuit = iteration.circuit
                pace.known = True
                now = working_time()
                seconds, last = now - last, now
                if sweep > n_burn:
                    judged = own.restore(with_spare(circuit, seen))
                    members.judge(judged, copies.table, left_out, self.n_jobs)
                    whole = circuit
                    # A sweep with the rows left out, too. If there is no time for it, the member
                    # has not seen them.
                    if len(left_out) and seconds * _SWEEP_OF_ALL < clock.left:
                        every = StructuralEM(
                            em.learner, own.table, assignment="sampled", n_jobs=self.n_jobs,
                            seed=em.seed, check=em.check,
                        )  # fmt: skip
                        with suppress(OutOfTime):
                            whole = every.step(circuit, n_sweeps + sweep)
                    members.circuits.append(own.restore(with_spare(whole, own.table)))
                    kept += 1
                    last = working_time()
                clock.advance(self.steps_of_a_turn / n_sweeps)
                if sweep >= n_sweeps or (pool.n_members and clock.left < seconds):
                    break
        except OutOfTime:
            pass
        if kept == 0 and circuit is not None and sweep >= members.n_sweeps:
            circuit = own.restore(with_spare(circuit, seen))
            pool.add(recipe, circuit, copies.table, left_out, self.n_jobs)
            kept = 1
        _learn_the_cost(members, max(working_time() - began, pace.expected / 2), kept > 0)
        if kept and members.n_sweeps == 0:
            members.n_sweeps = sweep
        return size if kept else pace.fitting

    def _add_bags(
        self, pool: Pool, copies: Copies, tables: OwnTables, seed: int, clock: Clock
    ) -> None:
        """Learn networks on bootstrap samples."""
        members = pool.recipes[BAG]
        turn = members.n_turns
        n_bags = min(self.n_bags - len(members.circuits), _BAGS_OF_A_TURN)
        expected = self._bag_seconds(pool)
        if clock.keeps_time and expected > 0:
            in_time = int(clock.left / expected) * self.n_jobs
            n_bags = min(n_bags, max(in_time, 1))
        may_stop = clock.keeps_time and pool.n_members > 0

        def learn(i: int) -> tuple[Circuit, IntArray, float] | None:
            began = working_time()
            rng = np.random.default_rng([seed, 11, turn, i])
            bag, rows, unseen = copies.bag(rng)
            own = tables.draw(_FIRST_BAG + turn * _BAGS_OF_A_TURN + i)
            table = own.table.with_weights(bag.weights)
            learner = replace(self.bags, candidates=RandomGain(0.2, 3, rng), n_jobs=1)
            try:
                root = (watched(learner, clock) if may_stop else learner).learn(table, rows)
            except OutOfTime:
                return None
            circuit = own.restore(freeze_cutset(root, table.domains))
            return circuit, unseen, working_time() - began

        slowest, n_made = 0.0, 0
        began = working_time()
        with ThreadPoolExecutor(self.n_jobs) as executor:
            for found in executor.map(learn, range(n_bags)):
                if found is not None:
                    circuit, unseen, seconds = found
                    pool.add(BAG, circuit, copies.table, unseen, self.n_jobs)
                    slowest, n_made = max(slowest, seconds), n_made + 1
                clock.advance(1)
        _learn_the_cost(members, slowest if n_made else working_time() - began, n_made > 0)

    def _bag_seconds(self, pool: Pool) -> float:
        """Time that a bag takes in a thread of its own, as far as is known."""
        if pool.recipes[BAG].expected or self.single is None:
            return pool.recipes[BAG].expected
        return pool.recipes[NETWORK].expected * self.n_jobs

    def _add_continuous(
        self,
        pool: Pool,
        recipe: str,
        copies: Copies,
        tables: OwnTables,
        left_out: IntArray,
        seed: int,
        clock: Clock,
    ) -> None:
        """Learn a continuous mixture of all folds but one; part of them says when to stop."""
        learner, members = self.continuous[recipe], pool.recipes[recipe]
        number = pool.turn_number(recipe)
        own = tables.draw(number)
        table = own.table
        # The first turn of all ends with a member, however short the time.
        may_stop = clock.keeps_time and pool.n_members > 0
        if may_stop and members.expected == 0.0:
            members.expected = _continuous_seconds(learner, table)
            if members.expected > clock.left:
                return
            members.expected = 0.0
        began = working_time()
        number = (seed * 1009 + number) % 2**31

        def rows(which: IntArray) -> Rows:
            weights = None if table.weights is None else table.weights[which]
            return Rows.of(table.codes[which], weights)

        inside = rows(np.delete(np.arange(table.n_rows), left_out))
        train, held = inside.split(_HELD_OUT, np.random.default_rng([number, 9]))
        try:
            judged, member = learn_member(
                replace(learner, seed=number),
                train,
                held,
                rows(left_out),
                table.domains,
                n_points=_POINTS,
                most_cells=_CELLS,
                n_jobs=self.n_jobs,
                time_left=_PART_FOR_LEARNING * clock.left if clock.keeps_time else math.inf,
                fewest_epochs=_FEWEST_EPOCHS if may_stop else 0,
            )
        except TooLong as error:
            members.expected = working_time() - began + error.seconds
            return
        members.judge(own.restore(judged), copies.table, left_out, self.n_jobs)
        members.circuits.append(own.restore(member))
        clock.advance(self.steps_of_a_turn)
        _learn_the_cost(members, working_time() - began, made=True)


def _add_repeats(pool: Pool, copies: Copies, folds: IntArray, clock: Clock) -> None:
    """Keep the rows that came again; judge them by what other folds know of each fold."""
    members = pool.recipes[REPEATS]
    known = unseen_logs(copies, folds)
    if known is None:
        return
    with suppress(OutOfTime):
        circuit = repeats_circuit(copies, clock.check)
        if circuit is not None:
            members.circuits.append(circuit)
            inside = 0.0 if copies.table.values is None else copies.table.log_inside
            members.unseen[:] = known + inside
            members.n_unseen[:] = 1


class _Pace:
    """Breaks a sweep off as soon as its first components show that it would not end in time."""

    def __init__(self, clock: Clock, size: int, n_jobs: int) -> None:
        self.clock, self.size, self.n_jobs = clock, size, n_jobs
        self.known = False
        self.n_begun = 0
        self.expected = 0.0
        self.fitting = 0
        self.begin()

    def begin(self) -> None:
        """Take note of the time before the first component."""
        self.began = working_time()

    def check(self) -> None:
        """Raise `OutOfTime` if the sweep cannot end in time; called before every component."""
        self.clock.check()
        self.n_begun += 1
        n_done = self.n_begun - self.n_jobs
        if self.known or n_done < 1:
            return
        now = working_time()
        self.expected = (now - self.began) * self.size / n_done
        allowed = self.clock.deadline - self.began
        if self.expected > allowed:
            # Fewer components have more rows each, and what is gone is gone.
            self.fitting = int(0.5 * self.size * (self.clock.deadline - now) / self.expected)
            raise OutOfTime


def _continuous_seconds(learner: ContinuousLearner, table: Table) -> float:
    """Time that a continuous member takes at least, by a product of the matrices of a tree."""
    n_cells = int((table.sizes**2).sum())
    rows = np.ones((learner.batch, n_cells), dtype=np.float32)
    points = np.ones((n_cells, learner.n_points), dtype=np.float32)
    rows[:1] @ points  # wakes the threads
    began = working_time()
    rows @ points
    # Forwards, and backwards by points and by cells.
    step = 3 * (working_time() - began)
    return _FEWEST_EPOCHS * step * max(min(table.n_rows, 2**15) / learner.batch, 16)


def _learn_the_cost(members: Members, seconds: float, made: bool) -> None:
    """Take note of the least that a turn takes; one that was broken off would have taken more."""
    if not made:
        members.expected = max(members.expected, 2 * seconds)
    elif members.expected == 0.0 or members.n_sweeps == 0:
        members.expected = max(members.expected, seconds)
    else:
        members.expected = min(members.expected, seconds)
