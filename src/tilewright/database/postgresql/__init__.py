"""PostgreSQL behind SQLAlchemy: connections, and locks that last for one transaction.

Reads are REPEATABLE READ and read-only: a call's statements see one state, as they do on SQLite, and
such transactions are never sent back. Writes are READ COMMITTED: every statement sees what others have
stored meanwhile, which is what "insert what is missing, then read it" needs; under REPEATABLE READ the
same statements fail and have to start again whenever two clients store the same row. Where a write
rests on what it has read, it locks that first: a row (``FOR UPDATE``), or a name (``take_turns``).

Connections are not tried before each use: a broken one fails at its first statement, which drops all of
the pool's, and the transaction begins again on a new one, as it does when a server fails later on.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.pool import QueuePool

from tilewright.core import DatabaseError
from tilewright.errors import needed

_CONNECTIONS = 4  # kept open in one process; as many again for a moment
_RECYCLE_SECONDS = 1800
_IDLE_SECONDS = 60  # a transaction whose client vanished holds its locks no longer than this

# A cut network is noticed within half a minute, not after the system's two hours. The URL may state others.
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
    """An engine that connects when it is first used. ``timeout``: seconds to wait for a lock.

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
    """Wait for the lock of that name and hold it until the transaction ends.

    To be taken before anything else, so that no two transactions wait for each other. On SQLite,
    whose writers take turns anyway, it does nothing.
    """
    if connection.dialect.name == "postgresql":
        hashed = hashlib.sha256("\0".join(("tilewright", *name)).encode()).digest()
        key = int.from_bytes(hashed[:8], "big", signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(key)))


def size(connection: Connection) -> int:
    """Bytes that the database takes on its server's disk."""
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
