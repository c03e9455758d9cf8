"""The least clocks that a CUDA schedule takes, from its static features: the formula that machine code is judged by
(:mod:`~tilewright.backends.cuda.bound`), before there is any."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.backends.cuda.bound import Bound, Work, estimate
from tilewright.core import Task
from tilewright.dtypes import DTYPES
from tilewright.kernels.arithmetic import arithmetic
from tilewright.kernels.expression.program import Program
from tilewright.kernels.speed import compulsory_bytes

_ORDINARY = {"float64": "fp64", "int8": "dp4a"}


_READ = ("blocks_per_sm", "waves", "threads", "copy_threads", "global_bytes", "tensor_core", "shared_bytes_per_flop")


def operand_dtype(task: Task) -> str:
    """The element type that decides which units a contraction can use: that of its first input."""
    return task.workload.inputs[0].dtype if task.workload.inputs else task.workload.output.dtype


def least_cycles(task: Task, static: Mapping[str, float]) -> float | None:
    """Clocks of :func:`estimated`; not a number where something is not known, as of users' own kernels, and ``None``
    for other targets than CUDA's."""
    if task.target.kind != "cuda":
        return None
    known = all(math.isfinite(static.get(name, math.nan)) for name in _READ)
    return estimated(task, static).cycles if known else math.nan


def estimated(task: Task, static: Mapping[str, float]) -> Bound:
    """The bound of a schedule of a CUDA task; ``static`` as its template gives it."""
    dtype, workload = operand_dtype(task), task.workload
    needed = arithmetic(Program.loads(workload.program))
    flops = needed.flops or float(workload.flops)  # where data decides, as if all were needed
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
    unit = DTYPES[dtype].matrix_unit if static["tensor_core"] else _ORDINARY.get(dtype, "fp32")
    read = static["shared_bytes_per_flop"] * flops
    return estimate(work, unit, read, task.target, warpgroups=static["copy_threads"] > 0)
