"""Questions put to a circuit."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescut._typing import CodeArray
from bayescut.circuit import Circuit, Evidence
from bayescut.cli._errors import close_name
from bayescut.cli._language import Condition, Question, QuestionError
from bayescut.data import Domain, Domains, code_dtype, missing_code
from bayescut.exceptions import ZeroProbabilityError

__all__ = ["Answer", "allowed_states", "answer", "blank", "find_column", "find_state"]

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


def allowed_states(conditions: Iterable[Condition], domains: Domains) -> NDArray[np.bool_]:
    """Return which states of all columns agree with all conditions, shape (sum of K,)."""
    allowed = np.ones(int(domains.offsets[-1]), dtype=bool)
    for condition in conditions:
        column = find_column(condition.column, domains)
        here = slice(int(domains.offsets[column]), int(domains.offsets[column + 1]))
        allowed[here] &= _states(condition, column, domains)
    return allowed


def blank(n: int, domains: Domains) -> CodeArray:
    """Return rows in which nothing is observed."""
    dtype = code_dtype(domains)
    return np.full((n, len(domains)), missing_code(dtype), dtype=dtype)


def impossible(allowed: NDArray[np.bool_], domains: Domains) -> bool:
    """Tell whether some column has no allowed state left."""
    return any(
        domain.n_states > 0
        and not allowed[domains.offsets[column] : domains.offsets[column + 1]].any()
        for column, domain in enumerate(domains)
    )


def log_probability(circuit: Circuit, allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the log-probability of each row of allowed states."""
    masks = np.atleast_2d(allowed)
    return circuit.log_likelihood(Evidence(blank(len(masks), circuit.domains), masks))


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
    """

    question: Question
    log_probability: float | None = None
    assignment: dict[str, Any] | None = None
    distribution: list[tuple[dict[str, Any], float]] | None = None
    exact: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain values; logarithms of zero are None."""
        found: dict[str, Any] = {"query": self.question.text, "kind": self.question.kind}
        if self.assignment is not None:
            found |= {"assignment": self.assignment, "exact": self.exact}
        if self.log_probability is not None:
            found |= _both(self.log_probability)
        if self.distribution is not None:
            found["distribution"] = [
                {"assignment": line, **_both(value)} for line, value in self.distribution
            ]
        return found


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
    given = allowed_states(question.given, domains)
    columns = [find_column(name, domains) for name in question.names]
    for column in columns:
        if domains[column].n_states == 0:
            raise QuestionError(
                f"Column {_title(column, domains)!r} is continuous: its distribution has no list."
            )
    asked = given & allowed_states(question.events, domains)
    below = -math.inf if impossible(given, domains) else float(log_probability(circuit, given)[0])
    if below == -math.inf:
        raise ZeroProbabilityError(
            f"What is given in {question.text!r} has probability zero under this model: "
            "drop or change one of the conditions after the bar."
        )
    if question.kind == "MPE":
        return _explain(question, circuit, given, columns, below)
    if columns:
        return _distribution(question, circuit, asked, columns, below)
    if impossible(asked, domains):
        return Answer(question, -math.inf)
    # Rounding may leave a certain event a hair above probability one.
    return Answer(question, min(0.0, float(log_probability(circuit, asked)[0]) - below))


def _explain(
    question: Question,
    circuit: Circuit,
    given: NDArray[np.bool_],
    columns: list[int],
    below: float,
) -> Answer:
    domains = circuit.domains
    rows, log_value = circuit.mpe(Evidence(blank(1, domains), given))
    fixed = [
        domain.n_states > 0
        and int(given[domains.offsets[column] : domains.offsets[column + 1]].sum()) == 1
        for column, domain in enumerate(domains)
    ]
    shown = columns or [column for column in range(len(domains)) if not fixed[column]]
    assignment = {
        _title(column, domains): domains[column].label(int(rows[0, column]))
        if domains[column].n_states
        else float(rows[0, column])
        for column in shown
    }
    return Answer(
        question,
        float(log_value[0]) - below,
        assignment,
        exact=bool(circuit.properties.deterministic),
    )


def _distribution(
    question: Question,
    circuit: Circuit,
    asked: NDArray[np.bool_],
    columns: list[int],
    below: float,
) -> Answer:
    domains = circuit.domains
    columns = list(dict.fromkeys(columns))
    states = [
        np.flatnonzero(asked[domains.offsets[column] : domains.offsets[column + 1]])
        for column in columns
    ]
    n_lines = math.prod(len(s) for s in states)
    if n_lines > MOST_LINES:
        raise QuestionError(
            f"The distribution asked for in {question.text!r} has {n_lines:,} lines, more than "
            f"{MOST_LINES:,}: name fewer columns."
        )
    if impossible(asked, domains):
        return Answer(question, distribution=[])
    combinations = list(product(*states))
    masks = np.repeat(asked[None, :], n_lines, axis=0)
    for row, combination in enumerate(combinations):
        for column, state in zip(columns, combination, strict=True):
            here = slice(int(domains.offsets[column]), int(domains.offsets[column + 1]))
            masks[row, here] = False
            masks[row, int(domains.offsets[column]) + int(state)] = True
    values = np.minimum(log_probability(circuit, masks) - below, 0.0)
    lines = [
        (
            {
                _title(column, domains): domains[column].label(int(state))
                for column, state in zip(columns, combination, strict=True)
            },
            float(value),
        )
        for combination, value in zip(combinations, values, strict=True)
    ]
    return Answer(question, distribution=lines)
