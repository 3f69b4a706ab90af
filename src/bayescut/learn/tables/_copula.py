"""Kernels of the copula: what a Gaussian says of the missing normal scores of each row.

With the precision matrix P the missing scores g given the others o are Gaussian with covariance
:math:`P_{gg}^{-1}` and mean :math:`-P_{gg}^{-1} P_{go} z_o`. Few scores of a row are missing, so
the matrices to invert are small.
"""

from __future__ import annotations

import numpy as np

from bayescut._kernels import inner, kernel


@inner
def invert(matrix, n):
    """Replace the first n rows and columns of a positive definite matrix by their inverse."""
    for p in range(n):
        pivot = 1.0 / matrix[p, p]
        for j in range(n):
            matrix[p, j] *= pivot
        matrix[p, p] = pivot
        for i in range(n):
            if i != p:
                factor = matrix[i, p]
                matrix[i, p] = 0.0
                for j in range(n):
                    matrix[i, j] -= factor * matrix[p, j]


@inner
def missing_moments(precision, line, gone, n_gone, block, mean):
    """Covariance of the missing scores of a row into ``block``, their means into ``mean``."""
    k = len(line)
    for a in range(n_gone):
        for b in range(n_gone):
            block[a, b] = precision[gone[a], gone[b]]
    invert(block, n_gone)
    pull = np.zeros(n_gone)
    for a in range(n_gone):
        mean[a] = 0.0
        for j in range(k):
            if not np.isnan(line[j]):
                pull[a] -= precision[gone[a], j] * line[j]
    for a in range(n_gone):
        for b in range(n_gone):
            mean[a] += block[a, b] * pull[b]


@kernel
def draw_scores(z, precision, noise):
    """Put draws in the place of the missing scores of each row, given the others that are there.

    ``noise`` holds standard normal numbers, one for each score. With the Cholesky factor L of
    :math:`P_{gg}` the draws are :math:`L^{-T} (L^{-1} P_{gg} m + e)`, m being their mean.
    """
    n, k = z.shape
    gone = np.empty(k, dtype=np.int64)
    root = np.empty((k, k))
    drawn = np.empty(k)
    for row in range(n):
        n_gone = 0
        for j in range(k):
            if np.isnan(z[row, j]):
                gone[n_gone] = j
                n_gone += 1
        for a in range(n_gone):
            drawn[a] = 0.0
            for j in range(k):
                if not np.isnan(z[row, j]):
                    drawn[a] -= precision[gone[a], j] * z[row, j]
            for b in range(a + 1):
                total = precision[gone[a], gone[b]]
                for c in range(b):
                    total -= root[a, c] * root[b, c]
                root[a, b] = np.sqrt(total) if a == b else total / root[b, b]
        for a in range(n_gone):
            for c in range(a):
                drawn[a] -= root[a, c] * drawn[c]
            drawn[a] /= root[a, a]
        for a in range(n_gone):
            drawn[a] += noise[row, gone[a]]
        for a in range(n_gone - 1, -1, -1):
            for c in range(a + 1, n_gone):
                drawn[a] -= root[c, a] * drawn[c]
            drawn[a] /= root[a, a]
        for a in range(n_gone):
            z[row, gone[a]] = drawn[a]


@kernel
def expected_products(z, weights, precision, total):
    """Add the expected products of the scores of all rows to ``total``."""
    n, k = z.shape
    gone = np.empty(k, dtype=np.int64)
    block = np.empty((k, k))
    mean = np.empty(k)
    line = np.empty(k)
    for row in range(n):
        n_gone = 0
        for j in range(k):
            line[j] = z[row, j]
            if np.isnan(z[row, j]):
                gone[n_gone] = j
                n_gone += 1
        if n_gone > 0:
            missing_moments(precision, z[row], gone, n_gone, block, mean)
            for a in range(n_gone):
                line[gone[a]] = mean[a]
                for b in range(n_gone):
                    total[gone[a], gone[b]] += weights[row] * block[a, b]
        for i in range(k):
            for j in range(k):
                total[i, j] += weights[row] * line[i] * line[j]


@kernel
def predicted_scores(z, precision, asked, mean_out, spread_out):
    """Mean and standard deviation of asked scores in each row, given the others that are there."""
    n, k = z.shape
    gone = np.empty(k, dtype=np.int64)
    block = np.empty((k, k))
    mean = np.empty(k)
    line = np.empty(k)
    for row in range(n):
        n_gone = 0
        for j in range(k):
            if np.isnan(z[row, j]):
                gone[n_gone] = j
                n_gone += 1
        ready = False
        for q in range(len(asked)):
            t = asked[q]
            if np.isnan(z[row, t]):
                if not ready:
                    missing_moments(precision, z[row], gone, n_gone, block, mean)
                    ready = True
                for a in range(n_gone):
                    if gone[a] == t:
                        mean_out[row, q] = mean[a]
                        spread_out[row, q] = np.sqrt(block[a, a])
            else:
                # Its own score is not looked at: one more is missing.
                for j in range(k):
                    line[j] = z[row, j]
                line[t] = np.nan
                gone[n_gone] = t
                missing_moments(precision, line, gone, n_gone + 1, block, mean)
                mean_out[row, q] = mean[n_gone]
                spread_out[row, q] = np.sqrt(block[n_gone, n_gone])
                ready = False
