"""Winners that came from another database: known by schedule and time, not served before they are built here.

Compiled code does not travel, and a kernel without code is no kernel. So what another database held as its
best stands in the summary of the run that it won (``winners``), until ``tilewright db rebuild`` builds it on a
machine of its device model, checks it, and lets it compete for a place among the kernels.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from tilewright.core import Schedule, Task, canonical_json
from tilewright.database import rows, schema
from tilewright.database.database import Database
from tilewright.database.store import keys_named
from tilewright.errors import NotFound

SUMMARY = "winners"
"""Under which name a run's summary holds them."""
FIELDS = ("rank", "trial_number", "schedule", "seconds", "peak_fraction")
"""What an export tells of a winner, besides its run."""


@dataclass(frozen=True)
class Winner:
    """One of the three best of a run in the database that it came from.

    ``seconds``: time of one call there. ``state``: ``pending`` until it was built here; ``rebuilt`` then,
    whether it took a place or lost it in the comparison; ``failed`` where it could not be, with ``problem``.
    """

    task: Task
    device_model: str
    run_id: str
    rank: int
    trial_number: int | None
    schedule: Schedule
    seconds: float
    peak_fraction: float | None
    state: str = "pending"
    problem: str = ""


def winners(database: Database, op: str | None = None, states: Collection[str] = ("pending",)) -> list[Winner]:
    """Winners in these states, a task and device model after the other, older runs first, then by rank."""
    r = schema.run
    wanted = select(r).where(r.c.summary.contains(f'"{SUMMARY}":[{{')).order_by(r.c.started, r.c.id)
    if op is not None:
        wanted = wanted.where(r.c.workload_key.in_(keys_named(op)))

    def work(c: Connection) -> list[Winner]:
        found = c.execute(wanted).all()
        tasks = database._tasks(c, {(x.workload_key, x.target_key) for x in found})
        with rows.decoding(database.location, "run"):
            return [
                Winner(
                    tasks[x.workload_key, x.target_key], x.device_model, x.id, w["rank"], w["trial_number"],
                    Schedule.from_json(w["schedule"]), w["seconds"], w["peak_fraction"], w["state"],
                    w.get("problem", ""),
                )
                for x in found for w in stored_winners(x) if w["state"] in states
            ]  # fmt: skip

    found = database._read(work)
    found.sort(key=lambda w: (w.task.target.key, w.device_model, w.task.workload.key))
    return found


def settle(database: Database, winner: Winner, state: str, problem: str = "") -> None:
    """Say what came of building a winner."""
    same = canonical_json(winner.schedule.to_json())

    def change(before: str) -> rows.Values:
        summary = json.loads(before)
        for w in summary.get(SUMMARY, ()):
            if canonical_json(w["schedule"]) == same:
                w["state"] = state
                w.pop("problem", None)
                if problem:
                    w["problem"] = problem
        return {"summary": canonical_json(summary)}

    with suppress(NotFound):  # the run was removed meanwhile
        database._change_run(winner.run_id, change)


def stored_winners(run: Row[Any]) -> list[dict[str, Any]]:
    """The winners in a run's row, by rank."""
    found = json.loads(run.summary).get(SUMMARY, [])
    return sorted(found, key=lambda w: int(w["rank"]))


def joined(known: Iterable[dict[str, Any]], coming: Iterable[dict[str, Any]], served: Collection[str]) -> list[Any]:
    """A run's winners with those that come in; those that are known, or served here (schedules), change nothing."""
    out = list(known)
    seen = {canonical_json(w["schedule"]) for w in out} | set(served)
    for w in coming:
        text = canonical_json(w["schedule"])
        if text not in seen:
            seen.add(text)
            out.append({**w, "state": "pending"})
    return out
