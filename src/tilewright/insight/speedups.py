"""Chart and table of the best kernels' gains over the default schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.links import kernel_links
from tilewright.tuner.result import gain_text
from tilewright.units import per_second

if TYPE_CHECKING:
    from tilewright.database.records import KernelView

PAIRED = "The final of each run timed both schedules in turns."
UNPAIRED = (
    "No final compared {count} of these kernels with the default schedule: their ratios are of search times, "
    "without an interval."
)


def _ordered(views: Iterable[KernelView]) -> list[KernelView]:
    """Kernels by gain, the largest first; kernels without a known gain come last."""
    return sorted(views, key=lambda v: -(v.speedup or 0.0))


def _ends(view: KernelView) -> tuple[float, float]:
    """The bounds of a gain's interval; the ratio twice if it has no interval."""
    gain, ratio = view.gain, view.speedup or 0.0
    return (gain.low, gain.high) if gain and gain.low and gain.high else (ratio, ratio)


def note_of(views: Sequence[KernelView]) -> str:
    """States how the gains of kernels were measured."""
    loose = sum(v.gain is None and v.speedup is not None for v in views)
    return UNPAIRED.format(count=loose) if loose else PAIRED


def speedup_bars(views: Sequence[KernelView], limit: int = 15) -> Bars:
    """Bar chart of the ``limit`` largest known gains."""
    known = [v for v in _ordered(views) if v.speedup is not None][:limit]
    bars = tuple((v.kernel.task.workload.label, v.speedup or 0.0) for v in known)
    top = f"{bars[0][0]} has the largest gain: {bars[0][1]:.2f}x" if bars else "no kernel has a known gain"
    ends = [_ends(v) for v in known]
    return Bars(
        "Gain over the default schedule",
        Axis("Default schedule's time over the kernel's", "times"),
        bars,
        alt=f"Of {len(views)} kernels, {top}.",
        note=note_of(known) if known else "",
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
        reference=1.0,
    )


def speedup_table(views: Sequence[KernelView]) -> Table:
    """Table of kernels: workload, final time, gain, device, share of the peak, and run."""
    ordered = _ordered(views)

    def gain(view: KernelView) -> str | None:
        return None if view.speedup is None else gain_text(view.gain, view.speedup, short=True)

    def rate(view: KernelView) -> float | None:
        return per_second(view.kernel.task.workload.flops, view.kernel.seconds)

    def paired(view: KernelView) -> str | None:
        return None if view.speedup is None else "no" if view.gain is None else "yes"

    columns: dict[Column, Callable[[KernelView], object]] = {
        Column("workload", "Workload"): lambda v: v.kernel.task.workload.label,
        Column("final_seconds", "Final time", "s", True): lambda v: v.kernel.seconds,
        Column("speedup", "Gain", "times", True): lambda v: v.speedup,
        Column("gain", "Gain over the default schedule (95% interval)"): gain,
        Column("flops_per_second", "Rate", "flop/s", True): rate,
        Column("peak_fraction", "Share of the peak", "share", True): lambda v: v.kernel.peak_fraction,
        Column("default_seconds", "Search time of the default schedule", "s", True): lambda v: v.default_seconds,
        Column("trial_seconds", "Search time of the winner", "s", True): lambda v: v.trial_seconds,
        Column("paired", "Compared in a final"): paired,
        Column("device_model", "Device"): lambda v: v.kernel.device_model,
        Column("target", "Target"): lambda v: f"{v.kernel.task.target.name} x{v.kernel.task.target.threads}",
        Column("state", "State"): lambda v: v.kernel.state,
        Column("updated", "Stored", "date", True): lambda v: v.kernel.updated,
        Column("trial", "Trial", "trial", True): lambda v: v.kernel.trial_number,
        Column("run", "Run"): lambda v: v.kernel.run_id,
        Column("seconds", "Final time", "s", True, shown=False): lambda v: v.kernel.seconds,
    }
    links = kernel_links(v.kernel for v in ordered)
    title = "Best kernels and their gain over the default schedule"
    return Table.of("speedups", title, ordered, columns, links | {"workload": links["run"]})
