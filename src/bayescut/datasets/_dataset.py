"""What every loader returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Dataset"]


# eq=False: comparing arrays field by field has no single truth value.
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A binary table in its three customary parts.

    Parameters
    ----------
    name : str
        The name under which the set is known, e.g. ``"nltcs"``.
    train, valid, test : ndarray of uint8, shape (n_rows, n_variables)
        C-contiguous tables of zeros and ones with the same columns.

    Examples
    --------
    >>> from bayescut.datasets import load_binary_digits
    >>> load_binary_digits()
    Dataset('binary_digits', train=(1078, 64), valid=(270, 64), test=(449, 64))
    """

    name: str
    train: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.uint8]
    test: npt.NDArray[np.uint8]

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, train={self.train.shape}, "
            f"valid={self.valid.shape}, test={self.test.shape})"
        )
