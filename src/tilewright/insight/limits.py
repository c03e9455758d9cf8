"""Finds the limit that bounds a kernel: compares its time with the least time that each limit of the device allows.

This is the roofline of one schedule over all memory levels: operations at the peak rate, and the bytes from each level
at the level's bandwidth. Bytes are estimates of the footprint analysis. A limit whose rate the run did not store is
listed as unknown and never guessed.
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
"""Names of the limits, by key."""
NEAR = 0.9
"""Share of a limit from which on other schedules gain little."""
BOUND = 0.6
"""Least share of a limit that bounds a kernel; below, no limit explains the kernel's time."""


@dataclass(frozen=True)
class Limit(Json):
    """A limit of the device for a kernel. ``key``: one of :data:`NAMES`. ``amount``: operations or bytes; ``rate``: the
    device's most operations or bytes a second.

    ``share``: the time for ``amount`` at ``rate``, as a share of the kernel's time: 1 is at the limit.
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
    """The limits of a kernel that takes ``seconds``. ``limits``: known limits, the largest share first; ``unknown``:
    keys of limits with unknown rates; ``measured``: whether the run measured the rates, which are otherwise the
    vendor's. ``remark``: a remark on the numbers."""

    seconds: float
    limits: tuple[Limit, ...]
    unknown: tuple[str, ...]
    measured: bool
    remark: str = ""

    @property
    def wrong(self) -> tuple[Limit, ...]:
        """Limits that the kernel exceeds: their amount or rate must be wrong."""
        return tuple(x for x in self.limits if not is_share(x.share))

    @property
    def nearest(self) -> Limit | None:
        """The possible limit with the largest share."""
        return next((x for x in self.limits if is_share(x.share)), None)

    @property
    def near(self) -> Limit | None:
        """The nearest limit if it leaves little to gain, else ``None``."""
        return self.nearest if self.nearest and self.nearest.share >= NEAR else None

    @property
    def bound(self) -> Limit | None:
        """The nearest limit if it explains the time, else ``None``."""
        return self.nearest if self.nearest and self.nearest.share >= BOUND else None

    def text(self) -> str:
        """The limits in sentences: first the bound of the kernel, then unknown rates."""
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
    """Limits of a schedule that takes ``seconds`` on the run's device, by the rates that the run stored."""
    from tilewright.backends import is_emulated

    if is_emulated(run.device_model):
        return Limits(seconds, (), (), False, "The run was on the emulator, whose times say nothing about a GPU.")
    ceilings, own = ceilings_of(run), traffic_of(run.task).of(schedule)
    moved = bytes_of(run.task, schedule)
    # The workload's operations, or the schedule's own if it needs fewer.
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
    """Bytes that a schedule moves, by memory level; empty if unknown.

    GPUs are measured with cold caches, so all operands come from memory at least once. Traffic of a GPU's caches is
    left out, because the footprint analysis models a CPU's caches.
    """
    from tilewright.backends import backend_for

    moved = traffic_of(task).of(schedule)
    if backend_for(task.target).in_process:
        return {level: x for level, x in moved.items() if level != FLOPS}
    once = float(compulsory_bytes(task.workload))
    return {"memory": max(once, moved.get("memory", 0.0))} if once else {}


def limit_bars(found: Limits) -> Bars:
    """Bar chart of the possible limits: the share of the kernel's time that each limit explains."""
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
