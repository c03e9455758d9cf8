"""A lower bound of a CUDA schedule's clocks from its static features, before compilation. The same formula bounds
machine code (:mod:`~tilewright.backends.cuda.bound`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.backends.cuda.bound import Bound, Work, estimate
from tilewright.core import Task
from tilewright.dtypes import DTYPES
from tilewright.kernels.arithmetic import arithmetic
from tilewright.kernels.expression.program import Program
from tilewright.kernels.speed import compulsory_bytes

_CUDA_CORES = {"float64": "fp64", "int8": "dp4a"}


_READ = ("blocks_per_sm", "waves", "threads", "copy_threads", "global_bytes", "tensor_core", "shared_bytes_per_flop")


def operand_dtype(task: Task) -> str:
    """Element type of the first input, which decides which units a contraction can use."""
    return task.workload.inputs[0].dtype if task.workload.inputs else task.workload.output.dtype


def least_cycles(task: Task, static: Mapping[str, float]) -> float | None:
    """Clocks of :func:`estimated`; NaN if a static feature is unknown, as for users' own kernels; ``None`` for targets
    other than CUDA's."""
    if task.target.kind != "cuda":
        return None
    known = all(math.isfinite(static.get(name, math.nan)) for name in _READ)
    return estimated(task, static).cycles if known else math.nan


def estimated(task: Task, static: Mapping[str, float]) -> Bound:
    """The bound of a schedule of a CUDA task. ``static``: features as its template returns them."""
    dtype, workload = operand_dtype(task), task.workload
    needed = arithmetic(Program.loads(workload.program))
    flops = needed.flops or float(workload.flops)  # if the work depends on data, assume all of it
    resident = int(static["blocks_per_sm"])
    work = Work(
        blocks=max(1, round(static["waves"] * resident * int(task.target.limit["sms"]))),
        threads=int(static["threads"] - static["copy_threads"]),
        resident=resident,
        flops=flops,
        moved_bytes=compulsory_bytes(workload),
        asked_bytes=static["global_bytes"] * (needed.share or 1.0),
        even=needed.share in (0, 1),
    )
    unit = DTYPES[dtype].matrix_unit if static["tensor_core"] else _CUDA_CORES.get(dtype, "fp32")
    read = static["shared_bytes_per_flop"] * flops
    return estimate(work, unit, read, task.target, warpgroups=static["copy_threads"] > 0)
