"""How much tuning gained: each best kernel against the default schedule of its run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    ordered, rows = _ordered(views), []
    for v in ordered:
        k = v.kernel
        rows.append(
            (k.task.workload.label, f"{k.task.target.name} x{k.task.target.threads}", k.device_model, k.seconds,
             per_second(k.task.workload.flops, k.seconds), v.default_seconds, v.trial_seconds, v.speedup,
             None if v.speedup is None else "yes" if v.paired is not None else "no",
             k.peak_fraction, k.state, k.run_id, k.trial_number, k.updated)
        )  # fmt: skip
    return Table(
        "speedups",
        "Best kernels and their gain over the default schedule",
        (
            Column("workload", "Workload"),
            Column("target", "Target"),
            Column("device_model", "Device"),
            Column("seconds", "Time", "s", True),
            Column("flops_per_second", "Rate", "flop/s", True),
            Column("default_seconds", "Default schedule, in the search", "s", True),
            Column("trial_seconds", "This one, in the search", "s", True),
            Column("speedup", "Speed-up", "times", True),
            Column("paired", "Paired"),
            Column("peak_fraction", "Share of the peak", "share", True),
            Column("state", "State"),
            Column("run", "Run"),
            Column("trial", "Trial", "trial", True),
            Column("updated", "Stored", "date", True),
        ),
        tuple(rows),
        kernel_links(v.kernel for v in ordered),
    )
