"""Ctrl-C ends work at once, quietly, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import bayescut as bc
from bayescut._interrupts import interruptible
from bayescut._kernels import kernel

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals as on Unix")


@pytest.fixture(autouse=True, scope="module")
def interruptible_tests():
    """A shell that starts tests in the background has them ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pair(NamedTuple):
    """A result that numba makes by calling Python."""

    count: int
    total: float


@kernel
def work(n):
    total = 0.0
    for i in range(n):
        total += np.sin(float(i))
    return Pair(n, total)


def interrupted(call: Callable[[], Any]) -> type[BaseException]:
    """Press Ctrl-C while the call is in its kernel, and return what it ends in."""
    work(1)
    begin = time.perf_counter()
    work(10**6)
    n = int(10**6 * 0.5 / (time.perf_counter() - begin))  # half a second
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        call(n)
    except BaseException as error:
        return type(error)
    finally:
        timer.join()
    return type(None)


def test_a_kernel_that_returns_is_interrupted() -> None:
    # Bare, this is a SystemError or a crash.
    for _ in range(5):
        assert interrupted(interruptible(work)) is KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fit_and_queries_end_in_a_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).integers(0, 2, (50, 4))
    model = bc.CNetBD().fit(X)
    before = model.circuit_

    def learn(n: int) -> None:
        monkeypatch.setattr(bc.CNetBD, "_learn", lambda *arguments: work(n))
        model.fit(X)

    assert interrupted(learn) is KeyboardInterrupt
    assert model.circuit_ is before

    def ask(n: int) -> None:
        monkeypatch.setattr(bc.CNetBD, "_encode_table", lambda *arguments: work(n))
        model.score_samples(X)

    assert interrupted(ask) is KeyboardInterrupt


def test_an_interrupt_that_is_lost_comes_again() -> None:
    def lose() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass

    def go_on() -> None:
        lose()
        for _ in range(1000):
            time.sleep(0.01)
        raise AssertionError("ten seconds, and no interrupt")

    with pytest.raises(KeyboardInterrupt):
        interruptible(go_on)()
    with pytest.raises(KeyboardInterrupt):  # at the end at the latest
        interruptible(lose)()


def test_where_nobody_listens_it_waits() -> None:
    heard = []

    def _raw_object_cache_notify() -> None:  # as LLVM's callback is called
        signal.raise_signal(signal.SIGINT)
        heard.append("to the end")

    with pytest.raises(KeyboardInterrupt):
        interruptible(_raw_object_cache_notify)()
    assert heard == ["to the end"]


def test_cleaning_up_is_left_alone() -> None:
    cleaned = []

    def clean_up() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            time.sleep(0.6)  # three deliveries later
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        interruptible(clean_up)()
    assert cleaned == [True]
    time.sleep(0.3)  # nothing comes afterwards


def test_who_handles_interrupts_goes_on_to() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        interruptible(lambda: signal.raise_signal(signal.SIGINT))()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
    found = []
    thread = threading.Thread(target=lambda: found.append(interruptible(lambda: 7)()))
    thread.start()
    thread.join()
    assert found == [7]


PROGRAM = """
import sys
from bayescut.cli import main
print("ready", flush=True)
sys.exit(main())  # as the program does
"""


def stop_after(seconds: float, arguments: list[str], folder: Path) -> tuple[int, str]:
    """Return exit code and standard error of a command that was interrupted."""
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    # Kernels may be in the cache or not, and old versions of Matplotlib speak of their styles.
    said = [
        line
        for line in err.splitlines()
        if "compiling kernels" not in line and ".mplstyle: " not in line
    ]
    return process.returncode, "\n".join(said)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("typer")
    pd = pytest.importorskip("pandas")
    folder = tmp_path_factory.mktemp("interrupts")
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 40)) < 0.5).astype(int)
    X[:, 1:] ^= X[:, :-1] & (rng.random((4000, 39)) < 0.8)
    head = ",".join(f"x{j}" for j in range(40)) + "\n"
    lines = ["".join(f"{value}," for value in row)[:-1] + "\n" for row in X.tolist()]
    (folder / "t.csv").write_text(head + "".join(lines), encoding="utf-8")
    gaps = [line.replace("1,", ",", 9) for line in lines]
    (folder / "gaps.csv").write_text(head + "".join(gaps * 20), encoding="utf-8")
    frame = pd.DataFrame(X[:500], columns=[f"x{j}" for j in range(40)])
    model = bc.CutsetMixture(n_components=20, max_iter=0, random_state=0).fit(frame)
    bc.save(model, folder / "m.bc")
    return folder


# Delays from the first imports to the middle of the work; what is running then differs from
# machine to machine, and has to end in the same way everywhere.
@pytest.mark.parametrize("seconds", [0.05, 0.6, 2.5, 4.0])
@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "t.csv", "-o", "new.bc", "-l", "CutsetEnsemble(time_budget=300)"],
        ["fit", "t.csv", "-o", "new.bc", "-l", "CutsetMixture(n_components=200, max_iter=1000000)"],
        ["impute", "m.bc", "gaps.csv", "-o", "gaps.csv", "--method", "sample"],
    ],
    ids=["ensemble", "mixture", "impute"],
)
def test_commands_stop_quietly(tables: Path, arguments: list[str], seconds: float) -> None:
    stops_quietly(tables, arguments, seconds)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "gaps.csv"],
        ["score", "m.bc", "gaps.csv"],
        ["sample", "m.bc", "-n", "300000", "-o", "new.csv"],
        ["query", "m.bc", "P(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 | x20=1)"],
        ["predict", "m.bc", "gaps.csv", "--target", "x3", "-o", "new.csv"],
        ["anomalies", "m.bc", "gaps.csv"],
        ["report", "t.csv", "gaps.csv"],
        ["show", "m.bc", "--draw", "new.png"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_stops_quietly(tables: Path, arguments: list[str]) -> None:
    stops_quietly(tables, arguments, 1.5)


@pytest.mark.parametrize("seconds", [0.05, 0.1, 0.3, 0.6])
def test_imports_stop_quietly(tables: Path, seconds: float) -> None:
    stops_quietly(tables, ["check", "gaps.csv"], seconds)


def stops_quietly(tables: Path, arguments: list[str], seconds: float) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in tables.iterdir()}
    code, err = stop_after(seconds, arguments, tables)
    if code == 0:  # it was done before
        assert err.strip() == ""
        for name in ("new.csv", "new.png"):
            (tables / name).unlink(missing_ok=True)
        return
    assert err.strip() == "bayescut: stopped"
    assert code == 130
    after = {path.name: path.stat().st_mtime_ns for path in tables.iterdir()}
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if changed:  # it was stopped behind its last step: what it has written is whole
        assert changed == {arguments[arguments.index("-o") + 1]}
        (written,) = changed
        lines = (tables / written).read_text(encoding="utf-8").splitlines()
        n_rows = len((tables / "gaps.csv").read_text(encoding="utf-8").splitlines())
        assert arguments[0] == "sample" or len(lines) == n_rows == 80_001
        if written != "gaps.csv":
            (tables / written).unlink()
