"""The artifact cache: several writers, killed writers, damage, bounds, refusals."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from harness.waiting import until
from tilewright.backends import cache as cache_module
from tilewright.backends.cache import ArtifactCache
from tilewright.core import TilewrightError
from tilewright.files import locked


def data_of(n: int, size: int = 1000) -> bytes:
    return (f"{n}:".encode() * size)[:size]


def test_put_then_get(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c")
    assert c.get("k") is None
    path = c.put("k", b"library")
    assert c.get("k") == path
    assert Path(path).read_bytes() == b"library"
    assert Path(path).stem == sha256(b"library").hexdigest()
    assert ArtifactCache(tmp_path / "c").get("k") == path
    assert c.put("other", b"library") == path  # same content, one file
    assert (c.stats().entries, c.stats().bytes) == (1, 7)
    newer = c.put("k", b"newer")
    assert c.get("k") == newer != path
    assert Path(path).exists()


def test_keys_are_no_paths(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c")
    path = c.put("../../escape", b"x")
    assert Path(path).is_relative_to(tmp_path / "c")
    assert c.get("../../escape") == path
    assert {p.name for p in tmp_path.iterdir()} == {"c"}


def test_folders_are_private(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c")
    c.put("k", b"x")
    folders = [tmp_path / "c", *(p for p in (tmp_path / "c").rglob("*") if p.is_dir())]
    assert {p.stat().st_mode & 0o777 for p in folders} == {0o700}
    (tmp_path / "c" / "v1").chmod(0o777)
    ArtifactCache(tmp_path / "c")
    assert (tmp_path / "c" / "v1").stat().st_mode & 0o777 == 0o700


def test_environment_names_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "named"))
    assert ArtifactCache().root == tmp_path / "named"
    monkeypatch.delenv("TILEWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert ArtifactCache().root == tmp_path / "xdg" / "tilewright"


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "gone", "garbage key", "binary key"])
def test_damage_reads_as_absent_and_is_mended(tmp_path: Path, damage: str) -> None:
    c = ArtifactCache(tmp_path / "c")
    path = Path(c.put("k", data_of(1)))
    c.put("other", data_of(2))
    (entry,) = [p for p in (tmp_path / "c/v1/keys").rglob("*") if p.is_file() and p.read_text() == path.stem]
    if damage == "flip":
        raw = bytearray(path.read_bytes())
        raw[500] ^= 1
        path.write_bytes(raw)
    elif damage == "truncate":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "gone":
        path.unlink()
    else:
        entry.write_bytes(b"../../../etc/passwd" if damage == "garbage key" else bytes(range(256)))
    assert c.get("k") is None
    assert c.get("k") is None
    again = c.put("k", data_of(1))
    assert c.get("k") == again
    assert Path(again).read_bytes() == data_of(1)
    assert c.get("other") is not None


def test_damage_found_by_put(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c")
    path = Path(c.put("k", data_of(1)))
    path.write_bytes(b"damaged")
    assert c.put("k", data_of(1)) == str(path)
    assert path.read_bytes() == data_of(1)


def _age(path: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c", limit_bytes=5000)
    paths = [c.put(str(n), data_of(n)) for n in range(5)]
    for n, p in enumerate(paths):
        _age(p, 10000 - n)
    c.get("0")  # now the most recent
    assert c.gc(3000) == 2000
    assert [c.get(str(n)) is not None for n in range(5)] == [True, False, False, True, True]
    assert c.stats().bytes == 3000
    assert c.gc(0) == 0  # all just used
    assert c.gc(0, grace=0) == 3000
    assert c.stats().entries == 0
    assert c.put("1", data_of(1))


def held(root: Path) -> int:
    """Bytes of a cache's data and of what is being written, in this order: what is renamed meanwhile counts once."""
    total = 0
    for kind in ("blobs", "tmp"):
        for path in (root / "v1" / kind).rglob("*"):
            with contextlib.suppress(OSError):
                total += path.stat().st_size if path.is_file() else 0
    return total


def test_the_bound_holds_after_each_put_and_the_latest_stay(tmp_path: Path) -> None:
    for run in range(3):  # short runs add up to it too
        c = ArtifactCache(tmp_path / "c", limit_bytes=10_000)
        paths = []
        for n in range(20):
            paths.append(c.put(f"{run} {n}", data_of(100 * run + n)))
            _age(paths[-1], 10_000 - 20 * run - n)
            assert held(tmp_path / "c") <= 10_000
        kept = [n for n, path in enumerate(paths) if Path(path).exists()]
        assert len(kept) >= 9
        assert kept == list(range(20 - len(kept), 20))
    assert c.put("larger than all", data_of(1, 20_000)) == c.get("larger than all")
    assert c.stats().entries == 1
    c.put("small", b"small")
    assert c.stats().bytes == 5


def test_the_bound_holds_among_many_writers_at_every_moment(tmp_path: Path) -> None:
    limit, size = 50_000, 5000

    def write(worker: int) -> int:
        c = ArtifactCache(tmp_path / "c", limit_bytes=limit)
        most = 0
        for n in range(15):
            c.put(f"{worker} {n}", data_of(1000 * worker + n, size))
            most = max(most, held(tmp_path / "c"))
        return most

    with ThreadPoolExecutor(4) as pool:
        # Between two looks of one sum another writer may have dropped an object and begun a new one.
        assert max(pool.map(write, range(4))) <= limit + size
    assert held(tmp_path / "c") > limit - 2 * size


@pytest.mark.parametrize("text", ["", "x", "1", "-1 y", "0 1e9", "0 1e300", "nan nan"])
def test_a_size_that_cannot_be_read_or_is_old_is_counted_anew(tmp_path: Path, text: str) -> None:
    c = ArtifactCache(tmp_path / "c", limit_bytes=3000)
    for n in range(3):
        c.put(str(n), data_of(n))
    (tmp_path / "c/v1/size").write_text(text)
    c.put("more", data_of(9))
    assert held(tmp_path / "c") <= 3000
    assert c.get("more") is not None


def test_what_a_killed_writer_left_counts_until_it_is_dropped(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c", limit_bytes=3000)
    left = tmp_path / "c/v1/tmp/left"
    left.write_bytes(bytes(1500))
    for n in range(3):
        c.put(str(n), data_of(n))
        assert held(tmp_path / "c") <= 3000
    _age(str(left), 1000)
    c.put("more", data_of(3))
    assert not left.exists()


def test_a_stopped_writer_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "PATIENCE", 0.01)
    c = ArtifactCache(tmp_path / "c")
    with locked(tmp_path / "c/v1/blobs"):
        assert c.put("k", b"x") == c.get("k")


def test_collection_sweeps_what_killed_writers_left(tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path / "c")
    path = c.put("k", b"x")
    old, new = tmp_path / "c/v1/tmp/old", tmp_path / "c/v1/tmp/new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    _age(str(old), 10_000)
    _age(path, 10_000)
    for entry in (tmp_path / "c/v1/keys").rglob("*"):
        _age(str(entry), 10_000)
    c.gc(0)
    assert not old.exists()
    assert new.exists()
    assert not [p for p in (tmp_path / "c/v1/keys").rglob("*") if p.is_file()]


WRITER = """
import sys
from tilewright.backends.cache import ArtifactCache
cache, start, size = ArtifactCache(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for round in range(int(sys.argv[4])):
    for n in range(start, start + 8):
        cache.put(str(n), (f"{n}:".encode() * size)[:size])
        cache.get(str(n))
"""


def _writer(root: Path, start: int, size: int, rounds: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(root), str(start), str(size), str(rounds)]
    p = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    assert p.stdout.readline() == "ready\n"
    return p


def test_several_processes_write_the_same_keys(tmp_path: Path) -> None:
    writers = [_writer(tmp_path / "c", start, 5000, 20) for start in (0, 0, 4)]
    c = ArtifactCache(tmp_path / "c")
    while any(w.poll() is None for w in writers):
        for n in range(12):
            path = c.get(str(n))
            assert path is None or Path(path).read_bytes() == data_of(n, 5000)
        c.gc(0, grace=0)
    for w in writers:
        with w:
            assert w.wait() == 0


def test_killed_writers_leave_no_half_entries(tmp_path: Path) -> None:
    size = 2 << 20
    for n in range(4):
        with _writer(tmp_path / "c", 0, size, 1000) as w:
            time.sleep(0.003 + 0.007 * n)
            w.send_signal(signal.SIGKILL)
        assert w.returncode == -signal.SIGKILL
        for blob in (tmp_path / "c/v1/blobs").rglob("*.so"):
            assert sha256(blob.read_bytes()).hexdigest() == blob.stem
        c = ArtifactCache(tmp_path / "c")
        for k in range(8):
            path = c.get(str(k))
            assert path is None or Path(path).read_bytes() == data_of(k, size)
        assert Path(c.put("0", data_of(0, size))).read_bytes() == data_of(0, size)


def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ArtifactCache(tmp_path / "c")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(TilewrightError, match="belongs to another user") as e:
        ArtifactCache(tmp_path / "c")
    assert "TILEWRIGHT_CACHE" in e.value.hint


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c = ArtifactCache(tmp_path / "c")
    real = os.replace

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TilewrightError, match="No space left on device") as e:
        c.put("k", b"x")
    assert "cache gc" in e.value.hint
    assert not list((tmp_path / "c/v1/tmp").iterdir())
    monkeypatch.setattr(os, "replace", real)
    assert c.put("k", b"x") == c.get("k")


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    with pytest.raises(TilewrightError, match="cannot be used"):
        ArtifactCache(tmp_path / "c")
    with pytest.raises(TilewrightError, match="cannot be used"):
        ArtifactCache(tmp_path / "c" / "below")


def test_what_every_kernel_needs_is_made_by_one_and_awaited_by_the_others(tmp_path: Path) -> None:
    made: list[int] = []
    asked: list[int] = []

    def make() -> bytes:
        made.append(len(made))
        if len(made) == 1:
            raise TilewrightError("the first of them fails")
        until(lambda: len(asked) == 4)
        return b"support"

    def ask(n: int) -> str | None:
        asked.append(n)
        with contextlib.suppress(TilewrightError):
            return ArtifactCache(tmp_path / "c").made_once("k", make)
        return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(made) == 2
    path = ArtifactCache(tmp_path / "c").get("k")
    assert path is not None
    assert sorted(found, key=str) == sorted([path, path, path, None], key=str)
