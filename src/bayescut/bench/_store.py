"""Results files: one line of JSON for each finished cell, safe against being killed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from bayescut.bench._specs import BenchError

__all__ = ["Key", "Result", "ResultsFile", "latest", "read_results"]

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


def _parse(content: bytes, path: Path) -> tuple[list[Result], int]:
    """Return the results in a file's bytes and how many of the bytes are whole lines."""
    results: list[Result] = []
    end = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if line.strip():
            try:
                results.append(Result.from_json(line.decode("utf-8")))
            except ValueError as error:
                if not line.endswith(b"\n"):  # the writer was stopped in the middle of it
                    return results, end
                raise BenchError(
                    f"Line {number} of {path} is not a result ({error}): delete the line, or "
                    "name another file."
                ) from error
        end += len(line)
    return results, end


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
    place = Path(path)
    return latest(_parse(place.read_bytes(), place)[0])


def latest(results: Iterable[Result]) -> list[Result]:
    """Keep the last result of each cell, in the order of first appearance."""
    return list({result.key: result for result in results}.values())


class ResultsFile:
    """A results file open for appending, by one process at a time.

    A line is on the disk when `append` returns. On opening, a last line that was cut off by a kill
    or a crash is removed.

    Parameters
    ----------
    path : path-like
        Created, with its folder, if it is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(self.path, flags, 0o644)
        try:
            _lock(self._descriptor, self.path)
            content = self.path.read_bytes()
            found, end = _parse(content, self.path)
            if end < len(content):
                os.ftruncate(self._descriptor, end)
            elif content and not content.endswith(b"\n"):
                os.write(self._descriptor, b"\n")
        except BaseException:
            os.close(self._descriptor)
            raise
        self.results = {result.key: result for result in found}
        if is_new:
            _sync_folder(self.path.parent)

    def append(self, result: Result) -> None:
        """Write a result and wait until it is on the disk."""
        line = (result.to_json() + "\n").encode("utf-8")
        while line:
            line = line[os.write(self._descriptor, line) :]
        os.fsync(self._descriptor)
        self.results[result.key] = result

    def close(self) -> None:
        """Let others write."""
        os.close(self._descriptor)

    def __enter__(self) -> ResultsFile:
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


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file last."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # pragma: no cover - not possible on this platform
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
