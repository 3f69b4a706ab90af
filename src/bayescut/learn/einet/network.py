"""A learned network: answers from its tensors, and the circuit that it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Circuit
from bayescut.circuit._passes import refuse_impossible
from bayescut.circuit.evidence import Rows, read_evidence
from bayescut.data.domains import Domains, missing_code
from bayescut.learn.einet.backend import Backend, make_backend
from bayescut.learn.einet.draw import draw_cells
from bayescut.learn.einet.em import first_cells, floored
from bayescut.learn.einet.layout import Layout
from bayescut.learn.einet.passes import (
    Parameters,
    Placed,
    Upward,
    downward,
    find_cells,
    place,
    upward,
)

# Stands for the logarithm of 0, which must not be multiplied by 0.
_NEVER = -1e30


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """A network too large for a `Circuit`, with the queries that its tensors answer.

    Parameters
    ----------
    layout : Layout
        The structure.
    parameters : Parameters
        Its weights and probabilities, as NumPy arrays.
    domains : Domains
        The states of all columns.
    backend, device, dtype : str
        See `bayescut.learn.einet.backend.make_backend`.
    """

    layout: Layout
    parameters: Parameters
    domains: Domains
    backend: str = "numpy"
    device: str | None = None
    dtype: str = "float32"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Circuit, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f"{name!r} needs a circuit, which a network of {self.layout.n_weights:,} weights was "
            "not turned into: learn a smaller one (n_components, pieces, n_trees, depth), or raise "
            "max_circuit_edges. Its tensors answer log-likelihoods, marginals and draws."
        )

    #: No leaf of these networks looks at numbers.
    has_normals = False

    @property
    def n_parameters(self) -> int:
        """Number of independent parameters."""
        return self.layout.n_parameters

    def __repr__(self) -> str:
        return (
            f"DenseNetwork({len(self.domains)} variables, {self.layout.n_regions} regions, "
            f"{self.layout.n_partitions} partitions, {self.n_parameters} parameters)"
        )

    # ---------------------------------------------------------------- queries

    def log_likelihood(self, rows: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Log-probability of each row, see :func:`bayescut.circuit.queries.log_likelihood`."""
        read = read_evidence(self, rows)  # type: ignore[arg-type]
        answers = [np.empty(0)]
        with self._ready(n_jobs) as ready:
            for part in _parts(read, ready.backend.block_rows):
                answers.append(ready.log_likelihood(part))
        return np.concatenate(answers)

    def marginals(self, rows: Any, *, n_jobs: int | None = None) -> FloatArray:
        """Posterior of every variable, see :func:`bayescut.circuit.queries.marginals`."""
        read = read_evidence(self, rows)  # type: ignore[arg-type]
        answers = [np.empty((0, self.layout.n_cells))]
        with self._ready(n_jobs) as ready:
            for part in _parts(read, ready.backend.block_rows):
                answers.append(ready.marginals(part, sum(map(len, answers))))
        return np.concatenate(answers)

    def sample_conditional(
        self, rows: Any, random_state: Any = None, *, n_jobs: int | None = None
    ) -> NDArray[Any]:
        """Complete rows by draws, see :func:`bayescut.circuit.queries.sample_conditional`."""
        read = read_evidence(self, rows)  # type: ignore[arg-type]
        rng = np.random.default_rng(random_state)
        out = read.codes.copy()
        done = 0
        with self._ready(n_jobs, on_processor=True) as ready:
            for part in _parts(read, ready.backend.block_rows):
                found = ready.draw(part, done, rng)
                here = out[done : done + part.n_rows]
                here[...] = np.where(part.codes == missing_code(out.dtype), found, part.codes)
                done += part.n_rows
        return out

    def sample(
        self, n: int = 1, random_state: Any = None, *, n_jobs: int | None = None
    ) -> NDArray[Any]:
        """Draw rows."""
        blank = np.full((n, len(self.domains)), np.nan)
        return self.sample_conditional(blank, random_state, n_jobs=n_jobs)

    def _ready(self, n_jobs: int | None, *, on_processor: bool = False) -> _Ready:
        name, device = ("numpy", None) if on_processor else (self.backend, self.device)
        return _Ready(self, make_backend(name, device, self.dtype, count_jobs(n_jobs)))


def _parts(rows: Rows, size: int) -> Iterator[Rows]:
    """Rows that are asked about together: with weights of its own, each row alone."""
    step = 1 if len(rows.weights) > 1 else size
    for begin in range(0, rows.n_rows, step):
        yield rows.take(slice(begin, begin + step))


class _Ready:
    """A network on its backend, for the time of a query."""

    def __init__(self, network: DenseNetwork, backend: Backend) -> None:
        self.layout = network.layout
        self.backend = backend
        self.busy = backend.busy()
        self.parameters = network.parameters.map(backend.put)
        self.placed: Placed = place(network.layout, backend)
        self.leaves = floored(self.layout, self.parameters.leaves, backend)

    def __enter__(self) -> _Ready:
        self.busy.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.busy.__exit__(*error)

    def up(self, rows: Rows, *, keep_products: bool = False) -> Upward:
        """Values of all regions, what is not observed weighted as the rows say."""
        layout, backend = self.layout, self.backend
        m = rows.codes.shape[1]
        # Behind the cells: one that stays 0, and ones where a column is not observed.
        hot = np.zeros((layout.n_cells + 1 + m, rows.n_rows))
        cells = find_cells(layout, rows.codes)
        hot[cells, np.arange(rows.n_rows)] = 1.0
        hot[layout.n_cells] = 0.0
        logs = [backend.log(table) for table in self.leaves]
        placed = self.placed
        if rows.weights.shape[1] > 0:
            hot[layout.n_cells + 1 :] = cells == layout.n_cells
            extended = [self._unknown(t, rows.weights[0]) for t in range(len(self.leaves))]
            logs = [backend.put(table) for table, _ in extended]
            placed = placed._replace(cells=[backend.index(index) for _, index in extended])
        return upward(
            layout, placed, self.parameters, logs, backend.put(hot), backend,
            keep_products=keep_products,
        )  # fmt: skip

    def _unknown(self, t: int, weights: FloatArray) -> tuple[Any, Any]:
        """Logs and cells of leaves with those of columns that are not observed."""
        layer = self.layout.leaves[t]
        table = self.backend.get(self.leaves[t]).astype(np.float64)
        starts = [first_cells(widths) for widths in layer.states]
        most = max(map(len, starts))
        extra = np.zeros((*table.shape[:2], most))
        index = np.full((len(table), most), self.layout.n_cells, dtype=np.int64)
        for at, begins in enumerate(starts):
            cells = layer.cells[at]
            known = np.add.reduceat(table[at] * weights[cells], begins, axis=1)
            with np.errstate(divide="ignore"):
                extra[at, :, : len(begins)] = np.maximum(np.log(known), _NEVER)
            columns = np.searchsorted(self.layout.offsets, cells[begins], side="right") - 1
            index[at, : len(begins)] = self.layout.n_cells + 1 + columns
        return np.concatenate([np.log(table), extra], axis=2), np.hstack([layer.cells, index])

    def log_likelihood(self, rows: Rows) -> FloatArray:
        return self._values(self.up(rows), rows)

    def _values(self, up: Upward, rows: Rows) -> FloatArray:
        values = self.backend.get(up.log_likelihood).astype(np.float64)
        values[values < 0.5 * _NEVER] = -np.inf
        if rows.weights.shape[1] > 0:
            weights = np.append(rows.weights[0], 1.0)
            values[(weights[find_cells(self.layout, rows.codes)] == 0).any(axis=0)] = -np.inf
        return values

    def _refuse_impossible(self, up: Upward, rows: Rows, done: int) -> None:
        values = self._values(up, rows)
        if np.any(values == -np.inf):
            refuse_impossible(done + int(np.argmin(values)))

    def marginals(self, rows: Rows, done: int) -> FloatArray:
        backend, layout = self.backend, self.layout
        up = self.up(rows)
        self._refuse_impossible(up, rows, done)
        ones = backend.put(np.ones(rows.n_rows))
        flows = downward(layout, self.placed, self.parameters, up, ones, backend, None)
        weights = np.ones(layout.n_cells)
        if rows.weights.shape[1] > 0:
            weights = rows.weights[0]
        total = np.zeros((layout.n_cells, rows.n_rows))
        for layer, table, flow in zip(layout.leaves, self.leaves, flows, strict=True):
            used = backend.get(flow).astype(np.float64)
            known = backend.get(table).astype(np.float64) * weights[layer.cells][:, None]
            for at, cells in enumerate(layer.cells):
                begins = first_cells(layer.states[at])
                sums = np.add.reduceat(known[at], begins, axis=1)
                sums[sums == 0] = 1.0  # no row comes here
                share = known[at] / np.repeat(sums, np.diff([*begins, len(cells)]), axis=1)
                total[cells] += share.T @ used[at]
        # Rounding aside each column sums to 1; observed states are certain.
        cells = find_cells(layout, rows.codes)
        column = np.repeat(np.arange(len(cells)), np.diff(layout.offsets))
        total /= np.add.reduceat(total, layout.offsets[:-1], axis=0)[column]
        observed = cells != layout.n_cells
        total[observed[column]] = 0.0
        where = np.nonzero(observed)
        total[cells[where], where[1]] = 1.0
        return np.ascontiguousarray(total.T)

    def draw(self, rows: Rows, done: int, rng: np.random.Generator) -> CodeArray:
        up = self.up(rows, keep_products=True)
        self._refuse_impossible(up, rows, done)
        weights = None if rows.weights.shape[1] == 0 else rows.weights[0]
        return draw_cells(self.layout, self.parameters, self.leaves, up, weights, rng)
