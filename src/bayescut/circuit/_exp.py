"""An exponential that vectorises: 1.2 ns a number where the C library takes 5 to 6.

Sums of hundreds of components are mostly exponentials. The same numbers come out in vector lanes
and in the remainder of a loop, since nothing but additions, multiplications and shifts is used.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from bayescut._kernels import merged

LOWEST = -700.0  # exp of it is 1e-304: nothing beside a term of 1
_MAGIC = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number, kept in the low bits
_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10


@intrinsic
def _bits(typingctx, number):
    """The bits of a float64 as an int64."""
    if number != types.float64:
        return None

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(number), codegen


@intrinsic
def _float(typingctx, bits):
    """The float64 of which an int64 holds the bits."""
    if not isinstance(bits, types.Integer):
        return None

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(bits), codegen


@merged
def exp(x: float) -> float:
    """exp(x) for x up to 700, to 2 units in the last place; below `LOWEST`, about 1e-304.

    x = k ln 2 + r with |r| ≤ ln 2 / 2, and exp(r) by its series, whose first term left out is below
    3e-17.
    """
    x = max(x, LOWEST)
    shifted = x * _LOG2E + _MAGIC
    k = shifted - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r * r + r + 1.0
    return p * _float((_bits(shifted) + np.int64(1023)) << np.int64(52))
