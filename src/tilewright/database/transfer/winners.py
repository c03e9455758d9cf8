"""Winners imported from another database: schedules and times, which are not served before they are built here.

Compiled code is not transferred, and a kernel cannot be stored without code. So another database's best kernels are
stored in the summary of their run (``winners``). ``tilewright db rebuild`` builds and checks them on a machine of their
device model, and compares them with the stored kernels.
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
"""Key of a run's summary with the imported winners."""
FIELDS = ("rank", "trial_number", "schedule", "seconds", "peak_fraction")
"""Fields of a winner in an export, besides its run."""


@dataclass(frozen=True)
class Winner:
    """An imported winner: one of the best kernels that a run found in the database that it came from.

    ``seconds``: time of one call there. ``state``: ``pending`` until it is built here; ``rebuilt`` afterwards, whether
    or not it won the comparison; ``failed`` if it could not be built, with ``problem``.
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
    """Imported winners with one of ``states``, grouped by task and device model, older runs first, then by rank."""
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
    """Stores a winner's state after an attempt to build it."""
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
    """The imported winners in a run's row, by rank."""
    found = json.loads(run.summary).get(SUMMARY, [])
    return sorted(found, key=lambda w: int(w["rank"]))


def joined(known: Iterable[dict[str, Any]], coming: Iterable[dict[str, Any]], served: Collection[str]) -> list[Any]:
    """Merges a run's winners with ``coming`` winners. Known winners, and schedules that are served here, are not added
    again."""
    out = list(known)
    seen = {canonical_json(w["schedule"]) for w in out} | set(served)
    for w in coming:
        text = canonical_json(w["schedule"])
        if text not in seen:
            seen.add(text)
            out.append({**w, "state": "pending"})
    return out
