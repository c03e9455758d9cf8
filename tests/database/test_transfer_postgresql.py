"""Moving databases to and from a PostgreSQL server, and what its roles may do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.examples import (
    DEVICE,
    SETTINGS,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from postgres import LOCKED, LOCKED_PASSWORD, OWNER, Server
from tilewright.cli.app import run
from tilewright.core import DatabaseError, UsageError
from tilewright.database import Database
from tilewright.database.migrate import upgrade_database
from tilewright.database.postgresql.grants import grants
from tilewright.database.transfer import (
    Imported,
    backup,
    collect,
    export_best,
    export_lines,
    import_stream,
    merge,
    settle,
    winners,
)

CODE = example_artifact(b"code of the winner")


def fill(db: Database, runs: int = 1) -> list[str]:
    """Finished runs of one task, the last of which has won it."""
    task = example_task()
    ids = [db.add_run(task, DEVICE, "evolutionary", 7, 64, SETTINGS) for _ in range(runs)]
    for run_id in ids:
        db.add_trials(run_id, [example_record(i) for i in range(7)])
        db.finish_run(run_id, "done", {"note": "\x1b \u2028 'quoted' \\"})
    db.set_kernels(task, DEVICE.model, ids[-1], [example_kernel(task, 3, CODE, ids[-1])], [CODE])
    return ids


def text(db: Database) -> str:
    return "".join(export_lines(db))


def take(db: Database, exported: str) -> Imported:
    return import_stream(db, BytesIO(exported.encode()), "FILE")


def test_everything_but_code_goes_to_a_server_and_back(url: str, tmp_path: Path) -> None:
    with Database.open(tmp_path / "a.db") as file, Database.open(url) as server:
        fill(file, runs=2)
        found = merge(server, file)
        assert (found.new_runs, found.new_trials, found.new_winners) == (2, 14, 1)
        assert text(server) == text(file)
        assert server.kernels() == []
        again = merge(server, file)
        assert (again.new_runs, again.new_trials, again.new_winners) == (0, 0, 0)
        with Database.open(tmp_path / "b.db") as back:
            merge(back, server)
            assert text(back) == text(file)
        settle(server, winners(server)[0], "rebuilt")
        assert winners(server) == []


def test_files_of_several_machines_come_in_at_once(url: str, tmp_path: Path) -> None:
    expected: set[str] = set()
    for n in range(3):
        with Database.open(tmp_path / f"{n}.db") as file:
            expected |= set(fill(file, runs=3))
    conflicts: list[str] = []

    def bring(n: int) -> None:
        with Database.open(url) as server:
            for m in (n, (n + 1) % 3):  # each file comes twice, from two sides
                with Database.open(tmp_path / f"{m}.db", readonly=True) as file:
                    conflicts.extend(merge(server, file).conflicts)

    threads = [threading.Thread(target=bring, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert conflicts == []
    with Database.open(url, readonly=True) as server:
        assert {r.id for r in server.runs()} == expected
        assert [r.trials for r in server.runs()] == [7] * 9


def test_a_different_trial_is_a_conflict(url: str, tmp_path: Path) -> None:
    with Database.open(tmp_path / "a.db") as file, Database.open(url) as server:
        (run_id,) = fill(file)
        merge(server, file)
        server.add_trials(run_id, [example_record(8)])
        file.add_trials(run_id, [example_record(9)])
        file._write(lambda c: c.exec_driver_sql("UPDATE trial SET number = 8 WHERE number = 9"))
        before = text(server)
        (said,) = merge(server, file).conflicts
        assert "holds different trials" in said
        assert url.partition("?")[0].rpartition("/")[2] in said
        assert text(server) == before


def test_kernels_go_from_a_server_to_a_file_and_gc_keeps_them(url: str, tmp_path: Path) -> None:
    with Database.open(url) as server:
        fill(server, runs=3)
        with pytest.raises(UsageError, match="pg_dump"):
            backup(server, tmp_path / "copy.db")
        would = collect(server, keep_runs=0, dry_run=True)
        assert collect(server, keep_runs=0) == would
        assert (len(would.runs), would.trials) == (2, 14)
        (kernel,) = server.kernels()
        assert export_best(server, tmp_path / "serve.db") == 1
    with Database.open(tmp_path / "serve.db", readonly=True) as served:
        assert served.kernels() == [kernel]
        code = served.artifact(kernel.artifact_sha256)
        assert code is not None
        assert code.data == CODE.data


ACTS: dict[str, Callable[[Server, str, str], object]] = {
    "read": lambda s, db, role: s.sql("SELECT count(*) FROM trial", db, role),
    "read the schema's version": lambda s, db, role: s.sql("SELECT * FROM alembic_version", db, role),
    "write": lambda s, db, role: s.sql("INSERT INTO miss VALUES ('a', 'b', 'c', 1, 0, 0)", db, role),
    "update": lambda s, db, role: s.sql("UPDATE miss SET count = 2", db, role),
    "delete": lambda s, db, role: s.sql("DELETE FROM miss", db, role),
    "change the schema's version": lambda s, db, role: s.sql("UPDATE alembic_version SET version_num = '0'", db, role),
    "change who may read": lambda s, db, role: s.sql("DELETE FROM compatibility", db, role),
    "empty a table": lambda s, db, role: s.sql("TRUNCATE miss", db, role),
    "make a table": lambda s, db, role: s.sql("CREATE TABLE mine (x int)", db, role),
    "make a temporary table": lambda s, db, role: s.sql("CREATE TEMPORARY TABLE mine2 (x int)", db, role),
    "alter a table": lambda s, db, role: s.sql("ALTER TABLE miss ADD COLUMN x int", db, role),
    "drop a table": lambda s, db, role: s.sql("DROP TABLE model", db, role),
    "make a role": lambda s, db, role: s.sql("CREATE ROLE another", db, role),
}
READER = {"read", "read the schema's version"}
WRITER = READER | {"write", "update", "delete"}
UPGRADER = set(ACTS) - {"make a temporary table", "make a role"}


def may(server: Server, database: str, role: str) -> set[str]:
    """What a role can do there."""
    import psycopg

    done = set()
    for name, act in ACTS.items():
        try:
            act(server, database, role)
            done.add(name)
        except psycopg.errors.InsufficientPrivilege:
            continue
    return done


def test_each_role_can_do_its_part_and_no_more(server: Server, ready: str) -> None:
    # Names that need quoting show that they are quoted.
    owner, writer, reader = "it's the owner", 'tw "writer"', "tw reader %s"
    database = server.create(ready)
    script = grants(owner, writer, reader)
    for _ in range(2):  # again changes nothing
        server.sql(script, database)
    assert may(server, database, reader) == READER
    assert may(server, database, writer) == WRITER
    assert may(server, database, owner) == UPGRADER
    # What an owner makes later, in an upgrade, the others may use as well.
    server.sql("CREATE TABLE later (x int)", database, owner)
    server.sql("SELECT * FROM later", database, reader)
    server.sql("INSERT INTO later VALUES (1)", database, writer)
    with pytest.raises(Exception, match="permission denied"):
        server.sql("INSERT INTO later VALUES (1)", database, reader)


def test_tilewright_works_in_each_role(server: Server) -> None:
    database = server.create()
    server.sql(grants("o1", "w1", "r1"), database)
    with pytest.raises(DatabaseError):
        upgrade_database(server.url(database, "w1"))
    upgrade_database(server.url(database, "o1"))
    server.sql(grants("o1", "w1", "r1"), database)
    with Database.open(server.url(database, "w1")) as db:
        fill(db, runs=2)
        assert len(collect(db, keep_runs=0).runs) == 1
        db.vacuum()
    with Database.open(server.url(database, "r1"), readonly=True) as db:
        assert len(db.runs()) == len(db.kernels()) == 1
        assert text(db)
    with Database.open(server.url(database, "r1")) as db, pytest.raises(DatabaseError):
        db.add_miss("x", {}, "t")


def test_the_tables_may_have_a_schema_of_their_own(server: Server) -> None:
    database = server.create()
    server.sql("CREATE TABLE somebodys (x int)", database)
    url = f"{server.url(database, 'o2')}&options=-csearch_path%3Dtw"
    server.sql(grants("o2", "w2", "r2", "tw"), database)
    upgrade_database(url)
    server.sql(grants("o2", "w2", "r2", "tw"), database)
    with Database.open(url.replace("o2@", "w2@")) as db:
        assert fill(db)
    assert server.sql("SELECT count(*) FROM tw.run", database, "r2") == [(1,)]
    with pytest.raises(Exception, match="permission denied"):
        server.sql("INSERT INTO tw.miss VALUES ('a', 'b', 'c', 1, 0, 0)", database, "r2")


def test_no_password_shows(
    server: Server, ready: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = server.create(ready)
    server.sql(grants("o3", LOCKED, "r3"), database)
    url = server.url(database, LOCKED, LOCKED_PASSWORD)
    with Database.open(tmp_path / "a.db") as file:
        (run_id,) = fill(file)
        assert run(["db", "merge", str(tmp_path / "a.db"), "--db", url]) == 0
        file.add_trials(run_id, [example_record(8)])
        assert run(["db", "merge", url, "--db", str(tmp_path / "a.db"), "--json"]) == 0
        with Database.open(url) as there:
            there.add_trials(run_id, [replace(example_record(8), created=1.0)])
    assert run(["db", "merge", url, "--db", str(tmp_path / "a.db")]) == 1
    for command in ("stats", "pending", "gc", "upgrade", "export"):
        extra = ["-"] if command == "export" else []
        assert run(["db", command, *extra, "--db", url]) == 0, command
    assert run(["db", "backup", str(tmp_path / "b.db"), "--db", url]) == 2
    assert run(["db", "export", "--best", str(tmp_path / "none.db"), "--db", url]) == 1
    monkeypatch.setenv("TILEWRIGHT_DB_PASSWORD", "wr0ng/secret")
    assert run(["db", "stats", "--db", server.url(database, LOCKED)]) == 1
    out, err = capfd.readouterr()
    assert "***" in out + err
    for secret in (LOCKED_PASSWORD, quote(LOCKED_PASSWORD, safe=""), "wr0ng"):
        assert secret not in out + err


def test_a_dump_restores_to_what_it_was(server: Server, url: str) -> None:
    if not (server._bin / "pg_dump").exists():
        pytest.skip("this PostgreSQL has no pg_dump")
    with Database.open(url) as db:
        fill(db, runs=2)
        before, kernels = text(db), db.kernels()
        name = db._read(lambda c: c.exec_driver_sql("SELECT current_database()").scalar_one())
    where = ("-h", str(server.folder), "-U", OWNER)
    dump = server.folder / "tilewright.dump"
    server._run("pg_dump", *where, "--format=custom", f"--file={dump}", name)
    new = server.create()
    server._run("pg_restore", *where, "--single-transaction", "--exit-on-error", f"--dbname={new}", dump)
    with Database.open(server.url(new)) as db:
        assert text(db) == before
        assert db.kernels() == kernels
        assert db.artifact(CODE.sha256) is not None


@pytest.mark.parametrize("names", [("a", "a", "b"), ("", "b", "c"), ("pg_x", "b", "c"), ("a$", "b", "c"), ("x" * 64, "b", "c"), ("a\nb", "b", "c"), ("public", "b", "c")])  # fmt: skip
def test_names_that_are_none_are_refused(names: tuple[str, str, str]) -> None:
    with pytest.raises(UsageError):
        grants(*names)
