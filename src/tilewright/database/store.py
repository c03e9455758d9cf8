"""What every part of the database stands on: transactions whose failures are explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, select

from tilewright.core import DatabaseError, Target, Task, Workload
from tilewright.database import rows, schema
from tilewright.database.engine import Transactions
from tilewright.database.errors import damaged, explained

T = TypeVar("T")


class Store:
    """An open database file."""

    def __init__(self, path: Path, transactions: Transactions, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self._transactions = transactions

    def _read(self, work: Callable[[Connection], T]) -> T:
        with explained(str(self.path)):
            return self._transactions.read(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        if self.readonly:
            raise DatabaseError(f"{self.path} was opened for reading only", "Open it without readonly")
        with explained(str(self.path)):
            return self._transactions.write(work)

    def _tasks(self, c: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Task]:
        """Tasks by workload key and target key."""
        w, t = schema.workload, schema.target
        workloads: dict[str, Workload] = {}
        targets: dict[str, Target] = {}
        wanted = sorted(keys)
        with rows.decoding(str(self.path), "workload"):
            for r in c.execute(select(w).where(w.c.key.in_({k for k, _ in wanted}))):
                workloads[r.key] = rows.workload_of(r)
        with rows.decoding(str(self.path), "target"):
            for r in c.execute(select(t).where(t.c.key.in_({k for _, k in wanted}))):
                targets[r.key] = rows.target_of(r.data)
        try:
            return {(k, tk): Task(workloads[k], targets[tk]) for k, tk in wanted}
        except KeyError:
            raise damaged(str(self.path), "a run or kernel refers to a missing task") from None
