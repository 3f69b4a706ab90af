"""Evidence: what is said of single columns, by value, by set, by interval."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray, FloatArray
from bayescut.data.domains import Domain, Domains, code_dtype, missing_code
from bayescut.data.grid import Closed
from bayescut.data.narrow import Piece
from bayescut.data.tables import is_missing
from bayescut.exceptions import DataError

__all__ = [
    "Interval",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "encode_evidence",
    "encode_row",
    "encode_sets",
    "number_pieces",
]


@dataclass(frozen=True)
class Interval:
    """Numbers, dates or durations from one bound to another, as evidence.

    Parameters
    ----------
    low, high : number, date or duration, or None
        The bounds, None for none.
    closed : {"both", "left", "right", "neither"}
        Which of them belong to the interval.

    Examples
    --------
    >>> from bayescut.data import between
    >>> between(30, 40, closed="left")
    Interval(low=30, high=40, closed='left')
    """

    low: Any = None
    high: Any = None
    closed: Closed = "both"

    def __post_init__(self) -> None:
        if self.closed not in ("both", "left", "right", "neither"):
            raise DataError(
                f"closed must be 'both', 'left', 'right' or 'neither', not {self.closed!r}."
            )
        for name in ("low", "high"):
            bound = getattr(self, name)
            if bound is not None and is_missing(bound):
                raise DataError(f"The {name} bound of an interval is {bound!r}: use None for none.")
        if self.low is not None and self.high is not None:
            try:
                wrong = bool(self.low > self.high)
            except TypeError as error:
                raise DataError(f"Bounds that cannot be compared: {error}.") from error
            if wrong:
                raise DataError(f"An interval from {self.low!r} to {self.high!r} is empty.")


def between(low: Any, high: Any, closed: Closed = "both") -> Interval:
    """Say that a column lies between two bounds, which belong to the interval by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescut.data import Domain, Domains, between, encode_evidence, learn_grid
    >>> grid = learn_grid(np.arange(20, 60))
    >>> ages = Domains([Domain("age", grid.n_cells, grid=grid)])
    >>> codes, weights, values = encode_evidence({"age": between(30, 39)}, ages)
    >>> float(weights.sum())
    10.0
    """
    return Interval(low, high, closed)


def at_least(low: Any) -> Interval:
    """Say that a column is >= a bound."""
    return Interval(low, None)


def at_most(high: Any) -> Interval:
    """Say that a column is <= a bound."""
    return Interval(None, high)


def above(low: Any) -> Interval:
    """Say that a column is > a bound."""
    return Interval(low, None, "neither")


def below(high: Any) -> Interval:
    """Say that a column is < a bound."""
    return Interval(None, high, "neither")


def encode_evidence(
    evidence: Mapping[str | int, Any], domains: Domains
) -> tuple[CodeArray, FloatArray, FloatArray | None]:
    """Turn evidence on columns into codes, weights of states, and values.

    Parameters
    ----------
    evidence : mapping from column name or position to what is known of it
        A label or a number; a collection of them, one of which it is; an :class:`Interval` in
        which it lies. Columns that are not mentioned, or are None or NaN, are not observed.
    domains : Domains
        The states of every column.

    Returns
    -------
    codes : ndarray of shape (1, m)
        States of the columns whose value is known.
    weights : float64 array of shape (sum of K,)
        The probability of what is said, given each state of each column: 1 for all states of a
        column of which nothing is said, 0 or 1 for labels, and for sets and intervals of numbers
        the share of a cell's density that lies in them. Column j owns the entries
        ``domains.offsets[j]`` to ``domains.offsets[j + 1] - 1``.
    values : float64 array of shape (1, m), or None
        The numbers that are known, else NaN; None if no column holds numbers.

    Raises
    ------
    DataError
        If a column or a label is unknown, if nothing is left of a column, or if a column is
        mentioned twice.

    Examples
    --------
    >>> from bayescut.data import Domains, encode_evidence
    >>> codes, weights, values = encode_evidence({0: 1, 1: {0, 2}}, Domains.of_sizes([2, 3]))
    >>> codes, weights
    (array([[  1, 255]], dtype=uint8), array([0., 1., 1., 0., 1.]))
    """
    dtype = code_dtype(domains)
    codes = np.full((1, len(domains)), missing_code(dtype), dtype=dtype)
    weights = np.ones(int(domains.offsets[-1]))
    some_numbers = any(domain.grid is not None for domain in domains)
    values = np.full((1, len(domains)), np.nan) if some_numbers else None
    for key, column, said in evidence_items(evidence, domains):
        domain = domains[column]
        states = weights[domains.offsets[column] : domains.offsets[column + 1]]
        if _is_interval(said, domain):
            states[:] = _interval_weights(domain, key, said)
        elif isinstance(said, Iterable) and not isinstance(said, (str, bytes)):
            states[:] = _set_weights(domain, key, list(said))
        elif not is_missing(said):
            code = find_state(domain, key, said)
            codes[0, column] = code
            states[:] = 0.0
            states[code] = 1.0
            if values is not None and domain.grid is not None:
                values[0, column] = domain.number(said)
        if not states.any():
            raise DataError(
                f"Evidence leaves no value of column {key!r}: {said!r}. {domain.known_values()}"
            )
    return codes, weights, values


def _is_interval(said: Any, domain: Domain) -> bool:
    """Tell intervals from labels; pandas' intervals may be either."""
    if isinstance(said, Interval):
        return True
    return type(said).__name__ == "Interval" and domain.find(said) < 0


def _interval_weights(domain: Domain, key: str | int, said: Any) -> FloatArray:
    if domain.grid is None:
        return _labels_inside(domain, key, _own_interval(said))
    return domain.grid.weights(*_number_interval(domain, key, said))


def _own_interval(said: Any) -> Interval:
    """Turn an interval of pandas into one of ours."""
    return said if isinstance(said, Interval) else Interval(said.left, said.right, said.closed)


def _number_interval(domain: Domain, key: str | int, said: Any) -> Piece:
    said = _own_interval(said)
    ends = []
    for bound, endless in ((said.low, -math.inf), (said.high, math.inf)):
        try:
            ends.append(endless if bound is None else _bound(domain, bound))
        except ValueError as error:
            raise DataError(f"Evidence on column {key!r}: {error}.") from error
    return ends[0], ends[1], said.closed


def number_pieces(
    evidence: Mapping[str | int, Any], domains: Domains
) -> dict[int, tuple[Piece, ...]]:
    """Return the intervals in which evidence sees numbers, by the positions of the columns.

    Parameters
    ----------
    evidence, domains
        As for :func:`encode_evidence`, which finds the errors in them.

    Returns
    -------
    dict from column to intervals that do not overlap
        Of columns of numbers of which a set or an interval is known, not a single value.
    """
    found: dict[int, tuple[Piece, ...]] = {}
    for key, column, said in evidence_items(evidence, domains):
        domain = domains[column]
        if domain.grid is None:
            continue
        if _is_interval(said, domain):
            found[column] = (_number_interval(domain, key, said),)
        elif isinstance(said, Iterable) and not isinstance(said, (str, bytes)):
            numbers = np.unique(domain.grid.snap([domain.number(one) for one in said]))
            found[column] = tuple((x, x, "both") for x in numbers.tolist())
    return found


def _bound(domain: Domain, bound: Any) -> float:
    if isinstance(bound, float) and math.isinf(bound):
        return bound
    return domain.number(bound)


def _labels_inside(domain: Domain, key: str | int, said: Interval) -> FloatArray:
    labels = [domain.label(code) for code in range(domain.n_states)]
    if domain.empty or not all(isinstance(label, (int, float)) for label in labels):
        raise DataError(
            f"Evidence on column {key!r}: {said!r} is an interval, but the column holds labels. "
            f"Name a set of them. {domain.known_values()}"
        )
    low = -math.inf if said.low is None else said.low
    high = math.inf if said.high is None else said.high
    left, right = said.closed in ("both", "left"), said.closed in ("both", "right")
    return np.array(
        [
            float((low < x or (left and x == low)) and (x < high or (right and x == high)))
            for x in labels
        ]
    )


def _set_weights(domain: Domain, key: str | int, chosen: list[Any]) -> FloatArray:
    if not chosen:
        raise DataError(
            f"Evidence allows no value of column {key!r}: name at least one, or leave the "
            "column out if it was not observed."
        )
    weights = np.zeros(domain.n_states)
    if domain.grid is None:
        for label in chosen:
            weights[find_state(domain, key, label)] = 1.0
        return weights
    for label in chosen:
        find_state(domain, key, label)  # names what is no number
    # Each number stands for its bin, once.
    for number in np.unique(domain.grid.snap([domain.number(label) for label in chosen])):
        weights += domain.grid.weights(number, number)
    return np.minimum(weights, 1.0)


def encode_row(evidence: Mapping[str | int, Any], domains: Domains) -> CodeArray:
    """Turn evidence of the kind "this column has this value" into a row of codes.

    Parameters
    ----------
    evidence : mapping from column name or position to a label
        Columns that are not mentioned, or whose label is None or NaN, are not observed.
    domains : Domains
        The states of every column.

    Returns
    -------
    ndarray of shape (1, m)

    Raises
    ------
    DataError
        If a column or a label is unknown, or a column is mentioned twice.

    Examples
    --------
    >>> from bayescut.data import Domains, encode_row
    >>> encode_row({1: 2}, Domains.of_sizes([2, 3]))
    array([[255,   2]], dtype=uint8)
    """
    dtype = code_dtype(domains)
    row = np.full((1, len(domains)), missing_code(dtype), dtype=dtype)
    for key, column, label in evidence_items(evidence, domains):
        if not is_missing(label):
            row[0, column] = find_state(domains[column], key, label)
    return row


def evidence_items(
    evidence: Mapping[str | int, Any], domains: Domains
) -> Iterator[tuple[str | int, int, Any]]:
    """Yield key, column and what is said of it, each column once."""
    done: set[int] = set()
    for key, said in evidence.items():
        column = domains.index(key)
        if column in done:
            raise DataError(f"Evidence mentions column {key!r} twice, by name and by position.")
        done.add(column)
        yield key, column, said


def find_state(domain: Domain, key: str | int, label: Any) -> int:
    """Return the code of a label that evidence names."""
    code = domain.find(label)
    if code < 0:
        raise DataError(
            f"Evidence on column {key!r}: {label!r} is no value of it. {domain.known_values()}"
        )
    return code


def encode_sets(
    evidence: Mapping[str | int, Collection[Any] | Any], domains: Domains
) -> NDArray[np.bool_]:
    """Turn evidence of the kind "this column is one of these values" into allowed states.

    Parameters
    ----------
    evidence : mapping from column name or position to a collection of labels
        A single label stands for the set that holds only it. Columns that are not mentioned, or
        whose single label is None or NaN, are not observed: all their states are allowed.
    domains : Domains
        The states of every column.

    Returns
    -------
    ndarray of bool, shape (sum of K,)
        Column j owns the entries ``domains.offsets[j]`` to ``domains.offsets[j + 1] - 1``.

    Raises
    ------
    DataError
        If a column or a label is unknown, a set is empty, or a column is mentioned twice.

    Examples
    --------
    >>> from bayescut.data import Domains, encode_sets
    >>> encode_sets({1: {0, 2}}, Domains.of_sizes([2, 3]))
    array([ True,  True,  True, False,  True])
    """
    allowed = np.ones(int(domains.offsets[-1]), dtype=bool)
    for key, column, labels in evidence_items(evidence, domains):
        single = isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable)
        if single and is_missing(labels):
            continue
        chosen = [labels] if single else list(labels)
        if not chosen:
            raise DataError(
                f"Evidence allows no value of column {key!r}: name at least one, or leave the "
                "column out if it was not observed."
            )
        domain = domains[column]
        states = allowed[domains.offsets[column] : domains.offsets[column + 1]]
        states[:] = False
        for label in chosen:
            states[find_state(domain, key, label)] = True
    return allowed
