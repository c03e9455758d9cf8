"""Queries of pages for trials: lists, points for charts, and samples, of runs with any number of trials.

A query first selects trial numbers from an index (``views/__init__.py`` says why), then reads their rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    column,
    func,
    literal,
    or_,
    select,
    union_all,
)

from tilewright.core import TrialRecord, UsageError
from tilewright.database import rows, schema
from tilewright.database.records import TrialPoint, TrialRow
from tilewright.database.runs import TRIAL, Runs
from tilewright.database.store import keys_named
from tilewright.errors import NotFound

ORDERS = ("number", "seconds", "prediction", "created")

_T = schema.trial.c
_FASTEST = (_T.seconds, _T.number)
_POINT = (
    _T.run_id, _T.number, _T.template, _T.status, _T.seconds, _T.outcome, _T.prediction, _T.origin, _T.created
)  # fmt: skip


class TrialViews(Runs):
    """The queries for trials. A missing run has no trials."""

    def trial(self, run_id: str, number: int) -> TrialRecord:
        """A trial by its number. Raises ``UsageError`` if there is no such trial."""
        found = self._trials(select(*TRIAL).where(_T.run_id == run_id, _T.number == number))
        if not found:
            raise NotFound(f"{self.location} holds no trial {number} of run {run_id!r}", "List the run's trials")
        return found[0]

    def count_trials(
        self, run_id: str, status: str | None = None, template: str | None = None, search: str = ""
    ) -> int:
        """Number of trials that match."""
        return self._read(lambda c: _count(c, _these(run_id, status, template, search)))

    def list_trials(
        self,
        run_id: str,
        *,
        status: str | None = None,
        template: str | None = None,
        search: str = "",
        order: str = "number",
        descending: bool = False,
        limit: int = 200,
        offset: int = 0,
        unreadable: list[str] | None = None,
    ) -> list[TrialRecord]:
        """A run's trials with a status (``ok`` or a kind of failure) and template, in one of ``ORDERS``.

        ``search``: words that must all match, in any case. A word matches a part of the trial's origin, template,
        status or outcome, which includes the error, or a knob's value (``MR=8``).

        Trials without a time or a prediction come last, by number, in both directions. An invalid row raises
        ``DatabaseError``. With ``unreadable``, its trial's number is appended there instead, and the trial is left out,
        as in all queries of this class.
        """
        if order not in ORDERS:
            raise UsageError(f"trials cannot be listed by {order!r}", f"Use one of {', '.join(ORDERS)}")
        these = _these(run_id, status, template, search)
        have, lack = _parts(order)
        by = [_T[name].desc() if descending else _T[name] for name in dict.fromkeys((order, "number"))]

        def work(c: Connection) -> list[TrialRecord]:
            found = self._records(c.execute(_ranked([*these, *have], by, limit, offset)), unreadable)
            had = len(found) + len(unreadable or ())
            if had < limit and lack:
                skip = 0 if had or not offset else offset - _count(c, [*these, *have])
                found += self._records(c.execute(_ranked([*these, *lack], [_T.number], limit - had, skip)), unreadable)
            return found

        return self._read(work, unreadable)

    def fastest(self, run_id: str, limit: int = 500) -> list[TrialRecord]:
        """A run's fastest trials, the fastest first."""
        return self._trials(_ranked(_these(run_id, "ok"), _FASTEST, limit))

    def sample_trials(self, run_id: str, limit: int = 2000, unreadable: list[str] | None = None) -> list[TrialRecord]:
        """At most ``limit`` trials of a run, by number: all, or the fastest and an even sample of its trials."""
        these = _these(run_id)

        def work(c: Connection) -> list[TrialRecord]:
            wanted, numbers = select(*TRIAL).where(*these).order_by(_T.number), _more_than(c, run_id, limit)
            if numbers:
                best = select(_T.number).where(*_these(run_id, "ok")).order_by(*_FASTEST).limit(1)
                wanted = wanted.where(_T.number.in_(_either(best, _thinned(run_id, numbers, limit - 1))))
            return self._records(c.execute(wanted), unreadable)

        return self._read(work, unreadable)

    # ----------------------------------------------------------------------- points

    def points(self, run_id: str, limit: int = 4000, unreadable: list[str] | None = None) -> list[TrialPoint]:
        """A run's trials for charts, by number: all, or an even sample of ``limit`` trials and each new best trial."""
        these = _these(run_id)

        def work(c: Connection) -> list[TrialPoint]:
            wanted, numbers = select(*_POINT).where(*these).order_by(_T.number), _more_than(c, run_id, limit)
            if numbers:
                wanted = wanted.where(_T.number.in_(_either(_improvements(run_id), _thinned(run_id, numbers, limit))))
            return rows.each(self.location, "trial", c.execute(wanted), rows.point_of, "number", unreadable)

        return self._read(work, unreadable)

    # ----------------------------------------------------------------------- trials of an operator

    def operator_trials(
        self, op: str, limit: int = 2000, device_model: str | None = None, unreadable: list[str] | None = None
    ) -> list[TrialRow]:
        """At most ``limit`` trials of an operator's runs, the newest run first, then by number.

        Returns all trials, or each run's fastest trial and an even sample over all runs' trials. At most half of
        ``limit`` are fastest trials, of the newest runs.
        """
        r = schema.run.c
        own = _T.run_id == r.id
        best = select(_T.number).where(own, _T.status == "ok").order_by(*_FASTEST).limit(1)
        wanted = (
            select(
                r.id,
                r.workload_key,
                r.target_key,
                (select(func.max(_T.number)).where(own).scalar_subquery()).label("last"),
                best.scalar_subquery().label("best"),
            )
            .where(r.workload_key.in_(keys_named(op)))
            .order_by(r.started.desc(), r.id.desc())
        )
        if device_model is not None:
            wanted = wanted.where(r.device_model == device_model)

        def work(c: Connection) -> list[TrialRow]:
            runs = {x.id: x for x in c.execute(wanted) if x.last is not None}
            chosen = _chosen([(x.id, x.last + 1, x.best) for x in runs.values()], limit)
            table, given = _listed(c, chosen)
            these: Select[Any] = select(*TRIAL).join(
                table, (table.c.run_id == _T.run_id) & (table.c.number == _T.number)
            )
            place = {run_id: i for i, run_id in enumerate(runs)}
            found = sorted(c.execute(these, given), key=lambda x: (place[x.run_id], x.number))

            def row(x: Row[Any]) -> TrialRow:
                run = runs[x.run_id]
                return TrialRow(x.run_id, run.workload_key, run.target_key, rows.trial_of(x))

            return rows.each(self.location, "trial", found, row, "number", unreadable)

        return self._read(work, unreadable)


def _these(
    run_id: str, status: str | None = None, template: str | None = None, search: str = ""
) -> list[ColumnElement[bool]]:
    given = {"run_id": run_id, "status": status, "template": template}
    return [*(_T[name] == value for name, value in given.items() if value is not None), *map(_matches, search.split())]


def _matches(word: str) -> ColumnElement[bool]:
    """Condition that a trial matches a search word; ``KNOB=VALUE`` matches a knob's value."""
    knob, equals, value = word.partition("=")
    if equals:
        pairs = (f"[{json.dumps(knob)},{text}]" for text in (value, json.dumps(value)))
        return or_(*(_T.schedule.icontains(pair, autoescape=True) for pair in pairs))
    return or_(*(x.icontains(word, autoescape=True) for x in (_T.origin, _T.template, _T.status, _T.outcome)))


def _count(c: Connection, these: Sequence[ColumnElement[bool]]) -> int:
    return int(c.execute(select(func.count()).where(*these)).scalar_one())


def _more_than(c: Connection, run_id: str, limit: int) -> int:
    """One past a run's highest number, if it has more than ``limit`` trials; else 0."""
    more = select(_T.number).where(_T.run_id == run_id).order_by(_T.number).limit(1).offset(limit)
    last = select(func.max(_T.number)).where(_T.run_id == run_id)
    return 0 if c.execute(more).first() is None else int(c.execute(last).scalar_one()) + 1


def _parts(order: str) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    """Conditions for trials with and without a value to order by; both are empty if every trial has a value."""
    if order == "seconds":
        return [_T.status == "ok"], [_T.status != "ok"]
    if order == "prediction":
        return [_T.prediction.is_not(None)], [_T.prediction.is_(None)]
    return [], []


def _ranked(
    these: Sequence[ColumnElement[bool]], by: Sequence[ColumnElement[Any]], limit: int, offset: int = 0
) -> Select[Any]:
    """Query of trials that match conditions, of which the first is the run, in an order."""
    run = these[0]
    numbers = select(_T.number).where(*these).order_by(*by).limit(limit).offset(offset)
    return select(*TRIAL).where(run, _T.number.in_(numbers)).order_by(*by)


def _either(a: Select[Any], b: Select[Any]) -> Select[Any]:
    """Union of two queries of trial numbers."""
    return select(union_all(*(select(x.subquery()) for x in (a, b))).subquery())


def _thinned(run_id: str, numbers: int, limit: int) -> Select[Any]:
    """An even sample of ``limit`` trial numbers from 0 to ``numbers``: the first of each interval."""
    step = literal(limit, BigInteger)  # the product is too large for a number's own type
    return select(_T.number).where(_T.run_id == run_id, _T.number * step % numbers < step)


def _improvements(run_id: str) -> Select[Any]:
    """Numbers of a run's trials that were the fastest so far.

    In the index's order, by time, an improvement has a lower number than all faster or equally fast trials.
    """
    earlier = func.min(_T.number).over(order_by=_FASTEST, rows=(None, -1)).label("earlier")
    timed = select(_T.number, earlier).where(*_these(run_id, "ok")).subquery()
    return select(timed.c.number).where(or_(timed.c.earlier.is_(None), timed.c.number < timed.c.earlier))


def _chosen(runs: Sequence[tuple[str, int, int | None]], limit: int) -> list[tuple[str, int]]:
    """Selects at most ``limit`` trials (run, number). ``runs``: id, count of numbers, and the fastest trial's
    number."""
    total = sum(numbers for _, numbers, _ in runs)
    if total <= limit:
        return [(run_id, number) for run_id, numbers, _ in runs for number in range(numbers)]
    chosen = dict.fromkeys([(run_id, best) for run_id, _, best in runs if best is not None][: limit // 2])
    left = limit - len(chosen)
    start = place = 0
    for run_id, numbers, _ in runs:
        while place < left and place * total // left < start + numbers:
            chosen[run_id, place * total // left - start] = None
            place += 1
        start += numbers
    return list(chosen)


def _listed(c: Connection, chosen: Sequence[tuple[str, int]]) -> tuple[FromClause, dict[str, Any]]:
    """A table of trials to join, and its bound parameters. The statement's text does not grow with their number."""
    if c.dialect.name == "sqlite":
        every = func.json_each(bindparam("chosen", type_=Text)).table_valued("value")
        pair = [func.json_extract(every.c.value, f"$[{i}]") for i in range(2)]
        return select(pair[0].label("run_id"), pair[1].label("number")).subquery(), {"chosen": json.dumps(chosen)}
    from sqlalchemy.dialects.postgresql import ARRAY  # here, because only PostgreSQL needs it

    lists = [bindparam("every_run", type_=ARRAY(Text)), bindparam("every_number", type_=ARRAY(Integer))]
    table = func.unnest(*lists).table_valued(column("run_id", Text), column("number", Integer)).render_derived()
    return table, {"every_run": [run_id for run_id, _ in chosen], "every_number": [n for _, n in chosen]}
