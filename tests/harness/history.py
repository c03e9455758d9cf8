"""Checks a farm's history for trials that were lost, stored twice or attributed wrongly.

A history lists the events that processes recorded (``harness/recorded.py``), one mapping each, in the order of their
times:

``requested``, ``sent``, ``received``   a client's job, by its identifier; each attempt to send it; its result ``done``
a worker finished a job: the result that the worker sent ``run``                                 a client's session
starts or resumes a run of a database ``storing``, ``stored``, ``ended``      a batch of trials before and after the
database acknowledged it; the end of a run ``failed``                              an error that a client's user sees
``crashed``, ``died``                   an error that is no ``TilewrightError``; a process that ended without being
killed

``rows``: the databases' contents in the end (:func:`contents`).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from tilewright.core import FailureKind
from tilewright.database import Database, schema

Event = Mapping[str, Any]
BY_CLIENTS = (FailureKind.COMPILE.value, FailureKind.DEVICE_LOST.value)
"""Failures that may come from elsewhere than a runner: from a builder, or from a job that was given up."""


@dataclass(frozen=True)
class Row:
    """A row of a database. ``table``: ``run``, ``trial`` or ``kernel``.

    Of a run, ``key`` is its task and ``outcome`` holds its state and its planned number of trials. Of a trial or a
    kernel, ``key`` is its schedule; a kernel's ``number`` is that of its trial.
    """

    table: str
    database: str
    run: str
    number: int
    key: str
    outcome: Any = None


def contents(path: Path) -> list[Row]:
    """The rows of a database. Raises ``DatabaseError`` for a damaged database."""
    with closing(sqlite3.connect(path)) as c:
        (said,) = c.execute("PRAGMA integrity_check").fetchone()
        assert said == "ok", f"{path}: {said}"
    found = []
    with Database.open(path) as db:
        for run in db.runs():
            wanted = {"state": run.state, "wanted": run.trials_wanted, "device": run.device_name}
            found.append(Row("run", path.name, run.id, 0, run.task.key, wanted))
            for t in db.trials(run.id):
                outcome = json.loads(json.dumps(t.outcome.to_json()))
                found.append(Row("trial", path.name, run.id, t.number, t.schedule.key, outcome))
        k = schema.kernel.c
        for r in db._read(lambda c: c.execute(select(k.run_id, k.trial_number)).all()):
            if r.run_id is not None and r.trial_number is not None:
                best = next(x for x in db.kernels() if (x.run_id, x.trial_number) == (r.run_id, r.trial_number))
                found.append(Row("kernel", path.name, r.run_id, r.trial_number, best.schedule.key))
    return found


def check(history: Sequence[Event], rows: Sequence[Row]) -> list[str]:
    """Returns violations, each a sentence; empty if no trial was lost, stored twice or attributed wrongly."""
    return [ *_broken(history), *_doubled(history, rows), *_lost(history, rows), *_jobs(history),
        *_attributed(history, rows), *_runs(history, rows), ]  # fmt: skip


def _of(history: Sequence[Event], event: str) -> Iterator[Event]:
    return (e for e in history if e["event"] == event)


def _broken(history: Sequence[Event]) -> Iterator[str]:
    """Untyped errors, processes that died by themselves, and errors that are not one line with a hint."""
    for e in _of(history, "failed"):
        if "\n" in e["error"] + e["hint"] or not e["hint"]:
            yield f"{e['who']} had an error without a mend: {e['error']!r}"
    for e in _of(history, "crashed"):
        yield f"{e['who']} had an untyped error: {str(e['error']).strip().splitlines()[-1]}"
    for e in _of(history, "died"):
        yield f"{e['whom']} died by itself: {e['error']}"


def _doubled(history: Sequence[Event], rows: Sequence[Row]) -> Iterator[str]:
    runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.table == "trial":
            runs[row.database, row.run].append(row)
    for (database, run), trials in runs.items():
        numbers = sorted(t.number for t in trials)
        if numbers != list(range(len(numbers))):
            yield f"{database} {run}: trials are numbered {numbers}"
        for key, count in Counter(t.key for t in trials).items():
            if count > 1:
                yield f"{database} {run}: schedule {key[:60]} has {count} trials"
    taken = Counter(e["job"] for e in _of(history, "received") if e["taken"])
    for job, count in taken.items():
        if count > 1:
            yield f"job {job}: {count} results were taken"


# --------------------------------------------------------------------------- what was acknowledged


def _trials(event: Event) -> Iterator[Row]:
    for number, key, outcome in event["trials"]:
        yield Row("trial", event["database"], event["run"], number, key, outcome)


def _lost(history: Sequence[Event], rows: Sequence[Row]) -> Iterator[str]:
    """Acknowledged trials that are gone or changed, and trials that no client stored."""
    there = {(r.database, r.run, r.number): r for r in rows if r.table == "trial"}
    for acknowledged in (r for e in _of(history, "stored") for r in _trials(e)):
        found = there.get((acknowledged.database, acknowledged.run, acknowledged.number))
        if found is None:
            yield f"{_name(acknowledged)} was acknowledged and is lost"
        elif found != acknowledged:
            yield f"{_name(acknowledged)} was acknowledged and is another now: {_difference(found, acknowledged)}"
    meant = {(r.database, r.run, r.number, r.key) for e in _of(history, "storing") for r in _trials(e)}
    for r in there.values():
        if (r.database, r.run, r.number, r.key) not in meant:
            yield f"{_name(r)} was stored by nobody"


def _name(row: Row) -> str:
    return f"{row.database} {row.run} trial {row.number}"


def _difference(one: Row, other: Row) -> str:
    return "its schedule" if one.key != other.key else "its outcome"


# --------------------------------------------------------------------------- jobs


def _jobs(history: Sequence[Event]) -> Iterator[str]:
    """Jobs that the wrong worker did, or did wrongly, and received results that no worker sent for the job."""
    requested = {e["job"]: e for e in _of(history, "requested")}
    done: dict[str, list[Event]] = defaultdict(list)
    for e in _of(history, "done"):
        done[e["job"]].append(e)
        asked = requested.get(e["job"])
        if asked is None:
            yield f"{e['who']} did job {e['job']}, which nobody requested"
            continue
        if asked["place"] not in e["place"]:
            yield f"{e['who']} of {e['place']} did job {e['job']} of {asked['place']}"
        if e["session"] != asked["session"]:
            yield f"{e['who']} did job {e['job']} for another session"
        if e["role"] == "runner" and (e["keys"], e["do"]) != (asked["keys"], asked["do"]):
            yield f"{e['who']} did something else as job {e['job']}"
    for e in _of(history, "received"):
        result = e["result"]
        own = not isinstance(result, Mapping) or {"error", "missing"} & set(result)  # the job was not done
        if not own and not any(d["result"] == result for d in done[e["job"]]):
            yield f"job {e['job']}: {e['who']} received what no worker gave"


# --------------------------------------------------------------------------- who measured what


def _attributed(history: Sequence[Event], rows: Sequence[Row]) -> Iterator[str]:
    """Trials whose outcome no runner reported for their schedule in a job of their run, task and device class."""
    sessions = {e["session"]: e for e in _of(history, "run")}
    told: dict[str, list[tuple[Event, Any]]] = defaultdict(list)
    for e in _of(history, "done"):
        if e["role"] == "runner" and e["do"] == "measure":
            for key, outcome in zip(e["keys"], e["result"].get("outcomes", ()), strict=False):
                told[key].append((e, outcome))
    received = {e["job"] for e in _of(history, "received") if e["taken"]}
    for row in rows:
        if row.table != "trial" or row.outcome.get("failure") in BY_CLIENTS:
            continue
        same = [e for e, outcome in told[row.key] if outcome == row.outcome]
        wrong = [_wrong(e, row, sessions, received) for e in same]
        if not same:
            yield f"{_name(row)}: no runner told that outcome of its schedule"
        elif all(wrong):
            yield f"{_name(row)}: {wrong[0]}"


def _wrong(done: Event, row: Row, sessions: Mapping[str, Event], received: set[str]) -> str:
    """Why a runner's result does not belong to a trial; empty if it does."""
    session = sessions.get(done["session"])
    if session is None or (session["database"], session["run"]) != (row.database, row.run):
        return f"its outcome is of job {done['job']}, which another run requested"
    for name, one, other in (
        ("task", done["task"], session["task"]), ("user", done["user"], session["user"]),
        ("device class", done["place"], [session["device"]]),
    ):  # fmt: skip
        if one != other:
            return f"its outcome is of job {done['job']} of another {name}: {one}, not {other}"
    return "" if done["job"] in received else f"its outcome is of job {done['job']}, whose result was not taken"


def _runs(history: Sequence[Event], rows: Sequence[Row]) -> Iterator[str]:
    """Runs whose stored state differs from their events, and kernels that belong to no trial."""
    there = {(r.database, r.run): r for r in rows if r.table == "run"}
    trials = {(r.database, r.run, r.number): r.key for r in rows if r.table == "trial"}
    count = Counter((r.database, r.run) for r in rows if r.table == "trial")
    last: dict[tuple[str, str], Event] = {}
    for e in history:
        if e["event"] in ("run", "ended"):
            last[e["database"], e["run"]] = e
            row = there.get((e["database"], e["run"]))
            if e["event"] == "run" and row is not None and (row.key, row.outcome["device"]) != (e["task"], e["device"]):
                yield f"{e['database']} {e['run']} is stored as of another task or device class"
    for (database, run), e in last.items():
        row = there.get((database, run))
        if row is None:
            yield f"{database} {run} was acknowledged and is lost"
        elif e["event"] == "ended" and row.outcome["state"] != e["state"]:
            yield f"{database} {run} is {row.outcome['state']}, and was {e['state']}"
    for place, row in there.items():
        if row.outcome["state"] == "done" and count[place] != row.outcome["wanted"]:
            yield f"{row.database} {row.run} is done with {count[place]} of {row.outcome['wanted']} trials"
    for r in rows:
        if r.table == "kernel" and trials.get((r.database, r.run, r.number)) != r.key:
            yield f"{r.database}: a best kernel is stored as trial {r.number} of {r.run}, which is another"
