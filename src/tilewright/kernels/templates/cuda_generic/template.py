"""The generic GPU template: a kernel for every part of every program whose element types a GPU kernel can hold."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda import kernels
from tilewright.kernels.templates.cuda.launches import DeviceKernel, lowered
from tilewright.kernels.templates.cuda.part_nests import nest, read_bytes, traffic
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_generic.lower import body
from tilewright.kernels.templates.cuda_generic.space import PartTiling, default, plan, space
from tilewright.kernels.templates.generic.knobs import chosen, parts
from tilewright.kernels.templates.planned import PlannedTemplate, described

REGISTERS = 40
"""An estimate, a thread."""
IN_FLIGHT = 4
"""Elements of a reduction that a thread asks for before it waits, as compilers unroll such loops."""

Plans = tuple[Program, tuple[PartTiling, ...]]


def _plans(text: str, target: Target, values: Mapping[str, Value]) -> Plans:
    program = Program.loads(text)
    return program, tuple(plan(program, p, values) for p in parts(text, *chosen(values)))


def _main(plans: tuple[PartTiling, ...]) -> PartTiling:
    """The plan of the part with the most work."""
    return max(plans, key=lambda p: p.part.points)


def _static(found: Plans, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    plans = found[1]
    main = _main(plans)
    read = read_bytes(main.part)
    features = StaticFeatures(
        threads=main.threads, shared_bytes=main.shared_bytes, registers=REGISTERS, tile_m=1,
        tile_n=main.grid.per_block, tile_k=IN_FLIGHT * main.lanes, read_bytes_a=read, read_bytes_b=read,
    )  # fmt: skip
    return features.numbers(target, main.grid.blocks, sum(traffic(p.part) for p in plans))


def _kernel(found: Plans, symbol: str) -> LoweredKernel:
    program, plans = found
    where = kernels.Workspace.of(program, [p.part for p in plans])

    def made(p: PartTiling) -> DeviceKernel:
        text = body(program, p)
        return DeviceKernel(
            program=program, body=lambda _: text, blocks=p.grid.blocks, threads=p.threads, shared=p.shared_bytes,
            suffix="" if p is _main(plans) else f"_{p.part.target}",
            given=kernels.given(program, p.part, text, where),
        )  # fmt: skip

    return lowered(symbol, map(made, plans), workspace=where.size)


def _refusal(text: str) -> str:
    program = Program.loads(text)
    if program.recurrent:
        return "has products of a state in its steps"
    return "" if kernels.supported(program) else "has an element type that is not known here"


CUDA_GENERIC = PlannedTemplate[str, Plans](
    name="cuda_generic",
    family="generic",
    version=1,
    kinds=GPUS,
    refusal="is none",
    find=str,
    refuses=_refusal,
    span=space,
    choose=default,
    plan=_plans,
    build=described(lambda plans, _: tuple(nest(p.part, p.grid) for p in plans[1]), _static, _kernel),
)
