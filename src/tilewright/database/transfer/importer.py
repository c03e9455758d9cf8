"""Imports records into a database: atomically for each run, and idempotently."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, Table, func, or_, select, update

from tilewright.core import DatabaseError, canonical_json, digest
from tilewright.database import rows, schema
from tilewright.database.database import Database
from tilewright.database.postgresql import take_turns
from tilewright.database.rows import Values
from tilewright.database.store import of_task
from tilewright.database.transfer import format as fmt
from tilewright.database.transfer.format import Damage, Record
from tilewright.database.transfer.winners import SUMMARY, joined

_PAGE = 500
_IN_MEMORY = 8 << 20  # bytes of a run's trials that are kept in memory; beyond, they go to a temporary file
# Columns that are fixed at a run's start; a difference is a conflict.
_FIXED = ("workload_key", "target_key", "device_name", "device_model", "strategy", "seed", "started", "settings")
_MOVING = ("state", "finished", "trials_wanted", "host", "versions", "summary")

Progress = Callable[[int, int], None]
"""Called with the numbers of runs and trials read so far."""


@dataclass
class Imported:
    """Counts of imported records. ``conflicts``: a line for each refused run, of which nothing was stored."""

    runs: int = 0
    new_runs: int = 0
    trials: int = 0
    new_trials: int = 0
    new_winners: int = 0
    conflicts: list[str] = field(default_factory=list)


class _Conflict(Exception):
    """A run that differs from the stored run of its id."""


@dataclass
class _Run:
    """A run while it is read. A large run's trials go to a temporary file, so that memory is bounded."""

    values: Values
    task_key: str
    place: str
    trials: tempfile.SpooledTemporaryFile[bytes]
    winners: list[Record] = field(default_factory=list)
    count: int = 0
    last: int = -1

    def add(self, values: Values) -> None:
        self.trials.write(json.dumps(values).encode() + b"\n")
        self.count += 1
        self.last = values["number"]

    def pages(self) -> Iterator[list[Values]]:
        """The trials from the first on, in pages."""
        self.trials.seek(0)
        left = map(json.loads, self.trials)
        while page := list(islice(left, _PAGE)):
            yield page


class Importer:
    """Imports records in the order of an export."""

    def __init__(self, database: Database, source: str, progress: Progress | None = None) -> None:
        self.database = database
        self.source = source
        self.progress = progress
        self.result = Imported()
        self._targets: set[str] = set()
        self._workloads: set[str] = set()
        self._context: list[tuple[Table, Values]] = []
        self._run: _Run | None = None

    def take(self, records: Iterable[tuple[str, Record]]) -> Imported:
        """Imports all records. ``records``: each with its position, for errors. Raises ``DatabaseError``."""
        try:
            for place, record in records:
                try:
                    self._add(place, record)
                except Damage as e:
                    raise fmt.refused(place, str(e)) from None
            self._store_context()
            self._store_run()
        finally:
            if self._run is not None:
                self._run.trials.close()
        return self.result

    def _add(self, place: str, record: Record) -> None:
        kind = record.get("kind")
        if kind == "trial":
            run = self._current("trial")
            values = fmt.values_of(record)
            fmt.check_trial(values, run.values["id"], run.task_key, run.last)
            if run.winners:
                raise Damage("a trial stands after the kernels of its run")
            run.add(values)
            self.result.trials += 1
        elif kind == "kernel":
            run = self._current("kernel")
            run.winners.append(fmt.check_kernel(record, run.values["id"]))
        elif kind == "run":
            self._start(place, fmt.values_of(record))
        elif kind in ("target", "workload", "alias"):
            self._add_context(kind, fmt.values_of(record))
        else:
            raise Damage(f"unknown kind {kind!r}")
        if self.progress is not None:
            self.progress(self.result.runs, self.result.trials)

    def _current(self, kind: str) -> _Run:
        if self._run is None:
            raise Damage(f"a {kind} stands before any run")
        return self._run

    # ------------------------------------------------------------------ targets, workloads, aliases

    def _add_context(self, kind: str, values: Values) -> None:
        if self.result.runs:
            raise Damage(f"a {kind} stands after the first run")
        if kind == "target":
            fmt.check_target(values)
            self._targets.add(values["key"])
        elif kind == "workload":
            fmt.check_workload(values)
            self._workloads.add(values["key"])
        else:
            fmt.check_alias(values)
            if values["workload_key"] not in self._workloads:
                raise Damage("an alias of a workload that did not come before it")
        self._context.append((fmt.TABLES[kind], values))
        if len(self._context) == _PAGE:
            self._store_context()

    def _store_context(self) -> None:
        context, self._context = self._context, []

        def work(c: Connection) -> None:
            for table, values in context:
                if table is schema.workload:
                    rows.put_workload(c, values)
                elif table is schema.alias:
                    rows.put_alias(c, values)
                else:
                    rows.insert_new(c, table, [values])

        if context:
            self.database._write(work)

    # ------------------------------------------------------------------ runs

    def _start(self, place: str, values: Values) -> None:
        fmt.check_run(values)
        self._store_context()
        self._store_run()
        for name, known in (("workload_key", self._workloads), ("target_key", self._targets)):
            if values[name] not in known:
                raise Damage(f"the run's {name.removesuffix('_key')} did not come before it")
        task_key = digest([values["workload_key"], values["target_key"]])
        self._run = _Run(values, task_key, place, tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115
        self.result.runs += 1

    def _store_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        with run.trials:
            try:
                new_run, new_trials, new_winners = self.database._write(lambda c: self._merge(c, run))
            except _Conflict as e:
                self.result.conflicts.append(str(e))
                return
            except DatabaseError as e:
                raise DatabaseError(f"run {run.values['id']} of {self.source}: {e.message}", e.hint) from None
        self.result.new_runs += new_run
        self.result.new_trials += new_trials
        self.result.new_winners += new_winners

    def _merge(self, c: Connection, run: _Run) -> tuple[bool, int, int]:
        """Stores missing rows of a run; returns whether the run is new, and the numbers of new trials and winners."""
        r, t = schema.run, schema.trial
        run_id = run.values["id"]
        take_turns(c, "import", run_id)
        here = c.execute(select(r).where(r.c.id == run_id).with_for_update()).one_or_none()
        served = self._served(c, run.values)
        if here is None:
            winners = joined([], run.winners, served)
            summary = _summary(run.values["summary"], winners)
            c.execute(r.insert(), {**run.values, "pid": 0, "process": "||", "summary": summary})
            for page in run.pages():
                c.execute(t.insert(), page)
            return True, run.count, len(winners)
        self._same_run(run, here)
        there = int(c.execute(select(func.count()).where(t.c.run_id == run_id)).scalar_one())
        new = 0
        for page in run.pages():
            missing = self._missing(c, run_id, page)
            if missing:
                c.execute(t.insert(), missing)
                new += len(missing)
        going_on = rows.state_of(here) == "running"
        if going_on and new:
            raise _Conflict(
                f"run {run_id} is still running in {self.database.location} (process {here.pid} on {here.host}), "
                f"and {self.source} holds {new} trials of it that are not there"
            )
        known = json.loads(here.summary).get(SUMMARY, [])
        winners = joined(known, run.winners, served)
        later = (run.count, run.values["finished"] or 0.0) > (there, here.finished or 0.0) and not going_on
        moved = {name: run.values[name] for name in _MOVING} if later else {}
        moved["summary"] = _summary(moved.get("summary", here.summary), winners)
        if any(moved[name] != getattr(here, name) for name in moved):
            c.execute(update(r).where(r.c.id == run_id).values(moved))
        return False, new, len(winners) - len(known)

    def _same_run(self, run: _Run, here: Row[Any]) -> None:
        for name in _FIXED:
            if run.values[name] != getattr(here, name):
                raise _Conflict(
                    f"run {run.values['id']}: its {name} is {getattr(here, name)!r} in {self.database.location} "
                    f"and {run.values[name]!r} in {self.source}"
                )

    def _missing(self, c: Connection, run_id: str, page: list[Values]) -> list[Values]:
        """The trials of a page that are not stored. Raises ``_Conflict`` if a stored trial differs."""
        t = schema.trial
        numbers, keys = [v["number"] for v in page], [v["candidate_key"] for v in page]
        found = c.execute(
            select(t).where(t.c.run_id == run_id, or_(t.c.number.in_(numbers), t.c.candidate_key.in_(keys)))
        ).all()
        by_number = {x.number: x for x in found}
        by_key = {x.candidate_key: x for x in found}
        missing = []
        for values in page:
            here = by_number.get(values["number"])
            if here is None and values["candidate_key"] not in by_key:
                missing.append(values)
                continue
            here = here or by_key[values["candidate_key"]]
            if any(getattr(here, name) != value for name, value in values.items()):
                raise _Conflict(
                    f"run {run_id} holds different trials: {self.database.location} has {_trial_label(here)}, "
                    f"{self.source} has {_trial_label(values)}"
                )
        return missing

    @staticmethod
    def _served(c: Connection, values: Values) -> set[str]:
        """Schedules, as canonical text, of the stored kernels of a run's task and device model."""
        own = of_task(values["workload_key"], values["target_key"], values["device_model"])
        return set(c.execute(select(schema.kernel.c.schedule).where(own)).scalars())


def _summary(text: str, winners: list[Record]) -> str:
    """A run's summary with its winners, as canonical JSON."""
    summary = json.loads(text)
    summary.pop(SUMMARY, None)
    return canonical_json(summary | ({SUMMARY: winners} if winners else {}))


def _trial_label(trial: Any) -> str:
    """Describes a trial, as ``trial 7 (candidate 1a2b3c4d, ok, 0.0012 s)``."""
    v = trial if isinstance(trial, dict) else trial._mapping
    time = "" if v["seconds"] is None else f", {v['seconds']:.6g} s"
    return f"trial {v['number']} (candidate {v['candidate_key'][:12]}, {v['status']}{time})"
