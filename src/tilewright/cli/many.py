"""``tilewright tune --tasks``: several tasks under one budget, with a table that follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console, emit_json, rate, say, seconds
from tilewright.core import Task, TrialRecord, UsageError
from tilewright.tuner.progress import PlainProgress, terminal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from tilewright.farm.client import Farm
    from tilewright.tuner.many import TunedTask, TuneTask


def tune_tasks(
    tasks: Sequence[TuneTask], farm: Farm | None, shared: Mapping[str, Any], alone: Mapping[str, Any],
    resume: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Tune a file's tasks. ``shared``: settings of all; ``alone``: what goes with a single task only."""
    from tilewright.cli.ranges import report_range
    from tilewright.tuner.many import TunedTask
    from tilewright.tuner.ranges import listed_tasks
    from tilewright.tuner.ranges import tune_tasks as tune_listed

    wrong = next((name for name, value in alone.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{wrong} is for one task, and --tasks names several", "Write it in the file, or leave it out")
    if resume not in (None, "last"):
        raise UsageError(f"--resume {resume} names one run, and --tasks several", "Write --resume last")
    board = Board(listed_tasks(tasks))
    with board:
        results = tune_listed(tasks, resume=resume == "last", observer=board.row, farm=farm, **shared)
    tuned = [t for t in results if isinstance(t, TunedTask)]
    ranges = [t for t in results if not isinstance(t, TunedTask)]
    if as_json:
        emit_json({"tasks": [t.to_json() for t in results]})
    else:
        if tuned:
            _report(tuned)
        for r in ranges:
            report_range(r)
    if any(r.interrupted for r in (*(t.result for t in tuned), *ranges)):
        say("stopped early; everything measured is stored. Go on with --resume last")
        return 130
    missing = [t.task.name for t in tuned if t.result.best is None]
    if missing:
        say(f"no trial succeeded for {', '.join(missing)}")
    return 1 if missing else 0


def tune_misses(shared: Mapping[str, Any], alone: Mapping[str, Any], as_json: bool) -> int:
    """Tune what programs asked for and did not have; what was tuned is a miss no more."""
    from tilewright.cli.options import open_database
    from tilewright.measure.places import find_place
    from tilewright.tuner.from_misses import missed, tasks_of

    wrong = next((name for name, value in alone.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{wrong} does not go with --from-misses", "Leave it out")
    place = find_place(shared["target"], shared["device"], 1)
    with open_database(shared["db"]) as database:
        found = missed(database, place.target, place.device)
    listed = tasks_of(found)
    for m in found:
        if m.problem:
            say(f"left out: {m.miss.op}: {m.problem}")
    if not listed:
        say("nothing is missing: programs found kernels for all that they asked for, or counted nothing")
        if as_json:
            emit_json({"tasks": []})
        return 0
    code = tune_tasks(listed, None, shared, {}, None, as_json)
    with open_database(shared["db"], readonly=False) as database:
        database.remove_misses([m.miss for m in missed(database, place.target, place.device) if m.tuned])
    return code


class Row(PlainProgress):
    """The progress of one of several tasks."""

    def __init__(self, board: Board, name: str) -> None:
        super().__init__(prefix=f"{name}: ")
        self.board = board
        self.state, self.trials, self.best, self.gain = "waiting", 0, "", ""

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.task, self.total, self.trials = task, total, done
        self.board.say(f"{self.prefix}run {run_id}, {space_size:,} schedules")

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
        self.board.say(f"{self.prefix}{text}")


class Board:
    """A live table with a row a task on a terminal, plain lines elsewhere. Use it as a context manager."""

    def __init__(self, tasks: Sequence[TuneTask]) -> None:
        self.rows = [Row(self, _label(t)) for t in tasks]
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

    def row(self, place: int) -> Row:
        """The watcher of the task at a place."""
        return self.rows[place]

    def say(self, text: str) -> None:
        say(text)

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
            say(f"{row.prefix}from trial {row.trials}, best {row.best or 'nothing yet'}")

    def _table(self) -> Table:
        from rich.table import Table

        table = Table("task", "weight", "trials", "best", "expected gain", "")
        for row, weight in zip(self.rows, self.weights, strict=True):
            table.add_row(row.prefix[:-2], f"{weight:g}", str(row.trials), row.best, row.gain, row.state)
        return table


def _label(task: TuneTask) -> str:
    threads = f" x{task.threads}" if task.threads > 1 else ""
    return " ".join([task.name, *(f"{k}={v}" for k, v in task.params.items())]) + threads


def _report(tuned: Sequence[TunedTask]) -> None:
    from rich.table import Table

    table = Table("task", "weight", "run", "trials", "best", "", "ended")
    for t in tuned:
        best, flops = t.result.best, t.result.task.workload.flops
        found = (seconds(best.seconds), rate(flops, best.seconds)) if best else ("none", "")
        table.add_row(_label(t.task), f"{t.task.weight:g}", t.result.run, str(t.result.trials), *found, t.result.ended)
    console().print(table)
