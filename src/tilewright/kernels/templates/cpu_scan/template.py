"""The CPU template of scans: one pass along the sequence computes the scans and their fused maps and reductions."""

from __future__ import annotations

from tilewright.kernels.families.recurrence import recurrence
from tilewright.kernels.templates.cpu_scan.kernel import kernel
from tilewright.kernels.templates.cpu_scan.space import default, plan, refusal, space, takes_ranges
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_SCAN = PlannedTemplate(
    name="cpu_scan",
    family="recurrence",
    version=4,
    refusal="is not a recurrence",
    find=recurrence,
    refuses=refusal,
    ranges=takes_ranges,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
