"""Formulas become MathML when the pages are built: they show without scripts and networks."""

from __future__ import annotations

import html
import logging
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)


# Warnings of this logger make a strict build fail.
_LOG = logging.getLogger("mkdocs.hooks.formulas")


def _replace(match: re.Match[str]) -> str:
    tex = html.unescape(match["tex"]).strip().replace(r"\arg", r"\operatorname{arg}")
    made = convert(tex, display="block" if match["tag"] == "div" else "inline")
    # A command that the converter does not know is left as it was.
    if "\\" in made or "&#x0005C;" in made:
        _LOG.warning("A formula cannot be shown: %s", tex)
    return made


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a page."""
    return _FORMULA.sub(_replace, content)
