"""Files that come into being as a whole or not at all; copies of SQLite files."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tilewright.core import DatabaseError
from tilewright.database.errors import explained

_SIDE_FILES = ("-wal", "-shm", "-journal")


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A new file of mode 0600 beside ``destination``, which takes its name at the end, or vanishes on an error.

    Raises ``DatabaseError`` where the folder cannot be written, or its disk is full.
    """
    partial = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.partial")
    with explained(str(destination)):
        try:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            yield partial
            with partial.open("rb+") as written:
                os.fsync(written.fileno())
            os.replace(partial, destination)
        except DatabaseError as e:
            raise DatabaseError(e.message.replace(str(partial), str(destination)), e.hint) from None
        finally:
            for suffix in ("", *_SIDE_FILES):
                Path(f"{partial}{suffix}").unlink(missing_ok=True)


def copy_file(source: Path, partial: Path) -> None:
    """Copy a SQLite file, others writing or not, into one that is there."""
    origin = sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True)
    with closing(origin), closing(sqlite3.connect(partial)) as copy:
        origin.backup(copy)
        one_file(copy)


def one_file(connection: sqlite3.Connection) -> None:
    """Without a log beside it."""
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
