"""Learners and data sets by the names a command line can carry."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import bayescut
from bayescut.datasets import (
    DEBD_NAMES,
    Dataset,
    fetch_binary_mnist,
    fetch_debd,
    load_binary_digits,
)
from bayescut.datasets._manifest import MNIST_NAME, resolve_debd_name
from bayescut.exceptions import BayescutError

__all__ = [
    "BenchError",
    "Learner",
    "dataset_names",
    "load_dataset",
    "parse_learner",
    "split_specs",
]

DIGITS_NAME = "binary_digits"


class BenchError(BayescutError, ValueError):
    """A learner, a data set or a results file that a benchmark cannot use."""


@dataclass(frozen=True)
class _Call:
    """``module:name(arguments)``, read but not yet looked up."""

    module: str | None
    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    @property
    def spec(self) -> str:
        """The same call in its one canonical spelling."""
        head = self.name if self.module is None else f"{self.module}:{self.name}"
        given = [repr(value) for value in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs]
        return f"{head}({', '.join(given)})" if given else head

    def find(self) -> Any:
        """Import what is named."""
        if self.module is None:
            return _public(self.name)
        try:
            found = import_module(self.module)
            for part in self.name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise BenchError(f"{self.module}:{self.name} cannot be imported: {error}.") from error
        return found


def _parse_call(text: str) -> _Call:
    head, colon, tail = text.strip().partition(":")
    module = None
    if colon and "(" not in head:
        module, body = head.strip(), tail.strip()
        if not all(part.isidentifier() for part in module.split(".")):
            raise BenchError(f"{module!r} in {text!r} is not the name of a module.")
    else:
        body = text.strip()
    wrong = BenchError(
        f"{text!r} is not a learner or data set: write Name, Name(argument=1) or "
        "package.module:Name(argument=1)."
    )
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise wrong from error
    args: tuple[Any, ...] = ()
    kwargs: list[tuple[str, Any]] = []
    if isinstance(tree, ast.Call):
        try:
            # Literals only: nothing in a specification is ever executed.
            args = tuple(ast.literal_eval(value) for value in tree.args)
            for keyword in tree.keywords:
                if keyword.arg is None:
                    raise wrong
                kwargs.append((keyword.arg, ast.literal_eval(keyword.value)))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            if error is wrong:
                raise
            raise BenchError(
                f"The arguments of {text!r} must be plain values: numbers, text in quotes, True, "
                "False, None, or lists of them."
            ) from error
        tree = tree.func
    parts: list[str] = []
    while isinstance(tree, ast.Attribute) and module is not None:
        parts.append(tree.attr)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        raise wrong
    name = ".".join([tree.id, *reversed(parts)])
    return _Call(module, name, args, tuple(sorted(kwargs)))


def _public(name: str) -> Any:
    if name in bayescut.__all__:
        return getattr(bayescut, name)
    known = [
        public for public in bayescut.__all__ if hasattr(getattr(bayescut, public), "score_samples")
    ]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise BenchError(
        f"Unknown learner {name!r}.{hint} Known: {', '.join(known)}; "
        "others as package.module:Class."
    )


@dataclass(frozen=True)
class Learner:
    """A density estimator by name: a class and plain constructor arguments.

    Parameters
    ----------
    spec : str
        The canonical spelling, which identifies the learner in results files.

    Examples
    --------
    >>> from bayescut.bench import parse_learner
    >>> learner = parse_learner("CNetBD(n_candidates=5, ess=1.0)")
    >>> learner.spec
    'CNetBD(ess=1.0, n_candidates=5)'
    >>> learner.build()
    CNetBD(ess=1.0, n_candidates=5)
    """

    spec: str

    @property
    def _call(self) -> _Call:
        return _parse_call(self.spec)

    @property
    def class_name(self) -> str:
        """The name of the class, without module and arguments."""
        return self._call.name

    @property
    def title(self) -> str:
        """The specification without the module: what tables and figures show."""
        call = self._call
        return _Call(None, call.name, call.args, call.kwargs).spec

    @property
    def has_arguments(self) -> bool:
        """Whether anything but the defaults is asked for."""
        return bool(self._call.args or self._call.kwargs)

    def find_class(self) -> Any:
        """Return the class; BenchError if there is none or it is no density estimator."""
        found = self._call.find()
        for method in ("fit", "score_samples"):
            if not callable(getattr(found, method, None)):
                raise BenchError(f"{self.spec} has no method {method}: it is no density estimator.")
        return found

    @property
    def takes_seed(self) -> bool:
        """Whether runs differ by ``random_state`` (and it is not fixed by the specification)."""
        fixed = dict(self._call.kwargs)
        return "random_state" in _parameters(self.find_class()) and "random_state" not in fixed

    def build(self, seed: int | None = None, **extra: Any) -> Any:
        """Return a new estimator.

        Parameters
        ----------
        seed : int, optional
            Its ``random_state``, if it takes one.
        **extra
            Further arguments, left out where the class does not take them or the specification
            has its own.
        """
        call, cls = self._call, self.find_class()
        kwargs = dict(call.kwargs)
        known = _parameters(cls)
        for name, value in {"random_state": seed, **extra}.items():
            if value is not None and name in known and name not in kwargs:
                kwargs[name] = value
        try:
            return cls(*call.args, **kwargs)
        except (TypeError, ValueError) as error:
            raise BenchError(
                f"{self.spec} cannot be made: {error}. It takes: {', '.join(known)}."
            ) from error


def _parameters(cls: Any) -> list[str]:
    try:
        return list(inspect.signature(cls).parameters)
    except (TypeError, ValueError):  # a class without a readable signature
        return []


def parse_learner(spec: str) -> Learner:
    """Read the name of a learner.

    Parameters
    ----------
    spec : str
        ``CNetBD``, ``CNetBD(ess=1.0)`` or ``package.module:Class(argument=1)``. Arguments are
        literals; nothing is executed.

    Returns
    -------
    Learner

    Raises
    ------
    BenchError
        If it is not of that form. Whether the class exists is found out by
        `Learner.find_class`.

    Examples
    --------
    >>> from bayescut.bench import parse_learner
    >>> parse_learner("sklearn.mixture:BayesianGaussianMixture( n_components = 3 )").title
    'BayesianGaussianMixture(n_components=3)'
    """
    return Learner(_parse_call(spec).spec)


def split_specs(text: str) -> list[str]:
    """Split at the commas that are not inside brackets or quotes.

    Examples
    --------
    >>> from bayescut.bench._specs import split_specs
    >>> split_specs("CNetBD(ess=1, n_candidates=5), CNetBIC")
    ['CNetBD(ess=1, n_candidates=5)', 'CNetBIC']
    """
    parts, depth, quote, start = [], 0, "", 0
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def dataset_names(names: Iterable[str]) -> list[str]:
    """Return the canonical names of data sets, each once, in the order given.

    Parameters
    ----------
    names : iterable of str
        Benchmark sets under any customary name, ``"binary_digits"``, ``"binarized_mnist"``,
        ``"debd"`` for all twenty benchmark sets, or ``package.module:function`` for a function
        that returns a `bayescut.datasets.Dataset`.

    Examples
    --------
    >>> from bayescut.bench import dataset_names
    >>> dataset_names(["Netflix", "dna", "bnetflix"])
    ['bnetflix', 'dna']
    """
    found: list[str] = []
    for name in names:
        if name.casefold() == "debd":
            found += DEBD_NAMES
        else:
            found.append(_dataset_name(name))
    return list(dict.fromkeys(found))


def _dataset_name(name: str) -> str:
    plain = name.casefold().replace("-", "_")
    if plain in (DIGITS_NAME, "digits"):
        return DIGITS_NAME
    if plain in (MNIST_NAME, "binary_mnist", "mnist"):
        return MNIST_NAME
    if ":" in name:
        return _parse_call(name).spec
    try:
        return resolve_debd_name(name)
    except ValueError as error:
        others = f"Others: {DIGITS_NAME}, {MNIST_NAME}, debd (all twenty), package.module:function."
        raise BenchError(f"{error} {others}") from error


def load_dataset(name: str, *, download: bool = True, verbose: int = 0) -> Dataset:
    """Load a data set by its canonical name.

    Parameters
    ----------
    name : str
        As `dataset_names` returns them.
    download : bool, default=True
        Whether it may be downloaded.
    verbose : int, default=0
        Above 0, show the progress of a download.
    """
    if name == DIGITS_NAME:
        return load_binary_digits()
    if name == MNIST_NAME:
        return fetch_binary_mnist(download=download, verbose=verbose)
    if ":" in name:
        call = _parse_call(name)
        found = call.find()(*call.args, **dict(call.kwargs))
        for split in ("train", "valid", "test"):
            if not hasattr(found, split):
                raise BenchError(f"{name} returned no data set: it has no part {split!r}.")
        return found
    return fetch_debd(name, download=download, verbose=verbose)
