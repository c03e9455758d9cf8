"""Transfers runs, trials and winners between databases: as JSON Lines, or directly.

Schedules and times are transferred, compiled code never is: a winner from elsewhere is built and checked here before it
is served (``transfer/winners.py``). Importing is idempotent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tilewright.core import UsageError
from tilewright.database.database import Database
from tilewright.database.errors import explained
from tilewright.database.transfer.export import records
from tilewright.database.transfer.files import backup, export_best, write_lines
from tilewright.database.transfer.format import Record, from_lines, to_lines
from tilewright.database.transfer.garbage import Freed, collect
from tilewright.database.transfer.importer import Imported, Importer, Progress
from tilewright.database.transfer.winners import Winner, settle, winners

__all__ = [
    "Freed", "Imported", "Winner", "backup", "collect", "export_best", "export_file", "export_lines", "import_file",
    "import_stream", "merge", "settle", "winners",
]  # fmt: skip


def export_lines(
    database: Database, op: str | None = None, runs: Sequence[str] = (), progress: Progress | None = None
) -> Iterator[str]:
    """The lines of an export of one operator, of ``runs`` (or ``last``), or of everything."""
    return to_lines(_counted(records(database, op, runs), progress))


def export_file(
    database: Database,
    destination: Path,
    op: str | None = None,
    runs: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Writes an export to a file of mode 0600, atomically. Raises as ``write_lines`` does."""
    write_lines(destination, export_lines(database, op, runs, progress))


def import_stream(database: Database, stream: BinaryIO, name: str, progress: Progress | None = None) -> Imported:
    """Imports an export from a stream. Raises ``DatabaseError`` at the first invalid line."""
    with explained(name):
        return Importer(database, name, progress).take(from_lines(stream, name))


def import_file(database: Database, source: Path, progress: Progress | None = None) -> Imported:
    """Imports an export from a file. Raises ``DatabaseError`` at the first invalid line."""
    with explained(str(source)), source.open("rb") as stream:
        return import_stream(database, stream, str(source), progress)


def merge(database: Database, source: Database, progress: Progress | None = None) -> Imported:
    """Imports everything but compiled code from another database. Raises ``UsageError`` if ``source`` is
    ``database``."""
    files = database.is_file and source.is_file
    if database.location == source.location or (files and os.path.samefile(database.path, source.path)):
        raise UsageError(f"{source.location} is the database itself", "Name another one")
    found = ((source.location, record) for record in records(source))
    return Importer(database, source.location, progress).take(found)


def _counted(found: Iterator[Record], progress: Progress | None) -> Iterator[Record]:
    runs = trials = 0
    for record in found:
        runs += record["kind"] == "run"
        trials += record["kind"] == "trial"
        if progress is not None:
            progress(runs, trials)
        yield record
