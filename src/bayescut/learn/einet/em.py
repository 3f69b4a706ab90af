r"""Expectation maximisation in batches, with the constants of the authors' program.

After every batch of rows the weights of sums move towards the normalised expected counts,

.. math:: w \leftarrow (1 - s) \, w + s \, \frac{\max(n_w, 10^{-16})}{\sum \max(n_w, 10^{-16})},

and the probabilities of cells towards theirs. Rows that an epoch leaves over count in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.learn.einet.backend import Backend
from bayescut.learn.einet.layout import Layout
from bayescut.learn.einet.passes import (
    Counts,
    Parameters,
    Placed,
    count_cells,
    downward,
    mark_cells,
    no_counts,
    place,
    upward,
)

# Weights are never below this; the likelihood takes no cell for less probable than that.
_LEAST_WEIGHT = 1e-16
LEAST_CELL = 1e-6
# A count of what a component knew before, so that one no row uses keeps its probabilities.
_PRIOR_COUNT = 1e-12


@dataclass(frozen=True)
class Settings:
    """How a network is learned.

    Attributes
    ----------
    batch_size : int
        Rows after which the parameters move.
    step_size : float
        How far they move towards those of the batch; 1: all the way.
    alpha : float
        Pseudo-count of every cell of a leaf in the whole table.
    max_epochs, min_epochs, patience : int
        Learning ends after so many epochs, or when the best value of the validation rows is
        `patience` epochs old and `min_epochs` have passed.
    """

    batch_size: int = 6400
    step_size: float = 0.5
    alpha: float = 0.0
    max_epochs: int = 300
    min_epochs: int = 100
    patience: int = 30


def start(layout: Layout, rng: np.random.Generator) -> Parameters:
    """Draw weights and probabilities, ``0.01 + 0.98 U``, normalised."""

    def draw(*shape: int) -> Any:
        return 0.01 + 0.98 * rng.random(shape, dtype=np.float32)

    def normalised(array: Any, axis: int) -> Any:
        return array / array.sum(axis=axis, keepdims=True)

    k = layout.n_components
    weights, mixing, leaves = [], [], []
    for layer in layout.sums:
        n_out = layout.out(layer.first)
        weights.append(normalised(draw(len(layer.left), n_out, k * k), 2))
        mixing.append(normalised(draw(*layer.shape, n_out), 1))
    for table in layout.leaves:
        n_leaves, n_cells = table.cells.shape
        cells = draw(n_leaves, layout.out(table.first), n_cells)
        # Of two states the second is drawn, the first is the rest: the mean of a pixel.
        leaves.append(_normalise_cells(table.states, cells))
    return Parameters(weights, mixing, leaves)


def _normalise_cells(states: IntArray, cells: Any) -> Any:
    """Divide the cells of every column by their sum."""
    for at in range(len(states)):
        widths = states[at]
        starts = first_cells(widths)
        own = widths[starts]
        two = starts[own == 2]
        cells[at, :, two] = 1.0 - cells[at, :, two + 1]
        totals = np.add.reduceat(cells[at], starts, axis=1)
        cells[at] /= np.repeat(totals, own, axis=1)
    return cells


def first_cells(widths: IntArray) -> IntArray:
    """Where the columns of a leaf begin, given the number of states for each of its cells."""
    starts = []
    position = 0
    while position < len(widths):
        starts.append(position)
        position += int(widths[position])
    return np.array(starts, dtype=np.int64)


def floored(layout: Layout, leaves: list[Any], backend: Backend) -> list[Any]:
    """Probabilities of cells as the likelihood takes them, none below `LEAST_CELL`."""
    found = []
    for layer, table in zip(layout.leaves, leaves, strict=True):
        rest = backend.put(1.0 - LEAST_CELL * layer.states)[:, None]
        found.append(rest * table + LEAST_CELL)
    return found


class Trainer:
    """A network on its way.

    Parameters
    ----------
    layout : Layout
        The structure.
    parameters : Parameters
        Where to begin, as NumPy arrays.
    settings : Settings
        How to learn.
    backend : Backend
        Where to.
    """

    def __init__(
        self, layout: Layout, parameters: Parameters, settings: Settings, backend: Backend
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.backend = backend
        self.placed: Placed = place(layout, backend)
        self.parameters = parameters.map(backend.put)
        self.leaf_logs: list[Any] = []
        self.counts: Counts = no_counts(self.parameters, backend)
        self.n_seen = 0
        self.weight_seen = 0.0
        self._states = [backend.put(layer.states)[:, None] for layer in layout.leaves]
        self.take_logs()

    def take_logs(self) -> None:
        """Work out the logarithms of the cells anew, after they were set."""
        tables = floored(self.layout, self.parameters.leaves, self.backend)
        self.leaf_logs = [self.backend.log(table) for table in tables]

    def epoch(
        self,
        codes: CodeArray,
        rows: IntArray,
        weights: FloatArray | None = None,
        told: Callable[[int], None] | None = None,
    ) -> float:
        """Learn from rows of a table in the order given; return their mean log-likelihood.

        Parameters
        ----------
        codes : uint8 or uint16 array
            The table.
        rows : int array
            Which rows, and in which order.
        weights : float64 array, optional
            Weights of all rows of the table.
        told : callable, optional
            Is told the number of rows of every block.
        """
        due = min(self.settings.batch_size, len(rows))
        mass = float(len(rows) if weights is None else weights[rows].sum())
        total = 0.0
        begin = 0
        while begin < len(rows):
            end = min(begin + self.backend.block_rows, begin + due - self.n_seen, len(rows))
            block = rows[begin:end]
            own = None if weights is None else weights[block]
            values = self.count(codes[block], own)
            total += float(values.sum() if own is None else values @ own)
            self.n_seen += len(block)
            self.weight_seen += float(len(block) if own is None else own.sum())
            if self.n_seen >= due:
                self.update(self.weight_seen / mass)
            if told is not None:
                told(len(block))
            begin = end
        return total / mass

    def count(self, codes: CodeArray, weights: FloatArray | None = None) -> FloatArray:
        """Add the expected counts of complete rows; return their log-likelihoods."""
        backend, layout = self.backend, self.layout
        hot = mark_cells(layout, codes, backend)
        up = upward(layout, self.placed, self.parameters, self.leaf_logs, hot, backend)
        own = backend.put(np.ones(len(codes)) if weights is None else weights)
        flows = downward(layout, self.placed, self.parameters, up, own, backend, self.counts)
        count_cells(self.placed, flows, hot, self.counts)
        return backend.get(up.log_likelihood).astype(np.float64)

    def update(self, share: float = 1.0) -> None:
        """Move the parameters towards the counts, and begin to count anew.

        Parameters
        ----------
        share : float
            Share of the table that was counted.
        """
        backend, step = self.backend, self.settings.step_size
        weights, mixing, leaves = self.parameters

        def move(old: Any, counts: Any, axis: int) -> Any:
            counts = backend.at_least(counts, _LEAST_WEIGHT)
            counts /= counts.sum(axis)[_add_axis(axis)]
            counts *= step
            counts += (1.0 - step) * old
            counts = backend.at_least(counts, _LEAST_WEIGHT)
            counts /= counts.sum(axis)[_add_axis(axis)]
            return counts

        for t, layer in enumerate(self.layout.sums):
            expected = self.counts.products[t]
            expected *= weights[t]
            if layer.shape[1] > 1:
                used = expected.sum(2).reshape(mixing[t].shape)
                mixing[t] = move(mixing[t], used, 1)

            def part(begin: int, end: int, expected: Any = expected, old: Any = weights[t]) -> None:
                old[begin:end] = move(old[begin:end], expected[begin:end], 2)

            backend.each(part, len(expected), expected.shape[1] * expected.shape[2] * 8)
        alpha = self.settings.alpha * share
        for t, table in enumerate(leaves):
            used = self.counts.leaves[t][:, :, None]
            cells = self.counts.cells[t] + alpha + _PRIOR_COUNT * table
            cells /= used + alpha * self._states[t] + _PRIOR_COUNT
            leaves[t] = (1.0 - step) * table + step * cells
        self.take_logs()
        for part_of in self.counts:
            for array in part_of:
                array[:] = 0.0
        self.n_seen, self.weight_seen = 0, 0.0

    def log_likelihood(self, codes: CodeArray) -> FloatArray:
        """Log-likelihood of rows that may have missing cells."""
        found = []
        for block in blocks(codes, self.backend.block_rows):
            hot = mark_cells(self.layout, block, self.backend)
            up = upward(
                self.layout, self.placed, self.parameters, self.leaf_logs, hot, self.backend
            )
            found.append(self.backend.get(up.log_likelihood).astype(np.float64))
        return np.concatenate([np.empty(0), *found])


def _add_axis(axis: int) -> Any:
    """Index that puts an axis of length 1 where a sum has taken one away."""
    return (slice(None),) * axis + (None,)


def blocks(codes: CodeArray, size: int) -> Iterator[CodeArray]:
    """Yield rows of a table, so many at a time."""
    for begin in range(0, len(codes), size):
        yield codes[begin : begin + size]


@dataclass
class Progress:
    """What became of a run.

    Attributes
    ----------
    train, valid : list of float
        Mean log-likelihood of the rows learned from (each before the step that it was part of) and
        of the validation rows after every epoch.
    best : Parameters or None
        Those with the best value of the validation rows, on the backend.
    best_epoch : int
        After how many epochs that was.
    """

    train: list[float]
    valid: list[float]
    best: Parameters | None = None
    best_epoch: int = 0

    def done(self, settings: Settings) -> bool:
        """Whether it is time to stop."""
        n = len(self.train)
        stale = n - self.best_epoch >= settings.patience
        return n >= settings.max_epochs or (n >= settings.min_epochs and stale)


def run_em(
    trainer: Trainer,
    codes: CodeArray,
    rows: IntArray,
    weights: FloatArray | None,
    value: Callable[[FloatArray], float],
    valid: CodeArray,
    seed: int,
    *,
    progress: Progress | None = None,
    told: Callable[[int], None] | None = None,
    after_epoch: Callable[[Progress], bool] | None = None,
) -> Progress:
    """Learn until the validation rows have not gained for long.

    Parameters
    ----------
    trainer : Trainer
        The network; it ends as the last epoch has left it.
    codes, rows, weights
        The table, the rows of it to learn from, and weights of all its rows.
    value : callable
        Mean of a number for every validation row.
    valid : array
        The validation rows.
    seed : int
        The order of the rows in epoch e is drawn from (seed, e).
    progress : Progress, optional
        That of the same run, to go on with.
    told : callable, optional
        Is told of rows learned from.
    after_epoch : callable, optional
        Is called after every epoch; False ends the run for now.
    """
    progress = progress or Progress([], [])
    while not progress.done(trainer.settings):
        epoch = len(progress.train)
        order = np.random.default_rng([seed, epoch]).permutation(rows)
        progress.train.append(trainer.epoch(codes, order, weights, told))
        progress.valid.append(value(trainer.log_likelihood(valid)))
        if progress.best is None or progress.valid[-1] > progress.valid[progress.best_epoch - 1]:
            progress.best = trainer.parameters.map(trainer.backend.copy)
            progress.best_epoch = epoch + 1
        if after_epoch is not None and not after_epoch(progress):
            break
    return progress
