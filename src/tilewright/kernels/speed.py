"""How fast a call is, in the unit that says something: operations a second, or bytes where moving them is the work."""

from __future__ import annotations

import math
from typing import TypeGuard

from tilewright.core import Workload
from tilewright.extent import Extent
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.units import with_unit

DENSE = 2.5
"""Operations a byte from which on arithmetic is the work. Processors and GPUs do more than this while a byte comes from
memory; softmax, norms and elementwise chains stay below, products of more than a few rows far above."""


ABOVE = 1.05
"""A share of a limit beyond which the limit is wrong: the kernel does fewer operations, or moves fewer bytes, than were
counted, or the device was slower when the limit was measured."""


def is_share(share: float | None) -> TypeGuard[float]:
    """Whether a share of a peak is known and possible."""
    return share is not None and share <= ABOVE


def compulsory_bytes(workload: Workload) -> int:
    """Bytes of every input and output, each moved once; 0 where an element type is not known."""
    tensors = (*workload.inputs, *workload.outputs)
    if any(t.dtype not in ITEMSIZE for t in tensors):
        return 0
    sizes = ((n.high if isinstance(n, Extent) else n for n in t.shape) for t in tensors)
    return sum(math.prod(shape) * ITEMSIZE[t.dtype] for shape, t in zip(sizes, tensors, strict=True))


def is_arithmetic(workload: Workload) -> bool:
    """Whether operations are what a call's time is held against, and not bytes."""
    return workload.flops >= DENSE * compulsory_bytes(workload)


def speed(workload: Workload, seconds: float | None) -> str:
    """``81.2 GFLOP/s``; of work that is mostly moving, ``12.3 GB/s`` of inputs and outputs."""
    if not seconds:
        return "-"
    if is_arithmetic(workload):
        return with_unit(workload.flops / seconds, "flop/s", 4)
    return with_unit(compulsory_bytes(workload) / seconds, "byte/s", 4)
