r"""The structure that all latent points share, and what a point says about its tables.

A table of one parent or none has a logit of its own for each cell, all of which depend on the
point. The cells of wider tables are too many and too rarely seen for that: they have the logits of
the whole table, and the point adds an offset for the column's state and one for each parent's,

.. math:: a_{fcs}(z) = b_{fcs} + o_{fs}(z) + \sum_{p: c_p > 0} o_{f p c_p s}(z).

Validation of single members under structures of up to eight parents, learned to their end, with a
logit for each cell and with offsets: accidents -25.88 and -25.79, pumsb_star -21.85 and -21.77,
with four parents plants -12.37 and -12.28, kosarek -10.78 and -10.72, nltcs -5.956 and -5.938. With
one parent both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescut._kernels import kernel
from bayescut._typing import IntArray

Array = NDArray[Any]  # float32 to learn, float64 to check

# Most parents of a family whose cells have logits of their own.
_OWN_LOGITS = 1


class Structure(NamedTuple):
    """Which parents every column has, in an order in which parents come first.

    Attributes
    ----------
    columns : int64 array of shape (F,)
        One family for each column.
    parent_ptr : int64 array of shape (F + 1,)
        Family ``f`` has the parents ``parents[parent_ptr[f] : parent_ptr[f + 1]]``.
    parents : int64 array
        Parent columns, the first the slowest index of a table.
    hosts : int64 array of shape (F,)
        The earlier family that contains all parents (-1: no parents).
    """

    columns: IntArray
    parent_ptr: IntArray
    parents: IntArray
    hosts: IntArray

    def parents_of(self, f: int) -> tuple[int, ...]:
        """Parents of a family."""
        return tuple(self.parents[self.parent_ptr[f] : self.parent_ptr[f + 1]].tolist())


@dataclass(frozen=True)
class Offsets:
    """How the outputs of a decoder add up to the logits of a structure.

    Attributes
    ----------
    n_outputs : int
        Outputs of the decoder.
    before : int64 array of shape (n_logits,)
        The earlier logit of the same state under the configuration in which one parent, the last of
        those that are not, is in state 0 instead; -1 where the sum begins.
    output : int64 array of shape (n_logits,)
        The output that is added to it.
    """

    n_outputs: int
    before: IntArray
    output: IntArray

    @classmethod
    def of(cls, structure: Structure, sizes: IntArray) -> Offsets:
        """Offsets of the families of a structure over columns of these numbers of states."""
        before: list[IntArray] = []
        output: list[IntArray] = []
        n_logits = n_outputs = 0
        for f, column in enumerate(structure.columns):
            parents = structure.parents_of(f)
            radix = [int(sizes[p]) for p in parents]
            free = int(sizes[column]) - 1
            state = np.arange(free)
            n_configurations = int(np.prod(radix, dtype=np.int64))
            if len(parents) <= _OWN_LOGITS:
                n_cells = n_configurations * free
                before.append(np.full(n_cells, -1))
                output.append(n_outputs + np.arange(n_cells))
                n_outputs += n_cells
            else:
                # Outputs: the column's own, then those of each state above 0 of each parent.
                first = np.concatenate([[1], 1 + np.cumsum(np.array(radix) - 1)])
                for c in range(n_configurations):
                    step, left, parent = 1, c, len(radix) - 1
                    while left and left % radix[parent] == 0:
                        left //= radix[parent]
                        step *= radix[parent]
                        parent -= 1
                    digit = left % radix[parent]
                    earlier = c - digit * step
                    before.append(n_logits + earlier * free + state if c else np.full(free, -1))
                    place = int(first[parent]) + digit - 1 if c else 0
                    output.append(n_outputs + place * free + state)
                n_outputs += int(first[-1]) * free
            n_logits += n_configurations * free
        none = np.empty(0, dtype=np.int64)
        return cls(
            n_outputs,
            np.concatenate([none, *before]).astype(np.int64),
            np.concatenate([none, *output]).astype(np.int64),
        )

    @property
    def _trivial(self) -> bool:
        """Whether outputs are logits."""
        return self.n_outputs == len(self.before) and bool(np.all(self.before < 0))

    def logits(self, outputs: Array) -> Array:
        """Add outputs up to logits less the structure's own; arrays of shape (..., N)."""
        if self._trivial:
            return outputs
        logits = np.empty((len(self.before), outputs.shape[1]), dtype=outputs.dtype)
        _add_up(self.before, self.output, outputs, logits)
        return logits

    def outputs(self, gradient: Array) -> Array:
        """Gradient by the outputs, given that by the logits, which is used up."""
        if self._trivial:
            return gradient
        found = np.zeros((self.n_outputs, gradient.shape[1]), dtype=gradient.dtype)
        _take_apart(self.before, self.output, gradient, found)
        return found


@kernel
def _add_up(before, output, outputs, logits):
    n = outputs.shape[1]
    for i in range(before.shape[0]):
        b, o = before[i], output[i]
        if b < 0:
            for j in range(n):
                logits[i, j] = outputs[o, j]
        else:
            for j in range(n):
                logits[i, j] = logits[b, j] + outputs[o, j]


@kernel
def _take_apart(before, output, gradient, found):
    n = gradient.shape[1]
    for i in range(before.shape[0] - 1, -1, -1):
        b, o = before[i], output[i]
        if b >= 0:
            for j in range(n):
                gradient[b, j] += gradient[i, j]
        for j in range(n):
            found[o, j] += gradient[i, j]
