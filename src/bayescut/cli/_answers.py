"""Questions put to a circuit."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray
from bayescut.circuit import Circuit, Evidence
from bayescut.circuit.outline import cells_text
from bayescut.cli._errors import close_name
from bayescut.cli._language import Condition, Question, QuestionError
from bayescut.data import Domain, Domains, code_dtype, missing_code
from bayescut.data.narrow import Piece, intersect, narrow
from bayescut.data.narrow import weights as shares
from bayescut.estimators._answers import (
    QUANTILES,
    Given,
    mpe,
    number_means,
    number_quantiles,
)
from bayescut.exceptions import ZeroProbabilityError

__all__ = ["Answer", "allowed", "answer", "blank", "find_column", "find_state"]

_ANY: Piece = (-math.inf, math.inf, "both")

# Lines of the longest distribution that is worked out: more can hardly be read.
MOST_LINES = 10_000

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def find_column(name: str, domains: Domains) -> int:
    """Return the position of a column given by name, or by position if there are no names."""
    names = domains.names
    if names is None:
        if name.isdecimal() and int(name) < len(domains):
            return int(name)
        raise QuestionError(
            f"There is no column {name!r}: the columns of this model have no names, use their "
            f"positions 0 to {len(domains) - 1}."
        )
    if name in names:
        return names.index(name)
    close = close_name(name, names)
    hint = f"did you mean {close!r}?" if close else "bayescut show lists the columns."
    raise QuestionError(f"There is no column {name!r}: {hint}")


def find_state(text: str, domain: Domain) -> int:
    """Return the state that a text stands for, -1 if there is none.

    Labels are matched as text first, then as numbers and truth values.

    Examples
    --------
    >>> from bayescut.cli._answers import find_state
    >>> from bayescut.data import Domain
    >>> find_state("2.0", Domain("a", 2, [1, 2])), find_state("true", Domain("b", 2, [False, True]))
    (1, 1)
    """
    code = domain.find(text)
    if code >= 0:
        return code
    if text.casefold() in ("true", "false"):
        code = domain.find(text.casefold() == "true")
        if code >= 0 and isinstance(domain.label(code), bool):
            return code
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        code = domain.find(int(number)) if number.is_integer() else domain.find(number)
        if code >= 0:
            return code
    return next((state for state in range(domain.n_states) if str(domain.label(state)) == text), -1)


def _title(column: int, domains: Domains) -> str:
    return domains[column].name or str(column)


def _states(condition: Condition, column: int, domains: Domains) -> NDArray[np.bool_]:
    domain = domains[column]
    if domain.n_states == 0:
        raise QuestionError(f"Column {_title(column, domains)!r} is continuous and has no states.")
    chosen = np.zeros(domain.n_states, dtype=bool)
    if condition.operator in _COMPARE:
        try:
            bound = float(condition.values[0])
            if math.isnan(bound):
                raise ValueError("not a number")
            labels = [float(domain.label(state)) for state in range(domain.n_states)]
        except (TypeError, ValueError):
            raise QuestionError(
                f"{condition.operator} compares numbers, but column {_title(column, domains)!r} or "
                f"{condition.values[0]!r} is not one: use = or in {{...}}."
            ) from None
        return np.array([_COMPARE[condition.operator](label, bound) for label in labels])
    for text in condition.values:
        state = find_state(text, domain)
        if state < 0:
            raise QuestionError(
                f"{text!r} is not a value of column {_title(column, domains)!r}. "
                f"{domain.known_values()}"
            )
        chosen[state] = True
    return ~chosen if condition.operator in ("!=", "not in") else chosen


def read_number(text: str, domain: Domain) -> float:
    """Return the number, date or duration that a text stands for; ValueError if it is none."""
    if domain.unit is None:
        number = domain.number(float(text))
        if math.isnan(number):
            raise ValueError("not a number")
        return number
    if domain.kind == "duration":
        from pandas import Timedelta

        if _is_plain(text):  # pandas would count nanoseconds
            raise QuestionError(
                f"{text} is no duration of column {domain.name!r}: say of what, such as "
                f"{text}s, {text}min, {text}h or '{text} days'."
            )
        return domain.number(Timedelta(text))
    return domain.number(text)


def _is_plain(text: str) -> bool:
    """Whether a text is a number and nothing else."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _intervals(condition: Condition, column: int, domains: Domains) -> list[Piece]:
    """Return the intervals of a number that a condition allows."""
    domain = domains[column]
    try:
        values = sorted({read_number(text, domain) for text in condition.values})
    except QuestionError:
        raise
    except ValueError:
        shown = ", ".join(map(repr, condition.values))
        raise QuestionError(
            f"{shown} is not a value of column {_title(column, domains)!r}. {domain.known_values()}"
        ) from None
    x = values[0]
    comparisons: dict[str, Piece] = {
        "<": (-math.inf, x, "neither"),
        "<=": (-math.inf, x, "right"),
        ">": (x, math.inf, "neither"),
        ">=": (x, math.inf, "left"),
    }
    if condition.operator in comparisons:
        return [comparisons[condition.operator]]
    # A number stands for the step around it, as in evidence in Python.
    assert domain.grid is not None
    values = np.unique(domain.grid.snap(values)).tolist()
    if condition.operator in ("=", "in"):
        return [(value, value, "both") for value in values]
    ends = [-math.inf, *values, math.inf]
    return [(low, high, "neither") for low, high in pairwise(ends)]


def allowed(conditions: Iterable[Condition], domains: Domains) -> Given | None:
    """Return what conditions say of columns; None if they leave nothing of one."""
    weights = np.ones(int(domains.offsets[-1]))
    pieces: dict[int, list[Piece]] = {}
    for condition in conditions:
        column = find_column(condition.column, domains)
        here = slice(int(domains.offsets[column]), int(domains.offsets[column + 1]))
        if domains[column].grid is None:
            weights[here] *= _states(condition, column, domains)
        else:
            more = _intervals(condition, column, domains)
            pieces[column] = intersect(pieces.get(column, [_ANY]), more)
    narrowed = {}
    for column, parts in pieces.items():
        grid = domains[column].grid
        here = slice(int(domains.offsets[column]), int(domains.offsets[column + 1]))
        if grid is None or not parts:
            return None
        weights[here] = shares(grid, parts)
        if weights[here].any():
            narrowed[column] = narrow(grid, parts)
    for column, domain in enumerate(domains):
        if (
            domain.n_states
            and not weights[domains.offsets[column] : domains.offsets[column + 1]].any()
        ):
            return None
    values = None
    if any(domain.grid is not None for domain in domains):
        values = np.full((1, len(domains)), np.nan)
    plain = bool((weights == 1).all())
    return Given(domains, blank(1, domains), values, None if plain else weights, narrowed)


def blank(n: int, domains: Domains) -> CodeArray:
    """Return rows in which nothing is observed."""
    dtype = code_dtype(domains)
    return np.full((n, len(domains)), missing_code(dtype), dtype=dtype)


def log_probability(circuit: Circuit, given: Given | None) -> float:
    """Return the log-probability of what is said, -inf if that is impossible."""
    return -math.inf if given is None else float(circuit.log_likelihood(given.evidence)[0])


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Parameters
    ----------
    question : Question
    log_probability : float or None
        Of the event, or of the explanation, given the conditions; None for distributions.
    assignment : dict from column to label, or None
        The most probable explanation.
    distribution : list of (assignment, log-probability) or None
        One line for each joint state of the columns asked for.
    exact : bool
        Whether the explanation is surely the most probable one.
    summaries : dict from column to dict
        Mean, standard deviation and quantiles of the numbers asked for.
    density : bool
        Whether the explanation holds numbers, so that it has a density.
    """

    question: Question
    log_probability: float | None = None
    assignment: dict[str, Any] | None = None
    distribution: list[tuple[dict[str, Any], float]] | None = None
    exact: bool = True
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    density: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain values; logarithms of zero are None."""
        found: dict[str, Any] = {"query": self.question.text, "kind": self.question.kind}
        if self.assignment is not None:
            shown = {name: _plain(value) for name, value in self.assignment.items()}
            found |= {"assignment": shown, "exact": self.exact}
        if self.log_probability is not None:
            found |= _both(self.log_probability)
        if self.distribution is not None:
            found["distribution"] = [
                {"assignment": line, **_both(value)} for line, value in self.distribution
            ]
        if self.summaries:
            found["summaries"] = {
                name: {title: _plain(value) for title, value in summary.items()}
                for name, summary in self.summaries.items()
            }
        return found


def _plain(value: Any) -> Any:
    """Dates and durations as text, which JSON has."""
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def _both(log_probability: float) -> dict[str, float]:
    return {"probability": math.exp(log_probability), "log_probability": log_probability}


def answer(question: Question, circuit: Circuit) -> Answer:
    """Answer a question exactly.

    Parameters
    ----------
    question : Question
    circuit : Circuit

    Returns
    -------
    Answer

    Raises
    ------
    QuestionError
        If a column or a value is unknown.
    ZeroProbabilityError
        If what is given is impossible under the model.
    """
    domains = circuit.domains
    given = allowed(question.given, domains)
    columns = [find_column(name, domains) for name in question.names]
    for column in columns:
        if domains[column].n_states == 0:
            raise QuestionError(
                f"Column {_title(column, domains)!r} is continuous: its distribution has no list."
            )
    below = log_probability(circuit, given)
    if given is None or below == -math.inf:
        raise ZeroProbabilityError(
            f"What is given in {question.text!r} has probability zero under this model: "
            "drop or change one of the conditions after the bar."
        )
    if question.kind == "MPE":
        return _explain(question, circuit, given, columns, below)
    asked = allowed((*question.given, *question.events), domains)
    if columns:
        return _distribution(question, circuit, asked, columns, below)
    # Rounding may leave a certain event a hair above probability one.
    return Answer(question, min(0.0, log_probability(circuit, asked) - below))


def _explain(
    question: Question, circuit: Circuit, given: Given, columns: list[int], below: float
) -> Answer:
    domains = circuit.domains
    codes, values, log_value = mpe(circuit, given, None)
    weights = np.ones(int(domains.offsets[-1])) if given.weights is None else given.weights
    fixed = [
        domain.n_states > 0
        and domain.grid is None
        and np.count_nonzero(weights[domains.offsets[column] : domains.offsets[column + 1]]) == 1
        for column, domain in enumerate(domains)
    ]
    shown = columns or [column for column in range(len(domains)) if not fixed[column]]
    assignment = {}
    for column in shown:
        domain = domains[column]
        if domain.grid is not None and values is not None:
            found = domain.value(float(values[0, column]))
        else:
            found = domain.label(int(codes[0, column])) if domain.n_states else codes[0, column]
        assignment[_title(column, domains)] = found
    return Answer(
        question,
        float(log_value[0]) - below,
        assignment,
        exact=bool(circuit.properties.deterministic),
        density=values is not None,
    )


def _distribution(
    question: Question,
    circuit: Circuit,
    asked: Given | None,
    columns: list[int],
    below: float,
) -> Answer:
    domains = circuit.domains
    if asked is None:
        return Answer(question, distribution=[])
    weights = np.ones(int(domains.offsets[-1])) if asked.weights is None else asked.weights
    columns = list(dict.fromkeys(columns))
    states = [
        np.flatnonzero(weights[domains.offsets[column] : domains.offsets[column + 1]])
        for column in columns
    ]
    n_lines = math.prod(len(s) for s in states)
    if n_lines > MOST_LINES:
        raise QuestionError(
            f"The distribution asked for in {question.text!r} has {n_lines:,} lines, more than "
            f"{MOST_LINES:,}: name fewer columns."
        )
    combinations = list(product(*states))
    masks = np.repeat(weights[None, :], n_lines, axis=0)
    for row, combination in enumerate(combinations):
        for column, state in zip(columns, combination, strict=True):
            place = int(domains.offsets[column]) + int(state)
            masks[row, domains.offsets[column] : domains.offsets[column + 1]] = 0.0
            masks[row, place] = weights[place]
    found = circuit.log_likelihood(Evidence(blank(n_lines, domains), masks))
    values = np.minimum(found - below, 0.0)
    lines = [
        (
            {
                _title(column, domains): _state_title(domains[column], int(state))
                for column, state in zip(columns, combination, strict=True)
            },
            float(value),
        )
        for combination, value in zip(combinations, values, strict=True)
    ]
    numbers = [column for column in columns if domains[column].grid is not None]
    summaries = {}
    if numbers and np.isfinite(values).any():
        posterior = circuit.marginals(asked.evidence)
        for column in numbers:
            summaries[_title(column, domains)] = _summary(asked, posterior, column)
    return Answer(question, distribution=lines, summaries=summaries)


def _summary(given: Given, posterior: NDArray[np.float64], column: int) -> dict[str, Any]:
    domain = given.domains[column]
    mean, deviation = (float(x[0]) for x in number_means(given, posterior, column))
    lines = number_quantiles(given, posterior, column, QUANTILES)[0]
    found = {"mean": mean if domain.unit is None else domain.value(mean)}
    unit = "" if domain.unit is None else f" {domain.unit}"
    found["std"] = deviation if not unit else f"{deviation:.6g}{unit}"
    return found | {
        f"{100 * q:g}%": domain.value(float(x)) for q, x in zip(QUANTILES, lines, strict=True)
    }


def _state_title(domain: Domain, state: int) -> Any:
    """Return a label, or the numbers of a cell."""
    return domain.label(state) if domain.grid is None else cells_text(domain, state, state)
