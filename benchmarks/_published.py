"""Published numbers (facts from the literature, in ``reference/``) beside results of ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from _results import REFERENCE, read_csv
from bayescut.bench import BenchError, Learner, Result, Table, make_table
from bayescut.bench.table import Cell, Column

__all__ = [
    "COUNTERPARTS",
    "CUTSET_LEARNERS",
    "DATASET_TITLES",
    "MARK",
    "Published",
    "compare",
    "counterpart",
    "published",
]

SOURCE = "Yang, Gala, Peharz, AISTATS 2023"

#: The learners of the first group in the published tables; the others stand in the second.
CUTSET_LEARNERS = ("CNet", "XCNet", "dCSN", "CNetBD", "CNetBIC")

#: Stands behind the names of published columns.
MARK = "†"

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
    "Strudel": "Strudel",
    "LearnSPN": "LearnSPN",
    "IDSPN": "ID-SPN",
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


@cache
def published(kind: str) -> Published | None:
    """Return the published table of a kind, None if there is none.

    Parameters
    ----------
    kind : str
        ``"log_likelihood"``, ``"time"``, ``"size"`` or ``"best_known"``.
    """
    if kind == "best_known":
        best = {
            ("best known", line["dataset"]): line["best_tractable"]
            for line in read_csv(REFERENCE / "best_known.csv")
        }
        return Published("best published tractable model of any kind", ("best known",), best)
    if kind not in _FILES:
        return None
    name, number = _FILES[kind]
    lines = read_csv(REFERENCE / name)
    learners = tuple(column for column in lines[0] if column != "dataset")
    cells = {(learner, line["dataset"]): line[learner] for line in lines for learner in learners}
    return Published(f"{SOURCE}, Table {number}", learners, cells)


def counterpart(learner: Learner) -> str | None:
    """Return the published learner that a learner with default settings implements."""
    return None if learner.has_arguments else COUNTERPARTS.get(learner.class_name)


def compare(
    results: Iterable[Result],
    kind: str = "log_likelihood",
    *,
    protocol: str | None = None,
    datasets: Iterable[str] | None = None,
    learners: Sequence[str] | None = None,
    best_known: bool = False,
) -> Table:
    """Set results and published numbers side by side, in the layout of the published tables.

    Parameters
    ----------
    results, kind, protocol, datasets
        See `bayescut.bench.make_table`.
    learners : sequence of str, optional
        Which published learners; all when left out.
    best_known : bool
        Whether to add the best published log-likelihood of any tractable model.
    """
    table = make_table(results, kind, protocol=protocol, datasets=datasets)
    order = {name: position for position, name in enumerate(DATASET_TITLES)}
    names = table.datasets
    if datasets is None:
        names = tuple(sorted(names, key=lambda name: order.get(name, len(order))))
    columns = [replace(column, group="ours") for column in table.columns]
    notes = list(table.notes)
    reference = published(kind)
    if reference is not None:
        wanted = reference.learners if learners is None else _known(reference, learners)
        columns += [_column(reference, learner, names) for learner in wanted]
        notes.append(f"{MARK} published: {reference.source}.")
    if best_known and kind == "log_likelihood":
        summit = published("best_known")
        assert summit is not None
        column = _column(summit, "best known", names)
        columns.append(replace(column, title="best known", group="best known", competes=False))
        notes.append(f"best known: {summit.source}.")
    made = replace(table, datasets=names, columns=tuple(columns), titles=DATASET_TITLES)
    return replace(made, notes=(*notes, *_comparisons(made, reference)))


def _known(reference: Published, learners: Sequence[str]) -> list[str]:
    every = published("log_likelihood")
    assert every is not None
    plain = {name.casefold().replace("-", ""): name for name in every.learners}
    found = []
    for name in learners:
        known = plain.get(name.casefold().replace("-", ""))
        if known is None:
            raise BenchError(
                f"There are no published numbers of {name!r}; there are those of "
                f"{', '.join(every.learners)}."
            )
        if known in reference.learners:
            found.append(known)
    return found


def _column(reference: Published, learner: str, names: Sequence[str]) -> Column:
    cells = {}
    for name in names:
        text = reference.cells.get((learner, name))
        cells[name] = Cell() if text is None else Cell(float(text), None, 1, text)
    cutset = learner in CUTSET_LEARNERS
    return Column(
        learner + MARK,
        cells,
        group="published cutset learners" if cutset else "published others",
    )


def _comparisons(table: Table, reference: Published | None) -> list[str]:
    """One sentence for each of our columns whose published counterpart is shown too."""
    if reference is None:
        return []
    notes = []
    shown = {column.title for column in table.columns if column.learner is None}
    for column in table.columns:
        name = counterpart(column.learner) if column.learner is not None else None
        if name is None or name + MARK not in shown:
            continue
        pairs = [
            (dataset, cell.value, reference.value(name, dataset))
            for dataset, cell in column.cells.items()
        ]
        known = [(d, ours, theirs) for d, ours, theirs in pairs if ours and theirs]
        if not known:
            continue
        if table.kind == "log_likelihood":
            dataset, ours, theirs = max(known, key=lambda pair: abs(pair[1] - pair[2]))
            notes.append(
                f"{column.title} against {name}{MARK}: largest difference {ours - theirs:+.3f} "
                f"({DATASET_TITLES.get(dataset, dataset)}), {len(known)} data sets."
            )
            continue
        ratio = math.exp(float(np.mean([math.log(theirs / ours) for _, ours, theirs in known])))
        if table.kind == "time":
            notes.append(
                f"{column.title} is {ratio:.3g} times as fast as {name}{MARK} "
                f"(geometric mean of {len(known)} data sets, different machines)."
            )
        else:
            same = sum(ours == theirs for _, ours, theirs in known)
            notes.append(
                f"{column.title} has the size of {name}{MARK} on {same} of {len(known)} data sets."
            )
    return notes
