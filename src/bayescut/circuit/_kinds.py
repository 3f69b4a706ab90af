"""The node kinds of a circuit, and how evidence on one variable is written inside the kernels."""

from __future__ import annotations

SUM = 0
DECISION = 1
PRODUCT = 2
# Inputs: one file each in `bayescut.circuit.inputs`.
INDICATOR = 3
CATEGORICAL = 4
JUNCTION = 5
GAUSSIAN = 6
STUDENT = 7
NORMAL = 8

NAMES = (
    "sum", "decision", "product", "indicator", "categorical", "junction", "gaussian", "student",
    "normal",
)  # fmt: skip

# Inside the kernels a variable carries its observed state (at most 65,533) in 16 bits, or one of
# these. A variable is unknown if its entry is at least RESTRICTED.
RESTRICTED = 65534  # the row's weights say how far each state is possible
MISSING = 65535  # every state is possible
