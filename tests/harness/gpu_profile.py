"""Memory traffic of a kernel, counted by the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backends.emulator import run
from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import lower
from tilewright.testing.cuda_template import empty_output, emulated
from tilewright.testing.kernels import launch_values, random_arrays


def profile(task: Task, schedule: Schedule) -> dict[str, Any]:
    """The emulator's counts for one schedule (docs/emulator.md). Raises ``AssertionError`` for a faulty kernel."""
    return profiles(task, [schedule])[0]


def profiles(task: Task, schedules: Sequence[Schedule]) -> list[dict[str, Any]]:
    """The emulator's counts for each of several schedules, which are compiled together."""
    program = Program.loads(task.workload.program)
    made = [lower(Candidate(task, s)) for s in schedules]
    kernel = emulated(made, task.target, profile=True)
    found = []
    for schedule, lowered in zip(schedules, made, strict=True):
        output = empty_output(program.output.shape, program.output.dtype)
        values = launch_values(Candidate(task, schedule))
        report = run(kernel, lowered.program, values, random_arrays(program, 1), output)
        assert report.ok, report.bugs
        found.append(dict(report.profile))
    return found


def excess_sectors(counts: dict[str, Any]) -> float:
    """Ratio of moved sectors of global memory to the sectors that the requested bytes fill; 1 is ideal."""
    moved = sum(counts[k]["sectors"] for k in ("global_load", "global_store"))
    ideal = sum(counts[k]["ideal_sectors"] for k in ("global_load", "global_store"))
    return float(moved / ideal)
