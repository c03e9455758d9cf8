"""What bounds a kernel: the least time that each limit of the device leaves it, beside the time that it takes.

The roofline of one schedule with every level of the memory: operations at the peak rate, and the bytes that come from
each level at that level's bandwidth. The bytes are the footprint analysis's estimate; a limit whose rate the run did
not store is named as unknown and never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import Schedule, Task
from tilewright.insight.chart import Axis, Bars
from tilewright.insight.roofline import FLOPS, ceilings_of, traffic_of
from tilewright.kernels.speed import compulsory_bytes
from tilewright.serialization import Json
from tilewright.units import with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun

NAMES = {"compute": "arithmetic", "l1": "L1", "l2": "L2", "l3": "L3", "memory": "memory"}
"""By key, as people say it."""
NEAR = 0.9
"""From this share of a limit on, another schedule gains little."""
BOUND = 0.6
"""A kernel is bound by a limit that it is at least this near to; below, none of the limits explains its time."""


@dataclass(frozen=True)
class Limit(Json):
    """``key``: one of :data:`NAMES`. ``amount``: operations or bytes; ``rate``: of them a second, at most.

    ``share``: of the kernel's time that it would take at that rate: 1 is at the limit.
    """

    key: str
    amount: float
    rate: float
    share: float

    @property
    def rate_text(self) -> str:
        return with_unit(self.rate, "flop/s" if self.key == "compute" else "byte/s")


@dataclass(frozen=True)
class Limits(Json):
    """Of a kernel that takes ``seconds``. ``limits``: nearest first; ``unknown``: keys of what it uses at a rate that
    is not known; ``measured``: by the run, otherwise stated. ``remark``: what to know of the numbers."""

    seconds: float
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...]
    measured: bool
    remark: str = ""

    @property
    def nearest(self) -> Limit | None:
        return self.limits[0] if self.limits else None

    @property
    def near(self) -> Limit | None:
        """The limit that leaves little to gain; ``None`` where none does."""
        return self.nearest if self.nearest and self.nearest.share >= NEAR else None

    @property
    def bound(self) -> Limit | None:
        """The limit that explains the time; ``None`` where none does."""
        return self.nearest if self.nearest and self.nearest.share >= BOUND else None

    def text(self) -> str:
        """In sentences."""
        parts = []
        source = "measured by the run" if self.measured else "as the vendor states it"
        if self.nearest is None:
            parts.append("What bounds it is not known: the run stored no limit of its device.")
        else:
            at = self.nearest
            what = "arithmetic" if at.key == "compute" else f"traffic with {NAMES[at.key]}"
            least = with_unit(at.share * self.seconds, "s")
            parts.append(f"It reaches {with_unit(at.share, 'share')} of the nearest limit: {what} ({at.rate_text}, "
                         f"{source}) would take {least} by itself.")  # fmt: skip
            if at.share > 1.05:
                over = "" if at.key == "compute" else "its traffic is overestimated, or "
                parts.append(f"That is more than there is: {over}the device was slower when its limits were taken.")
            elif self.bound is None:
                known = " known" if self.unknown else ""
                parts.append(f"No{known} limit explains the time: waiting, copies or loops must take the rest.")
        if self.nearest and self.unknown:
            names = ", ".join(NAMES[k] for k in self.unknown)
            parts.append(f"Not known: the rate of {names}.")
        return " ".join([*parts, self.remark]).strip()


def limits_of(run: StoredRun, schedule: Schedule, seconds: float) -> Limits:
    """Limits of a schedule of the run on the run's own device, as the run stored them."""
    from tilewright.backends import is_emulated

    if is_emulated(run.device_model):
        return Limits(seconds, (), (), False, "It ran on the emulator, whose times say nothing about a GPU.")
    ceilings, moved = ceilings_of(run), bytes_of(run.task, schedule)
    amounts = {"compute": flops_of(run.task, schedule), **moved}
    found, unknown = [], []
    for key, amount in amounts.items():
        rate = ceilings.at(key)
        if rate and amount > 0:
            found.append(Limit(key, amount, rate, amount / rate / seconds))
        elif amount > 0:
            unknown.append(key)
    found.sort(key=lambda x: -x.share)
    remark = "" if moved else "Its traffic is not known: no template of today describes its loops."
    return Limits(seconds, tuple(found), tuple(unknown), ceilings.measured, remark)


def flops_of(task: Task, schedule: Schedule) -> float:
    """Operations of a kernel: the workload's, or the schedule's own where it does with fewer."""
    traffic = traffic_of(task)
    own = (traffic.of(schedule) if traffic else None) or {}
    return min(float(task.workload.flops), own.get(FLOPS, math.inf))


def bytes_of(task: Task, schedule: Schedule) -> Mapping[str, float]:
    """Bytes by level that a schedule moves, empty where that is not known.

    A GPU is measured with cold caches, so all operands come from its memory at least once, and the traffic of its
    caches is left out: the footprint describes a processor's.
    """
    from tilewright.backends import backend_for

    traffic = traffic_of(task)
    moved = traffic.of(schedule) if traffic else None
    if backend_for(task.target).in_process:
        return {level: x for level, x in (moved or {}).items() if level != FLOPS}
    once = float(compulsory_bytes(task.workload))
    return {"memory": max(once, (moved or {}).get("memory", 0.0))} if once else {}


def limit_bars(found: Limits) -> Bars:
    """A bar a limit: how near the kernel is to it."""
    shown = ", ".join(f"{NAMES[x.key]} {with_unit(x.share, 'share')}" for x in found.limits)
    return Bars(
        "What bounds the winner",
        Axis("Share of its time that each limit alone would take", "share"),
        tuple((f"{NAMES[x.key]}, {x.rate_text}", x.share) for x in found.limits),
        alt=f"Share of the winner's time that each limit alone would take: {shown}." if shown else found.text(),
        note=found.text(),
        reference=1.0,
    )
