"""Reads kernels and their code from a database, with the standard library only.

Every read opens the file, reads one consistent state and closes it again. So no connection is shared between threads or
survives a fork.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from tilewright.columns import workload_of
from tilewright.core import DatabaseError, Workload
from tilewright.files import stamp
from tilewright.forking import ForkLock, steady
from tilewright.runtime.entry import Entry, Shapes, entry_of
from tilewright.runtime.pins import read_pins
from tilewright.runtime.trust import require_trust

SCHEMAS = ("0001", "0002", "0003")
"""Versions of the schema that this module reads; their tables have the columns below."""

_NAMES = """
    SELECT key AS workload_key, op, params, defaults, param_names FROM workload WHERE {workload}
    UNION ALL
    SELECT workload_key, op, params, defaults, param_names FROM alias WHERE {alias}
"""
_KERNELS = """
    SELECT n.workload_key, n.op, n.params, n.defaults, n.param_names, w.inputs, w.output, w.flops, w.precision,
           t.data AS target, k.device_model, k.run_id, k.schedule, k.launch_program, k.seconds,
           k.artifact_sha256, k.state, k.updated
    FROM ({names}) n
    JOIN workload w ON w.key = n.workload_key
    JOIN kernel k ON k.workload_key = n.workload_key AND k.rank <= :ranks
    JOIN target t ON t.key = k.target_key
"""
_OF_OP = _NAMES.format(workload="op = :op", alias="op = :op")
_BY_OP = _KERNELS.format(names=_OF_OP)
_BY_KEY = _KERNELS.format(names=_NAMES.format(workload="key = :key", alias="workload_key = :key"))
_EVERY = _KERNELS.format(names=_NAMES.format(workload="TRUE", alias="FALSE"))
_RANGES = _KERNELS.format(names=_NAMES.format(workload="inputs LIKE '%..%'", alias="FALSE"))
T = TypeVar("T")
_BUSY_SECONDS = 5.0
_RANKS = 1000  # all ranks of a task


class Store:
    """One SQLite file of tuned kernels. Safe from several threads and after a fork.

    Raises ``DatabaseError`` for a file that is missing or empty (unless ``missing_ok``), corrupt, of another version,
    or that other users can write (unless ``trust``). ``pinned``: a lock file; only its kernels are found, and a missing
    kernel is an error.
    """

    writable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        trust: bool = False,
        missing_ok: bool = False,
        pinned: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = file_of(os.fspath(path))
        self._trust = trust
        self._missing_ok = missing_ok
        self._lock = ForkLock()
        self._seen: tuple[object, ...] = ()
        self._entries: dict[str, tuple[Entry, ...]] = {}
        self._names: tuple[str, ...] | None = None
        self._ranges: tuple[Entry, ...] | None = None
        self._pins = None if pinned is None else read_pins(pinned)
        if self._pins is not None:
            self._pins.require(self.every(), self.path)
        else:
            self._read(lambda c: None)

    def names(self) -> tuple[str, ...]:
        """Names of the operators that were tuned, sorted."""
        with self._lock:
            self._refresh()
            if self._names is None:
                query = "SELECT op FROM workload UNION SELECT op FROM alias ORDER BY op"
                self._names = self._read(lambda c: tuple(r["op"] for r in c.execute(query))) or ()
            return self._names

    def entries(
        self, op: str, *, shapes: Shapes | None = None, params: Mapping[str, object] | None = None
    ) -> tuple[Entry, ...]:
        """All best kernels of an operator: one for each workload, target and device model."""
        with self._lock:
            self._refresh()
            found = self._entries.get(op)
            if found is None:
                found = self._entries[op] = self._kernels(_BY_OP, op=op)
            return found

    def samples(self, op: str) -> tuple[Entry, ...]:
        """Kernels of an operator, at least one for each target."""
        return self.entries(op)

    def entries_of(self, key: str, op: str) -> tuple[Entry, ...]:
        """Best kernels of one workload under any name; under the name ``op`` if the file has that."""
        found = self._kernels(_BY_KEY, key=key)
        return tuple(e for e in found if e.op == op) or tuple(replace(e, op=op) for e in found)

    def every(self) -> tuple[Entry, ...]:
        """The best kernel of every task, under its workload's own name."""
        return self._kernels(_EVERY)

    def ranges(self) -> tuple[Entry, ...]:
        """The best kernel of every task with a symbolic size."""
        with self._lock:
            self._refresh()
            if self._ranges is None:
                self._ranges = tuple(e for e in self._kernels(_RANGES) if e.ranges)
            return self._ranges

    def _kernels(self, query: str, **wanted: str) -> tuple[Entry, ...]:
        """Best kernels; with pins, the pinned kernel of each pinned task only."""
        pins = self._pins
        given = {**wanted, "ranks": 1 if pins is None else _RANKS}
        found = self._read(lambda c: tuple(entry_of(r) for r in c.execute(query, given))) or ()
        return found if pins is None else tuple(e for e in found if pins.holds(e))

    def choices(self) -> frozenset[tuple[object, ...]]:
        """The set of kernels to serve, by task, code and state; it changes when other kernels become the best."""
        query = """
            SELECT workload_key, target_key, device_model, artifact_sha256, schedule, state, updated
            FROM kernel WHERE rank = 1
        """
        return self._read(lambda c: frozenset(map(tuple, c.execute(query)))) or frozenset()

    def stamp(self) -> tuple[object, ...]:
        """A value that changes when the file is written, without reading the file."""
        return _stamps(self.path)

    def workloads(self, op: str) -> tuple[Workload, ...]:
        """Every workload of that name with its program, tuned here or not; the latest first."""
        query = f"""
            SELECT n.op, n.params, n.defaults, n.param_names, w.program, w.inputs, w.output, w.flops, w.precision
            FROM ({_OF_OP}) n JOIN workload w ON w.key = n.workload_key ORDER BY w.created DESC
        """
        return self._read(lambda c: tuple(workload_of(r) for r in c.execute(query, {"op": op}))) or ()

    def code(self, sha256: str) -> bytes:
        """An artifact's bytes, not checked against the hash yet. Raises ``DatabaseError``."""
        row = self._read(lambda c: c.execute("SELECT data FROM artifact WHERE sha256 = ?", (sha256,)).fetchone())
        if row is None:
            raise DatabaseError(f"{self.path} lacks the code {sha256[:12]} of a kernel", "Tune it again")
        return bytes(row["data"])

    def write(self, statement: str, rows: Sequence[tuple[object, ...]], patience: float) -> None:
        """Executes ``statement`` for all ``rows`` in one transaction.

        Raises ``sqlite3.Error``, also when the file stays locked for ``patience`` seconds.
        """
        with steady:
            if not self._trust:
                require_trust(self.path)
            uri = f"file:{quote(str(self.path))}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=patience)) as connection, connection:
                connection.executemany(statement, rows)

    def _present(self) -> bool:
        if self.path.exists():
            return True
        if self._missing_ok:
            return False
        raise DatabaseError(
            f"there is no database at {self.path}",
            "Make one with tilewright tune, name another file, or pass missing_ok=True",
        )

    def _filled(self, connection: sqlite3.Connection) -> bool:
        """Whether the file has its tables; another process may be about to create them in an empty file."""
        tables = {r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables:
            _check_version(connection, self.path, tables)
        elif not self._missing_ok:
            raise DatabaseError(f"{self.path} is empty", "Fill it: tilewright tune OP KEY=VALUE...")
        return bool(tables)

    def _refresh(self) -> None:
        """Clears cached reads if the file has changed."""
        seen = _stamps(self.path)
        if seen != self._seen:
            self._seen, self._names, self._ranges = seen, None, None
            self._entries.clear()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of ``work`` inside one read transaction; ``None`` for a missing or empty file."""
        if not self._present():
            return None
        give_up = time.monotonic() + _BUSY_SECONDS
        while True:
            before = _stamps(self.path)
            # With an empty log, the file alone is complete and is read as immutable. That takes no lock and creates no
            # file beside it, so a read-only folder suffices. If the file was touched during the read, the result is
            # discarded.
            alone = all(not s or s[1] == 0 for s in before[1:])
            try:
                with steady, _explained(self.path):
                    if not self._trust:
                        require_trust(self.path)
                    with closing(_connect(self.path, immutable=alone)) as connection:
                        connection.execute("BEGIN")
                        result = work(connection) if self._filled(connection) else None
                if not alone or _stamps(self.path) == before:
                    return result
            except _Busy:
                pass
            except DatabaseError:
                if not alone or _stamps(self.path) == before:
                    raise
            if time.monotonic() > give_up:
                raise DatabaseError(
                    f"{self.path} stayed locked by another process", "Wait for it to end, then try again"
                )
            time.sleep(0.01)


class _Busy(Exception):
    """Another process has locked the file briefly."""


def file_of(path: str) -> Path:
    """The file that a path or a URL names, with links resolved. Raises ``DatabaseError``."""
    scheme, found, rest = path.partition("://")
    if found:
        if scheme.split("+")[0] != "sqlite":
            raise DatabaseError(
                f"the runtime reads SQLite files, not {scheme} databases",
                "Export its kernels to a file: tilewright db export --best FILE",
            )
        path = unquote(rest.removeprefix("/").partition("?")[0])
    # Without links in the path, the file that is checked for trust is the file that is opened.
    return Path(os.path.realpath(os.path.expanduser(path)))


def _stamps(path: Path) -> tuple[tuple[int, ...], ...]:
    """Stamps of a database's file and logs, which change whenever the database is written."""
    return tuple(stamp(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))


def _connect(path: Path, *, immutable: bool) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=ro{'&immutable=1' if immutable else ''}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
    connection.row_factory = sqlite3.Row
    return connection


def _check_version(connection: sqlite3.Connection, path: Path, tables: set[str]) -> None:
    if not {"alembic_version", "workload", "kernel", "artifact"} <= tables:
        raise DatabaseError(f"{path} is not a Tilewright database", "Name another file")
    found = [r[0] for r in connection.execute("SELECT version_num FROM alembic_version")]
    if len(found) == 1 and found[0] in SCHEMAS:
        return
    shown = ", ".join(map(str, found)) or "none"
    if len(found) == 1 and str(found[0]) < SCHEMAS[0]:
        raise DatabaseError(f"{path} has the older schema {shown}", f"Upgrade it: tilewright db upgrade --db {path}")
    raise DatabaseError(
        f"{path} has schema {shown}, made by a newer version; this one reads {SCHEMAS[-1]}", "Upgrade Tilewright"
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raises SQLite's and the system's errors as ``DatabaseError``, and transient locks as ``_Busy``."""
    try:
        yield
    except sqlite3.Error as e:
        code = getattr(e, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
            raise _Busy from None
        if code == sqlite3.SQLITE_CANTOPEN:
            raise DatabaseError(f"{path} cannot be opened", "Check that it and its folder can be read") from e
        raise DatabaseError(f"{path} is damaged or no database ({e})", "Restore a copy, or tune again") from e
    except OSError as e:
        raise DatabaseError(f"{path} cannot be read: {e.strerror}", "Check its path and mode") from e
    except (KeyError, IndexError, TypeError, ValueError) as e:
        raise DatabaseError(
            f"{path} holds a row that cannot be read ({type(e).__name__}: {e})", "Restore a copy, or tune again"
        ) from e
