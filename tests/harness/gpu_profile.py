"""Memory traffic of a kernel, counted on the emulator."""

from __future__ import annotations

from typing import Any

from tilewright.backends.emulator import build, run
from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import full_source, get_template
from tilewright.testing.cuda_template import empty_output
from tilewright.testing.kernels import launch_values, random_arrays


def profile(task: Task, schedule: Schedule) -> dict[str, Any]:
    """The emulator's counts for one schedule (docs/emulator.md). Raises ``AssertionError`` for a faulty kernel."""
    candidate = Candidate(task, schedule)
    program = Program.loads(task.workload.program)
    lowered = get_template(schedule.template).lower(candidate)
    symbols = list(dict.fromkeys(x.symbol for x in lowered.program.launches))
    kernel = build(full_source(candidate, emulated=True), symbols, profile=True)
    output = empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, lowered.program, launch_values(candidate), random_arrays(program, 1), output)
    assert report.ok, report.bugs
    return dict(report.profile)


def excess_sectors(counts: dict[str, Any]) -> float:
    """Sectors of global memory moved for each one that the bytes asked for would fill."""
    moved = sum(counts[k]["sectors"] for k in ("global_load", "global_store"))
    ideal = sum(counts[k]["ideal_sectors"] for k in ("global_load", "global_store"))
    return float(moved / ideal)
