"""Files replaced as a whole, and locks of folders."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tilewright.files import SHARED, locked, replace_file, replace_files, replacing


@pytest.fixture
def masked() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("masked")
@pytest.mark.parametrize(("mode", "wanted"), [(0o600, 0o600), (SHARED, 0o640)])
def test_a_replaced_file_has_the_mode_that_is_asked_for_less_the_umask(tmp_path: Path, mode: int, wanted: int) -> None:
    for text in (b"old", b"new"):
        replace_file(tmp_path / "f", text, mode)
        assert (tmp_path / "f").read_bytes() == text
        assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == wanted
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_an_error_while_a_file_is_written_leaves_the_old_one_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")

    def half() -> None:
        with replacing(tmp_path / "f") as draft:
            draft.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"f": "old"}


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "f")
    for text in (b"made", b"replaced"):
        replace_file(tmp_path / "link", text)
        assert (tmp_path / "real" / "f").read_bytes() == text
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_regular_file_is_written_itself(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    replace_file(tmp_path / "pipe", b"text")
    reader.join()
    assert read == [b"text"]
    assert (tmp_path / "pipe").is_fifo()


def test_of_several_files_none_is_replaced_unless_all_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_files(tmp_path, {"a": b"1", "b": b"2"})
    real = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if data == b"no room":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    for files in ({"a": b"3", "b": b"no room"}, {"a": b"no room", "b": b"3"}):
        with pytest.raises(OSError, match="No space left"):
            replace_files(tmp_path, files)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"1", "b": b"2"}


def test_many_writers_of_one_file_leave_one_of_their_texts(tmp_path: Path) -> None:
    texts = [bytes([65 + n]) * 5000 for n in range(8)]

    def write(text: bytes) -> None:
        for _ in range(20):
            replace_file(tmp_path / "f", text, sync=False)
            assert (tmp_path / "f").read_bytes() in texts

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def refused(descriptor: int, what: int, real: Any = fcntl.flock) -> None:
    """``flock`` as on NFS, which locks no folders."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    real(descriptor, what)


@pytest.mark.parametrize("folders", ["locked", "not locked"])
def test_one_at_a_time_holds_a_folders_lock(tmp_path: Path, folders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if folders == "not locked":
        monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / "count").write_text("0")

    def add(_: int) -> None:
        for _ in range(25):
            with locked(tmp_path):
                replace_file(tmp_path / "count", str(int((tmp_path / "count").read_text()) + 1).encode(), sync=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert (tmp_path / "count").read_text() == "100"
    assert [p.name for p in tmp_path.iterdir() if p.name == ".lock"] == [".lock"] * (folders == "not locked")


def test_a_lock_that_another_holds_for_too_long_is_an_error_in_words(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(TimeoutError, match=r"another process has held its lock for 0\.01 s"):
        locked(tmp_path, 0.01).__enter__()
    with locked(tmp_path, 0.0):
        pass


def test_a_child_that_was_forked_under_a_lock_does_not_keep_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
    with locked(tmp_path, 0.0):
        pass
    os.close(write)
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
