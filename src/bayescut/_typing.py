"""Array types used in signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CodeArray = NDArray[Any]  # uint8 or uint16 codes, MISSING is the largest value of the dtype
IntArray = NDArray[Any]  # int32 or int64
FloatArray = NDArray[np.float64]
BitArray = NDArray[np.uint64]
CountArray = NDArray[Any]  # int32 counts of rows, or float64 sums of weights
