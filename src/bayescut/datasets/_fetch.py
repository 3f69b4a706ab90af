"""The loaders of published data sets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bayescut.datasets import _download, _local
from bayescut.datasets._dataset import Dataset
from bayescut.datasets._manifest import (
    MANIFEST,
    MNIST_NAME,
    SPLITS,
    FileRecord,
    resolve_debd_name,
)
from bayescut.datasets._parse import check, parse
from bayescut.exceptions import DatasetError

__all__ = ["fetch_binary_mnist", "fetch_debd"]


def fetch_debd(
    name: str,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    verbose: int = 0,
) -> Dataset:
    """One of the twenty binary sets on which density estimators are compared.

    The places a file is looked for, and their order, are those of :mod:`bayescut.datasets`.

    Parameters
    ----------
    name : str
        One of :data:`~bayescut.datasets.DEBD_NAMES`, or a customary name such as ``"netflix"``.
    cache_dir : path-like, optional
        Folder for downloads, in place of ``BAYESCUT_CACHE`` and the user's cache.
    download : bool, default=True
        Whether a file that is not on this machine may be downloaded.
    verbose : int, default=0
        Above 0, shows a progress bar while downloading (needs rich).

    Returns
    -------
    Dataset
        Its training, validation and test tables.

    Raises
    ------
    ValueError
        If there is no set of that name.
    DatasetError
        If a file cannot be had or is not the published one.

    Examples
    --------
    >>> from bayescut.datasets import fetch_debd
    >>> fetch_debd("nltcs")  # doctest: +SKIP
    Dataset('nltcs', train=(16181, 16), valid=(2157, 16), test=(3236, 16))
    """
    return _fetch(resolve_debd_name(name), cache_dir, download, verbose)


def fetch_binary_mnist(
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    verbose: int = 0,
) -> Dataset:
    """Binary MNIST: 70,000 handwritten digits of 28 × 28 pixels, binarised once and for all.

    Parameters
    ----------
    cache_dir : path-like, optional
        Folder for downloads, in place of ``BAYESCUT_CACHE`` and the user's cache.
    download : bool, default=True
        Whether a file that is not on this machine may be downloaded.
    verbose : int, default=0
        Above 0, shows a progress bar while downloading (needs rich).

    Returns
    -------
    Dataset
        ``binarized_mnist`` with 50,000 training, 10,000 validation and 10,000 test rows.

    Raises
    ------
    DatasetError
        If a file cannot be had or is not the published one.

    Examples
    --------
    >>> from bayescut.datasets import fetch_binary_mnist
    >>> fetch_binary_mnist()  # doctest: +SKIP
    Dataset('binarized_mnist', train=(50000, 784), valid=(10000, 784), test=(10000, 784))
    """
    return _fetch(MNIST_NAME, cache_dir, download, verbose)


def _fetch(
    name: str, cache_dir: str | os.PathLike[str] | None, download: bool, verbose: int
) -> Dataset:
    folders = _local.folders(cache_dir)
    train, valid, test = (
        _load(MANIFEST[name, split], folders, download, verbose) for split in SPLITS
    )
    return Dataset(name, train, valid, test)


def _load(
    record: FileRecord, folders: list[Path], may_download: bool, verbose: int
) -> npt.NDArray[np.uint8]:
    for folder in folders:
        path = _local.find_file(folder, record)
        if path is not None:
            content = _local.read_file(path)
            check(content, record, str(path), "Delete or replace it.")
            return parse(content, record)
    if not may_download:
        places = ", ".join(map(str, folders))
        raise DatasetError(
            f"{record.filename} (or {record.filename}.gz) is not in {places}, and download=False. "
            "Allow the download, or set BAYESCUT_DATA to a folder that holds it."
        )
    content = _download.download(record, verbose=verbose)
    _download.store(content, folders[-1] / record.folder / f"{record.filename}.gz")
    return parse(content, record)
