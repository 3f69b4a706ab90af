"""Averaged posterior samples: the best density the library knows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayescut._clock import working_time
from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut._typing import IntArray
from bayescut.circuit import Circuit
from bayescut.data.table import Table
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._compress import Compressible
from bayescut.estimators._cutset import CutsetNetwork
from bayescut.estimators._validation import (
    check_count,
    check_number,
    check_size,
    check_width,
    draw_seed,
)
from bayescut.exceptions import ModelFileError
from bayescut.files import save
from bayescut.learn.components import ComponentLearner
from bayescut.learn.continuous.learner import ContinuousLearner
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.ensemble.clock import Clock
from bayescut.learn.ensemble.copies import Copies
from bayescut.learn.ensemble.learner import Chains, EnsembleLearner
from bayescut.learn.ensemble.own_tables import OwnTables
from bayescut.learn.ensemble.pool import BAG, Members, Pool
from bayescut.learn.leaves.normal import smooth_columns
from bayescut.learn.mixture.gaussian import NormalLearner
from bayescut.learn.mixture.shared import SharedLearner
from bayescut.learn.tables.resolution import choose_depth, coarser_domains
from bayescut.scores.base import BayesDirichlet
from bayescut.scores.prior import StructurePrior

# Equivalent sample size of chains of trees, the published one. Small on purpose: where two columns
# are constant in a component, it says that their rare states come together.
_TREES_ESS = 0.1
# They go on settling for longer than those of many uncut components. One member after 3, 10 and 20
# sweeps, validation, 4 components: chess -11.36, -11.29, -11.28, phishing -12.23, -12.18; where
# hidden classes make the rows nothing changes after the start.
_SWEEPS_OF_NETWORKS = 3
# Components from which chains of few networks are something else.
_MANY_COMPONENTS = 10
# A checkpoint has all members. The next one waits this many times as long as the last one took, so
# that saving costs a tenth of the time at most however many members there are.
_REST_FROM_SAVING = 9.0
# A row is unseen by an eighth of the chains. Fewer folds make the weights of recipes surer and the
# chains worse: dna -78.79 with 4, -78.63 with 8, -78.54 with all rows.
_N_FOLDS = 8
# Most parents of a column that stands beside Gaussian numbers.
_BESIDE_NUMBERS = 2
# Seconds from which there is time for continuous members among the others.
_CONTINUOUS_BUDGET = 60.0
# Most parents of a column in continuous members. Validation of one of each and of the two averaged:
# accidents -28.19, -25.79, -25.79, plants -12.36, -12.24, -12.20, jester -51.79, -51.95, -51.72,
# bnetflix -54.90, -54.90, -54.77, tretail -10.787, -10.764, -10.754.
_CONTINUOUS_WIDTHS = (1, 8)
# Part of a time budget after which the network is not asked about more numbers of cells.
_RESOLVING = 0.1


class CutsetEnsemble(Compressible):
    r"""Average of posterior samples over structures: our best density, as one circuit.

    Members made by several recipes are averaged. *Chains* are mixtures of thin junction trees whose
    rows are assigned to components by draws from their responsibilities; structures are relearned
    at every sweep, and the last sweep of many independent chains is kept. In *shared* chains all
    components have one structure, learned from a bootstrap sample, and tables of their own, which
    lean on those of components that are alike; in
    chains of *trees* they are networks as `CNetBD` learns them, in chains of *networks*, which have
    a few components, as `CutsetNetwork` does. *Bags* are single cutset networks
    on bootstrap samples, and *continuous* members mixtures of trees over a latent variable. In
    *gaussian* chains the numbers of a component are jointly Gaussian, each regressed on some of the
    others. The first member is the single network of all rows. Every other member sees numbers in
    cells of its own and missing cells in draws of its own, and is judged by rows it was made
    without: the weights of the recipes maximise the likelihood of what is observed of these; no
    validation set is needed. Then chains have a last sweep, and continuous members a last stretch,
    with all rows. Recipes of a large weight for their cost make more members.

    A weight of k is a row given k times, exactly.

    Parameters
    ----------
    n_chains : int or None, default=None
        Number of independent chains. More are better, with diminishing returns. None: 40, or with
        a time budget up to 160.
    n_components : int or None, default=None
        Components of each chain; None: one for every 100 rows (every 40 in shared chains), 5 at
        least and 60 at most, or one for every 1000 rows up to 200 if that is more.
    n_burn, n_keep : int, default=3 and 1
        Sweeps of a chain that are thrown away, and that are kept: each of these is judged by the
        rows left out, and its member is what one more sweep with all rows makes of it.
    prior_scales : sequence of float, default=(1.0, 0.5)
        Strengths of the structure prior (`bayescut.scores.StructurePrior`); each is a recipe for
        chains of its own.
    shared_widths : sequence of int, default=(1, 8)
        Most parents of a column in chains whose components share one structure; each is a recipe
        for chains of its own. Their sweeps are cheap, and three times as many are thrown away.
    trees : bool, default=True
        Whether there are chains of components as `CNetBD` learns them: cuts over spanning trees,
        without a structure prior. Tables with hundreds of nearly constant columns need them
        (validation of ad in 30 s: -15.70 without, -14.27 with), others hardly notice.
    few_networks : bool, default=True
        Whether there are chains of a few components that are cut as `CutsetNetwork` is, the third
        root of ``n_components`` in some and its square in others, if that is ten or more.
    repeats : bool, default=True
        Whether rows that came again are kept as they were, for tables in which rows come again: a
        row that was there is then as likely as that is worth to rows left out. Such a model holds
        rows of the table, those given once among them; ``False`` keeps none.
    network : bool, default=True
        Whether the single network, as `CutsetNetwork` learns it from all rows, is the first member.
        If rows that had no part in learning say that nothing is gained by averaging, it is the
        model.
    gaussian : bool, default=True
        Whether there are chains whose components have Gaussian leaves, for tables with two numbers
        or more that vary smoothly. Evidence that several such numbers lie in intervals is
        integrated numerically then, to about 1e-4.
    continuous : bool or None, default=None
        Whether some members are continuous mixtures, as `ContinuousMixture` learns them, of up to
        4,096 points: of trees, and of structures with up to eight parents. None: if there is a time
        budget of 60 seconds or more.
    n_bags : int or None, default=None
        Number of bagged networks. None: 80, or with a time budget up to 320.
    width : int, default=4
        Most parents of a column in a leaf.
    ess : float, default=1.0
        Equivalent sample size of every node.
    shrinkage : bool, default=True
        Shrink the tables of components and leaves towards the rows outside them; see
        `CutsetNetwork`.
    time_budget : float or None, default=None
        Seconds after which learning stops with what it has (those that a first run takes to compile
        kernels are not counted); at least one member is learned. Nothing
        is begun that is not expected to end in time. Every recipe gets a small part of the time
        first, with shorter chains if need be.
    checkpoint : path or None, default=None
        File to which the ensemble is saved between turns of a chain or four bags: after each while
        that is quick, in a tenth of the time once it is large. If it exists, `fit` adds the members
        that are missing to it.
    random_state : int, Generator or None, default=None
        Seed.
    identifiers, n_states, columns, missing, unseen, n_jobs, verbose
        See `CutsetNetwork`. Without a time budget the result does not depend on the number of
        threads.

    Attributes
    ----------
    circuit_ : Circuit
        The ensemble as one circuit, a mixture: every query is exact but the most probable
        completion, which is the usual approximation.
    n_members_ : dict
        Number of members made by each recipe: ``"network"``, ``"chain 1"`` and ``"chain 0.5"`` for
        chains under these strengths of the prior, ``"shared 1"`` and ``"shared 8"`` for chains of
        one structure of these widths, ``"gaussian"``, ``"trees"``, ``"networks 4"`` and
        ``"networks 15"`` for so many components, ``"bag"``, ``"repeats"``, and, of these widths,
        ``"continuous 1"`` and ``"continuous 8"``.
    recipe_weights_ : dict
        Weights of the recipes. Those below 0.001 are not part of the circuit.
    oob_score_ : float
        Mean log-likelihood of the training rows under members as they were made without them, of
        those rows that have such members of all recipes in the circuit; NaN if there are none. The
        recipes are weighted by other rows than those that are scored. A cautious estimate of
        `score` on new rows: every row is judged by some of the members only.
    n_parameters_ : int

    Examples
    --------
    >>> from bayescut import CutsetEnsemble
    >>> X = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]] * 30
    >>> model = CutsetEnsemble(n_chains=5, n_bags=2, random_state=0).fit(X)
    >>> {recipe: n for recipe, n in model.n_members_.items() if n > 0}
    {'network': 1, 'repeats': 1, 'chain 1': 1, 'chain 0.5': 1, 'shared 1': 1, 'shared 8': 1,
    'trees': 1, 'bag': 2}
    """

    _state_names = ("oob_score_", "n_members_", "recipe_weights_", "seed_")

    _takes_gaps = True
    _max_cells = 64

    oob_score_: float
    n_members_: dict[str, int]
    recipe_weights_: dict[str, float]
    seed_: int

    _may_change = (*CircuitEstimator._may_change, "n_bags", "n_chains", "time_budget")

    def __init__(
        self,
        n_chains: int | None = None,
        n_components: int | None = None,
        *,
        n_burn: int = 3,
        n_keep: int = 1,
        prior_scales: Sequence[float] = (1.0, 0.5),
        shared_widths: Sequence[int] = (1, 8),
        trees: bool = True,
        few_networks: bool = True,
        repeats: bool = True,
        network: bool = True,
        gaussian: bool = True,
        continuous: bool | None = None,
        n_bags: int | None = None,
        width: int = 4,
        ess: float = 1.0,
        shrinkage: bool = True,
        time_budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        identifiers: str = "independent",
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.n_chains = n_chains
        self.n_components = n_components
        self.n_burn = n_burn
        self.n_keep = n_keep
        self.prior_scales = prior_scales
        self.shared_widths = shared_widths
        self.trees = trees
        self.few_networks = few_networks
        self.repeats = repeats
        self.network = network
        self.gaussian = gaussian
        self.continuous = continuous
        self.n_bags = n_bags
        self.width = width
        self.ess = ess
        self.shrinkage = shrinkage
        self.time_budget = time_budget
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.identifiers = identifiers
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, table: Table) -> Circuit:
        depth, began = self.__dict__.pop("_resolved")
        deadline = math.inf if self.time_budget is None else began + self.time_budget
        learner = self._ensemble_learner(table.total_weight(), smooth_columns(table))
        if learner.n_chains + learner.n_bags == 0:
            raise ValueError("n_chains and n_bags must not both be 0")
        if not (learner.single or learner.chains or learner.continuous or learner.n_bags):
            raise ValueError(
                "chains of few networks need ten components: ask for other members, too, or for "
                "n_components=10"
            )
        if self.checkpoint is not None:
            self._begin_checkpoint(self.checkpoint, table)
        copies = Copies.of(table, _N_FOLDS)
        # No more than a quarter of the time for gaps: a short run is better off with more members.
        tables = OwnTables(
            copies.table,
            depth,
            self._gap_seed(),
            n_jobs=learner.n_jobs,
            deadline=deadline - 0.75 * (self.time_budget or 0.0),
        )
        pool, seed = self._resume(copies.table.n_rows, learner.recipes)
        save_at = math.inf if self.checkpoint is None else -math.inf
        n_steps = learner.n_chains * learner.steps_of_a_turn
        total = n_steps + learner.n_bags + 1 if self.time_budget is None else self.time_budget
        try:
            with progress(type(self).__name__, total, self.verbose) as advance:
                clock = Clock(deadline, _told_the_time(advance) if self.time_budget else advance)
                for _ in learner.turns(pool, copies, tables, seed, clock):
                    if pool.n_members and working_time() >= save_at:
                        began = working_time()
                        self._settle(pool, copies, seed)
                        self._save_checkpoint(pool)
                        now = working_time()
                        save_at = now + _REST_FROM_SAVING * (now - began)
        finally:  # an interrupted run leaves what it has
            if pool.n_members:
                self._settle(pool, copies, seed)
        self._save_checkpoint(pool)
        return self._learned

    def _resolve(self, table: Table) -> Table:
        """See `CircuitEstimator._resolve`: members see coarser cells, each its own."""
        began, deadline = working_time(), math.inf
        if self.time_budget is not None:
            budget = check_number("time_budget", self.time_budget, strict=True)
            deadline = began + _RESOLVING * budget
        depth = choose_depth(self._dependent(table), self._worth(), deadline)
        self._resolved = depth, began
        seen = table.domains
        if depth is not None:
            seen = coarser_domains(seen, depth)
        check_size(seen, self._identifiers(seen, round(table.total_weight())))
        return table

    def _resolver(self) -> NetworkLearner:
        return self._single(count_jobs(self.n_jobs))

    def _single(self, n_jobs: int) -> NetworkLearner:
        """Learner of the member that is a network by itself."""
        alone = CutsetNetwork(ess=self.ess, shrinkage=self.shrinkage, gaussian=self.gaussian)
        return alone._learner(n_jobs)

    def _check_settings(self) -> None:
        super()._check_settings()
        self._ensemble_learner(1.0)

    def _ensemble_learner(self, n_rows: float, numbers: IntArray | None = None) -> EnsembleLearner:
        size = shared_size = self.n_components
        if size is None:
            # Large tables bear more (validation of kdd -2.331 with 200, -2.336 with 60), others
            # do not: 33,000 rows of kosarek have -10.797 with 60 and -10.818 with 120.
            size = _n_components(n_rows, 100)
            # Groups to lean on let small tables have more: validation of a few chains with one for
            # 100 rows and one for 40, dna -78.56 and -77.99, bbc -239.1 and -237.0.
            shared_size = _n_components(n_rows, 40)
        more = 1 if self.time_budget is None else 4
        n_chains = 40 * more if self.n_chains is None else self.n_chains
        n_bags = 80 * more if self.n_bags is None else self.n_bags
        scales = list(self.prior_scales)
        widths = [check_width("shared_widths", width) for width in self.shared_widths]
        if len(set(scales)) < len(scales):
            raise ValueError(f"prior_scales must be different numbers, got {self.prior_scales!r}")
        if len(set(widths)) < len(widths):
            raise ValueError(f"shared_widths must be different numbers, got {self.shared_widths!r}")
        continuous = self.continuous
        if continuous is None:
            continuous = self.time_budget is not None and self.time_budget >= _CONTINUOUS_BUDGET
        if not (scales or widths or self.trees or self.few_networks or continuous):
            raise ValueError(
                "prior_scales, shared_widths, trees, few_networks and continuous must not all be "
                "empty"
            )
        score = BayesDirichlet(self.ess, divide=False)
        width = check_width("width", self.width)
        shrink = bool(self.shrinkage)
        n_jobs = count_jobs(self.n_jobs)
        n_burn = check_count("n_burn", self.n_burn, low=0)
        n_keep = check_count("n_keep", self.n_keep)
        size = check_count("n_components", size)
        shared_size = check_count("n_components", shared_size)
        chains: dict[str, Chains] = {}

        def add(name: str, learner: ComponentLearner, size: int, sweep_factor: int = 1) -> None:
            chains[name] = Chains(learner, size, n_burn * learner.sweep_factor * sweep_factor)

        if numbers is not None and len(numbers) > 1 and self.gaussian:
            beside = SharedLearner(score, StructurePrior(), _BESIDE_NUMBERS, shrink=shrink)
            add("gaussian", NormalLearner(beside, StructurePrior(), numbers), size)
        for scale in scales:
            prior = StructurePrior(scale=scale)
            uncut = NetworkLearner(score, prior, width, candidates=None, shrink=shrink)
            add(f"chain {scale:g}", uncut, size)
        for most in widths:
            alike = SharedLearner(score, StructurePrior(), most, shrink=shrink)
            add(f"shared {most}", alike, shared_size)
        if self.trees:
            add("trees", CutsetLearner(BayesDirichlet(_TREES_ESS)), size)
        if self.few_networks:
            cut = NetworkLearner(score, StructurePrior(), width, shrink=shrink)
            for few in _few_components(size):
                add(f"networks {few}", cut, few, _SWEEPS_OF_NETWORKS)
        return EnsembleLearner(
            single=self._single(n_jobs) if self.network else None,
            chains=chains,
            # Products make bagged networks better though not single ones: on the validation part
            # of plants 24 bags have -12.160 with them and -12.232 without.
            bags=NetworkLearner(score, StructurePrior(), width, products=True, shrink=shrink),
            continuous={
                f"continuous {most}": ContinuousLearner(width=most)
                for most in (_CONTINUOUS_WIDTHS if continuous else ())
            },
            n_keep=n_keep,
            steps_of_a_turn=n_burn + n_keep,
            n_chains=check_count("n_chains", n_chains, low=0),
            n_bags=check_count("n_bags", n_bags, low=0),
            repeats=bool(self.repeats),
            n_jobs=n_jobs,
        )

    def _settle(self, pool: Pool, copies: Copies, seed: int) -> None:
        """Make the members so far into the fitted model."""
        weights = copies.table.weights
        shares = pool.recipe_weights(weights, copies.group)
        oob_score = pool.unseen_score(weights, copies.group)
        if self._aside is not None:
            oob_score += self._aside.unseen_score
        self._keep(
            pool.circuit(shares),
            oob_score_=oob_score,
            n_members_={recipe: len(members.circuits) for recipe, members in pool.recipes.items()},
            recipe_weights_=shares,
            seed_=seed,
        )

    def _save_checkpoint(self, pool: Pool) -> None:
        if self.checkpoint is None:
            return
        self._pool: Pool | None = pool
        try:
            save(self, self.checkpoint)
        finally:
            self._pool = None

    def _resume(self, n_rows: int, recipes: list[str]) -> tuple[Pool, int]:
        """Go on from a checkpoint, or begin."""
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return Pool.empty(n_rows, recipes), draw_seed(self.random_state)
        other = self._load_checkpoint(self.checkpoint)
        pool = getattr(other, "_pool", None)
        if pool is None or pool.n_rows != n_rows or list(pool.recipes) != recipes:
            raise ModelFileError(
                f"{os.fspath(self.checkpoint)!r} is a model without the members it was made of, "
                "not a checkpoint; remove it or name another file"
            )
        return pool, other.seed_

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        pool = getattr(self, "_pool", None)
        if state and pool is not None:
            state["pool"] = {
                recipe: [
                    m.circuits, m.unseen, m.n_unseen, m.n_turns, m.seconds, m.expected, m.n_sweeps
                ]
                for recipe, m in pool.recipes.items()
            }  # fmt: skip
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        state = dict(state)
        stored = state.pop("pool", None)
        super()._set_state(state)
        if stored is not None:
            recipes = {
                recipe: Members(
                    list(circuits),
                    np.array(unseen, dtype=np.float64),
                    np.array(n_unseen, dtype=np.int64),
                    int(n_turns),
                    float(seconds),
                    float(expected),
                    int(n_sweeps),
                )
                for recipe, (
                    circuits, unseen, n_unseen, n_turns, seconds, expected, n_sweeps
                ) in stored.items()
            }  # fmt: skip
            self._pool = Pool(len(recipes[BAG].unseen), recipes)


def _n_components(n_rows: float, rows_of_one: int) -> int:
    return int(max(np.clip(n_rows // rows_of_one, 5, 60), min(n_rows // 1000, 200)))


def _few_components(size: int) -> list[int]:
    """Numbers of components between one and those of other chains, evenly by their logarithms.

    None where chains have few components anyway: dermatology (256 rows), three seeds, lost 0.02 to
    0.08 nats on its validation part by chains of 2 and 3 networks beside those of 5 components.
    """
    if size < _MANY_COMPONENTS:
        return []
    return sorted({round(size ** (1 / 3)), round(size ** (2 / 3))})


def _told_the_time(advance: Callable[[float], None]) -> Callable[[float], None]:
    """Progress in seconds, whatever was done in them."""
    last = working_time()

    def told(_: float) -> None:
        nonlocal last
        now = working_time()
        advance(now - last)
        last = now

    return told
