"""The Tensor Core template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Candidate, IllegalSchedule, Schedule, Target, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.program import Program
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import static
from tilewright.kernels.templates.cuda_mma import space as spaces
from tilewright.kernels.templates.cuda_mma.default import default
from tilewright.kernels.templates.cuda_mma.geometry import Plan
from tilewright.kernels.templates.cuda_mma.lower import launch_program, source
from tilewright.kernels.templates.cuda_mma.match import Product, match
from tilewright.kernels.templates.cuda_mma.nests import nests
from tilewright.search_space import SearchSpace

LEAST = 80
"""Compute capability (times ten) that has these instructions and asynchronous copies."""


class CudaMma:
    """A sum of products of two tensors on Tensor Cores (``mma.sync``): 16-bit, TF32 and 8-bit operands."""

    name = "cuda_mma"
    version = 2
    kinds: tuple[str, ...] = ("cuda",)

    def matches(self, task: Task) -> bool:
        return int(task.target.limit.get("cc", 0)) >= LEAST and match(Program.loads(task.workload.program)) is not None

    def space(self, task: Task) -> SearchSpace:
        return _space(task.workload.program, task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(default(_product(task.workload.program), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(self._plan(task, schedule, ""), int(schedule.values["SPLIT"]))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        """Resources and traffic of the main launch (``templates.cuda.static``)."""
        p = self._plan(task, schedule, "")
        # A step of one warp reads (WM + WN) rows of 32 bytes for WM * WN * depth multiply-adds.
        per_flop = (p.wm + p.wn) * p.instruction.item / (2.0 * p.wm * p.wn)
        return static(
            task.target, p.p.c, threads=p.threads, shared_bytes=p.shared, registers=p.registers, tile_m=p.bm,
            tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=int(schedule.values["SPLIT"]),
            shared_bytes_per_flop=per_flop, tensor_core=True,
        )  # fmt: skip

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule, candidate.symbol)
        return LoweredKernel(candidate.symbol, source(p), launch_program(p))

    def _plan(self, task: Task, schedule: Schedule, symbol: str) -> Plan:
        self.space(task).check(schedule)
        return plan(_product(task.workload.program), schedule, symbol)


def plan(p: Product, schedule: Schedule, symbol: str) -> Plan:
    """The plan of a legal schedule."""
    v = schedule.values
    return Plan(
        p=p, symbol=symbol, bm=int(v["BM"]), bn=int(v["BN"]), bk=int(v["BK"]), warps_m=int(v["WARPS_M"]),
        warps_n=int(v["WARPS_N"]), stages=int(v["STAGES"]), double_buffer=bool(v["double_buffer"]),
        unroll=int(v["unroll"]), min_blocks=int(v["min_blocks"]), split_k=bool(v["split_k"]),
        copy_a=str(v["copy_a"]), copy_b=str(v["copy_b"]), store_shared=bool(v["store_shared"]),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _product(program: str) -> Product:
    found = match(Program.loads(program))
    if found is None:
        raise IllegalSchedule("the program is no product that Tensor Cores multiply", "Use another template")
    return found


@lru_cache(maxsize=64)
def _space(program: str, target: Target, template: str, version: int) -> SearchSpace:
    return spaces.space(_product(program), target, template, version)
