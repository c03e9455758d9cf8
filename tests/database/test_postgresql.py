"""PostgreSQL: opening, schemas, passwords, roles, and what is said of servers that cannot be used."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, inspect

from harness.examples import DEVICE, example_artifact, example_kernel, example_record, example_task
from postgres import LOCKED, LOCKED_PASSWORD, Server
from tilewright.core import DatabaseError, UsageError
from tilewright.database import Database, schema
from tilewright.database.errors import explain
from tilewright.database.location import locate
from tilewright.database.migrate import upgrade_database


def refused(url: str, **options: bool) -> DatabaseError:
    """The error on opening, in one line that repeats no password."""
    with pytest.raises(DatabaseError) as caught:
        Database.open(url, **options)
    error = caught.value
    assert "\n" not in str(error)
    assert error.hint
    assert error.__cause__ is None
    for secret in (LOCKED_PASSWORD, quote(LOCKED_PASSWORD, safe=""), "guess"):
        assert secret not in str(error)
    return error


@pytest.fixture
def empty(server: Server) -> str:
    """A database without tables."""
    return server.url(server.create())


# --------------------------------------------------------------------------- schemas


def test_nothing_is_created_or_upgraded_implicitly(server: Server, empty: str) -> None:
    for readonly in (False, True):
        error = refused(empty, readonly=readonly)
        assert "is empty" in error.message
        assert "tilewright db upgrade" in error.hint
    assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", empty_name(empty)) == [(0,)]


def empty_name(url: str) -> str:
    name = locate(url).url
    assert name is not None
    assert name.database
    return name.database


def test_upgrade_creates_what_the_metadata_says(empty: str) -> None:
    would, *statements = upgrade_database(empty, dry_run=True)
    assert would == f"schema {schema.SCHEMA} would be created"
    assert any(s.startswith("CREATE TABLE trial") for s in statements)
    assert "is empty" in refused(empty).message
    assert upgrade_database(empty) == [f"schema {schema.SCHEMA} was created"]
    for dry in (False, True):
        assert upgrade_database(empty, dry_run=dry) == [f"schema {schema.SCHEMA}: up to date"]
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = create_engine(empty)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert set(inspect(connection).get_table_names()) == {*schema.metadata.tables, "alembic_version"}
    engine.dispose()


def test_the_sql_of_a_dry_run_is_what_an_upgrade_does(server: Server, empty: str) -> None:
    _, *statements = upgrade_database(empty, dry_run=True)
    server.sql(";\n".join(statements), empty_name(empty))
    with Database.open(empty) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
        db.add_trials(run_id, [example_record(0)])
        assert len(db.trials(run_id)) == 1
    assert upgrade_database(empty) == [f"schema {schema.SCHEMA}: up to date"]


def test_two_upgrades_at_once_take_turns(empty: str) -> None:
    together = threading.Barrier(3)

    def upgrade() -> list[str]:
        together.wait()
        return upgrade_database(empty)

    with ThreadPoolExecutor(3) as pool:
        found = [f.result() for f in [pool.submit(upgrade) for _ in range(3)]]
    assert sorted(found) == [[f"schema {schema.SCHEMA} was created"]] + [[f"schema {schema.SCHEMA}: up to date"]] * 2


def downgrade(server: Server, url: str) -> None:
    """Make a database what the first schema was."""
    for statement in (
        "DROP INDEX ix_trial_run_id_status_seconds_number",
        "DROP TABLE compatibility",
        "UPDATE alembic_version SET version_num = '0001'",
    ):
        server.sql(statement, empty_name(url))


def test_an_older_schema_is_read_and_waits_for_an_upgrade(server: Server, url: str) -> None:
    with Database.open(url) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
        db.add_trials(run_id, [example_record(0)])
    downgrade(server, url)
    error = refused(url)
    assert "older Tilewright (schema 0001)" in error.message
    assert "tilewright db upgrade" in error.hint
    with Database.open(url, readonly=True) as db:
        assert db.trials(run_id) == [example_record(0)]
        assert db.stats().rows["run"] == 1
    would, *statements = upgrade_database(url, dry_run=True)
    assert would == f"schema 0001 would be upgraded to {schema.SCHEMA}"
    assert statements[-1].startswith("UPDATE alembic_version")
    assert upgrade_database(url) == [f"schema 0001 was upgraded to {schema.SCHEMA}"]
    with Database.open(url) as db:
        assert db.trials(run_id) == [example_record(0)]


def test_a_newer_schema_may_be_read_if_it_says_so(server: Server, url: str) -> None:
    server.sql("UPDATE alembic_version SET version_num = '0999'", empty_name(url))
    assert "newer Tilewright (schema 0999" in refused(url).message
    with Database.open(url, readonly=True) as db:
        assert db.runs() == []
    server.sql("UPDATE compatibility SET oldest_reader = '0998'", empty_name(url))
    assert "newer Tilewright (schema 0999" in refused(url, readonly=True).message
    with pytest.raises(DatabaseError, match="newer Tilewright"):
        upgrade_database(url)


def test_a_failed_upgrade_changes_nothing(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    downgrade(server, url)
    server.sql("CREATE VIEW compatibility AS SELECT 1", empty_name(url))  # in the way of the new table
    with pytest.raises(DatabaseError, match=r"failed: relation .compatibility. already exists"):
        upgrade_database(url)
    assert server.sql("SELECT version_num FROM alembic_version", empty_name(url)) == [("0001",)]
    server.sql("DROP VIEW compatibility", empty_name(url))
    upgrade_database(url)
    Database.open(url).close()


def test_a_database_of_another_program_is_refused(server: Server, empty: str) -> None:
    server.sql("CREATE TABLE mine (x int)", empty_name(empty))
    for attempt in (Database.open, upgrade_database):
        with pytest.raises(DatabaseError, match="but not Tilewright's") as caught:
            attempt(empty)
        assert "of its own" in caught.value.hint


def test_a_schema_of_its_own(server: Server, empty: str) -> None:
    server.sql("CREATE TABLE mine (x int)", empty_name(empty))
    server.sql("CREATE SCHEMA tuning", empty_name(empty))
    url = f"{empty}&options=-csearch_path%3Dtuning"
    upgrade_database(url)
    with Database.open(url) as db:
        db.add_miss("matmul", {}, "")
        assert len(db.misses()) == 1


# --------------------------------------------------------------------------- passwords and errors


@pytest.fixture
def locked(server: Server, url: str) -> Callable[[str | None], str]:
    """The URL of ``LOCKED`` with a password, or without."""
    name = empty_name(url)
    server.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {LOCKED}", name)
    return lambda password: server.url(name, user=LOCKED, password=password)


def shown(url: str) -> str:
    """All that an open database tells of where it is."""
    with Database.open(url, readonly=True) as db:
        assert db.runs() == []
        assert not db.is_file
        with pytest.raises(UsageError, match="is on a server"):
            assert db.path
        with pytest.raises(UsageError) as caught:
            db.run("last")
        return f"{db.location} {caught.value} {db._transactions.engine!r} {locate(url)!r}"


def test_a_password_from_anywhere_is_shown_nowhere(
    locked: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = quote(LOCKED_PASSWORD, safe="")
    bare = locked(None)
    told = [shown(locked(LOCKED_PASSWORD)), shown(f"{bare}&password={secret}")]
    assert all("***" in text for text in told)
    for variable in ("TILEWRIGHT_DB_PASSWORD", "PGPASSWORD"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, LOCKED_PASSWORD)
            told.append(shown(bare))
    with monkeypatch.context() as patch:  # the URL's comes first
        patch.setenv("TILEWRIGHT_DB_PASSWORD", "guess")
        told.append(shown(locked(LOCKED_PASSWORD)))
    passfile = tmp_path / "passfile"
    passfile.write_text(f"*:*:*:{LOCKED}:{LOCKED_PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    told.append(shown(bare))
    for text in told:
        assert LOCKED_PASSWORD not in text
        assert secret not in text
    monkeypatch.delenv("PGPASSFILE")
    for wrong in (bare, locked("guess"), f"{bare}&password=guess"):
        error = refused(wrong)
        assert "refused the password" in error.message
        assert "PGPASSFILE" in error.hint


def test_a_stored_run_holds_no_password(
    server: Server, locked: Callable[[str | None], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = locked(LOCKED_PASSWORD)
    server.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {LOCKED}", empty_name(url))
    with Database.open(url) as db:
        db.add_run(example_task(), DEVICE, "random", 0, 1, {})
    (stored,) = server.sql("SELECT run::text FROM run", empty_name(url))
    assert LOCKED_PASSWORD not in stored[0]


def test_a_reader_cannot_write(locked: Callable[[str | None], str]) -> None:
    with Database.open(locked(LOCKED_PASSWORD)) as db:
        assert db.runs() == []
        with pytest.raises(DatabaseError, match="does not permit this") as caught:
            db.add_miss("matmul", {}, "")
        assert "role" in caught.value.hint
    with (
        Database.open(locked(LOCKED_PASSWORD), readonly=True) as db,
        pytest.raises(DatabaseError, match="reading only"),
    ):
        db.add_miss("matmul", {}, "")


def test_servers_that_cannot_be_used(server: Server, url: str, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and never listens
        port = held.getsockname()[1]
        assert "cannot be reached" in refused(f"postgresql://me@127.0.0.1:{port}/db").message
    assert "cannot be reached" in refused(f"postgresql://me@/db?host={tmp_path}").message
    assert "cannot be reached with these options" in refused(f"{url}&sslmode=nonsense").message
    assert "does not exist" in refused(server.url("nowhere")).message
    assert "refused the user" in refused(server.url(user="stranger")).message


def test_without_psycopg_the_error_names_the_extra(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'tilewright[postgresql]'" in refused(url).hint


def test_a_disk_that_is_full_and_other_states_are_explained() -> None:
    """States that are hard to bring about, as psycopg raises them."""
    import psycopg

    for state, words in (("53100", "is full"), ("53200", "out of memory"), ("42P01", "lacks a table"),
                         ("3F000", "no schema"), ("25006", "read-only"), ("XX001", "is damaged")):  # fmt: skip
        error = explain("here", psycopg.errors.lookup(state)("raw text"))
        assert words in error.message
        assert "raw text" not in str(error)
    assert "failed: raw text" in explain("here", psycopg.errors.lookup("0A000")("raw text")).message


def test_text_that_postgresql_cannot_store(url: str) -> None:
    with Database.open(url) as db:
        with pytest.raises(DatabaseError, match="cannot take one of these values"):
            db.add_miss("a\0b", {}, "")
        db.add_miss("b", {"text": "a\0b"}, "")
        assert dict(db.misses()[0].params) == {"text": "a\0b"}


def test_sizes_and_vacuum(url: str) -> None:
    code = example_artifact(bytes(range(256)) * 400)
    task = example_task()
    with Database.open(url) as db:
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, code)], [code])
        stats = db.stats()
        assert stats.artifact_bytes == len(code.data)
        assert stats.bytes > stats.artifact_bytes
        db.set_kernels(task, DEVICE.model, None, [])
        db.vacuum()
        assert db.stats().rows["artifact"] == 0


@pytest.mark.parametrize(
    "text",
    ["postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d", "postgres://u:p@h/d", "postgresql://u@h/d?password=p"],
)
def test_a_place_reads_the_same_however_it_is_written(text: str) -> None:
    assert locate(text).text == "postgresql+psycopg://u:***@h/d"


def test_other_secrets_of_a_url_are_masked() -> None:
    text = locate("postgresql://h/d?sslpassword=xyz&sslmode=verify-full").text
    assert "xyz" not in text
    assert "sslmode=verify-full" in text
