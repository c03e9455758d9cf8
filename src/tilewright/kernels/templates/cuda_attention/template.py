"""The CUDA attention template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Launch, LaunchProgram, Schedule, Target, Task, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_attention import mma, simt
from tilewright.kernels.templates.cuda_attention import space as spaces
from tilewright.kernels.templates.cuda_attention.geometry import Plan, plan
from tilewright.kernels.templates.cuda_attention.match import Form, match
from tilewright.kernels.templates.cuda_attention.nests import moved, nests
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CudaAttention(PlannedTemplate[Form, Plan]):
    """softmax(f(Q K^T)) V in one pass over blocks of keys: on Tensor Cores where all three are 16-bit."""

    name = "cuda_attention"
    family = "attention"
    version = 1
    kinds = ("cuda",)
    refusal = "is no attention"

    def matches(self, task: Task) -> bool:
        """Whether it is attention of which the smallest block fits the target."""
        return super().matches(task) and spaces.usable(self.found(task.workload.program), task.target)

    def find(self, program: str) -> Form | None:
        return match(program)

    def span(self, found: Form, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Form, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Form, target: Target, schedule: Schedule) -> Plan:
        return plan(found, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        p = plan
        # Both products read the tile of keys or values once for each warp's rows.
        rows = 16 * p.tiles if p.cores else p.rows
        return numbers(
            target, blocks=p.blocks, threads=p.threads, shared_bytes=p.shared, registers=p.registers,
            tile_m=p.block_q, tile_n=p.block_k, tile_k=p.depth, moved=moved(p), stages=p.stages,
            shared_bytes_per_flop=p.item / (2.0 * rows), tensor_core=p.cores,
            min_blocks=p.min_blocks, read_bytes=p.read_bytes, asynchronous=2 * p.async_copies,
        )  # fmt: skip

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        p = plan
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1), shared=p.shared)
        text = mma.source(p, symbol) if p.cores else simt.source(p, symbol)
        return LoweredKernel(symbol, text, LaunchProgram((launch,), align=p.align))
