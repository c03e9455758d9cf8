"""The CUDA attention template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Candidate, IllegalSchedule, Launch, LaunchProgram, Schedule, Target, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_attention import mma, simt
from tilewright.kernels.templates.cuda_attention import space as spaces
from tilewright.kernels.templates.cuda_attention.geometry import Plan, plan
from tilewright.kernels.templates.cuda_attention.match import Form, match
from tilewright.kernels.templates.cuda_attention.nests import moved, nests
from tilewright.search_space import SearchSpace


class CudaAttention:
    """softmax(f(Q K^T)) V in one pass over blocks of keys: on Tensor Cores where all three are 16-bit."""

    name = "cuda_attention"
    version = 1
    kinds: tuple[str, ...] = ("cuda",)

    def matches(self, task: Task) -> bool:
        if task.target.kind not in self.kinds:
            return False
        found = match(task.workload.program)
        return found is not None and spaces.usable(found, task.target)

    def space(self, task: Task) -> SearchSpace:
        return _space(task.workload.program, task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        return _default(task.workload.program, task.target, self.name, self.version)

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(self._plan(task, schedule))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        p = self._plan(task, schedule)
        # Both products read the tile of keys or values once for each warp's rows.
        rows = 16 * p.tiles if p.cores else p.rows
        return numbers(
            task.target, blocks=p.blocks, threads=p.threads, shared_bytes=p.shared, registers=p.registers,
            tile_m=p.block_q, tile_n=p.block_k, tile_k=p.depth, moved=moved(p), stages=p.stages,
            shared_bytes_per_flop=p.item / (2.0 * rows), tensor_core=p.cores,
        )  # fmt: skip

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule)
        symbol = candidate.symbol
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1), shared=p.shared)
        text = mma.source(p, symbol) if p.cores else simt.source(p, symbol)
        return LoweredKernel(symbol, text, LaunchProgram((launch,), align=p.align))

    def _plan(self, task: Task, schedule: Schedule) -> Plan:
        self.space(task).check(schedule)
        return plan(_form(task.workload.program), schedule.values)


def _form(program: str) -> Form:
    found = match(program)
    if found is None:
        raise IllegalSchedule("the program is no attention", "Use another template")
    return found


@lru_cache(maxsize=64)
def _space(program: str, target: Target, template: str, version: int) -> SearchSpace:
    return spaces.space(_form(program), target, template, version)


@lru_cache(maxsize=64)
def _default(program: str, target: Target, template: str, version: int) -> Schedule:
    within = _space(program, target, template, version)
    return within.schedule(spaces.default(_form(program), target, within))
