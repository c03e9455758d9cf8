"""Turns database failures into one-line messages: the database, the cause, and how to correct it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tilewright.core import DatabaseError
from tilewright.database.postgresql import errors as postgresql_errors

ELSEWHERE = "name another file with --db"

_FULL = ("is full: no room is left on its disk", f"Free some space, or {ELSEWHERE}")
_DISK = ("cannot be read or written: its disk reported an error", f"Check the disk, or {ELSEWHERE}")
_NOT_PERMITTED = ("may not be accessed", f"Check its owner and mode, or {ELSEWHERE}")
_LOCKED = ("stayed locked by another process", "Wait for that process to end, then try again")
_NO_RIGHTS = ("may not be accessed", f"Check the owner and mode of the file and its folders, or {ELSEWHERE}")

# By SQLite's primary result code: the cause, as a predicate of the file, and the hint.
_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: ("cannot be written", f"Make it and its folder writable, or {ELSEWHERE}"),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        f"Check that it and its folder can be read and written, or {ELSEWHERE}",
    ),
    sqlite3.SQLITE_PERM: _NOT_PERMITTED,
    sqlite3.SQLITE_AUTH: _NOT_PERMITTED,
    sqlite3.SQLITE_NOTADB: ("is not a database", f"Check the path, or {ELSEWHERE}"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", f"Restore a backup or move it away, or {ELSEWHERE}"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_TOOBIG: ("cannot take a value this large", "Tune a smaller kernel"),
    sqlite3.SQLITE_NOMEM: ("cannot be read: memory ran out", "Free some memory, then try again"),
}

_OS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EIO: _DISK,
    errno.EROFS: ("is on a read-only disk", f"Make the disk writable, or {ELSEWHERE}"),
    errno.EACCES: _NO_RIGHTS,
    errno.EPERM: _NO_RIGHTS,
    errno.EISDIR: ("is a folder", "Name a file in it with --db"),
    errno.ENOTDIR: ("lies under something that is not a folder", f"Check the path, or {ELSEWHERE}"),
}


def primary_code(error: BaseException) -> int | None:
    """SQLite's primary result code of an error; ``None`` if the error is not SQLite's."""
    code = _code(error)
    return None if code is None else code & 0xFF


def _code(error: BaseException) -> int | None:
    """SQLite's extended result code of an error; ``None`` if the error is not SQLite's."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(origin, "sqlite_errorcode", None)
    return code if isinstance(code, int) else None


def is_busy(error: BaseException) -> bool:
    """Whether a transaction failed because of another client's lock or conflict, so that a retry may succeed."""
    if postgresql_errors.is_conflict(error):
        return True
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def already_holds(name: str) -> DatabaseError:
    """The error for rows that would replace other rows."""
    return DatabaseError(
        f"{name} already holds one of these rows; nothing was stored", "Check that no other process uses this run"
    )


def explain(name: str, error: BaseException) -> DatabaseError:
    """Converts a failure of database ``name`` to an error for the user."""
    if postgresql_errors.origin(error) is not None:
        cause, hint = postgresql_errors.explain(error)
        return DatabaseError(f"{name} {cause}", hint)
    if isinstance(error, PoolTimeout):
        return DatabaseError(f"{name} has no connection left for this thread", "Use fewer threads at once")
    if isinstance(error, OSError):
        cause, hint = _OS.get(
            error.errno or 0, (f"cannot be opened: {error.strerror}", f"Check the path, or {ELSEWHERE}")
        )
        return DatabaseError(f"{name} {cause}", hint)
    code = primary_code(error)
    if code in _SQLITE:
        cause, hint = _SQLITE[code]
        return DatabaseError(f"{name} {cause}", hint)
    if code == sqlite3.SQLITE_CONSTRAINT:
        if _code(error) != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            return already_holds(name)
        return DatabaseError(
            f"{name} lacks a row that these refer to; nothing was stored", "Check that no other process uses this run"
        )
    origin = error.orig if isinstance(error, DBAPIError) else error
    first_line = (str(origin).splitlines() or [""])[0]
    return DatabaseError(f"{name} failed: {first_line}", f"Check the file, or {ELSEWHERE}")


def damaged(name: str, what: str) -> DatabaseError:
    """The error for a row with an invalid value."""
    cause, hint = _SQLITE[sqlite3.SQLITE_CORRUPT]
    return DatabaseError(f"{name} {cause}: {what}", hint)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Context that turns errors of SQLAlchemy, the drivers and the system into ``DatabaseError``."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as e:
        raise explain(name, e) from None
