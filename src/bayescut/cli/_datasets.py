"""``bayescut datasets``: the published data sets on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bayescut.bench import dataset_names, load_dataset
from bayescut.bench._specs import DIGITS_NAME
from bayescut.cli._options import Json, Quiet
from bayescut.cli._terminal import bar, emit, emit_json, print_table
from bayescut.datasets import DEBD_NAMES, _local
from bayescut.datasets._manifest import MANIFEST, MNIST_NAME, SPLITS
from bayescut.exceptions import DatasetError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, fetch and verify the published data sets.")

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Data sets; debd stands for the twenty benchmark sets. Default: all."),
]
PUBLISHED = (*DEBD_NAMES, MNIST_NAME)


def _place(name: str) -> str | None:
    """Return where the files of a set lie, None if they have to be fetched."""
    if name == DIGITS_NAME:
        return "comes with scikit-learn"
    folders = _local.folders()
    places = set()
    for split in SPLITS:
        record = MANIFEST[name, split]
        found = next((f for f in folders if _local.find_file(f, record)), None)
        if found is None:
            return None
        places.add(str(found))
    return ", ".join(sorted(places))


@app.command("list")
def list_sets(quiet: Quiet = False, as_json: Json = False) -> None:
    """List the data sets and say where they lie."""
    lines: list[dict[str, Any]] = []
    for name in (*PUBLISHED, DIGITS_NAME):
        if name == DIGITS_NAME:
            data = load_dataset(name)
            shape = (data.train.shape[1], *(len(getattr(data, split)) for split in SPLITS))
        else:
            rows = [MANIFEST[name, split].rows for split in SPLITS]
            shape = (MANIFEST[name, "train"].variables, *rows)
        numbers = dict(zip(("variables", *SPLITS), shape, strict=True))
        lines.append({"name": name, **numbers, "place": _place(name)})
    if as_json:
        emit_json(lines)
        return
    print_table(
        ["data set", "variables", "train", "valid", "test", "where"],
        [
            [
                line["name"],
                *(f"{line[key]:,}" for key in ("variables", *SPLITS)),
                line["place"] or "not here: bayescut datasets fetch",
            ]
            for line in lines
        ],
        left=(0, 5),
    )


@app.command()
def fetch(names: Names = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Fetch data sets that are not on this machine yet; every file is checked."""
    _load(names, download=True, done="here, and as published", as_json=as_json)


@app.command()
def verify(names: Names = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Check the files on this machine against their published sha256."""
    chosen = dataset_names(names) if names else [name for name in PUBLISHED if _place(name)]
    _load(chosen, download=False, done="as published", as_json=as_json)


def _load(names: list[str] | None, *, download: bool, done: str, as_json: bool) -> None:
    chosen = dataset_names(names) if names else list(PUBLISHED)
    states: dict[str, str] = {}
    with bar("data sets", len(chosen)) as update:
        for name in chosen:
            update(0, name)
            try:
                load_dataset(name, download=download)
                states[name] = done
            except DatasetError as error:
                states[name] = f"wrong: {' '.join(str(error).split())}"
            update(1)
    if as_json:
        emit_json({name: {"ok": state == done, "state": state} for name, state in states.items()})
    else:
        for name, state in states.items():
            emit(f"{name}: {state}")
    if any(state != done for state in states.values()):
        raise typer.Exit(1)
