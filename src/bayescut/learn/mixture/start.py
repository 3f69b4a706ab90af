"""Where mixtures start: k-means among the leading principal components of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from bayescut._typing import CodeArray, IntArray
from bayescut.counts.pairs import count_pairs
from bayescut.data.bits import BitLayout, bit_layout
from bayescut.data.table import Table

# Directions that are kept. In the space of all columns a few rows with many rare states are far
# from everything else and get clusters of their own: 12 of 20 clusters of c20ng had less than 50
# of 11,293 rows. Best validation of three starts (8 or 20 components) from all columns and from 30
# directions: cr52 -89.64 -89.08, c20ng -120.19 -120.03, ad -15.76 -15.17, dna -86.45 -86.07,
# tmovie -58.98 -58.76, jester -53.23 -53.18, msweb -9.747 -9.724, plants -12.911 -12.892,
# accidents -29.663 -29.645, kosarek -10.868 -10.864. With 5 or 10 directions: some better, some
# worse (accidents -29.90, kosarek -10.90). Hundreds of clusters can tell more directions apart:
# Binary MNIST with 300 components has -105.99 (two starts: -105.99, -105.98) from 30 of them and
# -105.90 (-105.91, -105.89) from 60, with 100 components -104.95 and -104.98.
_DIRECTIONS = 30
_CLUSTERS_OF_A_DIRECTION = 5
_SLAB_ROWS = 16_384


class KMeansStart:
    """Clusters of the rows of one table.

    The covariance of the columns (reduced one-hot where there are more than two states) is their
    pair counts, which makes principal components cheap, and k-means among them is several times
    as fast as among all columns.

    Parameters
    ----------
    table : Table
        Complete rows. Clusters do not change if a row is given twice instead of weighing 2, but for
        what is drawn at random.
    size : int
        Most clusters that will be asked for.
    """

    def __init__(self, table: Table, size: int) -> None:
        self.points = _project(table, _n_directions(size))
        self.weights = table.weights

    def labels(self, size: int, seed: int, *, most_rows: int | None = None) -> IntArray:
        """Cluster of every row.

        Parameters
        ----------
        size : int
            Number of clusters; there are fewer if there are fewer different rows.
        seed : int
            Seed of k-means.
        most_rows : int, optional
            Find the means from this many rows, drawn at random.
        """
        n = len(self.points)
        size = min(size, n)
        if size == 1 or self.points.shape[1] == 0:
            return np.zeros(n, dtype=np.int64)
        points = self.points[:, -_n_directions(size) :]  # the leading ones come last
        means = KMeans(size, n_init=1, random_state=seed % 2**32, max_iter=100)
        some: slice | IntArray = slice(None)
        if most_rows is not None and n > max(most_rows, size):
            rng = np.random.default_rng([seed, 3])
            some = np.sort(rng.choice(n, max(most_rows, size), replace=False))
            means.set_params(max_iter=20)
        weights = None
        if self.weights is not None:  # scikit-learn has them in float32
            weights = self.weights[some] / self.weights.max()
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: the mixture simply gets fewer components.
            warnings.simplefilter("ignore", ConvergenceWarning)
            means.fit(points[some], sample_weight=weights)
            return means.predict(points)


def _n_directions(size: int) -> int:
    """Principal components among which that many clusters are looked for."""
    return max(_DIRECTIONS, size // _CLUSTERS_OF_A_DIRECTION)


def _project(table: Table, n_directions: int) -> NDArray[np.float32]:
    """Coordinates of the rows in the leading principal components of the bits, the first last."""
    layout = bit_layout(np.arange(table.n_columns), table.sizes)
    codes, n, n_bits = table.codes, table.n_rows, layout.n_bits
    if n_bits <= _DIRECTIONS:  # all of them: distances are those between the bits themselves
        return np.concatenate([np.empty((0, n_bits), np.float32), *_slabs(codes, layout)])
    n_directions = min(n_directions, n_bits)
    pairs = count_pairs(codes, layout, sample_weight=table.weights)
    mean = np.diag(pairs.counts) / pairs.n
    covariance = pairs.counts / pairs.n - np.outer(mean, mean)
    largest = [n_bits - n_directions, n_bits - 1]
    try:
        _, directions = eigh(covariance, subset_by_index=largest)
    except LinAlgError:  # many equal eigenvalues: a column that is different in every row
        directions = eigh(covariance, driver="evd")[1][:, largest[0] :]
    directions = directions.astype(np.float32)
    points = np.empty((n, n_directions), dtype=np.float32)
    done = 0
    for slab in _slabs(codes, layout):
        points[done : done + len(slab)] = slab @ directions
        done += len(slab)
    return points


def _slabs(codes: CodeArray, layout: BitLayout) -> Iterator[NDArray[np.float32]]:
    """Yield the bits of some rows at a time, as numbers."""
    for lo in range(0, len(codes), _SLAB_ROWS):
        cells = codes[lo : lo + _SLAB_ROWS, layout.bit_column]
        yield (cells == layout.bit_state).astype(np.float32)
