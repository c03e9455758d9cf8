"""A partition on a GPU: the segments' launches in order, on addresses within the workspace.

Segments at the beginning that only read inputs are one launch, where that can be. One that only reads constant inputs
rearranges them, before the first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.core import Candidate, IntExpr, LaunchProgram, Prepack
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Built, Kernel
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.partition.memory import intermediates
from tilewright.kernels.templates.partition.space import Member
from tilewright.kernels.templates.partition.together import together


def main_member(members: Sequence[Member]) -> int:
    """The number of the segment with the most operations: its numbers describe the kernel."""
    return max(range(len(members)), key=lambda n: members[n].task.workload.flops)


def cuda_kernel(candidate: Candidate, program: Program, parts: Sequence[tuple[Member, Built]]) -> LoweredKernel:
    """The launches of a partition, of ``program``, whose stages the segments are.

    The workspace begins with intermediate results; then comes the scratch memory that all segments use in turn.
    """
    symbol, members = candidate.symbol, [m for m, _ in parts]
    main = main_member(members)
    kernels = [k for _, k in parts if isinstance(k, Kernel)]
    assert len(kernels) == len(parts)
    lowered = [k.lower(symbol if n == main else f"{symbol}_p{n}") for n, k in enumerate(kernels)]
    packing = _packing(program, members, kernels)
    calls = [n for n in range(len(members)) if n not in packing]
    scratch = [members[n].of(kernels[n].workspace.bytes) for n in calls]
    offsets, fixed = intermediates(program, tuple(members[n].segment for n in calls))
    places: dict[str, tuple[str, IntExpr]] = {
        t.name: ("tensor", n) for n, t in enumerate((*program.inputs, *program.outputs))
    }
    prepack = []
    for n, number in packing.items():
        m, tensor = members[n], program.tensors[members[n].segment.result]
        given = [*(places[x] for x in m.segment.reads), ("workspace", 0)]
        launch = lowered[n].program.launches[0].placed(given, 0, m.of, m.prefix)
        prepack.append(Prepack(number, tensor.size * ITEMSIZE[tensor.dtype], launch))
    places |= {members[n].segment.result: ("tensor", number) for n, number in packing.items()}
    places |= {name: ("workspace", at) for name, at in offsets.items()}
    launches = []
    for n in calls:
        m = members[n]
        tensors = [places[x] for x in (*m.segment.reads, m.segment.result)]
        launches.append([x.placed(tensors, fixed, m.of, m.prefix) for x in lowered[n].program.launches])
    sources, called = [lowered[n].source for n in calls], [kernels[n] for n in calls]
    alone = _beginning(program, [members[n] for n in calls], called)
    merged = together(called[:alone], sources[:alone], [x for (x,) in launches[:alone]]) if alone > 1 else None
    if merged is not None:
        sources[:alone], launches[:alone] = [merged[0]], [[merged[1]]]
    return LoweredKernel(
        symbol,
        "".join([*(lowered[n].source for n in packing), *sources]),
        LaunchProgram(
            tuple(x for each in launches for x in each), workspace=["+", fixed, ["max", 0, *scratch]],
            align=max(k.align for k in kernels), prepack=tuple(prepack),
        ),
    )  # fmt: skip


def _packing(program: Program, members: Sequence[Member], kernels: list[Kernel]) -> dict[int, int]:
    """Segments that only read constant inputs, each with the number of one that no other segment reads: calls find the
    segment's result in that input's place."""
    numbers = {t.name: n for n, t in enumerate(program.inputs)}
    results = {t.name for t in program.outputs}
    readers = Counter(x for m in members for x in set(m.segment.reads))
    found: dict[int, int] = {}
    for n, (m, k) in enumerate(zip(members, kernels, strict=True)):
        if reads_constants(program, m) and m.segment.result not in results and _single(m, k):
            own = next((x for x in m.segment.reads if readers[x] == 1), None)
            if own is not None:
                found[n] = numbers[own]
    return found


def reads_constants(program: Program, m: Member) -> bool:
    """Whether a segment reads nothing but constant inputs."""
    return {t.name for t in program.inputs if t.constant} >= set(m.segment.reads)


def _single(m: Member, k: Kernel) -> bool:
    """Whether a segment is one launch without scratch memory."""
    return len(k.launches) == 1 and m.of(k.workspace.bytes) == 0


def _beginning(program: Program, members: list[Member], kernels: list[Kernel]) -> int:
    """How many segments at the beginning read inputs of the program alone, in one launch without scratch memory: they
    may run at the same time."""
    inputs = {t.name for t in program.inputs}
    for n, (m, k) in enumerate(zip(members, kernels, strict=True)):
        if not _single(m, k) or not inputs.issuperset(m.segment.reads):
            return n
        if m.task.target.kind != "cuda":
            return 0
    return len(members)
