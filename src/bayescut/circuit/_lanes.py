"""A junction leaf for many rows at once, each row in its own lane.

The messages are those of :mod:`bayescut.circuit._junction`, but for every assignment of the
parents, whether it agrees with the evidence or not: no branch depends on a row, and the loops over
the lanes become vector instructions. A message whose entries fall below ``SMALL`` is scaled; a row
that would lose precision is given up (NaN) and evaluated on its own. No lane ever looks at another
one, so that an answer does not depend on the rows beside it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bayescut._typing import CodeArray, FloatArray, IntArray
from bayescut.circuit._junction import leaf_arrays
from bayescut.circuit._kinds import MISSING, RESTRICTED
from bayescut.circuit._plan import (
    HEAD,
    HOST,
    LINK,
    LOGS,
    NONE,
    PARENT_STATES,
    PARENT_VAR,
    PARENTS,
    PARENTS_END,
    PRODUCT_SO_FAR,
    START,
    STATES,
    TERM,
    UP,
    VAR,
    Lanes,
    Plan,
)

SMALL = 1e-30  # ten messages of this size multiply to a normal number
TINY = 1e-250  # below this, products may have lost digits


@njit(cache=True, nogil=True)
def _agrees(
    parent: IntArray, begin: int, end: int, base: int, n_states: int, row: CodeArray
) -> bool:
    """Say whether an assignment of the parents, given by its number, agrees with a row."""
    for j in range(end, begin, -1):
        k = np.int64(parent[j - 1, PARENT_STATES])
        state = np.int64(row[parent[j - 1, PARENT_VAR]])
        if state < RESTRICTED and state != base % k:
            return False
        base //= k
    return True
