"""Queries of pages and metrics: totals, lists and summaries that stay fast with a million trials.

A trial's row is wide: its schedule and outcome are JSON. So queries that count or rank many trials read only the index
by run, status, time and number. Whole rows are read only for the trials that are shown. All queries here only read. A
database of the previous schema lacks that index; it gives equal answers, more slowly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    cast,
    distinct,
    func,
    or_,
    select,
    union,
)

from tilewright.core import Task, UsageError
from tilewright.database import rows, schema
from tilewright.database.kernels import Kernels
from tilewright.database.process import Process
from tilewright.database.records import (
    DeviceSummary,
    KernelView,
    OperatorSummary,
    RunFilter,
    RunProgress,
    StoredRun,
    TaskSummary,
    Totals,
)
from tilewright.database.runs import NOTE
from tilewright.database.store import keys_named
from tilewright.database.views.trials import TrialViews
from tilewright.units import Gain

_EVERY = RunFilter()
LATELY = 48
"""Number of latest trials from which the seconds of a trial are estimated."""


class Views(TrialViews, Kernels):
    """The methods of the database for pages and metrics."""

    def totals(self) -> Totals:
        """Counts over the whole database."""
        r, t, k = schema.run.c, schema.trial.c, schema.kernel.c

        by_state = select(r.state, func.count().label("runs")).group_by(r.state)

        def work(c: Connection) -> Totals:
            states = Counter({row.state: row.runs for row in c.execute(by_state)})
            dead = len(_dead(c))
            states.update({"running": -dead, "interrupted": dead})
            failed: dict[str, int] = {}
            for kinds in (t.status < "ok", t.status > "ok"):  # two ranges of the index, run by run
                found = select(t.status, func.count()).where(t.run_id.in_(select(r.id)), kinds)
                failed.update((kind, n) for kind, n in c.execute(found.group_by(t.status)))
            return Totals(
                runs={state: n for state, n in sorted(states.items()) if n},
                trials=c.execute(select(func.count()).select_from(schema.trial)).scalar_one(),
                failed=dict(sorted(failed.items())),
                kernels=c.execute(select(func.count()).where(k.rank == 1)).scalar_one(),
                workloads=c.execute(select(func.count()).select_from(schema.workload)).scalar_one(),
                devices=c.execute(select(func.count(distinct(r.device_model)))).scalar_one(),
            )

        return self._read(work)

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Number of trials by run and status: ``ok`` or the kind of failure."""
        t = schema.trial.c
        wanted = select(t.run_id, t.status, func.count()).group_by(t.run_id, t.status)
        found: dict[str, dict[str, int]] = {}
        for run_id, status, count in self._read(lambda c: c.execute(wanted).all()):
            found.setdefault(run_id, {})[status] = count
        return found

    # ----------------------------------------------------------------------- runs

    def count_runs(self, where: RunFilter = _EVERY) -> int:
        """Number of runs that match ``where``."""

        def work(c: Connection) -> int:
            dead = _dead(c) if where.state else []
            return int(c.execute(_filtered(select(func.count()).select_from(schema.run), where, dead)).scalar_one())

        return self._read(work)

    def list_runs(
        self,
        where: RunFilter = _EVERY,
        limit: int = 50,
        offset: int = 0,
        *,
        order: str = "started",
        descending: bool = True,
        unreadable: list[str] | None = None,
    ) -> list[StoredRun]:
        """Runs with their results so far, in an order of ``RUN_ORDERS``; runs without a value come last.

        An invalid row raises ``DatabaseError``. With ``unreadable``, its run's id is appended there instead, and the
        run is left out.
        """
        r = schema.run
        if order not in RUN_ORDERS:
            raise UsageError(f"runs cannot be listed by {order!r}", f"Use one of {', '.join(RUN_ORDERS)}")
        dead = self._read(_dead) if where.state else []
        by = RUN_ORDERS[order]
        turned = by.desc() if descending else by
        newest = (r.c.started.desc(), r.c.id.desc())
        lacking = [by.is_(None)] if order in _MAY_LACK else []
        wanted = _filtered(select(r), where, dead).order_by(*lacking, turned, *newest)
        return self._runs(wanted.limit(limit).offset(offset), unreadable)

    def progress(self, run_id: str) -> RunProgress:
        """A run's progress; cheap enough to query every second. Raises ``UsageError`` if there is no such run."""
        r, t = schema.run.c, schema.trial.c
        own = t.run_id == run_id
        # Trial numbers are unique, start at 0, and trials are removed only with their run. So if the first n numbers
        # were stored once and number n - 1 still is, the first n trials need not be counted again.
        known = self._gapless.get(run_id, 0)
        wanted: Select[Any] = select(r.state, r.finished, r.host, r.pid, r.process, r.summary).where(r.id == run_id)

        def work(c: Connection) -> tuple[RunProgress | None, int]:
            run = c.execute(wanted).one_or_none()
            if run is None:
                return None, 0
            last = c.execute(select(func.max(t.number)).where(own)).scalar()
            best = c.execute(select(func.min(t.seconds)).where(own, t.status == "ok")).scalar()
            start = known if c.execute(select(t.number).where(own, t.number == known - 1)).first() else 0
            trials = start + c.execute(select(func.count()).where(own, t.number >= start)).scalar_one()
            number = -1 if last is None else last
            each = _each(c, run_id, number)
            found = RunProgress(rows.state_of(run), trials, number, best, run.finished, each, *_stage(run.summary))
            return found, trials if trials == found.last_number + 1 else start

        found, gapless = self._read(work)
        if found is None:
            raise self._no_run(run_id)
        self._gapless[run_id] = gapless
        return found

    def progress_of(self, run: StoredRun) -> RunProgress:
        """Progress of a run that was just read, without counting its trials again."""
        last = run.next_number - 1
        each = self._read(lambda c: _each(c, run.id, last))
        return RunProgress(run.state, run.trials, last, run.search_seconds, run.finished, each, *_stage(run.summary))

    # ----------------------------------------------------------------------- summaries

    def operators(self) -> list[OperatorSummary]:
        """Every operator with a workload, by name. A workload with two names counts for both."""
        w, s, k, r = schema.workload.c, schema.alias.c, schema.kernel.c, schema.run.c

        def work(c: Connection) -> list[OperatorSummary]:
            named: dict[str, list[str]] = {}
            for row in c.execute(union(select(w.op, w.key), select(s.op, s.workload_key))):
                named.setdefault(row.op, []).append(row.key)
            runs = {row.workload_key: row for row in c.execute(_tuned(r.workload_key))}
            best = select(k.workload_key, func.count().label("kernels")).where(k.rank == 1).group_by(k.workload_key)
            kernels = {row.workload_key: row.kernels for row in c.execute(best)}
            return [
                OperatorSummary(
                    op,
                    len(keys),
                    sum(runs[key].runs for key in keys if key in runs),
                    sum(runs[key].trials for key in keys if key in runs),
                    sum(kernels.get(key, 0) for key in keys),
                    max((runs[key].last_started for key in keys if key in runs), default=None),
                )
                for op, keys in sorted(named.items())
            ]

        return self._read(work)

    def devices(self) -> list[DeviceSummary]:
        """Every pair of device model and tuned target, the last used first."""
        r, t = schema.run.c, schema.target.c

        def work(c: Connection) -> list[DeviceSummary]:
            names = {row.key: row.name for row in c.execute(select(t.key, t.name))}
            found: dict[tuple[str, str], list[Row[Any]]] = {}
            for row in c.execute(_tuned(r.device_model, r.target_key)):
                found.setdefault((row.device_model, names[row.target_key]), []).append(row)
            return [
                DeviceSummary(
                    model, name, sum(x.runs for x in own), sum(x.trials for x in own), max(x.last_started for x in own)
                )
                for (model, name), own in found.items()
            ]

        return sorted(self._read(work), key=lambda d: (-d.last_started, d.device_model, d.target_name))

    def operator_workloads(self, op: str) -> list[TaskSummary]:
        """An operator's tasks on each device model, the last tuned first."""
        r = schema.run.c

        def work(c: Connection) -> tuple[dict[tuple[str, str, str], Row[Any]], dict[tuple[str, str], Task]]:
            wanted = _tuned(r.workload_key, r.target_key, r.device_model).where(r.workload_key.in_(keys_named(op)))
            runs = {(x.workload_key, x.target_key, x.device_model): x for x in c.execute(wanted)}
            return runs, self._tasks(c, {key[:2] for key in runs})

        runs, tasks = self._read(work)
        best = {(k.task.workload.key, k.task.target.key, k.device_model): k for k in self._winners(op)}
        own = {key: tasks[key[:2]] for key in runs} | {key: k.task for key, k in best.items()}
        names = self._names(op, {task.workload.key: task.workload for task in own.values()})
        found = [
            TaskSummary(
                Task(next(iter(names.get(key[0], ())), task.workload), task.target),
                key[2],
                runs[key].runs if key in runs else 0,
                runs[key].trials if key in runs else 0,
                runs[key].last_started if key in runs else None,
                best.get(key),
            )
            for key, task in own.items()
        ]
        return sorted(found, key=lambda x: (-(x.last_started or 0.0), x.task.key, x.device_model))

    # ----------------------------------------------------------------------- kernels

    def best_kernels(self, limit: int = 50, op: str | None = None) -> list[KernelView]:
        """The best kernel of each task and device model, the last changed first, with its improvement over the default.

        ``op``: only kernels of this operator, even if its program was first stored under another name.
        """
        t, k = schema.trial.c, schema.kernel.c
        found = self._winners(op, limit)
        runs = {x.run_id for x in found if x.run_id is not None}
        first = select(t.run_id, t.seconds).where(t.run_id.in_(runs), t.number == 0, t.origin == "default")
        default = {row.run_id: row.seconds for row in self._ask(first)}
        own = schema.kernel.join(schema.trial, (t.run_id == k.run_id) & (t.number == k.trial_number))
        winners = select(t.run_id, t.number, t.seconds).select_from(own).where(k.rank == 1, k.run_id.in_(runs))
        trial = {(row.run_id, row.number): row.seconds for row in self._ask(winners)}
        r = schema.run.c
        gain = {row.id: _gain(row.summary) for row in self._ask(select(r.id, r.summary).where(r.id.in_(runs)))}
        return [
            KernelView(x, default.get(x.run_id), trial.get((x.run_id, x.trial_number)), gain.get(x.run_id))
            for x in found
        ]


def _gain(summary: str) -> Gain | None:
    """The gain of a run's winner over the default schedule; ``None`` if its summary has no gain."""
    try:
        return Gain.read(json.loads(summary)["paired"]["default"])
    except rows.NONSENSE:
        return None


def _stage(summary: str | Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The phase and the deadline in a run's summary, ``None`` where missing."""
    try:
        said = json.loads(summary) if isinstance(summary, str) else summary
        phase, deadline = said.get("phase"), said.get("deadline")
    except rows.NONSENSE:
        return None, None
    return phase if isinstance(phase, str) else None, deadline if isinstance(deadline, int | float) else None


def _each(c: Connection, run_id: str, number: int) -> float | None:
    """Average seconds from one trial to the next, over the latest trials up to a number.

    The trials of a batch have one time, so the first batch does not count.
    """
    t = schema.trial.c
    created = c.execute(select(t.created).where(t.run_id == run_id, t.number > number - LATELY)).scalars().all()
    first, last = min(created, default=0.0), max(created, default=0.0)
    return (last - first) / sum(x > first for x in created) if last > first else None


def _of_trials(what: ColumnElement[Any], *these: ColumnElement[bool]) -> ScalarSelect[Any]:
    """Subquery of an aggregate over a run's trials, which only reads their index."""
    return select(what).where(schema.trial.c.run_id == schema.run.c.id, *these).correlate(schema.run).scalar_subquery()


def _of_workload(what: ColumnElement[Any]) -> ScalarSelect[Any]:
    its = schema.workload.c.key == schema.run.c.workload_key
    return select(what).where(its).correlate(schema.run).scalar_subquery()


_OK = schema.trial.c.status == "ok"
_BEST = _of_trials(func.min(schema.trial.c.seconds), _OK)
RUN_ORDERS: Mapping[str, ColumnElement[Any]] = {
    "started": schema.run.c.started,
    "workload": _of_workload(schema.workload.c.op + schema.workload.c.params),
    "device": schema.run.c.device_model,
    "strategy": schema.run.c.strategy,
    "trials": _of_trials(func.count()),
    "failed": _of_trials(func.count(), ~_OK),
    "best": _BEST,
    "rate": _of_workload(schema.workload.c.flops) / _BEST,
}
"""Orders in which runs can be listed."""
_MAY_LACK = ("best", "rate")


def _filtered(wanted: Select[Any], where: RunFilter, dead: Sequence[str]) -> Select[Any]:
    """``wanted`` for the runs that match ``where``. ``dead``: ids of runs that are stored as running, but whose process
    has died."""
    r = schema.run.c
    if where.op is not None:
        wanted = wanted.where(r.workload_key.in_(keys_named(where.op)))
    if where.state == "running":
        wanted = wanted.where(r.state == "running", r.id.not_in(dead))
    elif where.state == "interrupted":
        wanted = wanted.where(or_(r.state == "interrupted", (r.state == "running") & r.id.in_(dead)))
    elif where.state is not None:
        wanted = wanted.where(r.state == where.state)
    for name in ("device_model", "workload_key", "strategy"):
        value = getattr(where, name)
        if value is not None:
            wanted = wanted.where(r[name] == value)
    for word in where.search.split():
        wanted = wanted.where(_matches(word))
    return wanted


def _matches(word: str) -> ColumnElement[bool]:
    """Condition that a run matches a search word; ``NAME=VALUE`` matches a parameter, ``#TAG`` a tag."""
    r, w, s, t = schema.run.c, schema.workload.c, schema.alias.c, schema.target.c
    if word.startswith("#"):
        # Keys are sorted, so a note is its tags followed by its text.
        tag = "".join(f"/{c}" if c in "/%_" else c for c in json.dumps(word[1:]))
        return r.summary.ilike(f'%"{NOTE}":{{"tags":[%{tag}%],"text":%', escape="/")
    texts = [*(x.icontains(word, autoescape=True) for x in (r.id, r.device_model, r.strategy, r.host))]
    target = select(t.key).where(t.name.icontains(word, autoescape=True))
    tasks = [select(w.key).where(named_in(word, w.op, w.params))]
    tasks.append(select(s.workload_key).where(named_in(word, s.op, s.params)))
    return or_(*texts, r.target_key.in_(target), *(r.workload_key.in_(x) for x in tasks))


def named_in(word: str, name: ColumnElement[Any], pairs: ColumnElement[Any]) -> ColumnElement[bool]:
    """Condition that a name contains the word, or that a JSON object has the pair ``NAME=VALUE``."""
    key, equals, value = word.partition("=")
    if not equals:
        return name.icontains(word, autoescape=True)
    return or_(*(pairs.icontains(f'"{key}":{end}', autoescape=True) for end in _endings(value)))


def _endings(value: str) -> Iterator[str]:
    """The forms of a value, as number and as string, within a canonical JSON object."""
    for text in (value, json.dumps(value)):
        yield from (f"{text},", f"{text}}}")


def _dead(c: Connection) -> list[str]:
    """Ids of the runs that are stored as running, but whose process has died."""
    r = schema.run.c
    found = c.execute(select(r.id, r.host, r.pid, r.process).where(r.state == "running")).all()
    alive = {own: Process(*own).alive() for own in {(x.host, x.pid, x.process) for x in found}}
    return [x.id for x in found if not alive[x.host, x.pid, x.process]]


def _tuned(*columns: Any) -> Select[Any]:
    """Query that groups runs by ``columns``: number of runs, number of trials, and start of the newest run."""
    r, t = schema.run.c, schema.trial.c
    trials = select(func.count()).where(t.run_id == r.id).scalar_subquery()
    return select(
        *columns,
        func.count().label("runs"),
        cast(func.sum(trials), BigInteger).label("trials"),
        func.max(r.started).label("last_started"),
    ).group_by(*columns)
