"""Random orders inside kernels: a function of a key alone, whatever thread asks for them."""

from __future__ import annotations

import numpy as np

from bayescut._kernels import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def derive(key, number):
    """Key of the ``number``-th part of what has ``key``: 63 bits by the steps of SplitMix64."""
    z = np.uint64(key) + _STEP * (np.uint64(number) + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@kernel
def shuffled(key, n):
    """A random order of ``0 .. n - 1``."""
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        # A bias of n / 2^63 towards small numbers does not matter here.
        j = derive(key, i) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order
