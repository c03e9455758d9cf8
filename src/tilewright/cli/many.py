"""``tilewright tune`` for several tasks or a range: the search under one budget, its progress, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.declare import wants_json
from tilewright.cli.options import open_database, refuse, resumes
from tilewright.cli.output import console, report, say, seconds, table
from tilewright.core import Task, TrialRecord
from tilewright.tuner.progress import PlainProgress, terminal
from tilewright.units import FINAL_TIME, SEARCH_TIME

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from tilewright.tuner.many import TunedTask, TuneTask
    from tilewright.tuner.ranges import RangeResult
    from tilewright.tuner.settings import TuneSettings


def tune_tasks(tasks: Sequence[TuneTask], settings: TuneSettings, alone: Mapping[str, Any], resume: str | None) -> int:
    """Tunes a file's tasks; returns the exit code. ``alone``: options that are valid for a single task only."""
    from tilewright.tuner.many import TunedTask
    from tilewright.tuner.ranges import listed_tasks
    from tilewright.tuner.ranges import tune_tasks as tune_listed

    refuse(alone, "is for one task, but --tasks names several", "Write it in the file, or remove it")
    going_on = resumes(resume, "--tasks")
    with Board(listed_tasks(tasks)) as board:
        results = tune_listed(tasks, settings, resume=going_on, observer=board.rows.__getitem__)
    tuned = [t for t in results if isinstance(t, TunedTask)]
    ranges = [t for t in results if not isinstance(t, TunedTask)]
    compared = [r for r in ranges if r.compared]
    tables = [*([_table(tuned)] if tuned else []), *map(kernels_of_range, compared)]
    report({"tasks": [t.to_json() for t in results]}, *tables)
    if not wants_json():
        for r in compared:
            say(comparison_line(r))
        if len(compared) < len(ranges):
            others = f"{len(ranges) - len(compared)} of {len(ranges)} ranges"
            say(f"{others} have no kernels: an earlier task of the same choice is faster at every size that was tuned")
    if any(t.interrupted for t in results):
        say("stopped early; all measurements are stored. Continue with --resume last")
        return 130
    one_size = [*tuned, *(t for r in ranges for t in r.searched)]
    return said_failures(one_size)


def tune_misses(settings: TuneSettings, alone: Mapping[str, Any]) -> int:
    """Tunes the stored misses and removes them once tuned; returns the exit code."""
    from tilewright.measure.local_target import find_local_target
    from tilewright.tuner.from_misses import missed, tasks_of

    refuse(alone, "does not go with --from-misses")
    place = find_local_target(settings.target, settings.device, 1)
    with open_database(settings.location) as database:
        found = missed(database, place.target, place.device)
    listed = tasks_of(found)
    for m in found:
        if m.problem:
            say(f"{m.miss.op} is skipped: {m.problem}")
    if not listed:
        say("no misses are stored: every look-up found a tuned kernel, or no program counted its misses")
        report({"tasks": []})
        return 0
    code = tune_tasks(listed, settings, {}, None)
    with open_database(settings.location, readonly=False) as database:
        database.remove_misses([m.miss for m in missed(database, place.target, place.device) if m.tuned])
    return code


def _table(tuned: Sequence[TunedTask]) -> Table:
    from tilewright.kernels.speed import speed

    rows = []
    for t in tuned:
        found, gain, trials, ended = ("none", ""), "", 0, "failed"
        if t.result is not None:
            trials, ended, best = t.result.trials, t.result.ended, t.result.best
            found = (seconds(best.seconds), speed(t.result.task.workload, best.seconds)) if best else found
            gain = t.result.gain_text(short=True) if best else ""
        rows.append((label(t.task), f"{t.task.weight:g}", t.run or "", trials, *found, gain, ended))
    return table("task", "weight", "run", "trials", FINAL_TIME, "", "gain", "ended", rows=rows)


# --------------------------------------------------------------------------- a range


def tune_for_range(task: TuneTask, settings: TuneSettings, alone: Mapping[str, Any], resume: str | None) -> int:
    """Tunes a range; returns the exit code. ``alone``: options that are valid for fixed sizes only."""
    from tilewright.tuner.ranges import KERNELS, listed_tasks, tune_range

    refuse(alone, "does not go with a range of sizes")
    going_on = resumes(resume, "a range")
    with Board(listed_tasks([task])) as board:
        result = tune_range(
            task.operator, settings, kernels=task.portfolio or KERNELS, threads=task.threads, params=task.params,
            observer=board.rows.__getitem__, resume=going_on,
        )  # fmt: skip
    report(result.to_json(), kernels_of_range(result))
    if not wants_json():
        say(comparison_line(result))
    if result.interrupted:
        say("stopped early; the kernels found so far are compared and stored. Continue with --resume last")
        return 130
    return said_failures(result.searched)


def kernels_of_range(result: RangeResult) -> Table:
    """A table of the sizes that each kernel serves."""
    extents = result.places.extents
    told = {e.argument for e in extents.values()}
    rows = []
    for k in result.kernels:
        values = " ".join(f"{n}={v}" for n, v in k.schedule.values.items() if n not in told)
        rows.append((k.sizes, k.schedule.template, values, seconds(k.seconds), f"{k.mean:.1%}", f"{k.worst:.1%}"))
    greatest = f"time at the largest {' '.join(extents)}"
    return table("sizes", "template", "schedule", greatest, "average loss", "largest loss", rows=rows, overflow="fold")


def comparison_line(result: RangeResult) -> str:
    """States the comparison's extent, and the database that stores its result."""
    tuned = ", ".join(map(result.places.label, result.tuned))
    return (
        f"{result.compared} kernels were compared at {len(result.sizes)} sizes. A loss is against the fastest kernel "
        f"at that size. Sizes with a kernel of their own: {tuned}. Stored in {result.database}"
    )


# --------------------------------------------------------------------------- progress


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
    """Progress of tasks: a live table with a row for each task on a terminal, plain lines elsewhere. Use it as a
    context manager."""

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
        """Marks a task as in progress; without a terminal a change prints a line."""
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
    """Prints which tasks failed and why; returns the exit code."""
    missing = [t for t in tuned if not t.succeeded and not t.unreached]
    unreached = sum(t.unreached for t in tuned)
    if unreached:
        say(f"the time was over before {unreached} of {len(tuned)} tasks had a trial. Continue with --resume last")
    for t in missing:
        say(f"{label(t.task)}: {t.result.no_success if t.result and not t.problem else f'failed: {t.problem}'}")
    return 1 if missing else 0
