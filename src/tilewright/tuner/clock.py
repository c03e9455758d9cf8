"""Wall time of a run by activity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Wall seconds of one thread: by activity (``spent``) and in total while the clock runs (``elapsed``)."""

    def __init__(self, spent: dict[str, float] | None = None) -> None:
        self.spent = {} if spent is None else spent
        self._before = 0.0
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._before, self._since = self.elapsed, None

    @contextmanager
    def on(self, activity: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[activity] = self.spent.get(activity, 0.0) + time.perf_counter() - start

    @property
    def elapsed(self) -> float:
        return self._before + (0.0 if self._since is None else time.monotonic() - self._since)
