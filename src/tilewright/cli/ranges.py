"""``tilewright tune m=1..4096``: kernels for every size of a range, with a table of who serves what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.cli.board import Board, said_failures
from tilewright.cli.options import resumes
from tilewright.cli.output import console, emit_json, say, seconds
from tilewright.core import UsageError

if TYPE_CHECKING:
    from tilewright.tuner.many import TuneTask
    from tilewright.tuner.ranges import RangeResult
    from tilewright.tuner.settings import TuneSettings


def tune_for_range(
    task: TuneTask, settings: TuneSettings, alone: Mapping[str, Any], resume: str | None, as_json: bool
) -> int:
    """Tune for a range. ``alone``: options that go with a task of fixed sizes only."""
    from tilewright.tuner.ranges import KERNELS, listed_tasks, tune_range

    wrong = next((name for name, value in alone.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{wrong} does not go with a range of sizes", "Leave it out")
    going_on = resumes(resume, "a range")
    with Board(listed_tasks([task])) as board:
        result = tune_range(
            task.operator, settings, kernels=task.portfolio or KERNELS, threads=task.threads, params=task.params,
            observer=board.row, resume=going_on,
        )  # fmt: skip
    if as_json:
        emit_json(result.to_json())
    else:
        report_range(result)
    if result.interrupted:
        say("stopped early; what was found by then is compared and stored. Go on with --resume last")
        return 130
    return said_failures(result.searched)


def report_range(result: RangeResult) -> None:
    """A table of who serves what."""
    from rich.table import Table

    extents = result.places.extents
    names, told = " ".join(extents), {e.argument for e in extents.values()}
    table = Table("sizes", "template", "schedule", f"at the greatest {names}", "loses on average", "at most")
    for k in result.kernels:
        values = " ".join(f"{n}={v}" for n, v in k.schedule.values.items() if n not in told)
        table.add_row(k.sizes, k.schedule.template, values, seconds(k.seconds), f"{k.mean:.1%}", f"{k.worst:.1%}")
    console().print(table)
    tuned = ", ".join(map(result.places.label, result.tuned))
    say(
        f"{result.compared} kernels compared at {len(result.sizes)} sizes; what one loses is against the fastest "
        f"there. Tuned by themselves, and served so: {tuned}. Stored in {result.database}"
    )
