"""Bring a file to this version's schema: create it, leave it, upgrade it, or refuse it.

Alembic, slow to import, is needed for an upgrade only: fresh files are created from the metadata.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from tilewright.core import DatabaseError
from tilewright.database.engine import Transactions, patiently, sqlite_engine, use_wal
from tilewright.database.schema import REVISIONS, SCHEMA, metadata

MIGRATIONS = Path(__file__).parent / "migrations"

# Alembic's own table, as it creates it.
_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True, nullable=False))


def prepare(path: Path, transactions: Transactions, *, readonly: bool, timeout: float) -> None:
    """Make the open file's schema this version's. Raises ``DatabaseError`` where that can't be."""
    revision = transactions.read(lambda c: read_revision(c, path))
    if readonly:
        if revision != SCHEMA:
            what = "is empty" if revision is None else f"was written by an older Tilewright (schema {revision})"
            raise DatabaseError(f"{path} {what}", "Run tilewright tune on it once, to bring it up to date")
        return
    patiently(lambda: use_wal(transactions.engine), timeout)
    if revision is None:
        transactions.write(lambda c: _create(c, path))
        revision = transactions.read(lambda c: read_revision(c, path))
    if revision != SCHEMA:
        upgrade(path, timeout)


def read_revision(connection: Connection, path: Path) -> str | None:
    """The file's schema; ``None`` for an empty file. Raises ``DatabaseError`` for one not to touch."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if not {"alembic_version", "workload", "trial"} <= tables:
        raise DatabaseError(f"{path} is a database, but not Tilewright's", "Name another file with --db")
    revision = connection.execute(select(_version.c.version_num)).scalar()
    if revision not in REVISIONS:
        raise DatabaseError(
            f"{path} was written by a newer Tilewright (schema {revision}; this one knows {SCHEMA})",
            "Upgrade tilewright, or name another file with --db",
        )
    return str(revision)


def _create(connection: Connection, path: Path) -> None:
    # Another process may have been faster.
    if read_revision(connection, path) is None:
        metadata.create_all(connection, checkfirst=False)
        _version.create(connection)
        connection.execute(_version.insert().values(version_num=SCHEMA))


def upgrade(path: Path, timeout: float) -> None:
    """Run the migrations that the file lacks, in one transaction, after a backup beside it."""
    from alembic import command
    from alembic.config import Config

    def migrate(connection: Connection) -> None:
        revision = read_revision(connection, path)
        if revision == SCHEMA:
            return  # another process was faster
        backup(path, f"{path}.bak-{revision}")
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, SCHEMA)
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise DatabaseError(
                f"{path} cannot be upgraded: {len(broken)} rows refer to missing ones",
                f"It is unchanged; report this with the file {path}.bak-{revision}",
            )

    # Tables are rebuilt by dropping them, which must not cascade into those that refer to them.
    engine = sqlite_engine(path, timeout, foreign_keys=False, keep=False)
    try:
        Transactions(engine, timeout).write(migrate)
    finally:
        engine.dispose()


def backup(path: Path, destination: str) -> None:
    """A consistent copy of a SQLite file, others writing or not; mode 0600, replaced as a whole."""
    partial = f"{destination}.partial"
    descriptor = os.open(partial, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    try:
        source = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(partial)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # a backup is one file
        os.fsync(descriptor)
        os.replace(partial, destination)
    except BaseException:
        os.unlink(partial)
        raise
    finally:
        os.close(descriptor)
