"""How much tuning gained: each best kernel against the default schedule of its run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.links import kernel_links
from tilewright.units import per_second

if TYPE_CHECKING:
    from tilewright.database.records import KernelView

SEARCHED = "Both times are of the search; a final, which times the fastest again, is on a scale of its own."


def _ordered(views: Iterable[KernelView]) -> list[KernelView]:
    """The largest gain first, those that are not known last."""
    return sorted(views, key=lambda v: -(v.speedup or 0.0))


def speedup_bars(views: Sequence[KernelView], limit: int = 15) -> Bars:
    """The ``limit`` largest gains, where the default's time is known."""
    known = [v for v in _ordered(views) if v.speedup is not None][:limit]
    bars = tuple((v.kernel.task.workload.label, v.speedup or 0.0) for v in known)
    top = f"{bars[0][0]} gained most: {bars[0][1]:.2f} times as fast" if bars else "no kernel has a known gain"
    return Bars(
        "Speed-up over the default schedule",
        Axis("Times as fast as the default schedule"),
        bars,
        alt=f"Of {len(views)} kernels, {top}.",
        note=SEARCHED,
    )


def speedup_table(views: Sequence[KernelView]) -> Table:
    """Every kernel: what it computes, where, its times, the gain, its share of the peak, and its run."""
    ordered, rows = _ordered(views), []
    for v in ordered:
        k = v.kernel
        rows.append(
            (k.task.workload.label, f"{k.task.target.name} x{k.task.target.threads}", k.device_model, k.seconds,
             per_second(k.task.workload.flops, k.seconds), v.default_seconds, v.trial_seconds,
             v.speedup, k.peak_fraction, k.state, k.run_id, k.trial_number, k.updated)
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
            Column("speedup", "Speed-up", numeric=True),
            Column("peak_fraction", "Share of the peak", "share", True),
            Column("state", "State"),
            Column("run", "Run"),
            Column("trial", "Trial", "trial", True),
            Column("updated", "Stored", "date", True),
        ),
        tuple(rows),
        kernel_links(v.kernel for v in ordered),
    )
