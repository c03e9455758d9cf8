"""Progress of a tuning run: a bar on a terminal or in a notebook, plain lines on stderr, or lines of a log.

The logger ``tilewright.tuner`` also receives every line, at the level INFO.
"""

from __future__ import annotations

import html
import logging
import sys
import time
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Any

from tilewright.core import Failure, Task, TrialRecord
from tilewright.kernels.speed import speed
from tilewright.tuner.improvement import MORE
from tilewright.tuner.observer import Observer
from tilewright.units import SEARCH_TIME, named_time

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 5.0
"""Seconds between plain lines."""

SHOWN = 0.2
"""Seconds between two updates of a notebook's bar."""

NO_TIME = "no time yet"

_log = logging.getLogger("tilewright.tuner")


def terminal() -> bool:
    """Whether stderr is a terminal whose lines can be overwritten."""
    from rich.console import Console

    return Console(stderr=True, force_jupyter=False).is_terminal


def notebook() -> bool:
    """Whether the program runs in the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def bar(transient: bool = False) -> Progress:
    """A progress bar with a ``note``; only the note is truncated on a narrow terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    return Progress(
        MofNCompleteColumn(), BarColumn(bar_width=10), TimeElapsedColumn(), TextColumn("{task.description}"),
        TextColumn("{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True, highlight=False), transient=transient, expand=True,
    )  # fmt: skip


class LogProgress(Observer):
    """Logs a line at the start, one every few seconds, and one for each phase; warnings at the level WARNING."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.task: Task | None = None
        self.total = self.failed = 0
        self.said = time.monotonic()
        self.ahead = ""

    def say(self, text: str) -> None:
        _log.info("%s%s", self.prefix, text)

    def waiting(self, device: str, holder: str) -> None:
        self.say(f"waiting for {device}: {holder}")

    def warning(self, message: str) -> None:
        _log.warning("%s%s", self.prefix, message)

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.task, self.total = task, total
        again = f", continues after {done}" if done else ""
        self.say(
            f"run {run_id}: {task.workload.label} on {task.target.name} x{task.target.threads}, "
            f"{space_size:,} schedules, {total} trials{again}"
        )

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.failed += isinstance(record.outcome, Failure)
        now = time.monotonic()
        if now - self.said >= EVERY:
            self.said = now
            self.say(f"{record.number + 1}/{self.total} trials, {self.failed} failed, {self._best(best)}{self.ahead}")

    def outlook(self, gain: float | None, seconds: float | None) -> None:
        expected = "" if gain is None else f", {gain:.1%} more gain expected from the next {MORE}"
        self.ahead = expected + ("" if seconds is None else f", at most {_clock(seconds)} left")

    def stage(self, text: str) -> None:
        self.say(text)

    def close(self) -> None:
        """No resources to release."""

    def _best(self, best: TrialRecord | None) -> str:
        if self.task is None or best is None or best.seconds is None:
            return NO_TIME
        return f"least {named_time(SEARCH_TIME, best.seconds)}, {speed(self.task.workload, best.seconds)}"


class PlainProgress(LogProgress):
    """Prints the lines of :class:`LogProgress` to stderr."""

    def say(self, text: str) -> None:
        super().say(text)
        print(f"tilewright: {self.prefix}{text}", file=sys.stderr, flush=True)

    def warning(self, message: str) -> None:
        self.say(message)


class LiveProgress(PlainProgress):
    """A bar that shows the best kernel so far."""

    def __init__(self) -> None:
        super().__init__()
        self.bar: Progress | None = None
        self.row: TaskID | None = None

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        super().started(run_id, task, done, total, space_size)
        self.bar = bar()
        self.bar.start()
        self.row = self.bar.add_task("searching", total=total, completed=done, note=self._note(None))

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.failed += isinstance(record.outcome, Failure)
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, advance=1, note=self._note(best))

    def _note(self, best: TrialRecord | None) -> str:
        return f"{self._best(best)}{self.ahead}, {self.failed} failed"

    def stage(self, text: str) -> None:
        if self.bar is not None and self.row is not None:
            self.bar.update(self.row, description=text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


class NotebookProgress(LogProgress):
    """A bar below the cell, which shows the best kernel so far."""

    def __init__(self) -> None:
        super().__init__()
        self.best = NO_TIME
        self.phase = "searching"
        self.done = 0
        self.began = self.shown = time.monotonic()
        self.warnings: list[str] = []
        self.handle: Any = None

    def warning(self, message: str) -> None:
        self.say(message)
        self.warnings.append(message)
        self._show()

    def waiting(self, device: str, holder: str) -> None:
        super().waiting(device, holder)
        self.phase = f"waiting for {device}"
        self._show()

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        super().started(run_id, task, done, total, space_size)
        self.done, self.phase, self.began = done, "searching", time.monotonic()
        self._show()

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        super().trial(record, best)
        self.done, self.best = self.done + 1, self._best(best)
        if time.monotonic() - self.shown >= SHOWN:
            self._show()

    def stage(self, text: str) -> None:
        super().stage(text)
        self.phase = text
        self._show()

    def close(self) -> None:
        if self.handle is not None:
            self.phase, self.ahead = "ended", ""
            self._show()

    def _show(self) -> None:
        from IPython.display import display

        self.shown = time.monotonic()
        task = self.task.workload.label if self.task else ""
        seconds = round(self.shown - self.began)
        text = (
            f"{self.phase}: {self.done}/{self.total} trials in {_clock(seconds)}, {self.best}{self.ahead}, "
            f"{self.failed} failed"
        )
        bar = f'<progress value="{self.done}" max="{self.total or 1}"></progress>'
        told = "".join(f"<div>{html.escape(w)}</div>" for w in self.warnings)
        page = f"<div><code>{html.escape(task)}</code> {bar} {html.escape(text)}</div>{told}"
        said = {"text/plain": "\n".join([f"{task} {text}".strip(), *self.warnings]), "text/html": page}
        if self.handle is None:
            show: Any = display
            self.handle = show(said, raw=True, display_id=True)
        else:
            self.handle.update(said, raw=True)


def progress(otherwise: type[LogProgress] = LogProgress) -> LogProgress:
    """A bar on a terminal or in a notebook, else ``otherwise``."""
    return NotebookProgress() if notebook() else LiveProgress() if terminal() else otherwise()


def watching(observer: Observer | None) -> AbstractContextManager[Observer]:
    """The given observer, or progress that is closed at the end of the run."""
    return closing(progress()) if observer is None else nullcontext(observer)


def _clock(left: float) -> str:
    minutes, rest = divmod(round(left), 60)
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"
