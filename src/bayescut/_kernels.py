"""How the numba kernels are compiled."""

from __future__ import annotations

from numba import njit
from numba.extending import register_jitable

#: Compiled once and cached, free of the interpreter lock, and without Python's check for a zero
#: divisor: that check alone keeps LLVM from vectorising a loop (7 ns a logarithm instead of 1.2).
kernel = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)

#: For functions that only kernels call: compiled without an entry for Python, and once where a
#: constant and a variable of one type are handed over. From Python they run as they are written.
inner = register_jitable(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)

#: An `inner` function that becomes part of each caller in LLVM, so that loops over it vectorise.
#: Copied into the caller before it is compiled, every copy is typed anew: 1.5 s for logarithms.
merged = register_jitable(
    cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, forceinline=True
)

#: Copied into the caller before it is compiled, for functions called from one or two places.
#: Otherwise each level of calls is optimised anew with all that it calls: 40 s for all queries
#: together instead of 30. Not for functions inside a hot loop: each array handed over has its
#: references counted.
inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
