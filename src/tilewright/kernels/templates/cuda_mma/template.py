"""The Tensor Core template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import Schedule, Target, Task, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import static
from tilewright.kernels.templates.cuda_mma import space as spaces
from tilewright.kernels.templates.cuda_mma.default import default
from tilewright.kernels.templates.cuda_mma.geometry import Plan
from tilewright.kernels.templates.cuda_mma.lower import launch_program, source
from tilewright.kernels.templates.cuda_mma.match import Product, match
from tilewright.kernels.templates.cuda_mma.nests import nests
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace

LEAST = 80
"""Compute capability (times ten) that has these instructions and asynchronous copies."""


class CudaMma(PlannedTemplate[Product, Plan]):
    """A sum of products of two tensors on Tensor Cores (``mma.sync``): 16-bit, TF32 and 8-bit operands."""

    name = "cuda_mma"
    family = "contraction"
    version = 2
    kinds = ("cuda",)
    refusal = "is no product that Tensor Cores multiply"

    def matches(self, task: Task) -> bool:
        """Whether it is such a product, and the target has the instructions."""
        return int(task.target.limit.get("cc", 0)) >= LEAST and super().matches(task)

    def find(self, program: str) -> Product | None:
        return match(program)

    def span(self, found: Product, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Product, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return default(found, target, within)

    def plan(self, found: Product, target: Target, schedule: Schedule) -> Plan:
        v = schedule.values
        return Plan(
            p=found, symbol="", bm=int(v["BM"]), bn=int(v["BN"]), bk=int(v["BK"]), warps_m=int(v["WARPS_M"]),
            warps_n=int(v["WARPS_N"]), stages=int(v["STAGES"]), double_buffer=bool(v["double_buffer"]),
            unroll=int(v["unroll"]), min_blocks=int(v["min_blocks"]), split_k=bool(v["split_k"]),
            copy_a=str(v["copy_a"]), copy_b=str(v["copy_b"]), store_shared=bool(v["store_shared"]),
        )  # fmt: skip

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan, int(schedule.values["GROUP"]), int(schedule.values["SPLIT"]))

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        """Resources and traffic of the main launch (``templates.cuda.static``)."""
        p = plan
        # A step of one warp reads (WM + WN) rows of 32 bytes for WM * WN * depth multiply-adds.
        per_flop = (p.wm + p.wn) * p.instruction.item / (2.0 * p.wm * p.wn)
        return static(
            target, p.p.c, threads=p.threads, shared_bytes=p.shared, registers=p.registers, tile_m=p.bm,
            tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=int(schedule.values["SPLIT"]),
            shared_bytes_per_flop=per_flop, tensor_core=True, min_blocks=p.min_blocks,
            read_bytes=(p.a.read_bytes, p.b.read_bytes), asynchronous=p.a.direct + p.b.direct,
            fragments=2 if p.double_buffer else 1,
        )  # fmt: skip

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        p = replace(plan, symbol=symbol)
        return LoweredKernel(symbol, source(p), launch_program(p))
