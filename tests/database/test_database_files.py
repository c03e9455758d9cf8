"""Opening files: where, with what permissions, and what is said of those that can't be used."""

from __future__ import annotations

import importlib
import os
import random
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.examples import (
    DEVICE,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from tilewright.core import DatabaseError, UsageError
from tilewright.database import Database

NOBODY = 65534


def fill(path: Path, trials: int = 20) -> str:
    """A closed database with one run; returns the run's id."""
    with Database.open(path) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, trials, {})
        db.add_trials(run_id, [example_record(i) for i in range(trials)])
    return run_id


def read_all(path: Path | str, **options: bool) -> None:
    with Database.open(path, **options) as db:
        for run in db.runs():
            db.trials(run.id)
        db.kernels()


def refused(path: Path | str, **options: bool) -> DatabaseError:
    """The error on opening a file and reading it, which must be one clear line."""
    with pytest.raises(DatabaseError) as caught:
        read_all(path, **options)
    return one_line(caught.value)


def one_line(error: DatabaseError) -> DatabaseError:
    """Checks that an error has a cause and a mend, and prints no trace of other libraries."""
    printed = "".join(traceback.format_exception(error)).splitlines()[-1]
    assert "\n" not in str(error)
    assert error.hint
    assert "sqlalche.me" not in printed
    assert "sqlite3." not in printed
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return error


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions bind: root is not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        importlib.invalidate_caches()  # folders of modules that this user may not list are not empty for root


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an unprivileged user owns and reaches."""
    path = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(path, NOBODY, -1)
    yield path
    for p in (path, *path.rglob("*")):
        p.chmod(0o700)
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


def test_a_new_file_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "tuned.db"
    with Database.open(path) as db:
        db.add_run(example_task(), DEVICE, "random", 0, 1, {})
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "one").rglob("*")}
    assert modes == {"two": 0o700, "tuned.db": 0o600, "tuned.db-wal": 0o600, "tuned.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["tuned.db"]  # closing leaves one file


@pytest.mark.parametrize("name", ["plain.db", "a b%20c?d#e'f.db", "ünï.db", ":memory:", "-x"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    run_id = fill(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    with Database.open(tmp_path / name, readonly=True) as db:
        assert db.run("last").id == run_id


def test_relative_and_home_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Database.open("tuned.db") as relative, Database.open("~/tuned.db") as home:
        monkeypatch.chdir("/")
        relative.add_miss("matmul", {}, "")
        assert relative.path == tmp_path / "tuned.db"
        assert home.path == tmp_path / "home" / "tuned.db"
    with Database.open(f"sqlite:///{tmp_path}/tuned.db") as by_url:
        assert len(by_url.misses()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mysql://me:secret@host/db?password=secret", "cannot use the database mysql"),
        ("postgresql+asyncpg://me:secret@host/db", "cannot use the driver asyncpg"),
        ("postgresql://me:@secret@host/db", "more than one @"),
        ("nonsense://", "cannot use the database nonsense"),
        ("sqlite://", "cannot use the database sqlite"),
        ("://", "cannot read the database URL"),
        ("", "cannot use ''"),
        ("a\0b", "as a database file"),
    ],
)
def test_other_urls_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Database.open(text)
    assert "secret" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none" / "tuned.db"
    assert "there is no database at" in str(refused(path, create=False))
    assert "there is no database at" in str(refused(path, readonly=True))
    assert not path.parent.exists()


def test_a_folder_or_device_instead_of_a_file(tmp_path: Path) -> None:
    assert "is a folder" in str(refused(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    assert "is not a regular file" in str(refused(tmp_path / "fifo"))
    assert "is not a regular file" in str(refused("/dev/null"))
    (tmp_path / "file").write_text("")
    assert "not a folder" in str(refused(tmp_path / "file" / "tuned.db"))


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    path.touch()
    assert "is empty" in str(refused(path, readonly=True))
    assert fill(path)


def test_a_file_of_random_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    noise = random.Random(0).randbytes(100_000)
    path.write_bytes(noise)
    assert "is not a database" in str(refused(path))
    assert "is not a database" in str(refused(path, readonly=True))
    assert path.read_bytes() == noise


@pytest.mark.parametrize("kept", [1, 100, 5_000, 20_000, -20_000])
def test_a_truncated_file(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "tuned.db"
    fill(path, trials=200)
    data = path.read_bytes()[:kept]
    path.write_bytes(data)
    error = str(refused(path))
    assert "is damaged" in error or "is not a database" in error
    assert path.read_bytes() == data


def test_flipped_bytes_never_surface_as_another_error(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    fill(path, trials=50)
    good = path.read_bytes()
    noise = random.Random(1)
    seen = set()
    for _ in range(60):
        data = bytearray(good)
        start = noise.randrange(len(data) - 600)
        data[start : start + 600] = noise.randbytes(600)
        path.write_bytes(data)
        path.with_name("tuned.db-wal").unlink(missing_ok=True)
        path.with_name("tuned.db-shm").unlink(missing_ok=True)
        try:
            read_all(path)
            with Database.open(path) as db:
                db.add_miss("matmul", {}, "")
        except DatabaseError as e:
            seen.add(one_line(e).message.removeprefix(f"{path} ").split(":")[0])
    assert "is damaged" in seen


def test_nonsense_in_a_row_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    fill(path)
    for table, column in (
        ("trial", "schedule"),
        ("workload", "params"),
        ("target", "data"),
        ("run", "summary"),
    ):
        copy = tmp_path / f"{table}.db"
        shutil.copy(path, copy)
        edit = sqlite3.connect(copy)
        edit.execute(f"UPDATE {table} SET {column} = '[1, oops'")
        edit.commit()
        edit.close()
        which = {"trial": r"the row \d+", "run": r"the row \d{6}-\d{6}-\w+"}.get(table, r"(a row|the row [0-9a-f]{64})")
        assert re.search(f"{which} of its table {table} is invalid", str(refused(copy)))


def test_altered_code_is_not_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    task, code = example_task(), example_artifact(b"code")
    with Database.open(path) as db:
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, code)], [code])
    edit = sqlite3.connect(path)
    edit.execute("UPDATE artifact SET data = x'00'")
    edit.commit()
    edit.close()
    with Database.open(path) as db, pytest.raises(DatabaseError, match="was altered"):
        db.artifact(code.sha256)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE alembic_version (version_num TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    assert "but not Tilewright's" in str(refused(path))
    assert path.read_bytes() == before


def test_a_read_only_file(folder: Path) -> None:
    path = folder / "tuned.db"
    with unprivileged():
        run_id = fill(path)
        path.chmod(0o400)
        assert "is read-only" in str(refused(path))
        with Database.open(path, readonly=True) as db:
            assert db.run("last").id == run_id
            with pytest.raises(DatabaseError, match="for reading only"):
                db.add_miss("matmul", {}, "")
            with pytest.raises(DatabaseError, match="for reading only"):
                db.vacuum()
        path.chmod(0o000)
        assert "cannot be read" in str(refused(path))
        assert "cannot be read" in str(refused(path, readonly=True))


def test_a_read_only_folder(folder: Path) -> None:
    path = folder / "tuned.db"
    with unprivileged():
        run_id = fill(path)
        folder.chmod(0o500)
        assert "is in a read-only folder" in str(refused(path))
        with Database.open(path, readonly=True) as db:
            assert db.run("last").id == run_id
            assert len(db.trials(run_id)) == 20
        assert "may not be accessed" in str(refused(folder / "new.db"))
        assert "may not be accessed" in str(refused(folder / "new" / "new.db"))
        folder.chmod(0o000)
        one_line(refused(path, create=False))


def test_a_reader_sees_what_an_open_writer_stored(folder: Path) -> None:
    path = folder / "tuned.db"
    with unprivileged(), Database.open(path) as writer:
        run_id = writer.add_run(example_task(), DEVICE, "random", 0, 1, {})
        folder.chmod(0o500)
        with Database.open(path, readonly=True) as reader:
            assert reader.run("last").id == run_id
            writer.add_trials(run_id, [example_record(0)])
            assert reader.run("last").trials == 1
        folder.chmod(0o700)


TESTS = Path(__file__).parents[1]  # where the script finds what tests share
FULL = """
import resource, sys
from tilewright.core import DatabaseError
from tilewright.database import Database
from harness.examples import *

with Database.open(sys.argv[1]) as db:
    run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    try:
        for i in range(0, 100_000, 16):
            db.add_trials(run_id, [example_record(n) for n in range(i, i + 16)])
            print(i, flush=True)
    except DatabaseError as e:
        print(e.message, file=sys.stderr)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    db.add_miss("still", {}, "usable")
"""


def test_a_full_disk_loses_the_batch_in_flight_only(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], cwd=TESTS, capture_output=True, text=True, timeout=60, check=True
    )
    said = done.stderr.splitlines()
    assert len(said) == 1, done.stderr
    assert said[0].startswith(str(path))
    stored = [int(line) for line in done.stdout.splitlines()]
    assert stored
    with Database.open(path) as db:
        assert [r.number for r in db.trials(db.run("last").id)] == list(range(stored[-1] + 16))
        assert db.misses()[0].op == "still"
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def test_no_room_for_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    script = FULL.replace("with Database", "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\nwith Database")
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], cwd=TESTS, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "DatabaseError: " in done.stderr.splitlines()[-1]
    with Database.open(path) as db:  # what was left is no obstacle later
        assert db.runs() == []


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == resource.RLIM_INFINITY, reason="no limit")
def test_no_file_descriptor_left(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    fill(path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(DatabaseError) as caught:
            Database.open(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert one_line(caught.value)


def test_vacuum_gives_room_back(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    task, big, small = example_task(), example_artifact(os.urandom(300_000)), example_artifact(b"small")
    with Database.open(path) as db:
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, big)], [big])
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, small)], [small])
        before = db.stats().bytes
        assert db.vacuum() > 300_000
        assert db.stats().bytes < before - 300_000
        assert db.artifact(small.sha256) == small
