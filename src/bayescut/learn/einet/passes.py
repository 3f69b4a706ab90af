r"""Values of all regions upward, expected counts downward.

Arrays have rows last. A region has K components; where a region is divided, component k is
:math:`\sum_{ij} w_{kij} \, l_i r_j` of the components of its halves, and of several partitions the
weighted sum. Values are numbers in [0, 1], the largest of a region and row being 1, beside the
logarithm of what they were divided by: weights are never below 1e-16 after an update, so that no
sum over products of such numbers underflows, and no exponential function is needed between the
leaves and the root (but one for each partition and row where several are mixed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayescut._typing import CodeArray, IntArray
from bayescut.data.domains import missing_code
from bayescut.learn.einet.backend import Backend
from bayescut.learn.einet.layout import Layout


class Parameters(NamedTuple):
    """The numbers of a network, on a backend.

    Attributes
    ----------
    weights : list of arrays of shape (G * n, K of the region, K * K)
        For each layer of sums: weights of products.
    mixing : list of arrays of shape (G, n, K of the region)
        For each layer of sums: weights of partitions.
    leaves : list of arrays of shape (L, K of the region, c)
        For each layer of leaves: probabilities of cells.
    """

    weights: list[Any]
    mixing: list[Any]
    leaves: list[Any]

    def map(self, function: Callable[[Any], Any]) -> Parameters:
        """The same with a function applied to every array."""
        return Parameters(*([function(array) for array in part] for part in self))


class Placed(NamedTuple):
    """The index arrays of a layout, on a backend."""

    left: list[Any]
    right: list[Any]
    cells: list[Any]
    parents: list[Any]


def place(layout: Layout, backend: Backend) -> Placed:
    """Bring the index arrays of a layout to where they are used."""
    return Placed(
        [backend.index(layer.left) for layer in layout.sums],
        [backend.index(layer.right) for layer in layout.sums],
        [backend.index(layer.cells) for layer in layout.leaves],
        [backend.index(table) for table in layout.parents],
    )


class Upward(NamedTuple):
    """Values of the regions for some rows.

    Attributes
    ----------
    values : array of shape (n_regions - 1, K, B)
        Of all regions but the root, the largest of each region and row being 1.
    sums : list of arrays of shape (G, K, B)
        For each layer of sums: its values before they were divided by the largest.
    scales : list of arrays of shape (G, n, B), or None
        For each layer of sums: what the values of a partition are multiplied by when partitions
        are mixed; None where each region has one partition.
    products : list of arrays of shape (G * n, K, B)
        Values of the partitions; empty unless asked for.
    log_likelihood : array of shape (B,)
        Of the root.
    """

    values: Any
    sums: list[Any]
    scales: list[Any]
    products: list[Any]
    log_likelihood: Any


class Counts(NamedTuple):
    """Expected counts, summed over rows.

    Attributes
    ----------
    products : list of arrays of shape (G * n, K, K * K)
        Of the products of each layer of sums, divided by their weights.
    cells : list of arrays of shape (L, K, c)
        Of the cells of leaves.
    leaves : list of arrays of shape (L, K)
        Of the leaves.
    """

    products: list[Any]
    cells: list[Any]
    leaves: list[Any]


def no_counts(parameters: Parameters, backend: Backend) -> Counts:
    """Counts of no rows."""
    return Counts(
        [backend.zeros(*weights.shape) for weights in parameters.weights],
        [backend.zeros(*table.shape) for table in parameters.leaves],
        [backend.zeros(*table.shape[:2]) for table in parameters.leaves],
    )


def find_cells(layout: Layout, codes: CodeArray) -> IntArray:
    """Cells of rows of codes, shape (m, B); ``n_cells`` where nothing is observed."""
    cells = codes.T + layout.offsets[:-1, None]
    return np.where(codes.T == missing_code(codes.dtype), layout.n_cells, cells)


def mark_cells(layout: Layout, codes: CodeArray, backend: Backend) -> Any:
    """Ones at the cells that rows have, shape (n_cells + 1, B); the last stays 0."""
    hot = backend.zeros(layout.n_cells + 1, len(codes))
    hot[backend.index(find_cells(layout, codes)), backend.index(np.arange(len(codes)))] = 1.0
    hot[layout.n_cells] = 0.0
    return hot


def upward(
    layout: Layout,
    placed: Placed,
    parameters: Parameters,
    leaf_logs: list[Any],
    hot: Any,
    backend: Backend,
    *,
    keep_products: bool = False,
) -> Upward:
    """Work out the values of all regions.

    Parameters
    ----------
    layout, placed
        The structure.
    parameters : Parameters
        Weights of the network.
    leaf_logs : list of arrays of shape (L, K, c)
        Logarithms of the probabilities of cells.
    hot : array of shape (at least n_cells, B)
        How often each row has each cell.
    backend : Backend
        Where the arrays are.
    keep_products : bool
        Whether the values of partitions are wanted.
    """
    k, n_rows = layout.n_components, hot.shape[1]
    values = backend.zeros(layout.n_regions - 1, k, n_rows)
    tops = backend.zeros(layout.n_regions - 1, n_rows)
    sums, scales, products = [], [], []
    for leaf, cells, logs in zip(layout.leaves, placed.cells, leaf_logs, strict=True):
        log_values = logs @ hot[cells]
        if leaf.first == layout.n_regions - 1:  # the root is a leaf
            return Upward(values, [], [], [], log_values[0, 0])
        top = backend.peak(log_values, 1)
        here = slice(leaf.first, leaf.first + len(leaf.cells))
        values[here] = backend.exp(log_values - top[:, None])
        tops[here] = top
    for t, layer in enumerate(layout.sums):
        weights, left, right = parameters.weights[t], placed.left[t], placed.right[t]
        n_out = weights.shape[1]
        product = backend.zeros(len(left), n_out, n_rows)

        def multiply(
            begin: int, end: int, left: Any = left, right: Any = right, weights: Any = weights,
            product: Any = product,
        ) -> None:  # fmt: skip
            pairs = values[left[begin:end]][:, :, None] * values[right[begin:end]][:, None]
            product[begin:end] = weights[begin:end] @ pairs.reshape(end - begin, k * k, n_rows)

        backend.each(multiply, len(left), k * k * n_rows * 4)
        top = (tops[left] + tops[right]).reshape(*layer.shape, n_rows)
        if layer.shape[1] == 1:
            scale, mixed, top = None, product, top[:, 0]
        else:
            highest = backend.peak(top, 1)
            scale = backend.exp(top - highest[:, None])
            each = product.reshape(*layer.shape, n_out, n_rows) * scale[:, :, None]
            mixed, top = (parameters.mixing[t][..., None] * each).sum(1), highest
        sums.append(mixed)
        scales.append(scale)
        if keep_products:
            products.append(product)
        if t < len(layout.sums) - 1:
            peak = backend.peak(mixed, 1)
            here = slice(layer.first, layer.first + layer.shape[0])
            values[here] = mixed / peak[:, None]
            tops[here] = top + backend.log(peak)
    return Upward(values, sums, scales, products, backend.log(mixed[0, 0]) + top[0])


def downward(
    layout: Layout,
    placed: Placed,
    parameters: Parameters,
    up: Upward,
    row_weights: Any,
    backend: Backend,
    counts: Counts | None,
) -> list[Any]:
    """Share out the rows from the root down.

    Parameters
    ----------
    layout, placed, parameters, backend
        As for `upward`.
    up : Upward
        What it returned.
    row_weights : array of shape (B,)
        How often each row counts.
    counts : Counts or None
        Expected counts of products are added to it.

    Returns
    -------
    list of arrays of shape (L, K, B)
        How often each component of the leaves is used, in expectation.
    """
    k, n_rows, n = layout.n_components, len(row_weights), layout.n_partitions
    # What every half of a partition gets, and a last one that stays 0.
    shares = backend.zeros(2 * n + 1, k, n_rows)
    for t in range(len(layout.sums) - 1, -1, -1):
        layer, weights = layout.sums[t], parameters.weights[t]
        left, right = placed.left[t], placed.right[t]
        if t == len(layout.sums) - 1:
            flow = row_weights[None, None]
        else:
            flow = shares[placed.parents[len(layout.leaves) + t]].sum(1)
        ratio = flow / up.sums[t]
        if layer.shape[1] > 1:
            ratio = ratio[:, None] * parameters.mixing[t][..., None] * up.scales[t][:, :, None]
            ratio = ratio.reshape(len(left), weights.shape[1], n_rows)
        total = None if counts is None else counts.products[t]

        def divide(
            begin: int, end: int, left: Any = left, right: Any = right, weights: Any = weights,
            ratio: Any = ratio, total: Any = total, first: int = layer.begin,
        ) -> None:  # fmt: skip
            size = end - begin
            pairs = up.values[left[begin:end]][:, :, None] * up.values[right[begin:end]][:, None]
            some = ratio[begin:end]
            if total is not None:
                total[begin:end] += some @ pairs.reshape(size, k * k, n_rows).swapaxes(1, 2)
            joint = (weights[begin:end].swapaxes(1, 2) @ some).reshape(size, k, k, n_rows)
            joint *= pairs
            shares[first + begin : first + end] = joint.sum(2)
            shares[n + first + begin : n + first + end] = joint.sum(1)

        backend.each(divide, len(left), k * k * n_rows * 4)
    if not layout.sums:  # the root is a leaf
        return [row_weights[None, None]]
    return [shares[parents].sum(1) for parents in placed.parents[: len(layout.leaves)]]


def count_cells(placed: Placed, flows: list[Any], hot: Any, counts: Counts) -> None:
    """Add what leaves have seen to the counts."""
    for t, flow in enumerate(flows):
        counts.cells[t][:] += flow @ hot[placed.cells[t]].swapaxes(1, 2)
        counts.leaves[t][:] += flow.sum(2)
