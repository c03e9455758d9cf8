"""The CPU template of recurrences: one walk along the sequence computes everything."""

from __future__ import annotations

from tilewright.kernels.families.recurrence import recurrence
from tilewright.kernels.templates.planned import PlannedTemplate, described
from tilewright.kernels.templates.recurrence.lower import kernel
from tilewright.kernels.templates.recurrence.nests import nests, static
from tilewright.kernels.templates.recurrence.space import default, plan, refusal, space, takes_ranges

CPU_SCAN = PlannedTemplate(
    name="cpu_scan",
    family="recurrence",
    version=4,
    kinds=("cpu",),
    refusal="is no recurrence",
    find=recurrence,
    refuses=refusal,
    ranges=takes_ranges,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=described(lambda p, _: nests(p), lambda p, *_: static(p), kernel),
)
