"""Warm start of a run from earlier runs of the database: trials to train on, and schedules to try first."""

from __future__ import annotations

import random
from itertools import islice

from tilewright.core import IllegalSchedule, Schedule, Task, TrialRecord, Workload, fastest
from tilewright.cost_model import CostModel
from tilewright.database import Database
from tilewright.kernels.templates import generating, get_template
from tilewright.search_space import Space

RUNS, TRIALS = 12, 4000
"""Largest number of earlier runs, and of trials of all those runs."""
OWN, SIMILAR = 2, 2
"""Largest number of schedules to try first: winners of runs of the same task, and of its operator at other sizes."""


def warm_start(
    database: Database, run_id: str, task: Task, device_model: str, space: Space, model: CostModel
) -> tuple[Schedule, ...]:
    """Train ``model`` on earlier runs for the task's target and device model. Returns schedules to try first."""
    versions = {t.name: t.version for t in generating(task.target.kind)}
    own: dict[Schedule, None] = {}
    similar: dict[Schedule, None] = {}
    earlier = database.earlier_runs(task, device_model, TRIALS, versions, run_id)
    for workload, records in islice(earlier, RUNS):
        model.recall(records, Task(workload, task.target))
        best = fastest(records)
        if best is not None and workload.op == task.workload.op:
            suggested = _suggested(task, space, workload, best)
            if suggested is not None:
                (own if workload.key == task.workload.key else similar).setdefault(suggested)
    return (*list(own)[:OWN], *list(similar)[:SIMILAR])


def _suggested(task: Task, space: Space, workload: Workload, best: TrialRecord) -> Schedule | None:
    """The winner of an earlier run, or for other sizes the closest legal schedule; ``None`` without a legal one."""
    schedule = best.schedule
    if workload.key == task.workload.key:
        try:
            space.check(schedule)
        except IllegalSchedule:
            return None
        return schedule
    for one in space.live:
        if one.template == schedule.template:
            default = get_template(one.template).default(task)
            return one.carried(random.Random(0), schedule, default)
    return None
