"""The format of an export: JSON objects, one for each line. Every line is checked before it is stored.

The first line names the format and its version. The last line has the number of lines, so that a truncated file is
noticed. Between them come targets, workloads, aliases, then each run with its trials and its winning kernels. An export
has no compiled code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from sqlalchemy import BigInteger, Double, Integer, Table

from tilewright.columns import named_pairs, workload_of
from tilewright.core import DatabaseError, Failure, Schedule, canonical_json, digest, outcome_from_json
from tilewright.database import rows, schema
from tilewright.database.records import RANKS, RUN_STATES
from tilewright.database.rows import Values
from tilewright.database.transfer.winners import FIELDS

FORMAT = "tilewright-export"
VERSION = 1

Record = dict[str, Any]
"""A decoded line: its ``kind``, and the columns of a row; columns of JSON are decoded."""

TABLES = {
    "target": schema.target,
    "workload": schema.workload,
    "alias": schema.alias,
    "run": schema.run,
    "trial": schema.trial,
}

# The process that owned a run is meaningless in another database.
_LEFT_OUT = {"run": ("pid", "process")}
_OBJECT, _LIST = dict, list
_JSON: dict[str, type] = {
    "data": _OBJECT, "params": _OBJECT, "defaults": _OBJECT, "param_names": _LIST, "inputs": _LIST, "output": _LIST,
    "settings": _OBJECT, "versions": _OBJECT, "summary": _OBJECT, "schedule": _OBJECT, "outcome": _OBJECT,
}  # fmt: skip
_LINE_BYTES = 64 << 20
_TYPES: dict[type, str] = {_OBJECT: "an object", _LIST: "a list"}


class Damage(Exception):
    """An invalid line; its text says why."""


def columns(kind: str) -> list[str]:
    """The columns of a table that an export has."""
    return [c.name for c in TABLES[kind].columns if c.name not in _LEFT_OUT.get(kind, ())]


def record_of(kind: str, row: Any) -> Record:
    """Converts a row to a record. Raises as ``json.loads`` does if a column of JSON is malformed."""
    return {"kind": kind} | fields(row, columns(kind))


def fields(row: Any, names: Iterable[str]) -> Record:
    """The columns ``names`` of a row; columns of JSON are decoded. Raises as ``json.loads`` does."""
    values = row._mapping
    return {name: json.loads(values[name]) if name in _JSON else values[name] for name in names}


# --------------------------------------------------------------------------- text


def to_lines(records: Iterable[Record]) -> Iterator[str]:
    """The lines of an export, each with its newline."""
    yield canonical_json({"format": FORMAT, "version": VERSION}) + "\n"
    count = 2
    for record in records:
        yield canonical_json(record) + "\n"
        count += 1
    yield canonical_json({"kind": "end", "lines": count}) + "\n"


def from_lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, Record]]:
    """Yields records with their position (``FILE line 3``). Raises ``DatabaseError``."""
    number = 0
    ended = False
    while line := stream.readline(_LINE_BYTES + 1):
        number += 1
        place = f"{name} line {number}"
        try:
            if ended:
                raise Damage("there is more after the line that ends the export")
            record = _parsed(line)
            if number == 1:
                _check_header(record, name)
                continue
            if record.get("kind") == "end":
                if record.get("lines") != number:
                    raise Damage(f"the export had {record.get('lines')} lines, and this is the {number}th")
                ended = True
                continue
        except Damage as e:
            raise refused(place, str(e)) from None
        yield place, record
    if not ended:
        what = "it is empty" if number == 0 else "it is cut off: the line that ends an export is missing"
        raise refused(f"{name} line {number + 1}", what)


def refused(place: str, cause: str) -> DatabaseError:
    """The error for an invalid line."""
    return DatabaseError(
        f"{place}: {cause}", "Export it again with tilewright db export; the runs before it are stored"
    )


def _parsed(line: bytes) -> Record:
    if len(line) > _LINE_BYTES:
        raise Damage(f"it is longer than {_LINE_BYTES >> 20} MiB")
    if not line.endswith(b"\n"):
        raise Damage("it is cut off")
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Damage("it is not a JSON object in UTF-8") from None
    if not isinstance(record, dict):
        raise Damage("it is not a JSON object")
    return record


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _check_header(record: Record, name: str) -> None:
    if record.get("format") != FORMAT:
        raise DatabaseError(f"{name} line 1: it is not an export of Tilewright", "Name a file of tilewright db export")
    version = record.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Damage("the export's version is not a number")
    if version > VERSION:
        raise DatabaseError(
            f"{name} line 1: it was written by a newer Tilewright (format {version}; this one knows {VERSION})",
            "Upgrade tilewright",
        )


# --------------------------------------------------------------------------- records to rows


def values_of(record: Record) -> Values:
    """Converts a record to a row with the column types of its table. Raises ``Damage``."""
    kind = str(record["kind"])
    table = TABLES[kind]
    names = columns(kind)
    _check_names(record, set(names) | {"kind"})
    return {name: _column(table, name, record.get(name)) for name in names}


def _check_names(record: Record, known: set[str]) -> None:
    unknown = sorted(set(record) - known)
    if unknown:
        raise Damage(f"unknown field {unknown[0]!r}")


def _column(table: Table, name: str, value: Any) -> Any:
    column = table.c[name]
    if value is None and column.nullable:
        return None
    if name in _JSON:
        if not isinstance(value, _JSON[name]):
            raise Damage(f"{name} is not {_TYPES[_JSON[name]]}")
        return _text(name, canonical_json(value))
    if isinstance(column.type, Double):
        return number(name, value)
    if isinstance(column.type, Integer):
        return integer(name, value, 63 if isinstance(column.type, BigInteger) else 31)
    if not isinstance(value, str):
        raise Damage(f"{name} is not a text")
    return _text(name, value)


def _text(name: str, value: str) -> str:
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise Damage(f"{name} holds a character that no database takes")
    return value


def number(name: str, value: Any) -> float:
    """Checks for a finite number and returns it as ``float``. Raises ``Damage``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Damage(f"{name} is not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise Damage(f"{name} is out of range")
    return found


def integer(name: str, value: Any, bits: int = 31) -> int:
    """Checks for an integer that fits its column. Raises ``Damage``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Damage(f"{name} is not a whole number")
    if not -(1 << bits) <= value < 1 << bits:
        raise Damage(f"{name} is out of range")
    return value


# --------------------------------------------------------------------------- checks of records


def check_target(values: Values) -> None:
    """Raises ``Damage`` unless the row's key is its target's."""
    with _sense("target"):
        target = rows.target_of(values["data"])
        same = (target.key, target.name) == (values["key"], values["name"])
    if not same:
        raise Damage("the target does not hash to its key")


def check_workload(values: Values) -> None:
    """Raises ``Damage`` unless the row's key is its workload's."""
    with _sense("workload"):
        same = workload_of(values).key == values["key"]
    if not same:
        raise Damage("the workload does not hash to its key")


def check_alias(values: Values) -> None:
    """Raises ``Damage`` unless the row's parameters are valid."""
    with _sense("alias"):
        named_pairs(values)


def check_run(values: Values) -> None:
    """Raises ``Damage`` for a run in a state that an export cannot have."""
    if values["state"] not in RUN_STATES[1:]:
        raise Damage(f"a run in an export is {', '.join(RUN_STATES[1:])}, not {values['state']!r}")


def check_trial(values: Values, run_id: str, task_key: str, after: int) -> None:
    """Raises ``Damage`` unless a trial is of the run, follows number ``after``, and its columns are consistent."""
    if values["run_id"] != run_id:
        raise Damage(f"a trial of run {values['run_id']!r} stands among those of run {run_id!r}")
    if values["number"] <= after:
        raise Damage(f"trial {values['number']} follows trial {after}")
    schedule = schedule_of(values["schedule"])
    if (schedule.template, schedule.version) != (values["template"], values["template_version"]):
        raise Damage("the trial's template is not its schedule's")
    if digest([task_key, schedule.key]) != values["candidate_key"]:
        raise Damage("the trial does not hash to its key")
    with _sense("outcome"):
        outcome = outcome_from_json(json.loads(values["outcome"]))
        failed = isinstance(outcome, Failure)
        told = (outcome.kind.value, None) if isinstance(outcome, Failure) else ("ok", float(outcome.seconds))
    if told != (values["status"], values["seconds"]) or (not failed and not (values["seconds"] or 0.0) > 0):
        raise Damage("the trial's status and time are not its outcome's")


def check_kernel(record: Record, run_id: str) -> Record:
    """Converts a kernel of the run to a winner, as a run's summary stores it. Raises ``Damage``."""
    _check_names(record, {"kind", "run_id", *FIELDS})
    if record.get("run_id") != run_id:
        raise Damage(f"a kernel of run {record.get('run_id')!r} stands among those of run {run_id!r}")
    rank = integer("rank", record.get("rank"))
    if not 1 <= rank <= RANKS:
        raise Damage(f"rank is not within 1 to {RANKS}")
    schedule_of(_text("schedule", canonical_json(record.get("schedule"))))
    seconds = number("seconds", record.get("seconds"))
    if seconds <= 0:
        raise Damage("seconds is not a time")
    trial, share = record.get("trial_number"), record.get("peak_fraction")
    return {
        "rank": rank,
        "trial_number": None if trial is None else integer("trial_number", trial),
        "schedule": record["schedule"],
        "seconds": seconds,
        "peak_fraction": None if share is None else number("peak_fraction", share),
    }


def schedule_of(text: str) -> Schedule:
    """Decodes a schedule from its canonical text. Raises ``Damage``."""
    with _sense("schedule"):
        schedule = Schedule.from_json(json.loads(text))
        same = canonical_json(schedule.to_json()) == text
        pairs = schedule.structure + schedule.launch
        plain = isinstance(schedule.template, str) and isinstance(schedule.version, int)
        plain = plain and all(isinstance(k, str) and isinstance(v, int | float | str) for k, v in pairs)
    if not same or not plain:
        raise Damage("the schedule is invalid")
    return schedule


@contextmanager
def _sense(what: str) -> Iterator[None]:
    """Context that turns errors of decoding into ``Damage``."""
    try:
        yield
    except (*rows.NONSENSE, RecursionError):
        raise Damage(f"the {what} is invalid") from None
