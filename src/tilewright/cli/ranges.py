"""``tilewright tune m=1..4096``: kernels for every size of a range, and a table of the sizes that each serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.cli.board import Board, said_failures
from tilewright.cli.declare import wants_json
from tilewright.cli.options import refuse, resumes
from tilewright.cli.output import report, say, seconds, table

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.tuner.many import TuneTask
    from tilewright.tuner.ranges import RangeResult
    from tilewright.tuner.settings import TuneSettings


def tune_for_range(task: TuneTask, settings: TuneSettings, alone: Mapping[str, Any], resume: str | None) -> int:
    """Tune for a range. ``alone``: options that go with a task of fixed sizes only."""
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
        say(summary_of(result))
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


def summary_of(result: RangeResult) -> str:
    """What was compared, and where it is stored."""
    tuned = ", ".join(map(result.places.label, result.tuned))
    return (
        f"{result.compared} kernels were compared at {len(result.sizes)} sizes. A loss is against the fastest kernel "
        f"at that size. Sizes with a kernel of their own: {tuned}. Stored in {result.database}"
    )
