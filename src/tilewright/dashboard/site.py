"""The database, the farm, and the cached values that all readers of pages share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tilewright.dashboard.farm_source import FarmSource
from tilewright.database import Database
from tilewright.database.records import OperatorSummary

T = TypeVar("T")
KEPT = 256
"""Most cached values."""


@dataclass
class _Answer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    until: float = 0.0


class Answers:
    """A cache of values for a few seconds; each value is computed once, even if several readers ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    def get(self, key: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """The value of ``key``, computed by ``make`` if the cached value is older than ``seconds``."""
        with self._lock:
            if key not in self._answers:
                self._drop_old()
            answer = self._answers.setdefault(key, _Answer())
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        with answer.lock:
            if time.monotonic() >= answer.until:
                answer.value = make()
                answer.until = time.monotonic() + seconds
            value: T = answer.value
            return value

    def forget(self, key: Hashable) -> None:
        """Drops a cached value."""
        with self._lock:
            self._answers.pop(key, None)

    def _drop_old(self) -> None:
        """Drops expired values: a run's trials take much memory, and a live run's key changes with each trial."""
        now = time.monotonic()
        for key in [k for k, a in self._answers.items() if a.until <= now and not a.lock.locked()]:
            del self._answers[key]


@dataclass(frozen=True)
class Site:
    """The data sources of all pages. ``farm`` is ``None`` if no farm is configured."""

    database: Database
    farm: FarmSource | None = None
    answers: Answers = field(default_factory=Answers)

    def changed(self, run_id: str) -> None:
        """Drops a run's cached data after its note was written, so that the writer sees the note at once."""
        self.answers.forget(("run", run_id))

    def operators(self) -> list[OperatorSummary]:
        """The operators with a workload in the database, by name."""
        return self.answers.get("operators", 2.0, self.database.operators)
