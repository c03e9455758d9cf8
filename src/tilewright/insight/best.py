"""The least search time so far, over trials and over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.database.records import TrialPoint
from tilewright.insight.chart import XY, Axis, Series
from tilewright.insight.points import time_of
from tilewright.units import with_unit

BAND = "The final times the fastest trials again. Band: the middle half of the samples of the fastest trial."


def improvements(points: Sequence[TrialPoint]) -> list[TrialPoint]:
    """The trials that were faster than all earlier trials, by number."""
    found: list[TrialPoint] = []
    least: float | None = None
    for p in sorted(points, key=lambda p: p.number):
        seconds = time_of(p)
        if seconds is not None and (least is None or seconds < least):
            found.append(p)
            least = seconds
    return found


def least_of(points: Sequence[TrialPoint]) -> tuple[int, float] | None:
    """Number and search time of the fastest trial; ``None`` if no trial was measured."""
    better = improvements(points)
    return (better[-1].number, time_of(better[-1]) or 0.0) if better else None


def best_over_trials(points: Sequence[TrialPoint], label: str = "") -> XY:
    """Chart of the least search time so far over the trial's number. ``label``: the workload's label, for the title."""
    return _chart(points, lambda p: float(p.number), Axis("Trial", "trial"), label)


def best_over_time(points: Sequence[TrialPoint], started: float, label: str = "") -> XY:
    """Chart of the least search time so far over the seconds since ``started``, the run's start (since the epoch).

    A trial's time is when it was stored, so all trials of a batch have one time. The pause before a resumed part
    counts.
    """
    return _chart(points, lambda p: max(0.0, p.created - started), Axis("Time since the start", "s"), label)


def _chart(points: Sequence[TrialPoint], at: Callable[[TrialPoint], float], x: Axis, label: str) -> XY:
    points = sorted(points, key=lambda p: p.number)
    better = improvements(points)
    measured = [p for p in points if time_of(p) is not None and not p.dropped]
    early = [p for p in points if time_of(p) is not None and p.dropped]
    failed = [p for p in points if time_of(p) is None]
    series = []
    if better:
        series.append(_steps(better, points, at))
    for role, name, group in (
        ("measured", "measured", measured), ("early", "clearly slower: timing stopped early", early),
    ):  # fmt: skip
        if group:
            series.append(_dots(role, name, group, at, [time_of(p) or 0.0 for p in group]))
    slowest = max((time_of(p) or 0.0 for p in (*measured, *early)), default=0.0)
    if failed and slowest:
        series.append(_dots("failed", "failed: no time, marked at the top", failed, at, [slowest * 1.1] * len(failed)))
    trials = f"{len(points)} trials, {len(failed)} failed"
    if better:
        first, last = time_of(better[0]) or 0.0, time_of(better[-1]) or 0.0
        found = f"{with_unit(last, 's')} at trial {better[-1].number}"
        if len(better) > 1:
            found = f"from {with_unit(first, 's')} at trial {better[0].number} to {found}"
    else:
        found = "no trial was measured"
    return XY(
        title=f"Least search time so far{f': {label}' if label else ''}",
        x=x,
        y=Axis("Search time", "s", "log"),
        series=tuple(series),
        alt=f"Least search time so far, over {trials}: {found}.",
        note=f"{trials}. {BAND}" if better else f"{trials}.",
    )


def _steps(better: Sequence[TrialPoint], points: Sequence[TrialPoint], at: Callable[[TrialPoint], float]) -> Series:
    """The curve of improvements with its noise band, extended to the last trial."""
    times = [time_of(p) or 0.0 for p in better]
    # The spread is the interquartile range over the median. The band assumes that it is symmetric about the median.
    halves = [min(max(p.spread or 0.0, 0.0) / 2, 0.95) for p in better]
    low = [t * (1 - h) for t, h in zip(times, halves, strict=True)]
    high = [t * (1 + h) for t, h in zip(times, halves, strict=True)]
    x = [at(p) for p in better]
    trials = [(p.run_id, p.number) for p in better]
    end = max(at(p) for p in points)
    if end > x[-1]:
        x, times, low, high = [*x, end], [*times, times[-1]], [*low, low[-1]], [*high, high[-1]]
        trials.append(trials[-1])
    return Series("least so far", x, times, "step", low, high, trials, emphasis=True)


def _dots(
    role: str, name: str, group: Sequence[TrialPoint], at: Callable[[TrialPoint], float], y: Sequence[float]
) -> Series:
    return Series(name, [at(p) for p in group], y, trials=[(p.run_id, p.number) for p in group], role=role)
