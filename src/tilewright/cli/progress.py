"""Progress of a tuning run, and of work that comes in steps: a bar on a terminal, plain lines elsewhere; on stderr."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tilewright.cli.output import console, rate, say, seconds
from tilewright.core import Failure, Task, TrialRecord
from tilewright.tuner.gain import MORE
from tilewright.tuner.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


EVERY = 5.0  # seconds between plain lines


def _bar(transient: bool = False) -> Progress:
    """A bar with room for a ``note``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"), console=console(stderr=True), transient=transient,
    )  # fmt: skip


class Steps:
    """``total`` steps of one thing; use it as a context manager."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self._said = time.monotonic()
        self._bar: Progress | None = None
        self._row: TaskID | None = None

    def __enter__(self) -> Steps:
        if console(stderr=True).is_terminal and self.total > 1:
            self._bar = _bar(transient=True)
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
            say(f"{self.what}: {self.done}/{self.total}{f', {note}' if note else ''}")

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _clock(left: float) -> str:
    minutes, rest = divmod(round(left), 60)
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def _best_text(task: Task | None, best: TrialRecord | None) -> str:
    if task is None or best is None:
        return "nothing yet"
    return f"{seconds(best.seconds)}, {rate(task.workload.flops, best.seconds)}"


class PlainProgress(Observer):
    """A line at the start, one every few seconds, and one for each warning."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.task: Task | None = None
        self.total = self.failed = 0
        self.said = time.monotonic()
        self.ahead = ""

    @classmethod
    def of_class(cls, device_class: str) -> PlainProgress:
        """The progress of one of several runs that go on at once."""
        return cls(prefix=f"{device_class}: ")

    def say(self, text: str) -> None:
        say(f"{self.prefix}{text}")

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
        if now - self.said >= EVERY:
            self.said = now
            self.say(
                f"{record.number + 1}/{self.total} trials, {self.failed} failed, best {_best_text(self.task, best)}"
                f"{self.ahead}"
            )

    def outlook(self, gain: float | None, seconds: float | None) -> None:
        expected = "" if gain is None else f", {gain:.1%} more expected of the next {MORE}"
        self.ahead = expected + ("" if seconds is None else f", at most {_clock(seconds)} left")

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
        super().started(run_id, task, done, total, space_size)
        self.bar = _bar()
        self.bar.start()
        self.row = self.bar.add_task("searching", total=total, completed=done, note=self._note(None))

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.failed += isinstance(record.outcome, Failure)
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, advance=1, note=self._note(best))

    def _note(self, best: TrialRecord | None) -> str:
        return f"best {_best_text(self.task, best)}{self.ahead}, {self.failed} failed"

    def stage(self, text: str) -> None:
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, description=text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def progress() -> PlainProgress:
    """Live on a terminal, plain lines when stderr is a file or a pipe."""
    return LiveProgress() if console(stderr=True).is_terminal else PlainProgress()
