"""The kinds of inputs: one file each, and here the list of them.

A new kind is a number in `bayescut.circuit._kinds`, a file with its hooks and kernels (`InputKind`
says what they do), and its place in the list below.
"""

from __future__ import annotations

from bayescut.circuit.inputs._hooks import InputKind
from bayescut.circuit.inputs.categorical import Categorical
from bayescut.circuit.inputs.gaussian import Gaussian
from bayescut.circuit.inputs.indicator import Indicator
from bayescut.circuit.inputs.junction import Junction
from bayescut.circuit.inputs.normal import Normal
from bayescut.circuit.inputs.student import Student

INPUTS: dict[int, InputKind] = {
    kind.kind: kind
    for kind in (Indicator(), Categorical(), Junction(), Gaussian(), Student(), Normal())
}

__all__ = ["INPUTS", "InputKind"]
