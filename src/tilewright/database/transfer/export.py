"""Reads a database for an export, page by page: only the ids of its runs are kept in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, Table, select

from tilewright.database import rows, schema
from tilewright.database.database import Database
from tilewright.database.store import keys_named
from tilewright.database.transfer.format import Record, columns, fields, record_of
from tilewright.database.transfer.winners import FIELDS, SUMMARY, stored_winners
from tilewright.errors import NotFound

_PAGE = 500


def records(database: Database, op: str | None = None, runs: Sequence[str] = ()) -> Iterator[Record]:
    """Yields everything but compiled code, of one operator, of ``runs``, or of all runs.

    Each run is as it was when it was read. The order of records is deterministic. Raises ``UsageError`` for a missing
    run.
    """
    chosen = _chosen(database, op, runs)
    r = schema.run.c
    some = op is not None or bool(runs)
    tasks = set[tuple[str, str]]()
    if some:
        for ids in _pages(chosen):
            query = select(r.workload_key, r.target_key).where(r.id.in_(ids)).distinct()
            tasks |= {(x[0], x[1]) for x in database._read(lambda c, query=query: c.execute(query).all())}  # type: ignore[misc]
    yield from _keyed(database, "target", schema.target, sorted({t for _, t in tasks}) if some else None)
    workloads = sorted({w for w, _ in tasks}) if some else None
    yield from _keyed(database, "workload", schema.workload, workloads)
    yield from _aliases(database, workloads)
    for run_id in chosen:
        yield from _run(database, run_id)


def _chosen(database: Database, op: str | None, runs: Sequence[str]) -> list[str]:
    """The runs to export, oldest first."""
    r = schema.run.c
    wanted = select(r.id, r.started)
    if op is not None:
        wanted = wanted.where(r.workload_key.in_(keys_named(op)))
    found = {x.id: x.started for x in database._read(lambda c: c.execute(wanted).all())}
    if runs:
        asked = {database.run(i).id if i == "last" else i for i in runs}
        missing = sorted(asked - found.keys())
        if missing:
            raise NotFound(
                f"{database.location} holds no run {missing[0]!r}{f' of {op}' if op else ''}",
                "List the runs: tilewright runs",
            )
        found = {i: found[i] for i in asked}
    return sorted(found, key=lambda i: (found[i], i))


def _keyed(database: Database, kind: str, table: Table, keys: Sequence[str] | None) -> Iterator[Record]:
    """Records of a table, by key: of ``keys``, or of all rows."""
    if keys is not None:
        for some in _pages(keys):
            yield from _decoded(database, kind, select(table).where(table.c.key.in_(some)).order_by(table.c.key))
        return
    yield from _paged(database, kind, select(table), table.c.key, "")


def _aliases(database: Database, workloads: Sequence[str] | None) -> Iterator[Record]:
    s = schema.alias
    named = workloads
    if named is None:
        query = select(s.c.workload_key).distinct()
        named = sorted(database._read(lambda c: c.execute(query).scalars().all()))
    for some in _pages(named):
        found = list(_decoded(database, "alias", select(s).where(s.c.workload_key.in_(some))))
        # Sorted here: databases collate texts differently.
        found.sort(key=lambda x: (x["workload_key"], x["op"], json.dumps(x["params"], sort_keys=True)))
        yield from found


def _run(database: Database, run_id: str) -> Iterator[Record]:
    r, t, k = schema.run, schema.trial, schema.kernel

    def work(c: Connection) -> tuple[Row[Any] | None, Sequence[Row[Any]]]:
        row = c.execute(select(r).where(r.c.id == run_id)).one_or_none()
        return row, c.execute(select(k).where(k.c.run_id == run_id).order_by(k.c.rank)).all()

    row, kernels = database._read(work)
    if row is None:
        return  # removed meanwhile
    with rows.decoding(database.location, "run"):
        record = record_of("run", row)
        record["summary"].pop(SUMMARY, None)
        if record["state"] == "running":
            record["state"] = "interrupted"  # no process continues the copy
        won = _won(run_id, row, kernels)
    yield record
    own = select(*(t.c[name] for name in columns("trial"))).where(t.c.run_id == run_id)
    yield from _paged(database, "trial", own, t.c.number, -1)
    yield from won


def _won(run_id: str, row: Row[Any], kernels: Sequence[Row[Any]]) -> list[Record]:
    """Kernels that a run found: its stored kernels, and imported winners that were not built here."""
    found = [fields(x, FIELDS) for x in kernels if x.state == "verified"]
    served = [x["schedule"] for x in found]
    for w in stored_winners(row):
        if w["state"] != "rebuilt" and w["schedule"] not in served:
            found.append({n: w[n] for n in FIELDS})
    found.sort(key=lambda x: x["rank"])
    return [{"kind": "kernel", "run_id": run_id, **x} for x in found]


def _paged(
    database: Database, kind: str, query: Select[Any], by: Column[Any], last: str | int
) -> Iterator[Record]:  # fmt: skip
    """Records of a query in the order of column ``by``, from after ``last`` on, read page by page."""
    while True:
        page = list(_decoded(database, kind, query.where(by > last).order_by(by).limit(_PAGE)))
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1][by.name]


def _decoded(database: Database, kind: str, query: Select[Any]) -> Iterator[Record]:
    found = database._read(lambda c: c.execute(query).all())
    with rows.decoding(database.location, kind):
        return iter([record_of(kind, x) for x in found])


def _pages(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _PAGE):
        yield items[start : start + _PAGE]
