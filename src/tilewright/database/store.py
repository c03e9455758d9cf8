"""``Store``, the base of the database's classes: transactions whose failures become ``DatabaseError``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Executable, Row, Select, Table, or_, select

from tilewright.columns import workload_of
from tilewright.core import DatabaseError, Task, UsageError
from tilewright.database import rows, schema
from tilewright.database.engine import Transactions
from tilewright.database.errors import damaged, explained
from tilewright.database.location import Location

T = TypeVar("T")


class Store:
    """An open database: a SQLite file, or a database on a PostgreSQL server.

    ``location``: its path, or its URL with the password masked, so it is safe to show and to store.
    """

    def __init__(self, location: Location, transactions: Transactions, readonly: bool) -> None:
        self.location = location.text
        self.readonly = readonly
        self._path = location.path
        self._transactions = transactions
        self._task_keys: dict[str, str] = {}  # by run
        self._gapless: dict[str, int] = {}  # by run: number of trials known to be stored from number 0 on, without gap

    @property
    def is_file(self) -> bool:
        """Whether the database is a SQLite file, which has a ``path``."""
        return self._path is not None

    @property
    def path(self) -> Path:
        """The SQLite file. Raises ``UsageError`` for a database on a server."""
        if self._path is None:
            raise UsageError(f"{self.location} is on a server, not in a file", "Use a SQLite file for this")
        return self._path

    def _read(self, work: Callable[[Connection], T], unreadable: list[str] | None = None) -> T:
        """Runs ``work`` on one state of the database. Retries call ``work`` again, with ``unreadable`` emptied."""

        def attempt(c: Connection) -> T:
            if unreadable is not None:
                unreadable.clear()
            return work(c)

        with explained(self.location):
            return self._transactions.read(attempt)

    def _ask(self, statement: Executable, given: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
        """Returns the rows of one statement. ``given``: its bound parameters by name."""
        with explained(self.location):
            return self._transactions.ask(statement, given)

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Runs ``work`` and commits. A retry may call ``work`` again after its commit, so it must be idempotent."""
        if self.readonly:
            raise DatabaseError(f"{self.location} was opened for reading only", "Open it without readonly")
        with explained(self.location):
            return self._transactions.write(work)

    def _tasks(
        self, c: Connection, keys: Iterable[tuple[str, str]], partly: bool = False
    ) -> dict[tuple[str, str], Task]:
        """Tasks by workload key and target key. ``partly``: leaves out tasks that are missing or cannot be read."""
        wanted = sorted(keys)

        def decoded(table: Table, these: set[str], make: Callable[[Row[Any]], T]) -> dict[str, T]:
            found = c.execute(select(table).where(table.c.key.in_(these)))
            bad: list[str] | None = [] if partly else None
            return dict(rows.each(self.location, table.name, found, lambda r: (str(r.key), make(r)), "key", bad))

        workloads = decoded(schema.workload, {k for k, _ in wanted}, lambda r: workload_of(r._mapping))
        targets = decoded(schema.target, {k for _, k in wanted}, lambda r: rows.target_of(r.data))
        tasks = {(k, tk): Task(workloads[k], targets[tk]) for k, tk in wanted if k in workloads and tk in targets}
        if len(tasks) < len(wanted) and not partly:
            raise damaged(self.location, "a run or kernel refers to a missing task")
        return tasks


def keys_named(op: str) -> Select[tuple[str]]:
    """A query for the keys of the workloads that an operator's name stands for."""
    w, s = schema.workload.c, schema.alias.c
    return select(w.key).where(or_(w.op == op, w.key.in_(select(s.workload_key).where(s.op == op))))


def of_task(workload_key: str, target_key: str, device_model: str) -> ColumnElement[bool]:
    """A condition that holds for the kernels of a task on a device model."""
    k = schema.kernel.c
    return (k.workload_key == workload_key) & (k.target_key == target_key) & (k.device_model == device_model)
