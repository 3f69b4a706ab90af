"""Files of results: one line for each record, safe against being killed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from bayescut._atomic import sync_folder
from bayescut.bench._specs import BenchError

__all__ = ["Form", "Key", "Result", "Results", "Store", "read", "read_results"]

#: What identifies a cell: learner, data set, seed (None: no randomness), protocol.
Key = tuple[str, str, int | None, str]

FORMAT = 1
STATUSES = ("ok", "failed", "timeout", "unavailable")


@dataclass(frozen=True)
class Result:
    """The outcome of one cell: a learner on a data set with a seed.

    Parameters
    ----------
    learner, dataset : str
        Canonical names.
    seed : int or None
        The ``random_state``; None for learners without randomness.
    protocol : str
        ``"train+valid"``: learned from both, stacked; or ``"train"``.
    status : str
        ``"ok"``, ``"failed"``, ``"timeout"``, or ``"unavailable"`` if the data set could not be
        had.
    test_log_likelihood : float or None
        Mean over the test rows, natural logarithm.
    test_standard_error : float or None
        Its standard error.
    valid_log_likelihood : float or None
        Mean over the validation rows, where they were not learned from.
    fit_seconds, score_seconds : float or None
        Wall time of learning (kernels compiled before), and of scoring the test rows.
    n_parameters : int or None
        Circuit size.
    peak_memory_bytes : int or None
        Of the whole process, interpreter and data included.
    base_memory_bytes : int or None
        The same just before learning began; the difference is what learning needed.
    n_rows, n_test_rows, n_columns : int or None
        Shape of the tables.
    warmed_up : bool
        Whether the kernels were compiled on a small table first.
    time_limit : float or None
        Seconds after which the cell would have been stopped.
    error : str or None
        One line that says what went wrong.
    detail : str or None
        The end of what the failed process said.
    started : str or None
        When, in UTC.
    environment : mapping
        Versions, processor, commit.
    """

    learner: str
    dataset: str
    seed: int | None
    protocol: str
    status: str
    test_log_likelihood: float | None = None
    test_standard_error: float | None = None
    valid_log_likelihood: float | None = None
    fit_seconds: float | None = None
    score_seconds: float | None = None
    n_parameters: int | None = None
    peak_memory_bytes: int | None = None
    base_memory_bytes: int | None = None
    n_rows: int | None = None
    n_test_rows: int | None = None
    n_columns: int | None = None
    warmed_up: bool = False
    time_limit: float | None = None
    error: str | None = None
    detail: str | None = None
    started: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """What identifies the cell."""
        return self.learner, self.dataset, self.seed, self.protocol

    def to_json(self) -> str:
        """Return one line of JSON; numbers that are not finite become text."""
        values = {"format": FORMAT, **asdict(self)}
        return json.dumps({name: _plain(value) for name, value in values.items()}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what `to_json` wrote; ValueError if it is anything else."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        version = values.pop("format", None)
        if version != FORMAT:
            raise ValueError(f"format {version!r} instead of {FORMAT}")
        known = {part.name: part.type for part in fields(cls)}
        # Unknown fields come from newer versions that only added to the format.
        kept = {name: value for name, value in values.items() if name in known}
        for name, value in kept.items():
            if isinstance(value, str) and "float" in str(known[name]):
                kept[name] = float(value)
        try:
            result = cls(**kept)
        except TypeError as error:
            raise ValueError(str(error)) from error
        if result.status not in STATUSES:
            raise ValueError(f"status {result.status!r}")
        return result


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# ---------------------------------------------------------------------------- what a line says

T = TypeVar("T")


class Form(Protocol[T]):
    """How records are written as lines."""

    def head(self) -> str | None:
        """Return the first line of a new file, None if it has none."""

    def decode(self, line: str) -> T | None:
        """Return the record of a line, None if it holds none; ValueError if it is damaged."""

    def encode(self, record: T) -> str:
        """Return the line of a record, without its end."""

    def key(self, record: T) -> Hashable:
        """Return what identifies a record: of records with equal keys the last one counts."""


class Results:
    """Results of cells, as JSON."""

    def head(self) -> None:
        """A file of JSON lines has no first line of its own."""

    def decode(self, line: str) -> Result:
        """Return the result of a line."""
        return Result.from_json(line)

    def encode(self, record: Result) -> str:
        """Return the line of a result."""
        return record.to_json()

    def key(self, record: Result) -> Key:
        """Return the cell of a result."""
        return record.key


# ---------------------------------------------------------------------------- files of lines


def _parse(content: bytes, path: Path, form: Form[T]) -> tuple[list[T], int]:
    """Return the records in a file's bytes and how many of the bytes are whole lines."""
    records: list[T] = []
    end = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if line.strip():
            try:
                record = form.decode(line.decode("utf-8"))
            except ValueError as error:
                if not line.endswith(b"\n"):  # the writer was stopped in the middle of it
                    return records, end
                raise BenchError(
                    f"Line {number} of {path} is not a result ({error}): delete the line, or "
                    "name another file."
                ) from error
            if record is not None:
                records.append(record)
        end += len(line)
    return records, end


def read(path: str | os.PathLike[str], form: Form[T]) -> dict[Any, T]:
    """Read a file of records; a last line that was cut off is left out.

    Returns
    -------
    dict from key to record
        The last record of each key, in the order of first appearance.
    """
    place = Path(path)
    return {form.key(record): record for record in _parse(place.read_bytes(), place, form)[0]}


def read_results(path: str | os.PathLike[str]) -> list[Result]:
    """Read a results file; a last line that was cut off is left out.

    Parameters
    ----------
    path : path-like
        A file that `run` wrote.

    Returns
    -------
    list of Result
        The latest result of each cell.

    Raises
    ------
    BenchError
        If a line is not a result.
    FileNotFoundError
        If there is no such file.
    """
    return list(read(path, Results()).values())


class Store(Generic[T]):
    """A file of records open for appending, by one process at a time.

    A line is on the disk when `append` returns. On opening, a last line that was cut off by a kill
    or a crash is removed.

    Parameters
    ----------
    path : path-like
        Created, with its folder, if it is not there.
    form : Form
        How records are written, such as `Results`.

    Attributes
    ----------
    records : dict from key to record
        The last record of each key.
    """

    def __init__(self, path: str | os.PathLike[str], form: Form[T]) -> None:
        self.path = Path(path)
        self.form = form
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        try:
            _lock(self._descriptor, self.path)
            content = self.path.read_bytes()
            # A file keeps its line ends, so that a difference to the old one shows what is new.
            first = content.partition(b"\n")[0]
            self._line_end = b"\r\n" if first.endswith(b"\r") else b"\n"
            found, end = _parse(content, self.path, form)
            if end < len(content):
                os.ftruncate(self._descriptor, end)
            elif content and not content.endswith(b"\n"):
                os.write(self._descriptor, self._line_end)
            if end == 0 and (head := form.head()) is not None:
                self._write(head)
        except BaseException:
            os.close(self._descriptor)
            raise
        self.records: dict[Any, T] = {form.key(record): record for record in found}
        if is_new:
            sync_folder(self.path.parent)

    def append(self, record: T) -> None:
        """Write a record and wait until it is on the disk."""
        self._write(self.form.encode(record))
        self.records[self.form.key(record)] = record

    def missing(self, keys: Iterable[Any], *, force: bool = False) -> list[Any]:
        """Return the keys that have no record yet, all of them if forced."""
        return [key for key in keys if force or key not in self.records]

    def _write(self, line: str) -> None:
        data = line.encode("utf-8") + self._line_end
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let others write."""
        os.close(self._descriptor)

    def __enter__(self) -> Store[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows: two runs on one file are not noticed
        return
    try:
        # Held by the open file: it ends with the process, however that ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BenchError(
            f"Another run is writing to {path}: wait for it, or name another file."
        ) from error
