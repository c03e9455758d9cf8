"""The differences between two trials: their schedules, outcomes, and the sources of their kernels."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.core import Failure, TrialRecord, Value
from tilewright.insight.chart import Column, Table
from tilewright.insight.knobs import value_text
from tilewright.insight.points import OK
from tilewright.search_space import knob


def schedule_diff(a: TrialRecord, b: TrialRecord) -> Table:
    """Table of knobs, differing knobs first; a trial that lacks a knob has an empty text."""
    left, right = a.schedule.values, b.schedule.values
    names = dict.fromkeys([*left, *right])
    launch = {name for name, _ in (*a.schedule.launch, *b.schedule.launch)}
    rows = []
    if a.schedule.template != b.schedule.template:
        rows.append(("template", "", "", a.schedule.template, b.schedule.template, True))
    if a.schedule.version != b.schedule.version:
        rows.append(("template version", "", "", str(a.schedule.version), str(b.schedule.version), True))
    knobs = []
    for name in names:
        label = knob((a if name in left else b).schedule.template, name).label
        one, two = _text(left.get(name)), _text(right.get(name))
        same = name in left and name in right and (type(left[name]), left[name]) == (type(right[name]), right[name])
        knobs.append((name, label, "each call" if name in launch else "compile time", one, two, not same))
    rows += sorted(knobs, key=lambda row: not row[5])
    return Table(
        "schedules",
        f"Schedules of trials {a.number} and {b.number}",
        (
            Column("knob", "Knob"),
            Column("label", "Meaning"),
            Column("half", "Takes effect at"),
            Column("a", f"Trial {a.number}"),
            Column("b", f"Trial {b.number}"),
            Column("differs", "Differs"),
        ),
        tuple(rows),
    )


def outcome_diff(a: TrialRecord, b: TrialRecord) -> Table:
    """Table of both outcomes: status, seconds, noise, ratio to the batch's reference kernel, origin, prediction."""
    columns: dict[Column, Callable[[TrialRecord], object]] = {
        Column("trial", "Trial", "trial", True): lambda r: r.number,
        Column("status", "Status"): lambda r: r.outcome.kind.value if isinstance(r.outcome, Failure) else OK,
        Column("seconds", "Search time", "s", True): lambda r: r.seconds,
        Column("spread", "Noise", "share", True): lambda r: getattr(r.outcome, "spread", None),
        Column("ratio", "Ratio to the reference", numeric=True): lambda r: getattr(r.outcome, "ratio", None),
        Column("prediction", "Predicted score", numeric=True): lambda r: r.proposal.prediction,
        Column("origin", "Origin"): lambda r: r.proposal.origin,
    }
    return Table.of("outcomes", "Outcomes", (a, b), columns)


def _text(value: Value | None) -> str:
    return "" if value is None else value_text(value)


@dataclass(frozen=True)
class DiffLine:
    """A line of a text diff. ``tag``: ``same``, ``removed`` (only in the first text), ``added``, or ``hunk``, which
    gives the position of the following lines. ``a``, ``b``: line numbers from 1, ``None`` if a text lacks the line."""

    tag: str
    a: int | None
    b: int | None
    text: str


def source_diff(a: str, b: str, context: int = 3) -> list[DiffLine]:
    """The differing lines with ``context`` lines around them; empty if the texts are equal."""
    left, right = a.splitlines(), b.splitlines()
    found: list[DiffLine] = []
    for group in difflib.SequenceMatcher(None, left, right).get_grouped_opcodes(context):
        _, a0, _, b0, _ = group[0]
        found.append(DiffLine("hunk", None, None, f"lines {a0 + 1} to {group[-1][2]}, {b0 + 1} to {group[-1][4]}"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [DiffLine("same", i + 1, j1 + i - i1 + 1, left[i]) for i in range(i1, i2)]
                continue
            found += [DiffLine("removed", i + 1, None, left[i]) for i in range(i1, i2)]
            found += [DiffLine("added", None, j + 1, right[j]) for j in range(j1, j2)]
    return found
