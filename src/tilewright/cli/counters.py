"""Tables of a kernel's hardware counters, compared with its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cli.output import percent, table
from tilewright.units import with_unit

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.insight.counters import Profile

_OTHERS = {
    "instructions": "instructions", "registers": "registers per thread", "occupancy": "% occupancy",
    "bank_conflicts": "bank conflicts of shared memory", "shared_banks": "% of its banks' reads", "alu": "% ALU",
    "fp64": "% FP64", "l2_slices": "% of the L2 cache", "l2_bytes": "bytes from L2", "dram_bytes": "bytes of DRAM",
}  # fmt: skip


def print_profile(out: Console, name: str, profile: Profile) -> None:
    """Prints a row for each resource: an SM's clocks by the bound and as measured, and the share of the kernel's
    clocks."""
    shown = table("resource", "bound", "measured", "busy", "bound/measured", title=f"counters of {name}")
    for r in profile.resources:
        shown.add_row(r.name, _clocks(r.bound), _clocks(r.measured), percent(r.share), percent(r.ratio))
    out.print(shown)
    took = f"{profile.cycles:.4g} clocks"
    if "nanoseconds" in profile.others:
        took += f" ({with_unit(profile.others['nanoseconds'] * 1e-9, 's')} with cold caches)"
    reached = (
        "" if profile.bound is None else f"; bound by {profile.by}: {profile.bound:.4g}, {percent(profile.reached)}"
    )
    out.print(f"took {took}{reached}", markup=False)
    others = [f"{profile.others[key]:.6g} {what}" for key, what in _OTHERS.items() if key in profile.others]
    if others:
        out.print(", ".join(others), markup=False)


def _clocks(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
