"""Garbage collection: removes old runs with their trials, and rows that nothing refers to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Column, Connection, delete, func, select, text

from tilewright.database import rows, schema
from tilewright.database.database import Database
from tilewright.database.postgresql import take_turns
from tilewright.database.transfer.winners import SUMMARY

_DAY = 86400.0
_PAGE = 500


@dataclass(frozen=True)
class Freed:
    """Counts of removed rows, or in a dry run of rows that would be removed.

    ``runs``: their ids, oldest first. ``code_bytes``: bytes of compiled code. ``text_bytes``: bytes of the trials'
    schedules and outcomes. ``kept``: number of old runs that stay, by reason.
    """

    runs: tuple[str, ...]
    trials: int
    aliases: int
    workloads: int
    targets: int
    artifacts: int
    code_bytes: int
    text_bytes: int
    kept: dict[str, int]


def collect(
    database: Database,
    *,
    keep_runs: int | None = None,
    older_than: float | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Freed:
    """Removes old runs and the rows that only they referred to. Never removes a kernel, its code, or its run.

    ``keep_runs``: number of newest runs that stay for each task and device model. ``older_than``: age in days; younger
    runs stay. Without both, no run is removed. Running runs stay, and runs whose imported winners are not built here
    yet. ``progress`` is called with the number of processed runs and their total.
    """
    old = _old_runs(database, keep_runs, older_than)
    kept: dict[str, int] = {}
    gone: list[str] = []
    trials = size = 0
    for done, run_id in enumerate(old):
        why, count, weight = _remove_run(database, run_id, dry_run)
        if why:
            kept[why] = kept.get(why, 0) + 1
        else:
            gone.append(run_id)
            trials, size = trials + count, size + weight
        if progress is not None:
            progress(done + 1, len(old))
    loose = _loose(database, gone, dry_run)
    return Freed(tuple(gone), trials, *loose, size, kept)


def _old_runs(database: Database, keep_runs: int | None, older_than: float | None) -> list[str]:
    """Ids of the runs that are old enough to be removed, oldest first."""
    if keep_runs is None and older_than is None:
        return []
    r = schema.run.c
    nth = (
        func.row_number()
        .over(partition_by=(r.workload_key, r.target_key, r.device_model), order_by=(r.started.desc(), r.id.desc()))
        .label("nth")
    )
    ranked = select(r.id, r.started, nth).subquery()
    wanted = select(ranked.c.id).order_by(ranked.c.started, ranked.c.id)
    if keep_runs is not None:
        wanted = wanted.where(ranked.c.nth > keep_runs)
    if older_than is not None:
        wanted = wanted.where(ranked.c.started < time.time() - older_than * _DAY)
    return list(database._read(lambda c: c.execute(wanted).scalars().all()))


def _remove_run(database: Database, run_id: str, dry_run: bool) -> tuple[str, int, int]:
    """Removes a run. Returns the reason if it stays (else empty), its number of trials, and their bytes."""
    r, t, k = schema.run, schema.trial, schema.kernel

    def work(c: Connection) -> tuple[str, int, int]:
        query = select(r).where(r.c.id == run_id)
        row = c.execute(query if dry_run else query.with_for_update()).one_or_none()
        if row is None:
            return "removed by another process", 0, 0
        if rows.state_of(row) == "running":
            return "still running", 0, 0
        if c.execute(select(k.c.rank).where(k.c.run_id == run_id).limit(1)).first() is not None:
            return "a kernel stems from it", 0, 0
        if f'"{SUMMARY}":[{{' in row.summary and '"state":"pending"' in row.summary:
            return "its winners are not built here yet", 0, 0
        weight = func.coalesce(func.sum(func.length(t.c.schedule) + func.length(t.c.outcome)), 0)
        count, size = c.execute(select(func.count(), weight).where(t.c.run_id == run_id)).one()
        if not dry_run:
            c.execute(delete(t).where(t.c.run_id == run_id))
            c.execute(delete(r).where(r.c.id == run_id))
        return "", int(count), int(size)

    return database._read(work) if dry_run else database._write(work)


def _loose(database: Database, gone: list[str], dry_run: bool) -> tuple[int, int, int, int, int]:
    """Removes aliases, workloads, targets and code that nothing refers to; returns their counts, and bytes of code.

    ``gone``: the removed runs; a dry run treats them as removed.
    """
    r, k, m, a = schema.run, schema.kernel, schema.model, schema.artifact
    removed = set(gone)

    def work(c: Connection) -> tuple[int, int, int, int, int]:
        if not dry_run:
            _keep_others_out(c)
        runs = [x for x in c.execute(select(r.c.id, r.c.workload_key, r.c.target_key)) if x.id not in removed]
        kernels = c.execute(select(k.c.workload_key, k.c.target_key, k.c.artifact_sha256)).all()
        code = c.execute(select(a.c.sha256, a.c.target_key, a.c.size)).all()
        served = {x.artifact_sha256 for x in kernels}
        workloads = {x.workload_key for x in (*runs, *kernels)}
        targets = {x.target_key for x in (*runs, *kernels, *(y for y in code if y.sha256 in served))}
        targets |= set(c.execute(select(m.c.target_key)).scalars())
        artifacts = [x for x in code if x.sha256 not in served]
        return (
            _drop(c, schema.alias.c.workload_key, workloads, dry_run),
            _drop(c, schema.workload.c.key, workloads, dry_run),
            _drop(c, a.c.sha256, served, dry_run),
            _drop(c, schema.target.c.key, targets, dry_run),
            sum(x.size for x in artifacts),
        )

    aliases, workloads, artifacts, targets, size = database._read(work) if dry_run else database._write(work)
    return aliases, workloads, targets, artifacts, size


def _drop(c: Connection, key: Column[str], used: set[str], dry_run: bool) -> int:
    """Removes a table's rows whose key is not in ``used``; returns their number."""
    found = c.execute(select(key)).scalars().all()
    loose = sorted({x for x in found if x not in used})
    if not dry_run:
        for start in range(0, len(loose), _PAGE):
            c.execute(delete(key.table).where(key.in_(loose[start : start + _PAGE])))
    return sum(x not in used for x in found)


def _keep_others_out(c: Connection) -> None:
    """Locks the tables, so that no client refers to a row between its check and its removal. On SQLite the transaction
    excludes other writers."""
    take_turns(c, "collect")
    if c.dialect.name == "postgresql":
        c.execute(text("LOCK TABLE target, workload, alias, run, kernel, model, artifact IN SHARE ROW EXCLUSIVE MODE"))
