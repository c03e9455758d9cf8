"""The CPU template of grouped contractions: rows sorted by group, and a contraction's kernel for each group."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.families.grouped import grouped
from tilewright.kernels.templates.cpu_grouped.kernel import kernel
from tilewright.kernels.templates.cpu_grouped.plan import MEMBERS, default, member, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

BASE = 2

CPU_GROUPED = PlannedTemplate(
    name="cpu_grouped",
    family="grouped",
    version=BASE + sum(t.version for t in MEMBERS),
    refusal="is not a product of rows with matrices that an index chooses",
    find=grouped,
    ranges=lambda g: g.rows.varying is not None,
    any_sizes=True,
    sized=lambda g, one: replace(g, typical=one.typical),
    usable=lambda g, target: member(g, target) is not None,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
