r"""Normal-Wishart scores of jointly Gaussian columns, from means and products of columns alone.

With the mean of n rows, their scatter :math:`S` and the prior :math:`\Sigma^{-1} \sim W(T^{-1},
\nu)`, :math:`\mu \sim N(\mu_0, \Sigma / \kappa)`, everything follows from the matrix

.. math:: R = T + S + \frac{\kappa n}{\kappa + n} (\bar x - \mu_0)(\bar x - \mu_0)^\top.

The log marginal likelihood of a network in which every column is regressed on its parents is a sum
over families [1]_, and a family with one parent more is worked out from the last one by a sweep
of two matrices: choosing parents takes no pass over the rows.

.. [1] D. Geiger, D. Heckerman. Learning Gaussian networks. UAI 1994; the exponents as corrected by
   J. Kuipers, G. Moffa, D. Heckerman. Annals of Statistics 42, 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayescut._kernels import inner, kernel
from bayescut._typing import FloatArray

__all__ = ["NormalWishart", "Regressions"]

# What is left of a column given others is rounding if it is a smaller part of the column than this.
_LEAST = 1e-12


class Regressions(NamedTuple):
    """Every column regressed on some of those before it."""

    mean: FloatArray  # (m,)
    coefficients: FloatArray  # (m, m), strictly lower triangular
    variance: FloatArray  # (m,) given the columns before
    score: float  # log marginal likelihood, less the price of the parents


@dataclass(frozen=True, eq=False)
class NormalWishart:
    """Prior of the mean and covariance of m columns.

    Parameters
    ----------
    mean : float64 array of shape (m,)
        Prior mean.
    scale : float64 array of shape (m, m)
        T; the expected covariance is T / (freedom - m - 1).
    kappa : float
        How many rows the prior mean counts for.
    freedom : float
        Degrees of freedom, more than m + 1.

    Examples
    --------
    >>> prior = NormalWishart(np.zeros(2), np.eye(2), 1.0, 4.0)
    >>> x = np.array([[0.0, 0.1], [1.0, 0.9], [2.0, 2.1], [3.0, 2.9]])
    >>> found = prior.regress(4.0, x.mean(axis=0), 4.0 * np.cov(x.T, bias=True))
    >>> found.coefficients.round(2)
    array([[0.  , 0.  ],
           [0.85, 0.  ]])
    """

    mean: FloatArray
    scale: FloatArray
    kappa: float
    freedom: float

    def __post_init__(self) -> None:
        m = len(self.mean)
        if self.scale.shape != (m, m) or not (self.kappa > 0 and self.freedom > m + 1):
            raise ValueError(
                f"a prior of {m} columns needs a scale of shape ({m}, {m}), kappa above 0 and more "
                f"than {m + 1} degrees of freedom"
            )

    def updated(self, n: float, mean: FloatArray, scatter: FloatArray) -> FloatArray:
        """Return R after n rows."""
        shift = mean - self.mean
        both = self.kappa * n / (self.kappa + n)
        found: FloatArray = self.scale + scatter + both * np.outer(shift, shift)
        return found

    def marginal(self, columns: ArrayLike) -> NormalWishart:
        """Return the prior of some of the columns, in this order."""
        chosen = np.asarray(columns, dtype=np.int64)
        freedom = self.freedom - len(self.mean) + len(chosen)
        return NormalWishart(
            self.mean[chosen], self.scale[np.ix_(chosen, chosen)], self.kappa, freedom
        )

    def of_network(
        self, n: float, mean: FloatArray, scatter: FloatArray, parents: Sequence[Sequence[int]]
    ) -> float:
        """Log marginal likelihood of a network: of every column given its parents."""
        total = 0.0
        for i, above in enumerate(parents):
            for columns, sign in (([*above, i], 1.0), (list(above), -1.0)):
                if columns:
                    own = self.marginal(columns)
                    part = scatter[np.ix_(columns, columns)]
                    total += sign * own.log_marginal(n, mean[columns], part)
        return total

    def log_marginal(self, n: float, mean: FloatArray, scatter: FloatArray) -> float:
        """Log marginal likelihood of all columns, each depending on all others."""
        m = len(self.mean)
        after = self.updated(n, mean, scatter)
        total = -0.5 * n * m * math.log(math.pi)
        total += 0.5 * m * math.log(self.kappa / (self.kappa + n))
        for i in range(m):
            total += math.lgamma(0.5 * (n + self.freedom - i))
            total -= math.lgamma(0.5 * (self.freedom - i))
        total += 0.5 * self.freedom * float(np.linalg.slogdet(self.scale)[1])
        return total - 0.5 * (self.freedom + n) * float(np.linalg.slogdet(after)[1])

    def regress(
        self,
        n: float,
        mean: FloatArray,
        scatter: FloatArray,
        *,
        width: int | None = None,
        parent_cost: float = 0.0,
    ) -> Regressions:
        """Regress every column on those before it, leaving out parents while the score grows.

        Parameters
        ----------
        n : float
            Weight of the rows.
        mean, scatter : float64 arrays
            Their mean, and the sum of products of deviations from it.
        width : int, optional
            Most parents of a column; default: all before it.
        parent_cost : float
            What a parent has to add to the log marginal likelihood.

        Returns
        -------
        Regressions
            With the posterior mean of the covariance, as far as the parents take it, and what the
            mean is uncertain about added to it.
        """
        m = len(self.mean)
        after = self.updated(n, mean, scatter)
        coefficients, residual = np.zeros((m, m)), np.empty(m)
        score = _regress(
            self.scale, after, n, self.kappa, self.freedom, m if width is None else width,
            parent_cost, coefficients, residual,
        )  # fmt: skip
        # As the predictive distribution has it: each parent takes something from the residuals and
        # adds as much to what the coefficients are uncertain about.
        count = n + self.freedom - m - 1
        variance = residual / count * (1.0 + 1.0 / (self.kappa + n))
        centre = (self.kappa * self.mean + n * mean) / (self.kappa + n)
        return Regressions(centre, coefficients, variance, float(score))


@inner
def _sweep(a: FloatArray, k: int, size: int) -> None:
    """Sweep variable k out of the leading part of a symmetric matrix."""
    pivot = a[k, k]
    for i in range(size):
        if i != k:
            part = a[i, k] / pivot
            for j in range(size):
                if j != k:
                    a[i, j] -= part * a[k, j]
    for i in range(size):
        if i != k:
            a[i, k] /= pivot
            a[k, i] /= pivot
    a[k, k] = -1.0 / pivot


@inner
def _unsweep(a: FloatArray, k: int, size: int) -> None:
    """Undo a sweep."""
    pivot = -1.0 / a[k, k]
    for i in range(size):
        if i != k:
            part = a[i, k] * pivot
            for j in range(size):
                if j != k:
                    a[i, j] += part * a[k, j]
    for i in range(size):
        if i != k:
            a[i, k] *= pivot
            a[k, i] *= pivot
    a[k, k] = pivot


@inner
def _family(
    n: float, kappa: float, alpha: float, prior: float, after: float, log_prior: float,
    log_after: float,
) -> float:  # fmt: skip
    """Log marginal likelihood of a column given its parents; alpha is freedom - m + parents + 1,
    ``prior`` and ``after`` what is left of it in T and R, the logs those of the parents'
    determinants."""
    total = -0.5 * n * math.log(math.pi) + 0.5 * math.log(kappa / (kappa + n))
    total += math.lgamma(0.5 * (n + alpha)) - math.lgamma(0.5 * alpha)
    total += 0.5 * alpha * math.log(prior) - 0.5 * (n + alpha) * math.log(after)
    return total + 0.5 * (log_prior - log_after)


@kernel
def _regress(
    scale: FloatArray,
    after: FloatArray,
    n: float,
    kappa: float,
    freedom: float,
    width: int,
    parent_cost: float,
    coefficients: FloatArray,
    residual: FloatArray,
) -> float:
    m = len(scale)
    total = 0.0
    t, r = np.empty((m, m)), np.empty((m, m))
    used = np.empty(m, dtype=np.bool_)
    for i in range(m):
        size = i + 1
        for a in range(size):
            used[a] = False
            for b in range(size):
                t[a, b] = scale[a, b]
                r[a, b] = after[a, b]
        n_parents, log_t, log_r = 0, 0.0, 0.0
        # Parents that explain nothing alone may explain a column together: hence all of them
        # first, then one after the other is taken away.
        for j in range(i):
            # A column that the others determine has nothing left to explain with.
            if t[j, j] > _LEAST * scale[j, j] and r[j, j] > _LEAST * after[j, j]:
                used[j] = True
                n_parents += 1
                log_t += math.log(t[j, j])
                log_r += math.log(r[j, j])
                _sweep(t, j, size)
                _sweep(r, j, size)
        t[i, i] = max(t[i, i], _LEAST * scale[i, i])
        r[i, i] = max(r[i, i], _LEAST * after[i, i])
        alpha = freedom - m + 1.0
        own = _family(n, kappa, alpha + n_parents, t[i, i], r[i, i], log_t, log_r)
        while n_parents > 0:
            best, most = -1, -parent_cost if n_parents <= width else -np.inf
            for j in range(i):
                if not used[j]:
                    continue
                pivot_t, pivot_r = -1.0 / t[j, j], -1.0 / r[j, j]
                gain = _family(
                    n, kappa, alpha + n_parents - 1.0,
                    t[i, i] + t[i, j] * t[i, j] * pivot_t, r[i, i] + r[i, j] * r[i, j] * pivot_r,
                    log_t - math.log(pivot_t), log_r - math.log(pivot_r),
                ) - own  # fmt: skip
                if gain > most:
                    best, most = j, gain
            if best < 0:
                break
            used[best] = False
            log_t -= math.log(-1.0 / t[best, best])
            log_r -= math.log(-1.0 / r[best, best])
            _unsweep(t, best, size)
            _unsweep(r, best, size)
            n_parents -= 1
            own += most
        total -= parent_cost * n_parents
        for j in range(i):
            coefficients[i, j] = r[j, i] if used[j] else 0.0
        residual[i] = r[i, i]
        total += own
    return total
