"""Published numbers: facts from the literature, as package data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from bayescut.bench._specs import Learner

__all__ = ["CUTSET_LEARNERS", "DATASET_TITLES", "SOURCE", "Published", "counterpart", "published"]

SOURCE = "Yang, Gala, Peharz, AISTATS 2023"

#: The learners of the first group in the published tables; the others stand in the second.
CUTSET_LEARNERS = ("CNet", "XCNet", "dCSN", "CNetBD", "CNetBIC")

#: How published tables call the data sets.
DATASET_TITLES = {
    "nltcs": "NLTCS",
    "msnbc": "MSNBC",
    "kdd": "KDD",
    "plants": "Plants",
    "baudio": "Audio",
    "jester": "Jester",
    "bnetflix": "Netflix",
    "accidents": "Accidents",
    "tretail": "Retail",
    "pumsb_star": "Pumsb-star",
    "dna": "DNA",
    "kosarek": "Kosarek",
    "msweb": "MSWeb",
    "book": "Book",
    "tmovie": "EachMovie",
    "cwebkb": "WebKB",
    "cr52": "Reuters-52",
    "c20ng": "20Newsgroup",
    "bbc": "BBC",
    "ad": "Ad",
    "binary_digits": "Binary digits",
    "binarized_mnist": "Binary MNIST",
}

_FILES = {
    "log_likelihood": ("log_likelihood.csv", 1),
    "time": ("learning_time.csv", 3),
    "size": ("circuit_size.csv", 4),
}

# Published learners under the names of the classes that implement them here.
COUNTERPARTS = {
    "CNet": "CNet",
    "XCNet": "XCNet",
    "DCSN": "dCSN",
    "CNetBD": "CNetBD",
    "CNetBIC": "CNetBIC",
    "EMCNetBD": "EM-CNetBD",
}


@dataclass(frozen=True)
class Published:
    """One published table.

    Parameters
    ----------
    source : str
        Where it was published.
    learners : tuple of str
        Its columns.
    cells : dict from (learner, data set) to str
        The numbers as printed.
    """

    source: str
    learners: tuple[str, ...]
    cells: dict[tuple[str, str], str]

    def value(self, learner: str, dataset: str) -> float | None:
        """Return a number, None if the table has none there."""
        text = self.cells.get((learner, dataset))
        return None if text is None else float(text)


def _lines(name: str) -> list[dict[str, str]]:
    text = files("bayescut.bench").joinpath("reference", name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def published(kind: str) -> Published | None:
    """Return the published table of a kind, None if there is none.

    Parameters
    ----------
    kind : str
        ``"log_likelihood"``, ``"time"``, ``"size"`` or ``"best_known"``.

    Examples
    --------
    >>> from bayescut.bench import published
    >>> table = published("log_likelihood")
    >>> table.value("CNetBD", "nltcs"), table.source
    (-6.064, 'Yang, Gala, Peharz, AISTATS 2023, Table 1')
    """
    if kind == "best_known":
        best = {
            ("best known", line["dataset"]): line["best_tractable"]
            for line in _lines(kind + ".csv")
        }
        return Published("best published tractable model of any kind", ("best known",), best)
    if kind not in _FILES:
        return None
    name, number = _FILES[kind]
    lines = _lines(name)
    learners = tuple(column for column in lines[0] if column != "dataset")
    cells = {(learner, line["dataset"]): line[learner] for line in lines for learner in learners}
    return Published(f"{SOURCE}, Table {number}", learners, cells)


def counterpart(learner: Learner) -> str | None:
    """Return the published learner that a learner with default settings implements."""
    return None if learner.has_arguments else COUNTERPARTS.get(learner.class_name)
