"""Writes exports, backups and files of kernels, which replace only files of their own kind."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, select

from tilewright.core import DatabaseError, UsageError
from tilewright.database import schema
from tilewright.database.copies import copy_file, one_file, replacing
from tilewright.database.database import Database
from tilewright.database.errors import explained
from tilewright.database.rows import insert_new
from tilewright.database.store import keys_named, of_task
from tilewright.database.transfer.format import FORMAT
from tilewright.errors import NotFound

_SQLITE = b"SQLite format 3\0"
_LINES = f'{{"format":"{FORMAT}"'.encode()


def write_lines(destination: Path, lines: Iterable[str]) -> None:
    """Writes an export. Raises ``UsageError`` if a file of another kind has its name, and ``DatabaseError``."""
    require_replaceable(destination, _LINES, "an export of Tilewright")
    with replacing(destination) as partial, partial.open("w", encoding="ascii") as out:
        out.writelines(lines)


def backup(database: Database, destination: Path, force: bool = False) -> int:
    """Makes a consistent copy of a SQLite database, even while other processes write it; returns its size in bytes.

    ``force``: replaces a file of that name, unless it is an open database. Raises ``UsageError`` for a database on a
    server and for a taken name, and ``DatabaseError``.
    """
    if not database.is_file:
        raise UsageError(f"{database.location} is not a SQLite file", "Back up PostgreSQL with pg_dump")
    source = Path(os.path.realpath(database.path))
    _new_file(destination, force, source)
    with replacing(destination) as partial:
        copy_file(source, partial)
        with closing(sqlite3.connect(partial)) as copy:
            if copy.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise DatabaseError(f"{source} is damaged", "Restore an earlier backup")
        return partial.stat().st_size


def export_best(
    database: Database, destination: Path, op: str | None = None, progress: Callable[[int, int], None] | None = None
) -> int:
    """Writes the best kernels, with their code, to a SQLite file for ``Library``; returns their number.

    Writes the best kernel of each task and device model if it is verified, with its run and without the run's trials.
    ``progress`` is called with the number of written kernels and their total. An earlier file of kernels is replaced.
    Raises ``UsageError`` for any other file of that name and without a kernel to write, and ``DatabaseError``.
    """
    k = schema.kernel.c
    wanted = select(k.workload_key, k.target_key, k.device_model).where(k.rank == 1, k.state == "verified")
    if op is not None:
        wanted = wanted.where(k.workload_key.in_(keys_named(op)))
    slots = sorted((x[0], x[1], x[2]) for x in database._read(lambda c: c.execute(wanted).all()))
    if not slots:
        raise NotFound(
            f"{database.location} holds no verified kernel{f' of {op}' if op else ''}",
            "Tune a task first, or build the imported winners: tilewright db rebuild",
        )
    _replaceable(destination)
    count = 0
    with replacing(destination) as partial:
        with Database.open(partial) as out:
            for done, slot in enumerate(slots):
                count += _copy_kernel(database, out, *slot)
                if progress is not None:
                    progress(done + 1, len(slots))
        with closing(sqlite3.connect(partial, isolation_level=None)) as one:
            one_file(one)
    return count


def _copy_kernel(database: Database, out: Database, workload_key: str, target_key: str, device_model: str) -> bool:
    """Copies a task's best kernel and all rows that it refers to; ``False`` if it was replaced or removed meanwhile."""
    k, w, s, t, r, a = (
        schema.kernel, schema.workload, schema.alias, schema.target, schema.run, schema.artifact
    )  # fmt: skip
    kernel = database._read(
        lambda c: c.execute(
            select(k).where(of_task(workload_key, target_key, device_model), k.c.rank == 1, k.c.state == "verified")
        ).one_or_none()
    )
    if kernel is None or (code := database.artifact(kernel.artifact_sha256)) is None:
        return False
    targets = {target_key, code.target.key}
    needed = [
        (t, select(t).where(t.c.key.in_(targets))),
        (w, select(w).where(w.c.key == workload_key)),
        (s, select(s).where(s.c.workload_key == workload_key)),
        (r, select(r).where(r.c.id == kernel.run_id)),
        (a, select(a).where(a.c.sha256 == kernel.artifact_sha256)),
    ]
    found = database._read(lambda c: [(table, c.execute(query).all()) for table, query in needed])
    missing = [table.name for table, got in found if not got and table is not s and table is not r]
    if missing:
        return False  # removed between the two reads
    values = [(table, [dict(x._mapping) for x in got]) for table, got in found] + [(k, [dict(kernel._mapping)])]

    def work(c: Connection) -> None:
        for table, new in values:
            insert_new(c, table, new)

    out._write(work)
    return True


def _replaceable(destination: Path) -> None:
    """Raises ``UsageError`` unless the name is free, or of a file of kernels, which has no trial."""
    require_replaceable(destination, _SQLITE, "a database")
    if not destination.exists() or not destination.stat().st_size:
        return
    _nobody_writes(destination)
    with Database.open(destination, create=False, readonly=True) as old:
        if old._read(lambda c: c.execute(select(schema.trial.c.number).limit(1)).first()) is not None:
            raise UsageError(f"{destination} is a database that holds trials", "Name another file")


def require_replaceable(destination: Path, begins: bytes, what: str) -> None:
    """Raises ``UsageError`` unless the name is free, or of a file that is empty or begins with ``begins``. ``what``:
    the kind of file, for the message."""
    with explained(str(destination)):
        _plain_file(destination)
        if destination.exists():
            with destination.open("rb") as there:
                if there.read(len(begins)) not in (begins, b""):
                    raise UsageError(f"{destination} exists, and is not {what}", "Name another file")


def _new_file(destination: Path, force: bool, source: Path) -> None:
    with explained(str(destination)):
        _plain_file(destination)
        if destination.exists() and os.path.samefile(destination, source):
            raise UsageError(f"{destination} is the database itself", "Name another file")
        if destination.exists() and not force:
            raise UsageError(f"{destination} exists already", "Name another file, or add --force")
    _nobody_writes(destination)


def _plain_file(destination: Path) -> None:
    if destination.exists() and not stat.S_ISREG(destination.stat().st_mode):
        raise UsageError(f"{destination} is not a regular file", "Name another file")
    if not destination.parent.is_dir():
        raise UsageError(f"there is no folder {destination.parent}", "Make it, or name another file")


def _nobody_writes(destination: Path) -> None:
    """Raises ``UsageError`` if a log lies beside ``destination``: SQLite would replay it into the new file."""
    for suffix in ("-wal", "-journal"):
        log = Path(f"{destination}{suffix}")
        if log.exists():
            raise UsageError(
                f"{destination} is in use, or a program crashed while it wrote the file: {log} exists",
                "Stop the programs that use it, or name another file",
            )
