"""Cutset learners before Bayesian scores: other rules for the same growth loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayescut.estimators._cutset import SingleCutset
from bayescut.estimators._validation import check_count, check_number, draw_seed
from bayescut.learn.cutset.learner import CutsetLearner
from bayescut.learn.cutset.rules import (
    Always,
    EveryColumn,
    ImprovesMean,
    RandomColumn,
    Stop,
    TopGain,
)
from bayescut.learn.leaves.treeleaves import BlendedTrees
from bayescut.scores.base import SmoothedLikelihood


class CNet(SingleCutset):
    r"""The original cutset network: cuts of the largest information gain, until nodes are small.

    A node of n rows over m columns is cut on the column of the largest gain

    .. math:: G_i = \frac1m \sum_j \hat H(X_j)
              - \sum_v \frac{n_v}{n} \frac1{m-1} \sum_{j \ne i} \hat H(X_j \mid X_i = v),

    where entropies are of smoothed frequencies,
    :math:`(n_{jx} + 2\alpha) / (n + 4\alpha)`. It is a leaf, a Chow-Liu tree with tables
    :math:`(n_{ab} + \alpha) / (n + 4\alpha)`, if it has few rows or columns, if the mean entropy
    of its columns is small, or if no gain is positive [1]_. Settings are those of [2]_; the
    pruning on validation data of [1]_ is not done.

    Parameters
    ----------
    alpha : float, default=1.0
        Laplace factor, greater than 0: added to every cell of a pair of binary columns.
    min_rows : int, default=10
        A node of this many rows or fewer is a leaf.
    min_columns : int, default=1
        A node of this many columns or fewer is a leaf.
    min_entropy : float, default=0.01
        A node whose columns have a mean entropy below this, in nats, is a leaf.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`; the threads are those of queries.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions over Chow-Liu trees.
    structure_score_ : float
        Log-likelihood of the training rows under the smoothed parameters.
    n_parameters_, n_cuts_ : int
        Number of independent parameters, number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] T. Rahman, P. Kothalkar, V. Gogate. Cutset networks: a simple, tractable, and scalable
       approach for improving the accuracy of Chow-Liu trees. ECML PKDD 2014.
    .. [2] Y. Yang, G. Gala, R. Peharz. Bayesian structure scores for probabilistic circuits.
       AISTATS 2023.

    Examples
    --------
    >>> from bayescut import CNet
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 25
    >>> model = CNet(min_rows=50).fit(X)
    >>> model.n_cuts_, model.n_parameters_
    (1, 7)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        min_rows: int = 10,
        min_columns: int = 1,
        min_entropy: float = 0.01,
        *,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.min_rows = min_rows
        self.min_columns = min_columns
        self.min_entropy = min_entropy
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learner(self, n_jobs: int) -> CutsetLearner:
        return CutsetLearner(
            SmoothedLikelihood(check_number("alpha", self.alpha, strict=True)),
            candidates=TopGain(1),
            acceptance=Always(),
            stop=Stop(
                rows=check_count("min_rows", self.min_rows, low=0),
                columns=check_count("min_columns", self.min_columns),
                entropy=check_number("min_entropy", self.min_entropy),
                gain=0.0,
            ),
            n_jobs=n_jobs,
        )


class XCNet(SingleCutset):
    r"""Extremely randomised cutset network: every cut is on a column drawn uniformly.

    A node of more than ``min_rows`` (δ in [1]_) rows and more than ``min_columns`` (ξ) columns is
    cut on a random column with weights :math:`(n_v + \alpha) / (n + 2\alpha)`, whatever the
    branches hold; all others are Chow-Liu trees with tables
    :math:`(n_{ab} + \alpha) / (n + 4\alpha)`. That of a branch without rows is uniform. Made to be
    averaged: one alone is fast and rough. In leaves of few rows many trees are equally good; the
    edges of the lowest index are taken, so that the order of the columns matters a little.

    Parameters
    ----------
    alpha : float, default=0.5
        Laplace factor, greater than 0: added to every cell of a pair of binary columns.
    min_rows : int, default=500
        A node of this many rows or fewer is a leaf.
    min_columns : int, default=3
        A node of this many columns or fewer is a leaf.
    random_state : int, Generator or None, default=None
        Source of the cuts; an int gives the same network every time.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`; the threads are those of queries.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions over Chow-Liu trees.
    structure_score_ : float
        Log-likelihood of the training rows under the smoothed parameters.
    n_parameters_, n_cuts_ : int
        Number of independent parameters, number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] N. Di Mauro, A. Vergari, T. M. A. Basile, F. Esposito. Fast and accurate density
       estimation with extremely randomized cutset networks. ECML PKDD 2017.

    Examples
    --------
    >>> from bayescut import XCNet
    >>> X = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 25
    >>> XCNet(min_rows=40, min_columns=1, random_state=0).fit(X).n_cuts_
    3
    """

    def __init__(
        self,
        alpha: float = 0.5,
        min_rows: int = 500,
        min_columns: int = 3,
        *,
        random_state: Any = None,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.min_rows = min_rows
        self.min_columns = min_columns
        self.random_state = random_state
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learner(self, n_jobs: int) -> CutsetLearner:
        return CutsetLearner(
            SmoothedLikelihood(check_number("alpha", self.alpha, strict=True)),
            candidates=RandomColumn(np.random.default_rng(draw_seed(self.random_state))),
            acceptance=Always(),
            stop=Stop(
                rows=check_count("min_rows", self.min_rows, low=0),
                columns=check_count("min_columns", self.min_columns),
            ),
            n_jobs=n_jobs,
        )


class DCSN(SingleCutset):
    r"""Cutset network grown by the likelihood, with a price on cuts only.

    Every column is tried as a cut. The best one is taken if it raises the mean log-likelihood of
    the node's n rows, of N in all, by enough,

    .. math:: \frac1n \Big[ \sum_v \ell(D_v \mid \text{tree}_v) + n_v \ln \frac{n_v}{n} \Big]
              - \frac1n \ell(D \mid \text{tree}) > \frac{\ln N}{2 N},

    the BIC of [1]_, in which a network has as many parameters as cuts (`CNetBIC` counts those of
    the trees too). Tables are blended with the tables p of the whole training
    set (`bayescut.learn.cutset.dcsn`),

    .. math:: \hat p(x_u, x_v) = \frac{n_{uv} + \lambda n\, p(x_u, x_v)}{(1 + \lambda) n},

    and cut weights are the shares of rows. The defaults are as run for [2]_, with 0.5 % of the rows
    as pseudo-rows and spanning trees as leaves; ``forests`` and ``products`` give the decomposable
    networks of [1]_.

    Parameters
    ----------
    blending : float, default=0.005
        Pseudo-rows for every row of a node, λ, greater than 0.
    min_rows : int, default=500
        A node of this many rows or fewer is a leaf.
    min_columns : int, default=2
        A node of this many columns or fewer is a leaf.
    forests : bool, default=False
        Keep only edges of a mutual information of at least :math:`\ln n / (2 n)` in the trees.
    products : bool, default=False
        Cut the trees of a forest each on its own (AND nodes); of use with ``forests`` only.
    n_states, columns, missing, unseen, n_jobs, verbose
        See `CNetBD`.

    Attributes
    ----------
    circuit_ : Circuit
        The learned circuit: decisions (and products) over Chow-Liu trees or forests.
    structure_score_ : float
        Log-likelihood of the training rows under the blended parameters.
    n_parameters_, n_cuts_ : int
        Number of independent parameters, number of cuts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    .. [1] N. Di Mauro, A. Vergari, F. Esposito. Learning accurate cutset networks by exploiting
       decomposability. AI*IA 2015.
    .. [2] Y. Yang, G. Gala, R. Peharz. Bayesian structure scores for probabilistic circuits.
       AISTATS 2023.

    Examples
    --------
    >>> from bayescut import DCSN
    >>> X = [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]] * 25
    >>> model = DCSN(min_rows=20).fit(X)
    >>> model.n_cuts_, round(model.score(X), 2)  # the fourth column is an exclusive or
    (1, -1.39)
    """

    def __init__(
        self,
        blending: float = 0.005,
        min_rows: int = 500,
        min_columns: int = 2,
        forests: bool = False,
        products: bool = False,
        *,
        n_states: Any = None,
        columns: Any = None,
        missing: str = "random",
        unseen: str = "error",
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.blending = blending
        self.min_rows = min_rows
        self.min_columns = min_columns
        self.forests = forests
        self.products = products
        self.n_states = n_states
        self.columns = columns
        self.missing = missing
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learner(self, n_jobs: int) -> CutsetLearner:
        return CutsetLearner(
            SmoothedLikelihood(0.0),
            trees=BlendedTrees(
                check_number("blending", self.blending, strict=True), bool(self.forests)
            ),
            candidates=EveryColumn(),
            acceptance=ImprovesMean(),
            stop=Stop(
                rows=check_count("min_rows", self.min_rows, low=0),
                columns=check_count("min_columns", self.min_columns),
            ),
            n_jobs=n_jobs,
            products=bool(self.products),
        )
