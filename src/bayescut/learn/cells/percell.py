"""What is said of single cells: by networks, by trees for every column, and by normal scores.

A density of whole rows answers everything, but each of its networks has few cuts for any one
column. For one cell given the rest of its row, trees whose cuts are chosen for its column say more;
and smooth relations of numbers are best known to a Gaussian of their normal scores. How much each
knows differs between columns. So all three speak, weighted column by column by the likelihood of
cells that none of them has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescut._clock import working_time
from bayescut._jobs import side_by_side
from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit import Circuit, Evidence
from bayescut.circuit.build import mixture
from bayescut.data.domains import Domains, missing_code
from bayescut.data.table import Table
from bayescut.learn.cells.targeted import ForestLearner, TargetForest, table_cells
from bayescut.learn.ensemble.pool import Pool
from bayescut.learn.mixture.weights import most_likely_weights
from bayescut.learn.tables.copula import NormalScores, learn_copula

__all__ = ["CellPredictor", "learn_cells", "read_columns"]

# Every how many columns one is hidden when the three are compared: they must do with gaps.
_GROUPS = 5
# Rows of a fold that they are compared by.
_MOST_JUDGED = 128
# Rows of a leaf at least. Mean absolute error of a hidden fifth of the cells of 400 rows with 1 and
# with 3: vowel 0.103 and 0.109, authent 0.097 and 0.101.
_LEAST_ROWS = 1.0
# Numbers in the tables of all trees: 400 MB. Larger tables, and wider ones, have fewer trees.
_MOST_CELLS = 1e8
# No cell is thought less likely; one would decide a weight.
_LEAST_LOG = -30.0


@dataclass(frozen=True, eq=False)
class CellPredictor:
    """Probabilities of the states of single cells given the rest of their rows.

    Parameters
    ----------
    circuit : Circuit
        Density of whole rows.
    forests : sequence of TargetForest or None
        Trees for each of the ``columns``, None where there are none.
    normal : NormalScores or None
        The Gaussian, None where there are not two numbers.
    shares : float64 array of shape (k, 3)
        Weights of the mixture, the trees and the Gaussian in what is said of each of them.
    columns : int64 array of shape (k,)
        The columns of the circuit that trees and Gaussian know, ascending; of the others the
        circuit alone speaks.
    """

    circuit: Circuit
    forests: Sequence[TargetForest | None]
    normal: NormalScores | None
    shares: FloatArray
    columns: IntArray

    @classmethod
    def of_circuit(cls, circuit: Circuit) -> CellPredictor:
        """What a density alone says."""
        m = len(circuit.domains)
        shares = np.zeros((m, 3))
        shares[:, 0] = 1.0
        return cls(circuit, (), None, shares, np.arange(m))

    def among(self, circuit: Circuit, columns: IntArray) -> CellPredictor:
        """The same where its columns are some of those of another circuit."""
        return replace(self, circuit=circuit, columns=columns[self.columns])

    @property
    def all_shares(self) -> FloatArray:
        """The weights for all columns of the circuit, shape (m, 3)."""
        shares = np.zeros((len(self.circuit.domains), 3))
        shares[:, 0] = 1.0
        shares[self.columns] = self.shares
        return shares

    def state(self) -> dict[str, Any]:
        """Return what a file holds beside the circuit."""
        return {
            "columns": self.columns,
            "shares": self.shares,
            "forests": [None if forest is None else forest.state() for forest in self.forests],
            "covariance": None if self.normal is None else self.normal.covariance,
            "numbers": None if self.normal is None else self.normal.columns,
        }

    @classmethod
    def from_state(cls, circuit: Circuit, state: dict[str, Any]) -> CellPredictor:
        """Read what `state` returned, trusting nothing."""
        if set(state) != {"columns", "shares", "forests", "covariance", "numbers"}:
            raise ValueError("this does not describe what is said of cells")
        columns = read_columns(state["columns"], len(circuit.domains))
        known = Domains([circuit.domains[j] for j in columns.tolist()])
        shares = np.asarray(state["shares"], dtype=np.float64)
        forests = [None if f is None else TargetForest.from_state(f) for f in state["forests"]]
        sizes = known.n_states
        inside = bool((shares >= 0).all()) and np.allclose(shares.sum(axis=-1), 1.0)
        if shares.shape != (len(sizes), 3) or not inside or len(forests) not in (0, len(sizes)):
            raise ValueError("the trees are not those of the columns")
        for j, forest in enumerate(forests):
            if forest is None:
                continue
            if forest.target != j or not np.array_equal(forest.sizes, sizes):
                raise ValueError("the trees are not those of the columns")
        normal = None
        if state["covariance"] is not None:
            normal = NormalScores(
                known,
                np.asarray(state["numbers"], dtype=np.int64),
                np.asarray(state["covariance"], dtype=np.float64),
            )
        for j in np.flatnonzero(shares[:, 2]).tolist():
            if normal is None or not normal.knows(j):
                raise ValueError("normal scores of columns that have none")
        return cls(circuit, forests, normal, shares, columns)

    def proba(
        self,
        codes: CodeArray,
        columns: Sequence[int],
        n_jobs: int = 1,
        values: FloatArray | None = None,
    ) -> dict[int, FloatArray]:
        """Probabilities of the states of columns in rows in which they are not observed.

        Parameters
        ----------
        codes : array of shape (n, m)
            Rows; missing cells are marginalised.
        columns : sequence of int
            The columns asked about.
        n_jobs : int
            Threads.
        values : float array of shape (n, m), optional
            The numbers themselves, NaN where missing, for leaves that look at them.

        Returns
        -------
        dict of float64 arrays of shape (n, K)
        """
        offsets = self.circuit.domains.offsets
        looks = values is not None and self.circuit.has_normals
        rows = Evidence(codes, values=values) if looks else codes
        marginals = self.circuit.marginals(rows, n_jobs=n_jobs)
        found = {}
        inner = np.ascontiguousarray(codes[:, self.columns])
        place = {int(j): k for k, j in enumerate(self.columns)}
        smooth = [place[j] for j in columns if j in place and self.shares[place[j], 2] > 0]
        if self.normal is not None and smooth:
            lines = self.normal.proba(inner, smooth)
        for j in columns:
            own = marginals[:, offsets[j] : offsets[j + 1]]
            if j in place:
                k = place[j]
                own = self.shares[k, 0] * own
                forest = self.forests[k] if k < len(self.forests) else None
                if forest is not None and self.shares[k, 1] > 0:
                    own += self.shares[k, 1] * forest.proba(inner, n_jobs)
                if self.normal is not None and self.shares[k, 2] > 0:
                    own += self.shares[k, 2] * lines[k]
            found[j] = own / own.sum(axis=1, keepdims=True)
        return found


def read_columns(columns: Any, n_columns: int) -> IntArray:
    """Read positions of columns that a file holds, ascending and none twice."""
    found = np.asarray(columns)
    if found.ndim != 1 or found.dtype.kind not in "iu" or len(found) == 0:
        raise ValueError("these are no positions of columns")
    if found[0] < 0 or found[-1] >= n_columns or np.any(np.diff(found.astype(np.int64)) <= 0):
        raise ValueError("positions of columns that there are not")
    return found.astype(np.int64)


def learn_cells(
    table: Table,
    pool: Pool,
    recipes: dict[str, float],
    circuit: Circuit,
    folds: IntArray,
    *,
    n_trees: int,
    seed: int,
    deadline: float = np.inf,
    n_jobs: int = 1,
) -> CellPredictor:
    """Learn trees for every column, normal scores, and how much they count beside networks.

    Parameters
    ----------
    table : Table
        Rows; cells may be missing.
    pool : Pool
        Members of the mixture, the k-th of each recipe learned without fold ``k % n_folds``.
    recipes : dict
        Weights of the pool's recipes.
    circuit : Circuit
        The mixture. Missing features of rows that trees learn from are drawn from it, anew for
        every fold.
    folds : int array of shape (n,)
        Fold of every row.
    n_trees : int
        Trees of each fold, for each column; fewer where their tables would take too much.
    seed : int
        Of draws and cuts.
    deadline : float
        By `bayescut._clock.working_time`; the trees of one fold are learned nevertheless.
    n_jobs : int
        Threads.

    Returns
    -------
    CellPredictor
    """
    m, n_folds = table.n_columns, int(folds.max()) + 1
    made: list[list[TargetForest]] = [[] for _ in range(m)]
    judged: list[list[FloatArray]] = [[] for _ in range(m)]
    rows = np.flatnonzero(~table.observed.all(axis=1))
    several = [j for j in range(m) if table.sizes[j] > 1]
    each = sum(table_cells(table.n_rows, j, table.sizes) for j in several) * n_folds
    learner = ForestLearner(int(np.clip(_MOST_CELLS / max(each, 1.0), 1, n_trees)), _LEAST_ROWS)
    for fold in range(n_folds):
        if fold and working_time() >= deadline:
            break
        codes = table.codes.copy()
        if len(rows):
            rng = np.random.default_rng([seed, 11, fold])
            codes[rows] = circuit.sample_conditional(table.codes[rows], rng, n_jobs=n_jobs)
        seen = folds != fold if n_folds > 1 else np.ones(table.n_rows, dtype=bool)

        def grow(
            j: int, codes: CodeArray = codes, seen: IntArray = seen, fold: int = fold
        ) -> TargetForest | None:
            own = np.flatnonzero(seen & table.observed[:, j])
            if len(own) < 2:
                return None
            weights = None if table.weights is None else table.weights[own]
            known = Table(np.ascontiguousarray(codes[own]), table.domains, weights)
            return learner.learn(known, j, np.random.default_rng([seed, 12, fold, j]))

        grown = dict(zip(several, side_by_side(grow, several, n_jobs), strict=True))
        if n_folds > 1:
            others = _without_fold(pool, recipes, fold, n_folds)
            left = np.flatnonzero(~seen)
            if len(left) > _MOST_JUDGED:  # rows may be sorted: some from everywhere
                left = left[np.linspace(0, len(left) - 1, _MOST_JUDGED).astype(np.int64)]
            lines = learn_copula(table, np.flatnonzero(seen))
            _judge(table, left, others, grown, lines, judged, n_jobs)
        for j, forest in grown.items():
            if forest is not None:
                made[j].append(forest)
    shares = CellPredictor.of_circuit(circuit).shares
    normal = learn_copula(table)
    for j in several:
        used = 3 if normal is not None and normal.knows(j) else 2
        if made[j] and judged[j]:
            found = np.concatenate(judged[j], axis=1)
            shares[j, :used] = most_likely_weights(found[:used], found[3])
        elif made[j]:
            shares[j, :2] = 0.5
    forests = [TargetForest.join(some) if some else None for some in made]
    return CellPredictor(circuit, forests, normal, shares, np.arange(m))


def _without_fold(pool: Pool, recipes: dict[str, float], fold: int, n_folds: int) -> Circuit | None:
    """Return the mixture of the members that have not seen a fold."""
    weights, circuits = [], []
    for name, share in recipes.items():
        members = pool.recipes[name].circuits
        unseen = [member for k, member in enumerate(members) if k % n_folds == fold]
        if share > 0 and unseen:
            weights += [share / len(unseen)] * len(unseen)
            circuits += unseen
    if not circuits:
        return None
    return mixture(np.array(weights) / np.sum(weights), circuits)


def _judge(
    table: Table,
    rows: IntArray,
    circuit: Circuit | None,
    forests: dict[int, TargetForest | None],
    normal: NormalScores | None,
    judged: list[list[FloatArray]],
    n_jobs: int,
) -> None:
    """Note what all three say of cells that are observed, hiding some of each row.

    Trees take the spread that suits these cells.
    """
    offsets, mark = table.domains.offsets, missing_code(table.codes.dtype)
    weights = table.all_weights
    n_groups = min(_GROUPS, table.n_columns)
    for group in range(n_groups):
        hidden = table.codes[rows].copy()
        hidden[:, group::n_groups] = mark
        marginals = None if circuit is None else circuit.marginals(hidden, n_jobs=n_jobs)
        for j in range(group, table.n_columns, n_groups):
            forest = forests.get(j)
            there = table.observed[rows, j]
            if forest is None or not there.any():
                continue
            forest = forest.spread(table, rows[there], hidden[there])
            forests[j] = forest
            if marginals is None:
                continue
            state = table.codes[rows[there], j].astype(np.int64)[:, None]
            said = [
                marginals[there, offsets[j] : offsets[j + 1]],
                forest.proba(hidden[there], n_jobs),
                np.ones((len(state), int(table.sizes[j]))),  # of labels: not looked at
            ]
            if normal is not None and normal.knows(j):
                said[2] = normal.proba(hidden[there], [j])[j]
            with np.errstate(divide="ignore"):
                logs = [np.log(np.take_along_axis(p, state, axis=1)[:, 0]) for p in said]
            found = np.maximum(np.stack(logs), _LEAST_LOG)
            judged[j].append(np.vstack([found, weights[rows[there]][None]]))
