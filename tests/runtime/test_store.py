"""Database files that cannot be used, and code in them that is not what it says."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime_kernels import Maker, random

from tilewright.core import DatabaseError
from tilewright.database import Database, schema
from tilewright.runtime import Library, store
from tilewright.runtime.store import SCHEMAS

A = random(4, 4)


@pytest.fixture
def path(maker: Maker) -> Path:
    maker.matmul(4, 4, 4)
    return maker.path


def change(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        assert connection.execute(statement, values).rowcount != 0
    connection.close()


def test_reads_the_schema_that_the_database_writes() -> None:
    assert schema.SCHEMA in SCHEMAS


def test_a_newer_schema(path: Path) -> None:
    change(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseError, match=r"schema 9999, made by a newer version.*Upgrade Tilewright"):
        Library(path)


def test_an_older_schema(path: Path) -> None:
    change(path, "UPDATE alembic_version SET version_num = '0000'")
    with pytest.raises(DatabaseError, match="older schema 0000"):
        Library(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"this is no database, but it is long enough to be taken for one" * 20, "damaged or no database"),
        (b"SQLite format 3\x00" + bytes(4096), "damaged or no database"),
    ],
)
def test_files_that_are_no_database(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    for missing_ok in (False, True):
        with pytest.raises(DatabaseError, match=match):
            Library(path, missing_ok=missing_ok)


def test_a_file_that_another_process_is_about_to_fill(tmp_path: Path, path: Path) -> None:
    new = tmp_path / "new.db"
    new.touch()
    with pytest.raises(DatabaseError, match="is empty"):
        Library(new)
    library = Library(new, missing_ok=True)
    assert library.explain("matmul", m=4, n=4, k=4).tier == "fallback"
    shutil.copy(path, new)
    assert library.explain("matmul", m=4, n=4, k=4).tier == "exact"


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE workload (x)")
    connection.close()
    with pytest.raises(DatabaseError, match="not a Tilewright database"):
        Library(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"cannot be opened|damaged"):
        Library(tmp_path)


def test_a_truncated_file(path: Path) -> None:
    data = path.read_bytes()
    for size in (len(data) // 2, len(data) - 4096, 1000):
        path.write_bytes(data[:size])
        with pytest.raises(DatabaseError):
            Library(path).plan("matmul", m=4, n=4, k=4)


def test_a_damaged_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 8] = os.urandom(4096 * 6)
    path.write_bytes(data)
    with pytest.raises(DatabaseError):
        Library(path).plan("matmul", m=4, n=4, k=4)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workload SET params = '{'",
        "UPDATE workload SET inputs = '[1]'",
        "UPDATE workload SET param_names = '[\"zz\"]'",
        "UPDATE target SET data = '{}'",
        "UPDATE kernel SET schedule = 'null'",
        "UPDATE kernel SET launch_program = '{}'",
        "UPDATE kernel SET seconds = 'soon'",
    ],
)
def test_rows_that_make_no_sense(path: Path, statement: str) -> None:
    change(path, statement)
    library = Library(path)
    with pytest.raises(DatabaseError, match=r"holds a row that cannot be read"):
        library.plan("matmul", m=4, n=4, k=4)
    with pytest.raises(DatabaseError, match=r"holds a row that cannot be read"):
        library.matmul(A, A)


def test_code_that_does_not_hash_to_its_name(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        (data,) = connection.execute("SELECT data FROM artifact").fetchone()
    connection.close()
    flipped = bytearray(data)
    flipped[len(flipped) // 2] ^= 1
    change(path, "UPDATE artifact SET data = ?", bytes(flipped))
    library = Library(path)
    assert library.explain("matmul", m=4, n=4, k=4).tier == "exact"
    for call in (lambda: library.plan("matmul", m=4, n=4, k=4), lambda: library.matmul(A, A)):
        with pytest.raises(DatabaseError, match=r"cannot be loaded: library .* is damaged.*Tune it again"):
            call()


def test_code_that_is_missing(path: Path) -> None:
    change(path, "DELETE FROM artifact")
    with pytest.raises(DatabaseError, match="lacks the code"):
        Library(path).plan("matmul", m=4, n=4, k=4)


def test_a_symbol_that_is_missing(maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_not_there")
    with pytest.raises(DatabaseError, match="no kernel tw_not_there"):
        Library(maker.path).plan("matmul", m=4, n=4, k=4)


def test_a_launch_program_of_another_interface(path: Path) -> None:
    change(path, "UPDATE kernel SET launch_program = replace(launch_program, '\"abi\":1', '\"abi\":99')")
    assert Library(path).explain("matmul", m=4, n=4, k=4).tier == "fallback"


def test_reads_while_another_process_writes(path: Path) -> None:
    with Database.open(path):
        writer = sqlite3.connect(path, isolation_level=None)
        try:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE kernel SET seconds = 1")
            told = Library(path).explain("matmul", m=4, n=4, k=4)
            assert told.seconds != 1
            writer.execute("COMMIT")
            assert Library(path).explain("matmul", m=4, n=4, k=4).seconds == 1
        finally:
            writer.close()


READER = """
import os, sys
import numpy as np
from tilewright.runtime import Library
a = np.ones((4, 4), "f")
Library(sys.argv[1]).matmul(a, a)  # imports everything, which may lie where only root can read
os.setgid(65534)
os.setuid(65534)
assert not os.access(os.path.dirname(sys.argv[1]), os.W_OK)
library = Library(sys.argv[1])
assert (library.matmul(a, a) == 4).all()
assert library.stats().tiers["exact"] == 1
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_folder_that_cannot_be_written(path: Path, journal: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As an application ships it: installed by root, read by others."""
    change(path, f"PRAGMA journal_mode={journal}")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shipped = Path(folder) / "shipped.db"
        shutil.copy(path, shipped)
        shipped.chmod(0o644)
        done = subprocess.run([sys.executable, "-c", READER, str(shipped)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_leaves_nothing_beside_the_file(path: Path) -> None:
    before = sorted(os.listdir(path.parent))
    library = Library(path)
    library.matmul(A, A)
    library.plan("matmul", m=9, n=9, k=9)
    assert sorted(os.listdir(path.parent)) == before


def test_reads_again_what_changed_while_it_was_read(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.matmul(4, 4, 4, seconds=1.0)
    library = Library(maker.path)
    connect, calls = store._connect, []

    def meddle(path: Path, *, immutable: bool) -> sqlite3.Connection:
        connection = connect(path, immutable=immutable)
        calls.append(immutable)
        if len(calls) == 1:
            connection.execute("SELECT count(*) FROM kernel").fetchone()
            maker.matmul(4, 4, 4, seconds=2.0)
        return connection

    monkeypatch.setattr(store, "_connect", meddle)
    assert library.explain("matmul", m=4, n=4, k=4).seconds == 2.0
    assert len(calls) >= 2


def test_awkward_file_names(path: Path, tmp_path: Path) -> None:
    for name in ("a b.db", "50%.db", "what?.db", "a#b.db", "é.db"):
        copy = tmp_path / name
        shutil.copy(path, copy)
        assert Library(copy).explain("matmul", m=4, n=4, k=4).tier == "exact"
        np.testing.assert_allclose(Library(copy).matmul(A, A), A @ A, rtol=1e-4, atol=1e-5)
