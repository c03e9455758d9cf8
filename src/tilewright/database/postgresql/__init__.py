"""PostgreSQL behind SQLAlchemy: connections, and locks that last for one transaction.

Reads are REPEATABLE READ and read-only. A call's statements see one state, as on SQLite, and PostgreSQL never aborts a
read-only transaction for a conflict. Writes are READ COMMITTED: every statement sees the rows that other clients have
committed meanwhile, as "insert missing rows, then read them" needs. Under REPEATABLE READ these statements fail and
must start again whenever two clients store one row. A write that depends on rows it has read locks them first: a row by
``FOR UPDATE``, a name by ``take_turns``.

The pool does not test connections before use. A broken connection fails at its first statement, and the pool then drops
all of its connections. The transaction begins again on a new connection, as after a later failure of the server.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.pool import QueuePool

from tilewright.core import DatabaseError
from tilewright.errors import needed

_CONNECTIONS = 4  # kept open in one process; at peaks, 4 more are opened
_RECYCLE_SECONDS = 1800
_IDLE_SECONDS = 60  # after which the server ends a transaction whose client has vanished, with its locks
# A lost network is noticed within half a minute, not after the system's two hours. The URL may override these options.
_CONNECT = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
    "application_name": "tilewright",
}


def postgresql_engine(url: URL, timeout: float) -> Engine:
    """Creates an engine, which connects at its first use. ``timeout``: seconds to wait for a lock.

    Raises ``DatabaseError`` without psycopg.
    """
    psycopg = needed("psycopg", "PostgreSQL needs the package psycopg", "postgresql", DatabaseError)
    engine = create_engine(
        url,
        module=psycopg,
        poolclass=QueuePool,
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        pool_timeout=max(timeout, 1.0),
        pool_recycle=_RECYCLE_SECONDS,
        pool_use_lifo=True,
        use_native_hstore=False,
        hide_parameters=True,
        connect_args={name: value for name, value in _CONNECT.items() if name not in url.query},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, false),"
                " set_config('idle_in_transaction_session_timeout', %s, false)",
                (f"{max(1, int(1000 * timeout))}ms", f"{_IDLE_SECONDS}s"),
            )
        connection.commit()

    return engine


def take_turns(connection: Connection, *name: str) -> None:
    """Takes the advisory lock of a name and holds it until the transaction ends.

    Take it before any other lock, to exclude deadlocks. On SQLite it does nothing: only one client writes at a time.
    """
    if connection.dialect.name == "postgresql":
        hashed = hashlib.sha256("\0".join(("tilewright", *name)).encode()).digest()
        key = int.from_bytes(hashed[:8], "big", signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(key)))


def size(connection: Connection) -> int:
    """Bytes that the database takes on its server's disk."""
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
