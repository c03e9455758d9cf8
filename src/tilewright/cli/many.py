"""``tilewright tune --tasks``: several tasks under one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.board import Board, label, said_failures
from tilewright.cli.declare import wants_json
from tilewright.cli.options import refuse, resumes
from tilewright.cli.output import report, say, seconds, table
from tilewright.cli.ranges import kernels_of_range, summary_of
from tilewright.units import FINAL_TIME

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.tuner.many import TunedTask, TuneTask
    from tilewright.tuner.settings import TuneSettings


def tune_tasks(tasks: Sequence[TuneTask], settings: TuneSettings, alone: Mapping[str, Any], resume: str | None) -> int:
    """Tune a file's tasks. ``alone``: options that go with a single task only."""
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
            say(summary_of(r))
        if len(compared) < len(ranges):
            others = f"{len(ranges) - len(compared)} of {len(ranges)} ranges"
            say(f"{others} have no kernels: an earlier task of the same choice is faster at every size that was tuned")
    if any(t.interrupted for t in results):
        say("stopped early; all measurements are stored. Continue with --resume last")
        return 130
    one_size = [*tuned, *(t for r in ranges for t in r.searched)]
    return said_failures(one_size)


def tune_misses(settings: TuneSettings, alone: Mapping[str, Any]) -> int:
    """Tune the stored misses; a miss that was tuned is removed."""
    from tilewright.cli.options import open_database
    from tilewright.measure.places import find_place
    from tilewright.tuner.from_misses import missed, tasks_of

    refuse(alone, "does not go with --from-misses")
    place = find_place(settings.target, settings.device, 1)
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
