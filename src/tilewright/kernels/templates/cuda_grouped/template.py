"""The GPU template of grouped contractions: rows sorted by group, and a product's kernel over tiles of one group."""

from __future__ import annotations

from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.families.grouped import grouped
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda_grouped.plan import MEMBERS, default, member, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

BASE = 1

CUDA_GROUPED = PlannedTemplate(
    name="cuda_grouped",
    family="grouped",
    version=BASE + sum(template.version for template, _ in MEMBERS),
    kinds=GPUS,
    refusal="is no product of rows with matrices that an index chooses",
    find=grouped,
    usable=lambda g, target: member(g, target) is not None,
    exact=lambda g: all(t.dtype not in FLOAT8 for t in g.program.inputs),
    span=space,
    choose=default,
    plan=plan,
    describe=lambda p, _: p.nests(),
    measures=lambda p, *_: p.static(),
    print=lambda p, symbol: p.kernel(symbol),
)
