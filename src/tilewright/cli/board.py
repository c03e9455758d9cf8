"""The progress of several tasks: a live table with a row a task on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.cli.output import console, say, seconds
from tilewright.core import Task, TrialRecord
from tilewright.tuner.progress import PlainProgress, terminal
from tilewright.units import SEARCH_TIME

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from tilewright.tuner.many import TunedTask, TuneTask


class Row(PlainProgress):
    """The progress of one of several tasks."""

    def __init__(self, board: Board, name: str) -> None:
        super().__init__(prefix=f"{name}: ")
        self.board = board
        self.state, self.trials, self.best, self.gain = "waiting", 0, "", ""

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.task, self.total, self.trials = task, total, done
        say(f"{self.prefix}run {run_id}, {space_size:,} schedules")

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.trials += 1
        self.best = seconds(best.seconds) if best is not None else ""
        self.board.working(self)

    def outlook(self, gain: float | None, seconds: float | None) -> None:
        self.gain = "" if gain is None else f"{gain:.1%}"

    def stage(self, text: str) -> None:
        self.state = text
        self.board.working(self, text)

    def say(self, text: str) -> None:
        say(f"{self.prefix}{text}")


class Board:
    """A live table with a row a task on a terminal, plain lines elsewhere. Use it as a context manager."""

    def __init__(self, tasks: Sequence[TuneTask]) -> None:
        self.rows = [Row(self, label(t)) for t in tasks]
        self.weights = [t.weight for t in tasks]
        self._live: Live | None = None
        self._at: Row | None = None

    def __enter__(self) -> Board:
        if terminal():
            from rich.live import Live

            self._live = Live(self._table(), console=console(stderr=True), refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._table())
            self._live.stop()

    def working(self, row: Row, stage: str = "") -> None:
        """This task is at work now; on plain lines it is said when that changes."""
        changed = row is not self._at
        if changed and self._at is not None and not stage:
            self._at.state = "waiting"
        if not stage:
            row.state = "searching"
        self._at = row
        if self._live is not None:
            self._live.update(self._table())
        elif stage:
            say(f"{row.prefix}{stage}")
        elif changed:
            say(f"{row.prefix}continues at trial {row.trials}, least {SEARCH_TIME} {row.best or 'not known yet'}")

    def _table(self) -> Table:
        from rich.table import Table

        table = Table("task", "weight", "trials", SEARCH_TIME, "expected gain", "")
        for row, weight in zip(self.rows, self.weights, strict=True):
            table.add_row(row.prefix[:-2], f"{weight:g}", str(row.trials), row.best, row.gain, row.state)
        return table


def label(task: TuneTask) -> str:
    """A task in one line."""
    threads = f" x{task.threads}" if task.threads > 1 else ""
    return " ".join([task.name, *(f"{k}={v}" for k, v in task.params.items())]) + threads


def said_failures(tuned: Sequence[TunedTask]) -> int:
    """Say which tasks failed and why; the exit code."""
    missing = [t for t in tuned if not t.succeeded and not t.unreached]
    unreached = sum(t.unreached for t in tuned)
    if unreached:
        say(f"the time was over before {unreached} of {len(tuned)} tasks had a trial. Continue with --resume last")
    for t in missing:
        say(f"{label(t.task)}: {t.result.no_success if t.result and not t.problem else f'failed: {t.problem}'}")
    return 1 if missing else 0
