"""The language of questions: ``P(smoker=yes | age in {old, middle})`` and ``MPE(a, b | c=1)``.

::

    question   = "P"   "(" events ["|" conditions] ")"
               | "MPE" "(" [names] ["|" conditions] ")"
    events     = event {"," event}              event: a condition, or a column's name alone
    conditions = condition {"," condition}
    condition  = name ("=" | "!=" | "<" | "<=" | ">" | ">=") value
               | value ("<" | "<=") name ("<" | "<=") value, and the same with > and >=
               | name ["not"] "in" "{" value {"," value} "}"

Names and values that hold blanks or any of ``, | ( ) { } = < > ! ' "`` stand in quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bayescut.exceptions import BayescutError

__all__ = ["Condition", "Question", "QuestionError", "parse_conditions", "parse_question"]


class QuestionError(BayescutError, ValueError):
    """A question that cannot be read, or that the model cannot answer."""


@dataclass(frozen=True)
class Condition:
    """A restriction of one column.

    Parameters
    ----------
    column : str
        Its name (or its position, for models without names).
    operator : str
        ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` or ``not in``.
    values : tuple of str
        One value, or those of the set.
    """

    column: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """What is asked, and given what.

    Parameters
    ----------
    text : str
        As it was written.
    kind : str
        ``"P"`` or ``"MPE"``.
    names : tuple of str
        Columns that stand alone.
    events, given : tuple of Condition
        Before and after the bar.
    """

    text: str
    kind: str
    names: tuple[str, ...]
    events: tuple[Condition, ...]
    given: tuple[Condition, ...]


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<sign>[<>!=]=|[,|(){}=<>])
    | (?P<word>[^\s,|(){}=<>!'"]+)
    )""",
    re.VERBOSE,
)
# The sign that a comparison has with its sides exchanged.
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True)
class _Token:
    kind: str  # "sign", "word", "quoted", "end"
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    found = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].strip()
            where = position + len(text[position:]) - len(text[position:].lstrip())
            if rest[0] in "'\"":
                raise QuestionError(
                    f"The quote at character {where + 1} of {text!r} is not closed."
                )
            raise QuestionError(
                f"Unexpected {rest[0]!r} at character {where + 1} of {text!r}: "
                "put names and values with special characters in quotes."
            )
        kind = str(match.lastgroup)
        piece = match.group(kind)
        if kind == "quoted":
            piece = re.sub(r"\\(.)", r"\1", piece[1:-1])
        found.append(_Token(kind, piece, match.start(str(match.lastgroup))))
        position = match.end()
    found.append(_Token("end", "", len(text)))
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0

    def peek(self) -> _Token:
        return self.tokens[self.next]

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next += token.kind != "end"
        return token

    def accept(self, sign: str) -> bool:
        token = self.peek()
        if token.kind == "sign" and token.text == sign:
            self.take()
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.wrong(repr(sign))

    def wrong(self, expected: str) -> QuestionError:
        token = self.peek()
        found = "the end" if token.kind == "end" else repr(token.text)
        # After a word comes a sign: names such as height (cm) need quotes.
        after_word = self.next > 0 and self.tokens[self.next - 1].kind == "word"
        sign_for_value = expected == "a value" and token.kind == "sign"
        advice = " Names and values with blanks or signs stand in quotes."
        told = (after_word or sign_for_value) and token.kind != "end"
        return QuestionError(
            f"Expected {expected}, found {found} at character {token.position + 1} of "
            f"{self.text!r}.{advice if told else ''}"
        )

    def word(self, what: str) -> str:
        if self.peek().kind not in ("word", "quoted"):
            raise self.wrong(what)
        return self.take().text

    def is_word(self, text: str) -> bool:
        token = self.peek()
        return token.kind == "word" and token.text.casefold() == text

    def event(self) -> list[Condition | str]:
        """Read a condition (two, if it is an interval), or a column's name alone."""
        column = self.word("the name of a column")
        token = self.peek()
        if token.kind == "sign" and token.text in _SIGNS:
            operator = _SIGNS[self.take().text]
            value = self.word("a value")
            following = self.peek()
            if operator in _TURNED and following.kind == "sign" and following.text in _TURNED:
                if following.text[0] != operator[0]:
                    raise self.wrong(f"{operator[0]!r} as before, or the end of the condition")
                name, low = value, column
                second = Condition(name, self.take().text, (self.word("a value"),))
                return [Condition(name, _TURNED[operator], (low,)), second]
            return [Condition(column, operator, (value,))]
        negated = self.is_word("not")
        if negated:
            self.take()
        if self.is_word("in"):
            self.take()
            return [Condition(column, "not in" if negated else "in", self.values())]
        if negated:
            raise self.wrong("'in'")
        return [column]

    def values(self) -> tuple[str, ...]:
        self.expect("{")
        values = [self.word("a value")]
        while self.accept(","):
            values.append(self.word("a value"))
        self.expect("}")
        return tuple(values)

    def events(self, stop: tuple[str, ...]) -> list[Condition | str]:
        found: list[Condition | str] = []
        while not (self.peek().kind == "end" or self.peek().text in stop):
            found += self.event()
            if not self.accept(","):
                break
        return found

    def conditions(self, stop: tuple[str, ...]) -> tuple[Condition, ...]:
        found = []
        for event in self.events(stop):
            if isinstance(event, str):
                raise QuestionError(
                    f"{event!r} in {self.text!r} is a column without a value: write {event}=value."
                )
            found.append(event)
        return tuple(found)


def parse_question(text: str) -> Question:
    """Read a question.

    Parameters
    ----------
    text : str
        In the language of this module.

    Returns
    -------
    Question

    Raises
    ------
    QuestionError
        That says what was expected, and where.

    Examples
    --------
    >>> from bayescut.cli._language import parse_question
    >>> parse_question("P(smoker=yes | age in {old, 'very old'})").given
    (Condition(column='age', operator='in', values=('old', 'very old')),)
    """
    reader = _Reader(text)
    kind = reader.peek().text.upper() if reader.peek().kind == "word" else ""
    if kind not in ("P", "MPE"):
        raise QuestionError(f"{text!r} is no question: write P(a=1 | b=2) or MPE(a, b | c=1).")
    reader.take()
    reader.expect("(")
    asked = reader.events(("|", ")"))
    given = reader.conditions((")",)) if reader.accept("|") else ()
    reader.expect(")")
    if reader.peek().kind != "end":
        raise reader.wrong("the end")
    names = tuple(event for event in asked if isinstance(event, str))
    events = tuple(event for event in asked if not isinstance(event, str))
    if kind == "P" and not asked:
        raise QuestionError(f"{text!r} asks for nothing: write P(a=1 | b=2).")
    if kind == "MPE" and events:
        raise QuestionError(
            f"MPE finds values: in {text!r}, name columns without values before the bar, and put "
            "what is known after it."
        )
    return Question(text, kind, names, events, given)


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Read conditions: what may stand after the bar of a question.

    Examples
    --------
    >>> from bayescut.cli._language import parse_conditions
    >>> parse_conditions("age=old, sex != f")[1]
    Condition(column='sex', operator='!=', values=('f',))
    """
    reader = _Reader(text)
    found = reader.conditions(())
    if reader.peek().kind != "end":
        raise reader.wrong("',' or the end")
    return found
