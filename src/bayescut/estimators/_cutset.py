"""Single cutset networks: the paper's two learners, and ours."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from bayescut._jobs import count_jobs
from bayescut._progress import progress
from bayescut.circuit import Circuit
from bayescut.data.table import Table
from bayescut.estimators._base import CircuitEstimator
from bayescut.estimators._validation import (
    check_width,
    repeat_rows,
)
from bayescut.learn.cutset.freeze import freeze_network
from bayescut.learn.cutset.grouped import RANKINGS
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.network import NetworkLearner
from bayescut.learn.cutset.rules import TopGain
from bayescut.scores.base import BIC, BayesDirichlet, Score
from bayescut.scores.prior import NoPrior, StructurePrior


class SingleCutset(CircuitEstimator):
    """An estimator that grows one cutset network."""

    _state_names = ("structure_score_", "n_cuts_")

    structure_score_: float
    n_cuts_: int

    @abstractmethod
    def _learner(self, n_jobs: int) -> CutsetLearner | NetworkLearner:
        """The growth loop with this estimator's rules."""

    def _check_settings(self) -> None:
        super()._check_settings()
        self._learner(1)

    def _smoothing(self) -> tuple[Score, bool]:
        return self._learner(1).score, bool(getattr(self, "shrinkage", False))

    def _learn(self, table: Table) -> Circuit:
        learner = self._learner(count_jobs(self.n_jobs))
        repeated, rows = repeat_rows(table)
        with progress(type(self).__name__, len(rows), self.verbose) as advance:
            root = learner.learn(repeated, rows, advance)
        self.structure_score_ = root.total_score()
        if self._aside is not None:
            self.structure_score_ += self._aside.score
        self.n_cuts_ = root.n_cuts
        return freeze_network(root, table)


class CNetBD(SingleCutset):
    r"""Cutset network grown by the Bayes-Dirichlet score.

    Starting from a Chow-Liu tree, a node is cut on the variable X that raises

    .. math:: \ln \frac{\Gamma(e)}{\Gamma(n + e)}
              \prod_v \frac{\Gamma(n_v + e/K)}{\Gamma(e/K)}
              + \sum_v \ln p(D_v \mid \text{tree}_v)

    most above the score of its own tree, as long as one does. The equivalent sample size e is
    divided among the branches, which makes the sum the marginal likelihood of the whole circuit
    under one BDeu prior [1]_.

    Parameters
    ----------
    ess : float, default=0.1
        Equivalent sample size at the root, greater than 0.
    n_candidates : int or None, default=10
        Columns of the largest information gain that are tried as cuts; None tries all.
    n_states : int, array-like of int or None, default=None
        Least number of states of every column of codes; None: what the training table shows, two
        at least.
    columns : mapping or None, default=None
        Kinds of columns where they are not to be found out: from names or positions to "label",
        "number", "date" or "duration".
    missing : {"random", "informative"}, default="random"
        How gaps of the training table came about. ``random``: whether a cell is missing depends on
        what is observed alone; gaps are filled by draws from their exact conditional under models
        that are learned in turn, and the score is that of the completed table. ``informative``:
        each column with gaps also has a hidden column that tells them; queries that complete rows
        of a table then know of their gaps, likelihoods do not depend on them.
    unseen : {"error", "missing"}, default="error"
        What queries do with values that training did not show: refuse the table, or take such
        cells as not observed.
    n_jobs : int or None, default=-1
        Threads, counted as joblib does: -1 are all cores, -2 all but one, None is one unless a
        ``joblib.parallel_config`` says otherwise. The result does not depend on it.
    verbose : int, default=0
        Show a progress bar if positive.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions over Chow-Liu trees.
    structure_score_ : float
        Log marginal likelihood of its structure.
    n_parameters_ : int
        Number of independent parameters.
    n_cuts_ : int
        Number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] Y. Yang, G. Gala, R. Peharz. Bayesian structure scores for probabilistic circuits.
       AISTATS 2023.

    Examples
    --------
    >>> from bayescut import CNetBD
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 25
    >>> model = CNetBD().fit(X)
    >>> model.n_parameters_
    5
    >>> float(model.score_samples([[1, 1, float("nan")]]).round(2)[0])
    -0.69
    """

    def __init__(
        self,
        ess: float = 0.1,
        n_candidates: int | None = 10,
        *,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.ess = ess
        self.n_candidates = n_candidates
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learner(self, n_jobs: int) -> CutsetLearner:
        return CutsetLearner(
            BayesDirichlet(self.ess), candidates=TopGain(self.n_candidates), n_jobs=n_jobs
        )


class CNetBIC(SingleCutset):
    r"""Cutset network grown by the Bayesian information criterion, all parameters counted.

    A node is cut as long as that raises

    .. math:: \ln p(D \mid \hat\theta) - \tfrac12 \ln N \cdot \|G\|

    with N the rows of the whole table and :math:`\|G\|` one per cut and 2 m - 1 per tree over m
    binary variables [1]_.

    Parameters
    ----------
    beta : float, default=0.01
        Laplace factor, at least 0: added to every cell of a pair of binary columns.
    n_candidates : int or None, default=10
        Columns of the largest information gain that are tried as cuts; None tries all.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions over Chow-Liu trees.
    structure_score_ : float
        Its BIC.
    n_parameters_, n_cuts_ : int
        Number of independent parameters, number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] Y. Yang, G. Gala, R. Peharz. Bayesian structure scores for probabilistic circuits.
       AISTATS 2023.

    Examples
    --------
    >>> from bayescut import CNetBIC
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 25
    >>> CNetBIC().fit(X).n_cuts_
    0
    """

    def __init__(
        self,
        beta: float = 0.01,
        n_candidates: int | None = 10,
        *,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.beta = beta
        self.n_candidates = n_candidates
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learner(self, n_jobs: int) -> CutsetLearner:
        return CutsetLearner(BIC(self.beta), candidates=TopGain(self.n_candidates), n_jobs=n_jobs)


class CutsetNetwork(SingleCutset):
    r"""Our best single circuit: the most probable cutset network with thin-junction-tree leaves.

    Where `CNetBD` maximises the marginal likelihood p(data | structure), this learner weighs it
    with a structure prior: every chosen parent and every cut costs :math:`\ln m` nats (see
    `bayescut.scores.StructurePrior`, also for the constants that are left out). Cuts are found
    with forests in the leaves; then every node gets the best leaf in which a column has up to
    ``width`` parents, and cuts that no longer pay are pruned. There is nothing to tune; the
    defaults were chosen on the training and validation parts of the twenty benchmark sets.

    Parameters
    ----------
    ess : float, default=1.0
        Equivalent sample size of every node.
    width : int, default=6
        Most parents of a column in a leaf, 16 at most; 1 gives forests, 0 independence.
    structure_prior : bool, default=True
        Charge for choices; ``False`` maximises the marginal likelihood alone, as the paper does.
    shrinkage : bool, default=True
        Shrink the tables of a leaf towards the rows outside it, by as much as their marginal
        likelihood asks for. Structures are chosen without it; ``False`` keeps the posterior means
        of the score.
    products : bool, default=False
        Where the columns at a node fall into groups without an edge between them, cut each group on
        its own. With narrow leaves this helps (validation of accidents with ``width=1``: -29.82
        instead of -30.16); with wide leaves gains and losses balance (cr52 +0.15, c20ng -0.21).
    groups : bool, default=True
        Cuts on columns of more than two states ask whether the state is one of a set, for which
        the structure prior charges the logarithm of the number of sets looked at; ``False`` gives
        such cuts one branch for every state. Tables of two states are learned alike either way.
    gaussian : bool, default=True
        Let smooth numbers be jointly Gaussian in leaves where the score prefers that to cells
        (validation of vehicle -54.5 without, -50.1 with; wdbc 18.8 and 21.2; most tables have no
        such leaf). Evidence that several of them lie in intervals is integrated numerically then,
        to about 1e-4, and `mpe` finds them one after the other; ``False`` has cells everywhere.
    identifiers : {"independent", "keep"}, default="independent"
        What is done about columns of labels that are different in nearly every row, or have more
        than 32 states and fewer than five rows for each: take them to be independent of all other
        columns, with an `IdentifierWarning` that names them, or learn about them as about others.
    n_candidates : int or None, default=10
        Columns of the largest information gain that are tried as cuts; None tries all. On the
        validation parts of the benchmark sets more were slower and on balance no better.
    n_states : int, array-like of int or None, default=None
        Least number of states of every column of codes; None: what the training table shows, two
        at least.
    columns : mapping or None, default=None
        Kinds of columns where they are not to be found out: from names or positions to "label",
        "number", "date" or "duration".
    missing : {"random", "informative"}, default="random"
        How gaps of the training table came about. ``random``: whether a cell is missing depends on
        what is observed alone; gaps are filled by draws from their exact conditional under models
        that are learned in turn, and the score is that of the completed table. ``informative``:
        each column with gaps also has a hidden column that tells them; queries that complete rows
        of a table then know of their gaps, likelihoods do not depend on them.
    unseen : {"error", "missing"}, default="error"
        What queries do with values that training did not show: refuse the table, or take such
        cells as not observed.
    n_jobs : int or None, default=-1
        Threads, counted as joblib does: -1 are all cores, -2 all but one, None is one unless a
        ``joblib.parallel_config`` says otherwise. The result does not depend on it.
    verbose : int, default=0
        Show a progress bar if positive.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions (and products) over thin junction trees; smooth,
        decomposable, and deterministic unless some leaves are Gaussian.
    structure_score_ : float
        Log marginal likelihood minus the structure's cost.
    n_parameters_, n_cuts_ : int
        Number of independent parameters, number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from bayescut import CutsetNetwork
    >>> X = [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] * 25
    >>> round(CutsetNetwork().fit(X).score(X), 1)  # the fourth column is an exclusive or
    -1.4
    """

    def __init__(
        self,
        ess: float = 1.0,
        width: int = 6,
        n_candidates: int | None = 10,
        *,
        structure_prior: bool = True,
        shrinkage: bool = True,
        products: bool = False,
        groups: bool = True,
        gaussian: bool = True,
        identifiers: str = "independent",
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.ess = ess
        self.width = width
        self.n_candidates = n_candidates
        self.structure_prior = structure_prior
        self.shrinkage = shrinkage
        self.products = products
        self.groups = groups
        self.gaussian = gaussian
        self.identifiers = identifiers
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _resolver(self) -> NetworkLearner:
        return self._learner(count_jobs(self.n_jobs))

    def _learner(self, n_jobs: int) -> NetworkLearner:
        return NetworkLearner(
            BayesDirichlet(self.ess, divide=False),
            StructurePrior() if self.structure_prior else NoPrior(),
            check_width("width", self.width),
            TopGain(self.n_candidates),
            n_jobs,
            products=bool(self.products),
            shrink=bool(self.shrinkage),
            groups=bool(self.groups),
            rankings=RANKINGS,
            gaussian=bool(self.gaussian),
        )
