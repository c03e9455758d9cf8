"""Roofline charts: rates of trials over their arithmetic intensity, below the device's ceilings.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52(4), 2009. A schedule's traffic is an estimate of the footprint analysis
(``kernels/loopnest/footprint.py``), not a measurement. Data that stays in a cache causes no memory traffic, so the
intensity of small problems is computed at the outermost level with traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.core import Schedule, Task, TrialRecord
from tilewright.insight.chart import XY, Axis, Series
from tilewright.insight.points import number_in, thinned, time_of
from tilewright.kernels.speed import compulsory_bytes
from tilewright.units import with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun

LEVELS = {
    "memory": "traffic from memory",
    "l3": "traffic beyond L2",
    "l2": "traffic beyond L1",
    "l1": "traffic from L1",
    "compulsory": "each input and output moved once",
}
"""Levels at which the bytes of an intensity are counted: by the footprint, or for ``compulsory`` by the shapes."""
_LEVEL = {"memory": "memory", "l3": "L3", "l2": "L2", "l1": "L1", "compulsory": "memory"}
CACHED = 1 << 15
GROUPS = 8
"""Most tasks with series of their own; the trials of further tasks share a name."""


@dataclass(frozen=True)
class Ceilings:
    """The device's ceilings: ``peak`` in FLOP/s, ``bandwidth`` of memory in bytes/s; ``None`` if unknown.

    ``measured``: whether a run measured them, on the cores in use; otherwise they are the vendor's. ``caches``: known
    bandwidths of caches in bytes/s.
    """

    peak: float | None = None
    bandwidth: float | None = None
    measured: bool = True
    caches: Mapping[str, float] = field(default_factory=dict)

    def at(self, level: str) -> float | None:
        """Bandwidth in bytes/s of one of :data:`LEVELS`, or FLOP/s for ``compute``; ``None`` if unknown."""
        ours = {"compute": self.peak, "memory": self.bandwidth, "compulsory": self.bandwidth}
        return ours[level] if level in ours else self.caches.get(level)

    @property
    def source(self) -> str:
        return "measured" if self.measured else "stated"


@dataclass(frozen=True)
class TaskTrials:
    """Trials of one task, each with its run's id."""

    task: Task
    trials: Sequence[tuple[str, TrialRecord]]


@dataclass(frozen=True)
class Placed:
    """A trial on the roofline. ``intensity``: FLOP/byte; ``rate``: FLOP/s. Both count the workload's operations."""

    run_id: str
    number: int
    seconds: float
    intensity: float
    rate: float


FLOPS = "flops"
"""Key of a kernel's own operations in its traffic; they may be fewer than the workload's, as in Winograd kernels."""


class Traffic:
    """Bytes by level and operations (:data:`FLOPS`) of a task's schedules, cached. A schedule's analysis takes about a
    third of a millisecond."""

    def __init__(self, task: Task) -> None:
        from tilewright.cost_model.features import footprint_of
        from tilewright.kernels.templates import task_space

        self.of: Callable[[Schedule], Mapping[str, float]] = lambda _schedule: {}
        """Traffic of a schedule. Empty for a schedule outside today's search space: an older template's, or a user's
        kernel's. Always empty if no template of this version computes the task."""
        with suppress(Exception):  # the stored program may be of an older form
            self._analyse, self._space = footprint_of(task), task_space(task)
            self.of = lru_cache(CACHED)(self._read)

    def _read(self, schedule: Schedule) -> Mapping[str, float]:
        try:
            self._space.check(schedule)
            found = self._analyse(schedule)
        except Exception:  # the stored schedule may be invalid for today's templates in any way
            return {}
        return {level: found[f"bytes.{level}"] for level in LEVELS if level != "compulsory"} | {FLOPS: found[FLOPS]}


traffic_of = lru_cache(maxsize=16)(Traffic)
"""Cached :class:`Traffic` of a task."""


def ceilings_of(run: StoredRun) -> Ceilings:
    """Ceilings of a run's device: measured by its final on CPUs, the vendor's on GPUs.

    An emulated device has no ceilings, because its times are another machine's.
    """
    from tilewright.backends import CACHES, backend_for, is_emulated

    if is_emulated(run.device_model):
        return Ceilings()
    backend = backend_for(run.task.target)
    if not backend.in_process:
        stated = backend.ceilings(run.task)
        return Ceilings(stated.flops, stated.bandwidth, measured=False)
    share, rate = number_in(run.summary, "best", "peak_fraction"), number_in(run.summary, "best", "gflops")
    peak = number_in(run.summary, "peaks", "flops") or (rate * 1e9 / share if share and rate else None)
    caches = {level: rate for level in CACHES if (rate := number_in(run.summary, "peaks", "caches", level))}
    return Ceilings(peak, number_in(run.summary, "peaks", "bandwidth"), caches=caches)


def most(found: Iterable[Ceilings]) -> Ceilings:
    """The greatest of each ceiling over several runs of one device, so that no kernel lies above the roof."""
    known = [c for c in found if c.peak or c.bandwidth]
    if not known:
        return Ceilings()
    names = {name for c in known for name in c.caches}
    caches = {name: max(c.caches.get(name, 0.0) for c in known) for name in names}
    peak, bandwidth = (max((x for x in xs if x), default=None) for xs in (
        [c.peak for c in known], [c.bandwidth for c in known],
    ))  # fmt: skip
    return Ceilings(peak, bandwidth, known[0].measured, caches)


def roofline(
    groups: Sequence[TaskTrials], ceilings: Ceilings, title: str = "Roofline", level: str = "", limit: int = 1000
) -> XY:
    """Roofline chart: every measured trial as a point, the fastest of each task emphasised, and the known ceilings.

    ``level``: one of :data:`LEVELS`; by default the outermost at which most trials have traffic, or ``compulsory`` if
    no level has. ``limit``: most points, an even sample that includes the fastest.
    """
    chosen = _thinned(groups, limit)
    level = level or _level(chosen)
    placed = [(g, _place(g, level)) for g in chosen]
    series, best = [], []
    for n, (group, points) in enumerate(placed):
        if points:
            alone = len(placed) == 1
            name = "measured" if alone else group.task.workload.label if n < GROUPS else "other tasks"
            series.append(_dots(name, points, role="measured" if alone or n >= GROUPS else ""))
            best.append(min(points, key=lambda p: p.seconds))
    if best:
        label = f"least search time: {with_unit(best[0].rate, 'flop/s')}" if len(best) == 1 else "fastest of each task"
        series.append(_dots(label, best, emphasis=True))
    series = _roofs(ceilings, best, level, [x for s in series for x in s.x]) + series
    left_out = sum(time_of(r) is not None for g in chosen for _, r in g.trials) - sum(len(p) for _, p in placed)
    return XY(
        title,
        Axis(f"Operations a byte ({LEVELS[level]})", "flop/byte", "log"),
        Axis("Rate, by search time", "flop/s", "log"),
        tuple(series),
        alt=_alt(best, sum(len(p) for _, p in placed), ceilings),
        note=_note(ceilings, level, left_out),
    )


def _thinned(groups: Sequence[TaskTrials], limit: int) -> list[TaskTrials]:
    """Groups measured trials by task and samples them evenly, to about ``limit`` in all."""
    by_task: dict[str, TaskTrials] = {}
    for g in groups:
        before = by_task[g.task.key].trials if g.task.key in by_task else ()
        by_task[g.task.key] = TaskTrials(g.task, [*before, *(t for t in g.trials if time_of(t[1]) is not None)])
    timed = [g for g in by_task.values() if g.trials]
    total = sum(len(g.trials) for g in timed)
    if total <= limit:
        return timed
    found = []
    for g in timed:
        fastest = min(range(len(g.trials)), key=lambda i: time_of(g.trials[i][1]) or 0.0)
        kept = {fastest, *thinned(range(len(g.trials)), max(1, limit * len(g.trials) // total - 1))}
        found.append(TaskTrials(g.task, [g.trials[i] for i in sorted(kept)]))
    return found


def _level(groups: Sequence[TaskTrials]) -> str:
    counts = dict.fromkeys(LEVELS, 0)
    total = 0
    for g in groups:
        traffic = traffic_of(g.task)
        for _, record in g.trials:
            total += 1
            moved = traffic.of(record.schedule)
            for name in counts.keys() & moved.keys():
                counts[name] += moved[name] > 0
    return next((name for name, n in counts.items() if n * 2 > total), "compulsory")


def _place(group: TaskTrials, level: str) -> list[Placed]:
    flops = group.task.workload.flops
    traffic, whole = traffic_of(group.task), compulsory_bytes(group.task.workload)
    found = []
    for run_id, record in group.trials:
        moved = whole if level == "compulsory" else traffic.of(record.schedule).get(level, 0.0)
        seconds = time_of(record)
        if seconds and flops > 0 and moved > 0:
            found.append(Placed(run_id, record.number, seconds, flops / moved, flops / seconds))
    return found


def _dots(name: str, points: Sequence[Placed], emphasis: bool = False, role: str = "") -> Series:
    return Series(
        name, [p.intensity for p in points], [p.rate for p in points],
        trials=[(p.run_id, p.number) for p in points], emphasis=emphasis, role=role,
    )  # fmt: skip


def _roofs(ceilings: Ceilings, best: Sequence[Placed], level: str, x: Sequence[float]) -> list[Series]:
    """The ceilings as lines over slightly more than the points' range; the bandwidth is the level's."""
    if not best:
        return []
    low, high = min(x) / 1.5, max(x) * 1.5
    bandwidth = ceilings.at(level)
    ridge = low
    if ceilings.peak and bandwidth:
        ridge = ceilings.peak / bandwidth  # always visible: left of the ridge point memory is the limit
        low, high = min(low, ridge / 3), max(high, ridge * 1.5)
    found = []
    if ceilings.peak:
        name = f"peak arithmetic ({ceilings.source}), {with_unit(ceilings.peak, 'flop/s')}"
        found.append(Series(name, [ridge, high], [ceilings.peak] * 2, "line", role="limit"))
    if bandwidth:
        end = ridge if ceilings.peak else high
        name = f"{_LEVEL[level]} bandwidth ({ceilings.source}), {with_unit(bandwidth, 'byte/s')}"
        found.append(Series(name, [low, end], [low * bandwidth, end * bandwidth], "line", role="limit"))
    return found


def _alt(best: Sequence[Placed], count: int, ceilings: Ceilings) -> str:
    if not best:
        return "No trial can be placed on the roofline."
    top = max(best, key=lambda p: p.rate)
    share = f", {100 * top.rate / ceilings.peak:.0f}% of the peak" if ceilings.peak else ""
    return f"{count} trials; the highest rate is {with_unit(top.rate, 'flop/s')}{share}."


def _note(ceilings: Ceilings, level: str, left_out: int) -> str:
    parts = ["The traffic is estimated from each schedule's loop nests."]
    if level == "compulsory":
        parts = ["The intensity counts each input and output once, whatever the schedule: for most of these trials the "
                 "schedule's own traffic is unknown."]  # fmt: skip
    elif level != "memory":
        parts.append("The data fits the caches, so memory traffic is small.")
    if not ceilings.peak:
        parts.append("The device's peak is unknown.")
    if not ceilings.at(level):
        parts.append(f"The device's {_LEVEL[level]} bandwidth is unknown, so the sloping part of the roof is missing.")
    if left_out:
        parts.append(f"{left_out} trials are left out: they have no operations, or unknown traffic at this level.")
    return " ".join(parts)
