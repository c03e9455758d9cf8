"""The database, the farm, and the answers that several readers of pages share."""

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
"""The most answers that are kept."""


@dataclass
class _Answer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    until: float = 0.0


class Answers:
    """Values that are kept for a few seconds: each is made once, however many readers ask for it meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, _Answer] = OrderedDict()

    def get(self, key: Hashable, seconds: float, make: Callable[[], T]) -> T:
        """The value of ``key``, made anew if it is older than ``seconds`` (counted from when it was there)."""
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
        """Let a value be made anew, whatever its age."""
        with self._lock:
            self._answers.pop(key, None)

    def _drop_old(self) -> None:
        """Drop expired values: a run's trials are many, and the key of a live run changes with each trial."""
        now = time.monotonic()
        for key in [k for k, a in self._answers.items() if a.until <= now and not a.lock.locked()]:
            del self._answers[key]


@dataclass(frozen=True)
class Site:
    """``farm`` is ``None`` where no farm was named."""

    database: Database
    farm: FarmSource | None = None
    answers: Answers = field(default_factory=Answers)

    def changed(self, run_id: str) -> None:
        """Somebody wrote about a run: whoever did sees it at once."""
        self.answers.forget(("run", run_id))

    def operators(self) -> list[OperatorSummary]:
        """The operators with a workload in the database, by name."""
        return self.answers.get("operators", 2.0, self.database.operators)
