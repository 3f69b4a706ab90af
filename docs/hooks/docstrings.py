"""Docstrings carry a little reStructuredText; the pages are Markdown."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

from griffe import Extension, Object

_BLOCK = re.compile(
    r"^(?P<indent> *)\.\. math::(?P<body>[^\n]*(?:\n(?:(?P=indent) +[^\n]*)?)*)", re.M
)
_INLINE = re.compile(r":math:`([^`]*)`")
_ROLE = re.compile(r":(?:func|class|mod|data|meth|attr):`~?([^`]*)`")
_CITED = re.compile(r"\s*\[(\d+)\]_")
_REFERENCE = re.compile(r"^( *)\.\. \[(\d+)\] ", re.M)


def _block(match: re.Match[str]) -> str:
    first, _, rest = match["body"].strip("\n").partition("\n")
    tex = " ".join(f"{first}\n{dedent(rest)}".split())
    indent = match["indent"]
    return f"{indent}$$\n{indent}{tex}\n{indent}$$\n\n"


def to_markdown(text: str) -> str:
    """Rewrite formulas, roles and citations of a docstring."""
    text = _BLOCK.sub(_block, text)
    text = _INLINE.sub(r"$\1$", text)
    text = _ROLE.sub(r"`\1`", text)
    text = _REFERENCE.sub(r"\1\2. ", text)
    return _CITED.sub(r" [\1]", text)


class Markdown(Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
