"""A partition on a GPU: the segments' launches in order, on addresses within the workspace.

Segments at the beginning that only read inputs are one launch, where that can be.
"""

from __future__ import annotations

from typing import Any

from tilewright.core import Candidate, IllegalSchedule, IntExpr, Launch, LaunchProgram
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.partition.lower import part_kernel
from tilewright.kernels.templates.partition.memory import intermediates
from tilewright.kernels.templates.partition.space import Member
from tilewright.kernels.templates.partition.together import together


def main_member(members: tuple[Member, ...]) -> int:
    """The number of the segment with the most operations: its numbers describe the kernel."""
    return max(range(len(members)), key=lambda n: members[n].task.workload.flops)


def cuda_kernel(candidate: Candidate, program: Program, members: tuple[Member, ...]) -> LoweredKernel:
    """The launches of a partition, of ``program``, whose stages the segments are.

    The workspace begins with intermediate results; then comes the scratch memory that all segments use in turn.
    """
    symbol, values = candidate.symbol, dict(candidate.schedule.values)
    main = main_member(members)
    kernels = [part_kernel(m, values, symbol if n == main else f"{symbol}_p{n}") for n, m in enumerate(members)]
    if any(k.program.prepack for k in kernels):
        raise IllegalSchedule("a segment rearranges constant inputs, which is not known on a GPU", "Use another cut")
    scratch = [m.of(k.program.workspace) for k, m in zip(kernels, members, strict=True)]
    offsets, fixed = intermediates(program, tuple(m.segment for m in members))
    places: dict[str, tuple[str, IntExpr]] = {
        t.name: ("tensor", n) for n, t in enumerate((*program.inputs, *program.outputs))
    }
    places |= {name: ("workspace", at) for name, at in offsets.items()}
    launches = []
    for m, kernel in zip(members, kernels, strict=True):
        tensors = [places[x] for x in (*m.segment.reads, m.segment.result)]
        launches.append([_launch(x, tensors, fixed, m) for x in kernel.program.launches])
    sources = [k.source if k.source.endswith("\n") else k.source + "\n" for k in kernels]
    alone = _beginning(program, members, kernels)
    merged = together(sources[:alone], [x for (x,) in launches[:alone]]) if alone > 1 else None
    if merged is not None:
        sources[:alone], launches[:alone] = [merged[0]], [[merged[1]]]
    return LoweredKernel(
        symbol,
        "".join(sources),
        LaunchProgram(
            tuple(x for each in launches for x in each), workspace=["+", fixed, ["max", 0, *scratch]],
            align=max(k.program.align for k in kernels),
        ),
    )  # fmt: skip


def _beginning(program: Program, members: tuple[Member, ...], kernels: list[LoweredKernel]) -> int:
    """How many segments at the beginning read inputs of the program alone, in one launch without scratch memory: they
    may run at the same time."""
    inputs = {t.name for t in program.inputs}
    for n, (m, k) in enumerate(zip(members, kernels, strict=True)):
        if len(k.program.launches) != 1 or m.of(k.program.workspace) != 0 or not inputs.issuperset(m.segment.reads):
            return n
        if m.task.target.kind != "cuda":
            return 0
    return len(members)


def _launch(x: Launch, tensors: list[tuple[str, IntExpr]], workspace: int, m: Member) -> Launch:
    """A segment's launch with the parameters listed: its pointers are the whole launch's, or lie in its workspace."""
    given: tuple[tuple[str, Any], ...] = x.parameters or (
        *(("tensor", n) for n in range(len(tensors))), ("workspace", 0), *(("int32", a) for a in x.arguments),
    )  # fmt: skip

    def pointer(kind: str, value: Any) -> tuple[str, Any]:
        return tensors[value] if kind == "tensor" else (kind, ["+", workspace, m.of(value)])

    parameters: list[tuple[str, Any]] = []
    for kind, value in given:
        if kind in ("tensor", "workspace"):
            parameters.append(pointer(kind, value))
        elif kind == "tensor_map":
            sizes = {name: [m.of(x) for x in value[name]] for name in ("sizes", "strides")}
            parameters.append((kind, {**value, **sizes, "of": list(pointer(*value["of"]))}))
        else:
            parameters.append((kind, m.of(value) if kind.startswith("int") else value))
    return Launch(
        x.symbol, tuple(m.prefix + a for a in x.arguments), tuple(m.of(g) for g in x.grid), x.block,
        m.of(x.shared), tuple(parameters),
    )  # fmt: skip
