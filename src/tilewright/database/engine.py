"""Transactions with retries on any database, and the permissions and pragmas of SQLite files."""

from __future__ import annotations

import functools
import os
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, Executable, Row, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.pool import NullPool, Pool, QueuePool
from sqlalchemy.util import LRUCache

from tilewright.core import DatabaseError
from tilewright.database.errors import is_busy, primary_code
from tilewright.database.postgresql.errors import is_lost

T = TypeVar("T")

_BUSY_SECONDS = 5.0  # seconds that one attempt waits inside SQLite; the retries around it wait longer
_OF_THE_CONNECTION = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""SQLite result codes of failures that a new connection may not have."""
_LEAST_BYTES = 16  # least size of a non-empty database file; SQLite would overwrite a file of one byte


def check_file(path: Path, *, create: bool, readonly: bool) -> None:
    """Checks that ``path`` is a file that can be opened. ``create``: makes a missing file (mode 0600) and its folders
    (mode 0700).

    Raises ``DatabaseError`` or ``OSError``.
    """
    if not path.exists():
        if readonly or not create:
            raise DatabaseError(
                f"there is no database at {path}", "Check the path, or make one: tilewright tune OP KEY=VALUE..."
            )
        for folder in reversed([p for p in path.parents if not p.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise DatabaseError(f"{path} is a folder", "Name a file in that folder")
    if not stat.S_ISREG(mode):
        raise DatabaseError(f"{path} is not a regular file", "Give the path of a file")
    if 0 < path.stat().st_size < _LEAST_BYTES:
        raise DatabaseError(f"{path} is not a database", "Check the path, or name another file with --db")
    if not _may(path, os.R_OK):
        raise DatabaseError(f"{path} cannot be read", "Check its owner and mode, or name another file with --db")
    if readonly:
        return
    for place, what in ((path, "is read-only"), (path.parent, "is in a read-only folder")):
        if not _may(place, os.W_OK):
            raise DatabaseError(
                f"{path} {what}", "Make the file and its folder writable, or name another file with --db"
            )


def _follow(engine: Engine, path: Path) -> None:
    """Has the pool open the file again after it was replaced or removed: an old connection would read the old file for
    ever."""

    def identity() -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @event.listens_for(engine, "connect")
    def _remember(_connection: sqlite3.Connection, record: Any) -> None:
        record.info["file"] = identity()

    @event.listens_for(engine, "checkout")
    def _compare(_connection: sqlite3.Connection, record: Any, _proxy: Any) -> None:
        if record.info["file"] != identity():
            raise DisconnectionError(f"{path} is another file now")


_COMPILED = LRUCache[Any, Any](500)
"""Cache of compiled statements, shared by the engines of all SQLite files: compiling costs more than running them."""


@functools.cache
def _dialect() -> Dialect:
    """The dialect of the cached statements. It has connected once, so that SQLAlchemy has initialised it."""
    engine = create_engine("sqlite://")
    engine.connect().close()
    engine.dispose()
    return engine.dialect


def sqlite_engine(
    path: Path, timeout: float, *, readonly: bool = False, foreign_keys: bool = True, keep: bool = True
) -> Engine:
    """An engine on an existing file. ``keep``: whether idle connections stay open.

    SQLAlchemy emits every BEGIN (the driver is in autocommit mode). For connections with the execution option
    ``tilewright_write`` it is ``BEGIN IMMEDIATE``: a writer waits for the lock at the start, and never fails in the
    middle.
    """
    uri = f"file:{quote(str(path))}?mode={'ro' if readonly else 'rw'}"
    if readonly and not _can_coordinate(path):
        uri += "&immutable=1"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    pool: type[Pool] = QueuePool if keep else NullPool
    engine = create_engine("sqlite://", creator=connect, poolclass=pool)
    engine.dialect = _dialect()
    engine.update_execution_options(compiled_cache=_COMPILED)

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        for pragma in (
            f"busy_timeout={int(1000 * min(timeout, _BUSY_SECONDS))}",
            f"foreign_keys={'ON' if foreign_keys else 'OFF'}",
            "synchronous=FULL",  # an acknowledged trial, which took seconds of a device, outlives a power failure
            "trusted_schema=OFF",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "handle_error")
    def _distrust(context: ExceptionContext) -> None:
        # SQLite opens a file read-only where opening it for writing failed, and the connection stays read-only.
        if primary_code(context.original_exception) in _OF_THE_CONNECTION:
            context.is_disconnect = True  # the pool drops all of its connections

    if readonly and keep:
        _follow(engine, path)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("tilewright_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def use_wal(engine: Engine) -> None:
    """Switches the file to write-ahead logging. On file systems without shared memory it keeps its rollback journal."""
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        if driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            driver.execute("PRAGMA journal_mode=WAL").fetchone()


def patiently(attempt: Callable[[], T], timeout: float, lost: Callable[[BaseException], bool] = is_lost) -> T:
    """Runs ``attempt()``, with retries while other clients hold locks or the server cannot be reached.

    Waits ``timeout`` seconds for locks, and twice as long for a lost server, from its first failure on. ``lost`` tells
    which errors mean that the server may come back.
    """
    deadline = time.monotonic() + timeout
    back: float | None = None
    pause = 0.05
    while True:
        try:
            return attempt()
        except (DBAPIError, sqlite3.Error) as e:
            now = time.monotonic()
            if is_busy(e):
                if now >= deadline:
                    raise
                wait = random.uniform(0.002, 0.02)
            elif lost(e):
                back = now + 2 * timeout if back is None else back
                if now >= back:
                    raise
                wait = pause * random.uniform(0.5, 1.0)
                pause = min(2 * pause, 1.0)
            else:
                raise
        time.sleep(wait)


class Transactions:
    """Short transactions on one engine: any thread, any number of processes, safe after ``fork``.

    A transaction whose connection broke runs again. A commit whose answer was lost may have taken place, so the work of
    ``write`` must be idempotent.
    """

    def __init__(self, engine: Engine, timeout: float) -> None:
        self._engine = engine
        self._timeout = timeout
        self._pid = os.getpid()
        self._reading, self._writing, self._asking = _OPTIONS[engine.dialect.name]
        self._turn = _turn(engine)
        self._inherited: list[Pool] = []

    @property
    def engine(self) -> Engine:
        if os.getpid() != self._pid:
            # A connection must not cross a fork: the child neither uses nor closes the parent's connections.
            self._inherited.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._turn = _turn(self._engine)
            self._pid = os.getpid()
        return self._engine

    def read(self, work: Callable[[Connection], T]) -> T:
        """Runs ``work`` on one consistent view of the database."""

        def attempt() -> T:
            with self.engine.execution_options(**self._reading).begin() as connection:
                return work(connection)

        return patiently(attempt, self._timeout)

    def ask(self, statement: Executable, given: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
        """Returns the rows of one statement. A single statement sees one state of the database, so it needs no
        transaction."""

        def attempt() -> Sequence[Row[Any]]:
            with self.engine.execution_options(**self._asking).connect() as connection:
                return connection.execute(statement, given).all()

        return patiently(attempt, self._timeout)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Runs ``work`` and commits, atomically; runs it again after a conflict with another client."""
        writer = self.engine.execution_options(**self._writing)

        def attempt() -> T:
            with writer.begin() as connection:
                return work(connection)

        with self._turn:
            return patiently(attempt, self._timeout)

    def vacuum(self, tables: Iterable[str]) -> None:
        """Frees unused space.

        SQLite: rebuilds the file without its unused pages, and empties its log. PostgreSQL: frees the dead rows of
        ``tables`` and updates their statistics, while other clients go on.
        """
        server = f"VACUUM (ANALYZE) {', '.join(tables)}"

        def attempt() -> None:
            with self.engine.connect() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(server)
                    return
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.execute("VACUUM")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        with self._turn:
            patiently(attempt, self._timeout)

    def close(self) -> None:
        self.engine.dispose()


# Execution options for read(), write() and ask(), by dialect; database/postgresql says why.
_OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "sqlite": ({}, {"tilewright_write": True}, {}),
    "postgresql": (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
        {"isolation_level": "READ COMMITTED"},
        {"isolation_level": "AUTOCOMMIT"},
    ),
}


def _turn(engine: Engine) -> AbstractContextManager[Any]:
    """Lock by which writing threads queue: SQLite's own waiting sleeps and polls. PostgreSQL queues by itself."""
    return threading.Lock() if engine.dialect.name == "sqlite" else nullcontext()


def _can_coordinate(path: Path) -> bool:
    """Whether a reader can see a writer's log: the log exists already, or its index can be created."""
    return _may(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists()


def _may(path: Path, access: int) -> bool:
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)
