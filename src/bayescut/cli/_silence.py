"""What commands remember while they run: whether to be quiet, and what was said already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["hush", "is_quiet", "once", "speaking"]


class _Voice:
    def __init__(self) -> None:
        self.quiet = False
        self.said: set[str] = set()


_voice = _Voice()


@contextmanager
def speaking() -> Iterator[None]:
    """Begin a command: remarks are made until one is told to be quiet."""
    global _voice
    before, _voice = _voice, _Voice()
    try:
        yield
    finally:
        _voice = before


def hush(wanted: bool) -> bool:
    """Make no more remarks and show no bars, if that is wanted: what ``--quiet`` does."""
    _voice.quiet = _voice.quiet or wanted
    return wanted


def is_quiet() -> bool:
    """Tell whether remarks and bars are unwanted."""
    return _voice.quiet


def once(text: str) -> bool:
    """Tell whether something has not been said in this command yet; from then on it has."""
    new = text not in _voice.said
    _voice.said.add(text)
    return new
