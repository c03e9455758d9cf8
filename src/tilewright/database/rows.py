"""Converts records to rows and back. Decoding an invalid row raises ``DatabaseError``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Row, Table, bindparam, column, func, select
from sqlalchemy.dialects import sqlite

from tilewright.columns import outputs_text
from tilewright.core import (
    Device,
    Failure,
    LaunchProgram,
    Pairs,
    Proposal,
    Schedule,
    Target,
    Task,
    TrialRecord,
    canonical_json,
    digest,
    outcome_from_json,
)
from tilewright.database import schema
from tilewright.database.errors import damaged
from tilewright.database.process import Process
from tilewright.database.records import Miss, StoredArtifact, StoredKernel, StoredRun, TrialPoint
from tilewright.database.text import visible_text

Values = dict[str, Any]
T = TypeVar("T")


NONSENSE = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""Exceptions that decoding an invalid row raises."""


@contextmanager
def decoding(name: str, table: str, row: str = "") -> Iterator[None]:
    """Context that reports an invalid row of ``table`` as damage to database ``name``. ``row``: the row's key, if
    known."""
    try:
        yield
    except NONSENSE:
        raise damaged(name, f"{_named(row)} of its table {table} is invalid") from None


def _named(row: object) -> str:
    """Names a row by its key, which may hold any text: safe to print, and shortened."""
    return f"the row {visible_text(row)[:80]}" if row != "" else "a row"


def each(
    name: str,
    table: str,
    found: Iterable[Row[Any]],
    make: Callable[[Row[Any]], T],
    key: str,
    unreadable: list[str] | None = None,
) -> list[T]:
    """Decodes every row by ``make``.

    An invalid row raises ``DatabaseError`` with the value of its ``key`` column. With ``unreadable``, that value is
    appended there instead, and the row is left out.
    """
    made = []
    for row in found:
        try:
            made.append(make(row))
        except NONSENSE:
            if unreadable is None:
                raise damaged(name, f"{_named(row._mapping[key])} of its table {table} is invalid") from None
            unreadable.append(str(row._mapping[key]))
    return made


def insert_new(connection: Connection, table: Table, rows: Iterable[Values]) -> int:
    """Inserts the rows that violate no uniqueness constraint and skips the rest; returns the number of new rows.

    Rows are inserted in the order of their primary keys, so that two clients that insert equal rows don't deadlock.
    """
    keys = [column.name for column in table.primary_key]
    ordered = sorted(rows, key=lambda row: [row[k] for k in keys])
    if not ordered:
        return 0
    counting = {"preserve_rowcount": True}
    if connection.dialect.name == "sqlite":
        statement = sqlite.insert(table).on_conflict_do_nothing()
        return connection.execute(statement, ordered, execution_options=counting).rowcount
    names = tuple(ordered[0])
    columns = {f"every_{name}": [row[name] for row in ordered] for name in names}
    return connection.execute(_insert_columns(table, names), columns, execution_options=counting).rowcount


@lru_cache(maxsize=64)
def _insert_columns(table: Table, names: tuple[str, ...]) -> Insert:
    """Statement that inserts rows given as one list for each column: its text does not grow with the number of rows."""
    from sqlalchemy.dialects import postgresql  # here, because only PostgreSQL needs it

    types = [table.c[name].type for name in names]
    lists = [bindparam(f"every_{n}", type_=postgresql.ARRAY(t)) for n, t in zip(names, types, strict=True)]
    given = (
        func.unnest(*lists).table_valued(*(column(n, t) for n, t in zip(names, types, strict=True))).render_derived()
    )
    return postgresql.insert(table).from_select(names, select(given)).on_conflict_do_nothing()


def read(kind: type[T], row: Row[Any], **known: Any) -> T:
    """Builds a dataclass from a row: fields are ``known``, or columns of their name."""
    columns = row._mapping
    return kind(**known, **{f.name: columns[f.name] for f in fields(kind) if f.name not in known})  # type: ignore[arg-type]


def row_of(table: Table, value: object, **known: Any) -> Values:
    """Builds a row of ``table``: columns are ``known``, or attributes of ``value`` of their name."""
    return {c.name: known[c.name] if c.name in known else getattr(value, c.name) for c in table.columns}


def params_text(params: Pairs | Mapping[str, Any]) -> str:
    """Parameters as stored and compared: canonical JSON with sorted keys."""
    return canonical_json(dict(params))


# --------------------------------------------------------------------------- workload, target


def put_task(connection: Connection, task: Task) -> None:
    """Stores a task's workload and target, and an alias if the workload is stored under another name.

    An insert waits for another client that is inserting an equal row. To exclude deadlocks, all code stores targets
    before workloads, and each table in the order of keys.
    """
    put_targets(connection, [task.target])
    w = task.workload
    row = row_of(
        schema.workload,
        w,
        params=params_text(w.params),
        defaults=params_text(w.defaults),
        param_names=canonical_json([name for name, _ in w.params]),
        inputs=canonical_json([s.to_json() for s in w.inputs]),
        output=outputs_text(w),
        created=time.time(),
    )
    put_workload(connection, row)


def put_workload(connection: Connection, row: Values) -> None:
    """Stores a workload, or an alias if the workload is stored under another name."""
    insert_new(connection, schema.workload, [row])
    names = {n: row[n] for n in ("op", "params", "defaults", "param_names", "created")}
    put_alias(connection, {"workload_key": row["key"], **names})


def put_alias(connection: Connection, row: Values) -> None:
    """Stores an alias of a stored workload, unless it is the workload's own name."""
    w = schema.workload.c
    known = connection.execute(select(w.op, w.params).where(w.key == row["workload_key"])).one()
    if (known.op, known.params) != (row["op"], row["params"]):
        insert_new(connection, schema.alias, [row])


def put_targets(connection: Connection, targets: Iterable[Target]) -> None:
    """Stores targets in the order of their keys, as every client does."""
    created = time.time()
    for target in sorted(targets, key=lambda t: t.key):
        data = canonical_json(target.to_json())
        insert_new(connection, schema.target, [row_of(schema.target, target, data=data, created=created)])


def target_of(data: str) -> Target:
    return Target.from_json(json.loads(data))


# --------------------------------------------------------------------------- runs and trials


def run_row(
    run_id: str,
    task: Task,
    device: Device,
    process: Process,
    settings: Mapping[str, Any],
    versions: Mapping[str, Any],
) -> Values:
    return {
        "id": run_id,
        "workload_key": task.workload.key,
        "target_key": task.target.key,
        "device_name": device.name,
        "device_model": device.model,
        "settings": canonical_json(dict(settings)),
        "state": "running",
        "started": time.time(),
        "finished": None,
        **process_row(process),
        "versions": canonical_json(dict(versions)),
        "summary": "{}",
    }


def process_row(process: Process) -> Values:
    return {"host": process.host, "pid": process.pid, "process": process.token}


def run_of(row: Row[Any], task: Task, counts: Sequence[Row[Any]]) -> StoredRun:
    """Decodes a run. ``counts``: by status, the number of ``trials``, the ``best`` seconds and the ``last`` number."""
    times = [c.best for c in counts if c.best is not None]
    return read(
        StoredRun,
        row,
        task=task,
        settings=dict(json.loads(row.settings)),
        state=state_of(row),
        versions=dict(json.loads(row.versions)),
        summary=dict(json.loads(row.summary)),
        trials=sum(c.trials for c in counts),
        failed={c.status: c.trials for c in counts if c.status != "ok"},
        search_seconds=min(times) if times else None,
        next_number=1 + max((c.last for c in counts), default=-1),
    )


def state_of(row: Row[Any]) -> str:
    """A run's state; ``interrupted`` if its process has died. ``row``: with ``state``, ``host``, ``pid``,
    ``process``."""
    if row.state == "running" and not Process(row.host, row.pid, row.process).alive():
        return "interrupted"
    return str(row.state)


def trial_row(run_id: str, task_key: str, record: TrialRecord) -> Values:
    outcome = record.outcome
    prediction = record.proposal.prediction
    return row_of(
        schema.trial,
        record,
        **_schedule_row(record.schedule),
        run_id=run_id,
        candidate_key=digest([task_key, record.schedule.key]),
        origin=record.proposal.origin,
        prediction=None if prediction is None else float(prediction),
        status=outcome.kind.value if isinstance(outcome, Failure) else "ok",
        outcome=canonical_json(outcome.to_json()),
        created=record.created or time.time(),
    )


def _schedule_row(s: Schedule) -> Values:
    return {"template": s.template, "template_version": s.version, "schedule": canonical_json(s.to_json())}


def point_of(row: Row[Any]) -> TrialPoint:
    outcome = json.loads(row.outcome)
    return read(TrialPoint, row, spread=outcome.get("spread"), dropped=bool(outcome.get("dropped")))


def trial_of(row: Row[Any]) -> TrialRecord:
    return TrialRecord(
        number=row.number,
        proposal=Proposal(Schedule.from_json(json.loads(row.schedule)), row.prediction, row.origin),
        outcome=outcome_from_json(json.loads(row.outcome)),
        build_seconds=row.build_seconds,
        created=row.created,
    )


# --------------------------------------------------------------------------- kernels and artifacts


def kernel_row(kernel: StoredKernel) -> Values:
    return row_of(
        schema.kernel,
        kernel,
        **_schedule_row(kernel.schedule),
        workload_key=kernel.task.workload.key,
        target_key=kernel.task.target.key,
        launch_program=canonical_json(kernel.program.to_json()),
        seconds=float(kernel.seconds),
        peak_fraction=None if kernel.peak_fraction is None else float(kernel.peak_fraction),
        updated=kernel.updated or time.time(),
    )


def kernel_of(row: Row[Any], task: Task) -> StoredKernel:
    """Decodes a kernel. ``row``: a kernel with its artifact's ``compiler``."""
    return read(
        StoredKernel,
        row,
        task=task,
        schedule=Schedule.from_json(json.loads(row.schedule)),
        program=LaunchProgram.from_json(json.loads(row.launch_program)),
    )


def artifact_row(artifact: StoredArtifact) -> Values:
    return row_of(
        schema.artifact,
        artifact,
        size=len(artifact.data),
        target_key=artifact.target.key,
        flags=canonical_json(list(artifact.flags)),
        created=artifact.created or time.time(),
    )


def artifact_of(row: Row[Any]) -> StoredArtifact:
    """Decodes an artifact. ``row``: an artifact with its target's ``target_data``."""
    return read(
        StoredArtifact,
        row,
        data=bytes(row.data),
        target=target_of(row.target_data),
        flags=tuple(json.loads(row.flags)),
    )


def miss_of(row: Row[Any]) -> Miss:
    return read(Miss, row, params=tuple(json.loads(row.params).items()))
