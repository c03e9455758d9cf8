"""Brings a database to this version's schema: creates, upgrades or refuses it.

A file is created and upgraded when it is opened for writing. A server's database is changed only by
``upgrade_database``, because other clients use it too. New databases are created from the metadata. Only an upgrade
imports Alembic, which is slow to import.
"""

from __future__ import annotations

import io
import os
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Dialect, MetaData, String, Table, create_mock_engine, event, inspect, select

from tilewright.core import DatabaseError
from tilewright.database.copies import copy_file, replacing
from tilewright.database.engine import Transactions, check_file, patiently, sqlite_engine, use_wal
from tilewright.database.errors import explained
from tilewright.database.location import Location, locate
from tilewright.database.postgresql import postgresql_engine, take_turns
from tilewright.database.postgresql.errors import is_starting
from tilewright.database.schema import OLDEST_READABLE, OLDEST_READER, REVISIONS, SCHEMA, compatibility, metadata

MIGRATIONS = Path(__file__).parent / "migrations"

# Alembic's own table, as it creates it.
_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True, nullable=False))

_UPGRADE = "Run tilewright db upgrade on it once, as its owner"


def prepare(location: Location, transactions: Transactions, *, readonly: bool, timeout: float) -> None:
    """Checks that the open database has a usable schema; creates or upgrades a file's. Raises ``DatabaseError``."""
    revision = transactions.read(lambda c: read_revision(c, location, readonly=readonly))
    path = location.path
    if readonly or path is None:
        if revision is None:
            hint = "Run tilewright tune on it once, to fill it" if path else _UPGRADE
            raise DatabaseError(f"{location.text} is empty: it has no tables of Tilewright's", hint)
        readable = REVISIONS.index(revision) >= REVISIONS.index(OLDEST_READABLE)
        if revision != SCHEMA and not (readonly and readable):
            hint = "Run tilewright tune on it once, to bring it up to date" if path else _UPGRADE
            raise DatabaseError(f"{location.text} was written by an older Tilewright (schema {revision})", hint)
        return
    patiently(lambda: use_wal(transactions.engine), timeout)
    if revision is None:
        transactions.write(lambda c: _create(c, location))
        revision = transactions.read(lambda c: read_revision(c, location))
    if revision != SCHEMA:
        _upgrade_file(location, timeout)


def read_revision(connection: Connection, location: Location, *, readonly: bool = False) -> str | None:
    """Revision of the database's schema; ``None`` for an empty database.

    Raises ``DatabaseError`` for a database of another program or a newer schema. With ``readonly``, a newer schema that
    this version can read counts as this version's.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "workload", "trial"} <= tables:
        own = "Name another file with --db" if location.path else "Give Tilewright a database or schema of its own"
        raise DatabaseError(f"{location.text} is a database, but not Tilewright's", own)
    revision = connection.execute(select(_version.c.version_num)).scalar()
    if revision in REVISIONS:
        return str(revision)
    if readonly and "compatibility" in tables:
        oldest = connection.execute(select(compatibility.c.oldest_reader)).scalar()
        if oldest in REVISIONS:
            return SCHEMA
    raise DatabaseError(
        f"{location.text} was written by a newer Tilewright (schema {revision}; this one knows {SCHEMA})",
        f"Upgrade tilewright, or name another {'file' if location.path else 'database'} with --db",
    )


def upgrade_database(path_or_url: str | os.PathLike[str], dry_run: bool = False, timeout: float = 600.0) -> list[str]:
    """Creates or upgrades a database's tables in one transaction; returns lines that report the changes.

    ``dry_run``: changes nothing, and returns the planned changes with their SQL. A file is backed up to
    ``FILE.bak-<revision>`` first. If two clients call it at once, the second waits and finds nothing to do.
    ``timeout``: seconds to wait for other clients. Raises ``DatabaseError``.
    """
    location = locate(path_or_url)
    with explained(location.text):
        if location.path is not None:
            return _file(location, dry_run, timeout)
        assert location.url is not None
        with closing(Transactions(postgresql_engine(location.url, timeout), timeout)) as transactions:
            engine = transactions.engine
            patiently(lambda: engine.connect().close(), timeout, is_starting)
            if not dry_run:
                return transactions.write(lambda c: _upgrade_server(c, location))
            revision = transactions.read(lambda c: read_revision(c, location))
            return _report(revision, "would be") + _sql(revision, engine.dialect)


def _report(revision: str | None, done: str) -> list[str]:
    if revision == SCHEMA:
        return [f"schema {SCHEMA}: up to date"]
    if revision is None:
        return [f"schema {SCHEMA} {done} created"]
    return [f"schema {revision} {done} upgraded to {SCHEMA}"]


# --------------------------------------------------------------------------- creation


@cache
def _tables(dialect: Dialect) -> tuple[str, ...]:
    """SQL statements that create the tables, cached by dialect."""
    made: list[str] = []
    words = create_mock_engine("sqlite://", lambda said, *_, **__: made.append(_text(said, dialect)))
    metadata.create_all(words, checkfirst=False)
    _version.create(words, checkfirst=False)
    return tuple(made)


def _creation(dialect: Dialect) -> list[str]:
    """SQL statements that create the tables and store the schema's revision."""
    version = _version.insert().values(version_num=SCHEMA)
    reader = compatibility.insert().values(oldest_reader=OLDEST_READER)
    return [*_tables(dialect), _text(version, dialect), _text(reader, dialect)]


def _text(statement: Any, dialect: Dialect) -> str:
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True})).strip()


def _create(connection: Connection, location: Location) -> None:
    # Another process may have been faster.
    if read_revision(connection, location) is None:
        for statement in _creation(connection.dialect):
            connection.exec_driver_sql(statement)


# --------------------------------------------------------------------------- servers


def _upgrade_server(connection: Connection, location: Location) -> list[str]:
    take_turns(connection, "schema")
    revision = read_revision(connection, location)
    if revision is None:
        _create(connection, location)
    elif revision != SCHEMA:
        _migrate(connection)
    return _report(revision, "was")


def _sql(revision: str | None, dialect: Dialect) -> list[str]:
    """The SQL statements that ``_upgrade_server`` would execute."""
    if revision is None:
        return _creation(dialect)
    if revision == SCHEMA:
        return []
    from alembic import command

    config = _config(dialect="postgresql")
    config.output_buffer = written = io.StringIO()
    command.upgrade(config, f"{revision}:{SCHEMA}", sql=True)
    return [s.strip() for s in written.getvalue().split(";\n") if s.strip()]


# --------------------------------------------------------------------------- files


def _file(location: Location, dry_run: bool, timeout: float) -> list[str]:
    path = location.path
    assert path is not None
    if dry_run and not path.exists():
        return _report(None, "would be")
    check_file(path, create=True, readonly=dry_run)
    with closing(Transactions(sqlite_engine(path, timeout, readonly=dry_run), timeout)) as transactions:
        revision = transactions.read(lambda c: read_revision(c, location))
        if not dry_run:
            prepare(location, transactions, readonly=False, timeout=timeout)
            return _report(revision, "was")
    if revision in (None, SCHEMA):
        return _report(revision, "would be")
    return [*_report(revision, "would be"), *_rehearse(location, timeout)]


def _upgrade_file(location: Location, timeout: float) -> None:
    """Runs the file's pending migrations in one transaction, after a backup beside it."""
    path = location.path
    assert path is not None

    def migrate(connection: Connection) -> None:
        revision = read_revision(connection, location)
        if revision == SCHEMA:
            return  # another process was faster
        with replacing(Path(f"{path}.bak-{revision}")) as partial:
            copy_file(path, partial)
        _migrate(connection)
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise DatabaseError(
                f"{path} cannot be upgraded: {len(broken)} rows refer to missing ones",
                "It is unchanged. Open it with the version that wrote it, and move its runs with tilewright db export",
            )

    with _for_migration(path, timeout) as transactions:
        transactions.write(migrate)


class _Rehearsed(Exception):
    """Raised to roll back the transaction of a rehearsal."""


def _rehearse(location: Location, timeout: float) -> list[str]:
    """Runs an upgrade and rolls it back; returns its statements. On SQLite, statements depend on the stored tables."""
    assert location.path is not None
    statements: list[str] = []

    def work(connection: Connection) -> None:
        @event.listens_for(connection, "before_cursor_execute")
        def _note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
                statements.append(statement.strip())

        _migrate(connection)
        raise _Rehearsed

    with _for_migration(location.path, timeout) as transactions, suppress(_Rehearsed):
        transactions.write(work)
    return statements


def _for_migration(path: Path, timeout: float) -> closing[Transactions]:
    # Without foreign keys: SQLite rebuilds a table by dropping it, which must not cascade into referring tables.
    return closing(Transactions(sqlite_engine(path, timeout, foreign_keys=False, keep=False), timeout))


def _migrate(connection: Connection) -> None:
    from alembic import command

    command.upgrade(_config(connection=connection), SCHEMA)


def _config(**attributes: Any) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update(attributes)
    return config
