"""A way to compile functions that are called from one or two places only."""

from __future__ import annotations

from numba import njit

#: Copied into the caller before it is compiled. Otherwise each level of calls is optimised anew
#: with all that it calls: 40 s for all queries together instead of 30. Not for functions inside a
#: hot loop: each array handed over has its references counted.
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
