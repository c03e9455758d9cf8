"""What bounds a kernel: the least time that each limit of the device allows, beside the kernel's own time.

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
from tilewright.kernels.speed import compulsory_bytes, is_share
from tilewright.serialization import Json
from tilewright.units import with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun

NAMES = {
    "compute": "arithmetic", "l1": "L1 traffic", "l2": "L2 traffic", "l3": "L3 traffic", "memory": "memory traffic",
}  # fmt: skip
"""What each limit is of, by key."""
NEAR = 0.9
"""Share of a limit from which on another schedule gains little."""
BOUND = 0.6
"""A kernel is bound by a limit that it is at least this near to; below, none of the limits explains its time."""


@dataclass(frozen=True)
class Limit(Json):
    """``key``: one of :data:`NAMES`. ``amount``: operations or bytes; ``rate``: the most of them a second.

    ``share``: of the kernel's time that ``amount`` takes at ``rate``: 1 is at the limit.
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
    """The limits of a kernel that takes ``seconds``. ``limits``: all that are known, the largest share first;
    ``unknown``: keys of limits whose rate is not known; ``measured``: whether the run measured the rates, which are
    otherwise the vendor's. ``remark``: what to know of the numbers."""

    seconds: float
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...]
    measured: bool
    remark: str = ""

    @property
    def wrong(self) -> tuple[Limit, ...]:
        """Limits that the kernel exceeds, which therefore say nothing."""
        return tuple(x for x in self.limits if not is_share(x.share))

    @property
    def nearest(self) -> Limit | None:
        """The possible limit with the largest share."""
        return next((x for x in self.limits if is_share(x.share)), None)

    @property
    def near(self) -> Limit | None:
        """The limit that leaves little to gain; ``None`` where none does."""
        return self.nearest if self.nearest and self.nearest.share >= NEAR else None

    @property
    def bound(self) -> Limit | None:
        """The limit that explains the time; ``None`` where none does."""
        return self.nearest if self.nearest and self.nearest.share >= BOUND else None

    def text(self) -> str:
        """In sentences: what bounds the kernel first, then what is not known."""
        parts = []
        source = "measured by the run" if self.measured else "as the vendor states it"
        at = self.nearest
        if at is not None:
            what, share = NAMES[at.key], with_unit(at.share, "share")
            least = with_unit(at.share * self.seconds, "s")
            if self.bound is not None:
                known = f"Bound by {what}"
            else:
                known = f"No {'known ' if self.unknown or self.wrong else ''}limit explains the time"
            parts.append(f"{known}: {what} at {at.rate_text} ({source}) would take {least} alone, {share} of the time.")
            if self.bound is None:
                parts.append("The rest is waiting, copies or loop overhead.")
        elif not self.limits and not self.remark:
            parts.append("What bounds the kernel is not known: the run stored no limit of its device.")
        elif not self.wrong and not self.remark:
            parts.append("What bounds the kernel is not known.")
        for x in self.wrong:
            why = "" if x.key == "compute" else "the traffic is overestimated, or "
            over = f"The kernel exceeds the limit of {NAMES[x.key]} ({with_unit(x.share, 'share')})"
            parts.append(f"{over}, so that limit is wrong: {why}the device was slower when the limit was measured.")
        if self.nearest and self.unknown:
            parts.append(f"Unknown rates: {', '.join(NAMES[k] for k in self.unknown)}.")
        return " ".join([*parts, self.remark]).strip()


def limits_of(run: StoredRun, schedule: Schedule, seconds: float) -> Limits:
    """Limits of a schedule of the run on the run's own device, as the run stored them."""
    from tilewright.backends import is_emulated

    if is_emulated(run.device_model):
        return Limits(seconds, (), (), False, "The run was on the emulator, whose times say nothing about a GPU.")
    ceilings, own = ceilings_of(run), traffic_of(run.task).of(schedule)
    moved = bytes_of(run.task, schedule)
    # The workload's operations, or the schedule's own where it does with fewer.
    amounts = {"compute": min(float(run.task.workload.flops), own.get(FLOPS, math.inf)), **moved}
    found, unknown = [], []
    for key, amount in amounts.items():
        rate = ceilings.at(key)
        if rate and amount > 0:
            found.append(Limit(key, amount, rate, amount / rate / seconds))
        elif amount > 0:
            unknown.append(key)
    found.sort(key=lambda x: -x.share)
    remark = "" if moved else "The kernel's traffic is unknown: no template of this version describes its loops."
    return Limits(seconds, tuple(found), tuple(unknown), ceilings.measured, remark)


def bytes_of(task: Task, schedule: Schedule) -> Mapping[str, float]:
    """Bytes by level that a schedule moves, empty where that is not known.

    A GPU is measured with cold caches, so all operands come from its memory at least once, and the traffic of its
    caches is left out: the footprint describes a processor's.
    """
    from tilewright.backends import backend_for

    moved = traffic_of(task).of(schedule)
    if backend_for(task.target).in_process:
        return {level: x for level, x in moved.items() if level != FLOPS}
    once = float(compulsory_bytes(task.workload))
    return {"memory": max(once, moved.get("memory", 0.0))} if once else {}


def limit_bars(found: Limits) -> Bars:
    """A bar for each possible limit: the share of the kernel's time that it explains."""
    possible = [x for x in found.limits if is_share(x.share)]
    shown = ", ".join(f"{NAMES[x.key]} {with_unit(x.share, 'share')}" for x in possible)
    return Bars(
        "What bounds the winner",
        Axis("Share of the winner's time that each limit alone would take", "share"),
        tuple((f"{NAMES[x.key]}, {x.rate_text}", x.share) for x in possible),
        alt=f"Share of the winner's time that each limit alone would take: {shown}." if shown else found.text(),
        note=found.text(),
        reference=1.0,
    )
