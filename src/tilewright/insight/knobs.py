"""Charts of search times over knobs: one knob, two knobs, and all knobs of a template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tilewright.core import TrialRecord, UsageError, Value
from tilewright.insight.chart import XY, Axis, Dimension, Grid, Parallel, Series
from tilewright.insight.points import thinned, time_of
from tilewright.search_space import knob as named
from tilewright.units import with_unit

FASTEST = 100
"""Number of fastest trials among the lines of parallel coordinates; the other lines are a sample."""
LABEL = 100
"""Most characters of a value at an axis."""


def main_template(records: Iterable[TrialRecord]) -> str:
    """The template of the fastest trial; if no trial was measured, the most frequent template.

    Raises ``UsageError`` without a trial.
    """
    records = list(records)
    timed = [r for r in records if time_of(r) is not None]
    if timed:
        return min(timed, key=lambda r: time_of(r) or 0.0).schedule.template
    if not records:
        raise UsageError("the run has no trial yet", "Wait for the first, or choose another run")
    return Counter(r.schedule.template for r in records).most_common(1)[0][0]


def knob_values(records: Iterable[TrialRecord], template: str) -> dict[str, tuple[Value, ...]]:
    """The knobs of a template in trials, each with its occurring values in order (numbers by size)."""
    found: dict[str, set[tuple[str, Value]]] = {}
    for r in records:
        if r.schedule.template == template:
            for name, value in r.schedule.values.items():
                # True and 1 are equal in a set, but are different values of a knob.
                found.setdefault(name, set()).add((type(value).__name__, value))
    return {name: tuple(sorted((v for _, v in values), key=value_order)) for name, values in found.items()}


def value_order(value: Value) -> tuple[int, float, str]:
    """Sort key of a knob's values: numbers by size, then texts."""
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), type(value).__name__)


def value_text(value: Value) -> str:
    """A knob's value as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _label(value: Value) -> str:
    """A knob's value as text at an axis, shortened to ``LABEL`` characters."""
    text = value_text(value)
    return text if len(text) <= LABEL else f"{text[: LABEL - 3]}..."


def _values_of(records: Sequence[TrialRecord], template: str, *knobs: str) -> dict[str, tuple[Value, ...]]:
    """``knob_values`` of a template. Raises ``UsageError`` if a knob of ``knobs`` is missing."""
    values = knob_values(records, template)
    for name in knobs:
        if name not in values:
            known = ", ".join(values) or "none"
            raise UsageError(f"template {template!r} has no knob {name!r} in this run", f"Its knobs are {known}")
    return values


def knob_chart(run_id: str, records: Sequence[TrialRecord], knob: str, template: str = "") -> XY:
    """Chart of search times by one knob's value: every measured trial, and the fastest trial of each value.

    ``template``: the knob's template; the fastest trial's by default. Raises ``UsageError`` if it lacks the knob.
    """
    template = template or main_template(records)
    values = _values_of(records, template, knob)
    at = {(type(v), v): float(i) for i, v in enumerate(values[knob])}
    timed = [
        (at[type(r.schedule.values[knob]), r.schedule.values[knob]], time_of(r) or 0.0, r.number)
        for r in records
        if r.schedule.template == template and knob in r.schedule.values and time_of(r) is not None
    ]
    fastest: dict[float, tuple[float, int]] = {}
    for x, seconds, number in timed:
        if x not in fastest or seconds < fastest[x][0]:
            fastest[x] = (seconds, number)
    series: tuple[Series, ...] = ()
    best = "none was measured"
    if timed:
        order = sorted(fastest)
        names = [_label(v) for v in values[knob]]
        least = min(order, key=lambda x: fastest[x][0])
        best = f"the fastest has {knob}={names[int(least)]} with {with_unit(fastest[least][0], 's')}"
        series = (
            Series("measured", [x for x, _, _ in timed], [s for _, s, _ in timed],
                   trials=[(run_id, n) for _, _, n in timed], role="measured"),
            Series("fastest of each value", order, [fastest[x][0] for x in order], "line",
                   trials=[(run_id, fastest[x][1]) for x in order], emphasis=True),
        )  # fmt: skip
    return XY(
        f"Search time by {named(template, knob)} of {template}",
        Axis(str(named(template, knob)), categories=tuple(map(_label, values[knob]))),
        Axis("Search time", "s", "log"),
        series,
        alt=f"{len(timed)} trials by their value of {named(template, knob)}: {best}.",
        note="The search chose the values: a value that it tried more often had more chances.",
    )


def contour_chart(run_id: str, records: Sequence[TrialRecord], knob: str, other: str, template: str = "") -> Grid:
    """Heat map of two knobs: the least search time of each pair of values.

    ``template``: the knobs' template; the fastest trial's by default. Raises ``UsageError`` if it lacks a knob.
    """
    template = template or main_template(records)
    values = _values_of(records, template, knob, other)
    fastest: dict[tuple[str, str], tuple[float, int]] = {}
    for r in records:
        chosen, seconds = r.schedule.values, time_of(r)
        if r.schedule.template == template and seconds is not None and {knob, other} <= chosen.keys():
            pair = (value_text(chosen[knob]), value_text(chosen[other]))
            fastest[pair] = min(fastest.get(pair, (seconds, r.number)), (seconds, r.number))
    across, down = ([value_text(v) for v in values[name]] for name in (knob, other))
    found = [[fastest.get((a, b)) for a in across] for b in down]
    best = "none was measured"
    if fastest:
        (a, b), (seconds, _) = min(fastest.items(), key=lambda item: item[1])
        best = f"the fastest is at {knob}={a} and {other}={b} with {with_unit(seconds, 's')}"
    return Grid(
        f"Search time by {named(template, knob)} and {named(template, other)} of {template}",
        Axis(str(named(template, knob)), categories=tuple(map(_label, values[knob]))),
        Axis(str(named(template, other)), categories=tuple(map(_label, values[other]))),
        Axis("Least search time", "s", "log"),
        tuple(tuple(cell[0] if cell else None for cell in row) for row in found),
        tuple(tuple((run_id, cell[1]) if cell else None for cell in row) for row in found),
        alt=f"The fastest trial of {len(fastest)} pairs of values of {knob} and {other}: {best}.",
        note="Empty cells have no measured trial: the search chose the pairs.",
    )


def parallel_chart(run_id: str, records: Sequence[TrialRecord], template: str = "", limit: int = 300) -> Parallel:
    """Parallel coordinates of all varying knobs: a line for each of the fastest trials and an even sample of the rest.

    ``limit``: most lines. ``template``: the fastest trial's by default.
    """
    template = template or main_template(records)
    values = {name: vs for name, vs in knob_values(records, template).items() if len(vs) > 1}
    timed = [
        r for r in records
        if r.schedule.template == template and time_of(r) is not None and values.keys() <= r.schedule.values.keys()
    ]  # fmt: skip
    order = sorted(range(len(timed)), key=lambda i: time_of(timed[i]) or 0.0)
    fast = order[: min(FASTEST, limit)]
    shown = fast + thinned(order[len(fast) :], limit - len(fast))
    shown.reverse()  # the fastest trials come last, to be drawn on top
    at = {name: {(type(v), v): i for i, v in enumerate(vs)} for name, vs in values.items()}
    rows = []
    for i in shown:
        chosen = timed[i].schedule.values
        rows.append(tuple(at[name][type(chosen[name]), chosen[name]] for name in values))
    best = "none was measured"
    if timed:
        fastest = timed[order[0]].schedule.values
        best = " ".join(f"{n}={_label(fastest[n])}" for n in values)
    sampled = f": the fastest {len(fast)}, and a sample of the others" if len(shown) < len(timed) else ""
    return Parallel(
        f"Knobs of {template}",
        tuple(Dimension(name, tuple(map(_label, vs))) for name, vs in values.items()),
        tuple(rows),
        tuple(time_of(timed[i]) or 0.0 for i in shown),
        Axis("Search time", "s", "log"),
        tuple((run_id, timed[i].number) for i in shown),
        alt=f"{len(shown)} of {len(timed)} measured trials over {len(values)} knobs; the fastest: {best}.",
        note=f"{len(shown)} of {len(timed)} measured trials{sampled}.",
    )
