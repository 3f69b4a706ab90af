"""The embedded default: a data set that needs no network at all."""

from __future__ import annotations

import numpy as np

from bayescut.datasets._dataset import Dataset

__all__ = ["load_binary_digits"]


def load_binary_digits() -> Dataset:
    r"""Handwritten digits as 8 × 8 black-and-white pictures.

    These are the 1,797 pictures that ship with scikit-learn, whose 17 grey levels
    :math:`g \in \{0, \dots, 16\}` become :math:`x = [g > 7]`. The rows are shuffled once with a
    fixed seed and split 60 : 15 : 25; every call returns the same tables.

    Returns
    -------
    Dataset
        ``binary_digits`` with 1,078 training, 270 validation and 449 test rows of 64 pixels.

    Examples
    --------
    >>> from bayescut.datasets import load_binary_digits
    >>> digits = load_binary_digits()
    >>> digits.train.shape, digits.train.dtype
    ((1078, 64), dtype('uint8'))
    >>> for row in digits.train[0].reshape(8, 8):
    ...     print("".join("-#"[pixel] for pixel in row))
    ---#----
    ---#----
    --#-----
    --#-----
    --####--
    --##-##-
    --##-##-
    ---###--
    """
    # Imported here: scikit-learn's data sets are not needed to import this library.
    from sklearn.datasets import load_digits

    grey, _ = load_digits(return_X_y=True)
    pixels = (grey > 7).astype(np.uint8)
    n_rows = len(pixels)
    pixels = pixels[np.random.default_rng(0).permutation(n_rows)]
    n_train, n_valid = round(0.60 * n_rows), round(0.15 * n_rows)
    # Copies, so that keeping one part does not keep the whole table alive.
    train, valid, test = (part.copy() for part in np.split(pixels, [n_train, n_train + n_valid]))
    return Dataset("binary_digits", train, valid, test)
