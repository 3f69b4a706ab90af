"""Filling gaps, as a transformer for pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayescut._interrupts import interruptible
from bayescut._jobs import count_jobs
from bayescut._typing import CodeArray, FloatArray
from bayescut.circuit import Evidence
from bayescut.circuit.queries import completed_numbers
from bayescut.data import Domains, decode, missing_code
from bayescut.data.tables import is_frame
from bayescut.estimators._job import DensityJob
from bayescut.estimators._predict import number_of
from bayescut.estimators._validation import check_choice, check_count
from bayescut.learn.cells.percell import CellPredictor

_METHODS = ("median", "mean", "mode", "mpe", "sample")


class CutsetImputer(TransformerMixin, DensityJob):  # type: ignore[misc]
    """Fills the gaps of tables of labels and numbers from an exact density.

    `fit` learns the density from a table that may itself have gaps, `transform` fills those of any
    table with the same columns; observed cells stay as they are.

    Parameters
    ----------
    method : {"median", "mean", "mode", "mpe", "sample"}, default="median"
        What a gap is filled with, given all observed cells of its row: the median of a number and
        the most probable label (``median``), the mean of a number (``mean``), the most probable
        value of either (``mode``), the jointly most probable completion of the row (``mpe``; an
        approximation on mixtures), or a draw (``sample``). Cell by cell the first has the least
        absolute error, and ``mode`` is more often right than ``mpe``.
    estimator : density estimator or None, default=None
        Learns the density (on a clone), such as `CutsetEnsemble`. None: a mixture of networks, each
        with a grid of its own for every number, with gaps in training drawn from the network
        learned before; and for single cells trees whose cuts are chosen for their column, and a
        Gaussian of the normal scores of all numbers.
    n_members : int, default=24
        Networks of the mixture; the settings from here to ``columns`` are not used where there is
        an estimator.
    n_trees : int, default=4
        Trees for each column and each of eight folds of the rows, 32 for a column by default; 0:
        neither trees nor Gaussian. A cell's distribution is that of the mixture, of its column's
        trees and of the Gaussian, weighted by the likelihood of cells that none of them has seen;
        each is exact, with all that is missing beside it marginalised. ``mpe`` and ``sample``,
        which fill the gaps of a row together, use the mixture alone.
    time_budget : float or None, default=None
        Seconds after which no further network, and no trees of a further fold, are begun.
    width : int, default=6
        Most parents of a column in a leaf of a network.
    columns : mapping or None, default=None
        Kinds of columns, such as ``{"zip": "label"}``; see `bayescut.data.describe_table`.
    unseen : {"error", "missing"}, default="error"
        What `transform` does with labels that training did not show: refuse, or fill them in.
    random_state : None, int or Generator, default=0
        Source of grids and draws.
    n_jobs : int or None, default=-1
        Threads, counted as joblib does.

    Attributes
    ----------
    circuit_ : Circuit
        The density, over labels and the cells of numbers.
    domains_ : Domains
        The columns.
    cell_shares_ : float64 array of shape (n_columns, 3)
        Weights of the mixture, of the trees and of the Gaussian in what single cells of each column
        are filled with.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut import CutsetImputer
    >>> X = np.array([[1.5, 10], [2.5, 20], [3.5, 30], [np.nan, 20]] * 20)
    >>> imputer = CutsetImputer(n_members=4).fit(X)
    >>> imputer.transform([[np.nan, 30.0]]).tolist()
    [[3.5, 30.0]]
    """

    def __init__(
        self,
        method: str = "median",
        *,
        estimator: Any = None,
        n_members: int = 24,
        n_trees: int = 4,
        time_budget: float | None = None,
        width: int = 6,
        columns: Any = None,
        unseen: str = "error",
        random_state: Any = 0,
        n_jobs: int | None = -1,
    ) -> None:
        self.method = method
        self.estimator = estimator
        self.n_members = n_members
        self.n_trees = n_trees
        self.time_budget = time_budget
        self.width = width
        self.columns = columns
        self.unseen = unseen
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("method", self.method, _METHODS)

    @interruptible
    def transform(self, X: Any) -> Any:
        """Fill the missing cells of a table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            A table of the columns of `fit`.

        Returns
        -------
        array or DataFrame
            As `X`, or as ``set_output`` says. A column of which `fit` saw no value stays missing.
        """
        codes, values = self._read_table(X)
        filled = fill(self._cells, codes, values, self.method, self._rng(), count_jobs(self.n_jobs))
        return self._written(X, *filled)

    @interruptible
    def draws(self, X: Any, n_draws: int = 5) -> list[Any]:
        """Fill the missing cells several times by draws: multiple imputation.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            A table of the columns of `fit`.
        n_draws : int, default=5
            Number of completed tables.

        Returns
        -------
        list of arrays or DataFrames
        """
        check_count("n_draws", n_draws)
        codes, values = self._read_table(X)
        rng, jobs = self._rng(), count_jobs(self.n_jobs)
        return [
            self._written(X, *fill(self._cells, codes, values, "sample", rng, jobs))
            for _ in range(n_draws)
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` returns: those it is given.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names, if `fit` was given none.
        """
        check_is_fitted(self, "circuit_")
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            if known is not None:
                return np.asarray(known, dtype=object)
            return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        names = np.asarray(input_features, dtype=object)
        if known is not None and not np.array_equal(names, known):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}"
            )
        return names

    def _written(self, X: Any, codes: CodeArray, values: FloatArray | None) -> Any:
        frame = is_frame(X)
        index = X.index if frame else None
        m = len(self.domains_)
        codes, values = codes[:, :m], None if values is None else values[:, :m]
        table = decode(codes, self.domains_, values=values, index=index, given=X, as_frame=frame)
        kind = getattr(X, "dtype", None)
        if not frame and isinstance(kind, np.dtype) and kind.kind == "f":
            return table.astype(kind)
        return table


def fill(
    cells: CellPredictor,
    codes: CodeArray,
    values: FloatArray | None,
    method: str,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[CodeArray, FloatArray | None]:
    """Fill the gaps of encoded rows: states, and the values of numbers."""
    circuit = cells.circuit
    domains = circuit.domains
    gaps = codes == missing_code(codes.dtype)
    rows = np.flatnonzero(gaps.any(axis=1))
    filled = codes.copy()
    numbers = None if values is None else values.copy()
    if not len(rows):
        return filled, numbers
    columns = np.flatnonzero(gaps.any(axis=0)).tolist()
    if method in ("mpe", "sample"):
        known = None if values is None else values[rows]
        peaks = _peaks(domains) if method == "mpe" else None
        filled[rows], drawn = completed_numbers(
            circuit,
            Evidence(codes[rows], peaks, known if circuit.has_normals else None),
            rng,
            maximise=method == "mpe",
            n_jobs=n_jobs,
        )
        by_leaves = np.full(codes.shape, np.nan)
        by_leaves[rows] = drawn
        for j in columns:
            grid, wanted = domains[j].grid, gaps[:, j]
            if grid is None or numbers is None:
                continue
            state = filled[wanted, j]
            numbers[wanted, j] = (
                grid.mode[state] if method == "mpe" else grid.draw(state, rng.random(len(state)))
            )
            own = wanted & ~np.isnan(by_leaves[:, j])
            numbers[own, j] = grid.snap(by_leaves[own, j])
        return _without_empty(filled, domains), numbers
    block = 4096
    for begin in range(0, len(rows), block):
        part = rows[begin : begin + block]
        known = None if values is None else values[part]
        found = cells.proba(codes[part], columns, n_jobs, known)
        for j in columns:
            wanted = gaps[part, j]
            if not wanted.any():
                continue
            own, place = found[j][wanted], part[wanted]
            filled[place, j] = own.argmax(axis=1)
            if domains[j].grid is not None and numbers is not None:
                numbers[place, j] = number_of(own, domains[j], method)
    return _without_empty(filled, domains), numbers


def _peaks(domains: Domains) -> FloatArray | None:
    """Highest density in each cell, relative to the column's highest: weights for a maximum."""
    if all(domain.grid is None for domain in domains):
        return None
    parts = [
        np.ones(domain.n_states)
        if domain.grid is None
        else np.exp(domain.grid.peak - domain.grid.peak.max())
        for domain in domains
    ]
    return np.concatenate(parts)


def _without_empty(codes: CodeArray, domains: Domains) -> CodeArray:
    for j, domain in enumerate(domains):
        if domain.empty:
            codes[:, j] = missing_code(codes.dtype)
    return codes
