"""The generic CUDA template: a kernel for every part of every program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Candidate, LaunchProgram, Schedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.parts import Part, split
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda import kernels
from tilewright.kernels.templates.cuda.part_nests import nest, read_bytes, traffic
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_generic.lower import body, source
from tilewright.kernels.templates.cuda_generic.space import Plan, build_space, plan
from tilewright.kernels.templates.generic.knobs import chosen
from tilewright.search_space import SearchSpace

REGISTERS = 40
"""An estimate, a thread."""
IN_FLIGHT = 4
"""Elements of a reduction that a thread asks for before it waits, as compilers unroll such loops."""


class CudaGeneric:
    """Computes any program whose element types a GPU kernel can hold."""

    name = "cuda_generic"
    family = "generic"
    version = 1
    kinds: tuple[str, ...] = GPUS

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds and kernels.supported(Program.loads(task.workload.program))

    def space(self, task: Task) -> SearchSpace:
        return build_space(self.name, self.version, task.workload.program, task.target)[0]

    def default(self, task: Task) -> Schedule:
        space, values = build_space(self.name, self.version, task.workload.program, task.target)
        return space.schedule(values)

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return tuple(nest(p.part, p.threads, each=p.each, lanes=p.lanes) for p in self._plans(task, schedule))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        plans = self._plans(task, schedule)
        main = max(plans, key=lambda p: kernels.points(p.part))
        return numbers(
            task.target, blocks=main.blocks, threads=main.threads, shared_bytes=main.shared_bytes,
            registers=REGISTERS, tile_m=1, tile_n=main.per_block, tile_k=IN_FLIGHT * main.lanes,
            moved=sum(traffic(p.part) for p in plans), read_bytes=(read_bytes(main.part),) * 2,
        )  # fmt: skip

    def lower(self, candidate: Candidate) -> LoweredKernel:
        task, symbol = candidate.task, candidate.symbol
        program = Program.loads(task.workload.program)
        plans = self._plans(task, candidate.schedule)
        where = kernels.Workspace.of(program, [p.part for p in plans])
        main = max(plans, key=lambda p: kernels.points(p.part))
        texts, launches = ['#line 1 "kernel"\n'], []
        for p in plans:
            name = symbol if p is main else f"{symbol}_{p.part.target}"
            text = body(program, p)
            texts.append(source(program, p, name, text))
            launches.append(kernels.launch(program, p.part, name, text, where, p.blocks, p.threads, p.shared_bytes))
        return LoweredKernel(symbol, "".join(texts), LaunchProgram(tuple(launches), workspace=where.size))

    def _plans(self, task: Task, schedule: Schedule) -> tuple[Plan, ...]:
        self.space(task).check(schedule)
        program = Program.loads(task.workload.program)
        return tuple(plan(program, p, schedule.values) for p in _split(task.workload.program, *chosen(schedule.values)))


@lru_cache(maxsize=256)
def _split(text: str, inline: frozenset[str], epilogue: frozenset[str]) -> tuple[Part, ...]:
    parts = split(Program.loads(text), inline, epilogue)
    assert parts is not None  # the space has checked it
    return parts
