"""One progress bar: with rich, without it, within another, and not at all."""

import sys

import pytest

from bayescut import _progress
from bayescut._progress import progress, screen


def work(**options):
    with progress("counting", 3, **options) as advance:
        advance(1)
        advance(1, "still counting")
        advance(description="done")
        advance(1)


def test_quiet_when_not_asked(capfd):
    work(verbose=0)
    assert capfd.readouterr() == ("", "")


def test_a_bar_on_standard_error(capfd):
    pytest.importorskip("rich")
    work()
    out, err = capfd.readouterr()
    assert out == "" and "done" in err and "100%" in err


def test_work_within_work_is_a_line_of_the_same_bar(capfd):
    pytest.importorskip("rich")
    assert screen() is None
    with progress("outer", 2) as outer:
        console = screen()
        outer(1)
        with progress("inner", None) as inner:
            inner(1)
            assert screen() is console
            [bar] = _progress._shown
            assert [task.description for task in bar.tasks] == ["outer", "inner"]
        assert [task.description for task in bar.tasks] == ["outer"]
        assert bar.tasks[0].completed == 1
    assert screen() is None
    assert "outer" in capfd.readouterr().err


def test_an_error_takes_the_bar_away():
    pytest.importorskip("rich")
    with pytest.raises(ZeroDivisionError), progress("counting", 1):
        _ = 1 / 0
    assert screen() is None


def test_without_rich_long_work_has_lines_and_short_work_none(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    work()
    assert capfd.readouterr() == ("", "")
    clock = iter(range(0, 100, 4))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    work()  # 4, 8, 12 and 16 seconds after the start
    assert capfd.readouterr() == ("", "still counting:  67%, 8 s\ndone: 100%, 16 s\n")
    with progress("searching", None) as advance:
        advance(1)
        advance(1)
    assert capfd.readouterr().err == "searching: 8 s\n"
