"""Progress of work that comes in steps: a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

import click

from tilewright.cli.output import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 5.0  # seconds between plain lines


class Steps:
    """``total`` steps of one thing; use it as a context manager."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._said = time.monotonic()
        self._bar: Progress | None = None
        self._row: TaskID | None = None

    def __enter__(self) -> Steps:
        if console(stderr=True).is_terminal and self.total > 1:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"), console=console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.start()
            self._row = self._bar.add_task(self.what, total=self.total, note="")
        return self

    def step(self, note: str = "") -> None:
        """One more is done; ``note`` says how it stands."""
        self.done += 1
        if self._bar is not None and self._row is not None:
            self._bar.update(self._row, advance=1, note=note)
            return
        now = time.monotonic()
        if now - self._said >= EVERY and self.done < self.total:
            self._said = now
            click.echo(f"tilewright: {self.what}: {self.done}/{self.total}{f', {note}' if note else ''}", err=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
