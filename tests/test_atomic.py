"""A file that is written is either complete or what it was before."""

import os
import stat
import sys

import pytest

from bayescut._atomic import write_bytes, write_text, writing


def test_nothing_is_seen_before_the_end(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    with writing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ValueError, OSError])
def test_an_error_leaves_the_old_file(tmp_path, problem):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    with pytest.raises(problem), writing(path) as stream:
        stream.write(b"half of the ne")
        raise problem
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table.csv"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "page.md"
    write_text(path, "ä\r\n")
    assert path.read_bytes() == "ä\r\n".encode()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_bytes(path, b"new")
    assert path.read_bytes() == "ä\r\n".encode()
    assert os.listdir(tmp_path) == ["page.md"]


def test_the_content_is_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    path = tmp_path / "model.bc"
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda f: (steps.append(stat.S_IFMT(os.fstat(f).st_mode)),
                                                fsync(f)))  # fmt: skip
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("name"), replace(*names)))
    write_bytes(path, b"x")
    assert steps == [stat.S_IFREG, "name", stat.S_IFDIR]


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_bytes(tmp_path / "nowhere" / "x", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="modes, links and pipes are POSIX")
def test_modes_links_and_pipes(tmp_path):
    path, link, pipe = tmp_path / "a", tmp_path / "link", tmp_path / "pipe"
    write_bytes(path, b"1")
    path.chmod(0o604)
    link.symlink_to(path)
    write_bytes(link, b"2")
    assert link.is_symlink() and path.read_bytes() == b"2"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_bytes(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError):
        write_bytes(tmp_path, b"3")
