"""How the numba kernels are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

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


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing: Any, given: Any) -> Any:
    """Return arrays, or tuples of arrays, whose references are no longer counted.

    Numba counts the references of every array that is handed to a function, taken out of a tuple or
    cut out of an array, atomically: 10 ns each time, more than a short loop takes. A kernel borrows
    what it was given once, at its beginning; its caller holds the arrays while it runs. What is
    borrowed must not be returned.
    """

    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            for i, each in enumerate(kind.types):
                part = strip(context, builder, each, builder.extract_value(value, i))
                value = builder.insert_value(value, part, i)
        return value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return strip(context, builder, signature.args[0], args[0])

    return given(given), codegen
