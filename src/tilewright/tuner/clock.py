"""Where the time of a run goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Wall seconds spent by one thread, by activity: ``spent``."""

    def __init__(self, spent: dict[str, float] | None = None) -> None:
        self.spent = {} if spent is None else spent
        self.started = time.monotonic()

    @contextmanager
    def on(self, activity: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[activity] = self.spent.get(activity, 0.0) + time.perf_counter() - start

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started
