"""The generic CPU template: a loop nest for each stage; knobs fuse, order, block and vectorise the nests."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cpu_generic.kernel import kernel
from tilewright.kernels.templates.cpu_generic.knobs import chosen, default, parts, space
from tilewright.kernels.templates.cpu_generic.tiling import PartTiling, plan
from tilewright.kernels.templates.planned import PlannedTemplate

Plans = tuple[Program, tuple[PartTiling, ...]]


def _plans(program: Program, target: Target, values: Mapping[str, Value]) -> Plans:
    return program, tuple(plan(p, values, target) for p in parts(program, *chosen(values)))


CPU_GENERIC = PlannedTemplate[Program, Plans](
    name="cpu_generic",
    family="generic",
    version=4,
    refusal="is none",
    find=lambda program: program,
    refuses=lambda program: "has products of a state in its steps" if program.recurrent else "",
    ranges=lambda _: True,
    any_sizes=True,
    span=space,
    choose=default,
    plan=_plans,
    build=lambda plans, *_: kernel(*plans),
)
