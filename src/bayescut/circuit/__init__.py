"""The frozen model: circuits as flat arrays, their structural properties and exact queries."""

from bayescut.circuit import build
from bayescut.circuit._model import Circuit
from bayescut.circuit.evidence import Evidence
from bayescut.circuit.expansion import expand
from bayescut.circuit.flows import Flows
from bayescut.circuit.properties import Properties

__all__ = ["Circuit", "Evidence", "Flows", "Properties", "build", "expand"]
