"""Atomic replacement of files, and copies of SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tilewright import files
from tilewright.core import DatabaseError
from tilewright.database.errors import explained

_SIDE_FILES = ("-wal", "-shm", "-journal")


@contextmanager
def replacing(destination: Path, mode: int = files.PRIVATE) -> Iterator[Path]:
    """:func:`tilewright.files.replacing` for a file that may be a database: its journal files are removed too.

    Raises ``DatabaseError`` if the folder cannot be written, or its disk is full.
    """
    with explained(str(destination)), files.replacing(destination, mode) as partial:
        try:
            yield partial
        except DatabaseError as e:
            raise DatabaseError(e.message.replace(str(partial), str(destination)), e.hint) from None
        finally:
            for suffix in _SIDE_FILES:
                Path(f"{partial}{suffix}").unlink(missing_ok=True)


def copy_file(source: Path, partial: Path) -> None:
    """Copies a SQLite file into the existing file ``partial``, consistently, even while other processes write it."""
    origin = sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)
    with closing(origin), closing(sqlite3.connect(partial)) as copy:
        origin.backup(copy)
        one_file(copy)


def one_file(connection: sqlite3.Connection) -> None:
    """Leaves WAL mode, so that the database is a single file without a log beside it."""
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
