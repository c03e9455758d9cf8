"""The generic GPU template: a kernel for every part of every program whose element types a GPU kernel can hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tilewright.core import Target, Value
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel, Workspace
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cpu_generic.knobs import chosen, parts
from tilewright.kernels.templates.cuda import kernels
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.part_nests import nest, read_bytes, traffic
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_generic.lower import body
from tilewright.kernels.templates.cuda_generic.space import PartTiling, default, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

REGISTERS = 40
"""Estimated registers of a thread."""
IN_FLIGHT = 4
"""Elements of a reduction that a thread reads before it waits, as compilers unroll loops of reductions."""

Plans = tuple[Program, tuple[PartTiling, ...]]


def _plans(program: Program, target: Target, values: Mapping[str, Value]) -> Plans:
    return program, tuple(plan(program, p, values) for p in parts(program, *chosen(values)))


def kernel(found: Plans, _: Mapping[str, Value], target: Target) -> Kernel:
    """One kernel for each part; the main kernel is that of the part with the most work."""
    program, plans = found
    most = max(plans, key=lambda p: p.part.points)
    where = kernels.intermediates(program, [p.part for p in plans])
    read = read_bytes(most.part)
    static = StaticFeatures(
        target=target, work=lambda _: (most.grid.blocks, sum(traffic(p.part) for p in plans)),
        registers=REGISTERS, tile_m=1, tile_n=most.grid.per_block, tile_k=IN_FLIGHT * most.lanes, read_bytes_a=read,
        read_bytes_b=read,
    )  # fmt: skip
    return gpu_kernel(
        launches=tuple(_part(program, p, "" if p is most else f"_{p.part.target}", where) for p in plans),
        static=static, workspace=where.bytes,
    )  # fmt: skip


def _part(program: Program, p: PartTiling, symbol: str, where: Workspace) -> GlobalFunction:
    text = cache(lambda: body(program, p))
    return GlobalFunction(
        program=program, body=lambda _: text()[0], blocks=p.grid.blocks, threads=p.threads, shared=p.shared_bytes,
        symbol=symbol, own=lambda: kernels.given(program, p.part, text()[1], where),
        loops=lambda: (nest(p.part, p.grid),),
    )  # fmt: skip


def _refusal(program: Program) -> str:
    if program.recurrent:
        return "has products of a state in its steps"
    return "" if kernels.supported(program) else "has an element type that is not known here"


CUDA_GENERIC = PlannedTemplate[Program, Plans](
    name="cuda_generic",
    family="generic",
    version=1,
    kinds=GPUS,
    refusal="is none",
    find=lambda program: program,
    refuses=_refusal,
    span=space,
    choose=default,
    plan=_plans,
    build=kernel,
)
