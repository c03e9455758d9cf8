"""Progress of work in steps, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tilewright.cli.output import say
from tilewright.closing import Closing
from tilewright.tuner.progress import EVERY, bar, terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Steps(Closing):
    """Progress of ``total`` steps; use it as a context manager."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._said = time.monotonic()
        self._bar: Progress | None = None
        self._row: TaskID | None = None
        if terminal() and total > 1:
            self._bar = bar(transient=True)
            self._bar.start()
            self._row = self._bar.add_task(what, total=total, note="")

    def step(self, note: str = "") -> None:
        """Counts a finished step; ``note``: a short status."""
        self.done += 1
        if self._bar is not None and self._row is not None:
            self._bar.update(self._row, advance=1, note=note)
            return
        now = time.monotonic()
        if now - self._said >= EVERY and self.done < self.total:
            self._said = now
            say(f"{self.what}: {self.done}/{self.total}{f', {note}' if note else ''}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
