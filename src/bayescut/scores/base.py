r"""What counts are worth: scores know pseudo-counts and prices, never data.

A score names a potential (see `bayescut.scores.potentials`), the equivalent sample size a node
starts with and how a cut hands it on. From these the learner works out

* a cut on X with K states: :math:`\Phi(X) - \Phi(\text{one cell})`, minus K - 1 parameters,
* a tree leaf: :math:`\sum_v \Phi(\text{family}) - \Phi(\text{parents})`, minus its parameters,
* parameters: posterior means :math:`(n_c + e/C) / (n + e)` of every table of C cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from bayescut._typing import CountArray, FloatArray
from bayescut.scores.potentials import LGAMMA, LOGLIK, total_potential


def _check_real(name: str, value: object, *, low: float, strict: bool) -> None:
    bound = f"{'greater than' if strict else 'at least'} {low:g}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number {bound}, got {value!r}")
    if value < low or (strict and value == low):
        raise ValueError(f"{name} must be {bound}, got {value!r}")


@dataclass(frozen=True)
class Score(ABC):
    """The terms in which the learner asks a score.

    The equivalent sample size of a node is passed in: it is the node's, not the score's.
    """

    @property
    @abstractmethod
    def potential(self) -> int:
        """Potential of a table of counts."""

    @property
    @abstractmethod
    def root_ess(self) -> float:
        """Equivalent sample size of the tables at the root."""

    @abstractmethod
    def cut_ess(self, ess: float) -> float:
        """Equivalent sample size of the weights of a cut at a node that has ``ess``."""

    @abstractmethod
    def child_ess(self, ess: float, n_branches: int) -> float:
        """Equivalent sample size that each branch of a cut inherits."""

    @abstractmethod
    def parameter_cost(self, n_rows: float) -> float:
        """Price of one independent parameter when learning from ``n_rows`` rows."""

    def cut(self, counts: ArrayLike, ess: float) -> float:
        """Worth of a cut whose branches hold ``counts`` rows, at a node that has ``ess``."""
        return self._family(np.asarray(counts), self.cut_ess(ess))

    def single(self, counts: ArrayLike, ess: float) -> float:
        """Worth of a column without a parent, from the ``counts`` of its states."""
        return self._family(np.asarray(counts), ess)

    def edge(self, table: ArrayLike, ess: float) -> float:
        """What an edge adds to independence, from the joint counts of its two columns."""
        joint = np.asarray(table)
        gain = total_potential(self.potential, joint, ess)
        gain -= total_potential(self.potential, joint.sum(axis=0), ess)
        gain -= total_potential(self.potential, joint.sum(axis=1), ess)
        return gain + total_potential(self.potential, joint.sum(), ess)

    def leaf(
        self, singles: Sequence[ArrayLike], edges: Sequence[ArrayLike], ess: float, n_rows: float
    ) -> float:
        """Worth of a forest from the counts of its columns and the joint counts of its edges.

        ``n_rows`` is the size of the whole training set, which prices the parameters.
        """
        total = sum(self.single(counts, ess) for counts in singles)
        total += sum(self.edge(table, ess) for table in edges)
        return total - self.parameter_cost(n_rows) * self.n_parameters(singles, edges)

    @staticmethod
    def n_parameters(singles: Sequence[ArrayLike], edges: Sequence[ArrayLike]) -> int:
        """Independent parameters of a forest: K - 1 for a column, (K - 1)(L - 1) for an edge."""
        columns = sum(np.size(counts) - 1 for counts in singles)
        shapes = [np.shape(table) for table in edges]
        return columns + sum((rows - 1) * (states - 1) for rows, states in shapes)

    def parameters(self, table: ArrayLike, ess: float) -> FloatArray:
        """Posterior mean of the joint probabilities of a table of counts."""
        counts = np.asarray(table, dtype=np.float64)
        return (counts + ess / counts.size) / (counts.sum() + ess)

    def _family(self, counts: CountArray, ess: float) -> float:
        own = total_potential(self.potential, counts, ess)
        return own - total_potential(self.potential, counts.sum(), ess)


@dataclass(frozen=True)
class BayesDirichlet(Score):
    r"""Bayes-Dirichlet score: the marginal likelihood of a structure.

    With the equivalent sample size e of every table of C cells divided evenly this is BDeu,

    .. math:: \ln p(D \mid G) = \sum_{\text{tables}} \Big[ \ln\Gamma(e) - \ln\Gamma(n + e)
              + \sum_c \ln\Gamma(n_c + e/C) - \ln\Gamma(e/C) \Big].

    Parameters
    ----------
    ess : float
        Equivalent sample size at the root, greater than 0.
    divide : bool
        Divide it among the branches of every cut, as BDeu of the whole circuit does; ``False``
        gives every node the whole of it.

    Examples
    --------
    >>> score = BayesDirichlet(0.1)
    >>> score.child_ess(0.1, 2)
    0.05
    >>> round(score.cut([3, 1], 0.1), 4)
    -4.8909
    """

    ess: float = 0.1
    divide: bool = True

    def __post_init__(self) -> None:
        _check_real("ess", self.ess, low=0.0, strict=True)

    @property
    def potential(self) -> int:
        """`LGAMMA`."""
        return LGAMMA

    @property
    def root_ess(self) -> float:
        """The equivalent sample size."""
        return float(self.ess)

    def cut_ess(self, ess: float) -> float:
        """The node's own."""
        return ess

    def child_ess(self, ess: float, n_branches: int) -> float:
        """An equal share, or all of it if it is not divided."""
        return ess / n_branches if self.divide else ess

    def parameter_cost(self, n_rows: float) -> float:
        """Nothing: the marginal likelihood charges for parameters itself."""
        return 0.0


@dataclass(frozen=True)
class BIC(Score):
    r"""Bayesian information criterion with all parameters counted.

    .. math:: \mathrm{BIC} = \ln p(D \mid G, \hat\theta) - \tfrac12 \ln N \cdot \|G\|

    where the parameters are smoothed by ``beta`` per cell of a pair of binary columns (4 beta per
    table of a leaf, 2 beta per cut) and N is the number of rows of the whole training set.

    Parameters
    ----------
    beta : float
        Laplace factor, at least 0.

    Examples
    --------
    >>> round(BIC(0.01).parameter_cost(1000), 3)
    3.454
    """

    beta: float = 0.01

    def __post_init__(self) -> None:
        _check_real("beta", self.beta, low=0.0, strict=False)

    @property
    def potential(self) -> int:
        """`LOGLIK`."""
        return LOGLIK

    @property
    def root_ess(self) -> float:
        """Four times beta: one for each cell of two binary columns."""
        return 4.0 * self.beta

    def cut_ess(self, ess: float) -> float:
        """Half the node's: one beta for each branch of a binary cut."""
        return 0.5 * ess

    def child_ess(self, ess: float, n_branches: int) -> float:
        """The same at every node."""
        return ess

    def parameter_cost(self, n_rows: float) -> float:
        """Half the logarithm of the number of rows."""
        return 0.5 * math.log(n_rows) if n_rows > 1 else 0.0


@dataclass(frozen=True)
class SmoothedLikelihood(Score):
    r"""Log-likelihood under smoothed parameters, with no price on structure.

    .. math:: \ln p(D \mid G, \hat\theta), \qquad
              \hat\theta_{ab} = \frac{n_{ab} + \alpha}{n + 4\alpha}

    for pairs of binary columns (4 alpha per table of a leaf), cut weights
    :math:`(n_v + \alpha) / (n + 2\alpha)`. What the learners before Bayesian scores went by.

    Parameters
    ----------
    alpha : float
        Laplace factor, at least 0.

    Examples
    --------
    >>> score = SmoothedLikelihood(1.0)
    >>> score.parameters([3, 1], score.cut_ess(score.root_ess)).tolist()
    [0.6666666666666666, 0.3333333333333333]
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_real("alpha", self.alpha, low=0.0, strict=False)

    @property
    def potential(self) -> int:
        """`LOGLIK`."""
        return LOGLIK

    @property
    def root_ess(self) -> float:
        """Four times alpha: one for each cell of two binary columns."""
        return 4.0 * self.alpha

    def cut_ess(self, ess: float) -> float:
        """Half the node's: one alpha for each branch of a binary cut."""
        return 0.5 * ess

    def child_ess(self, ess: float, n_branches: int) -> float:
        """The same at every node."""
        return ess

    def parameter_cost(self, n_rows: float) -> float:
        """Nothing."""
        return 0.0
