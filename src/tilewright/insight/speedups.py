"""How much tuning gained: each best kernel against the default schedule of its run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.links import kernel_links
from tilewright.units import per_second

if TYPE_CHECKING:
    from tilewright.database.records import KernelView

PAIRED = "The two were timed in turn, at the end of the run."
UNPAIRED = (
    "{count} of these are not paired: both times are of the search, and were not taken in turn, so small differences "
    "mean little."
)


def _ordered(views: Iterable[KernelView]) -> list[KernelView]:
    """The largest gain first, those that are not known last."""
    return sorted(views, key=lambda v: -(v.speedup or 0.0))


def note_of(views: Sequence[KernelView]) -> str:
    """How the gains of these were measured."""
    loose = sum(v.paired is None and v.speedup is not None for v in views)
    return UNPAIRED.format(count=loose) if loose else PAIRED


def speedup_bars(views: Sequence[KernelView], limit: int = 15) -> Bars:
    """The ``limit`` largest gains, where they are known."""
    known = [v for v in _ordered(views) if v.speedup is not None][:limit]
    bars = tuple((v.kernel.task.workload.label, v.speedup or 0.0) for v in known)
    top = f"{bars[0][0]} gained most: {bars[0][1]:.2f} times as fast" if bars else "no kernel has a known gain"
    return Bars(
        "Speed-up over the default schedule",
        Axis("Times as fast as the default schedule", "times"),
        bars,
        alt=f"Of {len(views)} kernels, {top}.",
        note=note_of(known) if known else "",
        reference=1.0,
    )


def speedup_table(views: Sequence[KernelView]) -> Table:
    """Every kernel: what it computes, where, its times, the gain, its share of the peak, and its run."""
    ordered = _ordered(views)

    def rate(view: KernelView) -> float | None:
        return per_second(view.kernel.task.workload.flops, view.kernel.seconds)

    def paired(view: KernelView) -> str | None:
        return None if view.speedup is None else "no" if view.paired is None else "yes"

    columns: dict[Column, Callable[[KernelView], object]] = {
        Column("workload", "Workload"): lambda v: v.kernel.task.workload.label,
        Column("target", "Target"): lambda v: f"{v.kernel.task.target.name} x{v.kernel.task.target.threads}",
        Column("device_model", "Device"): lambda v: v.kernel.device_model,
        Column("seconds", "Time", "s", True): lambda v: v.kernel.seconds,
        Column("flops_per_second", "Rate", "flop/s", True): rate,
        Column("default_seconds", "Default schedule, in the search", "s", True): lambda v: v.default_seconds,
        Column("trial_seconds", "Winner, during the search", "s", True): lambda v: v.trial_seconds,
        Column("speedup", "Speed-up", "times", True): lambda v: v.speedup,
        Column("paired", "Paired"): paired,
        Column("peak_fraction", "Share of the peak", "share", True): lambda v: v.kernel.peak_fraction,
        Column("state", "State"): lambda v: v.kernel.state,
        Column("run", "Run"): lambda v: v.kernel.run_id,
        Column("trial", "Trial", "trial", True): lambda v: v.kernel.trial_number,
        Column("updated", "Stored", "date", True): lambda v: v.kernel.updated,
    }
    title = "Best kernels and their gain over the default schedule"
    return Table.of("speedups", title, ordered, columns, kernel_links(v.kernel for v in ordered))
