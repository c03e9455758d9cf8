"""Costs of compiled CUDA kernels from their machine code, without a GPU and without running them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.backends.cuda import ptxas
from tilewright.backends.cuda.bound import Bound, Work, bound, multiplies
from tilewright.backends.cuda.build import flags, resources_of
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.sass import PASS, Code, classes, disassemble
from tilewright.checking.check import Subject, subject_of
from tilewright.checking.cost import tensor_bytes
from tilewright.core import Candidate, Task, TilewrightError, UsageError
from tilewright.kernels.arithmetic import arithmetic
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.cuda.static import blocks_per_sm
from tilewright.launch import evaluate


@dataclass(frozen=True)
class KernelCost:
    """One compiled kernel. ``spills``: bytes per thread. ``bound``: ``None`` for all but the subject's main kernel."""

    name: str
    template: str
    registers: int
    spills: int
    code: Code
    bound: Bound | None

    def to_json(self) -> dict[str, Any]:
        loop = self.code.main_loop
        matrix = sum(x.kind == "tensor" for x in loop)
        return {
            "name": self.name,
            "template": self.template,
            "registers": self.registers,
            "spills": self.spills,
            "hasty": [x.opcode for x in self.code.hasty],
            "loop": {
                "instructions": len(loop),
                "mma": matrix,
                "per_mma": len(loop) / matrix if matrix else None,
                "shared_bytes_per_mma": PASS * sum(x.shared_passes for x in loop) / matrix if matrix else None,
                "classes": classes(loop),
            },
            "bound": None if self.bound is None else self.bound.to_json(),
        }


def costs(subject: Subject) -> tuple[KernelCost, ...]:
    """The kernels of a subject in the order of their launches.

    Raises ``NoNvrtc``, ``NoDisassembler``, ``CompileError``, and ``UsageError`` for a target that is not CUDA's.
    """
    [found] = costs_together([subject])
    return found


def costs_together(subjects: Sequence[Subject]) -> list[tuple[KernelCost, ...]]:
    """:func:`costs` of several subjects of one target, compiled as one unit: the disassembler takes a quarter of a
    second to start."""
    return compiled_costs(subjects, *compiled(subjects))


def compiled(subjects: Sequence[Subject]) -> tuple[bytes, str]:
    """Compile several subjects of one target into one cubin; returns it with the assembler's log. Raises ``NoNvrtc``,
    ``CompileError``, and ``UsageError`` for a target that is not CUDA's."""
    target = subjects[0].target
    if target.kind != "cuda":
        raise UsageError(f"machine code is read of CUDA kernels, not of {target.name}", "Name cuda:sm_90a")
    source = prelude(target) + "".join(s.source for s in subjects)
    return find_nvrtc(target.variant).compile(source, flags(target))


def bound_of(candidate: Candidate, data: bytes) -> Bound | None:
    """The bound of a candidate with compiled code ``data``; ``None`` for targets other than CUDA's, and for code that
    cannot be read: without a disassembler, or compiled for the emulator."""
    subject = subject_of(candidate)
    if subject.target.kind != "cuda":
        return None
    try:
        [found] = compiled_costs([subject], data)
    except TilewrightError:
        return None
    return next((c.bound for c in found if c.bound is not None), None)


def compiled_costs(subjects: Sequence[Subject], data: bytes, log: str = "") -> list[tuple[KernelCost, ...]]:
    """:func:`costs` of compiled subjects: ``data`` is their cubin and ``log`` the assembler's, the only source of
    spills. Raises ``NoDisassembler``, and ``TilewrightError`` if the disassembler fails."""
    codes = disassemble(data)
    resources = {name: dict(pairs) for name, pairs in resources_of(data, ptxas.parse_log(log)).items()}
    return [_of_subject(s, codes, resources) for s in subjects]


def _of_subject(
    subject: Subject, codes: Mapping[str, Code], resources: Mapping[str, Mapping[str, Any]]
) -> tuple[KernelCost, ...]:
    main = max(subject.symbols, key=lambda s: _arithmetic(codes[s], subject))
    several = sum(multiplies(codes[s].usual_loop) for s in subject.symbols) > 1
    return tuple(
        KernelCost(
            name=s,
            template=subject.schedule.template if subject.schedule else "",
            registers=int(resources[s]["registers"]),
            spills=int(resources[s]["spill_bytes"]),
            code=codes[s],
            bound=bound(codes[s], _work(subject, s, resources[s], several), subject.target) if s == main else None,
        )
        for s in subject.symbols
    )


def _launched(subject: Subject, symbol: str) -> tuple[int, int, int]:
    """Number of blocks, threads per block, and bytes of dynamic shared memory of a kernel's launch."""
    launch = next(x for x in subject.program.every_launch if x.symbol == symbol)
    values = subject.arguments
    return prod(evaluate(g, values) for g in launch.grid), prod(launch.block), evaluate(launch.shared, values)


def _arithmetic(code: Code, subject: Subject) -> tuple[int, int]:
    """Multiply-adds of a kernel's main loop over all blocks: those of matrix units, then all."""
    blocks, threads, _ = _launched(subject, code.name)
    loop = code.main_loop
    matrix = sum(x.multiply_adds for x in loop if x.kind == "tensor")
    return matrix * blocks * threads, sum(x.multiply_adds for x in loop) * blocks * threads


def _work(subject: Subject, symbol: str, resources: Mapping[str, Any], several: bool) -> Work:
    """Work of one kernel. ``several``: more than one of the subject's kernels multiplies, and their products cannot be
    told apart: each then counts as the smallest product."""
    needed = arithmetic(Program.loads(subject.workload.program))
    flops = 2 * min(needed.products, default=0.0) if several else needed.flops
    blocks, threads, shared = _launched(subject, symbol)
    taken = int(resources["registers"]), shared + int(resources["shared_bytes"])
    resident = max(1, blocks_per_sm(subject.target, threads, *taken))
    asked = read = 0.0
    if subject.schedule is not None:
        task = Task(subject.workload, subject.target)
        static = get_template(subject.schedule.template).static(task, subject.schedule)
        known = {name: value for name, value in static.items() if not math.isnan(value)}  # NaN: unknown
        threads -= int(known.get("copy_threads", 0))
        # Persistent blocks loop over tiles: count a block for each tile.
        tiles = known.get("waves", 0) * known.get("blocks_per_sm", 0) * int(subject.target.limit["sms"])
        blocks = max(blocks, round(tiles))
        asked = known.get("global_bytes", 0.0) * needed.share
        read = known.get("shared_bytes_per_flop", 0.0) * flops
    return Work(
        blocks=blocks,
        threads=threads,
        resident=resident,
        flops=flops,
        moved_bytes=float(tensor_bytes(subject.workload)),
        asked_bytes=asked,
        read_bytes=read,
        even=needed.share == 1,
    )
