"""What the published files are: their names, shapes and checksums."""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["DEBD_NAMES", "MANIFEST", "MNIST_NAME", "SPLITS", "FileRecord", "resolve_debd_name"]

SPLITS = ("train", "valid", "test")
MNIST_NAME = "binarized_mnist"


@dataclass(frozen=True)
class FileRecord:
    """One published file: a table of zeros and ones as text.

    Parameters
    ----------
    dataset, split : str
        Which part of which set.
    rows, variables : int
        Shape of the table.
    sha256 : str
        Checksum of the plain (not gzipped) content.
    """

    dataset: str
    split: str
    rows: int
    variables: int
    sha256: str

    @property
    def filename(self) -> str:
        """Name of the plain file."""
        return f"{self.dataset}.{self.split}.data"

    @property
    def folder(self) -> str:
        """Subfolder in which local collections keep it."""
        return "mnist" if self.dataset == MNIST_NAME else "debd"

    @property
    def n_bytes(self) -> int:
        """Size of the plain file: each cell is one digit and one separator or newline."""
        return 2 * self.rows * self.variables


def _read_manifest() -> dict[tuple[str, str], FileRecord]:
    text = files("bayescut.datasets").joinpath("manifest.csv").read_text(encoding="ascii")
    return {
        (line["dataset"], line["split"]): FileRecord(
            dataset=line["dataset"],
            split=line["split"],
            rows=int(line["rows"]),
            variables=int(line["variables"]),
            sha256=line["sha256"],
        )
        for line in csv.DictReader(text.splitlines())
    }


MANIFEST = _read_manifest()

#: The twenty sets of the density estimation benchmark, by number of variables.
DEBD_NAMES: tuple[str, ...] = tuple(
    name for name, split in MANIFEST if split == "train" and name != MNIST_NAME
)

# Names under which published tables list the same sets, reduced as _key does.
_ALIASES = {
    "20newsgroup": "c20ng",
    "20newsgroups": "c20ng",
    "20ng": "c20ng",
    "audio": "baudio",
    "bbcnews": "bbc",
    "eachmovie": "tmovie",
    "kddcup": "kdd",
    "kddcup2k": "kdd",
    "movie": "tmovie",
    "netflix": "bnetflix",
    "pumsb": "pumsb_star",
    "r52": "cr52",
    "retail": "tretail",
    "reuters": "cr52",
    "reuters52": "cr52",
    "webkb": "cwebkb",
}


def _key(name: str) -> str:
    """Reduce a name to what tells it apart, so that ``Pumsb*`` and ``pumsb-star`` are known."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_KNOWN = {_key(name): name for name in DEBD_NAMES} | _ALIASES


def resolve_debd_name(name: str) -> str:
    """Return the file name of a benchmark set given under any of its customary names.

    Parameters
    ----------
    name : str
        A file name or an alias; letter case, blanks, hyphens and underscores do not matter.

    Returns
    -------
    str
        One of :data:`DEBD_NAMES`.

    Raises
    ------
    TypeError
        If `name` is not a string.
    ValueError
        If there is no such set; the message lists the names.

    Examples
    --------
    >>> from bayescut.datasets._manifest import resolve_debd_name
    >>> resolve_debd_name("Netflix"), resolve_debd_name("Pumsb*")
    ('bnetflix', 'pumsb_star')
    """
    if not isinstance(name, str):
        raise TypeError(f"The name of a data set is a string, got {name!r}.")
    key = _key(name)
    if key in _KNOWN:
        return _KNOWN[key]
    if "mnist" in key:
        hint = " For Binary MNIST call fetch_binary_mnist()."
    else:
        close = difflib.get_close_matches(key, _KNOWN, n=1)
        hint = f" Did you mean {_KNOWN[close[0]]!r}?" if close else ""
    raise ValueError(
        f"Unknown data set {name!r}.{hint} The benchmark sets are: {', '.join(DEBD_NAMES)}."
    )
