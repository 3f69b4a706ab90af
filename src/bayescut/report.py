"""How good is a synthetic table? Its columns, its pairs, its use for a classifier, its copies.

Every distance stands beside the same distance between real rows and real rows that were held out:
a synthetic table is good where the two are about the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.data import Domains, encode_table, learn_domains, unseen_cells
from bayescut.data.tables import is_frame
from bayescut.exceptions import DataError

__all__ = ["Report", "compare_tables"]

# Halvings of numbers: sixteen states for a column, four in a pair.
_COLUMN_DEPTH, _PAIR_DEPTH = 4, 2
# Labels of a pair beyond these are one state: rare ones are noise in both tables.
_PAIR_LABELS = 12
# Share of the real rows that are held out where no other rows are given.
_HELD_OUT = 0.3
# A column of more labels than this names rows, more likely than classes.
_MOST_CLASSES = 64
# More labels than this are no categories to scikit-learn's boosting.
_MOST_CATEGORIES = 255


@dataclass(frozen=True, eq=False)
class Report:
    """What `compare_tables` found. Distances are total variation: 0 alike, 1 apart.

    Attributes
    ----------
    names : list of str
        The columns.
    columns, columns_real : float64 arrays of shape (m,)
        Distance of each column's distribution in the synthetic and in the held-out rows from that
        in the real rows.
    pairs, pairs_real : float64 arrays of shape (m, m)
        The same for pairs of columns; the diagonal is 0.
    target : str or None
        The column that classifiers predict; None if no column of labels has two states.
    accuracy, accuracy_real : float
        Of a classifier learned from the synthetic, from the real rows, on the held-out rows.
    accuracy_guess : float
        Of the most frequent label.
    copies, copies_real : float
        Share of the synthetic, of the held-out rows that equal some real row. If no rows were held
        out, of the real rows that equal another one.
    n_real, n_synthetic, n_held_out : int
        Numbers of rows.
    """

    names: list[str]
    columns: FloatArray
    columns_real: FloatArray
    pairs: FloatArray
    pairs_real: FloatArray
    target: str | None
    accuracy: float
    accuracy_real: float
    accuracy_guess: float
    copies: float
    copies_real: float
    n_real: int
    n_synthetic: int
    n_held_out: int

    def lines(self) -> list[list[str]]:
        """Return the table: what is measured, synthetic rows, held-out real rows."""
        above = np.triu_indices(len(self.names), 1)
        rows = [
            ("distance of columns, mean", self.columns.mean(), self.columns_real.mean()),
            ("distance of columns, largest", self.columns.max(), self.columns_real.max()),
        ]
        if len(above[0]):
            one, two = self.pairs[above], self.pairs_real[above]
            rows += [
                ("distance of pairs, mean", one.mean(), two.mean()),
                ("distance of pairs, largest", one.max(), two.max()),
            ]
        found = [[name, f"{one:.3f}", f"{two:.3f}"] for name, one, two in rows]
        if self.target is not None:
            found.append(
                [
                    f"accuracy for {self.target} (guess {self.accuracy_guess:.3f})",
                    f"{self.accuracy:.3f}",
                    f"{self.accuracy_real:.3f}",
                ]
            )
        share = [f"{100 * copies:.1f} %" for copies in (self.copies, self.copies_real)]
        return [*found, ["rows that equal a real row", *share]]

    def record(self) -> dict[str, Any]:
        """Return everything as values that JSON can hold."""
        return {
            "columns": {
                name: {"synthetic": float(one), "real": float(two)}
                for name, one, two in zip(self.names, self.columns, self.columns_real, strict=True)
            },
            "pairs": self.pairs.tolist(),
            "pairs_real": self.pairs_real.tolist(),
            "target": self.target,
            "accuracy": {
                "synthetic": self.accuracy,
                "real": self.accuracy_real,
                "guess": self.accuracy_guess,
            },
            "copies": {"synthetic": self.copies, "real": self.copies_real},
            "rows": {
                "real": self.n_real,
                "synthetic": self.n_synthetic,
                "held_out": self.n_held_out,
            },
        }

    def draw(self) -> Any:
        """Draw the report as one matplotlib figure: columns, pairs, accuracy and copies."""
        from matplotlib.figure import Figure

        ink, real = "#d65414", "#6f7f95"
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        columns, pairs, bars = figure.subplots(1, 3, width_ratios=(1.2, 1, 1))
        order = np.argsort(self.columns)[::-1][:20][::-1]
        height = np.arange(len(order))
        columns.barh(height + 0.2, self.columns[order], 0.4, color=ink, label="synthetic")
        columns.barh(height - 0.2, self.columns_real[order], 0.4, color=real, label="held out")
        columns.set_yticks(height, [self.names[j] for j in order])
        columns.set_title("distance of columns")
        figure.legend(frameon=False, loc="outside lower left", ncols=2)
        above = np.triu_indices(len(self.names), 1)
        pairs.scatter(self.pairs_real[above], self.pairs[above], s=12, color=ink)
        top = 1.05 * max(self.pairs.max(), self.pairs_real.max(), 1e-3)
        pairs.plot([0, top], [0, top], color=real, linewidth=1)
        pairs.set_xlabel("held out")
        pairs.set_ylabel("synthetic")
        pairs.set_title("distance of pairs")
        heights = [self.copies, self.copies_real]
        ticks = ["copies,\nsynthetic", "copies,\nheld out"]
        if self.target is not None:
            heights += [self.accuracy, self.accuracy_real]
            ticks += ["accuracy,\nfrom\nsynthetic", "accuracy,\nfrom real"]
        drawn = bars.bar(range(len(heights)), heights, color=[ink, real] * 2)
        bars.bar_label(drawn, [f"{height:.2f}" for height in heights], fontsize=8, padding=1)
        if self.target is not None:
            bars.plot([1.5, 3.5], [self.accuracy_guess] * 2, color="black", linestyle=":")
            bars.annotate("guess", (3.5, self.accuracy_guess), fontsize=8, ha="right", va="bottom")
        bars.set_xticks(range(len(heights)), ticks, fontsize=8)
        bars.set_ylim(0, 1.08)
        bars.set_title("copies" if self.target is None else f"copies, predicting\n{self.target}")
        return figure


def compare_tables(
    real: Any,
    synthetic: Any,
    held_out: Any = None,
    *,
    target: str | int | None = None,
    random_state: int = 0,
) -> Report:
    """Compare a synthetic table with the real one it was made from.

    Parameters
    ----------
    real : DataFrame or array
        The rows that the synthetic table was made from.
    synthetic : DataFrame or array
        Rows of the same columns.
    held_out : DataFrame or array, optional
        Real rows that it was not made from, to compare with. Default: 30 % of the real rows, which
        flatters a synthetic table made from all of them; copies are counted among all of them.
    target : str or int, optional
        The column of labels that a classifier is to predict; by default the last with 2 to 64
        states.
    random_state : int
        Which rows are held out, if need be.

    Returns
    -------
    Report

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.report import compare_tables
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 2, (2, 500, 1))
    >>> real = np.hstack([a, a])
    >>> report = compare_tables(real, np.hstack([a, b]))  # the columns no longer go together
    >>> bool(report.pairs[0, 1] > 0.3), bool(report.pairs_real[0, 1] < 0.1)
    (True, True)
    """
    whole = real
    alone = held_out is None
    if alone:
        order = np.random.default_rng(random_state).permutation(_n_rows(real))
        size = max(int(_HELD_OUT * len(order)), 1)
        if size >= len(order):
            raise DataError("The real table needs two rows at least.")
        real, held_out = _take(real, np.sort(order[size:])), _take(real, np.sort(order[:size]))
    domains = learn_domains(real, numbers=True)
    tables = [_read(rows, domains) for rows in (real, synthetic, held_out)]
    states = [_states(table, domains, _COLUMN_DEPTH) for table in tables]
    coarse = [_states(table, domains, _PAIR_DEPTH, _PAIR_LABELS) for table in tables]
    m = len(domains)
    names = [domain.name if domain.name is not None else str(j) for j, domain in enumerate(domains)]
    columns, columns_real = (
        np.array([_distance(states[0][:, j], other[:, j]) for j in range(m)])
        for other in states[1:]
    )
    pairs, pairs_real = (_pair_distances(coarse[0], other) for other in coarse[1:])
    column = _target(domains, target)
    accuracy = accuracy_real = guess = float("nan")
    if column is not None:
        accuracy_real, accuracy, guess = _accuracies(tables, domains, column)
    if alone:
        # Each real row is held out from the others: the synthetic ones may equal any of them.
        every = learn_domains(whole, numbers=True)
        all_rows, made = (_row_keys(every, _read(rows, every)) for rows in (whole, synthetic))
        copies, copies_real = _share_among(made, all_rows), _share_among(all_rows, all_rows, 2)
    else:
        keys = [_row_keys(domains, table) for table in tables]
        copies, copies_real = (_share_among(other, keys[0]) for other in keys[1:])
    return Report(
        names,
        columns,
        columns_real,
        pairs,
        pairs_real,
        None if column is None else names[column],
        accuracy,
        accuracy_real,
        guess,
        copies,
        copies_real,
        n_real=len(tables[0].codes),
        n_synthetic=len(tables[1].codes),
        n_held_out=len(tables[2].codes),
    )


@dataclass(frozen=True)
class _Read:
    """A table by the domains of the real one: codes, numbers, and labels that these do not have."""

    codes: CodeArray
    values: FloatArray | None
    unseen: NDArray[np.bool_]


def _read(rows: Any, domains: Domains) -> _Read:
    codes, values = encode_table(
        rows, domains, allow_missing=True, unseen="missing", estimator_name="report"
    )
    return _Read(codes, values, unseen_cells(rows, domains, "report"))


def _n_rows(table: Any) -> int:
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def _take(table: Any, rows: IntArray) -> Any:
    return table.iloc[rows] if is_frame(table) else np.asarray(table)[rows]


def _states(
    table: _Read, domains: Domains, depth: int, most: int | None = None
) -> NDArray[np.int64]:
    """Return coarse states of all cells; missing cells and labels not seen have their own."""
    codes = table.codes
    out = np.empty(codes.shape, dtype=np.int64)
    absent = np.iinfo(codes.dtype).max
    for j, domain in enumerate(domains):
        view = np.arange(max(domain.n_states, 1))
        if domain.grid is not None:
            view = domain.grid.view(depth).astype(np.int64)
        elif most is not None:
            view = np.minimum(view, most)
        missing = codes[:, j] == absent
        out[:, j] = np.where(missing, view.max() + 1, view[np.where(missing, 0, codes[:, j])])
        out[table.unseen[:, j], j] = view.max() + 2
    return out


def _distance(one: IntArray, two: IntArray) -> float:
    n = int(max(one.max(), two.max())) + 1
    shares = [np.bincount(states, minlength=n) / len(states) for states in (one, two)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _pair_distances(one: IntArray, two: IntArray) -> FloatArray:
    m = one.shape[1]
    out = np.zeros((m, m))
    for i in range(m):
        for j in range(i):
            size = int(max(one[:, j].max(), two[:, j].max())) + 1
            joint = [rows[:, i] * size + rows[:, j] for rows in (one, two)]
            out[i, j] = out[j, i] = _distance(*joint)
    return out


def _target(domains: Domains, target: str | int | None) -> int | None:
    if target is not None:
        column = domains.index(target)
        if domains[column].grid is not None:
            raise DataError(f"Column {target!r} holds numbers: a classifier predicts labels.")
        if domains[column].n_states > _MOST_CLASSES:
            raise DataError(
                f"Column {target!r} has {domains[column].n_states} labels, more than the "
                f"{_MOST_CLASSES} that a classifier is learned for: choose another target."
            )
        return column
    labels = [
        j
        for j, domain in enumerate(domains)
        if domain.grid is None and not domain.empty and 1 < domain.n_states <= _MOST_CLASSES
    ]
    return labels[-1] if labels else None


def _accuracies(tables: list[_Read], domains: Domains, column: int) -> tuple[float, float, float]:
    """Accuracy on held-out rows of trees boosted on the real and on the synthetic rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def prepared(table: _Read) -> tuple[FloatArray, IntArray]:
        codes, values = table.codes, table.values
        absent = np.iinfo(codes.dtype).max
        X = np.where(codes == absent, np.nan, codes.astype(np.float64))
        for j, domain in enumerate(domains):
            if domain.grid is not None and values is not None:
                X[:, j] = values[:, j]
        known = codes[:, column] != absent
        return np.delete(X, column, axis=1)[known], codes[known, column].astype(np.int64)

    (X, y), (X_synthetic, y_synthetic), (X_test, y_test) = (prepared(table) for table in tables)
    if not len(y_test) or not len(y) or X.shape[1] == 0:
        return float("nan"), float("nan"), float("nan")
    labels_of = [d.grid is None and d.n_states <= _MOST_CATEGORIES for d in domains]
    chosen = np.delete(np.array(labels_of), column)
    found = []
    for features, labels in ((X, y), (X_synthetic, y_synthetic)):
        if len(np.unique(labels)) < 2:  # nothing to learn: always the same answer
            guess = labels[0] if len(labels) else -1
            found.append(float(np.mean(y_test == guess)))
            continue
        model = HistGradientBoostingClassifier(
            max_iter=60, random_state=0, categorical_features=chosen
        )
        found.append(float(model.fit(features, labels).score(X_test, y_test)))
    return found[0], found[1], float(np.mean(y_test == np.bincount(y).argmax()))


def _row_keys(domains: Domains, table: _Read) -> list[bytes]:
    """Rows as bytes that are equal for equal rows; numbers at their recording steps."""
    values = table.values
    parts = table.codes.astype(np.float64)
    parts[table.unseen] = -1.0
    if values is not None:
        for j, domain in enumerate(domains):
            if domain.grid is not None:
                parts[:, j] = domain.grid.snap(values[:, j])
    # Zero has two signs.
    return [row.tobytes() for row in np.nan_to_num(parts, nan=-1e300) + 0.0]


def _share_among(some: Sequence[bytes], others: Sequence[bytes], times: int = 1) -> float:
    """Share of some rows that occur among others, so many times at least."""
    seen = Counter(others)
    return float(np.mean([seen[key] >= times for key in some]))
