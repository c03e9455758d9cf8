"""Stores and reads runs and their trials."""

from __future__ import annotations

import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Select, case, false, func, or_, select, update

from tilewright.columns import workload_of
from tilewright.core import Device, Failure, Task, TrialRecord, UsageError, Workload, canonical_json, digest
from tilewright.database import rows, schema
from tilewright.database.errors import already_holds
from tilewright.database.process import Process
from tilewright.database.records import RUN_STATES, StoredRun
from tilewright.database.store import Store, keys_named
from tilewright.errors import NotFound, needed
from tilewright.installed import installed_version

if TYPE_CHECKING:
    from pandas import DataFrame

TRIAL = (
    schema.trial.c.run_id,
    schema.trial.c.number,
    schema.trial.c.schedule,
    schema.trial.c.origin,
    schema.trial.c.prediction,
    schema.trial.c.outcome,
    schema.trial.c.build_seconds,
    schema.trial.c.created,
)
"""The columns that ``rows.trial_of`` reads."""
FRAME = ["run", "trial", "template", "seconds", "status", "origin", "prediction", "build_seconds", "created"]
"""Columns of a frame without trials."""
_OF_AN_END = ("deadline", "ended", "error", "phase")
"""Keys of a run's summary that are removed when the run is resumed."""
TAGS, LONGEST_NOTE = 20, 4000
_TAG = re.compile(r"[\w.-]{1,40}", re.ASCII)
NOTE = "note"
"""Key of a run's summary with the user's note: a ``text`` and ``tags``."""


class Runs(Store):
    """The methods of the database for runs and trials."""

    def add_run(
        self,
        task: Task,
        device: Device,
        strategy: str,
        seed: int,
        trials: int,
        settings: Mapping[str, Any],
        versions: Mapping[str, Any] | None = None,
    ) -> str:
        """Adds a run that this process owns; returns its id.

        ``trials``: number of requested trials in all. ``versions``: recorded beside those of Python and Tilewright.
        """
        versions = {**_versions(), **(versions or {})}
        while True:
            run_id = f"{time.strftime('%y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
            values = rows.run_row(run_id, task, device, Process.current(), settings, versions)
            values |= {"strategy": strategy, "seed": seed, "trials_wanted": trials}
            if self._write(lambda c, values=values: _put_run(c, task, values)):  # type: ignore[misc]
                self._task_keys[run_id] = task.key
                return run_id

    def resume_run(self, run_id: str, task: Task, device: Device, trials: int, take_over: bool = False) -> StoredRun:
        """Resumes a run (or ``last``) that no living process owns, to reach ``trials`` in all.

        ``take_over``: resumes it also if its process is on another host or container and cannot be seen from here. If
        that process still lives, one of the processes fails at the first trial number that both have used. Raises
        ``UsageError`` if the run is of another task or device, or still running.
        """
        run = self.run(run_id)
        if run.task.key != task.key:
            raise UsageError(
                f"run {run.id} tuned {run.task.workload.label} on {run.task.target.name} "
                f"with threads={run.task.target.threads}, which is another task",
                "Write the operator, parameters and target of that run, or remove --resume",
            )
        if run.device_model != device.model:
            raise UsageError(
                f"run {run.id} was measured on {run.device_model}, but this device is {device.model}",
                "Start a new run: remove --resume",
            )

        def work(c: Connection) -> bool:
            t = schema.run
            owner = select(t.c.state, t.c.host, t.c.pid, t.c.process).where(t.c.id == run.id).with_for_update()
            row = c.execute(owner).one()
            process = Process(row.host, row.pid, row.process)
            if row.state == "running" and process.alive() and not (take_over and process.seen() is None):
                return process == Process.current()
            again = {"state": "running", "finished": None, "trials_wanted": trials}
            again["summary"] = canonical_json({k: v for k, v in run.summary.items() if k not in _OF_AN_END})
            c.execute(update(t).where(t.c.id == run.id).values(again | rows.process_row(Process.current())))
            return True

        if not self._write(work):
            raise UsageError(
                f"run {run.id} is still running (process {run.pid} on {run.host})",
                "Wait for it to end, or stop it",
            )
        return self.run(run.id)

    def finish_run(self, run_id: str, state: str, summary: Mapping[str, Any] | None = None) -> None:
        """Ends a run as ``done``, ``interrupted`` or ``failed``."""
        if state not in RUN_STATES[1:]:
            raise UsageError(f"a run cannot end as {state!r}", f"Use one of {', '.join(RUN_STATES[1:])}")
        values: rows.Values = {"state": state, "finished": time.time()}

        def end(before: str) -> rows.Values:
            if summary is None:
                return values
            kept = {k: v for k, v in json.loads(before).items() if k == NOTE}
            return {**values, "summary": canonical_json({**summary, **kept})}

        self._change_run(run_id, end)

    def set_note(self, run_id: str, text: str, tags: Iterable[str]) -> None:
        """Replaces a run's note and tags. Tags are words of letters, digits, ``.``, ``_`` and ``-``.

        Raises ``UsageError`` for invalid tags, and for a note or tags over their limits.
        """
        own = sorted(set(tags))
        wrong = [tag for tag in own if not _TAG.fullmatch(tag)]
        if wrong:
            raise UsageError(
                f"{wrong[0][:40]!r} is not a tag", "Use letters, digits, dots, dashes and underscores, 40 at most"
            )
        if len(own) > TAGS or len(text) > LONGEST_NOTE:
            raise UsageError(
                f"a note has at most {LONGEST_NOTE} characters, and {TAGS} tags", "Shorten it, or use fewer tags"
            )
        self.update_summary(run_id, {NOTE: {"text": text, "tags": own}})

    def update_summary(self, run_id: str, values: Mapping[str, Any]) -> None:
        """Adds values to a run's summary; they replace values under their names."""
        self._change_run(run_id, lambda before: {"summary": canonical_json({**json.loads(before), **values})})

    def _change_run(self, run_id: str, change: Callable[[str], rows.Values]) -> None:
        """Updates columns of a run to the values that ``change`` returns for its summary. Raises ``NotFound``."""
        t = schema.run

        def work(c: Connection) -> bool:
            row = c.execute(select(t.c.summary).where(t.c.id == run_id).with_for_update()).one_or_none()
            if row is None:
                return False
            with rows.decoding(self.location, "run", run_id):
                values = change(row.summary)
            c.execute(update(t).where(t.c.id == run_id).values(values))
            return True

        if not self._write(work):
            raise self._no_run(run_id)

    def run(self, run_id: str) -> StoredRun:
        """A run by its id, or the newest run for ``last``. Raises ``UsageError`` if there is no such run."""
        t = schema.run
        if run_id == "last":
            wanted = select(t).order_by(t.c.started.desc(), t.c.id.desc()).limit(1)
        else:
            wanted = select(t).where(t.c.id == run_id)
        found = self._runs(wanted)
        if not found:
            raise self._no_run(run_id)
        return found[0]

    def runs(self, limit: int | None = None, op: str | None = None) -> list[StoredRun]:
        """Runs, the newest first. ``op``: only runs of this operator, even if its program was first stored under
        another name."""
        t = schema.run
        wanted = select(t) if op is None else select(t).where(t.c.workload_key.in_(keys_named(op)))
        return self._runs(wanted.order_by(t.c.started.desc(), t.c.id.desc()).limit(limit))

    def _no_run(self, run_id: str) -> UsageError:
        if run_id == "last":
            return NotFound(f"{self.location} holds no run", "Start one: tilewright tune OP KEY=VALUE...")
        return NotFound(f"{self.location} holds no run {run_id!r}", "List the runs: tilewright runs")

    def _runs(self, wanted: Select[Any], unreadable: list[str] | None = None) -> list[StoredRun]:
        """Runs in the order of ``wanted``. An invalid row raises ``DatabaseError``. With ``unreadable``, its run's id
        is appended there instead, and the run is left out."""

        def work(c: Connection) -> list[StoredRun]:
            found = c.execute(wanted).all()
            t = schema.trial.c
            these = wanted.with_only_columns(schema.run.c.id)
            counts: dict[str, list[Row[Any]]] = {}
            for r in c.execute(
                select(
                    t.run_id,
                    t.status,
                    func.count().label("trials"),
                    func.min(t.seconds).label("best"),
                    func.max(t.number).label("last"),
                )
                .where(t.run_id.in_(these))  # with a join, SQLite would read the index of every run
                .group_by(t.run_id, t.status)
            ):
                counts.setdefault(r.run_id, []).append(r)
            tasks = self._tasks(c, {(r.workload_key, r.target_key) for r in found}, partly=unreadable is not None)

            def run(r: Row[Any]) -> StoredRun:
                return rows.run_of(r, tasks[r.workload_key, r.target_key], counts.get(r.id, []))

            return rows.each(self.location, "run", found, run, "id", unreadable)

        return self._read(work, unreadable)

    def add_trials(self, run_id: str, records: Iterable[TrialRecord]) -> None:
        """Stores trials of a run, atomically.

        A trial that the run already has, under its number, is left unchanged. A different candidate under a taken
        number, or a second number for a candidate, raises ``DatabaseError``.
        """
        task_key = self._task_key(run_id)
        values = [rows.trial_row(run_id, task_key, r) for r in records]
        if not values:
            return
        numbers = [v["number"] for v in values]
        t = schema.trial.c
        stored = select(t.number, t.candidate_key).where(
            t.run_id == run_id, t.number.between(min(numbers), max(numbers))
        )

        def work(c: Connection) -> None:
            if rows.insert_new(c, schema.trial, values) == len(values):
                return
            found = {r.number: r.candidate_key for r in c.execute(stored)}
            if any(found.get(v["number"]) != v["candidate_key"] for v in values):
                raise already_holds(self.location)

        self._write(work)

    def _task_key(self, run_id: str) -> str:
        if run_id not in self._task_keys:
            t = schema.run.c
            row = self._read(
                lambda c: c.execute(select(t.workload_key, t.target_key).where(t.id == run_id)).one_or_none()
            )
            if row is None:
                raise self._no_run(run_id)
            self._task_keys[run_id] = digest([row.workload_key, row.target_key])
        return self._task_keys[run_id]

    def trials(self, run_id: str) -> list[TrialRecord]:
        """A run's trials, by number."""
        t = schema.trial.c
        return self._trials(select(*TRIAL).where(t.run_id == run_id).order_by(t.number))

    def trials_frame(self, run_id: str | None = None) -> DataFrame:
        """Trials as a pandas DataFrame, of one run (its identifier, or ``last``), or of all runs, the newest run first.

        Columns: ``run``, ``trial`` (its number), ``template``, ``seconds`` (of one call; missing for a failure),
        ``status`` (``ok`` or the kind of failure), ``origin``, ``prediction``, ``build_seconds``, ``created`` (UTC),
        and ``knob.NAME`` for each knob. Raises ``UsageError`` without pandas, or for a run that is not there.
        """
        pandas = needed("pandas", "data frames need the package pandas", "frame")
        found = [
            {
                "run": run, "trial": r.number, "template": r.schedule.template, "seconds": r.seconds,
                "status": r.outcome.kind.value if isinstance(r.outcome, Failure) else "ok",
                "origin": r.proposal.origin, "prediction": r.proposal.prediction, "build_seconds": r.build_seconds,
                "created": r.created, **{f"knob.{name}": value for name, value in r.schedule.values.items()},
            }
            for run in ([r.id for r in self.runs()] if run_id is None else [self.run(run_id).id])
            for r in self.trials(run)
        ]  # fmt: skip
        frame = pandas.DataFrame(found, columns=None if found else FRAME)
        frame["created"] = pandas.to_datetime(frame["created"], unit="s", utc=True)
        return frame

    def earlier_runs(
        self,
        task: Task,
        device_model: str,
        limit: int = 20_000,
        versions: Mapping[str, int] | None = None,
        exclude_run: str | None = None,
    ) -> Iterator[tuple[Workload, list[TrialRecord]]]:
        """Trials of earlier runs on a task's target and a device model, run by run: times compare within a run only.

        Runs of the task come first, then runs of its operator, then all other runs, each group the newest first. Whole
        runs are returned until ``limit`` trials are reached. ``versions``, by template: trials of other versions, and
        of templates that it doesn't name, are left out.
        """
        r, t, w = schema.run.c, schema.trial.c, schema.workload.c
        count = func.count(t.number).label("trials")
        near = case((r.workload_key == task.workload.key, 0), (w.op == task.workload.op, 1), else_=2)
        newest = (
            select(r.id, r.workload_key, count)
            .join(schema.trial, r.id == t.run_id)
            .join(schema.workload, r.workload_key == w.key)
            .where(r.target_key == task.target.key, r.device_model == device_model)
            .group_by(r.id, r.workload_key, r.started, w.op)
            .order_by(near, r.started.desc(), r.id.desc())
        )
        if exclude_run is not None:
            newest = newest.where(r.id != exclude_run)
        found = self._read(lambda c: c.execute(_current(newest, versions)).all())
        workloads: dict[str, Workload] = {}
        for run in found:
            if limit <= 0:
                return
            if run.workload_key not in workloads:
                its = select(schema.workload).where(w.key == run.workload_key)
                row = self._read(lambda c, its=its: c.execute(its).one())  # type: ignore[misc]
                with rows.decoding(self.location, "workload"):
                    workloads[run.workload_key] = workload_of(row._mapping)
            wanted = select(*TRIAL).where(t.run_id == run.id).order_by(t.number)
            yield workloads[run.workload_key], self._trials(_current(wanted, versions))
            limit -= run.trials

    def _trials(self, wanted: Select[Any]) -> list[TrialRecord]:
        return self._records(self._ask(wanted))

    def _records(self, found: Iterable[Row[Any]], unreadable: list[str] | None = None) -> list[TrialRecord]:
        return rows.each(self.location, "trial", found, rows.trial_of, "number", unreadable)


def _current(wanted: Select[Any], versions: Mapping[str, int] | None) -> Select[Any]:
    """``wanted`` without trials whose template version differs from ``versions``."""
    if versions is None:
        return wanted
    t = schema.trial.c
    current = [(t.template == name) & (t.template_version == v) for name, v in versions.items()]
    return wanted.where(or_(false(), *current))


def _put_run(c: Connection, task: Task, values: rows.Values) -> bool:
    """Stores a run. Returns ``False`` if another run has its id."""
    rows.put_task(c, task)
    rows.insert_new(c, schema.run, [values])
    t = schema.run
    own = [t.c[name] == values[name] for name in ("id", "host", "pid", "process", "started")]
    return c.execute(select(t.c.id).where(*own)).one_or_none() is not None


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    packages = {name: installed_version(name) for name in ("tilewright", "numpy", "sqlalchemy")}
    return {"python": sys.version.split()[0], **{name: v for name, v in packages.items() if v is not None}}
