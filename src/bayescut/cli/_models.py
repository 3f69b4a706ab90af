"""Models in files and pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayescut.cli._errors import CommandError
from bayescut.cli._tables import PIPE, pandas

if TYPE_CHECKING:
    from bayescut.circuit import Circuit
    from bayescut.data import Domains
    from bayescut.estimators._answers import Given

__all__ = ["LoadedModel", "as_density", "blocks", "load_model", "read_model"]

# Rows that are worked on at once: enough to keep all threads busy, few enough for a moving bar.
BLOCK = 50_000


@dataclass(frozen=True)
class LoadedModel:
    """A circuit with its domains, wherever it came from.

    Parameters
    ----------
    model : Circuit or estimator
    circuit : Circuit
    """

    model: Any
    circuit: Circuit

    @property
    def domains(self) -> Domains:
        """The columns of the table; a circuit may have more, which tell gaps."""
        found: Domains = getattr(self.model, "domains_", self.circuit.domains)
        return found

    def given(self, codes: Any, values: Any, *, tell: bool = False) -> Given:
        """What rows say; with their gaps, if they tell something."""
        from bayescut.estimators._answers import given_table
        from bayescut.estimators._density import as_wide

        gaps = getattr(self.model, "_gap_columns", ())
        if not gaps:
            codes, values = as_wide(self.circuit, codes, values)
        return given_table(self.circuit.domains, codes, values, gaps, tell=tell)

    @property
    def name(self) -> str:
        """The kind of model."""
        return type(self.model).__name__

    def frame(self, codes: Any, values: Any = None) -> Any:
        """Return codes, and values of numbers, as a DataFrame."""
        from bayescut.data import decode

        pandas()
        m = len(self.domains)
        numbers = None if values is None else values[:, :m]
        return decode(codes[:, :m], self.domains, values=numbers, as_frame=True)

    @property
    def has_names(self) -> bool:
        """Whether the columns have names."""
        return self.domains.names is not None


def read_model(source: str) -> Any:
    """Read whatever a model file holds; ``-`` is standard input."""
    from bayescut.files import load

    return load(sys.stdin.buffer if source == PIPE else source)


def load_model(source: str) -> LoadedModel:
    """Load a model file that holds a density; ``-`` is standard input."""
    return as_density(read_model(source), source)


def as_density(model: Any, source: str) -> LoadedModel:
    """Take what a file holds for a density."""
    from bayescut.circuit import Circuit

    circuit = model if isinstance(model, Circuit) else getattr(model, "circuit_", None)
    if hasattr(model, "members_"):
        raise CommandError(
            f"{source!r} holds a {type(model).__name__}, which predicts one column and knows no "
            "other answers: use bayescut predict."
        )
    if not isinstance(circuit, Circuit):
        raise CommandError(
            f"{source!r} holds a {type(model).__name__} that has not learned anything yet: "
            "learn one with bayescut fit."
        )
    return LoadedModel(model, circuit)


def blocks(n_rows: int) -> Iterator[slice]:
    """Cut rows into blocks."""
    for begin in range(0, n_rows, BLOCK):
        yield slice(begin, min(begin + BLOCK, n_rows))
