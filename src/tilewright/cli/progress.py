"""Progress of a tuning run: a live bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from tilewright.cli.output import console, rate, seconds
from tilewright.core import Failure, Task, TrialRecord
from tilewright.tuner.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def _best_text(task: Task | None, best: TrialRecord | None) -> str:
    if task is None or best is None:
        return "nothing yet"
    return f"{seconds(best.seconds)}, {rate(task.workload.flops, best.seconds)}"


class PlainProgress(Observer):
    """A line at the start, one every few seconds, and one for each warning."""

    def __init__(self, every: float = 5.0, prefix: str = "") -> None:
        self.every = every
        self.prefix = prefix
        self.task: Task | None = None
        self.total = self.failed = 0
        self.said = time.monotonic()

    @classmethod
    def of_class(cls, device_class: str) -> PlainProgress:
        """The progress of one of several runs that go on at once."""
        return cls(prefix=f"{device_class}: ")

    def say(self, text: str) -> None:
        click.echo(f"tilewright: {self.prefix}{text}", err=True)

    def waiting(self, device: str, holder: str) -> None:
        self.say(f"waiting for {device}: {holder}")

    def warning(self, message: str) -> None:
        self.say(message)

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.task, self.total = task, total
        again = f", going on after {done}" if done else ""
        self.say(
            f"run {run_id}: {task.workload.label} on {task.target.name} x{task.target.threads}, "
            f"{space_size:,} schedules, {total} trials{again}"
        )

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.failed += isinstance(record.outcome, Failure)
        now = time.monotonic()
        if now - self.said >= self.every:
            self.said = now
            self.say(
                f"{record.number + 1}/{self.total} trials, {self.failed} failed, best {_best_text(self.task, best)}"
            )

    def stage(self, text: str) -> None:
        self.say(text)

    def close(self) -> None:
        """Nothing to put away."""


class LiveProgress(PlainProgress):
    """A rich progress bar that shows the best kernel so far."""

    def __init__(self) -> None:
        super().__init__()
        self.bar: Progress | None = None
        self.row: TaskID | None = None

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().started(run_id, task, done, total, space_size)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("best {task.fields[best]}  {task.fields[failed]} failed"),
            console=console(stderr=True),
        )
        self.bar.start()
        self.row = self.bar.add_task("searching", total=total, completed=done, best="nothing yet", failed=0)

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.failed += isinstance(record.outcome, Failure)
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, advance=1, best=_best_text(self.task, best), failed=self.failed)

    def stage(self, text: str) -> None:
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, description=text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def progress() -> PlainProgress:
    """Live on a terminal, plain lines when stderr is a file or a pipe."""
    return LiveProgress() if console(stderr=True).is_terminal else PlainProgress()
