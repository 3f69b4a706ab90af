"""The commands, put together."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bayescut import __version__
from bayescut.cli import _bench, _datasets
from bayescut.cli._check import check
from bayescut.cli._errors import guarded
from bayescut.cli._fit import fit
from bayescut.cli._options import Quiet
from bayescut.cli._predict import anomalies, predict
from bayescut.cli._queries import impute, query, sample, score
from bayescut.cli._report import report
from bayescut.cli._show import show

__all__ = ["app", "run"]

_HELP = """Density models for tables that learn their own structure and answer queries exactly.

Learn a model from a table, then ask it:

\b
  bayescut check people.csv
  bayescut fit people.csv -o people.bc
  bayescut show people.bc
  bayescut query people.bc "P(smoker=yes | 30 <= age < 40, sex=f)"
  bayescut query people.bc "MPE(| smoker=yes)"
  bayescut impute people.bc gaps.csv -o filled.csv
  bayescut sample people.bc -n 1000 --given "age=old" > synthetic.csv
  bayescut score people.bc new.csv
  bayescut predict people.bc new.csv --target smoker
  bayescut anomalies people.bc new.csv
  bayescut report people.csv synthetic.csv

Compare learners, your own included:

\b
  bayescut bench run -l CNetBD,CNetBIC -d nltcs,dna
  bayescut bench table

- stands for standard input or output. Errors are one line and exit code 1 (2: the command was not
understood; 130: it was interrupted)."""

app = typer.Typer(
    name="bayescut",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"bayescut {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show where an error came from (any place in a command)."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path(
        "demo_output"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    quiet: Quiet = False,
) -> None:
    """See it at work: learn handwritten digits, print a table, draw and complete digits."""
    from bayescut.demo import run as run_demo

    run_demo(output, seed=seed, quiet=quiet)


app.command()(check)
app.command()(fit)
app.command()(show)
app.command()(query)
app.command()(score)
app.command()(impute)
app.command()(sample)
app.command()(predict)
app.command()(anomalies)
app.command()(report)
app.add_typer(_bench.app, name="bench")
app.add_typer(_datasets.app, name="datasets")


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str
        What stands after the name of the program.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    debug = "--debug" in words[:end] or bool(os.environ.get("BAYESCUT_DEBUG"))
    # Taken out here so that it may stand anywhere, not only before the command.
    words = [word for word in words[:end] if word != "--debug"] + words[end:]
    return guarded(lambda: app(words, standalone_mode=False, prog_name="bayescut"), debug=debug)
